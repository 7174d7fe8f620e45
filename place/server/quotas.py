"""How much each client may have: queries, webhooks, subscriptions, state, and what a query costs.

One client must not take what is there for all. What it may have is a quota, by its name: the
server's defaults, or what an admin has set for it, here or with `place quota`. Admins have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from place.plan.query import Query
from place.server.access import Admin, Asker, Who, server_of
from place.server.errors import Refused
from place.server.settings import PARTS, VALUE, Quota
from place.server.store import LOCAL

if TYPE_CHECKING:
    from place.server.state import Server

router = APIRouter()
COUNTED = ("queries", "webhooks", "subscriptions", "state")
"""The parts of a quota that are used up; the others are of single queries."""


class Quotas:
    """The quotas of all clients, and how much of them is used."""

    def __init__(self, server: Server, default: Quota) -> None:
        self._server = server
        self.default = default

    def of(self, name: str) -> Quota:
        """What somebody may have."""
        return replace(self.default, **self._server.store.quotas().get(name, {}))

    def least(self) -> Quota:
        """The least that anybody may have: whoever has no more than that needs no closer look."""
        given = self._server.store.quotas().values()
        parts = {p: [each[p] for each in given if p in each] for p in PARTS}
        return Quota(**{p: min(getattr(self.default, p), *parts[p], 1 << 62) for p in PARTS})

    def used(self, name: str) -> dict[str, int]:
        """How much somebody has of each."""
        return self.usage([name])[name]

    def usage(self, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """The same of many, in one look at all that is there."""
        server = self._server
        found = {name: dict.fromkeys(COUNTED, 0) for name in names}

        def add(owner: str, what: str, size: int = 1) -> None:
            if owner in found:
                found[owner][what] += size

        queries = server.session.catalog.queries
        for key, owned in list(server.owners.items()):
            if key in queries:
                add(owned.owner, "queries")
                add(owned.owner, "state", VALUE * self.values_of(queries[key]))
        for suspended in list(server.suspended.values()):
            add(suspended.owner, "queries")
        for subscriber in server.hub.subscribers():
            add(subscriber.who.name, "subscriptions")
        for name in found:
            found[name]["webhooks"] = server.webhooks.count(name)
        return found

    def values_of(self, query: Query) -> int:
        """Rows times columns of the answer of a query, or of the readings that a trigger keeps; 0
        while its size is not known."""
        if query.trigger is not None:
            width = max(len(source.relation.columns) for source in query.sources)
            return width * self._server.trigger_counts(query)["kept"]
        return len(query.outputs) * (self._server.hub.known_size(query.name) or 0)

    def check(self, who: Who, what: str, used: int) -> None:
        """Raise if somebody who has so many already may not have one more."""
        if who.is_admin:
            return
        most = getattr(self.of(who.name), what)
        if used >= most:
            raise exceeded(what, used, most)

    def rest(self, who: Who) -> int:
        """How many more queries somebody may register; an error if their state is too large."""
        if who.is_admin:
            return 1 << 62
        quota, used = self.of(who.name), self.used(who.name)
        if used["state"] >= quota.state:
            raise exceeded("state", used["state"], quota.state)
        return quota.queries - used["queries"]


def exceeded(what: str, used: int, most: int) -> Refused:
    """What to say to whoever has all that they may have."""
    unit = "bytes of state" if what == "state" else what
    return Refused(
        403,
        "quota_exceeded",
        f"you have {used:,} {unit}, and may have {most:,}",
        hint="give some up, or ask an admin for more (PUT /quotas/{your name})",
    )


# The routes


class Parts(BaseModel):
    """What may be set for a client; what is left out stays as it is."""

    queries: int | None = Field(default=None, ge=0, lt=1 << 62)
    webhooks: int | None = Field(default=None, ge=0, lt=1 << 62)
    subscriptions: int | None = Field(default=None, ge=0, lt=1 << 62)
    state: int | None = Field(default=None, ge=0, lt=1 << 62)
    answer: int | None = Field(default=None, ge=0, lt=1 << 62)
    deltas: int | None = Field(default=None, ge=0, lt=1 << 62)
    pairs: int | None = Field(default=None, ge=0, lt=1 << 62)


class QuotaInfo(BaseModel):
    """What a client may have, what it has of it, and which parts were set for it alone."""

    name: str
    quota: dict[str, int]
    used: dict[str, int]
    own: list[str]


def shown(server: Server, names: Iterable[str]) -> list[QuotaInfo]:
    """The quotas of clients as others see them."""
    own = server.store.quotas()
    return [
        QuotaInfo(
            name=name,
            quota=asdict(replace(server.quotas.default, **own.get(name, {}))),
            used=used,
            own=sorted(own.get(name, {})),
        )
        for name, used in server.quotas.usage(names).items()
    ]


def clients(server: Server) -> list[str]:
    """All who have a quota, or something that counts for one."""
    store = server.store
    names = {token.name for token in store.tokens() if token.revoked is None}
    names |= {owned.owner for owned in server.owners.values()} | set(store.quotas())
    names |= {each.owner for each in server.suspended.values()}
    return sorted(name for name in names - {LOCAL} if not store.is_admin(name))


@router.get("/quotas", response_model=list[QuotaInfo])
def list_quotas(request: Request, who: Asker) -> list[QuotaInfo]:
    """What clients may have, and what they have: all for an admin, your own for you."""
    server = server_of(request)
    names = clients(server) if who.is_admin else [who.name]
    return shown(server, names)


@router.put("/quotas/{name}", response_model=QuotaInfo)
def set_quota(request: Request, who: Admin, name: str, parts: Parts) -> QuotaInfo:
    """Let a client have more or less than others."""
    server = server_of(request)
    server.store.set_quota(name, parts.model_dump(exclude_none=True))
    return shown(server, [name])[0]


@router.delete("/quotas/{name}", status_code=204)
def clear_quota(request: Request, who: Admin, name: str) -> None:
    """Let a client have what others have."""
    server_of(request).store.clear_quota(name)
