"""What the tests of the pipeline share: sessions on one Spark, and cars that report."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

from place.model.time import format_timestamp
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.saving import Pace
from place.runtime.spark.runtime import SparkRuntime
from place.runtime.spark.session import start_session
from place.runtime.tables import TableLoader
from place.session import Session

CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING)"
NEAR = "REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5)"
START = 1_767_225_600  # 2026-01-01


def opened(home: Path | None = None, **options: Any) -> Session:
    """A session on the Spark that all tests of a process share."""
    runtime = SparkRuntime(start_session("local[2]"), home, **options)
    return Session(runtime, TableLoader())


OFTEN = Pace(ticks=2, share=1e9)
"""States are saved in every other tick."""


def ticks_until_saved(session: Session) -> Manifest:
    """Push readings until all cells have saved a state and one more tick has come; that tick."""
    runtime = runtime_of(session)
    for second in range(1, 500):
        is_saved = runtime.last is not None and runtime.last.replayed_from > 1
        moment = (START + second) * 1_000_000
        session.push("Cars", [reading(1, 1 + second % 2 * 6, 1, second)], time=moment)
        if is_saved:
            return runtime.last
        time.sleep(0.01)
    raise AssertionError("no state was saved")


def runtime_of(session: Session) -> SparkRuntime:
    assert isinstance(session.runtime, SparkRuntime)
    return session.runtime


def reading(car: int, x: float, y: float, second: float, kind: str = "a") -> tuple[Any, ...]:
    return car, x, y, int((START + second) * 1e6), kind


def write_csv(path: Path, rows: list[tuple[Any, ...]], *, zipped: bool = False) -> None:
    lines = ["id,x,y,ts,kind"]
    for car, x, y, moment, kind in rows:
        lines.append(f"{car},{x},{y},{written(moment)},{kind}")
    text = "\n".join(lines) + "\n"
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    draft.rename(path)


def written(moment: int) -> str:
    return format_timestamp(moment)
