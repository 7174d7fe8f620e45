"""Values of readings that variables of triggers compare with each other, as numbers.

A value becomes a whole number that has its order: whole numbers as they are, DOUBLEs by their bits,
texts by their codes, which can only be equal or not. The least whole number stands for NULL, which
makes every comparison false; a BIGINT that is just that number counts as the next one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from place.engine.columns import Columns, Dictionary, Vector
from place.engine.vector import evaluate_all
from place.kernels.arrays import Longs
from place.model.types import Type
from place.plan.expression import Column, Expression, substitute
from place.plan.trigger import Comparison

NULL = np.iinfo(np.int64).min
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
"""Comparisons by their numbers."""

_WHOLE = (Type.BIGINT, Type.TIMESTAMP, Type.INTERVAL)
_MOST = np.int64(np.iinfo(np.int64).max)


class TriggerFeatures:
    """The expressions that comparisons read, by stream; each has a number among those of its
    stream."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._known: dict[str, dict[Expression, int]] = {}

    @property
    def width(self) -> int:
        """How many features a reading has at most."""
        return max(map(len, self._known.values()), default=0)

    def number(self, stream: str, expression: Expression) -> int:
        """The number of an expression over one reading of a stream."""
        known = self._known.setdefault(stream, {})
        return known.setdefault(substitute(expression, _of_first), len(known))

    def of(self, stream: str, rows: Columns) -> Longs:
        """The features of readings."""
        found = np.full((len(rows), self.width), NULL, np.int64)
        for expression, number in self._known.get(stream, {}).items():
            vector = evaluate_all(expression, [rows], len(rows), self._dictionary)
            found[:, number] = _ordered(vector, expression.type)
        return found


def is_comparable(comparison: Comparison) -> bool:
    """Can features decide a comparison?"""
    left, right = comparison.left.type, comparison.right.type
    if left in _WHOLE or left is Type.DOUBLE:
        return left is right
    return left is right and comparison.op in ("=", "<>")


def _ordered(vector: Vector, kind: Type) -> Longs:
    if kind is Type.DOUBLE:
        bits = (vector.values.astype(np.float64) + 0.0).view(np.int64)
        numbers: Longs = bits ^ ((bits >> 63) & _MOST)
    else:
        numbers = np.maximum(vector.values.astype(np.int64), NULL + 1)
    numbers[vector.nulls] = NULL
    return numbers


def _of_first(column: Column) -> Column:
    return replace(column, source=0)
