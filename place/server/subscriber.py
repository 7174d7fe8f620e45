"""One subscriber: the messages that wait for it, of a bounded size, and why it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from place.server.access import Who
from place.server.encode import Message


@dataclass(frozen=True)
class Ending:
    """Why a subscription is over, and how a WebSocket is closed with it."""

    code: str
    message: str
    close: int


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
