"""Ways of objects: their measures, and lines with fewer places that stay near all of them."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from place.kernels.distances import EARTH_RADIUS

METRES_PER_DEGREE = EARTH_RADIUS * math.pi / 180


@njit(nogil=True, cache=True)
def measures_of_ways(starts, distances, seconds, valid):
    """Of each object its length, the seconds of its legs, its top speed and how long it was valid.

    Rows `starts[i]` to `starts[i + 1]` are those of an object. A row with a leg to the next one has
    the `distances` and `seconds` of that leg; one without has no seconds.
    """
    count = len(starts) - 1
    lengths, moved, tops = np.zeros(count), np.zeros(count), np.full(count, np.nan)
    lasted = np.zeros(count, np.int64)
    for i in range(count):
        for row in range(starts[i], starts[i + 1]):
            lasted[i] += valid[row]
            if seconds[row] > 0:
                lengths[i] += distances[row]
                moved[i] += seconds[row]
                speed = distances[row] / seconds[row]
                if not speed <= tops[i]:
                    tops[i] = speed
    return lengths, moved, tops, lasted


@njit(nogil=True, cache=True, inline="always")
def _turned(degrees):
    """A difference of longitudes by the shorter way around."""
    if degrees > 180.0:
        return degrees - 360.0
    return degrees + 360.0 if degrees < -180.0 else degrees


@njit(nogil=True, cache=True)
def offset(px, py, ax, ay, bx, by, sphere):
    """How far a place is from the line between two others, as `place/model/space.py` says it."""
    ax, ay, bx, by = ax - px, ay - py, bx - px, by - py
    if sphere:
        shrink = math.cos(math.radians(py)) * METRES_PER_DEGREE
        ax, bx = _turned(ax) * shrink, _turned(bx) * shrink
        ay, by = ay * METRES_PER_DEGREE, by * METRES_PER_DEGREE
    dx, dy = bx - ax, by - ay
    square = dx * dx + dy * dy
    along = -(ax * dx + ay * dy) / square if square > 0.0 else 0.0
    along = min(1.0, max(0.0, along))
    x, y = ax + along * dx, ay + along * dy
    return math.sqrt(x * x + y * y)


@njit(nogil=True, cache=True)
def simplified(starts, x, y, tolerance, sphere):
    """Which places are kept, 1 or 0, so that no other is farther than the tolerance from the line
    between the kept ones around it (Douglas and Peucker). Places `starts[i]` to `starts[i + 1]` are
    those of one line; its first and its last are kept.
    """
    kept = np.zeros(len(x), np.int64)
    stack = np.empty((len(x) + 1, 2), np.int64)
    for i in range(len(starts) - 1):
        first, last = starts[i], starts[i + 1] - 1
        if last < first:
            continue
        kept[first] = kept[last] = 1
        stack[0, 0], stack[0, 1] = first, last
        waiting = 1
        while waiting:
            waiting -= 1
            a, b = stack[waiting, 0], stack[waiting, 1]
            farthest, place = tolerance, -1
            for k in range(a + 1, b):
                far = offset(x[k], y[k], x[a], y[a], x[b], y[b], sphere)
                if far > farthest:
                    farthest, place = far, k
            if place >= 0:
                kept[place] = 1
                stack[waiting, 0], stack[waiting, 1] = a, place
                stack[waiting + 1, 0], stack[waiting + 1, 1] = place, b
                waiting += 2
    return kept
