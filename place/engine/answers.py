"""Answers: what is known of whole answers, above the cells that find their parts.

Aggregates and DISTINCT need the whole answer to tell what changes; kNN and `WINDOW n ROWS` choose
the first of all rows where several cells have found some. Everything else passes through.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from place.engine.aggregate import Aggregates
from place.engine.changes import Change
from place.engine.columns import Columns, Dictionary
from place.engine.distinct import Distinct, consolidate
from place.engine.part import Flow, Part, Weights
from place.engine.plans import UpperPlan
from place.engine.route import Matrix
from place.engine.vector import holds, outputs
from place.model.types import Row
from place.plan.explain import Observed
from place.plan.query import Query


def is_merged(upper: UpperPlan, matrix: Matrix) -> bool:
    """Does the answer follow only from the parts of several cells together?"""
    spread = matrix.rows > 1 or (matrix.columns > 1 and upper.asked.query_table is not None)
    return spread and (upper.has_answer or upper.has_order)


def split(found: Iterable[Change | Part], matrix: Matrix) -> tuple[list[Part], list[Change | Part]]:
    """Parts of answers that one cell holds whole, and the rest."""
    whole: list[Part] = []
    rest: list[Change | Part] = []
    for each in found:
        if isinstance(each, Part) and not is_merged(each.upper, matrix):
            whole.append(each)
        else:
            rest.append(each)
    return whole, rest


class Answers:
    """The answers of queries that something stands above; parts come in, changes go out."""

    def __init__(self, dictionary: Dictionary, *, merges: bool) -> None:
        self._dictionary = dictionary
        self._merges = merges
        self._answers: dict[str, _Answer] = {}

    def observed(self, name: str) -> Observed:
        """What has passed through the answer of a query."""
        answer = self._answers.get(name)
        if answer is None:
            return Observed()
        key = "group" if answer.grouped is not None else "answer"
        rows = Counter({"answer": answer.told})
        if answer.grouped is not None:
            rows["group"] = answer.grouped
        return Observed(rows=rows, seconds=Counter({key: answer.seconds}))

    def take(self, parts: Sequence[Part]) -> list[Change]:
        """What parts change, in the order of their instants."""
        moments: dict[tuple[int, int, str], list[Part]] = {}
        for part in parts:
            moments.setdefault((part.stage, part.instant, part.query.name), []).append(part)
        ended = {part.query.name for part in parts if part.ends}
        changes: list[Change] = []
        for (_, instant, name), found in sorted(moments.items(), key=lambda item: item[0][:2]):
            answer = self._answers.get(name)
            if answer is None:
                answer = _Answer(found[0].upper, self._dictionary, self._merges)
                self._answers[name] = answer
            flows = [part.flow for part in found if len(part.flow)]
            if self._merges:
                flows = [flow.recoded(self._dictionary) for flow in flows]
            present = all(part.present for part in found)
            ends = any(part.ends for part in found)
            start = time.perf_counter()
            weights, rows = answer.take(flows, present=present and not ends)
            answer.seconds += time.perf_counter() - start
            # What ends may begin again at the same instant, with some of the same rows.
            is_settled = answer.is_settled and name not in ended
            changes += _changes(found[0].query, instant, weights, rows, is_settled)
            if ends:
                del self._answers[name]
        return changes


class _Answer:
    """One query's answer."""

    def __init__(self, upper: UpperPlan, dictionary: Dictionary, merges: bool) -> None:
        self._upper = upper
        self._query = upper.query
        self._dictionary = dictionary
        self._first = _First(upper) if merges and upper.has_order else None
        self._aggregates = None
        if self._query.groups is not None:
            self._aggregates = Aggregates(self._query, dictionary)
        self._distinct = Distinct() if self._query.distinct else None
        self._is_begun = False
        self.grouped = None if self._aggregates is None else 0
        self.told = 0
        self.seconds = 0.0

    @property
    def is_settled(self) -> bool:
        """Are its changes all that matter, so that no two of them cancel each other?"""
        return self._upper.has_answer or self._first is not None

    def take(self, flows: Sequence[Flow], *, present: bool) -> tuple[Weights, Columns]:
        """The rows that an instant adds and takes back."""
        weights, rows = self._taken(flows, present)
        self.told += int(np.abs(weights).sum())
        return weights, rows

    def _taken(self, flows: Sequence[Flow], present: bool) -> tuple[Weights, Columns]:
        flow = Flow.joined(flows) if flows else None
        if self._first is not None and flow is not None:
            flow = self._first.take(flow)
        if self._aggregates is not None:
            weights, rows = self._aggregate(flow, present)
        elif flow is None or not len(flow):
            return np.empty(0, np.int64), Columns((), self._dictionary)
        else:
            weights = flow.weights
            rows = outputs(self._query.outputs, flow.sources, len(flow), self._dictionary)
        if self._distinct is not None and len(weights):
            return self._distinct.update(rows, weights)
        return consolidate(rows, weights) if self.is_settled and len(weights) else (weights, rows)

    def _aggregate(self, flow: Flow | None, present: bool) -> tuple[Weights, Columns]:
        aggregates = self._aggregates
        assert aggregates is not None
        found: list[tuple[Weights, Columns]] = []
        if present and not self._is_begun:
            found.append(aggregates.begin())
        if flow is not None and len(flow):
            found.append(aggregates.update(flow.sources, flow.weights))
        if not present and self._is_begun:
            found.append(aggregates.end())
        self._is_begun = present
        weights = np.concatenate([np.empty(0, np.int64), *(w for w, _ in found)])
        self.grouped = (self.grouped or 0) + len(weights)
        some = [rows for _, rows in found]
        rows = Columns.joined(some) if some else None
        query = self._query
        if rows is not None and query.having is not None and len(weights):
            kept = np.flatnonzero(holds(query.having, [rows], len(weights), self._dictionary))
            weights, rows = weights[kept], rows.take(kept)
        if rows is None or not len(weights):
            return np.empty(0, np.int64), Columns((), self._dictionary)
        return weights, outputs(query.outputs, [rows], len(weights), self._dictionary)


class _First:
    """The first of the rows that several cells have chosen: the nearest, or the latest readings.

    All rows with one rank are of one object, or one reading, and go together.
    """

    def __init__(self, upper: UpperPlan) -> None:
        query = upper.query
        assert query.nearest is not None or query.window is not None
        self._count = query.nearest.k if query.nearest is not None else query.window.rows or 0  # type: ignore[union-attr]
        self._latest = query.nearest is None
        self._rows: dict[Row, Counter[tuple[Row | None, ...]]] = {}
        self._chosen: Counter[tuple[Row | None, ...]] = Counter()

    def take(self, flow: Flow) -> Flow:
        """What the first rows gain and lose."""
        assert flow.ranks is not None
        every = np.arange(len(flow))
        ranks = flow.ranks.rows(every)
        sides = [None if rows is None else rows.rows(every) for rows in flow.sources]
        for i, (rank, weight) in enumerate(zip(ranks, flow.weights.tolist(), strict=True)):
            row = tuple(None if side is None else side[i] for side in sides)
            of_rank = self._rows.setdefault(rank, Counter())
            of_rank[row] += weight
            if not of_rank[row]:
                del of_rank[row]
                if not of_rank:
                    del self._rows[rank]
        chosen: Counter[tuple[Row | None, ...]] = Counter()
        for rank in self._best():
            chosen.update(self._rows[rank])
        before, self._chosen = self._chosen, chosen
        changes = Counter(chosen)
        changes.subtract(before)
        return _from_rows(flow, {row: n for row, n in changes.items() if n})

    def _best(self) -> list[Row]:
        if self._latest:
            return heapq.nlargest(self._count, self._rows)
        return heapq.nsmallest(self._count, self._rows, key=_by_distance)


def _by_distance(rank: Row) -> tuple[object, ...]:
    """Distance, then key (NULL first), then the number of a table's row."""
    measure, key, number = rank
    return measure, key is not None, 0 if key is None else key, number


def _from_rows(like: Flow, changes: dict[tuple[Row | None, ...], int]) -> Flow:
    """A flow of plain rows, by the columns of another."""
    rows = list(changes)
    sources: list[Columns | None] = []
    for i, side in enumerate(like.sources):
        if side is None:
            sources.append(None)
            continue
        sources.append(
            Columns.from_rows(side.columns, side.dictionary, [row[i] or () for row in rows])
        )
    return Flow(np.array(list(changes.values()), np.int64), tuple(sources))


def _changes(
    query: Query, instant: int, weights: Weights, rows: Columns, is_settled: bool
) -> list[Change]:
    changes: list[Change] = []
    for sign in (-1, 1):
        mine = np.flatnonzero(weights * sign > 0)
        if len(mine):
            mine = np.repeat(mine, np.abs(weights[mine]))
            columns = tuple(rows.array(i, mine) for i in range(len(rows.columns)))
            changes.append(Change((query,), sign, instant, columns, is_settled))
    return changes
