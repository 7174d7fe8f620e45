"""Points that move, parted in halves: a tree whose ends are linked lists of points.

Every node parts space at a number on one axis, in the middle of the points that were there when the
tree was made; so a list is short wherever points are crowded, unless they lie in one place. Points
move from list to list, and nodes stay. A point on the far side of a node is no closer than the
node's number, and rounding keeps the order of numbers: what is computed from the number is never
more than what is computed from the point, so that no bound needs slack.

The nodes are numbered as in a heap: the children of node i are 2i + 1 and 2i + 2, and what would be
the children of the last nodes are the lists. Points are in the plane or unit vectors of the sphere.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.nested_grid import is_before

PER_LIST = 6
"""Points that a list holds, about."""
SAMPLE = 4096
"""Places that the halves are chosen from, or two for each list if that is more."""
DEEPEST = 24
"""Nodes that are above a list at most."""


@njit(nogil=True, cache=True, inline="always")
def is_there(points, row):
    """Is there a point in this row?"""
    return abs(points[row, 0]) < np.inf and abs(points[row, 1]) < np.inf


@njit(nogil=True, cache=True, inline="always")
def measure_of(points, row, x, y, z):
    """The measure of the distance between a place and the point in a row, NaN if there is none."""
    dx, dy = x - points[row, 0], y - points[row, 1]
    measure = dx * dx + dy * dy
    if points.shape[1] > 2:
        dz = z - points[row, 2]
        measure += dz * dz
    return measure


@njit(nogil=True, cache=True, inline="always")
def is_closer(measure, slot, other_measure, other_slot, ranks):
    """Does a point come before another? By measure, and if it is the same by rank."""
    if measure != other_measure:
        return measure < other_measure
    return is_before(slot, other_slot, ranks)


@njit(nogil=True, cache=True, inline="always")
def sink(measures, slots, count, at, ranks):
    """Puts the candidate at a place of a heap down to where it belongs; the last is on top."""
    measure, slot = measures[at], slots[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and is_closer(
            measures[child], slots[child], measures[child + 1], slots[child + 1], ranks
        ):
            child += 1
        if not is_closer(measure, slot, measures[child], slots[child], ranks):
            break
        measures[at], slots[at] = measures[child], slots[child]
        at = child
    measures[at], slots[at] = measure, slot


@njit(nogil=True, cache=True, inline="always")
def offer(measures, slots, count, wanted, measure, slot, ranks):
    """Takes a candidate in if it is among the best; how many there are.

    Once there are as many as are wanted, they are a heap with the last of them on top.
    """
    if count < wanted:
        measures[count], slots[count] = measure, slot
        count += 1
        if count == wanted:
            for at in range(count // 2 - 1, -1, -1):
                sink(measures, slots, count, at, ranks)
    elif is_closer(measure, slot, measures[0], slots[0], ranks):
        measures[0], slots[0] = measure, slot
        sink(measures, slots, count, 0, ranks)
    return count


@njit(nogil=True, cache=True, inline="always")
def list_of(points, row, axes, numbers):
    """The list of the point in a row; −1 if there is none."""
    found = np.int64(-1)
    if is_there(points, row):
        node, nodes = np.uint64(0), np.uint64(len(axes))
        while node < nodes:
            right = points[row, axes[node]] >= numbers[node]
            node = node + node + (np.uint64(2) if right else np.uint64(1))
        found = np.int64(node - nodes)
    return found


@njit(nogil=True, cache=True, inline="always")
def relink(slot, to, heads, after, before, lists):
    """Takes a point from its list to another; −1 is none."""
    if lists[slot] >= 0:
        following, previous = after[slot], before[slot]
        if following >= 0:
            before[following] = previous
        if previous >= 0:
            after[previous] = following
        else:
            heads[lists[slot]] = following
    lists[slot] = to
    if to >= 0:
        first = heads[to]
        after[slot], before[slot] = first, -1
        if first >= 0:
            before[first] = slot
        heads[to] = slot


@njit(nogil=True, cache=True)
def _take_sample(rows, first, most, sample, count):
    """Adds rows from `first` on, evenly, those that are present; how many there are."""
    step = max(1, (len(rows) - first) // max(1, most))
    for i in range(first, len(rows), step):
        if count == len(sample):
            break
        if is_there(rows, i):
            for axis in range(rows.shape[1]):
                sample[count, axis] = rows[i, axis]
            count += 1
    return count


@njit(nogil=True, cache=True)
def _swap(rows, i, j):
    for axis in range(rows.shape[1]):
        rows[i, axis], rows[j, axis] = rows[j, axis], rows[i, axis]


@njit(nogil=True, cache=True)
def _middle(rows, first, last, axis):
    """The number in the middle of the rows on an axis; the rows change places."""
    middle, left, right = (first + last) // 2, first, last - 1
    while left < right:
        pivot = rows[(left + right) // 2, axis]
        i, j = left, right
        while i <= j:
            while rows[i, axis] < pivot:
                i += 1
            while rows[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap(rows, i, j)
                i, j = i + 1, j - 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            break
    return rows[middle, axis]


@njit(nogil=True, cache=True)
def _part(rows, first, last):
    """Parts rows in two: the axis and the number that do, and where the second part begins.

    Rows in one place are not parted: all of them are beyond a number that is less than any.
    """
    widest, found, least = 0.0, -1, 0.0
    for axis in range(rows.shape[1]):
        low, high = np.inf, -np.inf
        for i in range(first, last):
            low, high = min(low, rows[i, axis]), max(high, rows[i, axis])
        # Halves: the difference of the ends may be too large for a number.
        if high / 2 - low / 2 > widest:
            widest, found, least = high / 2 - low / 2, axis, low
    if found < 0:
        return 0, -np.inf, first
    number = _middle(rows, first, last, found)
    if number == least:
        # Many are at the end: they are parted from the others.
        number = np.inf
        for i in range(first, last):
            if rows[i, found] > least:
                number = min(number, rows[i, found])
    cut = first
    for i in range(first, last):
        if rows[i, found] < number:
            _swap(rows, i, cut)
            cut += 1
    return found, number, cut


@njit(nogil=True, cache=True)
def make_tree(points, to, first):
    """A tree for points, where they are and where they go from row `first` of `to` on.

    Returns the axes and numbers of the nodes, the heads of the lists, and of each point the one
    after it, the one before it, and its list.
    """
    depth = 1
    while depth < DEEPEST and PER_LIST << depth < len(points):
        depth += 1
    nodes = (1 << depth) - 1
    most = max(SAMPLE, nodes)
    sample = np.empty((2 * most, points.shape[1]))
    count = _take_sample(points, 0, most, sample, 0)
    count = _take_sample(to, first, most, sample, count)
    axes, numbers = np.zeros(nodes, np.int64), np.empty(nodes)
    # Of every node, where its rows begin, and where those of the node after it on its level do.
    begins, ends = np.zeros(2 * nodes + 1, np.int64), np.zeros(2 * nodes + 1, np.int64)
    ends[0] = count
    for node in range(nodes):
        axes[node], numbers[node], cut = _part(sample, begins[node], ends[node])
        begins[2 * node + 1], ends[2 * node + 1] = begins[node], cut
        begins[2 * node + 2], ends[2 * node + 2] = cut, ends[node]
    heads = np.full(nodes + 1, -1, np.int32)
    after, before = np.full(len(points), -1, np.int32), np.full(len(points), -1, np.int32)
    lists = np.full(len(points), -1, np.int32)
    for slot in range(len(points) - 1, -1, -1):
        relink(slot, list_of(points, slot, axes, numbers), heads, after, before, lists)
    return axes, numbers, heads, after, before, lists


@njit(nogil=True, cache=True)
def search_tree(
    points, x, y, z, excluded, seen, tag, axes, numbers, heads, after, waiting, gaps,
    ranks, measures, slots, count, wanted,
):  # fmt: skip
    """Adds the best of all points to the candidates but for those that are seen already; how many
    there are. The nearest lists come first, those that are too far away never.

    `waiting` is room for the nodes that are still to be visited, and `gaps` for how far they are
    at least: on each axis, and their measure.
    """
    nodes, bound = len(axes), measures[0] if count == wanted else np.inf
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
            measure = measure_of(points, slot, x, y, z)
            if measure <= bound and seen[slot] != tag and slot != excluded:
                count = offer(measures, slots, count, wanted, measure, slot, ranks)
                if count == wanted:
                    bound = measures[0]
            slot = after[slot]
    return count


@njit(nogil=True, cache=True)
def search_all(
    points, x, y, z, excluded, seen, tag, ranks, measures, slots, count, wanted, run
):  # fmt: skip
    """The same without a tree: looks at all points, in runs of so many."""
    bound = measures[0] if count == wanted else np.inf
    for low in range(0, len(points), run):
        high = min(low + run, len(points))
        near = 0
        for slot in range(low, high):
            near += measure_of(points, slot, x, y, z) <= bound
        if near == 0:
            continue
        for slot in range(low, high):
            measure = measure_of(points, slot, x, y, z)
            if measure <= bound and seen[slot] != tag and slot != excluded:
                if is_there(points, slot):
                    count = offer(measures, slots, count, wanted, measure, slot, ranks)
                if count == wanted:
                    bound = measures[0]
    return count
