"""Regions as arrays: the boxes by which an index finds them, and the numbers of their exact test.

A box holds at least all of its shape. In the plane a shape has one box, and a rectangle is its own;
on the sphere it has two, because it may lie on both sides of the antimeridian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from place.engine.columns import Columns
from place.kernels import inside
from place.kernels.arrays import Bytes, Floats, Longs
from place.kernels.moving_regions import (
    SLACK,
    lay_around,
    lay_around_sphere,
    lay_rectangles_sphere,
)
from place.model.regions import region_of
from place.model.shape import Circle, Polygon, Rectangle, Shape, ShapeError
from place.model.space import EARTH_RADIUS, Space, measure_of, unit_vector


class Laid(NamedTuple):
    """Regions as arrays: kinds and exact numbers (n × 4) of each, and its boxes (n × fan × 4)."""

    kinds: Bytes
    params: Floats
    boxes: Floats

    @staticmethod
    def nowhere(count: int, space: Space) -> Laid:
        """Regions that hold nothing."""
        return Laid(
            np.full(count, inside.RECTANGLE, np.uint8),
            np.full((count, 4), np.nan),
            np.full((count, fan_of(space), 4), np.nan),
        )


class Polygons:
    """The rings of polygons in one array, by the polygon's number."""

    def __init__(self) -> None:
        self._polygons: list[Polygon | None] = []
        self._free: list[int] = []
        self._arrays: tuple[Floats, Longs, Longs] | None = None

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

    def keep(self, used: set[int]) -> None:
        """Only these polygons are needed any more."""
        gone = [
            number
            for number, polygon in enumerate(self._polygons)
            if polygon is not None and number not in used
        ]
        for number in gone:
            self._polygons[number] = None
        self._free += gone
        if gone:
            self._arrays = None

    def arrays(self) -> tuple[Floats, Longs, Longs]:
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


def lay_out(shapes: Sequence[Shape | None], space: Space, polygons: Polygons) -> Laid:
    """Shapes that stay where they are."""
    if len(shapes) > 1 and all(isinstance(shape, Rectangle) for shape in shapes):
        corners = np.array([(s.x1, s.y1, s.x2, s.y2) for s in shapes])  # type: ignore[union-attr]
        return _lay_out_corners(list(corners.T), space)
    if len(shapes) > 1 and all(isinstance(shape, Circle) for shape in shapes):
        circles = np.array([(s.x, s.y, s.r) for s in shapes])  # type: ignore[union-attr]
        extents = np.stack([circles[:, 2], np.full(len(shapes), np.nan)], axis=1)
        return lay_out_around(np.ascontiguousarray(circles[:, :2]), extents, space)
    laid = Laid.nowhere(len(shapes), space)
    for i, shape in enumerate(shapes):
        if shape is not None:
            laid.kinds[i], laid.params[i] = _exact(shape, space, polygons)
            for k, box in enumerate(bounding_boxes(shape, space)):
                laid.boxes[i, k] = box
    return laid


def lay_out_around(centers: Floats, extents: Floats, space: Space) -> Laid:
    """Regions around points: extents are (r, NaN) or two sides; NaN is nowhere."""
    every = np.arange(len(centers))
    laid = Laid.nowhere(len(centers), space)
    if space is Space.WGS84:
        lay_around_sphere(every, every, centers, extents, laid.boxes, laid.kinds, laid.params)
    else:
        lay_around(every, every, centers, extents, laid.boxes[:, 0, :], laid.kinds, laid.params)
    return laid


def lay_out_rows(
    layout: tuple[str, ...],
    columns: tuple[int, ...],
    rows: Columns,
    space: Space,
    polygons: Polygons,
) -> Laid:
    """The regions that rows of a query table hold, which follow no focal object.

    A stream may send what is no region; it then has none.
    """
    if layout == ("x1", "y1", "x2", "y2"):
        return _lay_out_corners([rows.numbers(c) for c in columns], space)
    if layout == ("x", "y", "r"):
        x, y, r = (rows.numbers(c) for c in columns)
        bad = np.isnan(x + y + r) | (r < 0)
        if space is Space.WGS84:
            bad |= (np.abs(y) > 90) | (np.abs(x) > 180)
        centers = np.stack([x, y], axis=1)
        centers[bad] = np.nan
        return lay_out_around(centers, np.stack([r, np.full(len(r), np.nan)], axis=1), space)
    known: dict[object, Shape | None] = {}
    shapes: list[Shape | None] = []
    for values in zip(*(rows.plain(c, np.arange(len(rows))) for c in columns), strict=True):
        if values not in known:
            try:
                known[values] = region_of(layout, values, space, lambda _: None)
            except ShapeError:
                known[values] = None
        shapes.append(known[values])
    return lay_out(shapes, space, polygons)


def _lay_out_corners(corners: list[Floats], space: Space) -> Laid:
    x1, y1, x2, y2 = corners
    bad = np.isnan(x1 + y1 + x2 + y2)
    low, high = np.minimum(y1, y2), np.maximum(y1, y2)
    if space is Space.PLANAR:
        box = np.stack([np.minimum(x1, x2), low, np.maximum(x1, x2), high], axis=1)
        box[bad] = np.nan
        return Laid(np.full(len(x1), inside.RECTANGLE, np.uint8), box, box[:, None, :])
    for longitudes, latitudes in ((x1, y1), (x2, y2)):
        bad |= (np.abs(latitudes) > 90) | (np.abs(longitudes) > 180)
    box = np.stack([x1, low, x2, high], axis=1)
    box[bad] = np.nan
    laid = Laid.nowhere(len(x1), space)
    lay_rectangles_sphere(np.arange(len(x1)), box, laid.boxes, laid.kinds, laid.params)
    return laid


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
