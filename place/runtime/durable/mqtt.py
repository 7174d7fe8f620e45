"""MQTT by its own client library: how clients of feeds and sinks connect, and the sink.

A sink publishes with QoS 1 and waits until the broker has all messages of a tick. One that is
killed in between publishes the tick again: delivery is at least once, and each delta has its id.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import paho.mqtt.client as mqtt
import pyarrow as pa
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from place.errors import ConfigurationError
from place.model.delta import Answer, ordered
from place.model.schema import External

PATIENCE = 30.0
"""Seconds for a broker to answer."""
FOREVER = 0xFFFFFFFF
"""A broker keeps what is sent to a session that is away, as long as it keeps anything."""
PORT, SECURE_PORT = 1883, 8883
QOS = 1


class Connection:
    """How to connect to a broker: MQTT 5, by TLS and with a password where options say so."""

    def __init__(self, external: External) -> None:
        self._external = external
        secure = external.option("security") == "tls" or external.option("ca") is not None
        self._is_secure = secure
        self.host = str(external.option("host"))
        self.port = int(external.option("port") or (SECURE_PORT if secure else PORT))
        self.topic = str(external.option("topic"))

    def client(self, label: str, *, manual_ack: bool = False) -> mqtt.Client:
        """A client that is not connected yet; `label` is the name of its session."""
        made = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=label,
            protocol=mqtt.MQTTv5,
            manual_ack=manual_ack,
        )
        made.on_socket_open = _hurry
        username, password = self._text("username"), self._text("password")
        if username is not None:
            made.username_pw_set(username, password)
        if self._is_secure:
            try:
                made.tls_set(
                    ca_certs=self._text("ca"),
                    certfile=self._text("certificate"),
                    keyfile=self._text("private_key"),
                    keyfile_password=self._text("key_password"),
                )
            except (OSError, ValueError, ssl.SSLError) as error:
                raise self.unreachable(f"its certificates cannot be read: {error}") from None
        return made

    def connect(self, client: mqtt.Client, *, most: int, lasts: bool) -> None:
        """Begin to connect. With `lasts` the broker keeps the session while nobody is there; at
        most so many messages are under way to this side."""
        asked = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        asked.SessionExpiryInterval = FOREVER if lasts else 0
        asked.ReceiveMaximum = min(most, 65_535)
        try:
            client.connect(
                self.host, self.port, keepalive=30, clean_start=not lasts, properties=asked
            )
        except (OSError, ValueError) as error:
            raise self.unreachable(str(error)) from None

    def refused(self, code: ReasonCode) -> ConfigurationError:
        """The broker does not let this side in, or not to the topic."""
        return self.unreachable(str(code))

    def unreachable(self, said: str) -> ConfigurationError:
        """The broker does not answer, or not as it should."""
        return ConfigurationError(
            f"MQTT at {self.host}:{self.port}: {said}",
            hint="check host, port, topic, username and password, and the options for TLS",
        )

    def _text(self, name: str) -> str | None:
        value = self._external.option(name)
        return None if value is None else str(value)


def _hurry(_: mqtt.Client, __: Any, opened: Any) -> None:
    """Small packets are sent at once: a broker waits for an acknowledgement before it goes on."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


AnswersNow = Callable[[], tuple[int, Mapping[str, Answer]]]
"""The answers of the sink's queries as of a tick, and that tick."""
UNDER_WAY = 1000
"""Messages that the broker has not acknowledged yet, at most."""


class MqttTarget:
    """A topic for each query, below that of the sink: `topic/query`.

    With deltas, a message is one delta as JSON with its id. With answers, it is a whole answer,
    which the broker keeps (retains) for those who come later.
    """

    wants_columns = False

    def __init__(self, target: External, label: str, answers: AnswersNow | None) -> None:
        self._connection = Connection(target)
        self._label = label
        self._client: mqtt.Client | None = None
        self._error: ConfigurationError | None = None
        self._asks = answers
        self._answers: dict[str, Counter[str]] | None = None
        self._asked = -1

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        """Publish the deltas of a tick, or the answers that it has changed."""
        if self._asks is None:
            self._publish(self._deltas(changelog), retain=False)
            return
        if self._answers is None:
            self._asked, found = self._asks()
            self._answers = {name: _texts(answer) for name, answer in found.items()}
        changed = {}
        for row in changelog.to_pylist():
            changed[row["query"]] = row["instant"]
            if tick > self._asked:  # it is not in the answers that were asked for
                self._answers[row["query"]][row["row"]] += row["sign"]
        try:
            self._publish(self._whole(tick, changed), retain=True)
        except ConfigurationError:
            self._answers = None  # they are asked for again: this tick is in them already
            raise

    def _deltas(self, changelog: pa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in changelog.to_pylist():
            row |= {"instant": row["instant"].isoformat(), "row": json.loads(row["row"])}
            yield row["query"], row

    def _whole(self, tick: int, changed: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        assert self._answers is not None
        for query, instant in changed.items():
            answer = self._answers[query]
            rows = ordered(tuple(json.loads(text)) for text in (+answer).elements())
            told = {"query": query, "tick": max(tick, self._asked), "rows": list(rows)}
            yield query, {**told, "instant": instant.isoformat()}

    def _publish(self, messages: Iterator[tuple[str, dict[str, Any]]], *, retain: bool) -> None:
        """Publish messages; the broker has all of them when this returns."""
        client = self._opened()
        until = time.monotonic() + PATIENCE
        sent = []
        for query, told in messages:
            topic = f"{self._connection.topic}/{re.sub(r'[+#/]|[^ -~]', '_', query)}"
            sent.append(client.publish(topic, json.dumps(told).encode(), QOS, retain))
        for message in sent:
            while not message.is_published():
                left = until - time.monotonic()
                if self._error is not None or left <= 0:
                    error, self._error = self._error, None
                    self._close()
                    raise error or self._connection.unreachable("it does not acknowledge")
                message.wait_for_publish(min(left, 0.2))

    def _opened(self) -> mqtt.Client:
        if self._client is None:
            client = self._connection.client(self._label)
            client.max_inflight_messages_set(UNDER_WAY)
            client.on_connect = self._connected
            self._connection.connect(client, most=UNDER_WAY, lasts=False)
            client.loop_start()
            self._client = client
        return self._client

    def _connected(self, _: mqtt.Client, __: Any, ___: Any, code: Any, ____: Any) -> None:
        if code.is_failure:
            self._error = self._connection.refused(code)

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()


def _texts(answer: Answer) -> Counter[str]:
    """An answer by the texts of its rows, as they stand in a changelog."""
    return Counter({json.dumps(row): count for row, count in answer.items()})
