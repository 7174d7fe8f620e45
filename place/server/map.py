"""The live map: what there is to see, and for each who looks frames, queries and figures.

Positions are read once a tick, at most four times a second, and only while somebody looks. A viewer
that is slow gets the newest frame when it is ready for one, and never those between. A client sees
the objects in the answers of its own queries and those that lead them, and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, WebSocket
from fastapi.responses import Response
from starlette.requests import Request
from starlette.websockets import WebSocketDisconnect

from place.errors import PlaceError
from place.model.schema import Stream
from place.model.types import Type, Value
from place.plan.catalog import Catalog, fold
from place.plan.expression import Column
from place.plan.query import Query
from place.server.access import Reader, Who, admit, spoken
from place.server.encode import Message, iso
from place.server.errors import Refused, not_found
from place.server.frames import Layer, Slotted
from place.server.queries import described
from place.server.state import Server
from place.server.subscriber import Subscriber
from place.sim.recipe import Recipe

LOG = logging.getLogger("place.server")
PERIOD, STATS, WINDOW = 0.25, 1.0, 5.0
"""Seconds between frames at least, between figures, and that rates are taken over."""

MOST_WATCHED = 500
LARGEST_SAFE = 2**53
"""JavaScript counts so far; a larger number is sent as a text."""


class LiveMap:
    """The layers of the map, kept up to date while somebody looks. Lives in the event loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.focals: dict[str, tuple[int, int | None]] = {}
        self._layers: dict[str, Layer] = {}
        self._count = 0
        self._viewers: set[Viewer] = set()
        self._follower: asyncio.Task[None] | None = None
        self._ticked = asyncio.Event()
        self._reading = asyncio.Lock()
        self._rates: deque[tuple[float, int, int]] = deque()
        self._roads: dict[Stream, bytes] = {}

    def layers(self) -> list[Layer]:
        """A layer for each stream of objects; one that is created anew has another number."""
        streams = self.server.session.catalog.streams
        for name in [name for name in self._layers if name not in streams]:
            del self._layers[name]
        for name, stream in streams.items():
            held = self._layers.get(name)
            if stream.x is not None and (held is None or held.stream != stream):
                self._layers[name] = Layer(self._count % 2**16, stream)
                self._count += 1
        return list(self._layers.values())

    def layer(self, stream: str) -> Layer | None:
        return self._layers.get(fold(stream))

    # Those who look

    @contextlib.contextmanager
    def seen_by(self, viewer: Viewer) -> Any:
        """Keep the map up to date as long as this one looks."""
        self._viewers.add(viewer)
        if self._follower is None:
            self.server.hub.on_tick.append(self._tell)
            self._follower = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._viewers.discard(viewer)
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
            except Exception:  # the map stands still for a moment, and not for good
                LOG.exception("positions cannot be read")
                await asyncio.sleep(STATS)
            for viewer in self._viewers:
                viewer.wake.set()
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

    def _find_focals(self, catalog: Catalog) -> dict[str, tuple[int, int | None]]:
        """The slots of the objects that lead moving queries."""
        by_stream: dict[str, list[tuple[str, Value]]] = {}
        for query in catalog.queries.values():
            for focal in query.focals[:1]:
                by_stream.setdefault(focal.stream, []).append((query.name, focal.key))
        found: dict[str, tuple[int, int | None]] = {}
        for stream, pairs in by_stream.items():
            layer = self.layer(stream)
            if layer is not None:
                slots = layer.slots.locate([key for _, key in pairs])
                for (name, _), slot in zip(pairs, slots, strict=True):
                    found[name] = layer.index, slot
        return found

    # What is told of it

    def about(self, who: Who) -> dict[str, Any]:
        """What there is to see, and who is looking."""
        streams = [self._about(layer, who) for layer in self.layers()]
        return {
            "streams": streams,
            "basemap": self.server.settings.basemap,
            "roads": any(stream["roads"] for stream in streams),
            "you": {"name": who.name, "role": who.role},
        }

    def _about(self, layer: Layer, who: Who) -> dict[str, Any]:
        stream = layer.stream
        return {
            "name": stream.name,
            "index": layer.index,
            "space": stream.space.value,
            "bounds": layer.bounds() if who.is_admin else stream.bounds,
            "classes": layer.classes.names,
            "class_column": layer.class_column,
            "key_column": stream.columns[stream.key].name,
            "columns": [{"name": c.name, "type": c.type.value} for c in stream.columns],
            "roads": is_generated(stream),
        }

    async def roads(self, name: str) -> bytes:
        """The roads of a generated stream, in its coordinates, a feature for each class."""
        stream = self.server.session.catalog.streams.get(fold(name))
        if stream is None or not is_generated(stream):
            raise not_found("stream", name)
        if stream not in self._roads:
            self._roads[stream] = await to_thread.run_sync(roads_of, stream)
        return self._roads[stream]

    def stats(self, who: Who) -> dict[str, Any]:
        """Figures of now; what all others do is told to operators only."""
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


class Watched:
    """The answer of a query that a viewer watches, as the keys in its rows."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.version = 0
        self.told = -1
        self._places = key_places(query)
        self._keys: dict[str, Counter[Value]] = {stream: Counter() for stream, _ in self._places}

    def take(self, messages: Iterable[Message]) -> None:
        """Apply deltas."""
        for message in messages:
            for delta in json.loads(message.text):
                for stream, place in self._places:
                    key, held = delta["row"][place], self._keys[stream]
                    held[key] += delta["sign"]
                    if not held[key]:
                        del held[key]
        self.version += 1

    def slots(self, live: LiveMap) -> dict[int, Slotted]:
        """The objects of the answer that are on the map, by the numbers of their streams."""
        found: dict[int, Slotted] = {}
        for stream, keys in self._keys.items():
            layer = live.layer(stream)
            if layer is not None:
                found[layer.index] = layer.slots.find([key for key in keys if key is not None])
        return found


class Viewer:
    """One who looks at the map: what they asked for, and what they were told."""

    def __init__(self, live: LiveMap, who: Who, websocket: WebSocket, names: set[str]) -> None:
        self.wake = asyncio.Event()
        self._live = live
        self._server = live.server
        self._who = who
        self._websocket = websocket
        self._names = names
        self._highlighted: list[str] = []
        self._watched: dict[str, Watched] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._may_see: dict[int, Slotted] = {}
        self._version = -1
        self._ticks: dict[int, int] = {}
        self._classes: dict[int, int] = {}
        self._answers: dict[str, dict[int, Slotted]] = {}
        self._sizes: dict[str, int] = {}
        self._focals: dict[str, tuple[int, int | None]] = {}
        self._layers: list[int] | None = None

    async def look(self) -> None:
        """Tell all that changes until they leave."""
        with self._live.seen_by(self):
            tasks = {asyncio.create_task(self._listen()), asyncio.create_task(self._tell())}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                tasks |= set(self._watchers.values())
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, _LEFT):
                raise result

    # What they ask

    async def _listen(self) -> None:
        while True:
            try:
                message = json.loads(await self._websocket.receive_text())
                kind = message["type"]
                if kind == "identify":
                    await self._identify(int(message["stream"]), int(message["slot"]))
                elif kind == "highlight":
                    asked = message.get("queries", [message.get("query")])
                    self._highlighted = [str(name) for name in asked if name is not None]
                    self._answers.clear()
                    self.wake.set()
            except (KeyError, TypeError, ValueError):
                await self._websocket.close(1003, "not understood")
                return

    async def _identify(self, index: int, slot: int) -> None:
        layer = next((x for x in self._live.layers() if x.index == index), None)
        found = None
        if layer is not None and self._is_seen(index, slot):
            found = layer.row(slot)
        said: dict[str, Any] = {"type": "object", "stream": index, "slot": slot, "key": None}
        if found is not None and layer is not None:
            kinds = {column.name: column.type for column in layer.stream.columns}
            row = {name: _shown(value, kinds[name]) for name, value in found.items()}
            said |= {"key": row[layer.stream.columns[layer.stream.key].name], "row": row}
        await self._send(said)

    def _is_seen(self, index: int, slot: int) -> bool:
        return self._who.is_admin or bool(np.isin(slot, self._may_see.get(index, [])))

    # What they are told

    async def _send(self, message: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(message, separators=(",", ":")))

    async def _tell(self) -> None:
        next_stats = 0.0
        while True:
            self.wake.clear()
            self._watch()
            await self._tell_queries()
            await self._tell_frames()
            await self._tell_answers()
            if time.monotonic() >= next_stats:
                if not self._server.is_valid(self._who):
                    await self._websocket.close(4401, "not_authenticated")
                    return
                next_stats = time.monotonic() + STATS
                await self._tell_figures()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, next_stats - time.monotonic())):
                    await self.wake.wait()

    async def _tell_queries(self) -> None:
        catalog = self._server.session.catalog
        if catalog.version != self._version:
            self._version = catalog.version
            queries = described(self._server, self._who)
            await self._send({"type": "queries", "queries": queries})
            known = {query["name"] for query in queries}
            self._sizes = {n: size for n, size in self._sizes.items() if n in known}
            self._focals = {n: focal for n, focal in self._focals.items() if n in known}
            layers = [layer.index for layer in self._live.layers()]
            if self._layers not in (None, layers):
                await self._send({"type": "streams"})
            self._layers = layers
        visible = {query.name for query in self._server.visible(self._who)}
        focals = {
            name: focal
            for name, focal in self._live.focals.items()
            if name in visible and self._focals.get(name) != focal
        }
        if focals:
            self._focals |= focals
            await self._send({"type": "focals", "focals": focals})

    async def _tell_frames(self) -> None:
        self._may_see = self._seen() if not self._who.is_admin else {}
        for layer in self._live.layers():
            frame = layer.frame
            if frame is None or (self._names and fold(layer.stream.name) not in self._names):
                continue
            if self._classes.get(layer.index, 0) != len(layer.classes.names):
                self._classes[layer.index] = len(layer.classes.names)
                names = {"stream": layer.index, "classes": layer.classes.names}
                await self._send({"type": "classes", **names})
            if self._who.is_admin:
                if self._ticks.get(layer.index) != frame.tick:
                    self._ticks[layer.index] = frame.tick
                    await self._websocket.send_bytes(frame.data)
                continue
            seen = self._may_see.get(layer.index, np.empty(0, np.uint32))
            state = hash((frame.tick, seen.tobytes()))
            if self._ticks.get(layer.index) != state:
                self._ticks[layer.index] = state
                await self._websocket.send_bytes(frame.only(seen).data)

    def _seen(self) -> dict[int, Slotted]:
        """All objects that a client may see: in its answers, and those that lead its queries."""
        parts: dict[int, list[Slotted]] = {}
        for watched in self._watched.values():
            for index, slots in watched.slots(self._live).items():
                parts.setdefault(index, []).append(slots)
        for query in self._server.visible(self._who):
            index, slot = self._live.focals.get(query.name, (0, None))
            if slot is not None:
                parts.setdefault(index, []).append(np.array([slot], np.uint32))
        return {index: np.unique(np.concatenate(some)) for index, some in parts.items()}

    async def _tell_answers(self) -> None:
        for name in self._highlighted:
            watched = self._watched.get(name)
            if watched is None or not watched.version:
                continue
            slots = watched.slots(self._live)
            before = self._answers.get(name)
            if before is None or not _same(before, slots):
                self._answers[name] = slots
                listed = {str(index): some.tolist() for index, some in slots.items()}
                await self._send({"type": "answer", "query": name, "slots": listed})

    async def _tell_figures(self) -> None:
        stats = self._live.stats(self._who)
        if not self._who.is_admin:
            stats["objects"] = int(sum(map(len, self._may_see.values())))
        await self._send(stats)
        sizes: dict[str, int] = {}
        for query in self._server.visible(self._who):
            size = self._server.hub.size(query.name)
            if size is not None and self._sizes.get(query.name) != size:
                sizes[query.name] = size
        if sizes:
            self._sizes |= sizes
            await self._send({"type": "sizes", "sizes": sizes})

    # Whose answers they need

    def _watch(self) -> None:
        """Subscribe to what is highlighted; for a client, to all of its queries."""
        visible = {query.name: query for query in self._server.visible(self._who)}
        wanted = [name for name in self._highlighted if name in visible]
        if not self._who.is_admin:
            wanted += [name for name in visible if name not in wanted]
        wanted = wanted[:MOST_WATCHED]
        for name in [name for name in self._watchers if name not in wanted]:
            self._watchers.pop(name).cancel()
            self._watched.pop(name, None)
        for name in wanted:
            task = self._watchers.get(name)
            if task is None or task.done():
                self._watchers[name] = asyncio.create_task(self._follow(visible[name]))

    async def _follow(self, query: Query) -> None:
        hub = self._server.hub
        subscriber: Subscriber | None = None
        try:
            joined = await hub.join(self._who, query, None, 0)
            subscriber = joined.subscriber
            watched = self._watched[query.name] = Watched(query)
            messages: Iterable[Message] = joined.messages
            while True:
                watched.take(messages)
                self.wake.set()
                messages = await subscriber.take()
                if not messages:
                    break
        except Refused:
            pass
        finally:
            if subscriber is not None:
                hub.leave(subscriber)
        await asyncio.sleep(STATS)  # a query that is gone, or came back: look again, not at once


_LEFT = (WebSocketDisconnect, asyncio.CancelledError, RuntimeError, OSError)


def _same(one: dict[int, Slotted], other: dict[int, Slotted]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[i], other[i]) for i in one)


def _shown(value: Value, kind: Type) -> Value:
    if kind is Type.TIMESTAMP and isinstance(value, int):
        return iso(value)
    if isinstance(value, int) and abs(value) > LARGEST_SAFE:
        return str(value)
    return value


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


def router(state: Server) -> APIRouter:
    """The routes of the map."""
    routes = APIRouter()
    live = LiveMap(state)

    @routes.get("/map/about")
    async def about(_: Request, who: Reader) -> dict[str, Any]:
        """What there is to see: streams with their bounds and classes, the base map."""
        await live.refresh()
        return live.about(who)

    @routes.get("/map/roads/{stream}")
    async def roads(_: Request, who: Reader, stream: str) -> Response:
        """The roads of a generated stream as GeoJSON, in the stream's coordinates."""
        return Response(await live.roads(stream), media_type="application/geo+json")

    @routes.websocket("/map")
    async def look(websocket: WebSocket) -> None:
        who = await admit(websocket, "admin", "client")
        if who is None:
            return
        asked = websocket.query_params.get("streams", "")
        await websocket.accept(spoken(websocket))
        names = {fold(name) for name in asked.split(",") if name}
        await Viewer(live, who, websocket, names).look()

    return routes
