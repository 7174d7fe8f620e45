"""Binding areas that are conditions: `INSIDE Downtown OR NOT INSIDE Park`, `OUTSIDE Harbour`.

The one area by which a query finds its objects is its clause INSIDE. All others stand among the
expressions, where they may be joined by AND, OR and NOT, counted, grouped by, and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from place.model.schema import Stream
from place.model.shape import Shape
from place.model.space import Space
from place.plan.bind_from import not_in_from
from place.plan.bind_ways import bind_crossing_times, bind_line, bound_way, duration_of
from place.plan.expression import Column, Expression, Lies, Not
from place.plan.query import Around, Query, Source
from place.sql.statements import (
    Duration,
    InsideArea,
    InsideClause,
    Literal,
    Select,
    position_of,
    wrong,
)

MOST_READINGS = 1_000
"""So many readings CONFIRM may ask for."""
BindArea = Callable[[InsideClause, int, Space], Shape | Around | None]
"""The area of a clause that speaks of a source, in its space."""


def bind_areas(select: Select, sources: tuple[Source, ...], subject: int, bind: BindArea) -> None:
    """Find out what the areas among the expressions of a SELECT are, and leave it with them."""
    by_alias = {source.alias.casefold(): i for i, source in enumerate(sources)}
    for node in _areas(select):
        clause: InsideClause = node.meta["area"]
        source = subject
        if clause.subject is not None:
            found = by_alias.get(clause.subject.text.casefold())
            if found is None:
                raise not_in_from(clause.subject, sources)
            source = found
        if clause.focal is not None:
            raise wrong(
                "a region that moves with an object has to hold for every row",
                clause.at,
                expected="it as the only moving region, joined by AND",
                hint="under OR or NOT, in SELECT and beside another moving region compare"
                " DISTANCE(a, FOCAL)",
            )
        for word, written in _of_stays(clause):
            if written is not None:
                raise wrong(
                    f"{word} speaks of the one area that has to hold for every row",
                    written.at,
                    expected=f"one INSIDE … {word}, joined to the other conditions by AND",
                    hint="under OR or NOT, and for a second area, register another query",
                )
        relation = sources[source].relation
        if clause.line:
            node.meta["bound"] = bind_line(clause, source, relation)
            continue
        if clause.is_way and clause.is_outside:
            raise wrong("a way is inside", clause.at, hint="write NOT PATH INSIDE …")
        shape = bind(clause, source, relation.space)
        name = clause.region.text if clause.region is not None else None
        node.meta["bound"] = (source, shape, relation.space, name)
    bind_crossing_times(select, list(_areas(select)))


def bind_dwell(clause: InsideClause | None) -> int | None:
    """How long an object must have been in the area of INSIDE, in microseconds."""
    if clause is None or clause.dwell is None:
        return None
    return duration_of(clause.dwell, "FOR")


def bind_leave(clause: InsideClause | None) -> float | None:
    """How far from the area of INSIDE who was in it has to be to have left it."""
    if clause is None or clause.leave is None:
        return None
    value = clause.leave.value
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise wrong(
            f"LEAVE BEYOND {value!r} is no distance",
            clause.leave.at,
            expected="a number above 0: a length of the plane, or metres",
            hint="write INSIDE area LEAVE BEYOND 50",
        )
    return float(value)


def bind_confirm(clause: InsideClause | None) -> int | None:
    """How many readings in a row have to say that an object came into the area, or left it."""
    if clause is None or clause.confirm is None:
        return None
    value = clause.confirm.value
    if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= MOST_READINGS:
        raise wrong(
            f"CONFIRM {value!r} READINGS",
            clause.confirm.at,
            expected=f"a whole number from 2 to {MOST_READINGS:,}",
            hint="write INSIDE area CONFIRM 3 READINGS",
        )
    return value


def _of_stays(clause: InsideClause) -> list[tuple[str, Duration | Literal | None]]:
    """What may stand behind an area that speaks of how objects came there."""
    return [("FOR", clause.dwell), ("LEAVE", clause.leave), ("CONFIRM", clause.confirm)]


def check_stays(query: Query, clause: InsideClause | None) -> None:
    """Raise a StatementError where FOR, LEAVE or CONFIRM has no meaning beside other clauses."""
    given = [(w, p) for w, p in _of_stays(clause) if p is not None] if clause is not None else []
    if clause is None or not given:
        return
    word, at = given[0][0], given[0][1].at
    relation = query.sources[query.subject].relation
    beside = {
        "a region that moves": clause.dwell is None and clause.focal is not None,
        "kNN" if query.nearest is None else query.nearest.name: query.nearest is not None,
        "WINDOW": len(query.windows) > 0,
        "a query table": query.query_table is not None,
        "several streams": query.is_join,
        "a table of places": not query.sources[query.subject].is_stream,
    }
    for what, is_there in beside.items():
        if is_there:
            raise wrong(
                f"{word} cannot be combined with {what}",
                at,
                expected="the objects of one stream, perhaps joined with tables",
                hint=f"{word} speaks of since when an object has been in one region",
            )
    if word == "CONFIRM" and isinstance(relation, Stream) and relation.time is None:
        raise wrong(
            f'CONFIRM tells readings apart by their times, and stream "{relation.name}" has no'
            " column of it",
            at,
            hint="declare a TIMESTAMP column, and send times with readings",
        )


def _areas(select: Select) -> Iterator[InsideArea]:
    written = [select.where, select.having, *select.group_by]
    written += [item.expression for item in select.items]
    for expression in written:
        for node in expression.walk() if isinstance(expression, exp.Expr) else ():
            if isinstance(node, InsideArea):
                yield node


def bound_area(
    node: InsideArea, sources: tuple[Source, ...], shown: Callable[[int, int], str]
) -> Expression:
    """An area as a condition on the place of the source that it speaks of."""
    if "bound" not in node.meta:
        raise wrong("INSIDE cannot stand here", position_of(node))
    if node.meta["area"].is_way:
        return bound_way(node, sources, shown)
    source, shape, space, name = node.meta["bound"]
    relation = sources[source].relation
    x, y = (
        Column(source, column, relation.columns[column].type, shown(source, column))
        for column in (relation.x, relation.y)
    )
    lies = Lies(x, y, shape, space, name)
    return Not(lies) if node.meta["area"].is_outside else lies
