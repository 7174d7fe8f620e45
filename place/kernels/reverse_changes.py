"""Whose neighbour a place is: who came and who left as points, their circles and places change.

The circle of a point reaches to the k-th nearest of the other points. A place is among the k
nearest of all points in whose circles it lies; on the edge of a circle the order of keys decides.
So what is kept of the points serves all places, and only points that moved or whose circles changed
are looked at again, or all of them for a place that moved.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ROOM = 1024
"""Changes that there is room for at first."""


@njit(nogil=True, cache=True, inline="always")
def _is_in(points, row, circle, keeper, places, place, rank, has_rank, ranks, own_rank):
    """Is a place in the circle of a point, which is not the one that the place is?

    `keeper` is the point on the edge of the circle, −1 if there is none, and `rank` the one of the
    object whose place it is, if that is one of the points or could be.
    """
    x, y, to_x, to_y = points[row, 0], points[row, 1], places[place, 0], places[place, 1]
    there = abs(x) < np.inf and abs(y) < np.inf and abs(to_x) < np.inf and abs(to_y) < np.inf
    if not there or (has_rank and own_rank == rank):
        return False
    dx, dy = x - to_x, y - to_y
    measure = dx * dx + dy * dy
    if points.shape[1] > 2:
        dz = points[row, 2] - places[place, 2]
        measure += dz * dz
    if keeper < 0 or measure < circle:
        return True
    return measure == circle and (not has_rank or rank <= ranks[keeper])


@njit(nogil=True, cache=True)
def _edge(starts, members, measures, own, depth):
    """The measure of the circle of a point, and who is on its edge: −1 if fewer than `depth` others
    are there, or whoever is there is within it (depth 0)."""
    if depth == 0:
        return np.inf, np.int64(-1)
    at = starts[own] + depth - 1
    keeper = np.int64(members[at])
    return (measures[at] if keeper >= 0 else np.inf), keeper


@njit(nogil=True, cache=True)
def draw_circles(starts, members, measures, depths, circles, keepers):
    """Sets the circles of all points, of each depth, and who is on their edges."""
    for own in range(len(circles)):
        for d in range(len(depths)):
            circles[own, d], keepers[own, d] = _edge(starts, members, measures, own, depths[d])


@njit(nogil=True, cache=True)
def _longer(array):
    found = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        found[i] = array[i]
    return found


@njit(nogil=True, cache=True)
def reverse_changes(
    numbers, points, ranks, spoke, starts, members, measures, depths, olds, circles, keepers,
    kinds, focal_ranks, has_ranks, old_places, places, shifted, watch, watch_places,
):  # fmt: skip
    """Who came (+1) into the answers of which places, who left (−1), and who of those that stay is
    to be told again (0).

    Points are those of this cell: `numbers` says which of all `points` each is. `olds`, `circles`
    and `keepers` are where they were and what their circles were, and become what they are. A point
    that `spoke` may have moved. Of each place, `kinds` says which of the depths it asks for. With
    `watch`, those that stay and spoke are told again; with `watch_places`, also all those of a
    place that moved.
    """
    told = 0
    out_places, out_points = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    out_signs = np.empty(ROOM, np.int64)
    changed, count = np.empty(len(numbers), np.int64), 0
    for own in range(len(numbers)):
        is_changed = spoke[numbers[own]]
        for d in range(len(depths)):
            circle, keeper = _edge(starts, members, measures, own, depths[d])
            is_changed |= circle != circles[own, d] or keeper != keepers[own, d]
        if is_changed:
            changed[count] = own
            count += 1
    for place in range(len(places)):
        depth, moved = kinds[place], shifted[place]
        rank, has_rank = focal_ranks[place], has_ranks[place]
        for i in range(len(numbers) if moved else count):
            own = i if moved else changed[i]
            number = numbers[own]
            own_rank = ranks[number]
            was = _is_in(
                olds, own, circles[own, depth], keepers[own, depth], old_places, place, rank,
                has_rank, ranks, own_rank,
            )  # fmt: skip
            circle, keeper = _edge(starts, members, measures, own, depths[depth])
            now = _is_in(
                points, number, circle, keeper, places, place, rank, has_rank, ranks, own_rank
            )
            again = now and was and ((watch and spoke[number]) or (watch_places and moved))
            if was == now and not again:
                continue
            if told == len(out_places):
                out_places, out_points = _longer(out_places), _longer(out_points)
                out_signs = _longer(out_signs)
            out_places[told], out_points[told] = place, number
            out_signs[told] = np.int64(now) - np.int64(was)
            told += 1
    for i in range(count):
        own = changed[i]
        for axis in range(points.shape[1]):
            olds[own, axis] = points[numbers[own], axis]
        for d in range(len(depths)):
            circles[own, d], keepers[own, d] = _edge(starts, members, measures, own, depths[d])
    return out_places[:told], out_points[:told], out_signs[:told]
