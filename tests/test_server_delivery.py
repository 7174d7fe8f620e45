"""Deltas as they come: WebSocket, server-sent events and webhooks; nothing lost, nothing twice."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import websockets.exceptions

from place.errors import ConfigurationError
from place.model.time import format_timestamp
from place.runtime.durable.kept_ticks import Keep
from place.runtime.intake.pushed import segment_of
from place.runtime.interface import tick_of
from place.server.access import Who
from place.server.encode import INITIAL, LAST, Message, whole_answer
from place.server.subscriber import Subscriber
from tests.harness.pipeline import opened, reading, runtime_of
from tests.harness.receiver import Receiver
from tests.harness.server import Running, View, serving, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING);
REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5);
REGISTER QUERY far AS SELECT id FROM Cars INSIDE (50, 50, 60, 60);
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("delivery") / "home"
    with serving(home, SETUP, idle=0, backlog=1 << 20) as running:
        yield running


class Cars:
    """Pushes cars, each time a second later, so that every push is an instant of its own."""

    second = 0

    def __init__(self, served: Running) -> None:
        self._served = served

    def push(self, *cars: tuple[int, float], kind: str = "a") -> None:
        Cars.second += 1
        moment = f"2026-01-01T{Cars.second // 3600:02d}:{Cars.second // 60 % 60:02d}"
        moment += f":{Cars.second % 60:02d}Z"
        rows = [[car, x, 1.0, moment, kind] for car, x in cars]
        assert self._served.push("Cars", rows, time=moment)["taken"] == len(rows)
        self.wait()

    def wait(self) -> None:
        server = self._served.server
        wait_for(lambda: server.runtime.waiting() == (0, 0))
        wait_for(lambda: server.hub.tick == tick_of(server.runtime))


@pytest.fixture
def cars(served: Running) -> Cars:
    found = Cars(served)
    found.push(*((number, 99.0) for number in range(6)))
    return found


def read_until(socket: Any, view: View, rows: list[list[Any]]) -> None:
    """Take messages until the view is this answer."""
    while view.answer() != rows:
        view.take(json.loads(socket.recv(timeout=20)))


def test_a_websocket_gets_the_answer_and_then_every_delta(served: Running, cars: Cars) -> None:
    cars.push((1, 1.0), (2, 2.0), (3, 3.0))
    view, other = View(), View()
    with served.listen("near") as first, served.listen("NEAR") as second:
        read_until(first, view, [[1, "a"], [2, "a"], [3, "a"]])
        assert [delta["sign"] for delta in view.seen] == [1, 1, 1]
        assert view.last[1] == LAST
        cars.push((1, 9.0), (4, 1.0))
        read_until(first, view, [[2, "a"], [3, "a"], [4, "a"]])
        cars.push((4, 9.0))
        read_until(first, view, [[2, "a"], [3, "a"]])
        read_until(second, other, [[2, "a"], [3, "a"]])
        assert view.answer() == served.answer("near")
        assert view.seen == other.seen
        assert view.seen[-1]["instant"].startswith("2026-01-01T")
        assert view.seen[-1]["sign"] == -1
    wait_for(lambda: not served.server.hub.subscribers())
    wait_for(lambda: not served.server.hub._watched.names)


def test_who_resumes_after_any_id_misses_nothing_and_gets_nothing_twice(
    served: Running, cars: Cars
) -> None:
    cars.push((1, 1.0), (2, 2.0), (3, 3.0))
    whole = View()
    with served.listen("near") as socket:
        read_until(socket, whole, [[1, "a"], [2, "a"], [3, "a"]])
        for step in range(3):
            cars.push((step, 9.0), (step + 3, 1.0), kind="b")
        read_until(socket, whole, served.answer("near"))
    positions = [int(delta["id"].partition("-")[2]) for delta in whole.seen]
    assert sum(position >= INITIAL for position in positions) == 3
    for number, delta in enumerate(whole.seen):
        view = View()
        view.take(whole.seen[: number + 1])
        with served.listen("near", after=delta["id"]) as socket:
            read_until(socket, view, whole.answer())
        assert view.seen == whole.seen


def test_resuming_goes_on_with_what_comes(served: Running, cars: Cars) -> None:
    cars.push((1, 1.0))
    view = View()
    with served.listen("near") as socket:
        read_until(socket, view, [[1, "a"]])
    cars.push((2, 1.0))
    with served.listen("near", after=view.last_id) as socket:
        cars.push((3, 1.0))
        read_until(socket, view, [[1, "a"], [2, "a"], [3, "a"]])


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """Server-sent events: their names, ids and data."""
    found: dict[str, str] = {}
    for line in lines:
        if not line and found:
            yield found.get("event", ""), found.get("id", ""), json.loads(found["data"])
            found = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = value


def test_server_sent_events_are_the_same_and_resume_by_their_header(
    served: Running, cars: Cars
) -> None:
    cars.push((1, 1.0), (2, 1.0))
    view = View()
    with served.http.stream("GET", "/queries/near/updates") as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        stream = events(reply.iter_lines())
        name, last, deltas = next(stream)
        view.take(deltas)
        assert (name, last) == ("deltas", deltas[-1]["id"])
        assert view.answer() == [[1, "a"], [2, "a"]]
        cars.push((1, 9.0))
        view.take(next(stream)[2])
        assert view.answer() == [[2, "a"]]
    cars.push((3, 1.0))
    headers = {"Last-Event-ID": view.last_id}
    with served.http.stream("GET", "/queries/near/updates", headers=headers) as reply:
        view.take(next(events(reply.iter_lines()))[2])
    assert view.answer() == [[2, "a"], [3, "a"]]


def test_ids_that_cannot_be_resumed_after(served: Running, cars: Cars) -> None:
    reply = served.http.get("/queries/near/updates", params={"after": "yesterday"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "wrong_id")
    for late in ("999999-0",):
        reply = served.http.get("/queries/near/updates", params={"after": late})
        assert (reply.status_code, reply.json()["error"]["code"]) == (410, "gone")
        with served.listen("near", after=late) as socket:
            assert json.loads(socket.recv())["error"]["code"] == "gone"
            with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
                socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4410


def test_who_resumes_too_late_is_told_so_before_anything_else(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Deltas go by what is kept; ticks without deltas do not count."""
    home = tmp_path_factory.mktemp("late") / "home"
    with serving(home, SETUP, idle=0, keep=Keep(ticks=2)) as running:
        cars, view = Cars(running), View()
        cars.push((1, 1.0))
        with running.listen("near") as socket:
            read_until(socket, view, [[1, "a"]])
        for _ in range(5):
            cars.push((2, 99.0))
        with running.listen("near", after=view.last_id) as socket:
            assert json.loads(socket.recv()) == []
        for step in range(4):
            cars.push((1, 9.0 if step % 2 == 0 else 1.0))
        reply = running.http.get("/queries/near/updates", params={"after": view.last_id})
        assert (reply.status_code, reply.json()["error"]["code"]) == (410, "gone")
        with running.listen("near", after=view.last_id) as socket:
            assert json.loads(socket.recv())["error"]["code"] == "gone"


def test_who_watches_a_query_that_is_dropped_is_told(served: Running, cars: Cars) -> None:
    served.sql("REGISTER QUERY brief AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)")
    cars.push((1, 1.0))
    view = View()
    with served.listen("brief") as socket:
        read_until(socket, view, [[1]])
        served.sql("DROP QUERY brief")
        read_until(socket, view, [])
        assert json.loads(socket.recv())["error"]["code"] == "query_dropped"
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404


def test_who_watches_a_query_that_is_replaced_goes_on(served: Running, cars: Cars) -> None:
    served.sql("REGISTER QUERY moved AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)")
    cars.push((1, 1.0), (2, 4.0), (3, 7.0))
    view = View()
    with served.listen("moved") as socket:
        read_until(socket, view, [[1], [2]])
        served.sql("REGISTER OR REPLACE QUERY moved AS SELECT id FROM Cars INSIDE (3, 0, 8, 5)")
        read_until(socket, view, [[2], [3]])
        assert [(delta["sign"], delta["row"]) for delta in view.seen[2:]] == [(-1, [1]), (1, [3])]
        cars.push((2, 1.0))
        read_until(socket, view, [[3]])


def test_a_query_of_the_same_name_does_not_tell_of_the_one_before(
    served: Running, cars: Cars
) -> None:
    served.sql("REGISTER QUERY again AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)")
    cars.push((1, 1.0))
    view = View()
    with served.listen("again") as socket:
        read_until(socket, view, [[1]])
    served.sql("DROP QUERY again")
    served.sql("REGISTER QUERY again AS SELECT id FROM Cars INSIDE (80, 80, 85, 85)")
    reply = served.http.get("/queries/again/updates", params={"after": view.last_id})
    assert (reply.status_code, reply.json()["error"]["code"]) == (410, "gone")
    served.sql("DROP QUERY again")


# Slow consumers


def silent(served: Running, headers: str) -> socket.socket:
    """A connection that asks, and then does not read."""
    url = httpx.URL(served.url)
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.connect((url.host, url.port or 0))
    ask = f"GET /queries/near/updates HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n{headers}\r\n"
    found.sendall(ask.encode())
    return found


WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
)


@pytest.mark.parametrize("kind", ["websocket", "events"])
def test_a_slow_consumer_is_told_and_dropped(served: Running, cars: Cars, kind: str) -> None:
    hub = served.server.hub
    before = hub.dropped
    with silent(served, WEBSOCKET if kind == "websocket" else "") as slow:
        wait_for(lambda: len(hub.subscribers()) == 1)
        crowd = [(number, 1.0) for number in range(1000, 1200)]
        for _ in range(20):
            cars.push(*crowd, kind="k" * 6000)
            cars.push(*((number, 9.0) for number, _ in crowd))
            if hub.dropped > before:
                break
        assert hub.dropped == before + 1
        slow.settimeout(20)
        end = struct.pack("!H", 4408) if kind == "websocket" else b'"slow_consumer"'
        said = b""
        while end not in said[-2000:] and (piece := slow.recv(1 << 20)):
            said += piece
    assert b'"slow_consumer"' in said[-2000:]
    assert end in said[-2000:]
    assert not hub.subscribers()


def test_a_large_tick_makes_nobody_slow() -> None:
    async def offered() -> tuple[int, bool]:
        subscriber = Subscriber(Who("ann", "client", None), "near", limit=1000)
        large = [Message("x" * 600, "1-0", "1-9")] * 5
        subscriber.offer(large)
        taken = await subscriber.take()
        subscriber.offer(large)
        subscriber.offer(large)
        return len(taken), subscriber.ending is not None

    assert asyncio.run(offered()) == (5, True)


def test_an_event_source_that_connects_again_goes_on_after_the_last_event(
    served: Running, cars: Cars
) -> None:
    """It asks for the same address as the first time, and tells the last id beside that."""
    cars.push((1, 1.0))
    cars.push((1, 9.0))
    with served.listen("near") as socket:
        cars.push((2, 1.0))
        assert json.loads(socket.recv(timeout=20)) == [], "there is nothing to tell yet"
        first = json.loads(socket.recv(timeout=20))[-1]["id"]
        cars.push((3, 1.0))
        last = json.loads(socket.recv(timeout=20))[-1]["id"]
    assert first != last
    cars.push((2, 9.0))
    with served.http.stream(
        "GET", "/queries/near/updates", params={"after": first}, headers={"Last-Event-ID": last}
    ) as reply:
        found = next(line for line in reply.iter_lines() if line.startswith("data: "))
    assert [each["row"][0] for each in json.loads(found.removeprefix("data: "))] == [2]


# Webhooks


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def test_a_webhook_gets_signed_batches_in_order_also_when_it_was_away(
    served: Running, cars: Cars, receiver: Receiver
) -> None:
    made = served.http.post(
        "/queries/near/webhooks", json={"url": receiver.url, "secret": "it's me"}
    )
    assert made.status_code == 201, made.text
    hook = made.json()
    assert "secret" not in hook
    assert hook["signed"]
    receiver.away = 2
    for step in range(4):
        cars.push((step, 1.0), (step + 1, 9.0))
    view = View()
    wait_for(lambda: len(receiver.deltas()) >= 4)
    expected = Counter(tuple(row) for row in served.answer("near"))
    wait_for(lambda: answer_of(receiver.deltas()) == expected)
    view.take(receiver.deltas())
    for headers, body in receiver.got:
        signed = hmac.new(b"it's me", body, hashlib.sha256).hexdigest()
        assert headers["X-Place-Signature"] == f"sha256={signed}"
        deltas = json.loads(body)
        assert headers["X-Place-First-Id"] == deltas[0]["id"]
        assert headers["X-Place-Last-Id"] == deltas[-1]["id"]
    listed = served.http.get("/queries/near/webhooks").json()
    assert [each["id"] for each in listed] == [hook["id"]]
    gone = served.http.delete(f"/queries/near/webhooks/{hook['id']}")
    assert gone.status_code == 204
    assert served.http.delete(f"/queries/near/webhooks/{hook['id']}").status_code == 404


def answer_of(deltas: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for delta in deltas:
        rows[tuple(delta["row"])] += delta["sign"]
    return +rows


def test_a_webhook_gets_the_last_deltas_of_a_dropped_query_and_ends(
    served: Running, cars: Cars, receiver: Receiver
) -> None:
    served.sql("REGISTER QUERY ending AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)")
    served.http.post("/queries/ending/webhooks", json={"url": receiver.url})
    cars.push((1, 1.0))
    served.sql("DROP QUERY ending")
    wait_for(lambda: [delta["sign"] for delta in receiver.deltas()] == [1, -1])
    wait_for(lambda: not served.server.webhooks.of("ending"))
    assert served.server.store.webhooks() == []


def test_what_a_webhook_answers_is_not_read(served: Running, cars: Cars) -> None:
    """An answer without end is over with its status."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        hook = served.http.post("/queries/near/webhooks", json={"url": url}).json()
        cars.push((4, 1.0))
        listener.settimeout(20)
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head + b"5\r\nhello\r\n")  # and never the last chunk
            tick = served.server.hub.tick
            wait_for(lambda: served.server.webhooks.of("near")[0].webhook.after >= (tick, 0), 5)
    served.http.delete(f"/queries/near/webhooks/{hook['id']}")


def test_a_webhook_goes_on_after_whatever_went_wrong(
    served: Running, cars: Cars, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ConfigurationError("server.sqlite cannot be used: disk I/O error")

    hook = served.http.post("/queries/near/webhooks", json={"url": receiver.url}).json()
    with monkeypatch.context() as patch:
        patch.setattr(served.server.store, "advance_webhook", fail)
        cars.push((5, 1.0))
        (line,) = served.server.webhooks.of("near")
        wait_for(lambda: line.attempts.error is not None)
    wait_for(lambda: line.attempts.error is None)
    cars.push((5, 9.0))
    wait_for(lambda: [d["sign"] for d in receiver.deltas()][-1] == -1)
    served.http.delete(f"/queries/near/webhooks/{hook['id']}")


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "nothing", "http://", "http://[::1", "http://127.0.0.1:99999/"]
)
def test_addresses_that_are_none(served: Running, url: str) -> None:
    reply = served.http.post("/queries/near/webhooks", json={"url": url})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "wrong_url")


def test_a_webhook_misses_nothing_of_what_happens_while_the_server_is_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("restart") / "home"
    receiver = Receiver()
    port = receiver.port
    with serving(home, SETUP, idle=0) as running:
        cars = Cars(running)
        cars.push((1, 1.0))
        running.http.post("/queries/near/webhooks", json={"url": receiver.url})
        cars.push((2, 1.0))
        wait_for(lambda: len(receiver.deltas()) == 1)
        receiver.close()
        cars.push((3, 1.0))
        cars.push((2, 9.0))
        first = receiver.deltas()
    receiver = Receiver(port)
    with serving(home, SETUP, idle=0) as running:
        Cars(running).push((4, 1.0))
        wait_for(lambda: len(receiver.deltas()) == 3)
    receiver.close()
    view = View()
    view.take(first + receiver.deltas())
    assert [(delta["sign"], delta["row"][0]) for delta in view.seen] == [
        *((1, 2), (1, 3), (-1, 2), (1, 4)),
    ]


def test_deltas_are_kept_for_a_webhook_whoever_opens_the_home(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Ticks without the server, and readings that become ticks while it starts, sweep nothing."""
    home = tmp_path_factory.mktemp("held") / "home"
    keep = Keep(ticks=2)
    receiver = Receiver()
    port = receiver.port
    with serving(home, SETUP, idle=0, keep=keep) as running:
        running.http.post("/queries/near/webhooks", json={"url": receiver.url})
        receiver.close()
        Cars(running).push((1, 1.0))
    with opened(home, keep=keep) as session:
        for car in range(2, 7):
            session.push("Cars", [late(car)], time=late(car)[3])
        stream = session.stream("Cars")
        accepted = segment_of(stream, [late(7), late(8)], None)
        runtime_of(session).accept(stream, accepted)
    receiver = Receiver(port)
    with serving(home, SETUP, idle=0, keep=keep) as running:
        running.push("Cars", [], time=format_timestamp(late(9)[3]))
        wait_for(lambda: len(receiver.deltas()) == 8)
        (hook,) = running.http.get("/queries/near/webhooks").json()
        assert not hook["lost"]
        running.http.delete(f"/queries/near/webhooks/{hook['id']}")
    receiver.close()
    assert [delta["row"][0] for delta in receiver.deltas()] == list(range(1, 9))


def late(car: int) -> tuple[Any, ...]:
    """A reading of a car near by, after all that other tests push."""
    return reading(car, 1.0, 1.0, 80_000 + car)


# The texts


def test_a_large_answer_is_cut_into_messages_of_a_bounded_size() -> None:
    answer = Counter({json.dumps([number, "x" * 1000]): 1 for number in range(1000)})
    messages = list(whole_answer(answer, 7, 0))
    assert len(messages) > 3
    assert all(len(message.text) < 300_000 for message in messages)
    deltas = [delta for message in messages for delta in json.loads(message.text)]
    assert Counter(json.dumps(delta["row"]) for delta in deltas) == answer
    assert messages[-1].last == f"7-{LAST}"
    rest = list(whole_answer(answer, 7, 0, start=990))
    assert json.loads(rest[0].text) == deltas[990:]
    assert list(whole_answer(Counter(), 7, 0)) == []
