"""The server's HTTP API: statements, readings, answers, and what is refused."""

import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from place.engine.slices import Told
from place.errors import ConfigurationError
from place.model.reading import Advance
from place.runtime.durable.aside import put_back
from place.runtime.durable.storage import Storage, StorageFull
from place.runtime.interface import tick_of
from place.server.settings import Settings
from place.server.statements import within
from tests.harness.pipeline import runtime_of
from tests.harness.server import Running, serving, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
CREATE STREAM Arriving (id BIGINT KEY, x DOUBLE, y DOUBLE);
REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5);
REGISTER QUERY arrived AS SELECT id FROM Arriving INSIDE (0, 0, 5, 5);
"""
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("server") / "home"
    with serving(home, SETUP, largest_readings=1 << 20) as running:
        yield running


def car(number: int, x: float, second: int, kind: str = "a") -> list[Any]:
    return [number, x, 1.0, f"2026-01-01T00:00:{second:02d}Z", kind]


def post(served: Running, body: bytes, media: str, stream: str = "cars") -> Any:
    return served.http.post(
        f"/streams/{stream}/readings", content=body, headers={"Content-Type": media}
    )


def error_of(reply: Any) -> dict[str, Any]:
    """The error of a reply, which has the one shape."""
    body = reply.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"code", "message", "hint", "line", "column"}
    error: dict[str, Any] = body["error"]
    return error


# Readings


def arrow_body(columns: dict[str, list[Any]]) -> bytes:
    table = pa.table(columns)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


BODIES = {
    "application/json": json.dumps(
        [{"id": 1, "x": 1, "y": 1, "ts": "2026-01-01 00:00:01", "kind": "a"}, [2, 3], "no"]
    ).encode(),
    "application/x-ndjson": b'{"id":1,"x":1,"y":1,"ts":"2026-01-01 00:00:01","kind":"a"}\n'
    b'{"id":2,"x":"far","y":1,"ts":"2026-01-01 00:00:01","kind":"a"}\n[]\n',
    "text/csv": b"id,x,y,ts,kind\n1,1,1,2026-01-01 00:00:01,a\n2,far,1,2026-01-01 00:00:01,a\nx\n",
    ARROW: arrow_body(
        {
            "id": [1, None, 3],
            "x": [1.0, 1.0, None],
            "y": [1.0, 1.0, 1.0],
            "ts": ["2026-01-01 00:00:01"] * 3,
            "kind": ["a"] * 3,
        }
    ),
}


@pytest.mark.parametrize("media", BODIES)
def test_readings_of_any_format_and_which_of_them_are_refused(served: Running, media: str) -> None:
    reply = post(served, BODIES[media], f"{media}; charset=utf-8")
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert (body["taken"] + body["late"], body["refused_count"]) == (1, 2)
    assert [each["row"] for each in body["refused"]] == [1, 2]
    assert all(each["reason"] for each in body["refused"])


def test_what_is_taken_reaches_the_answer_and_what_disappears_leaves_it(served: Running) -> None:
    served.push("cars", [car(11, 1, 10), car(12, 9, 10)], time="2026-01-01 00:00:10")
    wait_for(lambda: [11, "a"] in served.answer("near"))
    assert [12, "a"] not in served.answer("near")
    gone = [{"op": "disappear", "id": 11, "ts": "2026-01-01T00:00:11Z"}]
    served.push("cars", gone, time="2026-01-01 00:00:11")
    wait_for(lambda: [11, "a"] not in served.answer("near"))


def test_a_stream_without_a_time_of_its_own_goes_by_the_arrival(served: Running) -> None:
    served.push("Arriving", [[1, 1, 1]])
    wait_for(lambda: served.answer("arrived") == [[1]])
    served.push("Arriving", [[1, 9, 9], [2, 2, 2]])
    wait_for(lambda: served.answer("arrived") == [[2]])


def test_late_readings_are_counted_and_the_future_is_refused(served: Running) -> None:
    served.sql("CREATE STREAM Timed (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)")

    def push(*seconds: int) -> tuple[int, int]:
        body = served.push("timed", [[1, 1, 1, f"2026-01-01 00:00:{s:02d}"] for s in seconds])
        return body["taken"], body["late"]

    def stream() -> dict[str, Any]:
        found = served.http.get("/streams").json()
        return next(each for each in found if each["name"] == "Timed")

    assert push(10, 20, 15) == (2, 1)
    wait_for(lambda: stream()["readings"] == 2)
    assert push(19, 21) == (1, 1)
    wait_for(lambda: stream()["late"] == 2)
    assert stream()["last_reason"].startswith("Timed: late: its time 2026-01-01 00:00:19 was over")
    ahead = {"id": 1, "x": 1, "y": 1, "ts": "2150-01-01"}
    body = served.push("timed", [ahead])
    assert (body["taken"], body["refused_count"]) == (0, 1)
    (refused,) = body["refused"]
    assert refused["reason"] == 'column "ts": 2150-01-01 00:00:00 is too far in the future'
    assert "max_future" in refused["hint"]
    reply = served.http.post("/streams/timed/readings", json=[], params={"time": "2150-01-01"})
    assert (reply.status_code, error_of(reply)["code"]) == (400, "wrong_time")
    assert push(22) == (1, 0)


def test_many_that_are_refused_are_counted_and_some_are_listed(served: Running) -> None:
    rows = [[number, "far", 1, 0, "a"] for number in range(12_000)]
    body = served.http.post("/streams/cars/readings", json=rows).json()
    assert (body["taken"], body["refused_count"], len(body["refused"])) == (0, 12_000, 100)


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (b"[1, 2", "application/json", 400, "wrong_json"),
        (b'{"id": 1}', "application/json", 400, "wrong_json"),
        (b"[" * 100_000, "application/json", 400, "wrong_json"),
        (b"\xff\xfe", "application/json", 400, "wrong_json"),
        (b"garbage", ARROW, 400, "wrong_arrow"),
        (b"id\n1\n", "text/plain", 415, "unsupported_media_type"),
        (b"x" * ((1 << 20) + 1), "text/csv", 413, "too_large"),
    ],
)
def test_bodies_that_are_no_readings(
    served: Running, body: bytes, media: str, status: int, code: str
) -> None:
    reply = post(served, body, media)
    assert reply.status_code == status, reply.text
    assert error_of(reply)["code"] == code


@pytest.mark.parametrize("time", ["9999-12-31 23:59:59", "1899-12-31 00:00:00", "2201-01-01"])
def test_a_stream_cannot_be_sent_beyond_all_times(served: Running, time: str) -> None:
    reply = served.http.post("/streams/cars/readings", json=[], params={"time": time})
    assert (reply.status_code, error_of(reply)["code"]) == (400, "wrong_time")


def test_bodies_that_wait_for_the_disk_count_as_received(served: Running) -> None:
    server = served.server
    with ThreadPoolExecutor(1) as pool, server.runtime.ingest.lock:
        reply = pool.submit(served.http.post, "/streams/cars/readings", json=[car(1, 9, 23)])
        wait_for(lambda: server.receiving > 0)
        time.sleep(0.3)
        assert server.receiving > 0
        assert not reply.done()
    assert reply.result().status_code == 200
    assert server.receiving == 0


def test_a_bug_in_the_answer_to_one_does_not_end_the_others(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OverflowError("date value out of range")

    with monkeypatch.context() as patch:
        patch.setattr("place.server.watched.Watched.fulfilled", fail)
        wrong = served.http.get("/queries/near/answer")
        assert (wrong.status_code, wrong.headers["connection"]) == (500, "close")
    assert served.http.get("/queries/near/answer").status_code == 200
    assert served.server.hub.is_alive


def test_a_hub_that_is_gone_is_seen_in_the_health(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("place.server.hub.Hub.is_alive", False)
    assert served.http.get("/health").status_code == 503


def test_a_body_without_a_length_is_also_limited(served: Running) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 32_768

    reply = served.http.post(
        "/streams/cars/readings", content=pieces(), headers={"Content-Type": "text/csv"}
    )
    assert reply.status_code == 413


def test_when_the_pipeline_lags_more_is_refused_for_a_while(served: Running) -> None:
    tight = Settings(data=served.server.settings.data, most_waiting_readings=0)
    usual, served.server.settings = served.server.settings, tight
    try:
        with served.server.runtime.pause():  # no tick takes them
            served.push("cars", [car(1, 9, 20)])
            reply = served.http.post("/streams/cars/readings", json=[car(1, 9, 21)])
    finally:
        served.server.settings = usual
    assert reply.status_code == 429
    assert error_of(reply)["code"] == "busy"
    assert int(reply.headers["Retry-After"]) >= 1


def test_a_full_disk_is_said(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StorageFull("no space left for ingest", hint="free some space")

    monkeypatch.setattr(served.server.runtime, "accept", full)
    reply = served.http.post("/streams/cars/readings", json=[car(1, 9, 22)])
    assert (reply.status_code, error_of(reply)["code"]) == (507, "storage_full")


def test_ticks_that_fail_are_seen_in_the_health(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ConfigurationError("the machine is on fire")

    with monkeypatch.context() as patch:
        patch.setattr("place.server.pump.PATIENCE", 0.1)
        patch.setattr(served.server.runtime, "pump", fail)
        wait_for(lambda: served.http.get("/health").status_code == 503)
        assert "fire" not in served.http.get("/health").text
        assert "place_failing 1" in served.http.get("/metrics").text
    wait_for(lambda: served.http.get("/health").status_code == 200)


# Statements


def test_statements_and_their_errors(served: Running) -> None:
    body = served.sql("SELECT id FROM Cars INSIDE (90, 90, 91, 91); SHOW STREAMS")
    assert body["columns"] == ["stream", "objects", "readings", "late", "last reason"]
    reply = served.http.post("/sql", json={"sql": "SHOW STREAMS;\nSELECT id FROM Cabs"})
    error = error_of(reply)
    assert (reply.status_code, error["code"]) == (400, "wrong_statement")
    assert (error["line"], error["column"]) == (2, 16)
    assert error["hint"] == 'did you mean "Cars"?'
    reply = served.http.post("/sql", json={"sql": "REGISTER QUERY near AS SELECT id FROM Cars"})
    assert (reply.status_code, error_of(reply)["code"]) == (409, "conflict")
    reply = served.http.post("/sql", json={"sql": "SELECT " + "(" * 5000 + "1"})
    assert reply.status_code == 400
    deep = {"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}}
    reply = served.http.post("/sql", **deep)  # type: ignore[arg-type]
    assert reply.status_code == 400, reply.text
    error_of(reply)


def test_a_run_of_registered_queries_is_one_tick(served: Running) -> None:
    runtime = served.server.runtime
    before = tick_of(runtime)
    texts = [f"REGISTER QUERY many{i} AS SELECT id FROM Cars INSIDE ({i}, 0, 1)" for i in range(50)]
    wrong = "REGISTER QUERY many3 AS SELECT id FROM Cars"
    reply = served.http.post("/sql", json={"sql": ";".join([*texts, wrong, "SHOW STREAMS"])})
    assert reply.status_code == 409
    assert before < tick_of(runtime) <= before + 3
    names = {query["name"] for query in served.http.get("/queries").json()}
    assert {f"many{i}" for i in range(50)} <= names
    served.sql(";".join(f"DROP QUERY many{i}" for i in range(50)))
    names = {query["name"] for query in served.http.get("/queries").json()}
    assert not any(name.startswith("many") for name in names)


def test_health_says_that_readings_are_set_aside_until_they_are_put_back(served: Running) -> None:
    runtime = runtime_of(served.session)
    told: list[Told] = [Advance(1, "Cars")]
    with runtime.pause():
        logged = runtime.ingest.write(told)
        runtime.ingest.set_aside(logged)
    found = served.http.get("/health")
    assert (found.status_code, found.json()["status"], found.json()["set_aside"]) == (
        *(200, "degraded", 1),
    )
    assert put_back(Storage(str(runtime.directory))) == [f"{logged.name}.failed"]
    wait_for(lambda: served.http.get("/health").json()["status"] == "ok")
    ingest = runtime.directory / "ingest"
    wait_for(lambda: {path.suffix for path in ingest.iterdir()} == {".arrow"})
    wait_for(lambda: not runtime.ingest.due())


def test_queries_are_described(served: Running) -> None:
    served.sql("REGISTER QUERY around AS SELECT id FROM Cars INSIDE ('M', 3, 4, 2)")
    served.sql("REGISTER QUERY nearest AS SELECT id FROM Cars kNN (2, 1, 1)")
    around = served.http.get("/queries/AROUND").json()
    assert (around["kind"], around["moving"], around["region"]) == ("range", True, None)
    assert around["focal"] == {"stream": "Cars", "key": 3, "extents": [4.0, 2.0]}
    assert around["nearest"] is None
    # Sizes follow the deltas, which are given out after the statement was answered.
    wanted = len(served.answer("nearest"))
    wait_for(lambda: served.http.get("/queries/nearest").json()["size"] == wanted)
    nearest = served.http.get("/queries/nearest").json()
    assert (nearest["kind"], nearest["moving"]) == ("knn", False)
    assert nearest["region"] is None
    alone = {"k": 2, "reverse": False, "total": None, "places": [[1.0, 1.0]]}
    assert nearest["nearest"] == alone
    led = {"stream": "Cars", "key": 3}
    served.sql("REGISTER QUERY both AS SELECT id FROM Cars kNN (2, MAX OF (FOCAL 3, POINT (1, 1)))")
    both = served.http.get("/queries/both").json()
    assert both["moving"]
    assert both["nearest"] == alone | {"total": "MAX", "places": [led, [1.0, 1.0]]}
    served.sql("REGISTER QUERY back AS SELECT id FROM Cars RNN ('M', 2, 3)")
    back = served.http.get("/queries/back").json()
    assert back["nearest"] == alone | {"reverse": True, "places": [led]}
    near = served.http.get("/queries/near").json()
    assert near["region"] == {"type": "Rectangle", "coordinates": [0.0, 0.0, 5.0, 5.0]}
    assert near["columns"] == ["id", "kind"]
    wait_for(lambda: served.http.get("/queries/near").json()["size"] == len(served.answer("near")))
    served.sql("DROP QUERY around; DROP QUERY nearest; DROP QUERY both; DROP QUERY back")
    assert served.http.get("/queries/around").status_code == 404


def test_what_there_is_not(served: Running) -> None:
    for method, path, status in (
        ("GET", "/queries/no", 404),
        ("GET", "/queries/no/answer", 404),
        ("GET", "/queries/no/updates", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/static/nothing.js", 404),
        ("GET", "/static/__init__.py", 404),
        ("GET", "/static/../../etc/passwd", 404),
        ("PUT", "/sql", 405),
        ("POST", "/streams/no/readings", 404),
        ("POST", "/sql", 422),
    ):
        reply = served.http.request(method, path)
        assert reply.status_code == status, (path, reply.text)
        error_of(reply)


def test_health_metrics_and_the_library_of_the_map(served: Running) -> None:
    health = served.http.get("/health").json()
    assert (health["status"], health["failure"]) == ("ok", None)
    text = served.http.get("/metrics").text
    assert 'place_readings_total{stream="Cars"}' in text
    assert "place_subscribers 0" in text
    script = served.http.get("/vendor/maplibre-gl.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert served.http.get("/vendor/other.js").status_code == 404
    headers = served.http.get("/health").headers
    assert "worker-src blob:" in headers["Content-Security-Policy"]
    assert "access-control-allow-origin" not in headers


# Files


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE Secrets FROM '/etc/passwd'",
        "CREATE TABLE Secrets FROM '../../catalog.csv'",
        "CREATE STREAM Secrets (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM FILES ('/etc/')",
        "CREATE STREAM Secrets (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM FILES ('../')",
        "CREATE STREAM Secrets (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM FILES ('file:///etc')",
        "CREATE SINK secrets FOR near TO PARQUET ('/tmp/place-secrets')",
        "CREATE SINK secrets FOR near TO PARQUET ('link/out')",
        "CREATE STREAM Secrets (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM FILES ('{../secret,b}')",
        r"CREATE STREAM Secrets (id BIGINT KEY, x DOUBLE, y DOUBLE) FROM FILES ('\.\./secret')",
    ],
)
def test_no_statement_names_a_file_outside_the_data_directory(
    served: Running, statement: str, tmp_path: Path
) -> None:
    link = served.server.settings.data / "link"
    if not link.exists():
        link.symlink_to("/tmp")
    reply = served.http.post("/sql", json={"sql": f"SHOW STREAMS; {statement}"})
    assert reply.status_code == 400, reply.text
    message = error_of(reply)["message"]
    assert "outside the data directory" in message or "not one of a plain path" in message


def test_relative_paths_start_at_the_data_directory(served: Running) -> None:
    data = served.server.settings.data
    (data / "cars.csv").write_text("id,owner\n1,Ann\n", "utf-8")
    served.sql("CREATE TABLE Owners FROM 'cars.csv'")
    assert served.sql("SELECT id, owner FROM Owners")["rows"] == [[1, "Ann"]]
    filed = "CREATE STREAM Filed (id BIGINT KEY, x DOUBLE, y DOUBLE)\n  FROM FILES ('incoming')"
    served.sql(f"SHOW STREAMS; {filed}")
    stream = served.session.catalog.streams["filed"]
    assert stream.source is not None
    assert stream.source.option("path") == str(data / "incoming")
    served.sql("DROP STREAM Filed; DROP TABLE Owners")


def test_paths_that_lead_out(tmp_path: Path) -> None:
    assert within(tmp_path, "a/../b") == tmp_path / "b"
    for path in ("..", "a/../../b", "/etc", "s3://bucket/a", "a\0b", ""):
        assert within(tmp_path, path) in (None, tmp_path), path
