"""Exact sums and means of a few values in each row, rounded as those of aggregates are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.kernels.arrays import Bools, Longs
from place.kernels.exact import ROOM, sum_doubles, sum_wholes

PIECE = 1 << 14
"""Rows that are summed at once: a sum of very large and very small values takes hundreds of bytes
until it is rounded."""


class RowSums(NamedTuple):
    """Sums and means by row, and where there are none. They are whole numbers or, of DOUBLEs and
    of means that are no intervals, the bits of DOUBLEs."""

    sums: Longs
    no_sum: Bools
    means: Longs
    no_mean: Bools


def sum_rows(values: NDArray[Any], present: Bools, *, is_interval: bool = False) -> RowSums:
    """The sum and the mean of the values of each row that are present.

    >>> found = sum_rows(np.array([[1, 2], [3, 4]]), np.array([[True, True], [False, True]]))
    >>> found.sums.tolist(), found.means.view(np.float64).tolist()
    ([3, 4], [1.5, 4.0])
    """
    if not len(values):
        none, nobody = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return RowSums(none, nobody, none, nobody)
    pieces = [
        _sum_piece(values[begin : begin + PIECE], present[begin : begin + PIECE], is_interval)
        for begin in range(0, len(values), PIECE)
    ]
    return RowSums(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def _sum_piece(values: NDArray[Any], present: Bools, is_interval: bool) -> RowSums:
    size, width = values.shape
    is_double = values.dtype == np.float64
    # What stands where no value is has no meaning; it may be no number.
    known = np.where(present, values, values.dtype.type(0)).ravel()
    numbers = (known + 0.0).view(np.int64) if is_double else known.astype(np.int64)
    counts = present.sum(axis=1, dtype=np.int64)
    weights = present.ravel().astype(np.int64)
    rows, starts = np.arange(size), np.arange(size + 1) * width
    limbs, terms = np.zeros((size, ROOM), np.int64), (rows, numbers, weights, starts, counts)
    if not is_double:
        return RowSums(*sum_wholes(limbs, *terms, is_interval))
    sums, none, means, first, last = sum_doubles(limbs, 0, *terms)
    if first <= last:
        limbs = np.zeros((size, last - first + ROOM), np.int64)
        sums, none, means, _, _ = sum_doubles(limbs, first, *terms)
    return RowSums(sums, none, means, none)
