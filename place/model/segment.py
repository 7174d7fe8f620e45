"""A segment: readings of one stream as Arrow, checked, in the order of their source.

It is the one form in which readings enter the engine in bulk. Its columns are the stream's, in
order, then the time of each reading and whether it says that its object disappears; of such a row
only the key and the time count. Timestamps are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from place.model.reading import UNNUMBERED, Key, Reading
from place.model.schema import Column, Stream
from place.model.types import Row, Type

ARROW: dict[Type, pa.DataType] = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.int64(),
    Type.INTERVAL: pa.int64(),
    Type.NULL: pa.int64(),
}
"""How the values of a type are kept in Arrow."""

TIME, GONE = "time", "gone"
"""The last two columns of a segment. A stream may call a column so too: go by the position."""


def segment_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns of a segment of a stream with these columns."""
    fields = [pa.field(column.name, ARROW[column.type]) for column in columns]
    return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(GONE, pa.bool_())])


def make_segment(stream: Stream, readings: Sequence[Reading]) -> pa.Table:
    """Readings of one stream, made one by one, as a segment."""

    def gone(key: Key) -> Row:
        return tuple(key if i == stream.key else None for i in range(len(stream.columns)))

    rows = [gone(reading.key) if reading.row is None else reading.row for reading in readings]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(stream.columns)
    arrays = [
        pa.array(values, ARROW[column.type])
        for values, column in zip(columns, stream.columns, strict=True)
    ]
    arrays.append(pa.array([reading.time for reading in readings], pa.int64()))
    arrays.append(pa.array([reading.disappears for reading in readings], pa.bool_()))
    return pa.Table.from_arrays(arrays, schema=segment_schema(stream.columns))


def read_segment(stream: Stream, table: pa.Table) -> list[Reading]:
    """The readings of a segment, one by one."""
    columns = [column.to_pylist() for column in table.columns]
    rows = zip(*columns[:-2], strict=True)
    keys = [UNNUMBERED] * table.num_rows if stream.key is None else columns[stream.key]
    return [
        Reading(stream.name, key, time, None if gone else row)
        for key, row, time, gone in zip(keys, rows, columns[-2], columns[-1], strict=True)
    ]
