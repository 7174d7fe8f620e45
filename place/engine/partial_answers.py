"""Parts of answers on their way from cells to where they are put together.

With several rows of cells, the nearest, the last readings, groups and DISTINCT follow only from the
rows of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from place.engine.changes import Change
from place.engine.compiled import QueryShape
from place.engine.flow import Flow, Marks
from place.engine.matrix import Matrix
from place.engine.operator_specs import DistinctSpec, FirstSpec, GroupSpec, NearestEachSpec
from place.kernels.arrays import Bools
from place.plan.query import Query


@dataclass(frozen=True)
class PartialAnswer:
    """What a cell has found for queries of one shape.

    The numbers in the flow are places in `queries`. `stage` puts what happens at one instant in
    order, in whichever cell: a query may end and begin again at the same one. `ended` are the
    places of queries that have ended with it.
    """

    queries: tuple[Query, ...]
    flow: Flow
    stage: int = 0
    ended: tuple[int, ...] = ()

    def of_query(self, name: str) -> PartialAnswer | None:
        """The part of one query, without the others that were found with it, or None."""
        is_mine = np.array([query.name == name for query in self.queries])
        return self.of(is_mine) if is_mine.any() else None

    def of(self, chosen: Bools) -> PartialAnswer:
        """The part of some of the queries, by their places."""
        if chosen.all():
            return self
        places = np.cumsum(chosen) - 1
        flow = self.flow.take(np.flatnonzero(chosen[self.flow.queries]))
        mine = np.flatnonzero(chosen[flow.marks.queries])
        marks = flow.marks
        marks = Marks(places[marks.queries[mine]], marks.instants[mine], marks.signs[mine])
        return replace(
            self,
            queries=tuple(self.queries[place] for place in np.flatnonzero(chosen)),
            flow=replace(flow, queries=places[flow.queries], marks=marks),
            ended=tuple(int(places[place]) for place in self.ended if chosen[place]),
        )


Found = Change | PartialAnswer


def is_merged(shape: QueryShape, matrix: Matrix) -> bool:
    """Does the answer follow only from the parts of several cells together?"""
    spread = matrix.rows > 1 or (matrix.columns > 1 and shape.table is not None)
    whole = FirstSpec, GroupSpec, DistinctSpec, NearestEachSpec
    return spread and any(isinstance(step, whole) for step in shape.upper)
