"""Which cell a thing belongs to: objects to rows and queries to columns, by a hash of the key.

The hash does not depend on the process, so that any task can continue another's work.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Dictionary
from place.kernels.arrays import Bools
from place.kernels.key_index import spread_keys


@dataclass(frozen=True)
class Matrix:
    """R rows of objects by C columns of queries; every pair meets in exactly one cell."""

    rows: int = 1
    columns: int = 1

    @property
    def size(self) -> int:
        """How many cells it has."""
        return self.rows * self.columns

    def answer_cell(self, name: str) -> int:
        """The number of the cell that puts the answer of a query together, where several hold it;
        numbers are places in `places()`."""
        return zlib.crc32(name.encode("utf-8")) % self.size

    def places(self) -> list[Place]:
        """All cells."""
        return [Place(self, row, c) for row in range(self.rows) for c in range(self.columns)]


@dataclass(frozen=True)
class Place:
    """One cell of a matrix."""

    matrix: Matrix
    row: int = 0
    column: int = 0

    @property
    def number(self) -> int:
        """Its place among all cells."""
        return self.row * self.matrix.columns + self.column

    def has_objects(self, keys: NDArray[np.int64], texts: Dictionary | None) -> Bools | None:
        """Which keys are objects of this cell's row; None for all. `texts` where keys are codes."""
        return _spread(keys, texts, self.matrix.rows, self.row)

    def has_regions(self, keys: NDArray[np.int64], texts: Dictionary | None) -> Bools | None:
        """Which rows of a query table are regions of this cell's column; None for all."""
        return _spread(keys, texts, self.matrix.columns, self.column)

    def has_query(self, name: str) -> bool:
        """Is the region of a query in this cell's column?"""
        return zlib.crc32(name.encode("utf-8")) % self.matrix.columns == self.column

    def has_trigger(self, name: str) -> bool:
        """Is this the one cell that a trigger lives in?"""
        row = zlib.crc32(name.encode("utf-8")) // self.matrix.columns % self.matrix.rows
        return self.has_query(name) and row == self.row


def _spread(
    keys: NDArray[np.int64], texts: Dictionary | None, parts: int, mine: int
) -> Bools | None:
    if parts == 1:
        return None
    if texts is not None:
        found: Bools = texts.hashes()[keys] % parts == mine
    else:
        found = spread_keys(keys, parts) == mine
    return found
