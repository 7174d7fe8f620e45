"""A small town on the map: cars that go where a test wants them, and one who looks at them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import websockets.sync.client as ws

from place.server.frames import HEADER
from tests.harness.server import Running, bearer, serving, wait_for

SHIPS = """
CREATE STREAM Ships (name STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP) WITH (space = 'wgs84');
"""
SETUP = f"""
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING)
  WITH (bounds = '0 0 100 100');
{SHIPS}
REGISTER QUERY corner AS SELECT id, type FROM Cars INSIDE (0, 0, 20, 20);
REGISTER QUERY around AS SELECT id FROM Cars INSIDE ('M', 1, 30);
REGISTER QUERY census AS SELECT type, COUNT(*) AS many FROM Cars GROUP BY type;
"""


class Town:
    """Cars whose places the test decides; each push is a second later."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.second = 0

    def push(self, **cars: tuple[float, float]) -> None:
        """Cars by their numbers: `c1=(x, y)`; odd ones are cabs."""
        at = self._next()
        rows = []
        for name, (x, y) in cars.items():
            number = int(name[1:])
            rows.append([number, x, y, at, "cab" if number % 2 else "bus"])
        self.running.push("Cars", rows, time=at)

    def leave(self, number: int) -> None:
        """A car disappears."""
        at = self._next()
        self.running.push("Cars", [{"op": "disappear", "id": number, "ts": at}], time=at)

    def _next(self) -> str:
        self.second += 1
        return f"2026-01-01 12:{self.second // 60:02d}:{self.second % 60:02d}"


@contextlib.contextmanager
def founded(home: Path) -> Iterator[Town]:
    """A town on a server of its own: five cars, two of them in the corner."""
    with serving(home, SETUP) as running:
        made = Town(running)
        made.push(c1=(10, 10), c2=(15, 15), c3=(80, 80), c4=(90, 20), c5=(30, 12))
        wait_for(lambda: len(running.answer("corner")) == 2)
        yield made


class Looking:
    """One who looks at the map, and what they were told so far."""

    def __init__(self, socket: ws.ClientConnection) -> None:
        self.socket = socket
        self.frames: dict[int, dict[int, tuple[float, float, int]]] = {}
        self.told: dict[str, Any] = {}
        self.answers: dict[str, dict[str, list[int]]] = {}

    def say(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def until(self, is_so: Callable[[], Any], seconds: float = 15) -> Any:
        """Listen until something is so."""
        deadline = time.monotonic() + seconds
        while not (found := is_so()):
            assert time.monotonic() < deadline, (self.told, self.frames)
            with contextlib.suppress(TimeoutError):
                self._take(self.socket.recv(timeout=1))
        return found

    def _take(self, data: str | bytes) -> None:
        if isinstance(data, bytes):
            self._take_frame(data)
            return
        message = json.loads(data)
        self.told[message["type"]] = message
        if message["type"] == "answer":
            self.answers[message["query"]] = message["slots"]

    def _take_frame(self, data: bytes) -> None:
        _, _, index, _, count, _ = HEADER.unpack_from(data)
        slots = np.frombuffer(data, "<u4", count, 24).tolist()
        places = np.frombuffer(data, "<f4", 2 * count, 24 + 4 * count).reshape(-1, 2).tolist()
        codes = np.frombuffer(data, "u1", count, 24 + 12 * count).tolist()
        assert len(data) == 24 + 13 * count
        self.frames[index] = {
            slot: (*place, code) for slot, place, code in zip(slots, places, codes, strict=True)
        }

    def places(self, index: int) -> set[tuple[float, float]]:
        return {(x, y) for x, y, _ in self.frames.get(index, {}).values()}


@contextlib.contextmanager
def looking(running: Running, streams: str = "", token: str | None = None) -> Iterator[Looking]:
    url = running.url.replace("http", "ws", 1) + f"/map?streams={streams}"
    with ws.connect(url, additional_headers=bearer(token), max_size=None) as socket:
        yield Looking(socket)


def index_of(running: Running, stream: str, token: str | None = None) -> int:
    about = running.http.get("/map/about", headers=bearer(token)).json()
    return next(each["index"] for each in about["streams"] if each["name"] == stream)
