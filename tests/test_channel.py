"""The channel of the standing cells: who is let in, and what becomes of messages that are wrong."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from place.runtime.spark import channel
from place.runtime.spark.channel import Connection, Disconnected, Terms, greet, introduce

TOKEN = bytes(range(32))
EPOCH, CELL = 3, 1


@dataclass
class Door:
    """A driver that greets one connection."""

    port: int
    met: threading.Event = field(default_factory=threading.Event)
    connection: Connection | None = None
    error: Exception | None = None

    def terms(self, token: bytes = TOKEN, epoch: int = EPOCH) -> Terms:
        return Terms("127.0.0.1", self.port, epoch, token)

    def meet(self) -> Connection | None:
        assert self.met.wait(20)
        if self.error is not None:
            raise self.error
        return self.connection


@contextmanager
def door(expects: Callable[[int, int], bool] | None = None) -> Iterator[Door]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Door(listener.getsockname()[1])

        def wait() -> None:
            sock, _ = listener.accept()
            try:
                made.connection = greet(sock, TOKEN, expects or (lambda e, c: e == EPOCH))
            except OSError as error:
                made.error = error
            if made.connection is None:
                sock.close()
            made.met.set()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        yield made
        thread.join(20)
        if made.connection is not None:
            made.connection.close()


def both(made: Door) -> tuple[Connection, Connection]:
    cell = introduce(made.terms(), CELL)
    driver = made.meet()
    assert cell is not None
    assert driver is not None
    return cell, driver


def test_both_ends_prove_themselves_and_frames_go_both_ways() -> None:
    with door() as made:
        cell, driver = both(made)
        assert (driver.epoch, driver.cell) == (EPOCH, CELL)
        long = bytes(3 * channel.PIECE + 7)
        for number, content in ((1, b""), (2, b"hello"), (3, long), (4, b"again")):
            sender = threading.Thread(target=driver.send, args=(number, content))
            sender.start()
            assert cell.receive() == (number, content)
            sender.join()
            cell.send(number, content[:5])
            assert driver.receive() == (number, content[:5])
        cell.close()
        with pytest.raises(Disconnected):
            driver.receive()


def test_a_cell_without_the_token_is_refused() -> None:
    with door() as made:
        with pytest.raises(Disconnected):
            introduce(made.terms(token=bytes(32)), CELL)
        with pytest.raises(Disconnected, match="without the token"):
            made.meet()


def test_a_driver_without_the_token_is_not_believed() -> None:
    """Whoever took the driver's port could send whatever it likes to be unpickled."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pretend() -> None:
            sock, _ = listener.accept()
            sock.sendall(channel.MARK + bytes(channel.NONCE))
            sock.recv(1000)
            sock.sendall(b"+" + bytes(channel.CODE))

        threading.Thread(target=pretend, daemon=True).start()
        with pytest.raises(Disconnected, match="does not have the token"):
            introduce(Terms("127.0.0.1", listener.getsockname()[1], EPOCH, TOKEN), CELL)


def test_a_cell_of_another_epoch_is_told_that_it_is_over() -> None:
    with door() as made:
        assert introduce(made.terms(epoch=EPOCH - 1), CELL) is None
        assert made.meet() is None


def test_whoever_says_nothing_or_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "PATIENCE", 0.2)
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(200)):
        with door() as made, socket.create_connection(("127.0.0.1", made.port)) as sock:
            sock.sendall(said)
            with pytest.raises(Disconnected):
                made.meet()


@pytest.mark.parametrize("place", [0, 3, channel._FRAME.size, -1])
def test_a_frame_that_was_changed_on_the_way_ends_the_connection(place: int) -> None:
    with door() as made:
        cell, driver = both(made)
        sent: list[bytes] = []
        tapped, driver._socket = driver._socket, _Tap(sent)  # type: ignore[assignment]
        driver.send(1, b"hello")
        frame = bytearray(b"".join(sent))
        frame[place] ^= 1
        tapped.sendall(frame)
        with pytest.raises(Disconnected):
            cell.receive()
        tapped.close()
        cell.close()


def test_a_frame_that_is_repeated_or_too_long_ends_the_connection() -> None:
    with door() as made:
        cell, driver = both(made)
        sent: list[bytes] = []
        tapped, driver._socket = driver._socket, _Tap(sent)  # type: ignore[assignment]
        driver.send(1, b"hello")
        tapped.sendall(2 * b"".join(sent))
        assert cell.receive() == (1, b"hello")
        with pytest.raises(Disconnected, match="not as it was sent"):
            cell.receive()
        tapped.close()
    with door() as made:
        cell, driver = both(made)
        driver._socket.sendall(struct.pack(">IQQ", EPOCH, 1, channel.MOST_BYTES + 1))
        with pytest.raises(Disconnected, match="too long"):
            cell.receive()


def test_a_message_of_another_epoch_is_refused() -> None:
    with door() as made:
        cell, driver = both(made)
        driver.epoch = EPOCH + 1
        driver.send(1, b"hello")
        with pytest.raises(Disconnected, match=f"epoch {EPOCH + 1}, not {EPOCH}"):
            cell.receive()


def test_what_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with door() as made:
        cell, driver = both(made)
        with monkeypatch.context() as patched:
            patched.setattr(channel, "MOST_BYTES", 10)
            with pytest.raises(ValueError, match="too long"):
                driver.send(1, bytes(11))
        driver.send(2, b"short")
        assert cell.receive() == (2, b"short")


def test_the_token_is_in_no_text() -> None:
    assert TOKEN.hex()[:8] not in repr(Terms("127.0.0.1", 1, EPOCH, TOKEN))
    assert "token" not in repr(Terms("127.0.0.1", 1, EPOCH, TOKEN))


class _Tap:
    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def sendall(self, content: bytes) -> None:
        self._sent.append(content)

    def shutdown(self, _how: int) -> None:
        pass

    def close(self) -> None:
        pass
