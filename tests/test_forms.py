"""Statements of one form: what is filled in is what binding each of them gives."""

from __future__ import annotations

import gc
import random
import weakref
from dataclasses import replace
from typing import Any

import pytest

import place
from place.errors import StatementError
from place.plan.bind_query import bind_query
from place.plan.forms import Forms
from place.sql.dialect import parse_one
from place.sql.lift import KnownForm, lift
from place.sql.statements import RegisterQuery

CATALOG = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING, speed DOUBLE);
CREATE STREAM Ships (name STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP) WITH (space = 'wgs84');
CREATE TABLE Owners (id BIGINT, owner STRING) AS VALUES (1, 'Ada');
CREATE REGION Port AS CIRCLE (0, 0, 5);
"""
WHOLE, BROKEN = ("0", "1", "12", "-3"), ("2.5", "-0.25", "1e1", "7.", ".5")
TEXTS = ("'Truck'", "'it''s'", "''", "'M'")
FORMS = [
    "SELECT id FROM Cars INSIDE ({n}, {n}, {n}, {n})",
    "SELECT id FROM Cars INSIDE ({n}, {n}, {n})",
    "SELECT id, speed + 2 AS v FROM Cars WHERE speed > {n} AND type = {t} INSIDE ({n}, {n}, {n})",
    "SELECT id FROM Cars INSIDE POLYGON (({n} {n}, {n} {n}, {n} {n}))",
    "SELECT id FROM Cars INSIDE ('M', {i}, {n})",
    "SELECT id FROM Cars WHERE id <> {i} INSIDE ('M', {i}, {n}, {n})",
    "SELECT id FROM Cars WHERE type IN ({t}, {t}) kNN ({i}, {n}, {n})",
    "SELECT id FROM Cars kNN ('M', {i}, {i})",
    "SELECT name FROM Ships INSIDE ('M', {t}, {n})",
    "SELECT name FROM Ships INSIDE ({n}, {n}, {n}, {n})",
    "SELECT COUNT(*) FROM Cars WHERE speed BETWEEN {n} AND {n} INSIDE Port WINDOW {i} SECONDS",
    "SELECT type, AVG(speed) FROM Cars GROUP BY type HAVING AVG(speed) > {n}",
    "SELECT owner FROM Cars c JOIN Owners o ON c.id = o.id WHERE owner = {t} AND speed < 2 * {n}",
    "SELECT id FROM Cars WHERE LENGTH({t}) > -{i} AND type LIKE {t} OR ABS(-{i}) < {n}",
    "SELECT id FROM Cars WHERE ts > {t} OR speed * {n} < {i} - speed",
    "SELECT a.id FROM Cars a, Cars b WHERE DISTANCE(a, b) <= {n} AND a.speed > {n} AND a.id < b.id",
    "SELECT a.id FROM Cars a WINDOW {i} SECONDS, Cars b WHERE a.speed = b.speed + {n} kNN ({i}, a)",
    "SELECT id, DISTANCE(c, FOCAL) FROM Cars c INSIDE ('M', {i}, {n})",
    "SELECT a.id FROM Cars a, Cars b INSIDE ('M', {i}, {n}) kNN ('M', {i}, {i})",
    "SELECT id, DISTANCE(c, POINT ({n}, {n})) FROM Cars c WHERE DISTANCE(c, POINT ({n}, 1)) < {n}",
    "SELECT a.id FROM Cars a, Cars b WHERE a.speed > {n} AND a.speed < {n} b INSIDE ({n}, {n}, 9)",
]


def catalog() -> Any:
    session = place.connect()
    session.sql(CATALOG)
    return session.catalog


def written(form: str, numbers: tuple[str, ...], rng: random.Random) -> str:
    text = form
    for mark, choices in (("{n}", numbers), ("{t}", TEXTS), ("{i}", ("1", "2", "17", "300"))):
        while mark in text:
            text = text.replace(mark, rng.choice(choices), 1)
    return text


def bound(catalog: Any, sql: str, forms: Forms) -> Any:
    """The query, or the words of its error."""
    try:
        statement = parse_one(sql)
        assert isinstance(statement, RegisterQuery)
        return forms.bind(catalog, statement)
    except StatementError as error:
        return str(error)


def bound_plainly(catalog: Any, sql: str) -> Any:
    try:
        statement = parse_one(sql + " /* read as it stands */")
        assert isinstance(statement, RegisterQuery)
        assert not isinstance(statement, KnownForm)
        query = bind_query(catalog, statement.name.text, statement.select)
        return replace(query, arrivals=statement.arrivals)
    except StatementError as error:
        return str(error)


@pytest.mark.parametrize("numbers", [WHOLE, BROKEN[:-1], WHOLE + BROKEN])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_filled_in_is_what_binding_gives(form: str, numbers: tuple[str, ...]) -> None:
    known, forms, rng = catalog(), Forms(), random.Random(form)
    filled = 0
    for number in range(40):
        sql = f"REGISTER QUERY q{number} AS {written(form, numbers, rng)}"
        found = bound(known, sql, forms)
        assert found == bound_plainly(known, sql)
        filled += getattr(found, "form", None) is not None
    has_places = "INSIDE (" in form or "kNN" in form
    assert filled or not has_places or len(numbers) > 4


def test_a_literal_that_one_statement_cannot_vary_is_not_that_of_all() -> None:
    """Which literals belong to the form may differ from statement to statement."""
    known, forms, rng = catalog(), Forms(), random.Random(3)
    texts = ("''", "'a'", "'M'", "'it''s'", "'2026-01-01'", "'%'")
    numbers = ("0.0", "1e308", "1e309", "1.", "2e5", "3", "9223372036854775807")
    for number in range(400):
        body = f"WHERE LENGTH({rng.choice(texts)}) > -{rng.choice(numbers)}"
        sql = f"REGISTER QUERY q{number} AS SELECT id FROM Cars {body}"
        assert bound(known, sql, forms) == bound_plainly(known, sql)


def test_most_statements_of_a_form_are_filled_in() -> None:
    known, forms = catalog(), Forms()
    texts = [
        f"REGISTER QUERY q{i} AS SELECT id FROM Cars INSIDE (0.5, 0.5, {i}.5)" for i in range(99)
    ]
    tokens = [getattr(bound(known, text, forms), "form", None) for text in texts]
    looked_for = tokens.index(next(filter(None, tokens)))  # when reading has taken as long
    assert looked_for < 50
    assert len(set(tokens[looked_for:])) == 1


@pytest.mark.parametrize(
    "sql",
    [
        'REGISTER QUERY "q 1" AS SELECT id FROM Cars',
        "REGISTER QUERY q AS SELECT id FROM Cars -- a comment",
        "REGISTER QUERY q AS SELECT /*+ INSIDE FIRST */ id FROM Cars",
        "REGISTER QUERY IF NOT EXISTS q AS SELECT id FROM Cars",
        "REGISTER QUERY select AS SELECT id FROM Cars",
        "REGISTER QUERY q AS SELECT id FROM Cars WHERE type = 'open",
        "REGISTER QUERY q AS SELECT \0 FROM Cars",
        "SELECT id FROM Cars",
    ],
)
def test_unusual_statements_are_read_whole(sql: str) -> None:
    assert lift(sql) is None


def test_errors_of_a_known_form_are_the_usual_ones() -> None:
    session = place.connect()
    session.sql(CATALOG)
    lines = [f"REGISTER QUERY q{i} AS SELECT id FROM Cars kNN ({i + 1}, 0, 0);" for i in range(3)]
    lines.append("REGISTER QUERY q3 AS SELECT id FROM Cars kNN (0, 0, 0);")
    with pytest.raises(StatementError) as found:
        session.sql("\n".join(lines))
    assert (found.value.line, found.value.column) == (4, 47)
    assert "kNN asks for 0 neighbours" in str(found.value)
    assert len(session.catalog.queries) == 3  # those before it have taken effect


def test_a_form_is_forgotten_with_what_it_stands_on() -> None:
    session = place.connect()
    session.sql("CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    for i in range(3):
        session.sql(f"REGISTER QUERY a{i} AS SELECT * FROM S INSIDE ({i}, 0, 1)")
    session.sql("; ".join(f"DROP QUERY a{i}" for i in range(3)))
    session.sql("DROP STREAM S; CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE, v STRING)")
    for i in range(3):
        session.sql(f"REGISTER QUERY a{i} AS SELECT * FROM S INSIDE ({i}, 0, 1)")
        assert session.query(f"a{i}").names == ("id", "x", "y", "v")
    deltas = session.push("S", [(1, 1, 0, "here")], time=1)
    assert sorted(delta.query for delta in deltas) == ["a0", "a1", "a2"]


@pytest.mark.parametrize("cells", ["1x1", "2x2"])
def test_queries_of_one_text_answer_as_those_of_many(cells: str) -> None:
    rng = random.Random(7)
    rows = [(i, rng.random() * 10, rng.random() * 10, "Truck", rng.random()) for i in range(60)]
    forms = [
        "SELECT id FROM S INSIDE ({x}, {y}, {z}, 5.5)",
        "SELECT id, v FROM S WHERE v > 0.{i} INSIDE ({x}, {y}, 2.5)",
        "SELECT DISTINCT kind FROM S INSIDE ('M', {i}, 3.5)",
        "SELECT id FROM S WHERE kind = 'Truck' AND v < 0.{i}",
        "SELECT id FROM S kNN ({k}, {x}, {y})",
        "SELECT COUNT(*) FROM S INSIDE ({x}, {y}, 2.5)",
    ]
    statements = []
    for i in range(60):
        place_of = {"x": f"{rng.random() * 9:.3f}", "y": f"{rng.random() * 9:.3f}"}
        form = forms[i // 10]
        statements.append(
            f"REGISTER QUERY q{i} AS "
            + form.format(**place_of, z=f"{rng.random() * 9:.3f}", i=i, k=i % 4 + 1)
        )
    found = []
    for texts in (statements, [";\n".join(statements)]):
        with place.connect(cells=cells) as session:
            session.sql(
                "CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING, v DOUBLE)"
            )
            session.push("S", rows[:40], time=1)
            for text in texts:
                session.sql(text)
            told = session.push("S", rows, time=2)
            told += session.push("S", [(i, 5, 5, "Car", 0.5) for i in range(20)], time=3)
            answers = {f"q{i}": session.answer(f"q{i}") for i in range(60)}
            dropped = session.sql("; ".join(f"DROP QUERY q{i}" for i in range(60))).deltas
            deltas = sorted((d.instant, d.query, d.sign, d.row) for d in (*told, *dropped))
            found.append((deltas, answers))
            assert not session.catalog.queries
    assert found[0] == found[1]


def test_a_name_that_is_dropped_and_registered_in_one_text_is_another_query() -> None:
    with place.connect() as session:
        session.sql("CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE)")
        session.push("S", [(1, 0, 0), (2, 5, 5)], time=1)
        result = session.sql(
            "REGISTER QUERY q AS SELECT id FROM S INSIDE (0, 0, 1); DROP QUERY q;"
            " REGISTER QUERY q AS SELECT id FROM S INSIDE (5, 5, 1)"
        )
        told = [(delta.sign, delta.row) for delta in result.deltas]
        assert told == [(1, (1,)), (-1, (1,)), (1, (2,))]
        assert session.answer("q") == [(2,)]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id, x FROM S INSIDE (0, 0, 100) WINDOW 4 ROWS",
        "SELECT S.id, S.x FROM S, S AS P WHERE S.id = P.id INSIDE (0, 0, 100) WINDOW PREVIOUS",
    ],
)
def test_windows_of_one_text_begin_with_what_each_of_them_holds(select: str) -> None:
    """Some entries have left the windows' store, so that those of the first query move when the
    next one is loaded."""
    session = place.connect()
    session.sql("CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    session.sql(f"REGISTER QUERY first AS {select}")
    for i in range(10):
        session.push("S", [(i % 4, i, 0)], time=i)
    text = ";".join(f"REGISTER QUERY q{i} AS {select}" for i in range(5))
    deltas = session.sql(text).deltas
    expected = session.answer("first")
    for i in range(5):
        assert sorted(d.row for d in deltas if d.query == f"q{i}") == expected
        assert session.answer(f"q{i}") == expected


def test_arrivals_are_part_of_the_form() -> None:
    known, forms = catalog(), Forms()
    found = []
    for i in range(12):
        emit = " EMIT  arrivals" if i % 2 else ""
        sql = f"REGISTER QUERY q{i}{emit} AS SELECT id FROM Cars INSIDE (0, 0, {i + 1})"
        found.append(bound(known, sql, forms))
        assert found[-1] == bound_plainly(known, sql)
        assert found[-1].arrivals is bool(i % 2)
    plain, arrivals = ({query.form for query in found[start::2]} - {None} for start in (0, 1))
    assert len(plain) == len(arrivals) == 1
    assert plain != arrivals


def test_digits_of_other_scripts_are_no_numbers() -> None:
    known, forms = catalog(), Forms()
    form = "REGISTER QUERY q AS SELECT id FROM Cars WHERE id = {} INSIDE (0, 0, {})"
    for i in range(4):
        bound(known, form.format(i, i + 1), forms)
    for wrong in (form.format("٣", 1), form.format(1, "３"), form.format(1, "3.٤")):
        found = bound(known, wrong, forms)
        assert isinstance(found, str)
        assert found == bound_plainly(known, wrong)


def test_forms_hold_no_rows_of_tables() -> None:
    """A table that is loaded again and again would stay in memory as often as that."""
    forms, session = Forms(), place.connect()
    session.sql(CATALOG)
    rows = weakref.ref(session.catalog.contents["owners"])
    for i in range(3):
        sql = f"REGISTER QUERY q{i} AS SELECT id FROM Cars INSIDE (0, 0, {i + 1})"
        bound(session.catalog, sql, forms)
    session.sql("DROP TABLE Owners")
    gc.collect()
    assert rows() is None
