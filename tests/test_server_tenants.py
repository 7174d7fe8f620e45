"""Clients that see some streams, or some objects of them: the world as if the others were not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client as ws

import place
from place.cli import main
from place.errors import ConfigurationError
from place.server.errors import Refused
from place.server.grants import Grant, read_grant
from place.server.store import ServerStore
from place.server.tenants import confine
from place.session import Session
from place.sql.dialect import parse_one
from tests.harness.server import WAIT, Running, bearer, serving, wait_for

CARS = (
    "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, fleet STRING,"
    " speed DOUBLE) WITH (archive = 'all')"
)
SHOPS = "CREATE TABLE Shops (id BIGINT, name STRING) AS VALUES (1, 'one'), (102, 'hundred')"
SETUP = f"""
{CARS};
CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP);
{SHOPS};
CREATE TABLE Drivers (id BIGINT, driver STRING) AS VALUES (1, 'Ann'), (101, 'Bob');
CREATE REGION Downtown AS RECTANGLE (0, 0, 50, 50);
REGISTER QUERY everything AS SELECT id, fleet FROM Cars;
"""
START = 1_767_225_600_000_000
NORTH = [(n, 1.0 * n, 2.0 * n, START, "north", 10.0 * n) for n in (1, 2, 3)]
SOUTH = [(n, 0.5 * (n - 100), 1.0, START, "south", 99.0) for n in (101, 102, 103, 104)]
SECRETS = ("south", "101", "102", "103", "104", "Bob", "Ships", "Drivers")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("tenants") / "home"
    with serving(home, SETUP) as running:
        running.push("Cars", [list(row) for row in (*NORTH, *SOUTH)], time="2026-01-01T00:00:00Z")
        running.push("Ships", [[7, 1, 1, START]], time="2026-01-01T00:00:00Z")
        wait_for(lambda: running.answer("everything"))
        yield running


@pytest.fixture(scope="module")
def tokens(served: Running) -> dict[str, str]:
    store = served.server.store
    north = [read_grant("Cars WHERE fleet = 'north'"), Grant("Shops")]
    return {
        "admin": store.create_token("root", "admin"),
        "north": store.create_token("north", "client", north),
        "sailor": store.create_token("sailor", "client", [Grant("Ships")]),
        "guest": store.create_token("north", "viewer"),
        "public": store.create_token("local", "viewer"),
    }


@pytest.fixture(scope="module")
def alone() -> Iterator[Session]:
    """A world in which there is nothing but what the tenant sees."""
    with place.connect() as session:
        session.sql(CARS)
        session.sql(SHOPS)
        session.sql("CREATE REGION Downtown AS RECTANGLE (0, 0, 50, 50)")
        session.push("Cars", NORTH, time=START)
        yield session


QUESTIONS = [
    "SELECT * FROM Cars",
    "SELECT id FROM Cars WHERE fleet = 'south' OR id > 0",
    "SELECT id FROM Cars WHERE id > 100 OR TRUE = TRUE -- ) OR (",
    "SELECT id FROM Cars WHERE NOT (fleet = 'north' AND id = 1)",
    'SELECT id FROM Cars AS "WHERE" /* WHERE */',
    "SELECT c.id FROM Cars c INSIDE (0, 0, 4)",
    "SELECT id FROM Cars INSIDE Downtown",
    "SELECT id FROM Cars kNN (2, 0, 0)",
    "SELECT COUNT(*) AS n, MAX(speed) AS v FROM Cars",
    "SELECT fleet, COUNT(*) AS n FROM Cars GROUP BY fleet",
    "SELECT fleet, COUNT(*) AS n FROM Cars GROUP BY fleet HAVING COUNT(*) > 0",
    "SELECT DISTINCT fleet FROM Cars",
    "SELECT c.id, s.name FROM Cars c, Shops s WHERE c.id = s.id",
    "SELECT c.id, s.name FROM Cars c JOIN Shops s ON c.id = s.id",
    "SELECT a.id, b.id AS other FROM Cars a, Cars b WHERE DISTANCE(a, b) <= 100 AND a.id < b.id",
    "SELECT a.id, b.id AS other FROM Cars a, Cars b WHERE b.id <> a.id kNN (1, a)",
    "SELECT id FROM Cars WHERE fleet IS NULL OR fleet LIKE '%'",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_world_is_as_if_others_were_not(
    served: Running, tokens: dict[str, str], alone: Session, question: str
) -> None:
    """What a tenant asks, and what its query answers, is what it would be without the others."""
    expected = sorted(json.dumps(list(row)) for row in alone.sql(question).rows)
    found = served.sql(question, tokens["north"])["rows"]
    assert sorted(map(json.dumps, found)) == expected
    name = f"q{QUESTIONS.index(question)}"
    served.sql(f"REGISTER QUERY {name} AS {question}", tokens["north"])
    found = served.answer(name, tokens["north"])
    assert sorted(map(json.dumps, found)) == expected
    served.sql(f"DROP QUERY {name}", tokens["north"])


def test_the_past_is_as_if_others_had_not_been(served: Running, tokens: dict[str, str]) -> None:
    first, last = "'2026-01-01 00:00:00'", "'2026-01-01 00:00:00.000001'"
    for when in (f"AS OF {first}", f"BETWEEN {first} AND {last}"):
        question = f"SELECT id, fleet FROM Cars {when} WHERE id > 0 OR fleet = 'south'"
        rows = served.sql(question, tokens["north"])["rows"]
        assert {(row[0], row[1]) for row in rows} == {(n, "north") for n in (1, 2, 3)}
    ways = f"SELECT TRAJECTORY(id) FROM Cars BETWEEN {first} AND {last} WHERE id > 0 OR id < 0"
    assert {row[0] for row in served.sql(ways, tokens["north"])["rows"]} == {1, 2, 3}
    asked = {"sql": "SELECT id FROM Cars", "at": "2026-01-01 00:00:00"}
    reply = served.http.post("/sql", json=asked, headers=bearer(tokens["north"]))
    assert sorted(reply.json()["rows"]) == [[1], [2], [3]]
    pasts = served.http.get("/past", headers=bearer(tokens["sailor"])).json()
    assert pasts == []
    everything = "SELECT id FROM Cars AS OF '2026-01-01 00:00:00'"
    assert len(served.sql(everything, tokens["admin"])["rows"]) == 7
    told = "SELECT * FROM QUERY everything AS OF '2026-01-01 00:00:00'"
    assert refusal(served, tokens["north"], told)[0] == 404


def test_deltas_of_a_subscription_are_of_what_is_seen(
    served: Running, tokens: dict[str, str]
) -> None:
    """An object that changes hands leaves and joins; of others nothing is heard."""
    served.sql("REGISTER QUERY mine AS SELECT id, speed FROM Cars", tokens["north"])
    seen: set[int] = set()
    with served.listen("mine", tokens["north"]) as updates:
        first = json.loads(updates.recv(timeout=WAIT))
        assert {delta["row"][0] for delta in first} == {1, 2, 3}
        moment = START + 1_000_000
        admin = bearer(tokens["admin"])
        rows = [[104, 3, 3, moment, "north", 1.0], [103, 9, 9, moment, "south", 5.0]]
        rows += [[3, 3, 3, moment, "south", 1.0]]
        reply = served.http.post(
            "/streams/Cars/readings",
            json=rows,
            params={"time": "2026-01-01T00:00:01Z"},
            headers=admin,
        )
        assert reply.status_code == 200
        told: list[tuple[int, int]] = []
        while len(told) < 2:
            for delta in json.loads(updates.recv(timeout=WAIT)):
                told.append((delta["sign"], delta["row"][0]))
                seen.add(delta["row"][0])
    assert sorted(told) == [(-1, 3), (1, 104)]
    back = [[104, 2, 1, moment + 1, "south", 99.0], [3, 3, 6, moment + 1, "north", 30.0]]
    served.http.post("/streams/Cars/readings", json=back, headers=admin)
    served.http.post("/advance", params={"time": "2026-01-01T00:00:02Z"}, headers=admin)
    mine = {1, 2, 3}
    wait_for(lambda: {row[0] for row in served.answer("mine", tokens["north"])} == mine)
    served.sql("DROP QUERY mine", tokens["north"])


def refusal(served: Running, token: str, sql: str) -> tuple[int, str]:
    reply = served.http.post("/sql", json={"sql": sql}, headers=bearer(token))
    return reply.status_code, reply.text


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("SELECT * FROM Ships", 400),
        ("SELECT * FROM Drivers", 400),
        ("SELECT c.id, d.driver FROM Cars c, Drivers d WHERE c.id = d.id", 400),
        ("SELECT id FROM Cars INSIDE ('M', 101, 5)", 403),
        ("SELECT id FROM Cars kNN ('M', 1, 101)", 403),
        ("SELECT id FROM Cars INSIDE ('M', 7 OF Ships, 5)", 400),
        ("REGISTER QUERY x AS SELECT id FROM Cars kNN ('M', 1, 101)", 403),
        ("CREATE TRIGGER t FOR Cars AS a, Cars AS b WHEN b.speed > a.speed WITHIN 1 MINUTE", 403),
        ("EXPLAIN SELECT * FROM Cars", 403),
        ("EXPLAIN ANALYZE SELECT * FROM Cars", 403),
        ("EXPLAIN REGISTER QUERY x AS SELECT id FROM Cars", 403),
        ("EXPLAIN SELECT id FROM Cars AS OF '2026-01-01 00:00:00'", 403),
        ("EXPLAIN QUERY everything", 403),
        ("DESCRIBE Ships", 404),
        ("DESCRIBE Drivers", 404),
        ("SELECT * FROM QUERY everything AS OF '2026-01-01 00:00:00'", 404),
        ("DROP QUERY everything", 404),
        ("SHOW SINKS", 403),
        ("DROP STREAM Cars", 403),
        ("SELECT fleet FROM Shps", 400),
        ("SELECT nothing FROM Cars", 400),
    ],
)
def test_what_cannot_be_held_is_refused_and_names_nothing(
    served: Running, tokens: dict[str, str], sql: str, status: int
) -> None:
    found, text = refusal(served, tokens["north"], sql)
    assert found == status, text
    for secret in SECRETS:
        assert secret in sql or secret not in text, text


def test_lists_name_only_what_is_seen(served: Running, tokens: dict[str, str]) -> None:
    north, headers = tokens["north"], bearer(tokens["north"])
    found = served.sql("SHOW STREAMS", north)
    assert [row[0] for row in found["rows"]] == ["Cars"]
    assert found["message"] == "1 row"
    assert not any(isinstance(value, int) for value in found["rows"][0])
    assert [row[0] for row in served.sql("SHOW TABLES", north)["rows"]] == ["Shops"]
    assert served.sql("SHOW QUERIES", north)["rows"] == []
    (cars,) = served.http.get("/streams", headers=headers).json()
    assert (cars["name"], cars["objects"], cars["readings"]) == ("Cars", None, None)
    (ships,) = served.http.get("/streams", headers=bearer(tokens["sailor"])).json()
    assert (ships["name"], ships["objects"], ships["readings"]) == ("Ships", 1, 1)
    (about,) = served.http.get("/map/about", headers=headers).json()["streams"]
    assert (about["name"], about["classes"], about["bounds"]) == ("Cars", [], None)
    assert served.http.get("/map/roads/Ships", headers=headers).status_code == 404
    assert served.http.get("/queries", headers=headers).json() == []


def test_the_map_shows_no_other_objects(served: Running, tokens: dict[str, str]) -> None:
    served.sql("REGISTER QUERY mapped AS SELECT id FROM Cars", tokens["north"])
    url = served.url.replace("http", "ws", 1) + "/map"
    texts: list[str] = []
    with ws.connect(url, additional_headers=bearer(tokens["north"]), open_timeout=WAIT) as viewer:
        for text in ("101", "1", "south"):
            viewer.send(json.dumps({"type": "find", "text": text}))
        viewer.send(json.dumps({"type": "locate", "stream": "Cars", "key": 102}))
        for slot in range(8):
            viewer.send(json.dumps({"type": "identify", "stream": 0, "slot": slot}))
        labels = {"type": "labels", "stream": 0, "column": "fleet", "slots": list(range(8))}
        viewer.send(json.dumps(labels))
        kinds: list[str] = []
        while kinds.count("labels") < 1 or kinds.count("stats") < 2:
            message = viewer.recv(timeout=WAIT)
            if isinstance(message, bytes):
                continue
            texts.append(message)
            kinds.append(json.loads(message)["type"])
    for text in texts:
        message: dict[str, Any] = json.loads(text)
        if message["type"] == "located":
            assert message["slot"] is None
            continue
        if message["type"] == "found":
            assert all(each["key"] in (1, 2, 3) for each in message["objects"])
            continue
        assert "south" not in text
        assert not any(f'"key":{key}' in text for key in (101, 102, 103, 104))
    served.sql("DROP QUERY mapped", tokens["north"])


def test_a_viewer_looks_at_the_queries_of_its_name_and_does_nothing(
    served: Running, tokens: dict[str, str]
) -> None:
    served.sql("REGISTER QUERY shown AS SELECT id FROM Cars", tokens["north"])
    guest = bearer(tokens["guest"])
    assert {row[0] for row in served.answer("shown", tokens["guest"])} == {1, 2, 3}
    assert [each["name"] for each in served.http.get("/queries", headers=guest).json()] == ["shown"]
    with served.listen("shown", tokens["guest"]) as updates:
        assert len(json.loads(updates.recv(timeout=WAIT))) == 3
    assert served.http.get("/queries/everything/answer", headers=guest).status_code == 404
    for sql in ("SELECT * FROM Cars", "DROP QUERY shown", "SHOW STREAMS"):
        assert refusal(served, tokens["guest"], sql)[0] == 403
    (cars,) = served.http.get("/streams", headers=guest).json()
    assert (cars["name"], cars["objects"], cars["last_reason"]) == ("Cars", None, None)
    (about,) = served.http.get("/map/about", headers=guest).json()["streams"]
    assert (about["name"], about["classes"]) == ("Cars", [])
    hook = {"url": "https://example.org/"}
    reply = served.http.post("/queries/shown/webhooks", json=hook, headers=guest)
    assert reply.status_code == 403
    served.sql("DROP QUERY shown", tokens["north"])
    # One who is shown what the operator has set up sees that, and no more of its streams.
    assert len(served.answer("everything", tokens["public"])) == 7
    names = [
        s["name"] for s in served.http.get("/streams", headers=bearer(tokens["public"])).json()
    ]
    assert names == ["Cars"]
    assert served.http.get("/streams", headers=guest).json() == []


def test_what_a_name_sees_stays_as_it_is(tmp_path: Path) -> None:
    store = ServerStore(tmp_path)
    grants = [read_grant('"My Cars" WHERE fleet = 5'), read_grant("Shops")]
    store.create_token("north", "client", grants)
    store.create_token("north", "client", list(reversed(grants)))  # another token of the same name
    assert [str(each) for each in (store.sight("north") or {}).values()] == [
        '"My Cars" WHERE fleet = 5',
        "Shops",
    ]
    for other in ([], [Grant("Shops")], [Grant("Shops"), Grant("My Cars")]):
        with pytest.raises(ConfigurationError, match="sees something else already"):
            store.create_token("north", "client", other)
    store.create_token("all", "client")
    with pytest.raises(ConfigurationError, match="sees something else already: everything"):
        store.create_token("all", "client", grants)
    with pytest.raises(ConfigurationError, match="role ingest sees cannot be chosen"):
        store.create_token("sensor", "ingest", grants)
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "WHERE x = 1",
        "Cars WHERE",
        "Cars, Shops",
        "Cars WHERE x = 1) OR (1 = 1",
        "Cars WHERE x = 1 INSIDE (0, 0, 1)",
        "Cars WHERE x = ",
        "Cars WHERE x = 1 -- all",
        "Cars; DROP STREAM Cars",
    ],
)
def test_a_grant_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_grant(text)


def test_the_command_checks_what_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with place.connect(tmp_path) as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, fleet STRING)")
    create = ["token", "create", "--home", str(tmp_path), "--name", "n", "--role", "client"]
    assert main([*create, "--see", "Cars WHERE flet = 'north'"]) == 1
    assert "flet" in capsys.readouterr().err
    assert main([*create, "--see", "Cars WHERE fleet = 'north'", "--see", "Later"]) == 0
    assert main(["token", "list", "--home", str(tmp_path)]) == 0
    assert "Later" in " ".join(capsys.readouterr().out.split())


def test_a_statement_that_does_not_hold_a_condition_is_refused(
    alone: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of what was bound does not rely on how a condition was put into the text."""
    monkeypatch.setattr("place.server.tenants.narrowed", lambda sql, _conditions: sql)
    sight = {"cars": read_grant("Cars WHERE fleet = 'north'")}
    for sql in ("SELECT id FROM Cars", "SELECT id FROM Cars WHERE fleet = 'north' OR id = 1"):
        with pytest.raises(Refused, match="cannot be held"):
            confine(alone.catalog, sight, parse_one(sql), sql)
    held = "SELECT id FROM Cars WHERE fleet = 'north' AND id = 1"
    assert confine(alone.catalog, sight, parse_one(held), held) == held
