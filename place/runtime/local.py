"""The local runtime: the cells of the matcher in this process.

It keeps what every runtime has to keep of a stream: its clock, and the last readings, from which
the cells of a new query are filled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from place.engine.plans import missing_operator
from place.engine.route import Matrix
from place.errors import Unsupported
from place.model.clock import Clock, now
from place.model.delta import FEW, Answer, Delta, difference
from place.model.reading import Input, Reading
from place.model.schema import Stream
from place.model.time import BEGINNING, ceil_to
from place.model.types import Row
from place.plan.catalog import Catalog, fold
from place.plan.query import Query
from place.runtime.journal import Journal
from place.runtime.store import CatalogStore
from place.runtime.timeline import Timeline


@dataclass
class StreamState:
    """A stream: its clock, the last message of each key up to a floor, and the readings since.

    The floor is the slowest stream's time: a query that joins two streams begins there.
    """

    stream: Stream
    clock: Clock
    base: dict[Hashable, Reading] = field(default_factory=dict)
    recent: list[Reading] = field(default_factory=list)
    readings: int = 0
    late: int = 0

    def fold(self, floor: int, is_kept: Callable[[Hashable], bool]) -> None:
        """Let go of readings that no query can begin before any more.

        With retention, only objects that some query's cells keep are kept for new queries.
        """
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
        self._streams: dict[str, StreamState] = {}
        self._timelines: dict[frozenset[str], Timeline] = {}
        self._replay()

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
        timeline = self._open(query.streams, self._now(query))
        return timeline.probe(query, self._tables([query]))

    def statistics(self, stream: str) -> dict[str, int]:
        """How many objects a stream has now, and how many readings were taken and were late."""
        state = self._streams[self.catalog.streams[fold(stream)].name]
        closed = BEGINNING if state.clock.closed is None else state.clock.closed
        return {
            "objects": len(state.at(closed)[0]),
            "readings": state.readings,
            "late": state.late,
        }

    # How it goes

    def _replay(self) -> None:
        if self._journal is None:
            return
        pending: list[Input] = []
        for entry in self._journal.entries():
            if isinstance(entry, int):
                self._take(pending)
                pending = []
                self._become(self._store.load(entry))
            else:
                pending.append(entry)
        self._take(pending)

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
            self._join_clocks(query)
            timeline = self._timeline(query)
            deltas += timeline.register([query], self._tables([query]))
        return self._settle(deltas)

    def _follow_streams(self) -> None:
        names = {stream.name: stream for stream in self.catalog.streams.values()}
        for gone in self._streams.keys() - names.keys():
            del self._streams[gone]
        for name, stream in names.items():
            if name not in self._streams:
                self._streams[name] = StreamState(stream, Clock(stream.lateness))

    def _join_clocks(self, query: Query) -> None:
        """A silent stream takes the time of those that a query joins it with."""
        instant = self._now(query)
        clocks = [self._streams[name].clock for name in query.streams]
        if any(clock.closed is not None for clock in clocks):
            for clock in clocks:
                clock.closed = instant if clock.closed is None else clock.closed

    def _now(self, query: Query) -> int:
        clocks = [state.clock for state in self._streams.values()]
        if not query.streams:
            return max((c.closed for c in clocks if c.closed is not None), default=BEGINNING)
        return now([self._streams[name].clock for name in query.streams])

    def _timeline(self, query: Query) -> Timeline:
        """The timeline of the streams that a query reads, filled if it is new."""
        if query.streams not in self._timelines:
            self._timelines[query.streams] = self._open(query.streams, self._now(query))
        timeline = self._timelines[query.streams]
        if not query.streams:
            timeline.instant = self._now(query)
        return timeline

    def _open(self, streams: frozenset[str], instant: int) -> Timeline:
        states = [self._streams[name] for name in sorted(streams)]
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
                if not state.clock.tell(item.time):
                    state.late += 1
                    continue
                state.readings += not item.disappears
                state.recent.append(item)
                for streams, timeline in self._timelines.items():
                    if item.stream in streams:
                        timeline.offer(item)
            else:
                for name, state in self._streams.items():
                    if item.stream in (None, name):
                        state.clock.advance(item.time)
        deltas: list[Delta] = []
        for streams, timeline in self._timelines.items():
            closed = [self._streams[name].clock.closed for name in streams]
            if closed and None not in closed:
                deltas += timeline.advance(min(c for c in closed if c is not None))
        self._fold()
        return self._settle(deltas)

    def _fold(self) -> None:
        closed = [state.clock.closed for state in self._streams.values()]
        known = [instant for instant in closed if instant is not None]
        if known:
            for name, state in self._streams.items():
                timelines = [t for streams, t in self._timelines.items() if name in streams]
                state.fold(
                    min(known),
                    lambda key, name=name, timelines=timelines: any(  # type: ignore[misc]
                        timeline.keeps(name, key) for timeline in timelines
                    ),
                )

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
