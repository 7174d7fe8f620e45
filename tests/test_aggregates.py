"""Aggregates and DISTINCT over rows that come and go are those of the rows that are there."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from place.engine import multiset
from place.engine.accumulate import Sums, TextOrder
from place.engine.aggregate import Aggregates
from place.engine.columns import Columns, Dictionary
from place.engine.distinct import Distinct, consolidate
from place.engine.multiset import as_numbers
from place.model import schema
from place.model.segment import ARROW
from place.model.space import Space
from place.model.types import LARGEST, SMALLEST, Row, Type
from place.plan.evaluate import aggregate, evaluate
from place.plan.expression import Aggregate, Call, Column, Constant, Expression
from place.plan.query import Query

Numbers = NDArray[np.int64]
Batch = list[tuple[Row, int]]

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
READ = [Column(0, i, column.type, column.name) for i, column in enumerate(COLUMNS)]
ROWS: st.SearchStrategy[Row] = st.tuples(
    *[st.sampled_from([None, *values, *values]) for values in VALUES.values()]
)


def made(function: str, argument: Expression | None, distinct: bool = False) -> Aggregate:
    """An aggregate of the type that the binder gives it."""
    kind = Type.BIGINT
    if argument is not None and function != "COUNT":
        averaged = function == "AVG" and argument.type is not Type.INTERVAL
        kind = Type.DOUBLE if averaged else argument.type
    return Aggregate(function, argument, distinct, kind)


SUMMED = [c for c in READ if c.type in (Type.BIGINT, Type.DOUBLE, Type.INTERVAL, Type.NULL)]
AGGREGATES = [made("COUNT", None)] + [
    made(function, column, distinct)
    for distinct in (False, True)
    for functions, columns in ((("COUNT", "MIN", "MAX"), READ), (("SUM", "AVG"), SUMMED))
    for function in functions
    for column in columns
]
GROUPS: list[tuple[Expression, ...]] = [
    (),
    (READ[2],),
    (READ[1],),
    (READ[0], READ[3]),
    (READ[6], READ[4], READ[5]),
    (Call("UPPER", (READ[2],), Type.STRING),),
    (Constant(1, Type.BIGINT),),
]


def query(groups: tuple[Expression, ...], aggregates: Iterable[Aggregate]) -> Query:
    return Query(
        name="q",
        sources=(),
        subject=0,
        space=Space.PLANAR,
        where=None,
        query_table=None,
        inside=None,
        nearest=None,
        window=None,
        groups=groups,
        aggregates=tuple(aggregates),
        having=None,
        outputs=(),
        distinct=False,
    )


def columns_of(rows: Sequence[Row], dictionary: Dictionary) -> Columns:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    arrays = [pa.array(v, ARROW[c.type]) for v, c in zip(values, COLUMNS, strict=True)]
    return Columns.from_arrow(COLUMNS, dictionary, arrays)


def by_recomputation(asked: Query, rows: Counter[Row]) -> Counter[str]:
    """The rows of all groups, as the reference makes them, so that 1, 1.0 and TRUE differ."""
    assert asked.groups is not None
    groups: dict[Row, list[tuple[Row]]] = {} if asked.groups else {(): []}
    for row in rows.elements():
        groups.setdefault(tuple(evaluate(k, [row]) for k in asked.groups), []).append((row,))
    return Counter(
        repr(key + tuple(aggregate(a, members) for a in asked.aggregates))
        for key, members in groups.items()
    )


def signed(weights: Numbers, rows: Columns) -> Counter[str]:
    """Rows with the sum of their weights."""
    found: Counter[str] = Counter()
    assert set(weights.tolist()) <= {1, -1}
    plain = rows.rows(np.arange(len(weights))) if rows.columns else [()] * len(weights)
    for row, weight in zip(plain, weights.tolist(), strict=True):
        assert repr(row) not in found, "a row is told twice"
        found[repr(row)] += weight
    return found


def difference(before: Counter[str], after: Counter[str]) -> Counter[str]:
    change = Counter(after)
    change.subtract(before)
    return Counter({row: count for row, count in change.items() if count})


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Batches of weighted rows after each of which no row is there less than no times."""
    pool = draw(st.lists(ROWS, min_size=1, max_size=6))
    change = st.tuples(st.sampled_from(pool), st.integers(-3, 3))
    there: Counter[Row] = Counter()
    batches: list[Batch] = []
    for batch in draw(st.lists(st.lists(change, max_size=6), max_size=6)):
        for row, weight in batch:
            there[row] += weight
        for row in [row for row, count in there.items() if count < 0]:
            batch.append((row, -there[row]))
            there[row] = 0
        batches.append(batch)
    return batches


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    histories(),
    st.sampled_from(GROUPS),
    st.lists(st.sampled_from(AGGREGATES), max_size=4, unique=True),
    st.sampled_from([0, multiset.SPARE]),
    st.sampled_from([2, TextOrder.STEP]),
)
def test_any_history(
    history: list[Batch],
    groups: tuple[Expression, ...],
    aggregates: list[Aggregate],
    spare: int,
    step: int,
) -> None:
    asked, dictionary = query(groups, aggregates), Dictionary(["other"])
    with patch.object(multiset, "SPARE", spare), patch.object(TextOrder, "STEP", step):
        operator = Aggregates(asked, dictionary)
        there: Counter[Row] = Counter()
        for _ in range(2):  # a query that loses its focal object begins again
            there.clear()
            before = by_recomputation(asked, there)
            assert signed(*operator.begin()) == before
            assert not signed(*operator.begin())
            for batch in history:
                for row, weight in batch:
                    there[row] += weight
                rows = columns_of([row for row, _ in batch], dictionary)
                weights = np.array([weight for _, weight in batch], np.int64)
                after = by_recomputation(asked, there)
                assert signed(*operator.update([rows], weights)) == difference(before, after)
                before = after
            assert signed(*operator.end()) == difference(before, Counter())


def test_every_aggregate_of_every_type() -> None:
    chance = random.Random(5)
    for groups in GROUPS:
        asked, dictionary = query(groups, AGGREGATES), Dictionary()
        operator = Aggregates(asked, dictionary)
        there: Counter[Row] = Counter()
        before = signed(*operator.begin())
        for _ in range(60):
            batch: Batch = []
            for _ in range(chance.randrange(8)):
                row = tuple(chance.choice([None, *v, *v]) for v in VALUES.values())
                batch.append((row, chance.choice([1, 1, 2])))
            batch += [(row, -n) for row, n in there.items() if chance.random() < 0.3]
            for row, weight in batch:
                there[row] += weight
            after = by_recomputation(asked, +there)
            rows = columns_of([row for row, _ in batch], dictionary)
            changes = operator.update([rows], np.array([w for _, w in batch], np.int64))
            assert signed(*changes) == difference(before, after)
            before = after


def test_a_million_signed_rows() -> None:
    """Values of all sizes, 1e16 beside 1, come and go; what is left is as if nothing had been."""
    chance = np.random.default_rng(11)
    count, batches = 500_000, 20
    sizes = 10.0 ** chance.uniform(-300, 300, count)
    values = chance.choice([-1.0, 1.0], count) * np.where(chance.random(count) < 0.5, sizes, 1.0)
    values[chance.random(count) < 0.2] = 1e16
    named = (schema.Column("g", Type.BIGINT), schema.Column("v", Type.DOUBLE))
    dictionary = Dictionary()
    world = Columns(named, dictionary, count)
    world.values = [chance.integers(0, 10, count), values]
    world.nulls = [np.zeros(count, np.bool_), chance.random(count) < 0.01]
    g, v = Column(0, 0, Type.BIGINT, "g"), Column(0, 1, Type.DOUBLE, "v")
    asked = query((g,), [made("COUNT", None), made("AVG", v), made("SUM", v), made("MIN", v)])
    operator = Aggregates(asked, dictionary)

    # Everything comes at some batch and all but a part of it goes at a later one.
    comes = chance.integers(0, batches // 2, count)
    goes = comes + chance.integers(1, batches // 2, count)
    stays = chance.random(count) < 0.05
    answer: Counter[Row] = Counter()
    told = 0
    for batch in range(batches):
        come, go = np.flatnonzero(comes == batch), np.flatnonzero((goes == batch) & ~stays)
        chosen = np.concatenate([come, go])
        weights = np.repeat(np.array([1, -1]), [len(come), len(go)])
        shuffled = chance.permutation(len(chosen))
        told += len(chosen)
        signs, rows = operator.update([world.take(chosen[shuffled])], weights[shuffled])
        for row, sign in zip(rows.rows(np.arange(len(signs))), signs.tolist(), strict=True):
            answer[row] += sign
    assert told > 900_000
    left = world.take(np.flatnonzero(stays))
    expected = by_recomputation(asked, Counter(left.rows(np.arange(left.capacity))))
    assert Counter(map(repr, (+answer).elements())) == expected
    assert len(expected) == 10


def nearest(exact: Fraction) -> float:
    """The nearest DOUBLE, as Python divides whole numbers."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@pytest.mark.parametrize("is_double", [True, False])
def test_sums_are_exact_whatever_the_weights(is_double: bool) -> None:
    chance = random.Random(3)
    values = VALUES[Type.DOUBLE if is_double else Type.BIGINT]
    for _ in range(300):
        sums = Sums(is_double)
        exact = [Fraction(0)] * 3
        for _ in range(chance.randrange(1, 6)):
            terms = chance.choices(values, k=chance.randrange(1, 5))
            weights = [chance.choice([1, -1, 3, 2**28, -(2**40), 2**57 - 1]) for _ in terms]
            slots = [chance.randrange(3) for _ in terms]
            for slot, term, weight in zip(slots, terms, weights, strict=True):
                exact[slot] += Fraction(term) * weight
            dtype = np.float64 if is_double else np.int64
            arrays = [np.array(slots), as_numbers(np.array(terms, dtype)), np.array(weights)]
            sums.add(*arrays, np.unique(slots), 3)
        every = np.arange(3)
        if is_double:
            assert sums.doubles(every).tolist() == list(map(nearest, exact))
        else:
            found, fits = sums.wholes(every)
            assert [sums.exact(slot) for slot in range(3)] == exact
            assert fits.tolist() == [SMALLEST <= total <= LARGEST for total in exact]
            assert all(f == e for f, e, fit in zip(found.tolist(), exact, fits, strict=True) if fit)


@pytest.mark.parametrize("sign", [1, -1])
def test_many_large_weights_at_once(sign: int) -> None:
    sums, count, weight = Sums(True), 5000, sign * (2**60 - 1)
    terms = as_numbers(np.full(count, 0.1))
    zeros = np.zeros(count, np.int64)
    sums.add(zeros, terms, np.full(count, weight), zeros[:1], 1)
    assert sums.doubles(zeros[:1]).tolist() == [nearest(Fraction(0.1) * weight * count)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_sums_are_rounded_to_the_nearest(terms: list[float]) -> None:
    sums = Sums(True)
    zeros = np.zeros(len(terms), np.int64)
    sums.add(zeros, as_numbers(np.array(terms, np.float64)), zeros + 1, np.zeros(1, np.int64), 1)
    (found,) = sums.doubles(np.zeros(1, np.int64)).tolist()
    assert found == nearest(sum(map(Fraction, terms), Fraction(0)))


HALVES = [1.0, 2.0**-53, 2.0**-54, 2.0**-105, 5e-324, 2.0**52, 0.5, 3 * 2.0**-54]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*HALVES, *[-h for h in HALVES]]), max_size=8))
def test_ties_are_rounded_to_even(terms: list[float]) -> None:
    test_sums_are_rounded_to_the_nearest.hypothesis.inner_test(terms)  # type: ignore[attr-defined]


def test_a_sum_that_is_too_large_is_null_only_as_long_as_it_is() -> None:
    v = READ[1]
    asked, dictionary = query((), [made("SUM", v), made("AVG", v)]), Dictionary()
    operator = Aggregates(asked, dictionary)
    operator.begin()
    row: Row = (None, 1.7e308, None, None, None, None, None)
    rows = columns_of([row, row], dictionary)
    operator.update([rows], np.array([1, 1]))
    weights, answer = operator.update([rows.take(slice(0, 1))], np.array([-1]))
    assert weights.tolist() == [-1, 1]
    assert answer.rows(np.arange(2)) == [(None, None), (1.7e308, 1.7e308)]


@pytest.mark.parametrize("step", [4, 64, TextOrder.STEP])
def test_texts_that_come_in_any_order(step: int) -> None:
    """Whose ranks have to be given anew when there is no room between their neighbours."""
    chance = random.Random(step)
    asked = query((), [made("MIN", READ[2]), made("MAX", READ[2])])
    dictionary, there = Dictionary(), Counter[str]()
    with patch.object(TextOrder, "STEP", step):
        operator = Aggregates(asked, dictionary)
        for _ in range(300):
            come = [f"{chance.random():.3f}" for _ in range(chance.choice([1, 2, 40]))]
            go = [text for text in there.elements() if chance.random() < 0.2]
            there.update(come)
            there.subtract(go)
            rows: list[Row] = [(None, None, text, *[None] * 4) for text in come + go]
            weights = np.repeat(np.array([1, -1]), [len(come), len(go)])
            signs, found = operator.update([columns_of(rows, dictionary)], weights)
            left = +there
            if signs.any():
                (row,) = found.rows(np.flatnonzero(signs > 0))
            assert row == (min(left, default=None), max(left, default=None))


def test_groups_and_values_that_are_gone_take_no_room() -> None:
    asked, dictionary = (
        query((READ[0],), [made("MIN", READ[2]), made("MAX", READ[1])]),
        Dictionary(),
    )
    operator = Aggregates(asked, dictionary)
    for start in range(0, 20_000, 100):
        rows = [
            (key, float(key), f"text {key:05}", None, None, None, None)
            for key in range(start, start + 100)
        ]
        columns = columns_of(rows, dictionary)
        operator.update([columns], np.ones(100, np.int64))
        weights, gone = operator.update([columns], np.full(100, -1, np.int64))
        assert weights.tolist() == [-1] * 100
        assert gone.rows(np.arange(100)) == [(row[0], row[2], row[1]) for row in rows]
    assert operator._groups.used < 1000
    assert len(operator._shown) < 1000


# DISTINCT


@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories(), st.sampled_from([0, multiset.SPARE]))
def test_distinct_of_any_history(history: list[Batch], spare: int) -> None:
    dictionary, there = Dictionary(), Counter[Row]()
    operator = Distinct()
    with patch.object(multiset, "SPARE", spare):
        for batch in history:
            before = Counter(repr(row) for row, count in there.items() if count)
            for row, weight in batch:
                there[row] += weight
            after = Counter(repr(row) for row, count in there.items() if count)
            rows = columns_of([row for row, _ in batch], dictionary)
            changes = operator.update(rows, np.array([w for _, w in batch], np.int64))
            assert signed(*changes) == difference(before, after)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(histories())
def test_consolidated_rows_are_different_and_have_weight(history: list[Batch]) -> None:
    for batch in history:
        expected: Counter[Row] = Counter()
        for row, weight in batch:
            if weight:
                expected[row] += weight
        rows = columns_of([row for row, _ in batch], Dictionary())
        weights, left = consolidate(rows, np.array([w for _, w in batch], np.int64))
        found = list(zip(left.rows(np.arange(len(weights))), weights.tolist(), strict=True))
        assert found == [(row, weight) for row, weight in expected.items() if weight]


def test_distinct_of_a_million_signed_rows() -> None:
    chance = np.random.default_rng(12)
    count = 500_000
    named = (schema.Column("a", Type.BIGINT), schema.Column("b", Type.DOUBLE))
    world = Columns(named, Dictionary(), count)
    world.values = [chance.integers(0, 1000, count), chance.integers(0, 300, count) / 8]
    world.nulls = [np.zeros(count, np.bool_), chance.random(count) < 0.01]
    stays = chance.random(count) < 0.1
    operator = Distinct()
    answer: Counter[Row] = Counter()
    for start in range(0, 2 * count, 100_000):
        # the rows that go do so 100,000 after they came
        come = np.arange(start, min(start + 100_000, count))
        go = np.arange(max(start - 100_000, 0), min(start, count))
        go = go[~stays[go]]
        chosen = np.concatenate([go, come])
        weights = np.repeat(np.array([-1, 1]), [len(go), len(come)])
        signs, rows = operator.update(world.take(chosen), weights)
        for row, sign in zip(rows.rows(np.arange(len(signs))), signs.tolist(), strict=True):
            answer[row] += sign
    left = world.take(np.flatnonzero(stays))
    assert +answer == Counter(set(left.rows(np.arange(left.capacity))))
    assert min(answer.values()) == 0
