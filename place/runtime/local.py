"""The local runtime: the cells of the matcher in this process.

It keeps what every runtime has to keep of a stream: its clock, and the last readings, from which
the cells of a new query are filled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from place.engine.plans import missing_operator
from place.engine.route import Matrix
from place.errors import Unsupported
from place.model.clock import Clocks
from place.model.delta import FEW, Answer, Delta, difference
from place.model.reading import Input, Reading
from place.model.schema import Stream
from place.model.time import BEGINNING, ceil_to
from place.model.types import Row
from place.plan.catalog import Catalog, fold
from place.plan.query import Query
from place.runtime.journal import Journal, replay
from place.runtime.store import CatalogStore
from place.runtime.timeline import Timeline

MOST_RECENT = 1_000_000


@dataclass
class StreamState:
    """A stream: the last message of each key up to a floor, and the readings since.

    The floor is the slowest stream's time: a query that joins two streams begins there. Of a
    stream that runs far ahead of a silent one, no more than a million readings wait for that.
    """

    stream: Stream
    base: dict[Hashable, Reading] = field(default_factory=dict)
    recent: list[Reading] = field(default_factory=list)
    floor: int = BEGINNING
    readings: int = 0
    late: int = 0

    def fold(self, floor: int, own: int, is_kept: Callable[[Hashable], bool]) -> None:
        """Let go of readings that no query can begin before any more; `own` is this stream's time.

        With retention, only objects that some query's cells keep are kept for new queries.
        """
        if len(self.recent) > MOST_RECENT:
            floor = own
        self.floor = max(self.floor, floor)
        kept = []
        for reading in self.recent:
            if ceil_to(reading.time, self.stream.evaluate) <= floor:
                self._take(self.base, reading)
            else:
                kept.append(reading)
        self.recent = kept
        retained = self.stream.retention is not None
        for key, last in list(self.base.items()):
            if self._is_gone(last, floor) or (retained and not is_kept(key)):
                del self.base[key]

    def at(self, instant: int) -> tuple[list[Reading], list[Reading]]:
        """The last reading of each object at an instant, and the readings that wait for later."""
        latest = dict(self.base)
        later = []
        for reading in self.recent:
            if ceil_to(reading.time, self.stream.evaluate) <= instant:
                self._take(latest, reading)
            else:
                later.append(reading)
        return [last for last in latest.values() if not self._is_gone(last, instant)], later

    def _take(self, latest: dict[Hashable, Reading], reading: Reading) -> None:
        known = latest.get(reading.key)
        if known is None or known.time <= reading.time:
            latest[reading.key] = reading

    def _is_gone(self, last: Reading, instant: int) -> bool:
        if last.disappears:
            return True
        timeout = self.stream.timeout
        return timeout is not None and (
            ceil_to(last.time + timeout, self.stream.evaluate) <= instant
        )


class LocalRuntime:
    """Runs range queries by the shared matcher. `home` keeps it durable; without one, in memory."""

    name = "local"

    def __init__(
        self, home: Path | None = None, *, matrix: Matrix | None = None, threads: int = 1
    ) -> None:
        self._store = CatalogStore(home)
        self._journal = Journal(home) if home is not None else None
        self._matrix = matrix or Matrix()
        self._threads = threads
        self.catalog = Catalog()
        self._clocks = Clocks()
        self._streams: dict[str, StreamState] = {}
        self._timelines: dict[frozenset[str], Timeline] = {}
        if self._journal is not None:
            replay(self._journal, lambda v: self._become(self._store.load(v)), self._take)

    def close(self) -> None:
        """Stop; what was durable stays."""
        self._store.close()
        if self._journal is not None:
            self._journal.close()

    # The runtime's interface

    def change(self, catalog: Catalog) -> list[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""
        for query in catalog.queries.values():
            operator = missing_operator(query)
            if operator is not None:
                raise Unsupported(operator, self.name)
        self._store.save(self.catalog, catalog)
        if self._journal is not None:
            self._journal.append_version(catalog.version)
        return self._become(catalog)

    def feed(self, inputs: Sequence[Input]) -> list[Delta]:
        """One tick: take readings and advances in the source's order; the deltas that follow."""
        if self._journal is not None:
            self._journal.append(list(inputs))
        return self._take(inputs)

    def answer(self, query: str) -> Answer:
        """The answer of a registered query now, from what its cells hold."""
        plan = self.catalog.queries[fold(query)]
        return self._timeline(plan).probe(plan, self._tables([plan]))

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""
        return self._timeline(self.catalog.queries[fold(query)]).instant

    def ask(self, query: Query, trace: dict[str, int] | None = None) -> Answer:
        """The answer of any query now, registered or not."""
        operator = missing_operator(query)
        if operator is not None:
            raise Unsupported(operator, self.name)
        timeline = self._open(query.streams, self._clocks.now(query.streams))
        return timeline.probe(query, self._tables([query]))

    def statistics(self, stream: str) -> dict[str, int]:
        """How many objects a stream has now, and how many readings were taken and were late."""
        state = self._streams[self.catalog.streams[fold(stream)].name]
        return {
            "objects": len(state.at(self._clocks.closed(state.stream.name))[0]),
            "readings": state.readings,
            "late": state.late,
        }

    # How it goes

    def _become(self, catalog: Catalog) -> list[Delta]:
        before, self.catalog = self.catalog, catalog
        refreshed = {
            table.name
            for key, table in catalog.tables.items()
            if before.contents.get(key) is not catalog.contents[key]
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
        deltas: list[Delta] = []
        for query in ended:
            timeline = self._timelines[query.streams]
            deltas += timeline.drop([query.name])
            if not timeline.queries:
                del self._timelines[query.streams]
        self._follow_streams()
        for query in begun:
            self._clocks.join(query.streams)
            timeline = self._timeline(query)
            deltas += timeline.register([query], self._tables([query]))
        return self._settle(deltas)

    def _follow_streams(self) -> None:
        names = {stream.name: stream for stream in self.catalog.streams.values()}
        self._clocks.follow(names.values())
        for gone in self._streams.keys() - names.keys():
            del self._streams[gone]
        for name in names.keys() - self._streams.keys():
            self._streams[name] = StreamState(names[name])

    def _timeline(self, query: Query) -> Timeline:
        """The timeline of the streams that a query reads, filled if it is new."""
        if query.streams not in self._timelines:
            self._timelines[query.streams] = self._open(
                query.streams, self._clocks.now(query.streams)
            )
        timeline = self._timelines[query.streams]
        if not query.streams:
            timeline.instant = self._clocks.now(query.streams)
        return timeline

    def _open(self, streams: frozenset[str], instant: int) -> Timeline:
        states = [self._streams[name] for name in sorted(streams)]
        instant = max([instant, *(state.floor for state in states)])
        timeline = Timeline(
            [state.stream for state in states], self._matrix, self._threads, instant
        )
        for state in states:
            present, later = state.at(instant)
            for reading in [*present, *later]:
                timeline.offer(reading)
        timeline.advance(instant)
        return timeline

    def _tables(self, queries: Sequence[Query]) -> dict[str, Sequence[Row]]:
        return {name: self.catalog.rows_of(name) for query in queries for name in query.tables}

    def _take(self, inputs: Sequence[Input]) -> list[Delta]:
        for item in inputs:
            if isinstance(item, Reading):
                state = self._streams[item.stream]
                if not self._clocks.tell(item.stream, item.time):
                    state.late += 1
                    continue
                state.readings += not item.disappears
                state.recent.append(item)
                for streams, timeline in self._timelines.items():
                    if item.stream in streams:
                        timeline.offer(item)
            else:
                self._clocks.advance(item.time, item.stream)
        deltas: list[Delta] = []
        for streams, timeline in self._timelines.items():
            until = self._clocks.complete(streams)
            if until is not None:
                deltas += timeline.advance(until)
        self._fold()
        return self._settle(deltas)

    def _fold(self) -> None:
        floor = self._clocks.floor()
        if floor is None:
            return
        for name, state in self._streams.items():
            timelines = [t for streams, t in self._timelines.items() if name in streams]
            own = self._clocks.closed(name)
            state.fold(floor, own, partial(_is_kept, timelines, name))

    def _settle(self, deltas: list[Delta]) -> list[Delta]:
        """Consolidate by query and instant; where all deltas have one sign there is no need to."""
        groups: dict[tuple[int, str], list[Delta]] = {}
        for delta in deltas:
            groups.setdefault((delta.instant, delta.query), []).append(delta)
        settled: list[Delta] = []
        for (instant, name), group in sorted(groups.items(), key=lambda item: item[0][0]):
            gone = [delta.row for delta in group if delta.sign < 0]
            come = [delta.row for delta in group if delta.sign > 0]
            if (gone and come) or len(group) < FEW:
                settled += difference(name, Counter(gone), Counter(come), instant)
            else:
                settled += group
        return settled


def _is_kept(timelines: list[Timeline], stream: str, key: Hashable) -> bool:
    return any(timeline.keeps(stream, key) for timeline in timelines)
