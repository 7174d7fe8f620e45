"""What a session asks of a runtime, and what a server asks of one whose ticks last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from place.engine.slices import Segment, Told
from place.errors import ConfigurationError
from place.model.delta import Answer, Delta
from place.model.reading import Input, Key
from place.model.schema import Stream
from place.model.types import Row
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.logical import Plan
from place.plan.past import Question
from place.plan.query import Query
from place.runtime.archive import Archive
from place.runtime.durable.deltas import Deltas
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.positions import Positions
from place.runtime.intake.check import Rejected


class TooManyRows(Exception):
    """An answer has more rows than were asked for: so many."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


Fed = Input | Segment
"""Readings, one by one or by columns, and word of how far streams are."""
Listener = Callable[[Sequence[Delta]], object]
OnCommit = Callable[[Manifest], object]


def check_rows(rows: int, most: int | None) -> None:
    """Raise if there are too many, before they are made."""
    if most is not None and rows > most:
        raise TooManyRows(rows)


@dataclass(frozen=True)
class Recalled:
    """What a question about the past is answered with, and what had to be read for it; of
    trajectories also the object of each row."""

    rows: list[Row]
    reads: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()


class Runtime(Protocol):
    """Keeps every answer right, and says what changed."""

    name: str
    catalog: Catalog
    archive: Archive
    """The past of its streams: the one place where a runtime says which archive it has."""
    listener: Listener | None
    """Gets the deltas of ticks that no call waits for."""

    def pause(self) -> AbstractContextManager[None]:
        """Hold up ticks, so that a caller can read an answer and then get exactly the deltas that
        follow it."""

    def change(self, catalog: Catalog) -> Sequence[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""

    def feed(self, inputs: Sequence[Fed]) -> Sequence[Delta]:
        """One tick: readings and advances in the source's order; the deltas that follow."""

    def answer(self, query: str) -> Answer:
        """The answer of a registered query as its deltas have built it up."""

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""

    def ask(self, query: Query, most: int | None = None) -> Answer:
        """The answer of any query now; a TooManyRows instead of more than `most` rows."""

    def recall(self, question: Question, most: int | None = None) -> Recalled:
        """What a question about the past is answered with, whose range the archive has; a
        TooManyRows instead of more than `most` rows."""

    def plan(self, query: Query) -> Plan:
        """How a query is answered, or would be."""

    def analyze(self, query: Query) -> Observed:
        """What passed through the plan of a registered query since it began; of any other, now."""

    def statistics(self, stream: str) -> dict[str, int]:
        """Counts of a stream: objects, those of them on the disk, readings, late."""

    def reason(self, stream: str) -> str | None:
        """Why a reading of a stream was set aside last; None if none was."""

    def close(self) -> None:
        """Stop; what was durable stays."""


class SourcesOfRuntime(Protocol):
    """The sources of a runtime's streams."""

    def start(self) -> None:
        """Read all sources from now on, as data comes."""

    def drain(self) -> None:
        """Read all that the sources have now, and return when it is done."""

    def stop(self) -> None:
        """Stop reading; a tick that has begun is finished first."""


class Holding(Protocol):
    """Who has got which deltas, and for whom they are kept."""

    others: Callable[[], int]
    """The last tick that all have got who are no sinks, and for whom deltas are kept."""

    def may_hold(self, tick: int) -> bool:
        """Are deltas after a tick still kept for somebody else who does not take them?"""

    def hold(self, tick: int) -> None:
        """Remember the last tick that others have got, for whoever opens this home next."""

    def failures(self) -> dict[str, str]:
        """What keeps sinks from getting their deltas."""


@runtime_checkable
class DurableRuntime(Runtime, Protocol):
    """A runtime whose ticks last and have numbers: what a server and an operator need of one."""

    files_per_tick: int

    @property
    def last(self) -> Manifest | None:
        """The last tick."""

    @property
    def deltas(self) -> Deltas:
        """Reads the deltas that are kept."""

    @property
    def sources(self) -> SourcesOfRuntime:
        """The sources of its streams."""

    @property
    def deliveries(self) -> Holding:
        """Who has got which deltas."""

    def watch(self, listener: OnCommit) -> None:
        """Tell somebody of each tick from now on, in the thread that has run it."""

    def unwatch(self, listener: OnCommit) -> None:
        """Tell somebody no more."""

    def idle(self) -> AbstractContextManager[bool]:
        """True if no tick is under way and none is waited for; then none begins meanwhile."""

    def tend(self) -> None:
        """What has to be done now and then: try sinks again that have failed, take readings up
        that were put back. Raises what has ended a source."""

    def answers(self, queries: Sequence[str]) -> tuple[int, dict[str, Answer]]:
        """The answers of registered queries as of one tick, and that tick."""

    def positions(self, stream: str) -> Positions:
        """Where the objects of a stream are as of the last tick."""

    def accept(self, stream: Stream, table: pa.Table) -> int:
        """Checked readings, durable when this returns, for the next tick; their number."""

    def accept_until(self, stream: Stream | None, told: Sequence[Told]) -> None:
        """Readings and advances, durable when this returns, in this order; of one stream, if there
        is still that one, or of all."""

    def waiting(self) -> tuple[int, int]:
        """The accepted readings, and their bytes, that no tick has taken yet."""

    def waiting_seconds(self) -> float:
        """How long it will be until they are taken, by what the last ticks took."""

    def set_aside(self) -> list[str]:
        """The files of accepted readings of which no tick could be made."""

    def past_faults(self) -> dict[str, str]:
        """Why the past of streams cannot be read or written, by their names."""

    def pump(self) -> Manifest | None:
        """One tick of what was accepted; None if nothing waits."""

    def take_singly(self) -> None:
        """Make ticks of files that make none together: one that is bad must not stop the rest."""

    def advance(self, times: Mapping[str, int]) -> Manifest:
        """Streams have reached these times, by the clock on the wall."""

    def read_files(self, stream: str, files: Sequence[tuple[str, int | None]]) -> Manifest:
        """A tick of files, in their order, with the times of arrival of those without a time."""

    def finish(self, stream: str) -> Manifest | None:
        """A recording is over: all that its stream has told so far is complete."""

    def quarantined(self, manifest: Manifest) -> list[Rejected]:
        """The rows that a tick has set aside, with the reasons."""


def durable(runtime: Runtime) -> DurableRuntime:
    """A runtime as one whose ticks last, or an error."""
    if not isinstance(runtime, DurableRuntime):
        raise ConfigurationError(
            f"the runtime {runtime.name} keeps no ticks",
            hint="connect with a master: place.connect(home, master='local[*]')",
        )
    return runtime


def tick_of(runtime: DurableRuntime) -> int:
    """The number of the last tick; 0 before the first."""
    return runtime.last.tick if runtime.last is not None else 0
