"""The k points nearest to a group of places, through the instants of a tick, in one compiled call.

How far a point is from a group is the sum, the maximum or the minimum of its distances to the
places. A point that is far from the middle of the group is at least as far from the group as the
triangle inequality says: so the search goes through the tree of points (see `nearest_tree`) around
the middle, and ends where nobody can be among the best. A group is looked at again if one of its
places moved, or if a point moved that was or is near enough to its middle to matter.

Distances are the same float64 expressions as DISTANCE, added in the order of the places.
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
SLACK, METRES = 1e-12, 1.0
"""What rounding may have taken from a distance: a part of it; on the sphere so many metres, because
the arcsine is steep where two places are opposite each other."""


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
def _middle(places, first, last, total, middle):
    """Sets the middle of a group: its place, and what the distances from there to the group are.

    Returns whether all places are there.
    """
    count, deep = last - first, places.shape[1] > 2
    middle[:] = 0.0
    for i in range(first, last):
        if not is_there(places, i):
            return False
        for axis in range(places.shape[1]):
            middle[axis] += places[i, axis] / count
    if deep:
        norm = math.sqrt(middle[0] ** 2 + middle[1] ** 2 + middle[2] ** 2)
        for axis in range(3):
            middle[axis] = middle[axis] / norm if norm > 1e-6 else places[first, axis]
    for i in range(first, last):
        far = _apart(places, i, middle[0], middle[1], middle[2])
        if i == first:
            middle[3] = far
        elif total == SUM:
            middle[3] += far
        elif total == MAX:
            middle[3] = min(middle[3], far)
        else:
            middle[3] = max(middle[3], far)
    return True


@njit(nogil=True, cache=True, inline="always")
def _reach(bound, spread, total, count, deep):
    """A measure: who is farther than that from the middle is farther than the bound from the
    group."""
    radius = (bound + spread) / count if total == SUM else bound + spread
    radius = radius * (1.0 + SLACK) + (METRES if deep else 1e-150)
    if deep:
        if not radius < EARTH_RADIUS * math.pi:
            return np.inf
        radius = 2 * math.sin(radius / (2 * EARTH_RADIUS)) * (1.0 + SLACK)
    return radius * radius


@njit(nogil=True, cache=True)
def _is_of(excluded, first, last, slot):
    found = False
    for i in range(first, last):
        found |= excluded[i] == slot
    return found


@njit(nogil=True, cache=True)
def _search(
    points, places, excluded, first, last, total, middle, seen, tag, axes, numbers, heads, after,
    waiting, gaps, ranks, values, slots, count, wanted,
):  # fmt: skip
    """Adds the best of all points to the candidates but for those that are seen already; how many
    there are. The lists that are nearest to the middle come first, those too far away never."""
    deep, size, nodes = points.shape[1] > 2, last - first, len(axes)
    x, y, z = middle[0], middle[1], middle[2]
    bound = _reach(values[0], middle[3], total, size, deep) if count == wanted else np.inf
    waiting[0], gaps[0, 0], gaps[0, 1], gaps[0, 2], gaps[0, 3] = 0, 0.0, 0.0, 0.0, 0.0
    left = 1
    while left > 0:
        left -= 1
        if gaps[left, 3] > bound:
            continue
        node, gap_x, gap_y, gap_z = waiting[left], gaps[left, 0], gaps[left, 1], gaps[left, 2]
        while node < nodes:
            axis = axes[node]
            gap = (x if axis == 0 else (y if axis == 1 else z)) - numbers[node]
            far_x = gap if axis == 0 else gap_x
            far_y = gap if axis == 1 else gap_y
            far_z = gap if axis == 2 else gap_z
            far = far_x * far_x + far_y * far_y + far_z * far_z
            node = 2 * node + (2 if gap >= 0.0 else 1)
            if far <= bound:
                waiting[left] = node - 1 if gap >= 0.0 else node + 1
                gaps[left, 0], gaps[left, 1], gaps[left, 2] = far_x, far_y, far_z
                gaps[left, 3] = far
                left += 1
        slot = heads[node - nodes]
        while slot >= 0:
            is_near = seen[slot] != tag and measure_of(points, slot, x, y, z) <= bound
            if is_near and not _is_of(excluded, first, last, slot):
                far = _from_group(points, slot, places, first, last, total)
                count = offer(values, slots, count, wanted, far, slot, ranks)
                if count == wanted:
                    bound = _reach(values[0], middle[3], total, size, deep)
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
    deep, queries, steps = points.shape[1] > 2, len(ks), len(point_starts) - 1
    axes_of_points = points.shape[1]
    middles, reaches, counts = (
        np.zeros((queries, 4)),
        np.empty(queries),
        np.zeros(queries, np.int64),
    )
    shifted = np.zeros(queries, np.bool_)
    for query in range(queries):
        first, last = place_starts[query], place_starts[query + 1]
        there = _middle(places, first, last, totals[query], middles[query])
        while counts[query] < ks[query] and members[starts[query] + counts[query]] >= 0:
            counts[query] += 1
        reaches[query] = np.inf
        if not there:
            reaches[query] = -1.0
        elif counts[query] == ks[query]:
            far = measures[starts[query] + ks[query] - 1]
            reaches[query] = _reach(far, middles[query, 3], totals[query], last - first, deep)
    values, names = np.empty(most), np.empty(most, np.int32)
    spare_values, spare_names = np.empty(most), np.empty(most, np.int32)
    named, seen = np.zeros(len(points), np.int32), np.zeros(len(points), np.int64)
    spots, tag = np.zeros(len(points), np.int32), 0
    waiting, gaps = np.empty(DEEPEST + 2, np.int64), np.empty((DEEPEST + 2, 4))
    largest = 0
    for step in range(steps):
        largest = max(largest, point_starts[step + 1] - point_starts[step])
    olds = np.empty((largest, axes_of_points))
    told = 0
    out_steps, out_queries = np.empty(ROOM, np.int32), np.empty(ROOM, np.int32)
    out_slots, out_signs = np.empty(ROOM, np.int32), np.empty(ROOM, np.int8)
    out_values = np.empty(ROOM)
    for step in range(steps):
        begin, end = point_starts[step], point_starts[step + 1]
        for row in range(begin, end):
            slot = point_slots[row]
            named[slot] = step + 1
            for axis in range(axes_of_points):
                olds[row - begin, axis] = points[slot, axis]
                points[slot, axis] = point_to[row, axis]
            to = list_of(points, slot, axes, numbers)
            if to != lists[slot]:
                relink(slot, to, heads, after, before, lists)
        for row in range(center_starts[step], center_starts[step + 1]):
            for axis in range(axes_of_points):
                places[center_rows[row], axis] = center_to[row, axis]
            shifted[center_owners[row]] = True
        for query in range(queries):
            first, last, total = place_starts[query], place_starts[query + 1], totals[query]
            middle, wanted, base = middles[query], ks[query], starts[query]
            look = shifted[query] or (step == steps - 1 and fresh[query])
            there = reaches[query] >= 0.0
            if look:
                there = _middle(places, first, last, total, middle)
                shifted[query] = False
            elif there:
                x, y, z, reach = middle[0], middle[1], middle[2], reaches[query]
                for row in range(begin, end):
                    now = measure_of(points, point_slots[row], x, y, z)
                    was = measure_of(olds, row - begin, x, y, z)
                    if now <= reach or was <= reach:
                        look = True
                        break
            if not look:
                continue
            count, old_count = 0, counts[query]
            if there:
                # Those that were the best are the first candidates: they bound the search.
                tag += 1
                for i in range(base, base + old_count):
                    slot = members[i]
                    seen[slot] = tag
                    if is_there(points, slot) and not _is_of(excluded, first, last, slot):
                        far = _from_group(points, slot, places, first, last, total)
                        count = offer(values, names, count, wanted, far, slot, ranks)
                count = _search(
                    points, places, excluded, first, last, total, middle, seen, tag, axes, numbers,
                    heads, after, waiting, gaps, ranks, values, names, count, wanted,
                )  # fmt: skip
                put_in_order(values, names, 0, count, ranks, spare_values, spare_names)
                reaches[query] = np.inf
                if count == wanted:
                    far = values[count - 1]
                    reaches[query] = _reach(far, middle[3], total, last - first, deep)
            else:
                reaches[query] = -1.0
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
