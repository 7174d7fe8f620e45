"""DISTINCT and consolidation: after every instant, rows are what recomputation finds."""

from collections import Counter
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine import multiset
from place.engine.columns import Columns, Dictionary
from place.engine.consolidate import consolidated
from place.engine.flow import Flow
from place.engine.operators.contract import Span
from place.engine.operators.distinct import Distinct
from place.model import schema
from place.model.types import Row, Type
from tests.harness.examples import examples
from tests.harness.flows import Answer, History, check, flow_of, histories, listed


def different(there: Counter[tuple[int, Row]], marked: Counter[int]) -> Answer:
    return Counter((query, repr(row)) for (query, row), count in there.items() if count > 0)


@settings(max_examples=examples(100), deadline=None)
@given(histories(), st.sampled_from([0, multiset.SPARE]))
def test_distinct_of_any_history(drawn: tuple[History, set[int]], spare: int) -> None:
    dictionary = Dictionary()
    with patch.object(multiset, "SPARE", spare):
        check(Distinct(dictionary), *drawn, dictionary, different)


def test_distinct_of_a_million_signed_rows() -> None:
    chance = np.random.default_rng(12)
    count = 500_000
    named = (schema.Column("a", Type.BIGINT), schema.Column("b", Type.DOUBLE))
    dictionary = Dictionary()
    world = Columns(named, dictionary, count)
    world.values = [chance.integers(0, 1000, count), chance.integers(0, 300, count) / 8]
    world.nulls = [np.zeros(count, np.bool_), chance.random(count) < 0.01]
    stays = chance.random(count) < 0.1
    operator = Distinct(dictionary)
    answer: Counter[Row] = Counter()
    for start in range(0, 2 * count, 100_000):
        # the rows that go do so 100,000 after they came
        come = np.arange(start, min(start + 100_000, count))
        go = np.arange(max(start - 100_000, 0), min(start, count))
        go = go[~stays[go]]
        chosen = np.concatenate([go, come])
        weights = np.repeat(np.array([-1, 1]), [len(go), len(come)])
        instants = np.arange(len(chosen)) // 7
        told = operator.take(
            Flow(np.zeros(len(chosen), np.int64), instants, weights, (world.take(chosen),)),
            Span(-1, 100_000),
        )
        if not len(chosen):
            break
        rows = told.sources[0].rows(np.arange(len(told)))  # type: ignore[union-attr]
        for row, sign in zip(rows, told.weights.tolist(), strict=True):
            answer[row] += sign
    left = world.take(np.flatnonzero(stays))
    assert +answer == Counter(set(left.rows(np.arange(left.capacity))))
    assert min(answer.values()) == 0


# Sums of changes


@settings(max_examples=examples(80), deadline=None)
@given(histories())
def test_consolidated_rows_are_different_and_have_weight(
    drawn: tuple[History, set[int]],
) -> None:
    history, _ = drawn
    flow = flow_of(enumerate(history), Dictionary())
    expected = []
    for t, instant in enumerate(history):
        total: Counter[tuple[int, Row]] = Counter()
        for query, row, weight in instant.changes:
            if weight:
                total[query, row] += weight
        told = [(q, 10 * t, weight, repr(row)) for (q, row), weight in total.items() if weight]
        expected += sorted(told, key=lambda change: change[2] > 0)
    left = consolidated(flow)
    assert listed(left) == expected
    assert left.marks is flow.marks
