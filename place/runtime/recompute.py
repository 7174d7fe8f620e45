"""The reference as a runtime: it recomputes answers at each instant and sends the difference.

It shows what every runtime has to do with catalog changes, clocks and instants; how it computes
an answer is the reference's business.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from place.engine.slices import Segment
from place.model.clock import Clocks
from place.model.delta import Answer, Delta, difference
from place.model.reading import Input, Reading
from place.model.segment import read_segment
from place.plan.catalog import Catalog, fold
from place.plan.explain import Observed
from place.plan.logical import Plan, initial
from place.plan.past import Question
from place.plan.query import Query
from place.runtime.archive import Archive
from place.runtime.durable.home import Home
from place.runtime.intake.check import late_reading
from place.runtime.interface import Fed, Listener, Recalled, check_rows
from place.runtime.journal import Journal, replay
from place.runtime.reference import Trace, World, answer, instants, objects
from place.runtime.reference_past import ReferenceArchive, recalled
from place.runtime.reference_trigger import alerts
from place.runtime.store import CatalogStore


class ReferenceRuntime:
    """Runs queries by recomputation. `home` keeps it durable; without one it is in memory."""

    name = "reference"
    listener: Listener | None = None

    def __init__(self, home: Path | None = None) -> None:
        self._home = Home(home, "journal") if home is not None else None
        self._store = CatalogStore(home)
        self._journal = Journal(home)
        self.catalog = Catalog()
        self._readings: dict[str, list[Reading]] = {}
        self._late: dict[str, list[Reading]] = {}
        self._clocks = Clocks()
        self._answers: dict[str, Answer] = {}
        self._evaluated: dict[str, int] = {}
        self._past = ReferenceArchive(
            lambda: self._readings, self._clocks.closed, lambda name: self.world.stream(name)
        )
        self.archive: Archive = self._past
        self._since: dict[str, int] = {}
        """When each trigger was registered, or began anew."""
        replay(self._journal, lambda v: self._become(self._store.load(v)), self._take)
        if self._store.version() != self.catalog.version:  # killed before the journal had it
            self._journal.append_version(self._store.version())
            self._become(self._store.load())

    def close(self) -> None:
        """Stop; what was durable stays."""
        self._store.close()
        self._journal.close()
        if self._home is not None:
            self._home.close()

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Ticks begin only when someone feeds."""
        return contextlib.nullcontext()

    def change(self, catalog: Catalog) -> list[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""
        self._store.save(self.catalog, catalog)
        self._journal.append_version(catalog.version)
        return self._become(catalog)

    def feed(self, inputs: Sequence[Fed]) -> list[Delta]:
        """One tick: take readings and advances in the source's order; the deltas that follow."""
        one_by_one: list[Input] = []
        for item in inputs:
            if isinstance(item, Segment):
                one_by_one += read_segment(self.world.stream(item.stream), item.table)
            else:
                one_by_one.append(item)
        self._journal.append(one_by_one)
        return self._take(one_by_one)

    def answer(self, query: str) -> Answer:
        """The answer at the last instant that was evaluated."""
        return Counter(self._answers[fold(query)])

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""
        return self._evaluated[fold(query)]

    def ask(self, query: Query, most: int | None = None) -> Answer:
        """The answer of any query now, registered or not; that of a trigger is always empty."""
        if query.trigger is not None:
            return Counter()
        found = answer(query, self.world, self._clocks.now(query.streams))
        check_rows(found.total(), most)
        return found

    def recall(self, question: Question, most: int | None = None) -> Recalled:
        """What a question about the past is answered with, from its definition."""
        rows = recalled(self._past, question)
        check_rows(len(rows), most)
        return Recalled(rows)

    def plan(self, query: Query) -> Plan:
        """The clauses in their order."""
        return Plan(query, initial(query))

    def analyze(self, query: Query) -> Observed:
        """The rows that pass each clause now, or how many alerts a trigger has told."""
        if query.trigger is not None:
            return self._observed(query)
        trace: Trace = {}
        found = answer(query, self.world, self._clocks.now(query.streams), trace)
        return Observed(rows=Counter({**trace, "answer": found.total()}))

    def _observed(self, query: Query) -> Observed:
        key = fold(query.name)
        if self.catalog.queries.get(key) is not query:
            return Observed()
        told = len(alerts(query, self.world, self._since[key], self._evaluated[key]))
        return Observed(notes=(f"Told {told} {'alert' if told == 1 else 'alerts'}",))

    def statistics(self, stream: str) -> dict[str, int]:
        """How many objects a stream has now, and how many readings were taken and were late."""
        definition = self.world.stream(stream)
        instant = self._clocks.closed(definition.name)
        return {
            "objects": len(objects(self.world, definition, instant)),
            "on_disk": 0,
            "readings": sum(not r.disappears for r in self._readings[definition.name]),
            "late": len(self._late[definition.name]),
        }

    def reason(self, stream: str) -> str | None:
        """Why a reading of a stream was set aside last: one that is wrong is never taken."""
        definition = self.world.stream(stream)
        late = self._late[definition.name]
        return str(late_reading(definition, late[-1].time)) if late else None

    @property
    def world(self) -> World:
        return World(self.catalog, self._readings)

    # How it goes

    def _become(self, catalog: Catalog) -> list[Delta]:
        before, self.catalog = self.catalog, catalog
        deltas: list[Delta] = []
        ended: dict[str, tuple[Query, Answer, int]] = {}
        for key, query in before.queries.items():
            if not query.streams:  # what reads no stream happens when statements do
                self._evaluated[key] = self._clocks.now(query.streams)
            if catalog.queries.get(key) != query:
                ended[key] = query, self._answers.pop(key), self._evaluated.pop(key)
                self._since.pop(key, None)
        reset = self._forget_reset(before)
        self._follow_streams()
        replaced: dict[str, Answer] = {}
        for key, (query, held, reached) in ended.items():
            after = catalog.queries.get(key)
            if after is not None and self._clocks.now(after.streams) == reached:
                replaced[key] = held  # what differs between the two is told
            else:
                deltas += _told(query, held, Counter(), reached)
        for key, query in catalog.queries.items():
            refreshed = any(
                before.contents.get(fold(t)) is not catalog.contents[fold(t)] for t in query.tables
            )
            if key in self._answers and query.streams & reset:
                deltas += self._begin_anew(key, query)
            elif key not in self._answers:
                self._evaluated[key] = self._clocks.join(query.streams)
                self._answers[key] = replaced.get(key, Counter())
                self._since[key] = self._evaluated[key]
                deltas += self._catch_up(key, query)
                deltas += self._evaluate(key, query, self._evaluated[key])
            elif refreshed:
                self._since[key] = self._evaluated[key]
                deltas += self._evaluate(key, query, self._evaluated[key])
        return deltas

    def _catch_up(self, key: str, query: Query) -> list[Delta]:
        """What a query that begins in the past has told until now."""
        if query.since is None:
            return []
        past = instants(query, self.world, query.since, self._evaluated[key])
        return [
            delta
            for instant in [query.since, *past]
            for delta in self._evaluate(key, query, instant)
        ]

    def _forget_reset(self, before: Catalog) -> set[str]:
        """The streams that begin anew: as if they had told nothing yet."""
        reset = set()
        for key, stream in self.catalog.streams.items():
            revision = self.catalog.revisions.get(key)
            if key in before.streams and before.revisions.get(key) != revision:
                self._readings[stream.name], self._late[stream.name] = [], []
                self._clocks.forget(stream.name)
                reset.add(stream.name)
        return reset

    def _begin_anew(self, key: str, query: Query) -> list[Delta]:
        """What a query answers without the readings of a stream, at the last instant that it has
        reached; it goes on from where its streams are now, which may be before that."""
        reached, begins = self._evaluated[key], self._clocks.join(query.streams)
        deltas: list[Delta] = []
        if begins > reached:
            deltas = _told(query, self._answers[key], Counter(), reached)
            self._answers[key] = Counter()
        deltas += self._evaluate(key, query, max(reached, begins))
        self._evaluated[key] = self._since[key] = begins
        return deltas

    def _follow_streams(self) -> None:
        streams = self.catalog.streams.values()
        self._clocks.follow(streams)
        names = {stream.name for stream in streams}
        for kept in (self._readings, self._late):
            for gone in kept.keys() - names:
                del kept[gone]
            for new in names - kept.keys():
                kept[new] = []

    def _take(self, inputs: Sequence[Input]) -> list[Delta]:
        for item in inputs:
            if isinstance(item, Reading):
                in_time = self._clocks.tell(item.stream, item.time)
                kept = (self._readings if in_time else self._late)[item.stream]
                if self.world.stream(item.stream).key is None:
                    item = replace(item, key=len(kept))  # each reading counts for itself
                kept.append(item)
            else:
                self._clocks.advance(item.time, item.stream)
        deltas: list[Delta] = []
        for key, query in self.catalog.queries.items():
            until = self._clocks.complete(query.streams)
            if until is None:
                continue  # a query over several streams advances with the slowest
            if query.trigger is not None:
                deltas += self._alerts(key, query, until)
            for instant in instants(query, self.world, self._evaluated[key], until):
                deltas += self._evaluate(key, query, instant)
            self._evaluated[key] = max(self._evaluated[key], until)
        deltas.sort(key=lambda delta: delta.instant)
        return deltas

    def _alerts(self, key: str, query: Query, until: int) -> list[Delta]:
        found = alerts(query, self.world, self._since[key], until)
        return [Delta(query.name, 1, row, t) for t, row in found if t > self._evaluated[key]]

    def _evaluate(self, key: str, query: Query, instant: int) -> list[Delta]:
        if query.trigger is not None:
            return []
        before, after = self._answers[key], answer(query, self.world, instant)
        self._answers[key] = after
        return _told(query, before, after, instant)


def _told(query: Query, before: Answer, after: Answer, instant: int) -> list[Delta]:
    """What is told of a change of an answer; with EMIT ARRIVALS only rows that join it."""
    deltas = difference(query.name, before, after, instant)
    return [delta for delta in deltas if delta.sign > 0 or not query.arrivals]
