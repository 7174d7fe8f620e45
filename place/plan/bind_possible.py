"""Conditions that can never hold are refused: whoever wrote one meant another.

Only what is certain from the constants of conditions joined by AND is refused: bounds of one value
that leave nothing between them, and sizes below zero. A catalog that is read again is not asked,
so that what was accepted once stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from place.errors import StatementError
from place.plan.expression import Call, Compare, Constant, Distance, Expression, In, show
from place.sql.limits import NONE, current
from place.sql.statements import Position, wrong

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_SIZES = ("ABS", "LENGTH")

Placed = tuple[Expression, Position | None]
"""A condition, and where it was written."""


@dataclass(frozen=True)
class Bound:
    """The least or the greatest that a value may be; None wrote it where it lies in its nature."""

    value: Any
    is_strict: bool
    condition: Expression | None


def check_possible(conditions: Iterable[Placed]) -> None:
    """Raise a StatementError if conditions that must all be true cannot be."""
    if current() is NONE:
        return
    lows: dict[Expression, Bound] = {}
    highs: dict[Expression, Bound] = {}
    for condition, at in conditions:
        for subject, op, value in _bounds(condition):
            bound = Bound(value, op in "<>", condition)
            if _is_size(subject):
                lows.setdefault(subject, Bound(0, False, None))
            if op != "<" and op != "<=":
                lows[subject] = _tighter(lows.get(subject), bound, 1)
            if op != ">" and op != ">=":
                highs[subject] = _tighter(highs.get(subject), bound, -1)
            low, high = lows.get(subject), highs.get(subject)
            if low is not None and high is not None and _is_empty(low, high):
                raise _never(subject, low, high, at)


def _bounds(condition: Expression) -> Iterator[tuple[Expression, str, Any]]:
    """What a condition says of values, each with an operator and a constant."""
    if isinstance(condition, Compare) and condition.op in _FLIPPED:
        left, right = condition.left, condition.right
        if isinstance(left, Constant) == isinstance(right, Constant):
            return
        if isinstance(right, Constant) and right.value is not None:
            yield left, condition.op, right.value
        elif isinstance(left, Constant) and left.value is not None:
            yield right, _FLIPPED[condition.op], left.value
    elif isinstance(condition, In) and all(isinstance(v, Constant) for v in condition.values):
        values = [v.value for v in condition.values if isinstance(v, Constant)]
        known: list[Any] = [value for value in values if value is not None]
        if known and not isinstance(condition.operand, Constant):
            yield condition.operand, ">=", min(known)
            yield condition.operand, "<=", max(known)


def _is_size(subject: Expression) -> bool:
    return isinstance(subject, Distance) or (
        isinstance(subject, Call) and subject.function in _SIZES and subject.type.is_numeric
    )


def _tighter(known: Bound | None, bound: Bound, sign: int) -> Bound:
    if known is None or bound.value == known.value:
        return bound if known is None or bound.is_strict else known
    is_greater = bound.value > known.value
    return bound if is_greater == (sign > 0) else known


def _is_empty(low: Bound, high: Bound) -> bool:
    return bool(
        low.value > high.value or (low.value == high.value and (low.is_strict or high.is_strict))
    )


def _never(subject: Expression, low: Bound, high: Bound, at: Position | None) -> StatementError:
    if low.condition is None and high.condition is not None:
        return wrong(
            f"{show(high.condition)} can never be true",
            at,
            expected=f"{show(subject)} to be compared with a number that is not negative",
            hint="no size and no distance is less than 0",
        )
    both = [show(bound.condition) for bound in (low, high) if bound.condition is not None]
    said = " AND ".join(dict.fromkeys(both))
    return wrong(
        f"{said} can never be true",
        at,
        expected="conditions that some value fulfils",
        hint="BETWEEN has its smaller bound first; write OR where one condition is enough",
    )
