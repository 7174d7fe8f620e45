"""What passes through the plans of a cell: rows on each edge, and seconds in each operator.

An edge is counted once for each row that comes, goes or changes there (an update is one row), so
that the numbers are those of the papers' figures. Operators that queries share are timed together.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

EDGES = INSIDE, SELECT, JOIN, CHOOSE, TOLD = range(5)
"""The rows that leave INSIDE, a selection, a join with tables, kNN or a window, and a plan that has
nothing above its join."""


class Tally:
    """Counts by the number of a plan."""

    def __init__(self) -> None:
        self._rows = np.zeros((16, len(EDGES)), np.int64)
        self._read: dict[object, int] = defaultdict(int)
        self._since: dict[int, dict[object, int]] = {}
        self._seconds: dict[object, float] = defaultdict(float)

    def begin(self, number: int, reads: tuple[object, ...], there: int) -> None:
        """A plan begins to read what others read, too; so many rows of the first are there."""
        if number >= len(self._rows):
            more = np.zeros((max(number + 1, 2 * len(self._rows)), len(EDGES)), np.int64)
            more[: len(self._rows)] = self._rows
            self._rows = more
        self._rows[number] = 0
        self._since[number] = {what: self._read[what] for what in reads}
        self._since[number][reads[0]] -= there

    def end(self, number: int) -> None:
        """A plan has ended."""
        self._since.pop(number, None)
        for edge in EDGES:
            self._seconds.pop((number, edge), None)

    def read(self, what: object, count: int) -> None:
        """So many rows of what plans read together: objects that changed, or passed a filter."""
        self._read[what] += count

    def count(self, edge: int, numbers: NDArray[np.int64]) -> None:
        """Rows of these plans passed an edge."""
        if len(numbers):
            found = np.bincount(numbers, minlength=1)
            self._rows[: len(found), edge] += found

    def add(self, number: int, edge: int, count: int) -> None:
        """So many rows of a plan passed an edge."""
        self._rows[number, edge] += count

    @contextmanager
    def timed(self, operator: object) -> Iterator[None]:
        """Time what is done meanwhile."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[operator] += time.perf_counter() - start

    def seconds(self, operator: object) -> float:
        return self._seconds[operator]

    def rows(self, number: int) -> list[int]:
        """The rows on each edge of a plan since it began."""
        found: list[int] = self._rows[number].tolist()
        return found

    def since(self, number: int, what: object) -> int:
        """The rows of what plans read together since a plan began."""
        return self._read[what] - self._since[number][what]
