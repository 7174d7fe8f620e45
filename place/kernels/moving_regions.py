"""Regions around points, in the plane and on the sphere: arrays in, arrays out."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from place.kernels.inside import CIRCLE, RECTANGLE, SPHERE_CIRCLE, SPHERE_RECTANGLE, unit_vector

SLACK = 1e-9
"""How much larger than a circle its box is, so that rounding never leaves out a point on it."""
EARTH_RADIUS = 6_371_008.8
METRES_PER_DEGREE = EARTH_RADIUS * math.pi / 180
HALF_ROUND = EARTH_RADIUS * math.pi


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
def lay_around_sphere(rows, chosen, centers, extents, boxes, kinds, params):
    """The same on the sphere, in degrees with extents in metres: `boxes` has two boxes a row
    (n × 2 × 4), because a region may lie on both sides of the antimeridian; the second is NaN where
    one suffices."""
    for k in range(len(rows)):
        row = rows[k]
        x, y = np.nan, np.nan
        if chosen[k] >= 0:
            x, y = centers[chosen[k], 0], centers[chosen[k], 1]
        width, height = extents[row, 0], extents[row, 1]
        if np.isnan(x) or np.isnan(y) or np.isnan(width):
            _lay_nowhere(row, boxes, kinds, params)
        elif np.isnan(height):
            _lay_circle(row, x, y, width, boxes, kinds, params)
        else:
            x1, y1, x2, y2 = _rectangle_around(x, y, width, height)
            _lay_rectangle(row, x1, y1, x2, y2, boxes, kinds, params)


@njit(nogil=True, cache=True)
def lay_rectangles_sphere(rows, corners, boxes, kinds, params):
    """Fixed rectangles of the sphere at `rows`: their corners are (x1, y1, x2, y2) with y1 ≤ y2,
    and x1 > x2 crosses the antimeridian; nowhere where one of the four is NaN."""
    for k in range(len(rows)):
        x1, y1, x2, y2 = corners[k, 0], corners[k, 1], corners[k, 2], corners[k, 3]
        if np.isnan(x1) or np.isnan(y1) or np.isnan(x2) or np.isnan(y2):
            _lay_nowhere(rows[k], boxes, kinds, params)
        else:
            _lay_rectangle(rows[k], x1, y1, x2, y2, boxes, kinds, params)


@njit(nogil=True, cache=True)
def _lay_nowhere(row, boxes, kinds, params):
    kinds[row] = RECTANGLE
    for i in range(4):
        params[row, i] = boxes[row, 0, i] = boxes[row, 1, i] = np.nan


@njit(nogil=True, cache=True)
def _lay_rectangle(row, x1, y1, x2, y2, boxes, kinds, params):
    kinds[row] = SPHERE_RECTANGLE
    params[row, 0], params[row, 1], params[row, 2], params[row, 3] = x1, y1, x2, y2
    _lay_boxes(row, x1, y1, x2, y2, boxes)


@njit(nogil=True, cache=True)
def _lay_circle(row, x, y, r, boxes, kinds, params):
    kinds[row] = SPHERE_CIRCLE
    params[row, 0], params[row, 1], params[row, 2] = unit_vector(x, y)
    chord = 2 * math.sin(r / (2 * EARTH_RADIUS))
    params[row, 3] = chord * chord if r < HALF_ROUND else np.inf
    angle = r / EARTH_RADIUS
    height = math.degrees(angle) + 1e-7
    south, north = y - height, y + height
    if south <= -90 or north >= 90 or angle >= math.pi / 2:
        _lay_boxes(row, -180.0, max(south, -90.0), 180.0, min(north, 90.0), boxes)
    else:
        share = min(1.0, math.sin(angle) / math.cos(math.radians(y)))
        width = math.degrees(math.asin(share)) + (1e-7 + SLACK * 360)
        _lay_boxes(row, x - width, south, x + width, north, boxes)


@njit(nogil=True, cache=True)
def _rectangle_around(x, y, xdist, ydist):
    """The rectangle of these sides in metres; all longitudes where it reaches around a pole."""
    height = ydist / 2 / METRES_PER_DEGREE
    shrink = math.cos(math.radians(y))
    width = xdist / 2 / (METRES_PER_DEGREE * shrink) if shrink > 1e-12 else np.inf
    south, north = max(y - height, -90.0), min(y + height, 90.0)
    if width >= 180.0:
        return -180.0, south, 180.0, north
    return _wrap(x - width), south, _wrap(x + width), north


@njit(nogil=True, cache=True)
def _wrap(x):
    """The same meridian between −180 and 180."""
    if x > 180.0:
        return x - 360.0
    return x + 360.0 if x < -180.0 else x


@njit(nogil=True, cache=True)
def _lay_boxes(row, x1, y1, x2, y2, boxes):
    """A box of longitudes that may cross the antimeridian (x1 > x2) or count on past it."""
    u1, u2 = np.nan, np.nan
    if x1 > x2:
        x2, u1, u2 = 180.0, -180.0, x2
    elif x2 - x1 >= 360.0:
        x1, x2 = -180.0, 180.0
    elif x2 > 180.0:
        x1, x2, u1, u2 = max(x1, -180.0), 180.0, -180.0, x2 - 360.0
    elif x1 < -180.0:
        x1, u1, u2 = -180.0, x1 + 360.0, 180.0
    # 180 and −180 are one meridian: a box that reaches one of them holds the other too.
    elif x2 == 180.0 and x1 > -180.0:
        u1, u2 = -180.0, -180.0
    elif x1 == -180.0 and x2 < 180.0:
        u1, u2 = 180.0, 180.0
    second = u1 == u1
    boxes[row, 0, 0], boxes[row, 0, 1], boxes[row, 0, 2], boxes[row, 0, 3] = x1, y1, x2, y2
    boxes[row, 1, 0], boxes[row, 1, 1] = u1, y1 if second else np.nan
    boxes[row, 1, 2], boxes[row, 1, 3] = u2, y2 if second else np.nan
