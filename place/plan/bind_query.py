"""Binding a SELECT: which relations, which object is the subject, which region, which rows.

One function reads as the meaning of the clauses in their order; each clause is bound by one
function of its own.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from place.errors import PlaceError
from place.model.schema import lasting
from place.model.shape import Circle, Polygon, Rectangle, Shape, ShapeError, make_ring, settle
from place.model.space import Space
from place.model.time import parse_timestamp
from place.plan.bind_areas import bind_areas, bind_confirm, bind_dwell, bind_leave, check_stays
from place.plan.bind_expression import ExpressionBinder
from place.plan.bind_from import (
    bind_sources,
    bind_window,
    check_streams,
    find_subject,
    place_window,
)
from place.plan.bind_nearest import bind_nearest, check_nearest
from place.plan.bind_objects import bind_focal, check_objects
from place.plan.bind_outputs import bind_outputs
from place.plan.bind_place import FOCAL, need_one_space, need_position
from place.plan.bind_possible import check_possible
from place.plan.bind_query_table import bind_query_table
from place.plan.catalog import Catalog, fold
from place.plan.expression import conjunction, conjuncts, sources_of
from place.plan.query import Around, Focal, Nearest, Query, Source
from place.sql import statements as s
from place.sql.statements import Inside, Select, position_of, wrong

FILTER_HINTS = ("INSIDE FIRST", "INSIDE LAST")
JOIN_HINTS = ("HASH", "GRID", "CLUSTERS", "BITMAPS", "SCAN")


def bind_query(catalog: Catalog, name: str, select: Select) -> Query:
    """The meaning of a SELECT, or a StatementError that says which part has none."""
    sources, select = bind_sources(catalog, select)
    plain, predicates = split_where(select.where)
    query_table = bind_query_table(catalog, sources, predicates)
    subject = find_subject(select, sources, query_table, predicates)
    space = sources[subject].relation.space
    window = bind_window(select, sources, subject)
    check_streams(select, sources, query_table, window)
    inside = bind_inside(catalog, select.inside, sources, subject, space)
    nearest = bind_nearest(catalog, select.nearest, sources, subject, space)
    if nearest is not None and nearest.around is not None:
        centre = sources[nearest.around].relation
        space = centre.space
        if select.inside is not None:
            need_one_space(centre, sources[subject].relation, select.inside.at)
    bind_areas(
        select,
        sources,
        subject,
        lambda clause, source, space: bind_inside(catalog, clause, sources, source, space),
    )
    readable = sources + _hidden(catalog, inside, nearest)
    binder = ExpressionBinder(readable)
    placed = [(c, position_of(p)) for p in plain for c in conjuncts(binder.condition(p))]
    check_possible(placed)
    where = conjunction([condition for condition, _ in placed])
    outputs = bind_outputs(select, readable)
    read = outputs.sources() | (sources_of(where) if where is not None else frozenset())
    query = Query(
        name=name,
        sources=tuple(s for i, s in enumerate(readable) if not s.is_hidden or i in read),
        subject=subject,
        space=space,
        where=where,
        query_table=query_table,
        inside=inside,
        nearest=nearest,
        window=window,
        groups=outputs.groups,
        aggregates=outputs.aggregates,
        having=outputs.having,
        outputs=outputs.outputs,
        distinct=select.distinct,
        region=_region_name(catalog, select),
        dwell=bind_dwell(select.inside),
        leave=bind_leave(select.inside),
        confirm=bind_confirm(select.inside),
    )
    check_nearest(query, select.nearest)
    query = _with_focals(catalog, place_window(query, select))
    check_objects(query, select)
    _check_combinations(query, select, predicates)
    check_stays(query, select.inside)
    return replace(query, hint=_bind_hint(query, select))


def _hidden(
    catalog: Catalog, inside: Shape | Around | None, nearest: Nearest | None
) -> tuple[Source, ...]:
    """The focal objects of a query as sources, in case that DISTANCE reads FOCAL."""
    focals: list[Focal] = [inside.focal] if isinstance(inside, Around) else []
    focals += nearest.focals if nearest is not None else ()
    return tuple(
        Source(FOCAL, lasting(catalog.streams[fold(focal.stream)]), key=focal.key)
        for focal in dict.fromkeys(focals)
    )


def _with_focals(catalog: Catalog, query: Query) -> Query:
    """In a join focal objects are sources like others: what follows one that is gone is gone.

    Not so where readings of a window are asked by a region: it counts as it was at their instants.
    """
    if not query.is_join:
        return query
    inside = query.inside if query.sources[query.subject].window is None else None
    known = {(source.relation.name, source.key) for source in query.sources}
    missing = tuple(
        source
        for source in _hidden(catalog, inside, query.nearest)
        if (source.relation.name, source.key) not in known
    )
    return replace(query, sources=query.sources + missing)


def _check_combinations(query: Query, select: Select, predicates: list[Inside]) -> None:
    """Raise a StatementError where clauses have no meaning together."""
    if query.query_table is not None and query.is_join:
        hidden = any(source.is_hidden for source in query.sources)
        raise wrong(
            "a query table cannot be combined with "
            + ("FOCAL" if hidden else "a WINDOW behind a name of FROM"),
            position_of(predicates[0]),
            hint="register one query for each focal object"
            if hidden
            else "write WINDOW at the end: it holds the readings that qualify",
        )


def _bind_hint(query: Query, select: Select) -> str | None:
    if select.hint is None:
        return None
    hint, at = select.hint.text, select.hint.at
    if hint not in FILTER_HINTS + JOIN_HINTS:
        raise wrong(
            f"{hint} is not a hint",
            at,
            expected=" or ".join(f"/*+ {hint} */" for hint in FILTER_HINTS + JOIN_HINTS),
        )
    if hint in JOIN_HINTS and len(query.sources) < 2:
        raise wrong(
            f"{hint} says how the sources of FROM are joined, and there is one",
            at,
            hint="leave the hint out",
        )
    if hint in FILTER_HINTS and query.is_join:
        raise wrong(
            f"{hint} says which filter of one stream comes first, and here streams are joined",
            at,
            expected=" or ".join(f"/*+ {hint} */" for hint in JOIN_HINTS),
        )
    return hint


def _region_name(catalog: Catalog, select: Select) -> str | None:
    if select.inside is None or select.inside.region is None:
        return None
    return str(catalog.find("region", select.inside.region).name)


def moment_of(literal: s.Literal) -> int:
    """The instant that is written."""
    try:
        return parse_timestamp(str(literal.value))
    except PlaceError as error:
        raise wrong(error.message, literal.at, hint=error.hint) from None


# WHERE


def split_where(where: exp.Expr | None) -> tuple[list[exp.Expr], list[Inside]]:
    """The conditions of WHERE, and the `O INSIDE Q` among them."""
    plain: list[exp.Expr] = []
    predicates: list[Inside] = []
    stack = [where] if where is not None else []
    while stack:
        part = stack.pop()
        if isinstance(part, exp.And):
            stack.extend((part.expression, part.this))
        elif isinstance(part, exp.Paren):
            stack.append(part.this)
        elif isinstance(part, Inside):
            predicates.append(part)
        else:
            plain.append(part)
    return plain, predicates


# INSIDE


def make_shape(spec: s.ShapeSpec) -> Shape:
    """The shape of RECTANGLE, CIRCLE or POLYGON as written."""
    try:
        if spec.kind == "RECTANGLE":
            return Rectangle(*spec.numbers)
        if spec.kind == "CIRCLE":
            return Circle(*spec.numbers)
        return Polygon(tuple(make_ring(list(ring)) for ring in spec.rings))
    except ShapeError as error:
        raise wrong(error.message, spec.at) from None


def settled(shape: Shape, space: Space, at: s.Position) -> Shape:
    """The shape as it is tested in a space, or a StatementError."""
    try:
        return settle(shape, space)
    except ShapeError as error:
        raise wrong(error.message, at) from None


def bind_inside(
    catalog: Catalog,
    clause: s.InsideClause | None,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
) -> Shape | Around | None:
    """The area of INSIDE, or a StatementError."""
    if clause is None:
        return None
    need_position(sources[subject].relation, clause.at, "INSIDE")
    if clause.region is not None:
        name = fold(clause.region.text)
        if name not in catalog.regions and any(fold(source.alias) == name for source in sources):
            raise wrong(
                f'"{clause.region.text}" is not a region but a relation in FROM',
                clause.region.at,
                hint=f"write WHERE {sources[subject].alias} INSIDE {clause.region.text}",
            )
        region = catalog.find("region", clause.region)
        return settled(region.shape, space, clause.region.at)
    if clause.shape is not None:
        return settled(make_shape(clause.shape), space, clause.shape.at)
    if clause.focal is None:
        raise wrong("INSIDE has no region", clause.at)
    for extent in clause.extents:
        if extent < 0:
            raise wrong(f"a length cannot be negative: {extent:g}", clause.at)
    focal = bind_focal(catalog, clause.focal, sources, subject, space, "INSIDE")
    return Around(focal, clause.extents)
