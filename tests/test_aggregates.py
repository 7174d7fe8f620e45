"""GROUP BY, aggregates and HAVING: after every instant, what they have told is what recomputation
from scratch finds, however the flow of a tick is cut into calls."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine import multiset
from place.engine.accumulate import TextOrder
from place.engine.columns import Columns, Dictionary
from place.engine.consolidate import consolidated
from place.engine.flow import Flow
from place.engine.operators.contract import NEVER, Parameters, Span
from place.engine.operators.distinct import Distinct
from place.engine.operators.group import Group
from place.model import schema
from place.model.types import Row, Type
from place.plan.evaluate import aggregate, evaluate
from place.plan.expression import Aggregate, Call, Column, Compare, Constant, Expression, Or
from tests.harness.examples import examples
from tests.harness.flows import (
    COLUMNS,
    Answer,
    History,
    Instant,
    check,
    flow_of,
    histories,
    listed,
    pieces,
    random_history,
)

READ = [Column(0, i, column.type, column.name) for i, column in enumerate(COLUMNS)]


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


def by_recomputation(
    groups: tuple[Expression, ...], aggregates: Sequence[Aggregate]
) -> Callable[[Counter[tuple[int, Row]], Counter[int]], Answer]:
    """The rows of all groups, as the reference makes them."""

    def recompute(there: Counter[tuple[int, Row]], marked: Counter[int]) -> Answer:
        members: dict[tuple[int, Row], list[tuple[Row]]] = {}
        if not groups:
            members = {(query, ()): [] for query, count in marked.items() if count > 0}
        for query, row in there.elements():
            key = (query, tuple(evaluate(k, [row]) for k in groups))
            if groups or key in members:
                members.setdefault(key, []).append((row,))
        return Counter(
            (query, repr(key + tuple(aggregate(a, rows) for a in aggregates)))
            for (query, key), rows in members.items()
        )

    return recompute


def group(
    groups: tuple[Expression, ...], aggregates: Iterable[Aggregate], dictionary: Dictionary
) -> Group:
    return Group(groups, tuple(aggregates), None, 2, Parameters((), dictionary), dictionary)


@settings(max_examples=examples(150), deadline=None)
@given(
    histories(),
    st.sampled_from(GROUPS),
    st.lists(st.sampled_from(AGGREGATES), max_size=4, unique=True),
    st.sampled_from([0, multiset.SPARE]),
    st.sampled_from([2, TextOrder.STEP]),
)
def test_groups_of_any_history(
    drawn: tuple[History, set[int]],
    groups: tuple[Expression, ...],
    aggregates: list[Aggregate],
    spare: int,
    step: int,
) -> None:
    dictionary = Dictionary(["other"])
    if not groups and not aggregates:
        aggregates = [AGGREGATES[0]]
    with patch.object(multiset, "SPARE", spare), patch.object(TextOrder, "STEP", step):
        operator = group(groups, aggregates, dictionary)
        check(operator, *drawn, dictionary, by_recomputation(groups, aggregates))
    assert operator.next_expiry() == NEVER
    assert operator.save() is None


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_every_aggregate_of_every_type(groups: tuple[Expression, ...]) -> None:
    chance = random.Random(5)
    history, dictionary = random_history(chance, 60), Dictionary()
    cuts = {t for t in range(60) if chance.random() < 0.3}
    operator = group(groups, AGGREGATES, dictionary)
    check(operator, history, cuts, dictionary, by_recomputation(groups, AGGREGATES))


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_cuts_change_nothing(groups: tuple[Expression, ...]) -> None:
    chance = random.Random(6)
    history = random_history(chance, 200)
    found = []
    for often in (0.0, 0.1, 1.0):
        dictionary, told = Dictionary(), []
        operator = group(groups, AGGREGATES[:20], dictionary)
        for piece in pieces(history, {t for t in range(200) if chance.random() < often}):
            told += listed(operator.take(flow_of(piece, dictionary), Span(0, NEVER)))
        found.append(sorted(told))
    assert len(found[0]) > 300
    assert found[0] == found[1] == found[2]


def test_having_reads_the_constants_of_each_query() -> None:
    """Of its two sides the query of a row has the second as its own constant."""
    dictionary = Dictionary()
    parameters = Parameters((Type.BIGINT, Type.STRING), dictionary)
    limits: list[Row] = [(1, "a"), (2, "z"), (None, "ab")]
    for query, constants in enumerate(limits):
        parameters.put(query, constants)
    many = Compare(">=", Column(0, 1, Type.BIGINT, "n"), Column(2, 0, Type.BIGINT, "limit"))
    named = Compare("=", Column(0, 0, Type.STRING, "s"), Column(2, 1, Type.STRING, "text"))
    having = Or((many, named))
    aggregates = (made("COUNT", None),)
    operator = Group((READ[2],), aggregates, having, 2, parameters, dictionary)
    every = by_recomputation((READ[2],), aggregates)

    def recompute(there: Counter[tuple[int, Row]], marked: Counter[int]) -> Answer:
        kept = {}
        for (query, row), count in every(there, marked).items():
            if evaluate(having, [eval(row), (), limits[query]]):
                kept[query, row] = count
        return Counter(kept)

    check(operator, random_history(random.Random(7), 60), {20, 21}, dictionary, recompute)


def test_a_key_may_be_a_constant_of_the_query() -> None:
    dictionary = Dictionary()
    parameters = Parameters((Type.BIGINT,), dictionary)
    parameters.put(0, (5,))
    parameters.put(1, (6,))
    key = Column(2, 0, Type.BIGINT, "constant")
    operator = Group((key,), (made("COUNT", None),), None, 2, parameters, dictionary)
    row: Row = (None,) * len(COLUMNS)
    told = operator.take(
        flow_of([(0, Instant([(1, row, 1), (0, row, 2)]))], dictionary), Span(-1, 0)
    )
    assert told.sources[1:] == (None,)
    assert [column.name for column in told.sources[0].columns] == ["constant", "COUNT(*)"]  # type: ignore[union-attr]
    assert listed(told) == [(1, 0, 1, "(6, 1)"), (0, 0, 1, "(5, 2)")]


def test_a_query_without_groups_has_its_row_while_it_is_marked() -> None:
    dictionary = Dictionary()
    operator = group((), [made("COUNT", None), made("MIN", READ[0])], dictionary)
    row: Row = (4, *[None] * 6)
    history = [
        Instant(marks=[(0, 1), (1, 1)]),
        Instant([(0, row, 1)], [(0, -1)]),
        Instant([(0, row, 1), (1, row, 1)]),
        Instant(marks=[(0, -1), (0, 1), (0, 1)]),
        Instant([(0, row, -2), (1, row, -1)], [(0, -1), (1, -1)]),
        Instant(marks=[(2, 1), (2, -1)]),
    ]
    expected = [
        (0, 0, 1, "(0, None)"),
        (1, 0, 1, "(0, None)"),
        (0, 10, -1, "(0, None)"),
        (1, 20, -1, "(0, None)"),
        (1, 20, 1, "(1, 4)"),
        (0, 30, 1, "(2, 4)"),
        (0, 40, -1, "(2, 4)"),
        (1, 40, -1, "(1, 4)"),
    ]
    told = operator.take(flow_of(enumerate(history), dictionary), Span(-1, 50))
    assert listed(told) == expected
    assert len(told.marks) == 10


def test_flows_of_read_only_arrays() -> None:
    """Kernels are not compiled again, and do not fail, on arrays that others own."""
    dictionary = Dictionary()
    flow = flow_of(enumerate(random_history(random.Random(1), 5)), dictionary)
    for array in (flow.queries, flow.instants, flow.weights):
        array.flags.writeable = False
    for operator in (group((READ[2],), AGGREGATES, dictionary), Distinct(dictionary)):
        assert len(operator.take(flow, Span(-1, 50)))
    assert len(consolidated(flow))


def test_a_million_signed_rows() -> None:
    """Values of all sizes, 1e16 beside 1, come and go; what is left is as if nothing had been."""
    chance = np.random.default_rng(11)
    count, instants = 500_000, 2000
    sizes = 10.0 ** chance.uniform(-300, 300, count)
    values = chance.choice([-1.0, 1.0], count) * np.where(chance.random(count) < 0.5, sizes, 1.0)
    values[chance.random(count) < 0.2] = 1e16
    named = (schema.Column("g", Type.BIGINT), schema.Column("v", Type.DOUBLE))
    dictionary = Dictionary()
    world = Columns(named, dictionary, count)
    world.values = [chance.integers(0, 5, count), values]
    world.nulls = [np.zeros(count, np.bool_), chance.random(count) < 0.01]
    g, v = Column(0, 0, Type.BIGINT, "g"), Column(0, 1, Type.DOUBLE, "v")
    aggregates = [made("COUNT", None), made("AVG", v), made("SUM", v), made("MIN", v)]
    operator = group((g,), aggregates, dictionary)

    # Everything comes at some instant and all but a part of it goes at a later one.
    queries = chance.integers(0, 2, count)
    comes = chance.integers(0, instants // 2, count)
    goes = comes + chance.integers(1, instants // 2, count)
    stays = chance.random(count) < 0.05
    chosen = np.concatenate([np.arange(count), np.flatnonzero(~stays)])
    when = np.concatenate([comes, goes[~stays]])
    weights = np.repeat(np.array([1, -1]), [count, len(chosen) - count])
    order = np.argsort(when, kind="stable")
    chosen, when, weights = chosen[order], when[order], weights[order]
    assert len(chosen) > 900_000
    answer: Counter[tuple[int, Row]] = Counter()
    for start, end in ((0, 1), (1, 400), (400, 401), (401, 1500), (1500, instants)):
        now = slice(*np.searchsorted(when, [start, end]))
        flow = Flow(queries[chosen[now]], when[now], weights[now], (world.take(chosen[now]), None))
        told = operator.take(flow, Span(start - 1, end - 1))
        rows = told.sources[0].rows(np.arange(len(told)))  # type: ignore[union-attr]
        for query, row, sign in zip(
            told.queries.tolist(), rows, told.weights.tolist(), strict=True
        ):
            answer[query, row] += sign
    assert sum(answer.values()) == 10
    left = Counter(zip(queries[stays].tolist(), world.rows(np.flatnonzero(stays)), strict=True))
    expected = by_recomputation((g,), aggregates)(left, Counter())
    assert Counter((query, repr(row)) for query, row in (+answer).elements()) == expected
    assert len(expected) == 10


def test_a_sum_that_is_too_large_is_null_only_as_long_as_it_is() -> None:
    dictionary = Dictionary()
    operator = group((), [made("SUM", READ[1]), made("AVG", READ[1])], dictionary)
    row: Row = (None, 1.7e308, None, None, None, None, None)
    history = [Instant([(0, row, 2)], [(0, 1)]), Instant([(0, row, -1)])]
    told = operator.take(flow_of(enumerate(history), dictionary), Span(-1, 10))
    nothing, one = "(None, None)", "(1.7e+308, 1.7e+308)"
    assert listed(told) == [(0, 0, 1, nothing), (0, 10, -1, nothing), (0, 10, 1, one)]


# MIN and MAX


@pytest.mark.parametrize("step", [4, 64, TextOrder.STEP])
def test_texts_that_come_in_any_order(step: int) -> None:
    """Whose ranks have to be given anew when there is no room between their neighbours."""
    chance = random.Random(step)
    dictionary, there = Dictionary(), Counter[Row]()
    history: History = [Instant(marks=[(0, 1)])]
    for _ in range(300):
        texts = [f"{chance.random():.3f}" for _ in range(chance.choice([1, 2, 40]))]
        come: list[Row] = [(None, None, text, *[None] * 4) for text in texts]
        go = [row for row in there.elements() if chance.random() < 0.2]
        there.update(come)
        there.subtract(go)
        changes = [(0, row, 1) for row in come] + [(0, row, -1) for row in go]
        history.append(Instant(changes))
    cuts = {t for t in range(300) if chance.random() < 0.5}
    aggregates = [made("MIN", READ[2]), made("MAX", READ[2])]
    with patch.object(TextOrder, "STEP", step):
        operator = group((), aggregates, dictionary)
        check(operator, history, cuts, dictionary, by_recomputation((), aggregates))


def test_groups_and_values_that_are_gone_take_no_room() -> None:
    dictionary = Dictionary()
    operator = group((READ[0],), [made("MIN", READ[2]), made("MAX", READ[1])], dictionary)
    for start in range(0, 20_000, 100):
        rows: list[Row] = [
            (key, float(key), f"text {key:05}", None, None, None, None)
            for key in range(start, start + 100)
        ]
        both = [Instant([(start, row, sign) for row in rows]) for sign in (1, -1)]
        told = operator.take(flow_of(enumerate(both), dictionary), Span(-1, 10))
        gone = [(start, 10, -1, repr((row[0], row[2], row[1]))) for row in rows]
        assert listed(told)[100:] == gone
    assert operator._groups.used < 1000
    assert len(operator._shown) < 1000


def test_queries_that_are_gone_take_no_room_and_marked_ones_keep_theirs() -> None:
    dictionary = Dictionary()
    operator = group((), [made("COUNT", None)], dictionary)
    operator.take(flow_of([(0, Instant(marks=[(0, 1)]))], dictionary), Span(-1, 0))
    for query in range(1, 2000):
        both = [Instant(marks=[(query, 1)]), Instant(marks=[(query, -1)])]
        operator.take(flow_of(enumerate(both, 1), dictionary), Span(0, 20))
    assert operator._groups.used < 1000
    row: Row = (None,) * len(COLUMNS)
    told = operator.take(flow_of([(3, Instant([(0, row, 1)]))], dictionary), Span(20, 30))
    assert listed(told) == [(0, 30, -1, "(0,)"), (0, 30, 1, "(1,)")]
