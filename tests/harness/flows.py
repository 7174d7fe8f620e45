"""Histories of signed rows, and whether an operator tells what recomputation from scratch finds.

A history is a list of instants; at each, rows of some queries come and go by their weights, and
queries are marked. `check` gives it to an operator as flows, cut into calls anywhere.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from place.engine.columns import Columns, Dictionary
from place.engine.flow import NO_MARKS, Flow, Marks
from place.engine.operators.contract import Operator, Span
from place.model import schema
from place.model.types import LARGEST, SMALLEST, Row, Type

# -0.0 is left out: of it and 0.0, the meaning keeps the one that comes first.
VALUES: dict[Type, list[Any]] = {
    Type.BIGINT: [0, 1, -2, 3, 2**53 + 1, -(2**53) - 1, LARGEST, SMALLEST],
    Type.DOUBLE: [0.0, 1.0, 0.1, -0.7, 1e16, -1e16, 1e300, -1e300, 1e-300, 5e-324, 2.5e-308],
    Type.STRING: ["", "a", "ab", "B", "é", "z"],
    Type.BOOLEAN: [True, False],
    Type.TIMESTAMP: [-5, 0, 10**15],
    Type.INTERVAL: [1, 2, 4, -7, LARGEST, SMALLEST],
    Type.NULL: [],
}
COLUMNS = tuple(schema.Column(kind.value.lower(), kind) for kind in VALUES)
ROWS: st.SearchStrategy[Row] = st.tuples(
    *[st.sampled_from([None, *values, *values]) for values in VALUES.values()]
)
QUERIES = 3


@dataclass
class Instant:
    """What happens at an instant: weights of rows, and marks of queries."""

    changes: list[tuple[int, Row, int]] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)


History = list[Instant]
Answer = Counter[tuple[int, str]]
"""Rows of queries; 1, 1.0 and TRUE differ."""


def flow_of(
    history: Iterable[tuple[int, Instant]], dictionary: Dictionary, columns: Any = COLUMNS
) -> Flow:
    """The flow of a history; its instants are 10 apart."""
    found = list(history)
    changes = [(10 * t, *change) for t, instant in found for change in instant.changes]
    marks = [(10 * t, *mark) for t, instant in found for mark in instant.marks]
    told = NO_MARKS
    if marks:
        told = Marks(*(np.array([m[i] for m in marks], np.int64) for i in (1, 0, 2)))
    if not changes:
        return Flow.of_marks(told)
    rows = Columns.from_rows(columns, dictionary, [row for _, _, row, _ in changes])
    instants, queries, weights = (np.array([c[i] for c in changes], np.int64) for i in (0, 1, 3))
    return Flow(queries, instants, weights, (rows, None), None, told)


def pieces(history: History, cuts: set[int]) -> Iterator[list[tuple[int, Instant]]]:
    """The history, cut before these instants."""
    piece: list[tuple[int, Instant]] = []
    for t, instant in enumerate(history):
        if t in cuts and piece:
            yield piece
            piece = []
        piece.append((t, instant))
    if piece:
        yield piece


def changes_of(flow: Flow) -> dict[int, Answer]:
    """The changes at each instant; rows have to be different, and in the order of the contract."""
    found: dict[int, Answer] = defaultdict(Counter)
    signs = [(t, w > 0) for t, w in zip(flow.instants.tolist(), flow.weights.tolist(), strict=True)]
    assert signs == sorted(signs)
    for query, instant, weight, row in listed(flow):
        assert (query, row) not in found[instant], "a row is told twice at one instant"
        assert weight
        found[instant][query, row] = weight
    return found


def listed(flow: Flow) -> list[tuple[int, int, int, str]]:
    every = np.arange(len(flow))
    plain = [side.rows(every) for side in flow.sources if side is not None and len(flow)]
    rows = [sides[0] if len(sides) == 1 else sides for sides in zip(*plain, strict=True)]
    columns = (flow.queries.tolist(), flow.instants.tolist(), flow.weights.tolist())
    return list(zip(*columns, map(repr, rows), strict=True))


def difference(before: Answer, after: Answer) -> Answer:
    change = Counter(after)
    change.subtract(before)
    return Counter({row: count for row, count in change.items() if count})


def check(
    operator: Operator,
    history: History,
    cuts: set[int],
    dictionary: Dictionary,
    recompute: Callable[[Counter[tuple[int, Row]], Counter[int]], Answer],
) -> None:
    """The operator tells, at every instant, how what recomputation finds has changed."""
    there: Counter[tuple[int, Row]] = Counter()
    marked: Counter[int] = Counter()
    before: Answer = Counter()
    for piece in pieces(history, cuts):
        flow = flow_of(piece, dictionary)
        told = operator.take(flow, Span(10 * piece[0][0] - 1, 10 * piece[-1][0]))
        assert told.marks is flow.marks
        found = changes_of(told)
        for t, instant in piece:
            for query, row, weight in instant.changes:
                there[query, row] += weight
            for query, sign in instant.marks:
                marked[query] += sign
            after = recompute(there, marked)
            assert found.pop(10 * t, Counter()) == difference(before, after)
            before = after
        assert not found


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, set[int]]:
    """Weighted rows, after each instant of which no row is there less than no times, and cuts."""
    pool = draw(st.lists(ROWS, min_size=1, max_size=5))
    change = st.tuples(st.integers(0, QUERIES - 1), st.sampled_from(pool), st.integers(-3, 3))
    mark = st.tuples(st.integers(0, QUERIES - 1), st.sampled_from([1, -1]))
    there: Counter[tuple[int, Row]] = Counter()
    history: History = []
    for changes in draw(st.lists(st.lists(change, max_size=8), max_size=8)):
        for query, row, weight in changes:
            there[query, row] += weight
        for query, row in [key for key, count in there.items() if count < 0]:
            changes.append((query, row, -there[query, row]))
            there[query, row] = 0
        history.append(Instant(changes, draw(st.lists(mark, max_size=3))))
    return history, draw(st.sets(st.integers(0, len(history))))


def random_history(chance: random.Random, size: int) -> History:
    """Rows of all values come, and later go; queries are marked most of the time."""
    there: Counter[tuple[int, Row]] = Counter()
    history: History = []
    for _ in range(size):
        instant = Instant()
        for _ in range(chance.randrange(8)):
            row = tuple(chance.choice([None, *v, *v]) for v in VALUES.values())
            instant.changes.append((chance.randrange(QUERIES), row, chance.choice([1, 1, 2])))
        instant.changes += [(*key, -n) for key, n in there.items() if chance.random() < 0.3]
        for query, row, weight in instant.changes:
            there[query, row] += weight
        there = +there
        instant.marks = [(chance.randrange(QUERIES), chance.choice([1, 1, -1]))]
        history.append(instant)
    return history
