"""kNN: queries that choose among the same candidates share one search (GPAC, section 4.2).

Candidates are the objects that pass WHERE, INSIDE and the joins, which the flow below tells as they
come and go. The kernels keep the nearest of them to every centre, and find them again only where
something changed: instant by instant where instants are large, and in one compiled walk over all
instants of the tick where they are small.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from place.engine.candidate_events import CandidateEvents
from place.engine.chosen import Among, Chosen, ranks_of, rows_of_chosen
from place.engine.flow import Flow
from place.engine.focals import Focals
from place.engine.nearest_rows import NearestRows
from place.engine.operators.contract import NEVER
from place.engine.tick import Tick
from place.engine.versions import Versions
from place.kernels.arrays import Floats, Longs, merged_values
from place.kernels.inside import unit_vectors
from place.kernels.nearest import NearestMatcher
from place.kernels.nearest_walk import walk_nearest
from place.model import deadline
from place.model.space import Space
from place.plan.query import Nearest as NearestClause

CALL, LOOK = 10_000, 200_000
"""What an instant costs when it is matched by itself: as much as putting so many points into a grid
(CALL), or as looking at so many pairs of a query and a point that moved (LOOK)."""


class Nearest:
    """The nearest objects of all queries of one shape: they differ in centre and number."""

    name = "choose"

    def __init__(self, among: Among, focals: Focals) -> None:
        self._among = among
        self._store = among.store
        self._focals = focals
        self._matcher = NearestMatcher(sphere=among.space is Space.WGS84)
        self.rows = NearestRows()
        self._candidates = np.zeros(16, np.bool_)
        self._is_stale = True
        """Does the matcher have to be given all points again?"""
        self._watch = among.is_watched

    def put(self, query: int, clause: NearestClause, focal: int) -> None:
        """Keep what a new query asks for; `focal` is the number of its focal object, or −1."""
        places = self._focals.positions(np.array([focal]))
        self.rows.add(query, clause, focal, places[0])

    def begin(self, query: int, content: pa.Table | None) -> None:
        """Nothing to do: `put` has been called for the query."""

    def end(self, query: int) -> None:
        """A query loses its centre, so that everything in its answer leaves."""
        self.rows.end(query)

    def save(self) -> pa.Table | None:
        """Everything follows from the objects."""
        return None

    def next_expiry(self) -> int:
        """Nothing expires."""
        return NEVER

    # A tick

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """Who came into the answers of queries and who left, at each instant."""
        versions = tick.objects.get(self._store.relation.name)
        if versions is None:
            versions = Versions.none(self._store)
        if len(self._candidates) < self._store.size:
            more = np.zeros(2 * self._store.size - len(self._candidates), np.bool_)
            self._candidates = np.concatenate([self._candidates, more])
        moves = np.flatnonzero(np.isin(tick.focals.numbers, self.rows.focals))
        steps = [versions.instants, tick.focals.instants[moves], flow.instants]
        if self.rows.is_shifted:
            steps.append(np.array([tick.until]))
        instants = merged_values(steps)
        if not len(instants):
            return Flow.of_marks(flow.marks)
        events = CandidateEvents(versions, flow, tick, moves, instants)
        if self._walks(events):
            found = self._walk(events)
        else:
            found = Chosen.joined([self._match(events, step) for step in range(len(instants))])
        told = rows_of_chosen(found, self._among, versions, instants, self.rows.numbers, flow.marks)
        self.rows.forget_ended()
        return told

    def _walks(self, events: CandidateEvents) -> bool:
        """Is one walk over all instants cheaper than one match after the other?"""
        steps = len(events.instants)
        pairs = len(events.slots) * len(self.rows)
        known = self._matcher.starts[-1] == self.rows.ks.sum() and not self.rows.is_shifted
        cheap = self._store.size <= CALL * steps and pairs <= LOOK * steps
        return steps > 2 and known and cheap

    def _match(self, events: CandidateEvents, step: int) -> Chosen:
        """One instant by the matcher."""
        deadline.check()
        rows, store = self.rows, self._store
        slots = events.at(step)
        moved = np.zeros(store.size, np.bool_)
        if self._is_stale:
            self._points = np.full((store.size, 2), np.nan)
        self._points = _with_room(self._points, store.size)
        toggles, are_candidates = events.toggles_at(step)
        self._candidates[toggles] = are_candidates
        touched = np.union1d(slots, toggles)
        if self._is_stale:
            touched = np.arange(store.size)
            rows.shift_all()
        moved[touched] = True
        self._points[touched] = self._places(events, touched, step)
        rows.follow(*events.centres_at(step))
        before = self._members() if self._among.merges else None
        seats = self._focals.seats(store.relation.name)
        nearby = self._matcher.match(
            self._points[: store.size],
            ranks_of(store),
            moved,
            rows.centers.copy(),
            rows.excluded(seats),
            rows.ks,
            rows.shifted,
            threads=self._among.threads,
        )
        self._is_stale = False
        rows.settle()
        if before is not None:
            return Chosen.between(step, before, self._members(), moved)
        queries, found = nearby.queries.astype(np.int64), nearby.slots.astype(np.int64)
        signs = nearby.signs.astype(np.int64)
        if self._watch and len(slots):
            stays = self._staying(slots, queries, found, signs)
            queries = np.concatenate([queries, stays[0], stays[0]])
            found = np.concatenate([found, stays[1], stays[1]])
            ones = np.ones(len(stays[0]), np.int64)
            signs = np.concatenate([signs, -ones, ones])
        order = np.argsort(signs, kind="stable")
        nothing = np.zeros(len(order))
        return Chosen(
            np.full(len(order), step), queries[order], found[order], signs[order], nothing
        )

    def _places(self, events: CandidateEvents, slots: Longs, step: int) -> Floats:
        """Where candidates are at an instant; NaN for all others."""
        instants = np.full(len(slots), events.instants[step])
        ids = events.versions.around(slots, instants)[1]
        relation = self._store.relation
        assert relation.x is not None
        assert relation.y is not None
        places = events.versions.places(ids, (relation.x, relation.y))
        if not self._among.is_open:
            places[~self._candidates[slots]] = np.nan
        return places

    def _members(self) -> tuple[Longs, Longs, Floats]:
        """All pairs of a query's row and a slot in its answer, with their measures."""
        matcher = self._matcher
        queries = np.repeat(np.arange(len(matcher.starts) - 1), np.diff(matcher.starts))
        present = matcher.members >= 0
        slots = matcher.members[present].astype(np.int64)
        return queries[present], slots, matcher.measures[present].copy()

    def _staying(
        self, named: Longs, queries: Longs, slots: Longs, signs: Longs
    ) -> tuple[Longs, Longs]:
        """Members that stay and have said something at the instant."""
        size = self._store.size
        spoke = np.zeros(size, np.bool_)
        spoke[named] = True
        rows, members, _ = self._members()
        concerned = spoke[members]
        rows, members = rows[concerned], members[concerned]
        came = signs > 0
        staying = ~np.isin(rows * size + members, queries[came] * size + slots[came])
        return rows[staying], members[staying]

    def _walk(self, events: CandidateEvents) -> Chosen:
        """All instants in one compiled walk."""
        rows, store, matcher = self.rows, self._store, self._matcher
        relation = store.relation
        assert relation.x is not None
        assert relation.y is not None
        columns = (relation.x, relation.y)
        every = np.arange(store.size)
        places = events.versions.places(~every, columns)
        if not self._among.is_open:
            places[~self._candidates[: store.size]] = np.nan
        centers = rows.centers.copy()
        starts, slots, to = events.walk_points(
            columns, None if self._among.is_open else self._candidates
        )
        center_starts, center_rows, center_to = events.walk_centres(rows.led_by)
        if self._among.space is Space.WGS84:
            places, centers, to, center_to = (
                unit_vectors(some[:, 0].copy(), some[:, 1].copy())
                for some in (places, centers, to, center_to)
            )
        walked = walk_nearest(
            np.ascontiguousarray(places),
            np.ascontiguousarray(ranks_of(store), np.int64),
            np.ascontiguousarray(centers),
            rows.excluded(self._focals.seats(relation.name)),
            rows.ks,
            matcher.starts,
            matcher.members,
            matcher.measures,
            starts,
            slots,
            np.ascontiguousarray(to),
            center_starts,
            center_rows,
            np.ascontiguousarray(center_to),
            watch=self._watch,
            measured=self._among.merges,
        )
        rows.follow(*events.all_centres())
        rows.settle()
        self._is_stale = True
        return Chosen(
            walked.steps.astype(np.int64),
            walked.queries.astype(np.int64),
            walked.slots.astype(np.int64),
            walked.signs.astype(np.int64),
            walked.measures,
        )


def _with_room(points: Floats, size: int) -> Floats:
    if size <= len(points):
        return points
    return np.concatenate([points, np.full((2 * size - len(points), 2), np.nan)])
