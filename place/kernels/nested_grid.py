"""Points in nested grids: a square that holds too many points is a grid of its own.

The grids fit the data at every scale, so that a square holds few points however unevenly they are
spread. Points lie in the order of squares, and those of an inner grid in the order of its own; so a
run of squares is a run of points. Points that coincide cannot be parted: they make a pile, in the
order of their ranks. There are two axes in the plane and three on the sphere, whose points are
unit vectors: then `zs` holds the third.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints, Longs, Words
from place.kernels.order import Pool, start_squares

CROWD = 32
"""The most points that a square holds before it is divided."""
PER_CELL, PER_CELL_DEEP = 4.0, 0.25
"""Points for each square: in the plane, and in space, where a sphere leaves most squares empty."""
MOST_SQUARES = 1 << 24
ALONE = 1 << 17
"""Points that one thread sorts before others could begin."""

PLAIN, NESTED, PILE = 0, 1, 2
LOW, HIGH, SCALE, SIZE = 0, 3, 6, 9
"""Columns of `places`, three axes each: a grid's ends, squares per length, length of a square."""
FIRST, KIND = 3, 4
"""Columns of `shapes`, after the squares on each axis: a grid's first square, and what it is."""


class NestedGrid(NamedTuple):
    """`starts[c]:starts[c + 1]` are the points of square c, `inner[c]` the grid in it or −1.

    Every grid has an entry more than squares, where its last square ends. Grid 0 is the outermost.
    """

    xs: Floats
    ys: Floats
    zs: Floats
    names: Ints
    starts: Words
    inner: Ints
    places: Floats
    shapes: Longs


@njit(nogil=True, cache=True)
def square_on(value, low, scale, squares):
    """The square of a coordinate on an axis; values beyond the ends fall into the end squares."""
    place = (value - low) * scale
    place = place if place > 0.0 else 0.0
    most = float(squares - 1)
    return np.int64(place if place < most else most)


@njit(nogil=True, cache=True)
def _bounds(rows, chosen):
    """The ends of the points that are present on each axis, and how many they are."""
    ends, count = np.zeros(6), 0
    x1, y1, z1, x2, y2, z2 = np.inf, np.inf, np.inf, -np.inf, -np.inf, -np.inf
    deep = rows.shape[1] > 2
    for i in range(len(chosen)):
        name = np.uint64(chosen[i])
        x, y = rows[name, 0], rows[name, 1]
        if not (abs(x) < np.inf and abs(y) < np.inf):
            continue
        count += 1
        x1, x2 = min(x1, x), max(x2, x)
        y1, y2 = min(y1, y), max(y2, y)
        if deep:
            z1, z2 = min(z1, rows[name, 2]), max(z2, rows[name, 2])
    ends[0], ends[1], ends[3], ends[4] = x1, y1, x2, y2
    if deep:
        ends[2], ends[5] = z1, z2
    return ends, count


@njit(nogil=True, cache=True)
def _squares_for(count, deep):
    return min(max(1.0, count / (PER_CELL_DEEP if deep else PER_CELL)), float(MOST_SQUARES))


@njit(nogil=True, cache=True)
def _shape_grid(ends, count, place, shape):
    """Sets up a grid for so many points between these ends: squares of about equal sides."""
    most, logs, axes = _squares_for(count, True), np.zeros(3), 0
    for axis in range(3):
        # Halves: the difference of the ends may be too large for a number.
        half = ends[3 + axis] / 2 - ends[axis] / 2
        fine = half > 0.0 and math.isfinite(most / half)
        logs[axis] = math.log(half) if fine else -np.inf
        axes += fine
    # An axis shorter than a square is one square, and leaves more for the others.
    side, again = -np.inf, True
    while axes > 0 and again:
        again, total, most = False, 0.0, _squares_for(count, axes > 2)
        for axis in range(3):
            total += logs[axis] if logs[axis] > -np.inf else 0.0
        side = (total - math.log(most)) / axes
        for axis in range(3):
            if -np.inf < logs[axis] < side:
                logs[axis], axes, again = -np.inf, axes - 1, True
    squares = 1
    for axis in range(3):
        number = 1
        if logs[axis] > -np.inf:
            number = max(1, min(int(math.exp(logs[axis] - side)), int(most)))
        low, high = ends[axis], ends[3 + axis]
        scale = (number / 2) / (high / 2 - low / 2) if number > 1 else 0.0
        shape[axis] = number
        place[LOW + axis], place[HIGH + axis] = low, high
        place[SCALE + axis] = scale
        place[SIZE + axis] = 1.0 / scale if number > 1 else np.inf
        squares *= number
    return squares


@njit(nogil=True, cache=True)
def _place(rows, chosen, place, shape, squares):
    """Finds the square of each point, −1 where it is absent; the counts of squares."""
    deep = rows.shape[1] > 2
    nx, ny, nz = shape[0], shape[1], shape[2]
    counts = np.zeros(nx * ny * nz, np.uint32)
    low_x, low_y, low_z = place[LOW], place[LOW + 1], place[LOW + 2]
    scale_x, scale_y, scale_z = place[SCALE], place[SCALE + 1], place[SCALE + 2]
    for i in range(len(chosen)):
        name = np.uint64(chosen[i])
        x, y = rows[name, 0], rows[name, 1]
        if not (abs(x) < np.inf and abs(y) < np.inf):
            squares[i] = -1
            continue
        square = square_on(y, low_y, scale_y, ny) * nx + square_on(x, low_x, scale_x, nx)
        if deep:
            square += square_on(rows[name, 2], low_z, scale_z, nz) * nx * ny
        squares[i] = square
        counts[np.uint64(square)] += np.uint32(1)
    return counts


@njit(nogil=True, cache=True)
def _scatter(chosen, squares, places, names):
    """Puts points where their squares are; `places` is where each square's next one goes."""
    for i in range(len(chosen)):
        if squares[i] >= 0:
            square = np.uint64(squares[i])
            names[np.uint64(places[square])] = chosen[i]
            places[square] += np.uint32(1)


@njit(nogil=True, cache=True)
def _fetch(rows, names, xs, ys, zs):
    """The coordinates of points, by name: scattered points are read faster than written."""
    for i in range(len(names)):
        name = np.uint64(names[i])
        xs[i], ys[i] = rows[name, 0], rows[name, 1]
    if rows.shape[1] > 2:
        for i in range(len(names)):
            zs[i] = rows[names[i], 2]


@njit(nogil=True, cache=True)
def is_before(name, other, ranks):
    """Which of two points comes first? Longs differ; if not, names do."""
    return ranks[name] < ranks[other] or (ranks[name] == ranks[other] and name < other)


@njit(nogil=True, cache=True)
def put_in_order(values, names, first, count, ranks, spare_values, spare_names):
    """Sorts so many values and their names from `first` on; equal values by rank."""
    width, base = 1, np.uint64(first)
    while width < count:
        for start in range(0, count, 2 * width):
            left, right = np.uint64(start), np.uint64(min(start + width, count))
            middle, end = right, np.uint64(min(start + 2 * width, count))
            for to in range(left, end):
                later = left == middle
                if left < middle and right < end:
                    one, other = values[base + left], values[base + right]
                    later = other < one
                    if one == other:
                        later = is_before(names[base + right], names[base + left], ranks)
                taken = right if later else left
                spare_values[to] = values[base + taken]
                spare_names[to] = names[base + taken]
                right += np.uint64(later)
                left += np.uint64(not later)
        for i in range(np.uint64(count)):
            values[base + i] = spare_values[i]
            names[base + i] = spare_names[i]
        width *= 2


@njit(nogil=True, cache=True)
def _longer(array, size):
    """The same array with room for so many entries and more."""
    found = np.empty(2 * size, array.dtype)
    for i in range(len(array)):
        found[i] = array[i]
    return found


@njit(nogil=True, cache=True)
def _longer_table(table):
    """The same table with room for twice as many rows."""
    found = np.empty((2 * len(table), table.shape[1]), table.dtype)
    for i in range(len(table)):
        for j in range(table.shape[1]):
            found[i, j] = table[i, j]
    return found


@njit(nogil=True, cache=True)
def _reorder(order, first, values, spare):
    """Puts the values from `first` on in this order."""
    for i in range(len(order)):
        spare[i] = values[first + order[i]]
    for i in range(len(order)):
        values[first + i] = spare[i]


@njit(nogil=True, cache=True)
def _span(values, first, last):
    low, high = values[first], values[first]
    for i in range(first + 1, last):
        low, high = min(low, values[i]), max(high, values[i])
    return low, high


@njit(nogil=True, cache=True)
def _order_squares(xs, ys, zs, first, last, place, shape, squares, starts, base):
    """The order of the points `first` to `last` by the squares of a grid, which start at `base`."""
    nx, ny, nz = shape[0], shape[1], shape[2]
    size = nx * ny * nz
    for square in range(base, base + size + 1):
        starts[square] = np.uint32(0)
    for i in range(first, last):
        square = square_on(ys[i], place[LOW + 1], place[SCALE + 1], ny) * nx
        square += square_on(xs[i], place[LOW], place[SCALE], nx)
        if len(zs):
            square += square_on(zs[i], place[LOW + 2], place[SCALE + 2], nz) * nx * ny
        squares[i - first] = square
        starts[base + square] += np.uint32(1)
    # Counts become ends, and ends become starts as the points are taken from the last on.
    end = np.uint32(first)
    for square in range(base, base + size + 1):
        end += starts[square]
        starts[square] = end
    order = np.empty(last - first, np.int64)
    for i in range(last - first - 1, -1, -1):
        square = base + squares[i]
        starts[square] -= np.uint32(1)
        order[np.int64(starts[square]) - first] = i
    return order


@njit(nogil=True, cache=True)
def _divide(xs, ys, zs, names, starts, inner, places, shapes, ranks):
    """Makes grids of the crowded squares of grid 0, and of theirs, until there are none."""
    deep, used, grids = len(zs) > 0, len(starts), 1
    crowds, waiting, largest = np.empty(16, np.int64), 0, np.int64(0)
    for square in range(used - 1):
        count = np.int64(starts[square + 1]) - np.int64(starts[square])
        if count > CROWD:
            if waiting == len(crowds):
                crowds = _longer(crowds, waiting)
            crowds[waiting] = square
            waiting += 1
            largest = max(largest, count)
    owner = np.zeros(len(starts), np.int32)
    squares, ends = np.empty(largest, np.int32), np.zeros(6)
    spare, spare_names = np.empty(largest), np.empty(largest, np.int32)
    while waiting > 0:
        waiting -= 1
        outer = crowds[waiting]
        first, last = np.int64(starts[outer]), np.int64(starts[outer + 1])
        ends[0], ends[3] = _span(xs, first, last)
        ends[1], ends[4] = _span(ys, first, last)
        if deep:
            ends[2], ends[5] = _span(zs, first, last)
        if grids == len(shapes):
            places, shapes = _longer_table(places), _longer_table(shapes)
        size = _shape_grid(ends, last - first, places[grids], shapes[grids])
        if size == 1 and (ends[0] != ends[3] or ends[1] != ends[4] or ends[2] != ends[5]):
            continue  # too close together for any grid: they stay a crowd
        if used + size + 1 > len(starts):
            starts = _longer(starts, used + size + 1)
            inner = _longer(inner, used + size + 1)
            owner = _longer(owner, used + size + 1)
        for square in range(used, used + size + 1):
            inner[square], owner[square] = -1, grids
        inner[outer], shapes[owner[outer], KIND] = grids, NESTED
        shapes[grids, FIRST], shapes[grids, KIND] = used, PLAIN
        if size == 1:
            shapes[grids, KIND] = PILE
            starts[used], starts[used + 1] = first, last
            put_in_order(xs, names, first, last - first, ranks, spare, spare_names)
        else:
            order = _order_squares(
                xs, ys, zs, first, last, places[grids], shapes[grids], squares, starts, used
            )
            _reorder(order, first, xs, spare)
            _reorder(order, first, ys, spare)
            if deep:
                _reorder(order, first, zs, spare)
            _reorder(order, first, names, spare_names)
            for square in range(used, used + size):
                if np.int64(starts[square + 1]) - np.int64(starts[square]) > CROWD:
                    if waiting == len(crowds):
                        crowds = _longer(crowds, waiting)
                    crowds[waiting] = square
                    waiting += 1
        used += size + 1
        grids += 1
    return starts[:used], inner[:used], places[:grids], shapes[:grids]


def build_nest(
    rows: Floats, chosen: Ints, ranks: Longs, pool: Pool, spare: NestedGrid | None = None
) -> NestedGrid:
    """The chosen rows that are present, in nested grids; in the arrays of a spare nest if they do,
    because new memory costs as much as sorting."""
    cuts = pool.cut(len(chosen)) if len(chosen) > ALONE else [(0, len(chosen))]
    found = pool.map(partial(_bounds, rows, chosen[low:high]) for low, high in cuts)
    ends = np.array([part[0] for part in found])
    ends = np.concatenate([ends[:, :3].min(axis=0), ends[:, 3:].max(axis=0)])
    count, deep = sum(part[1] for part in found), rows.shape[1] > 2
    if count == 0:
        ends = np.zeros(6)
    places, shapes = np.zeros((1, 12)), np.zeros((1, 5), np.int64)
    grid = (places[0], shapes[0])
    _shape_grid(ends, count, *grid)
    squares = np.empty(len(chosen), np.int32)
    counts = pool.map(
        partial(_place, rows, chosen[low:high], *grid, squares[low:high]) for low, high in cuts
    )
    room = np.array(counts).sum(axis=0, dtype=np.uint32, keepdims=True)
    starts = start_squares(room)
    names = np.empty(count, np.int32)
    xs, ys, zs = np.empty(count), np.empty(count), np.empty(count if deep else 0)
    if spare is not None and len(spare.names) >= count:
        xs, ys, zs, names = (array[:count] for array in spare[:4])
    # One thread alone: others would write into the same squares, and wait for one another.
    _scatter(chosen, squares, room[0], names)
    pool.map(
        partial(_fetch, rows, names[low:high], xs[low:high], ys[low:high], zs[low:high])
        for low, high in (pool.cut(count) if count > ALONE else [(0, count)])
    )
    inner = np.full(len(starts), -1, np.int32)
    nest = NestedGrid(xs, ys, zs, names, starts, inner, places, shapes)
    if count == 0 or np.diff(starts).max() <= CROWD:
        return nest
    return NestedGrid(xs, ys, zs, names, *_divide(*nest, ranks))
