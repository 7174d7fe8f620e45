"""Exact tests of a point in a shape, pair by pair: the same float64 expressions as the model's.

Each row of `params` is one shape: a rectangle (x1, y1, x2, y2), a circle (x, y, measure of r), a
circle on the sphere (unit vector, measure of r), or a polygon (its number). Boundaries are closed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

NONE, RECTANGLE, CIRCLE, SPHERE_RECTANGLE, SPHERE_CIRCLE, POLYGON, SPHERE_POLYGON = range(7)


@njit(nogil=True, cache=True)
def unit_vectors(xs, ys):
    """Points of the unit sphere from longitudes and latitudes."""
    out = np.empty((len(xs), 3))
    for i in range(len(xs)):
        x, y = xs[i], ys[i]
        if abs(y) == 90.0:
            out[i, 0] = 0.0
            out[i, 1] = 0.0
            out[i, 2] = 1.0 if y > 0 else -1.0
            continue
        longitude = math.radians(180.0 if x == -180.0 else x)
        latitude = math.radians(y)
        shrink = math.cos(latitude)
        out[i, 0] = shrink * math.cos(longitude)
        out[i, 1] = shrink * math.sin(longitude)
        out[i, 2] = math.sin(latitude)
    return out


@njit(nogil=True, cache=True)
def in_rings(rings, starts, first, last, x, y):
    """Is the point inside an odd number of rings, or on the edge of one?"""
    inside = False
    for ring in range(first, last):
        start, end = starts[ring], starts[ring + 1]
        for i in range(start, end):
            j = i + 1 if i + 1 < end else start
            ax, ay, bx, by = rings[i, 0], rings[i, 1], rings[j, 0], rings[j, 1]
            side = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
            if side == 0 and min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by):
                return True
            if (ay > y) != (by > y) and (side > 0) == (by > ay):
                inside = not inside
    return inside


@njit(nogil=True, cache=True)
def _between(x1, x2, x):
    if x1 <= x2:
        return x1 <= x <= x2
    return x >= x1 or x <= x2


@njit(nogil=True, cache=True)
def inside_shapes(xs, ys, kinds, params, rings, ring_starts, polygon_starts):
    """For each pair of a point and a shape: is the point in the shape?"""
    found = np.zeros(len(xs), np.bool_)
    vectors = unit_vectors(xs, ys) if (kinds == SPHERE_CIRCLE).any() else np.empty((0, 3))
    for i in range(len(xs)):
        x, y, kind = xs[i], ys[i], kinds[i]
        if kind == NONE:
            found[i] = True
        elif x != x or y != y or params[i, 0] != params[i, 0]:
            found[i] = False
        elif kind == RECTANGLE:
            found[i] = params[i, 0] <= x <= params[i, 2] and params[i, 1] <= y <= params[i, 3]
        elif kind == CIRCLE:
            dx, dy = params[i, 0] - x, params[i, 1] - y
            found[i] = dx * dx + dy * dy <= params[i, 2]
        elif kind == SPHERE_RECTANGLE:
            if params[i, 1] <= y <= params[i, 3]:
                if abs(x) == 180.0:
                    found[i] = _between(params[i, 0], params[i, 2], 180.0) or _between(
                        params[i, 0], params[i, 2], -180.0
                    )
                else:
                    found[i] = _between(params[i, 0], params[i, 2], x)
        elif kind == SPHERE_CIRCLE:
            du = params[i, 0] - vectors[i, 0]
            dv = params[i, 1] - vectors[i, 1]
            dw = params[i, 2] - vectors[i, 2]
            found[i] = du * du + dv * dv + dw * dw <= params[i, 3]
        else:
            number = int(params[i, 0])
            first, last = polygon_starts[number], polygon_starts[number + 1]
            found[i] = in_rings(rings, ring_starts, first, last, x, y)
            if kind == SPHERE_POLYGON and not found[i]:
                found[i] = in_rings(rings, ring_starts, first, last, x - 360.0, y) or in_rings(
                    rings, ring_starts, first, last, x + 360.0, y
                )
    return found
