"""The versions of objects within a tick: what each is from one instant to the next.

The rows of a tick are versions, and so is what a store held before the tick, which takes the rows
only when the tick is over. A version has one number: `i >= 0` is row i of the tick, `~slot` is what
the slot held before. So what an object was and what it becomes are asked in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from place.engine.columns import Columns
from place.engine.objects import Messages, Objects
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.gather import picked as picked_versions
from place.kernels.gather import put, taken
from place.kernels.version_links import (
    last_of_instants,
    link_versions,
    versions_around,
)


@dataclass(frozen=True)
class Versions:
    """The messages of a tick to one store, in the order of instants; of the messages of one key at
    one instant only the last.

    `before` is the version that each replaces, `after` the row that replaces it, or −1.
    """

    store: Objects
    slots: Longs
    instants: Longs
    messages: Messages
    before: Longs
    after: Longs
    _new_places: dict[tuple[int, ...], Floats] = field(
        default_factory=dict, repr=False, compare=False
    )

    @staticmethod
    def of(store: Objects, messages: Messages, instants: Longs) -> Versions:
        """The versions that messages make, which are in the order of their instants."""
        if messages.gone.any():
            # A key that is unknown and disappears needs no slot.
            unknown = messages.gone & (store.find_all(messages.keys) < 0)
            if unknown.any():
                arriving = np.isin(messages.keys, messages.keys[~messages.gone])
                kept = np.flatnonzero(~unknown | arriving)
                messages, instants = messages.take(kept), instants[kept]
        slots = store.take_all(messages.keys)
        last = store.scratch()
        is_last = last_of_instants(slots, instants, last)
        if not is_last.all():
            kept = np.flatnonzero(is_last)
            messages, instants, slots = messages.take(kept), instants[kept], slots[kept]
        return Versions(store, slots, instants, messages, *link_versions(slots, last))

    @staticmethod
    def none(store: Objects) -> Versions:
        """No versions but those that the store holds."""
        nothing = np.empty(0, np.int64)
        rows = Columns(store.columns.columns, store.columns.dictionary, 0)
        messages = Messages(nothing, nothing, np.empty(0, np.bool_), rows)
        return Versions(store, nothing, nothing, messages, nothing, nothing)

    def __len__(self) -> int:
        return len(self.slots)

    def pick(self, ids: Longs, columns: Sequence[int]) -> Columns:
        """Some columns of versions."""
        held, rows = self.store.columns, self.messages.rows
        picked = Columns(tuple(held.columns[i] for i in columns), held.dictionary, 0)
        threads = self.store.threads
        picked.values = [
            picked_versions(rows.values[i], held.values[i], ids, threads) for i in columns
        ]
        picked.nulls = [self._nulls(i, ids) for i in columns]
        return picked

    def _nulls(self, column: int, ids: Longs) -> Bools:
        """Where a column of versions is NULL; most often there is no NULL at all."""
        new, old = self.messages.rows.nulls[column], self.store.columns.nulls[column]
        if not new.any() and not old[: self.store.size].any():
            return np.zeros(len(ids), np.bool_)
        found: Bools = picked_versions(new, old, ids, self.store.threads)
        return found

    def alive(self, ids: Longs) -> Bools:
        """Is there an object in each version?"""
        if not len(self):
            found: Bools = taken(self.store.alive, ~ids, self.store.threads)
            return found
        present: Bools = picked_versions(
            ~self.messages.gone, self.store.alive, ids, self.store.threads
        )
        return present

    def places(self, ids: Longs, columns: Sequence[int]) -> Floats:
        """Where versions are over up to two columns, as numbers; NaN where there is no object."""
        found = np.zeros((len(ids), 2))
        picked = self.pick(ids, columns[:2])
        for k in range(len(picked.columns)):
            found[:, k] = picked.numbers(k)
        alive = self.alive(ids)
        if not alive.all():
            found[~alive] = np.nan
        return found

    def new_places(self, columns: Sequence[int]) -> Floats:
        """Where the versions of the tick are: `places` of all of them, without looking them up.
        Several ask for the same, and nobody changes it."""
        wanted = tuple(columns[:2])
        if wanted not in self._new_places:
            self._new_places[wanted] = self._placed(wanted)
        return self._new_places[wanted]

    def _placed(self, columns: Sequence[int]) -> Floats:
        found = np.zeros((len(self), 2))
        for k, column in enumerate(columns):
            found[:, k] = self.messages.rows.numbers(column)
        if self.messages.gone.any():
            found[self.messages.gone] = np.nan
        return found

    def around(self, slots: Longs, instants: Longs) -> tuple[Longs, Longs]:
        """The versions of slots just before instants and at them; instants are in order."""
        if not len(self):
            return ~slots, ~slots
        found: tuple[Longs, Longs] = versions_around(
            slots, instants, self.slots, self.instants, self.store.scratch()
        )
        return found

    def settle(self) -> None:
        """The tick is over: the store takes the last version of each slot."""
        if not len(self):
            return
        store, messages = self.store, self.messages
        last = np.flatnonzero(self.after < 0)
        gone = messages.gone[last]
        written = last[~gone] if gone.any() else last
        slots = self.slots if len(written) == len(messages) else self.slots[written]
        if len(written) == len(messages):
            store.columns.put(slots, messages.rows, store.threads)
            put(store.times, slots, messages.times, store.threads)
        else:
            store.columns.put(slots, messages.rows.take(written), store.threads)
            put(store.times, slots, messages.times[written], store.threads)
        store.finish(self.slots[last], gone)
