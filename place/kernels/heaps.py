"""The least of many groups of items, also when items are taken back: pairing heaps in arrays.

An item that is gone stays in its heap until it comes to the top. `after` holds, for each item, its
first child and its next sibling, −1 where there is none; `roots` the top of each group.
"""

from __future__ import annotations

import numpy as np
from numba import njit

CHILD, SIBLING = 0, 1


@njit(nogil=True, cache=True)
def _meld(ranks, after, one, other):
    """The top of two heaps, which are now one."""
    if one < 0 or other < 0:
        return max(one, other)
    if ranks[other] < ranks[one]:
        one, other = other, one
    after[other, SIBLING] = after[one, CHILD]
    after[one, CHILD] = other
    return one


@njit(nogil=True, cache=True)
def _without_top(ranks, after, top):
    """The top of what is left: children are melded in pairs, then the pairs from the last on."""
    pairs = -1
    item = after[top, CHILD]
    while item >= 0:
        other = after[item, SIBLING]
        following = -1
        after[item, SIBLING] = -1
        if other >= 0:
            following = after[other, SIBLING]
            after[other, SIBLING] = -1
        pair = _meld(ranks, after, item, other)
        after[pair, SIBLING] = pairs
        pairs, item = pair, following
    left = -1
    while pairs >= 0:
        following = after[pairs, SIBLING]
        after[pairs, SIBLING] = -1
        left = _meld(ranks, after, left, pairs)
        pairs = following
    return left


@njit(nogil=True, cache=True)
def _put(ranks, after, held, roots, item, group):
    """Put an item into the heap of its group, unless it is still there."""
    if not held[item]:
        held[item] = True
        after[item, CHILD] = after[item, SIBLING] = -1
        roots[group] = _meld(ranks, after, roots[group], item)


@njit(nogil=True, cache=True)
def _least(ranks, after, held, roots, present, group):
    """The least item of a group that is present, −1 if there is none."""
    top = roots[group]
    while top >= 0 and not present[top]:
        held[top] = False
        top = _without_top(ranks, after, top)
    roots[group] = top
    return top


@njit(nogil=True, cache=True)
def put_items(ranks, after, held, roots, items, groups):
    """Put items into the heaps of their groups, but for those that are still there."""
    for i in range(len(items)):
        _put(ranks, after, held, roots, items[i], groups[i])


@njit(nogil=True, cache=True)
def least_in_segments(
    ranks, after, held, roots, present, values, items, signs, item_ranks, groups, starts
):
    """What the least item of a group stands for at the end of each segment, and where there is
    none (0).

    Segment s is of `groups[s]`; from `starts[s]` to `starts[s + 1]` are the items that come to it
    (sign +1) with their ranks, leave it (−1), or do neither (0, and there may be no item).
    `present` tells of each item whether it is there; item i stands for `values[i, 1]`.
    """
    found, none = np.zeros(len(groups), np.int64), np.empty(len(groups), np.bool_)
    for s in range(len(groups)):
        for e in range(starts[s], starts[s + 1]):
            if signs[e] > 0:
                ranks[items[e]] = item_ranks[e]
                present[items[e]] = True
                _put(ranks, after, held, roots, items[e], groups[s])
            elif signs[e] < 0:
                present[items[e]] = False
        top = _least(ranks, after, held, roots, present, groups[s])
        none[s] = top < 0
        if top >= 0:
            found[s] = values[top, 1]
    return found, none
