"""Constants taken out of expressions, so that queries that differ only in these have one shape.

The areas that places and ways are asked about are constants, too, where that is worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from place.engine.area_questions import question_of
from place.engine.area_table import text_of
from place.model.types import Type, Value
from place.plan.expression import (
    Call,
    Column,
    Constant,
    Crossing,
    Expression,
    In,
    Lies,
    Near,
    Sweeps,
    children,
)


class Abstraction:
    """Takes the constants out of expressions: they become columns of the source `width`."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.constants: list[Value] = []
        self.kinds: list[Type] = []

    def of(self, expression: Expression) -> Expression:
        """The expression with columns in the place of its constants."""
        if isinstance(expression, Constant):
            if not _may_vary(expression):
                return expression
            self.constants.append(expression.value)
            self.kinds.append(expression.type)
            index = len(self.constants) - 1
            return Column(self._width, index, expression.type, f"constant {index}")
        if isinstance(expression, In):  # a list of constants is looked up as a whole
            return replace(expression, operand=self.of(expression.operand))
        return _with_children(expression, self.of)

    def with_areas(self, expression: Expression) -> Expression:
        """The expression with columns in the place of its constants and its areas."""
        return self.of(_areas_out(expression))

    def of_all(self, expressions: Sequence[Expression]) -> tuple[Expression, ...]:
        return tuple(self.of(expression) for expression in expressions)


VARYING = (Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP, Type.INTERVAL)


def _may_vary(constant: Constant) -> bool:
    value = constant.value
    if value is None or constant.type not in VARYING:
        return False
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _with_children(expression: Expression, make: Callable[[Expression], Expression]) -> Expression:
    """The expression over what is made of those directly within it."""
    changes: dict[str, Any] = {}
    for name in ("left", "right", "operand", "pattern", "x", "y", "ax", "ay", "bx", "by"):
        child = getattr(expression, name, None)
        if child is not None:
            changes[name] = make(child)
    for name in ("operands", "arguments"):
        children = getattr(expression, name, None)
        if children is not None:
            changes[name] = tuple(make(child) for child in children)
    return replace(expression, **changes) if changes else expression


def _areas_out(expression: Expression) -> Expression:
    """The expression with the texts of areas, as constants, in the place of the areas."""
    if isinstance(expression, Lies | Near | Sweeps | Crossing):
        asked = question_of(expression)
        text = Constant(text_of(asked.area, asked.space), Type.STRING)
        return Call(asked.function, (*children(expression), text), expression.type)
    return _with_children(expression, _areas_out)
