"""Areas and ways as conditions over columns: they hold where `place.plan.evaluate` says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Vector
from place.engine.layout import Polygons, lay_out
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.inside import inside_pairs
from place.kernels.paths import (
    approaches,
    first_meetings,
    near_edges,
    passing,
    places_ahead,
)
from place.model.path import edges_of, edges_of_line, scales
from place.model.shape import Circle, Shape
from place.model.space import Space
from place.plan.expression import Crossing, Near, Sweeps

NO_VECTORS = np.empty((0, 3))


def lies(x: Vector, y: Vector, area: Shape, space: Space) -> Vector:
    """Where places lie in a region."""
    size = max(len(x.values), len(y.values)) if min(len(x.values), len(y.values)) else 0
    found = _inside(_floats(x.values, size), _floats(y.values, size), area, space)
    return Vector(found, x.nulls | y.nulls)


def _inside(x: Floats, y: Floats, area: Shape, space: Space) -> Bools:
    polygons = Polygons()
    laid = lay_out([area], space, polygons)
    found = np.zeros(len(x), np.bool_)
    shapes = (laid.kinds, laid.params, *polygons.arrays())
    every = np.zeros(len(x), np.int64)
    places = np.stack([x, y], axis=1)
    inside_pairs(every, np.arange(len(x)), places, NO_VECTORS, *shapes, found)
    return found


def nears(near: Near, x: Vector, y: Vector) -> Vector:
    """Where places are in a region, or no farther than a distance from it."""
    size, area = _size([x, y]), near.area
    xs, ys = _floats(x.values, size), _floats(y.values, size)
    nulls = _nulls([x, y], size)
    if isinstance(area, Circle):
        grown = Circle(area.x, area.y, area.r + near.distance)
        return Vector(_inside(xs, ys, grown, near.space), nulls)
    edges = np.array(edges_of(area), np.float64)
    close = near_edges(xs, ys, edges, near.distance, near.space is Space.WGS84)
    return Vector(_inside(xs, ys, area, near.space) | (close > 0), nulls)


def sweeps(way: Sweeps, parts: Sequence[Vector]) -> Vector:
    """Where the ways of objects meet a region."""
    size = _size(parts)
    before_x, before_y, x, y = (_floats(part.values, size) for part in parts[:4])
    was, nulls = _nulls(parts[:2], size), _nulls(parts[2:4], size)
    before_x, before_y = np.where(was, x, before_x), np.where(was, y, before_y)
    sphere = way.space is Space.WGS84
    if way.ahead is None:
        ax, ay, bx, by = before_x, before_y, x, y
    else:
        since = np.where(_nulls(parts[4:], size), 0, _of_size(parts[4].values, size))
        ax, ay = x, y
        bx, by = places_ahead(before_x, before_y, x, y, since, way.ahead, sphere)
    found = _inside(ax, ay, way.area, way.space)
    is_place = (np.abs(bx) <= 180.0) & (np.abs(by) <= 90.0) if sphere else np.ones(size, np.bool_)
    ends = np.flatnonzero(is_place)
    found[ends] |= _inside(bx[ends], by[ends], way.area, way.space)
    if isinstance(way.area, Circle):
        circle, steps = way.area, scales(way.space, way.area.y)
        near = passing(ax, ay, bx, by, circle.x, circle.y, circle.r, *steps, sphere)
        return Vector(found | (near > 0), nulls)
    edges = np.array(edges_of(way.area), np.float64)
    meetings = first_meetings(ax, ay, bx, by, edges, sphere, True)
    return Vector(found | (meetings >= 0), nulls)


def crossings(way: Crossing, parts: Sequence[Vector]) -> Vector:
    """How far along their ways objects met a line."""
    size = _size(parts)
    ax, ay, bx, by = (_floats(part.values, size) for part in parts)
    edges = np.array(edges_of_line(way.line), np.float64)
    found = first_meetings(ax, ay, bx, by, edges, way.space is Space.WGS84, False)
    return Vector(found, _nulls(parts, size) | (found < 0))


def closest(space: Space, ahead: int, arguments: Sequence[Vector]) -> tuple[Floats, Bools]:
    """CPA: how near objects come to each other within a time."""
    size = _size(arguments)
    one, other = arguments[:6], arguments[6:]
    nulls = _nulls([*one[2:4], one[5], *other[2:4], other[5]], size)
    places, since, times = _moving(one, size)
    others, others_since, others_times = _moving(other, size)
    sphere = space is Space.WGS84
    found = approaches(places, others, since, others_since, times, others_times, ahead, sphere)
    return found, nulls


def _moving(parts: Sequence[Vector], size: int) -> tuple[Floats, Longs, Longs]:
    """Where objects were and are, how long ago they were there (0 if unknown), and when."""
    places = np.stack([_floats(part.values, size) for part in parts[:4]], axis=1)
    unknown = _nulls([*parts[:2], parts[4]], size)
    since = np.where(unknown, 0, _of_size(parts[4].values, size))
    return places, since, _of_size(parts[5].values, size).astype(np.int64, copy=False)


def _size(parts: Sequence[Vector]) -> int:
    sizes = [len(array) for part in parts for array in (part.values, part.nulls)]
    return max(sizes) if min(sizes) else 0


def _of_size(part: NDArray[Any], size: int) -> NDArray[Any]:
    return part if len(part) == size else np.repeat(part, size)


def _floats(part: NDArray[Any], size: int) -> Floats:
    return _of_size(part.astype(np.float64, copy=False), size)


def _nulls(parts: Sequence[Vector], size: int) -> Bools:
    found = np.zeros(size, np.bool_)
    for part in parts:
        found |= part.nulls
    return found
