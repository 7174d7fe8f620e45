"""The reference as a runtime: it recomputes answers at each instant and sends the difference.

It shows what every runtime has to do with catalog changes, clocks and instants; how it computes
an answer is the reference's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from place.model.clock import Clock, now
from place.model.delta import Answer, Delta, difference
from place.model.reading import Input, Reading
from place.model.time import BEGINNING
from place.plan.catalog import Catalog, fold
from place.plan.query import Query
from place.runtime.journal import Journal
from place.runtime.reference import Trace, World, answer, instants, objects
from place.runtime.store import CatalogStore


class ReferenceRuntime:
    """Runs queries by recomputation. `home` keeps it durable; without one it is in memory."""

    name = "reference"

    def __init__(self, home: Path | None = None) -> None:
        self._store = CatalogStore(home)
        self._journal = Journal(home)
        self.catalog = Catalog()
        self._readings: dict[str, list[Reading]] = {}
        self._late: dict[str, list[Reading]] = {}
        self._clocks: dict[str, Clock] = {}
        self._answers: dict[str, Answer] = {}
        self._evaluated: dict[str, int] = {}
        self._replay()

    def close(self) -> None:
        """Stop; what was durable stays."""
        self._store.close()
        self._journal.close()

    def change(self, catalog: Catalog) -> list[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""
        self._store.save(self.catalog, catalog)
        self._journal.append_version(catalog.version)
        return self._become(catalog)

    def feed(self, inputs: Sequence[Input]) -> list[Delta]:
        """One tick: take readings and advances in the source's order; the deltas that follow."""
        self._journal.append(list(inputs))
        return self._take(inputs)

    def answer(self, query: str) -> Answer:
        """The answer as its deltas have built it up."""
        return Counter(self._answers[fold(query)])

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""
        return self._evaluated[fold(query)]

    def ask(self, query: Query, trace: Trace | None = None) -> Answer:
        """The answer of any query now, registered or not."""
        return answer(query, self.world, self._now(query), trace)

    def statistics(self, stream: str) -> dict[str, int]:
        """How many objects a stream has now, and how many readings were taken and were late."""
        definition = self.world.stream(stream)
        clock = self._clocks[definition.name]
        instant = BEGINNING if clock.closed is None else clock.closed
        return {
            "objects": len(objects(self.world, definition, instant)),
            "readings": sum(not r.disappears for r in self._readings[definition.name]),
            "late": len(self._late[definition.name]),
        }

    def recompute(self, query: str) -> Answer:
        """The answer computed afresh at the instant that the query has reached."""
        plan = self.catalog.queries[fold(query)]
        return answer(plan, self.world, self._evaluated[fold(query)])

    @property
    def world(self) -> World:
        return World(self.catalog, self._readings)

    # How it goes

    def _replay(self) -> None:
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
        deltas: list[Delta] = []
        for key, query in before.queries.items():
            if catalog.queries.get(key) is None:
                deltas += difference(
                    query.name, self._answers.pop(key), Counter(), self._evaluated.pop(key)
                )
        self._follow_streams()
        for key, query in catalog.queries.items():
            refreshed = any(
                before.contents.get(fold(t)) is not catalog.contents[fold(t)] for t in query.tables
            )
            if key not in self._answers:
                self._answers[key] = Counter()
                self._evaluated[key] = self._join_clocks(query)
                deltas += self._evaluate(key, query, self._evaluated[key])
            elif refreshed:
                deltas += self._evaluate(key, query, self._evaluated[key])
        return deltas

    def _follow_streams(self) -> None:
        names = {stream.name: stream for stream in self.catalog.streams.values()}
        for gone in self._clocks.keys() - names.keys():
            del self._clocks[gone], self._readings[gone], self._late[gone]
        for name, stream in names.items():
            if name not in self._clocks:
                self._clocks[name] = Clock(stream.lateness)
                self._readings[name], self._late[name] = [], []

    def _join_clocks(self, query: Query) -> int:
        """The instant of registration; a silent stream takes the time of those it meets."""
        instant = self._now(query)
        clocks = [self._clocks[name] for name in query.streams]
        if any(clock.closed is not None for clock in clocks):
            for clock in clocks:
                clock.closed = instant if clock.closed is None else clock.closed
        return instant

    def _now(self, query: Query) -> int:
        if not query.streams:
            closed = [c.closed for c in self._clocks.values() if c.closed is not None]
            return max(closed, default=BEGINNING)
        return now([self._clocks[name] for name in query.streams])

    def _take(self, inputs: Sequence[Input]) -> list[Delta]:
        for item in inputs:
            if isinstance(item, Reading):
                in_time = self._clocks[item.stream].tell(item.time)
                (self._readings if in_time else self._late)[item.stream].append(item)
            else:
                for name, clock in self._clocks.items():
                    if item.stream in (None, name):
                        clock.advance(item.time)
        deltas: list[Delta] = []
        for key, query in self.catalog.queries.items():
            closed = [self._clocks[name].closed for name in query.streams]
            if not closed or None in closed:
                continue  # a query over several streams advances with the slowest
            until = min(instant for instant in closed if instant is not None)
            for instant in instants(query, self.world, self._evaluated[key], until):
                deltas += self._evaluate(key, query, instant)
            self._evaluated[key] = max(self._evaluated[key], until)
        deltas.sort(key=lambda delta: delta.instant)
        return deltas

    def _evaluate(self, key: str, query: Query, instant: int) -> list[Delta]:
        before, after = self._answers[key], answer(query, self.world, instant)
        self._answers[key] = after
        return difference(query.name, before, after, instant)
