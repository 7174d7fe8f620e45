"""The hub: a thread that reads the deltas of each tick once and gives them to all who listen.

What it knows of answers is in `watched.py`; here is who may subscribe, and how the thread and the
event loop speak with each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from place.errors import PlaceError
from place.plan.query import Query
from place.runtime.durable.manifest import Manifest
from place.runtime.interface import DurableRuntime
from place.server.access import Who
from place.server.errors import Refused, busy
from place.server.store import Id
from place.server.subscriber import Subscriber, relieve
from place.server.watched import PAUSE, Joined, Meter, Watched, Wish

LOG = logging.getLogger("place.server")
MOST_WAITING = 256 << 20
"""Bytes of deltas that wait for all subscriptions of one client at most."""
PATIENCE = 10.0
"""Seconds that somebody waits for this thread at most."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Somebody waits in the event loop for what this thread has."""

    wish: Wish
    future: asyncio.Future[object]


@dataclass(frozen=True)
class _Change:
    """Queries were registered, or dropped."""

    names: tuple[str, ...]
    are_new: bool
    reason: str | None = None
    """Why they were dropped, where it was not their owner who did it."""


@dataclass(frozen=True)
class _Leave:
    subscriber: Subscriber


_Item = Manifest | _Waiting | _Change | _Leave | None


class Hub:
    """Who is told what. `start` and the coroutines belong to the event loop."""

    def __init__(self, runtime: DurableRuntime, limit: int, most: int) -> None:
        self._runtime = runtime
        self._limit = limit
        self._most = most
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._watched = Watched(runtime)
        self._thread = threading.Thread(target=self._run, name="place-hub", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._all: set[Subscriber] = set()
        self.dropped = 0
        """How many subscribers were too slow."""
        self.on_tick: list[Callable[[Manifest], object]] = []
        """Are called in the event loop after each tick that was given out."""
        self.meter: Meter | None = None
        """Is told, in the hub's thread, what queries have told in a tick."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        with self._runtime.pause():
            self._watched.last = self._runtime.last
            self._runtime.watch(self._items.put)
        self._thread.start()

    def stop(self) -> None:
        """End all subscriptions and the thread."""
        self._runtime.unwatch(self._items.put)
        self._items.put(None)
        self._thread.join()

    @property
    def last(self) -> Manifest | None:
        """The last tick whose deltas were given to those who listen."""
        return self._watched.last

    @property
    def tick(self) -> int:
        return self._watched.tick

    @property
    def delivered(self) -> int:
        """How many deltas were given to subscribers, counted once for each."""
        return self._watched.delivered

    # In the event loop

    def subscribers(self) -> list[Subscriber]:
        return list(self._all)

    async def join(self, who: Who, query: Query, after: Id | None, registered: int) -> Joined:
        """Subscribe: first the answer, or all deltas after an id; then every tick's."""
        if len(self._all) >= self._most:
            raise busy("there are too many subscriptions", 10)
        subscriber = Subscriber(who, query.name, self._limit)
        self._all.add(subscriber)
        try:
            joined = await self._wait_for(Wish(query, subscriber, after, registered))
        except BaseException:
            self.leave(subscriber)
            raise
        assert isinstance(joined, Joined)
        return joined

    def leave(self, subscriber: Subscriber) -> None:
        self._all.discard(subscriber)
        if subscriber.ending is not None and subscriber.ending.code == "slow_consumer":
            self.dropped += 1
            LOG.warning(
                "a subscriber of %s was too slow for query %s and is dropped",
                *(subscriber.who.name, subscriber.query),
                extra={"facts": {"client": subscriber.who.name, "query": subscriber.query}},
            )
        self._items.put(_Leave(subscriber))

    async def answer(self, query: Query) -> tuple[int, Counter[str]]:
        """The answer of a query by the texts of its rows, and the tick as of which it is."""
        found = await self._wait_for(Wish(query))
        assert isinstance(found, tuple)
        return found

    async def _wait_for(self, wish: Wish) -> object:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._items.put(_Waiting(wish, future))
        return await future

    def end_all(self, code: str, message: str, close: int) -> None:
        """End all subscriptions at once."""
        for subscriber in self.subscribers():
            subscriber.end(code, message, close)

    # From anywhere

    def registered(self, names: Iterable[str]) -> None:
        """Queries are about to be registered: their answers begin with their first deltas."""
        self._items.put(_Change(tuple(names), True))

    def forget(self, names: Iterable[str], reason: str | None = None) -> None:
        """Queries were dropped: their last deltas are given out, then nobody watches them."""
        self._items.put(_Change(tuple(names), False, reason))

    def catch_up(self) -> None:
        """Wait until the deltas of all ticks so far are given out, or for a while."""
        last, deadline = self._runtime.last, time.monotonic() + PATIENCE
        while last is not None and self.tick < last.tick and time.monotonic() < deadline:
            time.sleep(0.01)

    def known_size(self, query: str) -> int | None:
        """The same as `size`, of what is known already."""
        return self._watched.known_size(query)

    def size(self, query: str) -> int | None:
        """The number of rows in an answer, None while it is not known."""
        return self._watched.size(query)

    @property
    def is_alive(self) -> bool:
        """Is there still somebody who gives out deltas?"""
        return self._thread.is_alive()

    # In the thread

    def _run(self) -> None:
        while True:
            items = self._take()
            waiting: list[_Waiting] = []
            for item in items:
                if item is None:
                    self._leave(waiting)
                    return
                try:
                    self._handle(item, waiting)
                except Exception as error:  # those whose deltas cannot be read are told
                    LOG.exception("deltas cannot be read")
                    self._lose(item, str(error).partition("\n")[0])
            self._fulfil([each for each in waiting if not each.future.done()])
            self._watched.learn_sizes()

    def _leave(self, waiting: list[_Waiting]) -> None:
        """Nobody waits for what does not come any more."""
        while not self._items.empty():
            item = self._items.get()
            if isinstance(item, _Waiting):
                waiting.append(item)
        for each in waiting:
            self._settle(each, Refused(503, "stopping", "the server stops"))

    def _take(self) -> list[_Item]:
        """All that waits, or nothing after a while."""
        items: list[_Item] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._items.get(timeout=PAUSE))
            while True:
                items.append(self._items.get_nowait())
        return items

    def _lose(self, item: object, reason: str) -> None:
        """Deltas are not to be had: whoever needs them is told, and nothing is known any more."""
        self._end(self._watched.names, "gone", reason, 4410)
        self._watched.lose(item if isinstance(item, Manifest) else None)

    def _handle(
        self, item: Manifest | _Waiting | _Change | _Leave, waiting: list[_Waiting]
    ) -> None:
        if isinstance(item, Manifest):
            self._give_out(item)
        elif isinstance(item, _Waiting):
            waiting.append(item)
        elif isinstance(item, _Change):
            self._watched.change(item.names, item.are_new)
            if not item.are_new and item.reason is None:
                self._end(item.names, "query_dropped", "the query was dropped", 4404, drain=True)
            elif not item.are_new:
                text = f"the query was suspended: {item.reason}"
                self._end(item.names, "query_suspended", text, 4429, drain=True)
        else:
            self._watched.leave(item.subscriber)

    def _give_out(self, manifest: Manifest) -> None:
        gifts = self._watched.take(manifest, self.meter)

        def give() -> None:
            for subscriber, messages in gifts:
                subscriber.offer(messages)
            relieve(self._all, MOST_WAITING)
            for tell in self.on_tick:
                tell(manifest)

        self._call(give)

    def _call(self, what: Callable[[], object]) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)

    def _end(
        self, names: Iterable[str], code: str, text: str, close: int, *, drain: bool = False
    ) -> None:
        ended = self._watched.end(names)

        def end() -> None:
            for subscriber in ended:
                subscriber.end(code, text, close, drain=drain)

        if ended:
            self._call(end)

    def _fulfil(self, waiting: list[_Waiting]) -> None:
        if not waiting:
            return
        try:
            known = self._watched.answers(
                [each.wish.query for each in waiting if each.wish.wants_answer]
            )
        except Exception as error:  # of Spark; those who wait are told
            for each in waiting:
                self._settle(each, error)
            return
        for each in waiting:
            try:
                self._settle(each, self._watched.fulfilled(each.wish, known))
            except PlaceError as error:
                self._settle(each, error)
            except Exception as error:  # a bug: whoever waits is told, and others go on
                LOG.exception("a subscriber cannot be served")
                self._settle(each, error)

    def _settle(self, waiting: _Waiting, result: object) -> None:
        def settle() -> None:
            if not waiting.future.done():
                if isinstance(result, Exception):
                    waiting.future.set_exception(result)
                else:
                    waiting.future.set_result(result)

        self._call(settle)
