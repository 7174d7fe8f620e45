"""DISTINCT over rows that come and go, and the sum of changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.multiset import Multiset, pack_rows, unpack, width_of
from place.engine.vector import as_columns

Weights = NDArray[np.int64]


def consolidate(rows: Columns, weights: Weights) -> tuple[Weights, Columns]:
    """Equal rows once each, with the sum of their weights; those of weight 0 are left out.

    Rows keep the order in which they first come.
    """
    given = np.array(weights, np.int64)
    total = Multiset(width_of(len(rows.columns)))
    added = total.add(pack_rows(rows, len(given)), given)
    (kept,) = added.now.nonzero()
    return added.now[kept], rows.take(added.firsts[kept])


class Distinct:
    """Multiplicities of rows: a row leaves only when its last witness does (PLACE's DISTINCT over
    negative tuples)."""

    def __init__(self) -> None:
        self._there: Multiset | None = None

    def update(self, rows: Columns, weights: Weights) -> tuple[Weights, Columns]:
        """Take rows with their weights; those that are there no more (−1) and newly (+1)."""
        there = self._there = self._there or Multiset(width_of(len(rows.columns)))
        given = np.array(weights, np.int64)
        added = there.add(pack_rows(rows, len(given)), given)
        signs = (added.now > 0).astype(np.int64) - (added.before > 0)
        (changed,) = signs.nonzero()
        crossed = unpack(there.rows[added.touched[changed]], [c.type for c in rows.columns])
        there.compact()
        return signs[changed], as_columns(rows.columns, crossed, rows.dictionary)
