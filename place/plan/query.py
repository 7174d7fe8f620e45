"""A bound query: what a SELECT means, with every name, type and region resolved.

It is the clauses of the SELECT and nothing derived from them: the reference evaluates it as it
stands, and plans are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from place.model.reading import Key
from place.model.schema import Relation, Stream
from place.model.shape import Shape
from place.model.space import Space
from place.model.types import Type
from place.plan.expression import Aggregate, Expression, columns_of, regions_of
from place.plan.trigger import Trigger


@dataclass(frozen=True)
class Window:
    """Readings of the last `duration`, the last `rows` readings, or (neither) the last two."""

    duration: int | None = None
    rows: int | None = None

    @property
    def is_previous(self) -> bool:
        return self.duration is None and self.rows is None


@dataclass(frozen=True)
class Source:
    """A relation in FROM, by the name that the query calls it: a bag of elements at each instant.

    A table gives its rows, a stream its objects now, and a stream with a window of its own the
    readings in that window. With a `key` only the object of that key counts: this is how DISTANCE
    to FOCAL reads the focal object, as a source that FROM does not name (`is_hidden`).
    """

    alias: str
    relation: Relation
    window: Window | None = None
    key: Key | None = None

    @property
    def is_hidden(self) -> bool:
        return self.key is not None

    @property
    def is_stream(self) -> bool:
        return isinstance(self.relation, Stream)


@dataclass(frozen=True)
class Focal:
    """The object that leads a moving query."""

    stream: str
    key: Key


@dataclass(frozen=True)
class Around:
    """A region that moves with its focal object: a circle of r, or a rectangle of two sides."""

    focal: Focal
    extents: tuple[float, ...]


@dataclass(frozen=True)
class PlaceGroup:
    """Several places, points and focal objects, and what of the distances to them counts: their
    SUM, MAX or MIN."""

    total: str
    places: tuple[tuple[float, float] | Focal, ...]


@dataclass(frozen=True)
class Nearest:
    """The k nearest to a fixed point, to a focal object, to each element of a source, or to a group
    of places; or those of whose k nearest a point or a focal object is one.

    `around` is the source whose elements are centres (`kNN (3, calls)`), and `among` the source
    whose elements are chosen; None is the query's subject.
    """

    k: int
    point: tuple[float, float] | None
    focal: Focal | None
    around: int | None = None
    among: int | None = None
    group: PlaceGroup | None = None
    is_reverse: bool = False

    @property
    def name(self) -> str:
        """What its clause is called."""
        return "RNN" if self.is_reverse else "kNN"

    @property
    def focals(self) -> tuple[Focal, ...]:
        """Its focal object, or those of its group."""
        if self.group is not None:
            return tuple(place for place in self.group.places if isinstance(place, Focal))
        return () if self.focal is None else (self.focal,)


@dataclass(frozen=True)
class QueryTable:
    """`O INSIDE Q`: the rows of a source are regions (PLACE, section 6).

    `layout` names the columns that hold the region, in this order: `region` (WKT), `x1 y1 x2 y2`,
    `x y r`, `focal xdist ydist` or `focal r`; `focal_stream` is the stream of the focal objects.
    """

    source: int
    layout: tuple[str, ...]
    columns: tuple[int, ...]
    focal_stream: str | None


@dataclass(frozen=True)
class Output:
    name: str
    expression: Expression


@dataclass(frozen=True)
class Query:
    """`subject` is the source whose objects INSIDE, kNN and WINDOW speak of.

    Without aggregates `groups` is None and outputs read the sources; with them, outputs and
    `having` read one row of the group's keys followed by the aggregates.
    """

    name: str
    sources: tuple[Source, ...]
    subject: int
    space: Space
    where: Expression | None
    query_table: QueryTable | None
    inside: Shape | Around | None
    nearest: Nearest | None
    window: Window | None
    groups: tuple[Expression, ...] | None
    aggregates: tuple[Aggregate, ...]
    having: Expression | None
    outputs: tuple[Output, ...]
    distinct: bool
    region: str | None = None
    """The named region that INSIDE was written with, which therefore cannot be dropped."""
    hint: str | None = None
    """Where INSIDE has to stand in the plan: `INSIDE FIRST` or `INSIDE LAST`."""
    arrivals: bool = False
    """EMIT ARRIVALS: only rows that join the answer are told, never those that leave."""
    since: int | None = None
    """The time of the past at which it began; None of a query that began when it was registered."""
    trigger: Trigger | None = None
    """What makes it a trigger, whose rows are alerts; None of a query."""
    dwell: int | None = None
    """`INSIDE … FOR`: how long an object must have been in the region without a break."""
    leave: float | None = None
    """`LEAVE BEYOND`: how far from the region who was in it has to be to have left it."""
    confirm: int | None = None
    """`CONFIRM`: so many readings in a row have to say that an object came, or left."""
    form: str | None = field(default=None, compare=False, repr=False)
    """Queries of one form were written alike but for literals; it says nothing about meaning."""

    @property
    def kind(self) -> str:
        """What its name stands for in the catalog."""
        return "query" if self.trigger is None else "trigger"

    @property
    def only_adds(self) -> bool:
        """Are its deltas never taken back, so that they do not add up to its answer?"""
        return self.arrivals or self.trigger is not None

    @property
    def regions(self) -> tuple[str, ...]:
        """The named regions that were written, which therefore cannot be dropped."""
        own: tuple[str, ...] = () if self.region is None else (self.region,)
        read = [
            self.where,
            self.having,
            *(self.groups or ()),
            *(a.argument for a in self.aggregates),
        ]
        read += [output.expression for output in self.outputs]
        asked = frozenset().union(*(regions_of(each) for each in read if each is not None))
        own += tuple(sorted(asked - {*own}))
        return own if self.trigger is None else own + self.trigger.region_names

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(output.expression.type for output in self.outputs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs)

    @property
    def focals(self) -> tuple[Focal, ...]:
        """All focal objects; INSIDE and kNN may follow different ones."""
        inside = (self.inside.focal,) if isinstance(self.inside, Around) else ()
        return inside + (() if self.nearest is None else self.nearest.focals)

    @property
    def needs_all_objects(self) -> bool:
        """Does it need all objects of its streams, and not only those in its region? kNN and joins
        do, and `WINDOW PREVIOUS`, which waits for the next reading of everybody."""
        if self.trigger is not None:
            return False
        has_previous = self.window is not None and self.window.is_previous
        return self.is_join or self.nearest is not None or has_previous

    @cached_property
    def is_join(self) -> bool:
        """Do elements of several streams meet, or readings of a source's own window? With RNN the
        objects of one stream meet each other.

        Such a query is answered by the join of elements. One stream beside tables, a query table or
        `WINDOW PREVIOUS` is answered by the region join instead, and a trigger by neither.
        """
        if self.trigger is not None:
            return False
        if self.nearest is not None and (
            self.nearest.around is not None or self.nearest.is_reverse
        ):
            return True
        if any(source.window is not None or source.is_hidden for source in self.sources):
            return True
        if self.window is not None and self.window.is_previous:
            return False
        regions = self.query_table.source if self.query_table else None
        return sum(source.is_stream for i, source in enumerate(self.sources) if i != regions) > 1

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window of its one stream, and those of its sources."""
        given = (self.window, *(source.window for source in self.sources))
        return tuple(window for window in given if window is not None)

    @property
    def holds_readings(self) -> bool:
        """Has it a window, of its one stream or of a source? A trigger holds readings, too."""
        return len(self.windows) > 0 or self.trigger is not None

    @property
    def needs_history(self) -> bool:
        """Does what it holds depend on more than objects, tables and focal objects now?"""
        return self.holds_readings or self.counts_stays

    @property
    def met_area(self) -> Shape | Around | None:
        """The region that objects meet; none with LEAVE, where being near it is a condition, and
        with CONFIRM, where readings outside of it count."""
        return self.inside if self.leave is None and self.confirm is None else None

    @property
    def counts_stays(self) -> bool:
        """Does it depend on since when objects have been in its region?"""
        return (self.dwell, self.leave, self.confirm) != (None, None, None)

    @cached_property
    def reads_motion(self) -> bool:
        """Does it read where objects were at the reading before?"""
        read = [self.where, *(self.groups or ()), *(a.argument for a in self.aggregates)]
        read += [output.expression for output in self.outputs] if self.groups is None else []
        return any(
            self.sources[column.source].relation.columns[column.index].hidden
            for each in read
            if each is not None
            for column in columns_of(each)
        )

    @cached_property
    def streams(self) -> frozenset[str]:
        """The streams that the answer depends on, those of focal objects among them."""
        named = {source.relation.name for source in self.sources if source.is_stream}
        named |= {focal.stream for focal in self.focals}
        if self.query_table and self.query_table.focal_stream:
            named.add(self.query_table.focal_stream)
        return frozenset(named)

    @cached_property
    def tables(self) -> frozenset[str]:
        """The tables in FROM."""
        return frozenset(s.relation.name for s in self.sources if not s.is_stream)
