"""What a statement does to the catalog: the next version of it, or an error and nothing else."""

from __future__ import annotations

from place.errors import InternalError, PlaceError
from place.model.schema import Table
from place.plan.bind_query import bind_query
from place.plan.bind_query_table import check_regions_of
from place.plan.catalog import PLURALS, Catalog, fold
from place.plan.define import (
    Load,
    check_rows,
    define_region,
    define_sink,
    define_stream,
    define_table,
)
from place.sql import statements as s
from place.sql.statements import wrong

Change = (
    s.CreateStream
    | s.CreateTable
    | s.CreateRegion
    | s.CreateSink
    | s.RegisterQuery
    | (s.Drop | s.RefreshTable)
)


def apply(catalog: Catalog, statement: Change, text: str, load: Load) -> Catalog:
    """The catalog after a statement; the same one where IF [NOT] EXISTS leaves nothing to do."""
    match statement:
        case s.Drop():
            return _drop(catalog, statement)
        case s.RefreshTable():
            return _refresh(catalog, statement, load)
        case s.CreateStream():
            kind = "stream"
        case s.CreateTable():
            kind = "table"
        case s.CreateRegion():
            kind = "region"
        case s.RegisterQuery():
            kind = "query"
        case s.CreateSink():
            kind = "sink"
    if statement.if_not_exists and fold(statement.name.text) in catalog.of_kind(kind):
        return catalog
    catalog.check_free(kind, statement.name)
    match statement:
        case s.CreateStream():
            return catalog.put(kind, define_stream(statement), text)
        case s.CreateTable():
            table, rows = define_table(statement, load)
            return catalog.put(kind, table, text, rows)
        case s.CreateRegion():
            return catalog.put(kind, define_region(statement), text)
        case s.RegisterQuery():
            query = bind_query(catalog, statement.name.text, statement.select)
            return catalog.put(kind, query, text)
        case s.CreateSink():
            return catalog.put(kind, define_sink(statement, catalog), text)
    raise InternalError(f"no way to apply {type(statement).__name__}")


def _drop(catalog: Catalog, statement: s.Drop) -> Catalog:
    kind, name = statement.kind, statement.name
    if statement.if_exists and fold(name.text) not in catalog.of_kind(kind):
        return catalog
    found = catalog.find(kind, name)
    users = _users(catalog, kind, found.name)
    if users:
        what, names = users
        many = what if len(names) == 1 else PLURALS[what]
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise wrong(
            f'{kind} "{found.name}" is used by {many} {listed}',
            name.at,
            hint="; ".join(f"DROP {what.upper()} {user}" for user in names[:3]) + " first",
        )
    return catalog.remove(kind, found.name)


def _users(catalog: Catalog, kind: str, name: str) -> tuple[str, list[str]] | None:
    """Which queries or sinks stand on a definition."""
    if kind == "query":
        sinks = [
            sink.name
            for sink in catalog.sinks.values()
            if sink.queries and fold(name) in map(fold, sink.queries)
        ]
        return ("sink", sinks) if sinks else None
    if kind == "sink":
        return None
    queries = [
        query.name
        for query in catalog.queries.values()
        if (kind == "stream" and name in query.streams)
        or (kind == "table" and name in query.tables)
        or (kind == "region" and query.region == name)
    ]
    return ("query", queries) if queries else None


def _refresh(catalog: Catalog, statement: s.RefreshTable, load: Load) -> Catalog:
    """The table's file read again. The rows that changed reach the answers as deltas."""
    table: Table = catalog.find("table", statement.name)
    if table.path is None:
        raise wrong(
            f'table "{table.name}" is not loaded from a file',
            statement.name.at,
            hint="its rows stand in the statement that made it; drop it and create it again",
        )
    try:
        _, rows = load(table.path, table.columns)
    except PlaceError as error:
        raise wrong(error.message, statement.name.at, hint=error.hint) from None
    check_rows(table, rows, statement.name)
    refreshed = catalog.put("table", table, catalog.text_of("table", table.name), rows)
    for query in catalog.queries.values():
        if table.name in query.tables and query.query_table is not None:
            check_regions_of(refreshed, query, statement.name.at)
    return refreshed
