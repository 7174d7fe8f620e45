"""DISTINCT over rows that come and go: a row leaves only when its last witness does.

This is PLACE's DISTINCT over negative tuples. Rows of many queries are kept together, since the
number of a query is a part of what makes rows different.
"""

from __future__ import annotations

import numpy as np

from place.engine.accumulate import Slots
from place.engine.columns import Columns, Dictionary, Vector
from place.engine.flow import Flow
from place.engine.multiset import pack, unpack, width_of
from place.engine.operators.contract import Span, Stateless
from place.engine.vector import as_columns
from place.kernels.arrays import Longs
from place.kernels.segments import add_in_segments, negative_first, sort_into_segments
from place.model.types import Type

NO_NULLS = np.zeros(1, np.bool_)


class Distinct(Stateless):
    """How often each row of each query is there.

    All that is kept comes and goes with rows, so that nothing is to be done when a query begins or
    ends.
    """

    name = "distinct"

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._rows: Slots | None = None

    def take(self, flow: Flow, span: Span) -> Flow:
        """The rows that after an instant are there no more (−1) or newly (+1)."""
        if not len(flow):
            return Flow.of_marks(flow.marks)
        given = flow.sources[0]
        assert given is not None, "DISTINCT takes rows of outputs"
        if self._rows is None:
            self._rows = Slots(width_of(1 + len(given.columns)))
        rows, weights = self._rows, np.array(flow.weights, np.int64)
        vectors = [Vector(v, n) for v, n in zip(given.values, given.nulls, strict=True)]
        slots = rows.find(pack([Vector(flow.queries, NO_NULLS), *vectors], len(flow)), weights)
        segments = sort_into_segments(slots, np.array(flow.instants, np.int64), rows.used)
        before, now = add_in_segments(
            rows.counts, segments.slots, weights[segments.order], segments.starts
        )
        rows.settle(segments.slots, before, now)
        signs = (now > 0).astype(np.int64) - (before > 0)
        changed = np.flatnonzero(signs)
        changed = changed[negative_first(segments.moments[changed], signs[changed])]
        queries, told = self._unpacked(rows.rows[segments.slots[changed]], given)
        rows.compact()
        others = (None,) * (len(flow.sources) - 1)
        return Flow(
            queries, segments.instants[changed], signs[changed], (told, *others), None, flow.marks
        )

    def _unpacked(self, packed: Longs, like: Columns) -> tuple[Longs, Columns]:
        """Queries and rows that were packed, by the columns of others."""
        kinds = [Type.BIGINT, *(column.type for column in like.columns)]
        queries, *vectors = unpack(packed, kinds)
        return queries.values, as_columns(like.columns, vectors, self._dictionary)
