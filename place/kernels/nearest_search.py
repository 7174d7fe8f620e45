"""The k nearest points of centres, out of nested grids, for a batch of queries at a time.

A search is given a bound and takes whatever is within it. If it finds k or more, the best of them
are the answer, however the bound was guessed; if not, the bound was too small. Candidates wait in
a buffer without order until it is full or the search ends: only then are they sorted and the bound
drawn closer. Measures are the same float64 expressions as the model's; points of the same measure
are told apart by their ranks. In the plane `zs` is None.

Every step is a loop over the batch, because calls that pass arrays count references.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints, Longs
from place.kernels.nested_grid import (
    FIRST,
    HIGH,
    KIND,
    LOW,
    NESTED,
    PILE,
    SCALE,
    SIZE,
    is_before,
    put_in_order,
    square_on,
)

FEW = 192
"""Candidates that are sorted by comparing each with each."""
WIDE = 6
"""Rows of squares beyond which it pays to know how much of each is within the bound."""
ASKED, LATER, DONE, KEPT = 0, 1, 2, 3
"""States of a query in a batch: a step is about it, the next one is, it has a new answer, or keeps
the old one."""


class Batch(NamedTuple):
    """Some queries, and room for the candidates of each in two long arrays.

    `held` are the candidates that were there before a step, or how many it should find. `states`
    are as wide as what is written beside them: LLVM 22 makes loops that write bytes and longer
    numbers under one condition wrong where a CPU has AVX-512 (bytes are written without it).
    """

    queries: Ints
    centers: Floats
    excluded: Longs
    states: Longs
    bounds: Floats
    wanted: Longs
    counts: Longs
    held: Longs
    old_counts: Longs
    dists: Floats
    slots: Ints
    olds: Ints


class Sorter(NamedTuple):
    """What sorting needs: the ranks of points, and room for turns and for copies of candidates."""

    ranks: Longs
    turns: Ints
    dists: Floats
    slots: Ints


def room_for(wanted: int) -> int:
    """How many candidates of a query may wait before they are sorted."""
    return 4 * wanted + 64


@njit(nogil=True, cache=True)
def settle(batch, sorter, size):
    """Puts the candidates of the first `size` queries in order, the best that are wanted."""
    room = len(batch.dists) // len(batch.queries)
    dists, slots, counts, wanted = batch.dists, batch.slots, batch.counts, batch.wanted
    turns, spare_dists, spare_slots = sorter.turns, sorter.dists, sorter.slots
    ranks, states = sorter.ranks, batch.states
    for k in range(size):
        if states[k] != ASKED:
            continue
        if counts[k] > FEW:
            put_in_order(dists, slots, k * room, counts[k], ranks, sorter.dists, sorter.slots)
            counts[k] = min(counts[k], wanted[k])
            continue
        first = np.uint64(k * room)
        count = np.uint64(counts[k])
        for i in range(count):
            turns[i] = 0
        for j in range(count):
            dist = dists[first + j]
            for i in range(count):
                turns[i] += dists[first + i] > dist
        total = 0
        for i in range(count):
            total += turns[i]
        if total != counts[k] * (counts[k] - 1) // 2:
            for j in range(count):
                for i in range(count):
                    if dists[first + i] == dists[first + j]:
                        turns[i] += is_before(slots[first + j], slots[first + i], ranks)
        for i in range(count):
            turn = np.uint64(turns[i])
            spare_dists[turn] = dists[first + i]
            spare_slots[turn] = slots[first + i]
        counts[k] = min(counts[k], wanted[k])
        for i in range(np.uint64(counts[k])):
            dists[first + i] = spare_dists[i]
            slots[first + i] = spare_slots[i]


@njit(nogil=True, cache=True)
def _gap(value, low, size, squares, row, own):
    """No point in a row of squares is closer than this to a value whose own row is another."""
    if row == own:
        return 0.0
    edge = low + row * size if row > own else low + (row + 1) * size
    # What rounding may have added: the edge is not exactly where the first point would fall.
    slack = 1e-14 * (abs(low) + size * squares + abs(value))
    gap = (edge - value if row > own else value - edge) - slack
    return gap if gap > 0.0 else 0.0


@njit(nogil=True, cache=True)
def _reach(bound):
    """Points whose measure is within the bound are no further on any axis.

    Squares may be rounded down, and those of very small numbers to nothing.
    """
    return math.sqrt(bound) * (1.0 + 1e-15) + 1e-150


@njit(nogil=True, cache=True)
def gather(batch, size, nest, zs, roots, moved, sorter, queue):
    """Adds the points within their bounds to the candidates of the first `size` queries.

    Visits the grids below each of the roots. With `moved`, only points that are marked there.
    """
    room = len(batch.dists) // len(batch.queries)
    dists, slots, counts, bounds = batch.dists, batch.slots, batch.counts, batch.bounds
    centers, excluded, states = batch.centers, batch.excluded, batch.states
    wanted, held = batch.wanted, batch.held
    xs, ys, names, starts = nest.xs, nest.ys, nest.names, nest.starts
    inner, places, shapes = nest.inner, nest.places, nest.shapes
    for k in range(size):
        if states[k] != ASKED:
            continue
        x, y, without = centers[k, 0], centers[k, 1], excluded[k]
        bound, reach = bounds[k], _reach(bounds[k])
        begin, count = np.uint64(k * room), np.uint64(k * room + counts[k])
        full, enough = np.uint64((k + 1) * room), np.uint64(k * room + wanted[k])
        head, tail, drawn = 0, len(roots), False
        for root in range(tail):
            queue[root] = roots[root]
        while head < tail:
            grid = queue[head]
            head += 1
            low_x, low_y = places[grid, LOW], places[grid, LOW + 1]
            if x + reach < low_x or x - reach > places[grid, HIGH]:
                continue
            if y + reach < low_y or y - reach > places[grid, HIGH + 1]:
                continue
            first, kind = shapes[grid, FIRST], shapes[grid, KIND]
            if kind == PILE:
                dx, dy = x - low_x, y - low_y
                dist = dx * dx + dy * dy
                if zs is not None:
                    dz = centers[k, 2] - places[grid, LOW + 2]
                    dist += dz * dz
                if count > enough and dist <= bound:
                    bound, count = _draw_closer(batch, sorter, k, count)
                    reach, drawn = _reach(bound), True
                if dist <= bound:
                    last = count + np.uint64(wanted[k])
                    for i in range(np.uint64(starts[first]), np.uint64(starts[first + 1])):
                        kept = (xs[i] == xs[i]) & (names[i] != without)
                        if moved is not None:
                            kept &= moved[names[i]]
                        dists[count] = dist
                        slots[count] = names[i]
                        count += np.uint64(kept)
                        if count == last:
                            break
                continue
            nx, ny = shapes[grid, 0], shapes[grid, 1]
            scale_x, scale_y = places[grid, SCALE], places[grid, SCALE + 1]
            left = square_on(x - reach, low_x, scale_x, nx)
            right = square_on(x + reach, low_x, scale_x, nx)
            own_row = square_on(y, low_y, scale_y, ny)
            bottom = square_on(y - reach, low_y, scale_y, ny)
            top = square_on(y + reach, low_y, scale_y, ny)
            near, far, own_plane = 0, 0, 0
            if zs is not None:
                z, low_z, scale_z = (
                    centers[k, 2],
                    places[grid, LOW + 2],
                    places[grid, SCALE + 2],
                )
                if z + reach < low_z or z - reach > places[grid, HIGH + 2]:
                    continue
                near = square_on(z - reach, low_z, scale_z, shapes[grid, 2])
                far = square_on(z + reach, low_z, scale_z, shapes[grid, 2])
                own_plane = square_on(z, low_z, scale_z, shapes[grid, 2])
            wide = top - bottom >= WIDE
            for layer in range(far - near + 1):
                # From the centre's own plane outwards, and so for rows: the nearest come first.
                plane = own_plane + layer if layer <= far - own_plane else far - layer
                deep = 0.0
                if zs is not None:
                    deep = _gap(z, low_z, places[grid, SIZE + 2], shapes[grid, 2], plane, own_plane)
                for line in range(top - bottom + 1):
                    row = own_row + line if line <= top - own_row else top - line
                    if wide or zs is not None:
                        gap = _gap(y, low_y, places[grid, SIZE + 1], ny, row, own_row)
                        spread = reach * reach * (1.0 + 1e-14) - gap * gap - deep * deep
                        if spread < 0.0:
                            continue
                        half = math.sqrt(spread) if spread < np.inf else np.inf
                        left = square_on(x - half, low_x, scale_x, nx)
                        right = square_on(x + half, low_x, scale_x, nx)
                    square = first + (plane * ny + row) * nx
                    column = left
                    while column <= right:
                        end = right + 1
                        if kind == NESTED:
                            end = column
                            while end <= right and inner[square + end] < 0:
                                end += 1
                        start = np.uint64(starts[np.uint64(square + column)])
                        stop = np.uint64(starts[np.uint64(square + end)])
                        while start < stop:
                            if stop - start > full - count and count > enough:
                                bound, count = _draw_closer(batch, sorter, k, count)
                                reach, drawn = _reach(bound), True
                            pause = min(stop, start + (full - count))
                            for i in range(start, pause):
                                dx, dy = x - xs[i], y - ys[i]
                                dist = dx * dx + dy * dy
                                if zs is not None:
                                    dz = z - zs[i]
                                    dist += dz * dz
                                dists[count] = dist
                                slots[count] = names[i]
                                kept = (dist <= bound) & (names[i] != without)
                                if moved is not None:
                                    kept &= moved[names[i]]
                                count += np.uint64(kept)
                            start = pause
                        column = end
                        if column <= right:
                            queue[tail] = inner[square + column]
                            tail += 1
                            column += 1
        bounds[k], counts[k] = bound, np.int64(count - begin)
        if moved is not None and drawn:
            held[k] = -1  # some of them came, even if there are as many as before


@njit(nogil=True, cache=True)
def _draw_closer(batch, sorter, k, count):
    """Sorts the candidates of a query that has more than it wants; the bound and their end."""
    first = k * (len(batch.dists) // len(batch.queries))
    found, dists, ranks = np.int64(count) - first, batch.dists, sorter.ranks
    put_in_order(dists, batch.slots, first, found, ranks, sorter.dists, sorter.slots)
    return dists[first + batch.wanted[k] - 1], np.uint64(first + batch.wanted[k])


@njit(nogil=True, cache=True)
def aim(batch, size, nest, root):
    """Sets bounds that probably hold as many points as needed, where there are none yet or such
    that hold too many squares; infinite if all points are needed.

    A bound is that of a block of squares around the centre, in the finest grid there with enough.
    """
    centers, states, bounds, held = batch.centers, batch.states, batch.bounds, batch.held
    starts, inner, places, shapes = nest.starts, nest.inner, nest.places, nest.shapes
    for k in range(size):
        if states[k] != ASKED:
            continue
        x, y, z, needed = centers[k, 0], centers[k, 1], centers[k, 2], held[k]
        if bounds[k] < np.inf:
            squares, width = 1.0, 2.0 * math.sqrt(bounds[k])
            for axis in range(3):
                squares *= 1.0 + width * places[root, SCALE + axis]
            if squares <= 32.0 + 4.0 * needed:
                continue
        grid = root
        while True:
            nx, ny, nz = shapes[grid, 0], shapes[grid, 1], shapes[grid, 2]
            first = shapes[grid, FIRST]
            column = square_on(x, places[grid, LOW], places[grid, SCALE], nx)
            row = square_on(y, places[grid, LOW + 1], places[grid, SCALE + 1], ny)
            plane = square_on(z, places[grid, LOW + 2], places[grid, SCALE + 2], nz)
            square = first + (plane * ny + row) * nx + column
            below = inner[square]
            if below < 0 or shapes[below, KIND] == PILE:
                break
            if np.int64(starts[square + 1]) - np.int64(starts[square]) < needed:
                break
            grid = below
        width = 0
        while True:
            left, right = max(column - width, 0), min(column + width, nx - 1)
            bottom, top = max(row - width, 0), min(row + width, ny - 1)
            near, far = max(plane - width, 0), min(plane + width, nz - 1)
            found = np.int64(0)
            for layer in range(near, far + 1):
                for line in range(bottom, top + 1):
                    square = first + (layer * ny + line) * nx
                    found += np.int64(starts[square + right + 1]) - np.int64(starts[square + left])
            whole = right - left == nx - 1 and top - bottom == ny - 1 and far - near == nz - 1
            if found >= needed or whole:
                break
            width += 1 + width // 2
        if found < needed:
            continue
        bound = 0.0
        for axis in range(3):
            value = x if axis == 0 else (y if axis == 1 else z)
            low, high = places[grid, LOW + axis], places[grid, HIGH + axis]
            if shapes[grid, axis] > 1:
                begin = left if axis == 0 else (bottom if axis == 1 else near)
                end = right if axis == 0 else (top if axis == 1 else far)
                high = low + (end + 1) * places[grid, SIZE + axis]
                low += begin * places[grid, SIZE + axis]
            away = max(abs(value - low), abs(high - value))
            bound += away * away
        bounds[k] = min(bounds[k], bound)
