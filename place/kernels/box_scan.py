"""Points and boxes without an index: every pair is looked at.

The cheapest way where one side is small. The loop over the larger side is the inner one, and
writes its candidates into the room of the pairs at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_pairs import Met, fill, keep_around, keep_inside

BLOCK = 1024
"""So many boxes are compared with all points before the next ones: they stay in the cache."""


@njit(nogil=True, cache=True)
def _scan_boxes(points, low, high, order, first, out_points, out_boxes):
    """For each block of boxes and each point, all boxes of the block; `first` counts both."""
    count = 0
    steps = len(points) * ((len(low) + BLOCK - 1) // BLOCK)
    for step in range(first, steps):
        block, point = step // len(points) * BLOCK, step % len(points)
        size = min(BLOCK, len(low) - block)
        if count + size > len(out_boxes):
            return step, count
        for box in range(size):
            out_boxes[count + box] = block + box
        end = keep_around(low, high, points, point, order, out_boxes, count, count + size)
        for i in range(count, end):
            out_points[i] = point
        count = end
    return steps, count


@njit(nogil=True, cache=True)
def _scan_points(points, low, high, order, first, out_points, out_boxes):
    """For each box, all points."""
    count = 0
    for box in range(first, len(low)):
        if count + len(points) > len(out_points):
            return box, count
        end = count + len(points)
        for point in range(len(points)):
            out_points[count + point] = point
        end = keep_inside(points, low, high, box, order, out_points, count, end)
        for i in range(count, end):
            out_boxes[i] = box
        count = end
    return len(low), count


def scan_boxes(points: Floats, low: Floats, high: Floats, order: Longs | None = None) -> Met:
    """All pairs, by looking at each; `order` has the dimensions that decide most first."""
    if order is None:
        order = np.arange(points.shape[1])
    needs = (points, low, high, order)
    if len(points) <= len(low):
        blocks = -(-len(low) // BLOCK)
        return fill(_scan_boxes, needs, len(points) * blocks, min(BLOCK, len(low)))
    return fill(_scan_points, needs, len(low), len(points))
