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
FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The ranks of a place that wins all ties, and of an edge on which nobody is."""


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
    changed, count = np.empty(len(numbers), np.int64), 0
    others, rest = np.empty(len(numbers), np.int64), 0
    for own in range(len(numbers)):
        is_changed = spoke[numbers[own]]
        for d in range(len(depths)):
            circle, keeper = _edge(starts, members, measures, own, depths[d])
            is_changed |= circle != circles[own, d] or keeper != keepers[own, d]
        if is_changed:
            changed[count] = own
            count += 1
        else:
            others[rest] = own
            rest += 1
    # What is compared lies side by side: first the points that changed, and then all others, if
    # a place moved.
    size, deep = count, points.shape[1] > 2
    for place in range(len(places)):
        size = len(numbers) if shifted[place] else size
    at, own_ranks = np.zeros((6, size)), np.empty(size, np.int64)
    edges = np.empty((2, len(depths), size))
    edge_ranks = np.empty((2, len(depths), size), np.int64)
    for i in range(size):
        own = changed[i] if i < count else others[i - count]
        own_ranks[i] = ranks[numbers[own]]
        for axis in range(points.shape[1]):
            at[axis, i], at[3 + axis, i] = olds[own, axis], points[numbers[own], axis]
        for d in range(len(depths)):
            circle, keeper = _edge(starts, members, measures, own, depths[d])
            edges[0, d, i], edges[1, d, i] = circles[own, d], circle
            edge_ranks[0, d, i] = ranks[keepers[own, d]] if keepers[own, d] >= 0 else LAST
            edge_ranks[1, d, i] = ranks[keeper] if keeper >= 0 else LAST
    told = 0
    out_places, out_points = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    out_signs = np.empty(ROOM, np.int64)
    old_xs, old_ys, old_zs, xs, ys, zs = at[0], at[1], at[2], at[3], at[4], at[5]
    for place in range(len(places)):
        kind, moved, has_rank = kinds[place], shifted[place], has_ranks[place]
        rank = focal_ranks[place] if has_rank else FIRST
        old_circles, new_circles = edges[0, kind], edges[1, kind]
        old_keepers, new_keepers = edge_ranks[0, kind], edge_ranks[1, kind]
        was_x, was_y, was_z = old_places[place, 0], old_places[place, 1], 0.0
        is_x, is_y, is_z = places[place, 0], places[place, 1], 0.0
        if deep:
            was_z, is_z = old_places[place, 2], places[place, 2]
        for i in range(size if moved else count):
            dx, dy, dz = old_xs[i] - was_x, old_ys[i] - was_y, old_zs[i] - was_z
            before = dx * dx + dy * dy + dz * dz
            dx, dy, dz = xs[i] - is_x, ys[i] - is_y, zs[i] - is_z
            after = dx * dx + dy * dy + dz * dz
            was = (before < old_circles[i]) | (
                (before == old_circles[i]) & (rank <= old_keepers[i])
            )
            now = (after < new_circles[i]) | ((after == new_circles[i]) & (rank <= new_keepers[i]))
            if not (was | now) or (has_rank and own_ranks[i] == rank):
                continue
            own = changed[i] if i < count else others[i - count]
            again = (watch and spoke[numbers[own]]) or (watch_places and moved)
            if was == now and not again:
                continue
            if told == len(out_places):
                out_places, out_points = _longer(out_places), _longer(out_points)
                out_signs = _longer(out_signs)
            out_places[told], out_points[told] = place, numbers[own]
            out_signs[told] = np.int64(now) - np.int64(was)
            told += 1
    for i in range(count):
        own = changed[i]
        for axis in range(points.shape[1]):
            olds[own, axis] = points[numbers[own], axis]
        for d in range(len(depths)):
            circles[own, d], keepers[own, d] = _edge(starts, members, measures, own, depths[d])
    return out_places[:told], out_points[:told], out_signs[:told]
