"""What the catalog holds: streams, tables, regions and sinks, as immutable definitions.

Names compare without regard to case and keep the case that they were declared in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from place.model.shape import Shape
from place.model.space import Space
from place.model.types import Type

R = TypeVar("R", bound="Relation")
LONGITUDES = ("x", "lon", "lng", "longitude")
LATITUDES = ("y", "lat", "latitude")
"""The names of the columns of a position; beside x and y only where they are degrees."""


@dataclass(frozen=True)
class Column:
    """A column; a hidden one is kept beside those of the statement, and no name finds it."""

    name: str
    type: Type
    hidden: bool = False


@dataclass(frozen=True)
class External:
    """Where a stream comes from or a sink goes: a kind with its options (`KAFKA (servers = …)`)."""

    kind: str
    options: tuple[tuple[str, str | float | bool], ...] = ()

    def option(self, name: str) -> str | float | bool | None:
        return dict(self.options).get(name)


@dataclass(frozen=True)
class Retention:
    """Memory holds only the objects near some query (GPAC's cache, section 3.3).

    How near follows from the way that an object can go until it reports again. None of that has to
    be known where the disk store has every reading.
    """

    cache: float = 1.0
    max_speed: float = 0.0
    report_every: int = 0

    @property
    def reach(self) -> float:
        """How far around a region objects are kept."""
        return self.cache * self.max_speed * self.report_every / 1_000_000


@dataclass(frozen=True)
class Storing:
    """What of the objects that memory lets go of the disk store has (PLACE, section 3.1).

    Of an object that memory does not hold, every `nth` reading goes to the disk; what waits for it
    is written every `flush` of event time.
    """

    nth: int = 1
    flush: int = 30_000_000


@dataclass(frozen=True)
class Archiving:
    """What of a stream the repository keeps (PLACE, section 3.1).

    Of each object every `nth` reading, or, with a `period`, the first reading in each period of
    event time. Every `snapshot` of event time all objects are written down as they are then, so
    that a question about the past need not read all that came before. What is older than `keep`
    is removed; None keeps everything.
    """

    nth: int = 1
    period: int | None = None
    snapshot: int = 3_600_000_000
    keep: int | None = None

    @property
    def is_complete(self) -> bool:
        """Is every reading kept, so that answers about the past are exact?"""
        return self.nth == 1 and self.period is None


@dataclass(frozen=True)
class Stream:
    """Moving objects, or moving regions: who sends readings, and what instants they make.

    Without a `key` there are no objects but only readings, which the engine numbers as they come.
    `evaluate` is the period of the instants; None is progressive, every timestamp an instant.
    """

    name: str
    columns: tuple[Column, ...]
    key: int | None
    time: int | None
    x: int | None
    y: int | None
    evaluate: int | None = None
    timeout: int | None = None
    lateness: int = 0
    space: Space = Space.PLANAR
    bounds: tuple[float, float, float, float] | None = None
    source: External | None = None
    retention: Retention | None = None
    """Which objects memory holds; None holds all of them."""
    storing: Storing | None = None
    """What the disk has of objects that memory lets go of; None has nothing of them."""
    history: int | None = None
    """How long readings are kept for windows that begin later, beside the last 10,000."""
    timestamps: str | None = None
    """What numbers and texts of TIMESTAMP columns are, where their form does not tell."""
    called: tuple[tuple[str, str], ...] = ()
    """How whoever sends readings calls some of the columns: pairs of a column and that name."""
    max_future: int | None = None
    """How far a reading's time may be ahead of the clock on the wall; None is up to the door."""

    archiving: Archiving | None = None
    """What is kept of the past; None keeps nothing."""

    fills_gaps: bool = False
    """Whether a column that a reading leaves out keeps the value that its object had before."""

    keeps_motion: bool = False
    """Whether each reading also tells where its object was before, and how long ago."""

    @property
    def waits(self) -> bool:
        """Do readings wait until all that came before them is known?"""
        return self.fills_gaps or self.keeps_motion

    @property
    def key_type(self) -> Type:
        """The type of keys; the numbers of readings where there are no objects."""
        return Type.BIGINT if self.key is None else self.columns[self.key].type

    def names_of(self, column: int) -> tuple[str, ...]:
        """The names by which a column is found where readings have names, the best one first.

        A position of degrees also goes by the names that longitude and latitude have, if no other
        column has them.
        """
        own = self.columns[column].name
        called = {name.casefold(): other for name, other in self.called}
        if own.casefold() in called:
            return (called[own.casefold()],)
        if self.space is not Space.WGS84 or column not in (self.x, self.y):
            return (own,)
        taken = {each.name.casefold() for each in self.columns} | {
            other.casefold() for other in called.values()
        }
        names = LONGITUDES if column == self.x else LATITUDES
        return (own, *(name for name in names if name not in taken))


@dataclass(frozen=True)
class Table:
    """A stationary relation. With columns x and y its rows are stationary objects.

    The key is the column declared so, whose values are then unique, or else the first one.
    """

    name: str
    columns: tuple[Column, ...]
    key: int
    unique: bool
    x: int | None
    y: int | None
    path: str | None = None
    space: Space = Space.PLANAR

    @property
    def key_type(self) -> Type:
        return self.columns[self.key].type


Relation = Stream | Table

MOTION = (
    Column("x before", Type.DOUBLE, hidden=True),
    Column("y before", Type.DOUBLE, hidden=True),
    Column("time since", Type.INTERVAL, hidden=True),
)
"""What a reading of a stream with `motion` has behind its own columns: where its object was at the
reading before, and how long ago that was; NULL where it is the first of its life."""


def tracked(relation: R) -> R:
    """The relation as the engine and queries see it: with the columns of motion, if it has them."""
    if isinstance(relation, Stream) and relation.keeps_motion and not relation.columns[-1].hidden:
        return replace(relation, columns=relation.columns + MOTION)
    return relation


def lasting(relation: R) -> R:
    """The relation without what ALTER STREAM can set while it runs: all that queries know of it,
    and by which it is still the same one."""
    if not isinstance(relation, Stream):
        return relation
    return replace(
        relation,
        lateness=0,
        bounds=None,
        history=None,
        timestamps=None,
        called=(),
        max_future=None,
    )


@dataclass(frozen=True)
class Region:
    """A shape with a name. Which space it lives in is up to the query that uses it."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Sink:
    """Where deltas are delivered to; `queries` is None for all of them."""

    name: str
    queries: tuple[str, ...] | None
    target: External


@dataclass(frozen=True)
class Pin:
    """A time of a stream's past that is kept, however old it is."""

    name: str
    stream: str
    at: int


def find_column(columns: tuple[Column, ...], name: str) -> int | None:
    """The position of the column of that name, whatever its case."""
    folded = name.casefold()
    named = ((i, c) for i, c in enumerate(columns) if not c.hidden)
    return next((i for i, c in named if c.name.casefold() == folded), None)


def position_of(names: Sequence[str]) -> tuple[int, int] | None:
    """Which of the columns of rows are their position, by the names that those of a stream have.

    >>> position_of(("id", "Lon", "lat")), position_of(("id", "x"))
    ((1, 2), None)
    """
    folded = [name.casefold() for name in names]
    x, y = (
        next((folded.index(name) for name in known if name in folded), None)
        for known in (LONGITUDES, LATITUDES)
    )
    return None if x is None or y is None else (x, y)


def column_names(columns: tuple[Column, ...]) -> Iterator[str]:
    return (column.name for column in columns if not column.hidden)
