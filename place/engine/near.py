"""kNN: queries that choose among the same candidates share one search (GPAC, section 4.2).

The candidates are the objects that pass WHERE, INSIDE and the joins, which the cell tells as they
come and go; the kernel keeps the nearest of them to every centre, and finds them again only where
something changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.focals import Focals
from place.engine.join import Joiner
from place.engine.objects import Changed, Objects
from place.engine.plans import RangePlan
from place.engine.rows import View
from place.engine.vector import same_rows
from place.kernels.nearest import NearestMatcher
from place.model.schema import Column, Stream
from place.model.space import Space
from place.model.types import Type
from place.plan.query import Nearest

if TYPE_CHECKING:
    from place.engine.cell import Cell

Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Found = tuple[Numbers, Numbers, Numbers]
"""The rows of queries, the slots of objects, and the weights."""


class NearGroup:
    """kNN queries of one shape: they differ in their centres and in how many they ask for.

    `merges` tells that several cells choose among their own objects: then what is told is each
    cell's choice with its distances, because the order among all of them counts.
    """

    def __init__(
        self, base: int, plan: RangePlan, store: Objects, joiner: Joiner | None, merges: bool
    ) -> None:
        self.base = base
        """The number of the plan that tells the candidates."""
        self.plan = plan
        self.joiner = joiner
        self.merges = merges
        self._store = store
        sphere = plan.query.space is Space.WGS84
        self._matcher = NearestMatcher(sphere=sphere)
        self._candidates = np.zeros(16, np.bool_)
        self._points = np.full((16, 2), np.nan)
        self._toggled: list[Numbers] = []
        self.numbers = np.full(16, -1, np.int64)
        """The number of the plan of each row; −1 where none is."""
        self._ks = np.ones(16, np.int64)
        self._focals = np.full(16, -1, np.int64)
        self._fixed = np.full((16, 2), np.nan)
        self._shifted = np.zeros(16, np.bool_)
        self._size = 0
        self._ended: list[int] = []
        self._free: list[int] = []
        self._is_new = True

    def __len__(self) -> int:
        return int((self.numbers[: self._size] >= 0).sum())

    @property
    def is_open(self) -> bool:
        """Is every object a candidate?"""
        query = self.plan.query
        return query.where is None and query.inside is None and self.joiner is None

    def held(self) -> list[int]:
        """The rows of its queries."""
        rows: list[int] = np.flatnonzero(self.numbers[: self._size] >= 0).tolist()
        return rows

    def is_touched(self, focals: Focals) -> bool:
        """Has anything but the objects changed at this instant?"""
        shifted = bool(self._shifted[: self._size].any() or self._toggled)
        return shifted or bool(focals.moved(self.focals).any())

    # Queries and candidates

    def add(self, number: int, nearest: Nearest, focal: int) -> None:
        """One query more; `focal` is the number of its focal object, or −1."""
        row = self._free.pop() if self._free else self._size
        self._size = max(self._size, row + 1)
        if self._size > len(self.numbers):
            more = len(self.numbers)
            self.numbers = np.concatenate([self.numbers, np.full(more, -1)])
            self._ks = np.concatenate([self._ks, np.ones(more, np.int64)])
            self._focals = np.concatenate([self._focals, np.full(more, -1)])
            self._fixed = np.concatenate([self._fixed, np.full((more, 2), np.nan)])
            self._shifted = np.concatenate([self._shifted, np.zeros(more, np.bool_)])
        self.numbers[row], self._ks[row], self._focals[row] = number, nearest.k, focal
        self._fixed[row] = (np.nan, np.nan) if nearest.point is None else nearest.point
        self._shifted[row] = True

    def end(self, number: int) -> None:
        """A query that has no centre any more; what it held leaves."""
        (row,) = np.flatnonzero(self.numbers[: self._size] == number).tolist()
        self._focals[row], self._fixed[row], self._shifted[row] = -1, np.nan, True
        self._ended.append(row)

    def renumber(self, numbers: Numbers) -> None:
        """Focal objects have other numbers now."""
        self._focals = numbers[self._focals]

    @property
    def focals(self) -> Numbers:
        return self._focals[: self._size]

    def choose(self, slots: Numbers, are_candidates: Bools) -> None:
        """Objects that become candidates, or are none any more."""
        self._reserve(self._store.size)
        self._candidates[slots] = are_candidates
        self._toggled.append(slots)

    # An instant

    def find(self, cell: Cell, changed: Changed | None, view: View) -> tuple[Found, Columns | None]:
        """Who came and who left, with each query's row. Where several cells choose, all that this
        one has chosen, with ranks."""
        store = self._store
        self._reserve(store.size)
        moved = np.zeros(store.size, np.bool_)
        if self._is_new:
            moved[:] = True
            self._is_new = False
        if changed is not None:
            moved[changed.slots] = True
        for slots in self._toggled:
            moved[slots] = True
        self._toggled = []
        at = np.flatnonzero(moved)
        candidates = store.alive[at] if self.is_open else self._candidates[at] & store.alive[at]
        self._points[at] = np.where(candidates[:, None], cell.where(store, at), np.nan)
        size = self._size
        focals = self._focals[:size]
        self._shifted[:size] |= cell.focals.moved(focals)
        centers = np.where(
            (focals >= 0)[:, None], cell.focals.positions(focals), self._fixed[:size]
        )
        seats = cell.focals.seats(store.relation.name)
        excluded = np.where(focals >= 0, seats[focals], -1)
        nearby = self._matcher.match(
            self._points[: store.size],
            ranks_of(store),
            moved,
            centers,
            excluded,
            self._ks[:size],
            self._shifted[:size],
            threads=cell.threads,
        )
        self._shifted[:size] = False
        queries, slots = nearby.queries.astype(np.int64), nearby.slots.astype(np.int64)
        weights = nearby.signs.astype(np.int64)
        if self.merges:
            return self._choice()
        if changed is not None and self.plan.watches:
            stays = self._stays(changed, view, queries, slots, weights)
            queries = np.concatenate([queries, stays[0], stays[0]])
            slots = np.concatenate([slots, stays[1], stays[1]])
            ones = np.ones(len(stays[0]), np.int64)
            weights = np.concatenate([weights, -ones, ones])
        return (queries, slots, weights), None

    def _choice(self) -> tuple[Found, Columns]:
        """Who is in each answer now, with ranks."""
        queries, slots, measures = self._members()
        return (queries, slots, np.ones(len(slots), np.int64)), self._ranks(slots, measures)

    def finish(self) -> None:
        """The instant is over: the rows of queries that ended are free."""
        for row in self._ended:
            self.numbers[row] = -1
        self._free += self._ended
        self._ended = []

    def _members(self) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
        """All pairs of a query's row and a slot in its answer, with their measures."""
        matcher = self._matcher
        counts = np.diff(matcher.starts)
        queries = np.repeat(np.arange(len(counts)), counts)
        present = matcher.members >= 0
        slots = matcher.members[present].astype(np.int64)
        return queries[present], slots, matcher.measures[present]

    def _stays(
        self, changed: Changed, view: View, queries: Numbers, slots: Numbers, weights: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Members that stay while what their rows say changes."""
        assert self.plan.upper is not None
        needed = self.plan.upper.needed[self.plan.query.subject]
        both = changed.slots[changed.was & changed.now]
        now, old = (view.take(both, is_now, needed) for is_now in (True, False))
        other = np.zeros(self._store.size, np.bool_)
        other[both[~same_rows(now, old)]] = True
        if not other.any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        rows, members, _ = self._members()
        concerned = other[members]
        rows, members = rows[concerned], members[concerned]
        size = self._store.size
        came = weights > 0
        staying = ~np.isin(rows * size + members, queries[came] * size + slots[came])
        return rows[staying], members[staying]

    def _ranks(self, slots: Numbers, measures: NDArray[np.float64]) -> Columns:
        """Distance, key and number, by which the nearest are chosen among several cells."""
        store, relation = self._store, self._store.relation
        key = relation.columns[relation.key]
        names = (Column("measure", Type.DOUBLE), key, Column("number", Type.BIGINT))
        made = Columns(names, store.columns.dictionary, 0)
        keys = store.columns.pick((relation.key,), slots)
        made.values = [measures, keys.values[0], store.keys[slots]]
        none = np.zeros(len(slots), np.bool_)
        made.nulls = [none, keys.nulls[0], none]
        return made

    def _reserve(self, size: int) -> None:
        if size > len(self._candidates):
            more = max(size, 2 * len(self._candidates)) - len(self._candidates)
            self._candidates = np.concatenate([self._candidates, np.zeros(more, np.bool_)])
            self._points = np.concatenate([self._points, np.full((more, 2), np.nan)])


def ranks_of(store: Objects) -> Numbers:
    """What decides between objects at the same distance: the order of their keys."""
    size, relation = store.size, store.relation
    if store.is_coded:
        return store.columns.dictionary.ranks()[store.keys[:size]]
    if not isinstance(relation, Stream):
        # A table's key may be NULL, which comes first, or there twice: then its rows' order counts.
        column = store.columns.pick((relation.key,), slice(size))
        values = column.values[0]
        if column.columns[0].type is Type.STRING:
            values = store.columns.dictionary.ranks()[values]
        order = np.lexsort((store.keys[:size], values, ~column.nulls[0]))
        ranks = np.empty(size, np.int64)
        ranks[order] = np.arange(size)
        return ranks
    return store.keys[:size]
