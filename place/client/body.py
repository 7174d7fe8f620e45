"""Readings and times of Python as the server's door takes them; it is the server that judges them.

Tables go as Arrow, rows as JSON. Only what neither can hold is refused here.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from place.errors import ReadingError
from place.model.time import EARLIEST, LATEST, format_timestamp
from place.model.types import Moment, plain, shown

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
LONGEST_TIME = 60


def write_time(time: Moment) -> str:
    """A time as a text; what is none is sent as it is, and refused there.

    >>> write_time(date(2026, 1, 31)), write_time(1_000_000)
    ('2026-01-31', '1970-01-01 00:00:01')
    """
    value = plain(time)
    if value is None:
        return ""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and EARLIEST <= value <= LATEST:
        return format_timestamp(value)
    return (value if isinstance(value, str) else shown(value))[:LONGEST_TIME]


def write_value(value: Any) -> Any:
    """A value of another library, or a time, as JSON has it."""
    value = plain(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value.adjusted() < 40 and value % 1 == 0
        return int(value) if is_whole else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return dict(value)
    if value is None or isinstance(value, int | float | str | list):
        return value
    raise ReadingError(f"{shown(value)} is of no type that a reading has")


def write_readings(rows: Any) -> tuple[str, bytes]:
    """The type and the bytes of a body with readings, of whatever form."""
    table = _table_of(rows)
    if table is not None:
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        return ARROW, out.getvalue()
    found = _rows_of(rows)
    try:
        plain_rows = [_row(row) for row in found] if isinstance(found, list) else found
        body = json.dumps(plain_rows, default=write_value)
    except (ValueError, RecursionError) as error:
        raise ReadingError(f"the readings cannot be written as JSON: {error}") from None
    return JSON, body.encode()


def _row(row: Any) -> Any:
    if isinstance(row, Mapping):
        return {str(name): value for name, value in row.items()}
    return row if isinstance(row, str | bytes) or not isinstance(row, Iterable) else list(row)


def _table_of(data: Any) -> pa.Table | None:
    """A table of whichever library as one of Arrow; None for rows."""
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data
    kinds = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__]
    with contextlib.suppress(TypeError, ValueError, pa.ArrowException):
        if ("pandas", "DataFrame") in kinds:
            return _pandas_table(data)
        if ("polars", "DataFrame") in kinds:
            return data.to_arrow()
        if hasattr(data, "__arrow_c_stream__") and kinds[0][0] not in ("pandas", "polars"):
            return pa.table(data)
    return None


def _pandas_table(frame: Any) -> pa.Table | None:
    """A table of Arrow, unless Arrow would take some objects for others."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for place, kind in enumerate(frame.dtypes):
        found = table.schema.field(place).type
        if kind == np.dtype(object) and not (pa.types.is_string(found) or pa.types.is_null(found)):
            return None
    return table


def _rows_of(data: Any) -> Any:
    """Rows that can be written one by one; what holds none is the server's to refuse."""
    if hasattr(data, "to_dicts"):  # of polars, with objects that Arrow does not have
        return data.to_dicts()
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return data.to_dict("records")
    is_one = isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable)
    return data if is_one else list(data)
