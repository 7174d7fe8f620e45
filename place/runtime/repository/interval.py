"""An interval: what was known from one snapshot to the next, arranged to be read in parts.

It begins with a copy of each object as it was, and has every reading with the time until which it
was its object's last one. So the objects of any time are a filter over one interval, and nothing of
another one is read. Rows lie in *pieces*: readings of a slice of time, then those that were valid
for longer than a slice, then those that are still valid at the end, from which the next interval
begins. Within a piece the readings of an object stand together, and objects in the order of a curve
through space: so a part of the space, and the path of one object, are few parts of a file each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.kernels.hilbert import hilbert_order
from place.runtime.repository.layout import MOMENT, Layout, longs

SLICE_ROWS = 1 << 17
"""About so many readings make a slice of time."""


@dataclass(frozen=True)
class Interval:
    """The rows of an interval in pieces, each of which is written as row groups of its own."""

    begin: int
    end: int
    pieces: tuple[pa.Table, ...]
    objects: int
    """The objects that are there at its end."""


def open_rows(layout: Layout, rows: pa.Table, end: int) -> pa.Table:
    """The rows of an interval that are still valid at its end, of objects that are still there."""
    is_open = pc.equal(rows.column(layout.valid_to), pa.scalar(end, MOMENT))
    return rows.filter(pc.and_(is_open, pc.invert(rows.column(layout.gone))))


def arranged(layout: Layout, base: pa.Table, readings: pa.Table, begin: int, end: int) -> Interval:
    """An interval of the objects that it begins with, and its readings, those of each object in
    the order of times.

    A stream without KEY has readings only, which are valid at their own time alone.
    """
    carried = _with(layout, base, layout.snapshot, np.full(base.num_rows, begin))
    rows = pa.concat_tables([carried, readings])
    times = layout.times(rows)
    starts = np.maximum(times, begin)
    if layout.key is None:
        codes = np.arange(rows.num_rows, dtype=np.int32)
        until = times.copy()
    else:
        codes = layout.codes(rows)
        until = _next_times(codes, starts, end)
    rows = _with(layout, rows, layout.valid_to, until)
    gone = rows.column(layout.gone).to_numpy()
    is_open = (until == end) & ~gone & (layout.key is not None)
    kept = np.ones(len(times), np.bool_)
    kept[: base.num_rows] = until[: base.num_rows] > begin  # an object that spoke right then
    pieces = [
        rows.take(pa.array(places))
        for places in _pieces(layout, rows, codes, starts, until, is_open, kept, begin, end)
    ]
    return Interval(begin, end, tuple(pieces), int(is_open.sum()))


def by_object(layout: Layout, rows: pa.Table) -> list[pa.Table]:
    """Readings that are in no interval yet, in the order of times, as pieces: in each of them the
    readings of an object stand together, in the order of times."""
    times = layout.times(rows)
    codes = np.arange(len(times), dtype=np.int32) if layout.key is None else layout.codes(rows)
    none, all_of_them = np.zeros(len(times), np.bool_), np.ones(len(times), np.bool_)
    begin, end = int(times[0]), int(times[-1]) + 1
    return [
        rows.take(pa.array(places))
        for places in _pieces(layout, rows, codes, times, times, none, all_of_them, begin, end)
    ]


def _pieces(
    layout: Layout,
    rows: pa.Table,
    codes: NDArray[np.int32],
    starts: NDArray[np.int64],
    until: NDArray[np.int64],
    is_open: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    begin: int,
    end: int,
) -> Iterator[NDArray[np.int64]]:
    slices = max(1, len(starts) // SLICE_ROWS)
    length = max(1, -(-(end - begin) // slices))
    piece = (starts - begin) // length
    piece[until - starts > length] = slices
    piece[is_open] = slices + 1
    piece[~kept] = slices + 2
    # Readings of one object in one piece stand together; where they begin, is where they are.
    order = np.lexsort((codes, piece))
    first = np.ones(len(order), np.bool_)
    first[1:] = (codes[order][1:] != codes[order][:-1]) | (piece[order][1:] != piece[order][:-1])
    group = np.cumsum(first) - 1
    heads = order[first]
    numbers = layout.numbers(rows)
    if numbers is not None:
        rank = np.empty(len(heads), np.int64)
        rank[hilbert_order(np.nan_to_num(numbers[heads]))] = np.arange(len(heads))
    else:
        rank = np.arange(len(heads))
    along = rank[group]
    order = order[np.lexsort((along, piece[order]))]
    bounds = np.searchsorted(piece[order], np.arange(slices + 3))
    for start, stop in pairwise(bounds):
        if stop > start:
            yield order[start:stop]


def _next_times(codes: NDArray[np.int32], starts: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    """When the next row of the same object begins, or the end; those of an object are in the order
    of times."""
    order = np.argsort(codes, kind="stable")
    until = np.full(len(codes), end)
    same = codes[order][1:] == codes[order][:-1]
    until[order[:-1][same]] = starts[order[1:][same]]
    return until


def _with(layout: Layout, rows: pa.Table, name: str, values: NDArray[np.int64]) -> pa.Table:
    place = layout.schema.get_field_index(name)
    return rows.set_column(place, layout.schema.field(place), pa.array(values).cast(MOMENT))


def last_of_each(layout: Layout, rows: pa.Table) -> pa.Table:
    """The last row of each object that has not disappeared; those of an object are in the order of
    times."""
    if not rows.num_rows or layout.key is None:
        return rows.slice(0, 0)
    codes = layout.codes(rows)
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    last[codes] = np.arange(len(codes))  # the last one to be written stays
    found = rows.take(pa.array(np.sort(last[last >= 0])))
    return found.filter(pc.invert(found.column(layout.gone)))


def valid_at(layout: Layout, rows: pa.Table, at: int) -> pa.Table:
    """The rows of an interval that were the last of their objects at a time."""
    until = longs(rows.column(layout.valid_to))
    chosen = (layout.times(rows) <= at) & (at < until)
    return rows.filter(pc.and_(pa.array(chosen), pc.invert(rows.column(layout.gone))))
