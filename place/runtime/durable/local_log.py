"""The log of a home without Spark: what came, tick by tick, since the states that were saved last.

Each tick is a numbered file with its readings and the version of the catalog that it was taken
with. Now and then the states of all cells are saved beside the ticks, and the files before them are
removed: whoever opens the home begins with the states and takes the ticks since.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from place.engine.checkpoint import Checkpoint, save_worker
from place.engine.slices import Told
from place.engine.worker import Worker
from place.errors import ConfigurationError
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.saving import Background, Pacing, detached, usual_pace
from place.runtime.durable.storage import Damaged, Storage
from place.runtime.durable.told import told_in, write_told

DIRECTORY, STATES = "log", "state"
BEGINNING = "log/beginning.json"
FORMAT = 1


@dataclass(frozen=True)
class Beginning:
    """What the log goes on from: the states of cells after a tick, as of a version of the catalog.

    `reasons` tell why a reading of a stream was set aside last.
    """

    tick: int = 0
    catalog: int = 0
    cells: str = ""
    states: Sequence[str] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT


class LoggedTick(NamedTuple):
    """What a tick took in, with which version of the catalog, and how far streams were before."""

    tick: int
    catalog: int
    told: list[Told]
    clocks: Mapping[str, int | None] = {}


class LocalLog:
    """The log in a home directory. `cells` names the matrix, which stays what it was."""

    def __init__(self, home: Path, cells: str) -> None:
        self._storage = Storage(str(home.absolute()))
        self._cells = cells
        self._background = Background(f"the home {home}")
        self._pacing = Pacing(usual_pace())
        self.beginning = self._saved = self._read()
        self._tick = self.beginning.tick

    archived: Callable[[], int | None] = staticmethod(lambda: None)
    """The last tick that the repository has; later ones are kept for it. None if it needs none."""

    retired: Callable[[], Sequence[str]] = staticmethod(lambda: ())
    """Files that the states before needed, and the next one does not; each is told once."""

    def _read(self) -> Beginning:
        if not self._storage.exists(BEGINNING):
            return Beginning(cells=self._cells)
        try:
            found: dict[str, Any] = json.loads(self._storage.read(BEGINNING))
        except ValueError as error:
            raise Damaged(f"{BEGINNING} is damaged: {error}") from None
        if found.get("format") != FORMAT:
            raise ConfigurationError(
                f"{BEGINNING} has format {found.get('format')}, this version of PLACE reads"
                f" {FORMAT}"
            )
        if found["cells"] != self._cells:
            raise ConfigurationError(
                f"the home was made with cells {found['cells']}, not {self._cells}",
                hint=f"open it with cells={found['cells']!r}",
            )
        return Beginning(**found)

    def states(self) -> list[Checkpoint]:
        """The saved states of the cells, in the order of the matrix; none if none were saved."""
        return [load_pack(self._storage, file).tables for file in self.beginning.states]

    def since(self) -> Iterator[LoggedTick]:
        """The ticks since these states, in their order."""
        for logged in self.after(self.beginning.tick):
            self._tick = logged.tick
            yield logged

    def after(self, tick: int) -> Iterator[LoggedTick]:
        """The ticks that are kept after one, in their order."""
        for name in self._storage.names(DIRECTORY):
            stem, _, kind = name.partition(".")
            if kind == "arrow" and int(stem) > tick:
                pack = load_pack(self._storage, f"{DIRECTORY}/{name}")
                clocks = pack.facts.get("clocks", {})
                yield LoggedTick(int(stem), pack.facts["catalog"], told_in(pack), clocks)

    @property
    def tick(self) -> int:
        """The last tick."""
        return self._tick

    @property
    def newest(self) -> int:
        """The last tick that is kept, also before those of before were taken."""
        stems = (name.partition(".") for name in self._storage.names(DIRECTORY))
        kept = [int(stem) for stem, _, kind in stems if kind == "arrow"]
        return max([self._tick, *kept])

    def append(
        self, catalog: int, told: Sequence[Told], clocks: Mapping[str, int | None] | None = None
    ) -> None:
        """A tick, durable when this returns; `clocks` tell how far streams are before it."""
        name = f"{DIRECTORY}/{self._tick + 1:012d}.arrow"
        facts = {"catalog": catalog, "clocks": clocks or {}}
        self._storage.replace(name, partial(write_told, told=told, facts=facts))
        self._tick += 1

    def count(self, told: Sequence[Told], seconds: float) -> None:
        """A tick was run, in so many seconds."""
        self._pacing.count(told, seconds)

    def tend(self, workers: Sequence[Worker], reasons: Mapping[str, str]) -> None:
        """Save the states of cells if it is time."""
        if self._pacing.is_due and not self._background.is_busy:
            self.save(workers, reasons)

    def save(self, workers: Sequence[Worker], reasons: Mapping[str, str]) -> None:
        """Take the states of cells, and write them while these go on."""
        began = time.perf_counter()
        states = [detached(save_worker(worker)) for worker in workers]
        names = [
            f"{STATES}/{worker.place.row}-{worker.place.column}/{self._tick:012d}.arrow"
            for worker in workers
        ]
        catalog = workers[0].catalog.version
        beginning = Beginning(self._tick, catalog, self._cells, names, dict(reasons))
        self._pacing.taken(time.perf_counter() - began)
        retired = self.retired()
        self._background.begin(lambda: self._write(beginning, states, retired))

    def _write(
        self, beginning: Beginning, states: Sequence[Checkpoint], retired: Sequence[str]
    ) -> None:
        size = 0
        for name, state in zip(beginning.states, states, strict=True):
            size += self._storage.write(name, partial(write_tables, tables=state))
        self._storage.replace(BEGINNING, json.dumps(asdict(beginning)).encode("utf-8"))
        self._pacing.state = size
        self._saved = beginning
        self._sweep(beginning)
        for name in retired:
            self._storage.remove(name)

    def sweep(self) -> None:
        """Remove what nobody needs of what an earlier process has left."""
        self._sweep(self._saved)

    def _sweep(self, beginning: Beginning) -> None:
        """Remove what the states have made superfluous, and what a killed process has left."""
        archived = self.archived()
        passed = beginning.tick if archived is None else min(archived, beginning.tick)
        for name in self._storage.names(DIRECTORY):
            stem, _, kind = name.lstrip(".").partition(".")
            is_passed = kind == "arrow" and int(stem) <= passed
            if is_passed or (kind.endswith(".tmp") and int(stem) <= self._tick):
                self._storage.remove(f"{DIRECTORY}/{name}")
        for name, _ in list(self._storage.list(STATES)):
            if name not in beginning.states:
                self._storage.remove(name)

    def close(self) -> None:
        """Finish what is being saved."""
        self._background.settle()
