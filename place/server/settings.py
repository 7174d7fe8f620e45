"""How a server is set up."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How the server is set up. Sizes are bytes."""

    data: Path
    is_loopback: bool = True
    secure: bool = False
    cors: tuple[str, ...] = ()
    basemap: str | None = None
    largest_statement: int = MIB
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
    idle_seconds: int = 5
    """How long a connection may stay open between two requests."""
    private_webhooks: bool = False
    """May clients name addresses of private networks?"""

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
