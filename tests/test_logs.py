"""The log: lines that repeat are counted, levels and JSON, and what Spark writes."""

import argparse
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from place.cli import main
from place.operate.logs import BURST, MOST_KINDS, WINDOW, JsonLines, Repeats, start_logging
from place.operate.news import News
from place.runtime.durable.home import Home
from place.runtime.spark import console
from tests.harness.pipeline import CARS, NEAR, opened, reading, runtime_of
from tests.harness.server import wait_for


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def logged() -> tuple[logging.Logger, Clock, Repeats, io.StringIO]:
    clock, out = Clock(), io.StringIO()
    repeats = Repeats(clock)
    handler = logging.StreamHandler(out)
    handler.addFilter(repeats)
    logger = logging.Logger("place.test")
    logger.addHandler(handler)
    return logger, clock, repeats, out


def test_a_line_that_repeats_is_counted(
    logged: tuple[logging.Logger, Clock, Repeats, io.StringIO],
) -> None:
    logger, clock, repeats, out = logged
    for _ in range(1000):
        logger.error("no tick: %s", "the disk is full")
    assert out.getvalue() == "no tick: the disk is full\n"
    clock.now += WINDOW
    logger.error("no tick: %s", "the disk is full")
    assert out.getvalue().splitlines()[1:] == [
        "no tick: the disk is full (999 more like it in 10 s)"
    ]
    logger.error("no tick: %s", "the disk is full")
    clock.now += WINDOW
    assert repeats.ended() == ["1 more like it in 10 s, the last: no tick: the disk is full"]
    assert repeats.ended() == []


def test_lines_of_one_kind_are_few_and_what_is_remembered_is_bounded(
    logged: tuple[logging.Logger, Clock, Repeats, io.StringIO],
) -> None:
    logger, _, repeats, out = logged
    for number in range(1000):
        logger.warning("a connection of %s is refused", number)
    assert len(out.getvalue().splitlines()) == BURST
    for number in range(2 * MOST_KINDS):
        logger.warning(f"something else, {number}")
    assert len(repeats._kinds) == MOST_KINDS


@pytest.fixture
def kept_logging() -> Iterator[None]:
    """Whatever a test does to the log of the process, afterwards it is as before."""
    root, ours = logging.getLogger(), logging.getLogger("place")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    logging.captureWarnings(False)


def test_lines_of_json_have_levels_and_facts(
    kept_logging: None, capfd: pytest.CaptureFixture[str]
) -> None:
    start_logging(argparse.Namespace(log_level="warning", log_json=True))
    log = logging.getLogger("place.test")
    log.info("nobody asked")
    log.warning("%s: %d late", "Cars", 3, extra={"facts": {"stream": "Cars", "late": 3}})
    logging.getLogger("httpx").info("a request")
    (line,) = capfd.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["level"], said["message"], said["late"]) == ("warning", "Cars: 3 late", 3)
    assert said["time"].endswith("+00:00")
    try:
        raise ValueError("a bug")
    except ValueError:
        record = log.makeRecord("x", 40, "", 0, "failed", (), sys.exc_info())
    assert "ValueError: a bug" in json.loads(JsonLines().format(record))["traceback"]


def test_warnings_of_other_packages_are_not_shown() -> None:
    """In a process of its own: pytest keeps warnings for itself."""
    code = """
import argparse, logging, warnings
from place.operate.logs import start_logging
start_logging(argparse.Namespace(log_level="debug", log_json=False))
warnings.simplefilter("always")
warnings.warn("a warning of another package")
logging.getLogger("place.test").warning("ours")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith("WARNING ours")


def test_the_log_tells_of_late_readings_and_of_slow_ticks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "place")
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.sql(NEAR)
        news = News(runtime_of(session), Repeats(), slow=0.0)
        session.push("Cars", [reading(1, 1, 1, 5), reading(2, 1, 1, 3)])
        news.look(1000.0)
        told = [record.getMessage() for record in caplog.records]
        assert any(line.startswith("tick 3 took ") for line in told)
        assert "Cars: 1 readings came too late, 0 were refused" in told
        assert any(line.startswith("tick 3: 1 readings of Cars") for line in told)
        caplog.clear()
        news.look(1100.0)
        assert caplog.records == []


def test_what_java_writes_is_one_line_of_the_log_and_nothing_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = (
        "import sys; print('ERROR DAGScheduler: lost', '\\tat java.base', file=sys.stderr,"
        " sep=chr(10)); sys.stderr.flush(); sys.stdin.readline();"
        " print('BrokenPipeError: at the end', file=sys.stderr)"
    )
    caplog.set_level(logging.WARNING, "place")
    with console.taken_down() as written:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stderr=written, stdin=subprocess.PIPE
        )
    wait_for(lambda: caplog.records)
    console.hush()
    process.communicate(b"\n", timeout=30)
    assert [record.getMessage() for record in caplog.records] == ["ERROR DAGScheduler: lost"]
    console._hushed.clear()


def test_who_writes_to_a_console_of_somebody_that_was_killed_is_quiet(tmp_path: Path) -> None:
    """As Java does when the process that started it is killed."""
    done_at = tmp_path / "done"
    child = f"""
import pathlib, sys, time
time.sleep(1.5)
try:
    print("Traceback", file=sys.stderr, flush=True)
finally:
    pathlib.Path({str(done_at)!r}).touch()
"""
    code = f"""
import os, signal, subprocess, sys
from place.runtime.spark.console import taken_down
with taken_down() as written:
    subprocess.Popen([sys.executable, "-c", {child!r}], stderr=written)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with (tmp_path / "console").open("w") as out:
        done = subprocess.run([sys.executable, "-c", code], stderr=out, stdout=out)
    assert done.returncode == -9
    wait_for(done_at.exists)
    assert (tmp_path / "console").read_text() == ""


def test_a_worker_whose_pipe_breaks_at_the_end_is_quiet() -> None:
    """As Spark's Python processes are when it stops while they wait for a task."""
    code = """
import traceback
from place.runtime.spark.worker_process import hush_broken_pipes
hush_broken_pipes()
for kind in (BrokenPipeError, ValueError):
    try:
        raise kind("at the end")
    except Exception:
        traceback.print_exc()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "ValueError: at the end" in done.stderr
    assert "BrokenPipeError" not in done.stderr


def test_a_home_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, odd = tmp_path / "file", tmp_path / "odd"
    file.write_text("not a directory")
    (odd / "place.json.tmp").mkdir(parents=True)  # as good as a directory without permission
    setup = tmp_path / "setup.sql"
    setup.write_text(f"{CARS};")
    for home in (file, file / "below"):
        for command in (
            ["run", "--home", str(home), "--once"],
            ["serve", "--home", str(home), "--port", "0"],
            ["sql", "--home", str(home), "-f", str(setup)],
            ["demo", "--home", str(home), "--no-map", "--seconds", "1"],
            ["status", "--home", str(home)],
            ["changes", "--home", str(home)],
            ["token", "create", "--home", str(home), "--name", "a", "--role", "admin"],
        ):
            assert main(command) == 1, command
            (line,) = capsys.readouterr().err.splitlines()[-1:]
            assert line.startswith("place: "), line
            assert str(home) in line
    assert main(["sql", "--home", str(odd), "-f", str(setup)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written: Is a directory" in line


def test_a_directory_without_permission_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for whoever may write everywhere, as root may."""
    Home(tmp_path / "home", "log").close()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "home" / "log"))

    monkeypatch.setattr(os, "fsync", refused)
    monkeypatch.setattr("place.runtime.durable.local_log.LocalLog.__init__", refused)
    assert main(["sql", "--home", str(tmp_path / "home"), "-f", __file__]) == 1
    assert capsys.readouterr().err.endswith("log: Permission denied\n")
