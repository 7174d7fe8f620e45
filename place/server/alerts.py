"""Alerts on the map: the readings that an alert joins, and where they are.

The columns of ALERT that are the key, x or y of a variable's reading say where it is: at x and y as
they were in the match, or where the object of that key is now. Of what is neither, only the row is
told.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from place.model.types import Type, Value
from place.plan.query import Query
from place.server.encode import Message, iso, parse_id
from place.server.frames import Slotted
from place.server.live import LiveMap
from place.server.query_info import Spot

MOST_ALERTS = 100
"""Alerts that wait for one viewer, or whose objects it sees: of more, the newest."""
PATIENCE = 2.0
"""Seconds that an alert waits for the positions of its tick."""
SHOWN = 30.0
"""Seconds for which a client sees the objects of an alert."""
LARGEST_SAFE = 2**53
"""JavaScript counts so far; a larger number is sent as a text."""


def shown(value: Value, kind: Type) -> Value:
    """A value of a row as the page shows it."""
    if kind is Type.TIMESTAMP and isinstance(value, int):
        return iso(value)
    is_large = kind is Type.BIGINT and isinstance(value, int) and abs(value) > LARGEST_SAFE
    return str(value) if is_large else value


@dataclass(frozen=True)
class Alert:
    """An alert that is still to be told, and since when it waits."""

    query: Query
    spots: list[Spot]
    tick: int
    id: str
    instant: str
    row: list[Value]
    since: float


class Alerts:
    """The alerts for one viewer: those that wait, and the objects of those that were told."""

    def __init__(self, live: LiveMap) -> None:
        self._live = live
        self._waiting: deque[Alert] = deque(maxlen=MOST_ALERTS)
        self._left_out = 0
        self._told: deque[tuple[float, dict[int, Slotted]]] = deque(maxlen=MOST_ALERTS)

    def take(self, query: Query, spots: list[Spot], messages: Iterable[Message]) -> None:
        """Take the alerts of a trigger."""
        now = time.monotonic()
        for message in messages:
            deltas = json.loads(message.text)
            self._left_out += max(0, len(deltas) - MOST_ALERTS)
            for delta in deltas[-MOST_ALERTS:]:
                self._left_out += len(self._waiting) == MOST_ALERTS
                tick, _ = parse_id(delta["id"])
                rest = delta["id"], delta["instant"], delta["row"], now
                self._waiting.append(Alert(query, spots, tick, *rest))

    def due(self) -> dict[str, Any] | None:
        """What is to be told now, if there is anything."""
        told = []
        while self._waiting and self._is_ready(self._waiting[0]):
            told.append(self._described(self._waiting.popleft()))
        if not told:
            return None
        left_out, self._left_out = self._left_out, 0
        return {"type": "alerts", "alerts": told, "left_out": left_out}

    def _is_ready(self, alert: Alert) -> bool:
        if time.monotonic() > alert.since + PATIENCE:
            return True
        layers = (self._live.layer(spot.stream.name) for spot in alert.spots if not spot.has_place)
        frames = [layer.frame for layer in layers if layer is not None]
        return all(frame is not None and frame.tick >= alert.tick for frame in frames)

    def _described(self, alert: Alert) -> dict[str, Any]:
        places: list[dict[str, Any]] = []
        slots: dict[int, list[int]] = {}
        for spot in alert.spots:
            place = self._place(spot, alert.row)
            if place is not None:
                places.append({"name": spot.name, **place})
                if place["slot"] is not None:
                    slots.setdefault(place["stream"], []).append(place["slot"])
        if slots:
            found = {index: np.array(some, np.uint32) for index, some in slots.items()}
            self._told.append((time.monotonic(), found))
        kinds = alert.query.types
        return {
            "id": alert.id,
            "trigger": alert.query.name,
            "space": alert.query.space.value,
            "instant": alert.instant,
            "row": [shown(value, kind) for value, kind in zip(alert.row, kinds, strict=True)],
            "places": places,
        }

    def _place(self, spot: Spot, row: list[Value]) -> dict[str, Any] | None:
        """Where a reading is: by the row, or where its object is now; None if neither is known."""
        layer = self._live.layer(spot.stream.name)
        slot = None
        if layer is not None and spot.key is not None and row[spot.key] is not None:
            (slot,) = layer.slots.locate([row[spot.key]])
        x = None if spot.x is None else row[spot.x]
        y = None if spot.y is None else row[spot.y]
        if spot.has_place and x is not None and y is not None:
            return {"stream": layer.index if layer else None, "slot": slot, "x": x, "y": y}
        if slot is None or layer is None:
            return None
        return {"stream": layer.index, "slot": slot, "x": None, "y": None}

    def seen(self) -> list[dict[int, Slotted]]:
        """The objects of alerts that were told a short while ago."""
        now = time.monotonic()
        while self._told and self._told[0][0] + SHOWN < now:
            self._told.popleft()
        return [slots for _, slots in self._told]
