"""What is in deploy/: images, units and dashboards that name only what there is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from place.cli import make_parser, parse
from place.operate.configuration import Configuration
from place.server.operate import figures
from tests.harness.server import serving

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = [line.split(None, 1) for line in joined.splitlines()]
    return [(word, rest) for word, rest in found]


def variables() -> dict[str, str]:
    """All variables that the image and the compose file set."""
    (env,) = [rest for word, rest in instructions() if word == "ENV"]
    found = dict(part.split("=", 1) for part in shlex.split(env))
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    return found | services["place"]["environment"]


def test_the_dockerfile_says_what_it_should() -> None:
    known = (
        "FROM WORKDIR COPY RUN USER VOLUME ENV EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD".split()
    )
    found = instructions()
    assert {word for word, _ in found} <= set(known)
    words = [word for word, _ in found]
    assert words.index("USER") < words.index("ENTRYPOINT")  # nothing runs as root
    for word, rest in found:
        if word == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists(), name
        if word in ("ENTRYPOINT", "CMD", "VOLUME"):
            assert isinstance(json.loads(rest), list)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    copied = {
        name
        for word, rest in found
        if word == "COPY" and "--from" not in rest
        for name in rest.split()[:-1]
    }
    assert copied == {line[1:] for line in ignored if line.startswith("!")}


def test_the_image_installs_the_versions_that_were_tested(tmp_path: Path) -> None:
    """The command of the Dockerfile that makes constraints of the lock, as it stands there."""
    (line,) = [rest for word, rest in instructions() if word == "RUN" and "versions.txt" in rest
               and rest.startswith("sed")]  # fmt: skip
    command = line.replace("/wheels/versions.txt", str(tmp_path / "versions.txt"))
    subprocess.run(["sh", "-ec", command], cwd=ROOT, check=True)
    made = (tmp_path / "versions.txt").read_text("utf-8").splitlines()
    names = {text.partition("==")[0] for text in made}
    assert {"pyspark", "numba", "fastapi"} <= names
    locked = (ROOT / "requirements" / "all.lock").read_text("utf-8")
    assert len(made) == len(re.findall(r"^[A-Za-z0-9].*==", locked, re.MULTILINE))
    assert not any("--hash" in text or "\\" in text for text in made)


def test_variables_of_the_image_are_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: value for name, value in variables().items() if name.startswith("PLACE_")}
    configuration = Configuration(make_parser(), given, None)
    assert configuration.given(("serve",))["host"].value == "0.0.0.0"
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = parse(["serve"])
    assert (found.host, found.log_json, found.max_per_address) == ("0.0.0.0", True, 2000)
    assert parse(["token", "list"]).home == found.home == Path("/var/lib/place/home")
    assert parse(["backup", "--to", "x"]).home == found.home


def test_the_compose_file_mounts_what_there_is() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    volumes = [
        each.split(":")[0]
        for service in compose["services"].values()
        for each in service["volumes"]
    ]
    made_by_hand = {"./monitor.token"}  # a secret
    for volume in volumes:
        if volume.startswith("./"):
            assert volume in made_by_hand or (DEPLOY / volume).is_file(), volume
        else:
            assert volume in compose["volumes"]
    for file in ("prometheus.yml", "grafana-provisioning.yaml", "grafana-source.yaml"):
        assert yaml.safe_load((DEPLOY / file).read_text("utf-8"))
    build = compose["services"]["place"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "/deploy/monitor.token" in ignored


def commands(text: str) -> Iterator[list[str]]:
    """The commands of place that a file names, in comments as well."""
    for line in text.splitlines():
        found = re.search(r"(?:bin/place|run --rm place) (.+)$", line)
        if found is not None:
            yield shlex.split(found.group(1))


@pytest.mark.parametrize("name", ["compose.yaml", "place.service"])
def test_commands_are_commands(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "place.toml").write_text('home = "home"\n')
    for variable, value in variables().items():
        if variable.startswith("PLACE_"):
            monkeypatch.setenv(variable, value)
    found = list(commands((DEPLOY / name).read_text("utf-8")))
    assert found
    for words in found:
        parsed = parse([str(tmp_path / "place.toml") if "/etc/" in w else w for w in words])
        assert parsed.home


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_the_unit_is_one(tmp_path: Path) -> None:
    text = (DEPLOY / "place.service").read_text("utf-8")
    unit = tmp_path / "place.service"
    unit.write_text(text.replace("/opt/place/bin/place", "/bin/true"))  # which is there
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    assert str(unit.name) not in done.stderr, done.stderr
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True
    )
    level = re.search(r"exposure level for place.service: ([\d.]+)", done.stdout)
    if level is not None:  # older ones cannot look at a file
        assert float(level.group(1)) < 3.0


def expressions(board: dict[str, Any]) -> list[str]:
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found + [
        each["query"] for each in board["templating"]["list"] if each["type"] == "query"
    ]


def test_the_dashboard_names_figures_that_there_are(tmp_path: Path) -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    named = {name for text in expressions(board) for name in re.findall(r"place_\w+", text)}
    assert len(named) > 15
    with serving(tmp_path / "home", "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE)") as running:
        running.push("Cars", [[1, 2.0]], time="2026-01-01T00:00:00Z")
        text = figures(running.server)
    told = set(re.findall(r"^# TYPE (place_\w+)", text, re.MULTILINE))
    assert named <= told
    labels = {label for text in expressions(board) for label in re.findall(r"{{(\w+)}}", text)}
    assert labels == set()
    legends = {t["legendFormat"] for panel in board["panels"] for t in panel["targets"]}
    known = set(re.findall(r"(\w+)=\"", text)) | {"trigger", "join", "client"}
    assert {label for each in legends for label in re.findall(r"{{(\w+)}}", each)} <= known
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
