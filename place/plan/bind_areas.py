"""Binding areas that are conditions: `INSIDE Downtown OR NOT INSIDE Park`, `OUTSIDE Harbour`.

The one area by which a query finds its objects is its clause INSIDE. All others stand among the
expressions, where they may be joined by AND, OR and NOT, counted, grouped by, and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from place.model.shape import Shape
from place.model.space import Space
from place.plan.bind_from import not_in_from
from place.plan.expression import Column, Lies, Not
from place.plan.query import Around, Source
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
        relation = sources[source].relation
        shape = bind(clause, source, relation.space)
        name = clause.region.text if clause.region is not None else None
        node.meta["bound"] = (source, shape, relation.space, name)


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
