"""Webhooks: addresses that get the deltas of a query, at least once, in order, also after a while.

How far each one is stands in `server.sqlite`; the deltas themselves are in the outbox, which keeps
them for those that are behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import logging
import random
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import httpx
from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from place.errors import PlaceError
from place.plan.catalog import fold
from place.runtime.durable.sinks import NOBODY, REMEMBER
from place.server.access import Reader, server_of
from place.server.encode import INITIAL, LAST, Encoded, Message, backlog, parse_id
from place.server.errors import Refused, not_found
from place.server.store import LOCAL, Webhook

if TYPE_CHECKING:
    from place.server.state import Server

LOG = logging.getLogger("place.server")
router = APIRouter()
PATIENCE, LONGEST_PAUSE = 10.0, 60.0
"""Seconds for an address to answer, and between attempts at most."""
TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
"""Addresses that stand for one of IPv4, by their last 32 bits."""
MOST = 10
"""Webhooks of one query."""


@dataclass
class Line:
    """A webhook at work."""

    webhook: Webhook
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    failures: int = 0
    error: str | None = None


class Webhooks:
    """All webhooks of a server, each a task of the event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lines: dict[str, Line] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        server.runtime.deliveries.others = self.delivered

    async def run(self) -> None:
        """Deliver until cancelled."""
        queries = self._server.session.catalog.queries
        self._server.hub.on_tick.append(self._wake)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        async with httpx.AsyncClient(
            timeout=PATIENCE, follow_redirects=False, limits=limits
        ) as client:
            self._client = client
            for webhook in self._server.store.webhooks():
                if fold(webhook.query) not in queries and webhook.until is None:
                    webhook = replace(webhook, until=self._server.hub.tick)
                self._begin(webhook)
            self._loop = asyncio.get_running_loop()
            try:
                await asyncio.Event().wait()
            finally:
                for line in self._lines.values():
                    if line.task is not None:
                        line.task.cancel()

    def _wake(self, _: object = None) -> None:
        for line in self._lines.values():
            line.wake.set()

    def delivered(self) -> int:
        """The last tick that all have got, except those that have been waited for long enough."""
        deliveries = self._server.runtime.deliveries
        hooks = [line.webhook for line in list(self._lines.values()) or self._not_begun()]
        done = [
            hook.after[0] if hook.after[1] >= INITIAL else hook.after[0] - 1
            for hook in hooks
            if hook.lost is None
        ]
        oldest = min(filter(deliveries.may_hold, done), default=NOBODY)
        deliveries.hold(oldest)
        return oldest

    def _not_begun(self) -> list[Line]:
        """Before the first one is at work, those that are to be."""
        return [] if self._loop is not None else [Line(w) for w in self._server.store.webhooks()]

    # What people do with them

    def of(self, query: str) -> list[Line]:
        return [line for line in self._lines.values() if line.webhook.query == query]

    def count(self, owner: str) -> int:
        return sum(line.webhook.owner == owner for line in self._lines.values())

    def add(self, webhook: Webhook) -> Line:
        self._server.store.add_webhook(webhook)
        line = self._begin(webhook)
        self.delivered()  # from now on deltas are kept for it, whoever opens this home
        return line

    def remove(self, number: str) -> None:
        line = self._lines.pop(number)
        self._server.store.remove_webhook(number)
        if line.task is not None:
            line.task.cancel()

    def end(self, queries: Iterable[str], tick: int) -> None:
        """Queries were dropped in a tick: it is the last that their webhooks get."""
        names = set(queries)
        for webhook in self._server.store.webhooks():
            if webhook.query in names and webhook.until is None:
                self._server.store.end_webhook(webhook.id, tick)

        def end() -> None:
            for line in self._lines.values():
                if line.webhook.query in names and line.webhook.until is None:
                    line.webhook = replace(line.webhook, until=tick)
                    line.wake.set()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(end)

    # Delivery

    def _begin(self, webhook: Webhook) -> Line:
        line = self._lines[webhook.id] = Line(webhook)
        if webhook.lost is None:
            line.task = asyncio.create_task(self._serve(line))
        return line

    async def _serve(self, line: Line) -> None:
        """Deliver for as long as there is something to deliver, whatever goes wrong."""
        while True:
            try:
                await self._deliver(line)
                return
            except Refused as error:
                await self._give_up(line, error)
                return
            except Exception as error:  # of the disk, say: it is tried again
                line.error = str(error).partition("\n")[0] or type(error).__name__
                LOG.exception("webhook %s has to wait", line.webhook.id)
                await asyncio.sleep(self._pause(line))

    async def _deliver(self, line: Line) -> None:
        while True:
            line.wake.clear()
            until = min(self._server.hub.tick, line.webhook.until or 1 << 62)
            encoded = await to_thread.run_sync(self._next, line.webhook, until)
            if encoded is not None:
                for message in encoded.messages:
                    await self._insist(line, message)
            elif line.webhook.until is not None and until >= line.webhook.until:
                self.remove(line.webhook.id)
                return
            else:
                self._skip(line, until)
                line.failures, line.error = 0, None
                await line.wake.wait()

    async def _give_up(self, line: Line, error: Refused) -> None:
        """It cannot get its deltas any more; whoever looks at it sees why."""
        line.error = error.message
        line.webhook = replace(line.webhook, lost=error.message)
        LOG.error("webhook %s is given up: %s", line.webhook.id, error.message)
        with contextlib.suppress(PlaceError):
            self._server.store.lose_webhook(line.webhook.id, error.message)

    def _pause(self, line: Line) -> float:
        """Seconds until the next attempt after one more that failed."""
        line.failures += 1
        pause = min(LONGEST_PAUSE, 0.25 * 2.0 ** min(line.failures, 20))
        return pause * random.uniform(0.5, 1.0)

    def _next(self, webhook: Webhook, until: int) -> Encoded | None:
        """The deltas of the first tick that has some for an address."""
        storage = self._server.runtime.pipeline.storage
        return next(backlog(storage, webhook.query, webhook.after, until), None)

    def _skip(self, line: Line, tick: int) -> None:
        """There was nothing to send up to a tick."""
        before = line.webhook.after
        if (tick, LAST) > before:
            line.webhook = replace(line.webhook, after=(tick, LAST))
            if tick // REMEMBER != before[0] // REMEMBER:
                self._server.store.advance_webhook(line.webhook.id, (tick, LAST))

    async def _insist(self, line: Line, message: Message) -> None:
        """Send until it is taken."""
        while True:
            self._check_owner(line.webhook)
            try:
                await self._post(line.webhook, message)
            except (httpx.HTTPError, OSError, ValueError, TimeoutError) as error:
                line.error = str(error) or type(error).__name__
                await asyncio.sleep(self._pause(line))
            else:
                line.failures, line.error = 0, None
                after = parse_id(message.last)
                line.webhook = replace(line.webhook, after=after)
                self._server.store.advance_webhook(line.webhook.id, after)
                return

    def _check_owner(self, webhook: Webhook) -> None:
        if webhook.owner != LOCAL and not self._server.store.is_active(webhook.owner):
            raise Refused(401, "not_authenticated", "its owner's token was revoked")

    async def _post(self, webhook: Webhook, message: Message) -> None:
        assert self._client is not None
        body = message.text.encode()
        headers = {
            "Content-Type": "application/json",
            "X-Place-Query": webhook.query.encode("ascii", "backslashreplace").decode(),
            "X-Place-First-Id": message.first,
            "X-Place-Last-Id": message.last,
        }
        if webhook.secret is not None:
            signed = hmac.new(webhook.secret.encode(), body, "sha256")
            headers["X-Place-Signature"] = f"sha256={signed.hexdigest()}"
        url, extensions = httpx.URL(webhook.url), {}
        if not webhook.trusted:
            # Asked by its number, so that the name cannot come to mean another machine meanwhile.
            headers["Host"] = url.netloc.decode()
            extensions = {"sni_hostname": url.host}
            url = url.copy_with(host=await public_address(url))
        # What it says beside the status is nothing to us, and may be without end.
        async with (
            asyncio.timeout(PATIENCE),
            self._client.stream(
                "POST", url, content=body, headers=headers, extensions=extensions
            ) as response,
        ):
            if not response.is_success:
                raise ValueError(f"it answered {response.status_code}")


async def public_address(url: httpx.URL) -> str:
    """An address of a URL's host; an error if one of them is not public."""
    port = url.port or (443 if url.scheme == "https" else 80)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not is_public(ipaddress.ip_address(address.partition("%")[0])):
            raise ValueError(f"{url.host} is not an address of the public internet")
    return addresses[0]


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Is it an address of the public internet, also where it stands for another?

    >>> is_public(ipaddress.ip_address("64:ff9b::7f00:1"))
    False
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in TRANSLATED):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and all(each.is_global for each in inner if each is not None)


# The routes


class NewWebhook(BaseModel):
    """Where to send deltas; with a secret they are signed."""

    url: str = Field(max_length=2000)
    secret: str | None = Field(default=None, min_length=1, max_length=200)


class WebhookInfo(BaseModel):
    """A webhook, the id up to which it has got all deltas, and what keeps it from getting more."""

    id: str
    query: str
    url: str
    owner: str
    signed: bool
    after: str
    failures: int
    error: str | None
    lost: bool


def _shown(line: Line) -> WebhookInfo:
    hook = line.webhook
    return WebhookInfo(
        id=hook.id,
        query=hook.query,
        url=hook.url,
        owner=hook.owner,
        signed=hook.secret is not None,
        after=f"{hook.after[0]}-{hook.after[1]}",
        failures=line.failures,
        error=line.error or hook.lost,
        lost=hook.lost is not None,
    )


@router.post("/queries/{name}/webhooks", response_model=WebhookInfo, status_code=201)
async def add_webhook(request: Request, who: Reader, name: str, new: NewWebhook) -> WebhookInfo:
    """Send the deltas of a query to an address from now on."""
    server = server_of(request)
    query = server.find(who, name)
    trusted = who.is_admin or server.settings.private_webhooks
    await _check_url(new.url, trusted)
    if server.find(who, name) is not query:  # dropped meanwhile, and perhaps another one's
        raise not_found("query", name)
    if len(server.webhooks.of(query.name)) >= MOST:
        raise Refused(409, "conflict", f'query "{query.name}" has {MOST} webhooks already')
    server.quotas.check(who, "webhooks", server.webhooks.count(who.name))
    last = server.runtime.pipeline.last
    webhook = Webhook(
        secrets.token_hex(8),
        query.name,
        who.name,
        trusted,
        new.url,
        new.secret,
        (last.tick if last is not None else 0, LAST),
    )
    line = server.webhooks.add(webhook)
    # Whoever drops a query ends its webhooks after that: those that came later end here.
    if server.session.catalog.queries.get(fold(query.name)) is not query:
        if line.webhook.until is None:
            server.webhooks.remove(webhook.id)
        raise not_found("query", name)
    return _shown(line)


async def _check_url(text: str, trusted: bool) -> None:
    try:
        url = httpx.URL(text)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError("it has to begin with http:// or https://")
        if url.port is not None and not 0 < url.port < 1 << 16:
            raise ValueError(f"there is no port {url.port}")
        if not trusted:
            await public_address(url)
    except (httpx.InvalidURL, ValueError, OSError) as error:
        raise Refused(400, "wrong_url", f"the url cannot be used: {error}") from None


@router.get("/queries/{name}/webhooks", response_model=list[WebhookInfo])
async def list_webhooks(request: Request, who: Reader, name: str) -> list[WebhookInfo]:
    """The webhooks of a query."""
    server = server_of(request)
    lines = server.webhooks.of(server.find(who, name).name)
    return [_shown(each) for each in lines if who.is_admin or each.webhook.owner == who.name]


@router.delete("/queries/{name}/webhooks/{number}", status_code=204)
async def remove_webhook(request: Request, who: Reader, name: str, number: str) -> None:
    """Send no more to an address."""
    server = server_of(request)
    query = server.find(who, name)
    for line in server.webhooks.of(query.name):
        hook = line.webhook
        if hook.id == number and (who.is_admin or hook.owner == who.name):
            server.webhooks.remove(number)
            return
    raise not_found("webhook", number)
