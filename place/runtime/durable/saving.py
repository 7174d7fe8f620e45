"""When states are saved, and how: beside the ticks, which go on meanwhile.

A saved state spares whoever begins anew the ticks before it. It is saved whole, when what came
since the last one has grown to its size or would take seconds to be run again: so all states
together are about as large as all readings, and nobody is away for long.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from place.engine.checkpoint import Checkpoint, save_worker
from place.engine.slices import Segment, Told
from place.engine.worker import Worker
from place.runtime.durable.crash import OFTEN, point
from place.runtime.durable.manifest import Saved
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Damaged, Storage

LOG = logging.getLogger("place.saving")


@dataclass(frozen=True)
class Pace:
    """How much may come before a state is saved again: ticks, seconds of work, and bytes of
    readings (or as many as the state has, if these are more)."""

    ticks: int = 1_000
    seconds: float = 3.0
    size: int = 16 << 20
    share: float = 0.1
    """The part of all work that may be taking states out of memory."""


def usual_pace() -> Pace:
    """The pace of every day; tests that end processes save a state in each tick."""
    return Pace(ticks=1, share=1e9) if os.environ.get(OFTEN) else Pace()


@dataclass
class Pacing:
    """What came since a state was taken, and what the last one cost."""

    pace: Pace
    ticks: int = 0
    seconds: float = 0.0
    size: int = 0
    state: int = 0
    """The bytes of the last state."""
    cost: float = 0.0
    """The seconds that it took to take the last state."""

    def count(self, told: Sequence[Told], seconds: float) -> None:
        """A tick was run."""
        self.ticks += 1
        self.seconds += seconds
        self.size += sum(each.table.nbytes for each in told if isinstance(each, Segment))

    @property
    def is_due(self) -> bool:
        """Should a state be taken now?"""
        if self.seconds * self.pace.share < self.cost:
            return False
        return (
            self.ticks >= self.pace.ticks
            or self.seconds >= self.pace.seconds
            or self.size >= max(self.pace.size, self.state)
        )

    def taken(self, cost: float) -> None:
        """A state is taken; from now on counts what comes after it."""
        self.ticks, self.seconds, self.size, self.cost = 0, 0.0, 0, cost


@dataclass
class Background:
    """Work that goes on beside the ticks, one piece at a time."""

    name: str
    _thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], object]) -> None:
        """Do something now; if it fails, that is told, and tried again another time."""

        def run() -> None:
            try:
                work()
            except Exception:
                LOG.warning("the state of %s cannot be saved", self.name, exc_info=True)

        self._thread = threading.Thread(target=run, name=f"place-saving-{self.name}", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Wait until it is done."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


@dataclass
class Saving:
    """The states of one cell."""

    storage: Storage
    cell: str
    pace: Pace
    driver: int = 0
    """The process to end at the points that tests name."""
    pacing: Pacing = field(init=False)
    _background: Background = field(init=False)
    _written: Saved | None = None

    def __post_init__(self) -> None:
        self.pacing = Pacing(self.pace)
        self._background = Background(f"cell {self.cell}")

    def begin(self, size: int) -> None:
        """The cell begins with a state of some size, or with none; whatever was being saved before
        is of a past that may not count."""
        self.settle()
        self.pacing, self._written = Pacing(self.pace, state=size), None

    @property
    def is_due(self) -> bool:
        """Should the state be taken now? Not before the last one is written, and known."""
        is_free = self._written is None and not self._background.is_busy
        return is_free and self.pacing.is_due

    def take(self, worker: Worker, token: str) -> None:
        """Take the state of a worker after a tick, and write it while the worker goes on."""
        began = time.perf_counter()
        state, catalog = detached(save_worker(worker)), worker.catalog.version
        self.pacing.taken(time.perf_counter() - began)
        self._background.begin(lambda: self._write(state, token, catalog))

    def _write(self, state: Checkpoint, token: str, catalog: int) -> None:
        tick = int(token.partition("-")[0])
        file = f"state/{self.cell}/{token}-{os.getpid():x}.arrow"
        point("state", tick, self.driver)
        size = self.storage.write(file, lambda out: write_tables(out, state))
        point("saved", tick, self.driver)
        self.pacing.state, self._written = size, Saved(file, tick, catalog, size)

    def finished(self) -> Saved | None:
        """A state that was written since this was asked last."""
        found, self._written = self._written, None
        return found

    def settle(self) -> None:
        """Wait until nothing is being written."""
        self._background.settle()


def first_whole(storage: Storage, saved: Sequence[Saved]) -> tuple[Saved | None, Checkpoint]:
    """The first of some states of a cell that is as it was written, and what is in it; None if
    there are no states. If none of them is, the error says so of the first."""
    damage: Damaged | None = None
    for each in saved:
        try:
            return each, load_pack(storage, each.file).tables
        except FileNotFoundError:
            found = Damaged(f"{each.file} is missing, and is needed to go on")
        except Damaged as error:
            found = error
        damage = damage or found
        LOG.warning("%s; the state before it is taken, if there is one", found.message)
    if damage is not None:
        raise damage
    return None, {}


def detached(state: Mapping[str, pa.Table]) -> Checkpoint:
    """Tables of their own: those of a worker show what is in its memory."""
    made: Checkpoint = {}
    for name, table in state.items():
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        made[name] = pa.ipc.open_stream(out.getvalue()).read_all()
    return made
