"""What a cell makes of a query: which relation it meets, by which columns, and what is left to ask.

A query without INSIDE is a region without x and y: it is found by the attributes that it compares
with constants, like any other region.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from place.engine.boxes import Box, boxes_of
from place.engine.columns import Dictionary
from place.errors import InternalError
from place.model.schema import Stream
from place.model.shape import Rectangle
from place.model.space import Space
from place.plan.expression import (
    Column,
    Expression,
    columns_of,
    conjunction,
    sources_of,
    substitute,
)
from place.plan.logical import Knowledge, Plan
from place.plan.planner import (
    filters_first,
    has_choice,
    join_conditions,
    make_plan,
    subject_conditions,
)
from place.plan.query import Around, Output, Query, Window

Dimensions = tuple[int, ...]
"""The columns that regions are found by: x and y, or up to two others; none where nothing helps."""


def readings_of(stream: str) -> str:
    """What regions meet that speak of the readings of a stream, and not of its objects."""
    return f"\0readings of {stream}"


RECTANGULAR = (("x1", "y1", "x2", "y2"), ("focal", "xdist", "ydist"))


@dataclass(frozen=True)
class Filter:
    """What an object has to pass: a condition on its columns, and a row of each table beside it."""

    subject: int
    condition: Expression | None
    joins: Hashable


class Group(NamedTuple):
    """Regions that meet the same things, by the same columns, after the same filter."""

    meets: str
    dimensions: Dimensions
    before: Filter | None = None


@dataclass(frozen=True)
class RangePlan:
    """The join of a query's objects and regions, ready for a cell.

    `boxes` are its attribute boxes; a query without a place is found by them over `dimensions`.
    `decides` tells that they are the whole condition, `residual` is what they cannot decide.
    `watches` tells that rows change while an object stays within, and `is_plain` that all outputs
    are columns. Of a simple plan the index's boxes decide everything. The rows of a keyed plan name
    their object, and their region where there are several, so that no two pairs have the same row.
    `reads` are the columns of the object that are asked for or told, `filter` is what it has to
    pass besides its region. `before` is what objects have to pass before they meet its region,
    where that pays; a plan that `has_choice` may turn out better the other way round.
    """

    query: Query
    dimensions: Dimensions
    boxes: tuple[Box, ...]
    decides: bool
    residual: Expression | None
    watches: bool
    is_plain: bool
    is_simple: bool
    is_keyed: bool
    has_choice: bool
    reads: tuple[int, ...]
    filter: Filter
    upper: UpperPlan | None = None
    before: Filter | None = None

    @property
    def filtered(self) -> tuple[int, ...]:
        """The columns that are asked for or told if INSIDE comes first."""
        asked = () if self.filter.condition is None else columns_of(self.filter.condition)
        mine = {c.index for c in asked if not _is_constant(self.query, c)}
        return tuple(sorted(mine | set(self.reads)))

    @property
    def group(self) -> Group:
        """Which regions it is kept with: those that meet the same things by the same columns."""
        meets = self.subject if not self.meets_readings else readings_of(self.subject)
        return Group(meets, self.dimensions, self.before)

    @property
    def meets_readings(self) -> bool:
        """Does it speak of readings, each at its own instant, instead of objects now?"""
        return self.upper is not None and self.upper.query.window is not None

    @property
    def asked(self) -> Query:
        """The query as it was registered."""
        return self.query if self.upper is None else self.upper.asked

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def subject(self) -> str:
        return self.query.sources[self.query.subject].relation.name

    @property
    def is_spatial(self) -> bool:
        return self.query.inside is not None or self.query.query_table is not None


@dataclass(frozen=True)
class UpperPlan:
    """What stands above the join of objects and regions: table joins, kNN, windows, the answer.

    `needed` are, for each source, the columns that pass up (its key where none is needed), and
    `query` is the query over these alone. `conditions` are those that need more than the object and
    its region, `joined` the tables in FROM that they speak of.
    """

    asked: Query
    query: Query
    needed: tuple[tuple[int, ...], ...]
    conditions: tuple[Expression, ...]
    joined: tuple[int, ...]

    @property
    def has_answer(self) -> bool:
        """Does it take the whole answer, and not only what changed, to tell what changed?"""
        return self.query.groups is not None or self.query.distinct

    @property
    def has_order(self) -> bool:
        """Are the first of all rows chosen, so that those of several cells compete?"""
        window = self.query.window
        return self.query.nearest is not None or (window is not None and window.rows is not None)


def has_upper(query: Query) -> bool:
    """Does a query need more than the join of objects and regions?"""
    regions = query.query_table.source if query.query_table else None
    others = [i for i in range(len(query.sources)) if i not in (query.subject, regions)]
    above = query.nearest is not None or query.window is not None or query.groups is not None
    return above or bool(others) or query.distinct


def make_upper(query: Query, plan: Plan | None = None) -> UpperPlan:
    """What stands above the join of a query that has something above it."""
    lower = _lower_sources(query)
    plan = make_plan(query) if plan is None else plan
    conditions = [c for c in subject_conditions(plan) if not sources_of(c) <= lower]
    conditions += join_conditions(plan)
    read: list[Expression] = [*conditions]
    if query.groups is None:
        read += [output.expression for output in query.outputs]
    else:
        read += [*query.groups, *(a.argument for a in query.aggregates if a.argument is not None)]
    columns = {column for expression in read for column in columns_of(expression)}
    needed = tuple(
        tuple(sorted({column.index for column in columns if column.source == i}))
        or (source.relation.key,)
        for i, source in enumerate(query.sources)
    )

    def put(column: Column) -> Column:
        return replace(column, index=needed[column.source].index(column.index))

    narrow = replace(query, where=None)
    if query.groups is None:
        outputs = (replace(o, expression=substitute(o.expression, put)) for o in query.outputs)
        narrow = replace(narrow, outputs=tuple(outputs))
    else:
        aggregates = (
            a if a.argument is None else replace(a, argument=substitute(a.argument, put))
            for a in query.aggregates
        )
        groups = tuple(substitute(group, put) for group in query.groups)
        narrow = replace(narrow, groups=groups, aggregates=tuple(aggregates))
    return UpperPlan(
        asked=query,
        query=narrow,
        needed=needed,
        conditions=tuple(substitute(c, put) for c in conditions),
        joined=tuple(
            i for i, source in enumerate(query.sources) if not source.is_stream and i not in lower
        ),
    )


def _lower_sources(query: Query) -> frozenset[int]:
    """The sources that meet in the join of objects and regions."""
    regions = {query.query_table.source} if query.query_table else set()
    return frozenset({query.subject} | regions)


def _base(query: Query, upper: UpperPlan, conditions: Sequence[Expression]) -> Query:
    """The range query below: which objects pass, and what of them is needed above."""
    outputs = tuple(
        Output(column.name, Column(source, index, column.type, column.name))
        for source in sorted(_lower_sources(query))
        for index in upper.needed[source]
        for column in (query.sources[source].relation.columns[index],)
    )
    return replace(
        query,
        where=conjunction(conditions),
        nearest=None,
        window=None,
        groups=None,
        aggregates=(),
        having=None,
        outputs=outputs,
        distinct=False,
    )


def compile_plan(
    asked: Query, dictionary: Dictionary, knowledge: Knowledge | None = None
) -> RangePlan:
    """The plan of a query for a cell, by what is known about the rows that pass its filters."""
    logical = make_plan(asked, knowledge)
    upper = make_upper(asked, logical) if has_upper(asked) else None
    lower = _lower_sources(asked)
    conditions = [c for c in subject_conditions(logical) if sources_of(c) <= lower]
    query = asked if upper is None else _base(asked, upper, conditions)
    alone = [c for c in conditions if sources_of(c) <= {asked.subject}]
    passes = Filter(asked.subject, conjunction(alone), _joins(upper))
    is_before = filters_first(logical) and asked.query_table is None
    left = None if is_before else query.where
    relation = query.sources[query.subject].relation
    found = boxes_of(left, query.subject, dictionary)
    spatial = query.inside is not None or query.query_table is not None
    dimensions: Dimensions = ()
    if spatial:
        if relation.x is None or relation.y is None:
            raise InternalError(f"{relation.name} has no positions, and the binder let it pass")
        dimensions = (relation.x, relation.y)
        indexed = found.boxes == ({},)
    else:
        dimensions = _best_dimensions(found.boxes)
        # Of several boxes each only tells that an object may be in the region.
        indexed = len(found.boxes) <= 1 and all(set(b) <= set(dimensions) for b in found.boxes)
    read = {c for output in query.outputs for c in columns_of(output.expression)}
    changing = {c for c in read if not _is_constant(query, c)}
    twice = query.query_table is not None and query.inside is not None
    exact_shape = not spatial or (
        query.space is Space.PLANAR and not twice and not _is_round(query)
    )
    return RangePlan(
        query=query,
        dimensions=dimensions,
        boxes=found.boxes,
        decides=found.exact,
        residual=None if found.exact else left,
        watches=bool(changing),
        is_plain=all(isinstance(output.expression, Column) for output in query.outputs),
        is_simple=exact_shape and found.exact and indexed,
        is_keyed=_is_keyed(asked),
        has_choice=asked.hint is None and asked.query_table is None and has_choice(asked),
        reads=_reads(query, left),
        filter=passes,
        upper=upper,
        before=passes if is_before else None,
    )


def _reads(query: Query, condition: Expression | None) -> tuple[int, ...]:
    """The columns of the subject that may make a difference while an object stays in a region."""
    read = {c for output in query.outputs for c in columns_of(output.expression)}
    read |= set() if condition is None else columns_of(condition)
    mine = {c for c in read if c.source == query.subject and not _is_constant(query, c)}
    return tuple(sorted({column.index for column in mine}))


def _joins(upper: UpperPlan | None) -> Hashable:
    """What tells the joins of one query from those of another; None where there are none.

    What `WINDOW PREVIOUS` asks of the reading before is asked of pairs, not of readings.
    """
    if upper is None or not upper.joined or (upper.asked.window or Window(rows=1)).is_previous:
        return None
    tables = tuple((upper.asked.sources[i].relation.name, upper.needed[i]) for i in upper.joined)
    return upper.conditions, tables, upper.needed[upper.asked.subject]


def _is_keyed(query: Query) -> bool:
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


def _is_constant(query: Query, column: Column) -> bool:
    """Does a column never change while its object, or its row of a query table, is there?"""
    source = query.sources[column.source]
    return not source.is_stream or column.index == source.relation.key


def _is_round(query: Query) -> bool:
    """May the region be other than a rectangle?"""
    if query.query_table is not None:
        return query.query_table.layout not in RECTANGULAR
    if isinstance(query.inside, Around):
        return len(query.inside.extents) == 1
    return not isinstance(query.inside, Rectangle)


def _best_dimensions(boxes: tuple[Box, ...]) -> Dimensions:
    """Up to two columns that every box bounds, those that bound most tightly first."""
    if not boxes:
        return ()
    common = set(boxes[0])
    for box in boxes[1:]:
        common &= set(box)

    def looseness(column: int) -> tuple[int, int]:
        points = sum(box[column][0] == box[column][1] for box in boxes)
        return -points, column

    return tuple(sorted(common, key=looseness)[:2])
