"""Bringing the answers of queries up to date, a batch at a time, and telling what changed.

A query that stands keeps its answer unless one of its members moved or a point moved into its
circle; if as many came as went, they alone decide. Otherwise it searches, with a bound guessed from
its last answer.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.nearest_search import (
    ASKED,
    DONE,
    KEPT,
    LATER,
    Batch,
    Sorter,
    aim,
    gather,
    settle,
)
from place.kernels.nested_grid import NestedGrid

SPARE, FEW = 1.5, 5.0
"""How much larger than the last one a circle is guessed; where fewer are wanted than twice FEW, it
is larger by FEW neighbours, because small circles differ most from one instant to the next."""


@njit(nogil=True, cache=True)
def _begin(batch, size, layered, centers, excluded, ks, shifted, starts, members, measures):
    """Takes the queries and their old answers into the batch, all of them before anything else:
    they lie anywhere in memory, and in a short loop the reads do not wait for one another."""
    room, deep = len(batch.dists) // len(batch.queries), centers.shape[1] > 2
    queries, states, bounds, olds = batch.queries, batch.states, batch.bounds, batch.olds
    wanted, counts, old_counts = batch.wanted, batch.counts, batch.old_counts
    places, without = batch.centers, batch.excluded
    for k in range(size):
        query = queries[k]
        x, y, z = centers[query, 0], centers[query, 1], 0.0
        if deep:
            z = centers[query, 2]
        places[k, 0], places[k, 1], places[k, 2], without[k] = x, y, z, excluded[query]
        wanted[k], counts[k], old_counts[k], bounds[k] = ks[query], 0, 0, np.inf
        absent = ks[query] == 0 or not (abs(x) < np.inf and abs(y) < np.inf)
        stands = layered and not shifted[query] and query < len(starts) - 1
        states[k] = (KEPT if stands else DONE) if absent else (ASKED if stands else LATER)
        if query < len(starts) - 1 and starts[query] < starts[query + 1]:
            first, last = np.uint64(starts[query]), np.uint64(starts[query + 1])
            old_counts[k] = last - first
            # The last is the largest; both ends are read so that all is near when it is written.
            bounds[k] = max(measures[first], measures[last - np.uint64(1)])
            into = np.uint64(k * room) - first
            for i in range(first, last):
                olds[into + i] = members[i]


@njit(nogil=True, cache=True)
def _stand(batch, size, moved, starts, measures):
    """Queries that stand ask with those of their members that stand; how many do."""
    asked, room = 0, len(batch.dists) // len(batch.queries)
    queries, states, counts, held = batch.queries, batch.states, batch.counts, batch.held
    dists, slots, olds, old_counts = batch.dists, batch.slots, batch.olds, batch.old_counts
    for k in range(size):
        if states[k] != ASKED:
            continue
        first, apart = np.uint64(k * room), np.uint64(starts[queries[k]] - k * room)
        count, lost = first, False
        for i in range(first, first + np.uint64(old_counts[k])):
            slot = np.int64(olds[i])
            if slot < 0:
                break
            gone = moved[np.uint64(slot)]
            dists[count], slots[count] = measures[i + apart], slot
            count += np.uint64(not gone)
            lost |= gone
        counts[k] = np.int64(count - first)
        held[k] = -1 if lost else counts[k]
        asked += 1
    return asked


@njit(nogil=True, cache=True)
def _keep(batch, size):
    """Queries whose members stand, and into whose circles nobody came, keep their answers."""
    states, counts, held = batch.states, batch.counts, batch.held
    for k in range(size):
        if states[k] == ASKED and counts[k] == held[k]:
            states[k] = KEPT


@njit(nogil=True, cache=True)
def _decide(batch, size, moved, starts, measures):
    """Queries are done if the members that stand and the points that came suffice.

    On the circle itself, one that stands and was not in may be before one that came.
    """
    room = len(batch.dists) // len(batch.queries)
    queries, states, bounds, counts = batch.queries, batch.states, batch.bounds, batch.counts
    wanted, olds, old_counts = batch.wanted, batch.olds, batch.old_counts
    dists, slots = batch.dists, batch.slots
    for k in range(size):
        if states[k] != ASKED:
            continue
        done = olds[k * room + old_counts[k] - 1] < 0
        bounds[k] = measures[starts[queries[k] + 1] - 1]
        if counts[k] == wanted[k] and not done:
            worst = k * room + counts[k] - 1
            done = dists[worst] < bounds[k] or not moved[slots[worst]]
        states[k] = DONE if done else LATER


@njit(nogil=True, cache=True)
def _start(batch, size):
    """Queries that are not done begin to search, within a circle larger than the last."""
    states, bounds, counts = batch.states, batch.bounds, batch.counts
    wanted, held, asked = batch.wanted, batch.held, 0
    for k in range(size):
        if states[k] == LATER:
            states[k], counts[k] = ASKED, 0
            bounds[k] *= max(SPARE, 1.0 + FEW / wanted[k])
            held[k] = wanted[k] + 1
            asked += 1
    return asked


@njit(nogil=True, cache=True)
def _end(batch, size, sure):
    """Queries that found too few search again for more; how many do."""
    states, bounds, counts = batch.states, batch.bounds, batch.counts
    wanted, held, asked = batch.wanted, batch.held, 0
    for k in range(size):
        if states[k] != ASKED:
            continue
        if counts[k] == wanted[k] or sure[k]:
            states[k] = DONE
            continue
        # A circle that was a little too small is enlarged; of others there is nothing to keep.
        near = held[k] == wanted[k] + 1 and 2 * counts[k] >= wanted[k]
        bounds[k] = 2.0 * bounds[k] if near else np.inf
        counts[k] = 0
        held[k] *= 2
        asked += 1
    return asked


@njit(nogil=True, cache=True)
def _tell(
    batch, size, new, marks, mark, told, out_query, out_slot, out_sign,
):  # fmt: skip
    """Writes the new answers, and how they differ from the old."""
    queries, states, counts, wanted = batch.queries, batch.states, batch.counts, batch.wanted
    dists, slots, olds, old_counts = batch.dists, batch.slots, batch.olds, batch.old_counts
    starts, members, measures = new
    tag, room = mark[0], len(batch.dists) // len(batch.queries)
    for k in range(size):
        if states[k] != DONE:
            continue
        query, first = queries[k], np.uint64(k * room)
        start, count, old = np.uint64(starts[query]), np.uint64(counts[k]), np.uint64(0)
        # Marks tell the old members from the new, and then the new from the old.
        tag += 2
        while old < np.uint64(old_counts[k]) and olds[first + old] >= 0:
            marks[np.uint64(olds[first + old])] = tag
            old += np.uint64(1)
        came = told
        for i in range(first, first + count):
            slot = np.uint64(slots[i])
            out_slot[came] = slots[i]
            came += np.uint64(marks[slot] != tag)
            marks[slot] = tag + 1
        left = came
        for i in range(first, first + old):
            out_slot[left] = olds[i]
            left += np.uint64(marks[np.uint64(olds[i])] == tag)
        for i in range(told, left):
            out_query[i] = query
            out_sign[i] = 1 if i < came else -1
        told = left
        for i in range(count):
            members[start + i] = slots[first + i]
            measures[start + i] = dists[first + i]
        for i in range(count, np.uint64(wanted[k])):
            members[start + i] = -1
            measures[start + i] = np.inf
    mark[0] = tag
    return told


@njit(nogil=True, cache=True)
def renew(
    todo, first, layered, roots, largest, zs, centers, excluded, ks, shifted, moved, ranks,
    nest, old, new, batch, sorter, rest, told, out_query, out_slot, out_sign,
):  # fmt: skip
    """Brings the answers of some queries up to date; stops before a batch that may not fit.

    The old answers and the new may be the same arrays.
    """
    queue, marks, mark = rest
    held, points, order = Batch(*batch), NestedGrid(*nest), Sorter(ranks, *sorter)
    queries, bounds, wanted, old_counts = held.queries, held.bounds, held.wanted, held.old_counts
    sure, told = np.empty(len(queries), np.int64), np.uint64(told)
    while first < len(todo):
        size = min(len(queries), len(todo) - first)
        for k in range(size):
            queries[k] = todo[first + k]
        _begin(held, size, layered, centers, excluded, ks, shifted, *old)
        most = np.int64(told)
        for k in range(size):
            most += wanted[k] + old_counts[k]
        if most > len(out_query):
            break
        if layered and _stand(held, size, moved, old[0], old[2]):
            gather(held, size, points, zs, roots[1:], moved, order, queue)
            _keep(held, size)
            settle(held, order, size)
            _decide(held, size, moved, old[0], old[2])
        asked = _start(held, size)
        while asked:
            aim(held, size, points, largest)
            for k in range(size):
                sure[k] = bounds[k] == np.inf
            gather(held, size, points, zs, roots, None, order, queue)
            settle(held, order, size)
            asked = _end(held, size, sure)
        told = _tell(held, size, new, marks, mark, told, out_query, out_slot, out_sign)
        first += size
    return first, np.int64(told)
