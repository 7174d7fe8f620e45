"""What a session's `disappear` and `advance` do, over HTTP.

They are judged by the functions that judge them in a session, so that what is wrong is said in the
same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from place.engine.slices import Segment, Told
from place.errors import ConfigurationError
from place.model.reading import Advance
from place.model.schema import Stream
from place.model.segment import make_segment
from place.plan.catalog import fold
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.intake.pushed import disappearance_of
from place.server.access import Sender, server_of
from place.server.errors import not_found
from place.server.readings import check_pressure, checked_moment
from place.server.state import Server

router = APIRouter()
Time = Annotated[str, Query(alias="time", max_length=60, description="when, in ISO 8601")]


class Leaving(BaseModel):
    """An object that disappears, by its key."""

    key: int | float | str | bool | None


class Accepted(BaseModel):
    """What became of it: it is on the disk, and the next tick takes it."""

    taken: int
    late: int = 0


@router.post("/streams/{name}/disappear", response_model=Accepted)
async def disappear(
    request: Request, who: Sender, name: str, leaving: Leaving, at: Time
) -> Accepted:
    """Take word that an object disappears at a time."""
    server = server_of(request)
    stream = server.session.catalog.streams.get(fold(name))
    if stream is None:
        raise not_found("stream", name)
    check_pressure(server)
    moment = checked_moment(at, latest_time(stream, wall_clock()))
    reading = disappearance_of(stream, leaving.key, moment)
    told = [Segment(stream.name, make_segment(stream, [reading]))]
    await to_thread.run_sync(_write, server, told, stream, limiter=server.writes)
    return Accepted(taken=1)


@router.post("/advance", response_model=Accepted)
async def advance(request: Request, who: Sender, at: Time) -> Accepted:
    """Take word that all streams have reached a time."""
    server = server_of(request)
    check_pressure(server)
    now = wall_clock()
    latest = [latest_time(stream, now) for stream in server.session.catalog.streams.values()]
    moment = checked_moment(at, min(latest, default=None))
    await to_thread.run_sync(_write, server, [Advance(moment)], limiter=server.writes)
    return Accepted(taken=0)


def _write(server: Server, told: Sequence[Told], stream: Stream | None = None) -> None:
    """Make it durable, unless its stream was dropped meanwhile; the next tick takes it."""
    try:
        server.runtime.accept_until(stream, told)
    except ConfigurationError:
        if stream is not None and not server.session.catalog.has(stream):
            raise not_found("stream", stream.name) from None
        raise
    server.pump.tell()
