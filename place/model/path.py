"""Ways that objects take: between two readings, and ahead by the last velocity.

A way is straight: in the plane, and in degrees on the sphere, where it goes the shorter way round.
Circles on the sphere, and distances between ways, are measured in a plane around their place: east
and north in metres. That is exact in the plane, and on the sphere for lengths that are small beside
the radius of the earth. `place/kernels/paths.py` has the same float64 expressions.
"""

from __future__ import annotations

import math
from itertools import pairwise

from place.model.shape import Circle, Point, Polygon, Shape, contains
from place.model.space import METRES_PER_DEGREE, Space

Edge = tuple[float, float, float, float]
NO_MEETING = -1.0


def shorter_way(space: Space, difference: float) -> float:
    """A difference of longitudes the shorter way round; in the plane as it is."""
    if space is Space.WGS84 and difference > 180.0:
        return difference - 360.0
    if space is Space.WGS84 and difference < -180.0:
        return difference + 360.0
    return difference


def place_ahead(
    space: Space, before: Point, now: Point, since: int, ahead: int
) -> tuple[float, float]:
    """Where an object will be after a time, if it goes on as it came; without a velocity, here."""
    if since <= 0:
        return now
    factor = ahead / since
    east = shorter_way(space, now[0] - before[0])
    return now[0] + east * factor, now[1] + (now[1] - before[1]) * factor


def way_meets(shape: Shape, space: Space, a: Point, b: Point) -> bool:
    """Does the straight way from one place to another meet a region, whose boundary belongs to it?

    >>> from place.model.shape import Rectangle
    >>> way_meets(Rectangle(1, 1, 2, 2), Space.PLANAR, (0, 0), (3, 3))
    True
    """
    if contains(shape, space, *a) or (is_place(space, *b) and contains(shape, space, *b)):
        return True
    if isinstance(shape, Circle):
        return _passes(shape, space, a, b)
    return first_meeting(edges_of(shape), space, a, b, at_start=True) >= 0


def is_place(space: Space, x: float, y: float) -> bool:
    """Is it a place of the space, and not one beyond a pole or the antimeridian?"""
    return space is Space.PLANAR or (abs(x) <= 180.0 and abs(y) <= 90.0)


def edges_of(shape: Shape) -> list[Edge]:
    """The edges of a rectangle or polygon; one across the antimeridian counts on past 180."""
    if isinstance(shape, Polygon):
        rings = shape.rings
    else:
        assert not isinstance(shape, Circle)
        east = shape.x2 if shape.x1 <= shape.x2 else shape.x2 + 360.0
        corners = (
            (shape.x1, shape.y1),
            (east, shape.y1),
            (east, shape.y2),
            (shape.x1, shape.y2),
        )
        rings = (corners,)
    return [(*p, *q) for ring in rings for p, q in zip(ring, ring[1:] + ring[:1], strict=True)]


def edges_of_line(points: tuple[Point, ...]) -> list[Edge]:
    """The edges of a line through some points."""
    return [(*p, *q) for p, q in pairwise(points)]


def first_meeting(edges: list[Edge], space: Space, a: Point, b: Point, *, at_start: bool) -> float:
    """How far along a way it first meets one of some edges, from 0 to 1; −1 if it meets none.

    Unless `at_start` is asked for, an edge on which the way begins is none that it meets.
    """
    found = NO_MEETING
    to = a[0] + shorter_way(space, b[0] - a[0])
    for turn in (0.0, -360.0, 360.0) if space is Space.WGS84 else (0.0,):
        for edge in edges:
            at = _meeting(a[0] + turn, a[1], to + turn, b[1], *edge)
            is_one = at >= 0.0 if at_start else at > 0.0
            if is_one and (found < 0.0 or at < found):
                found = at
    return found


def _meeting(
    ax: float, ay: float, bx: float, by: float, cx: float, cy: float, dx: float, dy: float
) -> float:
    """How far along the way from a to b it first meets the edge from c to d; −1 if never."""
    if max(ax, bx) < min(cx, dx) or min(ax, bx) > max(cx, dx):
        return NO_MEETING  # which rounding might hide where both lead almost the same way
    if max(ay, by) < min(cy, dy) or min(ay, by) > max(cy, dy):
        return NO_MEETING
    rx, ry, sx, sy, qx, qy = bx - ax, by - ay, dx - cx, dy - cy, cx - ax, cy - ay
    turned = rx * sy - ry * sx
    if turned != 0.0:
        at, along = (qx * sy - qy * sx) / turned, (qx * ry - qy * rx) / turned
        return at if 0.0 <= at <= 1.0 and 0.0 <= along <= 1.0 else NO_MEETING
    if qx * ry - qy * rx != 0.0:
        return NO_MEETING
    length = rx * rx + ry * ry
    if length == 0.0:  # a place: does it lie on the edge?
        within = min(cx, dx) <= ax <= max(cx, dx) and min(cy, dy) <= ay <= max(cy, dy)
        return 0.0 if within and qx * sy - qy * sx == 0.0 else NO_MEETING
    one = (qx * rx + qy * ry) / length
    other = ((dx - ax) * rx + (dy - ay) * ry) / length
    low, high = min(one, other), max(one, other)
    return NO_MEETING if high < 0.0 or low > 1.0 else max(low, 0.0)


def scales(space: Space, latitude: float) -> tuple[float, float]:
    """What a step to the east and one to the north are worth at a latitude: metres on the
    sphere."""
    if space is Space.PLANAR:
        return 1.0, 1.0
    return math.cos(math.radians(latitude)) * METRES_PER_DEGREE, METRES_PER_DEGREE


def _passes(circle: Circle, space: Space, a: Point, b: Point) -> bool:
    """Does a way come within the radius of the centre of a circle?"""
    east, north = scales(space, circle.y)
    ax, ay = shorter_way(space, a[0] - circle.x) * east, (a[1] - circle.y) * north
    rx, ry = shorter_way(space, b[0] - a[0]) * east, (b[1] - a[1]) * north
    length = rx * rx + ry * ry
    at = 0.0 if length == 0.0 else min(1.0, max(0.0, -(ax * rx + ay * ry) / length))
    px, py = ax + at * rx, ay + at * ry
    return px * px + py * py <= circle.r * circle.r


def is_near(shape: Shape, space: Space, x: float, y: float, distance: float) -> bool:
    """Is a place in a region, or no farther than a distance from it?

    >>> from place.model.shape import Rectangle
    >>> is_near(Rectangle(0, 0, 1, 1), Space.PLANAR, 4, 5, 5)
    True
    """
    if isinstance(shape, Circle):
        return contains(Circle(shape.x, shape.y, shape.r + distance), space, x, y)
    around = Circle(x, y, distance)
    return contains(shape, space, x, y) or any(
        _passes(around, space, (ax, ay), (bx, by)) for ax, ay, bx, by in edges_of(shape)
    )


Moving = tuple[float | None, float | None, float, float, int | None, int]
"""Where an object was, where it is, how long ago it was there, and when it is here."""


def closest_approach(space: Space, one: Moving, other: Moving, ahead: int) -> float:
    """How near two objects will come to each other within a time, if both go on as they came.

    The time begins with the later of their readings, to which the other object goes on as well.

    >>> closest_approach(Space.PLANAR, (0, 0, 1, 0, 1, 1), (10, 3, 9, 3, 1, 1), 10)
    3.0
    """
    start = max(one[5], other[5])
    east, north = scales(space, one[3])
    (vx, vy), (wx, wy) = _velocity(space, one), _velocity(space, other)
    px = shorter_way(space, other[2] - one[2]) * east
    py = (other[3] - one[3]) * north
    px += wx * (start - other[5]) - vx * (start - one[5])
    py += wy * (start - other[5]) - vy * (start - one[5])
    ux, uy = wx - vx, wy - vy
    length = ux * ux + uy * uy
    at = 0.0 if length == 0.0 else min(float(ahead), max(0.0, -(px * ux + py * uy) / length))
    nx, ny = px + at * ux, py + at * uy
    return math.sqrt(nx * nx + ny * ny)


def _velocity(space: Space, moving: Moving) -> tuple[float, float]:
    """East and north for each microsecond; nothing where it is not known."""
    x, y, now_x, now_y, since, _ = moving
    if x is None or y is None or not since or since <= 0:
        return 0.0, 0.0
    east, north = scales(space, now_y)
    return shorter_way(space, now_x - x) * east / since, (now_y - y) * north / since
