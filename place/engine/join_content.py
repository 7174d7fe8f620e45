"""What the windows of a join hold, as it is saved, and from when on each query sees it.

Queries of one shape share windows. A query that begins later than others sees the readings that its
streams remember, as if it were alone; windows may hold older ones for the others, which it does not
see: its floor is the last instant that is hidden from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from place.engine.combinations import Combinations
from place.engine.elements import Elements
from place.engine.operators.contract import NEVER
from place.engine.window_elements import END, FACTS, ORDINAL, START, WindowElements
from place.kernels.arrays import Longs

FLOOR = -1
"""Stands for a source in the row that says what a query does not see."""
COUNTS = -2
"""The row with the count of source i has `COUNTS - i` for its source."""


class JoinContent:
    """The windows among the sources of a join."""

    def __init__(self, elements: Sequence[Elements]) -> None:
        self._windows = {
            i: some for i, some in enumerate(elements) if isinstance(some, WindowElements)
        }
        self._floors: dict[int, int] = {}
        self._highest = -NEVER
        """The highest floor of all queries."""
        self._is_filled = False

    @property
    def has_floors(self) -> bool:
        """Is anything hidden from some query?"""
        if self._highest == -NEVER:
            return False
        return self._highest >= min(some.oldest for some in self._windows.values())

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins, with what its windows hold."""
        if self._windows:
            self._begin(query, content)
            self._highest = max(self._highest, self._floors[query])

    def _begin(self, query: int, content: pa.Table | None) -> None:
        self._floors[query] = -NEVER
        if content is None:
            return
        sources = content.column(1).to_numpy()
        facts = [content.column(2 + fact).to_numpy() for fact in FACTS]
        marks = np.flatnonzero(sources == FLOOR)
        if len(marks):
            self._floors[query] = int(facts[START][marks[0]])
        if not (sources <= COUNTS).any():
            return  # another query of the same windows has saved them
        if not self._is_filled:
            self._fill(content, sources, facts[ORDINAL])
            return
        held = facts[START][sources >= 0]
        hidden = int(held.min()) - 1 if len(held) else self._newest()
        self._floors[query] = max(self._floors[query], hidden)

    def _fill(self, content: pa.Table, sources: Longs, ordinals: Longs) -> None:
        self._is_filled = True
        at = 2 + len(FACTS)
        for i, some in self._windows.items():
            mine = content.filter(pa.array(sources == i))
            wanted = [*range(2, 2 + len(FACTS)), *range(at, at + len(some.columns))]
            some.restore([mine.column(c).combine_chunks() for c in wanted])
            some.count = int(ordinals[sources == COUNTS - i][0])
            at += len(some.columns)

    def _newest(self) -> int:
        return max((some.newest for some in self._windows.values()), default=-NEVER)

    def forget(self, queries: Sequence[int]) -> None:
        """Queries have ended."""
        for query in queries:
            self._floors.pop(query, None)
        self._highest = max(self._floors.values(), default=-NEVER)

    def visible(self, some: Combinations, width: int) -> Combinations:
        """The combinations that their queries see."""
        if not len(some) or not self.has_floors:
            return some
        numbers = some.ids[width]
        assert numbers is not None
        known, places = np.unique(~numbers, return_inverse=True)
        floors = np.array([self._floors.get(query, -NEVER) for query in known.tolist()], np.int64)
        seen = np.ones(len(some), np.bool_)
        for i, window in self._windows.items():
            ids = some.ids[i]
            assert ids is not None
            seen &= window.born(ids) > floors[places.reshape(-1)]
        return some.take(np.flatnonzero(seen))

    # To Arrow

    def save(self, queries: Sequence[int]) -> pa.Table | None:
        """All readings once, for the first of the queries, and the floors of all of them."""
        if not self._windows or not queries:
            return None
        whole = self.of_query(queries[0])
        assert whole is not None
        others = np.array(queries[1:], np.int64)
        floors = np.array([self._floors.get(query, -NEVER) for query in queries[1:]], np.int64)
        return pa.concat_tables([whole, self._rows(others, np.full(len(others), FLOOR), floors)])

    def of_query(self, query: int) -> pa.Table | None:
        """What the windows of one query hold."""
        if not self._windows:
            return None
        parts = []
        floor = np.array([self._floors.get(query, -NEVER)], np.int64)
        parts.append(self._rows(np.array([query]), np.array([FLOOR]), floor))
        for i, some in self._windows.items():
            count = np.array([some.count], np.int64)
            zero = np.zeros(1, np.int64)
            parts.append(self._rows(np.array([query]), np.array([COUNTS - i]), zero, zero, count))
            arrays = some.save()
            size = len(arrays[0])
            owners, mine = np.full(size, query, np.int64), np.full(size, i, np.int64)
            starts, ends, ordinals = (array.to_numpy() for array in arrays[: len(FACTS)])
            columns = {i: arrays[len(FACTS) :]}
            parts.append(self._rows(owners, mine, starts, ends, ordinals, columns))
        return pa.concat_tables(parts)

    def _rows(
        self,
        queries: Longs,
        sources: Longs,
        starts: Longs,
        ends: Longs | None = None,
        ordinals: Longs | None = None,
        columns: dict[int, list[pa.Array]] | None = None,
    ) -> pa.Table:
        zeros = np.zeros(len(queries), np.int64)
        facts = {START: starts, END: ends, ORDINAL: ordinals}
        arrays = [pa.array(queries, pa.int64()), pa.array(sources, pa.int64())]
        for fact in FACTS:
            given = facts[fact]
            arrays.append(pa.array(zeros if given is None else given, pa.int64()))
        for i, some in self._windows.items():
            held = None if columns is None else columns.get(i)
            empty = [pa.nulls(len(queries), kind) for kind in some.kinds]
            arrays += empty if held is None else held
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
