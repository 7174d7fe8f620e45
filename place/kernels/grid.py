"""A grid whose cells fit the data: where a coordinate falls, and points sorted by cell.

An axis maps coordinates to cells by a monotone function: linear where the data is spread evenly,
by quantiles where it is not. Points and the corners of boxes go through the same function, so a
point in a box is always in one of the box's cells, however far outside the bounds it lies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

MOST_CELLS = 1 << 22
SAMPLE = 2048
CROWDED = 24.0
"""Objects that an object may share its cell with before the grid follows the quantiles."""


class Axis(NamedTuple):
    """`knots` are the inner boundaries of the cells, ascending; without any, cells are even."""

    low: float
    scale: float
    cells: int
    knots: Floats


class Grid(NamedTuple):
    columns: Axis
    rows: Axis


class Sorted(NamedTuple):
    """Points in the order of their cells: `starts[c]:starts[c + 1]` is cell c, row by row.

    A point's first two coordinates are those that it is sorted by.
    """

    starts: Ints
    ids: Ints
    points: Floats


@njit(nogil=True, cache=True, inline="always")
def cell_of(value, low, scale, cells, knots):
    """The cell of a coordinate on an axis; values beyond the ends fall into the end cells."""
    if knots.size == 0:
        place = (value - low) * scale
        if not place > 0.0:
            return 0
        if place >= cells:
            return cells - 1
        return int(place)
    first = 0
    count = knots.size
    while count > 0:
        half = count >> 1
        middle = first + half
        if knots[middle] <= value:
            first = middle + 1
            count -= half + 1
        else:
            count = half
    return first


def choose_grid(points: Floats, boxes: Floats, count: int, seed: int = 7) -> Grid:
    """A grid for `count` points like these, asked for boxes like these: their values now, then
    before (the first columns, then the others); where there are none now, those before count.

    Half a typical box is a good cell: few points outside the box are looked at, in few runs. The
    cells are at most a few for each point, so that they are not dearer than the points.
    """
    chance = np.random.default_rng(seed)
    sample = _present(_sampled(points, chance), 2)
    areas = _present(_sampled(boxes, chance), 4)
    if len(sample) == 0:
        sample = areas[:, :2] if len(areas) else np.zeros((1, 2))
    budget = float(min(max(count, 256), MOST_CELLS))
    most = max(1, int(budget**0.5))
    axes = []
    for axis in (0, 1):
        values = sample[:, axis]
        low, high = np.quantile(values, (0.005, 0.995))
        margin = 0.01 * (high - low)
        low, high = low - margin, high + margin
        size = 0.0
        if len(areas):
            size = float(np.median(areas[:, axis + 2] - areas[:, axis])) / 2
        if not high > low:
            axes.append(Axis(float(low), 0.0, 1, np.empty(0)))
            continue
        cells = most if size <= 0 else int(min(max((high - low) / size, 1.0), 1e9))
        axes.append(Axis(float(low), 0.0, cells, np.array([low, high])))
    wanted = [axis.cells for axis in axes]
    while wanted[0] * wanted[1] > budget:
        larger = 0 if wanted[0] >= wanted[1] else 1
        wanted[larger] = max(1, (wanted[larger] * 3) // 4)
    even = [_even(axis, cells) for axis, cells in zip(axes, wanted, strict=True)]
    if _crowding(sample, even, count) <= CROWDED:
        return Grid(*even)
    return Grid(*(_by_quantiles(sample[:, i], most) for i in (0, 1)))


def _even(axis: Axis, cells: int) -> Axis:
    if axis.knots.size == 0:
        return axis
    low, high = float(axis.knots[0]), float(axis.knots[1])
    return Axis(low, cells / (high - low), cells, np.empty(0))


def _by_quantiles(values: Floats, most: int) -> Axis:
    """Cells that hold about as many points each."""
    cells = min(most, 512, max(1, len(values) // 4))
    knots = (
        np.unique(np.quantile(values, np.arange(1, cells) / cells)) if cells > 1 else np.empty(0)
    )
    if knots.size == 0:
        return Axis(float(values[0]) if len(values) else 0.0, 0.0, 1, np.empty(0))
    return Axis(float(knots[0]), 0.0, len(knots) + 1, knots)


def _crowding(sample: Floats, axes: list[Axis], count: int) -> float:
    """How many points the cell of a point holds, on average over the points."""
    cells = cells_of(np.ascontiguousarray(sample), 0, Grid(*axes))
    _, sizes = np.unique(cells, return_counts=True)
    own = float((sizes.astype(np.float64) * (sizes - 1)).sum()) / max(len(sample), 1)
    return own * count / max(len(sample), 1)


def _sampled(rows: Floats, chance: np.random.Generator) -> Floats:
    if len(rows) <= SAMPLE:
        return rows
    return rows[chance.integers(0, len(rows), SAMPLE)]


def _present(rows: Floats, width: int) -> Floats:
    now = rows[:, :width]
    if rows.shape[1] >= 2 * width:
        now = np.where(np.isnan(now), rows[:, width : 2 * width], now)
    return now[np.isfinite(now).all(axis=1)]


@njit(nogil=True, cache=True)
def _cells_of(points, offset, a, b, c, d, e, f, g, h):
    cells = np.empty(len(points), np.int32)
    for i in range(len(points)):
        x, y = points[i, offset], points[i, offset + 1]
        if x != x or y != y:
            cells[i] = -1
        else:
            cells[i] = cell_of(y, e, f, g, h) * c + cell_of(x, a, b, c, d)
    return cells


def cells_of(points: Floats, offset: int, grid: Grid) -> Ints:
    """The cell of each point, which stands at columns `offset` and `offset + 1`; −1 for NaN."""
    cells: Ints = _cells_of(points, offset, *grid.columns, *grid.rows)
    return cells


@njit(nogil=True, cache=True)
def _sort(cells, total, points, chosen, offset):
    starts = np.zeros(total + 1, np.int32)
    kept = 0
    for i in range(len(chosen)):
        cell = cells[chosen[i]]
        if cell >= 0:
            starts[cell + 1] += 1
            kept += 1
    for c in range(total):
        starts[c + 1] += starts[c]
    fill = starts[:total].copy()
    ids = np.empty(kept, np.int32)
    ordered = np.empty((kept, 4))
    for i in range(len(chosen)):
        one = chosen[i]
        cell = cells[one]
        if cell >= 0:
            place = fill[cell]
            fill[cell] = place + 1
            ids[place] = one
            ordered[place, 0] = points[one, offset]
            ordered[place, 1] = points[one, offset + 1]
            ordered[place, 2] = points[one, 2 - offset]
            ordered[place, 3] = points[one, 3 - offset]
    return starts, ids, ordered


def sort_by_cell(points: Floats, offset: int, grid: Grid, chosen: Ints) -> Sorted:
    """The chosen points in the order of their cells; those that are NaN are left out."""
    cells = cells_of(points, offset, grid)
    return Sorted(*_sort(cells, grid.columns.cells * grid.rows.cells, points, chosen, offset))


@njit(nogil=True, cache=True)
def _order(boxes, chosen, a, b, c, d, e, f, g, h):
    cells = np.empty(len(chosen), np.int32)
    starts = np.zeros(c * g + 1, np.int32)
    for i in range(len(chosen)):
        one = chosen[i]
        x, y = boxes[one, 0], boxes[one, 1]
        if x != x or y != y:
            x, y = boxes[one, 4], boxes[one, 5]
        cells[i] = cell_of(y, e, f, g, h) * c + cell_of(x, a, b, c, d)
        starts[cells[i] + 1] += 1
    for k in range(c * g):
        starts[k + 1] += starts[k]
    order = np.empty(len(chosen), np.int32)
    for i in range(len(chosen)):
        order[starts[cells[i]]] = chosen[i]
        starts[cells[i]] += 1
    return order


def order_by_cell(boxes: Floats, grid: Grid, chosen: Ints) -> Ints:
    """The chosen boxes in the order of the cell of their first corner, now or else before."""
    order: Ints = _order(boxes, chosen, *grid.columns, *grid.rows)
    return order
