"""Multisets of rows: which rows are there, and how often.

Rows are kept as whole numbers, so that rows of any types are compared and found in one way: texts
as their codes, a DOUBLE as its bits, and after the columns a bit for each NULL. -0.0 is kept as
0.0, which it equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import DTYPES, Vector
from place.kernels.arrays import Longs
from place.kernels.row_table import add_weights, enter_rows, find_rows
from place.model.types import Type

MASK = 63
"""So many columns share a number for their NULLs."""
SPARE = 64
"""So many rows that are there no more are kept, however few there are."""


def as_numbers(values: NDArray[Any]) -> Longs:
    """Values of any type as whole numbers that are equal if the values are; always a copy."""
    if values.dtype == np.float64:
        return (values + 0.0).view(np.int64)
    return values.astype(np.int64)


def width_of(columns: int) -> int:
    """How many numbers a row of so many columns takes."""
    return columns + -(-columns // MASK)


def pack(vectors: Sequence[Vector], size: int) -> Longs:
    """Rows given by columns, as rows of numbers that are equal if the rows are."""
    packed = np.zeros((size, width_of(len(vectors))), np.int64)
    for i, vector in enumerate(vectors):
        if vector.values.dtype == np.float64:
            packed.view(np.float64)[:, i] = vector.values + 0.0
        else:
            packed[:, i] = vector.values
        if vector.nulls.any():
            packed[vector.nulls, i] = 0
            packed[:, len(vectors) + i // MASK] |= vector.nulls.astype(np.int64) << (i % MASK)
    return packed


def unpack(packed: Longs, kinds: Sequence[Type]) -> list[Vector]:
    """The columns of rows that were packed, given their types."""
    vectors = []
    for i, kind in enumerate(kinds):
        if kind is Type.DOUBLE:
            values: NDArray[Any] = packed.view(np.float64)[:, i].copy()
        else:
            values = packed[:, i].astype(DTYPES[kind])
        masks = packed[:, len(kinds) + i // MASK]
        vectors.append(Vector(values, (masks >> (i % MASK) & 1).astype(np.bool_)))
    return vectors


def longer(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """An array of at least so many elements, or rows, that begins as the one given."""
    if size <= len(array):
        return array
    made: NDArray[Any] = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    made[: len(array)] = array
    return made


class Added(NamedTuple):
    """What a batch did: the slot of each row (−1 of those without weight), and of each slot that
    was touched the first position in the batch, the slot itself, and its count before and now."""

    slots: Longs
    firsts: Longs
    touched: Longs
    before: Longs
    now: Longs


class Multiset:
    """Packed rows at slots, with their counts. A row keeps its slot until `compact` gives it
    another."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((8, width), np.int64)
        self.counts = np.zeros(8, np.int64)
        self.used = 0
        self._marks = np.zeros(8, np.bool_)
        self._table = np.full(32, -1, np.int32)
        self._live = 0

    @property
    def live(self) -> int:
        """How many slots have a count other than 0."""
        return self._live

    def add(self, rows: Longs, weights: Longs) -> Added:
        """Add weights to the counts of rows."""
        self._table, self.rows, self.used, slots = find_rows(
            self._table, self.rows, self.used, rows, weights
        )
        self.counts = longer(self.counts, self.used)
        self._marks = longer(self._marks, self.used)
        *added, more = add_weights(self.counts, self._marks, slots, weights)
        self._live += more
        return Added(slots, *added)

    def compact(self) -> Longs | None:
        """Give up the slots of rows that are gone, if they are many.

        Returns the slots that are kept, in the order of their new numbers.
        """
        if self.used <= 2 * self._live + SPARE:
            return None
        kept = np.flatnonzero(self.counts[: self.used])
        self.keep(kept)
        return kept

    def keep(self, kept: Longs) -> None:
        """Keep only the rows at these slots, which get new numbers."""
        self.used = self._live = len(kept)
        self.rows = longer(self.rows[kept], 8)
        self.counts = longer(self.counts[kept], 8)
        self._marks = np.zeros(len(self.counts), np.bool_)
        size = 32
        while size <= 2 * self.used:
            size *= 2
        self._table = np.full(size, -1, np.int32)
        enter_rows(self.rows, self.used, self._table)
