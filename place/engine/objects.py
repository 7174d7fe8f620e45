"""The objects of a relation that a cell holds: the last reading of each key that is alive.

Rows of tables are objects that never move; they are known by their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns, Dictionary, Slots
from place.model.schema import Relation
from place.model.types import Row


@dataclass(frozen=True)
class Changed:
    """What one instant changed in a relation: the slots, and their rows before.

    `was` and `now` tell whether an object was at the slot before, and is there now.
    """

    slots: Slots
    before: Columns
    was: np.ndarray
    now: np.ndarray


class Objects:
    """Slots of objects, found by key."""

    def __init__(self, relation: Relation, dictionary: Dictionary) -> None:
        self.relation = relation
        self.columns = Columns(relation.columns, dictionary)
        self.alive = np.zeros(self.columns.capacity, np.bool_)
        self.slots: dict[Hashable, int] = {}
        self.keys: list[Hashable] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def size(self) -> int:
        """Slots in use or free again: arrays are this long."""
        return len(self.keys)

    def find(self, key: Hashable) -> int:
        """The slot of an object that is alive, or −1."""
        return self.slots.get(key, -1)

    def change(self, messages: Sequence[tuple[Hashable, Row | None]]) -> Changed:
        """Take the last message of each key: its row, or None where the object is gone."""
        slots, rows, written, now = [], [], [], []
        was = []
        for key, row in messages:
            slot = self.slots.get(key, -1)
            if slot < 0 and row is None:
                continue
            was.append(slot >= 0)
            now.append(row is not None)
            if slot < 0:
                slot = self._take_slot(key)
            slots.append(slot)
            if row is not None:
                written.append(slot)
                rows.append(row)
        at = np.array(slots, np.int64)
        self._reserve()
        before = self.columns.take(at)
        if rows:
            self.columns.write(np.array(written, np.int64), rows)
        present = np.array(now, np.bool_)
        self.alive[at] = present
        for slot in at[~present].tolist():
            del self.slots[self.keys[slot]]
            self._free.append(slot)
        return Changed(at, before, np.array(was, np.bool_), present)

    def evict(self, slots: Slots) -> list[Hashable]:
        """Keep these objects no longer, although they are not gone; their keys."""
        keys = [self.keys[slot] for slot in slots.tolist()]
        self.alive[slots] = False
        for key in keys:
            self._free.append(self.slots.pop(key))
        return keys

    def _take_slot(self, key: Hashable) -> int:
        if self._free:
            slot = self._free.pop()
            self.keys[slot] = key
        else:
            slot = len(self.keys)
            self.keys.append(key)
        self.slots[key] = slot
        return slot

    def _reserve(self) -> None:
        self.columns.reserve(self.size)
        if len(self.alive) < self.columns.capacity:
            more = self.columns.capacity - len(self.alive)
            self.alive = np.concatenate([self.alive, np.zeros(more, np.bool_)])
