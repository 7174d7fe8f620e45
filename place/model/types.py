"""The types of values, and how a value is checked, written and read.

A value is a plain Python object: BIGINT an int of 64 bits, DOUBLE a finite float, STRING a str,
BOOLEAN a bool, TIMESTAMP and INTERVAL an int of microseconds; NULL is None in every type. There
is no NaN: where arithmetic has no finite value, the value is NULL. What comes in may also be a
datetime, a date, a Decimal, or what NumPy and pandas have for any of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np

from place.errors import PlaceError
from place.model.time import (
    EARLIEST,
    LATEST,
    format_interval,
    format_timestamp,
    instant_of,
    parse_interval,
    parse_timestamp,
)

Value = int | float | str | bool | None
Row = tuple[Value, ...]
Moment = str | int | date | np.datetime64
"""A time as it is given in Python; also a datetime or a Timestamp of pandas, which are dates."""

SMALLEST, LARGEST = -(2**63), 2**63 - 1


class Type(Enum):
    """A column's type; `NULL` is the type of a bare NULL, which fits every other."""

    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"
    NULL = "NULL"

    @property
    def is_numeric(self) -> bool:
        return self in (Type.BIGINT, Type.DOUBLE)


NAMES = {
    "BIGINT": Type.BIGINT,
    "INT": Type.BIGINT,
    "INTEGER": Type.BIGINT,
    "SMALLINT": Type.BIGINT,
    "LONG": Type.BIGINT,
    "DOUBLE": Type.DOUBLE,
    "FLOAT": Type.DOUBLE,
    "REAL": Type.DOUBLE,
    "STRING": Type.STRING,
    "VARCHAR": Type.STRING,
    "TEXT": Type.STRING,
    "BOOLEAN": Type.BOOLEAN,
    "BOOL": Type.BOOLEAN,
    "TIMESTAMP": Type.TIMESTAMP,
}
"""The names that a column's type may be written by; all integers are 64 bits, all floats double."""


class ValueMismatch(PlaceError):
    """A value does not fit its type; the caller says which column and row."""


def coerce(value: Any, kind: Type) -> Value:
    """`value` as one of type `kind`, or a ValueMismatch that says why not.

    A text is read as the type says, so that rows of csv files and of scripts come the same way.

    >>> coerce("2", Type.BIGINT), coerce(2, Type.DOUBLE), coerce(None, Type.STRING)
    (2, 2.0, None)
    """
    value = plain(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        result = _COERCIONS[kind](value)
    except (ValueError, OverflowError, PlaceError):
        result = None
    if result is None and kind is not Type.NULL:
        raise ValueMismatch(f"{shown(value)} is not a {kind.value}")
    return result


_PLAIN = frozenset({int, float, str, bool, type(None)})
_FINER = ("ns", "ps", "fs", "as")


def plain(value: Any) -> Any:
    """What NumPy and pandas have for a value, as Python has it: None for NaT and NA.

    >>> plain(np.float32(0.5)), plain(np.datetime64("2026-01-31")), plain(np.datetime64("NaT"))
    (0.5, datetime.datetime(2026, 1, 31, 0, 0), None)
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _plain_time(value)
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Decimal):
        return math.nan if value.is_nan() else value
    if isinstance(value, datetime):
        if value != value:  # NaT of pandas
            return None
        fields = (value.year, value.month, value.day, value.hour, value.minute, value.second)
        zone = value.tzinfo
        return datetime(*fields, value.microsecond, zone, fold=value.fold)  # without nanoseconds
    return None if type(value).__name__ == "NAType" else value


def _plain_time(value: np.datetime64 | np.timedelta64) -> Any:
    """A datetime or a timedelta; the value itself where Python's do not reach so far."""
    if np.isnat(value):
        return None
    unit = np.datetime_data(value.dtype)[0]
    if unit == "generic":
        return value
    found = value.astype(f"{value.dtype.kind}8[us]")
    if unit not in _FINER and found.astype(value.dtype) != value:
        return value
    python = found.item()
    return python if isinstance(python, datetime | timedelta) else value


def shown(value: Any) -> str:
    """A value for a message, in the same words whatever library it is of; cut where it is long.

    >>> shown(np.int64(5)), shown(datetime(2026, 1, 31, 12)), shown(Decimal("2.50"))
    ('5', '2026-01-31 12:00:00', '2.5')
    """
    try:
        text = _written(plain(value))
    except (ValueError, OverflowError):
        # Python does not write integers of more than 4,300 digits
        text = "an integer of more than 4,300 digits" if isinstance(value, int) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _written(value: Any) -> str:
    if isinstance(value, datetime):
        return format_timestamp(instant_of(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return format_interval(value // timedelta(microseconds=1))
    if isinstance(value, Decimal):
        text = str(value)
        return text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text
    if isinstance(value, np.datetime64):
        return str(value.astype("M8[s]")).replace("T", " ")
    return repr(value[:100] if isinstance(value, str) else value)


def _bigint(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if len(value) <= 40 and _is_plain(value) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, Decimal) and value.is_finite() and value.adjusted() < 20:
        value = int(value) if value == value.to_integral_value() else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if SMALLEST <= value <= LARGEST else None


def _double(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, str) and not _is_plain(value):
        return None
    number = float(value) + 0.0  # so that -0.0, which equals 0.0, is also written like it
    return number if math.isfinite(number) else None


def _is_plain(text: str) -> bool:
    """Python also takes 1_000 and digits of other scripts for numbers; SQL does not."""
    return text.isascii() and "_" not in text


def _boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _BOOLEANS.get(value.strip().casefold()) if isinstance(value, str) else None


_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _timestamp(value: Any) -> int | None:
    if isinstance(value, date):
        instant: int | None = instant_of(value)
    else:
        instant = parse_timestamp(value) if isinstance(value, str) else _bigint(value)
    return instant if instant is not None and EARLIEST <= instant <= LATEST else None


def _interval(value: Any) -> int | None:
    return parse_interval(value) if isinstance(value, str) else _bigint(value)


_COERCIONS: dict[Type, Callable[[Any], Value]] = {
    Type.BIGINT: _bigint,
    Type.DOUBLE: _double,
    Type.STRING: _string,
    Type.BOOLEAN: _boolean,
    Type.TIMESTAMP: _timestamp,
    Type.INTERVAL: _interval,
    Type.NULL: lambda value: None,
}


def format_value(value: Value, kind: Type) -> str:
    """`value` as it is written in SQL and in scripts.

    >>> format_value("O'Hare", Type.STRING), format_value(2.0, Type.DOUBLE)
    ("'O''Hare'", '2.0')
    """
    if value is None:
        return "NULL"
    if kind is Type.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind is Type.STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if kind is Type.TIMESTAMP:
        return f"'{format_timestamp(int(value))}'"
    if kind is Type.INTERVAL:
        return f"'{format_interval(int(value))}'"
    return repr(value)


def format_row(row: Row, kinds: tuple[Type, ...]) -> str:
    """
    >>> format_row((1, None), (Type.BIGINT, Type.STRING))
    '(1, NULL)'
    """
    return "(" + ", ".join(format_value(v, k) for v, k in zip(row, kinds, strict=True)) + ")"
