"""The objects of a relation that a cell holds: the last reading of each key that is alive.

Keys are kept as numbers: BIGINT keys as they are, texts as their codes in the dictionary. The keys
of a table are the numbers of its rows, which are objects that never move.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary
from place.kernels.arrays import Bools, Longs
from place.kernels.key_index import (
    empty_table,
    enter_slots,
    found_slots,
    last_of_each,
    remove_slots,
    take_slots,
)
from place.model.schema import Column, Relation, Stream
from place.model.types import Type


@dataclass(frozen=True)
class Messages:
    """Messages of a relation's keys, in order: each has the key's new row, or says that it is
    gone."""

    keys: Longs
    times: Longs
    gone: Bools
    rows: Columns

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, chosen: Longs | slice) -> Messages:
        """Some of them."""
        rows = self.rows.take(chosen)
        return Messages(self.keys[chosen], self.times[chosen], self.gone[chosen], rows)

    def numbered(self, first: int) -> Messages:
        """The same readings of a stream without KEY, numbered as they came."""
        return Messages(np.arange(first, first + len(self)), self.times, self.gone, self.rows)

    @staticmethod
    def joined(parts: list[Messages]) -> Messages:
        """Several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return Messages(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.gone for part in parts]),
            Columns.joined([part.rows for part in parts]),
        )


class Objects:
    """Slots of objects, found by key. `columns` may be fewer than the relation's.

    `leads` is the number of the focal object that is at a slot, or −1; such a slot stays with its
    key also while the object is gone.
    """

    def __init__(
        self,
        relation: Relation,
        dictionary: Dictionary,
        columns: tuple[Column, ...] | None = None,
        threads: int = 1,
    ) -> None:
        self.relation = relation
        self.threads = threads
        """How many threads may look up its objects."""
        self.is_coded = isinstance(relation, Stream) and relation.key_type is Type.STRING
        self.columns = Columns(columns or relation.columns, dictionary)
        self.size = 0
        """Slots in use or free again."""
        self.revision = 0
        """Grows with every change of the objects, so that others know when to look again."""
        self._allot(self.columns.capacity)
        self._table = empty_table(16)
        self._entries = 0
        self._free_count = 0
        self._scratch = np.full(16, -1, np.int64)

    def _allot(self, capacity: int) -> None:
        self.alive = np.zeros(capacity, np.bool_)
        self.times = np.zeros(capacity, np.int64)
        self.keys = np.zeros(capacity, np.int64)
        self.leads = np.full(capacity, -1, np.int32)
        self._free = np.zeros(capacity, np.int32)

    def __len__(self) -> int:
        return int(self.alive[: self.size].sum())

    def number(self, key: Hashable) -> int:
        """The number of a key as readings have it."""
        return self.columns.dictionary.code(key) if self.is_coded else key  # type: ignore[arg-type,return-value]

    def find_all(self, keys: Longs) -> Longs:
        """The slots of keys, −1 for those that have none."""
        return found_slots(self._table, self.keys, keys, self.threads)[0]

    def take_all(self, keys: Longs) -> Longs:
        """The slots of keys; those that have none get one."""
        slots, missing = found_slots(self._table, self.keys, keys, self.threads)
        if missing:
            self._reserve(self.size + missing)
            self._make_room(missing)
            before = self._free_count + len(self.keys) - self.size
            self._free_count, self.size = take_slots(
                self._table, self.keys, keys, slots, self._free, self._free_count, self.size
            )
            self._entries += before - (self._free_count + len(self.keys) - self.size)
        return slots

    def scratch(self) -> Longs:
        """An array of −1 for each slot; a kernel that uses it leaves it as it was."""
        if len(self._scratch) < self.size:
            self._scratch = np.full(len(self.keys), -1, np.int64)
        return self._scratch

    def change(self, messages: Messages) -> None:
        """Take messages in their order, of which the last of each key counts."""
        slots = self.take_all(messages.keys)
        last = np.flatnonzero(last_of_each(slots, self.scratch()))
        slots, gone = slots[last], messages.gone[last]
        written = np.flatnonzero(~gone)
        self.columns.put(slots[written], messages.rows.take(last[written]))
        self.times[slots[written]] = messages.times[last[written]]
        self.finish(slots, gone)

    def finish(self, slots: Longs, gone: Bools) -> None:
        """Objects whose rows are written are alive now, or gone."""
        self.revision += 1
        self.alive[slots] = ~gone
        self._release(slots[gone])

    def evict(self, slots: Longs) -> None:
        """Keep these objects no longer, although they are not gone."""
        self.revision += 1
        self.alive[slots] = False
        self._release(slots)

    def follow(self, slots: Longs, numbers: NDArray[np.int32]) -> None:
        """Focal objects of these numbers are at these slots; −1 where one is followed no more."""
        self.leads[slots] = numbers
        self._release(slots[(numbers < 0) & ~self.alive[slots]])

    def load(self, keys: Longs, times: Longs, rows: Columns) -> None:
        """Fill an empty store."""
        self.revision += 1
        self._reserve(len(keys))
        size = len(keys)
        self.keys[:size], self.times[:size], self.alive[:size] = keys, times, True
        self.columns.put(np.arange(size), rows)
        self.size = self._entries = size
        self._table = empty_table(size)
        enter_slots(self._table, self.keys, np.arange(size))

    def messages(self) -> Messages:
        """The last messages of all objects that are alive."""
        slots = np.flatnonzero(self.alive[: self.size])
        rows, gone = self.columns.take(slots), np.zeros(len(slots), np.bool_)
        return Messages(self.keys[slots], self.times[slots], gone, rows)

    def messages_of(self, keys: Longs) -> Messages:
        """The last messages of those of these keys that are alive."""
        slots = self.find_all(keys)
        slots = slots[slots >= 0]
        slots = slots[self.alive[slots]]
        rows, gone = self.columns.take(slots), np.zeros(len(slots), np.bool_)
        return Messages(self.keys[slots], self.times[slots], gone, rows)

    def all_messages(self) -> Messages:
        """The last messages of all keys that have a slot; keys without an object are marked as
        gone."""
        held = np.ones(self.size, np.bool_)
        held[self._free[: self._free_count]] = False
        slots = np.flatnonzero(held)
        rows = self.columns.take(slots)
        return Messages(self.keys[slots], self.times[slots], ~self.alive[slots], rows)

    def _release(self, slots: Longs) -> None:
        """Slots whose objects are gone and that no region follows are free."""
        freed = slots[self.leads[slots] < 0]
        if len(freed):
            remove_slots(self._table, self.keys, freed)
            self._free[self._free_count : self._free_count + len(freed)] = freed
            self._free_count += len(freed)

    def _reserve(self, size: int) -> None:
        if size <= len(self.keys):
            return
        self.columns.reserve(size)
        old = self._arrays()
        self._allot(self.columns.capacity)
        for before, after in zip(old, self._arrays(), strict=True):
            after[: len(before)] = before

    def _arrays(self) -> list[NDArray[Any]]:
        return [self.alive, self.times, self.keys, self.leads, self._free]

    def _make_room(self, more: int) -> None:
        """Keep the table at most half full, counting the places where something was."""
        if 2 * (self._entries + more) <= len(self._table):
            return
        held = np.ones(self.size, np.bool_)
        held[self._free[: self._free_count]] = False
        slots = np.flatnonzero(held)
        self._entries = len(slots)
        self._table = empty_table(len(slots) + more)
        enter_slots(self._table, self.keys, slots)
