"""Values that are taken from places and put into places, in pieces on several threads.

NumPy does the same, but on one thread and with the interpreter held. Where there are few values,
these are as NumPy is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Bools, Bytes, Floats, Ints, Longs
from place.kernels.order import in_pieces


@njit(nogil=True, cache=True)
def _take(values, at, out):
    for i in range(len(at)):
        out[i] = values[at[i]]


@njit(nogil=True, cache=True)
def _put(values, at, given):
    for i in range(len(at)):
        values[at[i]] = given[i]


@njit(nogil=True, cache=True)
def _put_places(places, at, given):
    for i in range(len(at)):
        places[at[i], 0], places[at[i], 1] = given[i, 0], given[i, 1]


@njit(nogil=True, cache=True)
def _move_places(points, at, given):
    for i in range(len(at)):
        row = at[i]
        points[row, 2], points[row, 3] = points[row, 0], points[row, 1]
        points[row, 0], points[row, 1] = given[i, 0], given[i, 1]


@njit(nogil=True, cache=True)
def _pick(rows, held, ids, out):
    for i in range(len(ids)):
        at = ids[i]
        if at >= 0:
            out[i] = rows[at]
        else:
            out[i] = held[~at]


@njit(nogil=True, cache=True)
def _copy_boxes(boxes, low, high):
    for row in range(low, high):
        for side in range(4):
            boxes[row, 4 + side] = boxes[row, side]


@njit(nogil=True, cache=True)
def _part(boxes, points, codes, left, come, rows, slots):
    for i in range(len(codes)):
        if codes[i] > 1:
            rows[left], slots[left] = boxes[i], points[i]
            left += 1
        else:
            rows[come], slots[come] = boxes[i], points[i]
            come += 1


@njit(nogil=True, cache=True)
def count_rows(queries, weights, size):
    """How many rows each query has, each as often as its weight says, whatever its sign."""
    counts = np.zeros(size, np.int64)
    for i in range(len(queries)):
        counts[queries[i]] += abs(weights[i])
    return counts


def taken(values: NDArray[Any], at: Longs, threads: int = 1) -> NDArray[Any]:
    """The values at places: `values[at]`."""
    out = np.empty(len(at), values.dtype)
    in_pieces(len(at), threads, lambda low, high: _take(values, at[low:high], out[low:high]))
    return out


def put(values: NDArray[Any], at: Longs, given: NDArray[Any], threads: int = 1) -> None:
    """Write values to places, each of which is named once: `values[at] = given`."""
    in_pieces(len(at), threads, lambda low, high: _put(values, at[low:high], given[low:high]))


def put_places(places: Floats, at: Longs, given: Floats, threads: int = 1) -> None:
    """Write points (n × 2) to rows, each of which is named once."""

    def work(low: int, high: int) -> None:
        _put_places(places, at[low:high], given[low:high])

    in_pieces(len(at), threads, work)


def move_places(points: Floats, at: Longs, given: Floats, threads: int = 1) -> None:
    """Rows (x, y now, x, y before), each of which is named once: what is now becomes what was, and
    what is given is now."""

    def work(low: int, high: int) -> None:
        _move_places(points, at[low:high], given[low:high])

    in_pieces(len(at), threads, work)


def picked(rows: NDArray[Any], held: NDArray[Any], ids: Longs, threads: int = 1) -> NDArray[Any]:
    """The values of versions: of rows of a tick (`i >= 0`), or of what slots held before it
    (`~slot`)."""
    out = np.empty(len(ids), held.dtype)
    in_pieces(len(ids), threads, lambda low, high: _pick(rows, held, ids[low:high], out[low:high]))
    return out


def copy_boxes(boxes: Floats, size: int, threads: int = 1) -> None:
    """Rows (a box now, a box before): what is now becomes what was, for the first `size` rows."""
    in_pieces(size, threads, lambda low, high: _copy_boxes(boxes, low, high))


def parted(boxes: Ints, points: Ints, codes: Bytes, threads: int = 1) -> tuple[Longs, Longs, Bools]:
    """Pairs of which each enters (1) or leaves (2): first those that leave, then those that enter.

    Returns the boxes, the points, and which of them leave; the order is kept otherwise.
    """
    count = len(codes)
    leaves = codes > 1
    total = int(np.count_nonzero(leaves))
    rows, slots = np.empty(count, np.int64), np.empty(count, np.int64)

    def work(low: int, high: int) -> None:
        left = int(np.count_nonzero(leaves[:low]))
        at = slice(low, high)
        _part(boxes[at], points[at], codes[at], left, total + low - left, rows, slots)

    in_pieces(count, threads, work)
    was = np.zeros(count, np.bool_)
    was[:total] = True
    return rows, slots, was
