"""Readings that wait for others to make the matches of triggers, and expire.

The store holds the tables of the kernels (place/kernels/constraint_tables.py) and makes them larger
when a kernel asks for it. A reading is a *slot*, which the caller opens and at which it keeps its
row; it stays the reading's until nobody holds it any more and the caller has settled. A graph is a
number, and its variables are numbers in a row from `first` on.

In which order matches with the same completing reading are told is not said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from place.engine.constraint_graphs import Graph, GraphTables, grown, lined
from place.engine.constraint_ticks import Found, TriggerEvents, deal_events, put_in_order, whole
from place.kernels import constraint_tables as t
from place.kernels.arrays import Floats, Longs
from place.kernels.constraint_absence import forget_waiting
from place.kernels.constraint_alone import take_alone, write_readings
from place.kernels.constraint_entries import chain_anew, forget_members, purge
from place.kernels.constraint_events import take_events
from place.kernels.constraint_lists import forget_list
from place.kernels.constraint_saving import (
    free_slots,
    list_copies,
    list_entries,
    restore_entries,
    restore_waiting,
)

FIRST_ROOM = 1024
"""Rows for which tables have room at first; a power of two."""
LARGE = 1 << 16
"""A table of matches that is longer, and hardly used, is given away."""


class KeptReadings(NamedTuple):
    """What the store knows of readings, by slot."""

    times: Longs
    instants: Longs
    streams: Longs
    places: Floats
    features: Longs
    sequences: Longs


class ConstraintStore:
    """The readings that are kept for all graphs, and the matches that wait."""

    def __init__(self, features: int = 0) -> None:
        room = FIRST_ROOM
        self._graphs = GraphTables()
        readings, lists, values = lined(room, 8), lined(room, 8), lined(room, 8)
        self._shelf = t.Shelf(
            readings=readings,
            places=readings.view(np.float64),
            features=np.full((room, features), t.UNKNOWN, np.int64),
            released=np.zeros(room, np.int64),
            leaves=np.full((room, 3), -1, np.int64),
            lists=lists,
            spots=lists.view(np.float64),
            entries=lined(room, 8),
            terms=np.zeros((room, 3), np.int64),
            heap=np.zeros((room, 2), np.int64),
            members=np.zeros(room, np.int64),
            squares=np.full(room, -1, np.int64),
        )
        self._outlet = t.Outlet(
            waiting=np.full((room, t.WAITING_SLOTS + 1), -1, np.int64),
            queue=np.zeros(room, np.int64),
            found=np.zeros((room, t.FOUND_SLOTS + 1), np.int64),
            blockers=np.zeros((room, 2), np.int64),
        )
        self._bench = t.Bench(
            hits=np.zeros((room, 3), np.int64),
            heads=np.zeros(room, np.int64),
            values=values,
            sites=values.view(np.float64),
            begins=np.zeros(t.MOST_VARIABLES, np.int64),
            ends=np.zeros(t.MOST_VARIABLES, np.int64),
            limits=np.zeros(t.MOST_VARIABLES, np.int64),
            plan=np.zeros((4, t.MOST_VARIABLES), np.int64),
            header=np.zeros(t.FOUND_SLOTS, np.int64),
        )
        self._state = np.zeros(t.COUNTERS, np.int64)
        self._state[t.NOW] = t.BEGINNING
        self._state[[t.FREE_ENTRY, t.FREE_WAITING]] = -1
        self._state[t.FREE_BLOCKS :] = -1
        self._free, self._free_count, self._used = np.zeros(room, np.int64), 0, 0
        self._opened: list[Longs] = []

    # Graphs

    def add(self, graph: Graph) -> int:
        """Enter a graph; its number."""
        number = self._graphs.add(graph)
        missing = self._graphs.widest - (self._outlet.found.shape[1] - t.FOUND_SLOTS)
        if missing > 0:
            outlet = self._outlet
            self._outlet = outlet._replace(
                waiting=np.pad(outlet.waiting, ((0, 0), (0, missing)), constant_values=-1),
                found=np.pad(outlet.found, ((0, 0), (0, missing)), constant_values=-1),
            )
        return number

    def remove(self, graph: int) -> None:
        """A graph is no more, and nothing is kept or waits for it."""
        self._forget(graph)
        if self._graphs.rules.graphs[graph, t.ABSENT]:
            forget_waiting(self._shelf, self._outlet, self._state, graph)
        self._graphs.remove(graph)

    def _forget(self, graph: int) -> None:
        """Nothing is kept for a graph."""
        rules, first = self._graphs.rules, self.first(graph)
        row = rules.graphs[graph]
        beyond = first + int(row[t.ROLES])
        for variable in range(first, beyond):
            forget_list(rules, self._shelf, self._state, variable)
        if row[t.LAYER] >= 0:
            layer = int(row[t.LAYER])
            forget_members(rules, self._shelf, self._state, layer, first, beyond)
        if 2 * self._state[t.GONE_ENTRIES] > self._state[t.HEAPED]:
            purge(rules, self._shelf, self._state)

    def set_strategy(self, number: int, graph: Graph, strategy: int) -> None:
        """Find the readings of a graph in another way from now on; what is kept stays kept. The
        graph is as it was added, and all ticks are settled."""
        slots, variables, expiries = self.entries()
        first = self.first(number)
        mine = np.flatnonzero((variables >= first) & (variables < first + graph.roles))
        self._forget(number)
        self._graphs.set_strategy(number, replace(graph, strategy=strategy))
        self.keep(slots[mine], variables[mine], expiries[mine])
        self.settle()

    def first(self, graph: int) -> int:
        """The number of the first variable of a graph."""
        return int(self._graphs.rules.graphs[graph, t.ORIGIN])

    # Slots

    def open(self, count: int) -> Longs:
        """Slots for readings."""
        reused = min(count, self._free_count)
        made = count - reused
        begin = self._free_count - reused
        slots = np.empty(count, np.int64)
        slots[:reused] = self._free[begin : self._free_count][::-1]
        slots[reused:] = np.arange(self._used, self._used + made)
        self._free_count, self._used = begin, self._used + made
        shelf = self._shelf
        if self._used > len(shelf.readings):
            readings = grown(shelf.readings, self._used)
            self._shelf = shelf._replace(
                readings=readings,
                places=readings.view(np.float64),
                features=grown(shelf.features, self._used, t.UNKNOWN),
                released=grown(shelf.released, self._used),
                leaves=grown(shelf.leaves, self._used, -1),
            )
            self._free = grown(self._free, self._used)
        self._shelf.readings[slots, t.HOLDERS] = 0
        self._opened.append(slots)
        return slots

    def settle(self) -> None:
        """Slots of readings that nobody holds may be opened again."""
        released = int(self._state[t.RELEASED])
        for slots in (*self._opened, self._shelf.released[:released]):
            held = (self._shelf.readings, slots, self._free, self._free_count)
            self._free_count = int(free_slots(*held))
        self._opened.clear()
        self._state[t.RELEASED] = 0

    @property
    def capacity(self) -> int:
        """Slots are below this."""
        return len(self._shelf.readings)

    def set_features(self, width: int) -> None:
        """Readings have so many features from now on; those that are kept have none of the new."""
        missing = width - self._shelf.features.shape[1]
        if missing > 0:
            wider = np.pad(self._shelf.features, ((0, 0), (0, missing)), constant_values=t.UNKNOWN)
            self._shelf = self._shelf._replace(features=wider)

    # Ticks

    def take(self, events: TriggerEvents, slots: Longs, until: int) -> Found:
        """Take the events of a tick that ends at an instant, all instants until then with it."""
        if events.features.shape[1] != self._shelf.features.shape[1]:
            raise ValueError(f"events have {events.features.shape[1]} features")
        arrived, turns = deal_events(self._graphs.rules, events, slots)
        state = self._state
        state[[t.AT_GRAPH, t.AT_TURN, t.AT_EVENT, t.AT_VARIABLE, t.FOUND, t.BLOCKERS]] = 0
        write_readings(self._shelf, arrived, state[t.NEXT_SEQUENCE])
        most = int(np.diff(arrived.starts).max(initial=0))
        heads = grown(self._bench.heads, most * t.MOST_VARIABLES)
        self._bench = self._bench._replace(heads=heads)
        while (need := take_alone(*self._tables(), state, arrived, turns)) != t.DONE:
            self._enlarge(need)
        alone = int(state[t.FOUND])
        while (need := take_events(*self._tables(), state, arrived, until)) != t.DONE:
            self._enlarge(need)
        found = self._given(alone, len(slots))
        state[t.NEXT_SEQUENCE] += len(slots)
        return found

    def _tables(self) -> tuple[t.Rules, t.Shelf, t.Outlet, t.Bench]:
        return self._graphs.rules, self._shelf, self._outlet, self._bench

    def next_deadline(self) -> int:
        """The first instant at which it is decided whether a match is told that waits."""
        if not self._state[t.QUEUED]:
            return int(t.NEVER)
        return int(self._outlet.waiting[self._outlet.queue[0], t.DEADLINE])

    def _given(self, alone: int, events: int) -> Found:
        """The matches of a tick, which are no longer those of the tables. The first `alone` of them
        are in the order of the graphs that found them."""
        outlet, state = self._outlet, self._state
        rows, blockers = outlet.found[: state[t.FOUND]], outlet.blockers[: state[t.BLOCKERS]]
        if len(outlet.found) > max(LARGE, 4 * len(rows)):
            fresh = np.zeros((FIRST_ROOM, rows.shape[1]), np.int64)
            self._outlet = outlet._replace(found=fresh)
        first = int(state[t.NEXT_SEQUENCE])
        return put_in_order(self._graphs.rules, rows, blockers, alone, first, events)

    def _enlarge(self, need: int) -> None:
        """Make twice as large what is too small for a kernel."""
        shelf, outlet, bench, state = self._shelf, self._outlet, self._bench, self._state
        if need == t.MORE_ENTRIES:
            rows = 2 * len(shelf.entries)
            self._shelf = shelf._replace(
                entries=grown(shelf.entries, rows),
                terms=grown(shelf.terms, rows),
                heap=grown(shelf.heap, rows),
            )
        elif need == t.MORE_ROWS:
            lists = _doubled(shelf.lists)
            self._shelf = shelf._replace(lists=lists, spots=lists.view(np.float64))
        elif need == t.MORE_MEMBERS:
            self._shelf = shelf._replace(members=_doubled(shelf.members))
        elif need == t.MORE_SQUARES:
            squares = np.full(2 * len(shelf.squares), -1, np.int64)
            self._shelf = shelf._replace(squares=squares)
            chain_anew(self._shelf, state)
        elif need == t.MORE_FOUND:
            self._outlet = outlet._replace(found=_doubled(outlet.found))
        elif need == t.MORE_BLOCKERS:
            self._outlet = outlet._replace(blockers=_doubled(outlet.blockers))
        elif need == t.MORE_WAITING:
            waiting, queue = _doubled(outlet.waiting), _doubled(outlet.queue)
            self._outlet = outlet._replace(waiting=waiting, queue=queue)
        elif need == t.MORE_HITS:
            self._bench = bench._replace(hits=_doubled(bench.hits))
        else:
            values = _doubled(bench.values)
            self._bench = bench._replace(values=values, sites=values.view(np.float64))

    # What is kept

    def readings_at(self, slots: Longs) -> KeptReadings:
        """What the store knows of the readings at slots that are held."""
        rows = self._shelf.readings[slots]
        times, instants, streams, sequences = (
            rows[:, column] for column in (t.TIME, t.INSTANT, t.STREAM, t.SEQUENCE)
        )
        places, features = self._shelf.places[slots, t.X :], self._shelf.features[slots]
        return KeptReadings(times, instants, streams, places, features, sequences)

    def sequences(self, slots: Longs) -> Longs:
        """The sequence numbers of readings: their places in the canonical order of all."""
        found: Longs = self._shelf.readings[slots, t.SEQUENCE]
        return found

    @property
    def next_sequence(self) -> int:
        """The sequence number of the first reading of the next tick."""
        return int(self._state[t.NEXT_SEQUENCE])

    @next_sequence.setter
    def next_sequence(self, number: int) -> None:
        self._graphs.forget_numbers()
        self._state[t.NEXT_SEQUENCE] = number

    def entries(self) -> tuple[Longs, Longs, Longs]:
        """All that is kept: slots, the variables they are kept for, and the last instants."""
        held = int(self._graphs.rules.variables[:, t.KEPT].sum())
        slots, variables, expiries = list_entries(
            self._graphs.rules, self._shelf, self._state, held
        )
        return slots, variables, expiries

    def pending(self) -> tuple[Longs, Longs, Longs, Longs]:
        """The matches that wait, in the order of their deadlines: graphs, deadlines, sequence
        numbers of the completing readings, and slots."""
        rows = self._outlet.waiting[self._outlet.queue[: self._state[t.QUEUED]]]
        rows = rows[np.lexsort((rows[:, t.SERIAL], rows[:, t.DEADLINE]))]
        graphs, deadlines = rows[:, t.WAITS_FOR], rows[:, t.DEADLINE]
        return graphs, deadlines, rows[:, t.COMPLETING], rows[:, t.WAITING_SLOTS :]

    def put(self, slots: Longs, readings: KeptReadings) -> None:
        """Write readings into slots that were opened for them; nothing holds them yet."""
        rows = self._shelf.readings
        rows[slots, t.TIME], rows[slots, t.INSTANT] = readings.times, readings.instants
        rows[slots, t.STREAM], rows[slots, t.SEQUENCE] = readings.streams, readings.sequences
        self._shelf.places[slots, t.X :] = readings.places
        self._shelf.features[slots] = readings.features
        following = int(readings.sequences.max(initial=-1)) + 1
        self._state[t.NEXT_SEQUENCE] = max(self._state[t.NEXT_SEQUENCE], following)

    def keep(self, slots: Longs, variables: Longs, expiries: Longs) -> None:
        """Keep readings that were put, or are held already, as `entries` told it."""
        ordered = np.argsort(self.sequences(slots), kind="stable")
        slots, variables = whole(slots[ordered]), whole(variables[ordered])
        rows = (slots, variables, whole(expiries[ordered]), self._known(slots, variables))
        begin = 0
        self._graphs.forget_numbers()
        while begin < len(slots):
            tables = (self._graphs.rules, self._shelf, self._state, self._bench.limits)
            need, begin = restore_entries(*tables, *rows, begin)
            if need != t.DONE:
                self._enlarge(need)
        self._measure()

    def restore(
        self,
        slots: Longs,
        times: Longs,
        instants: Longs,
        streams: Longs,
        places: Floats,
        features: Longs,
        sequences: Longs,
        variables: Longs,
        expiries: Longs,
    ) -> None:
        """Put readings and keep them, a row for each variable that one is kept for."""
        self.put(slots, KeptReadings(times, instants, streams, places, features, sequences))
        self.keep(slots, variables, expiries)

    def restore_pending(
        self, graphs: Longs, deadlines: Longs, completing: Longs, slots: Longs
    ) -> None:
        """Let matches wait of which the readings were put, as `pending` told it."""
        width = self._outlet.waiting.shape[1] - t.WAITING_SLOTS
        padded = np.full((len(graphs), width), -1, np.int64)
        padded[:, : slots.shape[1]] = slots[:, :width]
        while self._state[t.QUEUED] + len(graphs) > len(self._outlet.queue):
            self._enlarge(t.MORE_WAITING)
        rows = (whole(graphs), whole(deadlines), whole(completing), padded)
        restore_waiting(self._shelf, self._outlet, self._state, *rows)
        self._measure()

    def _known(self, slots: Longs, variables: Longs) -> Longs:
        """The entry of a square in which a reading is already, −1 if there is none."""
        rules = self._graphs.rules
        entries, copied, layers = list_copies(self._shelf, self._state)
        wanted = rules.graphs[rules.variables[variables, t.GRAPH], t.LAYER]
        width = len(rules.layers) + 1
        keys, asked = copied * width + layers, slots * width + wanted
        ordered = np.argsort(keys)
        if not len(keys):
            return np.full(len(slots), -1, np.int64)
        places = np.minimum(np.searchsorted(keys[ordered], asked), len(keys) - 1)
        found = ordered[places]
        return np.where(keys[found] == asked, entries[found], -1)

    # How much that is

    @property
    def held(self) -> int:
        """Readings that are kept."""
        return int(self._state[t.HELD])

    @property
    def peak(self) -> int:
        """The most readings that were kept at the end of an instant."""
        return int(self._state[t.PEAK])

    @property
    def held_entries(self) -> int:
        """How often readings are kept: once in each list and once in the squares of each layer."""
        return int(self._state[t.HELD_ENTRIES])

    @property
    def peak_entries(self) -> int:
        """The most of these at the end of an instant."""
        return int(self._state[t.PEAK_ENTRIES])

    def held_of(self, graph: int) -> Longs:
        """How many readings are kept for each variable of a graph."""
        first, row = self.first(graph), self._graphs.rules.graphs[graph]
        found: Longs = self._graphs.rules.variables[first : first + row[t.ROLES], t.KEPT]
        return found.copy()

    def steps_of(self, graph: int) -> int:
        """How many pairs of readings were compared for a graph."""
        return int(self._graphs.rules.graphs[graph, t.STEPS])

    def facts_of(self, graphs: Longs) -> tuple[Longs, Longs, Longs, Longs]:
        """Of graphs: their first variables, how many a match has, their strategies, and how many
        pairs of readings were compared."""
        rows = self._graphs.rules.graphs[graphs]
        return rows[:, t.ORIGIN], rows[:, t.MATCHED], rows[:, t.STRATEGY], rows[:, t.STEPS]

    def matches_of(self, graph: int) -> int:
        """How many matches of a graph were told."""
        return int(self._graphs.rules.graphs[graph, t.MATCHES])

    def stopped(self) -> Longs:
        """The graphs that take no readings any more, because one would have needed too much."""
        return np.flatnonzero(self._graphs.rules.graphs[:, t.STOPPED])

    def next_expiry(self) -> int:
        """The first instant after which something that is kept may be let go of."""
        return int(self._shelf.heap[0, 0]) if self._state[t.HEAPED] else int(t.NEVER)

    def counts(self) -> Longs:
        """By the numbers of all graphs: readings kept, matches told, and pairs compared."""
        graphs, variables = self._graphs.rules.graphs, self._graphs.rules.variables
        owners = variables[:, t.GRAPH].clip(0, len(graphs) - 1)
        kept = np.bincount(owners, variables[:, t.KEPT], len(graphs)).astype(np.int64)
        return np.stack([kept, graphs[:, t.MATCHES], graphs[:, t.STEPS]], axis=1)

    def _measure(self) -> None:
        state = self._state
        state[t.PEAK] = max(state[t.PEAK], state[t.HELD])
        state[t.PEAK_ENTRIES] = max(state[t.PEAK_ENTRIES], state[t.HELD_ENTRIES])


def _doubled(table: Longs) -> Longs:
    return grown(table, 2 * len(table))
