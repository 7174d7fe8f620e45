"""kNN around groups and RNN through the engine, beside SciPy and beside the definition.

SciPy judges places at random, where nobody is as far as anybody else; the definition judges places
that coincide, overflow or lie at poles.
"""

from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

import place
from place.model.space import EARTH_RADIUS, Point, Space
from place.runtime.reference_nearest import nearest_together, reverse_nearest
from place.session import Session
from tests.test_nearest import PLANAR, SPHERE, Places, globe, uniform

Floats = NDArray[np.float64]
TOTALS = ("SUM", "MAX", "MIN")


class Town:
    """Objects that move, queries around fixed points and around some of them, and their answers."""

    def __init__(self, space: Space, objects: int, queries: int, cells: str, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.space, self.queries, self.clock = space, queries, count(1)
        self.session: Session = place.connect(cells=cells)
        self.session.sql(
            f"CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (space = '{space.value}')"
        )
        self.places = np.full((objects, 2), np.nan)
        self.ks = [1, 2, 5, 1, 3] * queries

    def register(self, points: Floats) -> None:
        """Queries of all kinds; the focal object of the n-th is the object n."""
        self.points = points
        for n in range(self.queries):
            (x, y), (u, v) = points[n].tolist(), points[n - 1].tolist()
            k, total = self.ks[n], TOTALS[n % 3]
            group = f"POINT ({x!r}, {y!r}), POINT ({u!r}, {v!r}), FOCAL {n}"
            for name, clause in (
                ("point", f"RNN ({k}, {x!r}, {y!r})"),
                ("led", f"RNN ('M', {k}, {n})"),
                ("group", f"kNN ({k}, {total} OF ({group}))"),
            ):
                self.session.sql(f"REGISTER QUERY {name}{n} AS SELECT id FROM Cars {clause}")

    def move(self, share: float, places: Places) -> None:
        """Some objects go somewhere else."""
        moved = np.flatnonzero(self.chance.random(len(self.places)) < share)
        there = places(self.chance, len(self.places))
        self.places[moved] = there[moved]
        rows = [(i, *self.places[i].tolist()) for i in moved.tolist()]
        self.session.push("Cars", rows, next(self.clock))

    def answer(self, name: str) -> set[int]:
        return {int(row[0]) for row in self.session.answer(name)}

    def close(self) -> None:
        self.session.close()


def distances(space: Space, some: Floats, others: Floats) -> Floats:
    """How far each of some places is from each of others, by SciPy."""
    if space is Space.PLANAR:
        found: Floats = cdist(some, others)
        return found
    vectors = []
    for each in (some, others):
        x, y = np.radians(each.T)
        vectors.append(np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)], axis=1))
    return 2 * EARTH_RADIUS * np.arcsin(np.minimum(1.0, cdist(*vectors) / 2))


def by_scipy(town: Town, n: int, near: Floats) -> dict[str, set[int]]:
    """The answers of the n-th queries; `near` are the distances from each object to all, in order:
    the first is that to itself."""
    k, here = town.ks[n], town.places
    others = np.arange(len(here)) != n
    to_point = distances(town.space, here, town.points[[n]])[:, 0]
    to_focal = distances(town.space, here, here[[n]])[:, 0]
    centers = np.stack([town.points[n], town.points[n - 1], here[n]])
    far = distances(town.space, here, centers)
    total = {"SUM": far.sum(axis=1), "MAX": far.max(axis=1), "MIN": far.min(axis=1)}[TOTALS[n % 3]]
    total[n] = np.inf
    return {
        "point": set(np.flatnonzero(to_point <= near[:, k]).tolist()),
        "led": set(np.flatnonzero(others & (to_focal <= near[:, k])).tolist()),
        "group": set(np.argsort(total)[:k].tolist()),
    }


def run_beside_scipy(
    space: Space, objects: int, queries: int, instants: int, cells: str, seed: int
) -> None:
    places = uniform if space is Space.PLANAR else globe
    town = Town(space, objects, queries, cells, seed)
    town.move(1.0, places)
    town.register(places(town.chance, queries))
    for instant in range(instants):
        town.move(float(town.chance.choice([0.02, 0.3, 1.0])), places)
        near = np.sort(distances(space, town.places, town.places), axis=1)
        for n in range(queries):
            for name, expected in by_scipy(town, n, near).items():
                assert town.answer(f"{name}{n}") == expected, (instant, name, n)
    town.close()


@pytest.mark.parametrize(
    ("space", "cells"), [(Space.PLANAR, "1x1"), (Space.PLANAR, "2x1"), (Space.WGS84, "1x1")]
)
def test_beside_scipy(space: Space, cells: str) -> None:
    run_beside_scipy(space, objects=60, queries=3, instants=34, cells=cells, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("cells", ["1x1", "2x2", "3x1", "1x3"])
@pytest.mark.parametrize("space", list(Space))
def test_beside_scipy_at_length(space: Space, cells: str) -> None:
    run_beside_scipy(space, objects=400, queries=5, instants=100, cells=cells, seed=2)


def by_definition(town: Town, n: int) -> dict[str, set[int]]:
    """The answers of the n-th queries, by what they mean."""

    class Car:
        def __init__(self, number: int) -> None:
            self.key = self.order = number

    k = town.ks[n]
    cars = {Car(i): (x, y) for i, (x, y) in enumerate(town.places.tolist())}
    places: dict[int, Point] = {car.key: where for car, where in cars.items()}
    rest = {car: where for car, where in cars.items() if car.key != n}
    point, before = town.points[n].tolist(), town.points[n - 1].tolist()
    found = {
        "point": reverse_nearest((point[0], point[1]), None, k, town.space, cars),
        "led": reverse_nearest(places[n], n, k, town.space, rest),
        "group": nearest_together(
            [(point[0], point[1]), (before[0], before[1]), places[n]],
            TOTALS[n % 3],
            k,
            town.space,
            rest,
        ),
    }
    return {name: {car.key for car in some} for name, some in found.items()}


@pytest.mark.parametrize("places", [*PLANAR, *SPHERE])
def test_beside_the_definition(places: Places) -> None:
    space = Space.WGS84 if places in SPHERE else Space.PLANAR
    town = Town(space, 25, 3, "1x1", seed=3)
    town.move(1.0, places)
    town.register(places(town.chance, 3))
    for _ in range(4):
        town.move(float(town.chance.choice([0.1, 1.0])), places)
        for n in range(3):
            for name, expected in by_definition(town, n).items():
                assert town.answer(f"{name}{n}") == expected, (name, n)
    town.close()


def test_scipy_finds_the_same_circles() -> None:
    """The circle to the k-th nearest other, as a tree of SciPy has it, is the one that counts."""
    town = Town(Space.PLANAR, 300, 2, "1x1", seed=4)
    town.move(1.0, uniform)
    town.register(uniform(town.chance, 2))
    found, _ = cKDTree(town.places).query(town.places, town.ks[1] + 1)
    x, y = town.points[1]
    near = np.hypot(town.places[:, 0] - x, town.places[:, 1] - y) <= found[:, -1]
    assert town.answer("point1") == set(np.flatnonzero(near).tolist())
    town.close()
