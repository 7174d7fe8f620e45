"""The strongest rivals that need no server, doing the same work as the bulk join.

Each keeps its last answer, evaluates the new one over the new positions, and tells the two apart:
the changes are returned as sorted keys, (query × objects + object) × 2 + 1 for a positive delta
and + 0 for a negative one.
"""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.world import Floats
from place.errors import ConfigurationError

Keys = NDArray[np.int64]


class Rival(Protocol):
    def tick(self, points: Floats, boxes: Floats) -> Keys:
        """The changes from the last tick's positions to these."""


def library(name: str) -> Any:
    """A library that only the experiments need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"the comparison needs {name}, which is not installed",
            hint="pip install place-server[dev]",
        ) from error


def told_apart(old: Keys, new: Keys) -> Keys:
    """The keys that are in one answer only; both are without repetition."""
    merged = np.concatenate([old * 2, new * 2 + 1])
    merged.sort()
    same = (merged[1:] >> 1) == (merged[:-1] >> 1)
    alone = np.ones(len(merged), np.bool_)
    alone[1:] &= ~same
    alone[:-1] &= ~same
    found: Keys = merged[alone]
    return found


class StrTree:
    """Shapely's STRtree: built on the boxes, asked for all points on all cores at once."""

    def __init__(self, threads: int) -> None:
        self._shapely = library("shapely")
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._answer = np.empty(0, np.int64)

    def tick(self, points: Floats, boxes: Floats) -> Keys:
        shapely = self._shapely
        tree = shapely.STRtree(shapely.box(boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3]))
        cuts = np.linspace(0, len(points), self._threads + 1).astype(int)

        def ask(piece: int) -> Keys:
            low, high = cuts[piece], cuts[piece + 1]
            asked, found = tree.query(shapely.points(points[low:high]))
            keys: Keys = found * len(points) + (asked + low)
            return keys

        answer = np.concatenate(list(self._pool.map(ask, range(self._threads))))
        changes = told_apart(self._answer, answer)
        self._answer = answer
        return changes


class DuckDb:
    """DuckDB in memory: a hand-written grid join, and anti joins of the old and the new answer."""

    def __init__(self, threads: int, side: float) -> None:
        self._connection = library("duckdb").connect(":memory:")
        self._arrow = library("pyarrow")
        self._connection.execute(f"SET threads = {threads}")
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("CREATE TABLE answer (key BIGINT)")
        self._cells = max(1, int(1 / side))

    def _load(self, name: str, rows: Floats, columns: str) -> None:
        arrays = [np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])]
        numbers = np.arange(len(rows), dtype=np.int64)
        table = self._arrow.table([numbers, *arrays], names=["id", *columns.split()])
        self._connection.register("given", table)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")

    def tick(self, points: Floats, boxes: Floats) -> Keys:
        self._load("objects", points, "x y")
        self._load("queries", boxes, "x1 y1 x2 y2")
        n = self._cells
        place = "CAST(floor({} * {}) AS INTEGER)"
        cell = f"{place.format('x', n)} + {2 * n} * {place.format('y', n)}"
        spread = f"unnest(range({place.format('{0}1', n)}, {place.format('{0}2', n)} + 1))"
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE answer_now AS
            WITH columns AS (SELECT *, {spread.format("x")} AS i FROM queries),
                 cells AS (SELECT *, {spread.format("y")} AS j FROM columns),
                 placed AS (SELECT *, {cell} AS cell FROM objects)
            SELECT cells.id * {len(points)} + placed.id AS key
            FROM placed JOIN cells ON placed.cell = cells.i + {2 * n} * cells.j
            WHERE x BETWEEN x1 AND x2 AND y BETWEEN y1 AND y2
        """)
        changes = self._connection.execute("""
            SELECT key * 2 + 1 AS change FROM answer_now ANTI JOIN answer USING (key)
            UNION ALL
            SELECT key * 2 AS change FROM answer ANTI JOIN answer_now USING (key)
        """).fetchnumpy()["change"]
        self._connection.execute("DROP TABLE answer; ALTER TABLE answer_now RENAME TO answer")
        return np.asarray(changes, np.int64)
