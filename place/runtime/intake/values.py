"""One value of a source as a value of the model: what it means, and why it does not fit.

The meaning is `coerce`'s, which knows the values of Python, NumPy and pandas. On top of it bytes
are texts in UTF-8, and the option `timestamps` of a source says what a TIMESTAMP is written as.
"""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from typing import Any

from place.model.time import MILLISECOND, SECOND
from place.model.types import LARGEST, SMALLEST, Type, Value, ValueMismatch, coerce, plain, shown

SCALES = {"seconds": SECOND, "milliseconds": MILLISECOND, "microseconds": 1}
"""How many microseconds a number is, by the option `timestamps`."""

EXPECTED = {
    Type.BIGINT: "a BIGINT is a whole number of 64 bits",
    Type.DOUBLE: "a DOUBLE is a finite number",
    Type.STRING: "a STRING is a text",
    Type.BOOLEAN: "a BOOLEAN is true or false",
    Type.TIMESTAMP: (
        "a TIMESTAMP is a datetime, a date, a text like '2026-01-31 12:00:00',"
        " or microseconds since 1970"
    ),
}
"""What a column takes, for whoever sent something else."""

_NUMBER = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]*)?\s*")


def settle(value: Any, kind: Type, timestamps: str | None = None) -> Value:
    """A value as one of `kind`, or a ValueMismatch that says why not.

    Without `timestamps` a text is ISO 8601, never a plain number, and a number counts
    microseconds. With 'iso' only texts are timestamps. With a unit, texts and numbers count that
    unit since 1970; seconds and milliseconds may have a fraction. Datetimes and dates are taken
    as they are.

    >>> settle("1.5", Type.TIMESTAMP, "seconds"), settle("1970-01-01 00:00:01", Type.TIMESTAMP)
    (1500000, 1000000)
    """
    value = plain(value)
    if isinstance(value, bytes):
        value = _decoded(value)
    if isinstance(value, str) and not fits_arrow(value):
        raise ValueMismatch(f"{shown(value)} holds half a letter")
    return _instant(value, timestamps) if kind is Type.TIMESTAMP else coerce(value, kind)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueMismatch("invalid UTF-8") from None


def fits_arrow(value: Any) -> bool:
    """Whether Arrow can hold a value: no integer past 64 bits, no lone half of a UTF-16 pair."""
    if isinstance(value, int):
        return SMALLEST <= value <= LARGEST
    if not isinstance(value, str) or value.isascii():
        return True
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _instant(value: Any, timestamps: str | None) -> Value:
    if isinstance(value, date):
        return coerce(value, Type.TIMESTAMP)
    if isinstance(value, str) and timestamps is None and _NUMBER.fullmatch(value):
        raise ValueMismatch(
            f"{shown(value)} is not a TIMESTAMP: it is a number, and no option timestamps says what"
            " it counts"
        )
    try:
        scale = SCALES.get(timestamps or "")
        if isinstance(value, str):
            if scale is None:
                return coerce(value, Type.TIMESTAMP)
            value = coerce(value, Type.BIGINT if scale == 1 else Type.DOUBLE)
        elif scale is None and timestamps is not None:
            raise ValueMismatch("")
        return coerce(_scaled(value, scale or 1), Type.TIMESTAMP)
    except ValueMismatch:
        form = f" in {timestamps.replace('iso', 'ISO 8601')}" if timestamps else ""
        raise ValueMismatch(f"{shown(value)} is not a TIMESTAMP{form}") from None


def _scaled(number: Any, scale: int) -> Any:
    if scale == 1 or type(number) not in (int, float, Decimal):
        return number
    if isinstance(number, Decimal):
        is_whole = number.is_finite() and number.adjusted() < 20 and number % 1 == 0
        number = int(number) if is_whole else float(number)
    if isinstance(number, int):
        return number * scale
    if not math.isfinite(number):
        return number
    whole = math.floor(number)  # on its own, so that it stays exact however far from 1970
    return whole * scale + round((number - whole) * scale)


def mismatch(value: Any, kind: Type, timestamps: str | None = None) -> str:
    """Why `settle` refuses a value, for whoever sent it.

    >>> mismatch("fast", Type.DOUBLE), mismatch(2**70, Type.BIGINT)
    ("'fast' is not a DOUBLE", '1180591620717411303424 is too large for a BIGINT')
    """
    value = plain(value)
    if isinstance(value, bytes):
        try:
            value = _decoded(value)
        except ValueMismatch as error:
            return error.message
    if kind.is_numeric and _is_too_large(value, kind):
        return f"{shown(value)} is too large for a {kind.value}"
    try:
        settle(value, kind, timestamps)
    except ValueMismatch as error:
        return error.message
    return f"{shown(value)} is not a {kind.value}"


def is_nan(value: Any) -> bool:
    """Whether a number, or the text of one, is NaN."""
    return math.isnan(_number(value) or 0.0)


def is_infinite(value: Any) -> bool:
    """Whether a number, or the text of one, is infinite as such, not by its many digits."""
    if isinstance(value, Decimal):
        return value.is_infinite()
    if isinstance(value, int) or (isinstance(value, str) and any(map(str.isdigit, value))):
        return False
    return math.isinf(_number(value) or 0.0)


def _is_too_large(value: Any, kind: Type) -> bool:
    number = _number(value)
    if number is None or is_infinite(value):
        return False
    if kind is Type.DOUBLE or math.isinf(number):
        return math.isinf(number)
    is_whole = not isinstance(value, str) or value.strip().lstrip("+-").isdigit()
    return is_whole and abs(number) >= 2.0**63


def _number(value: Any) -> float | None:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf
