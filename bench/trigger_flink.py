"""`place bench triggers --rival flink`: a trigger beside Apache Flink, in one run.

Flink has an environment of its own, made on demand below the user's cache, as its package brings
libraries of its own versions. Two triggers are compared. Readings of two variables that are near
each other are an interval join in Flink; it needs an equality, so all readings are of one sea.
Readings of one buoy that follow each other are MATCH_RECOGNIZE, which tells for each first reading
the next that completes it, where a trigger tells all; of the trigger's alerts the first of each
reading are compared. Both engines are given all readings at once, and run on one core.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from rich.console import Console

from bench.buoys import Reports, drift
from bench.trigger_queries import STREAM_NAME, Asked, Chain
from bench.triggers import opened, worker_of
from bench.world import calibrate
from place.engine.changes import Change
from place.engine.slices import Segment
from place.errors import InternalError
from place.model.space import Space

PACKAGE = "apache-flink"
INSTALLING, RUNNING = 1_200.0, 900.0
"""Seconds after which installing the package, and a query, are given up."""
JOB = Path(__file__).with_name("flink_job.py")
FIRST, THEN = Asked("sst", True, 28.5), Asked("wind", False, 5.0)
WITHIN, NEAR = 1_200, 100_000.0
"""Seconds and metres that the readings of a match are apart at most."""
FEW = 600
"""Events of the run that tells what Flink needs to begin."""


class Missing(Exception):
    """Why Flink cannot be had."""


def measure(events: int, seed: int, console: Console) -> dict[str, float | str]:
    """Both triggers by both engines."""
    python = environment(console)
    calibration = calibrate()
    reports = drift(Space.PLANAR, events, seed=seed)
    figures: dict[str, float | str] = {"events": events}
    for name, (statement, query) in {"join": _join(), "sequence": _sequence()}.items():
        console.print(f"{name}: the trigger …")
        seconds, ours = told(statement, reports)
        if name == "sequence":
            ours = _first_of_each(ours, reports)
        console.print(f"{name}: Flink …")
        floor, _ = asked(python, query, reports.part(0, min(FEW, events)))
        flink, theirs = asked(python, query, reports)
        if ours != theirs:
            raise InternalError(f"{name}: {len(ours):,} matches here, {len(theirs):,} in Flink")
        figures |= {
            f"{name}_matches": len(ours),
            f"{name}_s": seconds,
            f"{name}_flink_s": flink,
            f"{name}_flink_floor_s": floor,
            f"{name}_ratio": flink / seconds,
        }
    return figures | {"calibration_s": min(calibration, calibrate())}


def environment(console: Console) -> Path:
    """The Python of Flink's environment, which is made if there is none."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Missing("Flink needs Java, and there is none on the path")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "place" / "flink"
    python, ready = home / "bin" / "python", home / "installed"
    if ready.exists():
        return python
    console.print(f"installing {PACKAGE} into {home} …")
    _run([sys.executable, "-m", "venv", "--clear", str(home)], INSTALLING, "no environment")
    install = [str(python), "-m", "pip", "install", "--quiet", PACKAGE]
    _run(install, INSTALLING, f"{PACKAGE} cannot be installed")
    ready.touch()
    return python


def _run(command: list[str], seconds: float, otherwise: str) -> str:
    """What a command printed; Missing if it fails or takes too long."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=clean, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{otherwise}: it took more than {seconds:g} seconds") from error
    except OSError as error:
        raise Missing(f"{otherwise}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "rror" in line or "xception" in line]
        raise Missing(f"{otherwise}: {(lines or ['it failed'])[-1].strip()[:300]}")
    return done.stdout


def _join() -> tuple[str, str]:
    """A trigger, and the same matches as an interval join."""
    chain = Chain(((FIRST,), (THEN,)), ((0, WITHIN),), (NEAR,))
    query = (
        "SELECT a.n AS an, b.n AS bn FROM readings AS a, readings AS b WHERE a.sea = b.sea"
        f" AND {FIRST.written('a')} AND {THEN.written('b')} AND b.t > a.t"
        f" AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '{WITHIN // 60}' MINUTE"
        f" AND SQRT(POWER(b.x - a.x, 2) + POWER(b.y - a.y, 2)) <= {NEAR!r}"
    )
    return chain.statement("t0"), query


def _sequence() -> tuple[str, str]:
    """A trigger, and its first match of each first reading as a pattern. A pattern takes less than
    the time it is within, and times are whole seconds."""
    statement = (
        f"CREATE TRIGGER t0 FOR {STREAM_NAME} AS a, {STREAM_NAME} AS b WHEN a.id = b.id"
        f" AND {FIRST.written('a')} AND {THEN.written('b')} AND b.t - a.t IN (0, {WITHIN}]"
        " ALERT a.id, a.t, b.id, b.t"
    )
    other = f"NOT ({THEN.written('X')})"
    query = (
        "SELECT an, bn FROM readings MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts"
        " MEASURES A.n AS an, B.n AS bn ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW"
        f" PATTERN (A X* B) WITHIN INTERVAL '{WITHIN + 1}' SECOND(6)"
        f" DEFINE A AS {FIRST.written('A')}, X AS {other}, B AS {THEN.written('B')})"
    )
    return statement, query


def told(statement: str, reports: Reports) -> tuple[float, list[tuple[int, int]]]:
    """Seconds of one trigger for all readings in one tick, and its matches by the numbers of
    readings."""
    with opened("planar", [statement]) as (session, _):
        columns = session.stream(STREAM_NAME).columns
        warm, whole = (r.as_segment(columns) for r in (drift(Space.PLANAR, FEW), reports))
        with opened("planar", [statement]) as (other, _):
            worker_of(other).take([Segment(STREAM_NAME, warm)])
        start = time.perf_counter()
        found = worker_of(session).take([Segment(STREAM_NAME, whole)])
        seconds = time.perf_counter() - start
    numbers = {
        key: number
        for number, key in enumerate(
            zip(reports.keys.tolist(), reports.times.tolist(), strict=True)
        )
    }
    matches = []
    for change in found:
        assert isinstance(change, Change)
        values = [column.cast(pa.int64()).to_pylist() for column in change.columns]
        matches += [(numbers[a, t], numbers[b, u]) for a, t, b, u in zip(*values, strict=True)]
    return seconds, sorted(matches)


def _first_of_each(matches: list[tuple[int, int]], reports: Reports) -> list[tuple[int, int]]:
    """Of the matches of each first reading that with the earliest second one."""
    first: dict[int, int] = {}
    for one, other in matches:
        if one not in first or reports.times[other] < reports.times[first[one]]:
            first[one] = other
    return sorted(first.items())


def asked(python: Path, query: str, reports: Reports) -> tuple[float, list[tuple[int, int]]]:
    """Seconds of Flink for a query, from the start of the job to its end, and its rows."""
    with tempfile.TemporaryDirectory() as folder:
        data, task = Path(folder, "readings.csv"), Path(folder, "task.json")
        sea = pa.array(np.ones(len(reports), np.int32))
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(reports.as_table().append_column("sea", sea), data, options)
        out = Path(folder, "told")
        work = {"path": str(data), "out": str(out), "query": query}
        task.write_text(json.dumps(work), "utf-8")
        said = _run([str(python), str(JOB), str(task)], RUNNING, "Flink does not answer")
        lines = [line for file in out.rglob("*") if file.is_file() for line in _lines(file)]
    answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return float(answer["seconds"]), sorted(lines)


def _lines(file: Path) -> list[tuple[int, int]]:
    """The pairs of numbers of a file that Flink wrote."""
    pairs = (line.split(",") for line in file.read_text("utf-8").splitlines())
    return [(int(one), int(other)) for one, other in pairs]
