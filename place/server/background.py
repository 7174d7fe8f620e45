"""The server beside something else in the same process, for as long as that runs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from place.server.door import Door
from place.server.front import fronting
from place.server.listener import Listener
from place.server.settings import Settings
from place.server.state import Server
from place.session import Session


@dataclass(frozen=True)
class Serving:
    """A server that runs, and where."""

    address: str


@contextlib.contextmanager
def serve_in_background(session: Session, home: Path, port: int) -> Iterator[Serving]:
    """Serve a session on loopback; where the port is taken, at another one."""
    settings = Settings(data=(home / "data").absolute())
    with Listener(socket.AF_INET, settings) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        door = Door(settings)
        with fronting(door, settings, listener), door.opened(Server(session, home, settings)):
            yield Serving(f"http://127.0.0.1:{listener.getsockname()[1]}")
