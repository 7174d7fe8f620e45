"""The door: what clients meet at the address of the server, from its first moment to its last.

Spark takes a while to start, and after a kill there may be readings to take first. Meanwhile the
door answers: not yet, try again in a moment; and health says "starting". When the server is ready
it is opened, and when the server stops it is closed again before anything behind it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from place.server.access import strict_headers
from place.server.app import make_app
from place.server.errors import error_body, reply
from place.server.settings import Settings
from place.server.state import Server

RETRY = 2
"""Seconds after which who was sent away may ask again."""
FAREWELL = 1.0
"""Seconds for subscribers to be told that the server stops."""
GRACE = 10.0
"""Seconds for requests that are under way when the server is told to stop."""


class Door:
    """An application that passes requests on to the server's own while it is open."""

    def __init__(self, settings: Settings) -> None:
        self._headers = strict_headers(settings)
        self._app: ASGIApp | None = None
        self._status = "starting"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = threading.Event()
        self._inside: set[asyncio.Task[object]] = set()
        self._close = asyncio.Event()
        self.let_go: Callable[[], object] = lambda: None
        """Closes connections that are idle, and WebSockets; who asks is answered first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._app is None:
            await self._send_away(scope, receive, send)
            return
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside.discard(task)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop = asyncio.get_running_loop()
        self._up.set()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.contextmanager
    def opened(self, server: Server) -> Iterator[None]:
        """Let requests in meanwhile; from any thread but the web server's own."""
        self._up.wait()
        assert self._loop is not None
        ready = threading.Event()
        running = asyncio.run_coroutine_threadsafe(self._run(server, ready), self._loop)
        running.add_done_callback(lambda _: ready.set())
        ready.wait()
        if running.done():
            running.result()  # it could not begin, for the reason that this raises
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._close.set)
            running.result()

    async def _run(self, server: Server, ready: threading.Event) -> None:
        async with server.running():
            self._app = make_app(server)
            ready.set()
            await self._close.wait()
            self._app, self._status = None, "stopping"
            await self._clear(server)

    async def _clear(self, server: Server) -> None:
        """Let subscribers go, and wait for those who still ask."""
        server.hub.end_all("stopping", "the server stops; resume after your last id", 1012)
        await self._wait(FAREWELL)
        self.let_go()
        for task in await self._wait(GRACE):
            task.cancel()

    async def _wait(self, seconds: float) -> set[asyncio.Task[object]]:
        """Those who are still inside after a while, if they are."""
        inside = set(self._inside)
        return (await asyncio.wait(inside, timeout=seconds))[1] if inside else inside

    async def _send_away(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_strictly(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["path"])
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send_strictly).send_denial_response(refusal)
        else:
            await refusal(scope, receive, send_strictly)

    def _refusal(self, path: str) -> JSONResponse:
        headers = {"Retry-After": str(RETRY)}
        if path == "/health":
            body = {"status": self._status, "tick": 0, "failure": None}
            return JSONResponse(body, 503, headers)
        said = "the server is starting" if self._status == "starting" else "the server stops"
        body = error_body(self._status, said, f"try again in {RETRY} s")
        return reply(503, body, headers)
