"""Messages that are not text, in Avro or Protobuf, read and checked as those of JSON are.

What a message holds is said by a file of its own: a schema, or descriptors. It is read once, where
the source is opened, and travels with the tasks. Messages are first read together; if anything is
odd, each by itself, so that only those that are wrong are set aside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from place.errors import ConfigurationError, ReadingError
from place.model.schema import External, Stream
from place.runtime.intake.avro import AvroMessages
from place.runtime.intake.check import (
    Rejections,
    Routed,
    examine_table,
    find_layout,
    joined,
)
from place.runtime.intake.json_file import TOGETHER, Item, ObjectReader
from place.runtime.intake.judge import Arrival
from place.runtime.intake.lines import LONGEST, TOO_LONG
from place.runtime.intake.protobuf import ProtobufMessages

MAGIC, NUMBER = 0, 4
"""A registry of schemas puts this byte and a number of so many bytes before each message."""
REGISTRY_HINT = "if a registry's number is before each message, write framing = 'registry'"


class Messages(Protocol):
    """How messages of one kind are read."""

    names: Sequence[str]
    """What the members of a message are called."""

    def table(self, bodies: Sequence[bytes]) -> pa.Table | None:
        """Messages by columns; None if one of them is odd."""

    def item(self, body: bytes) -> Mapping[str, Any] | str:
        """The members of a message, or why it cannot be read."""

    def body(self, framed: bytes) -> bytes | str:
        """What follows a registry's number, or why that is not all that is there."""


@dataclass(frozen=True)
class BinaryForm:
    """How the messages of a source are encoded; it travels with tasks."""

    format: str
    definition: bytes
    message: str = ""
    is_framed: bool = False

    def messages(self) -> Messages:
        """What reads them; a ValueError says what is wrong with their definition."""
        return _messages(self)


@lru_cache(maxsize=16)
def _messages(form: BinaryForm) -> Messages:
    if form.format == "avro":
        return AvroMessages(form.definition)
    return ProtobufMessages(form.definition, form.message)


def binary_form(stream: Stream, source: External) -> BinaryForm | None:
    """How the messages of a source are encoded; None if they are JSON.

    What keeps them from being read is an error now, and not for each of them.
    """
    kind = str(source.option("format") or "json")
    if kind not in ("avro", "protobuf"):
        return None
    path = str(source.option("schema" if kind == "avro" else "descriptor"))
    try:
        definition = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    message = str(source.option("message") or "")
    form = BinaryForm(kind, definition, message, source.option("framing") == "registry")
    try:
        found = form.messages()
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    try:
        find_layout(stream, found.names, 0 if stream.time is None else None)
    except ReadingError as error:
        raise ConfigurationError(f"{path}: {error.message}", hint=error.hint) from None
    return form


def check_binary(
    stream: Stream,
    form: BinaryForm,
    values: pa.ChunkedArray,
    source: str,
    *,
    arrival: Arrival = None,
    latest: int | None = None,
) -> Routed:
    """The readings of messages, and the messages that are none."""
    rejections, reader, parts = Rejections(source), ObjectReader(stream, latest), []
    whole, start = values.combine_chunks(), 0
    while start < len(whole):
        some = whole.slice(start, TOGETHER).to_pylist()
        arrived = arrival.slice(start, len(some)) if isinstance(arrival, pa.Array) else arrival
        part = _all_good(stream, form, some, arrived, latest)
        if part is None:
            part = _each(reader, form, some, start, rejections, arrived)
        parts.append(part)
        start += len(some)
    return Routed(joined(stream, parts), rejections.all())


def _all_good(
    stream: Stream,
    form: BinaryForm,
    values: Sequence[bytes | None],
    arrival: Arrival,
    latest: int | None,
) -> pa.Table | None:
    """The segment of messages, if there is nothing at all wrong or odd about them."""
    messages = form.messages()
    bodies = [_body(form, messages, value) for value in values]
    good = [body for body in bodies if isinstance(body, bytes)]
    table = messages.table(good) if len(good) == len(bodies) else None
    if table is None:
        return None
    layout = find_layout(stream, table.column_names, arrival)
    parts = []
    for _, examined in examine_table(stream, table, layout, arrival, latest):
        if len(examined.bad):
            return None
        parts.append(examined.segment)
    return joined(stream, parts)


def _each(
    reader: ObjectReader,
    form: BinaryForm,
    values: Sequence[bytes | None],
    start: int,
    rejections: Rejections,
    arrival: Arrival,
) -> pa.Table:
    messages = form.messages()

    def read(value: bytes | None) -> Item:
        body = _body(form, messages, value)
        found = messages.item(body) if isinstance(body, bytes) else body
        if isinstance(found, str) and not form.is_framed and value and value[0] == MAGIC:
            return ReadingError(found, hint=REGISTRY_HINT)
        return found

    items = [read(value) for value in values]

    def text_of(index: int) -> tuple[int | None, str]:
        item, value = items[index], values[index]
        text = (value or b"").hex()
        if isinstance(item, Mapping):
            text = json.dumps(item, ensure_ascii=False, default=str)
        return start + index + 1, text

    return reader.sort_out(items, rejections, text_of, arrival)


def _body(form: BinaryForm, messages: Messages, value: bytes | None) -> bytes | str:
    """A message without what a registry puts before it, or why there is none."""
    if value is None:
        return "no message"
    if len(value) > LONGEST:
        return TOO_LONG
    if not form.is_framed:
        return value
    if len(value) <= NUMBER or value[0] != MAGIC:
        return "no number of a registry before the message"
    return messages.body(value[1 + NUMBER :])
