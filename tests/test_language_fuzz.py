"""No statement, however broken, ends in anything but a StatementError, or changes the catalog."""

import string

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from place.errors import StatementError
from place.session import Session, connect
from tests.harness.examples import examples

SETUP = """
CREATE STREAM MovingObjects (ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING,
  speed DOUBLE, open BOOLEAN) WITH (timeout = '60 seconds');
CREATE STREAM Ships (mmsi STRING KEY, x DOUBLE, y DOUBLE) WITH (space = 'wgs84');
CREATE TABLE Cars (ObjectID BIGINT, owner STRING) AS VALUES (1, 'a'), (2, NULL);
CREATE TABLE Stations (name STRING, x DOUBLE, y DOUBLE, open BOOLEAN) AS VALUES ('s', 1, 1, TRUE);
CREATE TABLE Fences (ID BIGINT, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE)
  AS VALUES (1, 0, 0, 1, 1);
CREATE REGION Downtown AS RECTANGLE (0, 0, 4, 4);
REGISTER QUERY q1 AS SELECT ObjectID FROM MovingObjects INSIDE Downtown;
"""

VALID = [
    "CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM FILES ('in/', format = 'csv')"
    " WITH (evaluate = '5 seconds', lateness = '2 seconds', bounds = '0 0 1 1')",
    "CREATE STREAM S (id STRING KEY, x DOUBLE, y DOUBLE) FROM KAFKA (servers = 'a', topic = 'b')",
    "CREATE TABLE T (a BIGINT, b STRING) AS VALUES (1, 'x'), (-2, NULL)",
    "CREATE REGION R AS POLYGON ((0 0, 4 0, 4 4), (1 1, 2 1, 2 2))",
    "CREATE REGION R AS CIRCLE (0.5, 0.5, 1e-3)",
    "REGISTER QUERY q AS SELECT COUNT(ObjectID) FROM MovingObjects WHERE type = 'Car'"
    " INSIDE Downtown WINDOW 1 HOUR",
    "REGISTER QUERY q AS SELECT ObjectID, speed FROM MovingObjects WHERE speed > 20"
    " INSIDE ('M', 17, 0.02, 0.01)",
    "REGISTER QUERY q AS SELECT ObjectID FROM MovingObjects WHERE type = 'police' kNN ('M', 3, 42)",
    "REGISTER QUERY q AS SELECT M.ObjectID, C.owner FROM MovingObjects M, Cars C"
    " WHERE M.ObjectID = C.ObjectID INSIDE (0.1, 0.1, 0.5, 0.5)",
    "REGISTER QUERY q AS SELECT cur.ObjectID, cur.ts - prev.ts AS elapsed FROM MovingObjects cur,"
    " MovingObjects prev WHERE cur.ObjectID = prev.ObjectID WINDOW PREVIOUS",
    "REGISTER QUERY q AS SELECT DISTINCT type FROM MovingObjects INSIDE (0.5, 0.5, 0.05)",
    "REGISTER QUERY q AS SELECT name FROM Stations WHERE open = TRUE"
    " kNN ('M', 5, 17 OF MovingObjects)",
    "REGISTER QUERY q AS SELECT Q.ID, O.ObjectID FROM Fences Q, MovingObjects O WHERE O INSIDE Q",
    "REGISTER QUERY q AS SELECT mmsi FROM Ships INSIDE (170, -10, -170, 10)",
    "REGISTER QUERY q AS SELECT type, AVG(speed) FROM MovingObjects"
    " WHERE speed BETWEEN 1 AND 2 OR type IN ('a', 'b') AND NOT type LIKE '%x_' GROUP BY type"
    " HAVING COUNT(DISTINCT ObjectID) > 1",
    "REGISTER QUERY q AS SELECT a.mmsi, b.mmsi, DISTANCE(a, b) AS metres FROM Ships a, Ships b"
    " WHERE DISTANCE(a, b) <= 500 AND a.mmsi <> b.mmsi b INSIDE (170, -10, -170, 10) kNN (3, a)",
    "REGISTER QUERY q AS SELECT /*+ HASH */ a.type, COUNT(*) FROM MovingObjects a WINDOW 1 HOUR,"
    " MovingObjects b WINDOW 100 ROWS WHERE a.speed BETWEEN b.speed - 1 AND b.speed + 1"
    " GROUP BY a.type",
    "REGISTER QUERY q AS SELECT s.name, DISTANCE(o, FOCAL) FROM MovingObjects o JOIN Stations s"
    " ON DISTANCE(o, POINT (0.5, 1)) < 2 o INSIDE ('M', 17, 5)",
    "CREATE TRIGGER t FOR MovingObjects AS V1, MovingObjects AS V2 WHEN V1.type = 'A' AND"
    " DISTANCE(V1.r, V2.r) < 1 AND V2.t - V1.t IN [0, 5] ALERT V1.ObjectID AS a, V2.ts - V1.ts",
    "CREATE TRIGGER t /*+ TIGHT */ FOR Ships AS V[3], Cars AS c WHEN DISTANCE(V, V) <= 500 AND"
    " SPAN(V) <= '5 minutes' AND V INSIDE Downtown AND V[2].mmsi <> c.owner EVERY '1 hour' PER"
    " V[1].mmsi REPORT FIRST ALERT COUNT(V), MIN(V.x)",
    "CREATE TRIGGER t FOR MovingObjects AS a WHEN a.speed > 20 UNLESS Ships AS g WHEN g.t - a.t IN"
    " (-5, 5] AND g.mmsi LIKE 'x%' WITHIN 5 MINUTES",
    "EXPLAIN CREATE TRIGGER t FOR Ships AS a WHEN a.x > 5",
    "CREATE SINK s FOR q1 TO PARQUET ('changes/')",
    "CREATE SINK s FOR ALL TO WEBHOOK (url = 'http://127.0.0.1/')",
    "DROP QUERY q1",
    "DROP REGION IF EXISTS Downtown",
    "SHOW QUERIES",
    "DESCRIBE MovingObjects",
    "EXPLAIN ANALYZE SELECT ObjectID FROM MovingObjects",
    "EXPLAIN QUERY q1",
    "SELECT * FROM MovingObjects WHERE ts > '2026-01-01' AND ts - ts < INTERVAL '5 minutes'",
    "REFRESH TABLE Cars",
]

WORDS = sorted(
    {word for statement in [*VALID, SETUP] for word in statement.replace(",", " , ").split()}
    | set("( ) , ; . * = < > - + / % ' \" -- /* */ : [ ] { } ? @ # $ ~ ` | & ^ !".split())
    | {"NULL", "NaN", "1e999", "-1", "0", "99999999999999999999", "'M'", "''", "INTERVAL", "JOIN"}
    | {"ON", "NOT", "IS", "CASE", "CAST", "TRIGGER", "ORDER", "BY", "UNION", "é", "\x00", "\ud800"}
)


def check(session: Session, text: str) -> None:
    """Execute a text: it works, or raises a StatementError and leaves the catalog as it was."""
    before = session.catalog
    try:
        session.run(text)
    except StatementError as error:
        assert session.catalog is before
        message = str(error)
        assert message
        assert "\n" not in message.replace(text, "")
        assert "Traceback" not in message.replace(text.strip(), "")
    assert session.catalog.version >= before.version


def fresh() -> Session:
    session = connect()
    session.sql(SETUP)
    return session


def test_the_valid_statements_are_valid() -> None:
    for statement in VALID:
        if not statement.startswith(("REFRESH", "DROP REGION")):
            fresh().run(statement)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_random_tokens(text: str) -> None:
    check(SHARED, text)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid statement with a few tokens or characters removed, doubled, swapped or replaced."""
    statement = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            tokens = statement.split(" ")
            index = draw(st.integers(0, len(tokens) - 1))
            change = draw(st.sampled_from(["drop", "double", "replace", "swap"]))
            if change == "drop":
                del tokens[index]
            elif change == "double":
                tokens.insert(index, tokens[index])
            elif change == "replace":
                tokens[index] = draw(st.sampled_from(WORDS))
            else:
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[index], tokens[other] = tokens[other], tokens[index]
            statement = " ".join(tokens) or ";"
        else:
            index = draw(st.integers(0, len(statement) - 1))
            put = draw(st.sampled_from([*string.printable, "", "", "é", "\u2028", "\U0001f600"]))
            statement = statement[:index] + put + statement[index + 1 :] or ";"
    return statement


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_statements(text: str) -> None:
    global SHARED
    check(SHARED, text)
    if SHARED.catalog.version > 40 or "q1" not in SHARED.catalog.queries:
        SHARED = fresh()


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_random_text(text: str) -> None:
    check(SHARED, text)


def test_deep_and_long_statements() -> None:
    session = fresh()
    deep = "SELECT ObjectID FROM MovingObjects WHERE " + "(" * 20_000
    check(session, deep)
    check(session, "SELECT " + "-" * 5_000 + "1 FROM MovingObjects")
    check(session, "SELECT " + "- " * 5_000 + "1 FROM MovingObjects")
    check(session, "SELECT ObjectID FROM MovingObjects WHERE " + "NOT " * 5_000 + "TRUE")
    chain = " OR ".join(f"speed = {i}" for i in range(5_000))
    session.run(f"REGISTER QUERY long AS SELECT ObjectID FROM MovingObjects WHERE {chain}")
    assert session.answer("long") == []


SHARED = fresh()
