"""Vehicles of public transport, as agencies publish them: a feed of GTFS Realtime, asked for now
and then.

Each answer tells all vehicles again. A vehicle whose time is the one that was told before is no
news, and is passed over; after a restart the first answer is told again. There is no
acknowledgement, and none is needed: the next answer has what this process has missed.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.transit import gtfs_realtime_pb2

from place.errors import ConfigurationError, ReadingError
from place.model.schema import External, Stream
from place.model.time import SECOND, parse_duration
from place.runtime.feeds.feed import Batch
from place.runtime.intake.json_file import Item
from place.runtime.intake.roles import KEY, TIME, Roles, X, Y

EVERY = 15.0
"""Seconds from one request to the next, without the option."""
PATIENCE = 30.0
TIMED = "the timestamp of a vehicle is seconds since 1970"
LARGEST = 256 << 20
"""Bytes of an answer, at most."""


class TransitFeed:
    """The positions of vehicles at an address."""

    def __init__(self, stream: Stream, source: External) -> None:
        self._url = str(source.option("url"))
        every = source.option("every")
        self._every = EVERY if every is None else parse_duration(str(every)) / SECOND
        self._roles = Roles(stream)
        self._headers: dict[str, str] = {}
        key = source.option("authorization")
        if key is not None:
            self._headers["Authorization"] = str(key)
        self._due = 0.0
        self._known: dict[str, int] = {}
        self._rest: list[tuple[Item, str]] = []
        self._client = httpx.Client(timeout=PATIENCE, follow_redirects=True)

    def take(self, seconds: float, most: int) -> Batch | None:
        if not self._rest:
            wait = self._due - time.monotonic()
            if wait > 0:
                time.sleep(min(wait, seconds))
                return None
            self._due = time.monotonic() + self._every
            self._rest = self._news(self._asked())
        some, self._rest = self._rest[:most], self._rest[most:]
        if not some:
            return None
        return Batch(self._url, [item for item, _ in some], [text for _, text in some])

    def acknowledge(self, batch: Batch) -> None:
        """There is nobody who would hear it."""

    def is_waited_for(self) -> bool:
        return bool(self._rest)

    def close(self) -> None:
        self._client.close()

    def _asked(self) -> Any:
        """What the address answers."""
        body = bytearray()
        try:
            with self._client.stream("GET", self._url, headers=self._headers) as reply:
                if not reply.is_success:
                    raise self._wrong(f"it answers {reply.status_code}")
                for piece in reply.iter_bytes():
                    body += piece
                    if len(body) > LARGEST:
                        raise self._wrong("its answer has more than 256 MB")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._wrong(str(error) or type(error).__name__) from None
        message = gtfs_realtime_pb2.FeedMessage()
        try:
            message.ParseFromString(bytes(body))
        except DecodeError:
            raise self._wrong("its answer is no feed of GTFS Realtime") from None
        return message

    def _wrong(self, said: str) -> ConfigurationError:
        shown = self._url.partition("?")[0]  # behind it may stand a key
        return ConfigurationError(
            f"GTFS Realtime at {shown}: {said}",
            hint="check url and authorization; it is tried again",
        )

    def _news(self, message: Any) -> list[tuple[Item, str]]:
        """The vehicles of an answer that have told something since the last one."""
        made = message.header.timestamp or int(time.time())
        found: list[tuple[Item, str]] = []
        known: dict[str, int] = {}
        for entity in message.entity:
            if not entity.HasField("vehicle") or not entity.vehicle.HasField("position"):
                continue
            vehicle = entity.vehicle
            who = vehicle.vehicle.id or vehicle.vehicle.label or entity.id
            at = vehicle.timestamp or made
            known[who] = at
            if self._known.get(who) == at:
                continue
            place = vehicle.position
            members: dict[str, Any] = {
                "entity": entity.id,
                "vehicle": who,
                "label": vehicle.vehicle.label or None,
                "licence_plate": vehicle.vehicle.license_plate or None,
                "trip": vehicle.trip.trip_id or None,
                "route": vehicle.trip.route_id or None,
                "direction": vehicle.trip.direction_id
                if vehicle.trip.HasField("direction_id")
                else None,
                "stop": vehicle.stop_id or None,
                "status": type(vehicle).VehicleStopStatus.Name(vehicle.current_status),
                "bearing": place.bearing if place.HasField("bearing") else None,
                "speed": place.speed if place.HasField("speed") else None,
                "odometer": place.odometer if place.HasField("odometer") else None,
            }
            roles = {KEY: who, X: _short(place.longitude), Y: _short(place.latitude)}
            text = f"{who} at {place.longitude} {place.latitude}, time {at}"
            try:
                moment = datetime.fromtimestamp(at, UTC)
            except (ValueError, OverflowError, OSError):
                found.append((ReadingError(f"{at} is no time", hint=TIMED), text))
                continue
            members |= {"lon": roles[X], "lat": roles[Y], "timestamp": moment}
            found.append((self._roles.item({**roles, TIME: moment}, members), text))
        self._known = known
        return found


def _short(degrees: float) -> float:
    """Degrees as they were written: the feed has them with 32 bits.

    >>> _short(48.20000076293945)
    48.2
    """
    return float(str(np.float32(degrees)))
