"""Regions around points, and pairs that are an object and its own region: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.inside import CIRCLE, RECTANGLE

SLACK = 1e-9
"""How much larger than a circle its box is, so that rounding never leaves out a point on it."""


@njit(nogil=True, cache=True)
def lay_around(rows, chosen, centers, extents, boxes, kinds, params):
    """Regions of the plane at `rows`: extents of a row are (r, NaN) or (xdist, ydist), its centre
    is the one that is chosen; nowhere (NaN) where none is (−1) or it is nowhere itself."""
    for k in range(len(rows)):
        row = rows[k]
        x, y = np.nan, np.nan
        if chosen[k] >= 0:
            x, y = centers[chosen[k], 0], centers[chosen[k], 1]
        width, height = extents[row, 0], extents[row, 1]
        if np.isnan(width):
            x = y = np.nan
        if np.isnan(height):
            reach = width + SLACK * (abs(x) + abs(y) + width)
            kinds[row] = CIRCLE
            params[row, 0], params[row, 1] = x, y
            params[row, 2], params[row, 3] = width * width, 0.0
            boxes[row, 0], boxes[row, 1] = x - reach, y - reach
            boxes[row, 2], boxes[row, 3] = x + reach, y + reach
        else:
            kinds[row] = RECTANGLE
            boxes[row, 0], boxes[row, 1] = x - width / 2, y - height / 2
            boxes[row, 2], boxes[row, 3] = x + width / 2, y + height / 2
            for i in range(4):
                params[row, i] = boxes[row, i]


@njit(nogil=True, cache=True)
def told_apart(boxes, points, codes, focals_now, focals_before, seats, was, now):
    """Whether each pair was and is one, by its code; an object is never in its own region.

    `focals` are the leaders of the boxes or −1, `seats` the points that the leaders are.
    """
    for i in range(len(codes)):
        box, point = boxes[i], points[i]
        leader = focals_now[box]
        now[i] = (codes[i] & 1) != 0 and not (leader >= 0 and seats[leader] == point)
        leader = focals_before[box]
        was[i] = (codes[i] & 2) != 0 and not (leader >= 0 and seats[leader] == point)
