"""Triggers as statements: how they are read and bound, kept in the catalog, and limited."""

import pickle
from pathlib import Path

import pytest

from place.errors import LimitError, PlaceError, StatementError
from place.model.time import MINUTE, SECOND
from place.model.types import Type
from place.plan.bind_trigger import bind_trigger
from place.plan.expression import Call, Column, Compare, show
from place.plan.query import Query
from place.plan.trigger import Trigger
from place.session import Session, connect
from place.sql.dialect import parse_one
from place.sql.limits import CLIENTS, within
from place.sql.statements import CreateTrigger, Drop, Explain, Name, Position, Show

SETUP = """
CREATE STREAM E (id BIGINT KEY, p STRING, v DOUBLE, x DOUBLE, y DOUBLE, ts TIMESTAMP);
CREATE STREAM Plain (v DOUBLE);
CREATE TABLE Params (kind STRING, v DOUBLE) AS VALUES ('A', 1), ('B', 2);
CREATE REGION Downtown AS CIRCLE (0, 0, 5);
"""


@pytest.fixture
def session() -> Session:
    made = connect(runtime="reference")
    made.sql(SETUP)
    return made


def read(sql: str) -> CreateTrigger:
    statement = parse_one(sql)
    assert isinstance(statement, CreateTrigger)
    return statement


def bound(session: Session, sql: str) -> tuple[Query, Trigger]:
    query = bind_trigger(session.catalog, read(f"CREATE TRIGGER t {sql}"))
    assert query.trigger is not None
    return query, query.trigger


def shown(trigger: Trigger) -> list[str]:
    return [show(condition) for condition in trigger.conditions]


# Reading


def test_every_clause_is_read_in_any_order() -> None:
    head = "CREATE TRIGGER IF NOT EXISTS t /*+ no  index */ FOR E V[2], E AS w, P WHEN V.p = 'A'"
    clauses = [
        "WITHIN '5 minutes'",
        "UNLESS G AS g WHEN g.t = w.t",
        "ALERT V[1].id, COUNT(V) AS n",
        "REPORT FIRST",
        "EVERY 10 MINUTES PER w.p, w.v",
        "w INSIDE Downtown",
    ]
    for turn in range(len(clauses)):
        found = read(" ".join([head, *clauses[turn:], *clauses[:turn]]))
        assert found.if_not_exists
        assert found.hint is not None
        assert found.hint.text == "NO INDEX"
        assert [each.alias.text for each in found.variables] == ["V", "w", "P"]
        assert found.variables[0].count is not None
        assert found.within is not None
        assert found.within.text == "5 minutes"
        assert found.unless is not None
        assert found.unless.variable.alias.text == "g"
        assert [item.alias.text if item.alias else None for item in found.alert] == [None, "n"]
        assert found.is_first
        assert found.every is not None
        assert found.every.duration.text == "10 MINUTES"
        assert len(found.every.per) == 2
        assert [area.subject.text for area in found.areas if area.subject] == ["w"]


def test_hint_may_stand_on_a_line_of_its_own_and_comments_are_none() -> None:
    hint = read("CREATE TRIGGER t\n  /*+ loose */\nFOR E a WHEN a.v > 1").hint
    assert hint == Name("LOOSE", Position(2, 3))
    assert read("CREATE TRIGGER t /* loose */ FOR E a WHEN a.v > 1").hint is None


def test_words_of_clauses_are_names_elsewhere() -> None:
    found = read(
        'CREATE TRIGGER alert FOR every AS "within" WHEN "within".report > 1 ALERT "within".per AS'
        " unless"
    )
    assert found.variables[0].alias.text == "within"
    assert found.alert[0].alias is not None
    assert found.alert[0].alias.text == "unless"


def test_the_other_statements() -> None:
    assert parse_one("SHOW TRIGGERS") == Show("trigger")
    drop = parse_one("DROP TRIGGER IF EXISTS storm")
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name.text, drop.if_exists) == ("trigger", "storm", True)
    explain = parse_one("EXPLAIN ANALYZE TRIGGER storm")
    assert isinstance(explain, Explain)
    assert (explain.kind, explain.analyze) == ("trigger", True)
    explain = parse_one("EXPLAIN CREATE TRIGGER t FOR E a WHEN a.v > 1")
    assert isinstance(explain, Explain)
    assert isinstance(explain.target, CreateTrigger)


# Binding


def test_a_set_is_so_many_variables(session: Session) -> None:
    query, trigger = bound(
        session,
        "FOR E AS V[3], E AS w, Params AS p WHEN V.p = p.kind AND V.id <> V.id AND V.v < V.v"
        " AND DISTANCE(V, V) <= 5 AND DISTANCE(V, w) > 1 AND SPAN(V) <= 5 AND w.t - V.t IN [0, 1]",
    )
    assert [source.alias for source in query.sources] == ["V[1]", "V[2]", "V[3]", "w", "p"]
    assert (trigger.variables, trigger.roles, trigger.sets) == (4, 4, ((0, 1, 2),))
    conditions = shown(trigger)
    assert conditions.count("V[1].p = p.kind") == 1
    assert [c for c in conditions if "<>" in c] == [
        "V[1].id <> V[2].id",
        "V[1].id <> V[3].id",
        "V[2].id <> V[3].id",
    ]
    assert len([c for c in conditions if ".v < V" in c]) == 6
    assert len([c for c in conditions if "<= 5" in c]) == 3
    assert len([c for c in conditions if "> 1" in c]) == 3
    assert "(V[3].t - V[1].t) <= INTERVAL '00:00:05'" in conditions


def test_each_member_where_no_comparison_has_two(session: Session) -> None:
    _, trigger = bound(session, "FOR E AS V[2] WHEN (V.v > 5 OR NOT V.p = 'A') WITHIN '1 second'")
    assert shown(trigger) == [
        "(V[1].v > 5) OR (NOT (V[1].p = 'A'))",
        "(V[2].v > 5) OR (NOT (V[2].p = 'A'))",
    ]


def test_time_and_place_of_a_reading(session: Session) -> None:
    query, trigger = bound(
        session, "FOR E AS a, E AS b WHEN b.ts > a.T AND DISTANCE(a.r, B.R) < 1 WITHIN '1 second'"
    )
    (times, _) = trigger.conditions
    assert isinstance(times, Compare)
    assert times.left == Column(1, 6, Type.TIMESTAMP, "b.t")
    assert times.right == Column(0, 6, Type.TIMESTAMP, "a.t")
    assert query.names == ("a.id", "a.t", "b.id", "b.t")
    assert query.outputs[1].expression == Column(0, 6, Type.TIMESTAMP, "a.t")


def test_alerts_and_groups(session: Session) -> None:
    query, trigger = bound(
        session,
        "FOR E AS V[2] WHEN V.v > 1 WITHIN '1 minute' EVERY '1 hour' PER MAX(V.p), V[2].id"
        " ALERT V[1].id, COUNT(V), COUNT(V.v), MIN(V.ts) AS first, AVG(V.id), SUM(V.v + 1),"
        " MAX(DISTANCE(V, V)), SPAN(V), V[1].v + V[2].v",
    )
    assert query.names == (
        "V[1].id",
        "COUNT(V)",
        "COUNT(V.v)",
        "first",
        "AVG(V.id)",
        "SUM(V[1].v + 1, V[2].v + 1)",
        "MAX(DISTANCE(V, V))",
        "SPAN(V)",
        "V[1].v + V[2].v",
    )
    assert [kind.value for kind in query.types] == [
        *("BIGINT", "BIGINT", "BIGINT", "TIMESTAMP", "DOUBLE", "DOUBLE", "DOUBLE", "INTERVAL"),
        "DOUBLE",
    ]
    assert isinstance(trigger.groups[0], Call)
    assert trigger.within == MINUTE
    assert trigger.every == 3600 * SECOND
    assert query.arrivals


def test_default_alerts(session: Session) -> None:
    query, _ = bound(session, "FOR E AS V[2], Plain AS q WHEN V.v > q.v WITHIN '1 second'")
    assert query.names == ("V[1].id", "V[1].t", "V[2].id", "V[2].t", "q.t")


def test_what_the_rest_asks_of_a_query(session: Session) -> None:
    query, trigger = bound(
        session,
        "FOR E AS a, Params AS p WHEN a.v > p.v AND a INSIDE Downtown INSIDE (1, 1, 2)"
        " UNLESS Plain AS g WHEN g.t - a.t IN [0, 1] AND g.v > a.v",
    )
    assert query.kind == "trigger"
    assert query.holds_readings
    assert not query.is_join
    assert query.streams == {"E", "Plain"}
    assert query.tables == {"Params"}
    assert query.regions == ("Downtown",)
    assert [source for source, _ in trigger.regions] == [0, 0]
    assert trigger.absence is not None
    assert len(trigger.absence) == 3
    assert pickle.loads(pickle.dumps(query)) == query


# The catalog


def test_queries_and_triggers_share_names_and_a_store(session: Session) -> None:
    session.sql("CREATE TRIGGER storm FOR E AS a WHEN a.v > 1")
    session.sql("REGISTER QUERY all_of AS SELECT id FROM E")
    catalog = session.catalog
    assert [each.name for each in catalog.of_kind("trigger")] == ["storm"]
    assert [each.name for each in catalog.of_kind("query")] == ["all_of"]
    assert set(catalog.queries) == {"storm", "all_of"}
    assert catalog.get("trigger", "STORM") is catalog.queries["storm"]
    assert catalog.get("query", "storm") is None
    assert catalog.text_of("trigger", "storm").startswith("CREATE TRIGGER storm")
    with pytest.raises(StatementError, match="is a trigger: write DROP TRIGGER storm"):
        session.sql("DROP QUERY storm")
    session.sql("DROP TRIGGER storm")
    assert set(session.catalog.queries) == {"all_of"}


def test_a_trigger_is_there_again_after_a_restart(tmp_path: Path) -> None:
    with connect(tmp_path, runtime="reference") as session:
        session.sql(SETUP)
        session.sql("CREATE TRIGGER storm /*+ TIGHT */ FOR E AS V[2] WHEN V.v > 1 AND SPAN(V) <= 5")
        before = session.catalog.queries["storm"]
    with connect(tmp_path, runtime="reference") as session:
        assert session.catalog.queries["storm"] == before
        assert session.sql("SHOW TRIGGERS").rows[0][:2] == ("storm", "V[1], V[2]")


# Limits


def test_clients_may_keep_readings_for_a_day(session: Session) -> None:
    long = "CREATE TRIGGER t FOR E AS V[2] WHEN SPAN(V) <= '25 hours'"
    session.sql(long)
    session.sql("DROP TRIGGER t")
    with within(CLIENTS), pytest.raises(LimitError, match='the limit "window"'):
        session.sql(long)
    with within(CLIENTS), pytest.raises(LimitError, match='the limit "window"'):
        session.sql(
            "CREATE TRIGGER t FOR E AS a WHEN a.v > 1 UNLESS E AS g WHEN g.t - a.t IN [0, 90000]"
        )


def test_combinations_of_rows_are_limited(session: Session) -> None:
    values = ", ".join(f"('A', {i})" for i in range(400))
    session.sql(f"CREATE TABLE Many (kind STRING, v DOUBLE) AS VALUES {values}")
    sql = "CREATE TRIGGER t FOR E AS a, Many AS m, Many AS n WHEN a.v > m.v AND a.v > n.v"
    with within(CLIENTS), pytest.raises(LimitError, match='the limit "fanout"'):
        session.sql(sql)
    assert not list(session.catalog.of_kind("trigger"))


@pytest.mark.parametrize(
    "sql",
    [
        "FOR E AS V[99999999999] WHEN V.v > 1",
        "FOR E AS V['2'] WHEN V.v > 1",
        "FOR E AS V[ WHEN V.v > 1",
        "FOR E AS V[2] WHEN V[].v > 1",
        "FOR E AS a WHEN a.t - a.t IN [1, 2",
        "FOR E AS a WHEN a.v IN (1, 2",
        "FOR E AS a WHEN INSIDE",
        "FOR E AS a WHEN a INSIDE",
        "FOR E AS a WHEN a.v > 1 WITHIN",
        "FOR E AS a WHEN a.v > 1 EVERY 5 SECONDS PER",
        "FOR E AS a WHEN a.v > 1 ALERT",
        "FOR E AS a WHEN a.v > 1 UNLESS",
        "FOR E AS a WHEN a.v > 1 UNLESS E AS g",
        "FOR E AS a WHEN SUM(*) > 1",
        "FOR E AS a WHEN COUNT(DISTINCT a.v) > 1",
        "FOR E AS V[2] WHEN MIN(MIN(V.v)) > 1 WITHIN '1 s'",
        "FOR E AS V[2] WHEN SPAN(V, V) > 1 WITHIN '1 s'",
        "FOR E AS V[2] WHEN b.t - V > 1 WITHIN '1 s'",
        "FOR E AS a, E AS b WHEN b.t - a.t <= 1e300",
        "FOR (SELECT id FROM E) AS a WHEN a.v > 1",
    ],
)
def test_whatever_is_wrong_is_said(session: Session, sql: str) -> None:
    before = session.catalog
    with pytest.raises(StatementError):
        session.sql(f"CREATE TRIGGER t {sql}")
    assert session.catalog is before


def test_errors_are_located(session: Session) -> None:
    with pytest.raises(PlaceError) as raised:
        session.sql("SHOW STREAMS;\nCREATE TRIGGER t /*+ slow */\n FOR E AS a WHEN a.v > 1")
    assert "(line 2, column 18)" in str(raised.value)
