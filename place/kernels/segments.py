"""Segments: the entries of a tick sorted by slot and instant, and totals that run through them.

An entry adds a weight to a slot at an instant. Those of one slot at one instant are a segment:
they take effect together, so that totals matter only at the end of each segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Longs


class Segments(NamedTuple):
    """Sorted entries; those from `starts[s]` to `starts[s + 1]` are segment s.

    `order` tells where each sorted entry stood, `entries` its slot; segments have `slots` and
    `instants`. Slots are in the order in which they first came, the instants of each ascend;
    `moments` are the instants counted from 0 on, in their order.
    """

    order: Longs
    entries: Longs
    starts: Longs
    slots: Longs
    instants: Longs
    moments: Longs


def sort_into_segments(slots: Longs, instants: Longs, size: int) -> Segments:
    """The segments of entries that come in the order of instants; slots are below `size`.

    Entries without a slot (−1) are left out.
    """
    return Segments(*_sort(slots, instants, size))


@njit(nogil=True, cache=True)
def _sort(slots, instants, size):
    numbers = np.empty(size, np.int64)  # of slots, in the order in which they come
    places = np.zeros(len(slots) + 1, np.int64)  # where the next entry of each number goes
    for i in range(len(slots)):
        if slots[i] >= 0:
            numbers[slots[i]] = -1
    found = 0
    for i in range(len(slots)):
        if slots[i] >= 0:
            if numbers[slots[i]] < 0:
                numbers[slots[i]] = found
                found += 1
            places[numbers[slots[i]]] += 1
    total = 0
    for k in range(found):
        total, places[k] = total + places[k], total
    order, entries = np.empty(total, np.int64), np.empty(total, np.int64)
    counted = np.empty(len(slots), np.int64)
    moment = 0
    for i in range(len(slots)):
        if i > 0 and instants[i] != instants[i - 1]:
            moment += 1
        counted[i] = moment
        if slots[i] >= 0:
            number = numbers[slots[i]]
            order[places[number]], entries[places[number]] = i, slots[i]
            places[number] += 1
    starts = np.empty(total + 1, np.int64)
    of_segments = np.empty((3, total), np.int64)
    count = 0
    for e in range(total):
        slot, moment = entries[e], counted[order[e]]
        if count == 0 or of_segments[0, count - 1] != slot or of_segments[2, count - 1] != moment:
            of_segments[0, count], of_segments[1, count] = slot, instants[order[e]]
            of_segments[2, count], starts[count] = moment, e
            count += 1
    starts[count] = total
    owners, times, moments = of_segments[0], of_segments[1], of_segments[2]
    return order, entries, starts[: count + 1], owners[:count], times[:count], moments[:count]


@njit(nogil=True, cache=True)
def add_in_segments(totals, slots, weights, starts):
    """Add the weights of segments to the totals of their slots.

    Returns the totals before each segment and at its end.
    """
    before, now = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    for s in range(len(slots)):
        total = totals[slots[s]]
        before[s] = total
        for i in range(starts[s], starts[s + 1]):
            total += weights[i]
        totals[slots[s]] = now[s] = total
    return before, now


@njit(nogil=True, cache=True)
def cross_zero(counts, slots, weights):
    """Add weights to the counts of slots, one after the other; −1 is no slot, of weight 0.

    Returns +1 where a count becomes positive, −1 where it no longer is, and 0 elsewhere; and how
    many more slots have a count.
    """
    signs = np.zeros(len(slots), np.int64)
    more = 0
    for i in range(len(slots)):
        if slots[i] >= 0:
            before = counts[slots[i]]
            now = before + weights[i]
            counts[slots[i]] = now
            signs[i] = (now > 0) - (before > 0)
            more += (now != 0) - (before != 0)
    return signs, more


@njit(nogil=True, cache=True)
def negative_first(moments, weights):
    """The order of moments, at each of them negative weights first; otherwise stable.

    Moments are counted from 0 on.
    """
    most = 0
    for i in range(len(moments)):
        most = max(most, moments[i])
    places = np.zeros(2 * most + 3, np.int64)
    for i in range(len(moments)):
        places[2 * moments[i] + (weights[i] > 0) + 1] += 1
    for k in range(1, len(places)):
        places[k] += places[k - 1]
    order = np.empty(len(moments), np.int64)
    for i in range(len(moments)):
        number = 2 * moments[i] + (weights[i] > 0)
        order[places[number]] = i
        places[number] += 1
    return order


@njit(nogil=True, cache=True)
def replace_rows(shown, slots, moments, rows, was, present):
    """What segments change: the row that a slot has at the end of each, if it is `present` then.

    `rows` has those rows by columns. `was` tells whether a slot was present before the segment;
    `shown` has, by slots, the rows of those that are, and is kept up to date. Returns the rows
    that are replaced (−1) and that replace them (+1), again by columns, in the order of moments,
    at each of them −1 before +1; the signs, and the segments of both.
    """
    width, most, count = len(rows), 2 * len(slots), 0
    found, signs = np.empty((most, width), np.int64), np.empty(most, np.int64)
    changed, when = np.empty(most, np.int64), np.empty(most, np.int64)
    for s in range(len(slots)):
        slot = slots[s]
        differs = was[s] != present[s]
        if was[s] and present[s]:
            for column in range(width):
                differs |= rows[column, s] != shown[slot, column]
        if not differs:
            continue
        if was[s]:
            for column in range(width):
                found[count, column] = shown[slot, column]
            signs[count], changed[count], when[count] = -1, s, moments[s]
            count += 1
        if present[s]:
            for column in range(width):
                found[count, column] = shown[slot, column] = rows[column, s]
            signs[count], changed[count], when[count] = 1, s, moments[s]
            count += 1
    order = negative_first(when[:count], signs[:count])
    turned = np.empty((width, count), np.int64)
    for k in range(count):
        for column in range(width):
            turned[column, k] = found[order[k], column]
    return turned, signs[order], changed[order]
