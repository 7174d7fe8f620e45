"""Binding SPEED and HEADING: functions of an object's last two readings.

A stream that was created with `motion = TRUE` keeps, beside each reading, where its object was at
the reading before and how long ago that was; so both are functions of one row.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from place.errors import suggestion
from place.model.schema import Relation, Stream
from place.model.types import Type
from place.plan.expression import Call, Column
from place.plan.query import Source
from place.sql.statements import Position, position_of, wrong


def bind_motion(
    node: exp.Anonymous, sources: tuple[Source, ...], shown: Callable[[int, int], str]
) -> Call:
    """SPEED(), SPEED(a), HEADING() or HEADING(a)."""
    name, at = str(node.this), position_of(node)
    source = _source(node, name, sources)
    columns = motion_of(name, source, sources[source].relation, shown, at)
    space = sources[source].relation.space
    wanted: tuple[Column, ...] = columns if name == "SPEED" else columns[:4]
    return Call(f"{name} {space.value}", wanted, Type.DOUBLE)


def motion_of(
    what: str,
    source: int,
    stream: Relation,
    shown: Callable[[int, int], str],
    at: Position | None,
) -> tuple[Column, Column, Column, Column, Column]:
    """Where the objects of a source were, where they are, and how long ago they were there; or a
    StatementError if their stream does not keep that."""
    if not isinstance(stream, Stream) or not stream.columns[-1].hidden:
        kind = "stream" if isinstance(stream, Stream) else "table"
        raise wrong(
            f'{what} needs the reading before the last, which {kind} "{stream.name}" does not keep',
            at,
            expected="a stream that keeps the motion of its objects",
            hint=f"create it WITH (motion = TRUE): CREATE STREAM {stream.name} (…) WITH"
            " (motion = TRUE)",
        )
    before = len(stream.columns) - 3
    wanted = (before, before + 1, stream.x, stream.y, before + 2)
    before_x, before_y, x, y, since = (
        Column(source, index, stream.columns[index].type, shown(source, index))
        for index in wanted
        if index is not None
    )
    return before_x, before_y, x, y, since


def _source(node: exp.Anonymous, name: str, sources: tuple[Source, ...]) -> int:
    at = position_of(node)
    known = [(i, source) for i, source in enumerate(sources) if not source.is_hidden]
    forms = f"write {name}() or {name}({known[0][1].alias})"
    if len(node.expressions) > 1 or node.meta.get("distinct"):
        raise wrong(f"{name} is of one object", at, hint=forms)
    if not node.expressions:
        moving = [i for i, source in known if source.relation.columns[-1].hidden]
        if len(moving) > 1:
            shown = " or ".join(f"{name}({sources[i].alias})" for i in moving)
            raise wrong(f"{name}() may be of several relations", at, hint=f"write {shown}")
        return moving[0] if moving else known[0][0]
    (argument,) = node.expressions
    if not isinstance(argument, exp.Column) or argument.table:
        raise wrong(f"{name} is of an object, not of a value", at, hint=forms)
    for i, source in known:
        if source.alias.casefold() == argument.name.casefold():
            return i
    names = [source.alias for _, source in known]
    hint = suggestion(argument.name, names, "relations in FROM")
    raise wrong(f'"{argument.name}" is not in FROM', at, hint=hint)
