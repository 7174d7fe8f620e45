"""Variables of triggers as boxes over all attributes of a stream, which readings meet in one join.

A comparison of a column with a constant is a side of a box, and a condition is one box or several.
NULL is in no side with bounds and in every side without: it is further out than any number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from place.engine.boxes import Box, boxes_of
from place.engine.columns import Columns, Dictionary
from place.kernels.arrays import Floats, Longs
from place.kernels.box_join import BoxIndex
from place.kernels.fanned_pairs import pairs_in_order
from place.plan.expression import Expression

MOST = float(np.finfo(np.float64).max)
"""The greatest number: a side without an upper bound ends here, so that NULL is beyond it."""


class Qualifying(NamedTuple):
    """The variables of readings, one reading after the other and in ascending order, and how many
    each of them has."""

    variables: Longs
    counts: Longs


class _Prepared(NamedTuple):
    """The boxes as a join needs them."""

    columns: list[int]
    join: BoxIndex
    owners: Longs
    most: int


class VariableBoxes:
    """The boxes of all variables of a stream that boxes can tell."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._known: dict[int, tuple[Box, ...]] = {}
        self._prepared: _Prepared | None = None

    def __len__(self) -> int:
        return len(self._known)

    def add(self, variable: int, condition: Expression | None) -> bool:
        """What a variable asks of a reading of the stream; False if that is more than boxes."""
        found = boxes_of(condition, 0, self._dictionary)
        ends = [abs(end) for box in found.boxes for side in box.values() for end in side]
        if not found.exact or any(MOST <= end < math.inf for end in ends):
            return False
        self._known[variable] = found.boxes
        self._prepared = None
        return True

    def remove(self, variable: int) -> None:
        """A variable is no more."""
        del self._known[variable]
        self._prepared = None

    def qualifying(self, rows: Columns) -> Qualifying:
        """The variables that each of the rows may stand for."""
        if self._prepared is None:
            self._prepared = self._prepare()
        columns, join, owners, most = self._prepared
        size = len(rows)
        if not len(owners) or not size:
            return Qualifying(np.empty(0, np.int64), np.zeros(size, np.int64))
        points = np.empty((size, len(columns)))
        for k, column in enumerate(columns):
            points[:, k] = rows.values[column]
            points[rows.nulls[column], k] = np.inf
        np.copyto(points, np.inf, where=np.isnan(points))
        met = join.find(points)
        return Qualifying(*pairs_in_order(met.points, met.boxes, owners, size, most))

    def _prepare(self) -> _Prepared:
        columns = sorted({c for boxes in self._known.values() for box in boxes for c in box})
        places = {column: k for k, column in enumerate(columns)}
        owners = [variable for variable, boxes in self._known.items() for _ in boxes]
        low: Floats = np.full((len(owners), len(columns)), -np.inf)
        high: Floats = np.full((len(owners), len(columns)), np.inf)
        row = 0
        for boxes in self._known.values():
            for box in boxes:
                for column, (begin, end) in box.items():
                    low[row, places[column]], high[row, places[column]] = begin, min(end, MOST)
                row += 1
        most = max(owners, default=-1) + 1
        return _Prepared(columns, BoxIndex(low, high), np.array(owners, np.int64), most)
