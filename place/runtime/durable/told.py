"""Files of readings: segments and advances in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from place.engine.slices import Segment, Told
from place.model.reading import Advance
from place.runtime.durable.pack import Pack, load_pack, write_tables
from place.runtime.durable.storage import Storage


def write_told(
    out: pa.NativeFile, told: Sequence[Told], facts: Mapping[str, Any] | None = None
) -> None:
    """Write segments and advances in their order, and facts about them."""
    tables: dict[str, pa.Table] = {}
    order: list[dict[str, Any]] = []
    for number, item in enumerate(told):
        if isinstance(item, Segment):
            tables[str(number)] = item.table
            order.append({"stream": item.stream, "table": str(number), "part": item.part})
        else:
            order.append({"stream": item.stream, "advance": item.time})
    write_tables(out, tables, {**(facts or {}), "told": order})


def packed_told(told: Sequence[Told]) -> bytes:
    """Segments and advances as the content of a file."""
    out = pa.BufferOutputStream()
    write_told(out, told)
    content: bytes = out.getvalue().to_pybytes()
    return content


def read_told(storage: Storage, name: str) -> list[Told]:
    """The segments and advances of a file, in their order."""
    return told_in(load_pack(storage, name))


def told_in(pack: Pack) -> list[Told]:
    """The segments and advances of a file that is read."""
    tables, facts = pack
    told: list[Told] = []
    for item in facts["told"]:
        if "table" in item:
            told.append(Segment(item["stream"], tables[item["table"]], item["part"]))
        else:
            told.append(Advance(item["advance"], item["stream"]))
    return told
