"""`place bench register`: how fast queries are registered and dropped, and whether that lasts.

Queries of one form with different rectangles stand in one text of statements, as a user would
write them; and the same rectangles are a query table, which one statement registers.
"""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

from bench.world import calibrate
from place.errors import InternalError
from place.session import Session, connect

STREAM = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, speed DOUBLE)"
OBJECTS = 1_000
SIDE = 0.01
FEW = 1_000
"""Queries from whose cost growth is measured, and with which everything is compiled before."""
START = 1_700_000_000_000_000


@dataclass(frozen=True)
class Setting:
    """What is measured; without Spark only the local runtime is."""

    queries: int = 100_000
    spark: bool = True


@dataclass(frozen=True)
class Figures:
    """Statements a second, and rows of a query table a second. `exponent` says how the time of a
    text on the local runtime grows with the number of its queries, from 1,000 on."""

    queries: int
    local_per_s: float
    local_drop_per_s: float
    exponent: float
    beside_per_s: float
    """Queries registered one by one, while all others are there."""
    spark_per_s: float
    spark_drop_per_s: float
    table_per_s: float
    deltas: int
    calibration_s: float

    def as_json(self) -> dict[str, float | str]:
        return asdict(self)


def corners(count: int, seed: int) -> np.ndarray:
    """Lower left corners of squares, anywhere in the unit square."""
    return np.random.default_rng(seed).random((count, 2))


def text_of(places: np.ndarray, first: int = 0) -> str:
    """A text that registers a query for each square."""
    return "\n".join(
        f"REGISTER QUERY q{first + i} AS SELECT id, speed FROM Cars"
        f" INSIDE ({x:.6f}, {y:.6f}, {x + SIDE:.6f}, {y + SIDE:.6f});"
        for i, (x, y) in enumerate(places.tolist())
    )


def drops_of(count: int) -> str:
    """A text that drops the same queries."""
    return "\n".join(f"DROP QUERY q{i};" for i in range(count))


def measure(setting: Setting, console: Console) -> Figures:
    """The local runtime, then Spark, then a query table on the local runtime."""
    calibration = calibrate()
    console.print("the local runtime …")
    few = min(FEW, setting.queries)
    with opened() as session:
        register(session, corners(few, 3))  # whatever has to be compiled is compiled
    with opened() as session:
        small, _ = register(session, corners(few, 4))
    with opened() as session:
        local, deltas = register(session, corners(setting.queries, 5))
        beside = one_by_one(session, corners(100, 6), setting.queries)
        local_drop = timed(session, drops_of(setting.queries))
    spark = spark_drop = math.inf
    if setting.spark:
        console.print("Spark …")
        with tempfile.TemporaryDirectory() as home, opened(home, master="local[*]") as session:
            register(session, corners(few, 3), setting.queries)
            spark, found = register(session, corners(setting.queries, 5))
            spark_drop = timed(session, drops_of(setting.queries))
        if found != deltas:
            raise InternalError(f"{deltas:,} deltas on the local runtime, {found:,} on Spark")
    console.print("a query table …")
    table, found = register_table(corners(setting.queries, 5))
    if found != deltas:
        raise InternalError(f"{deltas:,} deltas of queries, {found:,} of the query table")
    growth = setting.queries / few
    return Figures(
        queries=setting.queries,
        local_per_s=setting.queries / local,
        local_drop_per_s=setting.queries / local_drop,
        exponent=math.log(local / small) / math.log(growth) if growth > 1 else 1.0,
        beside_per_s=1 / beside,
        spark_per_s=setting.queries / spark,
        spark_drop_per_s=setting.queries / spark_drop,
        table_per_s=setting.queries / table,
        deltas=deltas,
        calibration_s=calibration,
    )


def opened(home: str | None = None, master: str | None = None) -> Session:
    """A session with objects in it."""
    session = connect(home, master=master)
    session.sql(STREAM)
    places = corners(OBJECTS, 1).tolist()
    rows = [(i, x, y, START, 1.0) for i, (x, y) in enumerate(places)]
    session.push("Cars", rows, time=START)
    return session


def register(session: Session, places: np.ndarray, first: int = 0) -> tuple[float, int]:
    """Seconds to register a query for each square in one text, and the deltas that follow."""
    text = text_of(places, first)
    start = time.perf_counter()
    result = session.sql(text)
    return time.perf_counter() - start, len(result.deltas)


def one_by_one(session: Session, places: np.ndarray, first: int) -> float:
    """Seconds to register a query by a text of its own, on average."""
    statements = text_of(places, first).split("\n")
    start = time.perf_counter()
    for statement in statements:
        session.sql(statement)
    return (time.perf_counter() - start) / len(statements)


def timed(session: Session, text: str) -> float:
    """Seconds to execute a text."""
    start = time.perf_counter()
    session.sql(text)
    return time.perf_counter() - start


def register_table(places: np.ndarray) -> tuple[float, int]:
    """Seconds to load a file of squares and to register it as a query table, and the deltas."""
    with tempfile.TemporaryDirectory() as folder, opened() as session:
        file = Path(folder) / "squares.parquet"
        x, y = np.round(places, 6).T
        columns = {"x1": x, "y1": y, "x2": np.round(x + SIDE, 6), "y2": np.round(y + SIDE, 6)}
        table = pa.table({"id": np.arange(len(places)), **columns})
        pa.parquet.write_table(table, file)
        start = time.perf_counter()
        result = session.sql(
            f"CREATE TABLE Squares FROM '{file}';"
            " REGISTER QUERY squares AS SELECT q.id, c.id, c.speed FROM Squares q, Cars c"
            " WHERE c INSIDE q"
        )
        return time.perf_counter() - start, len(result.deltas)
