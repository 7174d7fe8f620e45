"""A topic of Kafka as a source of Spark, in Python: Spark needs no connector of its own.

An offset of the source is the next message of each partition; Spark keeps it in its checkpoint. The
tasks of a batch read their ranges from the brokers themselves.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from place.errors import ConfigurationError
from place.runtime.durable.kafka import PATIENCE, unreachable
from place.runtime.durable.tick_pace import Budget

NAME = "place-kafka"
SETTINGS = "secret_settings"
"""The option with the settings of the client: Spark shows no option whose name is like this."""
MESSAGES = pa.schema(
    [
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
TOGETHER = 10_000
"""Messages that are taken from the client at a time."""

Offsets = Mapping[str, int]
"""The next message of each partition, by its number as a text."""


@dataclass(frozen=True)
class Allowance:
    """How many messages the next batch should have, in a file: Spark asks for batches in another
    process than that which sees how long they take, on the same machine."""

    path: str

    def write(self, budget: Budget) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        draft = f"{self.path}.tmp"
        Path(draft).write_text(str(budget.readings), "ascii")
        os.replace(draft, self.path)

    def read(self, otherwise: int) -> int:
        """The number that was written last, if any."""
        try:
            return int(Path(self.path).read_text("ascii"))
        except (OSError, ValueError):
            return otherwise


class Range(InputPartition):
    """Messages of a partition, from the first up to before `after`."""

    def __init__(self, partition: int, first: int, after: int) -> None:
        super().__init__((partition, first, after))
        self.partition, self.first, self.after = partition, first, after


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a topic from its beginning on, at most so many messages in a batch."""

    def __init__(
        self,
        settings: dict[str, str],
        topic: str,
        most: int,
        allowance: Allowance | None = None,
    ) -> None:
        self._settings, self._topic, self._most = settings, topic, most
        self._allowance = allowance
        self._client: Consumer | None = None
        self._until: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}  # tasks have clients of their own

    # What Spark asks where it plans

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {partition: low for partition, (low, _) in self._bounds().items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        bounds = self._bounds()
        ends = {partition: high for partition, (_, high) in bounds.items()}
        if self._until is not None:
            ends = {p: min(high, self._until.get(p, 0)) for p, high in ends.items()}
        starts = {p: start.get(p, low) for p, (low, _) in bounds.items()}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if most is not None and self._allowance is not None:
            most = min(most, self._allowance.read(most))
        return {**start, **_cut(starts, ends, most)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = {partition: high for partition, (_, high) in self._bounds().items()}

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        ranges: list[InputPartition] = []
        bounds = self._bounds()
        for partition, after in sorted(end.items(), key=lambda item: int(item[0])):
            low, _ = bounds.get(partition, (0, 0))
            first = start.get(partition, low)
            if first < after:
                if first < low:
                    raise ConfigurationError(
                        f'topic "{self._topic}" has lost messages {first} to {low - 1} of partition'
                        f" {partition} before they were read",
                        hint="keep messages longer (retention.ms); to go on without them drop the"
                        " stream and create it again, which begins with what is there",
                    )
                ranges.append(Range(int(partition), first, after))
        return ranges

    def commit(self, end: dict[str, Any]) -> None:
        """Spark keeps its own account."""

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def check(self) -> None:
        """Raise if the topic cannot be read."""
        try:
            self._bounds()
        finally:
            self.stop()

    def _bounds(self) -> dict[str, tuple[int, int]]:
        """The first message of each partition that is there, and the one after the last."""
        try:
            if self._client is None:
                self._client = _consumer(self._settings)
            found = self._client.list_topics(self._topic, PATIENCE).topics[self._topic]
            if found.error is not None:
                raise KafkaException(found.error)
            bounds = {}
            for number in sorted(found.partitions):
                place = TopicPartition(self._topic, number)
                low, high = self._client.get_watermark_offsets(place, PATIENCE)
                bounds[str(number)] = (low, high)
            return bounds
        except KafkaException as error:
            raise unreachable(self._settings, error) from None

    # What a task does

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)
        client = _consumer(self._settings)
        try:
            client.assign([TopicPartition(self._topic, partition.partition, partition.first)])
            for messages in self._taken(client, partition):
                yield _batch(messages)
        except KafkaException as error:
            raise unreachable(self._settings, error) from None
        finally:
            client.close()

    def _taken(self, client: Consumer, wanted: Range) -> Iterator[list[Message]]:
        """The messages of a range. Not every number has one: some mark the ends of transactions,
        and of compacted topics some are gone."""
        quiet_since = time.monotonic()
        while True:
            found = client.consume(TOGETHER, 1.0)
            mine: list[Message] = []
            is_over = False
            for message in found:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                offset = message.offset() or 0
                if offset >= wanted.after:
                    is_over = True
                    break
                if error is None:
                    mine.append(message)
                    is_over = offset + 1 >= wanted.after
            if mine:
                yield mine
            if is_over:
                return
            if found:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > PATIENCE:
                raise ConfigurationError(
                    f'topic "{self._topic}" does not give the messages up to {wanted.after} of'
                    f" partition {wanted.partition}",
                    hint="is there a broker for it?",
                )


class KafkaSource(DataSource):
    """`spark.readStream.format("place-kafka")` with settings of the client, a topic and a limit."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = self.options
        settings = json.loads(options[SETTINGS])
        allowance = Allowance(options["allowance"])
        return KafkaReader(settings, options["topic"], int(options["most"]), allowance)


def _consumer(settings: dict[str, str]) -> Consumer:
    """A client that reads what it is told to, and is of no group."""
    return Consumer(
        {
            **settings,
            "group.id": "place-readers",  # the library asks for one; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
    )


def _cut(starts: Offsets, ends: Offsets, most: int | None) -> dict[str, int]:
    """How far a batch goes in each partition: all of them by the same share of what is there."""
    waiting = {p: max(0, ends[p] - starts[p]) for p in ends}
    total = sum(waiting.values())
    if most is None or total <= most:
        return {p: starts[p] + count for p, count in waiting.items()}
    taken = {p: count * most // total for p, count in waiting.items()}
    if not any(taken.values()):  # fewer than there are partitions
        taken[max(waiting, key=lambda p: waiting[p])] = most
    return {p: starts[p] + count for p, count in taken.items()}


def _batch(messages: list[Message]) -> pa.RecordBatch:
    stamps = [message.timestamp()[1] * 1000 for message in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([message.value() for message in messages], pa.binary()),
            pa.array([message.partition() for message in messages], pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array(stamps, pa.int64()).cast(pa.timestamp("us", "UTC")),
        ],
        schema=MESSAGES,
    )
