"""The bulk join: all that changed at one instant, old against new.

Points are rows (x, y now, x, y before), boxes are rows (x1, y1, x2, y2 now, and before); NaN is
absent. A pair whose membership differs between before and now is a change. Changed points meet all
boxes; unchanged points meet only the changed boxes. The side that is walked and the side that is
indexed are chosen by their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.grid import (
    Floats,
    Ints,
    cell_of,
    choose_grid,
    order_by_cell,
    sort_by_cell,
)

Bytes = NDArray[np.uint8]
T = TypeVar("T")

SIMPLE, WATCHED, TOUCHED = 0, 1, 2
"""What a box reports. SIMPLE: points that enter or leave. WATCHED: also changed points that stay
within. TOUCHED: every point that is or was within, for a test that the box cannot decide."""

GATHERED_SHARE = 0.3
"""Boxes are put in the order of their cells when at least this share of points meets them."""
STREAMED_SHARE = 0.35
"""Changed boxes are indexed, and unchanged points walked, below this share of changed boxes."""


class Pairs(NamedTuple):
    """Pairs of box and point, and whether the point is (1) and was (2) within the box."""

    boxes: Ints
    points: Ints
    codes: Bytes


EMPTY = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.uint8))


@njit(nogil=True, cache=True)
def _fill_from_boxes(
    names,
    first,
    last,
    boxes,
    modes,
    side,
    starts,
    ids,
    points,
    changed,
    out_box,
    out_point,
    out_code,
    a,
    b,
    c,
    d,
    e,
    f,
    g,
    h,
):
    """For each box, the runs of sorted points in its cells; stops before a box that may not fit.

    `side` tells by what the points are sorted, now or before; `names` are the boxes' numbers.
    """
    # Unsigned, so that no index is checked for a sign.
    capacity, count, one = np.uint64(len(out_box)), np.uint64(0), np.uint64(1)
    here, there = (0, 4) if side == 0 else (4, 0)
    code = np.uint8(1) if side == 0 else np.uint8(2)
    for k in range(first, last):
        box = names[k]
        x1, y1, x2, y2 = boxes[k, here], boxes[k, here + 1], boxes[k, here + 2], boxes[k, here + 3]
        if not (x1 <= x2 and y1 <= y2):
            continue
        u1, v1 = boxes[k, there], boxes[k, there + 1]
        u2, v2 = boxes[k, there + 2], boxes[k, there + 3]
        left, right = cell_of(x1, a, b, c, d), cell_of(x2, a, b, c, d)
        bottom, top = cell_of(y1, e, f, g, h), cell_of(y2, e, f, g, h)
        mode = modes[k]
        needed = np.uint64(0)
        for row in range(bottom, top + 1):
            needed += np.uint64(starts[row * c + right + 1] - starts[row * c + left])
        if count + needed > capacity:
            return k, count, needed
        for row in range(bottom, top + 1):
            start = np.uint64(starts[row * c + left])
            end = np.uint64(starts[row * c + right + 1])
            if mode == 0:
                for i in range(start, end):
                    x, y, u, v = points[i, 0], points[i, 1], points[i, 2], points[i, 3]
                    inside = (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
                    other = (u >= u1) & (u <= u2) & (v >= v1) & (v <= v2)
                    out_box[count] = box
                    out_point[count] = ids[i]
                    out_code[count] = code
                    count += np.uint64(inside & (not other))
            else:
                for i in range(start, end):
                    x, y = points[i, 0], points[i, 1]
                    if x >= x1 and x <= x2 and y >= y1 and y <= y2:
                        u, v = points[i, 2], points[i, 3]
                        other = u >= u1 and u <= u2 and v >= v1 and v <= v2
                        # Both: reported from one side only.
                        if other and (side == 1 or (mode == 1 and not changed[ids[i]])):
                            continue
                        out_box[count] = box
                        out_point[count] = ids[i]
                        out_code[count] = np.uint8(3) if other else code
                        count += one
    return last, count, np.uint64(0)


@njit(nogil=True, cache=True)
def _walk_boxes(
    names, first, last, boxes, modes, side, starts, ids, points, changed, a, b, c, d, e, f, g, h
):
    """All pairs of the boxes `first` to `last`, in pieces of memory that grow as needed."""
    pieces = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.uint8))]
    size, needed = np.uint64(max(4096, (last - first) * 4)), np.uint64(0)
    while first < last:
        size = max(size, needed)
        out_box = np.empty(size, np.int32)
        out_point = np.empty(size, np.int32)
        out_code = np.empty(size, np.uint8)
        first, count, needed = _fill_from_boxes(
            names,
            first,
            last,
            boxes,
            modes,
            side,
            starts,
            ids,
            points,
            changed,
            out_box,
            out_point,
            out_code,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
        )
        pieces.append((out_box[:count], out_point[:count], out_code[:count]))
    return pieces


@njit(nogil=True, cache=True)
def _index_boxes(chosen, boxes, a, b, c, d, e, f, g, h):
    """For each cell, the chosen boxes that overlap it, now or before."""
    total = c * g
    starts = np.zeros(total + 1, np.int64)
    spans = np.empty((len(chosen), 4), np.int32)
    for k in range(len(chosen)):
        box = chosen[k]
        x1, y1, x2, y2 = boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3]
        u1, v1, u2, v2 = boxes[box, 4], boxes[box, 5], boxes[box, 6], boxes[box, 7]
        now, before = x1 <= x2 and y1 <= y2, u1 <= u2 and v1 <= v2
        if now and before:
            x1, y1, x2, y2 = min(x1, u1), min(y1, v1), max(x2, u2), max(y2, v2)
        elif before:
            x1, y1, x2, y2 = u1, v1, u2, v2
        elif not now:
            spans[k, 0] = 1
            spans[k, 1] = 0
            spans[k, 2] = 1
            spans[k, 3] = 0
            continue
        spans[k, 0], spans[k, 1] = cell_of(x1, a, b, c, d), cell_of(x2, a, b, c, d)
        spans[k, 2], spans[k, 3] = cell_of(y1, e, f, g, h), cell_of(y2, e, f, g, h)
        for row in range(spans[k, 2], spans[k, 3] + 1):
            for column in range(spans[k, 0], spans[k, 1] + 1):
                starts[row * c + column + 1] += 1
    for cell in range(total):
        starts[cell + 1] += starts[cell]
    entries = np.empty(starts[total], np.int32)
    fill = starts[:total].copy()
    for k in range(len(chosen)):
        for row in range(spans[k, 2], spans[k, 3] + 1):
            for column in range(spans[k, 0], spans[k, 1] + 1):
                cell = row * c + column
                entries[fill[cell]] = chosen[k]
                fill[cell] += 1
    return starts, entries


@njit(nogil=True, cache=True)
def _fill_from_points(
    chosen,
    first,
    last,
    points,
    boxes,
    modes,
    starts,
    entries,
    out_box,
    out_point,
    out_code,
    a,
    b,
    c,
    d,
    e,
    f,
    g,
    h,
):
    """For each unchanged point, the changed boxes of its cell; stops before one may not fit."""
    capacity, count = np.uint64(len(out_box)), np.uint64(0)
    for k in range(first, last):
        point = chosen[k]
        x, y = points[point, 0], points[point, 1]
        if x != x or y != y:
            continue
        cell = cell_of(y, e, f, g, h) * c + cell_of(x, a, b, c, d)
        start, end = np.uint64(starts[cell]), np.uint64(starts[cell + 1])
        if count + (end - start) > capacity:
            return k, count, end - start
        for i in range(start, end):
            box = entries[i]
            now = (
                (x >= boxes[box, 0])
                & (x <= boxes[box, 2])
                & (y >= boxes[box, 1])
                & (y <= boxes[box, 3])
            )
            was = (
                (x >= boxes[box, 4])
                & (x <= boxes[box, 6])
                & (y >= boxes[box, 5])
                & (y <= boxes[box, 7])
            )
            out_box[count] = box
            out_point[count] = point
            out_code[count] = np.uint8(now) | (np.uint8(was) << np.uint8(1))
            count += np.uint64(now | was) if modes[box] == 2 else np.uint64(now != was)
    return last, count, np.uint64(0)


@njit(nogil=True, cache=True)
def _walk_points(
    chosen, first, last, points, boxes, modes, starts, entries, a, b, c, d, e, f, g, h
):
    """All pairs of the points of `chosen[first:last]`, in pieces of memory that grow as needed."""
    pieces = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.uint8))]
    size, needed = np.uint64(max(4096, (last - first) * 4)), np.uint64(0)
    while first < last:
        size = max(size, needed)
        out_box = np.empty(size, np.int32)
        out_point = np.empty(size, np.int32)
        out_code = np.empty(size, np.uint8)
        first, count, needed = _fill_from_points(
            chosen,
            first,
            last,
            points,
            boxes,
            modes,
            starts,
            entries,
            out_box,
            out_point,
            out_code,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
        )
        pieces.append((out_box[:count], out_point[:count], out_code[:count]))
    return pieces


def match_bulk(
    points: Floats,
    boxes: Floats,
    modes: Bytes,
    changed_points: NDArray[np.bool_],
    changed_boxes: NDArray[np.bool_],
    *,
    threads: int = 1,
) -> Pairs:
    """The pairs that one instant changes, each once.

    `modes` says of each box what it reports. A WATCHED box that itself changed should be TOUCHED,
    so that unchanged points within it are reported too.
    """
    moved = np.flatnonzero(changed_points).astype(np.int32)
    shifted = np.flatnonzero(changed_boxes).astype(np.int32)
    parts: list[Pairs] = []
    with _Pool(threads) as run:
        if len(moved) and len(boxes):
            every = np.arange(len(boxes), dtype=np.int32)
            parts += _join_sorted(points, boxes, modes, moved, every, changed_points, run, threads)
        rest = np.flatnonzero(~changed_points).astype(np.int32)
        if len(rest) and len(shifted):
            if len(shifted) < STREAMED_SHARE * len(rest):
                parts += _join_streamed(points, boxes, modes, rest, shifted, run, threads)
            else:
                parts += _join_sorted(
                    points, boxes, modes, rest, shifted, changed_points, run, threads
                )
    return _joined(parts)


class _Pool:
    """Runs pieces of work on a few threads; the kernels let go of the interpreter."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def map(self, work: Iterable[Callable[[], T]]) -> list[T]:
        if self._pool is None:
            return [piece() for piece in work]
        return [future.result() for future in [self._pool.submit(piece) for piece in work]]


def _join_sorted(
    points: Floats,
    boxes: Floats,
    modes: Bytes,
    chosen_points: Ints,
    chosen_boxes: Ints,
    changed: NDArray[np.bool_],
    run: _Pool,
    threads: int,
) -> list[Pairs]:
    """Points sorted by cell and boxes walked past them: twice, by now and by before."""
    grid = choose_grid(points[chosen_points], boxes[chosen_boxes], len(chosen_points))
    names = chosen_boxes
    if len(chosen_points) > GATHERED_SHARE * len(chosen_boxes):
        # In the order of their cells, and copied so: memory is then read in one direction.
        names = order_by_cell(boxes, grid, chosen_boxes)
    rows, kinds = boxes[names], modes[names]
    both = run.map(partial(sort_by_cell, points, 2 * side, grid, chosen_points) for side in (0, 1))

    def walk(side: int, first: int, last: int) -> list[Pairs]:
        found = both[side]
        pieces: list[Pairs] = _walk_boxes(
            names,
            first,
            last,
            rows,
            kinds,
            side,
            found.starts,
            found.ids,
            found.points,
            changed,
            *grid.columns,
            *grid.rows,
        )
        return pieces

    pieces = run.map(
        partial(walk, side, first, last)
        for side in (0, 1)
        for first, last in _pieces(len(names), threads)
    )
    return [Pairs(*piece) for found in pieces for piece in found]


def _join_streamed(
    points: Floats,
    boxes: Floats,
    modes: Bytes,
    chosen_points: Ints,
    chosen_boxes: Ints,
    run: _Pool,
    threads: int,
) -> list[Pairs]:
    """A few boxes listed by cell, and many points walked past them."""
    few = boxes[chosen_boxes]
    grid = choose_grid(few, few, len(chosen_boxes))
    starts, entries = _index_boxes(chosen_boxes, boxes, *grid.columns, *grid.rows)

    def walk(first: int, last: int) -> list[Pairs]:
        pieces: list[Pairs] = _walk_points(
            chosen_points,
            first,
            last,
            points,
            boxes,
            modes,
            starts,
            entries,
            *grid.columns,
            *grid.rows,
        )
        return pieces

    pieces = run.map(
        partial(walk, first, last) for first, last in _pieces(len(chosen_points), threads)
    )
    return [Pairs(*piece) for found in pieces for piece in found]


def _pieces(size: int, threads: int) -> list[tuple[int, int]]:
    cuts = np.linspace(0, size, max(1, threads) + 1).astype(int)
    return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]


def _joined(parts: list[Pairs]) -> Pairs:
    if not parts:
        return EMPTY
    if len(parts) == 1:
        return parts[0]
    return Pairs(
        np.concatenate([part.boxes for part in parts]),
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.codes for part in parts]),
    )


class BulkMatcher:
    """The bulk join of instant after instant; what stands still is kept in order between them."""

    def match(
        self,
        points: Floats,
        boxes: Floats,
        modes: Bytes,
        changed_points: NDArray[np.bool_],
        changed_boxes: NDArray[np.bool_],
        *,
        threads: int = 1,
    ) -> Pairs:
        """The same as `match_bulk`."""
        return match_bulk(points, boxes, modes, changed_points, changed_boxes, threads=threads)
