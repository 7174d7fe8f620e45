"""What compiling makes of a query: its shape, which it shares with others, and what is its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from place.engine.boxes import Box
from place.engine.operator_specs import JoinSpec, Spec
from place.engine.way_boxes import AreaBox, Way
from place.model.schema import Relation, Stream
from place.model.space import Space
from place.model.types import Row, Type
from place.plan.expression import Column, Expression, columns_of
from place.plan.query import Query

Dimensions = tuple[int, ...]
"""The columns that regions are found by: x and y, or up to two others; none where nothing helps."""
Needed = tuple[tuple[int, ...], ...]
"""Of each source, the columns that are read."""


@dataclass(frozen=True)
class Filter:
    """What an object has to pass before it meets regions: a condition on its columns, and a row of
    each table beside it, by the join of a shape."""

    subject: int
    condition: Expression | None
    joins: JoinSpec | None
    needed: tuple[int, ...]
    kinds: tuple[Type, ...]
    constants: Row


class JoinKey(NamedTuple):
    """Which regions are joined together: those that meet the same relation by the same columns.

    `readings` says that they meet readings and not objects, `moves` that they may change within a
    tick. `alone` is the number of a query whose regions are joined apart from all others, or −1.
    `way` says that not places but ways of objects meet them.
    """

    subject: str
    readings: bool
    dimensions: Dimensions
    moves: bool
    space: Space
    before: Filter | None = None
    alone: str = ""
    way: Way | None = None


class Condition(NamedTuple):
    """A condition without its constants, over the columns that it needs of each source."""

    expression: Expression
    needed: Needed
    kinds: tuple[Type, ...]


@dataclass(frozen=True)
class QueryShape:
    """What queries have in common that one chain of operators serves."""

    sources: tuple[Relation, ...]
    subject: int
    table: int | None
    readings: bool
    needed: Needed
    lower: tuple[Spec, ...]
    upper: tuple[Spec, ...]
    kinds: tuple[Type, ...]
    is_keyed: bool
    candidates: Query | None = None
    """Of kNN queries, the conditions by which they choose; those with the same share one search."""


@dataclass(frozen=True)
class Compiled:
    """A query as a cell runs it.

    `boxes` are its attribute boxes; a query without a place is found by them, or by the
    `way_boxes` that the ways of objects have to meet. `checks_boxes` says
    that they also have to be asked of candidates, and `residual` is the condition that no box can
    decide. `reads` are the columns of the object that matter while it stays within the region: if
    one of them changes, its row may.
    """

    asked: Query
    shape: QueryShape
    constants: Row
    key: JoinKey
    boxes: tuple[Box, ...]
    way_boxes: tuple[AreaBox, ...]
    checks_boxes: bool
    residual: Condition | None
    residual_constants: Row
    reads: tuple[int, ...]
    mode: int
    filter: Filter
    has_choice: bool
    has_regions: bool

    @property
    def subject(self) -> str:
        return self.key.subject

    @property
    def counted_with(self) -> tuple[object, ...]:
        """What it reads together with others, as rows are counted."""
        return (self.subject, self.key.readings), self.key

    @property
    def is_spatial(self) -> bool:
        return self.asked.met_area is not None or self.asked.query_table is not None

    @property
    def is_twice(self) -> bool:
        """Has it an INSIDE of its own beside a query table?"""
        return self.asked.met_area is not None and self.asked.query_table is not None

    @property
    def filtered(self) -> tuple[int, ...]:
        """The columns of the object that conditions or outputs read if INSIDE comes first."""
        asked = () if self.filter.condition is None else columns_of(self.filter.condition)
        mine = {c.index for c in asked if not is_constant(self.asked, c)}
        return tuple(sorted(mine | set(self.reads)))


def is_constant(query: Query, column: Column) -> bool:
    """Does a column never change while its object, or its row of a query table, is there?"""
    source = query.sources[column.source]
    return not source.is_stream or column.index == source.relation.key


def is_keyed(query: Query) -> bool:
    """Do the outputs hold the keys of all rows that they are made of?"""
    shown = {
        (output.expression.source, output.expression.index)
        for output in query.outputs
        if isinstance(output.expression, Column)
    }
    for number, source in enumerate(query.sources):
        relation = source.relation
        unique = isinstance(relation, Stream) or relation.unique
        if not unique or (number, relation.key) not in shown:
            return False
    return True


def may_have_likes(compiled: Compiled) -> bool:
    """Can queries that are like this one begin together, with nothing to do for each?

    Not if windows may hold something already, if aggregates have a row without any object, or if
    kNN chooses for each.
    """
    asked = compiled.asked
    return (
        asked.form is not None
        and not asked.is_join
        and asked.window is None
        and not asked.counts_stays
        and asked.groups is None
        and asked.nearest is None
        and asked.query_table is None
    )


def named_by(query: Query) -> tuple[str, str, int] | None:
    """How the query table of a query names focal objects: the table, their stream, the column."""
    table = query.query_table
    if table is None or table.focal_stream is None:
        return None
    return query.sources[table.source].relation.name, table.focal_stream, table.columns[0]
