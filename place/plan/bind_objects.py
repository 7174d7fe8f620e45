"""Whose objects a query reads, and which object leads it: only a stream with a KEY has any.

A stream without KEY has readings alone, which windows hold. Each clause that needs its objects says
so in the same words.
"""

from __future__ import annotations

from place.model.schema import Stream, Table
from place.model.space import Space
from place.model.types import Type, ValueMismatch, coerce
from place.plan.bind_place import need_one_space
from place.plan.catalog import Catalog
from place.plan.query import Focal, Query, Source
from place.sql import statements as s
from place.sql.statements import Position, Select, wrong


def need_key(stream: Stream, at: Position | None, purpose: str) -> int:
    """The key column of a stream whose objects are needed, or a StatementError."""
    if stream.key is None:
        raise wrong(
            f'stream "{stream.name}" has no KEY and so no objects {purpose}',
            at,
            hint="declare a KEY: (id BIGINT KEY, …)",
        )
    return stream.key


def check_objects(query: Query, select: Select) -> None:
    """Raise a StatementError if a query reads objects of a stream that has none."""
    regions = query.query_table.source if query.query_table is not None else None
    for index, item in enumerate(select.sources):
        source, at = query.sources[index], item.relation.at
        stream = source.relation
        if not isinstance(stream, Stream) or stream.key is not None:
            continue
        if index == regions:
            need_key(stream, at, "whose regions could be met")
        own = source.window or (query.window if index == query.subject else None)
        if any(window is not None and window.is_previous for window in (own, query.window)):
            raise wrong(
                f'WINDOW PREVIOUS pairs the readings of an object, and stream "{stream.name}" has'
                " no KEY and so no objects",
                at,
                hint="write WINDOW 1 MINUTE or WINDOW 2 ROWS, or declare a KEY: (id BIGINT KEY, …)",
            )
        if own is None:
            raise wrong(
                f'stream "{stream.name}" has no KEY and so no objects: only a window reads it',
                at,
                hint="add WINDOW 1 MINUTE or WINDOW 100 ROWS, or declare a KEY: (id BIGINT KEY, …)",
            )


def bind_focal(
    catalog: Catalog,
    focal: s.Focal,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
    clause: str,
) -> Focal:
    """The focal object: of the stream in FROM, or of the stream named by OF."""
    relation = sources[subject].relation
    stream = catalog.find("stream", focal.stream) if focal.stream else relation
    if isinstance(stream, Table):
        raise wrong(
            f'the focal object of a query over table "{stream.name}" is of a stream',
            focal.key.at,
            expected="the name of its stream",
            hint=f"write {clause} ('M', … {focal.key.value} OF stream …)",
        )
    key = need_key(stream, focal.key.at, "that could lead a query")
    if stream.x is None:
        raise wrong(
            f'stream "{stream.name}" has no columns x and y, so its objects lead no query',
            focal.stream.at if focal.stream else focal.key.at,
        )
    need_one_space(stream, relation, focal.stream.at if focal.stream else focal.key.at)
    key_column = stream.columns[key]
    value = focal.key.value
    try:
        if isinstance(value, str) and key_column.type is Type.BIGINT:
            raise ValueMismatch(f"'{value}' is not a BIGINT")
        named = coerce(value, key_column.type)
    except ValueMismatch:
        raise wrong(
            f'{value!r} is not the id of an object of stream "{stream.name}"',
            focal.key.at,
            expected=f'a {key_column.type.value} ("{key_column.name}")',
            hint="write INSIDE ('M', id, xdist, ydist), INSIDE ('M', id, r) or kNN ('M', k, id)",
        ) from None
    return Focal(stream.name, named)  # type: ignore[arg-type]
