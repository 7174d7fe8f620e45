"""Who may do what: every route with every role, and nothing of others for anybody."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
import websockets.exceptions
import websockets.sync.client as ws
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute, Mount, Route

from place.server.app import make_app
from tests.harness.server import WAIT, Running, bearer, serving, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
CREATE TABLE Owners (id BIGINT, owner STRING) AS VALUES (1, 'Ann');
CREATE REGION Downtown AS RECTANGLE (0, 0, 5, 5);
REGISTER QUERY theirs AS SELECT id FROM Cars;
"""
EVERYBODY = {"admin", "client", "ingest", "viewer", "monitor", "nobody"}
READERS, ASKERS = {"admin", "client", "viewer"}, {"admin", "client"}
ROUTES: dict[tuple[str, str], set[str]] = {
    ("GET", "/"): EVERYBODY,
    ("GET", "/docs"): EVERYBODY,
    ("GET", "/vendor/{name}"): EVERYBODY,
    ("GET", "/openapi.json"): EVERYBODY,
    ("GET", "/health"): EVERYBODY,
    ("POST", "/login"): EVERYBODY,
    ("POST", "/logout"): EVERYBODY,
    ("GET", "/me"): EVERYBODY - {"nobody"},
    ("GET", "/metrics"): {"admin", "monitor"},
    ("POST", "/sql"): ASKERS,
    ("GET", "/queries"): READERS,
    ("GET", "/queries/{name}"): READERS,
    ("POST", "/queries/{name}/resume"): ASKERS,
    ("GET", "/queries/{name}/answer"): READERS,
    ("GET", "/queries/{name}/constraints"): READERS,
    ("GET", "/queries/{name}/updates"): READERS,
    ("WS", "/queries/{name}/updates"): READERS,
    ("GET", "/queries/{name}/webhooks"): ASKERS,
    ("POST", "/queries/{name}/webhooks"): ASKERS,
    ("DELETE", "/queries/{name}/webhooks/{number}"): ASKERS,
    ("GET", "/quotas"): ASKERS,
    ("PUT", "/quotas/{name}"): {"admin"},
    ("DELETE", "/quotas/{name}"): {"admin"},
    ("GET", "/streams"): READERS,
    ("GET", "/past"): READERS,
    ("POST", "/streams/{name}/readings"): {"admin", "ingest"},
    ("POST", "/streams/{name}/disappear"): {"admin", "ingest"},
    ("GET", "/streams/{name}/osmand"): {"admin", "ingest"},
    ("POST", "/streams/{name}/osmand"): {"admin", "ingest"},
    ("POST", "/advance"): {"admin", "ingest"},
    ("GET", "/map/about"): READERS,
    ("GET", "/map/roads/{stream}"): READERS,
    ("GET", "/map/land/{z}/{x}/{y}"): READERS,
    ("GET", "/map/basemap.pmtiles"): READERS,
    ("WS", "/map"): READERS,
}
"""Who may ask for what. A new route needs an entry here."""

BODIES: dict[str, Any] = {
    "/sql": {"sql": "SHOW STREAMS"},
    "/login": {"token": "wrong"},
    "/quotas/{name}": {"queries": 10},
    "/streams/{name}/readings": [],
    "/queries/{name}/webhooks": {"url": "http://127.0.0.1:1/"},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("access") / "home"
    with serving(home, SETUP) as running:
        yield running


@pytest.fixture(scope="module")
def tokens(served: Running) -> dict[str, str]:
    store = served.server.store
    made = {
        "admin": store.create_token("root", "admin"),
        "client": store.create_token("ann", "client"),
        "other": store.create_token("bob", "client"),
        "ingest": store.create_token("sensor", "ingest"),
        "viewer": store.create_token("ann", "viewer"),
        "monitor": store.create_token("grafana", "monitor"),
        "revoked": store.create_token("carl", "admin"),
    }
    store.revoke_token(made["revoked"].split("_")[1])
    return made


def ask(served: Running, method: str, path: str, token: str | None, **fields: Any) -> Any:
    """The status and body of a reply; a stream is not read to its end, as it has none."""
    headers = bearer(token)
    if method == "WS":
        try:
            with ws.connect(
                served.url.replace("http", "ws", 1) + path,
                additional_headers=headers,
                open_timeout=WAIT,
            ):
                return 101, {}
        except websockets.exceptions.InvalidStatus as refusal:
            return refusal.response.status_code, json.loads(refusal.response.body or b"{}")
    with served.http.stream(method, path, headers=headers, **fields) as reply:
        if reply.headers.get("content-type", "").startswith("application/json"):
            return reply.status_code, json.loads(reply.read() or b"null")
        return reply.status_code, None


def concrete(path: str, query: str = "mine") -> str:
    names = {
        "{name}": "Cars" if path.startswith("/streams") else query,
        "{number}": "0",
        "{stream}": "Cars",
        "{z}": "3",
        "{x}": "4",
        "{y}": "2",
    }
    for name, value in names.items():
        path = path.replace(name, value)
    return path


def routes_of(routes: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
    """All routes, those of included routers among them."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_of(inner.routes)
        else:
            yield route


def test_every_route_has_an_entry(served: Running) -> None:
    found: set[tuple[str, str]] = set()
    for route in routes_of(make_app(served.server).routes):
        if isinstance(route, Mount):
            assert route.path == "/static"
        elif isinstance(route, APIWebSocketRoute):
            found.add(("WS", route.path))
        elif isinstance(route, APIRoute | Route):
            found |= {(method, route.path) for method in route.methods or () if method != "HEAD"}
        else:
            raise AssertionError(f"{route} is of a kind that this test does not know")
    assert len(found) > 15
    assert found <= set(ROUTES)
    absent = {path for _, path in set(ROUTES) - found}
    assert all(path.startswith("/map") for path in absent), absent


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_with_every_role(
    served: Running, tokens: dict[str, str], method: str, path: str
) -> None:
    allowed = ROUTES[method, path]
    served.sql("REGISTER QUERY IF NOT EXISTS mine AS SELECT id FROM Cars", token=tokens["client"])
    fields = {"json": BODIES[path]} if path in BODIES else {}
    if method == "GET":
        fields = {}
    for who in (*sorted(EVERYBODY), "wrong", "revoked", "basic"):
        token = tokens.get(who)
        if who == "wrong":
            token = "place_000000000000_" + "0" * 64
        if who == "basic":
            token = tokens["admin"][:-1]
        status, body = ask(served, method, concrete(path), token, **fields)
        if who in allowed or "nobody" in allowed:
            if path == "/login":
                assert status == 401
            else:
                assert status not in (401, 403), (who, body)
                assert status < 500, (who, body)
        elif who in ("nobody", "wrong", "revoked", "basic"):
            assert status == 401, (who, body)
            assert body["error"]["code"] == "not_authenticated"
        else:
            assert status == 403, (who, body)
            assert body["error"]["code"] == "not_allowed"


PRIVATE = [
    ("GET", "/queries/{name}"),
    ("GET", "/queries/{name}/answer"),
    ("GET", "/queries/{name}/updates"),
    ("WS", "/queries/{name}/updates"),
    ("GET", "/queries/{name}/webhooks"),
    ("POST", "/queries/{name}/webhooks"),
    ("DELETE", "/queries/{name}/webhooks/{number}"),
]


@pytest.mark.parametrize(("method", "path"), PRIVATE)
def test_what_is_anothers_is_as_if_it_were_not_there(
    served: Running, tokens: dict[str, str], method: str, path: str
) -> None:
    served.sql("REGISTER QUERY IF NOT EXISTS mine AS SELECT id FROM Cars", token=tokens["client"])
    fields = {"json": BODIES[path]} if path in BODIES and method == "POST" else {}
    for name in ("mine", "theirs"):
        is_there = ask(served, method, concrete(path, name), tokens["other"], **fields)
        is_not = ask(served, method, concrete(path, "nosuch"), tokens["other"], **fields)
        assert is_there[0] == is_not[0] == 404
        assert json.dumps(is_there[1]).replace(name, "nosuch") == json.dumps(is_not[1])
    assert ask(served, "GET", "/queries/mine", tokens["client"])[0] == 200
    assert ask(served, "GET", "/queries/mine", tokens["admin"])[0] == 200


def test_a_guessed_number_of_anothers_webhook(served: Running, tokens: dict[str, str]) -> None:
    served.sql("REGISTER QUERY IF NOT EXISTS mine AS SELECT id FROM Cars", token=tokens["client"])
    served.sql("REGISTER QUERY bobs AS SELECT id FROM Cars", token=tokens["other"])
    status, hook = ask(
        served,
        "POST",
        "/queries/bobs/webhooks",
        tokens["admin"],
        json={"url": "http://127.0.0.1:1"},
    )
    assert status == 201
    for path in ("/queries/mine/webhooks/", "/queries/bobs/webhooks/"):
        assert ask(served, "DELETE", path + hook["id"], tokens["client"])[0] == 404
    # Bob owns the query, but the admin's webhook is not his.
    assert ask(served, "GET", "/queries/bobs/webhooks", tokens["other"]) == (200, [])
    assert ask(served, "DELETE", f"/queries/bobs/webhooks/{hook['id']}", tokens["other"])[0] == 404
    assert ask(served, "DELETE", f"/queries/bobs/webhooks/{hook['id']}", tokens["admin"])[0] == 204
    served.sql("DROP QUERY bobs", token=tokens["other"])


def test_clients_cannot_have_us_call_this_machine(served: Running, tokens: dict[str, str]) -> None:
    served.sql("REGISTER QUERY IF NOT EXISTS mine AS SELECT id FROM Cars", token=tokens["client"])
    for url in ("http://127.0.0.1:1/", "http://localhost/", "http://169.254.169.254/latest"):
        status, body = ask(
            served, "POST", "/queries/mine/webhooks", tokens["client"], json={"url": url}
        )
        assert (status, body["error"]["code"]) == (400, "wrong_url")


STATEMENTS = {
    "SELECT id FROM Cars": 200,
    "SHOW STREAMS; SHOW TABLES; SHOW REGIONS; SHOW QUERIES": 200,
    "DESCRIBE Cars": 200,
    "DESCRIBE Owners": 200,
    "DESCRIBE Downtown": 200,
    "DESCRIBE mine": 200,
    "EXPLAIN QUERY mine": 200,
    "EXPLAIN SELECT id FROM Cars": 200,
    "EXPLAIN REGISTER QUERY another AS SELECT id FROM Cars": 200,
    "SELECT * FROM QUERY mine AS OF '2026-01-01'": 400,  # theirs to ask, and there is no archive
    "SELECT * FROM QUERY theirs AS OF '2026-01-01'": 404,
    "EXPLAIN SELECT * FROM QUERY theirs AS OF '2026-01-01'": 404,
    "SELECT * FROM TRIGGER theirs BETWEEN '2026-01-01' AND '2026-01-02'": 404,
    "REGISTER QUERY another FROM '2026-01-01' AS SELECT id FROM Cars": 400,
    "DESCRIBE theirs": 404,
    "DESCRIBE nosuch": 404,
    "EXPLAIN QUERY theirs": 404,
    "EXPLAIN ANALYZE QUERY theirs": 404,
    "EXPLAIN QUERY nosuch": 404,
    "DROP QUERY theirs": 404,
    "DROP QUERY IF EXISTS theirs": 404,
    "DROP QUERY nosuch": 404,
    "REGISTER QUERY theirs AS SELECT id FROM Cars": 409,
    "REGISTER QUERY IF NOT EXISTS Theirs AS SELECT id FROM Cars": 409,
    "EXPLAIN REGISTER QUERY theirs AS SELECT id FROM Cars": 409,
    "SHOW SINKS": 403,
    "CREATE STREAM More (id BIGINT KEY, x DOUBLE, y DOUBLE)": 403,
    "CREATE TABLE More (id BIGINT) AS VALUES (1)": 403,
    "CREATE REGION More AS CIRCLE (0, 0, 1)": 403,
    "CREATE SINK more FOR mine TO PARQUET ('out')": 403,
    "REFRESH TABLE Owners": 403,
    "DROP STREAM Cars": 403,
    "DROP TABLE Owners": 403,
    "DROP REGION Downtown": 403,
    "DROP SINK none": 403,
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_a_client_may_execute(served: Running, tokens: dict[str, str], statement: str) -> None:
    served.sql("REGISTER QUERY IF NOT EXISTS mine AS SELECT id FROM Cars", token=tokens["client"])
    status, body = ask(served, "POST", "/sql", tokens["client"], json={"sql": statement})
    assert status == STATEMENTS[statement], body
    if status == 404:
        assert body["error"]["hint"] is None


def test_hints_do_not_name_what_is_anothers(served: Running, tokens: dict[str, str]) -> None:
    body = ask(served, "POST", "/sql", tokens["client"], json={"sql": "SELECT id FROM theirs"})[1]
    assert "is a query" not in json.dumps(body)
    rows = served.sql("SHOW QUERIES", token=tokens["client"])["rows"]
    assert "theirs" not in {row[0] for row in rows}
    listed = ask(served, "GET", "/queries", tokens["client"])[1]
    assert {query["owner"] for query in listed} <= {"ann"}
    everything = ask(served, "GET", "/queries", tokens["admin"])[1]
    assert "theirs" in {query["name"] for query in everything}


def test_a_query_that_is_dropped_twice_names_no_others(
    served: Running, tokens: dict[str, str]
) -> None:
    served.sql("REGISTER QUERY twice AS SELECT id FROM Cars", token=tokens["client"])
    text = "DROP QUERY twice; DROP QUERY twice"
    status, body = ask(served, "POST", "/sql", tokens["client"], json={"sql": text})
    assert status in (400, 404), body
    assert body["error"]["hint"] is None


def test_a_name_that_changes_hands_between_asking_and_answering(
    served: Running, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann asks for her query; before she is answered it is dropped, and Bob has one of its name."""
    served.sql("REGISTER QUERY handed AS SELECT id FROM Cars", token=tokens["client"])
    hub = served.server.hub
    taken = hub._take

    def late() -> list[Any]:
        items = taken()
        if items:
            held.wait(WAIT)
        return items

    held = threading.Event()
    held.set()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(hub, "_take", late)
        time.sleep(0.7)  # until the thread of the hub waits in the new one
        held.clear()
        asked = pool.submit(ask, served, "GET", "/queries/handed/answer", tokens["client"])
        time.sleep(0.3)
        served.sql("DROP QUERY handed", token=tokens["client"])
        served.sql("REGISTER QUERY handed AS SELECT id, x FROM Cars", token=tokens["other"])
        held.set()
        assert asked.result()[0] == 404
    served.sql("DROP QUERY handed", token=tokens["other"])


def test_a_webhook_does_not_outlive_its_query(
    served: Running, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann's address is looked up for long; meanwhile her query is dropped, and Bob has its name."""
    looking, found = threading.Event(), threading.Event()

    async def public_address(_: httpx.URL) -> str:
        looking.set()
        await asyncio.to_thread(found.wait, WAIT)
        return "127.0.0.1"

    monkeypatch.setattr("place.runtime.durable.webhook.public_address", public_address)
    served.sql("REGISTER QUERY fleet AS SELECT id FROM Cars", token=tokens["client"])
    with ThreadPoolExecutor(1) as pool:
        new = {"url": "http://slow.example/"}
        made = pool.submit(
            ask, served, "POST", "/queries/fleet/webhooks", tokens["client"], json=new
        )
        assert looking.wait(WAIT)
        served.sql("DROP QUERY fleet", token=tokens["client"])
        served.sql("REGISTER QUERY fleet AS SELECT id, x FROM Cars", token=tokens["other"])
        found.set()
        assert made.result()[0] == 404
    assert served.server.webhooks.of("fleet") == []
    served.sql("DROP QUERY fleet", token=tokens["other"])


@pytest.mark.parametrize(
    "statement",
    [
        'REGISTER QUERY "a/b" AS SELECT id FROM Cars',
        'REGISTER QUERY ".." AS SELECT id FROM Cars',
        'CREATE STREAM "a/b" (id BIGINT KEY, x DOUBLE, y DOUBLE)',
    ],
)
def test_names_that_have_no_place_in_a_path(
    served: Running, tokens: dict[str, str], statement: str
) -> None:
    status, body = ask(served, "POST", "/sql", tokens["admin"], json={"sql": statement})
    assert (status, body["error"]["code"]) == (400, "wrong_statement")


def test_who_is_refused_does_not_fill_the_log(
    served: Running, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(
        logging.getLogger("uvicorn.error"), "callHandlers", lambda r: heard.append(r.getMessage())
    )
    assert ask(served, "WS", "/queries/mine/updates", tokens["revoked"])[0] == 401
    time.sleep(0.2)
    assert heard == []


def test_an_origin_that_is_none(served: Running, tokens: dict[str, str]) -> None:
    headers = {**bearer(tokens["admin"]), "Origin": "http://["}
    reply = served.http.post("/sql", json={"sql": "SHOW STREAMS"}, headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "cross_origin")


def test_an_owner_drops_its_own_query(served: Running, tokens: dict[str, str]) -> None:
    served.sql("REGISTER QUERY passing AS SELECT id FROM Cars", token=tokens["client"])
    assert ask(served, "GET", "/queries/passing", tokens["client"])[1]["owner"] == "ann"
    served.sql("DROP QUERY passing", token=tokens["client"])
    assert "passing" not in served.server.owners
    served.sql("REGISTER QUERY passing AS SELECT id FROM Cars", token=tokens["other"])
    assert ask(served, "GET", "/queries/passing", tokens["client"])[0] == 404
    served.sql("DROP QUERY passing", token=tokens["admin"])


def test_a_revoked_token_closes_what_it_has_opened(served: Running, tokens: dict[str, str]) -> None:
    store = served.server.store
    token = store.create_token("dora", "client")
    served.sql("REGISTER QUERY doras AS SELECT id FROM Cars", token=token)
    with (
        served.listen("doras", token=token) as socket,
        served.http.stream("GET", "/queries/doras/updates", headers=bearer(token)) as events,
    ):
        wait_for(lambda: len(served.server.hub.subscribers()) == 2)
        store.revoke_token(token.split("_")[1])
        assert ask(served, "GET", "/queries/doras", token)[0] == 401
        assert json.loads(socket.recv(timeout=WAIT)) == [], "the answer is empty"
        assert json.loads(socket.recv(timeout=WAIT))["error"]["code"] == "not_authenticated"
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(timeout=WAIT)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
        assert "not_authenticated" in "\n".join(events.iter_lines())
    served.sql("DROP QUERY doras", token=tokens["admin"])


# Browsers


def test_a_browser_logs_in_by_a_cookie_and_offers_tokens_to_websockets(
    served: Running, tokens: dict[str, str]
) -> None:
    served.sql("REGISTER QUERY IF NOT EXISTS mine AS SELECT id FROM Cars", token=tokens["client"])
    reply = served.http.post("/login", json={"token": tokens["client"]})
    assert reply.json() == {"name": "ann", "role": "client"}
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    try:
        assert served.http.get("/me").json()["name"] == "ann"
    finally:
        served.http.cookies.clear()
    assert served.http.get("/me").status_code == 401
    url = served.url.replace("http", "ws", 1) + "/queries/mine/updates"
    offered = [f"place.token.{tokens['client']}", "place"]
    with ws.connect(url, subprotocols=offered) as socket:  # type: ignore[arg-type]
        assert socket.subprotocol == "place"
    with pytest.raises(websockets.exceptions.InvalidStatus):
        ws.connect(url, subprotocols=["place.token.wrong", "place"])  # type: ignore[list-item]


def test_pages_of_other_origins_do_not_get_in(served: Running, tokens: dict[str, str]) -> None:
    evil = {**bearer(tokens["admin"]), "Origin": "https://evil.example"}
    reply = served.http.post("/sql", json={"sql": "SHOW STREAMS"}, headers=evil)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "cross_origin")
    own = {**bearer(tokens["admin"]), "Origin": served.url}
    assert served.http.post("/sql", json={"sql": "SHOW STREAMS"}, headers=own).status_code == 200
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        ws.connect(
            served.url.replace("http", "ws", 1) + "/queries/theirs/updates",
            additional_headers=bearer(tokens["admin"]),
            origin="https://evil.example",  # type: ignore[arg-type]
        )
    assert refused.value.response.status_code == 403


def test_other_origins_are_let_in_where_that_is_asked_for(served: Running) -> None:
    usual = served.server.settings
    served.server.settings = replace(usual, cors=("https://friend.example",))
    try:
        app = make_app(served.server)
    finally:
        served.server.settings = usual

    async def origin_of(method: str, origin: str) -> str | None:
        transport = httpx.ASGITransport(app)
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        async with httpx.AsyncClient(transport=transport, base_url=served.url) as client:
            reply = await client.request(method, "/health", headers=headers)
            return reply.headers.get("Access-Control-Allow-Origin")

    for method in ("GET", "OPTIONS"):
        friend = asyncio.run(origin_of(method, "https://friend.example"))
        assert friend == "https://friend.example"
        assert asyncio.run(origin_of(method, "https://evil.example")) is None
