"""Kafka by its own client library: how clients connect, and the sink, a transaction for each tick.

A transaction holds the deltas of a tick and, as the offset of a consumer group that has no
consumers, the number of the tick. Both are there or neither is; so whoever goes on knows which
ticks were sent, and who reads committed messages sees each delta once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from place.errors import ConfigurationError
from place.model.schema import External

PATIENCE = 30.0
"""Seconds for a broker to answer."""
CLIENT = {
    "security": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "private_key": "ssl.key.location",
    "key_password": "ssl.key.password",
}
"""The options of KAFKA that say how to connect, and what the client library calls them."""


def client_settings(external: External) -> dict[str, str]:
    """How to connect to the brokers of a source or sink."""
    # What goes wrong is told by errors; the library would write it on the console as well.
    settings = {"bootstrap.servers": str(external.option("servers")), "log_level": "2"}
    for name, called in CLIENT.items():
        value = external.option(name)
        if value is not None:
            settings[called] = str(value)
    return settings


def unreachable(settings: dict[str, str], error: Exception) -> ConfigurationError:
    """A broker does not answer, or not as it should."""
    said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    return ConfigurationError(
        f"Kafka at {settings['bootstrap.servers']}: {said}",
        hint="check servers, topic and the options for SASL and TLS",
    )


class KafkaTarget:
    """A topic: the key is the query, the value the delta as JSON with its id.

    `label` is this sink's own, whoever runs it: a process that was thought dead cannot send any
    more once another has begun with the same label.
    """

    wants_columns = False

    def __init__(self, target: External, label: str) -> None:
        self._settings = client_settings(target)
        self._topic = str(target.option("topic"))
        self._label = f"place-{label}"
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._sent = -1
        """The last tick that was sent."""

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        """Send the deltas of a tick, unless that was done before."""
        try:
            producer, group = self._opened()
            if tick <= self._sent:
                return
            producer.begin_transaction()
            for key, value in _messages(changelog):
                self._produce(producer, key, value)
            mark = TopicPartition(self._topic, 0, tick)
            metadata = group.consumer_group_metadata()
            producer.send_offsets_to_transaction([mark], metadata, PATIENCE)
            producer.commit_transaction(PATIENCE)
            self._sent = tick
        except (KafkaException, BufferError) as error:
            self._close()  # whoever opens it next ends the transaction
            raise unreachable(self._settings, error) from None

    def _produce(self, producer: Producer, key: bytes, value: bytes) -> None:
        while True:
            try:
                producer.produce(self._topic, value=value, key=key)
                return
            except BufferError:  # it is full: what waits has to be sent first
                producer.poll(0.1)

    def _opened(self) -> tuple[Producer, Consumer]:
        if self._producer is not None and self._group is not None:
            return self._producer, self._group
        group = Consumer({**self._settings, "group.id": self._label, "enable.auto.commit": False})
        producer = Producer({**self._settings, "transactional.id": self._label, "linger.ms": 5})
        producer.init_transactions(PATIENCE)  # also ends what another has left open
        (mark,) = group.committed([TopicPartition(self._topic, 0)], PATIENCE)
        self._sent = mark.offset
        self._producer, self._group = producer, group
        return producer, group

    def _close(self) -> None:
        group, self._producer, self._group = self._group, None, None
        if group is not None:
            group.close()


def _messages(changelog: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """The deltas of a tick, as they are sent."""
    for row in changelog.to_pylist():
        facts: dict[str, Any] = {**row, "instant": row["instant"].isoformat()}
        yield str(row["query"]).encode(), json.dumps(facts).encode()
