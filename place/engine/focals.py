"""The focal objects of a cell's regions: where each is, and its slot among the cell's objects."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray


class Focals:
    """Focal objects by number; who is gone is nowhere (NaN)."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._positions = np.full((16, 2), np.nan)
        self._moved = np.zeros(16, np.bool_)
        self._slots = np.full(16, -1, np.int64)
        self._slots_before = np.full(16, -1, np.int64)
        self._streams: list[str] = []
        self._before = self._positions

    def __len__(self) -> int:
        return len(self._streams)

    def keep(self, used: set[int]) -> NDArray[np.int64]:
        """Forget all others; the new number of each old one, of which −1 stays −1."""
        chosen = np.array(sorted(used), np.int64)
        numbers = np.full(len(self._streams) + 1, -1, np.int64)
        numbers[chosen] = np.arange(len(chosen))
        self._numbers = {key: int(numbers[n]) for key, n in self._numbers.items() if n in used}
        self._streams = [self._streams[n] for n in chosen.tolist()]
        rest = max(16, len(chosen)) - len(chosen)
        padding = np.full((rest, 2), np.nan)
        self._positions = np.concatenate([self._positions[chosen], padding])
        self._slots = np.concatenate([self._slots[chosen], np.full(rest, -1)])
        self._slots_before = self._slots.copy()
        self._moved = np.zeros(len(self._slots), np.bool_)
        return numbers

    def begin(self) -> None:
        """An instant begins: nobody has moved yet."""
        self._moved[:] = False
        np.copyto(self._slots_before, self._slots)
        self._before = self._positions.copy()

    def find(self, stream: str, key: Hashable) -> int:
        return self._numbers.get((stream, key), -1)

    def add(
        self, stream: str, key: Hashable, position: tuple[float, float] | None, slot: int
    ) -> int:
        """Follow an object that no region of this cell has followed so far."""
        number = len(self._streams)
        self._streams.append(stream)
        self._numbers[stream, key] = number
        if number == len(self._moved):
            self._positions = np.concatenate([self._positions, np.full((number, 2), np.nan)])
            self._moved = np.concatenate([self._moved, np.zeros(number, np.bool_)])
            self._slots = np.concatenate([self._slots, np.full(number, -1)])
            self._slots_before = np.concatenate([self._slots_before, np.full(number, -1)])
        self._positions[number] = (np.nan, np.nan) if position is None else position
        self._slots[number] = self._slots_before[number] = slot
        return number

    def seat(self, number: int, slot: int) -> None:
        """The object has this slot among the cell's objects."""
        self._slots[number] = slot

    def move(self, number: int, position: tuple[float, float] | None, slot: int) -> None:
        """The object reported a position, or is gone."""
        self._positions[number] = (np.nan, np.nan) if position is None else position
        self._moved[number] = True
        if slot >= 0 or position is None:
            self._slots[number] = slot

    def any_moved(self) -> bool:
        return bool(self._moved[: len(self._streams)].any())

    def moved(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Did these move? Those that are no focal objects (−1) did not."""
        moved: NDArray[np.bool_] = (numbers >= 0) & self._moved[numbers]
        return moved

    def positions(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        found = self._positions[numbers].copy()
        found[numbers < 0] = np.nan
        return found

    def position(self, stream: str, key: Hashable, *, now: bool) -> tuple[float, float] | None:
        """Where an object is now, or was before the instant."""
        number = self.find(stream, key)
        known = self._positions if now else self._before
        if number < 0 or number >= len(known) or np.isnan(known[number, 0]):
            return None
        return float(known[number, 0]), float(known[number, 1])

    def known(self) -> list[tuple[str, Hashable, tuple[float, float] | None]]:
        """All focal objects: stream, key, and where each is."""
        return [
            (stream, key, self.position(stream, key, now=True)) for stream, key in self._numbers
        ]

    def is_itself(
        self, numbers: NDArray[np.int64], slots: NDArray[np.int64], subject: str
    ) -> NDArray[np.bool_]:
        """Is the object at a slot of `subject` the focal object of that number?"""
        if not self._streams:
            return np.zeros(len(numbers), np.bool_)
        of_subject = np.array([stream == subject for stream in self._streams])
        same = (self._slots[numbers] == slots) | (self._slots_before[numbers] == slots)
        itself: NDArray[np.bool_] = (numbers >= 0) & of_subject[numbers] & same
        return itself
