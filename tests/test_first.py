"""The first of the rows that several cells tell are those that a sort of all of them finds."""

import random
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine import multiset
from place.engine.accumulate import TextOrder
from place.engine.columns import Columns, Dictionary
from place.engine.flow import Flow, Marks
from place.engine.operators.contract import NEVER, Span
from place.engine.operators.first import First
from place.model.schema import Column
from place.model.types import Row, Type
from tests.harness.examples import examples

LEFT = (Column("key", Type.STRING), Column("x", Type.DOUBLE))
RIGHT = (Column("n", Type.BIGINT),)
COUNTS = [1, 2, 3, 0]
"""How many each query wants."""

Change = tuple[int, Row, tuple[Row, Row], int]
"""A query, a rank, a row of each side, and a weight."""


def rank_columns(latest: bool, key: Type) -> tuple[Column, ...]:
    if latest:
        return (Column("time", Type.BIGINT), Column("key", key))
    return (Column("measure", Type.DOUBLE), Column("key", key), Column("number", Type.BIGINT))


def before(latest: bool) -> Any:
    """What ranks are sorted by; Python compares texts as the operator has to."""

    def key(rank: Row) -> tuple[Any, ...]:
        return tuple((part is not None, 0 if part is None else part) for part in rank)

    return {"key": key, "reverse": latest}


def chosen_of(there: Counter[tuple[int, Row, Any]], latest: bool) -> Counter[tuple[int, str]]:
    """The answer by recomputation: rows of the first ranks of each query."""
    ranks: dict[int, set[Row]] = defaultdict(set)
    for (query, rank, _), weight in there.items():
        if weight:
            ranks[query].add(rank)
    best = {q: sorted(found, **before(latest))[: COUNTS[q]] for q, found in ranks.items()}
    chosen: Counter[tuple[int, str]] = Counter()
    for (query, rank, rows), weight in there.items():
        if weight and rank in best[query]:
            chosen[query, repr(rows)] += weight
    return chosen


def flow_of(
    instants: list[tuple[int, list[Change]]], latest: bool, key: Type, dictionary: Dictionary
) -> Flow:
    changes = [(t, *change) for t, found in instants for change in found]
    marks = Marks(*(np.array([n], np.int64) for n in (0, instants[0][0], 1)))
    if not changes:
        return Flow.of_marks(marks)
    times, queries, ranks, rows, weights = zip(*changes, strict=True)
    return Flow(
        np.array(queries),
        np.array(times),
        np.array(weights),
        (
            Columns.from_rows(LEFT, dictionary, [left for left, _ in rows]),
            None,
            Columns.from_rows(RIGHT, dictionary, [right for _, right in rows]),
        ),
        Columns.from_rows(rank_columns(latest, key), dictionary, list(ranks)),
        marks,
    )


def check(history: list[list[Change]], cuts: set[int], latest: bool, key: Type) -> First:
    """After every instant, what the operator has told is the answer by recomputation."""
    dictionary = Dictionary()
    operator = First(latest, dictionary)
    for query, count in enumerate(COUNTS):
        operator.put(query, count)
    there: Counter[tuple[int, Row, Any]] = Counter()
    answer: Counter[tuple[int, str]] = Counter()
    bounds = [0, *sorted(t for t in cuts if 0 < t < len(history)), len(history)]
    for start, end in pairwise(bounds):
        piece = [(10 * t, history[t]) for t in range(start, end)]
        if not piece:
            continue
        flow = flow_of(piece, latest, key, dictionary)
        told = operator.take(flow, Span(10 * start - 1, 10 * end))
        assert told.marks is flow.marks
        assert told.ranks is None
        signs = list(zip(told.instants.tolist(), (told.weights > 0).tolist(), strict=True))
        assert signs == sorted(signs)
        found: dict[int, Counter[tuple[int, str]]] = defaultdict(Counter)
        if len(told):
            left, none, right = told.sources
            assert left is not None
            assert right is not None
            assert none is None
            every = np.arange(len(told))
            rows = list(zip(left.rows(every), right.rows(every), strict=True))
            for i, row in enumerate(rows):
                place = (int(told.queries[i]), repr(row))
                assert place not in found[int(told.instants[i])]
                assert told.weights[i]
                found[int(told.instants[i])][place] = int(told.weights[i])
        for t, changes in piece:
            for query, rank, both, weight in changes:
                there[query, rank, both] += weight
            after = chosen_of(there, latest)
            change = Counter(after)
            change.subtract(answer)
            assert found.pop(t, Counter()) == Counter({r: n for r, n in change.items() if n})
            answer = after
        assert not found
    assert operator.next_expiry() == NEVER
    assert operator.save() is None
    return operator


KEYS: dict[Type, list[Any]] = {
    Type.STRING: [None, "", "a", "ab", "B", "é"],
    Type.BIGINT: [None, -1, 0, 7],
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Change]], bool, Type]:
    latest, key = draw(st.booleans()), draw(st.sampled_from([Type.STRING, Type.BIGINT]))
    keys = st.sampled_from(KEYS[key])
    if latest:
        ranks: Any = st.tuples(st.integers(-2, 2), keys)
    else:
        ranks = st.tuples(st.sampled_from([0.0, 0.5, 1e300]), keys, st.integers(0, 1))
    rows = st.tuples(
        st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1.5])),
        st.tuples(st.sampled_from([None, 3])),
    )
    pool = draw(st.lists(st.tuples(ranks, rows), min_size=1, max_size=8))
    change = st.tuples(
        st.integers(0, len(COUNTS) - 1), st.sampled_from(pool), st.integers(-2, 2)
    ).map(lambda drawn: (drawn[0], *drawn[1], drawn[2]))
    there: Counter[Any] = Counter()
    history = draw(st.lists(st.lists(change, max_size=8), max_size=8))
    for changes in history:
        for *place, weight in changes:
            there[tuple(place)] += weight
        for place in [place for place, weight in there.items() if weight < 0]:
            changes.append((*place, -there[place]))
            there[place] = 0
    return history, latest, key


@settings(max_examples=examples(100), deadline=None)
@given(
    histories(),
    st.sets(st.integers(0, 8)),
    st.sampled_from([0, multiset.SPARE]),
    st.sampled_from([2, TextOrder.STEP]),
)
def test_first_of_any_history(
    drawn: tuple[list[list[Change]], bool, Type], cuts: set[int], spare: int, step: int
) -> None:
    history, latest, key = drawn
    with patch.object(multiset, "SPARE", spare), patch.object(TextOrder, "STEP", step):
        check(history, cuts, latest, key)


@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("often", [0.0, 0.2, 1.0])
def test_objects_that_move(latest: bool, often: float) -> None:
    """Objects have another rank at every instant, some with the same row as before."""
    chance = random.Random(17)
    there: dict[tuple[int, str], list[Change]] = {}
    history: list[list[Change]] = []
    for t in range(150):
        changes: list[Change] = []
        for query in range(len(COUNTS)):
            for key in chance.sample([f"car {n}" for n in range(12)], 3):
                for *place, weight in there.pop((query, key), []):
                    changes.append((*place, -weight))  # type: ignore[arg-type]
                if chance.random() < 0.2:
                    continue
                rank: Row = (t, key) if latest else (chance.random(), key, 0)
                row: Row = (key, chance.choice([None, chance.random()]))
                joined: list[Change] = [
                    (query, rank, (row, (n,)), 1) for n in range(chance.choice([1, 1, 3]))
                ]
                there[query, key] = joined
                changes += joined
        chance.shuffle(changes)
        history.append(changes)
    cuts = {t for t in range(150) if chance.random() < often}
    operator = check(history, cuts, latest, Type.STRING)
    held = sum(map(len, there.values()))
    assert operator._items.used <= 2 * held + multiset.SPARE


@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("step", [2, 64, TextOrder.STEP])
def test_ranks_that_differ_by_their_texts_alone(latest: bool, step: int) -> None:
    """Texts come in any order, so that there is no room between those that were ranked before."""
    chance = random.Random(step)
    there: set[str] = set()
    history: list[list[Change]] = []
    for _ in range(100):
        come = {f"{chance.random():.4f}" for _ in range(chance.choice([1, 2, 20]))} - there
        go = {text for text in sorted(there) if chance.random() < 0.3}
        there = (there | come) - go
        history.append([])
        for texts, weight in ((come, 1), (go, -1)):
            for text in sorted(texts):
                rank: Row = (5, text) if latest else (0.5, text, 1)
                history[-1].append((2, rank, ((text, None), (None,)), weight))
    with patch.object(TextOrder, "STEP", step):
        check(history, set(range(0, 100, 3)), latest, Type.STRING)
