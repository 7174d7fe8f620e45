"""Points and boxes by the hash of an equality: boxes without width in some dimensions.

Boxes lie in the order of the buckets of their values there, so that a point looks at the boxes of
one bucket, and tests these as every other candidate.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_pairs import Met, fill, in_pieces, keep_around


@njit(nogil=True, cache=True)
def equal_sides(low, high):
    """The dimensions in which every box that can hold something has no width."""
    equal = np.ones(low.shape[1], np.int64)
    for box in range(len(low)):
        left = 0
        for axis in range(low.shape[1]):
            if low[box, axis] < high[box, axis]:
                equal[axis] = 0
            left += equal[axis]
        if left == 0:
            break
    return np.flatnonzero(equal)


@njit(nogil=True, cache=True)
def _bucket(rows, row, sides, mask):
    """The bucket of a row. Zero has two forms that are equal, and one bucket."""
    found = np.uint64(0)
    for i in range(len(sides)):
        value = rows[row, sides[i]] + 0.0
        bits = np.float64(value).view(np.uint64)
        found = (found ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return np.int64((found * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(20)) & mask


@njit(nogil=True, cache=True)
def _lay_out(low, high, sides, mask):
    """Boxes in the order of their buckets, and where each bucket begins."""
    buckets = np.empty(len(low), np.int64)
    starts = np.zeros(mask + 2, np.int32)
    for box in range(len(low)):
        buckets[box] = _bucket(low, box, sides, mask)
        starts[buckets[box] + 1] += 1
    for bucket in range(mask + 1):
        starts[bucket + 1] += starts[bucket]
    places = starts.copy()
    names = np.empty(len(low), np.int32)
    lows, highs = np.empty_like(low), np.empty_like(high)
    for box in range(len(low)):
        place = places[buckets[box]]
        places[buckets[box]] += 1
        names[place] = box
        for axis in range(low.shape[1]):
            lows[place, axis] = low[box, axis]
            highs[place, axis] = high[box, axis]
    return starts, names, lows, highs


@njit(nogil=True, cache=True)
def _probe(
    points, begin, low, high, names, starts, sides, order, mask, first, out_points, out_boxes
):
    """For each point, the boxes of its bucket."""
    count = 0
    for point in range(first, len(points)):
        bucket = _bucket(points, point, sides, mask)
        start, end = starts[bucket], starts[bucket + 1]
        if count + (end - start) > len(out_boxes):
            return point, count
        for i in range(start, end):
            out_boxes[count + i - start] = i
        end = count + end - start
        end = keep_around(low, high, points, point, order, out_boxes, count, end)
        for i in range(count, end):
            out_boxes[i] = names[out_boxes[i]]
            out_points[i] = begin + point
        count = end
    return len(points), count


class BoxHash:
    """Boxes by the hash of their values in the dimensions in which they have no width."""

    def __init__(self, low: Floats, high: Floats, sides: Longs) -> None:
        axes = low.shape[1]
        self._sides, self._mask = sides, (1 << max(4, (2 * len(low)).bit_length())) - 1
        self._order = np.array([*sides, *(k for k in range(axes) if k not in sides)], np.int64)
        self._starts, self._names, self._low, self._high = _lay_out(low, high, sides, self._mask)

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""
        return in_pieces(partial(self._found, points), len(points), threads)

    def _found(self, points: Floats, begin: int, end: int) -> Met:
        needs = (
            *(points[begin:end], begin, self._low, self._high, self._names, self._starts),
            *(self._sides, self._order, self._mask),
        )
        return fill(_probe, needs, end - begin, 0)
