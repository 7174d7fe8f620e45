"""Ways that objects take, many at once, by the same expressions as `place/model/path.py`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

METRES_PER_DEGREE = 6_371_008.8 * math.pi / 180


@njit(nogil=True, cache=True, inline="always")
def _shorter(difference, sphere):
    """A difference of longitudes the shorter way round."""
    if sphere and difference > 180.0:
        return difference - 360.0
    if sphere and difference < -180.0:
        return difference + 360.0
    return difference


@njit(nogil=True, cache=True)
def _meeting(ax, ay, bx, by, cx, cy, dx, dy):
    """How far along the way from a to b it first meets the edge from c to d; −1 if never."""
    if max(ax, bx) < min(cx, dx) or min(ax, bx) > max(cx, dx):
        return -1.0
    if max(ay, by) < min(cy, dy) or min(ay, by) > max(cy, dy):
        return -1.0
    rx, ry, sx, sy, qx, qy = bx - ax, by - ay, dx - cx, dy - cy, cx - ax, cy - ay
    turned = rx * sy - ry * sx
    if turned != 0.0:
        at, along = (qx * sy - qy * sx) / turned, (qx * ry - qy * rx) / turned
        return at if 0.0 <= at <= 1.0 and 0.0 <= along <= 1.0 else -1.0
    if qx * ry - qy * rx != 0.0:
        return -1.0
    length = rx * rx + ry * ry
    if length == 0.0:
        within = min(cx, dx) <= ax <= max(cx, dx) and min(cy, dy) <= ay <= max(cy, dy)
        return 0.0 if within and qx * sy - qy * sx == 0.0 else -1.0
    one = (qx * rx + qy * ry) / length
    other = ((dx - ax) * rx + (dy - ay) * ry) / length
    low, high = min(one, other), max(one, other)
    return -1.0 if high < 0.0 or low > 1.0 else max(low, 0.0)


@njit(nogil=True, cache=True)
def first_meetings(ax, ay, bx, by, areas, edges, edge_starts, sphere, at_start):
    """How far along each way it first meets one of the edges of its area, from 0 to 1; −1 where it
    meets none. Unless `at_start`, an edge on which a way begins is none that it meets."""
    found = np.full(len(ax), -1.0)
    turns = 3 if sphere else 1
    for i in range(len(ax)):
        to = ax[i] + _shorter(bx[i] - ax[i], sphere)
        for turn in range(turns):
            shift = 0.0 if turn == 0 else (-360.0 if turn == 1 else 360.0)
            for j in range(edge_starts[areas[i]], edge_starts[areas[i] + 1]):
                cx, cy, dx, dy = edges[j, 0], edges[j, 1], edges[j, 2], edges[j, 3]
                at = _meeting(ax[i] + shift, ay[i], to + shift, by[i], cx, cy, dx, dy)
                is_one = at >= 0.0 if at_start else at > 0.0
                if is_one and (found[i] < 0.0 or at < found[i]):
                    found[i] = at
    return found


@njit(nogil=True, cache=True)
def passing(ax, ay, bx, by, areas, circles, sphere):
    """1 for each way that comes within the radius of its circle; else 0. A row of `circles` is a
    centre, a radius, and what a step east and north is worth; NaN is no circle."""
    found = np.zeros(len(ax))
    for i in range(len(ax)):
        x, y, r, east, north = circles[areas[i]]
        px, py = _shorter(ax[i] - x, sphere) * east, (ay[i] - y) * north
        rx, ry = _shorter(bx[i] - ax[i], sphere) * east, (by[i] - ay[i]) * north
        length = rx * rx + ry * ry
        at = 0.0 if length == 0.0 else min(1.0, max(0.0, -(px * rx + py * ry) / length))
        nx, ny = px + at * rx, py + at * ry
        if nx * nx + ny * ny <= r * r:
            found[i] = 1.0
    return found


@njit(nogil=True, cache=True)
def near_edges(xs, ys, areas, edges, edge_starts, distance, sphere):
    """1 for each place that is no farther than a distance from an edge of its area; else 0."""
    found = np.zeros(len(xs))
    for i in range(len(xs)):
        east, north = _scales(ys[i], sphere)
        for j in range(edge_starts[areas[i]], edge_starts[areas[i] + 1]):
            px, py = _shorter(edges[j, 0] - xs[i], sphere) * east, (edges[j, 1] - ys[i]) * north
            rx = _shorter(edges[j, 2] - edges[j, 0], sphere) * east
            ry = (edges[j, 3] - edges[j, 1]) * north
            length = rx * rx + ry * ry
            at = 0.0 if length == 0.0 else min(1.0, max(0.0, -(px * rx + py * ry) / length))
            nx, ny = px + at * rx, py + at * ry
            if nx * nx + ny * ny <= distance * distance:
                found[i] = 1.0
                break
    return found


@njit(nogil=True, cache=True)
def places_ahead(bx, by, x, y, since, ahead, sphere):
    """Where objects will be after a time, if they go on as they came; without a velocity, here."""
    east, north = x.copy(), y.copy()
    for i in range(len(x)):
        if since[i] > 0:
            factor = ahead / since[i]
            east[i] = x[i] + _shorter(x[i] - bx[i], sphere) * factor
            north[i] = y[i] + (y[i] - by[i]) * factor
    return east, north


@njit(nogil=True, cache=True)
def boxes_of_ways(ax, ay, bx, by, sphere, margin):
    """The box of each way (x1, y1, x2, y2), wider by a part of itself; NaN where an end is."""
    found = np.full((len(ax), 4), np.nan)
    for i in range(len(ax)):
        to = ax[i] + _shorter(bx[i] - ax[i], sphere)
        if np.isnan(to) or np.isnan(ay[i]) or np.isnan(by[i]):
            continue
        for axis, one, other in ((0, ax[i], to), (1, ay[i], by[i])):
            reach = margin * max(abs(one), abs(other))
            found[i, axis] = min(one, other) - reach
            found[i, axis + 2] = max(one, other) + reach
    return found


@njit(nogil=True, cache=True)
def approaches(one, other, since, others_since, times, others_times, ahead, sphere):
    """How near the objects of two lists come to each other within a time, if all go on as they
    came. `one` and `other` have a row for each: where it was (x, y) and where it is (x, y)."""
    found = np.empty(len(one))
    for i in range(len(one)):
        start = max(times[i], others_times[i])
        east, north = _scales(one[i, 3], sphere)
        vx, vy = _velocity(one, since, i, sphere)
        wx, wy = _velocity(other, others_since, i, sphere)
        px = _shorter(other[i, 2] - one[i, 2], sphere) * east
        py = (other[i, 3] - one[i, 3]) * north
        px += wx * (start - others_times[i]) - vx * (start - times[i])
        py += wy * (start - others_times[i]) - vy * (start - times[i])
        ux, uy = wx - vx, wy - vy
        length = ux * ux + uy * uy
        at = 0.0
        if length != 0.0:
            at = min(float(ahead), max(0.0, -(px * ux + py * uy) / length))
        nx, ny = px + at * ux, py + at * uy
        found[i] = math.sqrt(nx * nx + ny * ny)
    return found


@njit(nogil=True, cache=True, inline="always")
def _scales(latitude, sphere):
    if not sphere:
        return 1.0, 1.0
    return math.cos(math.radians(latitude)) * METRES_PER_DEGREE, METRES_PER_DEGREE


@njit(nogil=True, cache=True, inline="always")
def _velocity(places, since, i, sphere):
    if since[i] <= 0:
        return 0.0, 0.0
    east, north = _scales(places[i, 3], sphere)
    east = _shorter(places[i, 2] - places[i, 0], sphere) * east / since[i]
    return east, (places[i, 3] - places[i, 1]) * north / since[i]
