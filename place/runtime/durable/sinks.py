"""Where deltas are delivered to: each tick once, under names that make a second time harmless.

How far a sink has got is kept beside it. A tick that was delivered and not yet remembered is
delivered again under the same names and ids.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from place.model.schema import Sink
from place.model.time import DAY, format_timestamp
from place.runtime.durable.storage import Storage, digest
from place.runtime.durable.webhook import Address, Attempts, post_now

NOBODY = 1 << 62
"""The tick up to which all have got their deltas, where there is nobody to wait for."""
HOLD_TICKS, HOLD_BYTES = 100_000, 8 << 30
"""Deltas are kept for those who do not take them, so many ticks and so many bytes at most."""
REMEMBER = 100
"""How far they are is written down every so many ticks where nothing else has to be."""


class Target(Protocol):
    """Where a sink's deltas go."""

    wants_columns: bool
    """Should a changelog of one query have the columns of its rows, too?"""

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        """Deliver the deltas of a tick; a second time is as good as once."""


class ParquetTarget:
    """A directory of Parquet files by the day of the instant; one file a tick and day.

    `label` tells files of several sinks in one directory apart.
    """

    wants_columns = True

    def __init__(self, path: str, label: str) -> None:
        self._label = label
        self._storage = Storage(path if "://" in path else str(Path(path).absolute()))

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        days = pc.cast(changelog["instant"], pa.int64()).to_numpy() // DAY
        for day in np.unique(days).tolist():
            some = changelog.filter(pa.array(days == day))
            date = format_timestamp(day * DAY).partition(" ")[0]
            name = f"day={date}/{tick:012d}-{self._label}.parquet"
            out = pa.BufferOutputStream()
            pq.write_table(some, out)
            self._storage.replace(name, out.getvalue().to_pybytes())


class WebhookTarget:
    """An address that gets each tick as a POST of JSON lines, one delta each with its id."""

    wants_columns = False

    def __init__(self, address: Address) -> None:
        self._address = address

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        lines = []
        for row in changelog.to_pylist():
            row["instant"] = row["instant"].isoformat()
            row["row"] = json.loads(row["row"])
            lines.append(json.dumps(row))
        body = ("\n".join(lines) + "\n").encode("utf-8")
        headers = {"Content-Type": "application/x-ndjson", "X-Place-Tick": str(tick)}
        post_now(self._address, body, headers)


@dataclass
class Delivery:
    """One sink: where it goes, and the last tick that it has got."""

    sink: Sink
    target: Target
    tick: int
    attempts: Attempts = field(default_factory=Attempts)
    thread: threading.Thread | None = None
    """Delivers, while there is something to deliver."""
    is_slow: bool = False
    """Did it take so long the last time that no tick should wait for it?"""


def progress_file(sink: Sink, since: int) -> str:
    """The file that remembers how far a sink is."""
    return f"sinks/{digest(sink.name.casefold())}-{since}.json"


def read_progress(storage: Storage, name: str) -> int | None:
    """The last tick that a sink has got, if it has got any."""
    if not storage.exists(name):
        return None
    return int(json.loads(storage.read(name))["tick"])


def write_progress(storage: Storage, name: str, tick: int) -> None:
    storage.replace(name, json.dumps({"tick": tick}).encode("utf-8"))
