"""Deltas as they come, over WebSocket and as server-sent events, on the same path."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterable
from typing import Annotated, Any, Protocol

from anyio import to_thread
from fastapi import APIRouter, Header, Query, WebSocket
from fastapi.responses import Response
from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from place.server.access import Reader, admit, deny, server_of, spoken
from place.server.encode import UP_TO_DATE, Message, backlog, parse_id
from place.server.errors import Refused, error_body
from place.server.state import Server
from place.server.subscriber import Ending
from place.server.watched import Joined

router = APIRouter()
BEAT, PATIENCE, STALL = 15.0, 2.0, 60.0
"""Seconds between signs of life; for telling a subscriber why it ends; for sending one message."""


class Outlet(Protocol):
    """Where messages of one subscriber go."""

    async def send(self, message: Message) -> None: ...

    async def beat(self) -> None: ...

    async def fail(self, ending: Ending) -> None: ...


async def pour(
    server: Server, joined: Joined, outlet: Outlet, left: Coroutine[Any, Any, object]
) -> None:
    """Send messages to a subscriber until it leaves, ends or is too slow; then tell it why, if
    possible.

    If the other side does not read, `send` waits, and the queue that fills up meanwhile ends the
    subscription.
    """
    subscriber = joined.subscriber
    sending = asyncio.create_task(_send(server, joined, outlet))
    leaving = asyncio.create_task(left)
    hurrying = asyncio.create_task(subscriber.hurry.wait())
    tasks = {sending, leaving, hurrying}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        is_left = leaving.done()
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        server.hub.leave(subscriber)
    if is_left:
        return
    ending = subscriber.ending
    if ending is None and isinstance(results[0], Refused):
        ending = Ending(results[0].code, results[0].message, 4410)
    if ending is not None:
        with contextlib.suppress(OSError, RuntimeError, TimeoutError, WebSocketDisconnect):
            async with asyncio.timeout(PATIENCE):
                await outlet.fail(ending)


async def _send(server: Server, joined: Joined, outlet: Outlet) -> None:
    subscriber = joined.subscriber

    async def send(messages: Iterable[Message]) -> None:
        for message in messages:
            try:
                async with asyncio.timeout(STALL):
                    await outlet.send(message)
            except TimeoutError:
                subscriber.give_up(f"you took nothing for {STALL:g} seconds")
                raise

    is_news = bool(joined.messages)
    await send(joined.messages)
    if joined.after is not None:
        deltas = server.runtime.deltas
        missed = backlog(deltas, subscriber.query, joined.after, joined.until)
        while (encoded := await to_thread.run_sync(next, missed, None)) is not None:
            is_news = True
            await send(encoded.messages)
    if not is_news:
        await send([UP_TO_DATE])
    while True:
        try:
            async with asyncio.timeout(BEAT):
                taken = await subscriber.take()
        except TimeoutError:
            await outlet.beat()
            continue
        if not taken:
            return
        await send(taken)


# WebSocket


class _Socket:
    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def send(self, message: Message) -> None:
        await self._websocket.send_text(message.text)

    async def beat(self) -> None:
        """WebSockets have pings of their own."""

    async def fail(self, ending: Ending) -> None:
        await self._websocket.send_text(json.dumps(error_body(ending.code, ending.message)))
        await self._websocket.close(ending.close, ending.code)


async def _deaf(websocket: WebSocket) -> None:
    """Until the other side leaves; what it says is not heard."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while (await websocket.receive())["type"] != "websocket.disconnect":
            pass


@router.websocket("/queries/{name}/updates")
async def listen(websocket: WebSocket, name: str) -> None:
    who = await admit(websocket, "admin", "client", "viewer")
    if who is None:
        return
    server = server_of(websocket)
    try:
        query = server.find(who, name)
        text = websocket.query_params.get("after")
        after = parse_id(text) if text else None
        joined = await server.subscribe(who, query, after, server.owned(query.name).tick)
    except Refused as error:
        if error.code != "gone":
            await deny(websocket, error)
            return
        await websocket.accept(spoken(websocket))
        with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect):
            await _Socket(websocket).fail(Ending(error.code, error.message, 4410))
        return
    try:
        await websocket.accept(spoken(websocket))
    except BaseException:
        server.hub.leave(joined.subscriber)
        raise
    await pour(server, joined, _Socket(websocket), _deaf(websocket))


# Server-sent events


class _Events:
    def __init__(self, send: Send) -> None:
        self._send = send

    async def _write(self, data: bytes, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def send(self, message: Message) -> None:
        await self._write(message.event)

    async def beat(self) -> None:
        await self._write(b": still here\n\n")

    async def fail(self, ending: Ending) -> None:
        data = json.dumps(error_body(ending.code, ending.message))
        await self._write(f"event: error\ndata: {data}\n\n".encode(), more=False)


class EventStream(Response):
    """A response that goes on for as long as its subscriber listens."""

    media_type = "text/event-stream"

    def __init__(self, server: Server, joined: Joined) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        self._server = server
        self._joined = joined
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def left() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
        except BaseException:
            self._server.hub.leave(self._joined.subscriber)
            raise
        events = _Events(send)
        await events.beat()
        await pour(self._server, self._joined, events, left())


@router.get(
    "/queries/{name}/updates",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def follow(
    request: Request,
    who: Reader,
    name: str,
    after: Annotated[str | None, Query(description="resume after this id")] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The answer as positive deltas, then every delta as it comes (server-sent events).

    The same path is a WebSocket, which gets the same arrays of deltas as its messages.
    """
    server = server_of(request)
    query = server.find(who, name)
    text = last_event_id or after  # who connects again asks for the same address
    joined = await server.subscribe(
        who, query, parse_id(text) if text else None, server.owned(query.name).tick
    )
    return EventStream(server, joined)
