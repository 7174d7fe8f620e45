"""Rows by columns: what a cell keeps of readings and tables, as arrays that Arrow can hold.

Strings are kept as codes of a dictionary, so that a comparison with a text is a comparison of
numbers. A NULL is a bit beside its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.model.schema import Column
from place.model.types import Row, Type, Value

Slots = NDArray[np.int64]

_DTYPES: dict[Type, Any] = {
    Type.BIGINT: np.int64,
    Type.DOUBLE: np.float64,
    Type.STRING: np.int32,
    Type.BOOLEAN: np.bool_,
    Type.TIMESTAMP: np.int64,
}
_ARROW: dict[Type, Any] = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.int64(),
}


class Dictionary:
    """Codes of texts, given in the order in which the texts come."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)
        self._codes = {text: code for code, text in enumerate(self.texts)}

    def code(self, text: str) -> int:
        """The code of a text, a new one if it is new."""
        found = self._codes.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found


class Columns:
    """Rows at slots. Slots are never moved; a row is written over when its slot is used again."""

    def __init__(
        self, columns: tuple[Column, ...], dictionary: Dictionary, capacity: int = 16
    ) -> None:
        self.columns = columns
        self.dictionary = dictionary
        self.values = [np.zeros(capacity, _DTYPES[column.type]) for column in columns]
        self.nulls = [np.ones(capacity, np.bool_) for _ in columns]

    @property
    def capacity(self) -> int:
        return len(self.nulls[0])

    def reserve(self, size: int) -> None:
        """Make room for so many rows."""
        if size <= self.capacity:
            return
        more = max(size, 2 * self.capacity) - self.capacity
        self.values = [np.concatenate([v, np.zeros(more, v.dtype)]) for v in self.values]
        self.nulls = [np.concatenate([n, np.ones(more, np.bool_)]) for n in self.nulls]

    def write(self, slots: Slots, rows: Sequence[Row]) -> None:
        """Write rows to slots."""
        for index, column in enumerate(self.columns):
            cells = [row[index] for row in rows]
            null = np.fromiter((cell is None for cell in cells), np.bool_, len(cells))
            self.nulls[index][slots] = null
            self.values[index][slots] = self._encoded(cells, column.type)

    def _encoded(self, cells: list[Value], kind: Type) -> NDArray[Any]:
        if kind is Type.STRING:
            code = self.dictionary.code
            cells = [None if cell is None else code(cell) for cell in cells]  # type: ignore[arg-type]
        filled = [0 if cell is None else cell for cell in cells]
        return np.array(filled, _DTYPES[kind])

    def take(self, slots: Slots) -> Columns:
        """A copy of the rows at these slots."""
        copy = Columns(self.columns, self.dictionary, 0)
        copy.values = [values[slots] for values in self.values]
        copy.nulls = [nulls[slots] for nulls in self.nulls]
        return copy

    def put(self, slots: Slots, rows: Columns) -> None:
        """Write rows of the same columns to slots."""
        for mine, other in zip(self.values, rows.values, strict=True):
            mine[slots] = other
        for mine, other in zip(self.nulls, rows.nulls, strict=True):
            mine[slots] = other

    def rows(self, slots: Slots) -> list[Row]:
        """The rows at these slots as plain values."""
        return list(zip(*(self.plain(i, slots) for i in range(len(self.columns))), strict=True))

    def plain(self, index: int, slots: Slots) -> list[Value]:
        """The values of a column at these slots, as Python's."""
        values = self.values[index][slots].tolist()
        if self.columns[index].type is Type.STRING:
            texts = self.dictionary.texts
            return [
                texts[v] if not null else None
                for v, null in zip(values, self.nulls[index][slots].tolist(), strict=True)
            ]
        nulls = self.nulls[index][slots]
        if nulls.any():
            for position in np.flatnonzero(nulls).tolist():
                values[position] = None
        return values  # type: ignore[no-any-return]

    def numbers(self, index: int, slots: Slots | slice = slice(None)) -> NDArray[np.float64]:
        """A column as numbers (codes of texts, 0 and 1 of truth values); NaN where it is NULL."""
        numbers = self.values[index][slots].astype(np.float64)
        numbers[self.nulls[index][slots]] = np.nan
        return numbers

    def to_arrow(self, slots: Slots) -> pa.Table:
        """The rows at these slots as an Arrow table."""
        arrays = [
            pa.array(self.plain(index, slots), _ARROW[column.type])
            for index, column in enumerate(self.columns)
        ]
        return pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
