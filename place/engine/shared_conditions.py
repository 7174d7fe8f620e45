"""The conditions of many queries of one shape: what they ask alike, and how wide the rest is.

Constants of queries are columns of one source more than the query has. A condition whose constants
are the same in all queries is asked once for all of them. Of any other one, the widest constant of
all queries bounds what has to be found at all; which of them it is found for is asked afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns
from place.engine.sides import FLIPPED
from place.model.types import Type
from place.plan.expression import (
    Column,
    Compare,
    Constant,
    Expression,
    columns_of,
    sources_of,
    substitute,
)


@dataclass(frozen=True)
class SharedConditions:
    """`alike` hold for all queries, `widest` bound what differs, and `differing` is what is asked
    for each query."""

    alike: tuple[Expression, ...]
    widest: tuple[Expression, ...]
    differing: tuple[Expression, ...]


def share_conditions(
    conditions: Sequence[Expression], width: int, constants: Columns | None
) -> SharedConditions:
    """Conditions with the constants of all queries, a row each."""
    alike: list[Expression] = []
    widest: list[Expression] = []
    differing: list[Expression] = []
    for condition in conditions:
        used = {c.index for c in columns_of(condition) if c.source == width}
        if constants is None or not used:
            alike.append(condition)
        elif all(_is_one(constants, index) for index in used):
            alike.append(_with_constants(condition, width, constants, 0))
        else:
            differing.append(condition)
            widest += _widest(condition, width, constants)
    return SharedConditions(tuple(alike), tuple(widest), tuple(differing))


def _is_one(constants: Columns, index: int) -> bool:
    values, nulls = constants.values[index], constants.nulls[index]
    return bool((values == values[0]).all() and (nulls == nulls[0]).all())


def _with_constants(condition: Expression, width: int, constants: Columns, row: int) -> Expression:
    def put(column: Column) -> Expression:
        if column.source != width:
            return column
        value = constants.plain(column.index, np.array([row]))[0]
        return Constant(value, column.type)

    return substitute(condition, put)


def _widest(condition: Expression, width: int, constants: Columns) -> list[Expression]:
    """Conditions that hold wherever the condition holds for any query."""
    if not isinstance(condition, Compare) or condition.op not in FLIPPED:
        return []
    left, op, right = condition.left, condition.op, condition.right
    if isinstance(left, Column) and left.source == width:
        left, op, right = right, FLIPPED[op], left  # type: ignore[assignment]
    if not isinstance(right, Column) or right.source != width or width in sources_of(left):
        return []
    if right.type is Type.STRING or constants.nulls[right.index].any():
        return []
    order = np.argsort(constants.values[right.index], kind="stable")
    found: list[Expression] = []
    if op in ("=", "<", "<="):
        most = _with_constants(right, width, constants, int(order[-1]))
        found.append(Compare("<" if op == "<" else "<=", left, most))
    if op in ("=", ">", ">="):
        least = _with_constants(right, width, constants, int(order[0]))
        found.append(Compare(">" if op == ">" else ">=", left, least))
    return found
