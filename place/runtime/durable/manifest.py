"""Manifests: a tick is committed when its manifest is there.

A manifest names all that the tick read and wrote. It appears all at once and only if there is none
of its number, so whatever a killed process has left behind either belongs to a manifest or to
nobody. It has a checksum, and the files that it names have checksums of their own. What is small
is not in files of its own but in front of the manifest, so that a small tick is one file that is
synced once.

Manifests are a log, too: whoever has the saved state of a cell, and takes the inputs of all ticks
since, has its state as of the last one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from place.errors import ConfigurationError
from place.runtime.durable.state_figures import FIGURES, Counts, Named, named
from place.runtime.durable.storage import Damaged, Storage, TakenOver, part_of

FORMAT = 4
EARLIER, EARLIEST = 3, 2
"""Formats before this one that can be read, too. In the one before, no segment was cut into slices;
in the one before that, each tick had saved the states."""
DIRECTORY = "manifest"
_BEGIN, _MIDDLE, _END = b'{"crc32":"', b'","manifest":', b"}"
_HEAD = len(_BEGIN) + 8 + len(_MIDDLE)
DELTAS, INPUTS = b"PLACE DELTAS\n", b"PLACE INPUTS\n"
"""How a file begins in which something stands in front of the manifest: deltas, or only inputs."""
_ALIGNED = 64
_LENGTH = 12
"""The digits of the manifest's length, at the end of such a file."""


@dataclass(frozen=True)
class Saved:
    """The state of a cell in a file: the tick, and the version of the catalog, that it is of."""

    file: str
    tick: int
    catalog: int
    size: int = 0


@dataclass(frozen=True)
class Posted:
    """A file of deltas."""

    file: str
    deltas: int
    size: int


@dataclass(frozen=True)
class Mark:
    """How far a source has been read: the query that reads it, and the last batch of which all was
    taken; and the epoch whose copy of Spark's checkpoint has that batch, if there are copies.

    `taken` are the files of the batch after it that were taken already, in their order: a large
    batch is several ticks.
    """

    query: str
    batch: int
    epoch: int = 0
    taken: int = 0


@dataclass(frozen=True)
class Manifest:
    """What one tick did.

    `home` is the id of the home that it belongs to, `attempt` tells it from attempts at the same
    tick that failed, `cells` is the matrix, and `states` are the states of cells that were saved
    last, of this tick or an earlier one; `older` are those before them, for the case that one of
    them is damaged. `ingest` is the last of the pushed readings, `inputs` what
    was read: all that is needed to run the tick again. `clocks` are the
    last complete instants of the streams, `instants` those that sets of streams have reached
    together, `totals` the counts of each stream since the beginning, and `reasons` why a reading of
    it was set aside last. `triggers` are the counts of each trigger since it began, in the order of
    `TRIGGER_FIGURES`; of very many triggers those of the first. `joins` are those of each join, in
    the order of `JOIN_FIGURES`. The deltas of ticks before `kept_from` are not kept. Where the
    storage is not the home directory, `epoch` is that of the lease under which it was committed,
    and `statements` the last entry of the log of statements. `archived` is the last tick that the
    repository has; None if no stream is archived.
    """

    tick: int
    home: str
    catalog: int
    cells: str
    states: Mapping[str, Saved]
    attempt: str = ""
    outbox: tuple[Posted, ...] = ()
    quarantine: tuple[str, ...] = ()
    sources: Mapping[str, Mark] = field(default_factory=dict)
    ingest: int = 0
    inputs: tuple[Mapping[str, Any], ...] = ()
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    instants: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    triggers: Counts = field(default_factory=dict)
    joins: Counts = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    written: float = 0.0
    kept_from: int = 1
    older: Mapping[str, Saved] = field(default_factory=dict)
    epoch: int = 0
    statements: str = ""
    archived: int | None = None
    format: int = FORMAT

    @property
    def token(self) -> str:
        """What the state after this tick is called in the memory of a cell."""
        return token_of(self.tick, self.attempt)

    @property
    def replayed_from(self) -> int:
        """The first tick that some cell has to take again if it begins with its older state, or
        that the repository has yet to archive."""
        rows, columns = map(int, self.cells.split("x"))
        if len(self.states) < rows * columns:
            return 1
        passed = min(saved.tick for saved in self.saved)
        return 1 + (passed if self.archived is None else min(passed, self.archived))

    @property
    def saved(self) -> list[Saved]:
        """All states that are kept."""
        return [*self.states.values(), *self.older.values()]

    @property
    def deltas(self) -> int:
        return sum(posted.deltas for posted in self.outbox)

    @property
    def files(self) -> list[str]:
        """The files of the outbox, in the order of positions."""
        return [posted.file for posted in self.outbox]


def reasons_since(
    before: Manifest | None, new: Mapping[str, str], totals: Mapping[str, Mapping[str, int]]
) -> dict[str, str]:
    """Why readings were set aside last, of the streams of which any were."""
    known = {**(before.reasons if before is not None else {}), **new}
    return {
        name: known[name]
        for name, counts in totals.items()
        if name in known and counts["late"] + counts["bad"]
    }


def counts_of(manifest: Manifest | None) -> dict[str, Named]:
    """What is counted of triggers and of joins, as `FIGURES` calls them."""
    known: dict[str, Counts] = {}
    if manifest is not None:
        known = {"trigger": manifest.triggers, "join": manifest.joins}
    return {label: named(figures, known.get(label, {})) for label, figures in FIGURES.items()}


def token_of(tick: int, attempt: str) -> str:
    """The name of an attempt at a tick; names are in the order of ticks."""
    return f"{tick:012d}-{attempt}"


def name_of(tick: int) -> str:
    """The name of a tick's manifest; names are in the order of ticks."""
    return f"{DIRECTORY}/{tick:012d}.json"


class Enclosed:
    """What stands in front of a manifest: packs of deltas, then of inputs."""

    def __init__(self, tick: int) -> None:
        self._name = name_of(tick)
        self._content = bytearray()

    def add(self, pack: bytes, mark: bytes) -> str:
        """Enclose a pack; the name by which it can be opened."""
        if not self._content:
            self._content += mark
        self._content += b"\0" * (-len(self._content) % _ALIGNED)
        first = len(self._content)
        self._content += pack
        return part_of(self._name, first, len(pack))

    def before(self, manifest: bytes) -> bytes:
        """The whole file."""
        if not self._content:
            return manifest
        return bytes(self._content) + manifest + b"\n%0*d" % (_LENGTH, len(manifest))


def publish(storage: Storage, manifest: Manifest, enclosed: Enclosed | None = None) -> None:
    """Commit a tick; TakenOver if somebody else has committed one of its number."""
    if not try_publish(storage, manifest, enclosed):
        raise TakenOver(
            f"tick {manifest.tick} was committed by someone else: another process has taken over"
            " this home"
        )


def try_publish(storage: Storage, manifest: Manifest, enclosed: Enclosed | None = None) -> bool:
    """Commit a tick, unless there is one of its number."""
    body = json.dumps(asdict(manifest), separators=(",", ":")).encode("utf-8")
    content = _BEGIN + f"{zlib.crc32(body):08x}".encode() + _MIDDLE + body + _END
    if enclosed is not None:
        content = enclosed.before(content)
    return storage.publish(name_of(manifest.tick), content)


def ticks(storage: Storage) -> list[int]:
    """The ticks whose manifests are kept, in order."""
    found = []
    for name in storage.names(DIRECTORY):
        stem, _, kind = name.partition(".")
        if kind == "json" and stem.isdecimal():
            found.append(int(stem))
    return found


def load(storage: Storage, tick: int) -> Manifest:
    """The manifest of a tick; `Damaged` if it is not as it was written."""
    name = name_of(tick)
    found = _checked(name, storage.read(name))
    form = found.get("format")
    if form not in (FORMAT, EARLIER, EARLIEST):
        raise _of_another_version(name, form)
    states = found["states"]
    if form == EARLIEST:
        about = {"tick": tick, "catalog": found["catalog"]}
        states = {c: {"file": s["file"], "size": s["size"], **about} for c, s in states.items()}
    return Manifest(
        **{
            **found,
            "format": FORMAT,
            "states": {cell: Saved(**saved) for cell, saved in states.items()},
            "older": {c: Saved(**saved) for c, saved in found.get("older", {}).items()},
            "outbox": tuple(Posted(**posted) for posted in found["outbox"]),
            "quarantine": tuple(found["quarantine"]),
            "sources": {name: Mark(**mark) for name, mark in found["sources"].items()},
            "inputs": tuple(found["inputs"]),
        }
    )


def encloses_deltas(storage: Storage, tick: int) -> int:
    """The bytes of a manifest that stands behind deltas; 0 if there are none in front of it."""
    first, size = storage.head(name_of(tick), len(DELTAS))
    return size if first == DELTAS else 0


def _checked(name: str, content: bytes) -> dict[str, Any]:
    if content.startswith((DELTAS, INPUTS)):
        digits = content[-_LENGTH:]
        length = int(digits) if digits.isdigit() else 0
        content = content[-length - _LENGTH - 1 : -_LENGTH - 1] if length else b""
    if content.startswith(b'{"tick":'):  # as they were before they had checksums
        raise _of_another_version(name, 1)
    body = content[_HEAD : -len(_END)]
    expected = _BEGIN + f"{zlib.crc32(body):08x}".encode() + _MIDDLE
    if content[:_HEAD] != expected or not content.endswith(_END):
        raise Damaged(f"{name} is damaged: it was cut short, or its checksum is wrong")
    found: dict[str, Any] = json.loads(body)
    return found


def _of_another_version(name: str, form: object) -> ConfigurationError:
    return ConfigurationError(
        f"{name} has format {form}, this version of PLACE reads {FORMAT}",
        hint="go on with the version that made this home, or bring the readings into a new one",
    )
