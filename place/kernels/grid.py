"""A grid whose squares fit the data: where a coordinate falls.

An axis maps coordinates to squares by a monotone function: even where the data is spread evenly, by
quantiles where it is not. Points and the corners of boxes go through the same function, so a point
in a box is always in one of the box's squares, however far outside the bounds it lies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints

MOST_SQUARES = 1 << 22
SAMPLE = 2048
CROWDED = 8.0  # times more objects in a square than an even spread has, before quantiles are asked
SLOTS = 2048
RUN_COST = 3.0  # what another row of squares costs a window, in points looked at
NO_KNOTS = np.empty(0)


class Axis(NamedTuple):
    """Slots of even size between `low` and the end, each divided evenly into its own squares.

    `bases[i]` is the square at which slot i begins. Where the data is of so many scales that this
    does not do, `knots` are the inner boundaries of the squares, ascending.
    """

    low: float
    scale: float
    squares: int
    bases: Floats
    knots: Floats


class Grid(NamedTuple):
    """Squares are numbered row by row, so that a window is a run of squares in each of its rows."""

    columns: Axis
    rows: Axis

    @property
    def squares(self) -> int:
        return self.columns.squares * self.rows.squares


@njit(nogil=True, cache=True, inline="always")
def square_of(value, axis):
    """The square of a coordinate on an axis; values beyond the ends fall into the end squares."""
    if axis.knots.size > 0:
        first, last = 0, axis.knots.size
        while first < last:
            middle = (first + last) >> 1
            if axis.knots[middle] <= value:
                first = middle + 1
            else:
                last = middle
        return first
    most = axis.bases.size - 2
    place = (value - axis.low) * axis.scale
    place = place if place > 0.0 else 0.0
    place = place if place < most else float(most)
    slot = np.uint64(place)
    start, end = axis.bases[slot], axis.bases[slot + np.uint64(1)]
    square = start + (place - float(slot)) * (end - start)
    # Rounding must not carry a value past the start of the next slot.
    return int(square if square < end else end)


def sample_rows(rows: Floats, chosen: Ints, width: int, most: int = SAMPLE) -> Floats:
    """Some of the chosen rows that are present: their first columns, or else the next ones."""
    if len(chosen) > most:
        # Multiples of an odd number spread over the whole, whatever order the rows are in.
        steps = np.arange(most, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        chosen = chosen[((steps >> np.uint64(32)) * np.uint64(len(chosen))) >> np.uint64(32)]
    rows = rows[chosen]
    now = rows[:, :width]
    if rows.shape[1] >= 2 * width:
        now = np.where(np.isnan(now), rows[:, width : 2 * width], now)
    present: Floats = now[~np.isnan(now).any(axis=1)]
    return present


def choose_grid(
    sample: Floats, width: float, height: float, count: int, *, linked: bool = False
) -> Grid:
    """A grid for `count` points like the sample, asked for windows of about this size; or, for
    lists that are no runs of one array, one with squares of half that size."""
    sample = sample[np.isfinite(sample).all(axis=1)]
    if len(sample) == 0:
        sample = np.zeros((1, 2))
    ordered = (np.sort(sample[:, 0]), np.sort(sample[:, 1]))
    with np.errstate(all="ignore"):
        ends = [_ends(values) for values in ordered]
        spans = [high - low for low, high in ends]
        columns, rows = _divide(_share(width, spans[0]), _share(height, spans[1]), count, linked)
        grid = Grid(_axis(*ends[0], columns), _axis(*ends[1], rows))
        best, crowding = grid, _crowding(sample, grid, count)
        if crowding <= CROWDED * max(1.0, count / (columns * rows)):
            return grid
        shares = _share_of_points(ordered[0], width), _share_of_points(ordered[1], height)
        columns, rows = _divide(*shares, count, linked)
        for make in (_by_slots, _by_knots):
            grid = Grid(make(ordered[0], columns), make(ordered[1], rows))
            crowded = _crowding(sample, grid, count)
            if crowded < crowding / 2:
                best, crowding = grid, crowded
    return best


def _ends(values: Floats) -> tuple[float, float]:
    """Where squares begin and end: a few outliers share the end squares."""
    cut = len(values) // 200
    return float(values[cut]), float(values[-1 - cut])


def _share(size: float, span: float) -> float:
    return size / span if span > 0.0 and size < span else 1.0


def _share_of_points(values: Floats, size: float) -> float:
    """What share of the points a window of this size around a point holds, on one axis."""
    some = values[:: max(1, len(values) // 64)]
    first = np.searchsorted(values, some - size / 2)
    last = np.searchsorted(values, some + size / 2, side="right")
    return float(np.median(last - first)) / len(values)


def _divide(width: float, height: float, count: int, linked: bool) -> tuple[int, int]:
    """Columns and rows of the unit square with `count` points, for windows of this size.

    A window costs the points of all squares that it touches, and something for each row. Columns
    may be narrow, because squares of a row lie side by side; there are about as many squares as
    points, so that squares are not dearer than points.
    """
    most = float(min(max(count, 64), MOST_SQUARES))
    width, height = max(width, 1e-9), max(height, 1e-9)
    tall = min(1.0, (RUN_COST / max(width * height * count, 1e-9)) ** 0.5)
    rows, columns = min(1.0 / (height * tall), most), min(10.0 / width, most)
    if linked:
        rows, columns = min(2.0 / height, most), min(2.0 / width, most)
    if rows * columns > most:
        columns = max(min(columns, 2.0 / width), most / rows)
    if rows * columns > most:
        shrink = (most / (rows * columns)) ** 0.5
        rows, columns = rows * shrink, columns * shrink
    return max(1, int(columns)), max(1, int(rows))


def _axis(low: float, high: float, squares: int, bases: Floats | None = None) -> Axis:
    """Slots from `low` to `high`, or one; the last is followed by a sentinel just below its end."""
    bases = np.array([0.0, squares]) if bases is None else bases
    span = np.float64(high) - low
    if not 0.0 < span < np.inf or not np.isfinite((len(bases) - 1) / span):
        return Axis(low, 0.0, 1, np.zeros(2), NO_KNOTS)
    last = np.nextafter(float(squares), 0.0)
    bases = np.concatenate([np.minimum(bases[:-1], last), [last, last]])
    return Axis(low, float((len(bases) - 2) / span), squares, bases, NO_KNOTS)


def _by_slots(values: Floats, squares: int) -> Axis:
    """Many slots, each with as many squares as its share of the points is worth."""
    low, high = _ends(values)
    edges = np.linspace(low, high, SLOTS + 1)
    held = np.searchsorted(values, edges) + np.linspace(0.0, 0.05 * len(values), SLOTS + 1)
    held -= held[0]
    return _axis(low, high, squares, held * (squares / held[-1]))


def _by_knots(values: Floats, squares: int) -> Axis:
    """Squares that hold about as many points each."""
    at = np.linspace(0, len(values) - 1, min(squares, len(values) // 2) + 1)[1:-1]
    knots = np.unique(values[at.astype(np.int64)])
    return Axis(0.0, 0.0, len(knots) + 1, np.zeros(2), knots)


def _crowding(sample: Floats, grid: Grid, count: int) -> float:
    """How many other points the square of a point holds, on average over the points."""
    squares = np.sort(squares_of(sample, grid))
    edges = np.flatnonzero(np.diff(squares, prepend=-1, append=-1))
    sizes = np.diff(edges).astype(np.float64)
    return float((sizes * (sizes - 1)).sum()) / len(sample) * count / len(sample)


@njit(nogil=True, cache=True)
def squares_of(points, grid):
    """The square of each point."""
    squares = np.empty(len(points), np.int32)
    for i in range(len(points)):
        row = square_of(points[i, 1], grid.rows)
        squares[i] = row * grid.columns.squares + square_of(points[i, 0], grid.columns)
    return squares
