"""Readings in the body of a request, of any of the formats, checked as those of files are."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Annotated

import numpy as np
import pyarrow as pa
from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from place.engine.slices import Segment, Told
from place.errors import ConfigurationError, ReadingError
from place.model.clock import Clock
from place.model.reading import Advance
from place.model.schema import Stream
from place.plan.catalog import fold
from place.runtime.intake.check import Rejections, Routed, check_table
from place.runtime.intake.csv_file import read_csv
from place.runtime.intake.files import check_json
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.intake.judge import check_moment
from place.runtime.intake.lines import blocks_of
from place.runtime.intake.pushed import check_rows, moment_of, wrong_row
from place.server.access import Sender, server_of
from place.server.arrow_body import read_stream, wrong_arrow
from place.server.errors import Refused, busy, not_found, too_large
from place.server.state import Server

router = APIRouter()
SOURCE = "http"
MOST_LISTED = 100


class RefusedReading(BaseModel):
    """A reading that was not taken: its number in the body, from 0 (null: all of it), why, and
    what would mend it."""

    row: int | None
    reason: str
    hint: str | None = None


class Taken(BaseModel):
    """What became of readings: those that were taken are on the disk. Late ones are known to be
    so already, and the next tick sets them aside; more may turn out to be late."""

    taken: int
    late: int
    refused: list[RefusedReading]
    refused_count: int


# Formats


def read_body(
    stream: Stream, media: str, body: bytes, arrival: int | None, latest: int | None = None
) -> Routed:
    """The readings of a body; the lines of what is refused count from 1, as those of a file."""
    reader = FORMATS.get(media)
    if reader is None:
        raise Refused(
            415,
            "unsupported_media_type",
            f"readings of type {media[:60]!r} cannot be read",
            hint=f"send one of {', '.join(FORMATS)}",
        )
    return reader(stream, body, arrival, latest)


def _csv(stream: Stream, body: bytes, arrival: int | None, latest: int | None) -> Routed:
    rejections = Rejections(SOURCE)
    segment = read_csv(stream, blocks_of(iter([body])), rejections, arrival, latest)
    # The header is a line, too; what is wrong with it is wrong with all.
    rejected = [
        replace(each, line=each.line - 1 if each.line and each.line > 1 else None)
        for each in rejections.all()
    ]
    return Routed(segment, rejected)


def _lines(stream: Stream, body: bytes, arrival: int | None, latest: int | None) -> Routed:
    """An object a line. They make no table: any member may be absent, as in messages."""
    lines = [line for line in body.replace(b"\r", b"\n").split(b"\n") if line.strip(b" \t")]
    texts = pa.array(lines, pa.large_binary())
    return check_json(stream, texts, SOURCE, arrival=arrival, latest=latest)


def _array(stream: Stream, body: bytes, arrival: int | None, latest: int | None) -> Routed:
    """An array of objects, or of arrays of values in the order of the columns."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "wrong_json", f"the body is not JSON: {error}"[:200]) from None
    if not isinstance(values, list):
        raise Refused(400, "wrong_json", "the body is not an array of readings")
    return check_rows(stream, values, SOURCE, arrival=arrival, latest=latest)


def _arrow(stream: Stream, body: bytes, arrival: int | None, latest: int | None) -> Routed:
    table = read_stream(body)
    try:
        return check_table(stream, table, SOURCE, arrival=arrival, latest=latest)
    except pa.ArrowException as error:
        raise wrong_arrow(error) from None


FORMATS: dict[str, Callable[[Stream, bytes, int | None, int | None], Routed]] = {
    "application/json": _array,
    "application/x-ndjson": _lines,
    "text/csv": _csv,
    "application/vnd.apache.arrow.stream": _arrow,
}


# The route


@contextlib.asynccontextmanager
async def received(server: Server, request: Request) -> AsyncIterator[bytes]:
    """The body of a request, unless it is too large, or too much is received or waits at once."""
    limit = server.settings.largest_readings
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "unsupported_encoding", "readings are sent without a Content-Encoding")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            server.receiving += len(piece)
            if size > limit:
                raise too_large(limit)
            if server.receiving > server.settings.most_at_once:
                raise busy("too much is being received at once", 1)
            pieces.append(piece)
        body = b"".join(pieces)
        pieces.clear()
        yield body
    finally:
        server.receiving -= size


def check_pressure(server: Server) -> None:
    """Raise if so much waits for a tick that no more should be accepted."""
    readings, size = server.runtime.waiting()
    settings = server.settings
    if readings > settings.most_waiting_readings or size > settings.most_waiting_bytes:
        seconds = server.runtime.waiting_seconds() / 2  # then half of it is taken
        raise busy(f"{readings:,} readings wait for the pipeline", max(1, min(60, round(seconds))))


@router.post(
    "/streams/{name}/readings",
    response_model=Taken,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "array",
                        "items": {"anyOf": [{"type": "object"}, {"type": "array", "items": {}}]},
                    }
                },
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
                "application/vnd.apache.arrow.stream": {
                    "schema": {"type": "string", "format": "binary"}
                },
            },
        }
    },
)
async def push(
    request: Request,
    who: Sender,
    name: str,
    at: Annotated[
        str | None,
        Query(
            alias="time",
            max_length=60,
            description="the time of readings that have none of their own; the stream has reached"
            " it, so that its instant is complete",
        ),
    ] = None,
    whole: Annotated[
        bool, Query(description="if one reading is wrong, take none, and say which")
    ] = False,
) -> Taken:
    """Take readings. They are on the disk when this answers; the next tick takes them."""
    server = server_of(request)
    stream = server.session.catalog.streams.get(fold(name))
    if stream is None:
        raise not_found("stream", name)
    check_pressure(server)
    media = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    async with received(server, request) as body:
        taken = await to_thread.run_sync(
            accept, server, stream, media, body, at, whole, limiter=server.writes
        )
    if taken.taken or taken.late:
        server.pump.tell()
    return taken


def accept(
    server: Server, stream: Stream, media: str, body: bytes, at: str | None, whole: bool
) -> Taken:
    """Check readings and make those that are good durable; all of them or none if `whole`."""
    now = wall_clock()
    latest = latest_time(stream, now)
    moment = None if at is None else checked_moment(at, latest)
    arrival = now if stream.time is None and moment is None else moment
    try:
        routed = read_body(stream, media, body, arrival, latest)
    except RecursionError:
        raise Refused(400, "wrong_json", "the body is nested too deeply") from None
    return make_durable(server, stream, routed, moment, whole)


def make_durable(
    server: Server, stream: Stream, routed: Routed, moment: int | None, whole: bool
) -> Taken:
    """Make checked readings durable, after which their stream has reached a moment, if one is
    given; all of them or none if `whole`."""
    if whole and routed.rejected:
        raise wrong_row(routed.rejected[0])
    late = _late(server, stream, routed.segment)
    if moment is not None:
        _accept_until(server, stream, routed.segment, moment)
    elif routed.segment.num_rows:
        try:
            server.runtime.accept(stream, routed.segment)
        except ConfigurationError:
            if not server.session.catalog.has(stream):  # dropped meanwhile
                raise not_found("stream", stream.name) from None
            raise
    return _taken(routed, late)


def checked_moment(text: str, latest: int | None) -> int:
    """A time that a stream may reach: one that a reading may have."""
    try:
        moment = moment_of(text)
        check_moment(moment, latest)
    except ReadingError as error:
        raise Refused(400, "wrong_time", error.message, hint=error.hint) from None
    return moment


def _late(server: Server, stream: Stream, segment: pa.Table) -> int:
    """How many readings come too late, as far as the last tick and these readings tell.

    What still waits for a tick may make more of them late.
    """
    last = server.runtime.last
    if stream.time is None or not segment.num_rows:
        return 0
    closed = last.clocks.get(stream.name) if last is not None else None
    times = segment.column(segment.num_columns - 2).to_numpy()
    return int(np.count_nonzero(~Clock(stream.lateness, closed).tell_all(times)))


def _accept_until(server: Server, stream: Stream, segment: pa.Table, moment: int) -> None:
    """Readings, after which their stream has reached a time."""
    told: list[Told] = [Segment(stream.name, segment), Advance(moment, stream.name)]
    try:
        server.runtime.accept_until(stream, told)
    except ConfigurationError:
        if not server.session.catalog.has(stream):
            raise not_found("stream", stream.name) from None
        raise
    server.pump.tell()


def _taken(routed: Routed, late: int) -> Taken:
    listed = [
        RefusedReading(
            row=None if r.line is None else r.line - 1, reason=r.reason, hint=r.hint or None
        )
        for r in routed.rejected[:MOST_LISTED]
    ]
    taken = routed.segment.num_rows - late
    return Taken(taken=taken, late=late, refused=listed, refused_count=_count(routed))


def _count(routed: Routed) -> int:
    """How many were refused, those that are not listed among them."""
    rejected = routed.rejected
    if rejected and rejected[-1].reason.endswith("more rows, which are not listed"):
        more = int(rejected[-1].reason.partition(" ")[0].replace(",", ""))
        return len(rejected) - 1 + more
    return len(rejected)
