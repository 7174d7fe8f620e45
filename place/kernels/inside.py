"""Exact tests of a point in a shape, pair by pair: the same float64 expressions as the model's.

Each row of `params` is one shape: a rectangle (x1, y1, x2, y2), a circle (x, y, measure of r), a
circle on the sphere (unit vector, measure of r), or a polygon (its number). Boundaries are closed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

NONE, RECTANGLE, CIRCLE, SPHERE_RECTANGLE, SPHERE_CIRCLE, POLYGON, SPHERE_POLYGON = range(7)


@njit(nogil=True, cache=True, inline="always")
def unit_vector(x, y):
    """The point of the unit sphere at longitude x and latitude y; NaN where the point is absent."""
    pole = abs(y) == 90.0
    longitude = math.radians(180.0 if x == -180.0 else x)
    latitude = math.radians(y)
    shrink = math.cos(latitude)
    u = 0.0 if pole else shrink * math.cos(longitude)
    v = 0.0 if pole else shrink * math.sin(longitude)
    w = math.copysign(1.0, y) if pole else math.sin(latitude)
    return u, v, w


@njit(nogil=True, cache=True)
def unit_vectors(xs, ys):
    """Points of the unit sphere from longitudes and latitudes."""
    out = np.empty((len(xs), 3))
    for i in range(len(xs)):
        out[i, 0], out[i, 1], out[i, 2] = unit_vector(xs[i], ys[i])
    return out


@njit(nogil=True, cache=True)
def _between(x1, x2, x):
    if x1 <= x2:
        return x1 <= x <= x2
    return x >= x1 or x <= x2


@njit(nogil=True, cache=True, forceinline=True)
def in_numbers(x, y, u, v, w, kind, p, q, r, s):
    """Is the point (x, y) in the shape of this kind, which these four numbers are?

    (u, v, w) is the point's unit vector, which only a circle on the sphere asks for. A shape of
    kind NONE holds every point: its box has decided already. No array is passed, so that loops
    that ask this count no references.
    """
    if kind == NONE:
        return True
    if x != x or y != y or p != p:
        return False
    if kind == RECTANGLE:
        return p <= x <= r and q <= y <= s
    if kind == CIRCLE:
        dx, dy = p - x, q - y
        return dx * dx + dy * dy <= r
    if kind == SPHERE_CIRCLE:
        du, dv, dw = p - u, q - v, r - w
        return du * du + dv * dv + dw * dw <= s
    if not q <= y <= s:
        return False
    if abs(x) == 180.0:
        return _between(p, r, 180.0) or _between(p, r, -180.0)
    return _between(p, r, x)


@njit(nogil=True, cache=True)
def in_polygon(x, y, kind, number, rings, ring_starts, polygon_starts):
    """Is the point inside an odd number of the polygon's rings, or on the edge of one?

    On the sphere it is asked a turn to the west and to the east too.
    """
    found, present = False, x == x and y == y and number == number
    at = int(number) if present else 0
    first, last = polygon_starts[at], polygon_starts[at + 1 if present else at]
    for turn in range(3 if kind == SPHERE_POLYGON else 1):
        u = x - 360.0 if turn == 1 else x + 360.0 if turn == 2 else x
        last = first if found else last
        inside, on_edge = False, False
        for ring in range(first, last):
            start, end = ring_starts[ring], ring_starts[ring + 1]
            for i in range(start, end):
                j = i + 1 if i + 1 < end else start
                ax, ay, bx, by = rings[i, 0], rings[i, 1], rings[j, 0], rings[j, 1]
                side = (bx - ax) * (y - ay) - (by - ay) * (u - ax)
                if (
                    side == 0
                    and min(ax, bx) <= u <= max(ax, bx)
                    and min(ay, by) <= y <= max(ay, by)
                ):
                    on_edge = True
                if (ay > y) != (by > y) and (side > 0) == (by > ay):
                    inside = not inside
        found |= inside | on_edge
    return found


@njit(nogil=True, cache=True)
def inside_shapes(xs, ys, kinds, params, rings, ring_starts, polygon_starts):
    """For each pair of a point and a shape: is the point in the shape?"""
    found = np.zeros(len(xs), np.bool_)
    for i in range(len(xs)):
        x, y, u, v, w = xs[i], ys[i], np.nan, np.nan, np.nan
        if kinds[i] == SPHERE_CIRCLE:
            u, v, w = unit_vector(x, y)
        p, q, r, s = params[i, 0], params[i, 1], params[i, 2], params[i, 3]
        if kinds[i] < POLYGON:
            found[i] = in_numbers(x, y, u, v, w, kinds[i], p, q, r, s)
        else:
            found[i] = in_polygon(x, y, kinds[i], p, rings, ring_starts, polygon_starts)
    return found


@njit(nogil=True, cache=True)
def inside_pairs(
    boxes, points, xy, vectors, kinds, params, rings, ring_starts, polygon_starts, out
):
    """Writes for each pair of a shape and a point, named by their rows, if the point is in it.

    Pair i is the shape `boxes[i]` of `kinds` and `params`, and the point `points[i]` of `xy`.
    `vectors` are the unit vectors of all points; where they are empty, they are computed for the
    pairs that need one. An absent point is in no shape, not even in one of kind NONE.
    """
    for i in range(len(boxes)):
        box, point = boxes[i], points[i]
        x, y, u, v, w, kind = xy[point, 0], xy[point, 1], np.nan, np.nan, np.nan, kinds[box]
        if kind == SPHERE_CIRCLE:
            if len(vectors) > 0:
                u, v, w = vectors[point, 0], vectors[point, 1], vectors[point, 2]
            else:
                u, v, w = unit_vector(x, y)
        p, q, r, s = params[box, 0], params[box, 1], params[box, 2], params[box, 3]
        if kind < POLYGON:
            out[i] = x == x and y == y and in_numbers(x, y, u, v, w, kind, p, q, r, s)
        else:
            out[i] = in_polygon(x, y, kind, p, rings, ring_starts, polygon_starts)
