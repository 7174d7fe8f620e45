"""Where the objects of a stream are, as of the last tick: read from the states of its cells.

A state is a file that does not change and that the last manifest names, so nobody waits: no task
runs and no tick is held up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.checkpoint import TEXTS, subjects_of
from place.errors import ConfigurationError
from place.model.schema import Stream, find_column
from place.model.types import Type
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.pack import load_pack
from place.runtime.durable.storage import Storage

ATTEMPTS = 5


@dataclass(frozen=True, eq=False)
class Positions:
    """The objects of a stream that are alive: their keys, places and times, one array each."""

    tick: int
    stream: Stream
    keys: NDArray[np.int64] | list[str]
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    times: NDArray[np.int64]
    columns: Mapping[int, pa.Array]
    """The stream's columns by their places; texts are dictionary arrays."""

    def __len__(self) -> int:
        return len(self.xs)

    def column(self, name: str) -> pa.Array | None:
        """The values of an attribute, or None if there is no such."""
        index = find_column(self.stream.columns, name)
        return None if index is None else self.columns[index]


def read_positions(storage: Storage, manifest: Manifest, stream: Stream) -> Positions:
    """The objects of a stream as of a tick, from the cells of the first column."""
    tables: list[pa.Table] = []
    if stream.key is None or stream.x is None or stream.y is None:
        raise ConfigurationError(f'stream "{stream.name}" has no objects that have places')
    for cell, saved in sorted(manifest.states.items()):
        if cell.endswith("-0"):
            state = load_pack(storage, saved.file).tables
            found = subjects_of(state, stream.name)
            if found is not None and found.num_rows:
                tables.append(_named(stream, found, state[TEXTS].column("text")))
    names = [str(i) for i in range(len(stream.columns))]
    if not tables:
        nothing, nowhere = np.empty(0, np.int64), np.empty(0)
        whole = {i: pa.array([], pa.null()) for i in range(len(stream.columns))}
        return Positions(manifest.tick, stream, nothing, nowhere, nowhere, nothing, whole)
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    columns = {i: _whole(table.column(name)) for i, name in enumerate(names)}
    key = columns[stream.key]
    is_text = stream.key_type is Type.STRING
    return Positions(
        manifest.tick,
        stream,
        key.to_pylist() if is_text else table.column("key").to_numpy(),
        columns[stream.x].to_numpy(zero_copy_only=False).astype(np.float64),
        columns[stream.y].to_numpy(zero_copy_only=False).astype(np.float64),
        table.column("time").to_numpy(),
        columns,
    )


def _named(stream: Stream, packed: pa.Table, texts: pa.ChunkedArray) -> pa.Table:
    """The objects of one cell, with texts for their codes."""
    dictionary = texts.combine_chunks()
    dictionary = dictionary if isinstance(dictionary, pa.Array) else dictionary.chunk(0)
    arrays = [packed.column(0), packed.column(1)]
    for column, values in zip(stream.columns, packed.columns[3:], strict=True):
        if column.type is Type.STRING:
            codes = _whole(values).cast(pa.int32())
            arrays.append(pa.DictionaryArray.from_arrays(codes, dictionary))
        else:
            arrays.append(values)
    names = ["key", "time", *(str(i) for i in range(len(stream.columns)))]
    return pa.Table.from_arrays(arrays, names=names)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
