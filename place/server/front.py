"""The web server in front of the application."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import uvicorn

from place.server.app import make_app
from place.server.state import Server

REFUSED = "ASGI callable returned without completing handshake."
"""What the web server says when a WebSocket was answered with an error; anybody can cause that."""
GRACE = 10
"""Seconds for requests that are under way when the server is told to stop."""


class Front(uvicorn.Server):
    """The web server, which lets subscribers go before it waits for those who still ask."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._place = server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._place.hub.end_all("stopping", "the server stops; resume after your last id", 1012)
        await super().shutdown(sockets)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != REFUSED


def configuration(
    server: Server, certificate: Path | None = None, key: Path | None = None
) -> uvicorn.Config:
    """How the web server runs."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Config(
        make_app(server),
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_per_message_deflate=False,  # it would be done again for every subscriber
        ws_max_size=1 << 20,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
