"""The channel between the driver and its standing cells: an authenticated TCP connection for each.

Both ends hold a random token, which travels only with Spark's own job. When a cell connects, each
end proves that it has the token by answering the other's challenge, before anything of variable
length is read; nobody else gets further than that. From then on messages are frames with a code of
authentication over all that was sent before on this connection's side: a frame that was changed,
left out or repeated on the way ends the connection. Only what such a frame holds is ever unpickled.

A connection belongs to an epoch, the number of the job that the cell is a task of. A cell of
another epoch is told so, and ends.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

MARK = b"PLACE cell 1\n"
NONCE, CODE = 32, 32
TOKEN_BYTES = 32
_WHO = struct.Struct(">II")  # epoch, number of the cell
_FRAME = struct.Struct(">IQQ")  # epoch, number of the request, length
MOST_BYTES = 1 << 31
"""A frame is no longer than this; a catalog of a million queries is a quarter of it."""
PIECE = 1 << 20
PATIENCE = 10.0
"""Seconds in which the other end has to prove who it is."""
STOP = 0
"""The number of the frame by which the driver lets a cell end."""
_YES, _OVER = b"+", b"-"
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class Disconnected(ConnectionError):
    """The other end is gone, or what it sent is not what it should be."""


@dataclass(frozen=True)
class Terms:
    """How a cell finds its driver and proves that it belongs to it."""

    host: str
    port: int
    epoch: int
    token: bytes = field(repr=False)


class Connection:
    """An authenticated connection: frames with a number, of one epoch."""

    def __init__(self, sock: socket.socket, epoch: int, cell: int, keys: tuple[bytes, bytes]):
        self._socket = sock
        self.epoch, self.cell = epoch, cell
        self._sent, self._got = (hmac.new(key, digestmod="sha256") for key in keys)

    def send(self, number: int, content: bytes) -> None:
        """Send a frame; a ValueError if it is too long, and then nothing was sent."""
        if len(content) > MOST_BYTES:
            raise ValueError(f"a message of {len(content)} bytes is too long for a cell's channel")
        head = _FRAME.pack(self.epoch, number, len(content))
        self._sent.update(head)
        self._sent.update(content)
        parts = (head, content, self._sent.digest())
        try:
            for part in (b"".join(parts),) if len(content) < PIECE else parts:
                self._socket.sendall(part)
        except OSError as error:
            raise Disconnected(str(error)) from None

    def receive(self) -> tuple[int, bytes]:
        """The next frame: its number and its content."""
        head = _read(self._socket, _FRAME.size)
        epoch, number, length = _FRAME.unpack(head)
        if epoch != self.epoch or length > MOST_BYTES:
            raise Disconnected(f"a message of epoch {epoch}, not {self.epoch}, or too long")
        content = _read(self._socket, length)
        self._got.update(head)
        self._got.update(content)
        if not hmac.compare_digest(self._got.digest(), _read(self._socket, CODE)):
            raise Disconnected("a message is not as it was sent")
        return number, content

    def close(self) -> None:
        """End the connection at once, also for a thread that waits for a frame."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def introduce(terms: Terms, cell: int) -> Connection | None:
    """Connect a cell to its driver; None if the driver has gone on to another epoch."""
    try:
        sock = socket.create_connection((terms.host, terms.port), PATIENCE)
    except OSError as error:
        raise Disconnected(f"the driver at {terms.host}:{terms.port}: {error}") from None
    try:
        _tune(sock)
        greeting = _read(sock, len(MARK) + NONCE)
        if not greeting.startswith(MARK):
            raise Disconnected("whoever listens there is no driver of PLACE")
        nonces = greeting[len(MARK) :] + secrets.token_bytes(NONCE)
        who = _WHO.pack(terms.epoch, cell)
        proof = _code(terms.token, b"cell", nonces, who)
        sock.sendall(nonces[NONCE:] + who + proof)
        verdict = _read(sock, 1)
        expected = _code(terms.token, b"driver", nonces, who + verdict)
        if not hmac.compare_digest(_read(sock, CODE), expected):
            raise Disconnected("whoever listens there does not have the token")
        if verdict == _OVER:
            sock.close()
            return None
        sock.settimeout(None)
        down, up = _keys(terms.token, nonces)
        return Connection(sock, terms.epoch, cell, (up, down))
    except OSError as error:
        sock.close()
        raise error if isinstance(error, Disconnected) else Disconnected(str(error)) from None


def greet(
    sock: socket.socket, token: bytes, expects: Callable[[int, int], bool]
) -> Connection | None:
    """Let somebody prove that it is a cell; `expects` says whether its epoch and number are those
    of now. None if it is a cell of another epoch; Disconnected if it is nobody."""
    sock.settimeout(PATIENCE)
    _tune(sock)
    challenge = secrets.token_bytes(NONCE)
    sock.sendall(MARK + challenge)
    reply = _read(sock, NONCE + _WHO.size + CODE)
    nonces, who = challenge + reply[:NONCE], reply[NONCE:-CODE]
    if not hmac.compare_digest(reply[-CODE:], _code(token, b"cell", nonces, who)):
        raise Disconnected("a connection without the token is refused")
    epoch, cell = _WHO.unpack(who)
    verdict = _YES if expects(epoch, cell) else _OVER
    sock.sendall(verdict + _code(token, b"driver", nonces, who + verdict))
    if verdict == _OVER:
        return None
    sock.settimeout(None)
    return Connection(sock, epoch, cell, _keys(token, nonces))


def _code(token: bytes, what: bytes, nonces: bytes, content: bytes = b"") -> bytes:
    return hmac.digest(token, what + b"\0" + nonces + content, "sha256")


def _keys(token: bytes, nonces: bytes) -> tuple[bytes, bytes]:
    """The keys of the frames from the driver and of those to it."""
    return _code(token, b"from driver", nonces), _code(token, b"to driver", nonces)


def _tune(sock: socket.socket) -> None:
    """Small messages go at once; a machine that is gone is missed within half a minute."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read(sock: socket.socket, length: int) -> bytes:
    """So many bytes; memory is taken as they come, not as they are announced."""
    parts: list[bytes] = []
    missing = length
    while missing:
        try:
            part = sock.recv(min(missing, PIECE))
        except OSError as error:
            raise Disconnected(str(error)) from None
        if not part:
            raise Disconnected("the other end has closed the connection")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
