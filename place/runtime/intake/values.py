"""One value of a source as a value of the model: what it means, and why it does not fit.

The meaning is `coerce`'s, which knows the values of Python, NumPy and pandas. On top of it bytes
are texts in UTF-8, and a number may be a TIMESTAMP: it counts units since 1970. The option
`timestamps` of a stream says which; without it the number's size does (`unit_of`). Instants that
the system itself has written are never read by this: they are microseconds, whatever their size.
"""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from typing import Any

from place.model.time import MILLISECOND, SECOND
from place.model.types import LARGEST, SMALLEST, Type, Value, ValueMismatch, coerce, plain, shown

UNITS = {
    "seconds": (SECOND, 1),
    "milliseconds": (MILLISECOND, 1),
    "microseconds": (1, 1),
    "nanoseconds": (1, 1000),
}
"""What a number is in microseconds, by the unit that it counts: times, then divided by."""

FEWEST = 10**8
SIZES = {"seconds": 10**11, "milliseconds": 10**14, "microseconds": 10**17}
"""Numbers below these sizes count that unit, and larger ones nanoseconds; below `FEWEST` the size
tells nothing. So in each unit the times from March 1973 to the year 5138 are understood, and as
much before 1970."""

EXPECTED = {
    Type.BIGINT: "a BIGINT is a whole number of 64 bits",
    Type.DOUBLE: "a DOUBLE is a finite number",
    Type.STRING: "a STRING is a text",
    Type.BOOLEAN: "a BOOLEAN is true or false",
    Type.TIMESTAMP: (
        "a TIMESTAMP is a datetime, a date, a text like '2026-01-31 12:00:00', or a number of"
        " seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by its size or"
        " by the option timestamps of the stream"
    ),
}
"""What a column takes, for whoever sent something else."""

_DATE = r"^([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})"
DATES = {"day/month/year": (_DATE, r"\3-\2-\1"), "month/day/year": (_DATE, r"\3-\1-\2")}
"""Dates as some countries write them: what they look like, and how ISO 8601 has it. A clock may
follow, as it does there."""

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*")


def settle(value: Any, kind: Type, timestamps: str | None = None) -> Value:
    """A value as one of `kind`, or a ValueMismatch that says why not.

    Without `timestamps` a text is ISO 8601 or a number, and a number counts the unit that its size
    tells. With 'iso' or the order of a date only texts of that form are timestamps. With a unit,
    texts and numbers count it. Seconds and milliseconds may have a fraction. Datetimes and dates
    are taken as they are.

    >>> settle("1.5", Type.TIMESTAMP, "seconds"), settle("1970-01-01 00:00:01", Type.TIMESTAMP)
    (1500000, 1000000)
    >>> settle(1633600001, Type.TIMESTAMP) == settle("1633600001000", Type.TIMESTAMP)
    True
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


def unit_of(number: float) -> str | None:
    """The unit that a number of units since 1970 counts, by its size; None if that is too small.

    >>> unit_of(1_633_600_001), unit_of(-1.6336e12), unit_of(20_260_131)
    ('seconds', 'milliseconds', None)
    """
    size = abs(number)
    if size < FEWEST:
        return None
    return next((unit for unit, limit in SIZES.items() if size < limit), "nanoseconds")


def _instant(value: Any, timestamps: str | None) -> Value:
    if value is None or isinstance(value, date):
        return coerce(value, Type.TIMESTAMP)
    try:
        is_text = isinstance(value, str)
        if timestamps in DATES:
            return coerce(iso_date(value, timestamps), Type.TIMESTAMP)
        if is_text and (timestamps == "iso" or (not timestamps and not _NUMBER.fullmatch(value))):
            return coerce(value, Type.TIMESTAMP)
        number: Any = _read_number(value, timestamps) if is_text else value
        if type(number) not in (int, float, Decimal):
            raise ValueMismatch("")
        if isinstance(number, float) and math.isnan(number):
            return None
        if timestamps == "iso":
            raise ValueMismatch("")
        unit = timestamps or unit_of(number)
        if unit is not None:
            return coerce(_counted(number, unit), Type.TIMESTAMP)
    except ValueMismatch:
        form = f" in {timestamps.replace('iso', 'ISO 8601')}" if timestamps else ""
        raise ValueMismatch(f"{shown(value)} is not a TIMESTAMP{form}") from None
    raise ValueMismatch(
        f"{shown(value)} is not a TIMESTAMP: so small a number does not tell its unit, and no"
        " option timestamps does"
    )


def iso_date(value: Any, form: str) -> str:
    """A text that begins with a date of a form, as ISO 8601 has it; otherwise a ValueMismatch.

    >>> iso_date("31/1/2026 12:00:00", "day/month/year")
    '2026-01-31 12:00:00'
    """
    found = re.match(DATES[form][0], value) if isinstance(value, str) else None
    if found is None:
        raise ValueMismatch("")
    year, month, day = found.expand(DATES[form][1]).split("-")
    return f"{year}-{month:0>2}-{day:0>2}{value[found.end() :]}"


def _read_number(text: str, timestamps: str | None) -> Value:
    is_whole = UNITS[timestamps][0] == 1 if timestamps else _WHOLE.fullmatch(text) is not None
    return coerce(text, Type.BIGINT if is_whole else Type.DOUBLE)


def _counted(number: int | float | Decimal, unit: str) -> Value:
    """A number of units in microseconds; what is not finite stays so."""
    times, per = UNITS[unit]
    if isinstance(number, Decimal):
        is_whole = number.is_finite() and number.adjusted() < 20 and number % 1 == 0
        number = int(number) if is_whole else float(number)
    if times == 1 and isinstance(number, float) and not number.is_integer():
        raise ValueMismatch("")
    if times == 1 or isinstance(number, int):
        return int(number) * times // per
    if not math.isfinite(number):
        return number
    whole = math.floor(number)  # on its own, so that it stays exact however far from 1970
    return whole * times + round((number - whole) * times)


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
