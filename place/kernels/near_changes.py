"""Who came near whom, and who is no longer: pairs of points that move, old places against new.

Points are arrays with a row for each coordinate of now, and one for each of before: x and y in the
plane, unit vectors on the sphere; NaN is nowhere. Two points are near if their DISTANCE is within a
reach, by the same expressions as `place/model/space.py`: a measure decides all but those that lie
on the border to a rounding.

Points are sorted into squares by where they are now. If steps are short beside the reach, one walk
over the squares, a step wider, sees all that came and all that left; otherwise a second one over
the places before sees what left.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Bools, Floats, Ints, Longs, Words
from place.kernels.order import Pool, start_squares

EARTH_RADIUS = 6_371_008.8
SURE = 1e-9
"""How far, in relation to the reach, a measure has to be from the border to decide."""
FINER = 3.0
"""So many squares along x are as wide as the reach, because these are read in one piece."""
MOST_SQUARES = 8192
"""Squares along a side of the grid."""
WIDEST = 2.5
"""One walk may look at so many times as many candidates as each of two would."""
PIECE = 1 << 14
"""Pairs for which there is room at first."""

Pairs = tuple[Ints, Ints]


class NearChanges(NamedTuple):
    """Pairs that came near each other, and pairs that are near no more, as rows of both lists."""

    came: Pairs
    left: Pairs


class Reach(NamedTuple):
    """Within which DISTANCE points are near: the length, whether it is less or equal (or only
    less), where measures are sure of it, and how far coordinates of near points are apart."""

    length: float
    closed: bool
    sphere: bool
    sure: float
    unsure: float
    span: float


class _Squares(NamedTuple):
    """A grid: its least corner, its scale, its squares along each side, and how many squares away
    near points may be."""

    low: Floats
    scale: Floats
    counts: Longs
    around: Longs


class _Laid(NamedTuple):
    """Points in the order of their squares, each in one row, their numbers, and where each square
    begins."""

    points: Floats
    numbers: Ints
    starts: Words


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


def near_changes(one: Floats, other: Floats, reach: Reach, threads: int = 1) -> NearChanges:
    """The pairs of a point of the first list and one of the second that came near each other or
    are near no more.

    Of a list beside itself each two points are one pair, and no point is beside itself.
    """
    pool = Pool(threads)
    low, high, steps, moved = _surveyed(other)
    if one is not other:
        steps = steps + _surveyed(one)[2]
    else:
        steps = 2 * steps
    wider = 1 + steps / reach.span
    if wider.prod() <= WIDEST:
        grid = _squares_of(low, high, reach.span * wider, other.shape[1])
        return _walked(one, other, moved, grid, reach, pool, both=True)
    grid = _squares_of(low, high, reach.span * np.ones_like(low), other.shape[1])
    came = _walked(one, other, moved, grid, reach, pool, both=False).came
    back = _turned(one)
    other = back if one is other else _turned(other)
    return NearChanges(came, _walked(back, other, moved, grid, reach, pool, both=False).came)


def _turned(points: Floats) -> Floats:
    """The same points with their places before as those of now."""
    return np.roll(points, len(points) // 2, axis=0)


def _surveyed(points: Floats) -> tuple[Floats, Floats, Floats, Bools]:
    """The least and the greatest of all coordinates, the longest steps along each axis, and which
    points have moved."""
    found: tuple[Floats, Floats, Floats, Bools] = _survey(points)
    return found


def _squares_of(low: Floats, high: Floats, spans: Floats, count: int) -> _Squares:
    """A grid for so many points, whose squares are about as wide as the spans, or wider if they
    would be many more than the points."""
    extent = np.maximum(high - low, 0.0)
    size = spans * (1 + 1e-6)
    size[0] /= FINER
    size = np.maximum(size, extent / MOST_SQUARES)
    while (np.floor(extent / size) + 1).prod() > max(16, 4 * count):
        size *= 1.25
    scale = 1 / size
    # Rounding must not put two points that are near further apart than this.
    around = np.floor(spans * scale * (1 + 1e-9) + 1e-9) + 1
    counts = np.floor(extent * scale) + 1
    flat = [(0.0, 1.0, 1, 0)] * (3 - len(low))
    corners, scales, sides, steps = zip(
        *zip(low, scale, counts, around, strict=True), *flat, strict=True
    )
    return _Squares(
        np.array(corners), np.array(scales), np.array(sides, np.int64), np.array(steps, np.int64)
    )


def _walked(
    one: Floats,
    other: Floats,
    moved: Bools,
    grid: _Squares,
    reach: Reach,
    pool: Pool,
    *,
    both: bool,
) -> NearChanges:
    """The pairs that are near now and were not before; with `both` those that were and are not as
    well."""
    is_self = one is other
    laid = _lay(other, grid, pool)
    mine = laid if is_self else _lay(one, grid, pool)
    # Where few have moved these look all around; otherwise all look at those that come after them.
    few = is_self and 2 * int(moved.sum()) < len(moved)
    asked = np.arange(len(mine.numbers), dtype=np.int32)
    if few:
        asked = asked[moved[mine.numbers]]
    parts = pool.map(
        partial(_walk, asked[low:high], *mine[:2], *laid, *grid, *reach, is_self and not few, both)
        for low, high in pool.cut(len(asked))
    )
    first, second = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    if few:  # two that have moved found each other
        number = np.where(first < 0, ~first, first)
        once = np.flatnonzero(~moved[second] | (number < second))
        first, second = first[once], second[once]
    return NearChanges(*_told_apart(first, second))


def _lay(points: Floats, grid: _Squares, pool: Pool) -> _Laid:
    """Points in the order of their squares; the first square is that of those that are nowhere."""

    def placed(begin: int, end: int) -> tuple[Ints, Words]:
        found: tuple[Ints, Words] = _place(points, begin, end, *grid)
        return found

    axes, size = len(points) // 2, points.shape[1]
    cuts = pool.cut(size)
    parts = pool.map(partial(placed, *cut) for cut in cuts)
    counts = np.stack([part[1] for part in parts]) if len(parts) > 1 else parts[0][1][None, :]
    nowhere = int(counts[:, 0].sum())
    starts = start_squares(counts)
    numbers, ordered = np.empty(size, np.int32), np.empty((size, 2 * axes))
    pool.map(
        partial(_scatter, points, begin, squares, places, numbers, ordered)
        for (begin, _), (squares, _), places in zip(cuts, parts, counts, strict=True)
    )
    if nowhere:
        starts -= np.minimum(starts, np.uint32(nowhere))
    return _Laid(ordered[nowhere:], numbers[nowhere:], starts)


@njit(nogil=True, cache=True)
def _survey(points):
    """What `_surveyed` tells."""
    axes, size = len(points) // 2, points.shape[1]
    low, high, steps = np.zeros(axes), np.zeros(axes), np.zeros(axes)
    moved = np.zeros(size, np.bool_)
    for axis in range(axes):
        least, most, longest = np.inf, -np.inf, 0.0
        for i in range(size):
            now, then = points[axis, i], points[axis + axes, i]
            least = min(least, min(now, then))
            most = max(most, max(now, then))
            longest = max(longest, abs(now - then))
            moved[i] |= now != then
        if least <= most:
            low[axis], high[axis], steps[axis] = least, most, longest
    return low, high, steps, moved


@njit(nogil=True, cache=True, inline="always")
def _square(value, low, scale, count):
    return np.int64(min(max((value - low) * scale, 0.0), count - 1.0))


@njit(nogil=True, cache=True)
def _place(points, begin, end, low, scale, counts, around):
    """The squares of some points, by where they are now or else were, and the counts of squares.

    Squares are numbered row by row from 1 on. Each row has some empty ones at both ends, so that
    what is around a square needs no care.
    """
    axes = len(points) // 2
    width = counts[0] + 2 * around[0]
    found = np.zeros(width * counts[1] * counts[2] + 2, np.uint32)
    squares = np.empty(end - begin, np.int32)
    for i in range(begin, end):
        first = 0 if points[0, i] == points[0, i] else axes
        x = points[first, i]
        at = np.int64(0)
        if x == x:
            if axes == 3:
                at = _square(points[first + 2, i], low[2], scale[2], counts[2]) * counts[1]
            at += _square(points[first + 1, i], low[1], scale[1], counts[1])
            at = at * width + _square(x, low[0], scale[0], counts[0]) + around[0] + 1
        squares[i - begin] = at
        found[np.uint64(at)] += np.uint32(1)
    return squares, found


@njit(nogil=True, cache=True)
def _scatter(points, begin, squares, places, numbers, ordered):
    """Puts points where their squares are, given those from `begin` on; `places` is where each
    square's next one goes."""
    for i in range(len(squares)):
        at = np.uint64(places[squares[i]])
        places[squares[i]] += np.uint32(1)
        numbers[at] = begin + i
        for axis in range(len(points)):
            ordered[at, axis] = points[axis, begin + i]


@njit(nogil=True, cache=True)
def _told_apart(first, second):
    """The pairs that came, and those that left."""
    size = len(first) + 1
    came_first, came_second = np.empty(size, np.int32), np.empty(size, np.int32)
    left_first, left_second = np.empty(size, np.int32), np.empty(size, np.int32)
    came, left = np.uint64(0), np.uint64(0)
    for i in range(len(first)):
        # Both are written, without a branch, and the next one over what is not meant.
        is_left = np.uint64(first[i] < 0)
        number = first[i] ^ -np.int32(is_left)
        came_first[came], came_second[came] = number, second[i]
        left_first[left], left_second[left] = number, second[i]
        came += np.uint64(1) - is_left
        left += is_left
    return (came_first[:came], came_second[:came]), (left_first[:left], left_second[:left])


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
def _longer(array, size):
    made = np.empty(max(2 * len(array), size), np.int32)
    made[: len(array)] = array
    return made


@njit(nogil=True, cache=True)
def _walk(
    asked,
    asked_points,
    asked_numbers,
    points,
    numbers,
    starts,
    low,
    scale,
    counts,
    around,
    length,
    closed,
    sphere,
    sure,
    unsure,
    span,
    is_half,
    both,
):
    """For each point that asks, the points whose nearness changes; `~` its number where they are
    near no more."""
    first, second = np.empty(PIECE, np.int32), np.empty(PIECE, np.int32)
    count = np.uint64(0)
    axes = np.uint64(points.shape[1] // 2)
    width = counts[0] + 2 * around[0]
    lost = np.uint64(both)
    for place in range(len(asked)):
        i = np.uint64(asked[place])
        x, y, z = asked_points[i, 0], asked_points[i, 1], 0.0
        u, v, w = asked_points[i, axes], asked_points[i, axes + 1], 0.0
        if sphere:
            z, w = asked_points[i, 2], asked_points[i, 5]
        here = x == x
        number = asked_numbers[i]
        column = _square(x if here else u, low[0], scale[0], counts[0]) + around[0]
        line = _square(y if here else v, low[1], scale[1], counts[1])
        layer = _square(z if here else w, low[2], scale[2], counts[2])
        lowest = layer if is_half else max(layer - around[2], 0)
        for level in range(lowest, min(layer + around[2], counts[2] - 1) + 1):
            bottom = line if is_half and level == layer else max(line - around[1], 0)
            top = min(line + around[1], counts[1] - 1)
            # Two rows of squares at a time: that loops are short is most of what they cost.
            for row in range(bottom, top + 1, 2):
                at = (level * counts[1] + row) * width + column + 1
                start = np.uint64(starts[np.uint64(at - around[0])])
                stop = np.uint64(starts[np.uint64(at + around[0] + 1)])
                if is_half:
                    start = max(start, i + np.uint64(1))
                    stop = max(start, stop)
                size, more, start_2 = stop - start, np.uint64(0), np.uint64(0)
                if row < top:
                    start_2 = np.uint64(starts[np.uint64(at + width - around[0])])
                    more = np.uint64(starts[np.uint64(at + width + around[0] + 1)]) - start_2
                if count + size + more > len(first):
                    first = _longer(first, np.int64(count + size + more))
                    second = _longer(second, len(first))
                for j in range(size + more):
                    k = start + j if j < size else start_2 + (j - size)
                    # No branch depends on who is near, which is hard to foretell: each candidate is
                    # written, and the next one over it unless it is a change.
                    dx, dy = x - points[k, 0], y - points[k, 1]
                    ex, ey = u - points[k, axes], v - points[k, axes + 1]
                    now, then = dx * dx + dy * dy, ex * ex + ey * ey
                    if sphere:
                        dz, ez = z - points[k, 2], w - points[k, 5]
                        now, then = now + dz * dz, then + ez * ez
                    is_now, is_then = np.uint64(now < sure), np.uint64(then < sure)
                    if (sure <= now <= unsure) | (sure <= then <= unsure):
                        is_now = np.uint64(_is_near(now, length, closed, sphere, unsure))
                        is_then = np.uint64(_is_near(then, length, closed, sphere, unsure))
                    first[count] = number ^ (np.int32(is_now) - np.int32(1))
                    second[count] = numbers[k]
                    count += (is_now ^ is_then) & (is_now | lost)
    return first[:count], second[:count]
