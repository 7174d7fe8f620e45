"""Finding the slots of keys: a hash table in an array, asked for many keys at once.

`table` holds a slot + 1 at a place that follows from the slot's key, 0 where nothing is and −1
where something was. The caller keeps it less than half full.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.arrays import Ints, Longs
from place.kernels.order import in_pieces

EMPTY, REMOVED = 0, -1
SMALLEST = 64


@njit(inline="always")
def _place(key, mask):
    """The steps of splitmix64: neighbours among the keys should not be neighbours here."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((mixed ^ (mixed >> np.uint64(31))) & np.uint64(mask))


@njit(inline="always")
def _probe(table, keys, key):
    """The place of a key and its slot; where it has none, the place where it would be and −1."""
    mask = len(table) - 1
    at = _place(key, mask)
    while table[at] != EMPTY:
        slot = table[at] - 1
        if slot >= 0 and keys[slot] == key:
            return at, slot
        at = (at + 1) & mask
    return at, -1


@njit(nogil=True, cache=True)
def _find_slots(table, keys, asked, out):
    """The slot of each key that is asked for, −1 where it has none; how many have none."""
    missing = 0
    for i in range(len(asked)):
        _, found = _probe(table, keys, asked[i])
        out[i] = found
        missing += found < 0
    return missing


def found_slots(table: Ints, keys: Longs, asked: Longs, threads: int = 1) -> tuple[Longs, int]:
    """The slot of each key that is asked for, −1 where it has none; how many have none."""
    slots = np.empty(len(asked), np.int64)
    missing = in_pieces(
        len(asked),
        threads,
        lambda low, high: _find_slots(table, keys, asked[low:high], slots[low:high]),
    )
    return slots, sum(missing)


@njit(nogil=True, cache=True)
def take_slots(table, keys, asked, out, free, free_count, size):
    """Slots for the keys that have none (−1 in `out`): freed ones first, then the next.

    The same key may be asked for twice. Returns how many slots are free and in use after it.
    """
    for i in range(len(asked)):
        if out[i] >= 0:
            continue
        key = asked[i]
        at, found = _probe(table, keys, key)
        if found < 0:
            if free_count > 0:
                free_count -= 1
                found = free[free_count]
            else:
                found = size
                size += 1
            keys[found] = key
            table[at] = found + 1
        out[i] = found
    return free_count, size


@njit(nogil=True, cache=True)
def remove_slots(table, keys, slots):
    """Let go of the keys at these slots."""
    mask = len(table) - 1
    for i in range(len(slots)):
        at = _place(keys[slots[i]], mask)
        while table[at] != slots[i] + 1:
            at = (at + 1) & mask
        table[at] = REMOVED


@njit(nogil=True, cache=True)
def enter_slots(table, keys, slots):
    """Enter slots whose keys are all different into an empty table."""
    mask = len(table) - 1
    for i in range(len(slots)):
        at = _place(keys[slots[i]], mask)
        while table[at] != EMPTY:
            at = (at + 1) & mask
        table[at] = slots[i] + 1


@njit(nogil=True, cache=True)
def last_of_each(slots, scratch):
    """Which messages are the last of their slots. `scratch` is −1 for each slot, also after it."""
    kept = np.empty(len(slots), np.bool_)
    for i in range(len(slots) - 1, -1, -1):
        kept[i] = scratch[slots[i]] < 0
        scratch[slots[i]] = i
    for i in range(len(slots)):
        scratch[slots[i]] = -1
    return kept


def empty_table(entries: int) -> Ints:
    """A table with room for so many entries."""
    return np.zeros(max(SMALLEST, 1 << (4 * entries - 1).bit_length()), np.int32)


def spread_keys(keys: Longs, parts: int) -> Longs:
    """A number below `parts` for each key."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(parts)).astype(np.int64)
