"""Which objects of other rows a cell has to know: those that regions of its column follow.

A query names its focal objects, or the rows of a query table name them. Where objects of several
streams meet, and where a stream names the focal objects, a cell needs all objects of these streams;
so does the one cell in which a trigger lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from place.engine.matrix import Place
from place.engine.slices import Keys
from place.model.schema import Stream
from place.model.segment import ARROW
from place.plan.query import Query

TableOf = Callable[[str], pa.Table]
"""The rows of a table, by its name."""

EVERYTHING = object()
"""Stands for all keys of a stream, where keys are counted."""

Needs = dict[str, list[Hashable]]
"""The keys of each stream that a query needs, with EVERYTHING among them for all."""


@dataclass
class Following:
    """How many queries of a cell need each object of other rows, or all objects of a stream."""

    place: Place
    _counts: dict[str, Counter[Hashable]] = field(default_factory=dict)
    _needs: dict[str, Needs] = field(default_factory=dict)
    _known: dict[str, Keys] = field(default_factory=dict)

    def keys(self, stream: Stream) -> Keys:
        """The keys of a stream that are followed; None for all."""
        if stream.name not in self._known:
            self._known[stream.name] = _array(stream, self._counts.get(stream.name, {}))
        return self._known[stream.name]

    def named(self, stream: Stream) -> pa.Array:
        """The keys of a stream that are followed one by one."""
        counts = self._counts.get(stream.name, Counter())
        found = _array(stream, {key: 1 for key in counts if key is not EVERYTHING})
        assert found is not None
        return found

    def after(
        self, ended: Iterable[Query], begun: Iterable[Query], table_of: TableOf
    ) -> FollowingChange:
        """What is different when these queries have ended and begun; nothing changes yet."""
        counts: dict[str, Counter[Hashable]] = {}
        over = [query.name for query in ended if query.name in self._needs]
        for name in over:
            for stream, keys in self._needs[name].items():
                counts.setdefault(stream, Counter()).subtract(keys)
        needs: dict[str, Needs] = {}
        for query in begun:
            found = needs_of(query, self.place, table_of)
            if found:
                needs[query.name] = found
            for stream, keys in found.items():
                counts.setdefault(stream, Counter()).update(keys)
        return FollowingChange(over, needs, counts)

    def added(self, change: FollowingChange, streams: Mapping[str, Stream]) -> dict[str, Keys]:
        """The keys of each stream that are followed from then on, and were not before."""
        found: dict[str, Keys] = {}
        for name, counts in change.counts.items():
            before = self._counts.get(name, Counter())
            if before[EVERYTHING] > 0:
                continue
            fresh = [key for key, count in counts.items() if count > 0 and before[key] <= 0]
            if fresh:
                found[name] = _array(streams[name], dict.fromkeys(fresh, 1))
        return found

    def apply(self, change: FollowingChange) -> list[str]:
        """Queries have ended and begun. The streams of which less is needed now."""
        for name in change.over:
            del self._needs[name]
        self._needs |= change.needs
        less: list[str] = []
        for name, counts in change.counts.items():
            held = self._counts.setdefault(name, Counter())
            for key, count in counts.items():
                held[key] += count
                if held[key] <= 0:
                    del held[key]
                    less.append(name)
            self._known.pop(name, None)
        return list(dict.fromkeys(less))


@dataclass(frozen=True)
class FollowingChange:
    """Queries that end, what those that begin need, and how often each key is needed more."""

    over: Sequence[str] = ()
    needs: Mapping[str, Needs] = field(default_factory=dict)
    counts: Mapping[str, Counter[Hashable]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.over or self.needs)


def needs_of(
    query: Query, place: Place, table_of: TableOf, beside: str | None = None
) -> dict[str, list[Hashable]]:
    """The keys of each stream that a cell has to know for a query, whatever their rows."""
    found: Needs = {}
    for stream, keys in _needed(query, place, table_of, beside or query.name):
        found.setdefault(stream, []).extend(keys)
    return found


def _needed(
    query: Query, place: Place, table_of: TableOf, name: str
) -> Iterator[tuple[str, list[Hashable]]]:
    table = query.query_table
    if query.trigger is not None:
        if place.has_trigger(name):
            yield from ((stream, [EVERYTHING]) for stream in query.streams)
        return
    if table is None and not place.has_query(name):
        return
    if query.is_join:
        yield from ((stream, [EVERYTHING]) for stream in query.streams)
        return
    for focal in query.focals:
        yield focal.stream, [focal.key]
    if table is None or table.focal_stream is None:
        return
    source = query.sources[table.source]
    if source.is_stream:
        yield table.focal_stream, [EVERYTHING]
        return
    rows = table_of(source.relation.name)
    mine = place.has_regions(np.arange(rows.num_rows), None)
    keys = rows.column(table.columns[0])
    if mine is not None:
        keys = keys.filter(pa.array(mine))
    yield table.focal_stream, keys.drop_null().to_pylist()


def _array(stream: Stream, counts: Mapping[Hashable, int]) -> Keys:
    if EVERYTHING in counts:
        return None
    assert stream.key is not None or not counts
    return pa.array(list(counts), pa.int64() if stream.key is None else ARROW[stream.key_type])
