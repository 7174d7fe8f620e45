"""Conditions between sources as sides of boxes (Spatial Join CQ, sections 4 and 5).

A combination grows by one source after the other. Each condition that compares an expression of
what is there with an expression of the source that comes is a side of a box: equality a side
without width, `<` a half-line, a DISTANCE the sides around a place, a CPA those around a way. One
of the two is the point and the other the box. A box holds at least all points for which its
conditions are true; those that it does not decide exactly are asked again of what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.approach_sides import MARGIN, ApproachSides, Horizon, approach_of, hulls_of
from place.engine.columns import Columns, Dictionary
from place.engine.vector import evaluate_all
from place.kernels.arrays import Floats
from place.kernels.inside import unit_vectors
from place.model.space import EARTH_RADIUS, Space
from place.model.types import Type
from place.plan.expression import Call, Compare, Distance, Expression, sources_of

EXACT_INTEGERS = 2.0**53
FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Bound:
    """`point op expression`, where the expression is the box's."""

    op: str
    expression: Expression


@dataclass(frozen=True)
class Interval:
    """A side over one expression of the point."""

    point: Expression
    bounds: tuple[Bound, ...]

    width = 1

    @property
    def of_point(self) -> tuple[Expression, ...]:
        """What a point reads."""
        return (self.point,)

    @property
    def of_box(self) -> tuple[Expression, ...]:
        """What a box reads."""
        return tuple(bound.expression for bound in self.bounds)


@dataclass(frozen=True)
class NearSides:
    """The sides around a place: two in the plane, three between unit vectors on the sphere."""

    point: tuple[Expression, Expression]
    box: tuple[Expression, Expression]
    radius: Expression
    space: Space

    @property
    def width(self) -> int:
        return 2 if self.space is Space.PLANAR else 3

    @property
    def of_point(self) -> tuple[Expression, ...]:
        """What a point reads."""
        return self.point

    @property
    def of_box(self) -> tuple[Expression, ...]:
        """What a box reads."""
        return (*self.box, self.radius)


Part = Interval | NearSides | ApproachSides


@dataclass(frozen=True)
class JoinSides:
    """How a source is found: its elements are boxes, or points; `decided` are the conditions that
    boxes decide as long as whole numbers are below 2**53."""

    new_is_box: bool
    parts: tuple[Part, ...]
    decided: frozenset[Expression]

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @property
    def is_near(self) -> bool:
        """Are they of places, or ways, that are near each other?"""
        return any(not isinstance(part, Interval) for part in self.parts)

    @property
    def ahead(self) -> int:
        """The longest time that ways are followed ahead; 0 without ways."""
        return max((p.ahead for p in self.parts if isinstance(p, ApproachSides)), default=0)

    @property
    def has_equality(self) -> bool:
        return any(
            bound.op == "="
            for part in self.parts
            if isinstance(part, Interval)
            for bound in part.bounds
        )


def sides_of(conditions: Sequence[Expression], bound: frozenset[int], new: int) -> JoinSides:
    """The sides between what is there and a source that comes, by the better of the two ways."""
    one, other = (_sides(conditions, bound, new, is_box) for is_box in (True, False))
    if len(one.decided) != len(other.decided):
        return one if len(one.decided) > len(other.decided) else other
    return one if one.width < other.width else other


def _sides(
    conditions: Sequence[Expression], bound: frozenset[int], new: int, new_is_box: bool
) -> JoinSides:
    points, boxes = (bound, frozenset((new,))) if new_is_box else (frozenset((new,)), bound)
    intervals: dict[Expression, list[Bound]] = {}
    around: list[NearSides | ApproachSides] = []
    decided: set[Expression] = set()
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.op not in FLIPPED:
            continue
        for left, op, right in (
            (condition.left, condition.op, condition.right),
            (condition.right, FLIPPED[condition.op], condition.left),
        ):
            if op in ("<", "<="):
                near = _around(left, right, points, boxes)
                if near is not None:
                    around.append(near)
                    break
            if (
                sources_of(left)
                and sources_of(right)
                and sources_of(left) <= points
                and sources_of(right) <= boxes
                and _is_comparable(left, op, right)
            ):
                intervals.setdefault(left, []).append(Bound(op, right))
                decided.add(condition)
                break
    parts = [Interval(point, tuple(bounds)) for point, bounds in intervals.items()]
    return JoinSides(new_is_box, (*around, *parts), frozenset(decided))


def _is_comparable(left: Expression, op: str, right: Expression) -> bool:
    """Do numbers tell how two values compare? Those of texts tell only whether they are equal."""
    kinds = {left.type, right.type}
    if Type.STRING in kinds:
        return op == "=" and kinds == {Type.STRING}
    return Type.NULL not in kinds


def _around(
    length: Expression, radius: Expression, points: frozenset[int], boxes: frozenset[int]
) -> NearSides | ApproachSides | None:
    """The sides around a place or a way, if a length is between two of them."""
    if isinstance(length, Distance):
        return _circle(length, radius, points, boxes)
    if isinstance(length, Call):
        return approach_of(length, radius, points, boxes)
    return None


def _circle(
    distance: Distance, radius: Expression, points: frozenset[int], boxes: frozenset[int]
) -> NearSides | None:
    one, other = (distance.ax, distance.ay), (distance.bx, distance.by)
    if not sources_of(radius) <= boxes or not radius.type.is_numeric:
        return None
    for point, box in ((one, other), (other, one)):
        of_point = sources_of(point[0]) | sources_of(point[1])
        of_box = sources_of(box[0]) | sources_of(box[1])
        if of_point and of_box and of_point <= points and of_box <= boxes:
            return NearSides(point, box, radius, distance.space)
    return None


@dataclass(frozen=True)
class SidePoints:
    """Places of elements in the space of the sides; `is_exact` if numbers are those compared."""

    places: Floats
    is_exact: bool


@dataclass(frozen=True)
class SideBoxes:
    """SideBoxes of elements in the space of the sides."""

    low: Floats
    high: Floats
    is_exact: bool


Rows = Sequence[Columns | None]


def points_of(
    sides: JoinSides,
    rows: Rows,
    size: int,
    dictionary: Dictionary,
    horizon: Horizon | None = None,
) -> SidePoints:
    """Where rows are in the space of the sides."""
    found: list[Floats] = []
    exact = True
    for part in sides.parts:
        if isinstance(part, NearSides):
            found += places_of(part.space, part.point, rows, size, dictionary)
        elif isinstance(part, ApproachSides):
            low, high = hulls_of(part, part.point, None, rows, size, dictionary, horizon)
            found += low + high
        else:
            values, is_exact = _numbers(part.point, rows, size, dictionary)
            exact &= is_exact
            found.append(values)
    return SidePoints(_stacked(found, size), exact)


def boxes_of_rows(
    sides: JoinSides,
    rows: Rows,
    size: int,
    dictionary: Dictionary,
    horizon: Horizon | None = None,
) -> SideBoxes:
    """The boxes of rows in the space of the sides."""
    lows: list[Floats] = []
    highs: list[Floats] = []
    exact = True
    for part in sides.parts:
        if isinstance(part, NearSides):
            reach = _numbers(part.radius, rows, size, dictionary)[0]
            places = places_of(part.space, part.box, rows, size, dictionary)
            reach = np.where(reach < 0, np.nan, reach)  # nothing is nearer than nothing
            if part.space is Space.WGS84:
                reach = 2 * np.sin(np.minimum(reach / (2 * EARTH_RADIUS), np.pi / 2))
            for place in places:
                wide = reach + (np.abs(place) + reach) * MARGIN
                lows.append(place - wide)
                highs.append(place + wide)
            continue
        if isinstance(part, ApproachSides):
            reach = _numbers(part.radius, rows, size, dictionary)[0]
            first, last = hulls_of(part, part.box, reach, rows, size, dictionary, horizon)
            # The least of a point is not beyond the greatest of the box, nor the other way round.
            lows += [np.where(np.isnan(end), np.nan, -np.inf) for end in last] + first
            highs += last + [np.where(np.isnan(end), np.nan, np.inf) for end in first]
            continue
        low, high = np.full(size, -np.inf), np.full(size, np.inf)
        for bound in part.bounds:
            values, is_exact = _numbers(bound.expression, rows, size, dictionary)
            exact &= is_exact
            if bound.op in ("<", ">"):
                # A whole number beyond 2**53 that meets the bound may have been rounded to it, so
                # such a bound stays within the box, and the condition is asked once more.
                small = np.abs(values) < EXACT_INTEGERS
                exact &= bool((small | np.isnan(values)).all())
                beyond = np.nextafter(values, np.inf if bound.op == ">" else -np.inf)
                values = np.where(small, beyond, values)
            if bound.op in ("=", ">", ">="):
                low = np.maximum(low, values)
            if bound.op in ("=", "<", "<="):
                high = np.minimum(high, values)
        lows.append(low)
        highs.append(high)
    return SideBoxes(_stacked(lows, size), _stacked(highs, size), exact)


def _stacked(columns: list[Floats], size: int) -> Floats:
    return np.stack(columns, axis=1) if columns else np.zeros((size, 0))


def _numbers(
    expression: Expression, rows: Rows, size: int, dictionary: Dictionary
) -> tuple[Floats, bool]:
    """An expression as numbers, NaN where it is NULL, and whether none of them was rounded."""
    found = evaluate_all(expression, rows, size, dictionary)
    numbers = found.values.astype(np.float64, copy=False)
    is_exact = expression.type in (Type.DOUBLE, Type.STRING, Type.BOOLEAN) or bool(
        (np.abs(numbers) < EXACT_INTEGERS).all()
    )
    if found.nulls.any():
        numbers = np.where(found.nulls, np.nan, numbers)
    return numbers, is_exact


def places_of(
    space: Space,
    place: tuple[Expression, Expression],
    rows: Rows,
    size: int,
    dictionary: Dictionary,
) -> list[Floats]:
    """Where rows are, by the expressions of a place: x and y, or a unit vector."""
    x, y = (_numbers(part, rows, size, dictionary)[0] for part in place)
    if space is Space.PLANAR:
        return [x, y]
    vectors = unit_vectors(x, y)
    vectors[np.isnan(x) | np.isnan(y)] = np.nan
    return [np.ascontiguousarray(vectors[:, k]) for k in range(3)]
