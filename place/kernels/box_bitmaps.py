"""Points and boxes by bitmaps over ranges of values: for many wide boxes over many attributes.

Each dimension is cut into ranges. A range has two bitmaps with a bit for each box: the boxes that
reach into it, and those that cover it. A point belongs to one range of each dimension. The boxes
that reach into all of them are candidates, found by an AND of a few bitmaps; those that cover all
of them hold the point for certain; only what is left is tested.

Boxes lie in blocks of some words of 64, and all bitmaps of a block lie together: while the points
of a batch pass a block, it stays in the processor's cache.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints, Longs
from place.kernels.bit_words import count_bits, lowest_bit
from place.kernels.box_cells import NEVER, even_edges, range_of
from place.kernels.box_pairs import Met, fill, joined, sample_of
from place.kernels.order import Pool

BLOCK_BYTES = 1 << 18
"""What the bitmaps of a block take at most: half of a usual second-level cache."""
MOST_BITS = 6
"""Ranges of a dimension, as a power of two."""
SAMPLE = 4096
"""Boxes of whose bounds ranges are made."""


@njit(nogil=True, cache=True)
def _set_bits(low, high, above, axes, edges, bits, words, bitmaps):
    """The bitmaps of all boxes: for each word and dimension the ranges at which a box begins and
    ends are toggled, and a running exclusive or over the ranges is what is written."""
    ranges = 1 << bits
    blocks = (len(low) + 64 * words - 1) // (64 * words)
    reach, cover = np.zeros(ranges + 1, np.uint64), np.zeros(ranges + 1, np.uint64)
    true = np.ones(len(low), np.int64)
    for box in range(len(low)):
        for axis in range(low.shape[1]):
            true[box] &= low[box, axis] <= high[box, axis]
    for word in range(blocks * words):
        block, place = word // words, word % words
        for i in range(len(axes)):
            axis = axes[i]
            reach[:] = 0
            cover[:] = 0
            for box in range(64 * word, min(64 * word + 64, len(low))):
                if true[box] == 0:
                    continue
                bit = np.uint64(1) << np.uint64(box - 64 * word)
                begin = range_of(low[box, axis], edges[i], bits)
                end = range_of(high[box, axis], edges[i], bits)
                reach[begin] ^= bit
                reach[end + 1] ^= bit
                if begin == 0:
                    begin += low[box, axis] != -np.inf
                else:
                    begin += low[box, axis] != edges[i, begin - 1]
                if end == ranges - 1:
                    end -= high[box, axis] != np.inf
                else:
                    end -= above[box, axis] != edges[i, end]
                if begin <= end:
                    cover[begin] ^= bit
                    cover[end + 1] ^= bit
            reached, covered = np.uint64(0), np.uint64(0)
            at = (block * len(axes) + i) * ranges * 2 * words + place
            for step in range(ranges):
                reached ^= reach[step]
                covered ^= cover[step]
                bitmaps[at] = reached
                bitmaps[at + words] = covered
                at += 2 * words


@njit(nogil=True, cache=True)
def _find_ranges(points, axes, edges, bits, words):
    """For each point and dimension, where the bitmaps of its range begin within a block; −1 for a
    point that has a NaN."""
    ranges = 1 << bits
    found = np.empty((len(points), len(axes)), np.int32)
    for point in range(len(points)):
        holds = True
        for axis in range(points.shape[1]):
            holds &= points[point, axis] == points[point, axis]
        for i in range(len(axes)):
            step = range_of(points[point, axes[i]], edges[i], bits)
            found[point, i] = (i * ranges + step) * 2 * words if holds else -1
    return found


@njit(nogil=True, cache=True)
def _meet(bitmaps, places, point, base, words, met):
    """The AND of a bitmap for each dimension, four dimensions at a time; is anything left?

    Numbers without a sign need no test for indices that count from the end.
    """
    count, one = np.uint64(places.shape[1]), np.uint64(1)
    last = count - one
    for i in range(np.uint64(0), count, np.uint64(4)):
        a = base + np.uint64(places[point, i])
        b = base + np.uint64(places[point, min(i + one, last)])
        c = base + np.uint64(places[point, min(i + np.uint64(2), last)])
        d = base + np.uint64(places[point, min(i + np.uint64(3), last)])
        left = np.uint64(0)
        if i == 0:
            for word in range(words):
                both = bitmaps[a + word] & bitmaps[b + word] & bitmaps[c + word] & bitmaps[d + word]
                met[word] = both
                left |= both
        else:
            for word in range(words):
                both = bitmaps[a + word] & bitmaps[b + word] & bitmaps[c + word] & bitmaps[d + word]
                both &= met[word]
                met[word] = both
                left |= both
        if left == 0:
            return False
    return True


@njit(nogil=True, cache=True)
def _tested(left, sure, name, low, high, points, point):
    """The boxes of a word that hold the point, of which some are sure and the others are tested."""
    doubt = left & ~sure
    while doubt != 0:
        bit = lowest_bit(doubt)
        doubt &= doubt - np.uint64(1)
        box, holds = name + bit, True
        for axis in range(np.uint64(points.shape[1])):
            value = points[point, axis]
            holds &= (low[box, axis] <= value) & (value <= high[box, axis])
        left ^= np.uint64(not holds) << bit
    return left


@njit(nogil=True, cache=True)
def _pass_blocks(
    points, begin, places, low, high, bitmaps, size, words, first, out_points, out_boxes
):
    """For each block of boxes, each point: a row is a point before a block."""
    count, one = np.uint64(0), np.uint64(1)
    words, many = np.uint64(words), np.uint64(len(points))
    some, sure = np.empty(words, np.uint64), np.empty(words, np.uint64)
    each = np.uint64(64) * words
    blocks = (np.uint64(len(low)) + each - one) // each
    room = np.uint64(len(out_boxes)) - each - np.uint64(8)
    start = np.uint64(first) % many
    for block in range(np.uint64(first) // many, blocks):
        base = block * np.uint64(size)
        for point in range(start, many):
            if places[point, 0] < 0:
                continue
            if count > room:
                return np.int64(block * many + point), np.int64(count)
            if not _meet(bitmaps, places, point, base, words, some):
                continue
            _meet(bitmaps, places, point, base + words, words, sure)
            begun = count
            for word in range(words):
                left = some[word]
                if left == 0:
                    continue
                name = block * each + np.uint64(64) * word
                if left & ~sure[word] != 0:
                    left = _tested(left, sure[word], name, low, high, points, point)
                more = count_bits(left)
                for i in range(np.uint64(4)):
                    out_boxes[count + i] = np.int32(name + lowest_bit(left))
                    left &= left - one
                i = count + np.uint64(4)
                while left != 0:
                    out_boxes[i] = np.int32(name + lowest_bit(left))
                    left &= left - one
                    i += one
                count += more
            for i in range(begun, count):
                out_points[i] = np.int32(begin + point)
        start = np.uint64(0)
    return np.int64(blocks * many), np.int64(count)


def _edges(low: Floats, above: Floats, axis: int, bits: int) -> Floats:
    """The edges of the ranges: where boxes begin, and just above where they end. Where there are
    few such values they all are edges, and no box is cut."""
    some = sample_of(len(low), SAMPLE)
    values = np.concatenate([low[some, axis], above[some, axis]])
    different = np.unique(values[np.isfinite(values)])
    if len(different) >= 1 << bits:
        return even_edges(values, bits)
    edges = np.full((1 << bits) - 1, NEVER)
    edges[: len(different)] = different
    return edges


class BoxBitmaps:
    """Boxes as bitmaps over ranges of the dimensions that any of them bounds."""

    def __init__(self, low: Floats, high: Floats, axes: Longs, bits: int = MOST_BITS) -> None:
        with np.errstate(over="ignore"):
            above = np.nextafter(high, np.inf)
        self._low, self._high, self._axes, self._bits = low, high, axes, bits
        self._edges = np.array([_edges(low, above, int(axis), bits) for axis in axes])
        each = len(axes) * (2 << bits) * 8
        fitting = max(8, BLOCK_BYTES // each // 8 * 8)
        needed = (len(low) + 63) // 64
        self._words = min(fitting, (needed + 7) // 8 * 8)
        self._blocks = -(-needed // self._words)
        self._size = len(axes) * (2 << bits) * self._words
        self._bitmaps = np.empty(self._blocks * self._size, np.uint64)
        _set_bits(low, high, above, axes, self._edges, bits, self._words, self._bitmaps)

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""
        pool = Pool(threads)
        return joined(pool.map(partial(self._found, points, *cut) for cut in pool.cut(len(points))))

    def _found(self, points: Floats, begin: int, end: int) -> Met:
        some = points[begin:end]
        places: Ints = _find_ranges(some, self._axes, self._edges, self._bits, self._words)
        needs = (
            *(some, begin, places, self._low, self._high),
            *(self._bitmaps, self._size, self._words),
        )
        return fill(_pass_blocks, needs, self._blocks * (end - begin), 64 * self._words + 8)
