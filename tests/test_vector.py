"""Columns at a time are worth what rows are worth one by one."""

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.engine.columns import Columns, Dictionary
from place.engine.vector import evaluate_all, holds, outputs, same_rows
from place.model import schema
from place.model.segment import ARROW
from place.model.shape import Circle, Polygon, Rectangle
from place.model.space import Space
from place.model.time import EARLIEST, LATEST
from place.model.types import LARGEST, SMALLEST, Row, Type
from place.plan.bind_expression import ExpressionBinder
from place.plan.evaluate import evaluate
from place.plan.expression import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Expression,
    In,
    IsNull,
    IsTruth,
    Lies,
    Like,
    Negate,
    Not,
    Or,
)
from place.plan.functions import FIELDS, INTERVAL_FIELDS, TRUNCATIONS
from place.plan.query import Output, Source
from place.sql.dialect import parse_one
from place.sql.statements import Select
from tests.harness.examples import examples
from tests.test_expressions import TABLE, conditions, quantities
from tests.test_expressions import rows as plain_rows

B, D, S, P, T, V, N = TYPES = (
    Type.BIGINT,
    Type.DOUBLE,
    Type.STRING,
    Type.BOOLEAN,
    Type.TIMESTAMP,
    Type.INTERVAL,
    Type.NULL,
)
COLUMNS = tuple(schema.Column(kind.value.lower(), kind) for kind in TYPES)
WHOLE = [*range(-3, 4), 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 3037000500, LARGEST, SMALLEST]
VALUES: dict[Type, list[Any]] = {
    B: WHOLE,
    D: [
        *(0.0, -0.0, 0.5, 1.0, -2.5, 3.0, 0.1, 1e16, 2.0**53, 2.0**53 + 2, 2.0**62),
        *(2.0**63, -(2.0**63), 2.0**64, 1e308, -1e308, 5e-324),
    ],
    S: ["", "a", "ab", "AB", "aé", "É", "%", "a_", "_%", "ß", "b\n", " 12", "2.5 ", "true"],
    P: [True, False],
    T: [EARLIEST, EARLIEST + 1, -1, 0, 10**15, LATEST],
    V: [*WHOLE, 10**12],
    N: [None],
}
chance = random.Random(1)
WORLD: list[tuple[Row, Row]] = [
    tuple(  # type: ignore[misc]
        tuple(None if chance.random() < 0.1 else chance.choice(VALUES[k]) for k in TYPES)
        for _ in range(2)
    )
    for _ in range(60)
]

Sub = Callable[..., Expression]
"""An expression of one of some types."""
Shape = Callable[[st.DrawFn, Sub], Expression]


def arithmetic(ops: str, left: Type, right: Type, kind: Type) -> Shape:
    return lambda draw, sub: Arithmetic(draw(st.sampled_from(ops)), sub(left), sub(right), kind)  # type: ignore[arg-type]


def call(function: str, kind: Type, *arguments: Type) -> Shape:
    return lambda draw, sub: Call(function, (sub(*arguments),), kind)


def coalesce(kind: Type, *others: Type) -> Shape:
    def shape(draw: st.DrawFn, sub: Sub) -> Expression:
        count = draw(st.integers(1, 3))
        return Call("COALESCE", tuple(sub(kind, kind, N, *others) for _ in range(count)), kind)

    return shape


def over(function: str, kind: Type, argument: Type) -> Shape:
    """An aggregate over its arguments."""

    def shape(draw: st.DrawFn, sub: Sub) -> Expression:
        count = draw(st.integers(1, 4))
        return Call(function, tuple(sub(argument) for _ in range(count)), kind)

    return shape


def calls(names: str, kind: Type, *arguments: Type) -> Shape:
    """One of some functions, of arguments of these types, any of which may be NULL."""
    return lambda draw, sub: Call(
        draw(st.sampled_from(names.split(","))),
        tuple(sub(each, each, N) for each in arguments),
        kind,
    )


def case(kind: Type, *others: Type) -> Shape:
    def shape(draw: st.DrawFn, sub: Sub) -> Expression:
        parts = [sub(p, p, N) for _ in range(draw(st.integers(1, 2))) for p in (P, kind)]
        return Call("CASE", (*parts, sub(kind, N, *others)), kind)

    return shape


def extremes(kind: Type, *others: Type) -> Shape:
    names = st.sampled_from(["GREATEST", "LEAST"])
    return lambda draw, sub: Call(draw(names), tuple(sub(kind, N, *others) for _ in range(3)), kind)


def comparison(*kinds: Type) -> Shape:
    ops = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    return lambda draw, sub: Compare(draw(ops), sub(*kinds), sub(*kinds))  # type: ignore[arg-type]


def listed(*kinds: Type) -> Shape:
    return lambda draw, sub: In(
        sub(*kinds), tuple(sub(*kinds) for _ in range(draw(st.integers(1, 3))))
    )


def listed_constants(kind: Type) -> Shape:
    values = st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=9)
    return lambda draw, sub: In(sub(kind), tuple(Constant(value, kind) for value in draw(values)))


def several(join: type[And] | type[Or]) -> Shape:
    return lambda draw, sub: join(tuple(sub(P, P, N) for _ in range(draw(st.integers(1, 3)))))


SHAPES: dict[Type, list[Shape]] = {
    B: [arithmetic("+-*%", B, B, B), call("ABS", B, B), call("LENGTH", B, S, N), coalesce(B)],
    D: [
        *(arithmetic("+-*/%", left, right, D) for left, right in ((B, D), (D, B), (D, D), (D, N))),
        arithmetic("/", B, B, D),
        arithmetic("/", V, V, D),
        call("ABS", D, D),
        coalesce(D, B),
    ],
    S: [call("LOWER", S, S, N), call("UPPER", S, S, N), coalesce(S)],
    T: [arithmetic("+-", T, V, T), arithmetic("+", V, T, T), coalesce(T)],
    V: [
        *(arithmetic("+-", V, V, V), arithmetic("-", T, T, V)),
        *(arithmetic("*", V, B, V), arithmetic("*", B, V, V)),
        *(call("ABS", V, V), coalesce(V)),
    ],
    N: [coalesce(N), call("ABS", N, N)],
    P: [
        *(
            shape(*some)
            for some in ((B, D, N), (S,), (S, N), (T, N), (V,), (P,))
            for shape in (comparison, listed)
        ),
        *(listed_constants(kind) for kind in (B, D, S, P, T, V)),
        lambda draw, sub: In(sub(T), (sub(T), sub(V), sub(S))),
        lambda draw, sub: Like(sub(S, S, N), sub(S, S, N)),
        *(several(And), several(Or), coalesce(P)),
        lambda draw, sub: Not(sub(P, P, N)),
        lambda draw, sub: IsNull(sub(*TYPES)),
        lambda draw, sub: IsTruth(sub(P, P, N), draw(st.booleans())),
    ],
}
FIELD = ",".join(f"EXTRACT {field}" for field in FIELDS if field != "EPOCH")
LENGTH = ",".join(f"EXTRACT INTERVAL {field}" for field in INTERVAL_FIELDS if field != "EPOCH")
TRUNCATED = ",".join(f"DATE_TRUNC {unit}" for unit in TRUNCATIONS)
SHAPES[B] += [
    *(calls(FIELD, B, T), calls(LENGTH, B, V), calls("FLOOR,CEIL,ROUND", B, B)),
    *(calls("CAST", B, D), calls("CAST", B, S), calls("CAST", B, P)),
]
SHAPES[D] += [
    *(calls("FLOOR,CEIL,ROUND,SQRT", D, D), calls("SQRT", D, B), calls("POWER", D, D, B)),
    *(calls("POWER", D, D, D), calls("EXTRACT EPOCH", D, T), calls("EXTRACT EPOCH", D, V)),
    *(calls("CAST", D, B), calls("CAST", D, S), calls("CAST", D, P)),
]
SHAPES[S] += [
    *(calls("SUBSTR,LEFT,RIGHT", S, S, B), calls("SUBSTR", S, S, B, B)),
    *(calls("TRIM,LTRIM,RTRIM", S, S), calls("CONCAT", S, S, S, S), calls("||", S, S, S)),
    *(calls("CAST", S, B), calls("CAST", S, D), calls("TEXT OF BOOLEAN", S, P)),
    *(calls("TEXT OF TIMESTAMP", S, T), calls("TEXT OF INTERVAL", S, V)),
]
SHAPES[D] += [
    calls("SPEED planar", D, D, D, D, D, V),
    calls("HEADING planar", D, D, D, D, D),
]
AREAS = (
    Rectangle(-1, -1, 2, 2),
    Circle(0.5, 0.5, 1.0),
    Polygon((((0.0, 0.0), (3.0, 0.0), (0.0, 3.0)),)),
)
SHAPES[P].append(
    lambda draw, sub: Lies(
        sub(D, B, N), sub(D, B, N), draw(st.sampled_from(AREAS)), draw(st.sampled_from(Space))
    )
)
SHAPES[T] += [calls(TRUNCATED, T, T), calls("CAST", T, S)]
SHAPES[V] += [calls("CAST", V, S)]
SHAPES[P] += [calls("CAST", P, B), calls("CAST", P, D), calls("CAST", P, S)]
for kind in (B, D, S, P, T, V):
    SHAPES[kind] += [case(kind), extremes(kind)]
SHAPES[D] += [case(D, B), extremes(D, B)]
for kind in (B, D):
    SHAPES[kind].append(lambda draw, sub, kind=kind: Call("ROUND", (sub(kind), sub(B)), kind))  # type: ignore[misc]
for kind in (B, D, S, P, T, V):
    SHAPES[kind] += [over("MIN", kind, kind), over("MAX", kind, kind)]
    SHAPES[B].append(over("COUNT", B, kind))
for kind in (B, D, V):
    SHAPES[kind].append(over("SUM", kind, kind))
    SHAPES[V if kind is V else D].append(over("AVG", V if kind is V else D, kind))
for kind in (B, D, V, N):
    SHAPES[kind].append(lambda draw, sub, kind=kind: Negate(sub(kind), kind))  # type: ignore[misc]


def grown(draw: st.DrawFn, kind: Type, depth: int) -> Expression:
    """An expression of a type, of operations within operations up to a depth."""
    if depth and draw(st.integers(0, 4)):
        shape = draw(st.sampled_from(SHAPES[kind]))
        return shape(draw, lambda *kinds: grown(draw, draw(st.sampled_from(kinds)), depth - 1))
    if draw(st.integers(0, 3)):
        source = draw(st.integers(0, 1))
        return Column(source, TYPES.index(kind), kind, f"{kind.value}{source}")
    return Constant(draw(st.sampled_from([*VALUES[kind]])), kind)


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    return grown(draw, draw(st.sampled_from([*TYPES, P, P, P])), draw(st.integers(1, 3)))


def columns_of(
    columns: tuple[schema.Column, ...], given: Sequence[Row], dictionary: Dictionary
) -> Columns:
    values = list(zip(*given, strict=True)) if given else [()] * len(columns)
    arrays = [pa.array(v, ARROW[c.type]) for v, c in zip(values, columns, strict=True)]
    return Columns.from_arrow(columns, dictionary, arrays)


def found(expression: Expression, sources: list[Columns], size: int) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = outputs([Output("it", expression)], sources, size, sources[0].dictionary)
    assert made.capacity == size
    return made.plain(0, np.arange(size))


def exactly(values: list[Any]) -> list[str]:
    """What tells 1 from 1.0 and from TRUE, and 0.0 from -0.0."""
    return [repr(value) for value in values]


@settings(max_examples=examples(300), deadline=None)
@given(expressions(), st.sampled_from([0, 1, 2, 60, 60]), st.sampled_from([0, 200]))
def test_as_row_by_row(expression: Expression, size: int, others: int) -> None:
    """On few and many rows, in a dictionary with few and many other texts."""
    dictionary = Dictionary(f"text {i}" for i in range(others))
    rows = WORLD[:size]
    sources = [columns_of(COLUMNS, [row[i] for row in rows], dictionary) for i in (0, 1)]
    expected = [evaluate(expression, row) for row in rows]
    assert exactly(found(expression, sources, size)) == exactly(expected)
    if expression.type in (Type.BOOLEAN, Type.NULL):
        truth = holds(expression, sources, size, dictionary)
        assert truth.tolist() == [value is True for value in expected]


@settings(max_examples=examples(150), deadline=None)
@given(conditions | quantities, st.lists(plain_rows, max_size=5))
def test_statements_as_row_by_row(written: str, given_rows: list[Row]) -> None:
    statement = parse_one(f"SELECT {written} FROM t")
    assert isinstance(statement, Select)
    parsed = statement.items[0].expression
    assert parsed is not None
    bound = ExpressionBinder((Source("t", TABLE),)).bind(parsed)
    columns = columns_of(TABLE.columns, given_rows, Dictionary())
    expected = [evaluate(bound, [row]) for row in given_rows]
    assert exactly(found(bound, [columns], len(given_rows))) == exactly(expected)


EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63 - 512, 2**63 - 513, -(2**63), -(2**63) + 1]


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_large_numbers_are_not_rounded_to_be_compared(op: Any) -> None:
    numbers = [2.0**53, 2.0**53 + 2, 2.0**63, 2.0**63 - 1024, -(2.0**63), -(2.0**63) - 2048]
    pairs = [(i, d) for i in EDGES for d in numbers]
    named = (schema.Column("i", Type.BIGINT), schema.Column("d", Type.DOUBLE))
    columns = columns_of(named, pairs, Dictionary())
    i, d = Column(0, 0, Type.BIGINT, "i"), Column(0, 1, Type.DOUBLE, "d")
    for expression in (Compare(op, i, d), Compare(op, d, i)):
        assert found(expression, [columns], len(pairs)) == [
            evaluate(expression, [p]) for p in pairs
        ]


def test_products_of_whole_numbers_are_exact_or_null() -> None:
    sides = [3037000499, 3037000500, 2**31, 2**32, 2**32 - 1, -(2**31), -(2**32), 1, -1, *EDGES]
    pairs = [(a, b) for a in sides for b in sides]
    named = (schema.Column("a", Type.BIGINT), schema.Column("b", Type.BIGINT))
    columns = columns_of(named, pairs, Dictionary())
    a, b = (Column(0, i, Type.BIGINT, "ab"[i]) for i in (0, 1))
    for op in ("+", "-", "*", "%"):
        expression = Arithmetic(op, a, b, Type.BIGINT)
        assert found(expression, [columns], len(pairs)) == [
            evaluate(expression, [p]) for p in pairs
        ]


def test_rows_are_the_same_where_both_are_null() -> None:
    dictionary = Dictionary()
    named = (schema.Column("a", Type.BIGINT), schema.Column("s", Type.STRING))
    one = columns_of(named, [(1, "x"), (None, "x"), (None, None), (1, None)], dictionary)
    two = columns_of(named, [(1, "x"), (1, "x"), (None, None), (1, "x")], dictionary)
    assert same_rows(one, two, None).tolist() == [True, False, True, False]
    assert same_rows(one, two, [0]).tolist() == [True, False, True, True]


def test_a_constant_is_as_long_as_the_rows() -> None:
    vector = evaluate_all(Constant("x", Type.STRING), [], 3, Dictionary(["y"]))
    assert vector.values.tolist() == [1, 1, 1]
    assert vector.nulls.tolist() == [False] * 3
