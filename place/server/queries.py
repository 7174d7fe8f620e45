"""Statements, queries and streams over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from place.model import deadline
from place.model.delta import ordered
from place.model.schema import Stream
from place.model.shape import Circle, Polygon, Shape
from place.plan.catalog import fold
from place.plan.constraint_graph import ConstraintGraph, constraint_graph
from place.plan.expression import Column
from place.plan.query import Around, Focal, Query
from place.server.access import Asker, Reader, Who, server_of
from place.server.callers import patient
from place.server.encode import id_after
from place.server.errors import not_found, too_large
from place.server.formats import Format, Rowset, check_position, written
from place.server.state import Server
from place.server.statements import execute, resume
from place.server.store import Suspended
from place.statements import masked

router = APIRouter()


class Statement(BaseModel):
    """One or several statements, with semicolons between them; `at` is a time of the past, of which
    SELECTs are then asked."""

    sql: str
    at: str | None = None


class Executed(BaseModel):
    """What the last statement answers, and how many deltas all of them caused."""

    message: str
    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    deltas: int
    line: str | None
    """The column of the key, if the rows are trajectories: of each object in the order of times."""


class FocalObject(BaseModel):
    """The object that leads a query, and what is around it: a radius, two sides, or k."""

    stream: str
    key: int | float | str | bool
    extents: list[float] = []
    k: int | None = None


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


class StreamInfo(BaseModel):
    """A stream and its counts."""

    name: str
    columns: list[str]
    types: list[str]
    key: str | None
    time: str | None
    space: str
    bounds: list[float] | None
    source: str | None
    objects: int | None
    readings: int | None
    late: int | None
    bad: int | None
    """Counts of the whole stream; None for those who see a part of it."""
    last_reason: str | None
    """Why a reading was set aside last."""


class AnswerNow(BaseModel):
    """The rows of an answer as of a tick, and the id to subscribe after for all that follows."""

    tick: int
    after: str
    columns: list[str]
    types: list[str]
    rows: list[list[Any]]


@router.post("/sql", response_model=Executed)
async def sql(
    request: Request, who: Asker, statement: Statement, form: Format = "json"
) -> Executed | Response:
    """Execute statements. In another format than JSON are the rows of the last one, if it has
    any."""
    server = server_of(request)
    limit = server.limits_of(who).text
    if len(statement.sql) > limit:
        raise too_large(limit)
    async with patient(request) as asker:
        with server.turn(who), deadline.asked_by(asker):
            result, deltas = await to_thread.run_sync(
                execute, server, who, statement.sql, statement.at, limiter=server.asks
            )
    if form != "json" and result.columns:
        rows = Rowset(result.columns, result.types, result.rows, result.line)
        body, media = await to_thread.run_sync(written, form, rows, {})
        return Response(body, media_type=media)
    return Executed(
        message=result.message,
        columns=list(result.columns),
        types=[kind.value for kind in result.types],
        rows=[list(row) for row in result.rows],
        deltas=deltas,
        line=result.line,
    )


@router.get("/queries", response_model=list[QueryInfo])
def list_queries(request: Request, who: Reader) -> Response:
    """The queries that you may see."""
    # There may be many: written in a thread, and not checked again.
    body = json.dumps(described(server_of(request), who))
    return Response(body, media_type="application/json")


@router.get("/queries/{name}", response_model=QueryInfo)
async def show_query(request: Request, who: Reader, name: str) -> dict[str, Any]:
    """One query."""
    server = server_of(request)
    suspended = server.find_suspended(who, name)
    if suspended is not None:
        return describe_suspended(suspended)
    return describe(server, server.find(who, name))


@router.post("/queries/{name}/resume", response_model=QueryInfo)
async def resume_query(request: Request, who: Asker, name: str) -> dict[str, Any]:
    """Register a query again that was suspended for what it cost."""
    server = server_of(request)
    with server.turn(who):
        await to_thread.run_sync(resume, server, who, name, limiter=server.asks)
    return describe(server, server.find(who, name))


@router.get("/queries/{name}/answer", response_model=AnswerNow)
async def answer(request: Request, who: Reader, name: str, form: Format = "json") -> Response:
    """The answer of a query as of the last tick. The headers X-Place-Tick and X-Place-After say
    what `tick` and `after` do."""
    server = server_of(request)
    query = server.find(who, name)
    if form == "geojson":
        check_position(query.names)
    tick, found = await server.hub.answer(query)
    after = id_after(tick)

    def body() -> tuple[bytes, str]:
        rows = list(ordered(tuple(json.loads(text)) for text in found.elements()))
        if form != "json":
            return written(form, Rowset(query.names, query.types, rows), {"tick": tick})
        told = {
            "tick": tick,
            "after": after,
            "columns": query.names,
            "types": [kind.value for kind in query.types],
            "rows": rows,
        }
        return json.dumps(told).encode(), "application/json"

    content, media = await to_thread.run_sync(body)
    headers = {"X-Place-Tick": str(tick), "X-Place-After": after}
    return Response(content, media_type=media, headers=headers)


@router.get("/queries/{name}/constraints", response_model=ConstraintGraph)
def constraints(request: Request, who: Reader, name: str) -> ConstraintGraph:
    """What a trigger asks of the readings of a match: its variables, and bounds between them."""
    server = server_of(request)
    query = server.find(who, name)
    if query.trigger is None:
        raise not_found("trigger", name)
    return constraint_graph(query)


@router.get("/streams", response_model=list[StreamInfo])
async def list_streams(request: Request, who: Reader) -> list[StreamInfo]:
    """All streams that you may see."""
    server = server_of(request)
    runtime, sight = server.runtime, who.sight
    found = []
    for stream in server.session.catalog.streams.values():
        grant = sight.get(fold(stream.name)) if sight is not None else None
        if sight is None:
            told = runtime.statistics(stream.name), runtime.reason(stream.name)
            found.append(_stream(stream, *told))
        elif grant is not None:
            counts = runtime.statistics(stream.name) if grant.condition is None else {}
            found.append(_stream(stream, counts, None))
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
    """Where the query looks, if that does not move."""
    if query.inside is not None and not isinstance(query.inside, Around):
        return shape_of(query.inside)
    if query.nearest is not None and query.nearest.point is not None:
        return {
            "type": "Nearest",
            "coordinates": list(query.nearest.point),
            "k": query.nearest.k,
        }
    return None


def shape_of(shape: Shape) -> dict[str, Any]:
    """A shape in the manner of GeoJSON, which has no circles and no boxes of its own."""
    if isinstance(shape, Circle):
        return {"type": "Circle", "coordinates": [shape.x, shape.y], "radius": shape.r}
    if isinstance(shape, Polygon):
        rings = [[list(point) for point in (*ring, ring[0])] for ring in shape.rings]
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "Rectangle", "coordinates": [shape.x1, shape.y1, shape.x2, shape.y2]}


def _focal(query: Query) -> FocalObject | None:
    if isinstance(query.inside, Around):
        focal, extents = query.inside.focal, list(query.inside.extents)
        return _led_by(focal, extents, query.nearest.k if query.nearest else None)
    if query.nearest is not None and query.nearest.focal is not None:
        return _led_by(query.nearest.focal, [], query.nearest.k)
    return None


def _led_by(focal: Focal, extents: list[float], k: int | None) -> FocalObject:
    return FocalObject(stream=focal.stream, key=focal.key, extents=extents, k=k)


def key_name(stream: Stream) -> str | None:
    """The name of the key column, if there are objects."""
    return None if stream.key is None else stream.columns[stream.key].name


def _stream(stream: Stream, counts: Mapping[str, int], reason: str | None) -> StreamInfo:
    return StreamInfo(
        name=stream.name,
        columns=[column.name for column in stream.columns],
        types=[column.type.value for column in stream.columns],
        key=key_name(stream),
        time=stream.columns[stream.time].name if stream.time is not None else None,
        space=stream.space.value,
        bounds=list(stream.bounds) if stream.bounds is not None else None,
        source=stream.source.kind if stream.source is not None else None,
        **{key: counts.get(key) for key in ("objects", "readings", "late", "bad")},
        last_reason=reason,
    )
