"""Manifests: a tick is committed when its manifest is there.

A manifest names all that the tick read and wrote. It appears all at once and only if there is none
of its number, so whatever a killed process has left behind either belongs to a manifest or to
nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from place.errors import ConfigurationError, InternalError
from place.runtime.durable.storage import Storage

FORMAT = 1
DIRECTORY = "manifest"


@dataclass(frozen=True)
class Saved:
    """The state of a cell: its file, and the name of that state in the memory of a worker."""

    file: str
    token: str
    size: int = 0


@dataclass(frozen=True)
class Posted:
    """A file of deltas."""

    file: str
    deltas: int
    size: int


@dataclass(frozen=True)
class Mark:
    """How far a source has been read: the query that reads it, and its last batch."""

    query: str
    batch: int


@dataclass(frozen=True)
class Manifest:
    """What one tick did.

    `home` is the id of the home that it belongs to, `cells` the matrix, `ingest` the last of the
    pushed readings, `inputs` what was read (with the advances of the wall clock). `clocks` are the
    last complete instants of the streams, `instants` those that sets of streams have reached
    together, and `totals` the counts of each stream since the beginning.
    """

    tick: int
    home: str
    catalog: int
    cells: str
    states: Mapping[str, Saved]
    outbox: tuple[Posted, ...] = ()
    quarantine: tuple[str, ...] = ()
    sources: Mapping[str, Mark] = field(default_factory=dict)
    ingest: int = 0
    inputs: tuple[Mapping[str, Any], ...] = ()
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    instants: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    written: float = 0.0
    format: int = FORMAT

    @property
    def deltas(self) -> int:
        return sum(posted.deltas for posted in self.outbox)

    @property
    def files(self) -> list[str]:
        """The files of the outbox, in the order of positions."""
        return [posted.file for posted in self.outbox]


def name_of(tick: int) -> str:
    """The name of a tick's manifest; names are in the order of ticks."""
    return f"{DIRECTORY}/{tick:012d}.json"


def publish(storage: Storage, manifest: Manifest) -> None:
    """Commit a tick."""
    content = json.dumps(asdict(manifest), separators=(",", ":")).encode("utf-8")
    if not storage.publish(name_of(manifest.tick), content):
        raise ConfigurationError(
            f"tick {manifest.tick} was committed by someone else",
            hint="only one process may run on a home directory",
        )


def ticks(storage: Storage) -> list[int]:
    """The ticks whose manifests are kept, in order."""
    found = []
    for name, _ in storage.list(DIRECTORY):
        stem, _, kind = name.rpartition("/")[2].partition(".")
        if kind == "json" and stem.isdecimal():
            found.append(int(stem))
    return found


def load(storage: Storage, tick: int) -> Manifest:
    """The manifest of a tick."""
    try:
        found = json.loads(storage.read(name_of(tick)))
    except ValueError as error:
        raise InternalError(f"{name_of(tick)} is broken: {error}") from None
    if found.get("format") != FORMAT:
        raise ConfigurationError(
            f"{name_of(tick)} has format {found.get('format')}, this PLACE reads {FORMAT}"
        )
    return Manifest(
        **{
            **found,
            "states": {cell: Saved(**saved) for cell, saved in found["states"].items()},
            "outbox": tuple(Posted(**posted) for posted in found["outbox"]),
            "quarantine": tuple(found["quarantine"]),
            "sources": {name: Mark(**mark) for name, mark in found["sources"].items()},
            "inputs": tuple(found["inputs"]),
        }
    )
