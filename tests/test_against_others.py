"""Answers held against engines that nobody here wrote: SciPy's k-d tree, and DuckDB."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial import cKDTree

import place
from place.model.time import SECOND

OBJECTS, INSTANTS, EVERY = 20_000, 100, 10
"""Answers are recomputed at all instants; of EVERY so many objects one moves at each of them."""


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

    def push(self, moved: np.ndarray, instant: int) -> None:
        rows = {
            "id": moved,
            "x": self.places[moved, 0],
            "y": self.places[moved, 1],
            "type": self.types[moved],
            "speed": self.speeds[moved],
        }
        self.session.push("Cars", pa.table(rows), time=instant * SECOND)
        self.session.advance(instant * SECOND)

    def step(self, instant: int) -> None:
        moved = np.flatnonzero(self.chance.integers(0, EVERY, OBJECTS) == 0)
        steps = self.chance.uniform(-0.02, 0.02, (len(moved), 2))
        self.places[moved] = np.clip(self.places[moved] + steps, 0, 1)
        self.speeds[moved] = self.chance.random(len(moved)) * 100
        self.push(moved, instant)

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
    subscription = world.session.subscribe("s")
    held: set[tuple[object, ...]] = set()
    for instant in range(1, INSTANTS + 1):
        world.step(instant)
        tree = cKDTree(world.places)
        _, found = tree.query(world.places[focals], k=11)
        for focal, near in zip(focals, found, strict=True):
            assert set(world.session.answer(f"m{focal}")) == {(i,) for i in near if i != focal}
        _, found = tree.query((0.5, 0.5), k=100)
        for delta in subscription:
            (held.add if delta.sign > 0 else held.remove)(delta.row)
        assert held == {(i,) for i in found}


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
    subscriptions = {name: world.session.subscribe(name) for name in QUERIES}
    held: dict[str, set[tuple[object, ...]]] = {name: set() for name in QUERIES}
    database = duckdb.connect()
    for instant in range(1, INSTANTS + 1):
        world.step(instant)
        database.register("cars", world.table())
        for name, (_, theirs) in QUERIES.items():
            for delta in subscriptions[name]:
                (held[name].add if delta.sign > 0 else held[name].remove)(delta.row)
            expected = sorted(database.execute(theirs).fetchall())
            found = sorted(held[name])
            assert len(found) == len(expected), name
            for row, other in zip(found, expected, strict=True):
                for value, their in zip(row, other, strict=True):
                    # DuckDB's sum may differ from the exact one in its last bits.
                    exact = not isinstance(their, float)
                    assert value == (their if exact else pytest.approx(their, rel=1e-13)), name
