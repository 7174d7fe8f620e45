"""How readings of a stream stand in its table: the columns, and the way there and back.

A row is a reading with what the repository knows beyond it: until when it was its object's last
one, whether it is the copy of a snapshot, whether it says that the object disappeared, and its
place among readings of one time. Timestamps are timestamps, so that other engines read them as
what they are. The reading's time is the stream's own time column, if it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.model.schema import Stream
from place.model.segment import ARROW, segment_schema
from place.model.types import Type

MOMENT = pa.timestamp("us", tz="UTC")
_LONG = pa.int64()


@dataclass(frozen=True)
class Layout:
    """The columns of a stream's table, in their order, without the partition."""

    stream: Stream

    def _free(self, name: str) -> str:
        """A name that no column of the stream has."""
        taken = {column.name.casefold() for column in self.stream.columns}
        while name.casefold() in taken:
            name = f"_{name}"
        return name

    @cached_property
    def time(self) -> str:
        """The column of a reading's time."""
        own = self.stream.time
        return self._free("time") if own is None else self.stream.columns[own].name

    @cached_property
    def valid_to(self) -> str:
        """The time of the object's next reading, or the end of the interval; NULL if unknown."""
        return self._free("valid_to")

    @cached_property
    def snapshot(self) -> str:
        """The time of the snapshot that a row is part of; NULL for readings."""
        return self._free("snapshot")

    @cached_property
    def gone(self) -> str:
        """Whether the object disappeared at this time."""
        return self._free("gone")

    @cached_property
    def sequence(self) -> str:
        """The place of a reading among those of its time, in the order of their source."""
        return self._free("sequence")

    @cached_property
    def day(self) -> str:
        """The partition: the day of the time, or of the snapshot, by UTC."""
        return self._free("day")

    @property
    def key(self) -> str | None:
        return None if self.stream.key is None else self.stream.columns[self.stream.key].name

    @property
    def place(self) -> tuple[str, str] | None:
        """The columns of the position, if there are any."""
        x, y = self.stream.x, self.stream.y
        if x is None or y is None:
            return None
        return self.stream.columns[x].name, self.stream.columns[y].name

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a file."""
        fields = [
            pa.field(c.name, MOMENT if c.type is Type.TIMESTAMP else ARROW[c.type])
            for c in self.stream.columns
        ]
        if self.stream.time is None:
            fields.append(pa.field(self.time, MOMENT))
        fields += [
            pa.field(self.valid_to, MOMENT),
            pa.field(self.snapshot, MOMENT),
            pa.field(self.gone, pa.bool_()),
            pa.field(self.sequence, pa.int32()),
        ]
        return pa.schema(fields)

    @cached_property
    def table_schema(self) -> pa.Schema:
        """The columns of the table, the partition among them."""
        return self.schema.append(pa.field(self.day, pa.date32()))

    def rows(self, segment: pa.Table, sequence: NDArray[np.int32]) -> pa.Table:
        """Readings of a segment as rows of which nobody knows yet how long they are valid."""
        size, own = segment.num_rows, len(self.stream.columns)
        arrays: list[pa.ChunkedArray | pa.Array] = []
        for index, column in enumerate(self.stream.columns):
            values = segment.column(own if index == self.stream.time else index)
            if column.type is Type.TIMESTAMP:
                values = values.cast(MOMENT)
            arrays.append(_plain(values))
        if self.stream.time is None:
            arrays.append(segment.column(own).cast(MOMENT))
        nothing = pa.nulls(size, MOMENT)
        arrays += [nothing, nothing, segment.column(own + 1), pa.array(sequence, pa.int32())]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def segment(self, rows: pa.Table) -> pa.Table:
        """Rows as a segment."""
        arrays = []
        for column in self.stream.columns:
            values = rows.column(column.name)
            arrays.append(values.cast(_LONG) if column.type is Type.TIMESTAMP else values)
        arrays += [rows.column(self.time).cast(_LONG), rows.column(self.gone)]
        return pa.Table.from_arrays(arrays, schema=segment_schema(self.stream.columns))

    def times(self, rows: pa.Table) -> NDArray[np.int64]:
        """The times of readings."""
        return longs(rows.column(self.time))

    def numbers(self, rows: pa.Table) -> NDArray[np.float64] | None:
        """The places of readings, two numbers each; NaN where there is none."""
        if self.place is None:
            return None
        found = np.empty((rows.num_rows, 2))
        for axis, name in enumerate(self.place):
            values = pc.cast(rows.column(name), pa.float64())
            found[:, axis] = pc.fill_null(values, np.nan).to_numpy()
        return found

    def codes(self, rows: pa.Table) -> NDArray[np.int32]:
        """A number for each object: the same for rows of the same one."""
        assert self.key is not None
        return codes_of([rows.column(self.key)])

    def in_order(self, rows: pa.Table) -> pa.Table:
        """Rows in the order of times and, at one time, of their source."""
        order = [(self.time, "ascending"), (self.sequence, "ascending")]
        return rows.take(pc.sort_indices(rows, sort_keys=order))


def codes_of(columns: Sequence[pa.ChunkedArray]) -> NDArray[np.int32]:
    """A number for each value of columns of one type, one after the other; NULL is -1."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    if not chunks:
        return np.empty(0, np.int32)
    encoded = pa.chunked_array(chunks).combine_chunks().dictionary_encode()
    found: NDArray[np.int32] = encoded.indices.fill_null(-1).to_numpy()
    return found


def longs(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Moments as microseconds."""
    found: NDArray[np.int64] = column.cast(_LONG).to_numpy()
    return found


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that name each text once become plain ones."""
    kind = values.type
    return values.cast(kind.value_type) if pa.types.is_dictionary(kind) else values
