"""Webhooks: addresses that get the deltas of a query, at least once, in order, also after a while.

How far each one is stands in `server.sqlite`; the deltas themselves are in the outbox, which keeps
them for those that are behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
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
from place.runtime.durable.webhook import FAILURES, Address, Attempts, sender
from place.runtime.interface import tick_of
from place.server.access import Asker, server_of
from place.server.encode import INITIAL, LAST, Encoded, Message, backlog, parse_id
from place.server.errors import Refused, not_found
from place.server.store import LOCAL, Webhook

if TYPE_CHECKING:
    from place.server.state import Server

LOG = logging.getLogger("place.server")
router = APIRouter()
MOST = 10
"""Webhooks of one query."""


@dataclass
class Line:
    """A webhook at work."""

    webhook: Webhook
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    attempts: Attempts = field(default_factory=Attempts)


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
        async with sender() as client:
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
                LOG.exception("webhook %s has to wait", line.webhook.id)
                await asyncio.sleep(line.attempts.fail(error))

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
                line.attempts.succeed()
                await line.wake.wait()

    async def _give_up(self, line: Line, error: Refused) -> None:
        """It cannot get its deltas any more; whoever looks at it sees why."""
        line.attempts.error = error.message
        line.webhook = replace(line.webhook, lost=error.message)
        LOG.error("webhook %s is given up: %s", line.webhook.id, error.message)
        with contextlib.suppress(PlaceError):
            self._server.store.lose_webhook(line.webhook.id, error.message)

    def _next(self, webhook: Webhook, until: int) -> Encoded | None:
        """The deltas of the first tick that has some for an address."""
        deltas = self._server.runtime.deltas
        return next(backlog(deltas, webhook.query, webhook.after, until), None)

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
            except FAILURES as error:
                await asyncio.sleep(line.attempts.fail(error))
            else:
                line.attempts.succeed()
                after = parse_id(message.last)
                line.webhook = replace(line.webhook, after=after)
                self._server.store.advance_webhook(line.webhook.id, after)
                return

    def _check_owner(self, webhook: Webhook) -> None:
        if webhook.owner != LOCAL and not self._server.store.is_active(webhook.owner):
            raise Refused(401, "not_authenticated", "its owner's token was revoked")

    async def _post(self, webhook: Webhook, message: Message) -> None:
        assert self._client is not None
        headers = {
            "Content-Type": "application/json",
            "X-Place-Query": webhook.query.encode("ascii", "backslashreplace").decode(),
            "X-Place-First-Id": message.first,
            "X-Place-Last-Id": message.last,
        }
        address = Address(webhook.url, webhook.secret, webhook.trusted)
        await address.post(self._client, message.text.encode(), headers)


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
        failures=line.attempts.failures,
        error=line.attempts.error or hook.lost,
        lost=hook.lost is not None,
    )


@router.post("/queries/{name}/webhooks", response_model=WebhookInfo, status_code=201)
async def add_webhook(request: Request, who: Asker, name: str, new: NewWebhook) -> WebhookInfo:
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
    webhook = Webhook(
        secrets.token_hex(8),
        query.name,
        who.name,
        trusted,
        new.url,
        new.secret,
        (tick_of(server.runtime), LAST),
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
        await Address(text, trusted=trusted).check()
    except (httpx.InvalidURL, ValueError, OSError) as error:
        raise Refused(400, "wrong_url", f"the url cannot be used: {error}") from None


@router.get("/queries/{name}/webhooks", response_model=list[WebhookInfo])
async def list_webhooks(request: Request, who: Asker, name: str) -> list[WebhookInfo]:
    """The webhooks of a query."""
    server = server_of(request)
    lines = server.webhooks.of(server.find(who, name).name)
    return [_shown(each) for each in lines if who.is_admin or each.webhook.owner == who.name]


@router.delete("/queries/{name}/webhooks/{number}", status_code=204)
async def remove_webhook(request: Request, who: Asker, name: str, number: str) -> None:
    """Send no more to an address."""
    server = server_of(request)
    query = server.find(who, name)
    for line in server.webhooks.of(query.name):
        hook = line.webhook
        if hook.id == number and (who.is_admin or hook.owner == who.name):
            server.webhooks.remove(number)
            return
    raise not_found("webhook", number)
