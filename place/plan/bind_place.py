"""Binding places: relations with x and y, in one space, and DISTANCE between them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from place.errors import suggestion
from place.model.schema import LATITUDES, LONGITUDES, Relation, Stream, find_column
from place.model.shape import Circle, ShapeError, settle
from place.model.space import Point, Space
from place.model.types import Type
from place.plan.expression import Column, Constant, Distance, Expression, show
from place.plan.query import Source
from place.sql.statements import Position, position_of, wrong

FORMS = "DISTANCE(a, b), DISTANCE(a, POINT (x, y)) or DISTANCE(a, FOCAL)"
FOCAL = "FOCAL"
"""What DISTANCE calls the focal object of the query."""

Place = tuple[Expression, Expression, Relation | None]
"""Where something is: its x and y, and the relation that it is of; None of a POINT."""


def need_position(relation: Relation, at: Position | None, clause: str) -> None:
    """Raise a StatementError if what a clause speaks of has no positions."""
    if relation.x is None or relation.y is None:
        kind = "stream" if isinstance(relation, Stream) else "table"
        raise wrong(
            f'{clause} needs positions, and {kind} "{relation.name}" has no columns x and y',
            at,
            hint=_hint_of_degrees(relation),
        )


def _hint_of_degrees(relation: Relation) -> str | None:
    """What to write if positions are there, by the names that degrees have."""
    found = []
    for names in (LONGITUDES, LATITUDES):
        known = (find_column(relation.columns, name) for name in names)
        found.append(next((index for index in known if index is not None), None))
    x, y = found
    if x is None or y is None:
        return None
    return (
        f"create it WITH (space = 'wgs84') if {relation.columns[x].name} and"
        f" {relation.columns[y].name} are degrees"
    )


def need_one_space(relation: Relation, other: Relation, at: Position | None) -> None:
    """Raise a StatementError if two relations that meet by their places live in two spaces."""
    if relation.space is not other.space:
        kind = "stream" if isinstance(relation, Stream) else "table"
        raise wrong(
            f'{kind} "{relation.name}" is {relation.space.value}, but "{other.name}" is'
            f" {other.space.value}",
            at,
            hint=f'a query lives in one space: create "{other.name}" WITH (space ='
            f" '{relation.space.value}'), or \"{relation.name}\" WITH (space ="
            f" '{other.space.value}')",
        )


def bind_distance(
    node: exp.Anonymous,
    sources: tuple[Source, ...],
    bind: Callable[[exp.Expr], Expression],
    shown: Callable[[int, int], str],
) -> Distance:
    """DISTANCE between two places, at least one of which is an element of FROM or FOCAL.

    `bind` binds the coordinates of a POINT, and `shown` names a column for people.
    """
    at = position_of(node)
    if len(node.expressions) != 2 or node.meta.get("distinct"):
        raise wrong("DISTANCE is between two places", at, hint=f"write {FORMS}")
    one, other = (_place(each, sources, bind, shown) for each in node.expressions)
    if one[2] is not None and other[2] is not None:
        need_one_space(one[2], other[2], at)
    relation = one[2] or other[2]
    if relation is None:
        raise wrong(
            "DISTANCE between two points",
            at,
            expected="the name of at least one relation in FROM",
            hint=f"write {FORMS}",
        )
    for each, written in zip((one, other), node.expressions, strict=True):
        _check_point(each, relation.space, position_of(written))
    return Distance(one[0], one[1], other[0], other[1], relation.space)


def _place(
    node: exp.Expr,
    sources: tuple[Source, ...],
    bind: Callable[[exp.Expr], Expression],
    shown: Callable[[int, int], str],
) -> Place:
    at = position_of(node)
    if isinstance(node, exp.Anonymous) and node.this == "POINT":
        if len(node.expressions) != 2:
            raise wrong("a POINT is an x and a y", at, hint="write POINT (x, y)")
        x, y = (bind(each) for each in node.expressions)
        for part in (x, y):
            if not part.type.is_numeric and part.type is not Type.NULL:
                raise wrong(
                    f"{show(part)} is a {part.type.value}", at, expected="a POINT of two numbers"
                )
        return x, y, None
    if not isinstance(node, exp.Column) or node.table:
        raise wrong(
            "DISTANCE is between places, not values",
            at,
            expected="a name of FROM, POINT (x, y) or FOCAL",
            hint=f"write {FORMS}",
        )
    index = _source(node, sources, at)
    relation = sources[index].relation
    need_position(relation, at, "DISTANCE")
    x, y = (
        Column(index, column, relation.columns[column].type, shown(index, column))
        for column in (relation.x, relation.y)
        if column is not None
    )
    return x, y, relation


def _source(node: exp.Column, sources: tuple[Source, ...], at: Position | None) -> int:
    """The position of the source that a name is of, FOCAL among them."""
    name = node.name.casefold()
    for index, source in enumerate(sources):
        if not source.is_hidden and source.alias.casefold() == name:
            return index
    hidden = [index for index, source in enumerate(sources) if source.is_hidden]
    if name != FOCAL.casefold():
        known = [source.alias for source in sources if not source.is_hidden]
        hint = suggestion(node.name, known, "relations in FROM")
        raise wrong(f'"{node.name}" is not in FROM', at, hint=hint)
    if not hidden:
        raise wrong(
            "FOCAL is the focal object of INSIDE, kNN or RNN, and this query has none",
            at,
            hint="write INSIDE ('M', id, r) or kNN ('M', k, id), or DISTANCE(a, POINT (x, y))",
        )
    if len(hidden) > 1:
        raise wrong(
            "the query follows several objects, so FOCAL may be any of them",
            at,
            hint="let INSIDE and kNN follow the same object, or register a query for each",
        )
    return hidden[0]


def _check_point(place: Place, space: Space, at: Position | None) -> None:
    """A POINT that is written as numbers has to be one of the space."""
    x, y, relation = place
    if relation is None and isinstance(x, Constant) and isinstance(y, Constant):
        if x.value is None or y.value is None:
            return
        check_place((float(x.value), float(y.value)), space, at)


def check_place(point: Point, space: Space, at: Position | None) -> None:
    """Raise a StatementError if numbers are no place of a space."""
    try:
        settle(Circle(*point, 0.0), space)
    except ShapeError as error:
        raise wrong(error.message, at) from None
