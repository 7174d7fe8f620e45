"""One subscriber: the messages that wait for it, of a bounded size, and why it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from place.server.access import Who
from place.server.encode import Message


@dataclass(frozen=True)
class Ending:
    """Why a subscription is over, and how a WebSocket is closed with it."""

    code: str
    message: str
    close: int


def relieve(subscribers: Iterable[Subscriber], most: int) -> None:
    """Drop subscribers of clients for whom more than `most` bytes wait in all, those who wait for
    the most first: each of them alone is within its limit, but one client may have thousands."""
    slow: dict[str, list[Subscriber]] = {}
    for subscriber in subscribers:
        if subscriber.waiting:
            slow.setdefault(subscriber.who.name, []).append(subscriber)
    for mine in slow.values():
        total = sum(subscriber.waiting for subscriber in mine)
        if total <= most:
            continue
        for subscriber in sorted(mine, key=lambda each: each.waiting, reverse=True):
            if total <= most:
                break
            total -= subscriber.waiting
            subscriber.give_up(f"more than {most >> 20} MiB of deltas waited for all that you have")


class Subscriber:
    """Messages of one subscription, in the event loop: the hub offers them, a connection takes
    them.

    If more than `limit` bytes wait when more comes, the subscriber gets an error and is dropped, so
    that memory is bounded. A single large tick makes nobody slow.
    """

    def __init__(self, who: Who, query: str, limit: int) -> None:
        self.who = who
        self.query = query
        self.since = 0
        """It gets the deltas of all ticks after this one."""
        self.ending: Ending | None = None
        self.hurry = asyncio.Event()
        """Set when it has to end at once, without the messages that still wait."""
        self._limit = limit
        self._size = 0
        self._waiting: deque[Message] = deque()
        self._wake = asyncio.Event()

    def offer(self, messages: Sequence[Message]) -> None:
        if self.ending is not None:
            return
        if self._size > self._limit:
            self.give_up(f"more than {self._limit >> 20} MiB of deltas waited for you")
            return
        self._waiting.extend(messages)
        self._size += sum(len(message.text) for message in messages)
        self._wake.set()

    def give_up(self, reason: str) -> None:
        """It is too slow."""
        self.end("slow_consumer", reason, 4408)

    def end(self, code: str, message: str, close: int, *, drain: bool = False) -> None:
        """End it; with `drain` only after what waits has been taken."""
        if self.ending is None:
            self.ending = Ending(code, message, close)
        if not drain:
            self._waiting.clear()
            self.hurry.set()
        self._wake.set()

    @property
    def waiting(self) -> int:
        """The bytes that wait for it."""
        return self._size if self._waiting else 0

    async def take(self) -> list[Message]:
        """All that waits, as soon as there is something; nothing once it is over."""
        while not self._waiting:
            if self.ending is not None:
                return []
            self._wake.clear()
            await self._wake.wait()
        taken = list(self._waiting)
        self._waiting.clear()
        self._size = 0
        return taken
