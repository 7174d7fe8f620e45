"""Distances between places, by the same expressions as `place/model/space.py`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from place.kernels.inside import unit_vector

EARTH_RADIUS = 6_371_008.8


@njit(nogil=True, cache=True)
def distances(ax, ay, bx, by, sphere):
    """How far each place of one list is from that of the other; in metres on the sphere."""
    found = np.empty(len(ax))
    for i in range(len(ax)):
        if sphere:
            au, av, aw = unit_vector(ax[i], ay[i])
            bu, bv, bw = unit_vector(bx[i], by[i])
            du, dv, dw = au - bu, av - bv, aw - bw
            root = math.sqrt(du * du + dv * dv + dw * dw)
            found[i] = 2 * EARTH_RADIUS * math.asin(min(1.0, root / 2))
        else:
            dx, dy = ax[i] - bx[i], ay[i] - by[i]
            found[i] = math.sqrt(dx * dx + dy * dy)
    return found


@njit(nogil=True, cache=True)
def measures(ax, ay, bx, by, sphere):
    """By what distances are compared: squared, of chords between unit vectors on the sphere."""
    found = np.empty(len(ax))
    for i in range(len(ax)):
        if sphere:
            au, av, aw = unit_vector(ax[i], ay[i])
            bu, bv, bw = unit_vector(bx[i], by[i])
            du, dv, dw = au - bu, av - bv, aw - bw
            found[i] = du * du + dv * dv + dw * dw
        else:
            dx, dy = ax[i] - bx[i], ay[i] - by[i]
            found[i] = dx * dx + dy * dy
    return found
