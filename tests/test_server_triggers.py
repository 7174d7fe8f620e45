"""Triggers on a server: alerts wherever deltas go, and nobody else's; what they keep and cost."""

import contextlib
import json
import socket as sockets
from collections.abc import Iterator
from typing import Any

import pytest
import websockets.exceptions

import place
from place.cli import main
from place.operate.status import prometheus, read_status
from place.runtime.interface import tick_of
from tests.harness.receiver import Receiver
from tests.harness.server import WAIT, Running, bearer, serving, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
CREATE STREAM Guards (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP);
CREATE TRIGGER meeting FOR Cars AS V[2]
  WHEN V.kind = 'cab' AND DISTANCE(V, V) <= 1 AND SPAN(V) <= '10 seconds';
REGISTER QUERY everything AS SELECT id FROM Cars;
"""
PAIR = "FOR Cars AS a, Cars AS b WHEN DISTANCE(a, b) <= 1 AND b.t - a.t IN [0, 10] AND a.id < b.id"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("triggers") / "home", SETUP, idle=0) as running:
        token = running.server.store.create_token("root", "admin")
        running.http.headers.update(bearer(token))
        yield running


@pytest.fixture
def ann(served: Running) -> Iterator[str]:
    yield served.server.store.create_token("ann", "client")
    for query in served.http.get("/queries").json():
        if query["owner"] == "ann":
            word = "TRIGGER" if "TRIGGER" in query["sql"] else "QUERY"
            served.sql(f'DROP {word} "{query["name"]}"')
    served.http.delete("/quotas/ann")


class Clock:
    second = 0


def push(served: Running, *cars: tuple[int, float], kind: str = "cab") -> None:
    """Cars at their places, a minute after all that was pushed before."""
    Clock.second += 60
    at = f"2026-01-01T{Clock.second // 3600:02d}:{Clock.second // 60 % 60:02d}:00Z"
    served.push("Cars", [[number, x, 0.0, at, kind] for number, x in cars], time=at)
    server = served.server
    wait_for(lambda: server.runtime.waiting() == (0, 0))
    wait_for(lambda: server.hub.tick == tick_of(server.runtime))


def told(socket: Any) -> list[dict[str, Any]]:
    """The deltas of the next message that has any."""
    while True:
        found: list[dict[str, Any]] = json.loads(socket.recv(timeout=WAIT))
        if found:
            return found


def test_a_trigger_is_listed_as_one_and_its_answer_is_empty(served: Running) -> None:
    push(served, (1, 0.0), (2, 0.5))
    found = served.http.get("/queries/meeting").json()
    assert (found["kind"], found["size"], found["arrivals"]) == ("trigger", 0, True)
    assert found["columns"] == ["V[1].id", "V[1].t", "V[2].id", "V[2].t"]
    assert found["alerts"] >= 1
    assert "CREATE TRIGGER meeting" in found["sql"]
    assert served.answer("meeting") == []
    kinds = {each["name"]: each["kind"] for each in served.http.get("/queries").json()}
    assert kinds == {"meeting": "trigger", "everything": "filter"}
    query = served.http.get("/queries/everything").json()
    assert (query["alerts"], query["kept"]) == (None, None)
    assert served.sql("SHOW TRIGGERS")["rows"][0][:2] == ["meeting", "V[1], V[2]"]
    assert [row[0] for row in served.sql("SHOW QUERIES")["rows"]] == ["everything"]


def test_alerts_over_a_websocket_and_after_an_id(served: Running) -> None:
    with _listen(served) as socket:
        assert json.loads(socket.recv(timeout=WAIT)) == []
        push(served, (1, 0.0), (2, 0.5))
        (first,) = told(socket)
        assert (first["sign"], first["row"][0], first["row"][2]) == (1, 1, 2)
    push(served, (3, 0.0), (4, 0.5))  # while nobody listens
    with _listen(served, after=first["id"]) as socket:
        (second,) = told(socket)
        assert (second["row"][0], second["row"][2]) == (3, 4)
    with _listen(served) as socket:
        assert json.loads(socket.recv(timeout=WAIT)) == [], "what was told is not told again"


def _listen(served: Running, **parameters: str) -> Any:
    token = served.http.headers["Authorization"].removeprefix("Bearer ")
    return served.listen("meeting", token, **parameters)


def events(served: Running, last: str | None = None) -> Iterator[tuple[str, Any]]:
    """The ids and contents of server-sent events."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with served.http.stream("GET", "/queries/meeting/updates", headers=headers) as reply:
        number = ""
        for line in reply.iter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                number = value
            elif field == "data":
                yield number, json.loads(value)


def test_who_reconnects_before_the_first_alert_misses_none(served: Running) -> None:
    with contextlib.closing(events(served)) as found:
        number, deltas = next(found)
    assert deltas == []
    assert number, "there is no answer to send again, so the first event has an id to resume after"
    push(served, (1, 0.0), (2, 0.5))
    with contextlib.closing(events(served, number)) as found:
        later, (alert,) = next(found)
        assert (later, alert["row"][0]) == (alert["id"], 1)


def test_a_client_in_python_takes_alerts_across_a_broken_connection(served: Running) -> None:
    token = served.http.headers["Authorization"].removeprefix("Bearer ")
    with place.connect(served.url, token=token) as client:
        assert [each["kind"] for each in client.queries() if each["name"] == "meeting"] == [
            "trigger"
        ]
        assert list(client.answer("meeting")) == []
        with client.subscribe("meeting") as alerts:
            assert list(alerts) == []
            assert alerts._socket is not None
            alerts._socket.socket.shutdown(sockets.SHUT_RDWR)
            push(served, (1, 0.0), (2, 0.5))
            delta = alerts.next(timeout=WAIT)
            assert delta is not None
            assert (delta.sign, delta.row[0], delta.row[2]) == (1, 1, 2)


def test_webhooks_get_alerts(served: Running) -> None:
    with contextlib.closing(Receiver()) as receiver:
        reply = served.http.post("/queries/meeting/webhooks", json={"url": receiver.url})
        assert reply.status_code in (200, 201), reply.text
        push(served, (1, 0.0), (2, 0.5))
        wait_for(lambda: len(receiver.deltas()) == 1)
        assert receiver.deltas()[0]["sign"] == 1
        served.http.delete(f"/queries/meeting/webhooks/{reply.json()['id']}")


def test_the_constraints_of_a_trigger(served: Running, ann: str) -> None:
    found = served.http.get("/queries/meeting/constraints").json()
    (node,) = found["nodes"]
    assert (node["name"], node["count"], node["asks"]) == ("V", 2, "V.kind = 'cab'")
    (edge,) = found["edges"]
    assert edge["time"] == {"text": "≤ 10 s apart", "inferred": False}
    assert edge["distance"] == {"text": "≤ 1", "inferred": False}
    assert served.http.get("/queries/everything/constraints").status_code == 404
    reply = served.http.get("/queries/meeting/constraints", headers=bearer(ann))
    assert reply.status_code == 404


# Whose they are


def test_clients_have_triggers_of_their_own_and_see_no_others(served: Running, ann: str) -> None:
    bob = served.server.store.create_token("bob", "client")
    assert served.sql(f"CREATE TRIGGER near {PAIR}", ann)["message"] == 'trigger "near" created'
    assert served.http.get("/queries/near").json()["owner"] == "ann"
    assert [row[0] for row in served.sql("SHOW TRIGGERS", ann)["rows"]] == ["near"]
    assert served.sql("SHOW TRIGGERS", bob)["rows"] == []
    assert served.http.get("/queries", headers=bearer(bob)).json() == []
    for path in ("", "/answer", "/updates", "/constraints"):
        reply = served.http.get(f"/queries/near{path}", headers=bearer(bob))
        assert reply.status_code == 404, path
    hooked = served.http.post(
        "/queries/near/webhooks", json={"url": "http://127.0.0.1:9/"}, headers=bearer(bob)
    )
    assert hooked.status_code == 404
    with pytest.raises(websockets.exceptions.InvalidStatus):
        served.listen("near", bob)
    for sql in ("DROP TRIGGER near", "DROP QUERY near", "EXPLAIN TRIGGER near", "DESCRIBE near"):
        reply = served.http.post("/sql", json={"sql": sql}, headers=bearer(bob))
        assert reply.status_code == 404, (sql, reply.text)
    for sql in (f"CREATE TRIGGER near {PAIR}", "REGISTER QUERY near AS SELECT id FROM Cars"):
        reply = served.http.post("/sql", json={"sql": sql}, headers=bearer(bob))
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")
    for sql in ("SELECT id FROM near", "SELECT id FROM meeting", "EXPLAIN SELECT id FROM near"):
        error = served.http.post("/sql", json={"sql": sql}, headers=bearer(bob)).json()["error"]
        assert "trigger" not in json.dumps(error), "its kind would tell that it is there"
    assert served.sql("EXPLAIN TRIGGER near", ann)["rows"][0][0].startswith("Trigger near")
    with served.listen("near", ann) as socket:
        push(served, (8, 90.0), (9, 90.5))
        assert told(socket)[0]["row"][0] == 8
    assert served.sql("DROP TRIGGER near", ann)["message"] == 'trigger "near" dropped'
    assert served.http.get("/queries/near").status_code == 404


def test_triggers_count_for_the_quota_and_are_suspended_for_what_they_cost(
    served: Running, ann: str
) -> None:
    def quota(**parts: int) -> None:
        assert served.http.put("/quotas/ann", json=parts).status_code == 200

    def is_suspended() -> bool:
        found = served.http.get("/queries/near", headers=bearer(ann)).json()
        return bool(found["state"] == "suspended")

    def reason() -> str:
        wait_for(is_suspended)
        return str(served.http.get("/queries/near", headers=bearer(ann)).json()["reason"])

    quota(queries=1)
    served.sql(f"CREATE TRIGGER near {PAIR}", ann)
    refused = served.http.post(
        "/sql", json={"sql": f"CREATE TRIGGER other {PAIR}"}, headers=bearer(ann)
    )
    assert refused.json()["error"]["code"] == "quota_exceeded"
    push(served, *((number, number * 0.9) for number in range(50)))
    assert served.http.get("/queries/near", headers=bearer(ann)).json()["kept"] >= 50
    used = served.http.get("/quotas", headers=bearer(ann)).json()[0]["used"]
    assert used["queries"] == 1
    assert used["state"] >= 50 * 5 * 16, "the readings that it keeps are state"
    quota(answer=100)
    served.server.guard.weigh()
    assert "it keeps readings of" in reason()
    quota(answer=100_000, pairs=10)
    assert served.http.post("/queries/near/resume", headers=bearer(ann)).status_code == 200
    assert served.http.get("/queries/near", headers=bearer(ann)).json()["kind"] == "trigger"
    for _ in range(2):
        push(served, *((number, number * 0.9) for number in range(50)))
    assert "pairs of readings in one tick" in reason()
    quota(pairs=1_000_000, deltas=10)
    assert served.http.post("/queries/near/resume", headers=bearer(ann)).status_code == 200
    push(served, *((number, number * 0.9) for number in range(50)))
    assert "deltas in one tick" in reason()
    dropped = served.sql("DROP TRIGGER near", ann)
    assert dropped["message"] == 'trigger "near" dropped'


# Figures


def test_figures_of_each_trigger(served: Running) -> None:
    push(served, (1, 0.0), (2, 0.5), (3, 50.0))
    figures = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in served.http.get("/metrics").text.splitlines()
        if not line.startswith("#")
    }
    assert (figures["place_triggers"], figures["place_queries"]) == (1, 1)
    assert figures['place_trigger_readings{trigger="meeting"}'] >= 3
    before = figures['place_trigger_alerts_total{trigger="meeting"}']
    assert before >= 1
    assert figures['place_trigger_matches_total{trigger="meeting"}'] >= before
    assert figures['place_trigger_pairs_total{trigger="meeting"}'] >= 1
    push(served, (1, 0.0), (2, 0.5))
    alerts = served.http.get("/queries/meeting").json()["alerts"]
    assert alerts == before + 1


def test_figures_of_joins(served: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """Two queries of one shape are one join, under the name of the first."""
    join = "SELECT a.id FROM Cars a WINDOW 3 ROWS, Cars b WINDOW 4 ROWS WHERE a.id = b.id"
    for name, least in (("joined", 0), ("again", 1)):
        served.sql(f"REGISTER QUERY {name} AS {join} AND a.x > {least}")
    try:
        push(served, (1, 60.0), (2, 70.0), (3, 80.0), (4, 90.0))
        text = served.http.get("/metrics").text
        assert 'place_join_readings{join="joined"} 7\n' in text
        assert 'place_join_queries{join="joined"} 2\n' in text
        assert 'join="again"' not in text
        home = served.server.runtime.directory
        status = read_status(home)
        assert status["joins"]["joined"]["queries"] == 2
        assert 'place_join_combinations{join="joined"} 0\n' in prometheus(status)
        assert main(["status", "--home", str(home)]) == 0
        assert "joined" in capsys.readouterr().out
    finally:
        served.sql("DROP QUERY joined; DROP QUERY again")


def test_counts_go_on_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path_factory.mktemp("again") / "home"
    with serving(home, SETUP, idle=0) as running:
        push(running, (1, 0.0), (2, 0.5))
        assert running.http.get("/queries/meeting").json()["alerts"] == 1
    with serving(home, "", idle=0) as running:
        assert running.http.get("/queries/meeting").json()["alerts"] == 1
        push(running, (1, 0.0), (2, 0.5))
        assert running.http.get("/queries/meeting").json()["alerts"] == 2
    status = read_status(home)
    assert status["triggers"]["meeting"]["alerts"] == 2
    assert 'place_trigger_alerts_total{trigger="meeting"} 2' in prometheus(status)
    assert main(["status", "--home", str(home)]) == 0
    assert "meeting" in capsys.readouterr().out
    assert main(["changes", "--home", str(home), "--query", "meeting"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["sign"] for line in lines] == [1, 1]
