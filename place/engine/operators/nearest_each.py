"""kNN over combinations: for each centre those with the k nearest elements (`kNN (3, calls)`).

Ranks say for whom it chooses, how near an element is, and which it is. Each pair of a query and a
centre is a number of its own for the operator that chooses the first of ranked rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from place.engine.accumulate import Slots
from place.engine.columns import Columns, Vector
from place.engine.flow import Flow
from place.engine.multiset import longer, pack, width_of
from place.engine.operators.contract import Span, Stateless
from place.engine.rank_combinations import GROUP
from place.kernels.arrays import Longs

NO_NULLS = np.zeros(1, np.bool_)


class Chooser(Protocol):
    """Chooses the first of ranked rows for each number."""

    @property
    def kept(self) -> int: ...

    def put_all(self, numbers: Longs, counts: Longs) -> None: ...

    def take(self, flow: Flow, span: Span) -> Flow: ...


class NearestEach(Stateless):
    """The nearest elements of each centre of each query.

    All that is kept comes and goes with rows, so that nothing is to be done when a query begins or
    ends.
    """

    name = "choose"

    def __init__(self, made: Callable[[], Chooser]) -> None:
        self._first = made()
        self._centers: Slots | None = None
        self._number = np.full(8, -1, np.int64)
        """The number of each slot of a centre."""
        self._query = np.zeros(8, np.int64)
        """The query of each number."""
        self._free: Longs = np.empty(0, np.int64)
        self._used = 0
        self._wanted = np.zeros(8, np.int64)

    @property
    def combinations(self) -> int:
        """How many combinations are kept to choose from."""
        return self._first.kept

    def put(self, query: int, count: int) -> None:
        """Keep how many a query wants."""
        self._wanted = longer(self._wanted, query + 1)
        self._wanted[query] = count

    def take(self, flow: Flow, span: Span) -> Flow:
        """The rows that after an instant are among the nearest, or no more."""
        if len(flow):
            assert flow.ranks is not None, "rows to choose from have ranks"
            flow = flow.take(np.flatnonzero(~flow.ranks.nulls[GROUP]))  # nowhere is not near
        if not len(flow):
            return Flow.of_marks(flow.marks)
        assert flow.ranks is not None
        numbers, slots = self._numbered(flow, flow.ranks)
        asked = replace(flow, queries=numbers, ranks=_without_group(flow.ranks))
        told = self._first.take(asked, span)
        told = replace(told, queries=self._query[told.queries])
        self._forget(slots, flow.weights)
        return told

    def _numbered(self, flow: Flow, ranks: Columns) -> tuple[Longs, Longs]:
        """The number of each row's query and centre, which may be new, and the centre's slot."""
        if self._centers is None:
            self._centers = Slots(width_of(1 + GROUP))
        given = [Vector(ranks.values[i], ranks.nulls[i]) for i in range(GROUP)]
        rows = pack([Vector(flow.queries, NO_NULLS), *given], len(flow))
        known = self._centers.used
        slots = self._centers.find(rows, np.ones(len(flow), np.int64))
        count = self._centers.used - known
        if count:
            self._number = longer(self._number, self._centers.used, -1)
            reused, self._free = self._free[:count], self._free[count:]
            fresh = np.arange(self._used, self._used + count - len(reused))
            self._used += len(fresh)
            new = np.concatenate([reused, fresh])
            self._query = longer(self._query, self._used)
            places = np.arange(known, self._centers.used)
            self._number[places] = new
            queries = self._centers.rows[places, 0]
            self._query[new] = queries
            self._first.put_all(new, self._wanted[queries])
        return self._number[slots], slots

    def _forget(self, slots: Longs, weights: Longs) -> None:
        """Centres that have no rows any more give up their numbers, once they are many."""
        assert self._centers is not None
        touched, places = np.unique(slots, return_inverse=True)
        before = self._centers.counts[touched].copy()
        added = np.bincount(places.reshape(-1), weights, len(touched)).astype(np.int64)
        self._centers.settle(touched, before, before + added)
        used = self._number[: self._centers.used].copy()
        kept = self._centers.compact()
        if kept is not None:
            gone = np.ones(len(used), np.bool_)
            gone[kept] = False
            self._free = np.concatenate([self._free, used[gone]])
            self._number = longer(used[kept], 8, -1)


def _without_group(ranks: Columns) -> Columns:
    made = Columns((), ranks.dictionary, 0)
    made.columns = ranks.columns[GROUP:]
    made.values, made.nulls = ranks.values[GROUP:], ranks.nulls[GROUP:]
    return made
