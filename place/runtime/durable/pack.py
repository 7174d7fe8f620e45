"""Several Arrow tables in one file, so that a tick writes few files.

Each table is an Arrow IPC stream; after them come their names and places as JSON, the length of
that, and a mark. A file without the mark was not finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

MARK = b"PLACE\x01\n"


def write_tables(
    out: pa.NativeFile, tables: Mapping[str, pa.Table], facts: Mapping[str, Any] | None = None
) -> None:
    """Write tables by name, and facts about them that JSON can hold."""
    places: dict[str, int] = {}
    for name, table in tables.items():
        padding = -out.tell() % 64
        out.write(b"\0" * padding)
        places[name] = out.tell()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    index = json.dumps({"tables": places, "facts": facts or {}}).encode("utf-8")
    out.write(index)
    out.write(len(index).to_bytes(8, "little"))
    out.write(MARK)


def read_facts(source: pa.NativeFile) -> tuple[dict[str, int], dict[str, Any]]:
    """The names and places of the tables, and the facts."""
    size = source.size()
    tail = len(MARK) + 8
    source.seek(max(0, size - tail))
    end = source.read(tail)
    if size < tail or end[8:] != MARK:
        raise ValueError("the file was not finished")
    length = int.from_bytes(end[:8], "little")
    source.seek(size - tail - length)
    index = json.loads(source.read(length))
    return index["tables"], index["facts"]


def read_tables(source: pa.NativeFile) -> dict[str, pa.Table]:
    """All tables by name; of a memory map they are read where they are."""
    places, _ = read_facts(source)
    tables = {}
    for name, place in places.items():
        source.seek(place)
        with pa.ipc.open_stream(source) as reader:
            tables[name] = reader.read_all()
    return tables
