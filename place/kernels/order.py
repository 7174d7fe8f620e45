"""Rows in the order of their squares: a counting sort, in pieces on several threads.

What lies together is then read together; that alone makes the join several times faster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints, Words
from place.kernels.grid import Grid, square_of

T = TypeVar("T")

SERIAL = 4096  # elements that are worth a piece of their own
PIECES = 1 << 15
"""From so many values on, a pass that does little with each is worth a second thread."""


class Sorted(NamedTuple):
    """Rows in the order of their squares: `starts[c]:starts[c + 1]` is square c, row by row."""

    grid: Grid
    starts: Words
    names: Any
    rows: Floats


@njit(nogil=True, cache=True)
def place_rows(rows, grid):
    """The square of the first corner of each row, now or else before, and the counts of squares."""
    before = rows.shape[1] // 2
    squares = np.empty(len(rows), np.int32)
    counts = np.zeros(grid.columns.squares * grid.rows.squares, np.uint32)
    for i in range(len(rows)):
        x, y = rows[i, 0], rows[i, 1]
        if x != x or y != y:
            x, y = rows[i, before], rows[i, before + 1]
        square = square_of(y, grid.rows) * grid.columns.squares + square_of(x, grid.columns)
        squares[i] = square
        counts[square] += np.uint32(1)
    return squares, counts


@njit(nogil=True, cache=True)
def scatter_rows(rows, names, squares, places, ordered_names, ordered):
    """Puts rows where their squares are; `places` is where each square's next one goes."""
    width = ordered.shape[1]
    for i in range(len(rows)):
        place = np.uint64(places[squares[i]])
        places[squares[i]] += np.uint32(1)
        ordered_names[place] = names[i]
        for column in range(width):
            ordered[place, column] = rows[i, column]


@njit(nogil=True, cache=True)
def place_moves(points, grid):
    """The squares of each point now and before, and the counts of its entries.

    A point within one square has one entry there, others have one in each square; −1 is none.
    """
    squares = np.empty((len(points), 2), np.int32)
    counts = np.zeros(grid.columns.squares * grid.rows.squares, np.uint32)
    for i in range(len(points)):
        x, y, u, v = points[i, 0], points[i, 1], points[i, 2], points[i, 3]
        now, before = -1, -1
        if x == x and y == y:
            now = square_of(y, grid.rows) * grid.columns.squares + square_of(x, grid.columns)
            counts[now] += np.uint32(1)
        if u == u and v == v:
            before = square_of(v, grid.rows) * grid.columns.squares + square_of(u, grid.columns)
            if before != now:
                counts[before] += np.uint32(1)
        squares[i, 0], squares[i, 1] = now, before
    return squares, counts


@njit(nogil=True, cache=True)
def scatter_moves(points, names, squares, places, ordered_names, ordered):
    """Puts the entries of points where their squares are.

    The two highest bits of a name tell whether the entry stands for now, before or both, and so
    which changes are found there: who enters is found now, who leaves is found before.
    """
    for i in range(len(points)):
        now, before = squares[i, 0], squares[i, 1]
        for side in range(2):
            square = now if side == 0 else before
            if square < 0 or (side == 1 and now == before):
                continue
            place = np.uint64(places[square])
            places[square] += np.uint32(1)
            kind = 3 if now == before else side + 1
            ordered_names[place] = np.uint32(names[i]) | (np.uint32(kind) << np.uint32(30))
            for column in range(4):
                ordered[place, column] = points[i, column]


@njit(nogil=True, cache=True)
def start_squares(counts):
    """Where each square starts; the counts of each piece become where its next entry goes."""
    pieces, squares = counts.shape
    starts = np.empty(squares + 1, np.uint32)
    place = np.uint32(0)
    for square in range(squares):
        starts[square] = place
        for piece in range(pieces):
            size = counts[piece, square]
            counts[piece, square] = place
            place += size
    starts[squares] = place
    return starts


class Pool:
    """Runs pieces of work on this thread and others; the kernels let go of the interpreter."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)
        self._others = _threads_of(os.getpid(), self._threads) if self._threads > 1 else None

    def map(self, work: Iterable[Callable[[], T]]) -> list[T]:
        tasks = list(work)
        turns, done = iter(range(len(tasks))), {}

        def take_turns() -> None:
            for number in turns:
                done[number] = tasks[number]()

        others = []
        if self._others is not None:
            others = [self._others.submit(take_turns) for _ in tasks[1 : self._threads]]
        take_turns()
        for other in others:
            if not other.cancel():  # or it has not begun, and nothing is left for it to do
                other.result()
        return [done[number] for number in range(len(tasks))]

    def cut(self, size: int, each: int = 1) -> list[tuple[int, int]]:
        """Bounds of the pieces that a work of this size is cut into."""
        pieces = min(each * self._threads, size // SERIAL + 1) if self._threads > 1 else 1
        return list(pairwise(size * number // pieces for number in range(pieces + 1)))


def in_pieces(size: int, threads: int, work: Callable[[int, int], T]) -> list[T]:
    """Do work from one position to before another, on as many threads as it is worth."""
    if threads == 1 or size < PIECES:
        return [work(0, size)]
    pool = Pool(threads)
    return pool.map(partial(work, low, high) for low, high in pool.cut(size))


@lru_cache(maxsize=4)
def _threads_of(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of a process: they do not survive a fork, so a forked process has its own."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="place-kernel")


def sort_by_square(
    rows: Floats,
    chosen: Ints,
    grid: Grid,
    pool: Pool,
    into: Floats | None = None,
    *,
    moves: bool = False,
) -> Sorted:
    """The chosen rows in the order of their squares, or as many columns as there are to write into;
    with `moves`, points with entries for now and before."""
    place, scatter = (place_moves, scatter_moves) if moves else (place_rows, scatter_rows)

    def placed(low: int, high: int) -> tuple[Floats, Ints, Ints, Words]:
        part = chosen[low:high]
        # Gathered first: a loop that does nothing else waits for many rows at once. What is chosen
        # is in ascending order, so it is everything if it is as many.
        mine = rows[low:high] if len(chosen) == len(rows) else rows.take(part, axis=0)
        return mine, part, *place(mine, grid)

    parts = pool.map(partial(placed, low, high) for low, high in pool.cut(len(chosen)))
    counts = np.stack([part[3] for part in parts]) if len(parts) > 1 else parts[0][3][None, :]
    starts = start_squares(counts)
    names = np.empty(starts[-1], np.uint32 if moves else np.int32)
    ordered = np.empty((starts[-1], rows.shape[1])) if into is None else into
    pool.map(
        partial(scatter, *part[:3], places, names, ordered)
        for part, places in zip(parts, counts, strict=True)
    )
    return Sorted(grid, starts, names, ordered)
