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
        places = [i for i, query in enumerate(self.queries) if query.name == name]
        if not places:
            return None
        place = places[0]
        flow = self.flow.take(np.flatnonzero(self.flow.queries == place))
        mine = np.flatnonzero(flow.marks.queries == place)
        first = np.zeros(len(mine), np.int64)
        marks = Marks(first, flow.marks.instants[mine], flow.marks.signs[mine])
        flow = replace(flow, queries=np.zeros(len(flow.queries), np.int64), marks=marks)
        ended = (0,) if place in self.ended else ()
        return replace(self, queries=(self.queries[place],), flow=flow, ended=ended)


Found = Change | PartialAnswer


def is_merged(shape: QueryShape, matrix: Matrix) -> bool:
    """Does the answer follow only from the parts of several cells together?"""
    spread = matrix.rows > 1 or (matrix.columns > 1 and shape.table is not None)
    whole = FirstSpec, GroupSpec, DistinctSpec, NearestEachSpec
    return spread and any(isinstance(step, whole) for step in shape.upper)
