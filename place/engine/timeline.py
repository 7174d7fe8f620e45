"""A timeline: the streams that some queries read together, and the cell that holds them.

A query over several streams advances with the slowest of them; a query over one does not wait for
others. So each set of streams that queries read has a cell of its own, which is at one instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from place.engine.cell import Cell
from place.engine.columns import Columns, Dictionary
from place.engine.matrix import Place
from place.engine.objects import Messages, Objects
from place.engine.operators.contract import NEVER
from place.engine.partial_answers import Found
from place.engine.query_changes import Changes
from place.engine.store_files import StoreFiles
from place.engine.tick import Due
from place.kernels.arrays import Bools, Longs
from place.model.clock import ceil_all
from place.model.schema import Stream
from place.plan.query import Query

PIECE, MOST_PIECES = 1 << 20, 32
"""A long history is replayed in pieces of so many messages; in more messages, if the pieces would
be too many, since each of them looks at all that still waits."""


class Timeline:
    """A cell that takes the readings of a set of streams in the order of their instants."""

    def __init__(
        self,
        streams: Iterable[Stream],
        place: Place,
        threads: int,
        at: int,
        dictionary: Dictionary,
        files: StoreFiles | None = None,
    ) -> None:
        self.streams = {stream.name: stream for stream in streams}
        self.instant = at
        self.dictionary = dictionary
        self.cell = Cell(place, self.streams.values(), dictionary, threads, files)
        self.queries: dict[str, Query] = {}
        self.pending: dict[str, list[Messages]] = {name: [] for name in self.streams}
        self.expired: dict[str, list[Messages]] = {name: [] for name in self.streams}
        """The last readings of objects that expired, until the worker's history takes them."""

    # Readings

    def offer(self, stream: str, messages: Messages) -> None:
        """Messages that are in time; they wait for their instants."""
        if len(messages):
            self.pending[stream].append(messages)

    def advance(self, until: int, stage: int = 0) -> list[Found]:
        """Take all instants up to `until` in one tick of the cell."""
        ready = {name: self._ready(name, until) for name in self.streams}
        heard = {name: due for name, due in ready.items() if due is not None}
        told = self._told(ready, until)
        if self.cell.recall(self.instant, until, told, heard):
            for expired in self.expired.values():
                expired.clear()
            told = self._told(ready, until)
        found: list[Found] = []
        if told or heard or self.cell.next_expiry() <= until:
            found = self.cell.take(self.instant, until, told, heard, stage)
        self.instant = max(self.instant, until)
        return found

    def _told(self, ready: Mapping[str, Due | None], until: int) -> dict[str, Due]:
        """The messages of streams that have objects, with the expiries of these."""
        told: dict[str, Due] = {}
        for name, due in ready.items():
            if self.streams[name].key is not None:
                with_expiries = self._with_expiries(self.streams[name], due, until)
                if with_expiries is not None:
                    told[name] = with_expiries
        return told

    def milestones(self, until: int) -> list[int]:
        """Instants up to `until`, which is the last of them: between two of them lies a bounded
        part of the messages that wait, so that one can stop there."""
        times = [messages.times for waiting in self.pending.values() for messages in waiting]
        size = max(PIECE, sum(map(len, times)) // MOST_PIECES + 1)
        if sum(map(len, times)) <= size:
            return [until]
        cuts = np.sort(np.concatenate(times))[size - 1 :: size]
        return [*np.unique(cuts[(cuts > self.instant) & (cuts < until)]).tolist(), until]

    def _ready(self, name: str, until: int) -> Due | None:
        """The messages of a stream up to an instant with their instants."""
        taken: list[Messages] = []
        instants: list[Longs] = []
        later: list[Messages] = []
        for messages in self.pending[name]:
            due = ceil_all(messages.times, self.streams[name].evaluate)
            ready = due <= until
            if ready.all():
                taken.append(messages)
                instants.append(due)
            elif not ready.any():
                later.append(messages)
            else:
                chosen = np.flatnonzero(ready)
                taken.append(messages.take(chosen))
                instants.append(due[chosen])
                later.append(messages.take(np.flatnonzero(~ready)))
        self.pending[name] = later
        if not taken:
            return None
        messages, due = Messages.joined(taken), np.concatenate(instants)
        if (messages.times[1:] < messages.times[:-1]).any():
            order = np.argsort(messages.times, kind="stable")
            messages, due = messages.take(order), due[order]
        return (messages, due) if len(messages) else None

    def _with_expiries(self, stream: Stream, ready: Due | None, until: int) -> Due | None:
        """The same messages with expiries: an object is gone `timeout` after its last reading,
        unless another reading comes before that."""
        if stream.timeout is None:
            return ready
        cell = self.cell
        if ready is None:
            nothing = np.empty(0, np.int64)
            rows = Columns(stream.columns, self.dictionary, 0)
            ready = Messages(nothing, nothing, np.empty(0, np.bool_), rows), nothing
        messages, due = ready
        gone = messages.gone.copy()
        stores = [(cell.stores.subjects[stream.name], np.arange(len(messages)))]
        if stream.name in cell.stores.others:
            texts = self.dictionary if stores[0][0].is_coded else None
            mine = cell.place.has_objects(messages.keys, texts)
            assert mine is not None
            stores = [
                (cell.stores.subjects[stream.name], np.flatnonzero(mine)),
                (cell.stores.others[stream.name], np.flatnonzero(~mine)),
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

    # Queries

    def register(
        self,
        queries: Sequence[Query],
        tables: Mapping[str, pa.Table],
        contents: Mapping[str, pa.Table] | None = None,
        stage: int = 0,
        beside: str | None = None,
    ) -> list[Found]:
        """Queries that are answered from now on: their answers as positive changes.

        `contents` are what their windows hold already; `beside` is another query whose cells they
        have to be in.
        """
        for query in queries:
            self.queries[query.name] = query
        changes = Changes(self.instant, queries, (), tables, contents or {}, stage, beside)
        return self.cell.change(changes)

    def drop(self, names: Sequence[str], stage: int = 0) -> list[Found]:
        """Queries that end: their answers as negative changes."""
        for name in names:
            del self.queries[name]
        return self.cell.change(Changes(self.instant, drop=names, stage=stage))


def _expiries(
    stream: Stream,
    store: Objects,
    messages: Messages,
    gone: Bools,
    due: Longs,
    chosen: Longs,
    until: int,
) -> list[tuple[Longs, Longs]]:
    """The keys of a store that expire, with the instants: objects of the store, and those whose
    readings come now.

    `gone` is set for readings that have timed out at the very instant at which they take effect.
    """
    assert stream.timeout is not None
    slots = store.take_all(messages.keys[chosen])
    order = np.argsort(slots, kind="stable")
    at, s = chosen[order], slots[order]
    ends = ceil_all(messages.times[at] + stream.timeout, stream.evaluate)
    gone[at] |= ends <= due[at]
    is_first = np.ones(len(s), np.bool_)
    is_first[1:] = s[1:] != s[:-1]
    next_due = np.full(len(s), NEVER)
    next_due[:-1][~is_first[1:]] = due[at[1:]][~is_first[1:]]
    over = ~gone[at] & (ends <= until) & (ends < next_due)
    first_due = np.full(store.size, NEVER)
    first_due[s[is_first]] = due[at[is_first]]
    last = ceil_all(store.times[: store.size] + stream.timeout, stream.evaluate)
    known = np.flatnonzero(store.alive[: store.size] & (last <= until) & (last < first_due))
    return [(store.keys[known], last[known]), (messages.keys[at[over]], ends[over])]


def _last_words(store: Objects, stream: Stream, keys: Longs) -> Messages:
    """The last readings of objects; of objects of other rows only their key and position are
    known."""
    slots = store.find_all(keys)
    rows = store.columns.take(slots)
    if len(rows.columns) < len(stream.columns):
        rows = rows.widened(stream.columns)
    return Messages(keys, store.times[slots], np.zeros(len(keys), np.bool_), rows)
