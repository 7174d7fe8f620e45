"""Subscriptions in this process: what a runtime tells goes to those who asked for it.

On its way a delta's row gets the names of its query's columns.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence

from place.errors import ConfigurationError
from place.model.delta import Delta
from place.model.delta_columns import LazyDeltas
from place.model.record import record_type
from place.model.result import DeltaList, Namer, RowKind
from place.plan.catalog import Catalog, fold
from place.plan.query import Query

LONGEST_BACKLOG = 1_000_000


class LocalSubscription:
    """The deltas of one query since it was subscribed to: first its answer, then each change.

    Iterating takes the deltas that are there now; `next` and `follow` wait for those that come. A
    subscriber that lets more than a million wait is told so and dropped: memory is bounded.
    """

    def __init__(self, query: str) -> None:
        self.query = query
        self._waiting: deque[Delta] = deque()
        self._arrived = threading.Condition()
        self._ending: ConfigurationError | None = None
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Is there nobody who takes further deltas?"""
        return self._is_closed or self._ending is not None

    def offer(self, deltas: Sequence[Delta]) -> None:
        """Let deltas wait to be taken."""
        with self._arrived:
            if self.is_over:
                return
            self._waiting.extend(deltas)
            if len(self._waiting) > LONGEST_BACKLOG:
                self._waiting.clear()
                self._ending = ConfigurationError(
                    f'the subscription to "{self.query}" fell more than {LONGEST_BACKLOG:,} deltas'
                    " behind and was dropped",
                    hint="subscribe again: it starts with the whole answer",
                )
            self._arrived.notify_all()

    def end(self, ending: ConfigurationError) -> None:
        """No deltas come any more: whoever has taken those that wait is told why."""
        with self._arrived:
            self._ending = self._ending or ending
            self._arrived.notify_all()

    def close(self) -> None:
        """End it; nothing comes any more."""
        with self._arrived:
            self._is_closed = True
            self._waiting.clear()
            self._arrived.notify_all()

    def __enter__(self) -> LocalSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delta]:
        return self.follow(0)

    def follow(self, timeout: float | None = None) -> Iterator[Delta]:
        """Every delta as it comes, until none comes for so many seconds."""
        while (delta := self.next(timeout)) is not None:
            yield delta

    def next(self, timeout: float | None = None) -> Delta | None:
        """The next delta; None if none comes within so many seconds. Without a limit, wait."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._arrived:
            while not self._waiting:
                if self._is_closed:
                    return None
                if self._ending is not None:
                    raise self._ending
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    return None
                self._arrived.wait(rest)
            return self._waiting.popleft()


class Subscriptions:
    """All who subscribed to queries of one session."""

    def __init__(self, catalog: Catalog) -> None:
        self._all: list[tuple[Query, LocalSubscription]] = []
        self._before = catalog

    def add(self, query: Query, first: Sequence[Delta]) -> LocalSubscription:
        """Somebody who gets these deltas first, and then all that are delivered."""
        subscription = LocalSubscription(query.name)
        subscription.offer(first)
        self._all.append((query, subscription))
        return subscription

    def deliver(self, catalog: Catalog, deltas: Sequence[Delta]) -> DeltaList:
        """Give deltas to those who subscribed; the same deltas, with names."""
        namer = self.namer(catalog)
        by_query: dict[str, list[Delta]] = {query.name: [] for query, _ in self._all}
        for delta in _of(deltas, by_query):
            by_query[delta.query].append(namer(delta))
        for query, subscription in self._all:
            subscription.offer(by_query[query.name])
            if catalog.queries.get(fold(query.name)) is not query:
                subscription.end(ConfigurationError(f'{query.kind} "{query.name}" was dropped'))
        self._all = [each for each in self._all if not each[1].is_over]
        self._before = catalog
        return DeltaList(deltas, namer)

    def namer(self, catalog: Catalog) -> Namer:
        """What gives rows the names of their query's columns, where they are known.

        What a dropped query takes back has the columns that it had.
        """
        before = self._before

        def kind_of(query: str) -> RowKind:
            key = fold(query)
            plan = catalog.queries.get(key) or before.queries.get(key)
            return tuple if plan is None else record_type(plan.names, plan.types)

        return Namer(kind_of)


def _of(deltas: Sequence[Delta], queries: Collection[str]) -> Sequence[Delta]:
    """The deltas of some queries; those of others need not be made."""
    if isinstance(deltas, LazyDeltas):
        return deltas.of(queries)
    return [delta for delta in deltas if delta.query in queries]
