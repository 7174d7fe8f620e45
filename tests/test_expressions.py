"""Expressions are worth what DuckDB says that they are worth."""

import math
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.model.schema import Table
from place.plan.bind_expression import ExpressionBinder
from place.plan.evaluate import evaluate
from place.plan.query import Source
from place.session import connect
from place.sql.dialect import parse_one
from place.sql.statements import Select
from tests.harness.examples import examples

SETUP = (
    "CREATE TABLE t (a BIGINT, b BIGINT, c DOUBLE, s STRING, u STRING, p BOOLEAN)"
    " AS VALUES (1, 1, 1, '', '', TRUE)"
)

numbers = st.sampled_from(["a", "b", "c", "0", "1", "2.5", "-3", "NULL", "a", "c"])
texts = st.sampled_from(["s", "u", "'ab'", "'%'", "''", "'a_'", "NULL", "'O''Hare'"])


def arithmetic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(- {e})"),
        inner.map(lambda e: f"ABS({e})"),
        st.tuples(inner, inner).map(lambda t: f"COALESCE({t[0]}, {t[1]})"),
    )


quantities = st.recursive(numbers, arithmetic, max_leaves=4)
comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!="])
leaves = st.one_of(
    st.tuples(quantities, comparison, quantities).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
    st.tuples(texts, comparison, texts).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
    st.tuples(texts, texts).map(lambda t: f"{t[0]} LIKE {t[1]}"),
    st.tuples(texts, texts).map(lambda t: f"{t[0]} NOT LIKE {t[1]}"),
    st.tuples(quantities, quantities, quantities).map(
        lambda t: f"{t[0]} BETWEEN {t[1]} AND {t[2]}"
    ),
    st.tuples(quantities, quantities, quantities).map(lambda t: f"{t[0]} IN ({t[1]}, {t[2]})"),
    st.tuples(texts, texts, texts).map(lambda t: f"{t[0]} NOT IN ({t[1]}, {t[2]})"),
    quantities.map(lambda e: f"{e} IS NULL"),
    texts.map(lambda e: f"{e} IS NOT NULL"),
    st.sampled_from(["p", "TRUE", "FALSE", "p = TRUE", "p IS TRUE", "p IS NOT FALSE"]),
    texts.map(lambda e: f"LENGTH({e}) > 1"),
    texts.map(lambda e: f"UPPER({e}) = LOWER({e})"),
)


def logic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda t: f"({t[0]} AND {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} OR {t[1]})"),
        inner.map(lambda e: f"(NOT {e})"),
        inner.map(lambda e: f"(({e}) IS TRUE)"),
    )


conditions = st.recursive(leaves, logic, max_leaves=6)
rows = st.tuples(
    st.none() | st.integers(-5, 5),
    st.none() | st.integers(-5, 5),
    st.none() | st.sampled_from([-2.5, -1.0, 0.0, 0.5, 2.0, 3.0]),
    st.none() | st.sampled_from(["", "a", "ab", "AB", "aé", "%"]),
    st.none() | st.sampled_from(["", "b", "ab", "O'Hare", "_"]),
    st.none() | st.booleans(),
)

session = connect()
session.sql(SETUP)
TABLE: Table = session.catalog.tables["t"]
database = duckdb.connect()
database.execute("SET error_on_division_by_zero = false")


def ours(expression: str, row: tuple[Any, ...]) -> Any:
    statement = parse_one(f"SELECT {expression} FROM t")
    assert isinstance(statement, Select)
    node = statement.items[0].expression
    assert node is not None
    return evaluate(ExpressionBinder((Source("t", TABLE),)).bind(node), [row])


def theirs(expression: str, row: tuple[Any, ...]) -> Any:
    return database.execute(
        f"SELECT {expression} FROM (SELECT ?::BIGINT a, ?::BIGINT b, ?::DOUBLE c, ?::VARCHAR s,"
        " ?::VARCHAR u, ?::BOOLEAN p)",
        list(row),
    ).fetchone()[0]  # type: ignore[index]


@settings(max_examples=examples(150), deadline=None)
@given(conditions, rows)
def test_conditions(condition: str, row: tuple[Any, ...]) -> None:
    assert ours(condition, row) is theirs(condition, row)


@settings(max_examples=examples(150), deadline=None)
@given(quantities, rows)
def test_arithmetic(quantity: str, row: tuple[Any, ...]) -> None:
    mine, other = ours(quantity, row), theirs(quantity, row)
    if mine is None or other is None:
        assert mine is other or (other is not None and not math.isfinite(other))
    else:
        assert math.isclose(float(mine), float(other), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("9223372036854775807 + 1", None),
        ("-9223372036854775808 - 1", None),
        ("- (a - 9223372036854775807 - 2)", None),
        ("1e308 * 10", None),
        ("1 / 0", None),
        ("1 % 0", None),
        ("-7 % 3", -1),
        ("7 / 2", 3.5),
        ("0.0 * -1", 0.0),
        ("NULL = NULL", None),
        ("NOT (NULL AND FALSE)", True),
        ("1 IN (2, NULL)", None),
        ("1 NOT IN (2, NULL)", None),
        ("1 IN (1, NULL)", True),
        ("'a%c' LIKE 'a%c'", True),
        ("'abc' LIKE 'a.c'", False),
        ("INTERVAL '90 seconds' / INTERVAL 1 MINUTE", 1.5),
        ("COALESCE(NULL, 1, 2.5)", 1.0),
    ],
)
def test_rules(expression: str, value: Any) -> None:
    result = ours(expression, (-1, 1, 1.0, "", "", True))
    assert result == value
    assert type(result) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, result) == math.copysign(1, value)
