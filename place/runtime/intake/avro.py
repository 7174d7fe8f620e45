"""Messages in Avro, by a schema that is given once and not in each of them.

Many are read by one call of the library: as an array of records that each hold a message and a mark
after it. A message that is longer or shorter than the schema says loses its mark, and then each is
read by itself.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

MARK = 8
"""Bytes of the mark behind each message."""


class AvroMessages:
    """Reads records of one schema."""

    def __init__(self, definition: bytes) -> None:
        try:
            given = json.loads(definition)
            self._schema = fastavro.parse_schema(given)
        except (ValueError, SchemaParseException, KeyError, TypeError) as error:
            raise ValueError(f"no schema of Avro: {str(error)[:200]}") from None
        if not isinstance(given, dict) or given.get("type") != "record":
            raise ValueError("the schema is not that of a record")
        self.names: Sequence[str] = [field["name"] for field in given["fields"]]
        self._mark = secrets.token_bytes(MARK)
        marked = {
            "type": "record",
            "name": "place_marked_message",
            "fields": [
                {"name": "body", "type": given},
                {"name": "mark", "type": {"type": "fixed", "name": "place_mark", "size": MARK}},
            ],
        }
        self._many = fastavro.parse_schema({"type": "array", "items": marked})

    def body(self, framed: bytes) -> bytes | str:
        """Avro's messages follow the registry's number at once."""
        return framed

    def table(self, bodies: Sequence[bytes]) -> pa.Table | None:
        """Messages by columns; None if one of them is odd."""
        if not bodies:
            return None
        mark = self._mark
        data = io.BytesIO(b"".join((_long(len(bodies)), mark.join(bodies), mark, b"\0")))
        try:
            found: Any = fastavro.schemaless_reader(data, self._many, None)
            if data.tell() != data.getbuffer().nbytes or any(
                each["mark"] != mark for each in found
            ):
                return None
            rows = [each["body"] for each in found]
            return pa.table({name: pa.array([row[name] for row in rows]) for name in self.names})
        except _WRONG:
            return None

    def item(self, body: bytes) -> Mapping[str, Any] | str:
        """The members of a message, or why it cannot be read."""
        data = io.BytesIO(body)
        try:
            found: Any = fastavro.schemaless_reader(data, self._schema, None)
        except _WRONG as error:
            return f"no message of the schema: {str(error)[:200] or type(error).__name__}"
        left = len(body) - data.tell()
        if left:
            return f"no message of the schema: {left} bytes are left behind it"
        return {name: str(v) if isinstance(v, UUID) else v for name, v in found.items()}


_WRONG = (
    *(EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError),
    *(ArithmeticError, RecursionError, MemoryError, pa.ArrowException),
)
"""What the library raises about bytes that are no message, or Arrow about values that differ."""


def _long(number: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte.

    >>> _long(1), _long(64)
    (b'\\x02', b'\\x80\\x01')
    """
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
