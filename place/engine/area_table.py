"""Regions and lines by number, laid out once: so that many of them are asked about together.

Queries that differ only in their areas have one condition, and their areas are constants of it:
texts, as all constants that are not numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from place.engine.columns import Dictionary
from place.engine.layout import Polygons, lay_out
from place.engine.multiset import longer
from place.kernels import inside
from place.kernels.arrays import Bytes, Floats, Longs
from place.model.path import Edge, edges_of, edges_of_line, scales
from place.model.shape import Circle, Point, Polygon, Rectangle, Shape
from place.model.space import Space

Line = tuple[Point, ...]
NO_CIRCLE = (np.nan,) * 5


class LaidAreas(NamedTuple):
    """Areas as arrays: what tells who is inside, the edges of each, and the circles among them:
    centre, radius, and what a step east and north is worth there."""

    shapes: tuple[Bytes, Floats, Floats, Longs, Longs]
    edges: Floats
    edge_starts: Longs
    circles: Floats


class AreaTable:
    """The areas that conditions of one dictionary ask about."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Shape | Line, Space], int] = {}
        self._of_codes = np.full(16, -1, np.int64)
        self._polygons = Polygons()
        self._kinds, self._params = np.zeros(16, np.uint8), np.full((16, 4), np.nan)
        self._circles = np.full((16, 5), np.nan)
        self._edges, self._starts = np.zeros((16, 4)), np.zeros(17, np.int64)

    def number(self, area: Shape | Line, space: Space) -> int:
        """The number of a region or a line."""
        found = self._numbers.get((area, space))
        if found is None:
            found = self._numbers[area, space] = len(self._numbers)
            self._lay_out(found, area, space)
        return found

    def numbers(self, codes: Longs, texts: list[str]) -> Longs:
        """The numbers of areas that are given by the codes of their texts."""
        if len(codes) and int(codes.max()) >= len(self._of_codes):
            self._of_codes = longer(self._of_codes, int(codes.max()) + 1, -1)
        found = self._of_codes[codes]
        if (found < 0).any():
            for code in np.unique(codes[found < 0]).tolist():
                self._of_codes[code] = self.number(*area_of(texts[code]))
            found = self._of_codes[codes]
        return found

    def laid(self) -> LaidAreas:
        """All areas as arrays."""
        shapes = (self._kinds, self._params, *self._polygons.arrays())
        return LaidAreas(shapes, self._edges, self._starts, self._circles)

    def _lay_out(self, number: int, area: Shape | Line, space: Space) -> None:
        self._kinds = longer(self._kinds, number + 1)
        self._params = longer(self._params, number + 1)
        self._circles = longer(self._circles, number + 1)
        self._starts = longer(self._starts, number + 2)
        self._kinds[number], self._params[number] = inside.RECTANGLE, np.nan
        self._circles[number] = NO_CIRCLE
        edges: list[Edge] = []
        if isinstance(area, Circle):
            self._circles[number] = (area.x, area.y, area.r, *scales(space, area.y))
        else:
            edges = edges_of_line(area) if isinstance(area, tuple) else edges_of(area)
        if not isinstance(area, tuple):
            laid = lay_out([area], space, self._polygons)
            self._kinds[number], self._params[number] = laid.kinds[0], laid.params[0]
        start = int(self._starts[number])
        end = self._starts[number + 1] = start + len(edges)
        self._edges = longer(self._edges, int(end))
        if edges:
            self._edges[start:end] = edges


_TABLES: WeakKeyDictionary[Dictionary, AreaTable] = WeakKeyDictionary()


def areas_of(dictionary: Dictionary) -> AreaTable:
    """The areas whose texts a dictionary has codes of."""
    return _TABLES.setdefault(dictionary, AreaTable())


def text_of(area: Shape | Line, space: Space) -> str:
    """A region or a line as a text, from which it can be had back.

    >>> area_of(text_of(Circle(0.1, 2.0, 3.0), Space.PLANAR))
    (Circle(x=0.1, y=2.0, r=3.0), <Space.PLANAR: 'planar'>)
    """
    numbers: object
    match area:
        case Rectangle(x1=x1, y1=y1, x2=x2, y2=y2):
            kind, numbers = "rectangle", (x1, y1, x2, y2)
        case Circle(x=x, y=y, r=r):
            kind, numbers = "circle", (x, y, r)
        case Polygon(rings=rings):
            kind, numbers = "polygon", rings
        case _:
            kind, numbers = "line", area
    return json.dumps([space.value, kind, numbers])


def area_of(text: str) -> tuple[Shape | Line, Space]:
    """The region or line of a text."""
    space, kind, numbers = json.loads(text)
    made: dict[str, Callable[[], Shape | Line]] = {
        "rectangle": lambda: Rectangle(*numbers),
        "circle": lambda: Circle(*numbers),
        "polygon": lambda: Polygon(tuple(tuple(map(tuple, ring)) for ring in numbers)),
        "line": lambda: tuple((x, y) for x, y in numbers),
    }
    return made[kind](), Space(space)
