"""Where the objects of a stream are, as of the last tick: put together from what cells tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.checkpoint import SUBJECTS, TEXTS, Checkpoint
from place.errors import ConfigurationError
from place.model.schema import Stream, find_column
from place.model.types import Type


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


def check_has_places(stream: Stream) -> None:
    """Raise if nothing of a stream could be shown on a map."""
    if stream.key is None or stream.x is None or stream.y is None:
        raise ConfigurationError(f'stream "{stream.name}" has no objects that have places')


def positions_of(tick: int, stream: Stream, cells: Sequence[Checkpoint]) -> Positions:
    """The objects of a stream as of a tick, from what the cells of the first column have saved."""
    assert stream.key is not None
    assert stream.x is not None
    assert stream.y is not None
    tables: list[pa.Table] = []
    for saved in cells:
        if saved[SUBJECTS].num_rows:
            tables.append(_named(stream, saved[SUBJECTS], saved[TEXTS].column("text")))
    names = [str(i) for i in range(len(stream.columns))]
    if not tables:
        nothing, nowhere = np.empty(0, np.int64), np.empty(0)
        whole = {i: pa.array([], pa.null()) for i in range(len(stream.columns))}
        return Positions(tick, stream, nothing, nowhere, nowhere, nothing, whole)
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    columns = {i: _whole(table.column(name)) for i, name in enumerate(names)}
    key = columns[stream.key]
    is_text = stream.key_type is Type.STRING
    return Positions(
        tick,
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
    own = packed.columns[3 : 3 + len(stream.columns)]  # without what the engine keeps beside them
    for column, values in zip(stream.columns, own, strict=True):
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
