"""The stays of objects in regions that last, found by query and object, and when they are due.

A tick touches only those of which something is told, and those that become long enough in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from place.engine.columns import Columns
from place.engine.flow import Sources
from place.engine.multiset import longer
from place.engine.operators.contract import NEVER
from place.kernels.arrays import Bools, Longs
from place.kernels.key_index import (
    empty_table,
    enter_slots,
    found_slots,
    remove_slots,
    take_slots,
)

LOOK = 64
"""How many entries of a run are looked at together for one that still counts."""


class Stays(NamedTuple):
    """Some stays: query and object in one number, since when they last, whether they are in the
    answer already, and the rows."""

    ids: Longs
    since: Longs
    shown: Bools
    sources: Sources

    def __len__(self) -> int:
        return len(self.ids)


class HeldStays:
    """All stays that last. With `dues`, each that is not in the answer has an instant at which it
    will be."""

    def __init__(self) -> None:
        self._ids, self._since = np.zeros(16, np.int64), np.zeros(16, np.int64)
        self._shown, self._dues = np.zeros(16, np.bool_), np.full(16, NEVER)
        self._sources: Sources = ()
        self._table, self._entries = empty_table(16), 0
        self._free, self._free_count, self._size = np.zeros(16, np.int32), 0, 0
        self._runs: list[tuple[Longs, Longs]] = []
        """Instants, in order, and the slots that are due then; some are so no more."""

    def __len__(self) -> int:
        return self._size - self._free_count

    def all(self) -> Stays:
        """All of them."""
        held = np.ones(self._size, np.bool_)
        held[self._free[: self._free_count]] = False
        return self._at(np.flatnonzero(held))

    def touched(self, ids: Longs, until: int) -> Stays:
        """The stays of these ids, and those that are due by an instant."""
        slots, _ = found_slots(self._table, self._ids, np.unique(ids))
        parts = [slots[slots >= 0]]
        for number, (dues, of) in enumerate(self._runs):
            end = int(np.searchsorted(dues, until, "right"))
            if end:
                parts.append(of[:end][self._counts(dues[:end], of[:end])])
                self._runs[number] = (dues[end:], of[end:])
        self._runs = [run for run in self._runs if len(run[0])]
        return self._at(parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts)))

    def next_due(self) -> int:
        """The next instant at which a stay is due."""
        found = NEVER
        for number, (dues, slots) in enumerate(self._runs):
            start = 0
            while start < len(dues):
                some = slice(start, start + LOOK)
                count = np.flatnonzero(self._counts(dues[some], slots[some]))
                if len(count):
                    start += int(count[0])
                    found = min(found, int(dues[start]))
                    break
                start += LOOK
            self._runs[number] = (dues[start:], slots[start:])
        return found

    def _counts(self, dues: Longs, slots: Longs) -> Bools:
        """Which slots hold stays that are still due then."""
        found: Bools = self._dues[slots] == dues
        return found

    def replace(self, before: Stays, after: Stays, dues: Longs | None) -> None:
        """Some stays are others now; `dues` says when those are due that are not shown."""
        gone = np.setdiff1d(before.ids, after.ids, assume_unique=True)
        if len(gone):
            slots, _ = found_slots(self._table, self._ids, gone)
            self._dues[slots] = NEVER
            remove_slots(self._table, self._ids, slots)
            self._free = longer(self._free, self._free_count + len(slots))
            self._free[self._free_count : self._free_count + len(slots)] = slots
            self._free_count += len(slots)
        if not len(after):
            return
        slots = self._slots_for(after.ids)
        self._since[slots], self._shown[slots] = after.since, after.shown
        self._put(slots, after.sources)
        due = np.full(len(after), NEVER)
        if dues is not None:
            due = np.where(after.shown, NEVER, dues)
        known = self._dues[slots] == due
        self._dues[slots] = due
        new = np.flatnonzero(~known & (due < NEVER))
        if len(new):
            self._add_run(due[new], slots[new])

    def _add_run(self, dues: Longs, slots: Longs) -> None:
        while True:
            order = np.argsort(dues, kind="stable")
            dues, slots = dues[order], slots[order]
            if not self._runs or len(self._runs[-1][0]) > 2 * len(dues):
                break
            others, of = self._runs.pop()
            kept = self._counts(others, of)
            dues, slots = np.concatenate([others[kept], dues]), np.concatenate([of[kept], slots])
        self._runs.append((dues, slots))

    def _slots_for(self, ids: Longs) -> Longs:
        """The slots of ids, which are all different; those that have none get one."""
        size = self._size + len(ids)
        self._ids, self._since = longer(self._ids, size), longer(self._since, size)
        self._shown, self._dues = longer(self._shown, size), longer(self._dues, size, NEVER)
        self._free = longer(self._free, size)
        if 2 * (self._entries + len(ids)) > len(self._table):
            held = np.ones(self._size, np.bool_)
            held[self._free[: self._free_count]] = False
            there = np.flatnonzero(held)
            self._table = empty_table(len(there) + len(ids))
            enter_slots(self._table, self._ids, there)
            self._entries = len(there)
        slots, missing = found_slots(self._table, self._ids, ids)
        if missing:
            self._free_count, self._size = take_slots(
                self._table, self._ids, ids, slots, self._free, self._free_count, self._size
            )
            self._entries += missing
        return slots

    def _put(self, slots: Longs, sources: Sources) -> None:
        if not self._sources:
            self._sources = tuple(
                None if rows is None else Columns(rows.columns, rows.dictionary) for rows in sources
            )
        for mine, rows in zip(self._sources, sources, strict=True):
            if mine is not None and rows is not None:
                mine.reserve(self._size)
                mine.put(slots, rows)

    def _at(self, slots: Longs) -> Stays:
        sources = tuple(None if rows is None else rows.take(slots) for rows in self._sources)
        return Stays(self._ids[slots], self._since[slots], self._shown[slots], sources)
