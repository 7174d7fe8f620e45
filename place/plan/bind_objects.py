"""Whose objects a query reads: only a stream with a KEY has any.

A stream without KEY has readings alone, which windows hold. Each clause that needs its objects says
so in the same words.
"""

from __future__ import annotations

from place.model.schema import Stream
from place.plan.query import Query
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
