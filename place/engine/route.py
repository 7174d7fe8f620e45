"""Which cell a thing belongs to: objects to rows and queries to columns, by a hash of the key.

The hash does not depend on the process, so that any task can continue another's work.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Matrix:
    """R rows of objects by C columns of queries; every pair meets in exactly one cell."""

    rows: int = 1
    columns: int = 1


@dataclass(frozen=True)
class Place:
    """One cell of a matrix."""

    matrix: Matrix
    row: int = 0
    column: int = 0

    def has_object(self, key: Hashable) -> bool:
        return self.matrix.rows == 1 or spread(key, self.matrix.rows) == self.row

    def has_region(self, key: Hashable) -> bool:
        return self.matrix.columns == 1 or spread(key, self.matrix.columns) == self.column


def spread(key: Hashable, parts: int) -> int:
    """A number below `parts` for a key.

    >>> spread(17, 4) == spread(17, 4), spread("truck", 1)
    (True, 0)
    """
    if isinstance(key, int):
        # The steps of splitmix64: neighbours among the keys should not be neighbours here.
        mixed = (key * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ (mixed >> 31)) % parts
    return zlib.crc32(str(key).encode("utf-8", "surrogatepass")) % parts
