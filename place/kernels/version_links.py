"""Versions of rows within a tick: linking those of one slot, and finding the one of an instant.

A version is given by one number: `i >= 0` is row i of the tick, `~slot` is what the slot held
before the tick. `last` is scratch: an array of −1 for each slot, before and after every call.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def last_of_instants(slots, instants, last):
    """Which rows are the last of their slot at their instant; rows are in the order of instants."""
    kept = np.empty(len(slots), np.bool_)
    for i in range(len(slots) - 1, -1, -1):
        later = last[slots[i]]
        kept[i] = later < 0 or instants[later] != instants[i]
        last[slots[i]] = i
    for i in range(len(slots)):
        last[slots[i]] = -1
    return kept


@njit(nogil=True, cache=True)
def link_versions(slots, last):
    """The version before each row (`~slot` for the first of a slot), and the row after it or −1."""
    before, after = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        earlier = last[slots[i]]
        before[i] = ~slots[i] if earlier < 0 else earlier
        if earlier >= 0:
            after[earlier] = i
        after[i] = -1
        last[slots[i]] = i
    for i in range(len(slots)):
        last[slots[i]] = -1
    return before, after


@njit(nogil=True, cache=True)
def versions_around(slots, instants, version_slots, version_instants, last):
    """The versions of slots just before instants and at them, which are in order."""
    before, after = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    i, j = 0, 0
    while i < len(slots):
        instant = instants[i]
        while j < len(version_slots) and version_instants[j] < instant:
            last[version_slots[j]] = j
            j += 1
        end = i
        while end < len(slots) and instants[end] == instant:
            found = last[slots[end]]
            before[end] = found if found >= 0 else ~slots[end]
            end += 1
        while j < len(version_slots) and version_instants[j] == instant:
            last[version_slots[j]] = j
            j += 1
        for k in range(i, end):
            found = last[slots[k]]
            after[k] = found if found >= 0 else ~slots[k]
        i = end
    for k in range(j):
        last[version_slots[k]] = -1
    return before, after


@njit(nogil=True, cache=True)
def merge_within_instants(instants, regions, slots, was, now):
    """Of several events of one pair at one instant one is left: what was before the first of them,
    and what is after the last. Events are in the order in which they happened.

    Returns the positions of those that are left; `was` is changed to what was before.
    """
    kept = np.ones(len(instants), np.bool_)
    start = 0
    while start < len(instants):
        end = start + 1
        while end < len(instants) and instants[end] == instants[start]:
            end += 1
        if end - start > 32:
            order = np.argsort(regions[start:end] * (slots[start:end].max() + 1)
                               + slots[start:end], kind="mergesort")  # fmt: skip
            for k in range(1, len(order)):
                i, j = start + order[k - 1], start + order[k]
                if regions[i] == regions[j] and slots[i] == slots[j]:
                    kept[i] = False
                    was[j] = was[i]
        else:
            for j in range(start + 1, end):
                for i in range(j - 1, start - 1, -1):
                    if kept[i] and regions[i] == regions[j] and slots[i] == slots[j]:
                        kept[i] = False
                        was[j] = was[i]
                        break
        start = end
    return np.flatnonzero(kept)


@njit(nogil=True, cache=True)
def name_versions(before, same, first, parts, part, base):
    """A name for each row of a tick: that of the version before it if the two are the same.

    What slot s held before the tick has the name `s * parts + part`, and a row of its own name is
    called by its number, counted from `base` on.
    """
    names = np.empty(len(before), np.int64)
    for i in range(len(before)):
        if not same[i]:
            names[i] = base + first + i
        elif before[i] >= 0:
            names[i] = names[before[i]]
        else:
            names[i] = ~before[i] * parts + part
    return names


@njit(nogil=True, cache=True)
def times_within(starts, ends, after, until):
    """The first and the last instant after one and up to another at which something begins or ends;
    the first is later than the last if nothing does."""
    first, last = until + 1, after
    for i in range(len(starts)):
        for time in (starts[i], ends[i]):
            if after < time <= until:
                first, last = min(first, time), max(last, time)
    return first, last


@njit(nogil=True, cache=True)
def link_moves(names, starts, ends, at, largest):
    """Elements that only move at an instant: they end and begin anew under one of the names, none
    of which is above the largest.

    Returns where each of these ends and where it begins, where those are that are there before the
    instant and after it, which elements are moved, and how many others begin or end at the instant.
    """
    ending = np.full(largest + 1, -1, np.int32)
    others = 0
    for i in range(len(names)):
        if ends[i] == at and starts[i] < at:
            ending[names[i]] = i
            others += 1
    from_, to = np.empty(others, np.int64), np.empty(others, np.int64)
    stays = np.empty(len(names), np.int64)
    moved = np.zeros(len(names), np.bool_)
    count, still = 0, 0
    for i in range(len(names)):
        if starts[i] == at:
            old = ending[names[i]]
            if old >= 0:
                from_[count], to[count] = old, i
                moved[old] = moved[i] = True
                count += 1
                others -= 1
            else:
                others += 1
        elif starts[i] < at and ends[i] > at:
            stays[still] = i
            still += 1
    return from_[:count], to[:count], stays[:still], moved, others


@njit(nogil=True, cache=True)
def put_in_order(first, second, values, nulls):
    """Pairs of places in a list, with the one first whose value is less; those whose values are
    equal or NULL are left out."""
    ones, others = np.empty(len(first) + 1, np.int64), np.empty(len(first) + 1, np.int64)
    count = 0
    for i in range(len(first)):
        one, other = np.int64(first[i]), np.int64(second[i])
        less = values[one] < values[other]
        ones[count] = one if less else other
        others[count] = other if less else one
        count += (values[one] != values[other]) & (not nulls[one]) & (not nulls[other])
    return ones[:count], others[:count]
