"""Pieces of a stream's table, for tasks elsewhere that read them: some row groups of a file each.

What is wanted are the objects at a time and the readings after it. Together, in the order of times,
they tell what every object was at any time since. Rows that are in no file yet travel with their
piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from place.model.reading import Key
from place.model.time import format_timestamp
from place.runtime.archive import Box
from place.runtime.durable.storage import Storage
from place.runtime.repository.delta import RepositoryFault
from place.runtime.repository.footers import opened
from place.runtime.repository.interval import valid_at
from place.runtime.repository.layout import Layout
from place.runtime.repository.parquet import Wanted, fits, read_groups
from place.runtime.repository.stream_archive import ArchivedFile, StreamArchive, View

GROUPS = 64
"""A piece has at most so many row groups, about half a million rows."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a stream: the readings after `since` until `until`, and `objects` if those
    that were there at `since` count; of some keys, or in a box, only where these are given."""

    since: int
    until: int
    objects: bool = True
    box: Box | None = None
    keys: frozenset[Key] | None = None


@dataclass(frozen=True)
class TablePiece:
    """Some rows of the table of a stream, which are about the times from `begin` to `end`; the
    objects `at` a time, if it has one, and otherwise readings."""

    layout: Layout
    wanted: Wanted
    begin: int
    end: int
    count: int
    """How many rows there are, before the box and the keys are asked."""
    at: int | None = None
    file: str = ""
    groups: tuple[int, ...] = ()
    size: int = 0
    """The bytes of these row groups."""
    rows: pa.Table | None = field(default=None, compare=False)
    """The rows themselves, if they are in no file."""

    def read(self, storage: Storage) -> pa.Table:
        """What is wanted of it, in the columns of the table."""
        rows = self.rows
        if rows is not None:
            rows = fits(self.layout, rows, self.wanted.box, self.wanted.keys)
        else:
            with opened(storage, self.file) as source:
                metadata = pq.read_metadata(source)
                source.seek(0)
                rows = read_groups(source, metadata, self.layout, self.wanted, self.groups)
        if self.at is not None:
            return valid_at(self.layout, rows, self.at)
        times = self.layout.times(rows)
        chosen = times <= self.wanted.until
        if self.wanted.after is not None:
            chosen &= times > self.wanted.after
        is_reading = rows.column(self.layout.snapshot).is_null()
        return rows.filter(pa.array(chosen & is_reading.to_numpy()))


def pieces_of(archive: StreamArchive, view: View, asked: Asked) -> list[TablePiece]:
    """The pieces of an archive that have to be read for what is asked, as far as footers tell."""
    return list(_pieces(archive, view, asked))


def _pieces(archive: StreamArchive, view: View, asked: Asked) -> Iterator[TablePiece]:
    since, until, box, keys = asked.since, asked.until, asked.box, asked.keys
    inside = [each for each in view.intervals if each.begin <= since < each.end]
    readings = later = Wanted(until=until, after=since, box=box, keys=keys)
    if asked.objects:
        base = inside or view.intervals[-1:]
        if base and since < base[0].begin:
            raise RepositoryFault(f"nothing is kept of {format_timestamp(since)}")
        for each in base:
            at = min(since, each.end - 1)
            wanted = Wanted(until=at, since=at, box=box, keys=keys)
            yield from _of_file(archive, each, wanted, at)
        if not inside:  # what came since the last interval says what objects were
            later = Wanted(until=until, keys=keys)
    if since < until:
        for each in view.intervals:
            if each.begin <= until and each.end > since:
                yield from _of_file(archive, each, readings)
    if since < until or not inside:
        for each in view.loose:
            if each.begin <= until and (later.after is None or each.end > later.after):
                yield from _of_file(archive, each, later)
        yield from _of_memory(archive, view, later)


def _of_file(
    archive: StreamArchive, each: ArchivedFile, wanted: Wanted, at: int | None = None
) -> Iterator[TablePiece]:
    name = archive.name_of(each)
    groups, index = archive.footers.chosen(archive.layout, name, wanted)
    begin, end = (each.begin, each.end) if at is None else (at, at)
    for some in _batched(groups):
        count = sum(index.metadata.row_group(group).num_rows for group in some)
        size = int(index.sizes[list(some)].sum())
        yield TablePiece(archive.layout, wanted, begin, end, count, at, name, some, size)


def _of_memory(archive: StreamArchive, view: View, wanted: Wanted) -> Iterator[TablePiece]:
    for rows in view.recent:
        times = archive.layout.times(rows)
        chosen = times <= wanted.until
        if wanted.after is not None:
            chosen &= times > wanted.after
        if chosen.any():
            some = rows.filter(pa.array(chosen))
            begin, end = int(times[chosen].min()), int(times[chosen].max())
            yield TablePiece(archive.layout, wanted, begin, end, some.num_rows, rows=some)


def _batched(groups: list[int]) -> Iterator[tuple[int, ...]]:
    return (tuple(groups[i : i + GROUPS]) for i in range(0, len(groups), GROUPS))
