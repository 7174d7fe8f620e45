"""Statements that ask for too much are refused, with the limit, before they cost anything."""

import pickle
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

import place
from place.cli import make_parser
from place.errors import ConfigurationError, LimitError
from place.operate.serve import settings_of
from place.plan import forms
from place.plan.catalog import Catalog
from place.plan.limits import days
from place.server.settings import Quota, Settings
from place.session import Session
from place.sql import dialect
from place.sql.lift import Lifted
from place.sql.limits import CLIENTS, EMBEDDED, NONE, Limits, current, within

CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING)"
SMALL = Limits(
    text=2_000,
    statement=1_000,
    name=20,
    depth=10,
    operators=12,
    columns=10,
    terms=30,
    members=20,
    sources=3,
    corners=8,
    rows=5,
    cells=8,
    neighbours=9,
    window_rows=100,
    window=3600 * 1_000_000,
    history=3600 * 1_000_000,
    answer=40,
    fanout=50,
    work=1_000,
)
"""Limits that a test can pass and exceed in a moment."""


def listed(form: str, count: int) -> str:
    return ", ".join(form.format(i) for i in range(count))


TOO_MUCH: dict[str, Callable[[int], str]] = {
    "statement": lambda n: f"SELECT id FROM Cars WHERE kind = '{'z' * n}'",
    "name": lambda n: f"SELECT id AS {'z' * n} FROM Cars",
    "operators": lambda n: "SELECT " + "+".join(["x"] * n) + " FROM Cars",
    "depth": lambda n: f"SELECT id FROM Cars WHERE {'(' * n}id = 1{')' * n}",
    "columns": lambda n: f"SELECT {listed('id', n)} FROM Cars",
    "terms": lambda n: "SELECT id FROM Cars WHERE id = 1" + " OR id = 1" * n,
    "members": lambda n: f"SELECT id FROM Cars WHERE id IN ({listed('{}', n)})",
    "sources": lambda n: f"SELECT a0.id FROM {listed('Cars a{}', n)}",
    "corners": lambda n: f"SELECT id FROM Cars INSIDE POLYGON (({listed('{0} 0', n)}, 1 9))",
    "rows": lambda n: f"CREATE TABLE T (id BIGINT) AS VALUES {listed('({})', n)}",
    "cells": lambda n: f"CREATE TABLE T (id BIGINT, a BIGINT) AS VALUES {listed('({0}, {0})', n)}",
    "neighbours": lambda n: f"SELECT id FROM Cars kNN ({n}, 0, 0)",
    "window_rows": lambda n: f"SELECT id FROM Cars WINDOW {n} ROWS",
    "window": lambda n: f"SELECT id FROM Cars WINDOW {n} HOURS",
    "history": lambda n: (
        f"CREATE STREAM S{n} (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (history = '{n} hours')"
    ),
}
"""A statement of a size, for each limit on what is written."""

SIZES = {
    "statement": (900, 1_100),
    "name": (20, 21),
    "depth": (10, 11),
    "operators": (5, 14),
    "columns": (10, 11),
}
SIZES |= {"terms": (6, 60), "members": (20, 21), "sources": (1, 4), "corners": (7, 8)}
SIZES |= {"rows": (5, 6), "cells": (4, 5), "neighbours": (9, 10), "window_rows": (100, 101)}
SIZES |= {"window": (1, 2), "history": (1, 2)}


@pytest.fixture
def session() -> Session:
    made = place.connect()
    made.sql(CARS)
    made.push("Cars", [(i, i, 0, "a") for i in range(10)], time="2026-01-01 12:00:00")
    return made


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_written_has_a_limit(session: Session, name: str) -> None:
    fits, exceeds = SIZES[name]
    with within(replace(SMALL, answer=EMBEDDED.answer)):
        session.sql(TOO_MUCH[name](fits))
        with pytest.raises(LimitError) as told:
            session.sql(TOO_MUCH[name](exceeds))
    error = told.value
    assert error.limit == name
    assert error.size > error.most == getattr(SMALL, name)
    assert f'the limit "{name}"' in str(error)
    assert error.hint
    assert error.line == 1


def test_a_text_of_statements_has_a_limit(session: Session) -> None:
    with within(SMALL), pytest.raises(LimitError, match='the limit "text"'):
        session.sql("SELECT id FROM Cars;\n" * 200)


@pytest.mark.parametrize("runtime", ["local", "reference"])
def test_they_hold_on_every_runtime(runtime: str) -> None:
    session = place.connect(runtime=runtime)
    session.sql(CARS)
    for statement in (
        "SELECT {} FROM Cars",
        "REGISTER QUERY q AS SELECT {} FROM Cars",
        "EXPLAIN SELECT {} FROM Cars",
        "EXPLAIN REGISTER QUERY q AS SELECT {} FROM Cars",
    ):
        with pytest.raises(LimitError, match='the limit "columns"'):
            session.sql(statement.format(listed("id", 4_000)))
    assert session.sql("SHOW QUERIES").rows == ()


def test_a_star_stands_for_all_of_its_columns(session: Session) -> None:
    with within(SMALL), pytest.raises(LimitError, match="there are 12 columns, more than 10"):
        session.sql("SELECT *, Cars.*, * FROM Cars")


def test_each_not_and_each_sign_is_one_deeper(session: Session) -> None:
    for expression in ("NOT " * 100_000 + "id = 1", "- " * 100_000 + "id = 1", "ABS(" * 100_000):
        with pytest.raises(LimitError, match="nested 51 deep"):
            session.sql(f"SELECT id FROM Cars WHERE {expression}")


@pytest.mark.parametrize("count", [300, 3_000])
def test_a_long_row_of_operators_is_an_error_and_not_a_crash(session: Session, count: int) -> None:
    """On Spark, what can be bound but not sent to tasks would stop all ticks."""
    for written in ("+".join(["id"] * count), "id" + " IS NOT NULL" * count):
        with pytest.raises(LimitError, match='the limit "operators"'):
            session.sql(f"REGISTER QUERY q AS SELECT {written} FROM Cars")


def test_what_is_as_deep_as_it_may_be_can_be_sent_to_tasks(session: Session) -> None:
    plus = "+".join(["id"] * 199)
    session.sql(f"REGISTER QUERY q AS SELECT {plus} AS v FROM Cars WHERE {'NOT ' * 50}id = 1")
    query = session.catalog.queries["q"]
    assert pickle.loads(pickle.dumps(query)) == query


def test_a_form_that_was_read_before_is_not_known_to_keep_to_smaller_limits(
    session: Session,
) -> None:
    wide = "REGISTER QUERY {} AS SELECT id, id, id, id, id, id FROM Cars INSIDE ({}, 0, 9, 9)"
    near = "REGISTER QUERY {} AS SELECT id FROM Cars kNN ({}, 0, 0)"
    for number in range(3):
        session.sql(wide.format(f"a{number}", number))
        session.sql(near.format(f"b{number}", 4 + number))
    with within(replace(SMALL, columns=5)):
        with pytest.raises(LimitError, match='the limit "columns"'):
            session.sql(wide.format("a3", 3))
        session.sql(near.format("b3", 9))
        session.sql(near.format("b4", 8))
        with pytest.raises(LimitError, match='the limit "neighbours"'):
            session.sql(near.format("b5", 10))
        with pytest.raises(LimitError, match='the limit "name"'):
            session.sql(near.format("b" * 21, 9))


def test_looking_for_forms_is_paid_for_by_reading(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of a megabyte, each statement with other constants, took minutes of all the ticks."""
    looked: list[str] = []
    find = forms._find_form

    def finding(catalog: Catalog, lifted: Lifted) -> forms.Form | None:
        looked.append(lifted.name)
        return find(catalog, lifted)

    monkeypatch.setattr(forms, "_find_form", finding)
    for number in range(45):
        outputs = listed(f"id + {number}{{0}} AS c{{0}}", 20)
        session.sql(f"REGISTER QUERY q{number} AS SELECT {outputs} FROM Cars INSIDE (0, 0, 1, 1)")
    assert not looked  # 24 literals: not before 48 statements were read
    for number in range(5):
        session.sql(f"REGISTER QUERY r{number} AS SELECT id FROM Cars INSIDE (0, 0, {number}, 1)")
    assert len(looked) == 1


def test_long_statements_are_not_remembered(session: Session) -> None:
    """Thousands of skeletons are: each of a megabyte, they would be all of the memory."""
    before = len(dialect._SKELETONS)
    long = f"REGISTER QUERY q AS SELECT id FROM Cars {' ' * 5_000} INSIDE (0, 0, 1)"
    session.sql(long)
    assert len(dialect._SKELETONS) == before
    session.sql(long.replace(" " * 5_000, " " * 50).replace("q AS", "r AS"))
    assert len(dialect._SKELETONS) == before + 1


def test_rows_that_are_read_in_bulk_are_counted(session: Session) -> None:
    values = listed("({0}, 'a text of some length')", 1_000)
    table = f"CREATE TABLE T (id BIGINT, a STRING) AS VALUES {values}"
    for name, most in (("rows", 999), ("cells", 1_999)):
        with within(replace(EMBEDDED, **{name: most})), pytest.raises(LimitError) as told:
            session.sql(table)
        assert (told.value.limit, told.value.size) == (name, most + 1)
    session.sql(table)


# What a query costs


def test_an_answer_that_is_too_large_is_refused_before_it_is_made(session: Session) -> None:
    with within(SMALL):
        assert len(session.sql("SELECT id, x, y, kind FROM Cars").rows) == 10
        with pytest.raises(LimitError, match="the answer would have 50 values"):
            session.sql("SELECT id, x, y, kind, id FROM Cars")
        with pytest.raises(LimitError, match="the answer would have 50 values"):
            session.sql("REGISTER QUERY q AS SELECT id, x, y, kind, id FROM Cars")
        assert not session.catalog.queries
        # How many rows a condition leaves is known only afterwards.
        assert len(session.sql("SELECT id, x, y, kind, id FROM Cars WHERE id < 8").rows) == 8
        with pytest.raises(LimitError, match="the answer has 45 values"):
            session.sql("SELECT id, x, y, kind, id FROM Cars WHERE id < 9")
        # The nearest are as many as there are, at most.
        assert len(session.sql("SELECT id, x, y, kind, id FROM Cars kNN (8, 0, 0)").rows) == 8


def test_the_reference_refuses_the_same_answer() -> None:
    session = place.connect(runtime="reference")
    session.sql(CARS)
    session.push("Cars", [(i, i, 0, "a") for i in range(10)], time="2026-01-01 12:00:00")
    with within(SMALL), pytest.raises(LimitError, match="the answer has 45 values"):
        session.sql("SELECT id, x, y, kind, id FROM Cars WHERE id < 9")


def test_a_join_without_equality_is_refused_by_what_it_looks_at(session: Session) -> None:
    values = listed("({0}, 'k')", 12)
    session.sql(f"CREATE TABLE T (id BIGINT KEY, kind STRING) AS VALUES {values}")
    with within(SMALL):
        for query in (
            "SELECT COUNT(*) FROM Cars, T a, T b",
            "SELECT COUNT(*) FROM Cars, T a, T b INSIDE (0, 0, 1)",
            "SELECT COUNT(*) FROM Cars, T a, T b WHERE a.id < b.id",
            "SELECT COUNT(*) FROM Cars, T a, T b WHERE a.kind = b.kind AND b.kind = Cars.kind",
        ):
            with pytest.raises(LimitError, match="one object would meet 144 rows of tables"):
                session.sql(query)
            for before in ("REGISTER QUERY q AS", "EXPLAIN ANALYZE"):
                with pytest.raises(LimitError, match='the limit "fanout"'):
                    session.sql(f"{before} {query}")
            session.sql(f"EXPLAIN {query}")
        session.sql("SELECT COUNT(*) FROM Cars, T a, T b WHERE a.id = Cars.id AND b.id = a.id")
        with pytest.raises(LimitError, match='the limit "work"'):
            session.sql("SELECT MIN(T.id)" + ", MAX(T.id)" * 8 + " FROM Cars, T WHERE T.id < 5")


def test_streams_that_meet_without_a_condition_are_refused(session: Session) -> None:
    """There are ten cars; SMALL lets one of them meet fifty others."""
    with within(SMALL):
        for query in (
            "SELECT COUNT(*) FROM Cars a, Cars b, Cars c",
            "SELECT COUNT(*) FROM Cars a, Cars b, Cars c WHERE a.x < 3 AND b.x < 3",
            "SELECT COUNT(*) FROM Cars a WINDOW 5 ROWS, Cars b, Cars c",
        ):
            with pytest.raises(LimitError, match="one object would meet 100 other elements"):
                session.sql(query)
        with pytest.raises(LimitError, match='the limit "answer"'):
            session.sql("SELECT a.id FROM Cars a, Cars b")
        with pytest.raises(LimitError, match='the limit "work"'):
            session.sql(
                "SELECT COUNT(*)"
                + ", MAX(a.id)" * 8
                + " FROM Cars a, Cars b WHERE a.x >= 0 AND b.x >= 0"
            )
        # How many are left by a condition, a window of rows or kNN is not known, or few.
        session.sql("SELECT COUNT(*) FROM Cars a, Cars b, Cars c WHERE a.id = b.id AND b.id < c.id")
        session.sql("SELECT COUNT(*) FROM Cars a, Cars b WINDOW 5 ROWS, Cars c WINDOW 5 ROWS")
        session.sql("SELECT COUNT(*) FROM Cars a, Cars b, Cars c WHERE a.id = c.id kNN (1, a)")


def test_rows_that_are_boxes_are_not_looked_at_one_by_one(session: Session) -> None:
    rules = ", ".join(f"({i}, {i}, {i}, {i}.5)" for i in range(60))
    session.sql(
        f"CREATE TABLE Rules (x DOUBLE, y DOUBLE, low DOUBLE, high DOUBLE) AS VALUES {rules}"
    )
    with within(SMALL):
        for condition in (
            "c.x BETWEEN r.low AND r.high",
            "r.low > c.x - 1 AND r.low < c.x + 1",
            "ABS(c.x - r.low) < 1",
            "DISTANCE(c, r) <= 1",
        ):
            session.sql(f"SELECT COUNT(*) FROM Cars c, Rules r WHERE {condition}")
        for condition in (
            "c.x > r.low",
            "r.low > 1",
            "c.x > r.low AND c.y < r.high",
            "c.x <> r.low",
        ):
            with pytest.raises(LimitError, match="one object would meet 60 rows of tables"):
                session.sql(f"SELECT COUNT(*) FROM Cars c, Rules r WHERE {condition}")


def test_many_columns_of_many_objects_are_work_whatever_chooses_them(session: Session) -> None:
    wide = f"SELECT {listed('id', 110)} FROM Cars INSIDE (0, 0, 1)"
    with within(replace(EMBEDDED, work=1_099)), pytest.raises(LimitError, match="1,100 values"):
        session.sql(wide)
    with within(replace(EMBEDDED, work=1_100)):
        assert len(session.sql(wide).rows) == 2


# Which limits hold


def test_limits_hold_only_meanwhile_and_for_whoever_asks() -> None:
    assert current() is EMBEDDED
    with within(CLIENTS):
        assert current() is CLIENTS
        with within(NONE):
            assert current() is NONE
        assert current() is CLIENTS
    assert current() is EMBEDDED
    for each in fields(Limits):
        assert getattr(CLIENTS, each.name) <= getattr(EMBEDDED, each.name), each.name


def test_a_program_may_raise_a_limit(session: Session) -> None:
    with place.within(replace(EMBEDDED, columns=4_000)):
        assert len(session.sql(f"SELECT {listed('id', 4_000)} FROM Cars").columns) == 4_000


def test_what_was_accepted_is_read_again_whatever_the_limits_are_now(tmp_path: Path) -> None:
    with place.connect(tmp_path / "home") as session, within(NONE):
        session.sql(CARS)
        session.sql(f"REGISTER QUERY wide AS SELECT {listed('id', 1_200)} FROM Cars")
        session.sql("REGISTER QUERY long AS SELECT id FROM Cars WINDOW 1000 DAYS")
    with place.connect(tmp_path / "home") as session:
        assert [query.name for query in session.catalog.queries.values()] == ["wide", "long"]


def test_many_queries_and_large_tables_remain_possible() -> None:
    many = "".join(
        f"REGISTER QUERY q{i} AS SELECT id FROM Cars INSIDE ({i}, 0, {i}.5, 1);\n"
        for i in range(100_000)
    )
    assert len(many) < EMBEDDED.text
    rows = ",".join(f"({i}, {i}.25, {i}.75, 'a name of some length')" for i in range(200_000))
    assert len(rows) < EMBEDDED.statement
    assert EMBEDDED.rows >= 200_000
    assert EMBEDDED.cells >= 800_000


def test_a_server_is_given_those_of_its_clients(tmp_path: Path) -> None:
    def settings(*options: str) -> Settings:
        arguments = make_parser().parse_args(["serve", "--home", str(tmp_path), *options])
        return settings_of(arguments)

    assert settings().limits == CLIENTS
    assert settings().quota == Quota()
    given = settings("--limit", "columns=7", "--limit", "window=1000", "--quota", "queries=3")
    assert given.limits == replace(CLIENTS, columns=7, window=1_000)
    assert given.quota == Quota(queries=3)
    for wrong, told in (
        ("--limit columns", "is no name and number"),
        ("--limit columns=-1", "is no name and number"),
        ("--limit colums=1", 'did you mean "columns"?'),
        ("--quota hooks=1", '"hooks" does not exist'),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(told)):
            settings(*wrong.split())


# What is written about them


def documented(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the table below a heading, by the name in their first cell."""
    text = (Path(__file__).parent.parent / "docs" / page).read_text("utf-8")
    part = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_page_has_every_limit() -> None:
    table = documented("language.md", "Limits")
    assert list(table) == [each.name for each in fields(Limits)]
    for name, (_, embedded, clients) in table.items():
        for limits, told in ((EMBEDDED, embedded), (CLIENTS, clients)):
            most = getattr(limits, name)
            assert told == (days(most) if name in ("window", "history") else f"{most:,}"), name


def test_the_page_has_every_quota() -> None:
    table = documented("server.md", "Quotas")
    assert list(table) == [each.name for each in fields(Quota)]
    for name, (_, most) in table.items():
        assert most == f"{getattr(Quota(), name):,}", name
