"""What passes through the plans of a cell: rows on each edge, and seconds in each operator.

An edge is counted once for each row that comes, goes or changes there (an update is one row), so
that the numbers are those of the papers' figures. Operators that queries share are timed together.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from place.kernels.arrays import Longs
from place.kernels.gather import count_rows


class Counters:
    """Rows by the number of a query and the name of the edge above an operator."""

    def __init__(self) -> None:
        self._rows: dict[str, Longs] = {}
        self._read: dict[object, int] = defaultdict(int)
        self._since: dict[int, dict[object, int]] = {}
        self._seconds: dict[object, float] = defaultdict(float)

    def begin(self, query: int, reads: tuple[object, ...], there: int) -> None:
        """A query begins to read what others read, too; so many rows of the first are there."""
        self.begin_all(np.array([query]), reads, there)

    def begin_all(self, queries: Longs, reads: tuple[object, ...], there: int) -> None:
        """Queries begin that read the same."""
        for counts in self._rows.values():
            counts[queries[queries < len(counts)]] = 0
        since = {what: self._read[what] for what in reads}
        since[reads[0]] -= there
        self._since.update(dict.fromkeys(queries.tolist(), since))

    def end(self, query: int) -> None:
        """A query has ended."""
        self._since.pop(query, None)

    def read(self, what: object, count: int) -> None:
        """Count rows that all queries of a join read together: objects that changed, or passed a
        filter."""
        self._read[what] += count

    def count(self, edge: str, queries: Longs, weights: Longs | None = None) -> None:
        """Rows of these queries passed an edge, each as often as its weight says."""
        self.count_all((edge,), queries, weights)

    def count_all(self, edges: Sequence[str], queries: Longs, weights: Longs | None = None) -> None:
        """The same rows passed several edges."""
        if not len(queries):
            return
        if weights is None:
            found = np.bincount(queries)
        else:
            found = count_rows(queries, weights, int(queries.max()) + 1)
        for edge in edges:
            self._add(edge, found)

    def _add(self, edge: str, found: NDArray[Any]) -> None:
        counts = self._rows.get(edge)
        if counts is None or len(counts) < len(found):
            more = np.zeros(max(16, 2 * len(found)), np.int64)
            if counts is not None:
                more[: len(counts)] = counts
            self._rows[edge] = counts = more
        counts[: len(found)] += found.astype(np.int64)

    @contextmanager
    def timed(self, operator: object) -> Iterator[None]:
        """Time what is done meanwhile."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[operator] += time.perf_counter() - start

    def seconds(self, operator: object) -> float:
        """The seconds spent in an operator."""
        return self._seconds[operator]

    def rows(self, edge: str, query: int) -> int:
        """The rows of a query that passed an edge since it began."""
        counts = self._rows.get(edge)
        return 0 if counts is None or query >= len(counts) else int(counts[query])

    def since(self, query: int, what: object) -> int:
        """The rows of what queries read together since a query began."""
        return self._read[what] - self._since[query].get(what, 0)
