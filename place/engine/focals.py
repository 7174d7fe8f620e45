"""The focal objects of a cell's regions: where each is, and its slot among the cell's objects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Focals:
    """Focal objects by number; who is gone is nowhere (NaN)."""

    def __init__(self) -> None:
        self._positions = np.full((16, 2), np.nan)
        self._before = self._positions
        self._moved = np.zeros(16, np.bool_)
        self._slots = np.full(16, -1, np.int64)
        self._subjects = np.full(16, -1, np.int64)
        self._names: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begin(self) -> None:
        """An instant begins: nobody has moved yet."""
        self._moved[:] = False
        self._before = self._positions

    def add(self, stream: str, slots: Numbers, positions: Floats) -> Numbers:
        """Follow objects that no region of this cell has followed so far; their numbers.

        `slots` are those among the objects of this cell's row, −1 for objects of another.
        """
        if stream not in self._names:
            self._names.append(stream)
        numbers = np.arange(self._count, self._count + len(slots))
        self._count += len(slots)
        if self._count > len(self._moved):
            more = max(self._count, 2 * len(self._moved)) - len(self._moved)
            nowhere = np.full((more, 2), np.nan)
            before = self._before
            self._positions = np.concatenate([self._positions, nowhere])
            self._before = np.concatenate([before, nowhere])
            self._moved = np.concatenate([self._moved, np.zeros(more, np.bool_)])
            self._slots = np.concatenate([self._slots, np.full(more, -1)])
            self._subjects = np.concatenate([self._subjects, np.full(more, -1)])
        self._part()
        self._positions[numbers] = positions
        self._slots[numbers] = slots
        self._subjects[numbers] = self._names.index(stream)
        return numbers

    def keep(self, used: NDArray[np.bool_]) -> Numbers:
        """Forget all others; the new number of each old one, of which −1 stays −1."""
        chosen = np.flatnonzero(used[: self._count])
        numbers = np.full(self._count + 1, -1, np.int64)
        numbers[chosen] = np.arange(len(chosen))
        rest = max(16, len(chosen)) - len(chosen)
        self._positions = np.concatenate([self._positions[chosen], np.full((rest, 2), np.nan)])
        self._before = self._positions
        self._slots = np.concatenate([self._slots[chosen], np.full(rest, -1)])
        self._subjects = np.concatenate([self._subjects[chosen], np.full(rest, -1)])
        self._moved = np.zeros(len(self._slots), np.bool_)
        self._count = len(chosen)
        return numbers

    def move(self, numbers: Numbers, positions: Floats) -> None:
        """These reported positions; NaN where one is gone."""
        if len(numbers):
            self._part()
            self._positions[numbers] = positions
            self._moved[numbers] = True

    def _part(self) -> None:
        """What was before the instant stays as it was."""
        if self._before is self._positions:
            self._positions = self._before.copy()

    @property
    def places(self) -> Floats:
        """Where all are now, by number."""
        return self._positions

    def seats(self, subject: str) -> Numbers:
        """The slot of each focal object among the objects of `subject`; −1 if it is not there."""
        if subject not in self._names:
            return np.full(len(self._slots), -1, np.int64)
        if len(self._names) == 1:
            return self._slots
        return np.where(self._subjects == self._names.index(subject), self._slots, -1)

    def any_moved(self) -> bool:
        return bool(self._moved[: self._count].any())

    def moved(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Did these move? Those that are no focal objects (−1) did not."""
        moved: NDArray[np.bool_] = (numbers >= 0) & self._moved[numbers]
        return moved

    def positions(self, numbers: Numbers) -> Floats:
        found = self._positions[numbers]
        if len(numbers) and numbers.min() < 0:
            found[numbers < 0] = np.nan
        return found

    def position(self, number: int, *, now: bool) -> tuple[float, float] | None:
        """Where an object is now, or was before the instant."""
        known = self._positions if now else self._before
        if number < 0 or np.isnan(known[number, 0]):
            return None
        return float(known[number, 0]), float(known[number, 1])

    def is_itself(self, numbers: Numbers, slots: Numbers, subject: str) -> NDArray[np.bool_]:
        """Is the object at a slot of `subject` the focal object of that number?"""
        itself: NDArray[np.bool_] = (numbers >= 0) & (self.seats(subject)[numbers] == slots)
        return itself & (slots >= 0)
