"""What the tests of the pipeline share: sessions on one Spark, and cars that report."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from place.model.time import format_timestamp
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
