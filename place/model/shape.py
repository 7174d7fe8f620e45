"""The shapes of regions: rectangle, circle, polygon; and the one question asked of them.

Boundaries are closed in all of them: a point on an edge, on a corner or on the circle itself is
inside (docs/design.md, "Closed boundaries"). `contains` is the meaning that every kernel has to
reproduce.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from place.errors import PlaceError
from place.model.space import METRES_PER_DEGREE, Space, measure, measure_of, wrap_longitude

Point = tuple[float, float]


class ShapeError(PlaceError):
    """Numbers or a text that make no region; the caller says where they stood."""


@dataclass(frozen=True)
class Rectangle:
    """All points between two corners. In wgs84, x1 > x2 crosses the antimeridian."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class Circle:
    """All points within r of (x, y): a length of the plane, or metres on the sphere."""

    x: float
    y: float
    r: float


@dataclass(frozen=True)
class Polygon:
    """The points inside an odd number of rings, so that a ring within a ring is a hole.

    Rings may run either way round, and none repeats its first point. In wgs84 edges are straight
    in degrees, and a polygon across the antimeridian counts its longitudes on past 180.
    """

    rings: tuple[tuple[Point, ...], ...]


Shape = Rectangle | Circle | Polygon


def settle(shape: Shape, space: Space) -> Shape:
    """The shape as it is tested in `space`, or a ShapeError: corners in order, numbers in range.

    >>> settle(Rectangle(3, 4, 1, 2), Space.PLANAR)
    Rectangle(x1=1, y1=2, x2=3, y2=4)
    """
    if isinstance(shape, Circle):
        if shape.r < 0:
            raise ShapeError(f"a radius cannot be negative: {shape.r:g}")
        _check_positions(space, [(shape.x, shape.y)], 180)
        return shape
    if isinstance(shape, Polygon):
        for ring in shape.rings:
            _check_positions(space, ring, 360)
        return shape
    _check_positions(space, [(shape.x1, shape.y1), (shape.x2, shape.y2)], 180)
    x1, x2 = shape.x1, shape.x2
    if space is Space.PLANAR:
        x1, x2 = min(x1, x2), max(x1, x2)
    return Rectangle(x1, min(shape.y1, shape.y2), x2, max(shape.y1, shape.y2))


def _check_positions(
    space: Space, points: list[Point] | tuple[Point, ...], longitudes: float
) -> None:
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            raise ShapeError("a region's numbers must be finite")
        if space is Space.WGS84 and abs(y) > 90:
            raise ShapeError(f"latitude {y:g} is not between -90 and 90")
        if space is Space.WGS84 and abs(x) > longitudes:
            raise ShapeError(f"longitude {x:g} is not between -{longitudes:g} and {longitudes:g}")


def show_shape(shape: Shape) -> str:
    """A shape as it is written in CREATE REGION.

    >>> show_shape(Circle(1, 2, 0.5))
    'CIRCLE (1, 2, 0.5)'
    """
    if isinstance(shape, Rectangle):
        return f"RECTANGLE ({shape.x1:g}, {shape.y1:g}, {shape.x2:g}, {shape.y2:g})"
    if isinstance(shape, Circle):
        return f"CIRCLE ({shape.x:g}, {shape.y:g}, {shape.r:g})"
    rings = ", ".join(
        "(" + ", ".join(f"{x:g} {y:g}" for x, y in ring) + ")" for ring in shape.rings
    )
    return f"POLYGON ({rings})"


def rectangle_around(space: Space, x: float, y: float, xdist: float, ydist: float) -> Rectangle:
    """The rectangle of side lengths xdist and ydist centred on (x, y); metres in wgs84.

    >>> rectangle_around(Space.PLANAR, 5, 5, 2, 4)
    Rectangle(x1=4.0, y1=3.0, x2=6.0, y2=7.0)
    """
    if space is Space.PLANAR:
        return Rectangle(x - xdist / 2, y - ydist / 2, x + xdist / 2, y + ydist / 2)
    height = ydist / 2 / METRES_PER_DEGREE
    shrink = math.cos(math.radians(y))
    width = xdist / 2 / (METRES_PER_DEGREE * shrink) if shrink > 1e-12 else math.inf
    south, north = max(y - height, -90.0), min(y + height, 90.0)
    if width >= 180.0:
        return Rectangle(-180.0, south, 180.0, north)
    return Rectangle(wrap_longitude(x - width), south, wrap_longitude(x + width), north)


def contains(shape: Shape, space: Space, x: float, y: float) -> bool:
    """Is the point in the shape, boundary included?

    >>> contains(Circle(0, 0, 5), Space.PLANAR, 3, 4)
    True
    """
    if isinstance(shape, Circle):
        return measure(space, shape.x, shape.y, x, y) <= measure_of(space, shape.r)
    if isinstance(shape, Polygon):
        turns = (0.0, -360.0, 360.0) if space is Space.WGS84 else (0.0,)
        return any(_in_rings(shape.rings, x + turn, y) for turn in turns)
    if not shape.y1 <= y <= shape.y2:
        return False
    if space is Space.WGS84 and abs(x) == 180.0:
        return _between(shape.x1, shape.x2, 180.0) or _between(shape.x1, shape.x2, -180.0)
    return _between(shape.x1, shape.x2, x)


def _between(x1: float, x2: float, x: float) -> bool:
    return x1 <= x <= x2 if x1 <= x2 else x >= x1 or x <= x2


def _in_rings(rings: tuple[tuple[Point, ...], ...], x: float, y: float) -> bool:
    inside = False
    for ring in rings:
        for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1], strict=True):
            side = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
            within = min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)
            if side == 0 and within:
                return True
            # A ray to the right crosses an edge that spans y half-openly; the side of the edge
            # on which the point lies tells where, without a division.
            if (ay > y) != (by > y) and (side > 0) == (by > ay):
                inside = not inside
    return inside


def make_ring(points: list[Point]) -> tuple[Point, ...]:
    """A ring from its corners; a repeated first point at the end is dropped."""
    ring = tuple(points[:-1] if len(points) > 1 and points[0] == points[-1] else points)
    if len(ring) < 3:
        raise ShapeError(f"a polygon's ring needs at least three corners, this one has {len(ring)}")
    return ring


_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_BRACKET = re.compile(r"[()]")


def parse_wkt(text: str) -> Polygon:
    """The polygon of a WKT POLYGON or MULTIPOLYGON.

    >>> parse_wkt("POLYGON ((0 0, 1 0, 0 1, 0 0))").rings
    (((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)),)
    """
    word, bracket, body = text.strip().partition("(")
    kind = word.rstrip().upper()
    if kind not in ("POLYGON", "MULTIPOLYGON") or not bracket or not body.endswith(")"):
        raise ShapeError(
            f"'{text[:60]}' is not a WKT polygon", hint="write POLYGON ((x y, x y, x y, x y))"
        )
    body = body[:-1]
    polygons = [body] if kind == "POLYGON" else _split_polygons(body)
    rings = [ring for polygon in polygons for ring in _read_rings(polygon)]
    if not rings:
        raise ShapeError(f"'{text[:60]}' has no ring")
    return Polygon(tuple(rings))


def _split_polygons(body: str) -> list[str]:
    """What stands in each of the outermost brackets, between which only commas may stand."""
    polygons = []
    depth = start = 0
    for match in _BRACKET.finditer(body):
        if depth == 0:
            if match[0] == ")" or not _is_gap(body[start : match.start()]):
                break
            start = match.end()
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            polygons.append(body[start : match.start()])
            start = match.end()
    if depth or not _is_gap(body[start:]):
        raise ShapeError(
            f"'{body[:60]}' is not a list of polygons",
            hint="write MULTIPOLYGON (((x y, x y, x y, x y)), ((x y, x y, x y, x y)))",
        )
    return polygons


def _read_rings(polygon: str) -> list[tuple[Point, ...]]:
    """The rings of one polygon, each a list of corners in brackets."""
    *pieces, tail = polygon.split(")")
    rings = []
    for piece in pieces:
        gap, bracket, ring = piece.partition("(")
        corners = [_read_corner(corner) for corner in ring.split(",")]
        known = [corner for corner in corners if corner is not None]
        if not bracket or not _is_gap(gap) or len(known) < len(corners):
            break
        rings.append(known)
    if not rings or len(rings) < len(pieces) or not _is_gap(tail):
        raise ShapeError(f"'{polygon[:60]}' is not a list of rings of 'x y' pairs")
    return [make_ring(ring) for ring in rings]


def _read_corner(text: str) -> Point | None:
    numbers = text.split()
    if len(numbers) != 2 or not all(map(_NUMBER.fullmatch, numbers)):
        return None
    return float(numbers[0]), float(numbers[1])


def _is_gap(text: str) -> bool:
    """Whether a text is what may stand between rings: commas and spaces, or nothing."""
    return not text.replace(",", "").strip()
