"""The join with tables: an object's row beside every row of the tables that fits it.

Tables stand still, so what joined and what left meet the same rows: a weight passes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary
from place.engine.part import Flow
from place.engine.plans import UpperPlan
from place.engine.vector import evaluate_all, holds
from place.plan.expression import Compare, Expression, conjunction, sources_of

Numbers = NDArray[np.int64]
MOST_AT_ONCE = 1 << 20
"""Combinations that are looked at together."""


@dataclass(frozen=True)
class _Index:
    """The rows of a table in the order of a value; rows without one fit nothing."""

    values: NDArray[np.generic]
    rows: Numbers

    def find(self, wanted: NDArray[np.generic]) -> tuple[Numbers, Numbers]:
        """Where the rows with each wanted value begin, and how many there are."""
        low = np.searchsorted(self.values, wanted, "left")
        return low, np.searchsorted(self.values, wanted, "right") - low


@dataclass(frozen=True)
class _Stage:
    """One more table: which of its rows to look at, and what to ask once they are there."""

    source: int
    table: Columns
    probe: Expression | None
    index: _Index | None
    condition: Expression | None


class Joiner:
    """Joins the rows of a query with its tables, one after the other, by equality where it can."""

    def __init__(
        self, upper: UpperPlan, tables: Mapping[int, Columns], dictionary: Dictionary
    ) -> None:
        self._dictionary = dictionary
        bound = set(range(len(upper.asked.sources))) - set(upper.joined)
        waiting = list(upper.conditions)
        self._first = conjunction([c for c in waiting if sources_of(c) <= bound])
        waiting = [c for c in waiting if not sources_of(c) <= bound]
        self._stages: list[_Stage] = []
        left = list(upper.joined)
        while left:
            source = next((t for t in left if _equality(waiting, bound, t)), left[0])
            left.remove(source)
            keys = _equality(waiting, bound, source)
            bound.add(source)
            ready = [c for c in waiting if sources_of(c) <= bound]
            waiting = [c for c in waiting if not sources_of(c) <= bound]
            alone = conjunction([c for c in ready if sources_of(c) == {source}])
            ready = [c for c in ready if sources_of(c) != {source}]
            table = self._selected(len(upper.needed), source, tables[source], alone)
            index = None if keys is None else self._index(len(upper.needed), source, table, keys[1])
            probe = None if keys is None else keys[0]
            self._stages.append(_Stage(source, table, probe, index, conjunction(ready)))

    def _selected(
        self, count: int, source: int, table: Columns, condition: Expression | None
    ) -> Columns:
        """The rows of a table for which a condition on it alone holds."""
        if condition is None:
            return table
        sources: list[Columns | None] = [None] * count
        sources[source] = table
        return table.take(np.flatnonzero(holds(condition, sources, len(table), self._dictionary)))

    def _index(self, count: int, source: int, table: Columns, key: Expression) -> _Index:
        sources: list[Columns | None] = [None] * count
        sources[source] = table
        found = evaluate_all(key, sources, len(table), self._dictionary)
        known = np.flatnonzero(~found.nulls)
        order = known[np.argsort(_comparable(found.values[known]), kind="stable")]
        return _Index(_comparable(found.values[order]), order)

    def expand(self, flow: Flow) -> tuple[Flow, Numbers]:
        """All combinations that fit, and which row of the flow each is of."""
        origin = np.arange(len(flow))
        if self._first is not None:
            keep = holds(self._first, flow.sources, len(flow), self._dictionary)
            origin = np.flatnonzero(keep)
            flow = flow.take(origin)
        for stage in self._stages:
            flow, at = self._beside(stage, flow)
            origin = origin[at]
        return flow, origin

    def qualifies(self, flow: Flow) -> NDArray[np.bool_]:
        """Which rows have any combination that fits."""
        found = np.zeros(len(flow), np.bool_)
        found[self.expand(flow)[1]] = True
        return found

    def _beside(self, stage: _Stage, flow: Flow) -> tuple[Flow, Numbers]:
        size = len(flow)
        if stage.index is None or stage.probe is None:
            low = np.zeros(size, np.int64)
            counts = np.full(size, len(stage.table), np.int64)
            rows = np.arange(len(stage.table))
        else:
            wanted = evaluate_all(stage.probe, flow.sources, size, self._dictionary)
            low, counts = stage.index.find(_comparable(wanted.values))
            counts[wanted.nulls] = 0
            rows = stage.index.rows
        # Many combinations are asked in pieces, so that a wide join needs no more memory.
        ends = np.cumsum(counts)
        pieces: list[tuple[Flow, Numbers]] = []
        start = 0
        while start < size:
            reached = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, reached + MOST_AT_ONCE, "right")))
            pieces.append(self._piece(stage, flow, rows, low, counts, start, min(stop, size)))
            start = stop
        if not pieces:
            return self._piece(stage, flow, rows, low, counts, 0, 0)
        return Flow.joined([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])

    def _piece(
        self,
        stage: _Stage,
        flow: Flow,
        rows: Numbers,
        low: Numbers,
        counts: Numbers,
        start: int,
        stop: int,
    ) -> tuple[Flow, Numbers]:
        some = counts[start:stop]
        at = np.repeat(np.arange(start, stop), some)
        first = np.cumsum(some) - some
        within = np.arange(len(at)) - np.repeat(first, some)
        chosen = rows[low[at] + within]
        wide = flow.take(at)
        sources = list(wide.sources)
        sources[stage.source] = stage.table.take(chosen)
        wide = Flow(wide.weights, tuple(sources), wide.ranks)
        if stage.condition is not None and len(at):
            kept = np.flatnonzero(holds(stage.condition, sources, len(at), self._dictionary))
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
