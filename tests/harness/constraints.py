"""Matches of triggers by trying all readings, and stores of readings that are fed in ticks.

What a match is and when it is told is written here once more, in plain Python, without a store.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.constraint_graphs import Graph
from place.engine.constraint_store import ConstraintStore
from place.engine.constraint_ticks import Found, TriggerEvents
from place.kernels.constraint_tables import NEVER, UNBOUNDED, UNKNOWN
from place.model.space import Space, distance, unit_vector

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@dataclass(frozen=True)
class Event:
    """A reading. `roles` are those that it qualifies for: pairs of a graph and a role."""

    instant: int
    time: int
    stream: int
    x: float
    y: float
    features: tuple[int, ...]
    roles: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Told:
    """A match that is told: readings are numbers in the canonical order."""

    graph: int
    instant: int
    completing: int
    readings: tuple[int, ...]
    blockers: frozenset[int] = frozenset()


def ceiling(time: int, later: int, period: int) -> int:
    """The last instant at which a reading comes that is at most so much later."""
    if later >= UNBOUNDED:
        return NEVER
    return math.ceil((time + later) / period) * period if period else time + later


def fits(graph: Graph, i: int, j: int, one: int, other: int, events: Sequence[Event]) -> bool:
    """Does the pair (i, j) hold for two readings, as far as it is said in this direction?"""
    a, b = events[one], events[other]
    if b.time - a.time > graph.latest[i, j]:
        return False
    if graph.order[i, j] == 1 and not one < other:
        return False
    least, most = graph.least[i, j], graph.most[i, j]
    least_open, most_open = graph.least_open[i, j], graph.most_open[i, j]
    if most < math.inf or least > 0 or (least == 0 and least_open):
        if math.isnan(a.x) or math.isnan(b.x):
            return False
        space = Space.WGS84 if graph.sphere else Space.PLANAR
        far = distance(space, a.x, a.y, b.x, b.y)
        if not (far < most if most_open and most < math.inf else far <= most):
            return False
        if not (far > least if least_open else far >= least):
            return False
    for first, left, op, second, right in graph.comparisons.tolist():
        if (first, second) == (i, j):
            values = a.features[left], b.features[right]
            if UNKNOWN in values or not COMPARISONS[op](*values):
                return False
    return True


def agree(graph: Graph, i: int, j: int, one: int, other: int, events: Sequence[Event]) -> bool:
    """Do two different readings fit two variables, in both directions?"""
    return (
        one != other
        and fits(graph, i, j, one, other, events)
        and fits(graph, j, i, other, one, events)
    )


def all_matches(
    number: int, graph: Graph, events: Sequence[Event], numbers: Iterable[int]
) -> set[Told]:
    """All that is ever told of a graph that sees the readings of these numbers."""
    numbers = list(numbers)
    candidates = [
        [n for n in numbers if (number, role) in events[n].roles] for role in range(graph.roles)
    ]
    found = set()
    m = graph.matched
    for match in itertools.product(*candidates[:m]):
        pairs = itertools.combinations(range(m), 2)
        if not all(agree(graph, i, j, match[i], match[j], events) for i, j in pairs):
            continue
        completing = max(match)
        instant = events[completing].instant
        if not graph.has_absent:
            found.add(Told(number, instant, completing, match))
            continue
        period = int(graph.periods[m])
        ends = [ceiling(events[match[p]].time, int(graph.latest[p, m]), period) for p in range(m)]
        blocking = frozenset(
            n
            for n in candidates[m]
            if all(agree(graph, p, m, match[p], n, events) for p in range(m))
        )
        if graph.asks_more or not blocking:
            found.add(Told(number, max(instant, min(ends)), completing, match, blocking))
    return found


def held_by_model(graph: Graph, events: Sequence[Event], upto: int, shared: bool) -> dict:
    """What a store with one graph without an absent variable keeps when the events until an instant
    are complete: the expiry of each reading, or of each reading and variable. Strategies 1 and 2
    renew; the caller says whether readings are kept once for all variables."""
    kept: dict[tuple[int, int], int] = {}
    use: dict[tuple[int, int], int] = {}
    members: dict[tuple[int, int], set[int]] = {}
    m = graph.matched
    for n, event in enumerate(events):
        if event.instant > upto:
            break
        kept = {key: expiry for key, expiry in kept.items() if expiry >= event.instant}
        for _, i in event.roles:
            others = [j for j in range(m) if j != i]
            asks = any(
                graph.most[i, j] < math.inf or graph.least[i, j] > 0 or graph.least_open[i, j]
                for j in others
            )
            if not others or (asks and math.isnan(event.x)):
                continue
            limits = {
                j: ceiling(event.time, int(graph.latest[i, j]), int(graph.periods[j]))
                for j in others
            }
            domains = {
                j: [
                    key
                    for key in kept
                    if j in members[key] and agree(graph, i, j, n, key[0], events)
                ]
                for j in others
            }
            waiting = [j for j in others if not domains[j]]
            if any(limits[j] < event.instant for j in waiting):
                continue
            expiry = max(limits.values())
            if waiting and graph.strategy != 0:
                expiry = min(limits[j] for j in waiting)
            if expiry < event.instant:
                continue
            key = (n, 0 if shared else i)
            kept[key] = max(expiry, kept.get(key, expiry))
            use[key] = max(max(limits.values()), use.get(key, 0))
            members.setdefault(key, set()).add(i)
            if graph.strategy != 0:
                for other in itertools.chain(*domains.values()):
                    kept[other] = max(kept[other], min(expiry, use[other]))
    return {key: expiry for key, expiry in kept.items() if expiry > upto}


class Feed:
    """A store, and what it was told: readings are known by their numbers."""

    def __init__(self, graphs: dict[int, Graph], features: int = 0) -> None:
        self.store = ConstraintStore(features)
        self.graphs = dict(graphs)
        self.numbers = {key: self.store.add(graph) for key, graph in graphs.items()}

    def add(self, key: int, graph: Graph) -> None:
        self.graphs[key] = graph
        self.numbers[key] = self.store.add(graph)

    def remove(self, key: int) -> None:
        self.store.remove(self.numbers.pop(key))
        del self.graphs[key]

    def take(self, events: Sequence[Event], until: int) -> list[Told]:
        """A tick: what it tells."""
        slots = self.store.open(len(events))
        assert not np.isin(slots, self.store.entries()[0]).any()
        found = self.store.take(self._events(events), slots, until)
        told = self._told(found)
        self.store.settle()
        return told

    def kept(self) -> set[tuple[int, int, int, int]]:
        """The readings that are kept, the graph and the role that each is kept for, until when."""
        roles = {
            self.store.first(number) + role: (key, role)
            for key, number in self.numbers.items()
            for role in range(self.graphs[key].roles)
        }
        slots, variables, expiries = self.store.entries()
        sequences = self.store.sequences(slots).tolist()
        rows = zip(sequences, variables.tolist(), expiries.tolist(), strict=True)
        return {(number, *roles[variable], expiry) for number, variable, expiry in rows}

    def saved(self) -> Feed:
        """Another store that goes on where this one is."""
        other = Feed(self.graphs, self.store.readings_at(np.empty(0, np.int64)).features.shape[1])
        slots, variables, expiries = self.store.entries()
        graphs, deadlines, completing, waiting = self.store.pending()
        different = np.unique(np.append(slots, waiting[waiting >= 0]))
        places = np.full(self.store.capacity + 1, -1)
        places[different] = other.store.open(len(different))
        other.store.put(places[different], self.store.readings_at(different))
        shift, renamed = self._renaming(other)
        other.store.keep(places[slots], variables + shift[variables], expiries)
        rows = np.where(waiting >= 0, places[waiting], -1)
        other.store.restore_pending(renamed[graphs], deadlines, completing, rows)
        other.store.next_sequence = self.store.next_sequence
        other.store.settle()
        return other

    def _renaming(self, other: Feed) -> tuple[np.ndarray, np.ndarray]:
        """How much numbers of variables differ, and the numbers of graphs there."""
        shift, renamed = np.zeros(10_000, np.int64), np.zeros(10_000, np.int64)
        for key, number in self.numbers.items():
            first = self.store.first(number)
            moved = other.store.first(other.numbers[key]) - first
            shift[first : first + self.graphs[key].roles] = moved
            renamed[number] = other.numbers[key]
        return shift, renamed

    def _events(self, events: Sequence[Event]) -> TriggerEvents:
        variables = [
            sorted(
                self.store.first(self.numbers[graph]) + role
                for graph, role in event.roles
                if graph in self.numbers
            )
            for event in events
        ]
        width = self.store.readings_at(np.empty(0, np.int64)).features.shape[1]
        return TriggerEvents(
            np.array([event.time for event in events], np.int64),
            np.array([event.instant for event in events], np.int64),
            np.array([event.stream for event in events], np.int64),
            np.array([self._place(event) for event in events], float).reshape(-1, 3),
            np.array([event.features for event in events], np.int64).reshape(len(events), width),
            np.cumsum([0, *(len(each) for each in variables)]),
            np.array([each for some in variables for each in some], np.int64),
        )

    def _place(self, event: Event) -> tuple[float, float, float]:
        if any(graph.sphere for graph in self.graphs.values()):
            if math.isnan(event.x):
                return math.nan, math.nan, math.nan
            return unit_vector(event.x, event.y)
        return event.x, event.y, 0.0

    def _told(self, found: Found) -> list[Told]:
        keys = {number: key for key, number in self.numbers.items()}
        blockers: dict[int, set[int]] = {}
        for match, slot in zip(*found.blockers, strict=True):
            blockers.setdefault(int(match), set()).add(int(self.store.sequences(slot)))
        told = []
        for k, row in enumerate(found.slots):
            key = keys[int(found.graphs[k])]
            m = self.graphs[key].matched
            assert (row[m:] == -1).all()
            assert k not in blockers or self.graphs[key].asks_more
            readings = tuple(self.store.sequences(row[:m]).tolist())
            instant, completing = int(found.instants[k]), int(found.completing[k])
            some = frozenset(blockers.get(k, set()))
            told.append(Told(key, instant, completing, readings, some))
        return told
