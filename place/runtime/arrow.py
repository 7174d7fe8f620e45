"""Readings in whatever form they are pushed: rows of values, or tables of Arrow, pandas, polars.

A table's columns are found by name, in any order and whatever their case. A column `op` that is
not one of the stream's says `disappear` of a row where an object disappears.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from place.errors import ReadingError, suggestion
from place.model.reading import Reading, make_disappearance, make_reading
from place.model.schema import Stream, find_column
from place.model.types import Type

DISAPPEAR = "disappear"
OPERATIONS = (DISAPPEAR, "reading", "", None)


def readings_of(stream: Stream, data: Any, time: int | None) -> Iterator[Reading]:
    """The readings of pushed data; the first one that is wrong raises a ReadingError."""
    table = _as_table(data)
    if table is None:
        for row in _rows(data):
            yield make_reading(stream, row, time)
        return
    names = {name.casefold(): i for i, name in reversed(list(enumerate(table.column_names)))}
    columns = [_column(stream, index, table, names, time) for index in range(len(stream.columns))]
    operations = None
    if "op" in names and find_column(stream.columns, "op") is None:
        operations = table.column(names["op"]).to_pylist()
    for number, values in enumerate(zip(*columns, strict=True)):
        operation = operations[number] if operations is not None else None
        if operation not in OPERATIONS:
            raise ReadingError(
                f"row {number + 1}: operation {operation!r} does not exist",
                hint=f"write '{DISAPPEAR}', or nothing",
            )
        if operation == DISAPPEAR:
            moment = time if stream.time is None else values[stream.time]
            if not isinstance(moment, int):
                raise ReadingError(f"row {number + 1} has no time")
            yield make_disappearance(stream, values[stream.key], moment)
        else:
            yield make_reading(stream, values, time)


def _rows(data: Any) -> Iterable[Sequence[Any]]:
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ReadingError(
            f"a {type(data).__name__} holds no readings",
            hint="push rows of values, or a table of Arrow, pandas or polars",
        )
    return data


def _as_table(data: Any) -> pa.Table | None:
    """The Arrow table of a table of any kind; None for rows of values."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    library = type(data).__module__.partition(".")[0]
    if library == "polars":
        return data.to_arrow()
    if library == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    return None


def _column(
    stream: Stream, index: int, table: pa.Table, names: dict[str, int], time: int | None
) -> list[Any]:
    column = stream.columns[index]
    found = names.get(column.name.casefold())
    if found is None:
        if index == stream.time and time is not None:
            return [time] * table.num_rows
        raise ReadingError(
            f'the table has no column "{column.name}"',
            hint=suggestion(column.name, table.column_names, "its columns"),
        )
    values = table.column(found)
    if column.type is Type.TIMESTAMP and pa.types.is_timestamp(values.type):
        values = pa.compute.cast(values, pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.to_pylist()  # type: ignore[no-any-return]
