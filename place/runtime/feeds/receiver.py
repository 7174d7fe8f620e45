"""A receiver of AIS that sends sentences of NMEA over TCP, as most of them and all aggregators do.

The protocol has no acknowledgement: what is sent while nobody listens is lost, and so is what was
received and is not yet in a tick when the process ends. A sentence without a time has the time at
which it was received.
"""

from __future__ import annotations

import contextlib
import socket
import time
from datetime import UTC, datetime

from place.errors import ConfigurationError
from place.model.schema import External, Stream
from place.runtime.feeds.feed import Batch
from place.runtime.intake.check import line_text
from place.runtime.intake.json_file import Item
from place.runtime.intake.lines import LONGEST
from place.runtime.intake.nmea import AisReader

PATIENCE = 10.0
"""Seconds for a connection."""
SILENCE = 300.0
"""After so many seconds without a word the connection is opened again: it may be long gone."""


class ReceiverFeed:
    """Sentences of a host and port; of a connection that breaks the next one goes on."""

    def __init__(self, stream: Stream, source: External) -> None:
        self._stream = stream
        self._address = str(source.option("host")), int(source.option("port") or 0)
        self._socket: socket.socket | None = None
        self._rest = b""
        self._heard = 0.0
        self._reader = AisReader(stream)

    def take(self, seconds: float, most: int) -> Batch | None:
        data = self._received(seconds)
        if data is None:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        now = datetime.now(UTC)
        items: list[Item] = []
        texts: list[str] = []
        for line in lines:
            item = self._reader.read(line, now)
            if item is not None:
                items.append(item)
                texts.append(line_text(line.strip()))
        return Batch(f"{self._address[0]}:{self._address[1]}", items, texts) if items else None

    def acknowledge(self, batch: Batch) -> None:
        """There is nobody who would hear it."""

    def is_waited_for(self) -> bool:
        return False

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._rest = b""

    def _received(self, seconds: float) -> bytes | None:
        """What has come; None if nothing has."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, PATIENCE)
                self._reader, self._heard = AisReader(self._stream), time.monotonic()
            self._socket.settimeout(seconds)
            with contextlib.suppress(TimeoutError):
                data = self._socket.recv(1 << 16)
                if not data:
                    raise ConnectionResetError("the receiver has closed the connection")
                self._heard = time.monotonic()
                return data
            if time.monotonic() - self._heard > SILENCE:
                raise ConnectionResetError("the receiver is silent")
        except OSError as error:
            self.close()
            host, port = self._address
            raise ConfigurationError(
                f"the receiver at {host}:{port}: {error.strerror or error}",
                hint="check host and port; it is tried again",
            ) from None
        return None
