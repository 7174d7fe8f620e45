"""Which order of INSIDE and the other filters lets fewer rows pass (see the planner).

Now and then some of the objects that changed are asked, for some of the queries that have a choice,
both ways: how many enter, leave or change within the region, and how many pass the filters. When
the other order is clearly better, the regions of the query move over to it between two ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Dictionary
from place.engine.compile import compile_query
from place.engine.compiled import Compiled, JoinKey
from place.engine.layout import Polygons
from place.engine.matching import Passes
from place.engine.operators.region_join import RegionJoin
from place.engine.queries import Queries
from place.engine.tick import Tick
from place.engine.vector import same_rows
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Bytes, Floats
from place.kernels.inside import inside_shapes
from place.plan.logical import Knowledge

OFTEN, SELDOM = 16, 8
"""Ticks in which every query is looked at from its beginning on, and then one of so many."""
SAMPLE, MOST_QUERIES = 2048, 8
"""Objects that are asked in a tick, and queries for which they are."""
ENOUGH = 2000
"""Objects that have to be asked before the order changes."""
BETTER = 0.95
"""The other order has to let fewer rows pass by this factor."""
MEMORY = 0.9
"""How much of what was counted before still counts at each look."""

Turned = list[tuple[int, Compiled]]
Shapes = tuple[Bytes, Floats]
"""The kinds and the exact numbers of the rows of a region."""


@dataclass
class Counted:
    """What was seen of a query: objects asked, rows with INSIDE first, and with filters first."""

    looks: int = 0
    asked: float = 0.0
    inside: float = 0.0
    filters: float = 0.0

    def knowledge(self) -> Knowledge:
        """Rows that one reading sends on."""
        if self.asked < ENOUGH:
            return Knowledge()
        return Knowledge(self.inside / self.asked, self.filters / self.asked)


class FilterOrder:
    """Looks at the queries of a cell that have a choice."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._counted: dict[int, Counted] = {}
        self._ticks = 0
        self._turn = 0
        self._before: dict[int, Shapes] = {}
        """The queries whose turn it is, with their regions before the tick."""

    def begin(self, number: int) -> None:
        """A query with a choice begins."""
        self._counted[number] = Counted()

    def end(self, number: int) -> None:
        """A query ends."""
        self._counted.pop(number, None)

    def knowledge(self, number: int) -> Knowledge:
        """What is known about a query."""
        return self._counted[number].knowledge() if number in self._counted else Knowledge()

    def prepare(self, queries: Queries, joins: Mapping[JoinKey, RegionJoin]) -> None:
        """A tick begins: choose the queries to look at, and keep where their regions are."""
        self._before = {}
        if self._counted:
            self._ticks += 1
            for number in self._chosen():
                join = joins.get(queries.compiled[number].key)
                if join is not None:
                    self._before[number] = _shapes(number, join)

    def look(
        self,
        tick: Tick,
        queries: Queries,
        joins: Mapping[JoinKey, RegionJoin],
        passes: Callable[[Compiled], Passes],
        polygons: Polygons,
    ) -> Turned:
        """Look at a tick after its changes were found. Returns the queries that should change to
        the other plan."""
        better: Turned = []
        for number in self._before:
            compiled, counted = queries.compiled[number], self._counted[number]
            versions = tick.objects.get(compiled.subject)
            if versions is None:
                continue
            self._count(number, compiled, versions, joins[compiled.key], passes, polygons)
            knowledge = counted.knowledge()
            if knowledge.inside_first is None or knowledge.filters_first is None:
                continue
            costs = [knowledge.inside_first, knowledge.filters_first]
            now, other = costs[::-1] if compiled.key.before is not None else costs
            if other < BETTER * now:
                better.append((number, compile_query(compiled.asked, self._dictionary, knowledge)))
        return better

    def _chosen(self) -> list[int]:
        """The queries whose turn it is."""
        young = [n for n, counted in self._counted.items() if counted.looks < OFTEN]
        if young or self._ticks % SELDOM:
            return young[:MOST_QUERIES]
        numbers = list(self._counted)
        self._turn = (self._turn + MOST_QUERIES) % len(numbers)
        return (numbers[self._turn :] + numbers[: self._turn])[:MOST_QUERIES]

    def _count(
        self,
        number: int,
        compiled: Compiled,
        versions: Versions,
        join: RegionJoin,
        passes: Callable[[Compiled], Passes],
        polygons: Polygons,
    ) -> None:
        counted = self._counted[number]
        # Objects that appear do so only once: only those that move decide about the order.
        moving = versions.alive(versions.before) & ~versions.messages.gone
        there = np.flatnonzero(moving)
        step = max(1, len(there) // SAMPLE)
        after = there[counted.looks * 7919 % step :: step]
        if not len(after):
            return
        before = versions.before[after]
        columns = range(len(versions.store.columns.columns))
        filtered = passes(compiled)
        within, passing = [], []
        now = _shapes(number, join)
        for ids, shapes in ((after, now), (before, self._before.get(number, now))):
            places = versions.places(ids, compiled.key.dimensions)
            within.append(_inside(shapes, polygons, places))
            passing.append(filtered(versions.pick(ids, columns)))
        asked = compiled.filtered
        other = np.zeros(len(after), np.bool_)
        if asked:
            other = ~same_rows(versions.pick(after, asked), versions.pick(before, asked))
        restless = (within[0] != within[1]) | (within[0] & within[1] & other)
        counted.looks += 1
        counted.asked = MEMORY * counted.asked + len(after)
        counted.inside = MEMORY * counted.inside + float(restless.sum())
        counted.filters = MEMORY * counted.filters + float((passing[0] | passing[1]).sum())


def _shapes(number: int, join: RegionJoin) -> Shapes:
    """Where the region of a query is just now."""
    rows = join.index.rows_of(number)
    return join.index.now.kinds[rows], join.index.now.params[rows]


def _inside(shapes: Shapes, polygons: Polygons, places: Floats) -> Bools:
    """Which places are in a region."""
    found = np.zeros(len(places), np.bool_)
    for kind, params in zip(*shapes, strict=True):
        found |= inside_shapes(
            places[:, 0].copy(),
            places[:, 1].copy(),
            np.full(len(places), kind),
            np.repeat(params[None, :], len(places), axis=0),
            *polygons.arrays(),
        )
    return found
