"""Operators that need whole answers: after every instant, what they have told is what recomputation
from scratch finds, however the flow of a tick is cut into calls."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine import multiset
from place.engine.accumulate import TextOrder
from place.engine.columns import Columns, Dictionary
from place.engine.consolidate import consolidated
from place.engine.flow import NO_MARKS, Flow, Marks
from place.engine.operators.contract import NEVER, Operator, Parameters, Span
from place.engine.operators.distinct import Distinct
from place.engine.operators.group import Group
from place.model import schema
from place.model.types import LARGEST, SMALLEST, Row, Type
from place.plan.evaluate import aggregate, evaluate
from place.plan.expression import Aggregate, Call, Column, Compare, Constant, Expression, Or

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
QUERIES = 3


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


# Flows


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


# GROUP BY


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


@settings(max_examples=400, deadline=None, derandomize=True)
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


# DISTINCT


def different(there: Counter[tuple[int, Row]], marked: Counter[int]) -> Answer:
    return Counter((query, repr(row)) for (query, row), count in there.items() if count > 0)


@settings(max_examples=300, deadline=None, derandomize=True)
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


@settings(max_examples=200, deadline=None, derandomize=True)
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
