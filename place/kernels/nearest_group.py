"""The k points nearest to a group of places, through the instants of a tick, in one compiled call.

How far a point is from a group is the sum, the maximum or the minimum of its distances to the
places. The points on one side of a node of the tree (see `nearest_tree`) are at least as far from
the group as the box that they are in: so the search goes through the tree, the nearer side first,
and ends where nobody can be among the best. A group searches again if one of its places or one of
its members moved; otherwise only points that moved into its circle change its answer.

Distances are the same float64 expressions as DISTANCE, added in the order of the places. Rounding
keeps the order of numbers, so that what is computed from a box is never more than what is computed
from a point in it; the arcsine of the sphere may differ in its last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Floats, Ints, Longs
from place.kernels.distances import EARTH_RADIUS
from place.kernels.nearest_tree import (
    DEEPEST,
    is_there,
    list_of,
    make_tree,
    measure_of,
    offer,
    relink,
)
from place.kernels.nested_grid import put_in_order

SUM, MAX, MIN = 0, 1, 2
"""What of the distances counts."""
ROOM = 1024
"""Changes that there is room for at first."""
DRIFT = 8
"""Moves for each point after which a tree is made anew: its halves are no halves any more."""
SLACK = 1e-12
"""The part of a distance on the sphere by which the arcsine may be wrong."""


class GroupChanges(NamedTuple):
    """Who left (−1, with the distance it had) and who came (+1, with the one it has), in the order
    of steps and then of queries; of one query at one step, those who left are first."""

    steps: Ints
    queries: Ints
    slots: Ints
    signs: NDArray[np.int8]
    distances: Floats


class PointTree(NamedTuple):
    """The tree of points: the axes and numbers of its nodes, the heads of its lists, and of each
    point the one after it, the one before it, and its list."""

    axes: Longs
    numbers: Floats
    heads: Ints
    after: Ints
    before: Ints
    lists: Ints


@njit(nogil=True, cache=True, inline="always")
def _apart(points, row, x, y, z):
    """The distance between a place and the point in a row; in metres on the sphere."""
    root = math.sqrt(measure_of(points, row, x, y, z))
    if points.shape[1] > 2:
        return 2 * EARTH_RADIUS * math.asin(min(1.0, root / 2))
    return root


@njit(nogil=True, cache=True)
def _from_group(points, row, places, first, last, total):
    """How far the point in a row is from the places `first` to `last`."""
    found = 0.0
    for i in range(first, last):
        z = places[i, 2] if places.shape[1] > 2 else 0.0
        far = _apart(points, row, places[i, 0], places[i, 1], z)
        if i == first:
            found = far
        elif total == SUM:
            found += far
        elif total == MAX:
            found = max(found, far)
        else:
            found = min(found, far)
    return found


@njit(nogil=True, cache=True)
def _all_there(places, first, last):
    there = True
    for i in range(first, last):
        there &= is_there(places, i)
    return there


@njit(nogil=True, cache=True)
def _least(places, first, last, total, low, high):
    """No point between these ends is closer to the group than this."""
    found = 0.0
    for i in range(first, last):
        measure = 0.0
        for axis in range(places.shape[1]):
            at, gap = places[i, axis], 0.0
            if at < low[axis]:
                gap = low[axis] - at
            elif at > high[axis]:
                gap = at - high[axis]
            measure += gap * gap
        far = math.sqrt(measure)
        if places.shape[1] > 2:
            far = 2 * EARTH_RADIUS * math.asin(min(1.0, far / 2)) * (1.0 - SLACK)
        if i == first:
            found = far
        elif total == SUM:
            found += far
        elif total == MAX:
            found = max(found, far)
        else:
            found = min(found, far)
    return found


@njit(nogil=True, cache=True)
def _is_of(excluded, first, last, slot):
    found = False
    for i in range(first, last):
        found |= excluded[i] == slot
    return found


@njit(nogil=True, cache=True)
def _search(
    points, places, excluded, first, last, total, seen, tag, axes, numbers, heads, after,
    waiting, ends, ranks, values, slots, count, wanted,
):  # fmt: skip
    """Adds the best of all points to the candidates but for those that are seen already; how many
    there are. The lists that are nearest to the group come first, those too far away never.

    `waiting` is room for the nodes that are still to be visited, and `ends` for between which ends
    their points are on each axis, and how far they are at least.
    """
    nodes, bound = len(axes), values[0] if count == wanted else np.inf
    waiting[0], ends[0, 0, :], ends[0, 1, :] = 0, -np.inf, np.inf
    ends[0, 0, 3] = 0.0
    left, low, high = 1, np.empty(4), np.empty(4)
    while left > 0:
        left -= 1
        if ends[left, 0, 3] > bound:
            continue
        node = waiting[left]
        for axis in range(3):
            low[axis], high[axis] = ends[left, 0, axis], ends[left, 1, axis]
        while node < nodes:
            axis, number = axes[node], numbers[node]
            least, most = low[axis], high[axis]
            high[axis] = min(most, number)
            far_left = _least(places, first, last, total, low, high)
            high[axis], low[axis] = most, max(least, number)
            far_right = _least(places, first, last, total, low, high)
            low[axis] = least
            goes_right = far_right < far_left
            other = far_left if goes_right else far_right
            if other <= bound:
                waiting[left] = 2 * node + (1 if goes_right else 2)
                for each in range(3):
                    ends[left, 0, each], ends[left, 1, each] = low[each], high[each]
                if goes_right:
                    ends[left, 1, axis] = min(most, number)
                else:
                    ends[left, 0, axis] = max(least, number)
                ends[left, 0, 3] = other
                left += 1
            if goes_right:
                low[axis] = max(least, number)
            else:
                high[axis] = min(most, number)
            node = 2 * node + (2 if goes_right else 1)
        slot = heads[node - nodes]
        while slot >= 0:
            if seen[slot] != tag and not _is_of(excluded, first, last, slot):
                far = _from_group(points, slot, places, first, last, total)
                count = offer(values, slots, count, wanted, far, slot, ranks)
                if count == wanted:
                    bound = values[0]
            slot = after[slot]
    return count


@njit(nogil=True, cache=True)
def _longer(array, size):
    found = np.empty(max(size, 2 * len(array)), array.dtype)
    for i in range(len(array)):
        found[i] = array[i]
    return found


@njit(nogil=True, cache=True)
def _walk(
    points, ranks, axes, numbers, heads, after, before, lists, place_starts, places, excluded,
    totals, ks, starts, members, measures, fresh,
    point_starts, point_slots, point_to, center_starts, center_rows, center_owners, center_to,
    watch, measured, most,
):  # fmt: skip
    """See `walk_groups`."""
    queries, steps, width = len(ks), len(point_starts) - 1, points.shape[1]
    # Of every query how many members it has, and its circle: the distance of the last member,
    # infinite if there are fewer than it wants, less than nothing if one of its places is gone.
    circles, counts = np.empty(queries), np.zeros(queries, np.int64)
    shifted = np.zeros(queries, np.bool_)
    for query in range(queries):
        while counts[query] < ks[query] and members[starts[query] + counts[query]] >= 0:
            counts[query] += 1
        circles[query] = np.inf
        if not _all_there(places, place_starts[query], place_starts[query + 1]):
            circles[query] = -1.0
        elif counts[query] == ks[query]:
            circles[query] = measures[starts[query] + ks[query] - 1]
    values, names = np.empty(most), np.empty(most, np.int32)
    spare_values, spare_names = np.empty(most), np.empty(most, np.int32)
    named, seen = np.zeros(len(points), np.int32), np.zeros(len(points), np.int64)
    spots, tag = np.zeros(len(points), np.int32), 0
    waiting, ends = np.empty(DEEPEST + 2, np.int64), np.empty((DEEPEST + 2, 2, 4))
    told = 0
    out_steps, out_queries = np.empty(ROOM, np.int32), np.empty(ROOM, np.int32)
    out_slots, out_signs = np.empty(ROOM, np.int32), np.empty(ROOM, np.int8)
    out_values = np.empty(ROOM)
    for step in range(steps):
        begin, end = point_starts[step], point_starts[step + 1]
        for row in range(begin, end):
            slot = point_slots[row]
            named[slot] = step + 1
            for axis in range(width):
                points[slot, axis] = point_to[row, axis]
            to = list_of(points, slot, axes, numbers)
            if to != lists[slot]:
                relink(slot, to, heads, after, before, lists)
        for row in range(center_starts[step], center_starts[step + 1]):
            for axis in range(width):
                places[center_rows[row], axis] = center_to[row, axis]
            shifted[center_owners[row]] = True
        for query in range(queries):
            first, last, total = place_starts[query], place_starts[query + 1], totals[query]
            wanted, base, old_count = ks[query], starts[query], counts[query]
            searches = shifted[query] or (step == steps - 1 and fresh[query])
            there = circles[query] >= 0.0
            if searches:
                there, shifted[query] = _all_there(places, first, last), False
            elif not there:
                continue
            else:
                for i in range(base, base + old_count):
                    searches |= named[members[i]] == step + 1
            count, looks = 0, searches
            if there:
                # Those that were the best are the first candidates. If none of them moved, only
                # points that moved and are within the circle now can change the answer.
                tag += 1
                for i in range(base, base + old_count):
                    slot = members[i]
                    seen[slot] = tag
                    if not searches:
                        count = offer(values, names, count, wanted, measures[i], slot, ranks)
                    elif is_there(points, slot) and not _is_of(excluded, first, last, slot):
                        far = _from_group(points, slot, places, first, last, total)
                        count = offer(values, names, count, wanted, far, slot, ranks)
                for row in range(begin, end if not searches else begin):
                    slot = point_slots[row]
                    if is_there(points, slot) and not _is_of(excluded, first, last, slot):
                        far = _from_group(points, slot, places, first, last, total)
                        if far <= circles[query]:
                            count = offer(values, names, count, wanted, far, slot, ranks)
                            looks = True
                if not looks:
                    continue
                if searches:
                    count = _search(
                        points, places, excluded, first, last, total, seen, tag, axes, numbers,
                        heads, after, waiting, ends, ranks, values, names, count, wanted,
                    )  # fmt: skip
                put_in_order(values, names, 0, count, ranks, spare_values, spare_names)
                circles[query] = values[count - 1] if count == wanted else np.inf
            else:
                circles[query] = -1.0
            if told + old_count + count > len(out_steps):
                room = told + old_count + count
                out_steps, out_queries = _longer(out_steps, room), _longer(out_queries, room)
                out_slots, out_signs = _longer(out_slots, room), _longer(out_signs, room)
                out_values = _longer(out_values, room)
            begun = told
            # Marks tell who is new, who was a member too, and who of those is told.
            tag += 3
            for i in range(count):
                seen[names[i]], spots[names[i]] = tag, i
            for i in range(base, base + old_count):
                slot, tell = members[i], True
                if seen[slot] == tag:
                    tell = (watch and named[slot] == step + 1) or (
                        measured and values[spots[slot]] != measures[i]
                    )
                    seen[slot] = tag - 1 if tell else tag - 2
                if tell:
                    out_slots[told], out_signs[told], out_values[told] = slot, -1, measures[i]
                    told += 1
            for i in range(count):
                if seen[names[i]] != tag - 2:
                    out_slots[told], out_signs[told], out_values[told] = names[i], 1, values[i]
                    told += 1
            for i in range(begun, told):
                out_steps[i], out_queries[i] = step, query
            for i in range(count):
                members[base + i], measures[base + i] = names[i], values[i]
            for i in range(count, old_count):
                members[base + i], measures[base + i] = -1, np.inf
            counts[query] = count
    return (
        out_steps[:told],
        out_queries[:told],
        out_slots[:told],
        out_signs[:told],
        out_values[:told],
    )


class GroupWalker:
    """Keeps points in a tree, through any number of ticks."""

    def __init__(self) -> None:
        self.points = np.empty((0, 2))
        self._tree: PointTree | None = None
        self._moves = 0

    def load(self, points: Floats) -> None:
        """Take all points as they are; NaN where there is none."""
        self.points, self._tree = np.ascontiguousarray(points), None

    def grow(self, size: int) -> None:
        """Make room for so many points."""
        if size > len(self.points):
            more = np.full((2 * size - len(self.points), self.points.shape[1]), np.nan)
            self.points, self._tree = np.concatenate([self.points, more]), None

    def walk(
        self,
        ranks: Longs,
        place_starts: Longs,
        places: Floats,
        excluded: Longs,
        totals: Longs,
        ks: Longs,
        starts: Longs,
        members: Ints,
        measures: Floats,
        fresh: NDArray[np.bool_],
        point_starts: Longs,
        point_slots: Ints,
        point_to: Floats,
        center_starts: Longs,
        center_rows: Ints,
        center_to: Floats,
        *,
        watch: bool,
        measured: bool,
    ) -> GroupChanges:
        """Takes the answers of all queries through many steps, and tells how they changed at each.

        The places of query q are `places[place_starts[q]:place_starts[q + 1]]`, and its answer is
        in `members` and `measures` from `starts[q]` on; both become what they are after the last
        step. At step t the points `point_slots[point_starts[t]:point_starts[t + 1]]` go to those
        rows of `point_to`, each of them once, and likewise the places. Queries that are `fresh` are
        looked at with the last step. `excluded` are slots that are never in the answer, one for
        each place, or −1. With `watch`, a member that stays is told too, as who left and then came,
        if a step names it; with `measured`, if its distance changed.
        """
        self._moves += len(point_slots)
        if self._tree is None or self._moves > DRIFT * len(self.points):
            made: Callable[..., Any] = make_tree
            self._tree, self._moves = PointTree(*made(self.points, point_to, 0)), 0
        if len(ranks) < len(self.points):
            more = np.zeros(len(self.points) - len(ranks), np.int64)
            ranks = np.concatenate([ranks, more])
        owners = np.searchsorted(place_starts, center_rows, "right") - 1
        bring: Callable[..., Any] = _walk
        return GroupChanges(
            *bring(
                self.points,
                np.ascontiguousarray(ranks, np.int64),
                *self._tree,
                place_starts,
                places,
                excluded,
                totals,
                ks,
                starts,
                members,
                measures,
                fresh,
                point_starts,
                point_slots,
                point_to,
                center_starts,
                center_rows,
                owners,
                center_to,
                watch,
                measured,
                int(ks.max(initial=1)),
            )
        )
