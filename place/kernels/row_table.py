"""Rows of whole numbers and how often each is there: a hash table in an array.

`table` holds the slot of a row at a place that follows from the row, −1 where there is none.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(inline="always")
def _place(rows, i, mask):
    """The steps of splitmix64 for each number of a row."""
    mixed = np.uint64(0)
    for column in range(rows.shape[1]):
        mixed = (mixed ^ np.uint64(rows[i, column])) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(31)
    return np.int64(mixed & np.uint64(mask))


@njit(inline="always")
def _same(rows, i, others, j):
    same = True
    for column in range(rows.shape[1]):
        same &= rows[i, column] == others[j, column]
    return same


@njit(nogil=True, cache=True)
def enter_rows(rows, used, table):
    """Put the first `used` rows, all of them different, into an empty table."""
    mask = len(table) - 1
    for slot in range(used):
        at = _place(rows, slot, mask)
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = slot


@njit(nogil=True, cache=True)
def find_rows(table, rows, used, wanted, weights):
    """The slot of each wanted row, a new one if it has none; −1 if it has no weight.

    Returns the table and the rows, which may have grown, how many are in use, and the slots.
    """
    slots = np.empty(len(wanted), np.int64)
    mask = len(table) - 1
    for i in range(len(wanted)):
        if weights[i] == 0:
            slots[i] = -1
            continue
        at = _place(wanted, i, mask)
        while table[at] >= 0 and not _same(rows, table[at], wanted, i):
            at = (at + 1) & mask
        if table[at] < 0:
            if used == len(rows):
                longer = np.empty((2 * used, rows.shape[1]), np.int64)
                longer[:used] = rows
                rows = longer
            for column in range(rows.shape[1]):
                rows[used, column] = wanted[i, column]
            table[at] = used
            slots[i] = used
            used += 1
            if 2 * used > len(table):
                table = np.full(2 * len(table), -1, np.int32)
                mask = len(table) - 1
                enter_rows(rows, used, table)
        else:
            slots[i] = table[at]
    return table, rows, used, slots


@njit(nogil=True, cache=True)
def add_weights(counts, marks, slots, weights):
    """Add weights to the counts of slots; −1 is no slot. `marks` are all False, here and after.

    Returns, of each slot, the position of its first weight, itself, its count before and after;
    and how many more slots have a count.
    """
    firsts, touched = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    before, after = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    found, more = 0, 0
    for i in range(len(slots)):
        slot = slots[i]
        if slot < 0:
            continue
        if not marks[slot]:
            marks[slot] = True
            firsts[found], touched[found], before[found] = i, slot, counts[slot]
            found += 1
        counts[slot] += weights[i]
    for k in range(found):
        marks[touched[k]] = False
        after[k] = counts[touched[k]]
        more += (after[k] != 0) - (before[k] != 0)
    return firsts[:found], touched[:found], before[:found], after[:found], more
