"""The readings of a tick themselves, for windows, which hold all of them.

An object is where its last reading says; a window counts every reading, each once, and
`WINDOW PREVIOUS` wants to know what the same object said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns
from place.engine.objects import Messages, Objects
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.gather import picked as picked_versions
from place.kernels.version_links import last_of_instants, link_versions
from place.model.clock import ceil_all
from place.model.schema import Column, Relation, Stream
from place.model.types import Type


@dataclass(frozen=True)
class TickReadings:
    """The readings of a tick in the order of times; of those with one key and time only the last.

    `previous` is the reading before each one in its object's life: `i >= 0` is reading i of the
    tick, `~slot` is what the store held before the tick. Only an object's last reading at an
    instant is paired with the one before it; `is_paired` says which readings are.
    """

    store: Objects
    slots: Longs
    keys: Longs
    times: Longs
    instants: Longs
    rows: Columns
    previous: Longs
    is_paired: Bools

    def __len__(self) -> int:
        return len(self.keys)

    @staticmethod
    def of(messages: Messages, instants: Longs, store: Objects) -> TickReadings:
        """The readings among the messages of a tick, which come in the order of their times.

        The keys have their slots already; the store does not yet hold the rows. Readings of a
        stream without KEY have no slots, and nothing before them.
        """
        if store.relation.key is None:
            nothing = np.full(len(messages), -1)
            return TickReadings(
                store,
                nothing,
                messages.keys,
                messages.times,
                instants,
                messages.rows,
                nothing,
                np.zeros(len(messages), np.bool_),
            )
        slots = store.find_all(messages.keys)
        known = np.flatnonzero(slots >= 0)
        if len(known) < len(slots):  # keys that are unknown and disappear
            messages, instants, slots = messages.take(known), instants[known], slots[known]
        last = store.scratch()
        once = last_of_instants(slots, messages.times, last)
        if not once.all():
            kept = np.flatnonzero(once)
            messages, instants, slots = messages.take(kept), instants[kept], slots[kept]
        before, after = link_versions(slots, last)
        present = np.flatnonzero(~messages.gone)
        has = _has_previous(messages, instants, store, before, after)
        number = np.cumsum(~messages.gone) - 1
        previous = np.where(before >= 0, number[np.maximum(before, 0)], before)
        some = messages if len(present) == len(messages) else messages.take(present)
        return TickReadings(
            store,
            slots[present],
            some.keys,
            some.times,
            instants[present],
            some.rows,
            previous[present],
            has[present],
        )

    @staticmethod
    def none(store: Objects) -> TickReadings:
        """No readings."""
        rows = Columns(store.columns.columns, store.columns.dictionary, 0)
        nothing = np.empty(0, np.int64)
        messages = Messages(nothing, nothing, np.empty(0, np.bool_), rows)
        return TickReadings.of(messages, nothing, store)

    def pick(self, ids: Longs, columns: Sequence[int]) -> Columns:
        """Some columns of readings."""
        return self.rows.pick(columns, ids)

    def places(self, ids: Longs, columns: Sequence[int]) -> Floats:
        """Where readings are over up to two columns, as numbers."""
        found = np.zeros((len(ids), 2))
        for k, column in enumerate(columns[:2]):
            found[:, k] = self.rows.numbers(column, ids)
        return found

    def before(self, ids: Longs, columns: Sequence[int]) -> Columns:
        """Some columns of what was said before these readings."""
        held, previous = self.store.columns, self.previous[ids]
        picked = Columns(tuple(held.columns[i] for i in columns), held.dictionary, 0)
        picked.values = [
            picked_versions(self.rows.values[i], held.values[i], previous) for i in columns
        ]
        picked.nulls = [
            picked_versions(self.rows.nulls[i], held.nulls[i], previous) for i in columns
        ]
        return picked

    def ranks(self, ids: Longs) -> Columns:
        """Time and key of readings, by which windows order them."""
        relation = self.store.relation
        key = relation.key or 0
        made = self.rows.pick((key, key), ids)
        made.columns = reading_ranks(relation)
        made.values[0] = self.times[ids]
        if relation.key is None:
            made.values[1] = self.keys[ids]
        made.nulls = [np.zeros(len(ids), np.bool_) for _ in range(2)]
        return made


def reading_ranks(relation: Relation) -> tuple[Column, ...]:
    """The columns of the ranks of readings."""
    return Column("time", Type.BIGINT), Column("key", relation.key_type)


def _has_previous(
    messages: Messages, instants: Longs, store: Objects, before: Longs, after: Longs
) -> Bools:
    """Which messages are the last reading of their object at an instant, with one before it in the
    same life."""
    stream = store.relation
    assert isinstance(stream, Stream)
    gone = messages.gone
    first = before < 0
    held = np.where(first, ~before, 0)
    has = np.where(first, store.alive[held], ~gone[np.where(first, 0, before)])
    if stream.timeout is not None:
        told = np.where(first, store.times[held], messages.times[np.where(first, 0, before)])
        has &= messages.times < told + stream.timeout
        has &= ceil_all(messages.times + stream.timeout, stream.evaluate) > instants
    final = (after < 0) | (instants[np.maximum(after, 0)] != instants)
    found: Bools = has & final & ~gone
    return found
