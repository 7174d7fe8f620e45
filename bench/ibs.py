"""Predicate indexing as before Spatial Join CQ: a tree for each attribute, and a count of what holds.

The interval binary search tree (E. Hanson and M. Chaabouni) is a balanced search tree over the
constants of all predicates on one attribute. A node has three lists of predicates: those that hold
for all values of its subtree below its constant, for the constant itself, and for all above it.
A predicate stands as high as it can, so that a value finds each predicate that holds once, on its
way from the root. A query holds for a reading if all of its predicates do: the results of the
trees are merged by counting.

Everything is compiled, laid out in a few arrays and prepared; counts are bytes, so that those of
100,000 queries stay in the processor's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class Tree(NamedTuple):
    """Constants in order; the lists of node i begin at `starts[3 * i]`: below, equal, above.

    The root is the middle constant, and the middle ones of both halves are its children.
    """

    constants: Floats
    starts: Longs
    lists: Ints


@njit(nogil=True, cache=True)
def _mark(constants, low, high, query, places, lists, writes):
    """Puts one predicate into the tree: counts its places, or writes them."""
    stack = np.empty((128, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, len(constants)
    size = 1
    while size > 0:
        size -= 1
        begin, end = stack[size, 0], stack[size, 1]
        node = (begin + end) // 2
        value = constants[node]
        floor = constants[begin - 1] if begin > 0 else -np.inf
        ceiling = constants[end] if end < len(constants) else np.inf
        for kind in range(3):
            if kind == 0:
                whole, part = low <= floor and value <= high, low < value and floor < high
            elif kind == 1:
                whole, part = low <= value <= high, False
            else:
                whole, part = low <= value and ceiling <= high, value < high and low < ceiling
            if whole:
                if writes:
                    lists[places[3 * node + kind]] = query
                places[3 * node + kind] += 1
            elif part and kind == 0 and begin < node:
                stack[size, 0], stack[size, 1] = begin, node
                size += 1
            elif part and kind == 2 and node + 1 < end:
                stack[size, 0], stack[size, 1] = node + 1, end
                size += 1


@njit(nogil=True, cache=True)
def _lay_out(constants, low, high, queries):
    starts = np.zeros(3 * len(constants) + 1, np.int64)
    nothing = np.empty(0, np.int32)
    for i in range(len(queries)):
        _mark(constants, low[i], high[i], queries[i], starts[1:], nothing, False)
    for i in range(len(starts) - 1):
        starts[i + 1] += starts[i]
    lists = np.empty(starts[-1], np.int32)
    places = starts[:-1].copy()
    for i in range(len(queries)):
        _mark(constants, low[i], high[i], queries[i], places, lists, True)
    return starts, lists


def make_tree(low: Floats, high: Floats) -> Tree:
    """The tree of an attribute, on which some queries have predicates (closed intervals)."""
    queries = np.flatnonzero((low > -np.inf) | (high < np.inf)).astype(np.int32)
    low, high = low[queries], high[queries]
    bounds = np.concatenate([low, high])
    constants = np.unique(bounds[np.isfinite(bounds)])
    return Tree(constants, *_lay_out(constants, low, high, queries))


@njit(nogil=True, cache=True)
def _count_holding(constants, starts, lists, value, counts):
    """One more for each query whose predicate on this attribute holds."""
    begin, end = 0, len(constants)
    while begin < end:
        node = (begin + end) // 2
        kind = 0 if value < constants[node] else (2 if value > constants[node] else 1)
        first, last = starts[3 * node + kind], starts[3 * node + kind + 1]
        for i in range(np.uint64(first), np.uint64(last)):
            counts[np.uint64(lists[i])] += np.uint8(1)
        if kind == 0:
            end = node
        elif kind == 2:
            begin = node + 1
        else:
            break


@njit(nogil=True, cache=True)
def _zeros(counts, size, out):
    """The places of bytes that are zero, eight of them at a time."""
    words, found = counts.view(np.uint64), np.uint64(0)
    low, high = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    for word in range(np.uint64(len(words))):
        eight = words[word]
        if (eight - low) & ~eight & high:
            for i in range(np.uint64(8)):
                place = word * np.uint64(8) + i
                out[found] = np.int32(place)
                found += np.uint64(counts[place] == 0)
    return np.int64(found)


class Ibs:
    """Queries as boxes, in a tree for each attribute."""

    def __init__(self, low: Floats, high: Floats) -> None:
        self._trees = [make_tree(low[:, k], high[:, k]) for k in range(low.shape[1])]
        bounded = (low > -np.inf) | (high < np.inf)
        self._size = len(low)
        self._missing = np.zeros(-(-max(1, self._size) // 8) * 8, np.uint8)
        self._missing[: self._size] = -bounded.sum(axis=1).astype(np.int64)
        self._missing[self._size :] = 255
        self._counts = self._missing.copy()
        self._out = np.empty(len(self._missing) + 8, np.int32)

    def find(self, reading: Floats) -> Ints:
        """The queries that hold for a reading; the room is used again for the next one."""
        self._counts[:] = self._missing
        for value, tree in zip(reading, self._trees, strict=True):
            _count_holding(*tree, value, self._counts)
        return self._out[: _zeros(self._counts, self._size, self._out)]
