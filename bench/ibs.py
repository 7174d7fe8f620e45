"""Predicate indexing before Spatial Join CQ: a tree for each attribute, and a count of what holds.

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

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
def _list_zeros(counts, out, found):
    """The places of bytes that are zero, eight of them at a time."""
    words = counts.view(np.uint64)
    low, high = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    for word in range(np.uint64(len(words))):
        eight = words[word]
        if (eight - low) & ~eight & high:
            for i in range(np.uint64(8)):
                place = word * np.uint64(8) + i
                out[found] = np.int32(place)
                found += np.uint64(counts[place] == 0)
    return found


@njit(nogil=True, cache=True)
def _find(readings, constants, bounds, starts, lists, missing, counts, first, out, ends):
    """For each reading, the queries that hold; stops before one may not fit."""
    count = np.uint64(0)
    for reading in range(first, len(readings)):
        if count + np.uint64(len(counts) + 8) > np.uint64(len(out)):
            return reading
        counts[:] = missing
        for attribute in range(readings.shape[1]):
            begin, end = bounds[attribute], bounds[attribute + 1]
            value = readings[reading, attribute]
            _count_holding(
                constants[begin:end], starts[3 * begin : 3 * end + 1], lists, value, counts
            )
        count = _list_zeros(counts, out, count)
        ends[reading] = count
    return len(readings)


class Ibs:
    """Queries as boxes, in a tree for each attribute."""

    def __init__(self, low: Floats, high: Floats) -> None:
        trees = [make_tree(low[:, k], high[:, k]) for k in range(low.shape[1])]
        sizes = [len(tree.constants) for tree in trees]
        lengths = np.cumsum([0, *(len(tree.lists) for tree in trees)])
        starts = [tree.starts[:-1] + n for tree, n in zip(trees, lengths[:-1], strict=True)]
        bounded = ((low > -np.inf) | (high < np.inf)).sum(axis=1)
        missing = np.full(-(-len(low) // 8) * 8, 255, np.uint8)
        missing[: len(low)] = (256 - bounded) % 256
        self._tree = (
            np.concatenate([tree.constants for tree in trees]),
            np.cumsum([0, *sizes]),
            np.concatenate([*starts, lengths[-1:]]),
            np.concatenate([tree.lists for tree in trees]),
            *(missing, missing.copy()),
        )
        self._room = np.empty(4 * len(missing) + 4096, np.int32)

    def find(self, readings: Floats) -> tuple[Ints, Ints]:
        """Pairs of a reading and a query that holds for it, each once."""
        first, ends = 0, np.zeros(len(readings), np.uint64)
        counts, queries = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        while first < len(readings):
            start = first
            first = _find(readings, *self._tree, start, self._room, ends)
            found = ends[start:first].astype(np.int64)
            counts.append(np.diff(found, prepend=0))
            queries.append(self._room[: found[-1]].copy())
        numbers = np.arange(len(readings), dtype=np.int32)
        return np.repeat(numbers, np.concatenate(counts)), np.concatenate(queries)

    def join(
        self, arrival: Floats, own: Longs, window: Floats, others: Longs, pairs: Longs
    ) -> Iterator[tuple[Ints, Ints]]:
        """Of some pairs of an arrival and readings of a window: readings, and queries that hold."""
        first, ends = 0, np.zeros(len(pairs), np.uint64)
        template = np.empty_like(self._tree[-1])
        while first < len(pairs):
            start = first
            needs = (arrival, own, window, others, pairs, *self._tree[:-1], template)
            first = _find_joined(*needs, self._tree[-1], start, self._room, ends)
            found = ends[start:first].astype(np.int64)
            readings = pairs[start:first].astype(np.int32)
            yield np.repeat(readings, np.diff(found, prepend=0)), self._room[: found[-1]].copy()


@njit(nogil=True, cache=True)
def _find_joined(
    arrival, own, window, others, pairs, constants, bounds, starts, lists, missing, template,
    counts, first, out, ends,
):  # fmt: skip
    """For each pair of the arrival and a reading of the window, the queries that hold.

    What the arrival's own attributes say is counted once, for all of its pairs.
    """
    template[:] = missing
    for i in range(len(own)):
        begin, end = bounds[own[i]], bounds[own[i] + 1]
        _count_holding(
            constants[begin:end], starts[3 * begin : 3 * end + 1], lists, arrival[i], template
        )
    count = np.uint64(0)
    for pair in range(first, len(pairs)):
        if count + np.uint64(len(counts) + 8) > np.uint64(len(out)):
            return pair
        counts[:] = template
        for i in range(len(others)):
            begin, end = bounds[others[i]], bounds[others[i] + 1]
            value = window[pairs[pair], i]
            _count_holding(
                constants[begin:end], starts[3 * begin : 3 * end + 1], lists, value, counts
            )
        count = _list_zeros(counts, out, count)
        ends[pair] = count
    return len(pairs)


class IbsJoin:
    """IBS-JS: pairs of readings by the join conditions that queries share, each condition once, and
    then the selections of the queries with that condition by trees.

    The attributes of queries are those of the first stream and then those of the second.
    """

    def __init__(self, low: Floats, high: Floats, operators: Longs) -> None:
        self._attributes = low.shape[1] // 2
        self._shared = []
        for operator in np.unique(operators):
            names = np.flatnonzero(operators == operator).astype(np.int32)
            self._shared.append((int(operator), names, Ibs(low[names], high[names])))

    def arrive(
        self, stream: int, arrival: Floats, window: Floats, holds: Callable[..., Any]
    ) -> tuple[Ints, Ints]:
        """Pairs of a reading of the other stream's window and a query that holds for it and the
        arrival; `holds` compares the join attributes of the first stream and of the second."""
        own = np.arange(self._attributes) + stream * self._attributes
        others = np.arange(self._attributes) + (1 - stream) * self._attributes
        readings, queries = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for operator, names, ibs in self._shared:
            sides = (arrival[0], window[:, 0]) if stream == 0 else (window[:, 0], arrival[0])
            pairs = np.flatnonzero(holds(operator, *sides))
            for found, some in ibs.join(arrival, own, window, others, pairs):
                readings.append(found)
                queries.append(names[some])
        return np.concatenate(readings), np.concatenate(queries)
