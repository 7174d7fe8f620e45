"""How a server is set up."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from place.sql.limits import CLIENTS, Limits

MIB = 1 << 20
VALUE = 16
"""Bytes that a value of an answer takes, about: in the state, and in the memory of the server."""


@dataclass(frozen=True)
class Quota:
    """What one client may have. The defaults are those of clients for whom nothing is set."""

    queries: int = 10_000
    """Registered queries, with those that are suspended."""
    webhooks: int = 1_000
    subscriptions: int = 2_000
    """Open at the same time."""
    state: int = 256 << 20
    """Bytes of the answers of all its queries and the readings of its triggers, about."""
    answer: int = 2_000_000
    """Values (rows times columns) of the answer of one query, or of a trigger's readings."""
    deltas: int = 2_000_000
    """Deltas of one query in one tick."""
    pairs: int = 50_000_000
    """Readings that one trigger compares with each other in one tick."""


PMTILES = b"PMTiles\x03"
"""How an archive of tiles begins."""

PARTS = tuple(each.name for each in fields(Quota))


@dataclass(frozen=True)
class Settings:
    """How the server is set up. Sizes are bytes."""

    data: Path
    is_loopback: bool = True
    secure: bool = False
    cors: tuple[str, ...] = ()
    basemap: str | None = None
    limits: Limits = CLIENTS
    """Of the statements of clients; admins have those of an embedded session."""
    quota: Quota = Quota()
    """Of clients for whom no other is set."""
    largest_readings: int = 64 * MIB
    most_at_once: int = 512 * MIB
    """Of all readings that are being received together."""
    most_waiting_readings: int = 2_000_000
    most_waiting_bytes: int = 512 * MIB
    """Of readings that were accepted and that no tick has taken."""
    backlog: int = 4 * MIB
    """Of deltas that may wait for one subscriber."""
    most_subscribers: int = 10_000
    most_connections: int = 12_000
    """At most; where the system gives fewer descriptors, as many as it has to spare."""
    most_of_one_address: int | None = None
    """Connections; without it one address may have all of them."""
    head_seconds: float = 20.0
    """How long the head of a request may take to come."""
    body_seconds: float = 30.0
    """How long its body may take, and a second more for every 32 KiB that have come."""
    idle_seconds: int = 15
    """How long a connection may stay open between two requests: longer than clients keep one that
    they may use again (httpx: 5 seconds), or a request would meet a connection just closed."""
    private_webhooks: bool = False
    """May clients name addresses of private networks?"""

    @property
    def basemap_file(self) -> Path | None:
        """The archive of the base map, if it is a file that this server has."""
        file = Path((self.basemap or "").removeprefix("pmtiles://"))
        return file if self.basemap and file.is_file() else None

    @property
    def basemap_origin(self) -> str | None:
        if self.basemap is None or "://" not in self.basemap:
            return None
        parts = urlsplit(self.basemap.removeprefix("pmtiles://"))
        return f"{parts.scheme}://{parts.netloc}"


def is_loopback(host: str) -> bool:
    """Is this a name that only this machine has for itself?

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
