"""Options from place.toml and the environment: which of them hold, and what is said of mistakes."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest

from place.cli import main, make_parser, parse
from place.errors import ConfigurationError
from place.operate.configuration import OTHERS, Configuration, configuration_of, variable_of


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and no variables of ours but those that a test sets."""
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("PLACE_")]:
        monkeypatch.delenv(name)
    return tmp_path


def write(text: str, name: str = "place.toml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_nearest_to_the_act_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Command line, then environment, then file, then default; one command before all."""
    write('home = "data"\nport = 1\n')
    assert parse(["serve"]).port == 1
    assert parse(["demo"]).port == 1
    write('home = "data"\nport = 1\n[serve]\nport = 2\n')
    assert (parse(["serve"]).port, parse(["demo"]).port) == (2, 1)
    monkeypatch.setenv("PLACE_PORT", "3")
    assert (parse(["serve"]).port, parse(["demo"]).port) == (3, 3)
    monkeypatch.setenv("PLACE_SERVE_PORT", "4")
    assert (parse(["serve"]).port, parse(["demo"]).port) == (4, 3)
    assert parse(["serve", "--port", "5"]).port == 5
    assert parse(["serve"]).host == "127.0.0.1"


def test_every_kind_of_option_can_be_given(tmp_path: Path) -> None:
    write(
        'home = "data"\n[serve]\nprivate-webhooks = true\nlog-json = false\n'
        'cors = ["https://a.org", "https://b.org"]\nlimit = { columns = 7, terms = 8 }\n'
        'log-level = "debug"\nmax-readings = 12\nset = "spark.a=1"\n'
        "[generate]\nperiod = 0.5\nstart = 2026-01-01 12:00:00\n"
        '[replay]\nreadings = ["one.csv", "two.csv"]\nsetup = "/etc/setup.sql"\nout = "out"\n'
    )
    found = parse(["serve"])
    assert found.home == tmp_path / "data"
    assert (found.private_webhooks, found.log_json) == (True, False)
    assert found.cors == ["https://a.org", "https://b.org"]
    assert found.limit == ["columns=7", "terms=8"]
    assert (found.log_level, found.max_readings, found.settings) == ("debug", 12, ["spark.a=1"])
    found = parse(["generate", "--out", "x"])
    assert (found.period, found.start) == (0.5, "2026-01-01T12:00:00")
    found = parse(["replay"])
    assert (found.readings, found.setup) == (["one.csv", "two.csv"], Path("/etc/setup.sql"))
    # What the command line says replaces a list, and does not lengthen it.
    assert parse(["serve", "--cors", "https://c.org"]).cors == ["https://c.org"]


def test_variables_hold_lists_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE_HOME", "data")
    monkeypatch.setenv("PLACE_CORS", '["https://a.org", "https://b.org"]')
    monkeypatch.setenv("PLACE_UI", "yes")
    monkeypatch.setenv("PLACE_LIMIT", "columns=7")
    monkeypatch.setenv("PLACE_TICK", "")  # as if it were not there
    monkeypatch.setenv("PLACE_MASTER", "local[2]")  # a bracket, and no list
    found = parse(["serve"])
    assert found.home == Path("data")  # where the command runs
    assert found.cors == ["https://a.org", "https://b.org"]
    assert (found.ui, found.limit, found.tick) == (True, ["columns=7"], None)
    assert parse(["demo"]).master == "local[2]"


def test_commands_of_several_words_have_tables_of_their_own() -> None:
    write('[token]\nhome = "a"\n[token.create]\nname = "ann"\nrole = "client"\n')
    found = parse(["token", "create"])
    assert (found.name, found.role, found.home.name) == ("ann", "client", "a")
    assert parse(["token", "list"]).home.name == "a"


def test_paths_of_a_file_begin_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write('home = "data"\n', "etc/other.toml")
    assert parse(["--config", "etc/other.toml", "serve"]).home == tmp_path / "etc" / "data"
    assert parse(["serve", "--config", "etc/other.toml"]).home == tmp_path / "etc" / "data"
    monkeypatch.setenv("PLACE_CONFIG", "etc/other.toml")
    assert parse(["status"]).home == tmp_path / "etc" / "data"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", r'place.toml: "prot" is no option; did you mean "port"\?'),
        (
            "[serve]\nprot = 1",
            r'\[serve\]: "prot" is no option of place serve; did you mean "port"',
        ),
        ("[serv]\nport = 1", r'"serv" is no option; did you mean "serve"\?'),
        ("[serve]\ntls_cert = 'x'", r'"tls_cert" is no option .* did you mean "tls-cert"'),
        ("[serve]\nseconds = 1", '"seconds" is no option of place serve'),
        ("serve = 1", r"serve is a command, and its options are a table; write \[serve\]"),
        ("[serve]\nport = 70000", r"\[serve\]: port: 70000 is not a port"),
        ("[serve]\nport = [1, 2]", "port: a single text or number is expected"),
        ("[serve]\nui = 3", "ui: 3 is neither true nor false"),
        ("[serve]\nlog-level = 'loud'", "log-level: loud is not one of debug, info"),
        ("[demo]\nseed = 'x'", None),
        ("port = = 1", "place.toml is no TOML: .*line 1"),
    ],
)
def test_mistakes_of_a_file_are_named(
    text: str, message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    write(text)
    if message is None:  # a mistake in what another command is told does not stop this one
        assert parse(["serve", "--home", "x"]).port == 8765
        with pytest.raises(ConfigurationError, match="seed: x is not a whole number"):
            parse(["demo"])
        return
    with pytest.raises(ConfigurationError, match=message):
        parse(["serve", "--home", "x"])
    assert main(["serve", "--home", "x"]) == 1
    assert capsys.readouterr().err.startswith("place: ")
    with pytest.raises(SystemExit):
        main(["serve", "--help"])  # help is there whatever the file says


def test_a_variable_that_names_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE_PROT", "1")
    with pytest.raises(ConfigurationError, match=r'PLACE_PROT names no .* mean "PLACE_PORT"\?'):
        parse(["serve", "--home", "x"])


def test_a_file_that_was_named_has_to_be_there() -> None:
    with pytest.raises(ConfigurationError, match=r"gone.toml is not there"):
        parse(["--config", "gone.toml", "serve", "--home", "x"])


def test_what_is_still_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["serve"])
    assert "--home" in capsys.readouterr().err


def test_every_option_of_every_command_has_variables_of_its_own() -> None:
    configuration = Configuration(make_parser(), {}, None)
    assert len(configuration.commands) > 30
    single: dict[str, tuple[tuple[str, ...], str]] = {}
    for path, options in configuration.commands.items():
        for name in options:
            variable = variable_of(path, name)
            assert variable not in single, variable
            single[variable] = path, name
    shared = {variable_of((), name) for names in configuration.commands.values() for name in names}
    assert not shared & set(single)
    # Variables of tests are no options, but for the one of the data, which tests share.
    others = {name for name in (shared | set(single)) if OTHERS.fullmatch(name)}
    assert others <= {"PLACE_DATA"}


def test_every_variable_that_the_project_reads_is_known() -> None:
    """Whoever reads another variable of that name tells the configuration of it."""
    known = set(Configuration(make_parser(), {}, None).variables())
    root = Path(__file__).parent.parent
    files = [
        root / "Makefile",
        *(p for d in ("place", "bench", "tests") for p in (root / d).rglob("*.py")),
    ]
    for file in files:
        if file.name in ("test_configuration.py", "test_deploy.py"):
            continue
        for name in re.findall(r"\bPLACE_[A-Z]+(?:_[A-Z]+)*\b", file.read_text("utf-8")):
            is_known = name in known or OTHERS.fullmatch(name) is not None
            assert is_known or file.parent.name == "operate", f"{file}: {name}"


def test_each_option_takes_a_value_from_the_environment() -> None:
    """Whatever option there is, now or later: a value of its kind is taken and reaches it."""
    parser = make_parser()
    commands = Configuration(parser, {}, None).commands
    texts = {
        variable_of(path, name): sample(action)
        for path, options in commands.items()
        for name, action in options.items()
    }
    configuration = configuration_of(parser, texts, None)
    for path, options in commands.items():
        parsed = argparse.Namespace(command_words=path)
        configuration.fill(parsed)
        for action in options.values():
            assert hasattr(parsed, action.dest), (path, action.dest)


def sample(action: argparse.Action) -> str:
    """A text that an option takes."""
    if action.nargs == 0:
        return "true"
    if action.choices is not None:
        return str(next(iter(action.choices)))
    kind = action.type if callable(action.type) else str
    for text in ("2", "0.5", "1s", "2x2", "a=1"):
        try:
            kind(text)
        except (argparse.ArgumentTypeError, ValueError, TypeError):
            continue
        return text
    raise AssertionError(action)


def test_config_shows_what_holds_and_who_says_so_but_no_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config"]) == 0
    assert "nothing is set" in capsys.readouterr().out
    write(
        'home = "data"\n[serve]\nport = 99\nset = ["spark.hadoop.fs.s3a.secret.key=hush"]\n'
        'storage = "s3://ann:hush@store/x"\nbasemap = "https://t.org/{z}/{x}/{y}.png?key=hush"\n'
    )
    monkeypatch.setenv("PLACE_SERVE_HOST", "::1")
    for words in (["config"], ["config", "serve"]):
        assert main(words) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "hush" not in shown
        assert "--port │ 99 │ place.toml, [serve]" in shown
        assert "--host │ ::1 │ PLACE_SERVE_HOST" in shown
    assert "--idle │ 5 seconds │ default" in shown
    assert "s3://***@store/x" in shown
    assert main(["config", "serv"]) == 1
    assert 'did you mean "serve"?' in capsys.readouterr().err
    assert main(["config", "token"]) == 1
    assert "token create" in capsys.readouterr().err
