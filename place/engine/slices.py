"""Slices of readings: of a segment a cell takes the objects of its own row, and those of other rows
that regions of its column follow.

A slice says what a cell has to know of the readings that it does not see. How far the stream is
after the whole segment follows from its latest time; which readings come too late follows from the
latest time before each of them. So clocks, and all that goes by them, are the same in all cells.

Whoever holds a whole segment may cut it: the cell itself, if the segment is small, or those who
write it for many cells, so that each cell reads only what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.matrix import Place
from place.kernels.arrays import Bools, Longs
from place.kernels.key_index import spread_keys
from place.kernels.text_hash import hash_texts
from place.model.reading import Advance
from place.model.schema import Stream
from place.model.time import BEGINNING
from place.plan.bind_query_table import layout_of

UNORDERED = ""
"""The partition of readings whose source has no order: they are taken in that of their times."""

Keys: TypeAlias = pa.Array | None
"""Keys of objects of other rows; None for all of them."""


@dataclass(frozen=True)
class Cut:
    """What a slice tells of the segment that it was cut from.

    `latest` is the latest time of the whole segment, `places` are those of the slice's readings in
    it, and `before` is the latest time before each of them; None where the segment is in the order
    of times. `is_chosen` says that the slice has exactly what a cell needs.
    """

    count: int
    latest: int
    places: Longs
    before: Longs | None = None
    is_chosen: bool = False

    def take(self, chosen: Longs) -> Cut:
        """The same of some of the readings."""
        before = None if self.before is None else self.before[chosen]
        return replace(self, places=self.places[chosen], before=before)


@dataclass(frozen=True)
class Segment:
    """Checked readings of a stream, in the order of their source, or of one partition of it; with a
    `cut`, only some of them."""

    stream: str
    table: pa.Table
    part: str | None = None
    cut: Cut | None = None

    @property
    def times(self) -> Longs:
        """The times of the readings."""
        found: Longs = self.table.column(self.table.num_columns - 2).to_numpy()
        return found

    @property
    def has_readings(self) -> bool:
        """Has the whole segment any?"""
        return (self.table.num_rows if self.cut is None else self.cut.count) > 0

    def take(self, chosen: Longs) -> Segment:
        """A slice of these readings."""
        cut = self.cut or cut_of(self)
        table = self.table
        if len(chosen) < table.num_rows:
            table, cut = table.take(pa.array(chosen)), cut.take(chosen)
        return replace(self, table=table, cut=cut)


Told = Segment | Advance


def is_shared(stream: Stream) -> bool:
    """Do all cells take all readings of a stream? Those of a stream without KEY have no row until
    they are numbered, and the regions that a stream may hold are spread over columns."""
    return stream.key is None or layout_of(stream.columns) is not None


def cut_of(segment: Segment) -> Cut:
    """The cut of a whole segment."""
    times = segment.times
    count = len(times)
    if not count:
        return Cut(0, BEGINNING, np.empty(0, np.int64))
    before = None
    if segment.part != UNORDERED and (times[1:] < times[:-1]).any():
        before = np.full(count, BEGINNING)
        before[1:] = np.maximum.accumulate(times)[:-1]
    return Cut(count, int(times.max()), np.arange(count), before)


def rows_of(stream: Stream, table: pa.Table, rows: int) -> Longs:
    """The row of the matrix that each reading of a segment belongs to."""
    assert stream.key is not None
    return rows_of_keys(table.column(stream.key), rows)


def rows_of_keys(column: pa.ChunkedArray | pa.Array, rows: int) -> Longs:
    """The row of the matrix that each of these keys belongs to."""
    if pa.types.is_integer(column.type):
        return spread_keys(column.to_numpy(), rows)
    texts = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(texts, pa.ChunkedArray):  # of no chunk, or of too many bytes for one
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.string())
    indices = None
    if pa.types.is_dictionary(texts.type):
        texts, indices = texts.dictionary, texts.indices.to_numpy()
    found: Longs = text_hashes(texts.cast(pa.string())) % rows
    return found if indices is None else found[indices]


def text_hashes(texts: pa.StringArray) -> Longs:
    """The checksum of each text, as `Dictionary.hashes` has it."""
    if not len(texts):
        return np.empty(0, np.int64)
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return hash_texts(places, np.frombuffer(data or b"", np.uint8))


def among(stream: Stream, table: pa.Table, keys: Keys) -> Bools:
    """Which readings of a segment are of objects among these keys."""
    if keys is None:
        return np.ones(table.num_rows, np.bool_)
    assert stream.key is not None
    column = table.column(stream.key)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    found: Bools = pc.is_in(column, value_set=keys).to_numpy()
    return found


def slice_of(segment: Segment, stream: Stream, place: Place, keys: Keys) -> Segment:
    """What a cell takes of a segment: the readings of its row, and those of `keys`."""
    if segment.cut is not None and segment.cut.is_chosen:
        return segment
    if keys is None or is_shared(stream):
        return segment if segment.cut is not None else replace(segment, cut=cut_of(segment))
    chosen = rows_of(stream, segment.table, place.matrix.rows) == place.row
    if len(keys):
        chosen |= among(stream, segment.table, keys)
    return segment.take(np.flatnonzero(chosen))


def merged(parts: Sequence[Segment]) -> Segment:
    """Slices of one segment, together; no reading is in two of them."""
    some = [part for part in parts if part.table.num_rows]
    if not some:
        return parts[0]
    if len(some) == 1:
        return some[0]
    cuts = [part.cut for part in some if part.cut is not None]
    places = np.concatenate([cut.places for cut in cuts])
    befores = [cut.before for cut in cuts if cut.before is not None]
    order = np.argsort(places, kind="stable")
    table = pa.concat_tables([part.table for part in some]).take(pa.array(order))
    before = np.concatenate(befores)[order] if befores else None
    return replace(some[0], table=table, cut=replace(cuts[0], places=places[order], before=before))


def in_order(told: Sequence[Told]) -> list[Told]:
    """The inputs of a tick; those of sources without an order are put in the order of times."""
    loose: dict[str, list[Segment]] = {}
    for item in told:
        if isinstance(item, Segment) and item.part == UNORDERED:
            loose.setdefault(item.stream, []).append(item)
    ordered = [_by_time(stream, parts) for stream, parts in loose.items()]
    rest = [i for i in told if not (isinstance(i, Segment) and i.part == UNORDERED)]
    return [*ordered, *rest]


def _by_time(stream: str, parts: Sequence[Segment]) -> Segment:
    table = pa.concat_tables([part.table for part in parts])
    times = np.concatenate([part.times for part in parts])
    order = np.argsort(times, kind="stable")
    whole = Segment(stream, table.take(pa.array(order)))
    cuts = [part.cut for part in parts if part.cut is not None]
    if not cuts:
        return whole
    counts, latest = sum(cut.count for cut in cuts), max(cut.latest for cut in cuts)
    return replace(whole, cut=Cut(counts, latest, times[order], is_chosen=True))
