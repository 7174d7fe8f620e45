"""What a client may see at all: the streams and tables of its name, whole or by a condition.

Queries belong to a name, so what a name sees belongs to it, too, and does not change while there is
anything that was made with it. A statement of such a client is bound with a catalog that has only
what it sees, so that errors cannot tell of anything else; conditions are put into its WHERE, and
the bound query must then hold them. What cannot be held so is refused.
"""

from __future__ import annotations

from dataclasses import replace

from place.model.result import Result
from place.plan.bind_expression import ExpressionBinder
from place.plan.bind_query import bind_query
from place.plan.bind_trigger import bind_trigger
from place.plan.catalog import Catalog, fold
from place.plan.definitions import Definitions
from place.plan.expression import conjuncts
from place.plan.past import as_of
from place.plan.query import Query
from place.server.errors import Refused
from place.server.grants import Grant, Sight, condition_of
from place.sql import statements as s
from place.sql.dialect import parse_one
from place.sql.narrow import narrowed, quoted
from place.statements import listing


def seen_of(catalog: Catalog, sight: Sight) -> Catalog:
    """The catalog with what is seen; queries, sinks and pins have rules of their own."""
    empty = Catalog()
    return replace(
        catalog,
        streams=Definitions({n: each for n, each in catalog.streams.items() if n in sight}),
        tables=Definitions({n: each for n, each in catalog.tables.items() if n in sight}),
        queries=empty.queries,
        sinks=empty.sinks,
        pins=empty.pins,
    )


def confine(catalog: Catalog, sight: Sight, statement: s.Statement, sql: str) -> str:
    """The text of a statement as it is executed for somebody who does not see everything."""
    target = statement.target if isinstance(statement, s.Explain) else statement
    if isinstance(statement, s.Explain) and any(each.condition for each in sight.values()):
        # Plans follow what was counted, and tell it: the objects of others are among that.
        raise Refused(
            403, "not_allowed", "EXPLAIN is not for those who see a stream by a condition"
        )
    known = seen_of(catalog, sight)
    if isinstance(target, s.CreateTrigger):
        _check_whole(bind_trigger(known, target), sight, "a trigger over")
        return sql
    if isinstance(target, s.RegisterQuery):
        select: s.Select = target.select
    elif isinstance(target, s.Select):
        select = target
    else:
        return sql
    query = _bound(known, select)  # errors of theirs, before anything is put in
    _check_focals(query, select, sight)
    wanted = [
        (source.alias.text, grant)
        for source in select.sources
        if (grant := sight.get(fold(source.relation.text))) is not None and grant.condition
    ]
    if not wanted:
        return sql
    made = narrowed(sql, [condition_of(catalog, grant, alias) for alias, grant in wanted])
    _check_held(known, made, wanted)
    return made


def _bound(known: Catalog, select: s.Select) -> Query:
    """The meaning of a SELECT about now or about the past."""
    return bind_query(known, "", select) if select.past is None else as_of(known, select).query


def _check_focals(query: Query, select: s.Select, sight: Sight) -> None:
    """Where an object is that leads a query can be told from its answer."""
    led = {fold(focal.stream) for focal in query.focals}
    if query.query_table is not None and query.query_table.focal_stream is not None:
        led.add(fold(query.query_table.focal_stream))
    # Whatever else an answer may depend on besides FROM, where conditions can be put.
    asked = {fold(source.relation.text) for source in select.sources}
    led |= {fold(name) for name in (*query.streams, *query.tables)} - asked
    for name in sorted(led):
        if sight[name].condition is not None:
            raise Refused(
                403,
                "not_allowed",
                f'objects of "{sight[name].name}" cannot lead a query of yours: you see that stream'
                " by a condition",
                hint="name a place instead: INSIDE (x, y, radius), kNN (k, x, y)",
            )


def _check_whole(query: Query, sight: Sight, what: str) -> None:
    for name in sorted({*query.streams, *query.tables}):
        if sight[fold(name)].condition is not None:
            raise Refused(
                403,
                "not_allowed",
                f'{what} "{name}" is not for those who see it by a condition',
                hint="register queries over it",
            )


def _check_held(known: Catalog, sql: str, wanted: list[tuple[str, Grant]]) -> None:
    """Look at the query that comes of a text: every condition must be one that every row meets."""
    statement = parse_one(sql)
    target = statement.target if isinstance(statement, s.Explain) else statement
    select = target.select if isinstance(target, s.RegisterQuery) else target
    assert isinstance(select, s.Select)
    query = _bound(known, select)
    held = conjuncts(query.where) if query.where is not None else []
    for alias, grant in wanted:
        text = f"SELECT * FROM {quoted(grant.name)} {quoted(alias)} WHERE "
        probe = parse_one(text + condition_of(known, grant, alias))
        assert isinstance(probe, s.Select)
        assert probe.where is not None
        expected = conjuncts(ExpressionBinder(query.sources).condition(probe.where))
        if not all(each in held for each in expected):
            raise Refused(
                403,
                "not_allowed",
                f'what you may see of "{grant.name}" cannot be held in this statement',
                hint="write its conditions joined by AND",
            )


def shown_list(sight: Sight, kind: str, result: Result) -> Result:
    """SHOW STREAMS or SHOW TABLES: what is seen, and no counts of what is seen in part."""
    if kind not in ("stream", "table"):
        return result
    rows = []
    for row in result.rows:
        grant = sight.get(fold(str(row[0])))
        if grant is not None:
            is_whole = grant.condition is None
            rows.append(row if is_whole else tuple(None if type(v) is int else v for v in row))
    return listing(kind, rows)


def check_seen(catalog: Catalog, sight: Sight, name: str) -> None:
    """Raise as if it were not there if a stream or table is not seen."""
    is_relation = fold(name) in catalog.streams or fold(name) in catalog.tables
    if is_relation and fold(name) not in sight:
        raise Refused(404, "unknown_name", f'"{name}" does not exist')
