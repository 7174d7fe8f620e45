"""The kNN queries of one shape as rows of arrays: how many each asks for, and around what."""

from __future__ import annotations

import numpy as np

from place.engine.multiset import longer
from place.kernels.arrays import Bools, Floats, Longs
from place.plan.query import Nearest


class NearestRows:
    """A row for each query; the row of one that has ended is used again."""

    def __init__(self) -> None:
        self.numbers = np.full(16, -1, np.int64)
        """The number of the query of each row; −1 where none is."""
        self._ks = np.ones(16, np.int64)
        self._focals = np.full(16, -1, np.int64)
        self._centers = np.full((16, 2), np.nan)
        self._shifted = np.zeros(16, np.bool_)
        self._size = 0
        self._ended: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return int((self.numbers[: self._size] >= 0).sum())

    @property
    def ks(self) -> Longs:
        return self._ks[: self._size]

    @property
    def focals(self) -> Longs:
        """The numbers of the focal objects of rows, −1 for none."""
        return self._focals[: self._size]

    @property
    def shifted(self) -> Bools:
        """The rows whose centres have changed."""
        return self._shifted[: self._size]

    @property
    def is_shifted(self) -> bool:
        return bool(self.shifted.any())

    def add(self, query: int, clause: Nearest, focal: int, place: Floats) -> None:
        """One query more; `place` is where its focal object is, if it has one."""
        row = self._free.pop() if self._free else self._size
        self._size = max(self._size, row + 1)
        self.numbers = longer(self.numbers, self._size, -1)
        self._ks = longer(self._ks, self._size, 1)
        self._focals = longer(self._focals, self._size, -1)
        self._shifted = longer(self._shifted, self._size)
        self._centers = longer(self._centers, self._size)
        self.numbers[row], self._ks[row], self._focals[row] = query, clause.k, focal
        self._centers[row] = place if clause.point is None else clause.point
        self._shifted[row] = True

    def end(self, query: int) -> None:
        """A query has no centre any more."""
        (row,) = np.flatnonzero(self.numbers[: self._size] == query).tolist()
        self._focals[row], self._centers[row], self._shifted[row] = -1, np.nan, True
        self._ended.append(row)

    def forget_ended(self) -> None:
        """Free the rows of queries that have ended, after the deltas that take their answers back
        were made."""
        self.numbers[self._ended] = -1
        self._free += self._ended
        self._ended = []

    def shift_all(self) -> None:
        """Have all centres looked at again."""
        self._shifted[: self._size] = True

    def settle(self) -> None:
        """Forget which centres have changed, after they were looked at."""
        self._shifted[: self._size] = False

    def renumber(self, numbers: Longs) -> None:
        """Focal objects have other numbers now."""
        self._focals = numbers[self._focals]

    def follow(self, focals: Longs, places: Floats) -> None:
        """Focal objects move, in this order: so do the centres of the queries that they lead."""
        rows, which = self.led_by(focals)
        self._centers[rows] = places[which]
        self._shifted[rows] = True

    @property
    def centers(self) -> Floats:
        """Where the centres are now; NaN for nowhere."""
        return self._centers[: self._size]

    def excluded(self, seats: Longs) -> Longs:
        """The slots of focal objects, which are never in the answers that they lead."""
        return np.where(self.focals >= 0, seats[self.focals], -1)

    def led_by(self, focals: Longs) -> tuple[Longs, Longs]:
        """The rows that each of these focal objects leads, and its position among these."""
        return rows_led_by(self.focals, focals)


def rows_led_by(leaders: Longs, focals: Longs) -> tuple[Longs, Longs]:
    """The rows whose leader is one of these focal objects, and its position among these."""
    order = np.argsort(leaders, kind="stable")
    in_order = leaders[order]
    first = np.searchsorted(in_order, focals, "left")
    counts = np.searchsorted(in_order, focals, "right") - first
    which = np.repeat(np.arange(len(focals)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[first[which] + within], which
