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
from place.plan.catalog import fold
from place.plan.constraint_graph import ConstraintGraph, constraint_graph
from place.server.access import Asker, Reader, server_of
from place.server.callers import patient
from place.server.encode import id_after
from place.server.errors import not_found, too_large
from place.server.formats import Format, Rowset, check_position, written
from place.server.query_info import QueryInfo, describe, describe_suspended, described, key_name
from place.server.statements import execute, resume

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
