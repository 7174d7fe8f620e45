"""Ranges of values, so many to a dimension, each with about as many values as the others.

The range of a value is the number of edges that are not above it. It grows with the value, so a
point within a box is in one of the ranges from that of its low to that of its high bound.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_pairs import keep_around, keep_inside

NEVER = np.inf
"""An edge that no finite value reaches."""


@njit(nogil=True, cache=True)
def range_of(value, edges, row, bits):
    """The range of a value among 2^bits by a row of edges: a search without branches."""
    found = 0
    for bit in range(bits - 1, -1, -1):
        step = 1 << bit
        found += step * (edges[row, found + step - 1] <= value)
    return found


def even_edges(values: Floats, bits: int) -> Floats:
    """Edges of 2^bits ranges that have about as many of the values each; ends are left out."""
    count = (1 << bits) - 1
    ordered = np.sort(values[np.isfinite(values)])
    if not len(ordered):
        return np.full(count, NEVER)
    places = (np.arange(1, count + 1) * len(ordered)) >> bits
    found: Floats = ordered[places]
    return found


def edge_rows(sample: Floats, sides: Longs, bits: Longs) -> Floats:
    """The edges of some dimensions of a sample, a row for each."""
    width = (1 << int(bits.max(initial=0))) - 1
    rows = np.full((len(sides), max(1, width)), NEVER)
    for row, (side, bit) in enumerate(zip(sides, bits, strict=True)):
        edges = even_edges(sample[:, side], int(bit))
        rows[row, : len(edges)] = edges
    return rows


@njit(nogil=True, cache=True)
def place_points(points, sides, edges, bits):
    """Points in the order of their cells, with their names, and where each cell begins.

    The cell of a point is made of its ranges in up to three dimensions, the last one lowest, so
    that neighbours there are neighbours in the order.
    """
    total = 0
    for i in range(len(sides)):
        total += bits[i]
    cells = np.empty(len(points), np.int32)
    starts = np.zeros((1 << total) + 1, np.int32)
    for point in range(len(points)):
        cell = 0
        for i in range(len(sides)):
            cell = (cell << bits[i]) | range_of(points[point, sides[i]], edges, i, bits[i])
        cells[point] = cell
        starts[cell + 1] += 1
    for cell in range(1 << total):
        starts[cell + 1] += starts[cell]
    places = starts[:-1].copy()
    names = np.empty(len(points), np.int32)
    ordered = np.empty_like(points)
    for point in range(len(points)):
        place = places[cells[point]]
        places[cells[point]] += 1
        names[place] = point
        for axis in range(points.shape[1]):
            ordered[place, axis] = points[point, axis]
    return ordered, names, starts


@njit(nogil=True, cache=True)
def _reach(low, high, box, sides, edges, bits, reach):
    """The first and last range of a box in each of three dimensions; unused ones have one range."""
    for i in range(3):
        reach[i, 0], reach[i, 1] = 0, 0
    gap = 3 - len(sides)
    for i in range(len(sides)):
        reach[gap + i, 0] = range_of(low[box, sides[i]], edges, i, bits[i])
        reach[gap + i, 1] = range_of(high[box, sides[i]], edges, i, bits[i])


@njit(nogil=True, cache=True)
def walk_cells(
    low, high, begin, sides, edges, bits, order, points, names, starts, first, out_points, out_boxes
):
    """For each box, the points in the cells that it reaches: runs along the last dimension."""
    count, reach = 0, np.empty((3, 2), np.int64)
    last = bits[-1]
    middle = bits[-2] if len(bits) > 1 else 0
    for box in range(first, len(low)):
        _reach(low, high, box, sides, edges, bits, reach)
        begun = count
        for outer in range(reach[0, 0], reach[0, 1] + 1):
            for inner in range(reach[1, 0], reach[1, 1] + 1):
                row = ((outer << middle) | inner) << last
                start, end = starts[row + reach[2, 0]], starts[row + reach[2, 1] + 1]
                if count + (end - start) > len(out_points):
                    return box, begun
                for i in range(start, end):
                    out_points[count] = i
                    count += 1
        count = keep_inside(points, low, high, box, order, out_points, begun, count)
        for i in range(begun, count):
            out_points[i] = names[out_points[i]]
            out_boxes[i] = begin + box
    return len(low), count


@njit(nogil=True, cache=True)
def list_boxes(low, high, sides, edges, bits, most):
    """The boxes that reach each cell: where its list begins, and the lists. Empty if there would
    be more than `most`."""
    total = 0
    for i in range(len(sides)):
        total += bits[i]
    reach = np.empty((3, 2), np.int64)
    last = bits[-1]
    middle = bits[-2] if len(bits) > 1 else 0
    starts = np.zeros((1 << total) + 1, np.int32)
    entries = 0
    for box in range(len(low)):
        _reach(low, high, box, sides, edges, bits, reach)
        for outer in range(reach[0, 0], reach[0, 1] + 1):
            for inner in range(reach[1, 0], reach[1, 1] + 1):
                row = ((outer << middle) | inner) << last
                for cell in range(row + reach[2, 0], row + reach[2, 1] + 1):
                    starts[cell + 1] += 1
                    entries += 1
        if entries > most:
            return starts, np.empty(0, np.int32), False
    for cell in range(1 << total):
        starts[cell + 1] += starts[cell]
    places = starts[:-1].copy()
    lists = np.empty(entries, np.int32)
    for box in range(len(low)):
        _reach(low, high, box, sides, edges, bits, reach)
        for outer in range(reach[0, 0], reach[0, 1] + 1):
            for inner in range(reach[1, 0], reach[1, 1] + 1):
                row = ((outer << middle) | inner) << last
                for cell in range(row + reach[2, 0], row + reach[2, 1] + 1):
                    lists[places[cell]] = box
                    places[cell] += 1
    return starts, lists, True


@njit(nogil=True, cache=True)
def look_up(
    points, begin, sides, edges, bits, order, low, high, starts, lists, first, out_points, out_boxes
):
    """For each point, the boxes that reach its cell."""
    count = 0
    for point in range(first, len(points)):
        cell = 0
        for i in range(len(sides)):
            cell = (cell << bits[i]) | range_of(points[point, sides[i]], edges, i, bits[i])
        start, end = starts[cell], starts[cell + 1]
        if count + (end - start) > len(out_boxes):
            return point, count
        for i in range(start, end):
            out_boxes[count + i - start] = lists[i]
        end = count + end - start
        end = keep_around(low, high, points, point, order, out_boxes, count, end)
        for i in range(count, end):
            out_points[i] = begin + point
        count = end
    return len(points), count
