"""RNN: the objects of whose k nearest a point, or a focal object, is one.

Each object has a circle that reaches to the k-th nearest of the others; the search of kNN keeps
them, with the objects themselves as centres. A place is among the k nearest of all objects in whose
circles it lies. So all queries that ask the same of objects share one search, whatever their places
and however many neighbours they ask for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.elements import NONE
from place.engine.flow import NOTHING, Flow
from place.engine.focals import Focals
from place.engine.multiset import longer
from place.engine.nearest_rows import NearestRows
from place.engine.operator_specs import ReverseSpec
from place.engine.operators.contract import NEVER
from place.engine.placed_elements import Placed
from place.engine.stored_versions import StoredVersions
from place.engine.tick import Tick
from place.engine.vector import same_rows
from place.kernels.arrays import Bools, Floats, Longs, merged_values
from place.kernels.inside import unit_vectors
from place.kernels.nearest import NearestMatcher
from place.kernels.reverse_changes import draw_circles, reverse_changes
from place.model import deadline
from place.model.space import Space
from place.plan.query import Nearest as NearestClause

Pairs = tuple[Longs, Longs, Longs, Longs]
"""Instants, rows of queries, numbers of objects, and whether the object came (+1), left (−1) or
stays and says something (0)."""


class ReverseNearest:
    """Whose neighbours the places of all queries are that ask the same of objects.

    `mine` are the numbers of this cell's elements where these are rows of a table; None for the
    objects of a stream, of which every number that `stride` divides is this cell's. `led` are the
    objects of which some lead queries, if rows show something of those, and `texts` what keys are
    codes of, if they are.
    """

    name = "choose"

    def __init__(
        self,
        spec: ReverseSpec,
        placed: Placed,
        mine: Longs | None,
        led: StoredVersions | None,
        focals: Focals,
        texts: Dictionary | None,
        threads: int,
    ) -> None:
        self._spec = spec
        self._placed = placed
        self._mine = mine
        self._led = led
        self._focals = focals
        self._texts = texts
        self._threads = threads
        self._is_sphere = spec.space is Space.WGS84
        self._matcher = NearestMatcher(sphere=self._is_sphere)
        self.rows = NearestRows()
        self._focal_keys = np.full(16, -1, np.int64)
        """Of each query, the key of its focal object as its store has it."""
        self._has_rank = np.zeros(16, np.bool_)
        """Of each query, is its focal object one of those that are chosen among?"""
        self._is_loaded = False
        self._most = 0
        self._depths = np.zeros(1, np.int64)
        axes = 3 if self._is_sphere else 2
        self._vectors = np.empty((0, 3))
        self._known, self._olds = np.empty((0, axes)), np.empty((0, axes))
        """Where the places of queries, and this cell's elements, were before."""
        self._circles, self._keepers = np.empty((0, 1)), np.empty((0, 1), np.int64)

    # Queries come and go

    def put(
        self, query: int, clause: NearestClause, focal: int, key: int | None, *, has_rank: bool
    ) -> None:
        """Keep what a new query asks for: `focal` is the number of its focal object, or −1, and
        `key` the key of that, which counts among those of the objects if it `has_rank`."""
        self.rows.add(query, clause, focal, self._focals.positions(np.array([focal]))[0])
        self._focal_keys = longer(self._focal_keys, query + 1, -1)
        self._has_rank = longer(self._has_rank, query + 1)
        self._focal_keys[query] = -1 if key is None else key
        self._has_rank[query] = has_rank

    def begin(self, query: int, content: pa.Table | None) -> None:
        """Nothing to do: `put` has been called for the query."""

    def end(self, query: int) -> None:
        """A query loses its place, so that everything in its answer leaves."""
        self.rows.end(query)

    def save(self) -> pa.Table | None:
        """Everything follows from the objects."""
        return None

    def next_expiry(self) -> int:
        """Timeouts come as messages."""
        return NEVER

    def explained(self) -> tuple[str, ...]:
        """How many elements there are, and how far their circles reach."""
        name = self._spec.sources[self._spec.subject].relation.name
        return (
            f"{len(self._placed)} elements of {name} compete,"
            f" of each of which the {self._most} nearest others are kept",
        )

    # A tick

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """Who comes into the answers of queries and who leaves, at each instant."""
        rows, placed = self.rows, self._placed
        if not self._is_loaded:
            placed.load()
        moves = np.flatnonzero(np.isin(tick.focals.numbers, rows.focals))
        steps = [placed.open(tick), tick.focals.instants[moves]]
        if self._led is not None:
            self._led.open(tick)
        if rows.is_shifted:
            steps.append(np.array([tick.until]))
        instants = merged_values(steps)
        if not len(instants):
            return Flow.of_marks(flow.marks)
        placed.divide(instants)
        self._prepare()
        cuts = np.searchsorted(tick.focals.instants[moves], np.append(instants, NEVER))
        parts = []
        for step, instant in enumerate(instants.tolist()):
            deadline.check()
            some = moves[cuts[step] : cuts[step + 1]]
            rows.follow(tick.focals.numbers[some], tick.focals.places[some])
            parts.append(self._step(step, instant))
        told = self._told(parts)
        rows.forget_ended()
        return Flow.joined([Flow.of_marks(flow.marks), told])

    def _prepare(self) -> None:
        """Look at all elements anew if there are other depths than before: how many neighbours
        queries ask for. Where there are no more elements than that, nobody has to be looked for."""
        size = len(self._placed.places)
        depths = np.unique(np.append(self._wanted(size - 1), 0))
        if self._is_loaded and np.array_equal(depths, self._depths):
            return
        self._depths, self._most = depths, int(depths[-1])
        own = self._own()
        every = np.ones(size, np.bool_)
        if self._is_sphere:
            self._place_vectors(np.arange(size))
        self._match(own, every)
        self._is_loaded = True
        self._olds = self._points()[own].copy()
        self._circles = np.full((len(own), len(depths)), np.inf)
        self._keepers = np.full((len(own), len(depths)), -1, np.int64)
        matcher = self._matcher
        draw_circles(
            matcher.starts, matcher.members, matcher.measures, depths, self._circles, self._keepers
        )

    def _wanted(self, most: int) -> Longs:
        """How many neighbours the query of each row asks for; 0 if that is more than `most`."""
        ks, numbers = self.rows.ks, self.rows.numbers
        return np.where((ks <= most) & (numbers[: len(ks)] >= 0), ks, 0)

    def _own(self) -> Longs:
        """The numbers of this cell's elements."""
        if self._mine is not None:
            return self._mine
        return np.arange(0, len(self._placed.places), self._placed.stride)

    def _match(self, own: Longs, moved: Bools) -> None:
        """Find the nearest others of each element anew, where something moved."""
        if self._most == 0:
            return
        points = self._placed.places
        self._matcher.match(
            points,
            self._ranks(),
            moved,
            points[own],
            own,
            np.full(len(own), self._most),
            moved[own],
            threads=self._threads,
        )

    def _step(self, step: int, instant: int) -> Pairs:
        """What happens at one instant."""
        rows, matcher = self.rows, self._matcher
        spoke, own = self._placed.step(step), self._own()
        if self._is_sphere:
            self._place_vectors(np.flatnonzero(spoke))
        if spoke.any() or len(matcher.starts) != len(own) + 1:
            self._match(own, spoke)
        places = self._centers()
        if len(self._known) < len(places):
            more = 2 * len(places) - len(self._known)
            self._known = np.concatenate([self._known, np.full((more, places.shape[1]), np.nan)])
        more = len(own) - len(self._olds)
        if more > 0:
            self._olds = np.concatenate([self._olds, np.full((more, self._olds.shape[1]), np.nan)])
            widths = (more, len(self._depths))
            self._circles = np.concatenate([self._circles, np.full(widths, np.inf)])
            self._keepers = np.concatenate([self._keepers, np.full(widths, -1, np.int64)])
        queries = np.maximum(rows.numbers[: len(rows.ks)], 0)
        focal_ranks, has_ranks = self._focal_ranks(queries)
        found, numbers, signs = reverse_changes(
            own,
            self._points(),
            self._ranks(),
            spoke,
            matcher.starts,
            matcher.members,
            matcher.measures,
            self._depths,
            self._olds,
            self._circles,
            self._keepers,
            np.searchsorted(self._depths, self._wanted(self._most)),
            focal_ranks,
            has_ranks,
            self._known[: len(places)],
            places,
            rows.shifted,
            self._placed.is_watched,
            self._led is not None,
        )
        self._known[: len(places)] = places
        rows.settle()
        return np.full(len(signs), instant), found, numbers, signs

    def _points(self) -> Floats:
        """Where all elements are, as unit vectors on the sphere."""
        if self._is_sphere:
            return self._vectors[: len(self._placed.places)]
        return np.ascontiguousarray(self._placed.places)

    def _place_vectors(self, numbers: Longs) -> None:
        places = self._placed.places
        if len(self._vectors) < len(places):
            more = np.full((2 * len(places) - len(self._vectors), 3), np.nan)
            self._vectors = np.concatenate([self._vectors, more])
        some = places[numbers]
        self._vectors[numbers] = unit_vectors(some[:, 0].copy(), some[:, 1].copy())

    def _centers(self) -> Floats:
        """Where the places of queries are now."""
        centers = self.rows.centers
        if self._is_sphere:
            found: Floats = unit_vectors(centers[:, 0].copy(), centers[:, 1].copy())
            return found
        return centers.copy()

    def _ranks(self) -> Longs:
        """By number, the order of keys."""
        ranks, size = self._placed.ranks, len(self._placed.places)
        if len(ranks) < size:
            ranks = np.concatenate([ranks, np.zeros(size - len(ranks), np.int64)])
        return np.ascontiguousarray(ranks, np.int64)

    def _focal_ranks(self, queries: Longs) -> tuple[Longs, Bools]:
        """Where the focal object of each query stands in the order of keys, if it does."""
        keys, has_rank = self._focal_keys[queries], self._has_rank[queries]
        if self._texts is not None and has_rank.any():
            keys = np.where(has_rank, self._texts.ranks()[np.where(has_rank, keys, 0)], keys)
        return keys, has_rank

    # From pairs to rows

    def _told(self, parts: Sequence[Pairs]) -> Flow:
        """What those that left were goes, and what those that came are comes."""
        instants, places, numbers, signs = (
            np.concatenate([NONE, *(part[i] for part in parts)]) for i in range(4)
        )
        if not len(signs):
            return NOTHING
        sides = [(self._spec.subject, self._placed.pick, self._placed.around(numbers, instants))]
        if self._spec.led is not None and self._led is not None:
            led = self._led.around(self._led_numbers()[places], instants)
            sides.append((self._spec.led, self._pick_led, led))
        differs = np.zeros(len(signs), np.bool_)
        stays = np.flatnonzero(signs == 0)
        for _, pick, (before, after) in sides if len(stays) else ():
            differs[stays] |= ~same_rows(pick(before[stays]), pick(after[stays]))
        left = np.flatnonzero((signs < 0) | differs)
        come = np.flatnonzero((signs > 0) | differs)
        both = np.concatenate([left, come])
        rows: list[Columns | None] = [None] * self._spec.width
        for source, pick, (before, after) in sides:
            if self._spec.shown[source]:
                rows[source] = pick(np.concatenate([before[left], after[come]]))
        weights = np.repeat(np.array([-1, 1]), [len(left), len(come)])
        queries = self.rows.numbers[places[both]]
        return Flow(queries, instants[both], weights, tuple(rows)).in_order()

    def _led_numbers(self) -> Longs:
        """The number of the focal object of each query among the objects of its stream."""
        assert self._led is not None
        keys = self._focal_keys[np.maximum(self.rows.numbers[: len(self.rows.ks)], 0)]
        found = np.zeros(len(keys), np.int64)
        for part, store in enumerate(self._led.stores):
            slots = store.find_all(keys)
            found = np.where(slots >= 0, slots * self._led.stride + part, found)
        return found

    def _pick_led(self, ids: Longs) -> Columns:
        """What is shown of focal objects."""
        led = self._spec.led
        assert led is not None
        assert self._led is not None
        needed = self._spec.needed[led]
        return self._led.pick(ids, [needed[i] for i in self._spec.shown[led]])
