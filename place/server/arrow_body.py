"""Streams of Arrow from elsewhere: read only where they are not larger than they look.

A few bytes can stand for terabytes: compressed buffers, columns of nulls, dictionaries with one
long text, runs. So a body is measured before it is taken apart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.server.errors import Refused

ENCLOSED = 2
"""The field of a message in which its header is; of a batch of a dictionary, 1."""
COMPRESSION = 3
"""The field of a batch of rows that says how its buffers are compressed."""
GROWTH = 8
"""So many times the size of the body may texts take once they are spelt out."""
TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string),
    *(pa.types.is_binary, pa.types.is_large_binary),
)


def read_stream(body: bytes) -> pa.Table:
    """The table of a stream of Arrow."""
    try:
        _check_buffers(body)
        with pa.ipc.open_stream(pa.BufferReader(body)) as source:
            _check_types(source.schema)
            table = pa.Table.from_batches(_batches(source, len(body)), source.schema)
        table.validate(full=True)
        _check_texts(table, GROWTH * len(body))
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise wrong_arrow(error) from None
    return table


def wrong_arrow(error: Exception) -> Refused:
    said = (str(error) or type(error).__name__).splitlines()[0][:200]
    return Refused(400, "wrong_arrow", f"the body is no stream of Arrow for this: {said}")


def _batches(source: pa.RecordBatchReader, most: int) -> Iterator[pa.RecordBatch]:
    """The batches, or an error if there are more rows than bytes: every row takes at least one."""
    rows = 0
    for batch in source:
        rows += batch.num_rows
        if rows > most:
            raise ValueError(f"it has more rows than bytes ({most:,})")
        yield batch


def _check_buffers(body: bytes) -> None:
    """Nothing is compressed."""
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
        if message.type == "schema":
            continue
        data = message.metadata.to_pybytes()
        batch = _field(data, struct.unpack_from("<I", data)[0], ENCLOSED)
        if message.type == "dictionary" and batch:
            batch = _field(data, batch, 1)
        if batch and _field(data, batch, COMPRESSION):
            raise ValueError("its buffers are compressed; send them as they are")


def _field(data: bytes, table: int, number: int) -> int:
    """Where a table that is a field of another begins (0: it is not there), in a flatbuffer."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, fields)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, fields + 4 + 2 * number)
    if not offset:
        return 0
    return int(table + offset + struct.unpack_from("<I", data, table + offset)[0])


def _check_types(schema: pa.Schema) -> None:
    for column in schema:
        if pa.types.is_run_end_encoded(column.type):
            raise ValueError(f'column "{column.name}" is of runs; send its values')


def _check_texts(table: pa.Table, most: int) -> None:
    """What texts take once each row has its own, where several may share one."""
    size = sum(_size(chunk) for column in table.columns for chunk in column.chunks)
    if size > most:
        raise ValueError(f"its texts stand for {size:,} bytes")


def _size(values: pa.Array) -> int:
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(values.buffers()[1], "<i4").reshape(-1, 4)
        return int(views[values.offset : values.offset + len(values), 0].sum(dtype=np.int64))
    if not pa.types.is_dictionary(kind):
        return 0
    words = values.dictionary
    if pa.types.is_string_view(words.type) or pa.types.is_binary_view(words.type):
        raise ValueError("a dictionary of views is not read; send its values")
    if not any(test(words.type) for test in TEXTS):
        return 0
    lengths = pc.binary_length(words).take(values.indices)
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
