"""Functions are worth what DuckDB's functions of the same names are worth, on random values."""

import math
from datetime import datetime
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from place.errors import StatementError
from place.model.schema import Table
from place.model.time import instant_of, moment_at
from place.plan.bind_expression import ExpressionBinder
from place.plan.evaluate import evaluate
from place.plan.expression import show
from place.plan.query import Source
from place.session import connect
from place.sql.dialect import parse_one
from place.sql.statements import Select
from tests.harness.examples import examples

EXAMPLES = examples(100)
KINDS = ("a BIGINT", "b BIGINT", "c DOUBLE", "d DOUBLE", "s STRING", "u STRING", "p BOOLEAN")
session = connect()
session.sql(
    f"CREATE TABLE t ({', '.join(KINDS)}, ts TIMESTAMP)"
    " AS VALUES (1, 1, 1, 1, '', '', TRUE, '2026-01-01')"
)
TABLE: Table = session.catalog.tables["t"]
database = duckdb.connect()
database.execute("SET error_on_division_by_zero = false; SET TimeZone = 'UTC'")

whole = st.none() | st.integers(-9, 9) | st.integers(-(10**12), 10**12)
broken = st.none() | st.sampled_from([-2.5, 0.5, 1.5, 2.675, -0.0, 1e300]) | st.floats(-1e6, 1e6)
texts = st.none() | st.text("aBé \t%1", max_size=6)
moments = st.none() | st.datetimes(datetime(1600, 1, 1), datetime(2300, 1, 1))
small, truths = st.none() | st.integers(-9, 9), st.none() | st.booleans()
rows = st.tuples(whole, small, broken, broken, texts, texts, truths, moments)

FORMS = """
SUBSTR(s, b) ; SUBSTRING(s, b, 2) ; SUBSTR(s, 2, b) ; LEFT(s, b) ; RIGHT(s, b) ; UPPER(u)
LOWER(u) ; LENGTH(s) ; TRIM(s) ; LTRIM(s) ; RTRIM(s) ; CONCAT(s, a, u) ; s || u ; s || '-' || a
CONCAT(p, s) ; 'x' || c ; ROUND(c) ; ROUND(c, 2) ; ROUND(c, -1) ; ROUND(a) ; ROUND(a, -2)
ROUND(c, b) ; FLOOR(c) ; CEIL(c) ; CEILING(d) ; ABS(c) ; SQRT(ABS(c)) ; POWER(c, 2) ; POWER(2, b)
POW(ABS(d), 0.5) ; MOD(a, b) ; MOD(c, 3) ; a % b ; GREATEST(a, b) ; LEAST(a, c, d)
GREATEST(s, u) ; LEAST(s, u, 'b') ; GREATEST(p, FALSE) ; NULLIF(a, b) ; NULLIF(s, u)
COALESCE(a, c) ; COALESCE(s, u, 'none')
CASE WHEN a > 0 THEN 'up' WHEN a < 0 THEN 'down' ELSE 'level' END
CASE b WHEN 1 THEN c WHEN 2 THEN d END ; CASE WHEN p THEN a ELSE c END
CASE s WHEN u THEN 1 ELSE 0 END ; CASE WHEN c > d THEN CASE WHEN p THEN 1 END END
EXTRACT(YEAR FROM ts) ; EXTRACT(MONTH FROM ts) ; EXTRACT(DAY FROM ts) ; EXTRACT(HOUR FROM ts)
EXTRACT(MINUTE FROM ts) ; EXTRACT(SECOND FROM ts) ; EXTRACT(DOW FROM ts) ; EXTRACT(ISODOW FROM ts)
EXTRACT(DOY FROM ts) ; EXTRACT(WEEK FROM ts) ; EXTRACT(QUARTER FROM ts) ; EXTRACT(EPOCH FROM ts)
EXTRACT(MILLISECOND FROM ts) ; EXTRACT(MICROSECOND FROM ts) ; DATE_PART('hour', ts)
DATE_TRUNC('second', ts) ; DATE_TRUNC('minute', ts) ; DATE_TRUNC('hour', ts)
DATE_TRUNC('day', ts) ; DATE_TRUNC('week', ts) ; DATE_TRUNC('month', ts)
DATE_TRUNC('quarter', ts) ; DATE_TRUNC('year', ts) ; DATE_TRUNC('millisecond', ts)
ts + INTERVAL '90 minutes' ; ts > TIMESTAMP '2026-01-31 12:00:00' ; ts < DATE '2000-02-29'
EXTRACT(EPOCH FROM ts - TIMESTAMP '2000-01-01 00:00:00') ; CAST(ts AS VARCHAR) ; CAST(c AS BIGINT)
CAST(a AS DOUBLE) ; CAST(a AS VARCHAR) ; CAST(c AS VARCHAR) ; CAST(p AS VARCHAR)
CAST(p AS BIGINT) ; CAST(b AS BOOLEAN) ; CAST('12' AS BIGINT) ; CAST('2026-01-31' AS TIMESTAMP)
"""
EACH = [form.strip() for line in FORMS.split("\n") for form in line.split(";") if form.strip()]


def bound(expression: str) -> Any:
    statement = parse_one(f"SELECT {expression} FROM t")
    assert isinstance(statement, Select)
    node = statement.items[0].expression
    assert node is not None
    return ExpressionBinder((Source("t", TABLE),)).bind(node)


def ours(expression: str, row: tuple[Any, ...]) -> Any:
    *plain, moment = row
    instant = None if moment is None else instant_of(moment)
    made = bound(expression)
    value = evaluate(made, [(*plain, instant)])
    if made.type.value == "TIMESTAMP" and value is not None:
        return moment_at(value).replace(tzinfo=None)
    return value


def theirs(expression: str, row: tuple[Any, ...]) -> Any:
    """Where a cast has no value, ours is NULL; DuckDB's digits of ROUND are an INTEGER."""
    expression = expression.replace("CAST(", "TRY_CAST(").replace("(c, b)", "(c, b::INTEGER)")
    columns = [kind.replace("STRING", "VARCHAR").split() for kind in KINDS]
    named = ", ".join(f"?::{kind} {name}" for name, kind in columns)
    return database.execute(
        f"SELECT {expression} FROM (SELECT {named}, ?::TIMESTAMP ts)", list(row)
    ).fetchone()[0]  # type: ignore[index]


@pytest.mark.parametrize("form", EACH)
def test_as_duckdb(form: str) -> None:
    @settings(max_examples=max(EXAMPLES // 10, 10), deadline=None)
    @given(rows)
    def same(row: tuple[Any, ...]) -> None:
        mine, other = ours(form, row), theirs(form, row)
        if isinstance(other, float) and mine is not None:
            assert math.isclose(mine, other, rel_tol=1e-12, abs_tol=1e-12)
        elif isinstance(other, float):
            assert not math.isfinite(other)
        else:
            assert mine == other

    same()


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("SUBSTR(a, 1)", "SUBSTR takes a text"),
        ("LEFT(s)", "LEFT takes a text and how many letters"),
        ("SQRT(s)", "SQRT takes a number, not s (a STRING)"),
        ("CASE WHEN a THEN 1 END", "not a condition"),
        ("CASE WHEN p THEN 1 ELSE 'x' END", "CASE takes values of one type"),
        ("CASE a END", "expected WHEN"),
        ("CASE WHEN p THEN 1", "expected WHEN, ELSE or END"),
        ("CAST(a AS SHAPE)", "SHAPE is not a type"),
        ("CAST(ts AS BIGINT)", "EXTRACT(EPOCH FROM ts)"),
        ("CAST('x' AS DOUBLE)", "'x' is not a DOUBLE"),
        ("TIMESTAMP 'yesterday'", "'yesterday' is not a TIMESTAMP"),
        ("EXTRACT(HOURS OF ts)", "expected FROM"),
        ("EXTRACT(CENTURY FROM ts)", "EXTRACT does not know CENTURY"),
        ("EXTRACT(HOUR FROM a)", "EXTRACT takes a TIMESTAMP"),
        ("DATE_TRUNC(s, ts)", "DATE_TRUNC takes a unit as a text"),
        ("DATE_TRUNC('hou', ts)", 'did you mean "hour"?'),
        ("GREATEST()", "GREATEST takes values"),
        ("NULLIF(a)", "NULLIF takes two values"),
        ("NOW()", "WINDOW 5 MINUTES"),
        ("SQUARE(a)", "functions: COUNT, SUM, AVG, MIN, MAX, ABS, CASE, CAST, CEIL"),
    ],
)
def test_errors(expression: str, said: str) -> None:
    with pytest.raises(StatementError) as caught:
        bound(expression)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("case when a > 1 then 'x' end", "CASE WHEN a > 1 THEN 'x' ELSE NULL END"),
        ("EXTRACT(hours FROM ts)", "EXTRACT(HOUR FROM ts)"),
        ("date_trunc('DAY', ts)", "DATE_TRUNC('day', ts)"),
        ("cast(a as text)", "CAST(a AS STRING)"),
        ("cast(p as text)", "CAST(p AS STRING)"),
        ("(s || u) || 'x' = 'x'", "(s || u) || 'x' = 'x'"),
        ("substring(s, 1, 2)", "SUBSTR(s, 1, 2)"),
        ("DATE '2026-01-31'", "'2026-01-31 00:00:00'"),
    ],
)
def test_shown(expression: str, shown: str) -> None:
    made = bound(expression)
    assert show(made).replace("((s || u) || 'x')", "(s || u) || 'x'") == shown
    if not expression.startswith("DATE"):
        assert bound(show(made)) == made


def test_a_text_that_grows_too_long_is_null() -> None:
    half = "x" * 2**19
    assert evaluate(bound("s || u"), [(1, 1, 1.0, 1.0, half, half, True, 0)]) == half + half
    assert evaluate(bound("s || u || 'y'"), [(1, 1, 1.0, 1.0, half, half, True, 0)]) is None
