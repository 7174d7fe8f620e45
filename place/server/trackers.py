"""Readings as phones and trackers send them that speak the protocol of OsmAnd: Traccar's client,
OsmAnd, and many others.

A reading is the parameters of a GET or of a form (`?id=…&lat=…&lon=…&timestamp=…&speed=…`), or the
JSON of newer clients. It goes through the one door, and is on the disk when this answers. Such
programs cannot send headers: their token may stand in the address, if it is one that can do nothing
but send readings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import parse_qsl

from anyio import to_thread
from fastapi import APIRouter, Depends, Request

from place.model.schema import Stream
from place.model.types import Type, ValueMismatch
from place.plan.catalog import fold
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.intake.pushed import check_rows
from place.runtime.intake.roles import KEY, TIME, Roles, X, Y
from place.runtime.intake.values import settle
from place.server.access import Who, authenticate, permit, server_of
from place.server.errors import Refused, not_found
from place.server.readings import SOURCE, Taken, check_pressure, make_durable, received

router = APIRouter()
TOKEN = "token"
NAMES = {KEY: ("id", "deviceid", "device_id"), X: ("lon",), Y: ("lat",), TIME: ("timestamp",)}
"""What the protocol calls the object, its position and its time."""
MOST_PARAMETERS = 100


async def tracker(request: Request) -> Who:
    """Who sends a reading. A page of another origin cannot, although it may be a GET."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused(403, "cross_origin", "pages of other origins may not send readings")
    server, text = server_of(request), request.query_params.get(TOKEN)
    if text is None or server.is_open():
        return permit(authenticate(request), ("admin", "ingest"))
    token = server.store.check_token(text)
    if token is None:
        raise Refused(
            401, "not_authenticated", "the token is not valid", hint="it stands in ?token=…"
        )
    if token.role != "ingest":
        raise Refused(
            403,
            "not_allowed",
            f"a token of the role {token.role} may not stand in an address, which others may see",
            hint="make one that only sends readings: place token create … --role ingest",
        )
    return Who(token.name, token.role, token.id)


Tracker = Annotated[Who, Depends(tracker)]


@router.get("/streams/{name}/osmand", response_model=Taken)
async def send(request: Request, who: Tracker, name: str) -> Taken:
    """Take a reading by the parameters of OsmAnd's protocol: id, lat, lon, timestamp, speed, …"""
    return await _take(request, name, [dict(request.query_params)])


@router.post(
    "/streams/{name}/osmand",
    response_model=Taken,
    openapi_extra={
        "requestBody": {
            "content": {
                "application/x-www-form-urlencoded": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "object"}},
            }
        }
    },
)
async def post(request: Request, who: Tracker, name: str) -> Taken:
    """The same, by the parameters of the address, of a form, or in the JSON of Traccar's client."""
    server = server_of(request)
    async with received(server, request) as body:
        media = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        address = dict(request.query_params)
        if media == "application/json" and body.strip():
            sent = [{**address, **each} for each in _locations(body)]
        else:
            try:
                pairs = parse_qsl(body.decode(), max_num_fields=MOST_PARAMETERS)
            except (UnicodeDecodeError, ValueError):
                raise Refused(400, "wrong_form", "the body is not a form") from None
            sent = [{**address, **dict(pairs)}]
        return await _take(request, name, sent)


async def _take(request: Request, name: str, sent: list[dict[str, Any]]) -> Taken:
    server = server_of(request)
    stream = server.session.catalog.streams.get(fold(name))
    if stream is None:
        raise not_found("stream", name)
    check_pressure(server)
    now = wall_clock()
    arrival = now if stream.time is None else None

    def accept() -> Taken:
        rows = [_reading(stream, members) for members in sent]
        latest = latest_time(stream, now)
        routed = check_rows(stream, rows, SOURCE, arrival=arrival, latest=latest)
        return make_durable(server, stream, routed, None, whole=True)

    taken = await to_thread.run_sync(accept, limiter=server.writes)
    server.pump.tell()
    return taken


def _reading(stream: Stream, sent: Mapping[str, Any]) -> dict[str, Any]:
    """What a tracker has sent, by the names of the stream's columns.

    A value in an empty parameter is one that it does not know.
    """
    members = {name: value for name, value in sent.items() if name != TOKEN and value != ""}
    if "location" in members and "lat" not in members:
        lat, _, lon = str(members["location"]).partition(",")
        members |= {"lat": lat, "lon": lon}
    known: dict[str, Any] = {}
    for role, names in NAMES.items():
        found = next((members[name] for name in names if name in members), None)
        if found is not None:
            known[role] = _time(found) if role == TIME else found
    return Roles(stream).item(known, members)


def _time(value: Any) -> Any:
    """A time in whichever form it comes; what is none is judged by the one door."""
    try:
        moment = settle(value, Type.TIMESTAMP)
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(moment or 0))
    except (ValueMismatch, OverflowError):
        return value


def _locations(body: bytes) -> list[dict[str, Any]]:
    """The readings of a body of Traccar's client: one location or several, of one device."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "wrong_json", f"the body is not JSON: {error}"[:200]) from None
    told = found.get("location") if isinstance(found, dict) else None
    locations = told if isinstance(told, list) else [told]
    device = found.get("device_id") if isinstance(found, dict) else None
    readings: list[dict[str, Any]] = []
    for each in locations:
        coordinates = each.get("coords") if isinstance(each, dict) else None
        if not isinstance(each, dict) or not isinstance(coordinates, dict):
            raise Refused(
                400,
                "wrong_json",
                "the body has no location with coords",
                hint='send {"location": {"timestamp": …, "coords": {…}}, "device_id": …}',
            )
        flat = {k: v for k, v in each.items() if not isinstance(v, dict | list)}
        flat |= {k: v for k, v in coordinates.items() if not isinstance(v, dict | list)}
        battery = each.get("battery")
        if isinstance(battery, dict):
            flat["batt"] = battery.get("level")
        flat |= {"lat": coordinates.get("latitude"), "lon": coordinates.get("longitude")}
        if device is not None:
            flat["id"] = device
        readings.append(flat)
    return readings
