"""Ways as boxes: an object that goes from one place to another meets a region only if the box of
its way meets a box of the region.

A way is straight, so its box is that of its two ends. On the sphere it goes the shorter way round
and may count on past 180; regions are there three times, 360 degrees apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from place.engine.layout import bounding_boxes
from place.engine.tick_readings import TickReadings
from place.engine.versions import Versions
from place.kernels.arrays import Floats, Longs
from place.kernels.paths import boxes_of_ways, places_ahead
from place.model.path import edges_of
from place.model.shape import Circle, Shape
from place.model.space import Space
from place.plan.expression import And, Column, Crossing, Expression, IsNull, Not, Or, Sweeps

MARGIN = 1e-9
"""By which part of itself a box is widened, far more than rounding can take away."""
MOST_BOXES = 32
AreaBox = tuple[float, float, float, float]


class Way(NamedTuple):
    """The columns that say where objects were and are, and how long ago they were there. With a
    time `ahead`, the way leads from where they are to where they will be by then."""

    before_x: int
    before_y: int
    x: int
    y: int
    since: int
    ahead: int | None
    space: Space


class WayBoxes(NamedTuple):
    """A way that meets one of some boxes wherever a condition is true."""

    way: Way
    boxes: tuple[AreaBox, ...]


def way_boxes_of(condition: Expression | None, source: int) -> WayBoxes | None:
    """The boxes that the way of an object has to meet for a condition to be true, if it asks for
    any."""
    match condition:
        case Sweeps(
            before_x=Column(source=number) as before_x,
            before_y=Column() as before_y,
            x=Column() as x,
            y=Column() as y,
            since=Column() as since,
            area=area,
            space=space,
            ahead=ahead,
        ) if number == source:
            last = -1 if ahead is None else since.index
            way = Way(before_x.index, before_y.index, x.index, y.index, last, ahead, space)
            return WayBoxes(way, _turned(_boxes_of_area(area, space), space))
        case Not(
            operand=IsNull(
                operand=Crossing(
                    before_x=Column(source=number) as before_x,
                    before_y=Column() as before_y,
                    x=Column() as x,
                    y=Column() as y,
                    line=line,
                    space=space,
                )
            )
        ) if number == source:
            way = Way(before_x.index, before_y.index, x.index, y.index, -1, None, space)
            return WayBoxes(way, _turned([_hull(line)], space))
        case And(operands=operands):
            found = (way_boxes_of(part, source) for part in operands)
            return next((one for one in found if one is not None), None)
        case Or(operands=operands):
            parts = [way_boxes_of(part, source) for part in operands]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts) or len({part.way for part in known}) != 1:
                return None
            boxes = tuple(box for part in known for box in part.boxes)
            return WayBoxes(known[0].way, boxes) if len(boxes) <= MOST_BOXES else None
        case _:
            return None


def _boxes_of_area(area: Shape, space: Space) -> list[AreaBox]:
    """Boxes that hold a region and all that its edges reach."""
    found = bounding_boxes(area, space)
    if isinstance(area, Circle) or space is Space.PLANAR:
        return found
    edges = edges_of(area)
    return [*found, _hull([end for x1, y1, x2, y2 in edges for end in ((x1, y1), (x2, y2))])]


def _hull(points: Iterable[tuple[float, float]]) -> AreaBox:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _turned(boxes: Iterable[AreaBox], space: Space) -> tuple[AreaBox, ...]:
    """The boxes a little wider; on the sphere also a turn to the west and one to the east."""
    found = []
    for x1, y1, x2, y2 in boxes:
        reach = MARGIN * max(abs(x1), abs(y1), abs(x2), abs(y2))
        if space is Space.WGS84:
            reach = 1e-6
        for turn in (0.0,) if space is Space.PLANAR else (0.0, -360.0, 360.0):
            found.append((x1 - reach + turn, y1 - reach, x2 + reach + turn, y2 + reach))
    return tuple(found)


def boxes_of(way: Way, rows: Versions | TickReadings, ids: Longs) -> Floats:
    """The boxes of the ways of versions, or readings; NaN where there is no object or place."""
    picked = rows.pick(ids, (way.before_x, way.before_y, way.x, way.y))
    before_x, before_y, x, y = (picked.numbers(k) for k in range(4))
    is_new = np.isnan(before_x) | np.isnan(before_y)
    before_x[is_new], before_y[is_new] = x[is_new], y[is_new]
    if isinstance(rows, Versions):
        x[~rows.alive(ids)] = np.nan
    sphere = way.space is Space.WGS84
    ends = (before_x, before_y, x, y)
    if way.ahead is not None:
        times = rows.pick(ids, (way.since,))
        since = np.where(times.nulls[0], 0, times.values[0]).astype(np.int64)
        ends = (x, y, *places_ahead(*ends, since, way.ahead, sphere))
    found: Floats = boxes_of_ways(*ends, sphere, MARGIN)
    return found
