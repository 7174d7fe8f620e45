"""The hub: a thread that reads the deltas of each tick once and gives them to all who listen.

Answers that somebody watches are kept: asked of the runtime when the first one comes, together with
those of all others that came meanwhile, and kept right by the same deltas from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from place.errors import PlaceError
from place.model.time import BEGINNING
from place.plan.catalog import fold
from place.plan.query import Query
from place.runtime.durable import manifest as manifests
from place.runtime.durable.manifest import Manifest
from place.server.access import Who
from place.server.encode import (
    INITIAL,
    LAST,
    Message,
    backlog,
    encode_tick,
    gone,
    row_texts,
    whole_answer,
)
from place.server.errors import Refused, busy, not_found
from place.server.store import Id
from place.server.subscriber import Subscriber

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime

LOG = logging.getLogger("place.server")
ASKED_TOGETHER, PAUSE = 200, 0.5
"""So many sizes of answers that nobody watches are asked for at a time, after so many seconds."""
MOST_EACH = 2000
"""Subscriptions of one client."""


@dataclass
class Watch:
    """A query that somebody watches, and its answer (None until somebody needs it)."""

    subscribers: set[Subscriber] = field(default_factory=set)
    answer: Counter[str] | None = None
    tick: int = 0
    whole: tuple[int, list[Message]] | None = None
    """The answer as of a tick as messages: those who come together share them."""


@dataclass(frozen=True)
class Joined:
    """What a new subscriber gets first: messages, or the deltas after an id up to a tick."""

    subscriber: Subscriber
    messages: Sequence[Message]
    after: Id | None
    until: int


@dataclass(eq=False)
class _Wish:
    """Somebody waits in the event loop for what this thread has."""

    query: Query
    future: asyncio.Future[object]
    subscriber: Subscriber | None = None
    after: Id | None = None
    registered: int = 0

    @property
    def wants_answer(self) -> bool:
        """Deltas after an id do not need it, unless the id is in the middle of an answer."""
        return self.after is None or INITIAL <= self.after[1] < LAST


@dataclass(frozen=True)
class _Change:
    """Queries were registered, or dropped."""

    names: tuple[str, ...]
    are_new: bool


@dataclass(frozen=True)
class _Leave:
    subscriber: Subscriber


_Item = Manifest | _Wish | _Change | _Leave | None


class Hub:
    """Who is told what. `start` and the coroutines belong to the event loop."""

    def __init__(self, runtime: SparkRuntime, limit: int, most: int) -> None:
        self._runtime = runtime
        self._limit = limit
        self._most = most
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._watches: dict[str, Watch] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._wants_sizes = False
        self._asked = 0.0
        self._thread = threading.Thread(target=self._run, name="place-hub", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._all: set[Subscriber] = set()
        self.last: Manifest | None = None
        """The last tick whose deltas were given to those who listen."""
        self.dropped = 0
        """How many subscribers were too slow."""
        self.delivered = 0
        """How many deltas were given to subscribers, counted once for each."""
        self.on_tick: list[Callable[[Manifest], object]] = []
        """Are called in the event loop after each tick that was given out."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        with self._runtime.pause():
            self.last = self._runtime.pipeline.last
            self._runtime.pipeline.on_commit.append(self._items.put)
        self._thread.start()

    def stop(self) -> None:
        """End all subscriptions and the thread."""
        with self._runtime.pause():
            self._runtime.pipeline.on_commit.remove(self._items.put)
        self._items.put(None)
        self._thread.join()

    @property
    def tick(self) -> int:
        return self.last.tick if self.last is not None else 0

    # In the event loop

    def subscribers(self) -> list[Subscriber]:
        return list(self._all)

    async def join(self, who: Who, query: Query, after: Id | None, registered: int) -> Joined:
        """Subscribe: first the answer, or all deltas after an id; then every tick's."""
        mine = sum(1 for other in self._all if other.who.name == who.name)
        if len(self._all) >= self._most or (mine >= MOST_EACH and not who.is_admin):
            raise busy("there are too many subscriptions", 10)
        subscriber = Subscriber(who, query.name, self._limit)
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._all.add(subscriber)
        try:
            self._items.put(_Wish(query, future, subscriber, after, registered))
            joined = await future
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
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._items.put(_Wish(query, future))
        found = await future
        assert isinstance(found, tuple)
        return found

    def end_all(self, code: str, message: str, close: int) -> None:
        """End all subscriptions at once."""
        for subscriber in self.subscribers():
            subscriber.end(code, message, close)

    # From anywhere

    def registered(self, names: Iterable[str]) -> None:
        """Queries are about to be registered: their answers begin with their first deltas."""
        self._items.put(_Change(tuple(names), True))

    def forget(self, names: Iterable[str]) -> None:
        """Queries were dropped: their last deltas are given out, then nobody watches them."""
        self._items.put(_Change(tuple(names), False))

    def size(self, query: str) -> int | None:
        """The number of rows in an answer, None while it is not known."""
        found = self._sizes.get(query)
        if found is None:
            self._wants_sizes = True
        return found[0] if found is not None else None

    # In the thread

    def _run(self) -> None:
        while True:
            items = self._take()
            wishes: list[_Wish] = []
            for item in items:
                if item is None:
                    self._leave(wishes)
                    return
                try:
                    self._handle(item, wishes)
                except Exception as error:  # those whose deltas cannot be read are told
                    LOG.exception("deltas cannot be read")
                    self._lose(item, str(error).partition("\n")[0])
            self._fulfil([wish for wish in wishes if not wish.future.done()])
            if self._wants_sizes and time.monotonic() > self._asked + PAUSE:
                self._ask_sizes()

    @property
    def is_alive(self) -> bool:
        """Is there still somebody who gives out deltas?"""
        return self._thread.is_alive()

    def _leave(self, wishes: list[_Wish]) -> None:
        """Nobody waits for what does not come any more."""
        while not self._items.empty():
            item = self._items.get()
            if isinstance(item, _Wish):
                wishes.append(item)
        for wish in wishes:
            self._settle(wish, Refused(503, "stopping", "the server stops"))

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
        self._end(list(self._watches), "gone", reason, 4410)
        self._sizes.clear()
        if isinstance(item, Manifest):
            self.last = item

    def _handle(self, item: Manifest | _Wish | _Change | _Leave, wishes: list[_Wish]) -> None:
        if isinstance(item, Manifest):
            self._give_out(item)
        elif isinstance(item, _Wish):
            wishes.append(item)
        elif isinstance(item, _Change):
            for name in item.names:
                self._sizes.pop(name, None)
                if item.are_new:
                    self._sizes[name] = 0, self.tick
            if not item.are_new:
                self._end(item.names, "query_dropped", "the query was dropped", 4404, drain=True)
        else:
            watch = self._watches.get(item.subscriber.query)
            if watch is not None:
                watch.subscribers.discard(item.subscriber)
                if not watch.subscribers:
                    del self._watches[item.subscriber.query]

    def _give_out(self, manifest: Manifest) -> None:
        tick = manifest.tick

        def tally(names: Sequence[str], growth: NDArray[Any]) -> None:
            for place in np.flatnonzero(growth).tolist():
                known = self._sizes.get(names[place])
                if known is not None and known[1] < tick:
                    self._sizes[names[place]] = known[0] + int(growth[place]), known[1]

        storage = self._runtime.pipeline.storage
        found = encode_tick(storage, tick, manifest.files, self._watches, tally)
        gifts: list[tuple[Subscriber, list[Message]]] = []
        for name, encoded in found.items():
            watch = self._watches[name]
            if watch.answer is not None and tick > watch.tick:
                encoded.apply(watch.answer)
            messages = encoded.messages
            for subscriber in watch.subscribers:
                if tick > subscriber.since:
                    gifts.append((subscriber, messages))
                    self.delivered += len(encoded.texts)
        for watch in self._watches.values():
            watch.tick, watch.whole = max(watch.tick, tick), None
        self.last = manifest

        def give() -> None:
            for subscriber, messages in gifts:
                subscriber.offer(messages)
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
        ended = [s for name in names for s in self._watches.pop(name, Watch()).subscribers]

        def end() -> None:
            for subscriber in ended:
                subscriber.end(code, text, close, drain=drain)

        if ended:
            self._call(end)

    # What somebody waits for

    def _fulfil(self, wishes: list[_Wish]) -> None:
        if not wishes:
            return
        try:
            known = self._answers([wish.query for wish in wishes if wish.wants_answer])
        except Exception as error:  # of Spark; those who wait are told
            for wish in wishes:
                self._settle(wish, error)
            return
        for wish in wishes:
            try:
                self._settle(wish, self._fulfilled(wish, known))
            except PlaceError as error:
                self._settle(wish, error)
            except Exception as error:  # a bug: whoever waits is told, and others go on
                LOG.exception("a subscriber cannot be served")
                self._settle(wish, error)

    def _settle(self, wish: _Wish, result: object) -> None:
        def settle() -> None:
            if not wish.future.done():
                if isinstance(result, Exception):
                    wish.future.set_exception(result)
                else:
                    wish.future.set_result(result)

        self._call(settle)

    def _answers(self, queries: Sequence[Query]) -> dict[str, tuple[int, Counter[str]]]:
        """Answers that are kept, and all others in one job."""
        found: dict[str, tuple[int, Counter[str]]] = {}
        asked: set[str] = set()
        for query in queries:
            watch = self._watches.get(query.name)
            if watch is not None and watch.answer is not None:
                found[query.name] = watch.tick, watch.answer
            else:
                asked.add(query.name)
        if asked:
            with self._runtime.pause():
                there = [
                    query.name for query in queries if query.name in asked and self._has(query)
                ]
                tick, answers = self._runtime.answers(list(dict.fromkeys(there)))
            for name, answer in answers.items():
                found[name] = tick, row_texts(answer)
        return found

    def _has(self, query: Query) -> bool:
        """Is it still this query that has its name? Another one's may be somebody else's."""
        return self._runtime.catalog.queries.get(fold(query.name)) is query

    def _fulfilled(self, wish: _Wish, known: dict[str, tuple[int, Counter[str]]]) -> object:
        name, after = wish.query.name, wish.after
        if not self._has(wish.query) or (wish.wants_answer and name not in known):
            raise not_found("query", name)
        if wish.subscriber is None:
            tick, answer = known[name]
            return tick, Counter(answer)
        now = self.tick
        if after is not None and (after[0] > now or after[0] < wish.registered):
            raise gone(after[0])
        watch = self._watches.setdefault(name, Watch(tick=now))
        messages: list[Message] = []
        if wish.wants_answer:
            tick, answer = known[name]
            if watch.answer is None:
                watch.answer, watch.tick = answer, tick
            if after is None:
                now = tick
                if watch.whole is None or watch.whole[0] != tick:
                    instant = self._instant(wish.query, tick)
                    watch.whole = tick, list(whole_answer(answer, tick, instant))
                messages = watch.whole[1]
            else:
                messages = self._rest_of_answer(wish.query, after, tick, answer)
        watch.subscribers.add(wish.subscriber)
        wish.subscriber.since = now
        return Joined(wish.subscriber, messages, after, now)

    def _rest_of_answer(
        self, query: Query, after: Id, tick: int, answer: Counter[str]
    ) -> list[Message]:
        """What was still to come of an answer as of an earlier tick, which deltas lead back to."""
        before = Counter(answer)
        since = (after[0], LAST)
        for encoded in backlog(self._runtime.pipeline.storage, query.name, since, tick):
            encoded.apply(before, -1)
        start = after[1] - INITIAL + 1
        return list(whole_answer(before, after[0], self._instant(query, after[0]), start))

    def _instant(self, query: Query, tick: int) -> int:
        """The instant that a query had reached with a tick."""
        last = self._runtime.pipeline.last
        if last is None:
            return BEGINNING
        try:
            storage = self._runtime.pipeline.storage
            manifest = last if last.tick == tick else manifests.load(storage, tick)
        except FileNotFoundError:
            raise gone(tick) from None
        return manifest.instants.get(",".join(sorted(query.streams)), BEGINNING)

    def _ask_sizes(self) -> None:
        """Learn the sizes of some answers that are not known yet."""
        self._asked = time.monotonic()
        queries = self._runtime.catalog.queries
        unknown = [query.name for query in queries.values() if query.name not in self._sizes]
        self._wants_sizes = len(unknown) > ASKED_TOGETHER
        try:
            with self._runtime.pause():
                some = [n for n in unknown[:ASKED_TOGETHER] if fold(n) in queries]
                tick, answers = self._runtime.answers(some)
        except Exception as error:  # of Spark: they stay unknown
            LOG.warning("the sizes of answers are not known: %s", error)
            self._wants_sizes = False
            return
        for name, answer in answers.items():
            self._sizes[name] = answer.total(), tick
