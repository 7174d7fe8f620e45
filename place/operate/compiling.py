"""Kernels compiled before they are needed: once on a machine, while Spark starts.

Compiling takes half a minute, and Spark's Python processes would do it one kernel after the other
when the first readings are there. Here processes of their own run a small world with queries of
every kind, those of the demonstration, and what they compile is kept for everybody. There are two
parts that share almost nothing, so that two cores can work on them.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from place.errors import PlaceError
from place.kernels.box_choice import METHODS
from place.kernels.box_join import join_boxes
from place.kernels.cache import cache_directory, fingerprint
from place.model.time import SECOND
from place.runtime.durable.storage import Storage
from place.runtime.intake.generated import Steps
from place.runtime.local import LocalRuntime
from place.session import Session, connect
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.scan import split
from place.sql.statements import Change

LOG = logging.getLogger("place.kernels")
DEMO_PARTS = ("nearest", "others")
"""What follows the nearest, with the generator; and all else of the demonstration, with its
triggers."""
JOINS = "joins"
"""Queries in which several streams, or the objects of one, meet."""
PARTS = (*DEMO_PARTS, JOINS)
JOIN_STATEMENTS = """
CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING);
CREATE STREAM Calls (id BIGINT KEY, x DOUBLE, y DOUBLE);
REGISTER QUERY close AS SELECT a.id, b.id, DISTANCE(a, b) FROM Ships a, Calls b
  WHERE DISTANCE(a, b) <= 0.1;
REGISTER QUERY pairs AS SELECT a.id, b.id FROM Ships a, Ships b
  WHERE DISTANCE(a, b) <= 0.1 AND a.id < b.id;
REGISTER QUERY met AS SELECT a.kind, COUNT(*) FROM Ships a WINDOW 2 SECONDS, Calls b WINDOW 9 ROWS
  WHERE a.id = b.id AND a.x < b.x + 0.5 GROUP BY a.kind;
REGISTER QUERY sent AS SELECT c.id, s.id, DISTANCE(c, s) FROM Calls c, Ships s
  WHERE s.kind = 'tug' kNN (3, c);
REGISTER QUERY alike AS SELECT c.id, s.id FROM Calls c, Ships s WHERE c.id <= s.id kNN (2, c);
REGISTER QUERY amid AS SELECT id FROM Ships kNN (2, SUM OF (FOCAL 1, POINT (0.5, 0.5)));
REGISTER QUERY mine AS SELECT id FROM Ships RNN ('M', 2, 1);
"""
TICKS = 3
START = 1_767_225_600 * SECOND
POLL = 0.05
BESIDE = 15
"""How much a process that only prepares something stands back behind others."""


def demo_statements(objects: int, rate: int, seed: int) -> str:
    """The statements of the demonstration."""
    text = (files("place") / "demo.sql").read_text("utf-8")
    return text.format(objects=objects, rate=rate, seed=seed)


class Compiling:
    """The processes that compile what is not compiled yet, if there is anything."""

    def __init__(
        self, parts: Sequence[str] = DEMO_PARTS, *, together: bool = True, nice: int = 0
    ) -> None:
        self.began = time.monotonic()
        missing = missing_parts(parts)
        self.is_needed = bool(missing)
        self.steps = sum(len(_steps(part)) + TICKS for part in missing)
        self.done = 0
        self._lock = threading.Lock()
        groups = [[part] for part in missing] if together else [missing] if missing else []
        self._processes = [self._start(group, nice) for group in groups]

    def _start(self, parts: Sequence[str], nice: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "place.operate.compiling", "--nice", str(nice), *parts]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for whoever started it
        )
        threading.Thread(target=self._count, args=(process,), daemon=True).start()
        return process

    def _count(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for _ in process.stdout:
            with self._lock:
                self.done += 1

    @property
    def is_over(self) -> bool:
        return all(process.poll() is not None for process in self._processes)

    def wait(self, should_stop: Callable[[], bool]) -> None:
        """Wait until all is compiled; whatever is not will be when it is needed."""
        while not self.is_over and not should_stop():
            time.sleep(POLL)

    def close(self) -> None:
        """Compile no more."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
            process.wait()


@contextlib.contextmanager
def compiled_meanwhile() -> Iterator[None]:
    """Compile what is missing beside a pipeline that runs, and keep the classes of Spark, without
    taking its time."""
    from place.runtime.spark.class_archive import made_meanwhile

    compiling = Compiling(PARTS, together=False, nice=BESIDE)
    if compiling.is_needed:
        LOG.info("kernels are compiled beside it, once on this machine")
    try:
        with made_meanwhile(BESIDE):
            yield
    finally:
        compiling.close()


def missing_parts(parts: Sequence[str] = DEMO_PARTS) -> list[str]:
    """The parts that have not been compiled on this machine, as the kernels are now."""
    return [part for part in parts if not _stamp(part).exists()]


def _stamp(part: str) -> Path:
    """The file that says that a part is compiled."""
    return cache_directory() / f"compiled-{part}-{fingerprint()}"


def _steps(part: str) -> list[tuple[Change, str]]:
    """The statements of a part."""
    text = JOIN_STATEMENTS if part == JOINS else demo_statements(200, 1, 1)
    chosen = []
    for offset, sql in split(text):
        statement = parse_one(sql, text, offset)
        assert isinstance(statement, Change)
        of_part = JOINS if part == JOINS else "nearest" if "kNN" in sql else "others"
        if not isinstance(statement, s.Registration) or of_part == part:
            chosen.append((statement, sql.strip()))
    return chosen


def compile_part(part: str) -> Iterator[None]:
    """Run a part of the small world, step by step."""
    with connect() as session:
        for statement in _steps(part):
            session.change([statement])
            yield
        for tick in range(TICKS):
            _READINGS[part](session, tick)
            yield
    if part == JOINS:
        numbers = np.arange(40.0).reshape(-1, 2) % 7
        for method in METHODS:
            join_boxes(numbers, numbers, numbers, method)


def _drive(session: Session, tick: int) -> None:
    """Readings of the generator."""
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    with tempfile.TemporaryDirectory() as directory:
        for stream in session.catalog.streams.values():
            runtime.take(Steps(Storage(directory), stream).told(tick, tick + 1))


def _scatter(session: Session, tick: int) -> None:
    """Readings anywhere: the generator is compiled by the other part."""
    chance, now = random.Random(tick), START + tick * SECOND
    vehicles = [
        (
            *(number, chance.random(), chance.random(), now),
            *(chance.choice(("car", "truck", "bus")), chance.uniform(0.0, 100.0)),
        )
        for number in range(200)
    ]
    police = [(n, chance.random(), chance.random(), now, chance.uniform(0, 90)) for n in range(40)]
    session.push("Police", police, time=now)
    session.push("Vehicles", vehicles, time=now)


def _gather(session: Session, tick: int) -> None:
    """Readings of streams that meet, so many at once that they are compared where they move."""
    chance, now = random.Random(tick), START + tick * SECOND
    ships = [
        (n, chance.random(), chance.random(), chance.choice(("tug", "ferry"))) for n in range(600)
    ]
    session.push("Ships", ships, time=now)
    session.push("Calls", [(n, chance.random(), chance.random()) for n in range(20)], time=now)


_READINGS = {"nearest": _drive, "others": _scatter, JOINS: _gather}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile parts, one process for each part at a time; a line for each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parsed = parser.parse_args(arguments)
    os.nice(parsed.nice)
    for part in parsed.parts:
        stamp = _stamp(part)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        with (stamp.parent / f"compiling-{part}").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if stamp.exists():
                continue
            for _ in compile_part(part):
                print(part, flush=True)
            stamp.touch()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, PlaceError, OSError) as error:
        sys.exit(f"not compiled: {error}")
