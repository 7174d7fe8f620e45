"""What the driver asks of cells, and what they answer: names and numbers; the rest is in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from place.engine.exchange import Wants
from place.engine.slices import Keys
from place.model.types import Row
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable.manifest import Posted, Saved, token_of
from place.runtime.durable.state_figures import Counts
from place.runtime.spark.inputs import TickInput
from place.runtime.spark.tick_log import LoggedTick


@dataclass(frozen=True)
class Job:
    """What all cells have to know of a tick, or of a question. `at` is the token of the last tick
    (None before the first), `before` the version of its catalog, `after` that of now, and `clocks`
    are the last complete instants of streams then."""

    tick: int
    attempt: str
    before: int
    after: int
    at: str | None
    driver: int
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    seconds: float | None = None
    """How long queries that begin, or are asked, may take in a cell."""
    small: int = 0
    """The bytes of deltas that need no file of their own."""

    @property
    def token(self) -> str:
        """What the state after this tick is called in the memory of a cell."""
        return token_of(self.tick, self.attempt)


@dataclass(frozen=True)
class _OfJob:
    """A request about the state after the last tick."""

    job: Job

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the catalog that a cell has to know for it, and to keep."""
        return self.job.before, self.job.after


@dataclass(frozen=True)
class RunTick(_OfJob):
    """Run a tick."""

    inputs: Sequence[TickInput]


@dataclass(frozen=True)
class Prepare(_OfJob):
    """Tell what this cell wants to be told by those of other rows: to go over to the catalog of
    the job, or to ask queries."""

    queries: Sequence[Query] | None = None


@dataclass(frozen=True)
class Tell(_OfJob):
    """Write down what this cell knows of objects that others of its column begin to follow; the
    name of the file, None if it knows none of them."""

    wanted: Sequence[Mapping[str, Keys]]
    """The keys of each stream, for each column."""


@dataclass(frozen=True)
class Probe(_OfJob):
    """Tell this cell's parts of the answers of queries, of at most so many rows each. `moved` is
    what cells have told each other for them."""

    queries: Sequence[Query]
    most: int | None = None
    moved: Sequence[TickInput] = ()


@dataclass(frozen=True)
class Observe(_OfJob):
    """Tell what has passed through the plan of a query; one that is not registered is asked."""

    query: Query
    moved: Sequence[TickInput] = ()


@dataclass(frozen=True)
class Handed:
    """What a cell hands over to one that puts answers together: names of files."""

    deltas: str | None = None
    """Of deltas that have to be settled with those of other cells."""
    parts: str | None = None
    """Of parts of answers that several cells hold together."""

    @property
    def files(self) -> list[str]:
        """Their names."""
        return [file for file in (self.deltas, self.parts) if file is not None]


ByAnswerCell = Mapping[int, Handed]
"""What a cell hands over, by the number of the cell that puts it together."""


@dataclass(frozen=True)
class HandOver(_OfJob):
    """Hand over this cell's parts of whole answers, as of the last tick."""

    queries: Sequence[Query]
    moved: Sequence[TickInput] = ()


@dataclass(frozen=True)
class Settle(_OfJob):
    """Put together what cells have handed over, by the number of the cell that does so. `since` is
    what its answers are as of; None if what is handed over are whole answers, to begin with."""

    handed: Mapping[int, Sequence[Handed]]
    since: str | None


@dataclass(frozen=True)
class Reach(_OfJob):
    """Tell the instant at which a query over these streams would begin now."""

    streams: frozenset[str]


@dataclass(frozen=True)
class Locate(_OfJob):
    """Write down where the objects of a stream are; the name of the file."""

    stream: str


@dataclass(frozen=True)
class Restore:
    """Begin with the first of these states that is not damaged, and take the ticks since again, up
    to the one of this token. `ticks` are those since the last of the states."""

    at: str
    saved: Sequence[Saved]
    ticks: Sequence[LoggedTick]

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the catalog that a cell has to know for it, in their order."""
        first = (each.catalog for each in reversed(self.saved))
        return tuple(dict.fromkeys(sorted((*first, *(each.catalog for each in self.ticks)))))


Request = RunTick | Prepare | Tell | Probe | Observe | HandOver | Settle | Reach | Locate | Restore


class Behind:
    """The answer of a cell that does not have the state that a request is about."""


@dataclass(frozen=True)
class Answered:
    """What a cell has put together: its deltas, and the deltas themselves where they are small.
    `is_known` is False if it does not know the answers, and has done nothing."""

    is_known: bool = True
    outbox: Posted | None = None
    enclosed: bytes | None = None


@dataclass
class CellResult:
    """What a cell has done in a tick, in names and numbers."""

    cell: str
    saved: Saved | None = None
    """A state of an earlier tick that has been saved meanwhile."""
    taken: dict[int, str] = field(default_factory=dict)
    """The files that readings of inputs, by their places, were written to for the log."""
    outbox: Posted | None = None
    enclosed: bytes | None = None
    """The deltas themselves, where they are small: then the outbox has no file."""
    handed: ByAnswerCell = field(default_factory=dict)
    """What has to be put together with what other cells have found."""
    quarantine: tuple[str, ...] = ()
    readings: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a reading of a stream was set aside, where any was."""
    last_late: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where the last reading of a stream was that came too late: the input, the place in it."""
    objects: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    """How many of the objects are on the disk."""
    clocks: dict[str, int | None] = field(default_factory=dict)
    instants: dict[str, int] = field(default_factory=dict)
    triggers: Counts = field(default_factory=dict)
    joins: Counts = field(default_factory=dict)
    rows: int = 0
    read: int = 0
    """The bytes of readings that it has read."""
    times: dict[str, float] = field(default_factory=dict)
    is_out_of_time: bool = False
    """Queries that begin took too long, and nothing was done."""


Probed = tuple[list[Row], bytes | None, int]
"""A cell's part of an answer: rows, or a part as `write_parts` has it; and how many rows these are,
of which none are made if they are too many."""

Answer = (
    CellResult
    | Wants
    | list[Probed]
    | tuple[Observed, bytes | None]
    | ByAnswerCell
    | Answered
    | int
    | str
    | Behind
    | None
)
"""What a request is answered with; None if a question took too long."""
