"""Answers that several cells hold together: their parts come in, the changes of the whole go out.

The operators are those that a single cell would run, over the flows of all cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from place.engine.chain import Chain, Workshop, changes_of, settled
from place.engine.changes import Change
from place.engine.columns import Dictionary
from place.engine.compile import compile_query
from place.engine.compiled import QueryShape
from place.engine.counters import Counters
from place.engine.flow import Flow, Marks
from place.engine.operators.contract import NEVER, Span
from place.engine.operators.first import First
from place.engine.operators.nearest_each import NearestEach
from place.engine.partial_answers import Found, PartialAnswer
from place.kernels.arrays import Longs
from place.plan.explain import Observed
from place.plan.query import Query


class Answers:
    """The answers of queries that several cells hold together."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._counters = Counters()
        self._chains: dict[QueryShape, Chain] = {}
        self._numbers: dict[str, int] = {}
        self._asked: dict[int, Query] = {}
        self._shapes: dict[int, QueryShape] = {}
        self._free: list[int] = []

    def observed(self, name: str) -> Observed:
        """What has passed through the answer of a query."""
        number = self._numbers.get(name)
        if number is None:
            return Observed()
        chain = self._chains[self._shapes[number]]
        edges = [operator.name for operator in chain.operators if operator.name == "group"]
        rows = Counter({edge: self._counters.rows(edge, number) for edge in (*edges, "answer")})
        key = "group" if edges else "answer"
        seconds = sum(
            self._counters.seconds((id(chain), operator.name)) for operator in chain.operators
        )
        return Observed(rows=rows, seconds=Counter({key: seconds}))

    def take(self, parts: Sequence[PartialAnswer]) -> list[Change]:
        """The changes of whole answers that follow from the parts of all cells, one stage after the
        other."""
        changes: list[Change] = []
        for stage in sorted({part.stage for part in parts}):
            changes += self._stage([part for part in parts if part.stage == stage])
        return changes

    def _stage(self, parts: Sequence[PartialAnswer]) -> list[Change]:
        flows: dict[QueryShape, list[Flow]] = {}
        ended: set[int] = set()
        for part in parts:
            numbers = np.array([self._number(query) for query in part.queries], np.int64)
            shape = self._shapes[int(numbers[0])]
            flows.setdefault(shape, []).append(_renumbered(part.flow, numbers, self._dictionary))
            ended |= {int(numbers[place]) for place in part.ended}
        changes: list[Change] = []
        for shape, some in flows.items():
            chain, flow = self._chains[shape], Flow.joined(some)
            told = chain.take(flow, Span(-NEVER, NEVER), self._counters)
            told = settled(told, shape)
            self._counters.count("answer", told.queries, told.weights)
            # A query that ends may begin again at the same instant with some of the same rows; then
            # the rows of both have to be settled against each other.
            is_settled = not ended & chain.queries.keys()
            changes += changes_of(told, self._queries, is_settled=is_settled)
        for number in ended:
            self._forget(number)
        return changes

    def _queries(self, numbers: Longs) -> list[Query]:
        return [self._asked[number] for number in numbers.tolist()]

    def _number(self, query: Query) -> int:
        """The number of a query, which may be new."""
        number = self._numbers.get(query.name)
        if number is None:
            number = self._free.pop() if self._free else len(self._asked)
            compiled = compile_query(query, self._dictionary)
            self._numbers[query.name], self._asked[number] = number, query
            self._shapes[number] = compiled.shape
            chain = self._chains.get(compiled.shape)
            if chain is None:
                chain = self._chains[compiled.shape] = Chain(compiled.shape, self._dictionary)
                chain.operators = Workshop(self._dictionary).upper(chain, merges=True)
            chain.put(number, compiled.constants)
            for operator in chain.operators:
                if isinstance(operator, First | NearestEach):
                    operator.put(number, _wanted(query))
        return number

    def _forget(self, number: int) -> None:
        shape = self._shapes.pop(number)
        query = self._asked.pop(number)
        if self._numbers.get(query.name) == number:
            del self._numbers[query.name]
        self._free.append(number)
        chain = self._chains[shape]
        chain.end(number)
        if not chain.queries:
            del self._chains[shape]


def _wanted(query: Query) -> int:
    """How many of the rows that cells have chosen are in the answer: k, or the rows of the
    window."""
    if query.nearest is not None:
        return query.nearest.k
    assert query.window is not None
    return query.window.rows or 0


def _renumbered(flow: Flow, numbers: Longs, dictionary: Dictionary) -> Flow:
    """The same flow with these numbers for its queries, and with the texts of this dictionary."""
    moved, marks = flow.recoded(dictionary), flow.marks
    return Flow(
        numbers[flow.queries],
        flow.instants,
        flow.weights,
        moved.sources,
        moved.ranks,
        Marks(numbers[marks.queries], marks.instants, marks.signs),
    )


def merge(found: Iterable[Found], answers: Answers) -> list[Change]:
    """Put together what cells have found: finished changes, and parts of answers, which `answers`
    merges."""
    changes: list[Change] = []
    parts: list[PartialAnswer] = []
    for each in found:
        if isinstance(each, PartialAnswer):
            parts.append(each)
        else:
            changes.append(each)
    return changes + answers.take(parts)
