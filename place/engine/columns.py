"""Rows by columns: what a cell keeps of readings and tables, as arrays that Arrow can hold.

Strings are kept as codes of a dictionary, so that a comparison with a text is a comparison of
numbers. A NULL is a bit beside its value.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.kernels.arrays import Bools, Longs
from place.kernels.gather import put
from place.model.schema import Column
from place.model.segment import ARROW
from place.model.types import Row, Type, Value

DTYPES: dict[Type, Any] = {
    Type.BIGINT: np.int64,
    Type.DOUBLE: np.float64,
    Type.STRING: np.int32,
    Type.BOOLEAN: np.bool_,
    Type.TIMESTAMP: np.int64,
    Type.INTERVAL: np.int64,
    Type.NULL: np.int64,
}


class Dictionary:
    """Codes of texts, given in the order in which the texts come."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)
        self._codes = {text: code for code, text in enumerate(self.texts)}
        self._hashes = np.empty(0, np.int64)
        self._ranks = np.empty(0, np.int64)

    def code(self, text: str) -> int:
        """The code of a text, a new one if it is new."""
        found = self._codes.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def known(self, texts: Iterable[str]) -> Longs:
        """The codes of those texts that have one."""
        found = (self._codes.get(text) for text in texts)
        return np.array([code for code in found if code is not None], np.int64)

    def codes(self, texts: pa.Array) -> NDArray[np.int32]:
        """The codes of many texts; 0 for NULL."""
        encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        known = np.array([self.code(text) for text in encoded.dictionary.to_pylist()], np.int32)
        if not len(known):
            return np.zeros(len(texts), np.int32)
        chosen: NDArray[np.int32] = known[encoded.indices.fill_null(0).to_numpy()]
        return chosen

    def find(self, texts: pa.Array) -> NDArray[np.int32]:
        """The codes of many texts, −1 for those that have none, and for NULL."""
        encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        held = [self._codes.get(text, -1) for text in encoded.dictionary.to_pylist()]
        known = np.array([*held, -1], np.int32)
        found: NDArray[np.int32] = known[encoded.indices.fill_null(len(held)).to_numpy()]
        return found

    def hashes(self) -> NDArray[np.int64]:
        """A number for each code that follows from its text alone, whatever the process."""
        fresh = self.texts[len(self._hashes) :]
        if fresh:
            made = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in fresh]
            self._hashes = np.concatenate([self._hashes, np.array(made, np.int64)])
        return self._hashes

    def ranks(self) -> NDArray[np.int64]:
        """The place of each code's text in the order of all texts."""
        if len(self._ranks) < len(self.texts):
            order = sorted(range(len(self.texts)), key=self.texts.__getitem__)
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._ranks

    def to_arrow(self, codes: NDArray[np.int32], nulls: NDArray[np.bool_] | None) -> pa.Array:
        """The texts of codes, as an array that names each text once."""
        used = np.zeros(len(self.texts) + 1, np.bool_)
        used[codes] = True
        chosen = np.flatnonzero(used[:-1])
        place = np.cumsum(used, dtype=np.int32) - 1
        texts = pa.array([self.texts[code] for code in chosen.tolist()], pa.string())
        if not len(texts):
            return pa.DictionaryArray.from_arrays(pa.nulls(len(codes), pa.int32()), texts)
        return pa.DictionaryArray.from_arrays(pa.array(place[codes], mask=nulls), texts)


@dataclass(frozen=True)
class Vector:
    """Values of one type, and where there are none; texts are codes of a dictionary."""

    values: NDArray[Any]
    nulls: Bools


class Columns:
    """Rows at slots. Slots are never moved; a row is written over when its slot is used again."""

    def __init__(
        self, columns: tuple[Column, ...], dictionary: Dictionary, capacity: int = 16
    ) -> None:
        self.columns = columns
        self.dictionary = dictionary
        self.values = [np.zeros(capacity, DTYPES[column.type]) for column in columns]
        self.nulls = [np.ones(capacity, np.bool_) for _ in columns]

    @staticmethod
    def from_arrow(
        columns: tuple[Column, ...], dictionary: Dictionary, arrays: Sequence[pa.Array]
    ) -> Columns:
        """The rows of Arrow arrays, one of each column."""
        made = Columns(columns, dictionary, 0)
        made.values, made.nulls = [], []
        for column, given in zip(columns, arrays, strict=True):
            array = given
            if isinstance(given, pa.ChunkedArray):  # one chunk need not be copied
                array = given.chunk(0) if given.num_chunks == 1 else given.combine_chunks()
            if column.type is Type.STRING:
                values: NDArray[Any] = dictionary.codes(array)
            elif column.type is Type.BOOLEAN:
                values = array.fill_null(False).to_numpy(zero_copy_only=False)
            else:
                values = (array.fill_null(0) if array.null_count else array).to_numpy()
            made.values.append(values)
            if array.null_count:
                made.nulls.append(array.is_null().to_numpy(zero_copy_only=False))
            else:
                made.nulls.append(np.zeros(len(array), np.bool_))
        return made

    @staticmethod
    def from_rows(
        columns: tuple[Column, ...], dictionary: Dictionary, rows: Sequence[Row]
    ) -> Columns:
        """Plain rows by columns."""
        values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
        arrays = [pa.array(v, ARROW[c.type]) for v, c in zip(values, columns, strict=True)]
        return Columns.from_arrow(columns, dictionary, arrays)

    @property
    def capacity(self) -> int:
        return len(self.nulls[0])

    def __len__(self) -> int:
        return len(self.nulls[0])

    def reserve(self, size: int) -> None:
        """Make room for so many rows."""
        if size <= self.capacity:
            return
        more = max(size, 2 * self.capacity) - self.capacity
        self.values = [np.concatenate([v, np.zeros(more, v.dtype)]) for v in self.values]
        self.nulls = [np.concatenate([n, np.ones(more, np.bool_)]) for n in self.nulls]

    def take(self, slots: Longs | slice) -> Columns:
        """A copy of the rows at these slots."""
        copy = Columns(self.columns, self.dictionary, 0)
        copy.values = [values[slots] for values in self.values]
        copy.nulls = [nulls[slots] for nulls in self.nulls]
        return copy

    def pick(self, indices: Sequence[int], slots: Longs | slice = slice(None)) -> Columns:
        """A copy of some columns of the rows at these slots."""
        copy = Columns(tuple(self.columns[i] for i in indices), self.dictionary, 0)
        copy.values = [self.values[i][slots] for i in indices]
        copy.nulls = [self.nulls[i][slots] for i in indices]
        return copy

    def recoded(self, dictionary: Dictionary) -> Columns:
        """The same rows with the codes of another dictionary."""
        if dictionary is self.dictionary:
            return self
        copy = Columns(self.columns, dictionary, 0)
        copy.nulls = self.nulls
        copy.values = [
            dictionary.codes(self.array(i, slice(None)))
            if c.type is Type.STRING
            else self.values[i]
            for i, c in enumerate(self.columns)
        ]
        return copy

    def widened(self, columns: tuple[Column, ...]) -> Columns:
        """The rows with all of these columns; those that they do not have are NULL."""
        wide = Columns(columns, self.dictionary, len(self))
        names = [column.name for column in columns]
        for i, column in enumerate(self.columns):
            index = names.index(column.name)
            wide.values[index], wide.nulls[index] = self.values[i], self.nulls[i]
        return wide

    def put(self, slots: Longs, rows: Columns, threads: int = 1) -> None:
        """Write rows of the same columns to slots, each of which is named once."""
        for mine, other in zip(self.values, rows.values, strict=True):
            put(mine, slots, other, threads)
        for mine, other in zip(self.nulls, rows.nulls, strict=True):
            put(mine, slots, other, threads)

    def rows(self, slots: Longs) -> list[Row]:
        """The rows at these slots as plain values."""
        return list(zip(*(self.plain(i, slots) for i in range(len(self.columns))), strict=True))

    def plain(self, index: int, slots: Longs) -> list[Value]:
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

    def numbers(self, index: int, slots: Longs | slice = slice(None)) -> NDArray[np.float64]:
        """A column as numbers (codes of texts, 0 and 1 of truth values); NaN where it is NULL."""
        numbers = self.values[index][slots].astype(np.float64)
        nulls = self.nulls[index][slots]
        if nulls.any():
            numbers[nulls] = np.nan
        return numbers

    def array(self, index: int, slots: Longs | slice) -> pa.Array:
        """A column at these slots as Arrow; of texts, each only once."""
        values, nulls = self.values[index][slots], self.nulls[index][slots]
        mask = nulls if nulls.any() else None
        if self.columns[index].type is Type.STRING:
            return self.dictionary.to_arrow(values, mask)
        return pa.array(values, ARROW[self.columns[index].type], mask=mask)

    def equal(self, other: Columns, index: int, other_index: int) -> NDArray[np.bool_]:
        """Where two columns of rows hold the same; NULL is the same as NULL."""
        one, two = self.nulls[index], other.nulls[other_index]
        same = self.values[index] == other.values[other_index]
        equal: NDArray[np.bool_] = np.where(one | two, one & two, same)
        return equal

    @staticmethod
    def joined(parts: Sequence[Columns]) -> Columns:
        """The rows of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        made = Columns(parts[0].columns, parts[0].dictionary, 0)
        made.values = [np.concatenate(v) for v in zip(*(p.values for p in parts), strict=True)]
        made.nulls = [np.concatenate(n) for n in zip(*(p.nulls for p in parts), strict=True)]
        return made
