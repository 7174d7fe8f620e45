"""A server killed under load: what it acknowledged is there, and who resumes misses nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets.exceptions
import websockets.sync.client as ws

from tests.harness.server import View, wait_for

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING);
REGISTER QUERY everything AS SELECT id, x, kind FROM Cars;
REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 50, 50);
"""
CARS = 40


class Child:
    """`place serve` as a process of its own, at an address that stays the same."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = ""
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        (directory / "setup.sql").write_text(SETUP, "utf-8")

    def start(self) -> None:
        log = (self.directory / "log").open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "place.cli", "serve", "--master", "local[1]"),
                *("--setup", str(self.directory / "setup.sql")),
                *("--home", str(self.directory / "home"), "--port", str(self._port)),
            ],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout is not None
        if self.url:  # started again: the door is open before Spark runs
            wait_for(self._is_starting, 60)
        line = self._process.stdout.readline()
        assert line.startswith("place serve: http://"), (self.directory / "log").read_text()
        self.url = line.split()[2].rstrip(",")
        self._port = httpx.URL(self.url).port or 0
        wait_for(self._is_well, 60)

    def _is_well(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.HTTPError:
            return False

    def _is_starting(self) -> bool:
        try:
            reply = httpx.get(f"{self.url}/health")
        except httpx.HTTPError:
            return False
        return reply.status_code == 503 and reply.json()["status"] == "starting"

    def end(self, number: int) -> str:
        assert self._process is not None
        self._process.send_signal(number)
        said, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == (0 if number == signal.SIGTERM else -number), said
        return said

    def __del__(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


class Sender(threading.Thread):
    """Sends readings and keeps the last one of each car that was acknowledged, and after."""

    def __init__(self, url: str, start: int) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.number = start
        self.acknowledged: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        chance = random.Random(self.number)
        with httpx.Client(base_url=self.url, timeout=20) as client:
            while not self.stopping.is_set():
                batch = {}
                for _ in range(20):
                    self.number += 1
                    batch[chance.randrange(CARS)] = self.number
                rows = [[car, x % 100, 1, str(x)] for car, x in batch.items()]
                self.sent |= batch
                try:
                    reply = client.post("/streams/Cars/readings", json=rows)
                except httpx.HTTPError:
                    return
                assert reply.status_code == 200, reply.text
                assert reply.json()["taken"] == len(batch)
                self.acknowledged |= batch


class Listener(threading.Thread):
    """A subscriber that keeps its last id, and resumes after it."""

    def __init__(self, url: str, query: str, view: View) -> None:
        super().__init__(daemon=True)
        self.view = view
        self.query = query
        self.connected = threading.Event()
        self.socket_url = url.replace("http", "ws", 1) + f"/queries/{query}/updates"
        if view.seen:
            self.socket_url += f"?after={view.last_id}"

    def run(self) -> None:
        try:
            with ws.connect(self.socket_url, open_timeout=30) as socket:
                self.connected.set()
                while True:
                    said = json.loads(socket.recv())
                    if isinstance(said, dict):
                        assert said["error"]["code"] == "stopping", said
                        return
                    self.view.take(said)
        except websockets.exceptions.ConnectionClosed:
            return


def check(child: Child, sent: dict[int, int], acknowledged: dict[int, int]) -> None:
    """Of each car the last reading that was acknowledged is there, or one that was sent later."""
    rows: list[Any] = httpx.get(f"{child.url}/queries/everything/answer", timeout=30).json()["rows"]
    kept = {car: int(kind) for car, _, kind in rows}
    for car, number in acknowledged.items():
        assert number <= kept.get(car, -1) <= sent[car], f"car {car}: {number} was acknowledged"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    found = Child(tmp_path)
    yield found
    found.__del__()


def killed(child: Child, kills: int) -> None:
    chance = random.Random(kills)
    views = {"everything": View(), "near": View()}
    acknowledged: dict[int, int] = {}
    sent: dict[int, int] = {}
    number = 0
    for _ in range(kills):
        child.start()
        check(child, sent, acknowledged)
        listeners = [Listener(child.url, query, view) for query, view in views.items()]
        sender = Sender(child.url, number)
        for thread in (*listeners, sender):
            thread.start()
        # Killed within their handshake, they would have nothing to resume.
        assert all(listener.connected.wait(30) for listener in listeners)
        time.sleep(chance.uniform(1.0, 4.0))
        child.end(signal.SIGKILL)
        for thread in (*listeners, sender):
            thread.join(30)
            assert not thread.is_alive()
        acknowledged, sent = {**acknowledged, **sender.acknowledged}, {**sent, **sender.sent}
        number = sender.number
    assert len(acknowledged) > CARS // 2
    child.start()
    check(child, sent, acknowledged)
    for query, view in views.items():
        listener = Listener(child.url, query, view)
        listener.start()
        reply = httpx.get(f"{child.url}/queries/{query}/answer", timeout=30).json()
        expected = sorted(reply["rows"])
        wait_for(lambda view=view, expected=expected: view.answer() == expected)
    assert "stopped after tick" in child.end(signal.SIGTERM)
    log = (child.directory / "log").read_text()
    assert "starting Spark" in log
    assert "Traceback" not in log
    assert "\tat " not in log, "Java has written a stack"


@pytest.mark.long
def test_a_server_that_is_killed_under_load(child: Child) -> None:
    killed(child, 1)


@pytest.mark.long
def test_a_server_that_is_killed_ten_times(child: Child) -> None:
    killed(child, 10)
