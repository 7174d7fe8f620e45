"""The triggers of a cell: readings come in, and alerts go out.

A trigger lives in one cell of the matrix, whole, so that every match is found in one place; what is
spread over the cells are the triggers. In a tick the readings of each stream meet the regions of
all variables at once. Those that may stand for some variable go to the store of constraints in one
order, which finds all matches and lets go of readings that can be in none any more.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from place.engine.changes import Change
from place.engine.columns import Columns, Dictionary
from place.engine.constraint_store import ConstraintStore
from place.engine.constraint_ticks import TriggerEvents
from place.engine.heard import readings_in_order
from place.engine.held_readings import HeldReadings, places_of
from place.engine.matrix import Place
from place.engine.operators.contract import NEVER
from place.engine.tick import Due
from place.engine.trigger_alerts import TriggerAlerts
from place.engine.trigger_features import TriggerFeatures
from place.engine.trigger_graphs import TriggerGraph, graphs_of
from place.engine.trigger_strategies import TriggerStrategies
from place.engine.trigger_variables import TriggerVariables, rows_with_time
from place.kernels.arrays import Floats, Longs
from place.kernels.constraint_tables import MOST_MATCHES, MOST_STEPS
from place.model.schema import Stream
from place.plan.explain import Observed
from place.plan.query import Query

LOG = logging.getLogger("place.engine")
STOPPED = (
    f"for one reading more than {MOST_STEPS:,} pairs would have to be compared, or more than"
    f" {MOST_MATCHES:,} matches told; drop it, and create it again with closer bounds"
)
MOST_COUNTED = 10_000
"""Of so many triggers of a cell the counts are told with each tick."""


class TriggerCounts(NamedTuple):
    """Readings that a trigger keeps, once for each variable that they may stand for, and how many
    matches, alerts and comparisons of two readings there were."""

    kept: int = 0
    matches: int = 0
    alerts: int = 0
    pairs: int = 0

    def since(self, before: TriggerCounts) -> TriggerCounts:
        """What has come since, and what is kept now."""
        came = (new - old for new, old in zip(self[1:], before[1:], strict=True))
        return TriggerCounts(self.kept, *came)


@dataclass
class Registered:
    """A trigger of this cell, and the numbers of its graphs by the combinations of rows of its
    tables that they are of."""

    number: int
    query: Query
    graphs: dict[int, int]
    is_stopped: bool = False


@dataclass(frozen=True)
class _Qualified:
    """The readings of one stream that may stand for variables, in order."""

    stream: str
    times: Longs
    instants: Longs
    keys: Longs
    rows: Columns
    counts: Longs
    variables: Longs


class Triggers:
    """Everything that the triggers of one cell need."""

    def __init__(
        self, place: Place, streams: Iterable[Stream], dictionary: Dictionary, threads: int
    ) -> None:
        self.streams = {stream.name: stream for stream in streams}
        self.dictionary = dictionary
        self.held = HeldReadings(self.streams, dictionary)
        self.features = TriggerFeatures(dictionary)
        self.alerts = TriggerAlerts(self.held, dictionary)
        self.store = ConstraintStore()
        self.strategies = TriggerStrategies(self.store)
        self.registered: dict[str, Registered] = {}
        self._place = place
        self._variables = TriggerVariables(self.streams, dictionary, threads)
        self._next = -1

    def __len__(self) -> int:
        return len(self.registered)

    # Triggers come and go

    def begin(self, query: Query, tables: Mapping[str, pa.Table]) -> Registered | None:
        """A trigger begins; None if it is another cell's."""
        if not self._place.has_trigger(query.name):
            return None
        self._next += 1
        number = self._next
        made = Registered(number, query, {})
        for each in graphs_of(query, tables, self.held, self.features):
            made.graphs[each.combination] = self._begin_graph(made, each)
        self.store.set_features(self.features.width)
        self.registered[query.name] = made
        return made

    def _begin_graph(self, made: Registered, each: TriggerGraph) -> int:
        graph = self.store.add(each.graph)
        trigger = made.query.trigger
        assert trigger is not None
        self.strategies.begin(graph, each.graph, is_hinted=trigger.hint is not None)
        first = self.store.first(graph)
        for role, (condition, regions) in enumerate(zip(each.unary, each.regions, strict=True)):
            stream = each.shape.streams[role]
            self._variables.add(first + role, stream, condition, regions)
        self.alerts.begin(graph, made.number, made.query, each.shape, each.constants)
        return graph

    def end(self, name: str) -> None:
        """A trigger ends; what it has told stays told."""
        gone = self.registered.pop(name, None)
        if gone is None:
            return
        trigger = gone.query.trigger
        assert trigger is not None
        for graph in gone.graphs.values():
            first = self.store.first(graph)
            self._variables.remove(range(first, first + trigger.roles))
            self.store.remove(graph)
            self.strategies.end(graph)
        self.alerts.end(list(gone.graphs.values()), gone.number)

    # A tick

    def take(self, heard: Mapping[str, Due], until: int) -> list[Change]:
        """Take the messages of all streams up to an instant. Returns the alerts."""
        if not self.registered:
            return []
        parts = [
            part
            for name in self.held.names
            if name in heard and self._variables.reads(name)
            if (part := self._qualified(name, heard[name])) is not None
        ]
        events, order = self._events(parts)
        slots = self.store.open(len(events.times))
        at = 0
        for part in parts:
            mine = slots
            if len(parts) > 1:
                mine = slots[np.flatnonzero((order >= at) & (order < at + len(part.times)))]
            at += len(part.times)
            self.held.put(part.stream, mine, part.rows, part.keys)
        changes = self.alerts.of(self.store.take(events, slots, until))
        self._tell_stopped()
        self.store.settle()
        self.strategies.look(len(events.times), events.variables)
        self._forget_told()
        return changes

    def _qualified(self, name: str, due: Due) -> _Qualified | None:
        messages, instants = readings_in_order(due, self.streams[name], self.dictionary)
        if not len(messages):
            return None
        rows = rows_with_time(messages, self.dictionary)
        variables, counts = self._variables.qualifying(name, (messages, instants), rows)
        if not len(variables):
            return None
        times, keys = messages.times, messages.keys
        chosen = np.flatnonzero(counts)
        if len(chosen) < len(counts):
            times, instants, keys = times[chosen], instants[chosen], keys[chosen]
            rows, counts = rows.take(chosen), counts[chosen]
        return _Qualified(name, times, instants, keys, rows, counts, variables)

    def _events(self, parts: list[_Qualified]) -> tuple[TriggerEvents, Longs]:
        """The readings of all streams in one order, and which of them stands where: by instants,
        times, streams and keys."""
        nothing = np.empty(0, np.int64)
        times = np.concatenate([nothing, *(part.times for part in parts)])
        instants = np.concatenate([nothing, *(part.instants for part in parts)])
        streams = np.concatenate(
            [nothing, *(np.full(len(p.times), self.held.number(p.stream)) for p in parts)]
        )
        counts = np.concatenate([nothing, *(part.counts for part in parts)])
        variables = np.concatenate([nothing, *(part.variables for part in parts)])
        places: Floats = np.concatenate(
            [np.empty((0, 3)), *(places_of(self.streams[p.stream], p.rows) for p in parts)]
        )
        empty = np.empty((0, self.features.width), np.int64)
        features = np.concatenate([empty, *(self.features.of(p.stream, p.rows) for p in parts)])
        order = np.arange(len(times))
        starts = np.concatenate([[0], np.cumsum(counts)])
        if len(parts) > 1:
            order = np.lexsort((streams, times, instants))  # keys are in order within a stream
            began, counts = starts[order], counts[order]
            starts = np.concatenate([[0], np.cumsum(counts)])
            variables = variables[
                np.repeat(began - starts[:-1], counts) + np.arange(len(variables))
            ]
            times, instants, streams = times[order], instants[order], streams[order]
            places, features = places[order], features[order]
        return TriggerEvents(times, instants, streams, places, features, starts, variables), order

    def _forget_told(self) -> None:
        """Of completing readings that no match waits with any more nothing needs to be known."""
        if not any(self.alerts.told.values()):
            return
        graphs, _, completing, _ = self.store.pending()
        waiting: dict[int, set[int]] = {}
        for graph, reading in zip(graphs.tolist(), completing.tolist(), strict=True):
            waiting.setdefault(graph, set()).add(reading)
        for graph, known in self.alerts.told.items():
            known &= waiting.get(graph, set())

    def _tell_stopped(self) -> None:
        """Say once of each trigger that it was stopped."""
        stopped = set(self.store.stopped().tolist())
        for known in self.registered.values() if stopped else ():
            if not known.is_stopped and not stopped.isdisjoint(known.graphs.values()):
                known.is_stopped = True
                LOG.warning('trigger "%s" is stopped: %s', known.query.name, STOPPED)

    def next_expiry(self) -> int:
        """The next instant at which an alert may be told or a reading let go of, if nothing
        comes."""
        return min(NEVER, self.store.next_deadline(), self.store.next_expiry())

    def counts(self) -> dict[str, TriggerCounts]:
        """What triggers of this cell keep, and what came of it since they began here; of very many
        triggers the first."""
        known = list(itertools.islice(self.registered.values(), MOST_COUNTED))
        if not known:
            return {}
        owners = np.repeat(np.arange(len(known)), [len(each.graphs) for each in known])
        graphs = [graph for each in known for graph in each.graphs.values()]
        of_graphs = self.store.counts()[graphs]
        kept, matches, pairs = (
            np.bincount(owners, column, len(known)).astype(np.int64).tolist()
            for column in of_graphs.T
        )
        return {
            each.query.name: TriggerCounts(
                kept[i], matches[i], self.alerts.count(each.number), pairs[i]
            )
            for i, each in enumerate(known)
        }

    def observed(self, name: str) -> Observed:
        """What was seen of a trigger: the readings that it keeps, and what came of them."""
        known = self.registered[name]
        store, graphs = self.store, list(known.graphs.values())
        trigger = known.query.trigger
        assert trigger is not None
        kept = [0] * trigger.roles
        for graph in graphs:
            kept = [a + b for a, b in zip(kept, store.held_of(graph).tolist(), strict=True)]
        names = [source.alias for source in known.query.sources[: trigger.roles]]
        waiting = np.isin(store.pending()[0], graphs).sum()
        listed = (f"{count:,} for {name}" for name, count in zip(names, kept, strict=True))
        alerts = self.alerts.count(known.number)
        notes = [
            f"keeps {', '.join(listed)}",
            f"{sum(map(store.matches_of, graphs)):,} matches,"
            f" {alerts:,} alerts, {sum(map(store.steps_of, graphs)):,} pairs compared",
        ]
        notes += dict.fromkeys(self.strategies.choices[graph].told() for graph in graphs)
        if known.is_stopped:
            notes.append(f"stopped: {STOPPED}")
        if trigger.absence is not None:
            notes.append(f"{waiting:,} matches wait for UNLESS")
        if len(graphs) > 1 or known.query.tables:
            notes.append(f"{len(graphs):,} combinations of rows of its tables")
        rows = Counter({"scan": 0, "answer": alerts})
        return Observed(rows=rows, shared=len(self.registered), notes=tuple(notes))
