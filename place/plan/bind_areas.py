"""Binding areas that are conditions: `INSIDE Downtown OR NOT INSIDE Park`, `OUTSIDE Harbour`.

The one area by which a query finds its objects is its clause INSIDE. All others stand among the
expressions, where they may be joined by AND, OR and NOT, counted, grouped by, and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from place.errors import PlaceError
from place.model.shape import Shape
from place.model.space import Space
from place.model.time import parse_duration
from place.plan.bind_from import not_in_from
from place.plan.expression import Column, Lies, Not
from place.plan.limits import check_window
from place.plan.query import Around, Query, Source
from place.sql.statements import InsideArea, InsideClause, Select, position_of, wrong

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
        if clause.dwell is not None:
            raise wrong(
                "FOR speaks of the one area that has to hold for every row",
                clause.dwell.at,
                expected="one INSIDE … FOR, joined to the other conditions by AND",
                hint="under OR or NOT, and for a second area, register another query",
            )
        relation = sources[source].relation
        shape = bind(clause, source, relation.space)
        name = clause.region.text if clause.region is not None else None
        node.meta["bound"] = (source, shape, relation.space, name)


def bind_dwell(clause: InsideClause | None) -> int | None:
    """How long an object must have been in the area of INSIDE, in microseconds."""
    if clause is None or clause.dwell is None:
        return None
    try:
        duration = parse_duration(clause.dwell.text)
    except PlaceError as error:
        raise wrong(error.message, clause.dwell.at, hint=error.hint) from None
    if duration == 0:
        raise wrong("FOR no time at all says nothing", clause.dwell.at, hint="leave FOR out")
    check_window(duration, clause.dwell.at)
    return duration


def check_dwell(query: Query, clause: InsideClause | None) -> None:
    """Raise a StatementError where FOR has no meaning beside the other clauses."""
    if query.dwell is None or clause is None or clause.dwell is None:
        return
    beside = {
        "kNN": query.nearest is not None,
        "WINDOW": len(query.windows) > 0,
        "a query table": query.query_table is not None,
        "several streams": query.is_join,
        "a table of places": not query.sources[query.subject].is_stream,
    }
    for what, is_there in beside.items():
        if is_there:
            raise wrong(
                f"FOR cannot be combined with {what}",
                clause.dwell.at,
                expected="the objects of one stream, perhaps joined with tables",
                hint="FOR speaks of how long an object has been in one region",
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
) -> Lies | Not:
    """An area as a condition on the place of the source that it speaks of."""
    if "bound" not in node.meta:
        raise wrong("INSIDE cannot stand here", position_of(node))
    source, shape, space, name = node.meta["bound"]
    relation = sources[source].relation
    x, y = (
        Column(source, column, relation.columns[column].type, shown(source, column))
        for column in (relation.x, relation.y)
    )
    lies = Lies(x, y, shape, space, name)
    return Not(lies) if node.meta["area"].is_outside else lies
