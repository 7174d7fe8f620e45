"""Where deltas are delivered to: each tick once, under names that make a second time harmless.

How far a sink has got is kept beside it. A tick that was delivered and not yet remembered is
delivered again under the same names and ids.
"""

from __future__ import annotations

import hmac
import json
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from place.model.schema import Sink
from place.model.time import DAY, format_timestamp
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.outbox import Piece, read_outbox, rows_as_json
from place.runtime.durable.storage import Storage, digest

CHANGELOG = pa.schema(
    [
        ("query", pa.string()),
        ("sign", pa.int8()),
        ("row", pa.string()),
        ("instant", pa.timestamp("us", "UTC")),
        ("tick", pa.int64()),
        ("position", pa.int64()),
    ]
)
"""A delta as others read it: `row` is a JSON array, (tick, position) the id."""


NOBODY = 1 << 62
"""The tick that all have got where there is nobody to wait for."""
HOLD_TICKS, HOLD_BYTES = 100_000, 8 << 30
"""Deltas are kept for those who do not take them, so many ticks and so many bytes at most."""
REMEMBER = 100
"""How far they are is written down every so many ticks where nothing else has to be."""

WEBHOOK_PATIENCE = 10.0
"""Seconds for an address to answer."""


class Target(Protocol):
    """Where a sink's deltas go."""

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        """Deliver the deltas of a tick; a second time is as good as once."""


def changelog(storage: Storage, manifest: Manifest, names: set[str] | None) -> Iterator[pa.Table]:
    """The deltas of a tick, of some queries or of all, in the order of their positions."""
    pieces = (piece for file in manifest.files for piece in read_outbox(storage, file))
    return shown(pieces, manifest.tick, names)


def shown(pieces: Iterable[Piece], tick: int, names: set[str] | None = None) -> Iterator[pa.Table]:
    """Deltas as others read them."""
    start = 0
    for piece in pieces:
        count = piece.table.num_rows
        if names is None or names & set(piece.names):
            table = pa.table(
                [
                    piece.queries.dictionary_decode(),
                    piece.signs,
                    rows_as_json(piece),
                    piece.instants.cast(pa.timestamp("us", "UTC")),
                    pa.array(np.full(count, tick)),
                    pa.array(np.arange(start, start + count)),
                ],
                schema=CHANGELOG,
            )
            if names is not None and not names.issuperset(piece.names):
                table = table.filter(pc.is_in(table["query"], pa.array(sorted(names))))
            if table.num_rows:
                yield table
        start += count


class ParquetTarget:
    """A directory of Parquet files by the day of the instant; one file a tick and day.

    `label` tells files of several sinks in one directory apart.
    """

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
    """An address that gets each tick as a POST of JSON lines, one delta each with its id.

    With a secret the body is signed: `X-Place-Signature` is its HMAC-SHA256. Whatever does not
    answer with a success is sent the tick again, under the same ids.
    """

    def __init__(self, url: str, secret: str | None) -> None:
        self._url = url
        self._secret = secret

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        lines = []
        for row in changelog.to_pylist():
            row["instant"] = row["instant"].isoformat()
            row["row"] = json.loads(row["row"])
            lines.append(json.dumps(row))
        body = ("\n".join(lines) + "\n").encode("utf-8")
        headers = {"Content-Type": "application/x-ndjson", "X-Place-Tick": str(tick)}
        if self._secret is not None:
            signed = hmac.new(self._secret.encode("utf-8"), body, "sha256")
            headers["X-Place-Signature"] = signed.hexdigest()
        request = urllib.request.Request(self._url, body, headers, method="POST")
        # A redirect would turn the POST into a GET without a body, and look like a success.
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=WEBHOOK_PATIENCE) as response:
            response.read(1)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@dataclass
class Delivery:
    """One sink: where it goes, and the last tick that it has got."""

    sink: Sink
    target: Target
    tick: int
    failure: str | None = None


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
