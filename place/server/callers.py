"""Whoever asks over HTTP may hang up: then work that can be given up is not gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request


class Caller:
    """A client that waits for an answer, until it hangs up."""

    def __init__(self) -> None:
        self._has_left = False

    def is_there(self) -> bool:
        """Does it still wait?"""
        return not self._has_left

    def hear(self, progress: str) -> None:
        """An answer is sent whole: how far it is, the log has."""

    def leave(self) -> None:
        """It has hung up."""
        self._has_left = True


@asynccontextmanager
async def patient(request: Request) -> AsyncIterator[Caller]:
    """The client of a request, whose body has been read; it is listened to meanwhile."""
    caller = Caller()

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        caller.leave()

    listening = asyncio.create_task(listen())
    try:
        yield caller
    finally:
        listening.cancel()
