"""A timeline: the streams that some queries read together, and the cell that holds them.

A query over several streams advances with the slowest of them; a query over one does not wait for
others. So each set of streams that queries read has a cell of its own, which is at one instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.cell import Cell
from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages, Objects
from place.engine.past import ceil_all
from place.engine.route import Place
from place.engine.run import can_run, run
from place.engine.step import Found, Step
from place.model.schema import Stream
from place.plan.query import Query

LONG_AFTER = 1 << 62
SHORTEST_RUN, CROWD = 3, 256
"""So many instants, of at most so many readings on average, are taken in one pass."""

Numbers = NDArray[np.int64]
Due = tuple[Messages, Numbers]
"""Messages with their instants, in order."""


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
        self.expired: dict[str, list[Messages]] = {name: [] for name in self.streams}
        """What objects had said last that expired, until someone takes it."""

    # Readings

    def offer(self, stream: str, messages: Messages) -> None:
        """Messages that are in time; they wait for their instants."""
        if len(messages):
            self.pending[stream].append(messages)

    def advance(self, until: int, stage: int = 0) -> list[Found]:
        """Take all instants up to `until`: one by one, or in one pass where the cell can."""
        told: dict[str, Due] = {}
        heard: dict[str, Due] = {}
        for name in self.streams:
            ready = self._ready(name, until)
            if ready is not None:
                heard[name] = ready
            with_expiries = self._with_expiries(self.streams[name], ready, until)
            if with_expiries is not None:
                told[name] = with_expiries
        found: list[Found] = []
        above = self.cell.above
        if not told and above.next_expiry() > until:
            pass
        elif not self.cell.plans:  # nobody asks what was in between
            messages = {name: messages for name, (messages, _) in told.items()}
            self.cell.process(Step(until, messages))
        elif self._goes_in_runs(told):
            found += run(self.cell, told)
        else:
            instants = _instants(told).tolist()[::-1]
            while True:
                instant = min(instants[-1] if instants else LONG_AFTER, above.next_expiry())
                if instant > until:
                    break
                if instants and instants[-1] == instant:
                    instants.pop()
                said = _at(heard, instant) if len(above) else {}
                found += self.step(Step(instant, _at(told, instant), said, stage=stage))
        self.instant = max(self.instant, until)
        return found

    def _ready(self, name: str, until: int) -> Due | None:
        """The messages of a stream up to an instant with their instants."""
        waiting = self.pending[name]
        if not waiting:
            return None
        messages = Messages.joined(waiting)
        due = ceil_all(messages.times, self.streams[name].evaluate)
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
        return (messages, due) if len(messages) else None

    def _with_expiries(self, stream: Stream, ready: Due | None, until: int) -> Due | None:
        """The same with expiries: an object is gone `timeout` after its last reading, if no other
        comes before that."""
        if stream.timeout is None:
            return ready
        cell = self.cell
        if ready is None:
            nothing = np.empty(0, np.int64)
            rows = Columns(stream.columns, self.dictionary, 0)
            ready = Messages(nothing, nothing, np.empty(0, np.bool_), rows), nothing
        messages, due = ready
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
            known, told = _expiries(stream, store, messages, gone, due, chosen, until)
            for found, at in (known, told):
                keys.append(found)
                instants.append(at)
            if len(known[0]) and len(self.streams) == 1:
                self.expired[stream.name].append(_last_words(store, stream, known[0]))
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
            return (joined, due) if len(joined) else None
        order = np.argsort(due, kind="stable")
        return joined.take(order), due[order]

    def _goes_in_runs(self, told: Mapping[str, Due]) -> bool:
        """Are there many instants of few readings each, that the cell can take in one pass?"""
        count = sum(len(due) for _, due in told.values())
        instants = len(_instants(told))
        return (
            instants >= SHORTEST_RUN and count <= instants * CROWD and can_run(self.cell, set(told))
        )

    # Queries

    def step(self, step: Step) -> list[Found]:
        """One instant."""
        self.instant = max(self.instant, step.instant)
        return self.cell.process(step)

    def register(
        self,
        queries: Sequence[Query],
        tables: Mapping[str, pa.Table],
        contents: Mapping[str, pa.Table] | None = None,
        stage: int = 0,
    ) -> list[Found]:
        """Queries that are answered from now on: their answers as positive changes.

        `contents` are what their windows hold already.
        """
        for query in queries:
            self.queries[query.name] = query
        step = Step(
            self.instant, register=queries, tables=tables, contents=contents or {}, stage=stage
        )
        return self.step(step)

    def drop(self, names: Sequence[str], stage: int = 0) -> list[Found]:
        """Queries that end: their answers as negative changes."""
        for name in names:
            del self.queries[name]
        return self.step(Step(self.instant, drop=names, stage=stage))


def _instants(told: Mapping[str, Due]) -> Numbers:
    """All instants at which something is told, in order."""
    found = [np.empty(0, np.int64), *(_different(due) for _, due in told.values())]
    instants: Numbers = np.unique(np.concatenate(found))
    return instants


def _different(due: Numbers) -> Numbers:
    different: Numbers = due[np.concatenate([[True], due[1:] != due[:-1]])]
    return different


def _at(told: Mapping[str, Due], instant: int) -> dict[str, Messages]:
    """What each stream tells at an instant."""
    found = {}
    for name, (messages, due) in told.items():
        low, high = np.searchsorted(due, [instant, instant + 1]).tolist()
        if low == 0 and high == len(due):
            found[name] = messages
        elif low < high:
            found[name] = messages.take(slice(low, high))
    return found


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


def _last_words(store: Objects, stream: Stream, keys: Numbers) -> Messages:
    """What objects have said last; of those of other rows only where they were."""
    slots = store.find_all(keys)
    rows = store.columns.take(slots)
    if len(rows.columns) < len(stream.columns):
        rows = rows.widened(stream.columns)
    return Messages(keys, store.times[slots], np.zeros(len(keys), np.bool_), rows)
