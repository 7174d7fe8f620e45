"""What leaves and comes back at one instant: keys that are in both of two lists."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(inline="always")
def _spread(key, mask):
    """Where the search for a key begins in a table whose size is a power of two."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask))


@njit(nogil=True, cache=True)
def uncancelled(left, right):
    """The places of the keys of each list that the other one does not have; no key is twice in a
    list."""
    size = 16
    while size < 2 * len(left):
        size *= 2
    table = np.full(size, -1, np.int64)
    for i in range(len(left)):
        at = _spread(left[i], size - 1)
        while table[at] >= 0:
            at = (at + 1) & (size - 1)
        table[at] = i
    found = np.zeros(len(left), np.int64)
    kept_right = np.empty(len(right), np.int64)
    count = 0
    for i in range(len(right)):
        at = _spread(right[i], size - 1)
        while table[at] >= 0 and left[table[at]] != right[i]:
            at = (at + 1) & (size - 1)
        if table[at] >= 0:
            found[table[at]] = 1
        else:
            kept_right[count] = i
            count += 1
    kept_left = np.empty(len(left), np.int64)
    rest = 0
    for i in range(len(left)):
        if found[i] == 0:
            kept_left[rest] = i
            rest += 1
    return kept_left[:rest], kept_right[:count]
