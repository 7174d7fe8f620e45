"""Distances between places, by the same expressions as `place/model/space.py`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from place.kernels.inside import unit_vector

EARTH_RADIUS = 6_371_008.8


@njit(nogil=True, cache=True, inline="always")
def _measure(ax, ay, bx, by, sphere):
    """By what distances are compared: squared, of chords between unit vectors on the sphere."""
    if sphere:
        au, av, aw = unit_vector(ax, ay)
        bu, bv, bw = unit_vector(bx, by)
        du, dv, dw = au - bu, av - bv, aw - bw
        return du * du + dv * dv + dw * dw
    dx, dy = ax - bx, ay - by
    return dx * dx + dy * dy


@njit(nogil=True, cache=True)
def distances(ax, ay, bx, by, sphere):
    """How far each place of one list is from that of the other; in metres on the sphere."""
    found = np.empty(len(ax))
    for i in range(len(ax)):
        root = math.sqrt(_measure(ax[i], ay[i], bx[i], by[i], sphere))
        found[i] = 2 * EARTH_RADIUS * math.asin(min(1.0, root / 2)) if sphere else root
    return found


@njit(nogil=True, cache=True)
def headings(ax, ay, bx, by, sphere):
    """Degrees from north by east of the way from each place to another; NaN where it is none."""
    found = np.empty(len(ax))
    for i in range(len(ax)):
        if ax[i] == bx[i] and ay[i] == by[i]:
            found[i] = np.nan
            continue
        east, ahead = bx[i] - ax[i], by[i] - ay[i]
        if sphere:
            turn = math.radians(bx[i] - ax[i])
            south, north = math.radians(ay[i]), math.radians(by[i])
            east = math.sin(turn) * math.cos(north)
            ahead = math.cos(south) * math.sin(north)
            ahead -= math.sin(south) * math.cos(north) * math.cos(turn)
        angle = math.degrees(math.atan2(east, ahead))
        angle = angle + 360.0 if angle < 0 else angle
        found[i] = 0.0 if angle >= 360.0 else angle
    return found


@njit(nogil=True, cache=True)
def measures(ax, ay, bx, by, sphere):
    """The measure of the distance between each place of one list and that of the other."""
    found = np.empty(len(ax))
    for i in range(len(ax)):
        found[i] = _measure(ax[i], ay[i], bx[i], by[i], sphere)
    return found
