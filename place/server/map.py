"""The live map for each who looks: what there is to see, then frames, queries and figures.

A viewer that is slow gets the newest frame when it is ready for one, and never those between. A
client sees the objects in the answers of its own queries and those that lead them, and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, WebSocket
from fastapi.responses import FileResponse, Response
from starlette.requests import Request
from starlette.websockets import WebSocketDisconnect

from place.model.types import Value
from place.plan.catalog import fold
from place.plan.query import Query
from place.server import land, lookups
from place.server.access import Reader, Who, admit, spoken
from place.server.alerts import Alerts
from place.server.encode import Message
from place.server.errors import Refused
from place.server.frames import Slotted
from place.server.live import BASEMAP, Led, LiveMap, sees_all
from place.server.query_info import describe, key_places, kind_of, spots_of
from place.server.state import Server
from place.server.subscriber import Subscriber

STATS = 1.0
"""Seconds between figures."""

MOST_WATCHED, MOST_TOLD = 500, 20_000
"""At most so many answers are sent to a viewer, and at most so many queries are listed."""


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

    def hold(self, rows: Counter[str]) -> None:
        """Take a whole answer, by the texts of its rows."""
        for stream, place in self._places:
            keys = (json.loads(text)[place] for text in rows)
            self._keys[stream] = Counter(keys)
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
    """One viewer of the map: what it has asked for, and what it was sent."""

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
        self._queries: dict[str, Query] = {}
        self._ticks: dict[int, int] = {}
        self._classes: dict[int, int] = {}
        self._answers: dict[str, dict[int, Slotted]] = {}
        self._sizes: dict[str, int] = {}
        self._focals: dict[str, list[Led]] = {}
        self._regions: dict[str, dict[str, Any]] = {}
        self._layers: list[int] | None = None
        self._alerts = Alerts(live)

    async def look(self) -> None:
        """Send all changes until the viewer leaves."""
        with self._live.watched(self.wake):
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

    # What a viewer asks

    async def _listen(self) -> None:
        while True:
            try:
                message = json.loads(await self._websocket.receive_text())
                kind = message["type"]
                if kind in ("identify", "locate", "find", "labels"):
                    await self._send(await to_thread.run_sync(self._asked, kind, message))
                elif kind == "highlight":
                    asked = message.get("queries", [message.get("query")])
                    names = dict.fromkeys(str(name) for name in asked if name is not None)
                    self._highlighted = list(names)[:MOST_WATCHED]
                    self._answers.clear()
                    self.wake.set()
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
                await self._websocket.close(1003, "not understood")
                return

    def _asked(self, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question about objects."""
        layers = self._live.layers()
        seen = None if self._who.is_admin else self._may_see
        if kind == "find":
            text = str(message["text"])
            return {"type": "found", "text": text, "objects": lookups.found(layers, text, seen)}
        if kind == "locate":
            name, key = str(message["stream"]), message["key"]
            layer = lookups.layer_named(layers, name)
            slot = lookups.located(layer, key)
            if layer is None or slot is None or not self._is_seen(layer.index, slot):
                slot = None
            index = layer.index if layer is not None else None
            return {"type": "located", "stream": name, "key": key, "index": index, "slot": slot}
        index = int(message["stream"])
        layer = next((each for each in layers if each.index == index), None)
        if kind == "identify":
            slot = int(message["slot"])
            is_seen = self._is_seen(index, slot)
            about = lookups.described(layer if is_seen else None, slot)
            return {"type": "object", "stream": index, "slot": slot, **about}
        column, slots = str(message["column"]), [int(slot) for slot in message["slots"]]
        told: dict[str, list[Any]] = {"slots": [], "texts": []}
        if layer is not None:
            mine = None if seen is None else seen.get(index, np.empty(0, np.uint32))
            told = lookups.labels(layer, column, slots, mine)
        return {"type": "labels", "stream": index, "column": column, **told}

    def _is_seen(self, index: int, slot: int) -> bool:
        return self._who.is_admin or bool(np.isin(slot, self._may_see.get(index, [])))

    # What a viewer is sent

    async def _send(self, message: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(message, separators=(",", ":")))

    async def _tell(self) -> None:
        next_stats = 0.0
        while True:
            self.wake.clear()
            await self._tell_queries()
            self._watch()
            alerts = self._alerts.due()  # their objects may be seen from now on
            await self._tell_frames()
            if alerts is not None:
                await self._send(alerts)
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
        version = self._server.session.catalog.version
        if version != self._version:
            await self._send(await to_thread.run_sync(self._news_of_queries))
            layers = [layer.index for layer in self._live.layers()]
            if self._layers not in (None, layers):
                await self._send({"type": "streams"})
            self._version, self._layers = version, layers
        focals = {
            name: focal
            for name, focal in self._live.focals.items()
            if name in self._queries and self._focals.get(name) != focal
        }
        if focals:
            self._focals |= focals
            await self._send({"type": "focals", "focals": focals})

    def _news_of_queries(self) -> dict[str, Any]:
        """The queries that are new to them and those that are gone; of very many, the first."""
        visible = self._server.visible(self._who)
        kinds = Counter(
            f"moving {kind_of(query)}" if query.focals else kind_of(query) for query in visible
        )
        shown = {query.name: query for query in visible[:MOST_TOLD]}
        before, self._queries = self._queries, shown
        new = [query for name, query in shown.items() if before.get(name) is not query]
        gone = [name for name in before if name not in shown]
        for known in (self._sizes, self._focals, self._regions):
            for name in gone:
                known.pop(name, None)
        return {
            "type": "queries",
            "whole": not before,
            "queries": [describe(self._server, query) for query in new],
            "gone": gone,
            "kinds": kinds,
        }

    async def _tell_frames(self) -> None:
        self._may_see = self._seen() if not self._who.is_admin else {}
        for layer in self._live.layers():
            frame = layer.frame
            if frame is None or (self._names and fold(layer.stream.name) not in self._names):
                continue
            if self._who.sight is not None and fold(layer.stream.name) not in self._who.sight:
                continue
            has_new = self._classes.get(layer.index, 0) != len(layer.classes.names)
            if has_new and sees_all(self._who, layer.stream):
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
        for found in self._alerts.seen():
            for index, slots in found.items():
                parts.setdefault(index, []).append(slots)
        for name in self._queries:
            for layer, slot in self._live.focals.get(name, []):
                if layer is not None and slot is not None:
                    parts.setdefault(layer, []).append(np.array([slot], np.uint32))
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
        for name, query in self._queries.items():
            is_trigger = query.trigger is not None  # whose alerts are counted, as it has no answer
            counted = self._server.trigger_counts(query)["alerts"] if is_trigger else None
            size = counted if is_trigger else self._server.hub.size(name)
            if size is not None and self._sizes.get(name) != size:
                sizes[name] = size
        if sizes:
            self._sizes |= sizes
            await self._send({"type": "sizes", "sizes": sizes})
        for query in [q for q in self._queries.values() if q.query_table is not None]:
            regions = self._live.regions(query)
            if regions is not None and self._regions.get(query.name) != regions:
                self._regions[query.name] = regions
                await self._send({"type": "regions", **regions})

    # Whose answers they need

    def _watch(self) -> None:
        """Subscribe to what is highlighted and to triggers; for a client, to all of its queries."""
        visible = self._queries
        chosen = dict.fromkeys(name for name in self._highlighted if name in visible)
        chosen |= dict.fromkeys(n for n, query in visible.items() if query.trigger is not None)
        if not self._who.is_admin:
            chosen |= dict.fromkeys(visible)
        wanted = dict.fromkeys(list(chosen)[:MOST_WATCHED])
        for name in [name for name in self._watchers if name not in wanted]:
            self._watchers.pop(name).cancel()
            self._watched.pop(name, None)
        for name in wanted:
            task = self._watchers.get(name)
            if task is None or task.done():
                query = visible[name]
                follow = self._ask if query.arrivals else self._follow
                if query.trigger is not None:
                    follow = self._heed
                self._watchers[name] = asyncio.create_task(follow(query))

    async def _ask(self, query: Query) -> None:
        """Ask for an answer again and again: its deltas do not tell who leaves it."""
        hub, asked = self._server.hub, -1
        watched = self._watched[query.name] = Watched(query)
        with contextlib.suppress(Refused):
            while True:
                if hub.tick > asked:
                    asked, rows = await hub.answer(query)
                    watched.hold(rows)
                    self.wake.set()
                await asyncio.sleep(STATS)
        await asyncio.sleep(STATS)

    async def _follow(self, query: Query) -> None:
        watched = Watched(query)

        def take(messages: Iterable[Message]) -> None:
            self._watched[query.name] = watched
            watched.take(messages)

        await self._hear(query, take)

    async def _heed(self, query: Query) -> None:
        spots = spots_of(query)
        await self._hear(query, lambda messages: self._alerts.take(query, spots, messages))

    async def _hear(self, query: Query, take: Callable[[Iterable[Message]], None]) -> None:
        """Take the deltas of a query until it is gone."""
        hub = self._server.hub
        subscriber: Subscriber | None = None
        try:
            joined = await self._server.subscribe(self._who, query, None, 0)
            subscriber = joined.subscriber
            messages: Iterable[Message] = joined.messages
            while True:
                take(messages)
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
        return Response(await live.roads(stream, who), media_type="application/geo+json")

    @routes.get("/map/land/{z}/{x}/{y}")
    async def land_tile(_: Request, who: Reader, z: int, x: int, y: int) -> Response:
        """A vector tile of land, lakes and borders, for maps without internet."""
        if not land.is_tile(z, x, y) or land.directory() is None:
            raise Refused(404, "not_found", f"there is no tile {z}/{x}/{y}")
        drawn = await to_thread.run_sync(land.tile, z, x, y)
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(drawn, media_type="application/vnd.mapbox-vector-tile", headers=headers)

    @routes.get(BASEMAP)
    async def basemap(_: Request, who: Reader) -> FileResponse:
        """The archive of tiles that the server was started with, by ranges of bytes."""
        if state.settings.basemap_file is None:
            raise Refused(404, "not_found", "this server has no base map of its own")
        return FileResponse(state.settings.basemap_file, media_type="application/octet-stream")

    @routes.websocket("/map")
    async def look(websocket: WebSocket) -> None:
        who = await admit(websocket, "admin", "client", "viewer")
        if who is None:
            return
        asked = websocket.query_params.get("streams", "")
        await websocket.accept(spoken(websocket))
        names = {fold(name) for name in asked.split(",") if name}
        await Viewer(live, who, websocket, names).look()

    return routes
