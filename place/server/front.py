"""The web server in front of the application, in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import uvicorn

from place.errors import ConfigurationError
from place.server.door import GRACE, Door
from place.server.listener import Listener
from place.server.patience import patience
from place.server.settings import Settings

REFUSED = "ASGI callable returned without completing handshake."
INVALID = "Invalid HTTP request received."
"""What the web server says of WebSockets that were answered with an error, and of noise; anybody
can cause that."""
POLL = 0.01
BACKLOG = 2048
"""Connections that the system holds until they are accepted."""


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in (REFUSED, INVALID)


def configuration(
    door: Door, settings: Settings, certificate: Path | None = None, key: Path | None = None
) -> uvicorn.Config:
    """How the web server runs."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Config(
        door,
        # Not what happens to be installed: the limits are written for these.
        loop="asyncio",
        http=patience(settings.head_seconds, settings.body_seconds),
        ws="websockets-sansio",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        ws_per_message_deflate=False,  # it would be done again for every subscriber
        ws_max_size=1 << 20,
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=int(GRACE),
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _let_go(front: uvicorn.Server) -> None:
    """Close what is idle, and end WebSockets; requests under way are the last of their kind."""
    for connection in list(front.server_state.connections):
        connection.shutdown()


@contextlib.contextmanager
def fronting(
    door: Door,
    settings: Settings,
    listener: Listener,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Iterator[None]:
    """Let the web server listen meanwhile; it answers as the door does."""
    front = uvicorn.Server(configuration(door, settings, certificate, key))
    door.let_go = partial(_let_go, front)
    thread = threading.Thread(target=front.run, args=([listener],), name="place-front", daemon=True)
    thread.start()
    while not front.started:
        thread.join(POLL)
        if not thread.is_alive():
            raise ConfigurationError("the web server did not start")
    try:
        yield
    finally:
        front.should_exit = True
        thread.join(2 * GRACE)
