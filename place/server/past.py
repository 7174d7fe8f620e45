"""Which times of the past can be asked about, over HTTP. What was then is asked by `POST /sql`."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel

from place.errors import PlaceError
from place.model.schema import Stream
from place.plan.catalog import fold
from place.server.access import Reader, Who, server_of
from place.server.encode import iso
from place.server.state import Server

router = APIRouter()


class StreamPast(BaseModel):
    """The past of a stream that is archived: from when to when it is there, null if nothing is yet;
    and why it cannot be read or written, if it cannot."""

    stream: str
    begin: str | None
    end: str | None
    fault: str | None


@router.get("/past", response_model=list[StreamPast])
async def list_pasts(request: Request, who: Reader) -> list[StreamPast]:
    """The streams that are archived, and the times of the past that can be asked about."""
    server = server_of(request)
    return await to_thread.run_sync(_pasts, server, who, limiter=server.asks)


def _pasts(server: Server, who: Who) -> list[StreamPast]:
    """The pasts of the streams that somebody sees; a tenant is not told what ails them."""
    faults = server.runtime.past_faults()
    found = [
        _past(server, stream, faults.get(stream.name))
        for stream in server.session.catalog.streams.values()
        if stream.archiving is not None and (who.sight is None or fold(stream.name) in who.sight)
    ]
    return found if who.sight is None else [p.model_copy(update={"fault": None}) for p in found]


def _past(server: Server, stream: Stream, fault: str | None) -> StreamPast:
    span = None
    try:
        span = server.runtime.archive.span(stream)
    except PlaceError as error:
        fault = fault or error.message
    if span is None:
        return StreamPast(stream=stream.name, begin=None, end=None, fault=fault)
    keep = stream.archiving.keep if stream.archiving is not None else None
    begin = span.begin if keep is None else max(span.begin, span.end - keep)
    return StreamPast(stream=stream.name, begin=iso(begin), end=iso(span.end), fault=fault)
