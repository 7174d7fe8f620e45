"""The types of values, and how a value is checked, written and read.

A value is a plain Python object: BIGINT an int of 64 bits, DOUBLE a finite float, STRING a str,
BOOLEAN a bool, TIMESTAMP and INTERVAL an int of microseconds; NULL is None in every type. There
is no NaN: where arithmetic has no finite value, the value is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

from place.errors import PlaceError
from place.model.time import (
    EARLIEST,
    LATEST,
    format_interval,
    format_timestamp,
    parse_interval,
    parse_timestamp,
)

Value = int | float | str | bool | None
Row = tuple[Value, ...]

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
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        result = _COERCIONS[kind](value)
    except (ValueError, OverflowError, PlaceError):
        result = None
    if result is None and kind is not Type.NULL:
        raise ValueMismatch(f"{_shown(value)} is not a {kind.value}")
    return result


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _bigint(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if len(value) <= 40 and _is_plain(value) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if SMALLEST <= value <= LARGEST else None


def _double(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
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
