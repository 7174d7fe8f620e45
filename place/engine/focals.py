"""The focal objects of a cell's regions: where each is, and its slot among the cell's objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.gather import put_places


@dataclass(frozen=True)
class FocalMoves:
    """Where focal objects go within a tick, in the order of instants; NaN where one is gone."""

    numbers: Longs
    instants: Longs
    places: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    def put(self, places: Floats, low: int, high: int, threads: int = 1) -> None:
        """Put focal objects where they go by the moves from one to before another."""
        if low < high and self.instants[low] != self.instants[high - 1]:
            threads = 1  # one of them may move twice, and the last move counts
        put_places(places, self.numbers[low:high], self.places[low:high], threads)

    @staticmethod
    def joined(parts: Sequence[FocalMoves]) -> FocalMoves:
        """The moves of several streams."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return FocalMoves(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)))
        instants = np.concatenate([part.instants for part in parts])
        order = np.argsort(instants, kind="stable")
        numbers = np.concatenate([part.numbers for part in parts])
        places = np.concatenate([part.places for part in parts])
        return FocalMoves(numbers[order], instants[order], places[order])


class Focals:
    """Focal objects by number; one that is gone is nowhere (NaN)."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self.places = np.full((16, 2), np.nan)
        """Where all are, by number; during a tick, where they were before it."""
        self._slots = np.full(16, -1, np.int64)
        self._subjects = np.full(16, -1, np.int64)
        self._names: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, stream: str, slots: Longs, places: Floats) -> Longs:
        """Follow more objects, which no region of this cell has followed so far. Returns their
        numbers.

        `slots` are their slots among the objects of this cell's row, −1 for objects of another row.
        """
        if stream not in self._names:
            self._names.append(stream)
        numbers = np.arange(self._count, self._count + len(slots))
        self._count += len(slots)
        if self._count > len(self._slots):
            more = max(self._count, 2 * len(self._slots)) - len(self._slots)
            self.places = np.concatenate([self.places, np.full((more, 2), np.nan)])
            self._slots = np.concatenate([self._slots, np.full(more, -1)])
            self._subjects = np.concatenate([self._subjects, np.full(more, -1)])
        self.places[numbers] = places
        self._slots[numbers] = slots
        self._subjects[numbers] = self._names.index(stream)
        return numbers

    def keep(self, used: Bools) -> Longs:
        """Keep only the focal objects in use. Returns the new number of each old one; −1 (none)
        stays −1."""
        chosen = np.flatnonzero(used[: self._count])
        numbers = np.full(self._count + 1, -1, np.int64)
        numbers[chosen] = np.arange(len(chosen))
        rest = max(16, len(chosen)) - len(chosen)
        self.places = np.concatenate([self.places[chosen], np.full((rest, 2), np.nan)])
        self._slots = np.concatenate([self._slots[chosen], np.full(rest, -1)])
        self._subjects = np.concatenate([self._subjects[chosen], np.full(rest, -1)])
        self._count = len(chosen)
        return numbers

    def settle(self, moves: FocalMoves) -> None:
        """End a tick: every focal object is now where it went last."""
        moves.put(self.places, 0, len(moves), self._threads)

    def seats(self, subject: str) -> Longs:
        """The slot of each focal object among the objects of `subject`; −1 if it is not there."""
        if subject not in self._names:
            return np.full(len(self._slots), -1, np.int64)
        if len(self._names) == 1:
            return self._slots
        return np.where(self._subjects == self._names.index(subject), self._slots, -1)

    def positions(self, numbers: Longs) -> Floats:
        """Where some of them are; NaN for those that are none (−1)."""
        found = self.places[numbers]
        if len(numbers) and numbers.min() < 0:
            found[numbers < 0] = np.nan
        return found

    def is_itself(self, numbers: Longs, slots: Longs, subject: str) -> Bools:
        """Is the object at a slot of `subject` the focal object of that number?"""
        itself: Bools = (numbers >= 0) & (self.seats(subject)[numbers] == slots)
        return itself & (slots >= 0)
