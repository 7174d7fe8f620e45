"""The server as one object: the session, who owns what, and the threads that keep it going."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from anyio import CapacityLimiter

from place.errors import PlaceError
from place.plan.catalog import fold
from place.plan.query import Query
from place.runtime.durable.state_figures import TRIGGER_FIGURES
from place.runtime.interface import durable
from place.runtime.tables import TableLoader
from place.server.access import Who
from place.server.errors import Refused, busy, not_found
from place.server.grants import Grant
from place.server.guard import Guard
from place.server.hub import Hub
from place.server.pump import Pump
from place.server.quotas import Quotas
from place.server.settings import Settings
from place.server.store import LOCAL, Id, Owned, ServerStore, Suspended
from place.server.watched import Joined
from place.server.webhooks import Webhooks
from place.session import Session
from place.sql.limits import EMBEDDED, Limits

LOG = logging.getLogger("place.server")
WATCH = 1.0
"""Seconds between looks whether the token of an open connection was revoked."""
MOST_ASKED = 4
"""Statements of one client at the same time."""


class Server:
    """Everything that the routes need, in one place."""

    def __init__(
        self,
        session: Session,
        home: Path,
        settings: Settings,
        look: Callable[[float], object] | None = None,
    ) -> None:
        self.session = session
        self.runtime = durable(session.runtime)
        self.settings = settings
        self.began = time.time()
        self.store = ServerStore(home)
        self.hub = Hub(self.runtime, settings.backlog, settings.most_subscribers)
        self.webhooks = Webhooks(self)
        self.quotas = Quotas(self, settings.quota)
        self.guard = Guard(self)
        self.pump = Pump(self.runtime, look)
        self.receiving = 0
        """Bytes of readings that are being received."""
        self.asks, self.writes = CapacityLimiter(8), CapacityLimiter(8)
        """Limits on threads: one for statements, one for readings, so that neither waits for the
        other."""
        self._closed_door = False
        settings.data.mkdir(parents=True, exist_ok=True)
        session.loader = TableLoader(settings.data, confined=True)
        self._forget_gone()
        self.owners: dict[str, Owned] = self.store.owned()
        self.suspended: dict[str, Suspended] = self.store.suspended()
        self._asking: Counter[str] = Counter()

    def _forget_gone(self) -> None:
        """Owners of queries that a killed process did not come to register, or to forget; and
        queries that it did not come to drop."""
        queries = self.session.catalog.queries
        self.store.disown(name for name in self.store.owned() if name not in queries)
        self.store.unsuspend(name for name in self.store.suspended() if name in queries)

    # Who may see what

    def is_open(self) -> bool:
        """May everybody do everything? Only on loopback, and while there never was a token."""
        if not self.settings.is_loopback or self._closed_door:
            return False
        self._closed_door = self.store.has_tokens()
        return not self._closed_door

    def owned(self, query: str) -> Owned:
        """Whose a query is; those of the setup are the operator's."""
        return self.owners.get(fold(query)) or Owned(LOCAL, 0)

    def may_see(self, who: Who, query: str) -> bool:
        return who.is_admin or self.owned(query).owner == who.name

    def seeing(self, who: Who) -> Who:
        """Somebody with what they see of streams and tables. A viewer sees the streams of the
        queries that are shown to it, and nothing of those but what the queries tell."""
        if who.role == "viewer":
            streams = {stream for query in self.visible(who) for stream in query.streams}
            return replace(who, sight={fold(name): Grant(name, "FALSE") for name in streams})
        return who if who.is_admin else replace(who, sight=self.store.sight(who.name))

    def visible(self, who: Who) -> list[Query]:
        """The queries that somebody may see."""
        queries = list(self.session.catalog.queries.values())
        return queries if who.is_admin else [q for q in queries if self.may_see(who, q.name)]

    def find(self, who: Who, name: str) -> Query:
        """A query by its name, if there is one that they may see."""
        found = self.session.catalog.queries.get(fold(name))
        if found is None and (suspended := self.find_suspended(who, name)) is not None:
            raise Refused(
                409,
                "query_suspended",
                f'query "{suspended.name}" is suspended: {suspended.reason}',
                hint=f"POST /queries/{suspended.name}/resume registers it again",
            )
        if found is None or not self.may_see(who, found.name):
            raise not_found("query", name)
        return found

    def find_suspended(self, who: Who, name: str) -> Suspended | None:
        """A suspended query by its name, if there is one that they may see."""
        found = self.suspended.get(fold(name))
        if found is None or not self.is_suspended(name):
            return None
        return found if who.is_admin or found.owner == who.name else None

    def is_suspended(self, name: str) -> bool:
        """One whose query still runs is about to be suspended, or was resumed just now."""
        return fold(name) in self.suspended and fold(name) not in self.session.catalog.queries

    def owned_by(self, name: str) -> list[Query]:
        """The queries of somebody."""
        queries = self.session.catalog.queries
        mine = (key for key, owned in list(self.owners.items()) if owned.owner == name)
        return [found for key in mine if (found := queries.get(key)) is not None]

    def trigger_counts(self, query: Query) -> dict[str, int]:
        """What a trigger keeps, and what came of it, as of the last tick."""
        last = self.runtime.last
        counts = last.triggers.get(query.name) if last is not None else None
        return dict(zip(TRIGGER_FIGURES, counts or [0] * len(TRIGGER_FIGURES), strict=True))

    async def subscribe(self, who: Who, query: Query, after: Id | None, registered: int) -> Joined:
        """Subscribe somebody to a query, if they may have one more subscription."""
        others = (other.who for other in self.hub.subscribers())
        mine = sum((other.name, other.role) == (who.name, who.role) for other in others)
        self.quotas.check(who, "subscriptions", mine)
        return await self.hub.join(who, query, after, registered)

    # How much they may ask for

    def limits_of(self, who: Who) -> Limits:
        """How large their statements may be."""
        return EMBEDDED if who.is_admin else self.settings.limits

    @contextlib.contextmanager
    def turn(self, who: Who) -> Iterator[None]:
        """One of a client's statements; others get their turn, whoever sends many at once."""
        if self._asking[who.name] >= MOST_ASKED and not who.is_admin:
            raise busy(f"{MOST_ASKED} of your statements are under way", 1)
        self._asking[who.name] += 1
        try:
            yield
        finally:
            self._asking[who.name] -= 1
            if not self._asking[who.name]:
                del self._asking[who.name]

    def is_valid(self, who: Who) -> bool:
        """May somebody who has connected stay: is their token still valid, or does nobody need
        one?"""
        return self.is_open() if who.token is None else self.store.is_valid(who.token)

    # Its life

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ticks run and deltas are delivered; at the end what is under way is finished."""
        self.guard.start()
        self.hub.start(asyncio.get_running_loop())
        self.pump.start()
        tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self.webhooks.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(self.pump.stop)
            await asyncio.to_thread(self.guard.stop)
            await asyncio.to_thread(self.hub.stop)
            self.store.close()

    async def _watch(self) -> None:
        """Close what a revoked token has opened."""
        while True:
            await asyncio.sleep(WATCH)
            try:
                for subscriber in self.hub.subscribers():
                    if not self.is_valid(subscriber.who):
                        subscriber.end("not_authenticated", "the token was revoked", 4401)
            except PlaceError as error:  # of the file with the tokens: it is looked at again
                LOG.error("tokens cannot be checked: %s", error)
