"""The rival of `place bench stream`: the same deltas in bulk, by NumPy and Shapely.

It sees all readings at once and is done with each vehicle before it begins with the next: no
engine that answers as readings come can do so. Regions are prepared beforehand, as queries are
registered beforehand; what it does with readings is timed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.rivals import library, told_apart
from bench.stream_city import VEHICLES, Numbers, Readings
from bench.world import Floats
from place.model.shape import Circle, Polygon, Rectangle, Shape
from place.model.space import EARTH_RADIUS, METRES_PER_DEGREE, Space, measure_of

AT_ONCE = 300
"""Readings that are compared with all moving circles together: the distances fit in a cache."""
CLOSE = 1e-9
"""Who is nearer to an edge than this, relatively, may be in by one library and out by another."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Deltas:
    """Deltas by columns: the number of the query, the vehicle, the instant, and the sign."""

    queries: Numbers
    keys: Numbers
    instants: Numbers
    signs: Numbers

    def __len__(self) -> int:
        return len(self.queries)


class Rival(Protocol):
    def find(self, readings: Readings) -> Deltas:
        """All deltas of these readings, which are the first ones."""

    def is_close(self, query: int, readings: Readings) -> bool:
        """Is a reading so near to the query's edge that libraries may differ?"""


def vectors(space: Space, places: Floats) -> Floats:
    """What distances are measured between: positions, or unit vectors on the sphere."""
    if space is Space.PLANAR:
        return places
    longitude, latitude = np.radians(places).T
    shrink = np.cos(latitude)
    parts = shrink * np.cos(longitude), shrink * np.sin(longitude), np.sin(latitude)
    return np.stack(parts, axis=1)


def measures(a: Floats, b: Floats) -> Floats:
    """The squared distances of vectors, or the squared chords."""
    parts = a[..., 0] - b[..., 0]
    found: Floats = parts * parts
    for axis in range(1, a.shape[-1]):
        parts = a[..., axis] - b[..., axis]
        found += parts * parts
    return found


def last_ones(readings: Readings) -> Numbers:
    """Of each vehicle at each instant the last reading, by vehicle and then by time."""
    order = np.argsort(readings.keys, kind="stable")
    keys, times = readings.keys[order], readings.times[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (keys[1:] != keys[:-1]) | (times[1:] != times[:-1])
    found: Numbers = order[is_last]
    return found


class FixedRegions:
    """Regions that stand: a tree of all readings is asked for all boxes, and then each shape.

    Both ends of a step are compared, and what they differ in are the deltas.
    """

    def __init__(self, shapes: Sequence[Shape], space: Space) -> None:
        self._shapely = library("shapely")
        self._shapes, self._space = shapes, space
        self._boxes = self._shapely.box(*np.array([_box(shape, space) for shape in shapes]).T)
        numbers = {
            kind: np.array([i for i, shape in enumerate(shapes) if isinstance(shape, kind)], int)
            for kind in (Circle, Polygon)
        }
        self._is_circle, self._is_polygon = np.zeros((2, len(shapes)), np.bool_)
        self._is_circle[numbers[Circle]] = self._is_polygon[numbers[Polygon]] = True
        circles = [shape for shape in shapes if isinstance(shape, Circle)]
        self._centres = np.full((len(shapes), 2 if space is Space.PLANAR else 3), np.nan)
        self._limits = np.full(len(shapes), np.nan)
        if circles:
            at = np.array([(circle.x, circle.y) for circle in circles])
            self._centres[numbers[Circle]] = vectors(space, at)
            self._limits[numbers[Circle]] = [measure_of(space, circle.r) for circle in circles]
        self._polygons = np.full(len(shapes), None, object)
        for number in numbers[Polygon].tolist():
            self._polygons[number] = self._polygon(number)
        self._shapely.prepare(self._polygons)

    def _polygon(self, number: int) -> Any:
        shape = self._shapes[number]
        assert isinstance(shape, Polygon)
        return self._shapely.Polygon(shape.rings[0], shape.rings[1:])

    def find(self, readings: Readings) -> Deltas:
        rows = last_ones(readings)
        keys, times, size = readings.keys[rows], readings.times[rows], len(rows)
        regions, members = self._members(readings.places[rows])
        new = regions * size + members
        # Whoever is within after a reading is so before the next one of the same vehicle.
        stays = np.append(keys[1:] == keys[:-1], False)
        changes = told_apart(new[stays[members]] + 1, new)
        queries, at = np.divmod(changes >> 1, size)
        return Deltas(queries, keys[at], times[at], (changes & 1) * 2 - 1)

    def _members(self, places: Floats) -> tuple[Numbers, Numbers]:
        """Pairs of regions and readings within them; a box is all that a rectangle asks for."""
        tree = self._shapely.STRtree(self._shapely.points(places))
        regions, members = tree.query(self._boxes)
        within = np.ones(len(regions), np.bool_)
        if self._is_circle.any():
            mine = np.flatnonzero(self._is_circle[regions])
            of, at = regions[mine], vectors(self._space, places)[members[mine]]
            within[mine] = measures(self._centres[of], at) <= self._limits[of]
        if self._is_polygon.any():
            mine = np.flatnonzero(self._is_polygon[regions])
            x, y = places[members[mine]].T
            within[mine] = self._shapely.intersects_xy(self._polygons[regions[mine]], x, y)
        return regions[within].astype(np.int64), members[within].astype(np.int64)

    def is_close(self, query: int, readings: Readings) -> bool:
        shape, places = self._shapes[query], readings.places
        if isinstance(shape, Rectangle):
            return False  # comparisons round nothing
        if isinstance(shape, Circle):
            found = measures(self._centres[query], vectors(self._space, places))
            return bool((np.abs(found / self._limits[query] - 1) < CLOSE).any())
        edge = self._polygon(query).boundary
        x1, _, x2, _ = edge.bounds
        apart = self._shapely.distance(edge, self._shapely.points(places))
        return bool((apart < CLOSE * (x2 - x1)).any())


def _box(shape: Shape, space: Space) -> tuple[float, float, float, float]:
    """The box of a shape, of a circle a little larger than need be."""
    if isinstance(shape, Rectangle):
        return shape.x1, shape.y1, shape.x2, shape.y2
    if isinstance(shape, Polygon):
        xs, ys = zip(*shape.rings[0], strict=True)
        return min(xs), min(ys), max(xs), max(ys)
    width = height = shape.r
    if space is Space.WGS84:
        angle = shape.r / EARTH_RADIUS
        height = shape.r / METRES_PER_DEGREE
        width = math.degrees(math.asin(math.sin(angle) / math.cos(math.radians(shape.y))))
    width, height = width * (1 + 1e-6), height * (1 + 1e-6)
    return shape.x - width, shape.y - height, shape.x + width, shape.y + height


class MovingCircles:
    """Circles around vehicles: at each instant, those who reported are compared with all circles,
    and the circles whose vehicle reported with all vehicles, before the instant and after it.
    """

    def __init__(self, focals: Numbers, radius: float, space: Space) -> None:
        self._focals, self._space = focals, space
        self._limit = measure_of(space, radius)

    def find(self, readings: Readings) -> Deltas:
        rows = np.sort(last_ones(readings))
        instants, at = np.unique(readings.times[rows], return_inverse=True)
        keys = readings.keys[rows]
        places = vectors(self._space, readings.places[rows])
        places = np.concatenate([places, np.full((1, places.shape[1]), np.nan)])
        last = np.full(VEHICLES, -1)
        found: list[Numbers] = []
        step = -(-AT_ONCE * len(instants) // len(rows))
        for first in range(0, len(instants), step):
            low, high = np.searchsorted(at, [first, first + step])
            # The newest reading of each vehicle before the first instant and after each one.
            newest = np.full((min(step, len(instants) - first) + 1, VEHICLES), -1)
            newest[0] = last
            newest[at[low:high] - first + 1, keys[low:high]] = np.arange(low, high)
            newest = np.maximum.accumulate(newest, axis=0)
            last = newest[-1]
            reported = np.zeros(newest.shape, np.bool_)
            reported[at[low:high] - first + 1, keys[low:high]] = True
            found += self._compare(places, newest, reported, first)
        queries, who, when, signs = np.concatenate(found, axis=1)
        return Deltas(queries, who, instants[when], signs)

    def _compare(
        self, places: Floats, newest: Numbers, reported: Bools, first: int
    ) -> list[Numbers]:
        """The number of the query, the vehicle, the instant and the sign of each delta."""
        focals = self._focals
        circles = newest[:, focals]
        when, who = np.nonzero(reported)
        came, left = (
            self._within(places, newest[when - before, who], circles[when - before])
            & (who[:, None] != focals)
            for before in (0, 1)
        )
        i, query = np.nonzero(came != left)
        signs = np.where(came[i, query], 1, -1)
        found = [np.stack([query, who[i], first + when[i] - 1, signs])]
        # Those who did not report may be left behind, or reached, by a circle that moves.
        when, query = np.nonzero(reported[:, focals])
        came, left = (
            self._within(places, circles[when - before, query], newest[when - before])
            & (np.arange(VEHICLES) != focals[query][:, None])
            & ~reported[when]
            for before in (0, 1)
        )
        i, who = np.nonzero(came != left)
        signs = np.where(came[i, who], 1, -1)
        found.append(np.stack([query[i], who, first + when[i] - 1, signs]))
        return found

    def _within(self, places: Floats, one: Numbers, many: Numbers) -> Bools:
        """Is each of many readings near to the one of its row? One that is missing is not."""
        found: Bools = measures(places[one][:, None], places[many]) <= self._limit
        return found

    def is_close(self, query: int, readings: Readings) -> bool:
        return False
