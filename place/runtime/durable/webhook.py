"""Webhooks: how a message is signed, checked, sent and tried again, whoever sends it.

The sink `TO WEBHOOK` and the webhooks of the server's clients differ in what they send and in how
they remember how far they are; everything that happens on the way to the address is here.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import random
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

PATIENCE, LONGEST_PAUSE = 10.0, 60.0
"""Seconds for an address to answer, and between attempts at most."""
SIGNATURE = "X-Place-Signature"
TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
"""Addresses that stand for one of IPv4, by their last 32 bits."""
FAILURES = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, TimeoutError)
"""What an attempt may raise; it is worth another one."""


@dataclass(frozen=True)
class Address:
    """Where to send to. Who is not `trusted` cannot name a machine of a private network.

    With a secret messages are signed by their HMAC-SHA256.
    """

    url: str
    secret: str | None = None
    trusted: bool = False

    async def check(self) -> None:
        """A ValueError, or what looking up its name has raised, if nothing can be sent there."""
        url = httpx.URL(self.url)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError("it has to begin with http:// or https://")
        if url.port is not None and not 0 < url.port < 1 << 16:
            raise ValueError(f"there is no port {url.port}")
        if not self.trusted:
            await public_address(url)

    async def post(
        self, client: httpx.AsyncClient, body: bytes, headers: Mapping[str, str]
    ) -> None:
        """Send a message once; one of FAILURES if it was not taken.

        A redirect is a failure: it would turn the POST into a GET without a body.
        """
        sent = dict(headers)
        if self.secret is not None:
            sent[SIGNATURE] = signature(self.secret, body)
        url, extensions = httpx.URL(self.url), {}
        if not self.trusted:
            # Asked by its number, so that the name cannot come to mean another machine meanwhile.
            sent["Host"] = url.netloc.decode()
            extensions = {"sni_hostname": url.host}
            url = url.copy_with(host=await public_address(url))
        # What it says beside the status is nothing to us, and may be without end.
        async with (
            asyncio.timeout(PATIENCE),
            client.stream(
                "POST", url, content=body, headers=sent, extensions=extensions
            ) as response,
        ):
            if not response.is_success:
                raise ValueError(f"it answered {response.status_code}")


def signature(secret: str, body: bytes) -> str:
    """
    >>> signature("hush", b"[]")[:16]
    'sha256=eeeb065f6'
    """
    return f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}"


def sender() -> httpx.AsyncClient:
    """What sends messages to any number of addresses, each by a connection of its own.

    Connections are known by the number that they lead to, not by the name whose certificate was
    checked. One that is kept for a name would also be used for another name of that number.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(timeout=PATIENCE, follow_redirects=False, limits=limits)


def post_now(address: Address, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a message once, and wait for it; for those who have no event loop, or whose is busy."""

    async def post() -> None:
        async with sender() as client:
            await address.post(client, body, headers)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, post()).result()


@dataclass
class Attempts:
    """How sending has gone of late, and when it is worth another try."""

    failures: int = 0
    error: str | None = None
    due: float = 0.0

    def fail(self, error: Exception) -> float:
        """One more has failed; the seconds until the next, which double up to a minute."""
        self.failures += 1
        self.error = str(error).strip().partition("\n")[0] or type(error).__name__
        pause = min(LONGEST_PAUSE, 0.25 * 2.0 ** min(self.failures, 20))
        pause *= random.uniform(0.5, 1.0)
        self.due = time.monotonic() + pause
        return pause

    def succeed(self) -> None:
        self.failures, self.error, self.due = 0, None, 0.0

    @property
    def is_due(self) -> bool:
        """Is the pause over?"""
        return time.monotonic() >= self.due


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
