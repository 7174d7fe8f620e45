"""Shapes as arrays: the boxes by which an index finds them, and the numbers of their exact test.

A box holds at least all of its shape. In the plane a shape has one box, and a rectangle is its own;
on the sphere it has two, because it may lie on both sides of the antimeridian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from place.kernels import inside
from place.kernels.lay import SLACK
from place.model.shape import Circle, Polygon, Rectangle, Shape, rectangle_around
from place.model.space import EARTH_RADIUS, Space, measure_of, unit_vector

Floats = NDArray[np.float64]


class Polygons:
    """The rings of polygons in one array, by the polygon's number."""

    def __init__(self) -> None:
        self._polygons: list[Polygon | None] = []
        self._free: list[int] = []
        self._arrays: tuple[Floats, NDArray[np.int64], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._polygons)

    def add(self, polygon: Polygon) -> int:
        """Keep a polygon; its number."""
        self._arrays = None
        if self._free:
            number = self._free.pop()
            self._polygons[number] = polygon
            return number
        self._polygons.append(polygon)
        return len(self._polygons) - 1

    def release(self, numbers: set[int]) -> None:
        """These polygons are not needed any more."""
        for number in numbers:
            self._polygons[number] = None
            self._free.append(number)
        if numbers:
            self._arrays = None

    def arrays(self) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """All corners, where each ring starts, and where each polygon's rings start."""
        if self._arrays is None:
            rings = [ring for p in self._polygons for ring in (p.rings if p else ())]
            corners = [corner for ring in rings for corner in ring]
            sizes = [len(ring) for ring in rings]
            counts = [len(p.rings) if p else 0 for p in self._polygons]
            self._arrays = (
                np.array(corners, np.float64).reshape(-1, 2),
                np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            )
        return self._arrays


def fan_of(space: Space) -> int:
    """How many boxes a shape has."""
    return 2 if space is Space.WGS84 else 1


def lay_out(
    shapes: Sequence[Shape | None], space: Space, polygons: Polygons
) -> tuple[NDArray[np.uint8], Floats, Floats]:
    """The kinds, the exact numbers (n × 4) and the boxes (n × fan × 4) of shapes."""
    kinds = np.zeros(len(shapes), np.uint8)
    params = np.full((len(shapes), 4), np.nan)
    boxes = np.full((len(shapes), fan_of(space), 4), np.nan)
    for i, shape in enumerate(shapes):
        if shape is None:
            kinds[i] = inside.RECTANGLE
            continue
        kinds[i], params[i] = _exact(shape, space, polygons)
        for k, box in enumerate(bounding_boxes(shape, space)):
            boxes[i, k] = box
    return kinds, params, boxes


def lay_out_around(
    centers: Floats, extents: Floats, polygons: Polygons
) -> tuple[NDArray[np.uint8], Floats, Floats]:
    """The same on the sphere around focal objects: extents are (r, NaN) or two sides."""
    shapes: list[Shape | None] = []
    for (x, y), (one, other) in zip(centers.tolist(), extents.tolist(), strict=True):
        if math.isnan(x):
            shapes.append(None)
        elif math.isnan(other):
            shapes.append(Circle(x, y, one))
        else:
            shapes.append(rectangle_around(Space.WGS84, x, y, one, other))
    return lay_out(shapes, Space.WGS84, polygons)


def _exact(
    shape: Shape, space: Space, polygons: Polygons
) -> tuple[int, tuple[float, float, float, float]]:
    sphere = space is Space.WGS84
    if isinstance(shape, Rectangle):
        kind = inside.SPHERE_RECTANGLE if sphere else inside.RECTANGLE
        return kind, (shape.x1, shape.y1, shape.x2, shape.y2)
    if isinstance(shape, Circle):
        reach = measure_of(space, shape.r)
        if sphere:
            return inside.SPHERE_CIRCLE, (*unit_vector(shape.x, shape.y), reach)
        return inside.CIRCLE, (shape.x, shape.y, reach, 0.0)
    kind = inside.SPHERE_POLYGON if sphere else inside.POLYGON
    return kind, (float(polygons.add(shape)), 0.0, 0.0, 0.0)


def bounding_boxes(shape: Shape, space: Space) -> list[tuple[float, float, float, float]]:
    """Boxes that together hold a shape; on the sphere within −180 to 180."""
    if isinstance(shape, Rectangle):
        box = (shape.x1, shape.y1, shape.x2, shape.y2)
    elif isinstance(shape, Circle):
        box = _around_circle(shape, space)
    else:
        xs = [x for ring in shape.rings for x, _ in ring]
        ys = [y for ring in shape.rings for _, y in ring]
        box = (min(xs), min(ys), max(xs), max(ys))
    return [box] if space is Space.PLANAR else _wrapped(*box)


def _around_circle(circle: Circle, space: Space) -> tuple[float, float, float, float]:
    if space is Space.PLANAR:
        reach = circle.r + SLACK * (abs(circle.x) + abs(circle.y) + circle.r)
        return circle.x - reach, circle.y - reach, circle.x + reach, circle.y + reach
    angle = circle.r / EARTH_RADIUS
    height = math.degrees(angle) + 1e-7
    south, north = circle.y - height, circle.y + height
    if south <= -90 or north >= 90 or angle >= math.pi / 2:
        return -180.0, max(south, -90.0), 180.0, min(north, 90.0)
    width = math.degrees(math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(circle.y)))))
    width += 1e-7 + SLACK * 360
    return circle.x - width, south, circle.x + width, north


def _wrapped(x1: float, y1: float, x2: float, y2: float) -> list[tuple[float, float, float, float]]:
    """A box of longitudes that may cross the antimeridian (x1 > x2) or count on past it."""
    if x1 > x2:
        return [(x1, y1, 180.0, y2), (-180.0, y1, x2, y2)]
    if x2 - x1 >= 360.0:
        return [(-180.0, y1, 180.0, y2)]
    if x2 > 180.0:
        return [(max(x1, -180.0), y1, 180.0, y2), (-180.0, y1, x2 - 360.0, y2)]
    if x1 < -180.0:
        return [(-180.0, y1, x2, y2), (x1 + 360.0, y1, 180.0, y2)]
    # 180 and −180 are one meridian: a box that reaches one of them holds the other too.
    if x2 == 180.0 and x1 > -180.0:
        return [(x1, y1, x2, y2), (-180.0, y1, -180.0, y2)]
    if x1 == -180.0 and x2 < 180.0:
        return [(x1, y1, x2, y2), (180.0, y1, 180.0, y2)]
    return [(x1, y1, x2, y2)]
