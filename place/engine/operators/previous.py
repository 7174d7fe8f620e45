"""`WINDOW PREVIOUS`: each object's last reading beside the one before it, until the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from place.engine.columns import Dictionary
from place.engine.flow import Flow
from place.engine.objects import Objects
from place.engine.operators.contract import NEVER
from place.engine.readings import END, QUERY, SLOT, Readings
from place.engine.tick import Tick
from place.model.schema import Column


class Previous:
    """The pairs of all queries of one shape."""

    name = "choose"

    def __init__(
        self,
        store: Objects,
        previous: int,
        needed: tuple[int, ...],
        columns: Sequence[tuple[Column, ...] | None],
        ranks: tuple[Column, ...],
        dictionary: Dictionary,
    ) -> None:
        self._store = store
        self._previous = previous
        self._needed = needed
        self._held = Readings(columns, ranks, dictionary)
        self._begun: list[int] = []
        self._ended: list[int] = []

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins with the pairs that it holds already."""
        if content is not None and content.num_rows:
            numbers = pa.array(np.full(content.num_rows, query, np.int64))
            slots = self._held.load(content.set_column(0, "0", numbers))
            keys = self._held.ranks(slots).values[1].astype(np.int64)
            self._held.set_slots(slots, self._store.find_all(keys))
            self._begun.append(query)

    def end(self, query: int) -> None:
        """A query ends; its pairs leave."""
        self._ended.append(query)

    def save(self) -> pa.Table | None:
        """All pairs that are held."""
        return self._held.save()

    def next_expiry(self) -> int:
        """Pairs leave when their object says something else, or is gone."""
        return NEVER

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """Take the readings that have one before them, until their objects speak again."""
        parts = [Flow.of_marks(flow.marks)]
        if self._begun:  # by their numbers: entries move where others are loaded
            held = self._held.held()
            new = held[np.isin(self._held.fact(QUERY, held), self._begun)]
            parts.append(self._held.flow(new, np.full(len(new), tick.until), 1))
            self._begun = []
        if self._ended:
            held = self._held.held()
            gone = held[np.isin(self._held.fact(QUERY, held), self._ended)]
            parts.append(self._held.flow(gone, np.full(len(gone), tick.until), -1))
            self._held.remove(gone)
            self._ended = []
        versions = tick.objects.get(self._store.relation.name)
        if versions is None:
            return Flow.joined(parts)
        held = self._held.held()
        if len(held):
            first = np.flatnonzero(versions.before < 0)
            spoke = np.full(self._store.size, NEVER)
            spoke[versions.slots[first]] = versions.instants[first]
            self._held.set_ends(held, spoke[self._held.fact(SLOT, held)])
        if len(flow):
            readings = tick.readings[self._store.relation.name]
            assert flow.readings is not None
            flow = flow.take(np.flatnonzero(readings.is_paired[flow.readings]))
        if len(flow):
            assert flow.readings is not None
            mine = flow.slots
            assert mine is not None
            sources = list(flow.sources)
            sources[self._previous] = readings.before(flow.readings, self._needed)
            flow = replace(flow, sources=tuple(sources))
            following = versions.after[versions.around(mine, flow.instants)[1]]
            ends = np.where(following < 0, NEVER, versions.instants[following])
            self._held.add(flow, ends, np.arange(len(flow)))
            parts.append(flow)
        over = self._held.expired(NEVER - 1)
        parts.append(self._held.flow(over, self._held.fact(END, over), -1))
        self._held.remove(over)
        return Flow.joined(parts)
