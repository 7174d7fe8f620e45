"""The city of `place bench stream`: vehicles that drive in it, and the regions that are watched.

Everything is made in metres from the south-western corner and then told in the positions of a
space, so that both spaces see the same drives: metres in the plane, degrees on the sphere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.world import Floats
from place.model.schema import Column
from place.model.segment import segment_schema
from place.model.shape import Circle, Polygon, Rectangle, Shape
from place.model.space import METRES_PER_DEGREE, Space
from place.model.time import SECOND

Numbers = NDArray[np.int64]

MIDDLE, DEGREES = np.array([-122.43, 37.76]), np.array([0.2, 0.15])
"""San Francisco, and how far it reaches from west to east and from south to north."""
PER_DEGREE = METRES_PER_DEGREE * np.array([math.cos(math.radians(MIDDLE[1])), 1.0])
CITY: Floats = DEGREES * PER_DEGREE
"""The same in metres: 17.6 by 16.7 km."""
VEHICLES = 500
EVERY = 0.16
"""Seconds between two readings on average: a vehicle reports about every 80 seconds."""
SLOWEST, FASTEST = 10.0, 20.0
"""Metres a second."""
KINDS = np.array(["Taxi", "Truck", "Bus"])
START = 1_767_225_600 * SECOND
"""2026-01-01, when the first vehicle reports."""
DELTAS = 5.0
"""Deltas for each reading that all regions together are made for."""
STEPS = np.array([420.0, 740.0, 1000.0, 1280.0, 1750.0])
"""How far apart two readings of a vehicle are, in metres: one in five is about each of these."""
SHAPES = ("circle", "rectangle", "polygon")


@dataclass(frozen=True)
class Readings:
    """Readings by columns, in the order of their times, which are microseconds since 1970."""

    keys: Numbers
    places: Floats
    speeds: Floats
    kinds: NDArray[np.str_]
    times: Numbers

    def __len__(self) -> int:
        return len(self.keys)

    def as_segment(self, columns: Sequence[Column]) -> pa.Table:
        """The form in which the engine takes readings: none of them leaves."""
        x, y = (np.ascontiguousarray(values) for values in self.places.T)
        gone = np.zeros(len(self), np.bool_)
        values = (self.keys, x, y, self.speeds, self.kinds, self.times, self.times, gone)
        return pa.Table.from_arrays(list(map(pa.array, values)), schema=segment_schema(columns))


def drive(
    space: Space,
    count: int,
    *,
    one_by_one: bool = False,
    seed: int = 1,
    vehicles: int = VEHICLES,
    every: float = EVERY,
) -> Readings:
    """Readings of all vehicles, which report round by round, in another order in each.

    A vehicle may turn at a right angle between two readings, and turns back where the city ends.
    Times are whole seconds; with `one_by_one`, each reading has a microsecond of its own.
    """
    chance = np.random.default_rng(seed)
    rounds = -(-count // vehicles)
    shape = (rounds, vehicles)
    keys = chance.permuted(np.tile(np.arange(vehicles), (rounds, 1)), axis=1)
    moments = np.cumsum(chance.exponential(every, rounds * vehicles)).reshape(shape)
    # From here on columns are vehicles, and rows what they do from one reading to the next.
    gaps = np.diff(np.take_along_axis(moments, np.argsort(keys, axis=1), axis=1), axis=0)
    gaps = np.concatenate([np.zeros((1, vehicles)), gaps])
    speeds = chance.uniform(SLOWEST, FASTEST, shape)
    turns = chance.choice([0.0, 0.0, 0.5, -0.5], shape) * np.pi
    after = chance.uniform(0, 2 * np.pi, vehicles) + np.cumsum(turns, axis=0)
    before, share = after - turns, chance.random(shape)
    metres = np.empty((*shape, 2))
    for axis, along in enumerate((np.cos, np.sin)):
        ways = speeds * gaps * (share * along(before) + (1 - share) * along(after))
        straight = chance.uniform(0, CITY[axis], vehicles) + np.cumsum(ways, axis=0)
        metres[:, :, axis] = CITY[axis] - np.abs(CITY[axis] - straight % (2 * CITY[axis]))
    told = (np.arange(rounds)[:, None], keys)
    return Readings(
        keys.ravel()[:count],
        positions(space, metres[told].reshape(-1, 2)[:count]),
        speeds[told].ravel()[:count],
        KINDS[keys.ravel()[:count] % len(KINDS)],
        START + _times(moments.ravel()[:count], one_by_one),
    )


def _times(moments: Floats, one_by_one: bool) -> Numbers:
    """Microseconds after the start: of the whole second, or one that no other reading has."""
    if not one_by_one:
        return np.floor(moments).astype(np.int64) * SECOND
    order = np.arange(len(moments))
    told = np.floor(moments * SECOND).astype(np.int64)
    alone: Numbers = np.maximum.accumulate(told - order) + order
    return alone


def positions(space: Space, metres: Floats) -> Floats:
    """Metres from the south-western corner as the positions of a space."""
    if space is Space.PLANAR:
        return metres
    found: Floats = MIDDLE - DEGREES / 2 + metres / PER_DEGREE
    return found


def radius_for(regions: int) -> float:
    """The radius with which that many circles in the city have about five deltas a reading.

    A step changes the membership of all circles whose middle is within the radius of one of its
    ends and not of the other: the area of two circles without what they share.
    """
    low, high = 0.0, float(CITY.min()) / 4
    for _ in range(50):
        radius = (low + high) / 2
        half = np.minimum(STEPS / 2 / radius, 1.0)
        shared = 2 * radius**2 * (np.arccos(half) - half * np.sqrt(1 - half**2))
        if 2 * regions * np.mean(math.pi * radius**2 - shared) / CITY.prod() < DELTAS:
            low = radius
        else:
            high = radius
    return high


def make_shapes(space: Space, kind: str, count: int, seed: int = 1) -> list[Shape]:
    """Regions all over the city, of one kind or a third of each, all about as large."""
    chance = np.random.default_rng(seed)
    radius = radius_for(count)
    found: list[Shape] = []
    for number in range(count):
        middle = chance.uniform(0, CITY)
        size = radius * chance.uniform(0.8, 1.2)
        which = SHAPES[number % 3] if kind == "mixed" else kind
        if which == "circle":
            x, y = positions(space, middle).tolist()
            found.append(Circle(x, y, float(size)))
        elif which == "rectangle":
            slim = math.sqrt(chance.uniform(0.5, 2.0))
            half = math.sqrt(math.pi) * size / 2 * np.array([slim, 1 / slim])
            corners = positions(space, np.stack([middle - half, middle + half]))
            found.append(Rectangle(*corners.ravel().tolist()))
        else:
            found.append(_make_polygon(chance, space, middle, size))
    return found


def _make_polygon(
    chance: np.random.Generator, space: Space, middle: Floats, radius: float
) -> Polygon:
    """An irregular polygon of 12 to 40 corners; one in three has a hole in the middle."""
    rings = [_make_ring(chance, radius, int(chance.integers(12, 41)))]
    if chance.random() < 1 / 3:
        rings.append(_make_ring(chance, radius / 4, int(chance.integers(5, 9))))
    told = [positions(space, middle + ring).tolist() for ring in rings]
    return Polygon(tuple(tuple((x, y) for x, y in ring) for ring in told))


def _make_ring(chance: np.random.Generator, radius: float, corners: int) -> Floats:
    """Corners one after the other around the middle, none of them far from where it is due."""
    angles = 2 * np.pi / corners * (np.arange(corners) + chance.uniform(-0.4, 0.4, corners))
    lengths = radius * chance.uniform(0.7, 1.3, corners)
    return np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=1)


def written(shape: Shape) -> str:
    """A shape as it stands after INSIDE.

    >>> written(Circle(0.5, 0.25, 10.0))
    '(0.5, 0.25, 10.0)'
    """
    if isinstance(shape, Circle):
        return f"({shape.x!r}, {shape.y!r}, {shape.r!r})"
    if isinstance(shape, Rectangle):
        return f"({shape.x1!r}, {shape.y1!r}, {shape.x2!r}, {shape.y2!r})"
    rings = (", ".join(f"{x!r} {y!r}" for x, y in ring) for ring in shape.rings)
    return f"POLYGON ({', '.join(f'({ring})' for ring in rings)})"
