"""Binding ways: PATH INSIDE, CROSSING LINE, INSIDE … WITHIN NEXT, and CPA.

All of them are functions of an object's last two readings, which a stream keeps that was created
with `motion = TRUE`; so they are conditions and values like others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from place.errors import PlaceError, suggestion
from place.model.schema import Relation, Stream
from place.model.shape import Circle, ShapeError, settle
from place.model.time import parse_duration
from place.model.types import Type
from place.plan.bind_motion import bind_motion, motion_of
from place.plan.bind_place import need_one_space, need_position
from place.plan.expression import Call, Column, Crossing, Expression, IsNull, Not, Sweeps
from place.plan.functions import APPROACH, MOVING
from place.plan.limits import check_window
from place.plan.query import Source
from place.sql.statements import (
    Duration,
    InsideArea,
    InsideClause,
    Position,
    Select,
    position_of,
    wrong,
)

CROSSING_TIME = "CROSSING_TIME"
Shown = Callable[[int, int], str]
"""Names a column for people."""


def duration_of(written: Duration, clause: str) -> int:
    """A length of time as written behind a clause, in microseconds."""
    try:
        duration = parse_duration(written.text)
    except PlaceError as error:
        raise wrong(error.message, written.at, hint=error.hint) from None
    if duration == 0:
        raise wrong(f"{clause} no time at all says nothing", written.at, hint=f"leave {clause} out")
    check_window(duration, written.at)
    return duration


def bind_line(clause: InsideClause, source: int, relation: Relation) -> tuple[Any, ...]:
    """What is known of a line: the source whose objects cross it, its points, and their space."""
    need_position(relation, clause.at, "CROSSING")
    if len(clause.line) < 2:
        raise wrong(
            "a line has two points at least", clause.at, hint="write CROSSING LINE ((x y, x y))"
        )
    for x, y in clause.line:
        try:
            settle(Circle(x, y, 0.0), relation.space)
        except ShapeError as error:
            raise wrong(error.message, clause.at) from None
    return source, clause.line, relation.space, None


def bound_way(node: InsideArea, sources: tuple[Source, ...], shown: Shown) -> Expression:
    """PATH INSIDE, INSIDE … WITHIN NEXT or CROSSING LINE as a condition."""
    clause: InsideClause = node.meta["area"]
    source, shape, space, name = node.meta["bound"]
    relation = sources[source].relation
    if clause.line:
        return Not(IsNull(_crossing(node, sources, shown)))
    what = "PATH INSIDE" if clause.ahead is None else "WITHIN NEXT"
    columns = motion_of(what, source, relation, shown, clause.at)
    ahead = None if clause.ahead is None else duration_of(clause.ahead, what)
    return Sweeps(*columns, shape, space, ahead, name)


def _crossing(node: InsideArea, sources: tuple[Source, ...], shown: Shown) -> Crossing:
    clause: InsideClause = node.meta["area"]
    source, line, space, _ = node.meta["bound"]
    columns = motion_of("CROSSING", source, sources[source].relation, shown, clause.at)
    return Crossing(*columns[:4], line, space)


def bind_crossing_times(select: Select, areas: Sequence[InsideArea]) -> None:
    """Tell each CROSSING_TIME() of a SELECT which line it speaks of."""
    lines = {node.meta["bound"]: node for node in areas if node.meta["area"].line}
    written = [select.where, select.having, *select.group_by]
    written += [item.expression for item in select.items]
    for expression in written:
        for node in expression.walk() if isinstance(expression, exp.Expr) else ():
            if not isinstance(node, exp.Anonymous) or node.this != CROSSING_TIME:
                continue
            if node.expressions:
                raise wrong(f"{CROSSING_TIME} takes nothing", position_of(node))
            if len(lines) != 1:
                many = "several lines" if lines else "no line"
                raise wrong(
                    f"{CROSSING_TIME} is when an object crossed the line of the query, which has"
                    f" {many}",
                    position_of(node),
                    expected="one CROSSING LINE ((x y, x y)) in the query",
                )
            node.meta["crossing"] = next(iter(lines.values()))


def bound_crossing_time(
    node: exp.Anonymous, sources: tuple[Source, ...], shown: Shown
) -> Expression:
    """When an object crossed the line: between its last two readings, by a steady speed."""
    if "crossing" not in node.meta:
        raise wrong(f"{CROSSING_TIME} cannot stand here", position_of(node))
    area: InsideArea = node.meta["crossing"]
    source, at = area.meta["bound"][0], position_of(node)
    crossing = _crossing(area, sources, shown)
    relation = sources[source].relation
    *_, since = motion_of(CROSSING_TIME, source, relation, shown, at)
    time = _time_of(CROSSING_TIME, source, relation, shown, at)
    return Call("CROSSED", (crossing, time, since), Type.TIMESTAMP)


def _time_of(
    what: str, source: int, relation: Relation, shown: Shown, at: Position | None
) -> Column:
    """The column that says when readings of a stream were made."""
    index = relation.time if isinstance(relation, Stream) else None
    if index is None:
        raise wrong(
            f'{what} needs the time of readings, and stream "{relation.name}" has no column of it',
            at,
            hint="declare a TIMESTAMP column, and send times with readings",
        )
    return Column(source, index, relation.columns[index].type, shown(source, index))


def bind_approach(node: exp.Anonymous, sources: tuple[Source, ...], shown: Shown) -> Call:
    """CPA(a, b, '10 minutes'): how near two objects come to each other by their last velocities."""
    at, form = position_of(node), "write CPA(a, b, '10 minutes')"
    if len(node.expressions) != 3 or node.meta.get("distinct"):
        raise wrong("CPA is between two objects, within a time", at, hint=form)
    *objects, length = node.expressions
    is_text = isinstance(length, exp.Literal) and length.is_string
    if not is_text and not isinstance(length, exp.Interval):
        raise wrong("CPA is within a time", at, expected="a duration as a text", hint=form)
    text = str(length.this) if is_text else str(length.this.this)
    ahead = duration_of(Duration(text, position_of(length) or at or Position(1, 1)), "CPA within")
    found = [_object(each, sources, form) for each in objects]
    relations = [sources[source].relation for source in found]
    if found[0] == found[1]:
        raise wrong("CPA is between two objects", at, hint=form)
    need_one_space(relations[0], relations[1], at)
    arguments: list[Expression] = []
    for source, relation in zip(found, relations, strict=True):
        arguments += motion_of("CPA", source, relation, shown, at)
        arguments.append(_time_of("CPA", source, relation, shown, at))
    name = f"{APPROACH}{relations[0].space.value} {ahead}"
    return Call(name, tuple(arguments), Type.DOUBLE)


def _object(node: exp.Expr, sources: tuple[Source, ...], form: str) -> int:
    at = position_of(node)
    if not isinstance(node, exp.Column) or node.table:
        raise wrong("CPA is between objects, not values", at, hint=form)
    known = {s.alias.casefold(): i for i, s in enumerate(sources) if not s.is_hidden}
    if node.name.casefold() not in known:
        names = [source.alias for source in sources if not source.is_hidden]
        raise wrong(
            f'"{node.name}" is not in FROM',
            at,
            hint=suggestion(node.name, names, "relations in FROM"),
        )
    return known[node.name.casefold()]


WAYS = {
    **dict.fromkeys(MOVING, bind_motion),
    "CPA": bind_approach,
    CROSSING_TIME: bound_crossing_time,
}
"""The functions of motion and of ways, and what binds them."""
