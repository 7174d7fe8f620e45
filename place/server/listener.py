"""The socket that clients connect to: how many may, in all and from one address.

Whoever opens connections and says nothing should cost the server a number of a table, not its
life. A connection that is one too many is told so and closed before anything else looks at it,
and where the system has no descriptor left the server keeps one aside, so that it can still answer
the door and close it again: an `accept` that fails would be tried again without a pause.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import resource
import socket
import time
from typing import Any
from weakref import WeakSet

from place.server.errors import error_body
from place.server.settings import Settings

LOG = logging.getLogger("place.server")
MOST_DESCRIPTORS = 65_536
"""How many descriptors are asked of the system; more would not be used."""
SPARE = 256
"""Descriptors that connections leave to files, to Spark and to webhooks, at least."""
FIRST = 1024
"""The first descriptor of a connection, where there are so many. Spark's bridge to Python waits
with `select`, which knows only those below: they are left to it."""
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
AT_ONCE = 100
"""Connections that are refused in one go, before others have their turn."""
PAUSE = 0.05
"""Seconds of rest when not even the descriptor that was kept aside helps."""


def raise_descriptor_limit() -> int:
    """Ask the system for as many descriptors as this process may have; how many it has now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return descriptor_limit()


def descriptor_limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class Connection(socket.socket):
    """The connection of a client; the listener that accepted it forgets it when it is closed."""

    listener: Listener | None = None
    host = ""

    def close(self) -> None:
        super().close()
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.forget(self)


class Listener(socket.socket):
    """A listening socket that accepts no more connections than it may."""

    def __init__(self, family: socket.AddressFamily, settings: Settings) -> None:
        # With the protocol named, asyncio sends what is written at once, and does not wait until
        # what was sent before is acknowledged, which takes others 40 ms.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        limit = descriptor_limit()
        spare = min(max(SPARE, limit // 16), limit // 2)
        self.most = min(settings.most_connections, limit - spare)
        self.most_of_one = settings.most_of_one_address or self.most
        self._is_plain = not settings.secure
        self._first = FIRST if limit >= 2 * FIRST else 0
        self._connections: WeakSet[Connection] = WeakSet()
        self._addresses: dict[str, WeakSet[Connection]] = {}
        self._reserve = _spare_descriptor()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that may come in; those that may not are closed on the way."""
        for _ in range(AT_ONCE):
            try:
                descriptor, address = self._accept()  # type: ignore[attr-defined]
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self._turn_away(error)
                continue
            descriptor = self._moved(descriptor)
            connection = Connection(self.family, self.type, self.proto, fileno=descriptor)
            host = connection.host = str(address[0])
            reason = self._reason(host)
            if reason is None:
                self._connections.add(connection)
                self._addresses.setdefault(host, WeakSet()).add(connection)
                connection.listener = self
                return connection, address
            LOG.warning("a connection of %s is refused: %s", host, reason)
            self._refuse(connection, reason)
        raise BlockingIOError  # others have their turn; who still waits is found again

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self._connections.discard(connection)
        those = self._addresses.get(connection.host)
        if those is not None:
            those.discard(connection)
            if not those:
                del self._addresses[connection.host]

    def close(self) -> None:
        super().close()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _reason(self, host: str) -> str | None:
        if len(self._connections) >= self.most:
            return f"there are {self.most:,} connections already"
        if len(self._addresses.get(host, ())) >= self.most_of_one:
            return f"there are {self.most_of_one:,} connections of this address already"
        return None

    def _moved(self, descriptor: int) -> int:
        """A connection's descriptor, out of the way of those who need a small one."""
        if descriptor >= self._first:
            return descriptor
        try:
            moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, self._first)
        except OSError:
            return descriptor
        os.close(descriptor)
        return moved

    def _refuse(self, connection: Connection, reason: str) -> None:
        """Say why, as far as that goes without waiting, and close."""
        with contextlib.suppress(OSError):
            if self._is_plain:
                connection.setblocking(False)
                connection.send(_refusal(reason))
                connection.shutdown(socket.SHUT_WR)
        connection.close()

    def _turn_away(self, error: OSError) -> None:
        """Close the next connection with the descriptor that was kept aside for this."""
        LOG.error("connections are closed, because no more can be opened: %s", error.strerror)
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
            try:
                descriptor, _ = self._accept()  # type: ignore[attr-defined]
                os.close(descriptor)
            except OSError as again:
                if again.errno not in EXHAUSTED:
                    raise
                time.sleep(PAUSE)
            finally:
                self._reserve = _spare_descriptor()
            return
        self._reserve = _spare_descriptor()
        if self._reserve is None:
            time.sleep(PAUSE)
            raise BlockingIOError


def _spare_descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _refusal(reason: str) -> bytes:
    """An answer in the usual shape, as it goes over the wire."""
    said = error_body("too_many_connections", reason, "close some, or try again later")
    body = json.dumps(said).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Retry-After: 5\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
