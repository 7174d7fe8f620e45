"""A grid whose cells fit the data: where a coordinate falls, what is sorted by cell, and the
comparison of what lies in a cell.

An axis maps coordinates to cells by a monotone function: even where the data is spread evenly, by
quantiles where it is not. Points and the corners of boxes go through the same function, so a point
in a box is always in one of the box's cells, however far outside the bounds it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Numbers = NDArray[np.uint32]
T = TypeVar("T")

MOST_CELLS = 1 << 22
SERIAL = 4096  # elements that are worth a piece of their own
SAMPLE = 2048
CROWDED = 8.0  # times more objects in a cell than an even spread has, before quantiles are asked
SLOTS = 2048
RUN_COST = 3.0  # what another row of cells costs a window, in points looked at
NEAR = 64  # cells of a window that is never dear
NO_KNOTS = np.empty(0)


class Axis(NamedTuple):
    """Slots of even size between `low` and the end, each divided evenly into its own cells.

    `bases[i]` is the cell at which slot i begins. Where the data is of so many scales that this
    does not do, `knots` are the inner boundaries of the cells, ascending.
    """

    low: float
    scale: float
    cells: int
    bases: Floats
    knots: Floats


class Grid(NamedTuple):
    """Cells are numbered row by row, so that a window is a run of cells in each of its rows."""

    columns: Axis
    rows: Axis

    @property
    def cells(self) -> int:
        return self.columns.cells * self.rows.cells


class Sorted(NamedTuple):
    """Rows in the order of their cells: `starts[c]:starts[c + 1]` is cell c, row by row."""

    grid: Grid
    starts: Numbers
    names: Any
    rows: Floats


@njit(nogil=True, cache=True, inline="always")
def cell_of(value, axis):
    """The cell of a coordinate on an axis; values beyond the ends fall into the end cells."""
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
    cell = start + (place - float(slot)) * (end - start)
    # Rounding must not carry a value past the start of the next slot.
    return int(cell if cell < end else end)


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
    sample: Floats, width: float, height: float, count: int, *, square: bool = False
) -> Grid:
    """A grid for `count` points like the sample, asked for windows of about this size; or, for
    lists that are no runs of one array, one with cells of half that size."""
    sample = sample[np.isfinite(sample).all(axis=1)]
    if len(sample) == 0:
        sample = np.zeros((1, 2))
    ordered = (np.sort(sample[:, 0]), np.sort(sample[:, 1]))
    with np.errstate(all="ignore"):
        ends = [_ends(values) for values in ordered]
        spans = [high - low for low, high in ends]
        columns, rows = _divide(_share(width, spans[0]), _share(height, spans[1]), count, square)
        grid = Grid(_axis(*ends[0], columns), _axis(*ends[1], rows))
        best, crowding = grid, _crowding(sample, grid, count)
        if crowding <= CROWDED * max(1.0, count / (columns * rows)):
            return grid
        shares = _share_of_points(ordered[0], width), _share_of_points(ordered[1], height)
        columns, rows = _divide(*shares, count, square)
        for make in (_by_slots, _by_knots):
            grid = Grid(make(ordered[0], columns), make(ordered[1], rows))
            crowded = _crowding(sample, grid, count)
            if crowded < crowding / 2:
                best, crowding = grid, crowded
    return best


def _ends(values: Floats) -> tuple[float, float]:
    """Where cells begin and end: a few outliers share the end cells."""
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


def _divide(width: float, height: float, count: int, square: bool) -> tuple[int, int]:
    """Columns and rows of the unit square with `count` points, for windows of this size.

    A window costs the points of all cells that it touches, and something for each row. Columns
    may be narrow, because cells of a row lie side by side; there are about as many cells as points,
    so that cells are not dearer than points.
    """
    most = float(min(max(count, 64), MOST_CELLS))
    width, height = max(width, 1e-9), max(height, 1e-9)
    tall = min(1.0, (RUN_COST / max(width * height * count, 1e-9)) ** 0.5)
    rows, columns = min(1.0 / (height * tall), most), min(10.0 / width, most)
    if square:
        rows, columns = min(2.0 / height, most), min(2.0 / width, most)
    if rows * columns > most:
        columns = max(min(columns, 2.0 / width), most / rows)
    if rows * columns > most:
        shrink = (most / (rows * columns)) ** 0.5
        rows, columns = rows * shrink, columns * shrink
    return max(1, int(columns)), max(1, int(rows))


def _axis(low: float, high: float, cells: int, bases: Floats | None = None) -> Axis:
    """Slots from `low` to `high`, or one; the last is followed by a sentinel just below its end."""
    bases = np.array([0.0, cells]) if bases is None else bases
    span = np.float64(high) - low
    if not 0.0 < span < np.inf or not np.isfinite((len(bases) - 1) / span):
        return Axis(low, 0.0, 1, np.zeros(2), NO_KNOTS)
    last = np.nextafter(float(cells), 0.0)
    bases = np.concatenate([np.minimum(bases[:-1], last), [last, last]])
    return Axis(low, float((len(bases) - 2) / span), cells, bases, NO_KNOTS)


def _by_slots(values: Floats, cells: int) -> Axis:
    """Many slots, each with as many cells as its share of the points is worth."""
    low, high = _ends(values)
    edges = np.linspace(low, high, SLOTS + 1)
    held = np.searchsorted(values, edges) + np.linspace(0.0, 0.05 * len(values), SLOTS + 1)
    held -= held[0]
    return _axis(low, high, cells, held * (cells / held[-1]))


def _by_knots(values: Floats, cells: int) -> Axis:
    """Cells that hold about as many points each."""
    at = np.linspace(0, len(values) - 1, min(cells, len(values) // 2) + 1)[1:-1]
    knots = np.unique(values[at.astype(np.int64)])
    return Axis(0.0, 0.0, len(knots) + 1, np.zeros(2), knots)


def _crowding(sample: Floats, grid: Grid, count: int) -> float:
    """How many other points the cell of a point holds, on average over the points."""
    cells = np.sort(cells_of(sample, grid))
    edges = np.flatnonzero(np.diff(cells, prepend=-1, append=-1))
    sizes = np.diff(edges).astype(np.float64)
    return float((sizes * (sizes - 1)).sum()) / len(sample) * count / len(sample)


@njit(nogil=True, cache=True)
def cells_of(points, grid):
    """The cell of each point."""
    cells = np.empty(len(points), np.int32)
    for i in range(len(points)):
        row = cell_of(points[i, 1], grid.rows)
        cells[i] = row * grid.columns.cells + cell_of(points[i, 0], grid.columns)
    return cells


@njit(nogil=True, cache=True)
def place_rows(rows, grid):
    """The cell of the first corner of each row, now or else before, and the counts of cells."""
    before = rows.shape[1] // 2
    cells = np.empty(len(rows), np.int32)
    counts = np.zeros(grid.columns.cells * grid.rows.cells, np.uint32)
    for i in range(len(rows)):
        x, y = rows[i, 0], rows[i, 1]
        if x != x or y != y:
            x, y = rows[i, before], rows[i, before + 1]
        cell = cell_of(y, grid.rows) * grid.columns.cells + cell_of(x, grid.columns)
        cells[i] = cell
        counts[cell] += np.uint32(1)
    return cells, counts


@njit(nogil=True, cache=True)
def scatter_rows(rows, names, cells, places, ordered_names, ordered):
    """Puts rows where their cells are; `places` is where each cell's next one goes."""
    width = ordered.shape[1]
    for i in range(len(rows)):
        place = np.uint64(places[cells[i]])
        places[cells[i]] += np.uint32(1)
        ordered_names[place] = names[i]
        for column in range(width):
            ordered[place, column] = rows[i, column]


@njit(nogil=True, cache=True)
def place_moves(points, grid):
    """The cells of each point now and before, and the counts of its entries.

    A point within one cell has one entry there, others have one in each cell; −1 is none.
    """
    cells = np.empty((len(points), 2), np.int32)
    counts = np.zeros(grid.columns.cells * grid.rows.cells, np.uint32)
    for i in range(len(points)):
        x, y, u, v = points[i, 0], points[i, 1], points[i, 2], points[i, 3]
        now, before = -1, -1
        if x == x and y == y:
            now = cell_of(y, grid.rows) * grid.columns.cells + cell_of(x, grid.columns)
            counts[now] += np.uint32(1)
        if u == u and v == v:
            before = cell_of(v, grid.rows) * grid.columns.cells + cell_of(u, grid.columns)
            if before != now:
                counts[before] += np.uint32(1)
        cells[i, 0], cells[i, 1] = now, before
    return cells, counts


@njit(nogil=True, cache=True)
def scatter_moves(points, names, cells, places, ordered_names, ordered):
    """Puts the entries of points where their cells are.

    The two highest bits of a name tell whether the entry stands for now, before or both, and so
    which changes are found there: who enters is found now, who leaves is found before.
    """
    for i in range(len(points)):
        now, before = cells[i, 0], cells[i, 1]
        for side in range(2):
            cell = now if side == 0 else before
            if cell < 0 or (side == 1 and now == before):
                continue
            place = np.uint64(places[cell])
            places[cell] += np.uint32(1)
            kind = 3 if now == before else side + 1
            ordered_names[place] = np.uint32(names[i]) | (np.uint32(kind) << np.uint32(30))
            for column in range(4):
                ordered[place, column] = points[i, column]


@njit(nogil=True, cache=True)
def start_cells(counts):
    """Where each cell starts; the counts of each piece become where its next entry goes."""
    pieces, cells = counts.shape
    starts = np.empty(cells + 1, np.uint32)
    place = np.uint32(0)
    for cell in range(cells):
        starts[cell] = place
        for piece in range(pieces):
            size = counts[piece, cell]
            counts[piece, cell] = place
            place += size
    starts[cells] = place
    return starts


@njit(nogil=True, cache=True)
def windows_of(rows, reach_x, reach_y, grid, windows):
    """The first and last column and row of cells that each row asks for, now and before together.

    A row of eight is a box. A row of four is a point that asks for the first corners of boxes of
    at most the given size. Where now and before are so far apart that one window is dear, it is
    the one of now, and the row is among those that are returned: `rest_of_windows` has the rest.
    """
    far = np.empty(len(rows), np.int32)
    count = 0
    point = rows.shape[1] == 4
    columns, lines = grid.columns, grid.rows
    for k in range(len(rows)):
        if point:
            x2, y2, u2, v2 = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3]
            x1, y1, u1, v1 = x2 - reach_x, y2 - reach_y, u2 - reach_x, v2 - reach_y
            now, before = x2 == x2 and y2 == y2, u2 == u2 and v2 == v2
        else:
            x1, y1, x2, y2 = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3]
            u1, v1, u2, v2 = rows[k, 4], rows[k, 5], rows[k, 6], rows[k, 7]
            now, before = x1 <= x2 and y1 <= y2, u1 <= u2 and v1 <= v2
        left, low, right, high = x1, y1, x2, y2
        if now and before:
            left, right = u1 if u1 < x1 else x1, u2 if u2 > x2 else x2
            low, high = v1 if v1 < y1 else y1, v2 if v2 > y2 else y2
        elif before:
            left, low, right, high = u1, v1, u2, v2
        elif not now:
            windows[k, 0], windows[k, 1], windows[k, 2], windows[k, 3] = 0, 0, -1, -1
            continue
        windows[k, 0], windows[k, 2] = cell_of(left, columns), cell_of(right, columns)
        windows[k, 1], windows[k, 3] = cell_of(low, lines), cell_of(high, lines)
        size = (windows[k, 2] - windows[k, 0] + 1) * (windows[k, 3] - windows[k, 1] + 1)
        if size > NEAR and now and before:
            apart = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1)
            if not (right - left) * (high - low) <= 2.0 * apart:
                windows[k, 0], windows[k, 2] = cell_of(x1, columns), cell_of(x2, columns)
                windows[k, 1], windows[k, 3] = cell_of(y1, lines), cell_of(y2, lines)
                far[count] = k
                count += 1
    return far[:count]


@njit(nogil=True, cache=True)
def rest_of_windows(rows, reach_x, reach_y, grid, windows, far):
    """For rows whose window is only that of now: what their window before has besides it.

    That are up to four windows for each: below, above, to the left and to the right.
    """
    rest = np.empty((4 * len(far), 4), np.int32)
    columns, lines = grid.columns, grid.rows
    for i in range(len(far)):
        k = far[i]
        if rows.shape[1] == 4:
            u2, v2 = rows[k, 2], rows[k, 3]
            u1, v1 = u2 - reach_x, v2 - reach_y
        else:
            u1, v1, u2, v2 = rows[k, 4], rows[k, 5], rows[k, 6], rows[k, 7]
        left, right = cell_of(u1, columns), cell_of(u2, columns)
        low, high = cell_of(v1, lines), cell_of(v2, lines)
        west, south, east, north = windows[k, 0], windows[k, 1], windows[k, 2], windows[k, 3]
        rest[4 * i] = (left, low, right, min(high, south - 1))
        rest[4 * i + 1] = (left, max(low, north + 1), right, high)
        middle_low, middle_high = max(low, south), min(high, north)
        rest[4 * i + 2] = (left, middle_low, min(right, west - 1), middle_high)
        rest[4 * i + 3] = (max(left, east + 1), middle_low, right, middle_high)
    return rest


class Pool:
    """Runs pieces of work on this thread and others; the kernels let go of the interpreter. It
    lives as long as one join: threads do not survive the forks of Spark's workers."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)
        self._others = ThreadPoolExecutor(self._threads)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._others.shutdown()

    def map(self, work: Iterable[Callable[[], T]]) -> list[T]:
        tasks = list(work)
        turns, done = iter(range(len(tasks))), {}

        def take_turns() -> None:
            for number in turns:
                done[number] = tasks[number]()

        others = [self._others.submit(take_turns) for _ in tasks[1 : self._threads]]
        take_turns()
        for other in others:
            other.result()
        return [done[number] for number in range(len(tasks))]

    def cut(self, size: int, each: int = 1) -> list[tuple[int, int]]:
        """Bounds of the pieces that a work of this size is cut into."""
        pieces = min(each * self._threads, size // SERIAL + 1) if self._threads > 1 else 1
        return list(pairwise(size * number // pieces for number in range(pieces + 1)))


def sort_by_cell(
    rows: Floats,
    chosen: Ints,
    grid: Grid,
    pool: Pool,
    into: Floats | None = None,
    *,
    moves: bool = False,
) -> Sorted:
    """The chosen rows in the order of their cells, or as many columns as there are to write into;
    with `moves`, points with entries for now and before."""
    place, scatter = (place_moves, scatter_moves) if moves else (place_rows, scatter_rows)

    def placed(low: int, high: int) -> tuple[Floats, Ints, Ints, Numbers]:
        part = chosen[low:high]
        # Gathered first: a loop that does nothing else waits for many rows at once. What is chosen
        # is in ascending order, so it is everything if it is as many.
        mine = rows[low:high] if len(chosen) == len(rows) else rows.take(part, axis=0)
        return mine, part, *place(mine, grid)

    parts = pool.map(partial(placed, low, high) for low, high in pool.cut(len(chosen)))
    counts = np.stack([part[3] for part in parts]) if len(parts) > 1 else parts[0][3][None, :]
    starts = start_cells(counts)
    names = np.empty(starts[-1], np.uint32 if moves else np.int32)
    ordered = np.empty((starts[-1], rows.shape[1])) if into is None else into
    pool.map(
        partial(scatter, *part[:3], places, names, ordered)
        for part, places in zip(parts, counts, strict=True)
    )
    return Sorted(grid, starts, names, ordered)


def _comparison(width, places, low_places=None, high_places=None):
    """Code that compares four coordinates of a row at once: one bit for each that is within.

    The row's coordinates are compared with eight bounds, or, where places of bounds are given, four
    coordinates with the row's bounds. Compilers don't find this in four comparisons of two bounds.
    """
    ir = cgutils.ir  # type: ignore[attr-defined]
    number, four = ir.IntType(32), ir.VectorType(ir.DoubleType(), 4)

    def generate(context, builder, signature, arguments):
        rows = context.make_array(signature.args[0])(context, builder, arguments[0])

        def vector(values):
            made = ir.Constant(four, ir.Undefined)
            for place, value in enumerate(values):
                made = builder.insert_element(made, value, ir.Constant(number, place))
            return made

        def picked(order):
            return builder.shuffle_vector(row, row, ir.Constant(ir.VectorType(number, 4), order))

        offset = builder.mul(arguments[1], ir.Constant(arguments[1].type, width))
        kind = ir.VectorType(ir.DoubleType(), width)
        row = builder.load(builder.bitcast(builder.gep(rows.data, [offset]), kind.as_pointer()))
        row.align = 8
        if low_places is None:
            value, low, high = picked(places), vector(arguments[2:6]), vector(arguments[6:10])
        else:
            value, low, high = vector(arguments[2:6]), picked(low_places), picked(high_places)
        within = builder.and_(
            builder.fcmp_ordered(">=", value, low), builder.fcmp_ordered("<=", value, high)
        )
        return builder.zext(builder.bitcast(within, ir.IntType(4)), ir.IntType(64))

    return generate


def _moving_point_in(_, rows, i, x1, y1, u1, v1, x2, y2, u2, v2):
    """Bits 0 and 1: row i's point (x, y, u, v) is within (x1, y1, x2, y2); 2 and 3: was within."""
    signature = types.uint64(rows, types.uint64, x1, y1, u1, v1, x2, y2, u2, v2)
    return signature, _comparison(4, [0, 1, 2, 3])


def _standing_point_in(_, rows, i, x1, y1, u1, v1, x2, y2, u2, v2):
    """The same for a point (x, y) that was where it is."""
    signature = types.uint64(rows, types.uint64, x1, y1, u1, v1, x2, y2, u2, v2)
    return signature, _comparison(2, [0, 1, 0, 1])


def _in_standing_box(_, rows, i, x, y, u, v):
    """The same for row i's box (x1, y1, x2, y2) that was where it is, and a point."""
    signature = types.uint64(rows, types.uint64, x, y, u, v)
    return signature, _comparison(4, None, [0, 1, 0, 1], [2, 3, 2, 3])


moving_point_in: Any = intrinsic(_moving_point_in)
standing_point_in: Any = intrinsic(_standing_point_in)
in_standing_box: Any = intrinsic(_in_standing_box)
