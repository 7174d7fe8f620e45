"""Answers held against engines that nobody here wrote: SciPy's k-d tree, and DuckDB."""

import math
from collections.abc import Iterable

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial import cKDTree

import place
from place.engine.slices import Segment
from place.model.delta import Delta
from place.model.reading import Advance
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import Session

OBJECTS, INSTANTS, EVERY = 20_000, 100, 10
"""Answers are recomputed at all instants; of EVERY so many objects one moves at each of them."""


def told(session: Session, stream: str, rows: dict[str, np.ndarray], instant: int) -> list[Delta]:
    """A whole instant as a segment, and the deltas that it causes."""
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    count = len(next(iter(rows.values())))
    columns = {**rows, "time": np.full(count, instant * SECOND), "gone": np.zeros(count, np.bool_)}
    changes = runtime.take([Segment(stream, pa.table(columns)), Advance(instant * SECOND, stream)])
    return [delta for change in changes for delta in change.deltas()]


class Held:
    """Answers that their deltas alone build up."""

    def __init__(self, session: Session, names: Iterable[str]) -> None:
        self.rows = {name: set(session.answer(name)) for name in names}

    def follow(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if delta.sign < 0:
                self.rows[delta.query].remove(delta.row)
        for delta in deltas:
            if delta.sign > 0:
                self.rows[delta.query].add(delta.row)


class World:
    """Cars on a random walk, in a session and beside it."""

    def __init__(self) -> None:
        self.session = place.connect(threads=2)
        self.session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING, speed DOUBLE)"
        )
        self.chance = np.random.default_rng(3)
        self.places = self.chance.random((OBJECTS, 2))
        self.speeds = self.chance.random(OBJECTS) * 100
        self.types = np.array(["Bus", "Car", "Taxi", "Truck"])[np.arange(OBJECTS) % 4]
        self.push(np.arange(OBJECTS), 0)

    def push(self, moved: np.ndarray, instant: int) -> list[Delta]:
        """Some cars report; what that changes."""
        rows = {
            "id": moved,
            "x": self.places[moved, 0],
            "y": self.places[moved, 1],
            "type": self.types[moved],
            "speed": self.speeds[moved],
        }
        return told(self.session, "Cars", rows, instant)

    def step(self, instant: int) -> list[Delta]:
        moved = np.flatnonzero(self.chance.integers(0, EVERY, OBJECTS) == 0)
        steps = self.chance.uniform(-0.02, 0.02, (len(moved), 2))
        self.places[moved] = np.clip(self.places[moved] + steps, 0, 1)
        self.speeds[moved] = self.chance.random(len(moved)) * 100
        return self.push(moved, instant)

    def table(self) -> pa.Table:
        return pa.table(
            {
                "id": np.arange(OBJECTS),
                "x": self.places[:, 0],
                "y": self.places[:, 1],
                "type": self.types,
                "speed": self.speeds,
            }
        )


def test_nearest_as_in_a_tree() -> None:
    world = World()
    focals = [17, 4711, 19_999]
    for focal in focals:
        world.session.sql(f"REGISTER QUERY m{focal} AS SELECT id FROM Cars kNN ('M', 10, {focal})")
    world.session.sql("REGISTER QUERY s AS SELECT id FROM Cars kNN (100, 0.5, 0.5)")
    held = Held(world.session, ["s", *(f"m{focal}" for focal in focals)])
    for instant in range(1, INSTANTS + 1):
        held.follow(world.step(instant))
        tree = cKDTree(world.places)
        _, found = tree.query(world.places[focals], k=11)
        for focal, near in zip(focals, found, strict=True):
            assert held.rows[f"m{focal}"] == {(i,) for i in near if i != focal}
        _, found = tree.query((0.5, 0.5), k=100)
        assert held.rows["s"] == {(i,) for i in found}


def test_nearest_of_each_as_in_a_tree() -> None:
    world, asking = World(), 500
    taxis = np.flatnonzero(world.types == "Taxi")
    world.session.sql(
        "REGISTER QUERY taxis AS SELECT a.id, b.id, DISTANCE(a, b) FROM Cars a, Cars b"
        f" WHERE a.id < {asking} AND b.type = 'Taxi' kNN (3, a)"
    )
    world.session.sql(
        "REGISTER QUERY others AS SELECT a.id, b.id FROM Cars a, Cars b"
        f" WHERE a.id < {asking} AND a.id <> b.id kNN (2, a)"
    )
    held = Held(world.session, ["taxis", "others"])
    for instant in range(1, INSTANTS + 1):
        held.follow(world.step(instant))
        asked = world.places[:asking]
        apart, found = cKDTree(world.places[taxis]).query(asked, k=3)
        near = {(row[0], row[1]): row[2] for row in held.rows["taxis"]}
        assert near.keys() == {(a, b) for a in range(asking) for b in taxis[found[a]].tolist()}
        expected = [apart[a, i] for a in range(asking) for i in range(3)]
        ours = [near[a, b] for a in range(asking) for b in taxis[found[a]].tolist()]
        assert ours == pytest.approx(expected, rel=1e-12, abs=1e-12)
        _, found = cKDTree(world.places).query(asked, k=3)
        assert held.rows["others"] == {
            (a, b) for a in range(asking) for b in found[a].tolist() if a != b
        }


QUERIES = {
    "per_type": (
        "SELECT type, COUNT(*) AS n, AVG(speed) AS v, MIN(speed) AS low, MAX(speed) AS high"
        " FROM Cars WHERE speed > 20 INSIDE (0.2, 0.2, 0.7, 0.7) GROUP BY type",
        "SELECT type, COUNT(*), fsum(speed) / COUNT(*), MIN(speed), MAX(speed) FROM cars"
        " WHERE speed > 20 AND x BETWEEN 0.2 AND 0.7 AND y BETWEEN 0.2 AND 0.7 GROUP BY type",
    ),
    "whole": (
        "SELECT COUNT(*) AS n, COUNT(DISTINCT type) AS t, MAX(id) AS m FROM Cars"
        " INSIDE (0.5, 0.5, 0.2)",
        "SELECT COUNT(*), COUNT(DISTINCT type), MAX(id) FROM cars"
        " WHERE (0.5 - x) * (0.5 - x) + (0.5 - y) * (0.5 - y) <= 0.2 * 0.2",
    ),
    "around": (
        "SELECT type, COUNT(*) AS n FROM Cars INSIDE ('M', 17, 0.3, 0.3) GROUP BY type"
        " HAVING COUNT(*) > 440",
        "SELECT c.type, COUNT(*) FROM cars c, cars f WHERE f.id = 17 AND c.id <> 17"
        " AND c.x BETWEEN f.x - 0.15 AND f.x + 0.15 AND c.y BETWEEN f.y - 0.15 AND f.y + 0.15"
        " GROUP BY c.type HAVING COUNT(*) > 440",
    ),
    "types": (
        "SELECT DISTINCT type FROM Cars WHERE speed > 99 INSIDE (0.4, 0.4, 0.5, 0.5)",
        "SELECT DISTINCT type FROM cars WHERE speed > 99"
        " AND x BETWEEN 0.4 AND 0.5 AND y BETWEEN 0.4 AND 0.5",
    ),
}


def test_aggregates_as_in_a_database() -> None:
    world = World()
    for name, (ours, _) in QUERIES.items():
        world.session.sql(f"REGISTER QUERY {name} AS {ours}")
    held = Held(world.session, QUERIES)
    database = duckdb.connect()
    for instant in range(1, INSTANTS + 1):
        held.follow(world.step(instant))
        database.register("cars", world.table())
        for name, (_, theirs) in QUERIES.items():
            expected = sorted(database.execute(theirs).fetchall())
            found = sorted(held.rows[name])
            assert len(found) == len(expected), name
            for row, other in zip(found, expected, strict=True):
                for value, their in zip(row, other, strict=True):
                    # DuckDB's sum may differ from the exact one in its last bits.
                    exact = not isinstance(their, float)
                    assert value == (their if exact else pytest.approx(their, rel=1e-13)), name


def test_a_million_changes_leave_no_trace() -> None:
    """AVG, MIN and COUNT over a region, of values of very different sizes, to the last bit."""
    count, ticks = 40_000, 60
    session = place.connect(threads=2)
    session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, v DOUBLE)")
    session.sql(
        "REGISTER QUERY q AS SELECT COUNT(*) AS n, MIN(v) AS low, AVG(v) AS mean FROM Cars"
        " INSIDE (0.25, 0, 0.75, 1)"
    )
    chance = np.random.default_rng(11)
    held = Held(session, ["q"])
    changes = 0
    inside = np.zeros(count, np.bool_)
    values = np.zeros(count)
    for tick in range(ticks):
        places = chance.random((count, 2))
        before, known = inside.copy(), values.copy()
        values = chance.normal(size=count) * 10.0 ** chance.integers(-12, 12, count)
        rows = {"id": np.arange(count), "x": places[:, 0], "y": places[:, 1], "v": values}
        held.follow(told(session, "Cars", rows, tick))
        inside = (places[:, 0] >= 0.25) & (places[:, 0] <= 0.75)
        changes += int((before != inside).sum() + 2 * (before & inside & (known != values)).sum())
        there = values[inside].tolist()
        assert held.rows["q"] == {(len(there), min(there), math.fsum(there) / len(there))}
    assert changes >= 1_000_000
