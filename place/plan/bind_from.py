"""Binding FROM: the relations, their windows, and whom the clauses behind it speak of.

Every name in FROM is a bag of elements (docs/design.md, "Streams meet"). A window that stands
behind a name is that stream's own. One at the end is the window of the query's one stream, and
holds the readings that qualify.
"""

from __future__ import annotations

from dataclasses import replace

from place.errors import PlaceError
from place.model.schema import Relation, Table, lasting, tracked
from place.model.time import parse_duration
from place.plan.catalog import Catalog
from place.plan.limits import check_window, check_window_rows
from place.plan.query import Query, QueryTable, Source, Window
from place.sql import statements as s
from place.sql.limits import current
from place.sql.statements import Inside, Select, wrong


def bind_sources(catalog: Catalog, select: Select) -> tuple[tuple[Source, ...], Select]:
    """The sources of FROM, and the SELECT with its WINDOW in its place.

    Behind the last name, with no condition to follow, a window of the only stream is the one at
    the end.
    """
    sources: list[Source] = []
    for item in select.sources:
        if any(item.alias.text.casefold() == source.alias.casefold() for source in sources):
            raise wrong(
                f'"{item.alias.text}" is twice in FROM',
                item.alias.at,
                hint=f"give each its own alias: {item.relation.text} a, {item.relation.text} b",
            )
        sources.append(Source(item.alias.text, _known(catalog, item.relation)))
    last = select.sources[-1].window
    is_one = sum(source.is_stream for source in sources) == 1
    if last is not None and is_one and _is_bare(select):
        *others, behind = select.sources
        return tuple(sources), replace(
            select, sources=(*others, replace(behind, window=None)), window=last
        )
    _check_once(select)
    return tuple(
        source if item.window is None else _with_window(source, item.window)
        for source, item in zip(sources, select.sources, strict=True)
    ), select


def _known(catalog: Catalog, name: s.Name) -> Relation:
    """A relation as queries know it."""
    return tracked(lasting(catalog.relation(name)))


def _is_bare(select: Select) -> bool:
    """Is there no WINDOW but behind the last name, and nothing to choose after it?"""
    written = (select.where, select.inside, select.nearest, select.window)
    return not any(written) and not any(item.window for item in select.sources[:-1])


def _check_once(select: Select) -> None:
    if select.window is not None and any(item.window for item in select.sources):
        raise wrong(
            "WINDOW stands behind a name of FROM and at the end",
            select.window.at,
            expected="one of them",
            hint="behind a name it holds the readings of that stream, at the end those that"
            " qualify",
        )


def find_subject(
    select: Select,
    sources: tuple[Source, ...],
    query_table: QueryTable | None,
    predicates: list[Inside],
) -> int:
    """The source that INSIDE, kNN and WINDOW speak of.

    It is the one that INSIDE names, or the O of `O INSIDE Q`; otherwise the first stream, or the
    first table with x and y.
    """
    by_alias = {source.alias.casefold(): i for i, source in enumerate(sources)}
    streams = [i for i, source in enumerate(sources) if source.is_stream]
    named = select.inside.subject if select.inside is not None else None
    if query_table is not None:
        subject = by_alias[predicates[0].this.name.casefold()]
        streams = [subject]
    elif named is None:
        placed = (i for i, source in enumerate(sources) if source.relation.x is not None)
        return streams[0] if streams else next(placed, 0)
    if named is None:
        return subject
    found = by_alias.get(named.text.casefold())
    if found is None:
        raise not_in_from(named, sources)
    if streams and found not in streams:
        raise wrong(
            f'INSIDE speaks of "{sources[streams[0]].alias}" here, not of "{named.text}"',
            named.at,
            expected="the name of a stream" if query_table is None else None,
            hint="choose rows of a table in WHERE",
        )
    return found


def not_in_from(name: s.Name, sources: tuple[Source, ...]) -> PlaceError:
    """What to say of a name that FROM does not have."""
    return wrong(
        f'"{name.text}" is not in FROM',
        name.at,
        hint="relations in FROM: " + ", ".join(source.alias for source in sources),
    )


# Windows


def bind_window(select: Select, sources: tuple[Source, ...], subject: int) -> Window | None:
    """The window at the end, of the subject."""
    if select.window is None:
        return None
    _need_stream(sources[subject], select.window)
    return make_window(select.window)


def _with_window(source: Source, clause: s.WindowClause) -> Source:
    _need_stream(source, clause)
    return replace(source, window=make_window(clause))


def _need_stream(source: Source, clause: s.WindowClause) -> None:
    if isinstance(source.relation, Table):
        raise wrong(
            f'a window holds readings, and table "{source.relation.name}" has none',
            clause.at,
            hint="leave WINDOW out",
        )


def make_window(clause: s.WindowClause) -> Window:
    """The window as written, or a StatementError."""
    if clause.rows is not None:
        count = clause.rows.value
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise wrong(
                f"WINDOW of {count} rows",
                clause.rows.at,
                expected=f"a whole number from 1 to {current().window_rows:,}",
            )
        check_window_rows(count, clause.rows.at)
        return Window(rows=count)
    if clause.duration is None:
        return Window()
    try:
        duration = parse_duration(clause.duration)
    except PlaceError as error:
        raise wrong(error.message, clause.at, hint=error.hint) from None
    if duration == 0:
        raise wrong("a window of no length holds nothing", clause.at)
    check_window(duration, clause.at)
    return Window(duration=duration)


def check_streams(
    select: Select,
    sources: tuple[Source, ...],
    query_table: QueryTable | None,
    window: Window | None,
) -> None:
    """WINDOW PREVIOUS reads a stream twice; any other WINDOW at the end is that of one stream."""
    regions = query_table.source if query_table else None
    streams = [i for i, source in enumerate(sources) if source.is_stream and i != regions]
    at = select.window.at if select.window else None
    if window is not None and window.is_previous:
        names = {sources[i].relation.name for i in streams}
        if len(streams) != 2 or len(names) != 1:
            raise wrong(
                "WINDOW PREVIOUS pairs the readings of one stream",
                at,
                expected="the stream twice in FROM",
                hint="write FROM MovingObjects cur, MovingObjects prev",
            )
        if query_table is not None:
            raise wrong("WINDOW PREVIOUS cannot be combined with a query table", at)
    elif len(streams) > 1 and query_table is not None:
        second = next(i for i in streams if i != streams[0])
        raise wrong(
            "a query table cannot be combined with several streams",
            select.sources[second].relation.at,
            hint="keep the stream whose objects are inside its regions; tables may be joined",
        )
    elif len(streams) > 1 and window is not None:
        shown = ", ".join(f"{sources[i].alias} WINDOW …" for i in streams)
        raise wrong(
            f"a WINDOW at the end is that of one stream, and this query reads {len(streams)}",
            at,
            expected="it behind each name that it is meant for",
            hint=f"write FROM {shown}",
        )


def place_window(query: Query, select: Select) -> Query:
    """The query with the window of its one stream where the rest of it can use it.

    A window of time holds the same readings behind the stream's name and at the end. It stands at
    the end, unless elements meet for another reason, such as DISTANCE to FOCAL.
    """
    sources = tuple(replace(source, window=None) for source in query.sources)
    own = query.sources[query.subject].window
    if query.window is not None and query.window.is_previous:
        joins = any(source.is_hidden for source in sources)
    else:
        joins = replace(query, sources=sources, window=None).is_join
    if own is not None and own.duration is not None and not joins:
        others = sum(source.window is not None for source in query.sources)
        return replace(query, sources=sources, window=own) if others == 1 else query
    if query.window is None or not joins:
        return query
    if query.window.duration is None:
        raise wrong(
            "FOCAL cannot be combined with "
            + ("WINDOW PREVIOUS" if query.window.is_previous else "WINDOW … ROWS at the end"),
            select.window.at if select.window else None,
            hint=f"write FROM {query.sources[query.subject].alias} WINDOW …",
        )
    held = (*sources[: query.subject], replace(sources[query.subject], window=query.window))
    return replace(query, sources=(*held, *sources[query.subject + 1 :]), window=None)
