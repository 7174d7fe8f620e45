"""How long a connection may take over a request: head, body, and the pause until the next one.

The web server waits for a request for as long as it takes, so a client that sends a letter a
minute would have its place for ever. Here a connection has a deadline while it owes us something:
the rest of a head, or the rest of a body. What takes us long is not held against it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from place.server.errors import error_body

LOG = logging.getLogger("place.server")
SLOWEST = 32 << 10
"""Bytes a second that a body has to come with, after its first seconds."""


class Patience(H11Protocol):
    """A connection that is closed when what it owes us does not come in time."""

    head_seconds = 20.0
    body_seconds = 30.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._owed: str | None = None
        self._began = 0.0
        self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for("head", self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cease()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        self._look()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._cease()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """See what the client owes us now."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._cease()
            return
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            if self._owed != "body":
                self._wait_for("body", self.body_seconds)
        elif state is h11.IDLE and self.conn.trailing_data[0]:
            if self._owed != "head":
                self._wait_for("head", self.head_seconds)
        elif state is not h11.IDLE or self.cycle is not None:
            self._cease()  # nothing; between requests the web server has a limit of its own

    def _wait_for(self, what: str, seconds: float) -> None:
        self._cease()
        self._owed, self._began, self._received = what, self.loop.time(), 0
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _cease(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._owed = None

    def _expire(self) -> None:
        """The time is over; a body that comes fast enough has more."""
        if self.transport.is_closing():
            return
        if self._owed == "body":
            allowed = self.body_seconds + self._received / SLOWEST
            left = allowed - (self.loop.time() - self._began)
            if self.flow.read_paused:  # it is us who do not read
                left = max(left, self.body_seconds)
            if left > 0:
                self._deadline = self.loop.call_later(left, self._expire)
                return
        LOG.info("a connection is closed: the %s of a request took too long", self._owed)
        self._answer(f"the {self._owed} of the request took too long to come")
        self.transport.close()

    def _answer(self, reason: str) -> None:
        """Say so, unless nothing was asked, or an answer is on its way already."""
        asked = self._owed == "body" or self.conn.trailing_data[0]
        if not asked or self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = json.dumps(error_body("too_slow", reason)).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")


def patience(head_seconds: float, body_seconds: float) -> type[Patience]:
    """A protocol with these limits, as the web server wants it: as a class."""
    limits = {"head_seconds": head_seconds, "body_seconds": body_seconds}
    return type("Patience", (Patience,), limits)
