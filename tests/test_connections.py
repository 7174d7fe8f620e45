"""The door before there is anything behind it: connections that are many, slow, or early."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets.exceptions
import websockets.sync.client as ws

from place.server.door import Door
from place.server.front import fronting
from place.server.listener import FIRST, Listener, descriptor_limit
from place.server.settings import Settings
from tests.harness.server import wait_for

ASKED = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def shut(directory: Path, **options: Any) -> Iterator[Listener]:
    """A door that nothing has opened yet."""
    settings = Settings(data=directory, **options)
    with Listener(socket.AF_INET, settings) as listener:
        listener.bind(("127.0.0.1", 0))
        with fronting(Door(settings), settings, listener):
            yield listener


def connected(listener: Listener, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(listener.getsockname(), 10, (source, 0))


def said(connection: socket.socket) -> tuple[int, Any]:
    """The status and the body of an answer."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read())


def test_a_server_that_starts_says_so(tmp_path: Path) -> None:
    with shut(tmp_path) as listener:
        port = listener.getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            health = client.get("/health")
            assert (health.status_code, health.json()["status"]) == (503, "starting")
            reply = client.post("/sql", json={"sql": "SHOW STREAMS"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "starting")
        assert int(reply.headers["Retry-After"]) > 0
        assert reply.headers["X-Frame-Options"] == "DENY"
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            ws.connect(f"ws://127.0.0.1:{port}/queries/near/updates", open_timeout=10)
        assert refused.value.response.status_code == 503
        assert "Retry-After" in refused.value.response.headers


def test_connections_are_limited_in_all_and_from_one_address(tmp_path: Path) -> None:
    with shut(tmp_path, most_connections=5, most_of_one_address=3) as listener:
        mine = [connected(listener) for _ in range(3)]
        wait_for(lambda: listener.connections == 3)
        with connected(listener) as more:
            status, body = said(more)
        assert (status, body["error"]["code"]) == (503, "too_many_connections")
        assert "of this address" in body["error"]["message"]
        others = [connected(listener, "127.0.0.2") for _ in range(2)]
        wait_for(lambda: listener.connections == 5)
        with connected(listener, "127.0.0.3") as more:
            status, body = said(more)
        assert (status, body["error"]["message"]) == (503, "there are 5 connections already")
        for connection in mine:
            connection.close()
        wait_for(lambda: listener.connections == 2)
        with connected(listener) as again:
            again.sendall(ASKED)
            assert again.recv(100).startswith(b"HTTP/1.1 503")
        for connection in others:
            connection.close()


def test_connections_leave_small_descriptors_to_those_who_need_them(tmp_path: Path) -> None:
    if descriptor_limit() < 2 * FIRST:
        pytest.skip("there are no others")
    with shut(tmp_path) as listener, connected(listener) as connection:
        connection.sendall(ASKED)
        assert connection.recv(100)
        assert [c.fileno() >= FIRST for c in listener._connections] == [True]


def test_what_is_written_is_sent_at_once(tmp_path: Path) -> None:
    """Otherwise each answer waits 40 ms until its beginning is acknowledged."""
    with shut(tmp_path) as listener, connected(listener) as connection:
        connection.sendall(ASKED)
        assert connection.recv(100)
        (accepted,) = listener._connections
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_head_and_a_body_have_their_time_and_idle_ones_are_closed(tmp_path: Path) -> None:
    limits = {"head_seconds": 0.5, "body_seconds": 0.5, "idle_seconds": 1}
    with shut(tmp_path, **limits) as listener:
        with connected(listener) as silent, connected(listener) as slow:
            slow.sendall(ASKED[:20])
            status, body = said(slow)
            assert (status, body["error"]["code"]) == (408, "too_slow")
            assert silent.recv(100) == b""
        # A request that was answered, and then half of the next one.
        with connected(listener) as pausing:
            pausing.sendall(ASKED)
            assert said(pausing)[0] == 503
            pausing.sendall(ASKED[:20])
            assert said(pausing)[0] == 408
        with connected(listener) as idle:
            idle.sendall(ASKED)
            assert said(idle)[0] == 503
            assert idle.recv(100) == b""
        wait_for(lambda: listener.connections == 0)


def test_more_descriptors_are_asked_for_where_there_may_be_more() -> None:
    code = """
import resource
from place.server.listener import MOST_DESCRIPTORS, descriptor_limit, raise_descriptor_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
resource.setrlimit(resource.RLIMIT_NOFILE, (most // 2, hard))
assert descriptor_limit() == most // 2
assert raise_descriptor_limit() == descriptor_limit() == most
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


BOUNDED = """
import resource, socket, sys
from pathlib import Path
from argparse import Namespace
from place.operate.logs import start_logging
from place.server.door import Door
from place.server.front import fronting
from place.server.listener import Listener
from place.server.settings import Settings

start_logging(Namespace(log_level="info", log_json=False))
settings = Settings(data=Path("."), head_seconds=1.0, most_connections=int(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
with Listener(socket.AF_INET, settings) as listener:
    if len(sys.argv) > 2:
        listener.most = listener.most_of_one = 1_000  # as if somebody else had taken the rest
    listener.bind(("127.0.0.1", 0))
    with fronting(Door(settings), settings, listener):
        print(listener.getsockname()[1], flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("without_limit", [False, True])
def test_more_connections_than_descriptors_do_not_fill_the_log(
    tmp_path: Path, without_limit: bool
) -> None:
    command = [sys.executable, "-c", BOUNDED, "12000", *(["all"] if without_limit else [])]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
        contextlib.ExitStack() as open_ones,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        open_ones.callback(process.kill)
        for _ in range(300):
            with contextlib.suppress(OSError):
                each = socket.create_connection(("127.0.0.1", port), 10)
                open_ones.callback(each.close)
        # Those that say nothing are closed after a while, and then others come in.
        wait_for(lambda: _answers(port))
        process.stdin.close()
        assert process.wait(30) == 0
    size = os.path.getsize(tmp_path / "log")
    assert 0 < size < 20_000, (tmp_path / "log").read_text()[:2_000]
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    assert ("no more can be opened" in said) == without_limit, said[:2_000]


def _answers(port: int) -> bool:
    time.sleep(0.2)
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").json()["status"] == "starting"
    except (httpx.HTTPError, KeyError):
        return False
