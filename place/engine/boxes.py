"""Conditions as boxes: WHERE in disjunctive normal form over the attributes (Spatial Join CQ).

A continuous query is a region in the space of all attributes, a reading is a point in it. A
comparison with a constant is an interval of its column; equality with a text is an interval of
one code. Every box holds at least all points for which the condition is true. Where it holds no
others it is exact; otherwise the condition is asked again of the candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from place.engine.columns import Dictionary
from place.engine.layout import bounding_boxes
from place.model.shape import Circle, Rectangle
from place.model.space import METRES_PER_DEGREE, Space
from place.model.types import Type
from place.plan.expression import (
    And,
    Column,
    Compare,
    Constant,
    Expression,
    In,
    IsTruth,
    Lies,
    Near,
    Not,
    Or,
)

Interval = tuple[float, float]
Box = dict[int, Interval]

MOST_BOXES = 32
EXACT_INTEGERS = 2.0**53

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Boxes:
    """Any of the boxes may hold a point for which the condition is true."""

    boxes: tuple[Box, ...]
    exact: bool


ANYTHING = Boxes(({},), False)
EVERYTHING = Boxes(({},), True)
NOTHING = Boxes((), True)


def boxes_of(
    condition: Expression | None, source: int, dictionary: Dictionary, positive: bool = True
) -> Boxes:
    """The boxes of the points of a source for which a condition is true (or false)."""
    match condition:
        case None:
            return EVERYTHING
        case Constant(value=bool() as value):
            return EVERYTHING if value is positive else NOTHING
        case Constant(value=None):
            return NOTHING
        case Not(operand=operand):
            return boxes_of(operand, source, dictionary, not positive)
        case IsTruth(operand=operand, value=value) if positive:
            return boxes_of(operand, source, dictionary, value)
        case And(operands=operands) | Or(operands=operands):
            parts = [boxes_of(part, source, dictionary, positive) for part in operands]
            if isinstance(condition, And) == positive:
                return _all_of(parts)
            return _any_of(parts)
        case Column(source=number, index=index, type=Type.BOOLEAN) if number == source:
            code = 1.0 if positive else 0.0
            return Boxes(({index: (code, code)},), True)
        case Compare(op=op, left=left, right=right):
            if isinstance(left, Constant):
                left, right, op = right, left, _FLIPPED[op]  # type: ignore[assignment]
            if isinstance(left, Column) and isinstance(right, Constant) and left.source == source:
                return _interval(left, op if positive else _OPPOSITE[op], right, dictionary)
            return ANYTHING
        case Lies(x=Column(source=number) as x, y=Column() as y) if number == source and positive:
            return _around(condition, x.index, y.index)
        case Near(x=Column(source=number) as x, y=Column() as y) if number == source and positive:
            return _beside(condition, x.index, y.index)
        case In(operand=Column(source=number) as column, values=values) if number == source:
            if not positive or not all(isinstance(value, Constant) for value in values):
                return ANYTHING
            return _any_of([_interval(column, "=", v, dictionary) for v in values])  # type: ignore[arg-type]
        case _:
            return ANYTHING


def _around(condition: Lies, x: int, y: int) -> Boxes:
    """The boxes that hold a region; of a rectangle in the plane, the region itself."""
    found = bounding_boxes(condition.area, condition.space)
    exact = condition.space is Space.PLANAR and isinstance(condition.area, Rectangle)
    boxes: list[Box] = [{x: (x1, x2), y: (y1, y2)} for x1, y1, x2, y2 in found]
    return Boxes(tuple(boxes), exact)


def _beside(condition: Near, x: int, y: int) -> Boxes:
    """Boxes that hold all places that are near a region. On the sphere those of a polygon or a
    rectangle are bounded by their latitudes alone."""
    area, far = condition.area, condition.distance
    if isinstance(area, Circle):
        found = bounding_boxes(Circle(area.x, area.y, area.r + far), condition.space)
        return Boxes(tuple({x: (x1, x2), y: (y1, y2)} for x1, y1, x2, y2 in found), False)
    boxes: list[Box] = []
    for x1, y1, x2, y2 in bounding_boxes(area, condition.space):
        size = max(abs(x1), abs(y1), abs(x2), abs(y2), far)
        if condition.space is Space.PLANAR:
            reach = far + 1e-9 * size
            boxes.append({x: (x1 - reach, x2 + reach), y: (y1 - reach, y2 + reach)})
        else:
            height = far / METRES_PER_DEGREE + 1e-6
            boxes.append({y: (y1 - height, y2 + height)})
    return Boxes(tuple(boxes), False)


def _all_of(parts: list[Boxes]) -> Boxes:
    found: tuple[Box, ...] = ({},)
    exact = True
    for part in parts:
        if len(found) * max(len(part.boxes), 1) > MOST_BOXES:
            exact = False  # leave this part to the candidates
            continue
        met = (_met(one, other) for one in found for other in part.boxes)
        found = tuple(box for box in met if box is not None)
        exact = exact and part.exact
    return Boxes(found, exact)


def _any_of(parts: list[Boxes]) -> Boxes:
    found = tuple(box for part in parts for box in part.boxes)
    if len(found) > MOST_BOXES:
        return ANYTHING
    return Boxes(found, all(part.exact for part in parts))


def _met(one: Box, other: Box) -> Box | None:
    box = dict(one)
    for column, (low, high) in other.items():
        if column in box:
            low, high = max(low, box[column][0]), min(high, box[column][1])
        if low > high:
            return None
        box[column] = (low, high)
    return box


def _interval(column: Column, op: str, constant: Constant, dictionary: Dictionary) -> Boxes:
    """The interval of a comparison with a constant. Bounds are closed: `> 20` starts just above."""
    value = constant.value
    if value is None:
        return NOTHING
    if column.type is Type.STRING:
        if op != "=":
            return ANYTHING
        code = float(dictionary.code(str(value)))
        return Boxes(({column.index: (code, code)},), True)
    number = float(value)
    whole = column.type is not Type.DOUBLE
    exact = abs(number) < EXACT_INTEGERS or (not whole and isinstance(value, float))
    bounds = {
        "=": (number, number),
        "<": (-math.inf, _below(number, whole)),
        "<=": (-math.inf, math.floor(number) if whole else number),
        ">": (_above(number, whole), math.inf),
        ">=": (math.ceil(number) if whole else number, math.inf),
    }
    if op == "<>" or not exact:
        return ANYTHING
    low, high = bounds[op]
    return Boxes(({column.index: (float(low), float(high))},) if low <= high else (), True)


def _below(number: float, whole: bool) -> float:
    return math.ceil(number) - 1 if whole else math.nextafter(number, -math.inf)


def _above(number: float, whole: bool) -> float:
    return math.floor(number) + 1 if whole else math.nextafter(number, math.inf)
