"""Triggers beside engines that nobody here wrote: DuckDB finds the same matches by self-joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from bench.buoys import Reports, drift
from bench.trigger_queries import STREAM_NAME
from bench.triggers import opened, worker_of
from place.engine.changes import Change
from place.engine.slices import Segment
from place.model.space import EARTH_RADIUS, Space
from place.model.time import SECOND

duckdb = pytest.importorskip("duckdb")

READINGS = 20_000
PLANE = "sqrt(pow({b}.x - {a}.x, 2) + pow({b}.y - {a}.y, 2))"
SPHERE = (
    f"{2 * EARTH_RADIUS!r} * asin(sqrt(pow(sin(radians({{b}}.y - {{a}}.y) / 2), 2)"
    " + cos(radians({a}.y)) * cos(radians({b}.y)) * pow(sin(radians({b}.x - {a}.x) / 2), 2)))"
)
Rows = Counter[tuple[int, ...]]

CASES = {
    "two, both directions": (
        "ab",
        "a.sst >= 29 AND b.wind <= 5 AND b.t - a.t IN [-300, 600] AND DISTANCE(a, b) < 60000",
        "a.sst >= 29 AND b.wind <= 5 AND b.t - a.t BETWEEN -300 * {s} AND 600 * {s}"
        " AND {ab} < 60000 AND a.n <> b.n",
    ),
    "two of one buoy, by comparisons": (
        "ab",
        "a.id = b.id AND b.sst > a.sst + 2 AND b.wind < a.wind AND b.t - a.t IN (0, 1400]",
        "a.id = b.id AND b.sst > a.sst + 2 AND b.wind < a.wind AND b.t > a.t"
        " AND b.t <= a.t + 1400 * {s}",
    ),
    "two, not too near": (
        "ab",
        "a.pressure >= 1016 AND b.humidity <= 72 AND a.id <> b.id AND b.t - a.t IN [0, 120]"
        " AND DISTANCE(a, b) BETWEEN 100000 AND 250000",
        "a.pressure >= 1016 AND b.humidity <= 72 AND a.id <> b.id"
        " AND b.t - a.t BETWEEN 0 AND 120 * {s} AND {ab} BETWEEN 100000 AND 250000",
    ),
    "three in a chain": (
        "abc",
        "a.sst >= 29 AND b.pressure <= 1006 AND c.wind >= 9 AND b.t - a.t IN (0, 900]"
        " AND c.t - b.t IN (60, 900] AND DISTANCE(a, b) <= 120000 AND DISTANCE(b, c) <= 120000",
        "a.sst >= 29 AND b.pressure <= 1006 AND c.wind >= 9 AND b.t > a.t"
        " AND b.t <= a.t + 900 * {s} AND c.t > b.t + 60 * {s} AND c.t <= b.t + 900 * {s}"
        " AND {ab} <= 120000 AND {bc} <= 120000",
    ),
    "three around one, compared": (
        "abc",
        "a.salinity >= 35.3 AND b.sst > a.sst AND c.sst < a.sst AND b.id <> c.id"
        " AND b.t - a.t IN [0, 400] AND c.t - a.t IN [-400, 0] AND DISTANCE(a, b) <= 50000"
        " AND DISTANCE(a, c) <= 50000",
        "a.salinity >= 35.3 AND b.sst > a.sst AND c.sst < a.sst AND b.id <> c.id"
        " AND b.t - a.t BETWEEN 0 AND 400 * {s} AND c.t - a.t BETWEEN -400 * {s} AND 0"
        " AND {ab} <= 50000 AND {ac} <= 50000 AND a.n <> b.n AND a.n <> c.n AND b.n <> c.n",
    ),
}


def told(statement: str, reports: Reports, space: Space) -> Rows:
    """The alerts of a trigger that tells whole numbers, in ticks of several sizes."""
    found: Rows = Counter()
    with opened(space.value, [statement]) as (session, _):
        worker = worker_of(session)
        columns = session.stream(STREAM_NAME).columns
        bounds = [0, 1, 700, 5_000, 5_300, len(reports)]
        for begin, end in pairwise(bounds):
            part = reports.part(begin, end).as_segment(columns)
            for change in worker.take([Segment(STREAM_NAME, part)]):
                assert isinstance(change, Change)
                values = [column.cast("int64").to_pylist() for column in change.columns]
                found.update(zip(*values, strict=True))
    return found


def selected(names: Sequence[str], condition: str, reports: Reports, space: Space) -> Rows:
    """The same by DuckDB."""
    connection: Any = duckdb.connect(":memory:")
    connection.register("given", reports.as_table())
    connection.execute("CREATE TABLE readings AS SELECT * FROM given")
    distance = PLANE if space is Space.PLANAR else SPHERE
    pairs = {a + b: distance.format(a=a, b=b) for a in names for b in names if a < b}
    columns = ", ".join(f"{name}.id, {name}.t" for name in names)
    sources = ", ".join(f"readings AS {name}" for name in names)
    where = condition.format(s=SECOND, **pairs)
    return Counter(connection.execute(f"SELECT {columns} FROM {sources} WHERE {where}").fetchall())


@pytest.mark.parametrize("space", list(Space), ids=lambda space: space.value)
@pytest.mark.parametrize("case", CASES)
def test_a_trigger_finds_what_duckdb_joins(case: str, space: Space) -> None:
    names, asked, joined = CASES[case]
    reports = drift(space, READINGS)
    sources = ", ".join(f"{STREAM_NAME} AS {name}" for name in names)
    alert = ", ".join(f"{name}.id, {name}.t" for name in names)
    statement = f"CREATE TRIGGER t0 FOR {sources} WHEN {asked} ALERT {alert}"
    expected = selected(names, joined, reports, space)
    assert len(expected) > 20
    assert told(statement, reports, space) == expected


def test_sequences_of_one_key_are_those_of_match_recognize() -> None:
    connection: Any = duckdb.connect(":memory:")
    connection.register("given", drift(Space.PLANAR, 100).as_table())
    query = (
        "SELECT * FROM given MATCH_RECOGNIZE (PARTITION BY id ORDER BY t MEASURES a.t AS t"
        " PATTERN (a b) DEFINE b AS b.sst > a.sst)"
    )
    try:
        connection.execute(query)
    except duckdb.Error as error:
        pytest.skip(f"DuckDB {duckdb.__version__} has no MATCH_RECOGNIZE: {error}")
    pytest.fail("DuckDB has MATCH_RECOGNIZE now: compare sequences with it")
