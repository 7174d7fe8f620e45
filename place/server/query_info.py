"""What is told of a query to those who list it and draw it: where it looks, what its rows hold, and
how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from place.model.schema import Stream
from place.model.shape import Circle, Polygon, Shape
from place.plan.catalog import fold
from place.plan.expression import Column
from place.plan.infer import trigger_of
from place.plan.query import Around, Focal, Query
from place.server.access import Who
from place.server.state import Server
from place.server.store import Suspended
from place.statements import masked


class ObjectPlace(BaseModel):
    """Where an object is: a place that moves with it."""

    stream: str
    key: int | float | str | bool


class FocalObject(ObjectPlace):
    """The object that the region of INSIDE moves with, and how far that reaches: a radius, or two
    sides."""

    extents: list[float]


class NearestPlaces(BaseModel):
    """What kNN is nearest to, or whose place RNN asks for: a point, an object, or a group of these.
    None of them where each element of a source is a centre."""

    k: int
    reverse: bool
    """Whether it is RNN."""
    total: str | None
    """What counts of the distances to a group: SUM, MAX or MIN."""
    places: list[list[float] | ObjectPlace]


class AlertPlace(BaseModel):
    """A variable of a trigger, and the columns that hold the key, x and y of its reading."""

    name: str
    stream: str
    key: int | None
    x: int | None
    y: int | None


class KeyColumn(BaseModel):
    """A column of a query's rows that holds the keys of a stream's objects."""

    stream: str
    column: int


class QueryInfo(BaseModel):
    """A registered query, with what there is to draw of it."""

    name: str
    sql: str
    kind: str
    moving: bool
    arrivals: bool
    """Whether deltas only tell rows that come, as those of a trigger do."""
    streams: list[str]
    columns: list[str]
    types: list[str]
    keys: list[KeyColumn]
    identity: list[int] | None
    """The columns by which a row is the same one as before when the others change: the keys, or
    what rows are grouped by. None if all of them are needed."""
    region: dict[str, Any] | None
    region_name: str | None
    """The name of the region that INSIDE was written with."""
    focal: FocalObject | None
    nearest: NearestPlaces | None
    places: list[AlertPlace]
    """Which columns of an alert say where the readings of a trigger are."""
    owner: str
    size: int | None
    alerts: int | None
    """How many alerts a trigger has told since it began; None of a query."""
    kept: int | None
    """How many readings a trigger keeps, once for each variable that they may stand for."""
    state: str
    """`running`, or `suspended` for what it cost."""
    reason: str | None
    """Why it is suspended."""


@dataclass(frozen=True)
class Spot:
    """Where in a row the place of a variable's reading stands."""

    name: str
    stream: Stream
    key: int | None
    x: int | None
    y: int | None

    @property
    def has_place(self) -> bool:
        return self.x is not None and self.y is not None


def spots_of(query: Query) -> list[Spot]:
    """The variables of a trigger whose places can be told from its rows."""
    found = []
    for number in range(trigger_of(query).variables):
        source = query.sources[number]
        stream = source.relation
        assert isinstance(stream, Stream)
        columns = {
            output.expression.index: place
            for place, output in reversed(list(enumerate(query.outputs)))
            if isinstance(output.expression, Column) and output.expression.source == number
        }

        def place_of(column: int | None, columns: dict[int, int] = columns) -> int | None:
            return None if column is None else columns.get(column)

        spot = Spot(source.alias, stream, *map(place_of, (stream.key, stream.x, stream.y)))
        if spot.has_place or (spot.key is not None and stream.x is not None):
            found.append(spot)
    return found


def describe(server: Server, query: Query) -> dict[str, Any]:
    """A query as others see it: the values of a QueryInfo."""
    texts = server.session.catalog.texts.get("query")
    text = texts.get(fold(query.name), "") if texts is not None else ""
    counts = server.trigger_counts(query) if query.trigger is not None else {}
    info = QueryInfo(
        name=query.name,
        sql=masked(text),
        kind=kind_of(query),
        moving=bool(query.focals) or (query.query_table is not None and _leads(query)),
        arrivals=query.only_adds,
        streams=sorted(query.streams),
        columns=list(query.names),
        types=[kind.value for kind in query.types],
        keys=[KeyColumn(stream=name, column=at) for name, at in key_places(query)],
        identity=identity_of(query),
        region=_region(query),
        region_name=query.region,
        focal=_focal(query),
        nearest=_nearest(query),
        places=_alert_places(query),
        owner=server.owned(query.name).owner,
        size=server.hub.size(query.name),
        alerts=counts.get("alerts"),
        kept=counts.get("kept"),
        state="running",
        reason=None,
    )
    return info.model_dump()


def describe_suspended(query: Suspended) -> dict[str, Any]:
    """The same of a query that is suspended: what there was to draw of it is not known."""
    info = QueryInfo(
        name=query.name,
        sql=masked(query.statement),
        kind="suspended",
        moving=False,
        arrivals=False,
        streams=[],
        columns=[],
        types=[],
        keys=[],
        identity=None,
        region=None,
        region_name=None,
        focal=None,
        nearest=None,
        places=[],
        owner=query.owner,
        size=None,
        alerts=None,
        kept=None,
        state="suspended",
        reason=query.reason,
    )
    return info.model_dump()


def described(server: Server, who: Who) -> list[dict[str, Any]]:
    """All queries that somebody may see, those last that are suspended."""
    running = [describe(server, query) for query in server.visible(who)]
    mine = [server.find_suspended(who, name) for name in list(server.suspended)]
    return running + [describe_suspended(each) for each in mine if each is not None]


def kind_of(query: Query) -> str:
    """What kind of question it is: `knn`, `table` (of queries), `range`, `filter`, or `trigger`."""
    if query.trigger is not None:
        return "trigger"
    if query.nearest is not None:
        return "knn"
    if query.query_table is not None:
        return "table"
    return "range" if query.inside is not None else "filter"


def key_places(query: Query) -> list[tuple[str, int]]:
    """The streams whose keys stand in the rows of a query, and where."""
    if query.groups is not None:
        return []
    found: dict[str, int] = {}
    for place, output in enumerate(query.outputs):
        column = output.expression
        if isinstance(column, Column):
            relation = query.sources[column.source].relation
            if isinstance(relation, Stream) and column.index == relation.key:
                found.setdefault(relation.name, place)
    return list(found.items())


def identity_of(query: Query) -> list[int] | None:
    """The columns that say which row is which; none at all where there is only one row."""
    if query.only_adds:
        return None
    if query.groups is None:
        return [place for _, place in key_places(query)] or None
    places: dict[int, int] = {}
    for place, output in enumerate(query.outputs):
        column = output.expression
        if isinstance(column, Column) and column.index < len(query.groups):
            places.setdefault(column.index, place)
    return list(places.values()) if len(places) == len(query.groups) else None


def _leads(query: Query) -> bool:
    return query.query_table is not None and query.query_table.focal_stream is not None


def _region(query: Query) -> dict[str, Any] | None:
    """The region of INSIDE, if it does not move."""
    if query.inside is None or isinstance(query.inside, Around):
        return None
    return shape_of(query.inside)


def shape_of(shape: Shape) -> dict[str, Any]:
    """A shape in the manner of GeoJSON, which has no circles and no boxes of its own."""
    if isinstance(shape, Circle):
        return {"type": "Circle", "coordinates": [shape.x, shape.y], "radius": shape.r}
    if isinstance(shape, Polygon):
        rings = [[list(point) for point in (*ring, ring[0])] for ring in shape.rings]
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "Rectangle", "coordinates": [shape.x1, shape.y1, shape.x2, shape.y2]}


def _focal(query: Query) -> FocalObject | None:
    if not isinstance(query.inside, Around):
        return None
    focal, extents = query.inside.focal, list(query.inside.extents)
    return FocalObject(stream=focal.stream, key=focal.key, extents=extents)


def _nearest(query: Query) -> NearestPlaces | None:
    nearest = query.nearest
    if nearest is None:
        return None
    group = nearest.group
    places = group.places if group is not None else (nearest.point, nearest.focal)
    return NearestPlaces(
        k=nearest.k,
        reverse=nearest.is_reverse,
        total=group.total if group is not None else None,
        places=[_place(place) for place in places if place is not None],
    )


def _place(place: tuple[float, float] | Focal) -> list[float] | ObjectPlace:
    if isinstance(place, Focal):
        return ObjectPlace(stream=place.stream, key=place.key)
    return list(place)


def _alert_places(query: Query) -> list[AlertPlace]:
    spots = spots_of(query) if query.trigger is not None else []
    return [
        AlertPlace(name=spot.name, stream=spot.stream.name, key=spot.key, x=spot.x, y=spot.y)
        for spot in spots
    ]


def key_name(stream: Stream) -> str | None:
    """The name of the key column, if there are objects."""
    return None if stream.key is None else stream.columns[stream.key].name
