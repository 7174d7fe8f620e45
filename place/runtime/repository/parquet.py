"""Files of the repository: written in small row groups, of which a question reads few.

Each row group has the least and greatest values of its columns, and a filter of the keys that are
in it (Parquet's bloom filter), which other engines use, too. A row group that cannot hold what is
asked for is not read.

Readings of an object stand together, so that times are written as differences, which are nearly
always the same few numbers. Which way of writing suits a column of floating point numbers depends
on what they measure: rounded ones have few digits, others differ in all of them. It is tried.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from place.model.reading import Key
from place.model.time import MILLISECOND, moment_at
from place.runtime.archive import Box
from place.runtime.durable.storage import Storage
from place.runtime.repository.delta import TableFile
from place.runtime.repository.key_filter import hash_of, is_in
from place.runtime.repository.layout import Layout

GROUP_ROWS = 1 << 13
COMPRESSION = "zstd"
SHORT = 32
"""Texts of so many letters have statistics."""


def write_rows(
    storage: Storage,
    directory: str,
    layout: Layout,
    name: str,
    day: str,
    pieces: Sequence[pa.Table],
) -> TableFile:
    """Write a file that is part of no table yet; nobody else has a name that begins so."""
    path = f"{layout.day}={day}/{name}_{uuid.uuid4().hex[:12]}.parquet"
    encodings = _encodings(layout.schema, max(pieces, key=len))
    filters = {layout.key: {"ndv": GROUP_ROWS, "fpp": 0.01}} if layout.key else None

    def fill(out: pa.NativeFile) -> None:
        with pq.ParquetWriter(
            out,
            layout.schema,
            compression=COMPRESSION,
            use_dictionary=[f.name for f in layout.schema if f.name not in encodings],
            column_encoding=encodings,
            bloom_filter_options=filters,
        ) as writer:
            for piece in pieces:
                groups = max(1, -(-piece.num_rows // GROUP_ROWS))
                size = -(-piece.num_rows // groups)
                writer.write_table(piece, row_group_size=max(1, size))

    size = storage.write(f"{directory}/{path}", fill)
    return _described(layout, path, size, day, pieces)


def _encodings(schema: pa.Schema, rows: pa.Table) -> dict[str, str]:
    """How columns are written that have no dictionary, by some of the rows."""
    found = {}
    for field in schema:
        if pa.types.is_timestamp(field.type) and rows.column(field.name).null_count < len(rows):
            found[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_floating(field.type):
            best = _smallest(rows.select([field.name]).slice(0, GROUP_ROWS))
            if best is not None:
                found[field.name] = best
    return found


def _smallest(column: pa.Table) -> str | None:
    """The encoding of floating point numbers that takes the fewest bytes; None is a dictionary."""
    sizes = {}
    for encoding in (None, "PLAIN", "BYTE_STREAM_SPLIT"):
        out = pa.BufferOutputStream()
        pq.write_table(
            column,
            out,
            compression=COMPRESSION,
            use_dictionary=encoding is None,
            column_encoding=encoding,
        )
        sizes[encoding] = out.tell()
    return min(sizes, key=lambda encoding: sizes[encoding])


def _described(
    layout: Layout, path: str, size: int, day: str, pieces: Sequence[pa.Table]
) -> TableFile:
    rows = pa.concat_tables(pieces)
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for field in layout.schema:
        column = rows.column(field.name)
        nulls[field.name] = column.null_count
        if pa.types.is_boolean(field.type):
            continue
        found = pc.min_max(column.cast(pa.int64()) if pa.types.is_timestamp(field.type) else column)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is None or (isinstance(low, float) and not np.isfinite([low, high]).all()):
            continue
        if isinstance(low, str) and max(len(low), len(high)) > SHORT:
            continue
        if pa.types.is_timestamp(field.type):  # of milliseconds, and none is outside of them
            low, high = _moment(low), _moment(high + MILLISECOND - 1)
        least[field.name], greatest[field.name] = low, high
    return TableFile(path, size, rows.num_rows, day, least, greatest, nulls)


def _moment(instant: int) -> str:
    whole = instant // MILLISECOND * MILLISECOND
    return moment_at(whole).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@dataclass(frozen=True)
class Wanted:
    """What a question needs of a file: rows that may be so; the reader looks again.

    `since` < valid_to or time, `until` >= time.
    """

    until: int
    since: int | None = None
    """Rows that were over by this time, valid until then or earlier, are of no use."""
    after: int | None = None
    """Rows whose time is this one or earlier are of no use."""
    box: Box | None = None
    keys: Collection[Key] | None = None


class GroupIndex:
    """What the footer of a file says of its row groups, by columns."""

    def __init__(self, layout: Layout, metadata: pq.FileMetaData) -> None:
        self.metadata = metadata
        self._layout = layout
        count = metadata.num_row_groups
        names = [
            metadata.row_group(0).column(i).path_in_schema for i in range(metadata.num_columns)
        ]
        self._at = {name: i for i, name in enumerate(names)}
        self.sizes = np.array(
            [
                sum(
                    metadata.row_group(g).column(i).total_compressed_size
                    for i in range(metadata.num_columns)
                )
                for g in range(count)
            ]
        )
        self._filters: list[bytes | None] | None = None
        self._bounds: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        for name in (layout.time, layout.valid_to):
            self._bounds[name] = self._read(name, np.int64)
        for name in layout.place or ():
            self._bounds[name] = self._read(name, np.float64)

    def _read(self, name: str, kind: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        low: list[Any] = []
        high: list[Any] = []
        for group in range(self.metadata.num_row_groups):
            found = self.metadata.row_group(group).column(self._at[name]).statistics
            if found is None or not found.has_min_max:
                low.append(None)
                high.append(None)
            else:
                low.append(found.min_raw)
                high.append(found.max_raw)
        lowest, highest = (
            (np.iinfo(kind).min, np.iinfo(kind).max) if kind is np.int64 else (-np.inf, np.inf)
        )
        return (
            np.array([lowest if v is None else v for v in low], kind),
            np.array([highest if v is None else v for v in high], kind),
        )

    def chosen(self, wanted: Wanted) -> NDArray[np.bool_]:
        """The row groups that may hold what is wanted, as far as their bounds tell."""
        times, ends = self._bounds[self._layout.time], self._bounds[self._layout.valid_to]
        found = times[0] <= wanted.until
        if wanted.since is not None:
            found &= ends[1] > wanted.since
        if wanted.after is not None:
            found &= times[1] > wanted.after
        if wanted.box is not None and self._layout.place is not None:
            left, bottom, right, top = wanted.box
            (x_low, x_high), (y_low, y_high) = (self._bounds[n] for n in self._layout.place)
            found &= (x_low <= right) & (x_high >= left) & (y_low <= top) & (y_high >= bottom)
        return found

    def open_rows(self) -> int:
        """The rows of groups in which all are valid until the end."""
        low, high = self._bounds[self._layout.valid_to]
        is_open = (low == high) & (high == high.max())
        groups = np.flatnonzero(is_open).tolist()
        return sum(self.metadata.row_group(group).num_rows for group in groups)

    def with_keys(
        self, source: pa.NativeFile, groups: Iterable[int], keys: Collection[Key]
    ) -> tuple[list[int], int]:
        """Of some row groups those that may hold one of the keys, and the bytes read for that."""
        assert self._layout.key is not None
        kind = self._layout.schema.field(self._layout.key).type
        hashes = [hash_of(key, kind) for key in keys]
        size = 0 if self._filters is not None else self._read_filters(source)
        assert self._filters is not None
        found = []
        for group in groups:
            content = self._filters[group]
            if content is None or any(is_in(content, each) for each in hashes):
                found.append(group)
        return found, size

    def _read_filters(self, source: pa.NativeFile) -> int:
        """Read the filters of keys of all row groups, once; how many bytes they have."""
        place, made = self._at[self._layout.key or ""], list[bytes | None]()
        for group in range(self.metadata.num_row_groups):
            column = self.metadata.row_group(group).column(place)
            offset, length = column.bloom_filter_offset, column.bloom_filter_length
            if offset is None or length is None:
                made.append(None)
                continue
            source.seek(offset)
            made.append(source.read(length))
        self._filters = made
        return sum(len(content) for content in made if content is not None)


def chosen_groups(
    source: pa.NativeFile, index: GroupIndex, layout: Layout, wanted: Wanted
) -> tuple[list[int], int]:
    """The row groups that may hold what is wanted, and the bytes that were read to know that."""
    groups = np.flatnonzero(index.chosen(wanted)).tolist()
    if wanted.keys is not None and layout.key is not None and len(wanted.keys) <= 64:
        return index.with_keys(source, groups, wanted.keys)
    return groups, 0


def read_groups(
    source: pa.NativeFile,
    metadata: pq.FileMetaData,
    layout: Layout,
    wanted: Wanted,
    groups: Sequence[int],
    *,
    alone: bool = True,
) -> pa.Table:
    """Rows of some row groups that may be wanted, by the box and the keys. `alone` says that no
    other file is read at the same time."""
    if not groups:
        return layout.schema.empty_table()
    with pq.ParquetFile(source, metadata=metadata) as file:
        # Where several files are read at once, more threads would wait for each other.
        rows = file.read_row_groups(list(groups), use_threads=alone)
    # What is left out here is not copied again: of one object it is a small part of each group.
    rows = fits(layout, rows, wanted.box, wanted.keys)
    return rows if rows.schema.equals(layout.schema) else rows.cast(layout.schema)


def read_file(
    source: pa.NativeFile,
    index: GroupIndex,
    layout: Layout,
    wanted: Wanted,
    *,
    alone: bool = True,
) -> tuple[pa.Table, int]:
    """Rows that may be wanted, by the bounds of row groups, the box and the keys; and the bytes
    that were read for them."""
    groups, size = chosen_groups(source, index, layout, wanted)
    rows = read_groups(source, index.metadata, layout, wanted, groups, alone=alone)
    return rows, size + int(index.sizes[groups].sum())


def fits(layout: Layout, rows: pa.Table, box: Box | None, keys: Collection[Key] | None) -> pa.Table:
    """The rows that lie in a box and are of some objects; those without a place stay."""
    if box is not None and layout.place is not None and rows.num_rows:
        numbers = layout.numbers(rows)
        assert numbers is not None
        left, bottom, right, top = box
        x, y = numbers[:, 0], numbers[:, 1]
        inside = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
        rows = rows.filter(pa.array(inside | np.isnan(x)))
    if keys is not None and layout.key is not None and rows.num_rows:
        kind = layout.schema.field(layout.key).type
        rows = rows.filter(pc.is_in(rows.column(layout.key), pa.array(list(keys), kind)))
    return rows
