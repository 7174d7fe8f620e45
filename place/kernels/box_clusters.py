"""Points and boxes by clusters of points: the algorithm of Spatial Join CQ (SJ-Batch).

The points of a batch are read in Hilbert order and cut into clusters of some size. Boxes are points
in the space of their corners (low and high bounds as coordinates), in Hilbert order there, too, and
in a tree of two levels. A cluster asks for the boxes in its spatial join window: low bounds not
above its highest values, high bounds not below its lowest ones. Of a box only those dimensions are
tested in which it does not hold the whole cluster.

How large clusters should be is the paper's open problem. Here it follows from a few clusters of
each size, taken from the batch, and some of the boxes: what such a cluster would cost is counted.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints
from place.kernels.box_pairs import NONE_MET, Met, fill, joined, sample_of, true_boxes, true_points
from place.kernels.hilbert import hilbert_order
from place.kernels.order import Pool

LEAF, NODE = 32, 16
"""Boxes of a leaf, and leaves of a node."""
SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Sizes of clusters that are looked at."""
CLUSTERS, BOXES = 12, 512
"""How many clusters of each size, and boxes, are looked at."""
NS_CLUSTER, NS_NODE, NS_BOX, NS_POINT, NS_PAIR = 60.0, 6.0, 9.0, 1.1, 0.6
"""What a cluster, a node, a box in its window, a tested point and a pair cost (nanoseconds)."""


@njit(nogil=True, cache=True)
def _bound_nodes(low, high, size):
    """For each run of so many boxes: the lowest and highest of the low bounds, then of the high."""
    count = (len(low) + size - 1) // size
    bounds = np.empty((count, 4, low.shape[1]))
    for node in range(count):
        for axis in range(low.shape[1]):
            a, b, c, d = np.inf, -np.inf, np.inf, -np.inf
            for box in range(node * size, min(len(low), node * size + size)):
                a, b = min(a, low[box, axis]), max(b, low[box, axis])
                c, d = min(c, high[box, axis]), max(d, high[box, axis])
            bounds[node, 0, axis], bounds[node, 1, axis] = a, b
            bounds[node, 2, axis], bounds[node, 3, axis] = c, d
    return bounds


@njit(nogil=True, cache=True)
def _bound_points(columns, begin, end, least, most):
    """The lowest and highest values of the points of a cluster."""
    for axis in range(len(columns)):
        low, high = np.inf, -np.inf
        for i in range(begin, end):
            low, high = min(low, columns[axis, i]), max(high, columns[axis, i])
        least[axis], most[axis] = low, high


@njit(nogil=True, cache=True)
def _is_in_window(bounds, node, least, most):
    """May a box of the node hold a point of the cluster?"""
    for axis in range(len(least)):
        if bounds[node, 0, axis] > most[axis] or bounds[node, 3, axis] < least[axis]:
            return False
    return True


@njit(nogil=True, cache=True)
def _join_clusters(
    columns, names, size, begin, last, low, high, boxes, leaves, nodes, first, out_points, out_boxes
):
    """For each cluster of points, the boxes in its spatial join window."""
    count, axes = 0, len(columns)
    least, most = np.empty(axes), np.empty(axes)
    for cluster in range(begin + first, last):
        start, end = cluster * size, min(columns.shape[1], cluster * size + size)
        _bound_points(columns, start, end, least, most)
        begun = count
        for node in range(len(nodes)):
            if not _is_in_window(nodes, node, least, most):
                continue
            for leaf in range(node * NODE, min(len(leaves), node * NODE + NODE)):
                if not _is_in_window(leaves, leaf, least, most):
                    continue
                if count + (end - start) * LEAF > len(out_points):
                    return cluster - begin, begun
                for box in range(leaf * LEAF, min(len(low), leaf * LEAF + LEAF)):
                    meets = True
                    for axis in range(axes):
                        meets &= (low[box, axis] <= most[axis]) & (high[box, axis] >= least[axis])
                    if not meets:
                        continue
                    found = end - start
                    for i in range(found):
                        out_points[count + i] = start + i
                    for axis in range(axes):
                        x, y = low[box, axis], high[box, axis]
                        if x <= least[axis] and most[axis] <= y:
                            continue
                        kept = 0
                        for i in range(count, count + found):
                            point = out_points[i]
                            value = columns[axis, point]
                            out_points[count + kept] = point
                            kept += (x <= value) & (value <= y)
                        found = kept
                        if found == 0:
                            break
                    for i in range(count, count + found):
                        out_points[i] = names[out_points[i]]
                        out_boxes[i] = boxes[box]
                    count += found
    return last - begin, count


@njit(nogil=True, cache=True)
def _try_cluster(columns, begin, end, low, high, counts):
    """Of some boxes: how many are in the window of a cluster, how many tests of points they need,
    and how many pairs they make."""
    axes = len(columns)
    least, most = np.empty(axes), np.empty(axes)
    _bound_points(columns, begin, end, least, most)
    for box in range(len(low)):
        meets = True
        for axis in range(axes):
            meets &= (low[box, axis] <= most[axis]) & (high[box, axis] >= least[axis])
        if not meets:
            continue
        counts[0] += 1
        left = np.ones(end - begin, np.int64)
        found = end - begin
        for axis in range(axes):
            x, y = low[box, axis], high[box, axis]
            if x <= least[axis] and most[axis] <= y:
                continue
            counts[1] += found
            found = 0
            for i in range(begin, end):
                value = columns[axis, i]
                left[i - begin] &= (x <= value) & (value <= y)
                found += left[i - begin]
            if found == 0:
                break
        counts[2] += found


class BoxClusters:
    """Boxes in the order of their corners, which clusters of points are joined with."""

    def __init__(self, low: Floats, high: Floats, size: int | None = None) -> None:
        self._given = size
        true = true_boxes(low, high)
        order = true[hilbert_order(np.hstack([low[true], high[true]]))]
        self._boxes, self._low, self._high = order, low[order], high[order]
        self._leaves = _bound_nodes(self._low, self._high, LEAF)
        self._nodes = _bound_nodes(self._low, self._high, LEAF * NODE)

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""
        true = true_points(points)
        names = true[hilbert_order(points[true])] if len(true) > 1 else true
        if len(names) == 0 or len(self._boxes) == 0:
            return NONE_MET
        columns = np.ascontiguousarray(points[names].T)
        size = self._given or self.size_of(columns)
        clusters = -(-len(names) // size)

        def met(begin: int, end: int) -> Met:
            needs = (
                *(columns, names, size, begin, end, self._low, self._high),
                *(self._boxes, self._leaves, self._nodes),
            )
            return fill(_join_clusters, needs, end - begin, 2 * size * LEAF)

        pool = Pool(threads)
        pieces = min(clusters, 4 * threads) if threads > 1 else 1
        cuts = [clusters * piece // pieces for piece in range(pieces + 1)]
        return joined(pool.map(partial(met, *cut) for cut in pairwise(cuts)))

    def size_of(self, columns: Floats) -> int:
        """The size of clusters for which a batch in Hilbert order costs least."""
        count = columns.shape[1]
        some = sample_of(len(self._low), BOXES)
        low, high = self._low[some], self._high[some]
        scale = len(self._low) / max(1, len(some))
        costs: dict[int, float] = {}
        for size in SIZES:
            if size > 2 * count and costs:
                break
            clusters = -(-count // size)
            tried: Ints = sample_of(clusters, max(2, CLUSTERS * 64 // max(64, size)))
            counts = np.zeros(3, np.int64)
            for cluster in tried:
                begin = int(cluster) * size
                _try_cluster(columns, begin, min(count, begin + size), low, high, counts)
            met, tested, pairs = (float(number) * scale / len(tried) for number in counts)
            leaves = min(len(self._leaves), 1.0 + met)
            costs[size] = clusters * (
                NS_CLUSTER
                + NS_NODE * (len(self._nodes) + leaves * 2)
                + NS_BOX * min(float(len(self._low)), leaves * LEAF)
                + NS_POINT * (tested + met * size * 0.5)
                + NS_PAIR * pairs
            )
        return min(costs, key=lambda size: costs[size])
