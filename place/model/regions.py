"""The rows of a query table as regions: which columns hold them, and what shape they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from place.model.shape import (
    Circle,
    Rectangle,
    Shape,
    ShapeError,
    parse_wkt,
    rectangle_around,
    settle,
)
from place.model.space import Space

LAYOUTS: tuple[tuple[str, ...], ...] = (
    ("region",),
    ("focal", "xdist", "ydist"),
    ("focal", "r"),
    ("x1", "y1", "x2", "y2"),
    ("x", "y", "r"),
)
"""The columns that hold a region. A table that fits several is read by the first of them."""


def region_of(
    layout: tuple[str, ...],
    values: Sequence[Any],
    space: Space,
    position: Callable[[Any], tuple[float, float] | None],
) -> Shape | None:
    """The region that a row's values make; None where one is NULL or its focal object is gone.

    `position` tells where a focal object is. A ShapeError says why the values make no region.
    """
    if any(value is None for value in values):
        return None
    if layout == ("region",):
        return settle(parse_wkt(values[0]), space)
    if layout[0] != "focal":
        numbers = [float(value) for value in values]
        return settle(Rectangle(*numbers) if len(numbers) == 4 else Circle(*numbers), space)
    extents = [float(value) for value in values[1:]]
    if min(extents) < 0:
        raise ShapeError(f"a length cannot be negative: {min(extents):g}")
    center = position(values[0])
    return None if center is None else around(space, center, extents)


def around(space: Space, center: tuple[float, float], extents: Sequence[float]) -> Shape:
    """The region of a moving query: a circle of one extent, or a rectangle of two."""
    if len(extents) == 1:
        return Circle(*center, extents[0])
    return rectangle_around(space, *center, *extents)
