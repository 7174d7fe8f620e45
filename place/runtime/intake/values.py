"""One value of a source as a value of the model: what it means, and why it does not fit.

The meaning is `coerce`'s, which knows Python's own values. On top of it decimals are numbers, and
the option `timestamps` of a source says what a TIMESTAMP is written as.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from place.model.time import MILLISECOND, SECOND
from place.model.types import LARGEST, SMALLEST, Type, Value, ValueMismatch, coerce

SCALES = {"seconds": SECOND, "milliseconds": MILLISECOND, "microseconds": 1}
"""How many microseconds a number is, by the option `timestamps`."""

_NUMBER = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]*)?\s*")


def settle(value: Any, kind: Type, timestamps: str | None = None) -> Value:
    """A value as one of `kind`, or a ValueMismatch that says why not.

    Without `timestamps` a text is ISO 8601, never a plain number, and a number counts
    microseconds. With 'iso' only texts are timestamps. With a unit, texts and numbers count that
    unit since 1970; seconds and milliseconds may have a fraction.

    >>> settle("1.5", Type.TIMESTAMP, "seconds"), settle("1970-01-01 00:00:01", Type.TIMESTAMP)
    (1500000, 1000000)
    """
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, str) and not fits_arrow(value):
        raise ValueMismatch(f"{shown(value)} holds half a letter")
    return _instant(value, timestamps) if kind is Type.TIMESTAMP else coerce(value, kind)


def fits_arrow(value: Any) -> bool:
    """Whether Arrow can hold a value: no integer past 64 bits, no lone half of a UTF-16 pair."""
    if isinstance(value, int):
        return SMALLEST <= value <= LARGEST
    if not isinstance(value, str) or value.isascii():
        return True
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _instant(value: Any, timestamps: str | None) -> Value:
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
    if scale == 1 or type(number) not in (int, float):
        return number
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
    if isinstance(value, bytes):
        return "invalid UTF-8"
    if kind.is_numeric and _is_too_large(value, kind):
        return f"{shown(value)} is too large for a {kind.value}"
    try:
        settle(value, kind, timestamps)
    except ValueMismatch as error:
        return error.message
    return f"{shown(value)} is not a {kind.value}"


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    try:
        text = repr(value[:100] if isinstance(value, str) else value)
    except ValueError:  # Python does not write integers of more than 4,300 digits
        text = "an integer of more than 4,300 digits"
    return text if len(text) <= 60 else text[:57] + "…"


def is_nan(value: Any) -> bool:
    """Whether a number, or the text of one, is NaN."""
    return math.isnan(_number(value) or 0.0)


def is_infinite(value: Any) -> bool:
    """Whether a number, or the text of one, is infinite as such, not by its many digits."""
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
