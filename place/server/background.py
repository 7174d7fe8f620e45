"""The server beside something else in the same process, for as long as that runs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from place.server.front import Front, configuration
from place.server.settings import Settings
from place.server.state import Server
from place.session import Session

PATIENCE = 10.0
"""Seconds that open connections have to end."""


@dataclass(frozen=True)
class Serving:
    """A server that runs, and where."""

    address: str


@contextlib.contextmanager
def serve_in_background(session: Session, home: Path, port: int) -> Iterator[Serving]:
    """Serve a session on loopback; where the port is taken, at another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        server = Server(session, home, Settings(data=(home / "data").absolute()))
        front = Front(configuration(server, None, None), server)
        serving = threading.Thread(target=front.run, args=([listener],), daemon=True)
        serving.start()
        try:
            yield Serving(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            front.should_exit = True
            serving.join(PATIENCE)
