"""Readings as they are pushed in Python: rows of values, dicts by column name, or whole tables.

Whichever form they come in, they become what the other doors take: rows and dicts go the way of
JSON's arrays and objects, tables that of Parquet's. So a value means the same everywhere, and what
is wrong is told in the same words. If one reading is wrong, none is taken. Names of columns are
found in any order and case. `op`, if the stream has no such column, says `disappear` of a reading
where an object disappears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from place.errors import ReadingError
from place.model.reading import Reading
from place.model.schema import Stream
from place.model.segment import read_segment, segment_schema
from place.model.types import Moment, Type, ValueMismatch, coerce, shown
from place.runtime.intake.check import (
    OP,
    Rejected,
    Rejections,
    Routed,
    check_table,
)
from place.runtime.intake.convert import convert_objects
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.intake.json_file import Item, ObjectReader
from place.runtime.intake.judge import DISAPPEAR, OBJECTS_EXPECTED, check_moment, examine

MOMENT_EXPECTED = (
    "a time is a datetime, a date, a text like '2026-01-31 12:00:00', or microseconds since 1970"
)
_FORMS = "push rows of values, dicts by column name, or a table of Arrow, pandas or polars"
_PUSHED = "push"


def moment_of(time: Moment) -> int:
    """A time that is given to a call as an instant, or a ReadingError.

    An integer is microseconds, as instants are that the system gives out.

    >>> from datetime import date
    >>> moment_of(date(1970, 1, 2)) == moment_of("1970-01-02") == 86_400_000_000
    True
    """
    try:
        moment = coerce(time, Type.TIMESTAMP)
    except ValueMismatch as mismatch:
        raise ReadingError(f"time: {mismatch.message}", hint=MOMENT_EXPECTED) from None
    if moment is None:
        raise ReadingError("the time is missing", hint=MOMENT_EXPECTED)
    return int(moment)


def segment_of(
    stream: Stream,
    data: Any,
    time: int | None,
    *,
    now: Callable[[], int] | None = wall_clock,
) -> pa.Table:
    """The segment of pushed data, or a ReadingError for the first reading that is wrong.

    `time` is that of readings without one. `now` is the clock by which the future is judged, if
    the stream has the option `max_future`; None for what is no news.
    """
    latest = None if now is None or stream.max_future is None else latest_time(stream, now())
    if time is not None:
        check_moment(time, latest)
    table = _table_of(data)
    rows = [] if table is not None else _rows_of(data)
    if stream.time is None and time is None:
        if not rows and (table is None or not len(table[1])):
            return segment_schema(stream.columns).empty_table()
        raise ReadingError(
            f'a reading of stream "{stream.name}" has no time', hint="give one: push(…, time=…)"
        )
    if table is None:
        routed = check_rows(stream, rows, _PUSHED, arrival=time, latest=latest)
    else:
        routed = _check_frame(stream, *table, time, latest)
    for rejected in routed.rejected[:1]:
        raise wrong_row(rejected)
    return routed.segment


def reading_of(
    stream: Stream,
    data: Any,
    time: int | None,
    *,
    now: Callable[[], int] | None = wall_clock,
) -> Reading:
    """The one reading of pushed data, or a ReadingError."""
    (reading,) = read_segment(stream, segment_of(stream, [data], time, now=now))
    return reading


def check_rows(
    stream: Stream,
    rows: Sequence[Any],
    source: str,
    *,
    arrival: int | None = None,
    latest: int | None = None,
) -> Routed:
    """The readings of rows of values or dicts by column name; those that are wrong are rejected.

    Values stand in the order of the columns; the time may be left out where `arrival` is it.
    """
    rejections = Rejections(source)
    items = [_item_of(stream, row, arrival) for row in rows]
    reader = ObjectReader(stream, latest)
    segment = reader.sort_out(items, rejections, lambda index: (index + 1, ""), arrival)
    return Routed(segment, rejections.all())


def disappearance_of(stream: Stream, key: Any, time: int) -> Reading:
    """Word that an object disappears at a time."""
    check_moment(time, None)
    if stream.key is None:
        raise ReadingError(f'stream "{stream.name}" has no objects', hint=OBJECTS_EXPECTED)
    columns = [
        None if index == stream.time else convert_objects([None], column.type)
        for index, column in enumerate(stream.columns)
    ]
    columns[stream.key] = convert_objects([key], stream.columns[stream.key].type)
    ops = convert_objects([DISAPPEAR], Type.STRING)
    examined = examine(stream, columns, ops, 1, time)
    if len(examined.bad):
        raise ReadingError(examined.reason(0), hint=examined.expected(0))
    (reading,) = read_segment(stream, examined.segment)
    return reading


def wrong_row(rejected: Rejected) -> ReadingError:
    """The error of a push that is refused for one of its readings."""
    reason = rejected.reason
    if rejected.line is not None:
        comma = "," if reason.startswith("column ") else ":"
        reason = f"row {rejected.line}{comma} {reason}"
    return ReadingError(reason, hint=rejected.hint or None)


# Rows


def _rows_of(data: Any) -> list[Any]:
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise _no_readings(data)
    return list(data)


def _no_readings(data: Any) -> ReadingError:
    return ReadingError(f"a {type(data).__name__} holds no readings", hint=_FORMS)


def _item_of(stream: Stream, row: Any, time: int | None) -> Item:
    """A dict by its names, the values of a row by their places, or what is wrong with it."""
    if isinstance(row, Mapping):
        if all(type(name) is str for name in row):
            return row
        return {str(name): value for name, value in row.items()}
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        return ReadingError(f"{shown(row)} is not a row of values", hint=_FORMS)
    values, width = list(row), len(stream.columns)
    if len(values) == width:
        return dict(enumerate(values))
    if time is not None and stream.time is not None and len(values) == width - 1:
        places = (place for place in range(width) if place != stream.time)
        return dict(zip(places, values, strict=True))
    besides = [column.name for i, column in enumerate(stream.columns) if i != stream.time]
    return ReadingError(
        f'a reading of stream "{stream.name}" has {len(besides)} values besides its time,'
        f" got {len(values)}",
        hint=f"they are {', '.join(besides)}",
    )


# Tables


def _table_of(data: Any) -> tuple[list[str], Any] | None:
    """The names of a table's columns, and the table of whichever library; None for rows."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return data.schema.names, data
    kinds = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__]
    if ("pandas", "DataFrame") in kinds or ("polars", "DataFrame") in kinds:
        return [str(name) for name in data.columns], data
    if kinds[0][0] in ("pandas", "polars"):  # a Series, or what is yet to be collected
        raise _no_readings(data)
    if hasattr(data, "__arrow_c_stream__"):
        try:
            table = pa.table(data)
        except (TypeError, ValueError, pa.ArrowException):
            raise _no_readings(data) from None
        return table.schema.names, table
    return None


def _check_frame(
    stream: Stream, names: list[str], table: Any, time: int | None, latest: int | None
) -> Routed:
    wanted = {name.casefold() for i in range(len(stream.columns)) for name in stream.names_of(i)}
    columns = [
        _column_of(table, place)
        if name.strip().casefold() in {*wanted, OP}
        else pa.nulls(len(table))
        for place, name in enumerate(names)
    ]
    objects = {place: column for place, column in enumerate(columns) if isinstance(column, list)}
    arrays = [pa.nulls(len(table)) if isinstance(c, list) else c for c in columns]
    found = pa.table(arrays, names=names)
    return check_table(stream, found, _PUSHED, arrival=time, latest=latest, objects=objects)


def _column_of(table: Any, place: int) -> pa.Array | pa.ChunkedArray | list[Any]:
    """A column of a table as Arrow has it, or its objects where Arrow would take some for others.

    Arrow makes dates of datetimes that stand among dates, refuses types that are mixed, and keeps
    the periods of pandas as numbers.
    """
    if isinstance(table, pa.Table | pa.RecordBatch):
        return table.column(place)
    is_pandas = hasattr(table, "iloc")
    series = table.iloc[:, place] if is_pandas else table.to_series(place)
    if str(series.dtype) == "Object":  # of polars, which gives Arrow their addresses
        return list(series)
    try:
        if not is_pandas:
            return series.to_arrow()
        if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
            return pa.array(series.to_numpy(), from_pandas=False)  # where NaN stays what it is
        values = pa.array(series, from_pandas=True)
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return list(series)
    is_mixed = series.dtype == np.dtype(object) and not pa.types.is_string(values.type)
    return list(series) if is_mixed or isinstance(values.type, pa.BaseExtensionType) else values
