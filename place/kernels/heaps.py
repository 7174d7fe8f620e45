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
def put_items(ranks, after, held, roots, items, groups):
    """Put items into the heaps of their groups, but for those that are still there."""
    for i in range(len(items)):
        item = items[i]
        if not held[item]:
            held[item] = True
            after[item, CHILD] = after[item, SIBLING] = -1
            roots[groups[i]] = _meld(ranks, after, roots[groups[i]], item)


@njit(nogil=True, cache=True)
def least_items(ranks, after, held, roots, counts, groups):
    """The least item of each group that is there (has a count), −1 if there is none."""
    found = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        top = roots[groups[i]]
        while top >= 0 and counts[top] <= 0:
            held[top] = False
            top = _without_top(ranks, after, top)
        roots[groups[i]] = top
        found[i] = top
    return found
