"""Files of slices: what was told, cut into one part for each row of cells and one for each column.

A cell reads the part of its row, and that of its column: the objects of any row that queries of the
column follow. Where it needs more than that, because objects of several streams meet, or because it
began to follow others after the file was cut, it reads the parts of all rows.

The file begins with a mark and an index; then come the parts, each as it would be a file of its
own, with checksums of its own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from place.engine.matrix import Matrix, Place
from place.engine.share import Share
from place.engine.slices import (
    Keys,
    Segment,
    Told,
    among,
    cut_of,
    is_shared,
    merged,
    rows_of,
)
from place.model.schema import Stream
from place.runtime.durable.pack import load_pack, read_pack, write_tables
from place.runtime.durable.storage import Damaged, Fill, Storage, is_part, part_of
from place.runtime.durable.told import read_told, told_in, write_told

MARK = b"PLACE\x03S\n"
HEAD = len(MARK) + 8
"""The mark, and the length and the checksum of the index."""
FIRST = 64 << 10
"""So much of a file is fetched to find its index."""


@dataclass(frozen=True)
class Cutting:
    """How what is told has to be cut: for which cells, by the catalog of which version; and which
    keys of each stream the queries of each column follow, or the file that names them. What has
    fewer bytes than `least` is not cut: each cell takes its slice of it in memory."""

    matrix: Matrix
    version: int
    least: int
    keys: Mapping[str, Sequence[Keys]] = field(default_factory=dict)
    file: str | None = None

    def followed(self, storage: Storage, stream: str) -> Sequence[Keys]:
        """The keys of a stream that are followed, by columns."""
        keys = self.keys if self.file is None else _keys_in(storage, self.file)
        return keys.get(stream, ())


def write_keys(storage: Storage, name: str, keys: Mapping[str, Sequence[Keys]]) -> None:
    """Write the keys that columns follow to a file."""
    tables = {
        json.dumps([stream, column]): pa.table({"key": some})
        for stream, columns in keys.items()
        for column, some in enumerate(columns)
    }
    storage.write(name, lambda out: write_tables(out, tables), lasts=False)


@lru_cache(maxsize=4)
def _keys_in(storage: Storage, name: str) -> dict[str, list[Keys]]:
    keys: dict[str, list[Keys]] = {}
    for where, table in load_pack(storage, name).tables.items():
        stream, _ = json.loads(where)
        keys.setdefault(stream, []).append(table.column(0).combine_chunks())
    return keys


class _Index(NamedTuple):
    """Where the parts of rows and of columns are, and the version they were cut by."""

    rows: Sequence[tuple[int, int]]
    columns: Sequence[tuple[int, int]]
    version: int


def write_cut(
    storage: Storage,
    cutting: Cutting | None,
    streams: Iterable[Stream],
    told: Sequence[Told],
) -> Fill:
    """What fills a file with what was told: cut, if there are several rows and it is not little."""
    size = sum(each.table.nbytes for each in told if isinstance(each, Segment))
    if cutting is None or cutting.matrix.rows == 1 or size < cutting.least:
        return lambda out: write_told(out, told)
    known = {stream.name: stream for stream in streams}
    return lambda out: _write_slices(out, told, known, cutting, storage)


def _write_slices(
    out: pa.NativeFile,
    told: Sequence[Told],
    streams: Mapping[str, Stream],
    cutting: Cutting,
    storage: Storage,
) -> None:
    """Write what was told, cut for the cells of a matrix."""
    rows: list[list[Told]] = [[] for _ in range(cutting.matrix.rows)]
    columns: list[list[Told]] = [[] for _ in range(cutting.matrix.columns)]
    for item in told:
        if not isinstance(item, Segment):
            for part in rows:
                part.append(item)
            continue
        whole = replace(item, cut=cut_of(item))
        stream, nobody = streams.get(item.stream), whole.take(np.empty(0, np.int64))
        if stream is None or is_shared(stream):  # all of it is in the part of the first row
            for number, part in enumerate(rows):
                part.append(nobody if number else whole)
            for part in columns:
                part.append(nobody)
            continue
        of_row = rows_of(stream, item.table, cutting.matrix.rows)
        for number, part in enumerate(rows):
            part.append(whole.take(np.flatnonzero(of_row == number)))
        followed = cutting.followed(storage, item.stream)
        for column, part in enumerate(columns):
            keys = followed[column] if followed else None
            if keys is None or not len(keys):
                part.append(nobody)
            else:
                part.append(whole.take(np.flatnonzero(among(stream, item.table, keys))))
    parts = [_packed(each) for each in (*rows, *columns)]
    sizes = [len(part) for part in parts]
    about = {"rows": len(rows), "sizes": sizes, "version": cutting.version}
    index = json.dumps(about).encode("utf-8")
    out.write(MARK)
    out.write(len(index).to_bytes(4, "little") + zlib.crc32(index).to_bytes(4, "little"))
    out.write(index)
    for part in parts:
        out.write(part)


def _packed(told: Sequence[Told]) -> pa.Buffer:
    out = pa.BufferOutputStream()
    write_told(out, told)
    return out.getvalue()


def _index_of(name: str, head: bytes) -> _Index | None:
    """The index of a file, by its first bytes; None if it is not cut."""
    if not head.startswith(MARK):
        return None
    length, check = (int.from_bytes(head[at : at + 4], "little") for at in (8, 12))
    index = head[HEAD : HEAD + length]
    if zlib.crc32(index) != check:
        raise Damaged(f"{name} is damaged: the checksum of its index is wrong")
    about: dict[str, Any] = json.loads(index)
    ends = HEAD + length + np.cumsum([0, *about["sizes"]])
    places = [(int(a), int(b - a)) for a, b in pairwise(ends)]
    return _Index(places[: about["rows"]], places[about["rows"] :], about["version"])


def read_whole(storage: Storage, name: str) -> list[Told]:
    """The segments and advances of a file, in their order; those of all rows, if it is cut."""
    try:
        with storage.open(name) as source:
            index = _index_of(name, source.read(min(source.size(), FIRST)))
            if index is None:
                return told_in(read_pack(source))
            return _together([_read(storage, name, place) for place in index.rows])
    except ValueError as error:
        raise Damaged(f"{name} is damaged: {error}") from None


def read_share(
    storage: Storage,
    name: str,
    share: Share,
    streams: Mapping[str, Stream],
    version: int,
) -> tuple[list[Told], int]:
    """What a cell needs of a file, by the catalog of a version, and how many bytes were read. What
    is enclosed in a manifest is little, and never cut."""
    head, _ = (b"", 0) if is_part(name) else storage.head(name, FIRST)
    index = _index_of(name, head)
    if index is None:
        told = read_told(storage, name)
        return told, sum(item.table.nbytes for item in told if isinstance(item, Segment))
    place = share.holdings.place
    if (len(index.rows), len(index.columns)) != (place.matrix.rows, place.matrix.columns):
        told = _together([_read(storage, name, each) for each in index.rows])  # of other cells
        return told, sum(length for _, length in index.rows)
    mine = _read(storage, name, index.rows[place.row])
    names = {item.stream for item in mine if isinstance(item, Segment)}
    keys = [share.keys(streams[stream]) for stream in names & streams.keys()]
    is_valid = share.since <= index.version <= version
    if any(some is None or (len(some) and not is_valid) for some in keys):
        parts = [_read(storage, name, each) for each in index.rows]
        return _together(parts), sum(length for _, length in index.rows)
    read = index.rows[place.row][1]
    if any(len(some) for some in keys if some is not None):
        followed = _read(storage, name, index.columns[place.column])
        read += index.columns[place.column][1]
        mine = _with_followed(mine, followed, place, streams)
    return [_chosen(item) for item in mine], read


def _read(storage: Storage, name: str, place: tuple[int, int]) -> list[Told]:
    return told_in(load_pack(storage, part_of(name, *place)))


def _together(parts: Sequence[Sequence[Told]]) -> list[Told]:
    """What the parts of all rows tell."""
    found: list[Told] = []
    for items in zip(*parts, strict=True):
        segments = [item for item in items if isinstance(item, Segment)]
        found.append(merged(segments) if segments else items[0])
    return found


def _with_followed(
    mine: Sequence[Told], followed: Sequence[Told], place: Place, streams: Mapping[str, Stream]
) -> list[Told]:
    """What a row tells, with the readings of other rows that a column follows."""
    beside = iter(followed)
    found: list[Told] = []
    for item in mine:
        if isinstance(item, Segment):
            other, stream = next(beside), streams.get(item.stream)
            assert isinstance(other, Segment)
            if stream is not None and other.table.num_rows:
                rows = rows_of(stream, other.table, place.matrix.rows)
                item = merged([item, other.take(np.flatnonzero(rows != place.row))])
        found.append(item)
    return found


def _chosen(item: Told) -> Told:
    if isinstance(item, Segment) and item.cut is not None:
        return replace(item, cut=replace(item.cut, is_chosen=True))
    return item
