"""A timeline: the streams that some queries read together, and the cell that holds them.

A query over several streams advances with the slowest of them; a query over one does not wait for
others. So each set of streams that queries read has a cell of its own, which is at one instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.cell import Cell, Step
from place.engine.changes import Change
from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages, Objects
from place.engine.route import Place
from place.engine.run import can_run, run
from place.model.schema import Stream
from place.plan.query import Query

LONG_AFTER = 1 << 62
PROBE = "\0probe"
"""The name of a query that is asked once; no name that can be written is the same."""
SHORTEST_RUN, CROWD = 3, 256
"""So many instants, of at most so many readings on average, are taken in one pass."""

Numbers = NDArray[np.int64]


class Timeline:
    """A cell that takes the readings of a set of streams in the order of their instants."""

    def __init__(
        self,
        streams: Iterable[Stream],
        place: Place,
        threads: int,
        at: int,
        dictionary: Dictionary,
    ) -> None:
        self.streams = {stream.name: stream for stream in streams}
        self.instant = at
        self.dictionary = dictionary
        self.cell = Cell(place, self.streams.values(), dictionary, threads)
        self.queries: dict[str, Query] = {}
        self.pending: dict[str, list[Messages]] = {name: [] for name in self.streams}

    # Readings

    def offer(self, stream: str, messages: Messages) -> None:
        """Messages that are in time; they wait for their instants."""
        if len(messages):
            self.pending[stream].append(messages)

    def advance(self, until: int) -> list[Change]:
        """Take all instants up to `until`: one by one, or in one pass where the cell can."""
        told: dict[str, tuple[Messages, Numbers]] = {}
        for name in self.streams:
            ready = self._ready(name, until)
            if ready is not None:
                told[name] = ready
        changes: list[Change] = []
        if not told:
            pass
        elif not self.cell.plans:  # nobody asks what was in between
            messages = {name: messages for name, (messages, _) in told.items()}
            self.cell.process(Step(until, messages))
        elif self._goes_in_runs(told):
            changes = run(self.cell, told)
        else:
            for instant in _instants(told).tolist():
                changes += self.step(Step(instant, _at(told, instant)))
        self.instant = max(self.instant, until)
        return changes

    def _ready(self, name: str, until: int) -> tuple[Messages, Numbers] | None:
        """The messages of a stream up to an instant with their instants, expiries among them."""
        stream = self.streams[name]
        waiting = self.pending[name]
        messages, due = None, np.empty(0, np.int64)
        if waiting:
            messages = Messages.joined(waiting)
            due = ceil_all(messages.times, stream.evaluate)
            ready = due <= until
            self.pending[name] = []
            if not ready.all():
                later = np.flatnonzero(~ready)
                self.pending[name] = [messages.take(later)]
                chosen = np.flatnonzero(ready)
                messages, due = messages.take(chosen), due[chosen]
            if (messages.times[1:] < messages.times[:-1]).any():
                order = np.argsort(messages.times, kind="stable")
                messages, due = messages.take(order), due[order]
        if stream.timeout is not None:
            messages, due = self._with_expiries(stream, messages, due, until)
        return None if messages is None or not len(messages) else (messages, due)

    def _with_expiries(
        self, stream: Stream, messages: Messages | None, due: Numbers, until: int
    ) -> tuple[Messages | None, Numbers]:
        """An object is gone `timeout` after its last reading, if no other comes before that."""
        cell = self.cell
        if messages is None:
            nothing = np.empty(0, np.int64)
            rows = Columns(stream.columns, self.dictionary, 0)
            messages = Messages(nothing, nothing, np.empty(0, np.bool_), rows)
        gone = messages.gone.copy()
        stores = [(cell.subjects[stream.name], np.arange(len(messages)))]
        if stream.name in cell.others:
            texts = self.dictionary if stores[0][0].is_coded else None
            mine = cell.place.has_objects(messages.keys, texts)
            assert mine is not None
            stores = [
                (cell.subjects[stream.name], np.flatnonzero(mine)),
                (cell.others[stream.name], np.flatnonzero(~mine)),
            ]
        keys, instants = [messages.keys], [due]
        for store, chosen in stores:
            for found, at in _expiries(stream, store, messages, gone, due, chosen, until):
                keys.append(found)
                instants.append(at)
        expired = sum(map(len, keys[1:]))
        blank = Columns(stream.columns, self.dictionary, expired)
        due = np.concatenate(instants)
        joined = Messages(
            np.concatenate(keys),
            np.concatenate([messages.times, due[len(messages) :]]),
            np.concatenate([gone, np.ones(expired, np.bool_)]),
            Columns.joined([messages.rows, blank]) if expired else messages.rows,
        )
        if not expired:
            return joined, due
        order = np.argsort(due, kind="stable")
        return joined.take(order), due[order]

    def _goes_in_runs(self, told: Mapping[str, tuple[Messages, Numbers]]) -> bool:
        """Are there many instants of few readings each, that the cell can take in one pass?"""
        count = sum(len(due) for _, due in told.values())
        instants = len(_instants(told))
        return (
            instants >= SHORTEST_RUN and count <= instants * CROWD and can_run(self.cell, set(told))
        )

    # Queries

    def step(self, step: Step) -> list[Change]:
        """One instant."""
        self.instant = max(self.instant, step.instant)
        return self.cell.process(step)

    def register(self, queries: Sequence[Query], tables: Mapping[str, pa.Table]) -> list[Change]:
        """Queries that are answered from now on: their answers as positive changes."""
        for query in queries:
            self.queries[query.name] = query
        return self.step(Step(self.instant, register=queries, tables=tables))

    def probe(self, query: Query, tables: Mapping[str, pa.Table]) -> list[Change]:
        """The answer of a query at the instant that the cell has reached, as positive changes."""
        asked = replace(query, name=PROBE)
        found = self.step(Step(self.instant, register=[asked], tables=tables))
        self.step(Step(self.instant, drop=[PROBE]))
        return found

    def drop(self, names: Sequence[str]) -> list[Change]:
        """Queries that end: their answers as negative changes."""
        for name in names:
            del self.queries[name]
        return self.step(Step(self.instant, drop=names))


def _instants(told: Mapping[str, tuple[Messages, Numbers]]) -> Numbers:
    """All instants at which something is told, in order."""
    found: Numbers = np.unique(np.concatenate([_different(due) for _, due in told.values()]))
    return found


def _different(due: Numbers) -> Numbers:
    different: Numbers = due[np.concatenate([[True], due[1:] != due[:-1]])]
    return different


def _at(told: Mapping[str, tuple[Messages, Numbers]], instant: int) -> dict[str, Messages]:
    """What each stream tells at an instant."""
    found = {}
    for name, (messages, due) in told.items():
        low, high = np.searchsorted(due, [instant, instant + 1]).tolist()
        if low == 0 and high == len(due):
            found[name] = messages
        elif low < high:
            found[name] = messages.take(slice(low, high))
    return found


def ceil_all(times: Numbers, period: int | None) -> Numbers:
    """`ceil_to` of many."""
    if period is None:
        return times
    ceiled: Numbers = -(-times // period) * period
    return ceiled


def _expiries(
    stream: Stream,
    store: Objects,
    messages: Messages,
    gone: NDArray[np.bool_],
    due: Numbers,
    chosen: Numbers,
    until: int,
) -> list[tuple[Numbers, Numbers]]:
    """The keys of a store that expire, with the instants: those known so far, and those told now.

    `gone` is marked for readings that are over at their own instant.
    """
    assert stream.timeout is not None
    slots = store.take_all(messages.keys[chosen])
    order = np.argsort(slots, kind="stable")
    at, s = chosen[order], slots[order]
    ends = ceil_all(messages.times[at] + stream.timeout, stream.evaluate)
    gone[at] |= ends <= due[at]
    is_first = np.ones(len(s), np.bool_)
    is_first[1:] = s[1:] != s[:-1]
    next_due = np.full(len(s), LONG_AFTER)
    next_due[:-1][~is_first[1:]] = due[at[1:]][~is_first[1:]]
    over = ~gone[at] & (ends <= until) & (ends < next_due)
    first_due = np.full(store.size, LONG_AFTER)
    first_due[s[is_first]] = due[at[is_first]]
    last = ceil_all(store.times[: store.size] + stream.timeout, stream.evaluate)
    known = np.flatnonzero(store.alive[: store.size] & (last <= until) & (last < first_due))
    return [(store.keys[known], last[known]), (messages.keys[at[over]], ends[over])]
