"""A timeline: the streams that some queries read together, and the cells that hold them.

A query over several streams advances with the slowest of them; a query over one does not wait for
others. So each set of streams that queries read has cells of its own, which are all at one instant.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from place.engine.cell import Cell, Step
from place.engine.route import Matrix, Place
from place.engine.run import can_run, run
from place.model.delta import Answer, Delta
from place.model.reading import Reading
from place.model.schema import Stream
from place.model.time import ceil_to
from place.model.types import Row
from place.plan.query import Query

LONG_AFTER = 1 << 62
PROBE = "\0probe"
"""The name of a query that is asked once; no name that can be written is the same."""
SHORTEST_RUN, LONGEST_RUN, CROWD = 3, 100_000, 256
"""So many instants, of at most so many readings on average, are taken in one pass."""


class Timeline:
    """Cells that take the readings of a set of streams in the order of their instants."""

    def __init__(self, streams: Iterable[Stream], matrix: Matrix, threads: int, at: int) -> None:
        self.streams = {stream.name: stream for stream in streams}
        self.instant = at
        self.cells = [
            Cell(Place(matrix, row, column), self.streams.values(), threads)
            for row in range(matrix.rows)
            for column in range(matrix.columns)
        ]
        self.queries: dict[str, Query] = {}
        self._latest: dict[str, dict[Hashable, Reading]] = {name: {} for name in self.streams}
        self._pending: dict[str, list[tuple[int, int, int, Reading]]] = {
            name: [] for name in self.streams
        }
        self._expiries: dict[str, deque[tuple[int, Reading]]] = {
            name: deque() for name in self.streams
        }
        self._counter = itertools.count()

    # Readings

    def offer(self, reading: Reading) -> None:
        """A reading that is in time; it waits for its instant."""
        due = ceil_to(reading.time, self.streams[reading.stream].evaluate)
        entry = (due, reading.time, next(self._counter), reading)
        self._pending[reading.stream].append(entry)

    def advance(self, until: int) -> list[Delta]:
        """Take all instants up to `until`: one by one, or in runs where the cells can."""
        for waiting in self._pending.values():
            waiting.sort(key=lambda entry: entry[:3])
        in_runs = self._goes_in_runs(until)
        deltas: list[Delta] = []
        steps: list[Step] = []
        taken = dict.fromkeys(self.streams, 0)
        while True:
            due = min((self._next_due(name, taken[name]) for name in self.streams), default=None)
            if due is None or due > until:
                break
            messages = {name: self._messages(name, due, taken) for name in self.streams}
            steps.append(Step(due, messages, locate=self.locate))
            if not in_runs:
                deltas += self.step(steps.pop())
            elif len(steps) == LONGEST_RUN:
                deltas += self._run(steps)
                steps = []
        deltas += self._run(steps)
        for name, count in taken.items():
            del self._pending[name][:count]
        self.instant = max(self.instant, until)
        return deltas

    def _goes_in_runs(self, until: int) -> bool:
        """Are there many instants of few readings each, that all cells can take in one pass?"""
        waiting = [e for entries in self._pending.values() for e in entries if e[0] <= until]
        instants = len({entry[0] for entry in waiting})
        told = {entry[3].stream for entry in waiting}
        told |= {name for name, expiries in self._expiries.items() if expiries}
        return (
            instants >= SHORTEST_RUN
            and len(waiting) <= instants * CROWD
            and (all(can_run(cell, told) for cell in self.cells))
        )

    def _run(self, steps: list[Step]) -> list[Delta]:
        if not steps:
            return []
        self.instant = max(self.instant, steps[-1].instant)
        return [delta for cell in self.cells for delta in run(cell, steps)]

    def _next_due(self, name: str, taken: int) -> int:
        waiting, expiries = self._pending[name], self._expiries[name]
        reading = waiting[taken][0] if taken < len(waiting) else LONG_AFTER
        return min(reading, expiries[0][0] if expiries else LONG_AFTER)

    def _messages(
        self, name: str, due: int, taken: dict[str, int]
    ) -> list[tuple[Hashable, Row | None]]:
        """The last word of each key at an instant: its reading, or that it is gone."""
        stream, latest = self.streams[name], self._latest[name]
        words: dict[Hashable, Row | None] = {}
        waiting, position = self._pending[name], taken[name]
        while position < len(waiting) and waiting[position][0] == due:
            reading = waiting[position][3]
            latest[reading.key] = reading
            words[reading.key] = reading.row
            position += 1
        taken[name] = position
        self._expire(stream, due, words)
        expiries: list[tuple[int, Reading]] = []
        for key, row in words.items():
            last = latest[key]
            if row is None:
                del latest[key]
            elif stream.timeout is not None:
                expiry = ceil_to(last.time + stream.timeout, stream.evaluate)
                if expiry <= due:
                    words[key] = None
                    del latest[key]
                else:
                    expiries.append((expiry, last))
        # Later instants have later readings, so that the whole queue is in order.
        self._expiries[name].extend(sorted(expiries, key=lambda pair: pair[0]))
        return list(words.items())

    def _expire(self, stream: Stream, due: int, words: dict[Hashable, Row | None]) -> None:
        """Objects whose last reading is `timeout` ago. Expiries come in the order of readings."""
        waiting, latest = self._expiries[stream.name], self._latest[stream.name]
        while waiting and waiting[0][0] <= due:
            _, reading = waiting.popleft()
            if latest.get(reading.key) is reading and reading.key not in words:
                words[reading.key] = None

    def locate(self, stream: str, key: Hashable) -> tuple[float, float] | None:
        """Where an object is at the instant that the cells have reached."""
        found = self._latest[stream].get(key)
        definition = self.streams[stream]
        if found is None or found.row is None or definition.x is None or definition.y is None:
            return None
        return float(found.row[definition.x]), float(found.row[definition.y])  # type: ignore[arg-type]

    # Queries

    def step(self, step: Step) -> list[Delta]:
        """One instant in all cells."""
        self.instant = max(self.instant, step.instant)
        deltas = [delta for cell in self.cells for delta in cell.process(step)]
        self._forget_evicted()
        return deltas

    def _forget_evicted(self) -> None:
        """Where all cells of a column's row have let go of an object, its reading is not kept."""
        for name, stream in self.streams.items():
            if stream.retention is None:
                continue
            for key in {key for cell in self.cells for key in cell.evicted.get(name, ())}:
                if not any(cell.knows(name, key) for cell in self.cells):
                    self._latest[name].pop(key, None)

    def keeps(self, stream: str, key: Hashable) -> bool:
        """Is the last reading of an object kept?"""
        return key in self._latest[stream]

    def register(self, queries: Sequence[Query], tables: dict[str, Sequence[Row]]) -> list[Delta]:
        """Queries that are answered from now on: their answers as positive deltas."""
        for query in queries:
            self.queries[query.name] = query
        return self.step(Step(self.instant, register=queries, tables=tables, locate=self.locate))

    def probe(self, query: Query, tables: dict[str, Sequence[Row]]) -> Answer:
        """The answer of a query at the instant that the cells have reached."""
        asked = replace(query, name=PROBE)
        found = self.step(Step(self.instant, register=[asked], tables=tables, locate=self.locate))
        self.step(Step(self.instant, drop=[PROBE], locate=self.locate))
        return Counter(delta.row for delta in found)

    def drop(self, names: Sequence[str]) -> list[Delta]:
        """Queries that end: their answers as negative deltas."""
        for name in names:
            del self.queries[name]
        return self.step(Step(self.instant, drop=names, locate=self.locate))
