"""A worker's share of the objects: those of its row, and those of other rows that it follows.

What it follows changes only when queries come and go. Then it is told of what is new to it by the
workers of other rows, and lets go of what nobody follows any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from place.engine.exchange import HistoryReach, Holdings, Moved, Wants
from place.engine.following import Following, FollowingChange, TableOf
from place.engine.slices import Keys, Segment, is_shared, slice_of
from place.kernels.arrays import Bools, Longs
from place.model.clock import Clocks
from place.model.schema import Stream
from place.model.time import BEGINNING
from place.plan.catalog import Catalog
from place.plan.query import Query


class Share:
    """What a worker holds is known to it as `holdings`."""

    def __init__(self, holdings: Holdings) -> None:
        self.holdings = holdings
        self._has_one_row = holdings.place.matrix.rows == 1
        self.is_whole = self._has_one_row
        """Does it hold the objects of all rows? So did all that saved their state in the form
        before slices; they go on so until they get a slice."""
        self.since = 0
        """The version of the catalog with which it began to follow what it follows now."""
        self.floors: Mapping[str, int] = {}
        """The floors of histories, where the workers of all rows have told how far theirs go."""
        self._following = Following(holdings.place)

    # What it wants to be told

    def wants(self, before: Catalog, after: Catalog, table_of: TableOf, clocks: Clocks) -> Wants:
        """What it has to be told to go over from one version of the catalog to another."""
        if self._has_one_row:
            return Wants()
        reset, ended, begun = changed_queries(before, after)
        change = self._following.after(ended, begun, table_of)
        return Wants(self._added(change, reset), self._reaches(begun, clocks))

    def wants_to_ask(self, queries: Sequence[Query], table_of: TableOf, clocks: Clocks) -> Wants:
        """What it has to be told to ask queries once."""
        if self._has_one_row:
            return Wants()
        unknown = [query for query in queries if not self._is_registered(query)]
        change = self._following.after((), unknown, table_of)
        return Wants(self._added(change), self._reaches(unknown, clocks))

    def _is_registered(self, query: Query) -> bool:
        timeline = self.holdings.timelines.get(query.streams)
        return timeline is not None and timeline.queries.get(query.name) == query

    def _added(self, change: FollowingChange, reset: Collection[str] = ()) -> dict[str, Keys]:
        """The keys of streams that are followed with a change. Of those that are here already, or
        begin anew, nobody has to tell anything."""
        if self.is_whole:
            return {}
        known = {
            name: history.stream
            for name, history in self.holdings.histories.items()
            if name not in reset and not is_shared(history.stream)
        }
        counts = {name: some for name, some in change.counts.items() if name in known}
        return self._following.added(replace(change, counts=counts), known)

    def _reaches(self, begun: Iterable[Query], clocks: Clocks) -> dict[str, HistoryReach]:
        names = {
            name
            for query in begun
            if query.needs_history or len(query.streams) > 1
            for name in query.streams
            if name in self.holdings.histories
        }
        return {
            name: self.holdings.reach(name, clocks.closed(name), clocks.slowest())
            for name in sorted(names)
        }

    def floor(self, name: str) -> int:
        """The floor of the history of a stream in all workers."""
        return max(self.holdings.histories[name].floor, self.floors.get(name, BEGINNING))

    # What it follows

    def follow(
        self,
        ended: Sequence[Query],
        begun: Sequence[Query],
        reset: Collection[str],
        table_of: TableOf,
        moved: Moved,
        version: int,
    ) -> list[str]:
        """Begin to follow what queries need, of which it was told. The streams of which less is
        needed from now on."""
        self.floors = moved.floors
        if self._has_one_row:
            return []
        change = self._following.after(ended, begun, table_of)
        self._take(moved, self._added(change, reset))
        if change:
            self.since = version
        return self._following.apply(change)

    def adopt(self, queries: Sequence[Query], table_of: TableOf) -> None:
        """These queries are registered already, and what they need is here."""
        if not self._has_one_row:
            self._following.apply(self._following.after((), queries, table_of))

    def _take(self, moved: Moved, added: Mapping[str, Keys]) -> None:
        for name, keys in added.items():
            if keys is None:  # those that are followed already are told as well
                self.holdings.let_go(name, pa.array([], pa.int64()))
        for state in moved.states if added else ():
            self.holdings.take(state, added)

    @contextlib.contextmanager
    def asking(self, query: Query, table_of: TableOf, moved: Moved) -> Iterator[None]:
        """A query is asked meanwhile; what was told for it is forgotten again."""
        added: dict[str, Keys] = {}
        if not self.is_whole and not self._is_registered(query):
            added = self._added(self._following.after((), [query], table_of))
        self.floors = moved.floors
        self._take(moved, added)
        yield
        self.let_go(added)

    def let_go(self, names: Iterable[str]) -> None:
        """Forget the objects of other rows that nobody follows any more."""
        if self.is_whole:
            return
        for name in names:
            history = self.holdings.histories.get(name)
            if history is not None and not is_shared(history.stream):
                self.holdings.let_go(name, self._following.keys(history.stream))

    def tidy(self) -> None:
        """Forget all objects of other rows that nobody follows."""
        self.let_go(list(self.holdings.histories))

    def shed(self) -> None:
        """Hold only its own share from now on, because its inputs are slices."""
        self.is_whole = False
        self.tidy()

    # Readings

    def keys(self, stream: Stream) -> Keys:
        """The keys of a stream that are followed; None for all of them."""
        return None if self.is_whole or is_shared(stream) else self._following.keys(stream)

    def slice_of(self, segment: Segment, stream: Stream) -> Segment:
        """What it takes of a segment."""
        if self.is_whole:
            return segment
        return slice_of(segment, stream, self.holdings.place, self._following.keys(stream))

    def is_counted(self, stream: Stream, keys: Longs) -> Bools:
        """Which readings are counted here: those of its row. Where they have none yet, because
        they are too late to get a number, the first row counts all."""
        if self.is_whole:
            return np.ones(len(keys), np.bool_)
        if stream.key is None:
            return np.full(len(keys), self.holdings.place.row == 0)
        return self.holdings.is_mine(stream, keys)


def changed_queries(before: Catalog, after: Catalog) -> tuple[set[str], list[Query], list[Query]]:
    """The streams that begin anew, and the queries that end and those that begin, in order. One
    whose tables have other rows, or whose streams begin anew, ends and begins again."""
    refreshed = {
        table.name
        for key, table in after.tables.items()
        if before.revisions.get(key) != after.revisions[key]
    }
    reset = {
        stream.name
        for key, stream in after.streams.items()
        if key in before.streams and before.revisions.get(key) != after.revisions.get(key)
    }
    ended, begun = after.queries.since(before.queries)
    old, new = [before.queries[key] for key in ended], [after.queries[key] for key in begun]
    if refreshed or reset:
        known = set(begun)
        again = [
            query
            for key, query in after.queries.items()
            if key not in known and (query.tables & refreshed or query.streams & reset)
        ]
        old, new = old + again, new + again
    return reset, old, new


def by_streams(queries: Sequence[Query]) -> Iterable[tuple[frozenset[str], list[Query]]]:
    """The queries of each timeline."""
    found: dict[frozenset[str], list[Query]] = {}
    for query in queries:
        found.setdefault(query.streams, []).append(query)
    return found.items()
