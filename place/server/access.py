"""Who is asking, and whether they may: tokens, roles, and where a request comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from fastapi import Depends, WebSocket
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from place.server.errors import Refused, error_body, reply, too_large
from place.server.grants import Sight
from place.server.settings import Settings, is_loopback
from place.server.store import LOCAL, ROLES, Role
from place.sql.limits import EMBEDDED

if TYPE_CHECKING:
    from place.server.state import Server

COOKIE = "place_token"
SUBPROTOCOL, OFFERED = "place", "place.token."
"""What a WebSocket speaks, and how a browser offers a token beside it."""


@dataclass(frozen=True)
class Who:
    """Who sends a request: a name that owns queries, a role, and the token that proves it."""

    name: str
    role: Role
    token: str | None = None
    sight: Sight | None = field(default=None, compare=False)
    """The streams and tables that they may see; None is all of them."""

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"


def server_of(connection: HTTPConnection) -> Server:
    """The server that a request came to."""
    return connection.app.state.place  # type: ignore[no-any-return]


def authenticate(connection: HTTPConnection) -> Who:
    """Who sends a request, by the token in it. Without any tokens, on loopback, everybody is the
    same admin."""
    server = server_of(connection)
    if server.is_open():
        return Who(LOCAL, "admin")
    text = _token_of(connection)
    token = server.store.check_token(text) if text is not None else None
    if token is None:
        raise Refused(
            401,
            "not_authenticated",
            "there is no valid token" if text is None else "the token is not valid",
            hint="send the header Authorization: Bearer …",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return server.seeing(Who(token.name, token.role, token.id))


def _token_of(connection: HTTPConnection) -> str | None:
    header = connection.headers.get("authorization")
    if header is not None:
        scheme, _, text = header.partition(" ")
        return text.strip() if scheme.casefold() == "bearer" else ""
    if connection.scope["type"] == "websocket":
        for offer in connection.scope.get("subprotocols", ()):
            if offer.startswith(OFFERED):
                return str(offer.removeprefix(OFFERED))
    return connection.cookies.get(COOKIE)


def permit(who: Who, roles: Iterable[Role]) -> Who:
    """Return the sender of a request if their role is one of these; otherwise refuse it."""
    if who.role not in roles:
        raise Refused(403, "not_allowed", f"the role {who.role} may not do this")
    return who


def asking(*roles: Role) -> Callable[[HTTPConnection], Awaitable[Who]]:
    """A dependency of a route: the sender of the request, who must have one of these roles."""

    async def admitted(connection: HTTPConnection) -> Who:
        return permit(authenticate(connection), roles)

    return admitted


Anyone = Annotated[Who, Depends(asking(*ROLES))]
Reader = Annotated[Who, Depends(asking("admin", "client", "viewer"))]
"""Who looks at queries, and at what they answer."""
Asker = Annotated[Who, Depends(asking("admin", "client"))]
"""Who has queries of their own."""
Monitor = Annotated[Who, Depends(asking("admin", "monitor"))]
Admin = Annotated[Who, Depends(asking("admin"))]
Sender = Annotated[Who, Depends(asking("admin", "ingest"))]


async def admit(websocket: WebSocket, *roles: Role) -> Who | None:
    """Who opens a WebSocket; None if they may not, after the refusal was sent."""
    try:
        return permit(authenticate(websocket), roles)
    except Refused as error:
        await deny(websocket, error)
        return None


async def deny(websocket: WebSocket, error: Refused) -> None:
    """Answer a WebSocket's request with an error, as if it were any other."""
    body = error_body(error.code, error.message, error.hint)
    await websocket.send_denial_response(reply(error.status, body, error.headers))


def spoken(websocket: WebSocket) -> str | None:
    """The subprotocol to answer with."""
    return SUBPROTOCOL if SUBPROTOCOL in websocket.scope.get("subprotocols", ()) else None


class Gate:
    """What holds for all requests: strict headers, and no page of another origin at the door.

    Where nobody needs a token, a page that some browser of this machine shows could ask as well;
    so its origin has to be ours, and the name that it calls us by has to be this machine's.
    """

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server
        self._headers = strict_headers(server.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_strictly(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        reason = self._reason(headers, scope)
        if reason is None:
            if scope["type"] == "http" and not scope["path"].endswith("/readings"):
                receive = self._limited(headers, scope, receive)
            await self._app(scope, receive, send_strictly)
            return
        refusal = reply(403, error_body("cross_origin", reason))
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send_strictly).send_denial_response(refusal)
        else:
            await refusal(scope, receive, send_strictly)

    def _limited(self, headers: Headers, scope: Scope, receive: Receive) -> Receive:
        """What is received, unless it is more than their statements may have, who is asked only
        where it matters. Readings have a limit of their own."""
        limit, most = 4 * self._server.settings.limits.text, 4 * EMBEDDED.text
        length = headers.get("content-length", "")
        size = int(length) if length.isdecimal() and len(length) < 20 else 0

        async def limited() -> Message:
            nonlocal size
            message = await receive() if size <= most else {"type": "http.request"}
            size += len(message.get("body", b"")) if not length else 0
            if size > limit and not (size <= most and self._is_admin(scope)):
                raise HTTPException(413, too_large(limit).message)
            return message

        return limited

    def _is_admin(self, scope: Scope) -> bool:
        try:
            return authenticate(HTTPConnection(scope)).is_admin
        except Refused:
            return False

    def _reason(self, headers: Headers, scope: Scope) -> str | None:
        host = headers.get("host", "")
        if self._server.is_open() and not is_loopback(_name_of(host)):
            return f"this server is asked as {host!r}, but without tokens it serves localhost only"
        origin = headers.get("origin")
        if origin is None or origin in self._server.settings.cors:
            return None
        safe = scope["type"] == "http" and scope["method"] in ("GET", "HEAD", "OPTIONS")
        if safe or _place_of(origin) == host.casefold():
            return None
        return f"pages of {origin} may not ask here"


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.casefold()
    except ValueError:
        return None


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def strict_headers(settings: Settings) -> dict[str, str]:
    """The headers of every answer; the policy is what the page needs and no more."""
    elsewhere = settings.basemap_origin
    more = f" {elsewhere}" if elsewhere else ""
    policy = (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        f"img-src 'self' data: blob:{more}",
        f"connect-src 'self'{more}",
        "worker-src blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
    headers = {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    if not settings.cors:
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
    if settings.secure:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    return headers
