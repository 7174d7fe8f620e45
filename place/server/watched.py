"""Answers that somebody watches: asked of the runtime once, and kept right by deltas from then on.

All of it belongs to the thread of the hub, which tells it of ticks and asks it what a new
subscriber gets first. It knows neither threads nor the event loop.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from place.errors import PlaceError
from place.model.time import BEGINNING
from place.plan.catalog import fold
from place.plan.query import Query
from place.runtime.durable.deltas import NotKept
from place.runtime.durable.manifest import Manifest
from place.runtime.interface import DurableRuntime
from place.server.encode import (
    INITIAL,
    LAST,
    Message,
    backlog,
    encode_tick,
    gone,
    in_outbox,
    nothing_yet,
    row_texts,
    whole_answer,
)
from place.server.errors import not_found
from place.server.store import Id
from place.server.subscriber import Subscriber

LOG = logging.getLogger("place.server")
ASKED_TOGETHER, PAUSE = 200, 0.5
"""So many sizes of answers that nobody watches are asked for at a time, after so many seconds."""

Gift = tuple[Subscriber, list[Message]]
Known = dict[str, tuple[int, Counter[str]]]
"""Answers by the texts of their rows, and the ticks as of which they are."""


@dataclass
class Watch:
    """A query that somebody watches, and its answer (None until somebody needs it).

    Deltas that tell arrivals only do not say what an answer is, so it is asked for each time. That
    of a trigger is always empty.
    """

    subscribers: set[Subscriber] = field(default_factory=set)
    answer: Counter[str] | None = None
    tick: int = 0
    whole: tuple[int, list[Message]] | None = None
    """The answer as of a tick as messages: those who come together share them."""


@dataclass(frozen=True, eq=False)
class Wish:
    """Somebody wants an answer, or, with a subscriber, all that follows it or an id."""

    query: Query
    subscriber: Subscriber | None = None
    after: Id | None = None
    registered: int = 0

    @property
    def wants_answer(self) -> bool:
        """Deltas after an id do not need it, unless the id is in the middle of an answer."""
        return self.after is None or INITIAL <= self.after[1] < LAST


@dataclass(frozen=True)
class Joined:
    """What a new subscriber gets first: messages, or the deltas after an id up to a tick."""

    subscriber: Subscriber
    messages: Sequence[Message]
    after: Id | None
    until: int


class Meter(Protocol):
    """Whoever wants to know what queries cost."""

    def count(self, manifest: Manifest, names: Sequence[str], counts: NDArray[Any]) -> None:
        """Queries have told so many deltas in a part of a tick."""

    def end(self) -> None:
        """That was all of the tick."""

    def compare(self, manifest: Manifest) -> None:
        """Triggers have compared so many readings since they began."""


class Watched:
    """Who watches which query, and the answers and sizes that are known."""

    def __init__(self, runtime: DurableRuntime) -> None:
        self._runtime = runtime
        self._watches: dict[str, Watch] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._guessed: set[str] = set()
        """Queries that tell arrivals only: their sizes are those of the tick when they were asked
        for, and are asked for again when somebody wants them."""
        self._wants_sizes = False
        self._asked = 0.0
        self.last: Manifest | None = None
        """The last tick whose deltas were taken."""
        self.delivered = 0
        """How many deltas were for subscribers, counted once for each."""

    @property
    def tick(self) -> int:
        return self.last.tick if self.last is not None else 0

    @property
    def names(self) -> list[str]:
        """The queries that somebody watches."""
        return list(self._watches)

    # Ticks, queries and subscribers that come and go

    def take(self, manifest: Manifest, meter: Meter | None = None) -> list[Gift]:
        """The deltas of a tick: answers go on with them; who gets which messages."""
        tick = manifest.tick

        def tally(names: Sequence[str], growth: NDArray[Any], counts: NDArray[Any]) -> None:
            if meter is not None:
                with contextlib.suppress(PlaceError):
                    meter.count(manifest, names, counts)
            for place in np.flatnonzero(growth).tolist():
                name = names[place]
                known = self._sizes.get(name)
                query = self._runtime.catalog.queries.get(fold(name))
                if query is not None and query.only_adds:
                    if query.trigger is None:
                        self._guessed.add(name)
                elif known is not None and known[1] < tick:
                    self._sizes[name] = known[0] + int(growth[place]), known[1]

        found = encode_tick(self._runtime.deltas.of(manifest), self._watches, tally)
        if meter is not None:
            with contextlib.suppress(PlaceError):  # of the server's file: the next tick is measured
                meter.end()
                meter.compare(manifest)
        gifts: list[Gift] = []
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
        return gifts

    def _is_trigger(self, name: str) -> bool:
        query = self._runtime.catalog.queries.get(fold(name))
        return query is not None and query.trigger is not None

    def _tells_arrivals(self, name: str) -> bool:
        query = self._runtime.catalog.queries.get(fold(name))
        return query is not None and query.arrivals

    def lose(self, manifest: Manifest | None) -> None:
        """Deltas are not to be had: nothing is known any more."""
        self._sizes.clear()
        if manifest is not None:
            self.last = manifest

    def change(self, names: Iterable[str], are_new: bool) -> None:
        """Queries were registered, and their answers begin with their first deltas; or dropped."""
        for name in names:
            self._sizes.pop(name, None)
            self._guessed.discard(name)
            if are_new:
                self._sizes[name] = 0, self.tick

    def end(self, names: Iterable[str]) -> list[Subscriber]:
        """Nobody watches these queries any more; who did."""
        return [s for name in names for s in self._watches.pop(name, Watch()).subscribers]

    def leave(self, subscriber: Subscriber) -> None:
        """Somebody has gone; an answer that nobody watches is not kept."""
        watch = self._watches.get(subscriber.query)
        if watch is not None:
            watch.subscribers.discard(subscriber)
            if not watch.subscribers:
                del self._watches[subscriber.query]

    # What somebody waits for

    def answers(self, queries: Sequence[Query]) -> Known:
        """Answers that are kept, and all others in one job."""
        found: Known = {}
        asked: set[str] = set()
        for query in queries:
            watch = self._watches.get(query.name)
            if query.trigger is not None:  # which has none: the alerts from now on are all
                found[query.name] = self.tick, Counter()
            elif watch is not None and watch.answer is not None:
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

    def fulfilled(self, wish: Wish, known: Known) -> Joined | tuple[int, Counter[str]]:
        """The answer that somebody wants, or, with a subscriber, what it gets first."""
        name, after = wish.query.name, wish.after
        if not self._has(wish.query) or (wish.wants_answer and name not in known):
            raise not_found("query", name)
        if wish.subscriber is None:
            tick, answer = known[name]
            return tick, Counter(answer)
        now = self.tick
        if after is not None:
            self._check_kept(after, now, wish.registered)
        watch = self._watches.setdefault(name, Watch(tick=now))
        messages: list[Message] = []
        if wish.wants_answer:
            tick, answer = known[name]
            if watch.answer is None and not wish.query.only_adds:
                watch.answer, watch.tick = answer, tick
            if after is None:
                now = tick
                if watch.whole is None or watch.whole[0] != tick:
                    instant = self._instant(wish.query, tick)
                    watch.whole = tick, list(whole_answer(answer, tick, instant))
                messages = watch.whole[1]
                if wish.query.trigger is not None:
                    messages = [nothing_yet(now)]
            else:
                messages = self._rest_of_answer(wish.query, after, tick, answer)
        watch.subscribers.add(wish.subscriber)
        wish.subscriber.since = now
        return Joined(wish.subscriber, messages, after, now)

    def _check_kept(self, after: Id, now: int, registered: int) -> None:
        """Whoever is too late is told before anything else is sent."""
        if not registered <= after[0] <= now:
            raise gone(after[0])
        try:
            self._runtime.deltas.check(in_outbox(after))
        except NotKept:
            raise gone(after[0]) from None

    def _rest_of_answer(
        self, query: Query, after: Id, tick: int, answer: Counter[str]
    ) -> list[Message]:
        """What was still to come of an answer as of an earlier tick, which deltas lead back to."""
        if query.only_adds and after[0] != tick:
            raise gone(after[0])
        before = Counter(answer)
        since = (after[0], LAST)
        for encoded in backlog(self._runtime.deltas, query.name, since, tick):
            encoded.apply(before, -1)
        start = after[1] - INITIAL + 1
        return list(whole_answer(before, after[0], self._instant(query, after[0]), start))

    def _instant(self, query: Query, tick: int) -> int:
        """The instant that a query had reached with a tick."""
        manifest = self._runtime.last
        if manifest is not None and manifest.tick != tick:
            manifest = self._runtime.deltas.manifest(tick)
        if manifest is None:
            return BEGINNING
        return manifest.instants.get(",".join(sorted(query.streams)), BEGINNING)

    # Sizes

    def size(self, query: str) -> int | None:
        """The number of rows in an answer, None while it is not known; from any thread."""
        found = self.known_size(query)
        if found is None:
            self._wants_sizes = True
        return found

    def known_size(self, query: str) -> int | None:
        """The same, of what is known already."""
        found = self._sizes.get(query)
        if found is None and self._is_trigger(query):
            return 0
        if found is None:
            return None
        if query in self._guessed and found[1] < self.tick:
            self._wants_sizes = True
        return found[0]

    def learn_sizes(self) -> None:
        """Ask for the sizes of some answers that somebody wanted to know, now and then."""
        if not self._wants_sizes or time.monotonic() <= self._asked + PAUSE:
            return
        self._asked = time.monotonic()
        queries = self._runtime.catalog.queries
        unknown = [
            query.name
            for query in queries.values()
            if query.name not in self._sizes and query.trigger is None
        ]
        unknown += [n for n in self._guessed if n in self._sizes and self._sizes[n][1] < self.tick]
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
            if self._tells_arrivals(name):
                self._guessed.add(name)
