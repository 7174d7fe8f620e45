"""kNN around groups of places: the candidates with the least sum, maximum or minimum of distances.

Candidates are those of kNN, which the flow below tells as they come and go. One compiled walk takes
all queries of a shape through all instants of a tick.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from place.engine.candidate_events import CandidateEvents
from place.engine.chosen import Among, Chosen, ranks_of, rows_of_chosen
from place.engine.flow import Flow
from place.engine.focals import Focals
from place.engine.group_rows import GroupRows
from place.engine.operators.contract import NEVER
from place.engine.tick import Tick
from place.engine.versions import Versions
from place.kernels.arrays import Floats, Longs, merged_values
from place.kernels.inside import unit_vectors
from place.kernels.nearest_group import GroupWalker
from place.model.space import Space
from place.plan.query import Nearest as NearestClause


class GroupNearest:
    """The nearest objects of the groups of all queries of one shape."""

    name = "choose"

    def __init__(self, among: Among, focals: Focals) -> None:
        self._among = among
        self._store = among.store
        self._focals = focals
        self._walker = GroupWalker()
        self._is_loaded = False
        self.rows = GroupRows()
        self._candidates = np.zeros(16, np.bool_)

    def put(self, query: int, clause: NearestClause, focals: Longs) -> None:
        """Keep what a new query asks for; `focals` are the numbers of the focal objects that its
        places are, −1 for points."""
        self.rows.add(query, clause, focals, self._focals.positions(focals))

    def begin(self, query: int, content: pa.Table | None) -> None:
        """Nothing to do: `put` has been called for the query."""

    def end(self, query: int) -> None:
        """A query loses its places, so that everything in its answer leaves."""
        self.rows.end(query)

    def save(self) -> pa.Table | None:
        """Everything follows from the objects."""
        return None

    def next_expiry(self) -> int:
        """Nothing expires."""
        return NEVER

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """Who came into the answers of queries and who left, at each instant."""
        rows, size = self.rows, self._store.size
        versions = tick.objects.get(self._store.relation.name)
        if versions is None:
            versions = Versions.none(self._store)
        if len(self._candidates) < size:
            more = np.zeros(2 * size - len(self._candidates), np.bool_)
            self._candidates = np.concatenate([self._candidates, more])
        moves = np.flatnonzero(np.isin(tick.focals.numbers, rows.focals))
        steps = [versions.instants, tick.focals.instants[moves], flow.instants]
        if rows.is_fresh:
            steps.append(np.array([tick.until]))
        instants = merged_values(steps)
        if not len(instants):
            return Flow.of_marks(flow.marks)
        events = CandidateEvents(versions, flow, tick, moves, instants)
        found = self._walk(events)
        told = rows_of_chosen(found, self._among, versions, instants, rows.numbers, flow.marks)
        rows.settle()
        return told

    def _walk(self, events: CandidateEvents) -> Chosen:
        rows, store, walker = self.rows, self._store, self._walker
        relation, is_open = store.relation, self._among.is_open
        assert relation.x is not None
        assert relation.y is not None
        columns = (relation.x, relation.y)
        if not self._is_loaded:
            places = events.versions.places(~np.arange(store.size), columns)
            if not is_open:
                places[~self._candidates[: store.size]] = np.nan
            walker.load(self._vectors(places))
            self._is_loaded = True
        walker.grow(store.size)
        starts, slots, to = events.walk_points(columns, None if is_open else self._candidates)
        center_starts, center_rows, center_to = events.walk_centres(rows.led_by)
        walked = walker.walk(
            ranks_of(store),
            rows.place_starts,
            self._vectors(rows.places),
            rows.excluded(self._focals.seats(relation.name)),
            rows.totals,
            rows.ks,
            rows.member_starts,
            rows.members,
            rows.measures,
            rows.fresh,
            starts,
            slots,
            self._vectors(to),
            center_starts,
            center_rows,
            self._vectors(center_to),
            watch=self._among.is_watched,
            measured=self._among.merges,
        )
        rows.follow(*events.all_centres())
        return Chosen(
            walked.steps.astype(np.int64),
            walked.queries.astype(np.int64),
            walked.slots.astype(np.int64),
            walked.signs.astype(np.int64),
            walked.distances,
        )

    def _vectors(self, places: Floats) -> Floats:
        """Places as the kernel takes them: as they are, or as unit vectors on the sphere."""
        if self._among.space is Space.WGS84:
            vectors: Floats = unit_vectors(places[:, 0].copy(), places[:, 1].copy())
            return vectors
        return np.array(places, np.float64, order="C")
