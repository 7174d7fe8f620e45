"""What every way of joining points with boxes shares: the pairs that it gives, the test that
decides, and the room that pairs are written into.

A point is in a box if low <= value <= high in every dimension. NaN is in nothing, and a box with a
NaN bound, or with low > high, holds nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints
from place.kernels.order import SERIAL, Pool

PIECE = 1 << 18
"""Pairs that a piece of output holds, if no single row needs more."""


class BoxPairs(NamedTuple):
    """Pairs of a point and a box that holds it; which way found them, and why that one."""

    points: Ints
    boxes: Ints
    method: str
    reason: str


class Met(NamedTuple):
    """Pairs of a point and a box that holds it, as a kernel writes them."""

    points: Ints
    boxes: Ints


class BoxFinder(Protocol):
    """Boxes that are laid out in one way, to be asked again and again."""

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""


NONE_MET = Met(np.empty(0, np.int32), np.empty(0, np.int32))


@njit(nogil=True, cache=True)
def keep_inside(rows, low, high, box, order, names, begin, end):
    """Of the rows that `names[begin:end]` names, those within a box: they move to the front, and
    their end is given back.

    One or two dimensions at a time: no branch depends on the values, which are hard to foretell.
    No array is sliced, because each slice would count a reference, and numbers have no sign: else
    each index would be asked whether it counts from the end.
    """
    begin, end, box = np.uint64(begin), np.uint64(end), np.uint64(box)
    for step in range(0, len(order), 2):
        first = np.uint64(order[step])
        low_1, high_1 = low[box, first], high[box, first]
        found = begin
        if step + 1 < len(order):
            second = np.uint64(order[step + 1])
            low_2, high_2 = low[box, second], high[box, second]
            for i in range(begin, end):
                row = np.uint64(names[i])
                x, y = rows[row, first], rows[row, second]
                names[found] = np.int32(row)
                found += np.uint64((low_1 <= x) & (x <= high_1) & (low_2 <= y) & (y <= high_2))
        else:
            for i in range(begin, end):
                row = np.uint64(names[i])
                x = rows[row, first]
                names[found] = np.int32(row)
                found += np.uint64((low_1 <= x) & (x <= high_1))
        end = found
        if end == begin:
            break
    return np.int64(end)


@njit(nogil=True, cache=True)
def keep_around(low, high, points, point, order, names, begin, end):
    """Of the boxes that `names[begin:end]` names, those around a point: they move to the front, and
    their end is given back."""
    begin, end, point = np.uint64(begin), np.uint64(end), np.uint64(point)
    for step in range(0, len(order), 2):
        first = np.uint64(order[step])
        x = points[point, first]
        found = begin
        if step + 1 < len(order):
            second = np.uint64(order[step + 1])
            y = points[point, second]
            for i in range(begin, end):
                row = np.uint64(names[i])
                names[found] = np.int32(row)
                found += np.uint64(
                    (low[row, first] <= x)
                    & (x <= high[row, first])
                    & (low[row, second] <= y)
                    & (y <= high[row, second])
                )
        else:
            for i in range(begin, end):
                row = np.uint64(names[i])
                names[found] = np.int32(row)
                found += np.uint64((low[row, first] <= x) & (x <= high[row, first]))
        end = found
        if end == begin:
            break
    return np.int64(end)


@njit(nogil=True, cache=True)
def true_boxes(low, high):
    """The boxes that can hold a point at all."""
    found, count = np.empty(len(low), np.int32), 0
    for box in range(len(low)):
        holds = True
        for axis in range(low.shape[1]):
            holds &= low[box, axis] <= high[box, axis]
        found[count] = box
        count += holds
    return found[:count]


@njit(nogil=True, cache=True)
def true_points(points):
    """The points without a NaN."""
    found, count = np.empty(len(points), np.int32), 0
    for point in range(len(points)):
        holds = True
        for axis in range(points.shape[1]):
            holds &= points[point, axis] == points[point, axis]
        found[count] = point
        count += holds
    return found[:count]


def fill(work: Callable[..., tuple[int, int]], needs: tuple[Any, ...], rows: int, each: int) -> Met:
    """All pairs that a kernel finds for its rows, in pieces that are as large as needed.

    The kernel is given what it needs, the row to begin with, and room for points and for boxes. It
    stops before a row that may not fit, and tells that row and the number of pairs. `each` is what
    a row may need at least.

    The first piece is written into room that the thread keeps, and copied: pages that the system
    has to find and to clear cost more than few pairs do.
    """
    room = _kept_room(max(each, PIECE))
    first, count = work(*needs, 0, *room)
    pieces = [Met(room.points[:count].copy(), room.boxes[:count].copy())]
    size = max(each, 4 * PIECE)
    while first < rows:
        room = Met(np.empty(size, np.int32), np.empty(size, np.int32))
        start = first
        first, count = work(*needs, first, *room)
        if count:
            pieces.append(Met(room.points[:count], room.boxes[:count]))
        if first == start:
            size *= 4
    return joined(pieces)


_KEPT = threading.local()


def _kept_room(size: int) -> Met:
    """Room of the thread, if it is not asked for so much that nobody should keep it."""
    room: Met = getattr(_KEPT, "room", NONE_MET)
    if len(room.points) < size:
        room = Met(np.empty(size, np.int32), np.empty(size, np.int32))
        if size <= 4 * PIECE:
            _KEPT.room = room
    return room


def in_pieces(found: Callable[[int, int], Met], count: int, threads: int) -> Met:
    """All pairs of so many rows, on several threads where that is worth it."""
    if threads <= 1 or count <= SERIAL:
        return found(0, count)
    pool = Pool(threads)
    return joined(pool.map(partial(found, *cut) for cut in pool.cut(count)))


def joined(pieces: list[Met]) -> Met:
    """All pairs of some pieces, in their order."""
    if not pieces:
        return NONE_MET
    if len(pieces) == 1:
        return pieces[0]
    return Met(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def sample_of(count: int, most: int) -> Ints:
    """Some of so many rows, spread over the whole whatever order they are in."""
    if count <= most:
        return np.arange(count, dtype=np.int32)
    steps = np.arange(most, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    places = ((steps >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)
    return places.astype(np.int32)
