"""A run of the disk store: objects that were written together, in a file that never changes.

Its rows are in the order of the squares of a grid, along a Hilbert curve, and stand in blocks, so
that a region is read by the few blocks whose bounds it meets. Behind them the keys stand in order,
each with its row, so that an object is found by its key. What was written may be superseded later:
a bit for each row, which is in memory, says whether it still counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.slices import text_hashes
from place.engine.store_files import StoreFiles
from place.kernels.arrays import Bools, Bytes, Floats, Longs
from place.kernels.hilbert import hilbert_order
from place.model.schema import Stream
from place.model.types import Type

BLOCK, KEYS = 4096, 16384
"""Rows of a block, and keys of one: regions are small, and keys are looked up by the thousand."""
NOTHING = np.empty(0, np.int64)


@dataclass(eq=False)
class StoredRun:
    """Where the blocks of a run are, and which of its rows still count.

    `live` has a bit for each of its `size` rows, as NumPy packs them: there are as many as objects
    on the disk. `rows_at` and `keys_at` have for each block its first byte and its size; `boxes`
    are the bounds of the positions in each block of rows (NaN where it has none), `key_bounds` the
    lowest and the highest number of a key in each block of keys. `latest` is the time of the last
    reading.
    """

    name: str
    size: int
    live: Bytes
    latest: int
    rows_at: Longs
    boxes: Floats
    keys_at: Longs
    key_bounds: Longs

    def __post_init__(self) -> None:
        self.count = int(np.bitwise_count(self.live).sum())
        """How many rows still count."""

    def __len__(self) -> int:
        return self.size

    def supersede(self, rows: Longs) -> None:
        """These rows count no more."""
        gone = np.zeros(self.size, np.bool_)
        gone[rows] = True
        self.live &= ~np.packbits(gone)
        self.count = int(np.bitwise_count(self.live).sum())

    def still(self, rows: Longs) -> Longs:
        """Those of these rows that still count."""
        bits = self.live[rows >> 3] << (rows & 7).astype(np.uint8)
        found: Longs = rows[bits & 0x80 > 0]
        return found

    def block(self, files: StoreFiles, number: int) -> tuple[pa.Table, Longs]:
        """The rows of a block that still count, and their numbers."""
        low = number * BLOCK
        bits = np.unpackbits(self.live[low // 8 : -(-(low + BLOCK) // 8)])
        rows = np.flatnonzero(bits[low % 8 :][:BLOCK])
        if not len(rows):
            return pa.table({}), rows
        first, size = self.rows_at[number].tolist()
        table = files.read(self.name, first, size)
        if len(rows) < table.num_rows:
            table = table.take(pa.array(rows))
        return table, rows + low

    def meeting(self, boxes: Floats | None) -> Longs:
        """The blocks of rows that may have a position within one of these boxes; all, if there are
        none to ask about."""
        if boxes is None:
            return np.arange(len(self.rows_at))
        met = np.zeros(len(self.boxes), np.bool_)
        if len(boxes) < len(self.boxes):
            for box in boxes:
                met |= _meet(self.boxes, box)
        else:
            for number, box in enumerate(self.boxes):
                met[number] = _meet(boxes, box).any()
        return np.flatnonzero(met)

    def find(
        self, files: StoreFiles, numbers: Longs, texts: pa.Array | None
    ) -> tuple[Longs, Longs]:
        """The rows of keys, whether they count or not: places among the keys, and rows.

        A key of texts is found by its number, which others may share, and by its text.
        """
        order = np.argsort(numbers, kind="stable")
        asked = numbers[order]
        lows = np.searchsorted(asked, self.key_bounds[:, 0], "left")
        highs = np.searchsorted(asked, self.key_bounds[:, 1], "right")
        which, rows = [NOTHING], [NOTHING]
        for number in np.flatnonzero(lows < highs).tolist():
            first, size = self.keys_at[number].tolist()
            table = files.read(self.name, first, size)
            held = table.column(0).to_numpy()
            mine = order[lows[number] : highs[number]]
            begin = np.searchsorted(held, numbers[mine], "left")
            counts = np.searchsorted(held, numbers[mine], "right") - begin
            pairs = np.repeat(np.arange(len(mine)), counts)
            within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
            at, place = mine[pairs], begin[pairs] + within
            if texts is not None:
                there = table.column(2).combine_chunks().take(pa.array(place))
                same = pc.equal(there, texts.take(pa.array(at)))
                chosen = np.flatnonzero(same.to_numpy(zero_copy_only=False))
                at, place = at[chosen], place[chosen]
            which.append(at)
            rows.append(table.column(1).to_numpy()[place].astype(np.int64))
        return np.concatenate(which), np.concatenate(rows)


def write_run(files: StoreFiles, stream: Stream, table: pa.Table) -> StoredRun:
    """Write objects, of which no two have the same key: the columns of the stream, then times."""
    places = _places(stream, table)
    if places is not None:
        order = hilbert_order(np.nan_to_num(places))
        table, places = table.take(pa.array(order)), places[order]
    size = table.num_rows
    assert stream.key is not None
    keys = table.column(stream.key).combine_chunks()
    numbers = numbers_of(stream, keys)
    by_number = np.argsort(numbers, kind="stable")
    numbers = numbers[by_number]
    index = {"number": pa.array(numbers), "row": pa.array(by_number.astype(np.int32))}
    if stream.key_type is Type.STRING:
        index["text"] = keys.take(pa.array(by_number))
    by_key = pa.table(index)
    starts = range(0, size, BLOCK)
    blocks = [table.slice(low, BLOCK) for low in starts]
    blocks += [by_key.slice(low, KEYS) for low in range(0, size, KEYS)]
    name, at = files.write(blocks)
    ends = [(low, min(low + KEYS, size) - 1) for low in range(0, size, KEYS)]
    return StoredRun(
        name,
        size,
        np.packbits(np.ones(size, np.bool_)),
        int(table.column(table.num_columns - 1).to_numpy().max()),
        at[: len(starts)],
        np.array([_bounds(places, low) for low in starts]).reshape(-1, 4),
        at[len(starts) :],
        numbers[np.array(ends, np.int64).reshape(-1, 2)],
    )


def numbers_of(stream: Stream, keys: pa.Array) -> Longs:
    """The numbers by which keys are found: keys that are numbers, or checksums of texts."""
    if stream.key_type is not Type.STRING:
        found: Longs = keys.to_numpy()
        return found
    return text_hashes(keys)


def _meet(boxes: Floats, other: Floats) -> Bools:
    """Which boxes have a point in common with another one?"""
    met: Bools = (
        (boxes[:, 0] <= other[2])
        & (boxes[:, 1] <= other[3])
        & (boxes[:, 2] >= other[0])
        & (boxes[:, 3] >= other[1])
    )
    return met


def _places(stream: Stream, table: pa.Table) -> Floats | None:
    if stream.x is None or stream.y is None:
        return None
    columns = [table.column(i).cast(pa.float64()).fill_null(np.nan) for i in (stream.x, stream.y)]
    return np.stack([column.to_numpy() for column in columns], axis=1)


def _bounds(places: Floats | None, low: int) -> Floats:
    """The bounds of the positions of a block."""
    nowhere = np.full(4, np.nan)
    if places is None:
        return nowhere
    some = places[low : low + BLOCK]
    some = some[~np.isnan(some).any(axis=1)]
    return np.concatenate([some.min(axis=0), some.max(axis=0)]) if len(some) else nowhere


def pack_runs(runs: Mapping[str, Sequence[StoredRun]]) -> pa.Table:
    """The runs of streams as a table: the files stay where they are."""
    rows = [
        {
            "stream": stream,
            "name": run.name,
            "size": len(run),
            "live": run.live.tobytes(),
            "latest": run.latest,
            "rows_at": run.rows_at.tobytes(),
            "boxes": run.boxes.tobytes(),
            "keys_at": run.keys_at.tobytes(),
            "key_bounds": run.key_bounds.tobytes(),
        }
        for stream, some in runs.items()
        for run in some
    ]
    return pa.Table.from_pylist(rows, _PACKED)


def unpack_runs(table: pa.Table | None) -> dict[str, list[StoredRun]]:
    """The runs of streams that were packed."""
    found: dict[str, list[StoredRun]] = {}
    for row in table.to_pylist() if table is not None else ():
        live = np.frombuffer(row["live"], np.uint8).copy()
        pairs = [
            np.frombuffer(row[part], np.int64).reshape(-1, 2)
            for part in ("rows_at", "keys_at", "key_bounds")
        ]
        boxes = np.frombuffer(row["boxes"], np.float64).reshape(-1, 4)
        run = StoredRun(
            row["name"], row["size"], live, row["latest"], pairs[0], boxes, pairs[1], pairs[2]
        )
        found.setdefault(row["stream"], []).append(run)
    return found


_PACKED = pa.schema(
    [
        ("stream", pa.string()),
        ("name", pa.string()),
        ("size", pa.int64()),
        ("live", pa.binary()),
        ("latest", pa.int64()),
        *((part, pa.binary()) for part in ("rows_at", "boxes", "keys_at", "key_bounds")),
    ]
)
