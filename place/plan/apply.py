"""What a statement does to the catalog: the next version of it, or an error and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from place.errors import PlaceError
from place.model.schema import Stream, Table
from place.plan.bind_query_table import check_regions_of
from place.plan.catalog import PLURALS, Catalog
from place.plan.define import Load, check_rows
from place.plan.kinds import KINDS, kind_of
from place.sql import statements as s
from place.sql.statements import wrong

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
    catalog.check_free(kind.name, statement.name)
    definition, rows = kind.define(catalog, statement, load)
    return catalog.put(kind.name, definition, text, rows)


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
    check_rows(table, rows, statement.name)
    refreshed = catalog.put("table", table, catalog.text_of("table", table.name), rows)
    for query in catalog.queries.values():
        if table.name in query.tables and query.query_table is not None:
            check_regions_of(refreshed, query, statement.name.at)
    return refreshed


def _reset_time(catalog: Catalog, statement: s.ResetTime, load: Load) -> Catalog:
    """The stream is as if it had told nothing yet; who reads it is told what that changes."""
    stream: Stream = catalog.find("stream", statement.name)
    return catalog.reset(stream.name)


_OTHERS: dict[type[s.Statement], Callable[[Catalog, Any, Load], Catalog]] = {
    s.Drop: _drop,
    s.RefreshTable: _refresh,
    s.ResetTime: _reset_time,
}
"""What statements do that change the catalog and define nothing."""
