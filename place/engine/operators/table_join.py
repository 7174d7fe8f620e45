"""The join with tables: a row beside every row of the tables that fits it.

Tables stand still, so what joined and what left meet the same rows: a weight passes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary
from place.engine.flow import NO_MARKS, NOTHING, Flow
from place.engine.operator_specs import JoinSpec
from place.engine.operators.contract import Parameters, Span, Stateless
from place.engine.vector import evaluate_all, holds
from place.kernels.arrays import Bools, Longs
from place.plan.expression import Compare, Expression, conjunction, sources_of

MOST_AT_ONCE = 1 << 20
"""Combinations that are looked at together."""


@dataclass(frozen=True)
class _Index:
    """The rows of a table in the order of a value; rows without one fit nothing."""

    values: NDArray[np.generic]
    rows: Longs

    def find(self, wanted: NDArray[np.generic]) -> tuple[Longs, Longs]:
        """Where the rows with each wanted value begin, and how many there are."""
        low = np.searchsorted(self.values, wanted, "left")
        return low, np.searchsorted(self.values, wanted, "right") - low


@dataclass(frozen=True)
class _Beside:
    """One more table: which of its rows to look at, and what to ask once they are there."""

    source: int
    table: Columns
    probe: Expression | None
    index: _Index | None
    condition: Expression | None


class TableJoin(Stateless):
    """Joins rows with tables, one after the other, by equality where it can."""

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
            source = next((t for t in sources if _equality(waiting, bound, t)), sources[0])
            sources.remove(source)
            keys = _equality(waiting, bound, source)
            bound.add(source)
            ready = [c for c in waiting if sources_of(c) <= bound]
            waiting = [c for c in waiting if not sources_of(c) <= bound]
            alone = conjunction([c for c in ready if sources_of(c) == {source}])
            ready = [c for c in ready if sources_of(c) != {source}]
            table = self._selected(source, tables[source], alone)
            index = None if keys is None else self._index(source, table, keys[1])
            probe = None if keys is None else keys[0]
            self._tables.append(_Beside(source, table, probe, index, conjunction(ready)))

    def _selected(self, source: int, table: Columns, condition: Expression | None) -> Columns:
        """The rows of a table for which a condition on it alone holds."""
        if condition is None:
            return table
        sources: list[Columns | None] = [None] * self._width
        sources[source] = table
        return table.take(np.flatnonzero(holds(condition, sources, len(table), self._dictionary)))

    def _index(self, source: int, table: Columns, key: Expression) -> _Index:
        sources: list[Columns | None] = [None] * self._width
        sources[source] = table
        found = evaluate_all(key, sources, len(table), self._dictionary)
        known = np.flatnonzero(~found.nulls)
        order = known[np.argsort(_comparable(found.values[known]), kind="stable")]
        return _Index(_comparable(found.values[order]), order)

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
        size = len(flow)
        if beside.index is None or beside.probe is None:
            low = np.zeros(size, np.int64)
            counts = np.full(size, len(beside.table), np.int64)
            rows = np.arange(len(beside.table))
        else:
            sources = self._parameters.beside(flow)
            wanted = evaluate_all(beside.probe, sources, size, self._dictionary)
            low, counts = beside.index.find(_comparable(wanted.values))
            counts[wanted.nulls] = 0
            rows = beside.index.rows
        # Many combinations are asked in pieces, so that a wide join needs no more memory.
        ends = np.cumsum(counts)
        pieces: list[tuple[Flow, Longs]] = []
        start = 0
        while start < size:
            reached = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, reached + MOST_AT_ONCE, "right")))
            some = np.arange(start, min(stop, size))
            pieces.append(self._piece(beside, flow, rows, low[some], counts[some], some))
            start = stop
        return Flow.joined([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])

    def _piece(
        self, beside: _Beside, flow: Flow, rows: Longs, low: Longs, counts: Longs, some: Longs
    ) -> tuple[Flow, Longs]:
        at = np.repeat(some, counts)
        within = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = rows[np.repeat(low, counts) + within]
        wide = flow.take(at)
        sources = list(wide.sources)
        sources[beside.source] = beside.table.take(chosen)
        wide = replace(wide, sources=tuple(sources))
        if beside.condition is not None and len(at):
            sides = self._parameters.beside(wide)
            kept = np.flatnonzero(holds(beside.condition, sides, len(at), self._dictionary))
            wide, at = wide.take(kept), at[kept]
        return wide, at


def _equality(
    conditions: list[Expression], bound: set[int], table: int
) -> tuple[Expression, Expression] | None:
    """An equality between what is bound and a table: what to ask with, and the table's value."""
    for condition in conditions:
        if isinstance(condition, Compare) and condition.op == "=":
            for one, other in (
                (condition.left, condition.right),
                (condition.right, condition.left),
            ):
                if sources_of(one) <= bound and sources_of(other) == {table}:
                    return one, other
    return None


def _comparable(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Values of any two types that equality compares, so that equal ones are equal here.

    Large integers may become equal that are not: the condition is asked again of what is found.
    """
    if values.dtype == np.float64:
        return values
    return values.astype(np.float64) + 0.0
