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

EDGES = SCAN, INSIDE, SELECT, JOIN, CHOOSE = range(5)
"""The rows that leave a scan, INSIDE, a selection, a join with tables, and kNN or a window."""


class Tally:
    """Counts by the number of a plan."""

    def __init__(self) -> None:
        self._rows = np.zeros((16, len(EDGES)), np.int64)
        self._read: dict[str, int] = defaultdict(int)
        self._since: dict[int, tuple[str, int]] = {}
        self._seconds: dict[object, float] = defaultdict(float)

    def begin(self, number: int, meets: str) -> None:
        """A plan begins to read."""
        if number >= len(self._rows):
            more = np.zeros((max(number + 1, 2 * len(self._rows)), len(EDGES)), np.int64)
            more[: len(self._rows)] = self._rows
            self._rows = more
        self._rows[number] = 0
        self._since[number] = meets, self._read[meets]

    def end(self, number: int) -> None:
        """A plan has ended."""
        self._since.pop(number, None)

    def read(self, meets: str, count: int) -> None:
        """Objects changed, or readings came."""
        self._read[meets] += count

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
        meets, since = self._since.get(number, ("", 0))
        found[SCAN] = self._read[meets] - since
        return found
