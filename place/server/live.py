"""What is on the map: the layers of all streams, kept up to date while somebody looks.

Positions are read once a tick, at most four times a second, for all who look together.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from anyio import to_thread

from place.errors import PlaceError
from place.model.regions import region_of
from place.model.schema import Stream
from place.model.table_rows import TableRows
from place.model.types import Value
from place.plan.catalog import Catalog, fold
from place.plan.query import Query
from place.server import land
from place.server.access import Who
from place.server.errors import not_found
from place.server.frames import Layer
from place.server.query_info import key_name, shape_of
from place.server.state import Server
from place.sim.recipe import Recipe

LOG = logging.getLogger("place.server")
PERIOD, PAUSE, WINDOW = 0.25, 1.0, 5.0
"""Seconds: at least between two frames; before another attempt after a failure; over which rates
are taken."""

BASEMAP = "/map/basemap.pmtiles"
"""Where the archive of a base map is, if it is a file."""

MOST_REGIONS = 5_000
"""Regions of one query table that are shown."""

Led = tuple[int | None, int | None]
"""A focal object: the number of its layer, None if its stream is not on the map, and its slot, None
while it is gone."""


class LiveMap:
    """The layers of the map, kept up to date while somebody looks. Lives in the event loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.focals: dict[str, list[Led]] = {}
        self._layers: dict[str, Layer] = {}
        self._count = 0
        self._viewers: set[asyncio.Event] = set()
        self._follower: asyncio.Task[None] | None = None
        self._ticked = asyncio.Event()
        self._reading = asyncio.Lock()
        self._rates: deque[tuple[float, int, int]] = deque()
        self._roads: dict[Stream, bytes] = {}
        self._regions: dict[str, tuple[Query, TableRows, dict[str, Any]]] = {}

    def layers(self) -> list[Layer]:
        """A layer for each stream of objects with places; one that is created anew has another
        number."""
        streams = self.server.session.catalog.streams
        placed = {name: stream for name, stream in streams.items() if is_placed(stream)}
        for name in [name for name in self._layers if name not in placed]:
            del self._layers[name]
        for name, stream in placed.items():
            held = self._layers.get(name)
            if held is None or held.stream != stream:
                self._layers[name] = Layer(self._count % 2**16, stream)
                self._count += 1
        return list(self._layers.values())

    def layer(self, stream: str) -> Layer | None:
        return self._layers.get(fold(stream))

    # Those who look

    @contextlib.contextmanager
    def watched(self, wake: asyncio.Event) -> Iterator[None]:
        """Keep the map up to date until the last viewer leaves; viewers are woken when it
        changes."""
        self._viewers.add(wake)
        if self._follower is None:
            self.server.hub.on_tick.append(self._tell)
            self._follower = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._viewers.discard(wake)
            if not self._viewers and self._follower is not None:
                self.server.hub.on_tick.remove(self._tell)
                self._follower.cancel()
                self._follower = None

    def _tell(self, _: object) -> None:
        self._ticked.set()

    async def _follow(self) -> None:
        while True:
            started = time.monotonic()
            self._ticked.clear()
            try:
                await self.refresh()
            except Exception:  # the map stops for a moment, but it must not stop for good
                LOG.exception("positions cannot be read")
                await asyncio.sleep(PAUSE)
            for wake in self._viewers:
                wake.set()
            await asyncio.sleep(max(0.0, PERIOD - (time.monotonic() - started)))
            await self._ticked.wait()

    async def refresh(self) -> None:
        """Read where objects are, if a tick has come since."""
        async with self._reading:
            tick = self.server.hub.tick
            due = [x for x in self.layers() if x.frame is None or x.frame.tick < tick]
            if due:
                await to_thread.run_sync(self._read, due)
                self.focals = self._find_focals(self.server.session.catalog)

    def _read(self, layers: Iterable[Layer]) -> None:
        for layer in layers:
            # A stream that is dropped meanwhile has no positions; its layer goes, too.
            with contextlib.suppress(PlaceError, KeyError):
                layer.take(self.server.runtime.positions(layer.stream.name), time.monotonic())

    def _find_focals(self, catalog: Catalog) -> dict[str, list[Led]]:
        """The slots of the objects that lead moving queries, in the order of these."""
        found: dict[str, list[Led]] = {}
        by_stream: dict[str, list[tuple[str, int, Value]]] = {}
        for query in catalog.queries.values():
            if query.focals:
                found[query.name] = [(None, None)] * len(query.focals)
            for place, focal in enumerate(query.focals):
                by_stream.setdefault(focal.stream, []).append((query.name, place, focal.key))
        for stream, led in by_stream.items():
            layer = self.layer(stream)
            if layer is not None:
                slots = layer.slots.locate([key for *_, key in led])
                for (name, place, _), slot in zip(led, slots, strict=True):
                    found[name][place] = layer.index, slot
        return found

    # What viewers are sent

    def about(self, who: Who) -> dict[str, Any]:
        """What there is to see, and who is looking."""
        sight = who.sight
        seen = [x for x in self.layers() if sight is None or fold(x.stream.name) in sight]
        streams = [self._about(layer, who) for layer in seen]
        return {
            "streams": streams,
            "basemap": self._basemap(),
            "land": land.DEEPEST if land.directory() is not None else None,
            "roads": any(stream["roads"] for stream in streams),
            "you": {"name": who.name, "role": who.role},
        }

    def _basemap(self) -> str | None:
        """The address of the base map; a file of this server has one here."""
        settings = self.server.settings
        return BASEMAP if settings.basemap_file is not None else settings.basemap

    def _about(self, layer: Layer, who: Who) -> dict[str, Any]:
        stream = layer.stream
        return {
            "name": stream.name,
            "index": layer.index,
            "space": stream.space.value,
            "bounds": layer.bounds() if who.is_admin else stream.bounds,
            "classes": layer.classes.names if sees_all(who, stream) else [],
            "class_column": layer.class_column,
            "key_column": key_name(stream),
            "columns": [{"name": c.name, "type": c.type.value} for c in stream.columns],
            "roads": is_generated(stream),
        }

    def regions(self, query: Query) -> dict[str, Any] | None:
        """The regions of a query table: those that stay, and around which slots the others move."""
        table, catalog = query.query_table, self.server.session.catalog
        if table is None or query.sources[table.source].is_stream:
            return None
        rows = catalog.contents[fold(query.sources[table.source].relation.name)]
        known = self._regions.get(query.name)
        if known is not None and known[0] is query and known[1] is rows:
            return known[2]
        values = [[row[column] for column in table.columns] for row in rows.tuples()[:MOST_REGIONS]]
        found: dict[str, Any] = {"query": query.name, "shapes": [], "stream": None, "moving": []}
        if table.focal_stream is not None:
            layer = self.layer(table.focal_stream)
            if layer is not None:
                slots = layer.slots.locate([key for key, *_ in values])
                found["stream"] = layer.index
                found["moving"] = [
                    [slot, key, *extents]
                    for slot, (key, *extents) in zip(slots, values, strict=True)
                    if key is not None and None not in extents
                ]
            return found
        for some in values:
            shape = region_of(table.layout, some, query.space, lambda _: None)
            if shape is not None:
                found["shapes"].append(shape_of(shape))
        self._regions = {
            name: known
            for name, known in self._regions.items()
            if catalog.queries.get(fold(name)) is known[0]
        }
        self._regions[query.name] = query, rows, found
        return found

    async def roads(self, name: str, who: Who) -> bytes:
        """The roads of a generated stream, in its coordinates, a feature for each class."""
        if who.sight is not None and fold(name) not in who.sight:
            raise not_found("stream", name)
        stream = self.server.session.catalog.streams.get(fold(name))
        if stream is None or not is_generated(stream):
            raise not_found("stream", name)
        if stream not in self._roads:
            drawn = await to_thread.run_sync(roads_of, stream)
            there = set(self.server.session.catalog.streams.values())
            self._roads = {s: roads for s, roads in self._roads.items() if s in there}
            self._roads[stream] = drawn
        return self._roads[stream]

    def stats(self, who: Who) -> dict[str, Any]:
        """Present figures; those about the load of the whole server are for operators only."""
        last = self.server.hub.last
        figures: dict[str, Any] = {
            "type": "stats",
            "tick": last.tick if last is not None else 0,
            "queries": len(self.server.visible(who)),
            "objects": 0,
            "readings_per_s": None,
            "deltas_per_s": None,
            "lag_ms": None,
        }
        if last is None or not who.is_admin:
            return figures
        readings = sum(last.totals.get(x.stream.name, {}).get("readings", 0) for x in self.layers())
        now = time.monotonic()
        self._rates.append((now, readings, last.totals.get("", {}).get("deltas", 0)))
        while self._rates[0][0] < now - WINDOW:
            self._rates.popleft()
        (since, *before), (_, *after) = self._rates[0], self._rates[-1]
        if now > since:
            rates = [(b - a) / (now - since) for a, b in zip(before, after, strict=True)]
            figures["readings_per_s"], figures["deltas_per_s"] = rates
        figures["objects"] = sum(
            last.totals.get(x.stream.name, {}).get("objects", 0) for x in self.layers()
        )
        lag = last.metrics.get("seconds", 0.0)
        if self.server.runtime.waiting()[0]:
            lag = max(lag, time.time() - last.written)
        figures["lag_ms"] = lag * 1000
        return figures


def sees_all(who: Who, stream: Stream) -> bool:
    """Does somebody see the whole of a stream, and so what its objects have in common?"""
    grant = who.sight.get(fold(stream.name)) if who.sight is not None else None
    return who.sight is None or (grant is not None and grant.condition is None)


def is_placed(stream: Stream) -> bool:
    """Does a stream have objects, and are they somewhere?"""
    return stream.key is not None and stream.x is not None


def is_generated(stream: Stream) -> bool:
    return stream.source is not None and stream.source.kind == "GENERATOR"


def roads_of(stream: Stream) -> bytes:
    """The roads that the objects of a generated stream drive on, as GeoJSON."""
    assert stream.source is not None
    city = Recipe.of(dict(stream.source.options)).make_city(stream.space)
    ends = np.stack((city.xs[city.starts], city.ys[city.starts]), axis=1)
    lines = np.stack((ends, np.stack((city.xs[city.ends], city.ys[city.ends]), axis=1)), axis=1)
    features = [
        {
            "type": "Feature",
            "properties": {"class": int(kind)},
            "geometry": {
                "type": "MultiLineString",
                "coordinates": lines[city.classes == kind].round(7).tolist(),
            },
        }
        for kind in np.unique(city.classes)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()
