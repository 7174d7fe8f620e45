"""Who came near whom, and who is no longer: pairs of points that move, old places against new.

Points are rows of three numbers: x, y and 0 in the plane, unit vectors on the sphere; NaN is
nowhere. Two points are near if their DISTANCE is within a reach, by the same expressions as
`place/model/space.py`: a measure decides all but those that lie on the border to a rounding.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Bools, Floats, Ints
from place.kernels.order import Pool

EARTH_RADIUS = 6_371_008.8
SURE = 1e-9
"""How far, in relation to the reach, a measure has to be from the border to decide."""
FINER = 2.0
"""So many squares are as wide as the reach."""
MOST_SQUARES = 2048
"""Squares along a side of the grid."""
PIECE = 1 << 14
"""Pairs for which there is room at first."""


class NearChanges(NamedTuple):
    """Pairs that came near each other, and pairs that are near no more, as rows of both lists."""

    came: tuple[Ints, Ints]
    left: tuple[Ints, Ints]


class Reach(NamedTuple):
    """Within which DISTANCE points are near: the length, whether it is less or equal (or only
    less), where measures are sure of it, and how far coordinates of near points are apart."""

    length: float
    closed: bool
    sphere: bool
    sure: float
    unsure: float
    span: float


def reach_of(length: float, *, closed: bool, sphere: bool) -> Reach:
    """A reach of some length, in metres on the sphere."""
    span = length
    if sphere:
        span = 2 * math.sin(min(length / (2 * EARTH_RADIUS), math.pi / 2))
    measure = span * span
    return Reach(
        length,
        closed,
        sphere,
        measure * (1 - SURE),
        measure * (1 + SURE) + 1e-300,
        span * (1 + SURE) + 1e-12,
    )


def near_changes(
    before: tuple[Floats, Floats],
    after: tuple[Floats, Floats],
    moved: tuple[Bools, Bools],
    reach: Reach,
    threads: int = 1,
) -> NearChanges:
    """The pairs of a point of the first list and one of the second that came near each other or
    are near no more. What has not moved has the same place before and after."""
    pool = Pool(threads)
    came = _walked(after, before, moved, reach, pool)
    left = _walked(before, after, moved, reach, pool)
    return NearChanges(came, left)


def _walked(
    now: tuple[Floats, Floats],
    then: tuple[Floats, Floats],
    moved: tuple[Bools, Bools],
    reach: Reach,
    pool: Pool,
) -> tuple[Ints, Ints]:
    """The pairs that are near in one state and not in the other."""
    grid = _grid_of(now[1], reach.span)
    laid = _lay(now[1], then[1], moved[1], *grid)
    # A list beside itself: each two points are looked at once, and told both ways.
    is_self = now[0] is now[1] and then[0] is then[1] and moved[0] is moved[1]
    asked = laid if is_self else _lay(now[0], then[0], moved[0], *grid)

    def walk(begin: int, end: int) -> tuple[Ints, Ints]:
        work = (begin, end, is_self, *asked[:4], *laid, *grid, *reach)
        found: tuple[Ints, Ints] = _walk(*work)
        return found

    parts = pool.map(partial(walk, *cut) for cut in pool.cut(len(asked[0])))
    first, second = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    if is_self:
        return np.concatenate([first, second]), np.concatenate([second, first])
    return first, second


def _grid_of(points: Floats, span: float) -> tuple[Floats, Floats, Ints]:
    """The least corner of a grid, its scale, and its squares along each side."""
    low, high = _bounds(points)
    if low[0] > high[0]:
        return np.zeros(3), np.ones(3), np.ones(3, np.int32)
    extent = np.maximum(high - low, 1e-300)
    most = max(1.0, 4.0 * len(points))
    size = np.full(3, max(span / FINER, 1e-300))
    squares = np.clip(np.ceil(extent / size), 1, MOST_SQUARES)
    while squares.prod() > most:  # fewer squares than points need no more than they do
        size *= 1.25
        squares = np.clip(np.ceil(extent / size), 1, MOST_SQUARES)
    return low, squares / extent, squares.astype(np.int32)


@njit(nogil=True, cache=True)
def _bounds(points):
    """The least and the greatest of each coordinate."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for i in range(len(points)):
        for axis in range(3):
            low[axis] = min(low[axis], points[i, axis])
            high[axis] = max(high[axis], points[i, axis])
    return low, high


@njit(nogil=True, cache=True, inline="always")
def _square(value, low, scale, squares):
    at = int((value - low) * scale)
    return 0 if at < 0 else (squares - 1 if at >= squares else at)


@njit(nogil=True, cache=True, inline="always")
def _cell(points, i, low, scale, squares):
    x = _square(points[i, 0], low[0], scale[0], squares[0])
    y = _square(points[i, 1], low[1], scale[1], squares[1])
    z = _square(points[i, 2], low[2], scale[2], squares[2])
    return (z * squares[1] + y) * squares[0] + x


@njit(nogil=True, cache=True)
def _lay(points, others, moved, low, scale, squares):
    """Points in the order of their squares, where they are in the other state, whether they moved,
    their names, and where each square begins."""
    count = squares[0] * squares[1] * squares[2]
    starts = np.zeros(count + 1, np.int32)
    cells = np.empty(len(points), np.int32)
    for i in range(len(points)):
        cells[i] = -1
        if points[i, 0] == points[i, 0]:
            cells[i] = _cell(points, i, low, scale, squares)
            starts[cells[i] + 1] += 1
    for cell in range(count):
        starts[cell + 1] += starts[cell]
    places = starts.copy()
    size = starts[-1]
    now, then = np.empty((size, 3)), np.empty((size, 3))
    moves, names = np.empty(size, np.int64), np.empty(size, np.int32)
    for i in range(len(points)):
        if cells[i] < 0:
            continue
        k = places[cells[i]]
        places[cells[i]] += 1
        names[k] = i
        moves[k] = moved[i]
        for axis in range(3):
            now[k, axis], then[k, axis] = points[i, axis], others[i, axis]
    return now, then, moves, names, starts


@njit(nogil=True, cache=True)
def _is_near(measure, length, closed, sphere, unsure):
    """Is a distance within the reach, given its measure? NaN is not."""
    if not measure <= unsure:
        return False
    distance = math.sqrt(measure)
    if sphere:
        distance = 2 * EARTH_RADIUS * math.asin(min(1.0, distance / 2))
    return distance <= length if closed else distance < length


@njit(nogil=True, cache=True)
def _longer(array):
    made = np.empty(2 * len(array), np.int32)
    made[: len(array)] = array
    return made


@njit(nogil=True, cache=True)
def _walk(
    begin,
    end,
    is_self,
    asked,
    asked_then,
    asked_moved,
    asked_names,
    now,
    then,
    moved,
    names,
    starts,
    low,
    scale,
    squares,
    length,
    closed,
    sphere,
    sure,
    unsure,
    span,
):
    """For each point that asks, the points near it that were not near it in the other state."""
    first, second = np.empty(PIECE, np.int32), np.empty(PIECE, np.int32)
    count = 0
    for i in range(begin, end):
        x, y, z = asked[i, 0], asked[i, 1], asked[i, 2]
        px, py, pz = asked_then[i, 0], asked_then[i, 1], asked_then[i, 2]
        name, has_moved = asked_names[i], asked_moved[i]
        x1 = _square(x - span, low[0], scale[0], squares[0])
        x2 = _square(x + span, low[0], scale[0], squares[0])
        y1 = _square(y - span, low[1], scale[1], squares[1])
        y2 = _square(y + span, low[1], scale[1], squares[1])
        z1 = _square(z - span, low[2], scale[2], squares[2])
        z2 = _square(z + span, low[2], scale[2], squares[2])
        for layer in range(z1, z2 + 1):
            for row in range(y1, y2 + 1):
                base = (layer * squares[1] + row) * squares[0]
                start, stop = starts[base + x1], starts[base + x2 + 1]
                if is_self:
                    start = max(start, i + 1)
                while count + stop - start > len(first):
                    first, second = _longer(first), _longer(second)
                for k in range(start, stop):
                    # No branch depends on who is near, which is hard to foretell: each candidate is
                    # written, and the next one over it unless it is a change.
                    dx, dy, dz = x - now[k, 0], y - now[k, 1], z - now[k, 2]
                    ex, ey, ez = px - then[k, 0], py - then[k, 1], pz - then[k, 2]
                    is_now, is_then = dx * dx + dy * dy, ex * ex + ey * ey
                    if sphere:
                        is_now, is_then = is_now + dz * dz, is_then + ez * ez
                    near = np.int64(is_now < sure) & np.int64(not is_then < sure)
                    if (sure <= is_now <= unsure) | (sure <= is_then <= unsure):
                        near = np.int64(
                            _is_near(is_now, length, closed, sphere, unsure)
                            and not _is_near(is_then, length, closed, sphere, unsure)
                        )
                    first[count], second[count] = name, names[k]
                    count += near & (has_moved | moved[k])
    return first[:count], second[:count]
