"""The join with tables: a row beside every row of the tables that fits it.

Tables stand still, so what joined and what left meet the same rows: a weight passes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.flow import NO_MARKS, NOTHING, Flow
from place.engine.operator_specs import JoinSpec
from place.engine.operators.contract import Parameters, Span, Stateless
from place.engine.sides import JoinSides, boxes_of_rows, points_of, sides_of
from place.engine.vector import holds
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.box_join import BoxIndex, join_boxes
from place.model import deadline
from place.plan.expression import Expression, conjunction, sources_of

MOST_AT_ONCE = 1 << 22
"""Combinations that are looked at together."""
FEW = 1024
"""So many rows meet a table at once, where sides tell which of its rows fit them."""


@dataclass(frozen=True)
class _Beside:
    """One more table: its rows as points, or as boxes, and what to ask once they are there.

    Boxes decide some of the conditions that are `asked`, if the table's numbers are `is_exact`.
    """

    source: int
    table: Columns
    sides: JoinSides
    points: Floats | None
    index: BoxIndex | None
    is_exact: bool
    asked: tuple[Expression, ...]


class TableJoin(Stateless):
    """Joins rows with tables, one after the other: a row is a point, and a row of a table the box
    that the conditions between them span, or the other way round."""

    name = "join"

    def __init__(
        self,
        step: JoinSpec,
        tables: Mapping[int, Columns],
        parameters: Parameters,
        dictionary: Dictionary,
    ) -> None:
        self._dictionary = dictionary
        self._parameters = parameters
        self._only_qualifies = step.only_qualifies
        self._width = step.width
        sources = [source for source, _, _ in step.tables]
        # The constants of a query are known from the beginning, as one source more.
        bound = {step.width, *range(step.width)} - set(sources)
        waiting = list(step.conditions)
        self._first = conjunction([c for c in waiting if sources_of(c) <= bound])
        waiting = [c for c in waiting if not sources_of(c) <= bound]
        self._tables: list[_Beside] = []
        while sources:
            found = {t: sides_of(waiting, frozenset(bound), t) for t in sources}
            source = max(sources, key=lambda t: (found[t].has_equality, len(found[t].parts)))
            sources.remove(source)
            bound.add(source)
            ready = [c for c in waiting if sources_of(c) <= bound]
            waiting = [c for c in waiting if not sources_of(c) <= bound]
            alone = conjunction([c for c in ready if sources_of(c) == {source}])
            asked = tuple(c for c in ready if sources_of(c) != {source})
            table = self._selected(source, tables[source], alone)
            self._tables.append(self._beside(source, table, found[source], asked))

    def _beside(
        self, source: int, table: Columns, sides: JoinSides, asked: tuple[Expression, ...]
    ) -> _Beside:
        rows: list[Columns | None] = [None] * self._width
        rows[source] = table
        if sides.new_is_box:
            boxes = boxes_of_rows(sides, rows, len(table), self._dictionary)
            index = BoxIndex(boxes.low, boxes.high)
            return _Beside(source, table, sides, None, index, boxes.is_exact, asked)
        points = points_of(sides, rows, len(table), self._dictionary)
        return _Beside(source, table, sides, points.places, None, points.is_exact, asked)

    def _selected(self, source: int, table: Columns, condition: Expression | None) -> Columns:
        """The rows of a table for which a condition on it alone holds."""
        if condition is None:
            return table
        sources: list[Columns | None] = [None] * self._width
        sources[source] = table
        return table.take(np.flatnonzero(holds(condition, sources, len(table), self._dictionary)))

    def take(self, flow: Flow, span: Span) -> Flow:
        """All combinations that fit, or the rows that have any."""
        if not len(flow):
            return flow
        if self._only_qualifies:
            return flow.take(np.flatnonzero(self.qualifies(flow)))
        return replace(self._expanded(flow)[0].in_order(), marks=flow.marks)

    def qualifies(self, flow: Flow) -> Bools:
        """Which rows have any combination that fits."""
        found = np.zeros(len(flow), np.bool_)
        found[self._expanded(flow)[1]] = True
        return found

    def _expanded(self, flow: Flow) -> tuple[Flow, Longs]:
        """All combinations that fit, without marks, and which row of the flow each is of."""
        flow, origin = replace(flow, marks=NO_MARKS), np.arange(len(flow))
        if self._first is not None:
            sources = self._parameters.beside(flow)
            origin = np.flatnonzero(holds(self._first, sources, len(flow), self._dictionary))
            flow = flow.take(origin)
        for beside in self._tables:
            if not len(flow):
                return NOTHING, origin[:0]
            flow, at = self._with(beside, flow)
            origin = origin[at]
        return flow, origin

    def _with(self, beside: _Beside, flow: Flow) -> tuple[Flow, Longs]:
        """Rows beside all rows of a table that fit, in pieces that need no more memory."""
        piece = max(1, MOST_AT_ONCE // max(1, len(beside.table)))
        if beside.sides.parts:
            piece = max(piece, FEW)
        pieces = [
            self._piece(beside, flow.take(slice(i, i + piece)), i)
            for i in range(0, len(flow), piece)
        ]
        return Flow.joined([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])

    def _piece(self, beside: _Beside, flow: Flow, first: int) -> tuple[Flow, Longs]:
        """Rows beside all rows of a table that fit, and which row of all each is of."""
        deadline.check()
        sides, rows = beside.sides, self._parameters.beside(flow)
        if beside.index is not None:
            points = points_of(sides, rows, len(flow), self._dictionary)
            pairs, is_exact = beside.index.find(points.places), points.is_exact
            at, chosen = pairs.points, pairs.boxes
        else:
            assert beside.points is not None
            boxes = boxes_of_rows(sides, rows, len(flow), self._dictionary)
            pairs, is_exact = join_boxes(beside.points, boxes.low, boxes.high), boxes.is_exact
            at, chosen = pairs.boxes, pairs.points
        wide = flow.take(at.astype(np.int64))
        sources = list(wide.sources)
        sources[beside.source] = beside.table.take(chosen.astype(np.int64))
        wide = replace(wide, sources=tuple(sources))
        decided = sides.decided if is_exact and beside.is_exact else frozenset()
        condition = conjunction([c for c in beside.asked if c not in decided])
        origin = first + at.astype(np.int64)
        if condition is not None and len(at):
            beside_rows = self._parameters.beside(wide)
            kept = np.flatnonzero(holds(condition, beside_rows, len(at), self._dictionary))
            wide, origin = wide.take(kept), origin[kept]
        return wide, origin
