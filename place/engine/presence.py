"""Which queries have their focal objects: it matters to an answer that is there without any row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.flow import NO_MARKS, Marks
from place.engine.focals import FocalMoves
from place.kernels.arrays import Floats, Longs


class Presence:
    """Queries with aggregates and without GROUP BY, and the focal objects that they need.

    Such a query has a row as long as it is registered and all its focal objects are there.
    """

    def __init__(self) -> None:
        self._focals: dict[int, tuple[int, ...]] = {}
        self._missing: dict[int, int] = {}

    def begin(self, query: int, focals: Sequence[int], places: Floats, instant: int) -> Marks:
        """A query begins; `places` are where all focal objects are."""
        needed = list(dict.fromkeys(focals))  # INSIDE and kNN may follow the same object
        self._focals[query] = tuple(needed)
        self._missing[query] = int(np.isnan(places[needed, 0]).sum()) if needed else 0
        return _mark(query, instant, 1) if not self._missing[query] else NO_MARKS

    def end(self, query: int, instant: int) -> Marks:
        """A query ends."""
        if query not in self._focals:
            return NO_MARKS
        del self._focals[query]
        return _mark(query, instant, -1) if not self._missing.pop(query) else NO_MARKS

    def renumber(self, numbers: Longs) -> None:
        """Focal objects have other numbers now."""
        for query, focals in self._focals.items():
            self._focals[query] = tuple(int(numbers[focal]) for focal in focals)

    @property
    def focals(self) -> list[int]:
        """All focal objects that some query needs."""
        return [focal for focals in self._focals.values() for focal in focals]

    def take(self, moves: FocalMoves, places: Floats) -> Marks:
        """What a tick changes; `places` are where the focal objects were before it."""
        needed = self.focals
        if not needed or not len(moves):
            return NO_MARKS
        mine = np.flatnonzero(np.isin(moves.numbers, needed))
        if not len(mine):
            return NO_MARKS
        order = mine[np.argsort(moves.numbers[mine], kind="stable")]
        numbers = moves.numbers[order]
        there = ~np.isnan(moves.places[order, 0])
        before = np.empty(len(order), np.bool_)
        before[1:] = there[:-1]
        first = np.ones(len(order), np.bool_)
        first[1:] = numbers[1:] != numbers[:-1]
        before[first] = ~np.isnan(places[numbers[first], 0])
        flips = np.flatnonzero(there != before)
        if not len(flips):
            return NO_MARKS
        return self._marks(numbers[flips], moves.instants[order[flips]], there[flips])

    def _marks(self, numbers: Longs, instants: Longs, there: Longs) -> Marks:
        """Focal objects come and go, which is rare: queries are looked at one by one."""
        found: list[Marks] = []
        for query, focals in self._focals.items():
            mine = np.flatnonzero(np.isin(numbers, focals))
            if not len(mine):
                continue
            mine = mine[np.argsort(instants[mine], kind="stable")]
            missing = self._missing[query] - np.cumsum(np.where(there[mine], 1, -1))
            last = np.append(instants[mine][1:] != instants[mine][:-1], True)
            at, after = instants[mine][last], missing[last]
            before = np.append(self._missing[query], after[:-1])
            signs = (after == 0).astype(np.int64) - (before == 0)
            changed = np.flatnonzero(signs)
            self._missing[query] = int(after[-1])
            found.append(Marks(np.full(len(changed), query), at[changed], signs[changed]))
        return Marks.joined(found)


def _mark(query: int, instant: int, sign: int) -> Marks:
    return Marks(*(np.array([value], np.int64) for value in (query, instant, sign)))
