"""Points and boxes by bitmaps over ranges of values: for many wide boxes over many attributes.

Each dimension is cut into ranges. A range has two bitmaps with a bit for each box: the boxes that
reach into it, and those that cover it. A point belongs to one range of each dimension. The boxes
that reach into all of them are candidates, found by an AND of a few bitmaps; those that cover all
of them hold the point for certain; only what is left is tested.

Boxes lie in the Hilbert order of their corners, in blocks of 64 words of 64. All
bitmaps of a block lie together: while the points of a batch pass a block, it stays in the
processor's cache. A range has a summary of each block, with a bit for each word in which any box
reaches into it: an AND of summaries tells which words have to be looked at.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Floats, Ints, Longs
from place.kernels.bit_words import count_bits, lowest_bit
from place.kernels.box_cells import NEVER, even_edges, range_of
from place.kernels.box_pairs import Met, fill, in_pieces, sample_of
from place.kernels.hilbert import hilbert_order

BLOCK = 64
"""Words of a block: a summary is one word."""
ROWS, MOST_BITS = 9, 9
"""Ranges of all dimensions together, and of one, as powers of two."""
SAMPLE = 4096
"""Boxes of whose bounds ranges are made."""
CROWDED = np.uint64(12)
"""Words of a block to look at, from which on all of them are."""


@njit(nogil=True, cache=True)
def _set_bits(low, high, axes, edges, bits, reaches, covers, summaries):
    """The bitmaps of all boxes: for each word and dimension the ranges at which a box begins and
    ends are toggled, and a running exclusive or over the ranges is what is written."""
    ranges = 1 << bits
    reach, cover = np.zeros(ranges + 1, np.uint64), np.zeros(ranges + 1, np.uint64)
    true = np.ones(len(low), np.int64)
    for box in range(len(low)):
        for axis in range(low.shape[1]):
            true[box] &= low[box, axis] <= high[box, axis]
    for word in range(len(reaches) // (len(axes) * ranges)):
        block, place = word // BLOCK, word % BLOCK
        flag = np.uint64(1) << np.uint64(place)
        for i in range(len(axes)):
            axis = axes[i]
            reach[:] = 0
            cover[:] = 0
            for box in range(64 * word, min(64 * word + 64, len(low))):
                if true[box] == 0:
                    continue
                bit = np.uint64(1) << np.uint64(box - 64 * word)
                begin = range_of(low[box, axis], edges, i, bits)
                end = range_of(high[box, axis], edges, i, bits)
                reach[begin] ^= bit
                reach[end + 1] ^= bit
                if begin == 0:
                    begin += low[box, axis] != -np.inf
                else:
                    begin += low[box, axis] != edges[i, begin - 1]
                if end == ranges - 1:
                    end -= high[box, axis] != np.inf
                else:
                    end -= np.nextafter(high[box, axis], np.inf) != edges[i, end]
                if begin <= end:
                    cover[begin] ^= bit
                    cover[end + 1] ^= bit
            reached, covered = np.uint64(0), np.uint64(0)
            row = (block * len(axes) + i) * ranges
            for step in range(ranges):
                reached ^= reach[step]
                covered ^= cover[step]
                at = (row + step) * BLOCK + place
                reaches[at], covers[at] = reached, covered
                if reached != 0:
                    summaries[row + step] |= flag


@njit(nogil=True, cache=True)
def _find_ranges(points, axes, edges, bits):
    """For each point and dimension, the row of its range within a block; −1 for a point that has a
    NaN."""
    ranges = 1 << bits
    found = np.empty((len(points), len(axes)), np.int32)
    for point in range(len(points)):
        holds = True
        for axis in range(points.shape[1]):
            holds &= points[point, axis] == points[point, axis]
        for i in range(len(axes)):
            step = range_of(points[point, axes[i]], edges, i, bits)
            found[point, i] = i * ranges + step if holds else -1
    return found


@njit(nogil=True, cache=True)
def _meet_all(bitmaps, rows, met):
    """The AND of a whole block's bitmaps, one for each dimension, four dimensions at a time.

    Numbers without a sign need no test for indices that count from the end.
    """
    count, one = np.uint64(len(rows)), np.uint64(1)
    last = count - one
    for i in range(np.uint64(0), count, np.uint64(4)):
        a, b = rows[i], rows[min(i + one, last)]
        c, d = rows[min(i + np.uint64(2), last)], rows[min(i + np.uint64(3), last)]
        for word in range(np.uint64(BLOCK)):
            both = bitmaps[a + word] & bitmaps[b + word] & bitmaps[c + word] & bitmaps[d + word]
            if i > np.uint64(0):
                both &= met[word]
            met[word] = both


@njit(nogil=True, cache=True)
def _meet(bitmaps, rows, word, met):
    """The AND of one word of each bitmap."""
    for i in range(np.uint64(len(rows))):
        met &= bitmaps[rows[i] + word]
    return met


@njit(nogil=True, cache=True)
def _list_bits(word, name, out, count):
    """The names of the bits that are set; four are written always, which needs no branch."""
    more = count + count_bits(word)
    for i in range(np.uint64(4)):
        out[count + i] = np.int32(name + lowest_bit(word))
        word &= word - np.uint64(1)
    count += np.uint64(4)
    while word != 0:
        out[count] = np.int32(name + lowest_bit(word))
        word &= word - np.uint64(1)
        count += np.uint64(1)
    return more


@njit(nogil=True, cache=True)
def _pass_blocks(
    points, begin, places, low, high, names, reaches, covers, summaries, each, first, out_points,
    out_boxes,
):  # fmt: skip
    """For each block of boxes, each point: a row is a point before a block. `each` is the number of
    a block's summaries."""
    count, one, wide = np.uint64(0), np.uint64(1), np.uint64(BLOCK)
    many, axes = np.uint64(len(points)), np.uint64(places.shape[1])
    some, sure = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    rows, doubts = np.empty(axes, np.uint64), np.empty(64 * BLOCK + 8, np.int32)
    blocks = np.uint64(len(summaries)) // np.uint64(each)
    room = np.uint64(len(out_boxes)) - np.uint64(64) * wide - np.uint64(8)
    start = np.uint64(first) % many
    for block in range(np.uint64(first) // many, blocks):
        base = block * np.uint64(each)
        for point in range(start, many):
            if places[point, np.uint64(0)] < 0:
                continue
            if count > room:
                return np.int64(block * many + point), np.int64(count)
            alive = ~np.uint64(0)
            for i in range(axes):
                row = base + np.uint64(places[point, i])
                alive &= summaries[row]
                rows[i] = row * wide
            if alive == 0:
                continue
            crowded = count_bits(alive) >= CROWDED
            if crowded:
                _meet_all(reaches, rows, some)
                _meet_all(covers, rows, sure)
            begun, unsure = count, np.uint64(0)
            while alive != 0:
                word = lowest_bit(alive)
                alive &= alive - one
                left = some[word] if crowded else _meet(reaches, rows, word, ~np.uint64(0))
                if left == 0:
                    continue
                name = (block * wide + word) * np.uint64(64)
                certain = sure[word] if crowded else _meet(covers, rows, word, left)
                count = _list_bits(left & certain, name, out_boxes, count)
                if left & ~certain != 0:
                    unsure = _list_bits(left & ~certain, name, doubts, unsure)
            for i in range(unsure):
                box, holds = np.uint64(doubts[i]), True
                for axis in range(np.uint64(points.shape[1])):
                    value = points[point, axis]
                    holds &= (low[box, axis] <= value) & (value <= high[box, axis])
                out_boxes[count] = doubts[i]
                count += np.uint64(holds)
            for i in range(begun, count):
                out_boxes[i] = names[np.uint64(out_boxes[i])]
                out_points[i] = np.int32(begin + np.int64(point))
        start = np.uint64(0)
    return np.int64(blocks * many), np.int64(count)


def _edges(low: Floats, high: Floats, axis: int, bits: int) -> Floats:
    """The edges of the ranges: where boxes begin, and just above where they end. Where there are
    few such values they all are edges, and no box is cut."""
    some = sample_of(len(low), SAMPLE)
    with np.errstate(over="ignore"):
        values = np.concatenate([low[some, axis], np.nextafter(high[some, axis], np.inf)])
    different = np.unique(values[np.isfinite(values)])
    if len(different) >= 1 << bits:
        return even_edges(values, bits)
    edges = np.full((1 << bits) - 1, NEVER)
    edges[: len(different)] = different
    return edges


def _words(count: int) -> NDArray[np.uint64]:
    """Words that begin where a line of the cache does."""
    room = np.zeros(count + 8, np.uint64)
    begin = -(room.ctypes.data // 8) % 8
    return room[begin : begin + count]


def bits_for(axes: int) -> int:
    """The ranges of each of so many dimensions, as a power of two."""
    return min(MOST_BITS, max(4, ROWS - max(0, axes - 1).bit_length()))


class BoxBitmaps:
    """Boxes as bitmaps over ranges of some dimensions, the most telling ones first."""

    def __init__(self, low: Floats, high: Floats, axes: Longs, bits: int | None = None) -> None:
        bits = bits or bits_for(len(axes))
        self._names = hilbert_order(np.hstack([low[:, axes], high[:, axes]]))
        self._low, self._high = low[self._names], high[self._names]
        self._axes, self._bits = axes, bits
        self._edges = np.array([_edges(low, high, int(axis), bits) for axis in axes])
        self._blocks = -(-len(low) // (64 * BLOCK))
        self._each = len(axes) << bits
        rows = self._blocks * self._each
        self._bitmaps = _words(rows * BLOCK), _words(rows * BLOCK), np.zeros(rows, np.uint64)
        _set_bits(self._low, self._high, axes, self._edges, bits, *self._bitmaps)

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""
        return in_pieces(partial(self._found, points), len(points), threads)

    def _found(self, points: Floats, begin: int, end: int) -> Met:
        some = points[begin:end]
        places: Ints = _find_ranges(some, self._axes, self._edges, self._bits)
        needs = (some, begin, places, self._low, self._high, self._names, *self._bitmaps)
        room = 64 * BLOCK + 8
        return fill(_pass_blocks, (*needs, self._each), self._blocks * (end - begin), room)
