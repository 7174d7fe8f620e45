"""A real server on a real socket, in a thread of the test's own process."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import websockets.sync.client as ws

from place.operate.run import IdleClock
from place.operate.serve import prepare
from place.runtime.durable.kept_ticks import Keep
from place.server.door import Door
from place.server.front import fronting
from place.server.listener import Listener
from place.server.settings import Settings
from place.server.state import Server
from place.session import Session
from tests.harness.pipeline import opened, runtime_of

WAIT = 60.0


@dataclass
class Running:
    """A server that runs: its address, and itself."""

    url: str
    server: Server
    http: httpx.Client

    @property
    def session(self) -> Session:
        return self.server.session

    def sql(self, text: str, token: str | None = None) -> dict[str, Any]:
        reply = self.http.post("/sql", json={"sql": text}, headers=bearer(token))
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def push(self, stream: str, rows: list[Any], **parameters: str) -> dict[str, Any]:
        reply = self.http.post(f"/streams/{stream}/readings", json=rows, params=parameters)
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def answer(self, query: str, token: str | None = None) -> list[list[Any]]:
        reply = self.http.get(f"/queries/{query}/answer", headers=bearer(token))
        assert reply.status_code == 200, reply.text
        rows: list[list[Any]] = reply.json()["rows"]
        return rows

    def listen(
        self, query: str, token: str | None = None, **parameters: str
    ) -> ws.ClientConnection:
        """A WebSocket that gets a query's deltas."""
        url = httpx.URL(self.url.replace("http", "ws", 1) + f"/queries/{query}/updates")
        return ws.connect(
            str(url.copy_merge_params(parameters)),
            additional_headers=bearer(token),
            open_timeout=WAIT,
            max_size=None,
        )


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


@contextlib.contextmanager
def serving(
    home: Path,
    setup: str = "",
    *,
    idle: int = 300_000,
    tls: tuple[Path, Path] | None = None,
    keep: Keep | None = None,
    port: int = 0,
    **options: Any,
) -> Iterator[Running]:
    """A server on a port of its own, or on that of one that was stopped.

    `idle` is how soon silent streams go on, in microseconds.
    """
    settings = Settings(**{"data": home / "data", **options})
    door = Door(settings)
    with (
        Listener(socket.AF_INET, settings) as listener,
        opened(home, keep=keep) as session,
    ):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        prepare(session, settings, setup)
        server = Server(session, home, settings, IdleClock(runtime_of(session), idle).look)
        url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        trusted = ssl.create_default_context(cafile=tls[0]) if tls else True
        with (
            fronting(door, settings, listener, *(tls or ())),
            door.opened(server),
            httpx.Client(base_url=url, timeout=WAIT, verify=trusted) as http,
        ):
            session.start()
            yield Running(url, server, http)


def wait_for(is_so: Callable[[], Any], seconds: float = WAIT) -> Any:
    """Wait until something is so; what it is then."""
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)
    return found


class View:
    """What a subscriber knows: its answer, built from deltas whose ids only grow."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.last: tuple[int, int] = (0, -1)
        self.seen: list[dict[str, Any]] = []

    @property
    def last_id(self) -> str:
        return f"{self.last[0]}-{self.last[1]}"

    def take(self, deltas: list[dict[str, Any]]) -> None:
        for delta in deltas:
            tick, _, position = delta["id"].partition("-")
            number = int(tick), int(position)
            assert number > self.last, f"{number} after {self.last}"
            self.last = number
            self.rows[tuple(delta["row"])] += delta["sign"]
            assert self.rows[tuple(delta["row"])] >= 0, delta
            self.seen.append(delta)

    def answer(self) -> list[list[Any]]:
        return [list(row) for row in sorted(self.rows.elements())]
