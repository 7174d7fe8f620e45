"""A worker: all that one cell of the matrix does with readings and queries, whatever runs it.

It keeps the clocks of the streams, a timeline for each stream and for each set of streams that
queries read together, and what a query over several streams needs to begin. Of the inputs each
worker takes its slice, and finds its part of the changes. Only when queries begin do workers of
different rows tell each other something (place/engine/exchange.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from place.engine.changes import Change
from place.engine.columns import Dictionary
from place.engine.exchange import NOTHING, Holdings, Moved, Wants
from place.engine.following import TableOf
from place.engine.history import History
from place.engine.matrix import Place
from place.engine.missing import Gaps
from place.engine.objects import Messages
from place.engine.observed import observed
from place.engine.partial_answers import Found
from place.engine.segment_messages import messages_of
from place.engine.share import Share, by_streams, changed_queries
from place.engine.slices import Segment, Told, in_order
from place.engine.store_files import StoreFiles
from place.engine.timeline import Timeline
from place.engine.triggers import TriggerCounts
from place.kernels.arrays import Longs
from place.model import deadline
from place.model.clock import Clocks, Whole
from place.model.reading import Advance
from place.model.schema import Stream, tracked
from place.model.time import BEGINNING
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.query import Query

MANY_TEXTS = 100_000
PROBE = "\0probe"
"""The name of a query that is asked once; no statement can contain this name."""


class Worker:
    """One cell's share of all queries over all streams."""

    def __init__(
        self,
        place: Place,
        threads: int = 1,
        dictionary: Dictionary | None = None,
        files: StoreFiles | None = None,
    ) -> None:
        self.place = place
        self.files = files
        """Where disk stores are; without them, all objects are held in memory."""
        self.threads = threads
        self.dictionary = Dictionary() if dictionary is None else dictionary
        self.catalog = Catalog()
        self.clocks = Clocks()
        self.timelines: dict[frozenset[str], Timeline] = {}
        self.histories: dict[str, History] = {}
        self.gaps: dict[str, Gaps] = {}
        self.readings: dict[str, int] = {}
        self.late: dict[str, int] = {}
        self.aside: list[Segment] = []
        """The readings of the last tick that were late."""
        self.last_late: dict[str, tuple[int, int]] = {}
        """Where the last of these was, of each stream: the input, and its place there."""
        self.numbered: dict[str, int] = {}
        """How many readings of each stream without KEY have a number."""
        self.share = Share(
            Holdings(place, self.dictionary, self.timelines, self.histories, self.gaps)
        )
        self._seen = Observed()
        self._counted: dict[str, TriggerCounts] = {}

    # The catalog

    def wants(self, catalog: Catalog, table_of: TableOf) -> Wants:
        """What it has to be told by workers of other rows to go over to a version of the
        catalog."""
        return self.share.wants(self.catalog, catalog, table_of, self.clocks)

    def wants_to_ask(self, queries: Sequence[Query], table_of: TableOf) -> Wants:
        """What it has to be told by workers of other rows to ask queries once."""
        return self.share.wants_to_ask(queries, table_of, self.clocks)

    def become(
        self,
        catalog: Catalog,
        table_of: TableOf,
        moved: Moved = NOTHING,
        held: Mapping[str, pa.Table | None] = MappingProxyType({}),
    ) -> list[Found]:
        """Go over to another version of the catalog. Returns the changes of answers that this
        causes. Where `wants` wanted something, `moved` is what was told. `held` is what windows of
        queries hold that begin in the past: all of it, also where that is nothing, as other rows
        may hold what is remembered here."""
        reset, ended, begun = changed_queries(self.catalog, catalog)
        less = self.share.follow(ended, begun, reset, table_of, moved, catalog.version)
        self.catalog = catalog
        again = {query.name for query in ended} & {query.name for query in begun}
        same = {query.name: query for query in begun}  # or another one has taken its place
        kept = {
            query.name: self._content(query)
            for query in ended
            if same.get(query.name) == query and not query.streams & reset
        }
        kept |= {name: content for name, content in held.items() if content is not None}
        found: list[Found] = []
        over: dict[frozenset[str], int] = {}
        for query in ended:
            self._counted.pop(query.name, None)
        for streams, queries in by_streams(ended):
            timeline = self._timeline(streams)
            over[streams] = timeline.instant
            found += timeline.drop([query.name for query in queries], _stage(catalog) - 1)
            if not timeline.queries and len(streams) != 1:
                self._close(streams)
        for name in reset:
            self._forget(name)
        self.share.let_go(less)
        self.follow_streams()
        for streams, queries in by_streams(begun):
            self.clocks.join(streams)
            tables = {name: table_of(name) for query in queries for name in query.tables}
            timeline = self._timeline(streams)
            contents = self._remembered(queries, tables, timeline.instant)
            for query in queries:
                content = kept.get(query.name)
                is_known = content is not None or query.name in held
                if not is_known and query.trigger is None and query.needs_history:
                    content = self._replay(query, tables, timeline.instant)
                if content is not None:
                    contents[query.name] = content
            beginning = timeline.instant
            if streams & reset:  # what they answer without its readings, they answer at once
                timeline.instant = max(beginning, over.get(streams, beginning))
            found += timeline.register(queries, tables, contents, _stage(catalog))
            timeline.instant = beginning
        return [
            replace(each, is_settled=False)
            if isinstance(each, Change) and any(query.name in again for query in each.queries)
            else each
            for each in found
        ]

    def _forget(self, name: str) -> None:
        """A stream begins anew: nothing that it told is known, and it may tell any time."""
        self._close(frozenset((name,)))
        del self.histories[name]
        self.gaps.pop(name, None)
        self.clocks.forget(name)

    def _close(self, streams: frozenset[str]) -> None:
        self.timelines.pop(streams).cell.reserves.clear()

    def _content(self, query: Query) -> pa.Table | None:
        """What the window of a query holds that begins anew because its tables changed. Only
        windows of time go on: what they hold does not depend on tables."""
        if query.trigger is not None:
            return None
        if query.is_join:
            return self.timelines[query.streams].cell.content(query.name)
        window = query.window
        if query.counts_stays:
            return self.timelines[query.streams].cell.content(query.name)
        if window is None or query.query_table is not None or window.rows is not None:
            return None
        return self.timelines[query.streams].cell.content(query.name)

    def _replay(
        self,
        query: Query,
        tables: Mapping[str, pa.Table],
        until: int,
        beside: str | None = None,
    ) -> pa.Table | None:
        """What a new window holds at first: the readings in the histories of its streams."""
        if not query.needs_history:
            return None
        self._rise()
        floor = max(self.share.floor(name) for name in query.streams)
        timeline = self._open(query.streams, floor, needed=self._needed(query))
        timeline.register([query], tables, beside=beside)
        for instant in timeline.milestones(until):
            deadline.check()
            timeline.advance(instant)
        return timeline.cell.content(query.name)

    def _needed(self, query: Query) -> dict[str, Longs] | None:
        """The objects that a window needs besides readings, by stream: its focal objects. None for
        all of them; also where that spares no reading of a disk."""
        window, lines = query.window, self.timelines
        has_disk = any(lines[frozenset((name,))].cell.reserves for name in query.streams)
        is_plain = query.query_table is None and not query.is_join
        if not has_disk or not is_plain or window is None or window.is_previous:
            return None
        found: dict[str, list[int]] = {name: [] for name in query.streams}
        for focal in query.focals:
            stores = lines[frozenset((focal.stream,))].cell.stores
            found[focal.stream].append(stores.key_number(focal.stream, focal.key))
        return {name: np.array(keys, np.int64) for name, keys in found.items()}

    def _remembered(
        self, queries: Sequence[Query], tables: Mapping[str, pa.Table], until: int
    ) -> dict[str, pa.Table]:
        """What new triggers over the same streams keep at first: readings in the histories of these
        streams that may still be in a match."""
        triggers = [query for query in queries if query.trigger is not None]
        if not triggers:
            return {}
        self._rise()
        streams = triggers[0].streams
        timeline = self._open(streams, max(self.share.floor(name) for name in streams))
        timeline.register(triggers, tables)
        for instant in timeline.milestones(until):
            deadline.check()
            timeline.advance(instant)
        found = {query.name: timeline.cell.content(query.name) for query in triggers}
        return {name: content for name, content in found.items() if content is not None}

    def _rise(self) -> None:
        """Cut the histories to exactly the length that the language promises. Until now they may be
        longer, depending on ticks; the answer of a window must not. Where a worker does not hold
        all rows, only all of them together know how long that is."""
        for name, history in self.histories.items():
            floor = self.share.floors.get(name)
            if floor is not None or self.share.is_whole:
                history.rise(self.clocks.closed(name), self.clocks.slowest(), floor)

    def follow_streams(self) -> None:
        """Have a clock, a timeline and a history for each stream."""
        streams = {stream.name: tracked(stream) for stream in self.catalog.streams.values()}
        self.clocks.follow(streams.values())
        for counts in (self.readings, self.late):
            for gone in counts.keys() - streams.keys():
                del counts[gone]
        for name, stream in streams.items():
            if frozenset((name,)) not in self.timelines:
                self.timelines[frozenset((name,))] = self._blank([stream], BEGINNING, self.files)
                self.readings[name] = self.late[name] = 0
        for gone_line in [known for known in self.timelines if not known <= streams.keys()]:
            self._close(gone_line)
        for name in self.histories.keys() - streams.keys():
            del self.histories[name]
        for name in streams.keys() - self.histories.keys():
            self.histories[name] = History.empty(streams[name], self.dictionary)
        for name, history in self.histories.items():
            history.stream = streams[name]  # which may be altered
        for name in self.gaps.keys() - streams.keys():
            del self.gaps[name]
        for name in streams.keys() - self.gaps.keys():
            if streams[name].waits:
                self.gaps[name] = Gaps.empty(self._stream(name), self.dictionary)

    def _stream(self, name: str) -> Stream:
        """A stream with the columns that its readings bring."""
        return next(s for s in self.catalog.streams.values() if s.name == name)

    def _present(self, name: str, keys: Longs | None = None) -> list[Messages]:
        """The objects of a stream, or those of some keys, those of other rows among them, in memory
        and on the disk."""
        cell = self.timelines[frozenset((name,))].cell
        stores = cell.stores.holding(name)
        if keys is None:
            return [store.messages() for store in stores] + cell.reserves.present(name)
        held = [store.messages_of(keys) for store in stores]
        return held + cell.reserves.present_of(name, keys)

    def _blank(self, streams: Iterable[Stream], instant: int, files: StoreFiles | None) -> Timeline:
        return Timeline(streams, self.place, self.threads, instant, self.dictionary, files)

    def _timeline(self, streams: frozenset[str]) -> Timeline:
        """The timeline of streams, filled if it is new."""
        if streams not in self.timelines:
            self.timelines[streams] = self._open(streams, self._beginning(streams), self.files)
        timeline = self.timelines[streams]
        if not streams:
            timeline.instant = self.clocks.now(streams)
        return timeline

    def _beginning(self, streams: frozenset[str]) -> int:
        """The instant at which a query over these streams begins."""
        return max([self.clocks.now(streams), *map(self.share.floor, streams)])

    def _open(
        self,
        streams: frozenset[str],
        instant: int,
        files: StoreFiles | None = None,
        needed: Mapping[str, Longs] | None = None,
    ) -> Timeline:
        """A new timeline with the objects, or those that are needed, and the readings of an instant
        that lies within the histories. One that is soon forgotten needs no disk."""
        definitions = {s.name: tracked(s) for s in self.catalog.streams.values()}
        timeline = self._blank([definitions[name] for name in sorted(streams)], instant, files)
        for name in streams:
            now = [
                Messages(m.keys, m.times, m.gone, m.rows.widened(definitions[name].columns))
                for m in self._present(name, None if needed is None else needed[name])
            ]
            for messages in self.histories[name].at(instant, Messages.joined(now)):
                timeline.offer(name, messages)
        timeline.advance(instant)
        return timeline

    def is_bloated(self) -> bool:
        """Are there many more texts than objects? Texts of objects that are gone stay in the
        dictionary until the worker is saved and loaded."""
        held = 0
        for cell in (line.cell for line in self.timelines.values()):
            stores = (*cell.stores.subjects.values(), *cell.stores.region_rows.values())
            held += sum(store.size for store in (*stores, *cell.reserves.waiting()))
        return len(self.dictionary.texts) > MANY_TEXTS + 8 * held

    # Readings

    def take(self, told: Sequence[Told]) -> list[Found]:
        """One tick: readings and advances in the source's order; the changes that follow."""
        self.aside, self.last_late = [], {}
        streams = {stream.name: stream for stream in self.catalog.streams.values()}
        parts: dict[str, set[str]] = {}
        for item in told:
            if isinstance(item, Segment) and item.part and item.has_readings:
                parts.setdefault(item.stream, set()).add(item.part)
        for name, some in parts.items():
            if name in streams:
                self.clocks.meet(name, some)
        mine: list[Told] = [
            self._slice(item, streams[item.stream])
            if isinstance(item, Segment) and item.stream in streams
            else item
            for item in told
        ]
        for number, item in enumerate(in_order(mine)):
            if isinstance(item, Advance):
                self.clocks.advance(item.time, item.stream)
            elif item.stream in streams:  # or it was dropped before its readings became a tick
                self._hear(item, streams[item.stream], number)
        for name, gaps in self.gaps.items():
            complete = gaps.release(self.clocks.closed(name))
            if complete is not None:
                self._offer(name, complete)
        for name, history in self.histories.items():
            present = partial(self._present, name)
            history.fold(self.clocks.closed(name), self.clocks.slowest(), present)
            self.timelines[frozenset((name,))].cell.reserves.keep_since(name, history.floor)
        found: list[Found] = []
        for names, timeline in self.timelines.items():
            until = self.clocks.complete(names)
            if until is not None and names:
                found += timeline.advance(until, _stage(self.catalog))
                for name, expired in timeline.expired.items():
                    for messages in expired:
                        self.histories[name].lose(messages)
                    expired.clear()
        return found

    def _slice(self, segment: Segment, stream: Stream) -> Segment:
        """What this worker takes of a segment."""
        if segment.cut is not None:
            self.shed()
        return self.share.slice_of(segment, stream)

    def shed(self) -> None:
        """Hold only its own share from now on, if it holds the objects of all rows: what it is told
        is cut for it."""
        if self.share.is_whole and self.place.matrix.rows > 1:
            self.share.shed()
            if self.place.row:  # the first row has counted all until now
                self.readings = dict.fromkeys(self.readings, 0)
                self.late = dict.fromkeys(self.late, 0)

    def _hear(self, segment: Segment, stream: Stream, number: int) -> None:
        name, cut = segment.stream, segment.cut
        if not segment.has_readings:
            return
        messages = messages_of(stream, segment.table, self.dictionary)
        whole = None if cut is None else Whole(cut.latest, cut.before)
        in_time = self.clocks.tell_all(name, messages.times, segment.part, whole)
        if not in_time.all():
            late = np.flatnonzero(~in_time & self.share.is_counted(stream, messages.keys))
            if len(late):
                self.late[name] += len(late)
                place = int(late[-1] if cut is None else cut.places[late[-1]])
                self.last_late[name] = number, place
                self.aside.append(Segment(name, segment.table.take(pa.array(late))))
            messages = messages.take(np.flatnonzero(in_time))
        if stream.key is None:
            first = self.numbered.get(name, 0)
            messages = messages.numbered(first)
            self.numbered[name] = first + len(messages)
        counted = ~messages.gone & self.share.is_counted(stream, messages.keys)
        self.readings[name] += int(counted.sum())
        if name in self.gaps:
            self.gaps[name].hear(messages)
        else:
            self._offer(name, messages)

    def _offer(self, name: str, messages: Messages) -> None:
        self.histories[name].hear(messages)
        for streams, timeline in self.timelines.items():
            if name in streams:
                timeline.offer(name, messages)

    # Answers

    def probe(self, query: Query, table_of: TableOf, moved: Moved = NOTHING) -> list[Found]:
        """This cell's part of the answer of a query now, registered or not."""
        return self.trial(query, table_of, moved)[0]

    def observed(self, query: Query) -> Observed:
        """What has passed through the plan of a registered query."""
        return observed(self.timelines[query.streams].cell, query.name)

    def trigger_counts(self) -> dict[str, TriggerCounts]:
        """What each trigger of this cell keeps, and what came of it since this was asked last."""
        before, self._counted = self._counted, {}
        for timeline in self.timelines.values():
            self._counted |= timeline.cell.triggers.counts()
        blank = TriggerCounts()
        return {name: now.since(before.get(name, blank)) for name, now in self._counted.items()}

    def trial(
        self, query: Query, table_of: TableOf, moved: Moved = NOTHING
    ) -> tuple[list[Found], Observed]:
        """The answer of a query that is not registered, and what passed through its plan. Where
        `wants_to_ask` wanted something, `moved` is what was told; it is forgotten again."""
        with self.share.asking(query, table_of, moved):
            return self._probed(query, table_of), self._seen

    def _probed(self, query: Query, table_of: TableOf) -> list[Found]:
        if query.trigger is not None:
            self._seen = Observed()
            return []  # alerts are told, not held
        tables = {name: table_of(name) for name in query.tables}
        timeline = self.timelines.get(query.streams)
        asked = replace(query, name=PROBE)
        if timeline is None:
            timeline = self._open(query.streams, self._beginning(query.streams))
        content = None
        if query.needs_history and timeline.queries.get(query.name) == query:
            content = timeline.cell.content(query.name)
        else:
            content = self._replay(asked, tables, timeline.instant, query.name)
        contents = {} if content is None else {PROBE: content}
        found = timeline.register([asked], tables, contents, beside=query.name)
        self._seen = observed(timeline.cell, PROBE)
        timeline.drop([PROBE])
        mine: list[Found] = []
        for each in found:
            if isinstance(each, Change):
                mine += [change for change in each.by_query() if change.queries[0].name == PROBE]
            elif (part := each.of_query(PROBE)) is not None:
                mine.append(part)
        return mine

    def beginning(self, streams: frozenset[str]) -> int:
        """The instant at which a query over these streams would begin now."""
        timeline = self.timelines.get(streams)
        return self._beginning(streams) if timeline is None else timeline.instant

    def instant(self, query: Query) -> int:
        """The instant that a registered query has reached."""
        return self._timeline(query.streams).instant

    def objects(self, stream: str) -> int:
        """How many objects of its row this cell holds in memory."""
        return len(self.timelines[frozenset((stream,))].cell.stores.subjects[stream])

    def stored(self, stream: str, *, is_exact: bool = True) -> int:
        """How many it has on the disk instead; unless it is exact, with some that have expired."""
        line = self.timelines[frozenset((stream,))]
        return line.cell.reserves.count(stream, line.instant if is_exact else None)

    def stored_files(self) -> set[str]:
        """The files of its disk stores."""
        lines = self.timelines.values()
        return {name for line in lines for name in line.cell.reserves.files()}

    def hold_all(self) -> None:
        """Take all objects from the disk into memory: its state is then all that there is."""
        for streams, line in self.timelines.items():
            for name, expired in line.cell.reserves.hold_all(line.instant):
                if len(streams) == 1:
                    self.histories[name].lose(expired)


def _stage(catalog: Catalog) -> int:
    """The stage of what begins with a version of the catalog, the same in all cells; what ends with
    that version has the stage before it."""
    return 2 * catalog.version + 1
