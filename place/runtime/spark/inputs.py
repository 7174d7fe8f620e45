"""What a tick takes in: files, segments that are written already, advances, steps of generators.

The driver sends inputs to the cells by name; readings are in files. Segments and advances that are
in a file stand there in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from place.engine.worker import Segment, Told
from place.model.reading import Advance
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Storage


@dataclass(frozen=True)
class FileInput:
    """A file of a stream's source, still to be read and checked; `order` is its place, `latest` the
    latest time that its readings may have."""

    stream: str
    path: str
    order: int = 0
    arrival: int | None = None
    latest: int | None = None


@dataclass(frozen=True)
class PackInput:
    """Segments and advances that are in the storage already, with what was set aside of them."""

    file: str
    order: int = 0
    stream: str | None = None
    bad: int = 0
    quarantine: tuple[str, ...] = ()
    seconds: float = 0.0
    reason: str | None = None
    """Why a row was set aside, if any was."""


@dataclass(frozen=True)
class AdvanceInput:
    """A time that a stream has reached without a reading that tells it (all streams if None)."""

    time: int
    stream: str | None = None


@dataclass(frozen=True)
class StepsInput:
    """Steps of a stream's generator, still to be made: from the first up to before `after`."""

    stream: str
    first: int
    after: int


TickInput = FileInput | PackInput | AdvanceInput | StepsInput
RAW = FileInput | StepsInput
"""Inputs that are no segments yet."""


def in_order(inputs: Iterable[TickInput]) -> list[TickInput]:
    """Inputs in their order: files by when they came, then by name."""

    def order(item: TickInput) -> tuple[int, str]:
        if isinstance(item, FileInput):
            return item.order, item.path
        if isinstance(item, PackInput):
            return item.order, item.file
        return (item.first if isinstance(item, StepsInput) else 0), ""

    return sorted(inputs, key=order)


def write_told(out: pa.NativeFile, told: Sequence[Told]) -> None:
    """Write segments and advances in their order."""
    tables: dict[str, pa.Table] = {}
    order: list[dict[str, Any]] = []
    for number, item in enumerate(told):
        if isinstance(item, Segment):
            tables[str(number)] = item.table
            order.append({"stream": item.stream, "table": str(number), "part": item.part})
        else:
            order.append({"stream": item.stream, "advance": item.time})
    write_tables(out, tables, {"told": order})


def read_told(storage: Storage, name: str) -> list[Told]:
    """The segments and advances of a file, in their order."""
    tables, facts = load_pack(storage, name)
    told: list[Told] = []
    for item in facts["told"]:
        if "table" in item:
            told.append(Segment(item["stream"], tables[item["table"]], item["part"]))
        else:
            told.append(Advance(item["advance"], item["stream"]))
    return told
