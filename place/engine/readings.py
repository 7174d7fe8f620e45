"""A store of readings that expire: what windows hold, each reading of each query until its end.

It has the face of the store of objects: rows at slots, by columns, which go to Arrow and back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.flow import Flow, Sources
from place.engine.operators.contract import NEVER
from place.kernels.arrays import Longs
from place.model.schema import Column

FACTS = QUERY, END, SLOT, READING = range(4)
"""The numbers that each entry has: its query, the instant at which it leaves, the slot of its
object, and its reading."""


class Readings:
    """Entries in the order in which they came: a reading, or a reading in one region of a query
    table, with its rows and its ranks (time and key).

    An entry that has left stays where it is until there are many of them.
    """

    def __init__(
        self,
        columns: Sequence[tuple[Column, ...] | None],
        ranks: tuple[Column, ...],
        dictionary: Dictionary,
    ) -> None:
        self._rows = [None if some is None else Columns(some, dictionary) for some in columns]
        self._ranks = Columns(ranks, dictionary)
        self._facts = np.zeros((len(FACTS), 16), np.int64)
        self._left = np.zeros(16, np.bool_)
        self._start = self._size = self._gone = self._next = 0

    def __len__(self) -> int:
        return self._size - self._start - self._gone

    def held(self) -> Longs:
        """The slots of all entries that are there, in order."""
        found = np.arange(self._start, self._size)
        return found[~self._left[self._start : self._size]] if self._gone else found

    def fact(self, name: int, slots: Longs) -> Longs:
        """One of the facts of entries."""
        found: Longs = self._facts[name, slots]
        return found

    def ranks(self, slots: Longs) -> Columns:
        """Time and key of entries."""
        return self._ranks.take(slots)

    def add(self, flow: Flow, ends: Longs, readings: Longs) -> Longs:
        """Readings come; their slots. `readings` number them, from 0 on, in order."""
        count = len(flow)
        if not count:
            return np.empty(0, np.int64)
        self._reserve(count)
        new = np.arange(self._size, self._size + count)
        self._facts[QUERY, new] = flow.queries
        self._facts[END, new] = ends
        self._facts[SLOT, new] = -1 if flow.slots is None else flow.slots
        self._facts[READING, new] = readings + self._next
        self._next += int(readings.max()) + 1
        for mine, other in zip(self._rows, flow.sources, strict=True):
            if mine is not None and other is not None:
                mine.put(new, other)
        assert flow.ranks is not None
        self._ranks.put(new, flow.ranks)
        self._left[new] = False
        self._size += count
        return new

    def expired(self, until: int) -> Longs:
        """The slots of entries whose end is not after an instant."""
        held = self.held()
        found: Longs = held[self._facts[END, held] <= until]
        return found

    def next_end(self) -> int:
        """The first end of an entry."""
        held = self.held()
        return int(self._facts[END, held].min()) if len(held) else NEVER

    def set_ends(self, slots: Longs, ends: Longs) -> None:
        """Entries leave at other instants than was known."""
        self._facts[END, slots] = ends

    def set_slots(self, slots: Longs, objects: Longs) -> None:
        """The objects of entries are at these slots of their store."""
        self._facts[SLOT, slots] = objects

    def flow(self, slots: Longs, instants: Longs, weight: int) -> Flow:
        """The flow of entries that come (weight 1) or leave (−1) at these instants."""
        rows: Sources = tuple(None if some is None else some.take(slots) for some in self._rows)
        return Flow(
            self._facts[QUERY, slots],
            instants,
            np.full(len(slots), weight, np.int64),
            rows,
            self._ranks.take(slots),
        )

    def remove(self, slots: Longs) -> None:
        """Entries have left."""
        if not len(slots):
            return
        self._left[slots] = True
        self._gone += len(slots)
        staying = np.flatnonzero(~self._left[self._start : self._size])
        prefix = int(staying[0]) if len(staying) else self._size - self._start
        self._start += prefix
        self._gone -= prefix

    def _reserve(self, count: int) -> None:
        """Room for more, at first where entries have left."""
        capacity = self._facts.shape[1]
        if self._size + count <= capacity:
            return
        kept = self.held()
        size = len(kept)
        if 2 * (size + count) > capacity:
            capacity = 2 * (size + count)
        facts = np.zeros((len(FACTS), capacity), np.int64)
        facts[:, :size] = self._facts[:, kept]
        self._facts, self._left = facts, np.zeros(capacity, np.bool_)
        for rows in (*self._rows, self._ranks):
            if rows is not None:
                moved = rows.take(kept)
                rows.reserve(capacity)
                rows.put(np.arange(size), moved)
        self._start, self._size, self._gone = 0, size, 0

    # To Arrow and back

    def save(self) -> pa.Table | None:
        """All that it holds; the first column is the number of the query."""
        held = self.held()
        if not len(held):
            return None
        arrays = [pa.array(self._facts[fact, held]) for fact in (QUERY, END, READING)]
        for rows in (self._ranks, *self._rows):
            if rows is not None:
                arrays += [rows.array(i, held) for i in range(len(rows.columns))]
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    def load(self, table: pa.Table) -> Longs:
        """Hold what was saved, too; its slots."""
        arrays = [column.combine_chunks() for column in table.columns]
        parts: list[Columns | None] = []
        at = 3
        for rows in (self._ranks, *self._rows):
            width = 0 if rows is None else len(rows.columns)
            given = arrays[at : at + width]
            parts.append(
                None if rows is None else Columns.from_arrow(rows.columns, rows.dictionary, given)
            )
            at += width
        queries, ends, readings = (array.to_numpy() for array in arrays[:3])
        ones = np.ones(len(queries), np.int64)
        numbered = np.unique(readings, return_inverse=True)[1].reshape(-1)
        return self.add(Flow(queries, ends, ones, tuple(parts[1:]), parts[0]), ends, numbered)
