"""What a statement does to the catalog: the next version of it, or an error and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

from place.errors import PlaceError
from place.model.schema import Stream, Table
from place.model.table_rows import TableRows
from place.plan.alter import check_alterable, renamed, with_options
from place.plan.bind_expression import ExpressionBinder
from place.plan.bind_query_table import check_regions_of
from place.plan.catalog import PLURALS, Catalog, fold
from place.plan.define import Load, check_rows, define_stream, inserted_rows
from place.plan.evaluate import evaluate
from place.plan.kinds import KINDS, kind_of
from place.plan.query import Query, Source
from place.sql import statements as s
from place.sql.definitions import GRAMMAR
from place.sql.dialect import parse_one
from place.sql.statements import wrong

_VERBS = {each.kind: each.verb for each in GRAMMAR}
MOST_USERS = 6
"""So many of those who stand on a definition are looked for when it cannot be dropped."""


def apply(catalog: Catalog, statement: s.Change, text: str, load: Load) -> Catalog:
    """The catalog after a statement; the same one where IF [NOT] EXISTS leaves nothing to do."""
    if isinstance(statement, s.Creation):
        return _create(catalog, statement, text, load)
    return _OTHERS[type(statement)](catalog, statement, load)


def _create(catalog: Catalog, statement: s.Creation, text: str, load: Load) -> Catalog:
    kind = kind_of(statement)
    if statement.if_not_exists and catalog.get(kind.name, statement.name.text) is not None:
        return catalog
    found = catalog.get(kind.name, statement.name.text) if statement.or_replace else None
    if found is None:
        catalog.check_free(kind.name, statement.name)
    definition, rows = kind.define(catalog, statement, load)
    if found is not None:
        definition = _replacement(found, definition, statement)
        if statement.name.text != found.name:  # names keep the case that they were declared in
            text = renamed(text, found.name)
    return catalog.put(kind.name, definition, text, rows)


def _replacement(before: Query, after: Query, statement: s.Creation) -> Query:
    """The query that takes the place of another one, if who takes its deltas can go on."""
    name = statement.name
    hint = f"DROP {before.kind.upper()} {before.name} first, then {_VERBS[before.kind]} it anew"
    if after.since is not None:
        raise wrong(
            f'{before.kind} "{before.name}" goes on and cannot begin in the past',
            name.at,
            hint=hint,
        )
    columns = [tuple(zip(each.names, each.types, strict=True)) for each in (before, after)]
    if columns[0] != columns[1]:
        shown = ", ".join(f"{column} {type_.value}" for column, type_ in columns[0])
        raise wrong(
            f'the rows of {before.kind} "{before.name}" would have other columns',
            name.at,
            expected=f"those that it has: {shown}",
            hint=hint,
        )
    if before.arrivals != after.arrivals:
        said = "tells" if before.arrivals else "does not tell"
        raise wrong(
            f'query "{before.name}" {said} arrivals only',
            name.at,
            expected="the same of its successor",
            hint=hint,
        )
    return replace(after, name=before.name)


def _drop(catalog: Catalog, statement: s.Drop, load: Load) -> Catalog:
    kind, name = statement.kind, statement.name
    if statement.if_exists and catalog.get(kind, name.text) is None:
        return catalog
    found = catalog.find(kind, name, verb="DROP")
    users = list(islice(KINDS[kind].users(catalog, found.name), MOST_USERS))
    if users:
        kinds, names = list(dict.fromkeys(what for what, _ in users)), [user for _, user in users]
        many = kinds[0] if len(names) == 1 else " and ".join(PLURALS[what] for what in kinds)
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise wrong(
            f'{kind} "{found.name}" is used by {many} {listed}',
            name.at,
            hint="; ".join(f"DROP {what.upper()} {user}" for what, user in users[:3]) + " first",
        )
    return catalog.remove(kind, found.name)


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
    return _with_rows(catalog, table, rows, statement.name)


def _insert(catalog: Catalog, statement: s.InsertRows, load: Load) -> Catalog:
    """The table with more rows, which reach the answers as deltas."""
    table = _table_to_change(catalog, statement.name)
    rows = inserted_rows(table, statement)
    held = catalog.contents[fold(table.name)].arrow
    rows = TableRows(pa.concat_tables([held, rows.arrow.cast(held.schema)]))
    return _with_rows(catalog, table, rows, statement.name)


def _delete(catalog: Catalog, statement: s.DeleteRows, load: Load) -> Catalog:
    """The table without the rows for which a condition holds; the same catalog if there are
    none."""
    table = _table_to_change(catalog, statement.name)
    held = catalog.contents[fold(table.name)]
    kept: list[int] = []
    if statement.where is not None:
        binder = ExpressionBinder((Source(statement.name.text, table),))
        condition = binder.condition(statement.where)
        rows = enumerate(held.tuples())
        kept = [i for i, row in rows if evaluate(condition, (row,)) is not True]
    if len(kept) == len(held):
        return catalog
    left = TableRows(held.arrow.take(pa.array(kept, pa.int64())))
    return _with_rows(catalog, table, left, statement.name)


def _table_to_change(catalog: Catalog, name: s.Name) -> Table:
    if catalog.get("stream", name.text) is not None:
        raise wrong(
            f'"{name.text}" is a stream, and holds what its readings say',
            name.at,
            expected="the name of a table",
            hint="push readings to it; an object leaves by disappear or by the option timeout",
        )
    table: Table = catalog.find("table", name)
    return table


def _with_rows(catalog: Catalog, table: Table, rows: TableRows, name: s.Name) -> Catalog:
    """A catalog with other rows of a table, if they are such that its queries can read them."""
    check_rows(table, rows, name)
    changed = catalog.put("table", table, catalog.text_of("table", table.name), rows)
    for query in catalog.queries.values():
        if table.name in query.tables and query.query_table is not None:
            check_regions_of(changed, query, name.at)
    return changed


def _reset_time(catalog: Catalog, statement: s.ResetTime, load: Load) -> Catalog:
    """The stream is as if it had told nothing yet; who reads it is told what that changes."""
    stream: Stream = catalog.find("stream", statement.name)
    return catalog.reset(stream.name)


def _alter(catalog: Catalog, statement: s.AlterStream, load: Load) -> Catalog:
    """The stream with other options, from now on."""
    stream: Stream = catalog.find("stream", statement.name)
    check_alterable(stream, statement.options)
    text = with_options(catalog.text_of("stream", stream.name), statement.options)
    made = parse_one(text)
    assert isinstance(made, s.CreateStream)
    try:
        altered = define_stream(made)
    except PlaceError as error:
        raise wrong(error.message, statement.options[0].value.at, hint=error.hint) from None
    return catalog if altered == stream else catalog.put("stream", altered, text)


_OTHERS: dict[type[s.Statement], Callable[[Catalog, Any, Load], Catalog]] = {
    s.Drop: _drop,
    s.RefreshTable: _refresh,
    s.InsertRows: _insert,
    s.DeleteRows: _delete,
    s.ResetTime: _reset_time,
    s.AlterStream: _alter,
}
"""What statements do that change the catalog and define nothing."""
