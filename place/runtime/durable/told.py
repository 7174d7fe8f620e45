"""Files of readings: segments and advances in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from place.engine.slices import Cut, Segment, Told
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
            about: dict[str, Any] = {"stream": item.stream, "table": str(number), "part": item.part}
            tables[str(number)] = item.table
            if item.cut is not None:
                tables[str(number)] = _with_places(item.table, item.cut)
                ordered = item.cut.before is None
                about["cut"] = [item.cut.count, item.cut.latest, ordered]
            order.append(about)
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
            table, cut = tables[item["table"]], None
            if "cut" in item:
                table, cut = _without_places(table, *item["cut"])
            told.append(Segment(item["stream"], table, item["part"], cut))
        else:
            told.append(Advance(item["advance"], item["stream"]))
    return told


def _with_places(table: pa.Table, cut: Cut) -> pa.Table:
    """The readings of a slice with what is known of each place in the whole segment."""
    table = table.append_column("place", pa.array(cut.places, pa.int32()))
    return table if cut.before is None else table.append_column("before", pa.array(cut.before))


def _without_places(
    table: pa.Table, count: int, latest: int, ordered: bool
) -> tuple[pa.Table, Cut]:
    width = table.num_columns - (1 if ordered else 2)
    before = None if ordered else table.column(width + 1).to_numpy()
    places = table.column(width).to_numpy().astype(np.int64)
    return table.select(list(range(width))), Cut(count, latest, places, before)
