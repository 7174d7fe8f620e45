"""Messages of an MQTT broker: plain objects of JSON, or what the phones of OwnTracks send.

The session at the broker has a name of its own and lasts, so that the broker keeps what is sent
while nobody is there. Messages come with QoS 1 and are acknowledged when their tick is committed:
whoever is killed before that gets them again, and none that was acknowledged can be lost. When a
connection breaks, what it had brought and was not acknowledged is forgotten: the broker sends it
again over the next one.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.subscribeoptions import SubscribeOptions

from place.errors import ConfigurationError, ReadingError
from place.model.schema import External, Stream
from place.runtime.durable.mqtt import PATIENCE, QOS, Connection
from place.runtime.feeds.feed import MOST_WAITING, Batch
from place.runtime.intake.check import line_text
from place.runtime.intake.json_file import Item, parse_object
from place.runtime.intake.roles import KEY, TIME, Roles, X, Y

TOPIC = "topic"
"""The member of every message that says where it was published."""


@dataclass(frozen=True)
class _Came:
    """A message, and the connection over which it came."""

    connection: int
    message: mqtt.MQTTMessage


class BrokerFeed:
    """The messages of a topic, which may have wildcards."""

    def __init__(self, stream: Stream, source: External, label: str) -> None:
        self._connection = Connection(source)
        self._label = label
        self._reads = _OwnTracks(stream) if source.option("format") == "owntracks" else _plain
        self._queue: queue.SimpleQueue[_Came] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._number = 0
        self._client: mqtt.Client | None = None
        self._error: ConfigurationError | None = None
        self._lost = 0.0

    def take(self, seconds: float, most: int) -> Batch | None:
        self._open()
        found: list[_Came] = []
        until = time.monotonic() + seconds
        while len(found) < most:
            try:
                wait = max(0.0, until - time.monotonic()) if not found else 0.0
                came = self._queue.get(timeout=wait) if wait else self._queue.get_nowait()
            except queue.Empty:
                break
            if came.connection == self._number:
                found.append(came)
        if not found:
            return None
        items = [self._reads(came.message) for came in found]
        kept = [index for index, item in enumerate(items) if item is not None]
        chosen = [items[index] for index in kept]
        texts = [line_text(bytes(found[index].message.payload)) for index in kept]
        source = f"{self._connection.host}:{self._connection.port}"
        return Batch(source, [item for item in chosen if item is not None], texts, found)

    def acknowledge(self, batch: Batch) -> None:
        with self._lock:  # no other connection begins meanwhile, with other numbers of messages
            client = self._client
            for came in batch.receipt:
                if client is not None and came.connection == self._number:
                    client.ack(came.message.mid, came.message.qos)

    def is_waited_for(self) -> bool:
        return not self._queue.empty()

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    def _open(self) -> None:
        """Be connected, or connecting: the library connects again by itself what breaks."""
        if self._error is not None:
            error, self._error = self._error, None
            self.close()
            raise error
        if self._client is not None:
            if not self._client.is_connected() and time.monotonic() - self._lost > PATIENCE:
                self._lost = time.monotonic()
                self.close()
                raise self._connection.unreachable("it does not answer")
            return
        client = self._connection.client(self._label, manual_ack=True)
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_subscribe = self._subscribed
        client.on_message = self._received
        self._lost = time.monotonic()
        self._connection.connect(client, most=MOST_WAITING, lasts=True)
        self._client = client
        client.loop_start()

    # What the library's thread calls

    def _connected(self, client: mqtt.Client, _: Any, __: Any, code: Any, ___: Any) -> None:
        if code.is_failure:
            self._error = self._connection.refused(code)
            return
        with self._lock:
            self._number += 1
        # What a broker retains is told once, and not after each break.
        once = SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        client.subscribe(self._connection.topic, options=SubscribeOptions(QOS, retainHandling=once))

    def _disconnected(self, _: mqtt.Client, __: Any, ___: Any, code: Any, ____: Any) -> None:
        with self._lock:
            self._number += 1  # what has come is of a connection that is gone
        self._lost = time.monotonic()

    def _subscribed(self, _: mqtt.Client, __: Any, ___: Any, codes: Any, ____: Any) -> None:
        for code in codes:
            if code.is_failure:
                self._error = self._connection.refused(code)

    def _received(self, _: mqtt.Client, __: Any, message: mqtt.MQTTMessage) -> None:
        self._queue.put(_Came(self._number, message))


def _plain(message: mqtt.MQTTMessage) -> Item | None:
    """An object of JSON, whose columns are found by name; its topic is one more member."""
    found = parse_object(bytes(message.payload))
    return found if isinstance(found, str) else {**found, TOPIC: found.get(TOPIC, message.topic)}


class _OwnTracks:
    """Locations of phones: `owntracks/user/device`. The object is `user/device`."""

    def __init__(self, stream: Stream) -> None:
        self._roles = Roles(stream)

    def __call__(self, message: mqtt.MQTTMessage) -> Item | None:
        found: Mapping[str, Any] | str = parse_object(bytes(message.payload))
        if isinstance(found, str):
            return found
        if found.get("_type") != "location":  # a will, a waypoint, a card: no word of where it is
            return None
        levels = message.topic.split("/")
        user, device = (["", *levels])[-2:]
        members = {TOPIC: message.topic, "user": user, "device": device, **found}
        known: dict[str, Any] = {KEY: f"{user}/{device}" if user else device}
        known |= {X: found.get("lon"), Y: found.get("lat")}
        if "tst" in found:
            try:
                known[TIME] = datetime.fromtimestamp(found["tst"], UTC)
            except (TypeError, ValueError, OverflowError, OSError):
                said = json.dumps(found["tst"])[:60]
                return ReadingError(f"tst: {said} is no time", hint="tst is seconds since 1970")
        return self._roles.item(known, members)
