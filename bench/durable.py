"""The rivals of `place bench tick`: DuckDB on a database file, a durable transaction for each file.

Object i walks, and query i is a square around its focal object, which it never answers with. What
moved is in a Parquet file for each tick, which `Walk` writes.

`AgainDuckDb` is what one writes first: all queries are evaluated again by a grid join, and told
apart from the stored answer. `DurableDuckDb` is the fastest of many ways that were tried:

- No answer is stored. A pair's membership before follows from the old positions and its membership
  now from the new ones, so that one join tells what changed.
- With d the longest step of this tick, a pair that changes has its two midpoints (of old and new
  place) no further apart than half a side and d in x and y. Cells of that size make candidates an
  equality join of 3 × 3 cells. Of two that moved, half of these cells are enough; where one of them
  stood still, d is halved, and 2 × 2 cells of double the size are the cheapest.
- All squares have one side, so a pair of objects is tested once, for the queries of both.
- Changes are a Parquet file for each tick, synchronised before the commit that makes it count; a
  table costs more than twice as much. Objects are a table: what moved is deleted and inserted, or
  the table is replaced when all did. Both are cheaper than UPDATE, and all cheaper uncompressed.
- Objects are laid down by place once, which keeps the join's accesses near each other.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.rivals import library
from place.runtime.durable.directory import sync

ROW_GROUP = 122_880
"""Rows that DuckDB and the files keep together: a thread takes at least as many."""
VECTOR = 2048
"""A row group of DuckDB is a multiple of this many rows."""
FINEST = 30_000
"""Cells a side, at most: the number of a cell has to be an INTEGER."""
START = datetime(2026, 1, 1)


class Walk:
    """Objects on a random walk in the unit square, of which a fixed share moves.

    The first file has all objects, later ones only those that move, each by up to a quarter of
    `side` in x and y. The same arguments make the same files. They are plain and uncompressed,
    which is the fastest to read for Arrow and DuckDB alike.
    """

    def __init__(self, objects: int, side: float, moving: float = 1.0, seed: int = 1) -> None:
        self._chance = np.random.default_rng(seed)
        self._step = side / 4
        self._places = self._chance.random((objects, 2))
        self._walking = np.flatnonzero(self._chance.random(objects) < moving)
        self._begun = False

    def write(self, directory: Path, number: int) -> Path:
        """The file of the next tick; all its readings are of `number` seconds after the start."""
        moved = self._walking if self._begun else np.arange(len(self._places))
        if self._begun:
            steps = self._chance.uniform(-self._step, self._step, (len(moved), 2))
            self._places[moved] = np.clip(self._places[moved] + steps, 0.0, 1.0)
        self._begun = True
        instant = np.datetime64(START + timedelta(seconds=number), "us")
        readings = pa.table(
            {
                "ObjectID": moved.astype(np.int64),
                "x": np.ascontiguousarray(self._places[moved, 0]),
                "y": np.ascontiguousarray(self._places[moved, 1]),
                "ts": np.full(len(moved), instant),
            }
        )
        file = directory / f"readings-{number:06}.parquet"
        pq.write_table(
            readings, file, row_group_size=ROW_GROUP, use_dictionary=False, compression="none"
        )
        return file


class DurableDuckDb:
    """Positions in a new database file at `path`, and changes in Parquet files beside it.

    A file of changes counts when its tick is in the table `ticks`: both are on disk when `tick`
    returns. The first file has to hold all objects.
    """

    def __init__(self, path: Path, objects: int, queries: int, side: float, threads: int) -> None:
        self._objects = objects
        self._side = side
        self._changes = path.with_suffix(".changes")
        self._changes.mkdir(exist_ok=True)
        sync(str(path.parent))
        # Several row groups for each thread, or a small table is scanned by one thread alone.
        rows = min(ROW_GROUP, -(-objects // (4 * threads * VECTOR)) * VECTOR)
        self._connection = library("duckdb").connect(":memory:")
        self._run(f"ATTACH {_text(path)} AS world (ROW_GROUP_SIZE {rows})")
        self._run("USE world")
        self._run(f"SET threads = {threads}")
        self._run("SET preserve_insertion_order = false")
        self._run("SET force_compression = 'uncompressed'")
        # The right side of a join is built: left to itself, DuckDB takes the larger one here.
        self._run("SET disabled_optimizers = 'build_side_probe_side,join_order'")
        # DuckDB 2.0 fails with an internal error on these joins otherwise; they take as long.
        self._run("SET enable_caching_operators = false")
        self._run("CREATE TABLE objects (id BIGINT, x DOUBLE, y DOUBLE)")
        self._run("CREATE TABLE ticks (number BIGINT)")
        self._run(f"CREATE TABLE queries AS SELECT i AS id, i AS focal FROM range({queries}) r(i)")
        self._begun = False

    def tick(self, file: Path, number: int) -> tuple[int, int]:
        """Take a file of readings: how many pairs entered answers, and how many left them."""
        readings = f"read_parquet({_text(file)})"
        self._run("BEGIN")
        (instant,) = self._row(f"SELECT max(ts) FROM {readings}")
        if self._begun:
            self._run(f"""
                CREATE OR REPLACE TEMP TABLE moved AS
                SELECT id, o.x AS old_x, o.y AS old_y, r.x AS new_x, r.y AS new_y
                FROM objects o JOIN {readings} r ON id = ObjectID
            """)
        else:
            self._run(f"""
                CREATE OR REPLACE TEMP TABLE moved AS
                SELECT ObjectID AS id, x AS old_x, y AS old_y, x AS new_x, y AS new_y
                FROM {readings} ORDER BY floor(x / {2 * self._side}), floor(y / {2 * self._side})
            """)
        count, step = self._row(
            "SELECT count(*), max(greatest(abs(new_x - old_x), abs(new_y - old_y))) FROM moved"
        )
        entered, left = self._tell(count, step or 0.0, instant, number)
        if count == self._objects:
            self._run(
                "CREATE OR REPLACE TABLE objects AS SELECT id, new_x AS x, new_y AS y FROM moved"
            )
        else:
            self._run("DELETE FROM objects USING moved WHERE objects.id = moved.id")
            self._run("INSERT INTO objects SELECT id, new_x, new_y FROM moved")
        self._run(f"INSERT INTO ticks VALUES ({number})")
        self._run("COMMIT")
        self._begun = True
        return entered, left

    def close(self) -> None:
        self._connection.close()

    def _tell(self, count: int, step: float, instant: datetime, number: int) -> tuple[int, int]:
        """Write the changes of a tick to a file of their own; how many are positive, negative."""
        pairs = self._both_moved(step)
        if count < self._objects:
            pairs += f" UNION ALL {self._one_moved(step)}"
        cells = _cells(self._side / 2 + step)
        also = f"TIMESTAMP '{instant}' AS instant, {number} AS tick"
        file = self._changes / f"{number:06}.parquet"
        (rows,) = self._row(f"""
            COPY (
                WITH placed AS MATERIALIZED (
                    SELECT *, {_cell("(old_x + new_x) / 2", "(old_y + new_y) / 2", cells)} AS cell
                    FROM moved
                ), pairs AS MATERIALIZED ({pairs})
                SELECT q.id AS query, sign, b AS object, {also}
                FROM pairs JOIN queries q ON q.focal = pairs.a
                UNION ALL
                SELECT q.id AS query, sign, a AS object, {also}
                FROM pairs JOIN queries q ON q.focal = pairs.b
            ) TO {_text(file)} (
                FORMAT parquet, COMPRESSION uncompressed,
                DICTIONARY_SIZE_LIMIT 100, WRITE_BLOOM_FILTER false
            )
        """)
        sync(str(file))
        sync(str(self._changes))
        (surplus,) = self._row(f"SELECT coalesce(sum(sign), 0) FROM read_parquet({_text(file)})")
        return (rows + surplus) // 2, (rows - surplus) // 2

    def _both_moved(self, step: float) -> str:
        """Changes of pairs that both moved; each pair is met once, in its first object's cells."""
        wide = _cells(self._side / 2 + step) + 3
        now = self._within("a.new_x - b.new_x", "a.new_y - b.new_y")
        before = self._within("a.old_x - b.old_x", "a.old_y - b.old_y") if self._begun else "0"
        return f"""
            SELECT ({now} - {before})::TINYINT AS sign, a.id AS a, b.id AS b
            FROM (
                SELECT * EXCLUDE (cell),
                    unnest([cell, cell + 1, cell + {wide - 1}, cell + {wide}, cell + {wide + 1}])
                        AS cell,
                    unnest([id, -1, -1, -1, -1]) AS below
                FROM placed
            ) a JOIN placed b ON a.cell = b.cell AND b.id > a.below
            WHERE {now} <> {before}
        """

    def _one_moved(self, step: float) -> str:
        """Changes of pairs of which one moved. Objects are joined as if all stood still, and those
        that moved go afterwards, when there is less to look up."""
        cells = _cells(self._side + step)
        wide = cells + 3
        low_x, low_y = (
            f"(old_{axis} + new_{axis}) / 2 - {0.5 / cells:.17e}" for axis in ("x", "y")
        )
        now = self._within("b.x - a.new_x", "b.y - a.new_y")
        before = self._within("b.x - a.old_x", "b.y - a.old_y")
        return f"""
            SELECT sign, a, b
            FROM (
                SELECT ({now} - {before})::TINYINT AS sign, a.id AS a, b.id AS b
                FROM (SELECT *, {_cell("x", "y", cells)} AS cell FROM objects) b
                JOIN (
                    SELECT * EXCLUDE (cell),
                        unnest([cell, cell + 1, cell + {wide}, cell + {wide + 1}]) AS cell
                    FROM (SELECT *, {_cell(low_x, low_y, cells)} AS cell FROM moved)
                ) a ON a.cell = b.cell
                WHERE {now} <> {before}
            ) ANTI JOIN moved ON b = moved.id
        """

    def _within(self, across: str, along: str) -> str:
        """1 where the distances are of a pair within, else 0: `&` costs less here than AND."""
        half = f"{self._side / 2:.17e}"
        return f"((abs({across}) <= {half})::TINYINT & (abs({along}) <= {half})::TINYINT)"

    def _run(self, statement: str) -> Any:
        return self._connection.execute(statement)

    def _row(self, statement: str) -> Any:
        return self._run(statement).fetchone()


class AgainDuckDb:
    """Everything in tables: objects, the answer, the changelog."""

    def __init__(self, path: Path, objects: int, queries: int, side: float, threads: int) -> None:
        self._side = side
        self._connection = library("duckdb").connect(str(path))
        for statement in (
            f"SET threads = {threads}",
            "SET preserve_insertion_order = false",
            "CREATE TABLE objects (id BIGINT, x DOUBLE, y DOUBLE)",
            "CREATE TABLE answer (query BIGINT, object BIGINT)",
            "CREATE TABLE changes (query BIGINT, sign TINYINT, object BIGINT, tick BIGINT)",
            f"CREATE TABLE queries AS SELECT i AS id, i AS focal FROM range({queries}) r(i)",
        ):
            self._connection.execute(statement)

    def tick(self, file: Path, number: int) -> tuple[int, int]:
        """Take a file of readings: how many pairs entered answers, and how many left them."""
        readings, run = f"read_parquet({_text(file)})", self._connection.execute
        half, cells = self._side / 2, max(1, int(1 / self._side))
        place = "CAST(floor(({}) * {}) AS INTEGER)"
        low, high = (place.format(f"{{0}} {op} {half!r}", cells) for op in "-+")
        spread = f"unnest(range({low}, {high} + 1))"
        run("BEGIN")
        run(f"""
            CREATE OR REPLACE TABLE objects AS
            SELECT ObjectID AS id, x, y FROM {readings}
            UNION ALL SELECT * FROM objects ANTI JOIN {readings} ON id = ObjectID
        """)
        run(f"""
            CREATE OR REPLACE TABLE answer_now AS
            WITH centred AS (
                     SELECT q.id, focal, x, y FROM queries q JOIN objects o ON focal = o.id
                 ),
                 across AS (SELECT *, {spread.format("x")} AS i FROM centred),
                 cells AS (SELECT *, {spread.format("y")} AS j FROM across),
                 placed AS (SELECT *, {place.format("x", cells)} AS i,
                            {place.format("y", cells)} AS j FROM objects)
            SELECT c.id AS query, o.id AS object
            FROM placed o JOIN cells c ON o.i = c.i AND o.j = c.j
            WHERE abs(o.x - c.x) <= {half} AND abs(o.y - c.y) <= {half} AND o.id <> c.focal
        """)
        counts = []
        for sign, one, other in ((1, "answer_now", "answer"), (-1, "answer", "answer_now")):
            found = run(f"""
                INSERT INTO changes SELECT query, {sign}, object, {number}
                FROM {one} ANTI JOIN {other} USING (query, object)
            """).fetchone()
            counts.append(int(found[0]) if found else 0)
        run("DROP TABLE answer")
        run("ALTER TABLE answer_now RENAME TO answer")
        run("COMMIT")
        return counts[0], counts[1]

    def close(self) -> None:
        self._connection.close()


def _cells(width: float) -> int:
    """Cells a side, so that each is at least that wide."""
    return max(1, min(FINEST, int(1 / (width * 1.000001))))


def _cell(x: str, y: str, cells: int) -> str:
    """The number of a cell; rows are three wider than the square, so that neighbours are not met
    around the rim."""
    return f"(floor(({x}) * {cells})::INTEGER + {cells + 3} * floor(({y}) * {cells})::INTEGER)"


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
