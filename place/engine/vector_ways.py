"""Areas and ways as conditions over columns: they hold where `place.plan.evaluate` says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.engine.area_table import AreaTable, Line, areas_of
from place.engine.columns import Dictionary, Vector
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.inside import inside_pairs
from place.kernels.paths import (
    approaches,
    first_meetings,
    near_edges,
    passing,
    places_ahead,
)
from place.model.shape import Circle, Shape
from place.model.space import Space

NO_VECTORS = np.empty((0, 3))


class Areas(NamedTuple):
    """The areas that rows are asked about, by their numbers in a table; one for all, or one for
    each."""

    table: AreaTable
    numbers: Longs
    space: Space

    @staticmethod
    def one(area: Shape | Line, space: Space, dictionary: Dictionary) -> Areas:
        """The same area for all rows."""
        table = areas_of(dictionary)
        return Areas(table, np.array([table.number(area, space)]), space)

    @staticmethod
    def of_texts(codes: NDArray[Any], space: Space, dictionary: Dictionary) -> Areas:
        """Areas that are given as texts."""
        table = areas_of(dictionary)
        return Areas(table, table.numbers(codes.astype(np.int64), dictionary.texts), space)

    def of_size(self, size: int) -> Longs:
        """The number of each of so many rows."""
        return _of_size(self.numbers, size)


def ask(
    question: str, parts: Sequence[Vector], areas: Areas, length: float | None = None
) -> Vector:
    """What an area is asked about places or ways: `LIES`, `NEAR` (a length), `SWEEPS` (perhaps
    ahead), `CROSSING`."""
    match question:
        case "LIES":
            return lies(parts[0], parts[1], areas)
        case "NEAR":
            assert length is not None
            return nears(parts[0], parts[1], areas, length)
        case "SWEEPS":
            return sweeps(parts, areas, None if length is None else int(length))
        case _:
            return crossings(parts, areas)


def lies(x: Vector, y: Vector, areas: Areas) -> Vector:
    """Where places lie in their regions."""
    size = max(len(x.values), len(y.values)) if min(len(x.values), len(y.values)) else 0
    found = _inside(_floats(x.values, size), _floats(y.values, size), areas.of_size(size), areas)
    return Vector(found, x.nulls | y.nulls)


def _inside(x: Floats, y: Floats, numbers: Longs, areas: Areas) -> Bools:
    found = np.zeros(len(x), np.bool_)
    places = np.stack([x, y], axis=1)
    shapes = areas.table.laid().shapes
    inside_pairs(numbers, np.arange(len(x)), places, NO_VECTORS, *shapes, found)
    return found


def nears(x: Vector, y: Vector, areas: Areas, distance: float) -> Vector:
    """Where places are in their regions, or no farther than a distance from them."""
    size = _size([x, y])
    xs, ys, numbers = _floats(x.values, size), _floats(y.values, size), areas.of_size(size)
    laid, sphere = areas.table.laid(), areas.space is Space.WGS84
    grown = _grown(areas, distance)
    found = _inside(xs, ys, grown.of_size(size), grown)
    close = near_edges(xs, ys, numbers, laid.edges, laid.edge_starts, distance, sphere)
    return Vector(found | (close > 0), _nulls([x, y], size))


def _grown(areas: Areas, distance: float) -> Areas:
    """The same areas, with circles that are larger by a distance."""
    circles = areas.table.laid().circles
    used, places = np.unique(areas.numbers, return_inverse=True)
    for k, number in enumerate(used.tolist()):
        x, y, r, *_ = circles[number].tolist()
        if r == r:
            used[k] = areas.table.number(Circle(x, y, r + distance), areas.space)
    return areas._replace(numbers=used[places])


def sweeps(parts: Sequence[Vector], areas: Areas, ahead: int | None) -> Vector:
    """Where the ways of objects meet their regions."""
    size = _size(parts)
    before_x, before_y, x, y = (_floats(part.values, size) for part in parts[:4])
    was, nulls = _nulls(parts[:2], size), _nulls(parts[2:4], size)
    before_x, before_y = np.where(was, x, before_x), np.where(was, y, before_y)
    sphere, numbers = areas.space is Space.WGS84, areas.of_size(size)
    if ahead is None:
        ax, ay, bx, by = before_x, before_y, x, y
    else:
        since = np.where(_nulls(parts[4:], size), 0, _of_size(parts[4].values, size))
        ax, ay = x, y
        bx, by = places_ahead(before_x, before_y, x, y, since, ahead, sphere)
    found = _inside(ax, ay, numbers, areas)
    is_place = (np.abs(bx) <= 180.0) & (np.abs(by) <= 90.0) if sphere else np.ones(size, np.bool_)
    ends = np.flatnonzero(is_place)
    found[ends] |= _inside(bx[ends], by[ends], numbers[ends], areas)
    laid = areas.table.laid()
    found |= passing(ax, ay, bx, by, numbers, laid.circles, sphere) > 0
    edges = (laid.edges, laid.edge_starts)
    found |= first_meetings(ax, ay, bx, by, numbers, *edges, sphere, True) >= 0
    return Vector(found, nulls)


def crossings(parts: Sequence[Vector], areas: Areas) -> Vector:
    """How far along their ways objects met their lines."""
    size = _size(parts)
    ax, ay, bx, by = (_floats(part.values, size) for part in parts)
    laid, sphere = areas.table.laid(), areas.space is Space.WGS84
    edges = (laid.edges, laid.edge_starts)
    found = first_meetings(ax, ay, bx, by, areas.of_size(size), *edges, sphere, False)
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
