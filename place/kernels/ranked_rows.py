"""The first ranks of each query, while rows of any rank come and go.

Rows are told for a rank: all of one rank are there together or not at all. An item is a row of one
rank, with a weight; a rank is there while one of its items has a weight. Each query wants so many
ranks, the first of those that are there.

What is known is kept in tables of whole numbers, by query, rank, item and row, which are 0 at
first. A link is the number of what follows plus 1, so that 0 is the end of a list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WANTED, TOLD, FIRST = 0, 1, 2
"""Of a query: how many ranks it wants and has been told, and the first of those that are there."""
NEXT, WEIGHTS, ITEM, STATE = 0, 1, 2, 3
"""Of a rank: the following one that is there, how many of its items have a weight, the first of
its items, and its state."""
OTHER, SHOWN = 0, 1
"""Of an item: another one of the same rank, and the weight that it was told with."""
PENDING, LISTED = 0, 1
"""Of a row: the weight that it gains at an instant, and whether it is listed as one that may gain
some; both are 0 after the instant."""
WAS, IS = 1, 2
"""The states of a rank that was among the first, while they are chosen again, or is among them."""


@njit(nogil=True, cache=True)
def link_items(pairs, by_rank, by_item, start, end):
    """Put items, pairs of rank and row, into the lists of their ranks."""
    for item in range(start, end):
        by_item[item, OTHER] = by_rank[pairs[item, 0], ITEM]
        by_rank[pairs[item, 0], ITEM] = item + 1


@njit(nogil=True, cache=True)
def _place(orders, active, count, rank):
    """Where a rank stands, or would stand, among active ones, which are in order."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        other = active[middle]
        before = False
        for column in range(orders.shape[1]):
            if orders[other, column] != orders[rank, column]:
                before = orders[other, column] < orders[rank, column]
                break
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _count(orders, by_rank, active, count, rank, more):
    """One more item of a rank has a weight, or one less; returns how many ranks are active."""
    by_rank[rank, WEIGHTS] += more
    if by_rank[rank, WEIGHTS] != (1 if more > 0 else 0):
        return count
    place = _place(orders, active, count, rank)
    if more < 0:
        for k in range(place, count - 1):
            active[k] = active[k + 1]
        return count - 1
    for k in range(count, place, -1):
        active[k] = active[k - 1]
    active[place] = rank
    return count + 1


@njit(nogil=True, cache=True)
def _tell(pairs, by_item, by_row, rows, count, item, weight):
    """Let an item be told with this weight; returns the list of rows, and how long it is."""
    change = weight - by_item[item, SHOWN]
    if change == 0:
        return rows, count
    by_item[item, SHOWN] = weight
    row = pairs[item, 1]
    by_row[row, PENDING] += change
    if by_row[row, LISTED]:
        return rows, count
    by_row[row, LISTED] = 1
    if count == len(rows):
        rows = _longer(rows)
    rows[count] = row
    return rows, count + 1


@njit(nogil=True, cache=True)
def _longer(array):
    made = np.empty(2 * len(array), np.int64)
    made[: len(array)] = array
    return made


@njit(nogil=True, cache=True)
def _tell_all(pairs, by_rank, by_item, by_row, totals, rows, count, rank, joins):
    """Let all items of a rank be told with the weights they have, or no more."""
    link = by_rank[rank, ITEM]
    while link > 0:
        item = link - 1
        weight = totals[item] if joins else 0
        rows, count = _tell(pairs, by_item, by_row, rows, count, item, weight)
        link = by_item[item, OTHER]
    return rows, count


@njit(nogil=True, cache=True)
def _load(by_query, by_rank, query, more):
    """The ranks of a query that are there, with room for more, and how many there are."""
    count, link = 0, by_query[query, FIRST]
    while link > 0:
        count, link = count + 1, by_rank[link - 1, NEXT]
    active = np.empty(count + more, np.int64)
    count, link = 0, by_query[query, FIRST]
    while link > 0:
        active[count] = link - 1
        count, link = count + 1, by_rank[link - 1, NEXT]
    return active, count


@njit(nogil=True, cache=True)
def _store(by_query, by_rank, query, active, count):
    link = 0
    for k in range(count - 1, -1, -1):
        by_rank[active[k], NEXT] = link
        link = active[k] + 1
    by_query[query, FIRST] = link


@njit(nogil=True, cache=True)
def choose_first(
    orders, by_query, by_rank, by_item, by_row, totals, pairs, queries, starts, items, weights
):
    """Add weights to the totals of items, in segments of one query and one instant each.

    `orders` has what ranks are compared by, `pairs` the rank and the row of each item. The entries
    from `starts[s]` to `starts[s + 1]` are of `queries[s]`, and segments of one query follow one
    another. Returns the rows that join (a positive weight) or leave the first of their query, the
    weights, and the segments at whose end they do; and how many more items have a weight.
    """
    told, changes = np.empty(len(items) + 8, np.int64), np.empty(len(items) + 8, np.int64)
    when, used = np.empty(len(items) + 8, np.int64), 0
    rows = np.empty(len(items) + 8, np.int64)
    active, chosen = rows, rows
    count, more = 0, 0
    for s in range(len(queries)):
        query = queries[s]
        first, last = by_query[query, TOLD], starts[s + 1]
        if s == 0 or queries[s - 1] != query:
            end = s + 1
            while end < len(queries) and queries[end] == query:
                end += 1
            active, count = _load(by_query, by_rank, query, starts[end] - starts[s])
            chosen = active.copy()
        for e in range(starts[s], last):
            before = totals[items[e]]
            now = before + weights[e]
            totals[items[e]] = now
            change = (now != 0) - (before != 0)
            if change != 0:
                count = _count(orders, by_rank, active, count, pairs[items[e], 0], change)
                more += change

        # Rows of ranks that join or leave the first, and those that change in ranks that stay.
        wanted, listed = min(by_query[query, WANTED], count), 0
        for k in range(first):
            by_rank[chosen[k], STATE] = WAS
        for k in range(wanted):
            joins = by_rank[active[k], STATE] != WAS
            by_rank[active[k], STATE] = IS
            if joins:
                rows, listed = _tell_all(
                    pairs, by_rank, by_item, by_row, totals, rows, listed, active[k], True
                )
        for k in range(first):
            if by_rank[chosen[k], STATE] == WAS:
                by_rank[chosen[k], STATE] = 0
                rows, listed = _tell_all(
                    pairs, by_rank, by_item, by_row, totals, rows, listed, chosen[k], False
                )
        for e in range(starts[s], last):
            if by_rank[pairs[items[e], 0], STATE] == IS:
                item, weight = items[e], totals[items[e]]
                rows, listed = _tell(pairs, by_item, by_row, rows, listed, item, weight)
        for k in range(wanted):
            chosen[k] = active[k]
        by_query[query, TOLD] = wanted

        for k in range(listed):
            row, change = rows[k], by_row[rows[k], PENDING]
            by_row[row, PENDING] = by_row[row, LISTED] = 0
            if change != 0:
                if used == len(told):
                    told, changes, when = _longer(told), _longer(changes), _longer(when)
                told[used], changes[used], when[used] = row, change, s
                used += 1
        if s + 1 == len(queries) or queries[s + 1] != query:
            _store(by_query, by_rank, query, active, count)
    return told[:used], changes[:used], when[:used], more
