"""What the windows of a join hold, as it is saved, and from when on each query sees it.

Queries of one shape share windows. A query that begins later than others sees the readings that its
streams remember, as if it were alone; windows may hold older ones for the others, which it does not
see: its floor is the last instant that is hidden from it. A floor is the same in all rows of cells.
It cannot be told from the readings of one cell, because which row holds a reading differs between
the past and now: readings of a stream without KEY are numbered anew whenever they are read.
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


def hidden_until(content: pa.Table, instant: int) -> pa.Table:
    """A content whose queries see nothing that took effect until an instant."""
    at = 2 + START
    is_mark = content.column(1).to_numpy() == FLOOR
    starts = np.where(is_mark, instant, content.column(at).to_numpy())
    return content.set_column(at, content.column_names[at], pa.array(starts))


def oldest_of(content: pa.Table) -> int:
    """When the oldest reading of a content took effect."""
    starts = content.column(2 + START).to_numpy()[content.column(1).to_numpy() >= 0]
    return int(starts.min()) if len(starts) else NEVER


class JoinContent:
    """The windows among the sources of a join."""

    def __init__(self, elements: Sequence[Elements]) -> None:
        self._windows = {
            i: some for i, some in enumerate(elements) if isinstance(some, WindowElements)
        }
        self._floors: dict[int, int] = {}
        self._watching: list[int] = []
        """Queries that begin with nothing, and see what comes from now on."""
        self._is_filled = False
        self._may_hide = False
        """May anything be hidden? Readings only become younger, so that no stays no until a query
        begins."""

    @property
    def has_floors(self) -> bool:
        """Is anything hidden from some query?"""
        if self._may_hide:
            highest = max(self._floors.values(), default=-NEVER)
            self._may_hide = highest >= min(some.oldest for some in self._windows.values())
        return self._may_hide

    def begin(self, query: int, content: pa.Table | None) -> bool:
        """A query begins, with what its windows hold. Do they hold other readings by that than
        before?"""
        if not self._windows:
            return False
        self._may_hide = True
        if content is None:
            self._floors[query] = -NEVER
            self._watching.append(query)
            return False
        seen = min(self._floors.values(), default=NEVER)
        sources, starts = content.column(1).to_numpy(), content.column(2 + START).to_numpy()
        marks = np.flatnonzero(sources == FLOOR)
        floor = self._floors[query] = int(starts[marks[0]]) if len(marks) else -NEVER
        if not (sources <= COUNTS).any():
            return False  # another query of the same windows has saved them
        if self._is_filled and floor >= seen:
            return False
        self._fill(content, sources, seen if self._is_filled else NEVER)
        return True

    def watch(self, instant: int) -> None:
        """Queries that began with nothing see what comes after an instant."""
        self._is_filled |= bool(self._watching)
        for query in self._watching:
            self._floors[query] = instant
        self._watching = []

    def _fill(self, content: pa.Table, sources: Longs, until: int) -> None:
        """Hold the readings of a content that took effect until an instant. Of these nobody sees
        any that are held until now, which may be others, because queries that saw them are gone."""
        self._is_filled = True
        at = 2 + len(FACTS)
        ordinals = content.column(2 + ORDINAL).to_numpy()
        for i, some in self._windows.items():
            mine = content.filter(pa.array(sources == i))
            wanted = [*range(2, 2 + len(FACTS)), *range(at, at + len(some.columns))]
            count = int(ordinals[sources == COUNTS - i][0])
            some.restore([mine.column(c).combine_chunks() for c in wanted], count, until)
            at += len(some.columns)

    def forget(self, queries: Sequence[int]) -> None:
        """Queries have ended."""
        for query in queries:
            self._floors.pop(query, None)

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
