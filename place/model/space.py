"""The two spaces, and what near means in each.

What they mean is in docs/design.md, "Space". `planar` is Euclid's plane. `wgs84` is a sphere: x is
the longitude and y the latitude in degrees, distances are metres. Both compare distances by a
monotone *measure* that needs no root and no arcsine: the squared distance in the plane, the squared
chord between unit vectors on the sphere. Reference and kernels compute the same float64
expressions in the same order, so that a point on a circle is inside on every runtime.
"""

from __future__ import annotations

import math
from enum import Enum

EARTH_RADIUS = 6_371_008.8
METRES_PER_DEGREE = EARTH_RADIUS * math.pi / 180
Point = tuple[float, float]


class Space(Enum):
    """Where positions live."""

    PLANAR = "planar"
    WGS84 = "wgs84"


def unit_vector(x: float, y: float) -> tuple[float, float, float]:
    """The point at longitude x and latitude y on the unit sphere.

    The two names of the antimeridian and the many names of a pole give the same vector.
    """
    if abs(y) == 90.0:
        return 0.0, 0.0, math.copysign(1.0, y)
    longitude = math.radians(180.0 if x == -180.0 else x)
    latitude = math.radians(y)
    shrink = math.cos(latitude)
    return shrink * math.cos(longitude), shrink * math.sin(longitude), math.sin(latitude)


def measure(space: Space, ax: float, ay: float, bx: float, by: float) -> float:
    """A number that grows with the distance of two points, and is cheap to compare.

    >>> measure(Space.PLANAR, 0, 0, 3, 4)
    25
    """
    if space is Space.PLANAR:
        dx, dy = ax - bx, ay - by
        return dx * dx + dy * dy
    (au, av, aw), (bu, bv, bw) = unit_vector(ax, ay), unit_vector(bx, by)
    du, dv, dw = au - bu, av - bv, aw - bw
    return du * du + dv * dv + dw * dw


def measure_of(space: Space, distance: float) -> float:
    """The measure of a distance: `measure(a, b) <= measure_of(r)` says that b is within r of a."""
    if space is Space.PLANAR:
        return distance * distance
    if distance >= EARTH_RADIUS * math.pi:
        return math.inf
    chord = 2 * math.sin(distance / (2 * EARTH_RADIUS))
    return chord * chord


def distance(space: Space, ax: float, ay: float, bx: float, by: float) -> float:
    """How far two points are from each other; in metres on the sphere.

    >>> distance(Space.PLANAR, 0, 0, 3, 4)
    5.0
    """
    root = math.sqrt(measure(space, ax, ay, bx, by))
    if space is Space.PLANAR:
        return root
    return 2 * EARTH_RADIUS * math.asin(min(1.0, root / 2))


def wrap_longitude(x: float) -> float:
    """The same meridian between −180 and 180.

    >>> wrap_longitude(190.0), wrap_longitude(-180.0)
    (-170.0, -180.0)
    """
    if x > 180.0:
        return x - 360.0
    return x + 360.0 if x < -180.0 else x


def offset(space: Space, place: Point, a: Point, b: Point) -> float:
    """How far a place is from the straight line between two others.

    On the sphere it is measured in the plane that touches it at the place, in metres, which is as
    good as the line on a map is straight.

    >>> offset(Space.PLANAR, (1.0, 2.0), (0.0, 0.0), (4.0, 0.0))
    2.0
    """
    ax, ay, bx, by = a[0] - place[0], a[1] - place[1], b[0] - place[0], b[1] - place[1]
    if space is Space.WGS84:
        shrink = math.cos(math.radians(place[1])) * METRES_PER_DEGREE
        ax, bx = wrap_longitude(ax) * shrink, wrap_longitude(bx) * shrink
        ay, by = ay * METRES_PER_DEGREE, by * METRES_PER_DEGREE
    dx, dy = bx - ax, by - ay
    square = dx * dx + dy * dy
    along = -(ax * dx + ay * dy) / square if square > 0.0 else 0.0
    along = min(1.0, max(0.0, along))
    x, y = ax + along * dx, ay + along * dy
    return math.sqrt(x * x + y * y)
