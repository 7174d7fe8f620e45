"""Messages in Protobuf, by descriptors as `protoc --include_imports -o file.desc` writes them.

Many are read by one call of the library, as a message that repeats them: each has its length before
it, so that none runs into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

TIMESTAMP = "google.protobuf.Timestamp"
_Field = Any
"""A descriptor of a field: the library has several classes of them."""


class ProtobufMessages:
    """Reads messages of one kind."""

    def __init__(self, definition: bytes, message: str) -> None:
        pool = descriptor_pool.DescriptorPool()
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(definition)
        except DecodeError:
            raise ValueError("no descriptors of Protobuf") from None
        try:
            if not any(file.name == timestamp_pb2.DESCRIPTOR.name for file in files.file):
                pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
            for file in files.file:
                pool.Add(file)
            found = pool.FindMessageTypeByName(message)
        except KeyError:
            known = sorted(
                f"{f.package}.{m.name}".lstrip(".") for f in files.file for m in f.message_type
            )
            raise ValueError(
                f'there is no message "{message}"; there are {", ".join(known)[:300] or "none"}'
            ) from None
        except TypeError as error:  # a file that another one needs is not there
            raise ValueError(
                f"{str(error)[:200]}; write it with protoc --include_imports"
            ) from None
        self._one = message_factory.GetMessageClass(found)
        self._many = message_factory.GetMessageClass(_repeated(pool, found))
        self._fields = [field for field in found.fields if _reader(field) is not None]
        self.names: Sequence[str] = [field.name for field in self._fields]

    def body(self, framed: bytes) -> bytes | str:
        """After the registry's number stands which message of a file it is, as a list of numbers;
        a single zero is the first."""
        count, at = _varint(framed, 0)
        for _ in range(min(count >> 1, len(framed))):
            _, at = _varint(framed, at)
        return framed[at:] if at <= len(framed) else "no message behind the registry's numbers"

    def table(self, bodies: Sequence[bytes]) -> pa.Table | None:
        """Messages by columns; None if one of them is odd."""
        if not bodies:
            return None
        data = b"".join(part for body in bodies for part in (b"\x0a", _length(len(body)), body))
        try:
            found = self._many.FromString(data).items
            columns = {field.name: _column(field, found) for field in self._fields}
            return pa.table(columns)
        except (DecodeError, ValueError, OverflowError, pa.ArrowException):
            return None

    def item(self, body: bytes) -> Mapping[str, Any] | str:
        """The members of a message, or why it cannot be read."""
        try:
            found = self._one.FromString(body)
        except DecodeError as error:
            return f"no message of the descriptor: {str(error)[:200]}"
        return {field.name: _column(field, [found])[0].as_py() for field in self._fields}


def _repeated(pool: descriptor_pool.DescriptorPool, found: Any) -> Any:
    """A message that repeats another one."""
    file = descriptor_pb2.FileDescriptorProto(
        name="place/repeated.proto", package="place", dependency=[found.file.name], syntax="proto3"
    )
    kind = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="Repeated").field.add(
        name="items",
        number=1,
        label=kind.LABEL_REPEATED,
        type=kind.TYPE_MESSAGE,
        type_name=f".{found.full_name}",
    )
    pool.Add(file)
    return pool.FindMessageTypeByName("place.Repeated")


def _reader(field: _Field) -> Callable[[Any], Any] | None:
    """What makes a plain value of a field's; None if it cannot be one."""
    if field.is_repeated:
        return None
    if field.message_type is not None:
        if field.message_type.full_name != TIMESTAMP:
            return None
        return lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda value: names.get(value, str(value))
    return lambda value: value


def _column(field: _Field, messages: Sequence[Any]) -> pa.Array:
    """A field of messages; NULL where one that can be absent is."""
    name, read = field.name, _reader(field)
    assert read is not None
    is_plain = field.message_type is None and field.enum_type is None
    if not field.has_presence and is_plain:
        return pa.array([getattr(message, name) for message in messages])
    values = [
        read(getattr(message, name)) if not field.has_presence or message.HasField(name) else None
        for message in messages
    ]
    return pa.array(values, pa.timestamp("us", "UTC") if field.message_type is not None else None)


def _length(number: int) -> bytes:
    """A length as Protobuf writes it: seven bits a byte."""
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and the place after it; beyond the end if it has none."""
    number = shift = 0
    while at < len(data):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80 or shift > 63:
            return number, at
    return number, len(data) + 1
