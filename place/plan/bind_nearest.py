"""Binding kNN and RNN: how many neighbours, of what, and beside which other clauses."""

from __future__ import annotations

from place.model.space import Space
from place.plan.bind_from import not_in_from
from place.plan.bind_objects import bind_focal
from place.plan.bind_place import check_place, need_one_space, need_position
from place.plan.catalog import Catalog
from place.plan.expression import conjuncts, sources_of
from place.plan.limits import check_neighbours
from place.plan.query import Around, Focal, Nearest, PlaceGroup, Query, Source
from place.sql import statements as s
from place.sql.limits import current
from place.sql.statements import Position, wrong


def bind_nearest(
    catalog: Catalog,
    clause: s.NearestClause | None,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
) -> Nearest | None:
    """The neighbours that kNN or RNN asks for, or a StatementError."""
    if clause is None:
        return None
    k = clause.k.value
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise wrong(
            f"{clause.name} asks for {k if isinstance(k, int | float) else repr(k)} neighbours",
            clause.k.at,
            expected=f"a whole number from 1 to {current().neighbours:,}",
        )
    check_neighbours(k, clause.name, clause.k.at)
    if clause.around is not None:
        return _bind_each(clause, clause.around, k, sources)
    need_position(sources[subject].relation, clause.at, clause.name)
    if clause.group is not None:
        return Nearest(k, None, None, group=_bind_group(catalog, clause, sources, subject, space))
    if clause.focal is not None:
        focal = bind_focal(catalog, clause.focal, sources, subject, space, clause.name)
        return Nearest(k, None, focal, is_reverse=clause.is_reverse)
    if clause.point is None:
        raise wrong(f"{clause.name} has no point", clause.at)
    check_place(clause.point, space, clause.at)
    return Nearest(k, clause.point, None, is_reverse=clause.is_reverse)


def _bind_group(
    catalog: Catalog,
    clause: s.NearestClause,
    sources: tuple[Source, ...],
    subject: int,
    space: Space,
) -> PlaceGroup:
    """`SUM OF (…)`: the places of a group."""
    group = clause.group
    assert group is not None
    places: list[tuple[float, float] | Focal] = []
    for place in group.places:
        if isinstance(place, s.Focal):
            places.append(bind_focal(catalog, place, sources, subject, space, clause.name))
        else:
            check_place(place, space, group.at)
            places.append(place)
    return PlaceGroup(group.total, tuple(places))


def _bind_each(
    clause: s.NearestClause, around: s.Name, k: int, sources: tuple[Source, ...]
) -> Nearest:
    """`kNN (k, name)`: the k nearest of another source around each element of this one."""
    named = [i for i, s in enumerate(sources) if s.alias.casefold() == around.text.casefold()]
    if not named:
        raise not_in_from(around, sources)
    (centre,) = named
    need_position(sources[centre].relation, around.at, "kNN")
    others = [
        i
        for i, s in enumerate(sources)
        if i != centre and not s.is_hidden and None not in (s.relation.x, s.relation.y)
    ]
    streams = [i for i in others if sources[i].is_stream]
    if not others:
        raise wrong(
            f'kNN around "{around.text}" has nobody to choose from',
            clause.at,
            expected="another relation with x and y in FROM",
            hint=f"write FROM {sources[centre].relation.name} {around.text}, Drivers d …"
            f" kNN ({k}, {around.text})",
        )
    among = next(iter(streams), others[0])
    need_one_space(sources[among].relation, sources[centre].relation, around.at)
    return Nearest(k, None, None, centre, among)


def check_nearest(query: Query, clause: s.NearestClause | None) -> None:
    """Raise a StatementError where kNN or RNN has no meaning beside other clauses."""
    nearest = query.nearest
    if nearest is None:
        return
    at = clause.at if clause is not None else None
    chosen = query.subject if nearest.among is None else nearest.among
    if query.window is not None or query.sources[chosen].window is not None:
        raise wrong(
            f"{nearest.name} cannot be combined with WINDOW",
            at,
            hint=f"{nearest.name} speaks of objects now, a window holds readings"
            if nearest.among is None
            else f'kNN takes the nearest of "{query.sources[chosen].alias}", which are objects'
            " now; a window holds readings",
        )
    if query.query_table is not None:
        raise wrong(
            f"{nearest.name} cannot be combined with a query table",
            at,
            hint=f"register one {nearest.name} query for each focal object",
        )
    if nearest.is_reverse:
        _check_reverse(query, at)


def _check_reverse(query: Query, at: Position | None) -> None:
    """Who competes for being near must follow from the objects alone, each by itself."""
    if any(i != query.subject and not s.is_hidden for i, s in enumerate(query.sources)):
        raise wrong(
            "RNN is over one relation, whose objects are each other's neighbours",
            at,
            expected="one stream or table in FROM",
            hint="write what WHERE has to know into the readings, or join the answer elsewhere",
        )
    if isinstance(query.inside, Around):
        raise wrong(
            "RNN cannot be combined with a region that moves",
            at,
            hint="write INSIDE with a region that stands still, or leave it out: who has the focal"
            " object as a neighbour is seldom far from it",
        )
    if any(sources_of(c) - {query.subject} for c in conjuncts(query.where)):
        raise wrong(
            "RNN cannot be combined with WHERE … FOCAL",
            at,
            hint="WHERE says who competes for being near, before anybody is near to anybody;"
            " DISTANCE(…, FOCAL) may stand in SELECT",
        )
