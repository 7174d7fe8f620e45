"""What triggers keep, as an Arrow table, and back.

Each row belongs to a trigger and is of one of four kinds: a reading that is kept for a variable, a
reading of a match that waits for the deadline of UNLESS, a group that is silent, or a completing
reading of which a match was told.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns
from place.engine.constraint_store import KeptReadings
from place.engine.held_readings import places_of
from place.engine.trigger_variables import with_time
from place.engine.triggers import Registered, Triggers
from place.kernels.arrays import Longs
from place.model.clock import ceil_all
from place.model.segment import ARROW

KEPT, WAITING, SILENT, TOLD = range(4)

FACTS = (
    "trigger",
    "kind",
    "combination",
    "role",
    "until",
    "sequence",
    "key",
    "match",
    "completing",
)
"""The columns of numbers. `until` is when a reading is let go of, when UNLESS is decided, or the
last alert of a group; `match` tells the readings of one waiting match from those of others."""


class TriggerContent:
    """Saves what the triggers of a cell keep, and gives it back to triggers that begin.

    One that was saved and `goes_on` knows everything again. One that begins anew, with what a
    replay of the past has left, takes the readings only: it has told nothing yet.
    """

    def __init__(self, triggers: Triggers, *, goes_on: bool = False) -> None:
        self._triggers = triggers
        self._goes_on = goes_on
        self._slots: dict[int, int] = {}
        """Where readings are that several triggers have saved, by their sequence numbers."""

    # To Arrow

    def save(self) -> tuple[list[str], pa.Table] | None:
        """The names of all triggers, and what they keep; None without triggers."""
        known = list(self._triggers.registered.values())
        if not known:
            return None
        return [each.query.name for each in known], self._table(known)

    def of(self, name: str) -> pa.Table:
        """What one trigger keeps."""
        return self._table([self._triggers.registered[name]])

    def _table(self, known: list[Registered]) -> pa.Table:
        owners = {
            graph: (place, combination)
            for place, each in enumerate(known)
            for combination, graph in each.graphs.items()
        }
        store = self._triggers.store
        slots, variables, expiries = store.entries()
        graphs, roles = self._roles(variables, owners)
        mine = np.flatnonzero(graphs >= 0)
        parts = [self._rows(KEPT, owners, graphs[mine], roles[mine], expiries[mine], slots[mine])]
        graphs, deadlines, completing, members = store.pending()
        mine = np.flatnonzero(np.isin(graphs, list(owners)))
        matches, roles = np.nonzero(members[mine] >= 0)
        at = mine[matches]
        parts.append(
            self._rows(
                WAITING,
                owners,
                graphs[at],
                roles,
                deadlines[at],
                members[at, roles],
                {"match": at, "completing": completing[at]},
            )
        )
        for graph in owners:
            for text, instant in self._triggers.alerts.silence.save(graph):
                one, last = np.array([graph]), np.array([instant])
                parts.append(self._rows(SILENT, owners, one, one * 0, last, None, {}, text))
            told = np.array(sorted(self._triggers.alerts.told.get(graph, ())), np.int64)
            if len(told):
                zeros = told * 0
                facts = {"completing": told}
                parts.append(self._rows(TOLD, owners, zeros + graph, zeros, zeros, None, facts))
        return pa.concat_tables(parts)

    def _roles(
        self, variables: Longs, owners: Mapping[int, tuple[int, int]]
    ) -> tuple[Longs, Longs]:
        """The graphs that variables are of, −1 if these are not asked for, and which of their
        variables they are."""
        store = self._triggers.store
        firsts = np.full(int(variables.max(initial=-1)) + 2, -1)
        for graph in owners:
            first = store.first(graph)
            firsts[first : first + len(store.held_of(graph))] = graph
        graphs = firsts[variables]
        origins = np.array([store.first(graph) if graph >= 0 else 0 for graph in graphs.tolist()])
        return graphs, variables - origins.astype(np.int64)

    def _rows(
        self,
        kind: int,
        owners: Mapping[int, tuple[int, int]],
        graphs: Longs,
        roles: Longs,
        until: Longs,
        slots: Longs | None,
        facts: Mapping[str, Longs] | None = None,
        text: str | None = None,
    ) -> pa.Table:
        size = len(graphs)
        held = self._triggers.held
        owned = np.array([owners[graph] for graph in graphs.tolist()], np.int64).reshape(-1, 2)
        known: dict[str, Longs] = {
            "trigger": owned[:, 0],
            "kind": np.full(size, kind),
            "combination": owned[:, 1],
            "role": roles,
            "until": until,
            **(facts or {}),
        }
        streams = np.full(size, -1)
        if slots is not None:
            readings = self._triggers.store.readings_at(slots)
            known["sequence"], known["key"] = readings.sequences, held.keys(slots)
            streams = readings.streams
        zeros = np.zeros(size, np.int64)
        arrays = [pa.array(known.get(fact, zeros), pa.int64()) for fact in FACTS]
        arrays.append(pa.array([text] * size, pa.string()))
        for number, name in enumerate(held.names):
            at = np.flatnonzero(streams == number)
            columns = with_time(self._triggers.streams[name]).columns
            if not len(at) or slots is None:
                arrays += [pa.nulls(size, ARROW[column.type]) for column in columns]
                continue
            rows = held.rows(name, slots[at])
            places = np.zeros(size, np.int64)
            places[at] = np.arange(len(at))
            index = pa.array(places, mask=streams != number)
            for i in range(len(columns)):
                array = rows.array(i, slice(None))
                plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
                arrays.append(plain.take(index))
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    # From Arrow

    def restore(self, begun: Registered, content: pa.Table) -> None:
        """A trigger that has begun takes what was saved of it."""
        facts = {name: content.column(i).to_numpy() for i, name in enumerate(FACTS)}
        known = np.isin(facts["combination"], list(begun.graphs))
        kept = np.flatnonzero((facts["kind"] == KEPT) & known)
        waiting = np.flatnonzero((facts["kind"] == WAITING) & known & self._goes_on)
        readings = np.concatenate([kept, waiting])
        slots = self._restored(begun, content, facts, readings)
        graphs = np.array(
            [begun.graphs.get(c, -1) for c in facts["combination"].tolist()], np.int64
        )
        store = self._triggers.store
        firsts = np.array([store.first(graph) for graph in graphs[kept].tolist()], np.int64)
        store.keep(slots[: len(kept)], firsts + facts["role"][kept], facts["until"][kept])
        if not self._goes_on:
            return
        if len(waiting):
            matches, at, places = np.unique(
                facts["match"][waiting], return_index=True, return_inverse=True
            )
            members = np.full((len(matches), int(facts["role"][waiting].max()) + 1), -1)
            members[places.reshape(-1), facts["role"][waiting]] = slots[len(kept) :]
            first = waiting[at]
            store.restore_pending(
                graphs[first], facts["until"][first], facts["completing"][first], members
            )
        texts = content.column(len(FACTS)).to_pylist()
        for i in np.flatnonzero((facts["kind"] == SILENT) & known).tolist():
            saved = [(texts[i], int(facts["until"][i]))]
            self._triggers.alerts.silence.restore(int(graphs[i]), saved)
        for i in np.flatnonzero((facts["kind"] == TOLD) & known).tolist():
            self._triggers.alerts.told[int(graphs[i])].add(int(facts["completing"][i]))

    def _restored(
        self, begun: Registered, content: pa.Table, facts: Mapping[str, Longs], chosen: Longs
    ) -> Longs:
        """The slots of readings, each of which is kept once."""
        sequences = facts["sequence"][chosen]
        if not self._goes_on:
            self._slots = {}
        new, at = np.unique(sequences, return_index=True)
        fresh = np.array([number not in self._slots for number in new.tolist()], np.bool_)
        new, at = new[fresh], chosen[at[fresh]]
        slots = self._triggers.store.open(len(new))
        sources = [source.relation.name for source in begun.query.sources]
        held = self._triggers.held
        column = len(FACTS) + 1
        for number, name in enumerate(held.names):
            stream = self._triggers.streams[name]
            fields = with_time(stream).columns
            mine = np.flatnonzero([sources[role] == name for role in facts["role"][at].tolist()])
            given = content.take(pa.array(at[mine]))
            arrays = [given.column(column + i) for i in range(len(fields))]
            column += len(fields)
            if not len(mine):
                continue
            rows = Columns.from_arrow(fields, self._triggers.dictionary, arrays)
            keys = facts["key"][at[mine]]
            if stream.key is not None:
                keys = rows.values[stream.key].astype(np.int64)
            held.put(name, slots[mine], rows, keys)
            times: Longs = rows.values[-1]
            readings = KeptReadings(
                times,
                ceil_all(times, stream.evaluate),
                np.full(len(mine), number),
                places_of(stream, rows),
                self._triggers.features.of(name, rows),
                new[mine],
            )
            self._triggers.store.put(slots[mine], readings)
        self._slots.update(zip(new.tolist(), slots.tolist(), strict=True))
        return np.array([self._slots[number] for number in sequences.tolist()], np.int64)
