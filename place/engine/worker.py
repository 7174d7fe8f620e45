"""A worker: all that one cell of the matrix does with readings and queries, whatever runs it.

It keeps the clocks of the streams, a timeline for each stream and for each set of streams that
queries read together, and what a query over several streams needs to begin. Workers of the same
matrix take the same inputs and never speak with each other: each finds its part of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from place.engine.changes import Change
from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages, Objects
from place.engine.route import Place
from place.engine.timeline import Timeline, ceil_all
from place.model.clock import Clocks
from place.model.reading import Advance
from place.model.schema import Stream
from place.model.time import BEGINNING
from place.plan.catalog import Catalog
from place.plan.query import Query

MOST_RECENT = 1_000_000
MANY_TEXTS = 100_000
UNORDERED = ""
"""The partition of readings whose source has no order: they are taken in that of their times."""

TableOf = Callable[[str], pa.Table]
"""The rows of a table, by its name."""


@dataclass(frozen=True)
class Segment:
    """Checked readings of a stream, in the order of their source, or of one partition of it."""

    stream: str
    table: pa.Table
    part: str | None = None


Told = Segment | Advance


@dataclass
class Past:
    """What a query over several streams needs of one: its objects at a floor, and what they said
    since. The floor is the slowest stream's time: such a query begins there.

    Of a stream that runs far ahead of a silent one, no more than a million readings wait for that.
    """

    base: Objects
    recent: list[Messages] = field(default_factory=list)
    floor: int = BEGINNING

    def fold(self, stream: Stream, floor: int, own: int, timelines: list[Timeline]) -> None:
        """Let go of readings that no query can begin before any more; `own` is the stream's time.

        With retention, only objects that some cell keeps are kept for new queries.
        """
        if sum(map(len, self.recent)) > MOST_RECENT:
            floor = own
        if floor > self.floor and self.recent:
            said = Messages.joined(self.recent)
            due = ceil_all(said.times, stream.evaluate)
            ready = np.flatnonzero(due <= floor)
            self.base.change(said.take(ready[np.argsort(said.times[ready], kind="stable")]))
            self.recent = [said.take(np.flatnonzero(due > floor))]
        self.floor = max(self.floor, floor)
        if stream.timeout is not None:
            over = ceil_all(self.base.times + stream.timeout, stream.evaluate) <= self.floor
            self.base.evict(np.flatnonzero(over & self.base.alive))
        if stream.retention is not None and any(line.cell.plans for line in timelines):
            keys = self.base.keys[: self.base.size]
            kept = np.zeros(len(keys), np.bool_)
            for line in timelines:
                store = line.cell.subjects[stream.name]
                slots = store.find_all(keys)
                kept |= (slots >= 0) & store.alive[slots]
            self.base.evict(np.flatnonzero(self.base.alive[: self.base.size] & ~kept))

    def at(self, stream: Stream, instant: int) -> tuple[Messages, Messages]:
        """What each object has said last at an instant, and what waits for later."""
        said = Messages.joined([self.base.messages(), *self.recent])
        due = ceil_all(said.times, stream.evaluate)
        ready = np.flatnonzero(due <= instant)
        ready = ready[np.argsort(said.times[ready], kind="stable")]
        last = said.take(ready)
        present = ~last.gone
        store = Objects(stream, self.base.columns.dictionary)
        latest = store.seen(store.take_all(last.keys))
        if latest is not None:
            only = np.zeros(len(last), np.bool_)
            only[latest] = True
            present &= only
        if stream.timeout is not None:
            present &= ceil_all(last.times + stream.timeout, stream.evaluate) > instant
        return last.take(np.flatnonzero(present)), said.take(np.flatnonzero(due > instant))


class Worker:
    """One cell's share of all queries over all streams."""

    def __init__(self, place: Place, threads: int = 1) -> None:
        self.place = place
        self.threads = threads
        self.dictionary = Dictionary()
        self.catalog = Catalog()
        self.clocks = Clocks()
        self.timelines: dict[frozenset[str], Timeline] = {}
        self.pasts: dict[str, Past] = {}
        self.readings: dict[str, int] = {}
        self.late: dict[str, int] = {}
        self.aside: list[Segment] = []
        """The readings of the last tick that came too late."""

    # The catalog

    def become(self, catalog: Catalog, table_of: TableOf) -> list[Change]:
        """Go over to another version of the catalog; the changes that it causes."""
        before, self.catalog = self.catalog, catalog
        refreshed = {
            table.name
            for key, table in catalog.tables.items()
            if before.revisions.get(key) != catalog.revisions[key]
        }
        ended = [
            query
            for key, query in before.queries.items()
            if key not in catalog.queries or query.tables & refreshed
        ]
        begun = [
            query
            for key, query in catalog.queries.items()
            if key not in before.queries or query.tables & refreshed
        ]
        changes: list[Change] = []
        for query in ended:
            timeline = self.timelines[query.streams]
            changes += timeline.drop([query.name])
            if not timeline.queries and len(query.streams) != 1:
                del self.timelines[query.streams]
        self.follow_streams()
        for query in begun:
            self.clocks.join(query.streams)
            tables = {name: table_of(name) for name in query.tables}
            changes += self._timeline(query.streams).register([query], tables)
        again = {query.name for query in ended} & {query.name for query in begun}
        return [
            replace(change, is_settled=False) if change.query.name in again else change
            for change in changes
        ]

    def follow_streams(self) -> None:
        """Have a clock, a timeline and, where there are several, a past of each stream."""
        streams = {stream.name: stream for stream in self.catalog.streams.values()}
        self.clocks.follow(streams.values())
        for counts in (self.readings, self.late):
            for gone in counts.keys() - streams.keys():
                del counts[gone]
        for name, stream in streams.items():
            if frozenset((name,)) not in self.timelines:
                self.timelines[frozenset((name,))] = self._blank([stream], BEGINNING)
                self.readings[name] = self.late[name] = 0
        self.timelines = {s: line for s, line in self.timelines.items() if s <= streams.keys()}
        if len(streams) < 2:
            self.pasts.clear()
        for name in self.pasts.keys() - streams.keys():
            del self.pasts[name]
        if len(streams) > 1:
            for name in streams.keys() - self.pasts.keys():
                self.pasts[name] = self._begin_past(name)

    def _begin_past(self, name: str) -> Past:
        """Until now the stream's own timeline knew all that is needed."""
        line = self.timelines[frozenset((name,))]
        own, others = line.cell.subjects[name], line.cell.others.get(name)
        base = own.copy()
        if others is not None:
            base.change(_widened(others.messages(), line.streams[name], self.dictionary))
        return Past(base, list(line.pending[name]), self.clocks.closed(name))

    def _blank(self, streams: Iterable[Stream], instant: int) -> Timeline:
        return Timeline(streams, self.place, self.threads, instant, self.dictionary)

    def _timeline(self, streams: frozenset[str]) -> Timeline:
        """The timeline of streams, filled if it is new."""
        if streams not in self.timelines:
            self.timelines[streams] = self._open(streams)
        timeline = self.timelines[streams]
        if not streams:
            timeline.instant = self.clocks.now(streams)
        return timeline

    def _open(self, streams: frozenset[str]) -> Timeline:
        instant = max(
            [self.clocks.now(streams), *(self.pasts[name].floor for name in streams)],
        )
        definitions = {s.name: s for s in self.catalog.streams.values()}
        timeline = self._blank([definitions[name] for name in sorted(streams)], instant)
        for name in streams:
            for messages in self.pasts[name].at(definitions[name], instant):
                timeline.offer(name, messages)
        timeline.advance(instant)
        return timeline

    def is_bloated(self) -> bool:
        """Has it many more texts than objects? Those of objects that are gone are still here."""
        held = sum(
            store.size
            for line in self.timelines.values()
            for store in (*line.cell.subjects.values(), *line.cell.region_rows.values())
        )
        return len(self.dictionary.texts) > MANY_TEXTS + 8 * held

    # Readings

    def take(self, told: Sequence[Told]) -> list[Change]:
        """One tick: readings and advances in the source's order; the changes that follow."""
        self.aside = []
        names = {stream.name for stream in self.catalog.streams.values()}
        parts: dict[str, set[str]] = {}
        for item in told:
            if isinstance(item, Segment) and item.part and item.table.num_rows:
                parts.setdefault(item.stream, set()).add(item.part)
        for stream, some in parts.items():
            if stream in names:
                self.clocks.meet(stream, some)
        for item in _in_order(told):
            if isinstance(item, Segment):
                if item.stream in names:  # or it was dropped before its readings became a tick
                    self._hear(item)
            else:
                self.clocks.advance(item.time, item.stream)
        changes: list[Change] = []
        for streams, timeline in self.timelines.items():
            until = self.clocks.complete(streams)
            if until is not None and streams:
                changes += timeline.advance(until)
        self._fold()
        return changes

    def _hear(self, segment: Segment) -> None:
        name = segment.stream
        stream = next(s for s in self.catalog.streams.values() if s.name == name)
        messages = messages_of(stream, segment.table, self.dictionary)
        in_time = self.clocks.tell_all(name, messages.times, segment.part)
        if not in_time.all():
            messages = messages.take(np.flatnonzero(in_time))
            self.aside.append(Segment(name, segment.table.filter(pa.array(~in_time))))
        self.late[name] += int(len(in_time) - in_time.sum())
        self.readings[name] += int(len(messages) - messages.gone.sum())
        if name in self.pasts:
            self.pasts[name].recent.append(messages)
        for streams, timeline in self.timelines.items():
            if name in streams:
                timeline.offer(name, messages)

    def _fold(self) -> None:
        if not self.pasts:
            return
        floor = self.clocks.floor()
        for stream in self.catalog.streams.values():
            timelines = [line for s, line in self.timelines.items() if stream.name in s]
            own, past = self.clocks.closed(stream.name), self.pasts[stream.name]
            past.fold(stream, past.floor if floor is None else floor, own, timelines)

    # Answers

    def probe(self, query: Query, table_of: TableOf) -> list[Change]:
        """This cell's part of the answer of a query now, registered or not."""
        tables = {name: table_of(name) for name in query.tables}
        known = self.timelines.get(query.streams)
        timeline = known if known is not None else self._open(query.streams)
        return timeline.probe(query, tables)

    def instant(self, query: Query) -> int:
        """The instant that a registered query has reached."""
        return self._timeline(query.streams).instant

    def objects(self, stream: str) -> int:
        """How many objects of its row this cell holds."""
        return len(self.timelines[frozenset((stream,))].cell.subjects[stream])


def _in_order(told: Sequence[Told]) -> list[Told]:
    """What is told, with that of sources without an order in the order of times."""
    loose: dict[str, list[pa.Table]] = {}
    for item in told:
        if isinstance(item, Segment) and item.part == UNORDERED:
            loose.setdefault(item.stream, []).append(item.table)
    ordered: list[Told] = []
    for stream, tables in loose.items():
        table = pa.concat_tables(tables)
        times = table.column(table.num_columns - 2).to_numpy()
        ordered.append(Segment(stream, table.take(pa.array(np.argsort(times, kind="stable")))))
    rest = [i for i in told if not (isinstance(i, Segment) and i.part == UNORDERED)]
    return ordered + rest


def messages_of(stream: Stream, table: pa.Table, dictionary: Dictionary) -> Messages:
    """The messages of a segment."""
    rows = Columns.from_arrow(stream.columns, dictionary, table.columns[:-2])
    return Messages(
        rows.values[stream.key].astype(np.int64),
        table.column(table.num_columns - 2).to_numpy(),
        table.column(table.num_columns - 1).to_numpy(),
        rows,
    )


def _widened(messages: Messages, stream: Stream, dictionary: Dictionary) -> Messages:
    """Messages that tell only where objects are, with all columns; the others are NULL."""
    rows = Columns(stream.columns, dictionary, len(messages))
    names = [column.name for column in stream.columns]
    for i, column in enumerate(messages.rows.columns):
        index = names.index(column.name)
        rows.values[index] = messages.rows.values[i]
        rows.nulls[index] = messages.rows.nulls[i]
    return Messages(messages.keys, messages.times, messages.gone, rows)
