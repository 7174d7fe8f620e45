"""What a cell makes of a query: which relation it meets, by which columns, and what is left to ask.

A query without INSIDE is a region without x and y: it is found by the attributes that it compares
with constants, like any other region.
"""

from __future__ import annotations

from dataclasses import dataclass

from place.engine.boxes import Box, boxes_of
from place.engine.columns import Dictionary
from place.errors import InternalError, Unsupported
from place.model.schema import Stream
from place.model.shape import Rectangle
from place.model.space import Space
from place.plan.expression import Column, Expression, columns_of
from place.plan.query import Around, Query

Dimensions = tuple[int, ...]
"""The columns that regions are found by: x and y, or up to two others; none where nothing helps."""


RECTANGULAR = (("x1", "y1", "x2", "y2"), ("focal", "xdist", "ydist"))


@dataclass(frozen=True)
class RangePlan:
    """A range query, ready for a cell.

    `boxes` are its attribute boxes; a query without a place is found by them over `dimensions`.
    `decides` tells that they are the whole condition, `residual` is what they cannot decide.
    `watches` tells that rows change while an object stays within, and `is_plain` that all outputs
    are columns. Of a simple plan the index's boxes decide everything. The rows of a keyed plan name
    their object, and their region where there are several, so that no two pairs have the same row.
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

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def subject(self) -> str:
        return self.query.sources[self.query.subject].relation.name

    @property
    def is_spatial(self) -> bool:
        return self.query.inside is not None or self.query.query_table is not None


def missing_operator(query: Query) -> str | None:
    """The operator that a query needs besides range and selection, if it needs one."""
    regions = query.query_table.source if query.query_table else None
    others = [i for i in range(len(query.sources)) if i not in (query.subject, regions)]
    if query.nearest is not None:
        return "kNN"
    if query.window is not None:
        return "window"
    if others:
        return "join"
    if query.groups is not None:
        return "aggregate"
    return "distinct" if query.distinct else None


def make_plan(query: Query, dictionary: Dictionary) -> RangePlan:
    """The plan of a query, or an error that names the operator that is not there."""
    operator = missing_operator(query)
    if operator is not None:
        raise Unsupported(operator, "local")
    relation = query.sources[query.subject].relation
    found = boxes_of(query.where, query.subject, dictionary)
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
        residual=None if found.exact else query.where,
        watches=bool(changing),
        is_plain=all(isinstance(output.expression, Column) for output in query.outputs),
        is_simple=exact_shape and found.exact and indexed,
        is_keyed=_is_keyed(query),
    )


def _is_keyed(query: Query) -> bool:
    """Do the outputs hold the key of the object, and that of the region's row?"""
    shown = {
        (output.expression.source, output.expression.index)
        for output in query.outputs
        if isinstance(output.expression, Column)
    }
    sources = {query.subject} | ({query.query_table.source} if query.query_table else set())
    for number in sources:
        relation = query.sources[number].relation
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
