"""What clients may ask for, have, and cost; and that nobody else is hurt by those who want more."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import websockets.exceptions
import websockets.sync.client as ws

import place
from place.cli import main
from place.errors import StatementError
from place.server import statements
from place.server.guard import Guard
from place.server.settings import VALUE, Quota
from place.server.state import MOST_ASKED
from place.server.store import Suspended
from place.sql import limits
from place.sql.limits import CLIENTS, EMBEDDED
from tests.harness.server import WAIT, Running, bearer, serving, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
CREATE TABLE Owners (id BIGINT, owner STRING) AS VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Carl');
REGISTER QUERY everything AS SELECT * FROM Cars;
"""
LIMITS = replace(CLIENTS, text=4_000, columns=20, answer=60, fanout=8, corners=20)
QUOTA = Quota(queries=4, webhooks=2, subscriptions=2, state=1 << 20, answer=1_000, deltas=40)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("quotas") / "home"
    with serving(home, SETUP, limits=LIMITS, quota=QUOTA) as running:
        running.push("Cars", [car(i, 1) for i in range(20)], time="2026-01-01T00:00:01Z")
        yield running


@pytest.fixture(scope="module")
def root(served: Running) -> str:
    token = served.server.store.create_token("root", "admin")
    served.http.headers.update(bearer(token))  # whoever is not named otherwise is root
    return token


@pytest.fixture
def ann(served: Running, root: str) -> Iterator[str]:
    yield served.server.store.create_token("ann", "client")
    for query in served.http.get("/queries").json():
        if query["owner"] == "ann":
            served.sql(f'DROP QUERY "{query["name"]}"')
    served.http.delete("/quotas/ann")


def car(number: int, second: int) -> list[Any]:
    return [number, float(number), 1.0, f"2026-01-01T00:00:{second:02d}Z", "a"]


def refused(served: Running, sql: str, token: str) -> dict[str, Any]:
    reply = served.http.post("/sql", json={"sql": sql}, headers=bearer(token))
    assert reply.status_code >= 400, reply.text
    error: dict[str, Any] = reply.json()["error"]
    return {"status": reply.status_code, **error}


def state_of(served: Running, query: str, token: str) -> dict[str, Any]:
    found: dict[str, Any] = served.http.get(f"/queries/{query}", headers=bearer(token)).json()
    return found


def rest_of(connection: ws.ClientConnection) -> list[Any]:
    """All messages until it is closed."""
    found: list[Any] = []
    with contextlib.suppress(websockets.exceptions.ConnectionClosed):
        while True:
            found.append(json.loads(connection.recv(WAIT)))
    return found


# What they may ask for


def test_clients_have_smaller_limits_than_operators(served: Running, ann: str, root: str) -> None:
    wide = "SELECT " + ", ".join(["id"] * 21) + " FROM Cars WHERE id < 2"
    error = refused(served, wide, ann)
    assert (error["status"], error["code"]) == (400, "limit_exceeded")
    assert 'the limit "columns"' in error["message"]
    assert error["hint"]
    assert len(served.sql(wide, root)["columns"]) == 21
    session = place.connect(served.url, token=ann)
    with session, pytest.raises(StatementError, match='the limit "columns"'):
        session.sql(wide)
    ring = ", ".join(f"{i} {i % 2}" for i in range(30))
    assert (
        "corners"
        in refused(served, f"SELECT id FROM Cars INSIDE POLYGON (({ring}))", ann)["message"]
    )
    join = "SELECT COUNT(*) FROM Cars, Owners a, Owners b"
    assert 'the limit "fanout"' in refused(served, join, ann)["message"]
    assert served.sql(join, root)["rows"] == [[180]]


def test_an_answer_is_refused_before_its_rows_are_made(
    served: Running, ann: str, root: str
) -> None:
    error = refused(served, "SELECT * FROM Cars", ann)
    assert "the answer would have 100 values" in error["message"]
    error = refused(served, "SELECT * FROM Cars WHERE id < 13", ann)
    assert "the answer has 65 values" in error["message"]
    assert len(served.sql("SELECT * FROM Cars WHERE id < 12", ann)["rows"]) == 12
    assert len(served.sql("SELECT * FROM Cars", root)["rows"]) == 20
    error = refused(served, "REGISTER QUERY large AS SELECT * FROM Cars", ann)
    assert error["code"] == "limit_exceeded"
    assert "large" not in {query["name"] for query in served.http.get("/queries").json()}


def test_operators_may_send_large_texts_and_clients_may_not(
    served: Running, ann: str, root: str
) -> None:
    text = "-- " + "z" * 17_000 + "\nSHOW STREAMS"  # more than the door lets clients send
    for token in (ann, "place_000000000000_" + "0" * 64):
        reply = served.http.post("/sql", json={"sql": text}, headers=bearer(token))
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "too_large"
    assert served.sql(text, root)["rows"]
    assert len(text) < EMBEDDED.text


def test_a_client_has_only_some_statements_under_way(served: Running, ann: str, root: str) -> None:
    server = served.server
    server._asking["ann"] = MOST_ASKED
    try:
        reply = served.http.post("/sql", json={"sql": "SHOW STREAMS"}, headers=bearer(ann))
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "busy")
        assert served.sql("SHOW STREAMS", root)["rows"]
    finally:
        del server._asking["ann"]
    assert served.sql("SHOW STREAMS", ann)["rows"]
    assert "ann" not in server._asking


def test_what_cannot_be_sent_to_tasks_does_not_stop_later_ticks(served: Running, root: str) -> None:
    deep = "REGISTER QUERY deep AS SELECT " + "+".join(["id"] * 450) + " AS v FROM Cars"
    with (
        limits.within(replace(EMBEDDED, operators=1_000)),
        pytest.raises(Exception, match=r"deep|recur"),
    ):
        served.session.sql(deep)
    served.sql("REGISTER QUERY after AS SELECT id FROM Cars WHERE id = 3")
    assert served.answer("after") == [[3]]
    served.sql("DROP QUERY after")
    assert "deep" not in served.session.catalog.queries


# What they may have


def test_queries_of_a_client_are_counted(served: Running, ann: str) -> None:
    text = ";".join(f"REGISTER QUERY q{i} AS SELECT id FROM Cars WHERE id = {i}" for i in range(6))
    error = refused(served, text, ann)
    assert (error["status"], error["code"]) == (403, "quota_exceeded")
    assert error["message"] == "you have 4 queries, and may have 4"
    mine = served.http.get("/quotas", headers=bearer(ann)).json()
    assert [each["name"] for each in mine] == ["ann"]
    assert mine[0]["used"]["queries"] == 4  # those before the one too many have taken effect
    served.http.put("/quotas/ann", json={"queries": 6}).raise_for_status()
    served.sql("REGISTER QUERY q4 AS SELECT id FROM Cars WHERE id = 4", ann)
    everybody = {each["name"]: each for each in served.http.get("/quotas").json()}
    assert everybody["ann"]["quota"]["queries"] == 6
    assert everybody["ann"]["own"] == ["queries"]
    assert 'place_client_queries{client="ann"} 5' in served.http.get("/metrics").text
    served.http.delete("/quotas/ann").raise_for_status()
    assert refused(served, "REGISTER QUERY q5 AS SELECT id FROM Cars", ann)["status"] == 403


def test_webhooks_and_subscriptions_of_a_client_are_counted(
    served: Running, ann: str, root: str
) -> None:
    served.sql("REGISTER QUERY mine AS SELECT id FROM Cars WHERE id = 1", ann)
    served.http.put("/quotas/ann", json={"webhooks": 0}).raise_for_status()
    hook = {"url": "https://example.org/"}
    served.server.settings = replace(served.server.settings, private_webhooks=True)
    reply = served.http.post("/queries/mine/webhooks", json=hook, headers=bearer(ann))
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "quota_exceeded")
    with served.listen("mine", ann), served.listen("mine", ann):
        with pytest.raises(websockets.exceptions.InvalidStatus) as told:
            served.listen("mine", ann)
        assert told.value.response.status_code == 403
        assert b"you have 2 subscriptions, and may have 2" in told.value.response.body
        with served.listen("everything", root):  # an admin has no quota
            pass
    wait_for(lambda: not served.server.hub.subscribers())


def test_state_of_a_client_is_counted(served: Running, ann: str) -> None:
    served.sql("REGISTER QUERY mine AS SELECT id, x FROM Cars WHERE id < 10", ann)
    wait_for(lambda: served.server.quotas.used("ann")["state"] == 20 * VALUE)
    served.http.put("/quotas/ann", json={"state": 20 * VALUE}).raise_for_status()
    error = refused(served, "REGISTER QUERY more AS SELECT id FROM Cars", ann)
    assert error["message"] == "you have 320 bytes of state, and may have 320"


def test_quotas_on_the_command_line(
    served: Running, ann: str, capsys: pytest.CaptureFixture[str]
) -> None:
    served.sql("REGISTER QUERY mine AS SELECT id FROM Cars WHERE id = 1", ann)
    home = str(served.server.runtime.directory)
    assert main(["quota", "set", "--home", home, "--name", "ann", "--queries", "7"]) == 0
    assert main(["quota", "list", "--home", home]) == 0
    assert "1 of 7" in capsys.readouterr().out
    assert served.server.quotas.of("ann").queries == 7
    assert main(["status", "--home", home, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["clients"]["ann"]["queries"] == 1
    assert status["clients"]["ann"]["quota"] == {"queries": 7}
    assert main(["quota", "clear", "--home", home, "--name", "ann"]) == 0
    assert served.server.quotas.of("ann").queries == 4
    assert main(["quota", "set", "--home", home, "--name", "local", "--queries", "7"]) == 1


def test_many_queries_of_a_client_come_a_few_at_a_time(
    served: Running, ann: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their first answers are of a bounded size in each tick, and count before the next ones."""
    monkeypatch.setattr(statements, "MOST_ROWS", 40)  # two queries a tick, with 20 objects
    served.http.put("/quotas/ann", json={"state": 50 * VALUE, "queries": 100}).raise_for_status()
    text = ";".join(
        f"REGISTER QUERY q{i} AS SELECT id FROM Cars INSIDE (0, 0, 99)" for i in range(9)
    )
    before = served.server.hub.tick
    error = refused(served, text, ann)
    assert error["code"] == "quota_exceeded"
    assert "bytes of state" in error["message"]
    mine = {query.name for query in served.server.owned_by("ann")}
    assert mine <= {"q0", "q1", "q2", "q3"}
    assert served.server.hub.tick >= before + 2
    dropped = ";".join(f"DROP QUERY IF EXISTS q{i}" for i in range(9))
    assert served.sql(dropped, root)["message"]


def test_names_that_have_no_place_in_a_log_are_refused(served: Running, ann: str) -> None:
    for name in ("a\nb", "a\u202eb", "a\x00b"):
        error = refused(served, f'REGISTER QUERY "{name}" AS SELECT id FROM Cars', ann)
        assert (error["status"], error["code"]) == (400, "wrong_statement")


# What a query may cost


def test_a_query_that_tells_too_much_is_suspended(served: Running, ann: str, root: str) -> None:
    served.sql("REGISTER QUERY calm AS SELECT id FROM Cars WHERE id < 5", ann)
    served.sql("REGISTER QUERY wild AS SELECT id FROM Cars WHERE id > 100", ann)
    with served.listen("wild", ann) as wild, served.listen("everything", root) as all_of_it:
        assert json.loads(wild.recv(WAIT)) == []
        all_of_it.recv(WAIT)
        rows = [car(1_000 + i, 2) for i in range(41)]
        served.push("Cars", rows, time="2026-01-01T00:00:02Z")
        *messages, ending = rest_of(wild)
        assert ending["error"]["code"] == "query_suspended"
        assert "it told 41 deltas in one tick, and may tell 40" in ending["error"]["message"]
        assert wild.close_code == 4429
        seen = [delta for message in messages for delta in message]
        assert sum(delta["sign"] for delta in seen) == 0  # it takes its answer back
        assert len(json.loads(all_of_it.recv(WAIT))) == 41  # and nobody else notices
    assert served.answer("calm", ann) == [[i] for i in range(5)]
    found = state_of(served, "wild", ann)
    assert found["state"] == "suspended"
    assert "may tell 40" in found["reason"]
    assert found["sql"].startswith("REGISTER QUERY wild")
    listed = served.http.get("/queries", headers=bearer(ann)).json()
    assert {query["name"]: query["state"] for query in listed} == {
        "calm": "running",
        "wild": "suspended",
    }
    reply = served.http.get("/queries/wild/answer", headers=bearer(ann))
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "query_suspended")


def suspended(served: Running, ann: str, name: str = "wild") -> None:
    """A query of ann's that is suspended by its initial answer, which a condition hides."""
    served.http.put("/quotas/ann", json={"deltas": 10}).raise_for_status()
    served.sql(f"REGISTER QUERY {name} AS SELECT id FROM Cars WHERE id < 20", ann)
    wait_for(lambda: state_of(served, name, ann)["state"] == "suspended")


def test_its_owner_may_have_it_again_and_nobody_else(served: Running, ann: str) -> None:
    suspended(served, ann)
    bob = served.server.store.create_token("bob", "client")
    for reply in (
        served.http.post("/queries/wild/resume", headers=bearer(bob)),
        served.http.get("/queries/wild", headers=bearer(bob)),
    ):
        assert reply.status_code == 404
    assert refused(served, "REGISTER QUERY wild AS SELECT id FROM Cars", bob)["status"] == 409
    assert refused(served, "DROP QUERY wild", bob)["status"] == 404
    assert served.http.get("/quotas", headers=bearer(ann)).json()[0]["used"]["queries"] == 1
    served.http.put("/quotas/ann", json={"deltas": 1_000}).raise_for_status()
    resumed = served.http.post("/queries/wild/resume", headers=bearer(ann))
    assert resumed.json()["state"] == "running"
    assert resumed.json()["owner"] == "ann"
    assert len(served.answer("wild", ann)) == 20
    assert served.http.post("/queries/wild/resume", headers=bearer(ann)).status_code == 404


def test_a_suspended_query_can_be_dropped_and_replaced(served: Running, ann: str) -> None:
    suspended(served, ann)
    assert served.sql("DROP QUERY wild", ann)["message"] == 'query "wild" dropped'
    assert served.http.get("/queries/wild", headers=bearer(ann)).status_code == 404
    suspended(served, ann)
    again = "REGISTER QUERY wild AS SELECT id FROM Cars WHERE id = 1"
    refused(served, f"{again}; REGISTER QUERY wrong AS SELECT id FROM Nowhere", ann)
    assert state_of(served, "wild", ann)["state"] == "running"
    assert not served.server.suspended
    served.sql("DROP QUERY wild", ann)
    assert "wild" not in served.session.catalog.queries


def test_an_answer_that_grows_too_large_is_suspended(served: Running, ann: str) -> None:
    guard: Guard = served.server.guard
    served.sql("REGISTER QUERY mine AS SELECT id, x FROM Cars WHERE id < 10", ann)
    wait_for(lambda: served.server.hub.known_size("mine") == 10)
    guard.weigh()
    assert state_of(served, "mine", ann)["state"] == "running"
    served.http.put("/quotas/ann", json={"answer": 19}).raise_for_status()
    guard.weigh()
    assert "has 20 values" in state_of(served, "mine", ann)["reason"]
    served.sql("DROP QUERY mine", ann)
    served.http.put("/quotas/ann", json={"answer": 1_000, "state": 25 * VALUE}).raise_for_status()
    served.sql("REGISTER QUERY mine AS SELECT id, x FROM Cars WHERE id < 10", ann)
    served.sql("REGISTER QUERY less AS SELECT id, x FROM Cars WHERE id < 5", ann)
    wait_for(lambda: served.server.hub.known_size("less") == 5)
    guard.weigh()
    assert "the largest of your queries" in state_of(served, "mine", ann)["reason"]
    assert state_of(served, "less", ann)["state"] == "running"


def test_what_an_operators_sink_needs_is_not_suspended(
    served: Running, ann: str, tmp_path: Path
) -> None:
    served.http.put("/quotas/ann", json={"answer": 5}).raise_for_status()
    served.sql("REGISTER QUERY mine AS SELECT id FROM Cars WHERE id > 5000", ann)
    served.sql("CREATE SINK kept FOR mine TO PARQUET ('kept')")
    query = served.session.catalog.queries["mine"]
    served.server.guard._suspend(query, "of a test")
    assert state_of(served, "mine", ann)["state"] == "running"
    served.sql("DROP SINK kept")


def test_a_suspension_survives_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home, SETUP, quota=replace(QUOTA, deltas=10)) as running:
        root = running.server.store.create_token("root", "admin")
        ann = running.server.store.create_token("ann", "client")
        running.http.headers.update(bearer(root))
        running.push("Cars", [car(i, 1) for i in range(20)], time="2026-01-01T00:00:01Z")
        running.sql("REGISTER QUERY wild AS SELECT id FROM Cars WHERE id < 15", ann)
        wait_for(lambda: state_of(running, "wild", ann)["state"] == "suspended")
    with serving(home, SETUP, quota=QUOTA) as running:
        assert state_of(running, "wild", ann)["state"] == "suspended"
        running.http.post("/queries/wild/resume", headers=bearer(ann)).raise_for_status()
        assert len(running.answer("wild", ann)) == 15
        # Killed between the note and the drop: it runs, so the note is forgotten.
        text = running.session.catalog.text_of("query", "wild")
        note = Suspended("wild", "ann", text, "of a test", 0.0)
        running.server.store.suspend("wild", note)
    with serving(home, SETUP, quota=QUOTA) as running:
        assert state_of(running, "wild", ann)["state"] == "running"
