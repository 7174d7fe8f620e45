"""Readings as they are pushed in Python: rows of values, dicts by column name, or whole tables.

Whichever form they come in, a value means the same, and what is wrong is told in the same words.
All of them become columns: those of tables by Arrow, those of rows by `convert_objects`; then they
are judged as readings of files are. If one reading is wrong, none is taken. Names of columns are
found in any order and case. `op`, if the stream has no such column, says `disappear` of a reading
where an object disappears.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from place.errors import ReadingError, suggestion
from place.model.reading import Reading
from place.model.schema import Stream, find_column
from place.model.segment import read_segment
from place.model.types import Type, ValueMismatch, coerce, shown
from place.runtime.intake.check import DISAPPEAR, LARGE_BATCH, OP, examine, missing_column
from place.runtime.intake.convert import Converted, convert, convert_objects
from place.runtime.intake.values import EXPECTED

Moment: TypeAlias = str | int | date | np.datetime64
"""A time as it is given in Python; also a datetime or a Timestamp of pandas, which are dates."""

Values: TypeAlias = pa.Array | pa.ChunkedArray | list[Any]
"""A column as it came."""

_FORMS = "push rows of values, dicts by column name, or a table of Arrow, pandas or polars"


def moment_of(time: Moment) -> int:
    """A time as an instant, or a ReadingError.

    >>> moment_of(date(1970, 1, 2)) == moment_of("1970-01-02") == 86_400_000_000
    True
    """
    try:
        moment = coerce(time, Type.TIMESTAMP)
    except ValueMismatch as mismatch:
        raise ReadingError(f"time: {mismatch.message}", hint=EXPECTED[Type.TIMESTAMP]) from None
    if moment is None:
        raise ReadingError("the time is missing", hint=EXPECTED[Type.TIMESTAMP])
    return int(moment)


def readings_of(stream: Stream, data: Any, time: int | None) -> list[Reading]:
    """The readings of pushed data, or a ReadingError for the first one that is wrong."""
    table = _table_of(data)
    if table is not None:
        return _read_table(stream, *table, time)
    columns, ops = _columns_of(stream, _rows_of(data), time)
    return _read(stream, columns, ops, time)


def disappearance_of(stream: Stream, key: Any, time: int) -> Reading:
    """Word that an object disappears at a time."""
    columns: list[Values | None] = [[None] for _ in stream.columns]
    columns[stream.key] = [key]
    if stream.time is not None:
        columns[stream.time] = None
    (reading,) = _read(stream, columns, [DISAPPEAR], time, numbered=False)
    return reading


def _read(
    stream: Stream,
    columns: Sequence[Values | None],
    ops: Values | None,
    time: int | None,
    *,
    numbered: bool = True,
) -> list[Reading]:
    """The readings of columns, of which None is the time that is given for all."""
    rows = max((len(column) for column in columns if column is not None), default=0)
    if rows and time is None and (stream.time is None or columns[stream.time] is None):
        raise ReadingError(
            f'a reading of stream "{stream.name}" has no time', hint="give one: push(…, time=…)"
        )
    readings: list[Reading] = []
    for start in range(0, rows, LARGE_BATCH):
        stop = min(start + LARGE_BATCH, rows)
        converted = [
            None if values is None else _convert(values, column.type, start, stop)
            for values, column in zip(columns, stream.columns, strict=True)
        ]
        said = None if ops is None else _convert(ops, Type.STRING, start, stop)
        examined = examine(stream, converted, said, stop - start, time, any_year=True)
        if len(examined.bad):
            first = int(examined.bad[0])
            reason = examined.reason(first)
            if numbered:
                named = reason.startswith("column ")
                reason = f"row {start + first + 1}{', ' if named else ': '}{reason}"
            raise ReadingError(reason, hint=examined.expected(first))
        readings += read_segment(stream, examined.segment)
    return readings


def _convert(values: Values, kind: Type, start: int, stop: int) -> Converted:
    if isinstance(values, list):
        return convert_objects(values[start:stop], kind)
    part = values.slice(start, stop - start)
    return convert(part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part, kind)


# Rows


def _rows_of(data: Any) -> list[Any]:
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise _no_readings(data)
    return list(data)


def _no_readings(data: Any) -> ReadingError:
    return ReadingError(f"a {type(data).__name__} holds no readings", hint=_FORMS)


def _columns_of(
    stream: Stream, rows: Sequence[Any], time: int | None
) -> tuple[list[Values | None], Values | None]:
    """The columns of rows, and what their `op` says; the time that is given is filled in."""
    width = len(stream.columns)
    blank: list[Any] = [None] * (width + 1)
    if stream.time is not None:
        blank[stream.time] = time
    places: dict[tuple[Any, ...], list[int]] = {}
    filled: list[list[Any]] = []
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            names = tuple(row)
            if names not in places:
                places[names] = _places_of(stream, names, number)
            values = blank.copy()
            # of names that differ only in case the first one counts, as in tables
            for place, value in zip(
                reversed(places[names]), reversed([*row.values()]), strict=True
            ):
                values[place] = value
        else:
            values = [*_values_of(stream, row, number, time), None]
        filled.append(values)
    columns = [list(column) for column in zip(*filled, strict=True)] or [[]] * (width + 1)
    ops = columns[width]
    return [*columns[:width]], ops if any(op is not None for op in ops) else None


def _places_of(stream: Stream, names: Sequence[Any], number: int) -> list[int]:
    """Where in a row the values of a dict with these names belong; `op` stands behind."""
    known = [column.name for column in stream.columns]
    if find_column(stream.columns, OP) is None:
        known.append(OP)
    by_name = {name.casefold(): place for place, name in enumerate(known)}
    places = []
    for name in names:
        place = by_name.get(str(name).strip().casefold())
        if place is None:
            raise ReadingError(
                f'row {number}: stream "{stream.name}" has no column "{name}"',
                hint=suggestion(str(name), known, "columns"),
            )
        places.append(place)
    return places


def _values_of(stream: Stream, row: Any, number: int, time: int | None) -> list[Any]:
    """The values of a row in column order; it may leave out the time where one is given."""
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        raise ReadingError(f"row {number}: {shown(row)} is not a row of values", hint=_FORMS)
    values = list(row)
    if len(values) == len(stream.columns):
        return values
    if time is not None and stream.time is not None and len(values) == len(stream.columns) - 1:
        return [*values[: stream.time], time, *values[stream.time :]]
    besides = [column.name for i, column in enumerate(stream.columns) if i != stream.time]
    raise ReadingError(
        f'row {number}: a reading of stream "{stream.name}" has {len(besides)} values besides its'
        f" time, got {len(values)}",
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


def _read_table(stream: Stream, names: list[str], table: Any, time: int | None) -> list[Reading]:
    places = {name.strip().casefold(): i for i, name in reversed(list(enumerate(names)))}
    columns: list[Values | None] = []
    for index, column in enumerate(stream.columns):
        place = places.get(column.name.casefold())
        if place is None and not (index == stream.time and time is not None):
            raise missing_column(stream, index, column.name, names)
        columns.append(None if place is None else _column_of(table, place))
    ops = None
    if OP in places and find_column(stream.columns, OP) is None:
        ops = _column_of(table, places[OP])
    return _read(stream, columns, ops, time)


def _column_of(table: Any, place: int) -> Values:
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
