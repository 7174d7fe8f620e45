"""The logical plan: a query as a tree of operators, each of which takes rows back as it gives them.

At first it is the clauses in their order, which is what they mean; rules then move operators to
where fewer rows reach them. kNN and windows stand above all filters and never move: what is near,
or late, depends on what was left out before. DISTINCT speaks of the rows that the query outputs, so
it stands above the projection, at the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from place.model.reading import Key
from place.model.schema import Relation
from place.model.shape import Shape
from place.plan.expression import Aggregate, Expression
from place.plan.query import Around, Nearest, Output, Query, QueryTable, Window


@dataclass(frozen=True)
class Scan:
    """The rows of a relation, or its one object of a key; of its columns only those that are needed
    above pass up."""

    source: int
    alias: str
    relation: Relation
    columns: tuple[int, ...] | None = None
    key: Key | None = None


@dataclass(frozen=True)
class Select:
    condition: Expression
    input: Node


@dataclass(frozen=True)
class Inside:
    """INSIDE. Only changes pass: objects that enter or leave the region, and objects within it
    whose row changes."""

    area: Shape | Around
    input: Node


@dataclass(frozen=True)
class Dwell:
    """Only objects that have been in the region for so long pass."""

    duration: int
    input: Node


@dataclass(frozen=True)
class Leave:
    """Objects that have come into a region pass until they are farther than a distance from it."""

    area: Shape
    distance: float
    input: Node


@dataclass(frozen=True)
class Confirm:
    """Objects pass by what so many readings in a row say: all in a region, or all outside."""

    area: Shape
    readings: int
    input: Node


@dataclass(frozen=True)
class MeetRegions:
    """Objects meet the regions of a query table."""

    table: QueryTable
    input: Node
    regions: Node


@dataclass(frozen=True)
class PairPrevious:
    """Each object's last reading stands beside the one before it."""

    input: Node
    previous: Node


@dataclass(frozen=True)
class Join:
    """Rows beside every row of a table for which the condition holds."""

    condition: Expression | None
    input: Node
    table: Node


@dataclass(frozen=True)
class JoinElements:
    """Elements of several sources beside each other: objects now, readings in windows, rows of
    tables, wherever the condition holds."""

    condition: Expression | None
    input: Node
    others: tuple[Node, ...]


@dataclass(frozen=True)
class NearestK:
    nearest: Nearest
    input: Node


@dataclass(frozen=True)
class SlideWindow:
    """Only the readings of the last time pass, or the last so many."""

    window: Window
    input: Node


@dataclass(frozen=True)
class Group:
    groups: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expression | None
    input: Node


@dataclass(frozen=True)
class Project:
    outputs: tuple[Output, ...]
    input: Node


@dataclass(frozen=True)
class Distinct:
    """Of equal rows of the answer only one passes."""

    input: Node


Node = (
    Scan
    | Select
    | Inside
    | Dwell
    | Leave
    | Confirm
    | MeetRegions
    | PairPrevious
    | Join
    | JoinElements
    | NearestK
    | SlideWindow
    | Group
    | Project
    | Distinct
)


@dataclass(frozen=True)
class Knowledge:
    """What is known when a plan is made.

    `inside_first` and `filters_first` are the rows that a reading sends on, on average, in a plan
    with INSIDE at the bottom and in one with the filters there; None while nothing was counted.
    """

    inside_first: float | None = None
    filters_first: float | None = None


@dataclass(frozen=True)
class Plan:
    """A query, and the tree that it has become."""

    query: Query
    root: Node
    knowledge: Knowledge = field(default_factory=Knowledge)


def inputs_of(node: Node) -> tuple[Node, ...]:
    """What a node reads, the main input first."""
    match node:
        case Scan():
            return ()
        case MeetRegions(input=below, regions=other):
            return below, other
        case PairPrevious(input=below, previous=other):
            return below, other
        case Join(input=below, table=other):
            return below, other
        case JoinElements(input=below, others=others):
            return below, *others
        case _:
            return (node.input,)


def with_input(node: Node, below: Node) -> Node:
    """The node over another main input."""
    return node if isinstance(node, Scan) else replace(node, input=below)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, from the top."""
    yield node
    for below in inputs_of(node):
        yield from walk(below)


def spine(node: Node) -> Iterator[Node]:
    """A node and its main inputs, down to the scan of the subject."""
    yield node
    while not isinstance(node, Scan):
        node = node.input
        yield node


def initial(query: Query) -> Node:
    """The clauses in their order."""
    scans = [
        Scan(i, source.alias, source.relation, key=source.key)
        for i, source in enumerate(query.sources)
    ]
    node: Node = scans[query.subject]
    table = query.query_table
    if query.is_join:
        first, *others = (
            scan if source.window is None else SlideWindow(source.window, scan)
            for scan, source in zip(scans, query.sources, strict=True)
        )
        return _clauses(query, JoinElements(None, first, tuple(others)))
    if query.dwell is not None and query.inside is not None:
        # How long an object stays does not depend on what else is asked of it now.
        node = Dwell(query.dwell, Inside(query.inside, node))
    if query.leave is not None and query.inside is not None:
        assert not isinstance(query.inside, Around)
        node = Leave(query.inside, query.leave, node)
    if query.confirm is not None and query.inside is not None:
        assert not isinstance(query.inside, Around)
        node = Confirm(query.inside, query.confirm, node)
    # What the object meets or is paired with stands below the tables, wherever FROM names it.
    for i, source in enumerate(query.sources):
        if table is not None and i == table.source:
            node = MeetRegions(table, node, scans[i])
        elif source.is_stream and i != query.subject:
            node = PairPrevious(node, scans[i])
    for i, source in enumerate(query.sources):
        if not source.is_stream and i != query.subject and not (table and i == table.source):
            node = Join(None, node, scans[i])
    return _clauses(query, node)


def _clauses(query: Query, node: Node) -> Node:
    """The clauses from WHERE on."""
    window = query.window
    if query.where is not None:
        node = Select(query.where, node)
    if query.inside is not None and not query.counts_stays:
        node = Inside(query.inside, node)
    if query.nearest is not None:
        node = NearestK(query.nearest, node)
    if window is not None and not window.is_previous:
        node = SlideWindow(window, node)
    if query.groups is not None:
        node = Group(query.groups, query.aggregates, query.having, node)
    node = Project(query.outputs, node)
    return Distinct(node) if query.distinct else node
