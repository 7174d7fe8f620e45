"""Arrow tables by name in one file, with facts about them, and checksums over all of it.

The tables come first, each as an Arrow stream; then their names and places as JSON, compressed if
it is long; then the checksums of both, the length of the index, and a mark. A file without the mark
was not finished, and one whose checksums are others is not as it was written. Nobody reads a table
of either.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from place.runtime.durable.storage import Damaged, Storage

MARK = b"PLACE\x02\n"
EARLIER = b"PLACE\x01\n"
TAIL = 4 + 4 + 8 + len(MARK)
"""Two checksums, a length and the mark."""
LONG = 2048
"""An index of more bytes is compressed: names of many queries are much alike."""


class Pack(NamedTuple):
    """The tables of a file by name, and the facts."""

    tables: dict[str, pa.Table]
    facts: dict[str, Any]


class _Summed:
    """A file that is written, and the checksum and the length of what was written so far."""

    closed = False

    def __init__(self, out: pa.NativeFile) -> None:
        self._out = out
        self.size = self.sum = 0

    def write(self, content: bytes) -> int:
        self.sum = zlib.crc32(content, self.sum)
        self.size += len(content)
        self._out.write(content)
        return len(content)

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """All that is written is passed on at once."""

    def close(self) -> None:
        """Whoever has opened the file closes it."""


def write_tables(
    out: pa.NativeFile, tables: Mapping[str, pa.Table], facts: Mapping[str, Any] | None = None
) -> None:
    """Write tables by name, and facts about them that JSON can hold."""
    places: dict[str, int] = {}
    summed = _Summed(out)
    for name, table in tables.items():
        summed.write(b"\0" * (-summed.size % 64))
        places[name] = summed.size
        with (
            pa.PythonFile(summed, "w") as through,
            pa.ipc.new_stream(through, table.schema) as writer,
        ):
            writer.write_table(table)
    index = json.dumps({"tables": places, "facts": facts or {}}).encode("utf-8")
    if len(index) > LONG:
        index = zlib.compress(index, 1)
    out.write(index)
    for check in (summed.sum, zlib.crc32(index)):
        out.write(check.to_bytes(4, "little"))
    out.write(len(index).to_bytes(8, "little"))
    out.write(MARK)


def read_pack(source: pa.NativeFile) -> Pack:
    """All tables and facts; of a memory map the tables stay where they are.

    A ValueError says what is wrong with a file that is not as it was written.
    """
    size = source.size()
    source.seek(max(0, size - TAIL))
    tail = source.read(TAIL)
    if size < TAIL or not tail.endswith(MARK):
        raise ValueError(
            "it was written by an earlier version of PLACE"
            if tail.endswith(EARLIER)
            else "it was cut short, or never finished"
        )
    length = int.from_bytes(tail[8:16], "little")
    end = size - TAIL - length
    if end < 0:
        raise ValueError("the length of its index is wrong")
    source.seek(0)
    content, index = source.read_buffer(end), source.read(length)
    for part, check in ((content, tail[:4]), (index, tail[4:8])):
        if zlib.crc32(part) != int.from_bytes(check, "little"):
            raise ValueError("its checksum is wrong")
    found = json.loads(index if index.startswith(b"{") else zlib.decompress(index))
    tables = {}
    for name, place in found["tables"].items():
        with pa.ipc.open_stream(content.slice(place)) as reader:
            tables[name] = reader.read_all()
    return Pack(tables, found["facts"])


def load_pack(storage: Storage, name: str) -> Pack:
    """All tables and facts of a file; `Damaged` names it if it is not as it was written."""
    try:
        with storage.open(name) as source:
            return read_pack(source)
    except ValueError as error:  # an empty file cannot be mapped, and is a ValueError as well
        raise Damaged(f"{name} is damaged: {error}") from None
