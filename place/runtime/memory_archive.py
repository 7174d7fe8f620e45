"""An archive in memory: for sessions without a directory, for scripts and tests.

It holds all that a repository on disk would hold, only while the session is open. Readings wait
until nothing more can come before them, and are then kept by columns in the order of their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.slices import Told
from place.kernels.arrays import Longs
from place.model.reading import Key
from place.model.schema import Stream
from place.model.segment import segment_schema
from place.runtime.archive import Box, Extent, Found, Span
from place.runtime.repository.complete import Completing

MANY = 100_000
"""So many readings that are too old are removed at once."""


@dataclass
class _Kept:
    """The readings of a stream: in the order of times, and those that are not complete yet."""

    complete: list[pa.Table]
    completing: Completing | None = None
    first: int | None = None
    closed: int | None = None


class MemoryArchive:
    """Keeps the readings of all streams that have the option `archive`."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def follow(self, streams: Iterable[Stream]) -> None:
        """Keep the past of these streams, and of no others."""
        wanted = {stream.name: stream for stream in streams if stream.archiving is not None}
        for gone in self._kept.keys() - wanted.keys():
            del self._kept[gone]
        for new in wanted.keys() - self._kept.keys():
            self._kept[new] = _Kept([segment_schema(wanted[new].columns).empty_table()])

    def forget(self, stream: str) -> None:
        """A stream begins anew: nothing is known of its past."""
        kept = self._kept.get(stream)
        if kept is not None:
            self._kept[stream] = _Kept([kept.complete[0].slice(0, 0)])

    def take(self, stream: Stream, told: Sequence[Told], started: int | None) -> None:
        """What a tick has told, and the time that its stream has reached."""
        kept = self._kept.get(stream.name)
        if kept is None:
            return
        if kept.completing is None:
            kept.completing = Completing(stream)
        kept.completing.take(told, started)
        kept.completing.late()  # nobody can put them in later
        kept.closed = kept.completing.clock.closed
        table = kept.completing.ready()
        if table is None:
            return
        kept.first = times_of(table)[0].as_py() if kept.first is None else kept.first
        kept.complete.append(table)
        self._remove_old(stream, kept)

    # The protocol

    def span(self, stream: Stream, at: int | None = None) -> Span | None:
        """The times that can be asked about; None if nothing is there yet."""
        kept = self._kept.get(stream.name)
        if kept is None or kept.first is None or kept.closed is None:
            return None
        keep = stream.archiving.keep if stream.archiving is not None else None
        begin = kept.first if keep is None else max(kept.first, kept.closed - keep)
        return Span(begin, kept.closed)

    def extent(self, stream: Stream, at: int) -> Extent | None:
        """Where the objects of a time are: nobody knows without a look at them."""
        return None

    def objects(
        self, stream: Stream, at: int, box: Box | None = None, keys: frozenset[Key] | None = None
    ) -> Found:
        """The last reading with time <= `at` of each object that had not disappeared by then."""
        table = self._table(stream)
        count = int(np.searchsorted(times_of(table).to_numpy(), at, side="right"))
        last = last_of_each(stream, with_keys(stream, table.slice(0, count), keys))
        return Found(within_box(stream, last.filter(pc.invert(gone_of(last))), box))

    def readings(
        self,
        stream: Stream,
        after: int,
        until: int,
        box: Box | None = None,
        keys: frozenset[Key] | None = None,
    ) -> Found:
        """The readings with `after` < time <= `until`, in the order of times."""
        table = self._table(stream)
        times = times_of(table).to_numpy()
        start, end = np.searchsorted(times, [after, until], side="right").tolist()
        some = with_keys(stream, table.slice(start, end - start), keys)
        return Found(within_box(stream, some, box))

    def _table(self, stream: Stream) -> pa.Table:
        """All readings of a stream by time, and at one time as they came."""
        kept = self._kept.get(stream.name)
        if kept is None:
            return segment_schema(stream.columns).empty_table()
        if len(kept.complete) > 1:
            kept.complete = [pa.concat_tables(kept.complete).combine_chunks()]
        return kept.complete[0]

    def _remove_old(self, stream: Stream, kept: _Kept) -> None:
        """Remove what is older than `keep`, but for the last reading of each object before that."""
        keep = stream.archiving.keep if stream.archiving is not None else None
        if keep is None or kept.closed is None:
            return
        begin = kept.closed - keep
        if sum(t.num_rows for t in kept.complete if _is_before(t, begin)) < MANY:
            return
        table = self._table(stream)
        count = int(np.searchsorted(times_of(table).to_numpy(), begin, side="left"))
        last = last_of_each(stream, table.slice(0, count))
        last = last.filter(pc.invert(gone_of(last)))
        kept.complete = [pa.concat_tables([last, table.slice(count)]).combine_chunks()]


def times_of(table: pa.Table) -> pa.ChunkedArray:
    """The times of the readings of a segment."""
    return table.column(table.num_columns - 2)


def _is_before(table: pa.Table, time: int) -> bool:
    """Are all readings of a sorted table older than a time?"""
    return bool(table.num_rows) and bool(times_of(table)[-1].as_py() < time)


def gone_of(table: pa.Table) -> pa.ChunkedArray:
    """Which readings of a segment say that their object disappears."""
    return table.column(table.num_columns - 1)


def last_of_each(stream: Stream, table: pa.Table) -> pa.Table:
    """Of readings in the order of times, the last one of each object, in that order."""
    if stream.key is None:
        return table.slice(0, 0)
    codes = _codes(table.column(stream.key))
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    last[codes] = np.arange(len(codes))  # of equal indices the last one counts
    return table.take(pa.array(np.sort(last)))


def _codes(column: pa.ChunkedArray) -> Longs:
    encoded = column.combine_chunks().dictionary_encode()
    codes: Longs = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def with_keys(stream: Stream, table: pa.Table, keys: frozenset[Key] | None) -> pa.Table:
    """The readings of some objects; of all, if None is given."""
    if keys is None or stream.key is None:
        return table
    column = table.column(stream.key)
    return table.filter(pc.is_in(column, pa.array(list(keys), column.type)))


def within_box(stream: Stream, table: pa.Table, box: Box | None) -> pa.Table:
    """The readings that lie in a box; all, if None is given."""
    if box is None or stream.x is None or stream.y is None:
        return table
    x, y = table.column(stream.x), table.column(stream.y)
    inside = pc.and_(
        pc.and_(pc.greater_equal(x, box[0]), pc.less_equal(x, box[2])),
        pc.and_(pc.greater_equal(y, box[1]), pc.less_equal(y, box[3])),
    )
    return table.filter(inside)
