"""The k nearest points of every centre through many small instants, in one compiled call.

A step is an instant: some points and some centres go elsewhere, all of them together. A query is
looked at if its centre moved, or if a point that moved was or is within its circle. Its members and
the points that moved are what it knows: if the best of them are as many as it wants and none is
beyond its old circle, they are the answer, because whoever else is there stayed outside. Otherwise
it searches with them as the first candidates: among all points as long as there are few, or few
searches, and then in a tree (see `nearest_tree`).

Measures are the same float64 expressions as in `nearest_search`, and so are the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Floats, Ints, Longs
from place.kernels.nearest import plain
from place.kernels.nearest_tree import (
    DEEPEST,
    is_closer,
    is_there,
    list_of,
    make_tree,
    measure_of,
    relink,
    search_all,
    search_tree,
)
from place.kernels.nested_grid import put_in_order

FEW = 128
"""Points up to which to look at all of them costs less than a tree."""
LINK_COST = 64
"""Points that a search looks at in the time in which one is put into a list of a tree."""
RUN = 64
"""Points that are compared at once."""
INSERTED = 32
"""Candidates out of order, up to which each is put in its place by comparing it with others."""
ROOM = 1024
"""Changes that there is room for at first."""


class Walked(NamedTuple):
    """Who left (−1, with the measure it had) and who came (+1, with the one it has), in the order
    of steps and then of queries; of one query at one step, those who left are first."""

    steps: Ints
    queries: Ints
    slots: Ints
    signs: NDArray[np.int8]
    measures: Floats


@njit(nogil=True, cache=True)
def _longer(array, size):
    """The same array with room for so many entries, and for twice as many as before."""
    found = np.empty(max(size, 2 * len(array)), array.dtype)
    for i in range(len(array)):
        found[i] = array[i]
    return found


@njit(nogil=True, cache=True, inline="always")
def _put_in_place(measures, slots, kept, count, ranks, spare_measures, spare_slots):
    """Sorts candidates, of which the first so many that were kept are in order."""
    if count - kept > INSERTED:
        put_in_order(measures, slots, 0, count, ranks, spare_measures, spare_slots)
    else:
        for i in range(kept, count):
            measure, slot, at = measures[i], slots[i], i - kept
            while at > 0 and is_closer(
                measure, slot, spare_measures[at - 1], spare_slots[at - 1], ranks
            ):
                spare_measures[at], spare_slots[at] = spare_measures[at - 1], spare_slots[at - 1]
                at -= 1
            spare_measures[at], spare_slots[at] = measure, slot
        # The others are in order too now; from the last on, both become one row.
        this, other = kept - 1, count - kept - 1
        while other >= 0:
            at = this + other + 1
            if this >= 0 and is_closer(
                spare_measures[other], spare_slots[other], measures[this], slots[this], ranks
            ):
                measures[at], slots[at] = measures[this], slots[this]
                this -= 1
            else:
                measures[at], slots[at] = spare_measures[other], spare_slots[other]
                other -= 1


@njit(nogil=True, cache=True)
def _walk(
    points, ranks, centers, excluded, ks, starts, members, measures,
    point_starts, point_slots, point_to, center_starts, center_queries, center_to,
    watch, measured, most_named, most_wanted,
):  # fmt: skip
    """See `walk_nearest`. All but searches is in one function, because calls count references."""
    deep, queries, steps = points.shape[1] > 2, len(ks), len(point_starts) - 1
    # Of every query its centre, how many members it has, and its circle: the measure of the last
    # member, infinite if there are fewer than it wants, and less than nothing if it wants none.
    xs, ys, zs = np.empty(queries), np.empty(queries), np.zeros(queries)
    circles, counts = np.empty(queries), np.zeros(queries, np.int64)
    touched, shifted = np.zeros(queries, np.int64), np.zeros(queries, np.int64)
    for query in range(queries):
        xs[query], ys[query] = centers[query, 0], centers[query, 1]
        if deep:
            zs[query] = centers[query, 2]
        first, last = starts[query], starts[query + 1]
        while first + counts[query] < last and members[first + counts[query]] >= 0:
            counts[query] += 1
        circles[query] = measures[last - 1] if counts[query] == ks[query] else np.inf
        if ks[query] == 0 or not is_there(centers, query):
            circles[query] = -1.0
    # Candidates, and marks of points: the last step that named them, the last time that they were
    # seen, and where they were then.
    near, names = np.empty(most_wanted + most_named), np.empty(most_wanted + most_named, np.int32)
    spare_near, spare_names = np.empty_like(near), np.empty_like(names)
    named, seen = np.zeros(len(points), np.int32), np.zeros(len(points), np.int64)
    spots, tag = np.zeros(len(points), np.int32), 0
    olds = np.empty((most_named, 3))
    # The tree, of which there is nothing yet.
    axes, numbers, heads = np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32)
    after, before, lists = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32)
    waiting, gaps, looks = np.empty(DEEPEST + 2, np.int64), np.empty((DEEPEST + 2, 4)), 0
    told = 0
    out_steps, out_queries = np.empty(ROOM, np.int32), np.empty(ROOM, np.int32)
    out_slots, out_signs = np.empty(ROOM, np.int32), np.empty(ROOM, np.int8)
    out_measures = np.empty(ROOM)
    for step in range(steps):
        begin, end = point_starts[step], point_starts[step + 1]
        for row in range(begin, end):
            slot = point_slots[row]
            named[slot] = step + 1
            olds[row - begin, 0], olds[row - begin, 1] = points[slot, 0], points[slot, 1]
            points[slot, 0], points[slot, 1] = point_to[row, 0], point_to[row, 1]
            if deep:
                olds[row - begin, 2], points[slot, 2] = points[slot, 2], point_to[row, 2]
            if len(axes):
                to = list_of(points, slot, axes, numbers)
                if to != lists[slot]:
                    relink(slot, to, heads, after, before, lists)
        for row in range(center_starts[step], center_starts[step + 1]):
            query, x, y, z = center_queries[row], center_to[row, 0], center_to[row, 1], 0.0
            centers[query, 0], centers[query, 1] = x, y
            if deep:
                z = center_to[row, 2]
                centers[query, 2] = z
            if x != xs[query] or y != ys[query] or z != zs[query]:
                touched[query], shifted[query] = 1, 1
            xs[query], ys[query], zs[query] = x, y, z
        for row in range(begin, end):
            to_x, to_y, to_z = point_to[row, 0], point_to[row, 1], 0.0
            old_x, old_y, old_z = olds[row - begin, 0], olds[row - begin, 1], 0.0
            if deep:
                to_z, old_z = point_to[row, 2], olds[row - begin, 2]
            for query in range(queries):
                x, y, z, circle = xs[query], ys[query], zs[query], circles[query]
                is_x, is_y, is_z = x - to_x, y - to_y, z - to_z
                was_x, was_y, was_z = x - old_x, y - old_y, z - old_z
                now = is_x * is_x + is_y * is_y + is_z * is_z
                was = was_x * was_x + was_y * was_y + was_z * was_z
                touched[query] |= np.int64((now <= circle) | (was <= circle))
        for query in range(queries):
            if touched[query] == 0:
                continue
            wanted, first, old_count = ks[query], starts[query], counts[query]
            x, y, z, without = xs[query], ys[query], zs[query], excluded[query]
            was_there, moved = circles[query] >= 0.0, shifted[query] != 0
            touched[query], shifted[query] = 0, 0
            count, kept = 0, 0
            if wanted > 0 and is_there(centers, query):
                # Members that stand are in order; then come those that moved, and other points.
                tag, others = tag + 1, 0
                for i in range(first, first + old_count):
                    slot = members[i]
                    seen[slot] = tag
                    if not moved and named[slot] != step + 1:
                        near[kept], names[kept] = measures[i], slot
                        kept += 1
                    elif is_there(points, slot):
                        spare_names[others] = slot
                        others += 1
                count = kept + others
                for i in range(others):
                    slot = spare_names[i]
                    near[kept + i], names[kept + i] = measure_of(points, slot, x, y, z), slot
                # Of others, those are of use that are within the old circle, or any if that was
                # not full; if the centre moved, it is no circle any more.
                limit = -1.0 if moved and old_count == wanted else circles[query]
                for row in range(begin, end):
                    slot = point_slots[row]
                    measure = measure_of(points, slot, x, y, z)
                    if not (measure <= limit and is_there(points, slot)):
                        continue
                    if seen[slot] != tag and slot != without:
                        near[count], names[count], seen[slot] = measure, slot, tag
                        count += 1
                _put_in_place(near, names, kept, count, ranks, spare_near, spare_names)
                count = min(count, wanted)
                # All are known if there were fewer than wanted; within the old circle, all that
                # did not move are.
                known = was_there and old_count < wanted
                if was_there and not known and not moved and count == wanted:
                    last, slot = first + wanted - 1, names[count - 1]
                    known = slot == members[last] or is_closer(
                        near[count - 1], slot, measures[last], members[last], ranks
                    )
                    known &= near[count - 1] <= measures[last]
                if not known:
                    if count == wanted:
                        # Those that are the other way round are a heap.
                        for i in range(count // 2):
                            j = count - 1 - i
                            near[i], near[j] = near[j], near[i]
                            names[i], names[j] = names[j], names[i]
                    if len(axes) == 0 and len(points) > FEW:
                        looks += len(points)
                        if looks > LINK_COST * (len(points) + end):
                            axes, numbers, heads, after, before, lists = make_tree(
                                points, point_to, end
                            )
                    if len(axes):
                        count = search_tree(
                            points, x, y, z, without, seen, tag, axes, numbers, heads, after,
                            waiting, gaps, ranks, near, names, count, wanted,
                        )  # fmt: skip
                    else:
                        count = search_all(
                            points, x, y, z, without, seen, tag, ranks, near, names, count, wanted,
                            RUN,
                        )  # fmt: skip
                    _put_in_place(near, names, 0, count, ranks, spare_near, spare_names)
                circles[query] = near[count - 1] if count == wanted else np.inf
            else:
                circles[query] = -1.0
            if told + old_count + count > len(out_steps):
                room = told + old_count + count
                out_steps, out_queries = _longer(out_steps, room), _longer(out_queries, room)
                out_slots, out_signs = _longer(out_slots, room), _longer(out_signs, room)
                out_measures = _longer(out_measures, room)
            begun = told
            # Marks tell who is new, who was a member too, and who of those is told.
            tag += 3
            for i in range(count):
                seen[names[i]], spots[names[i]] = tag, i
            for i in range(first, first + old_count):
                slot, tell = members[i], True
                if seen[slot] == tag:
                    tell = (watch and named[slot] == step + 1) or (
                        measured and near[spots[slot]] != measures[i]
                    )
                    seen[slot] = tag - 1 if tell else tag - 2
                if tell:
                    out_slots[told], out_signs[told] = slot, -1
                    out_measures[told] = measures[i]
                    told += 1
            for i in range(count):
                if seen[names[i]] != tag - 2:
                    out_slots[told], out_signs[told], out_measures[told] = names[i], 1, near[i]
                    told += 1
            for i in range(begun, told):
                out_steps[i], out_queries[i] = step, query
            for i in range(count):
                members[first + i], measures[first + i] = names[i], near[i]
            for i in range(count, old_count):
                members[first + i], measures[first + i] = -1, np.inf
            counts[query] = count
    return (
        out_steps[:told],
        out_queries[:told],
        out_slots[:told],
        out_signs[:told],
        out_measures[:told],
    )


def walk_nearest(
    points: Floats,
    ranks: Longs,
    centers: Floats,
    excluded: Longs,
    ks: Longs,
    starts: Longs,
    members: Ints,
    measures: Floats,
    point_starts: Longs,
    point_slots: Ints,
    point_to: Floats,
    center_starts: Longs,
    center_queries: Ints,
    center_to: Floats,
    *,
    watch: bool,
    measured: bool,
) -> Walked:
    """Takes the answers of all queries through many steps, and tells how they changed at each.

    `points` (two columns in the plane, unit vectors on the sphere) and `centers` are where all is
    before the first step, and `starts`, `members` and `measures` are the answers there, as a
    `NearestMatcher` has them; all but `starts` become what they are after the last. At step t the
    points `point_slots[point_starts[t]:point_starts[t + 1]]` go to those rows of `point_to`, each
    of them once, and likewise the centres. A point that is NaN is no candidate, and a query whose
    centre is NaN has an empty answer. `excluded` is a slot that is never in the query's answer,
    or −1.

    With `watch`, a member that stays is told too, as who left and then came, if a step names it;
    with `measured`, if its measure changed.
    """
    walk: Callable[..., tuple[Any, ...]] = _walk
    found = walk(
        points,
        *(plain(ranks, np.int64), centers),
        *(plain(one, np.int64) for one in (excluded, ks, starts)),
        *(members, measures),
        *(plain(point_starts, np.int64), plain(point_slots, np.int32)),
        plain(point_to, np.float64),
        *(plain(center_starts, np.int64), plain(center_queries, np.int32)),
        plain(center_to, np.float64),
        *(watch, measured),
        int(np.diff(point_starts).max(initial=0)),
        int(ks.max(initial=0)),
    )
    return Walked(*found)
