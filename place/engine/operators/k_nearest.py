"""kNN: queries that choose among the same candidates share one search (GPAC, section 4.2).

Candidates are the objects that pass WHERE, INSIDE and the joins, which the flow below tells as they
come and go. The kernels keep the nearest of them to every centre, and find them again only where
something changed: instant by instant where instants are large, and in one compiled walk over all
instants of the tick where they are small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns
from place.engine.flow import Flow
from place.engine.focals import Focals
from place.engine.nearest_rows import NearestRows
from place.engine.objects import Objects
from place.engine.operators.contract import NEVER
from place.engine.tick import Tick
from place.engine.vector import same_rows
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Floats, Ints, Longs, merged_values
from place.kernels.inside import unit_vectors
from place.kernels.nearest import NearestMatcher
from place.kernels.nearest_walk import walk_nearest
from place.model import deadline
from place.model.schema import Column, Relation, Stream
from place.model.space import Space
from place.model.types import Type
from place.plan.query import Nearest as NearestClause

CALL, LOOK = 10_000, 200_000
"""What an instant costs when it is matched by itself: as much as putting so many points into a grid
(CALL), or as looking at so many pairs of a query and a point that moved (LOOK)."""


@dataclass(frozen=True)
class Among:
    """From which objects the queries of one shape choose, and what their rows show of those chosen.

    `is_open` says that every object is a candidate. `merges` says that several cells choose, each
    among its own objects: then rows also carry distances, because the nearest of all cells have to
    be found among them.
    """

    store: Objects
    source: int
    width: int
    needed: tuple[int, ...]
    space: Space
    is_open: bool
    merges: bool
    threads: int


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
        relation = among.store.relation
        self._watch = any(
            isinstance(relation, Stream) and index != relation.key for index in among.needed
        )

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
        events = _Events(versions, flow, tick, moves, instants)
        if self._walks(events):
            found = self._walk(events)
        else:
            found = _Found.joined([self._match(events, step) for step in range(len(instants))])
        told = self._told(found, versions, instants, flow)
        self.rows.forget_ended()
        return told

    def _walks(self, events: _Events) -> bool:
        """Is one walk over all instants cheaper than one match after the other?"""
        steps = len(events.instants)
        pairs = len(events.slots) * len(self.rows)
        known = self._matcher.starts[-1] == self.rows.ks.sum() and not self.rows.is_shifted
        cheap = self._store.size <= CALL * steps and pairs <= LOOK * steps
        return steps > 2 and known and cheap

    def _match(self, events: _Events, step: int) -> _Found:
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
            return _Found.between(step, before, self._members(), moved)
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
        return _Found(
            np.full(len(order), step), queries[order], found[order], signs[order], nothing
        )

    def _places(self, events: _Events, slots: Longs, step: int) -> Floats:
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

    def _walk(self, events: _Events) -> _Found:
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
        center_starts, center_rows, center_to = events.walk_centres(rows)
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
        return _Found(
            walked.steps.astype(np.int64),
            walked.queries.astype(np.int64),
            walked.slots.astype(np.int64),
            walked.signs.astype(np.int64),
            walked.measures,
        )

    # From chosen objects to rows

    def _told(self, found: _Found, versions: Versions, instants: Longs, flow: Flow) -> Flow:
        at = instants[found.steps]
        before, after = versions.around(found.slots, at)
        ids = np.where(found.signs > 0, after, before)
        picked = versions.pick(ids, self._among.needed)
        sources: list[Columns | None] = [None] * self._among.width
        sources[self._among.source] = picked
        ranks = None
        if self._among.merges:
            ranks = self._ranks(versions, ids, found.slots, found.measures)
        queries = self.rows.numbers[found.queries]
        made = Flow(queries, at, found.signs, tuple(sources), ranks, flow.marks)
        return made if self._among.merges else _without_same(made, found.slots)

    def _ranks(self, versions: Versions, ids: Longs, slots: Longs, measures: Floats) -> Columns:
        """Distance, key and number, by which the nearest are chosen among several cells."""
        relation = self._store.relation
        assert relation.key is not None
        made = versions.pick(ids, (relation.key, relation.key, relation.key))
        made.columns = nearest_ranks(relation)
        none = np.zeros(len(slots), np.bool_)
        made.values = [measures, made.values[1], self._store.keys[slots]]
        made.nulls = [none, made.nulls[1], none]
        return made


@dataclass(frozen=True)
class _Found:
    """Who came (+1) into the answers of which rows of queries and who left (−1), step by step."""

    steps: Longs
    queries: Longs
    slots: Longs
    signs: Longs
    measures: Floats

    @staticmethod
    def joined(parts: list[_Found]) -> _Found:
        return _Found(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("steps", "queries", "slots", "signs", "measures")
            )
        )

    @staticmethod
    def between(
        step: int,
        before: tuple[Longs, Longs, Floats],
        after: tuple[Longs, Longs, Floats],
        moved: Bools,
    ) -> _Found:
        """What differs between two answers: members, their measures, or what they say."""
        size = len(moved)
        keys = [queries * size + slots for queries, slots, _ in (before, after)]
        sides = []
        for mine, other, own, others in ((0, 1, before, after), (1, 0, after, before)):
            order = np.argsort(keys[other])
            at = np.searchsorted(keys[other][order], keys[mine])
            hit = np.minimum(at, max(len(order) - 1, 0))
            same = np.zeros(len(keys[mine]), np.bool_)
            if len(order):
                place = order[hit]
                same = (keys[other][place] == keys[mine]) & (others[2][place] == own[2])
                same &= ~moved[own[1]]
            sides.append(np.flatnonzero(~same))
        left, come = sides
        count = len(left) + len(come)
        signs = np.ones(count, np.int64)
        signs[: len(left)] = -1
        return _Found(
            np.full(count, step),
            np.concatenate([before[0][left], after[0][come]]),
            np.concatenate([before[1][left], after[1][come]]),
            signs,
            np.concatenate([before[2][left], after[2][come]]),
        )


class _Events:
    """What happens to points and centres at each instant of a tick."""

    def __init__(
        self, versions: Versions, flow: Flow, tick: Tick, moves: Longs, instants: Longs
    ) -> None:
        self.versions = versions
        self.instants = instants
        self.slots = versions.slots
        self._starts = np.searchsorted(versions.instants, np.append(instants, NEVER))
        self._toggled = np.empty(0, np.int64) if flow.slots is None else flow.slots
        self._are = flow.weights > 0
        self._toggles = np.searchsorted(flow.instants, np.append(instants, NEVER))
        self._focals = tick.focals.numbers[moves]
        self._centres = tick.focals.places[moves]
        self._moves = np.searchsorted(tick.focals.instants[moves], np.append(instants, NEVER))

    def at(self, step: int) -> Longs:
        """The slots that say something at an instant."""
        return self.slots[self._starts[step] : self._starts[step + 1]]

    def toggles_at(self, step: int) -> tuple[Longs, Bools]:
        """The slots that become candidates, or are none any more; the last word counts."""
        part = slice(self._toggles[step], self._toggles[step + 1])
        return self._toggled[part], self._are[part]

    def centres_at(self, step: int) -> tuple[Longs, Floats]:
        """The focal objects that move at an instant, and where to."""
        part = slice(self._moves[step], self._moves[step + 1])
        return self._focals[part], self._centres[part]

    def all_centres(self) -> tuple[Longs, Floats]:
        """All moves of focal objects, in order."""
        return self._focals, self._centres

    def walk_points(
        self, columns: tuple[int, int], candidates: Bools | None
    ) -> tuple[Longs, Ints, Floats]:
        """Where points go at each step; NaN for those that are no candidates (any more).

        `candidates` become what they are after the last step.
        """
        versions = self.versions
        if candidates is None:
            to = versions.places(np.arange(len(versions)), columns)
            return self._starts.astype(np.int64), self.slots.astype(np.int32), to
        steps = len(self.instants)
        own = np.repeat(np.arange(steps), np.diff(self._starts))
        other = np.repeat(np.arange(steps), np.diff(self._toggles))
        size = versions.store.size
        keys = np.unique(np.concatenate([own * size + self.slots, other * size + self._toggled]))
        at, slots = keys // size, keys % size
        instants = self.instants[at]
        to = versions.places(versions.around(slots, instants)[1], columns)
        # Whether a slot is a candidate at a step is what was said of it last, by then.
        told = np.lexsort((np.arange(len(other)), other, self._toggled))
        known = self._toggled[told] * (steps + 1) + other[told]
        wanted = slots * (steps + 1) + at
        found = np.searchsorted(known, wanted, "right") - 1
        are = candidates[slots].copy()
        hit = np.flatnonzero(found >= 0)
        hit = hit[self._toggled[told[found[hit]]] == slots[hit]]
        are[hit] = self._are[told[found[hit]]]
        to[~are] = np.nan
        candidates[self._toggled] = self._are
        starts = np.searchsorted(at, np.arange(steps + 1))
        return starts.astype(np.int64), slots.astype(np.int32), to

    def walk_centres(self, rows: NearestRows) -> tuple[Longs, Ints, Floats]:
        """Where the centres of queries go at each step."""
        queries, which = rows.led_by(self._focals)
        steps = np.repeat(np.arange(len(self.instants)), np.diff(self._moves))[which]
        order = np.argsort(steps, kind="stable")
        starts = np.searchsorted(steps[order], np.arange(len(self.instants) + 1))
        return starts.astype(np.int64), queries[order].astype(np.int32), self._centres[which[order]]


def _without_same(flow: Flow, slots: Longs) -> Flow:
    """Leave out members that stay with the row that they had: −1 and +1 that say the same."""
    size = len(flow)
    if size < 2:
        return flow
    order = np.lexsort((flow.weights, slots, flow.queries, flow.instants))
    one, two = order[:-1], order[1:]
    pairs = np.flatnonzero(
        (flow.instants[one] == flow.instants[two])
        & (flow.queries[one] == flow.queries[two])
        & (slots[one] == slots[two])
    )
    if not len(pairs):
        return flow
    rows = next(some for some in flow.sources if some is not None)
    same = pairs[same_rows(rows.take(one[pairs]), rows.take(two[pairs]))]
    keep = np.ones(size, np.bool_)
    keep[one[same]] = keep[two[same]] = False
    return flow.take(np.flatnonzero(keep))


def _with_room(points: Floats, size: int) -> Floats:
    if size <= len(points):
        return points
    return np.concatenate([points, np.full((2 * size - len(points), 2), np.nan)])


def nearest_ranks(relation: Relation) -> tuple[Column, ...]:
    """The columns by which the nearest of several cells are compared."""
    assert relation.key is not None
    key = relation.columns[relation.key]
    return Column("measure", Type.DOUBLE), key, Column("number", Type.BIGINT)


def ranks_of(store: Objects) -> Longs:
    """What decides between objects at the same distance: the order of their keys."""
    size, relation = store.size, store.relation
    if store.is_coded:
        return store.columns.dictionary.ranks()[store.keys[:size]]
    if isinstance(relation, Stream):
        return store.keys[:size]
    # A table's key may be NULL, which comes first, or there twice: then its rows' order counts.
    column = store.columns.pick((relation.key,), slice(size))
    values = column.values[0]
    if column.columns[0].type is Type.STRING:
        values = store.columns.dictionary.ranks()[values]
    order = np.lexsort((store.keys[:size], values, ~column.nulls[0]))
    ranks = np.empty(size, np.int64)
    ranks[order] = np.arange(size)
    return ranks
