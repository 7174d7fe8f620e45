"""Time is a count of microseconds: instants since 1970-01-01 UTC, durations as differences.

Integers make `time + window` exact, so that a reading leaves its window at exactly that instant
on every runtime.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from place.errors import PlaceError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

BEGINNING = -62_135_596_800 * SECOND
"""The instant of what happens before any stream has told the time: the start of the year 1."""

EARLIEST = BEGINNING + 1
LATEST = 253_402_300_800 * SECOND - 1
"""Instants lie within the years 1 to 9999, so that every one can be written down."""

UNITS = {
    "us": MICROSECOND,
    "microsecond": MICROSECOND,
    "ms": MILLISECOND,
    "millisecond": MILLISECOND,
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "m": MINUTE,
    "min": MINUTE,
    "minute": MINUTE,
    "h": HOUR,
    "hr": HOUR,
    "hour": HOUR,
    "d": DAY,
    "day": DAY,
    "w": WEEK,
    "week": WEEK,
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_CLOCK = re.compile(r"\s*(-?)(\d+):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?\s*")


class TimeError(PlaceError):
    """A text is not a time; the caller says where it stood."""


def unit(word: str) -> int | None:
    """The microseconds of a unit's name, singular or plural; None if it is no unit.

    >>> unit("HOURS") // SECOND
    3600
    """
    folded = word.casefold()
    return UNITS.get(folded) or (UNITS.get(folded[:-1]) if folded.endswith("s") else None)


def parse_duration(text: str) -> int:
    """Microseconds of `'5 seconds'`, `'1.5s'`, `'1 hour 30 minutes'`, `'00:00:10'`; never negative.

    >>> parse_duration("1m 30s") // SECOND
    90
    """
    clock = _CLOCK.fullmatch(text)
    if clock and not clock[1]:
        return _bounded(_clock_microseconds(clock), text)
    total, position = 0, 0
    while match := _PART.match(text, position):
        size = unit(match[2])
        if size is None:
            break
        total += scale(match[1], size)
        position = match.end()
    if position != len(text) or not text.strip():
        raise TimeError(f"'{text}' is not a duration", hint="write for example '5 seconds' or '1h'")
    return _bounded(total, text)


def scale(number: str, size: int) -> int:
    """`number` (digits, perhaps with a fraction) times `size`, to the nearest microsecond.

    >>> scale("1.5", SECOND)
    1500000
    """
    whole, _, fraction = number.partition(".")
    if len(number) > 40:
        raise TimeError(f"'{number[:20]}…' is too large a number of time units")
    numerator = int(whole + fraction) * size
    denominator: int = 10 ** len(fraction)
    return (2 * numerator + denominator) // (2 * denominator)


def _bounded(duration: int, text: str) -> int:
    if duration > LATEST:
        raise TimeError(f"'{text}' is too long a duration", hint="the longest is about 8,000 years")
    return duration


def _clock_microseconds(match: re.Match[str]) -> int:
    whole = int(match[2][:12]) * HOUR + int(match[3]) * MINUTE + int(match[4]) * SECOND
    return whole + int((match[5] or "").ljust(6, "0"))


def parse_interval(text: str) -> int:
    """A duration that may be negative, as `format_interval` writes it."""
    stripped = text.strip()
    return -parse_duration(stripped[1:]) if stripped.startswith("-") else parse_duration(stripped)


def format_interval(duration: int) -> str:
    """
    >>> format_interval(90 * SECOND + 500_000)
    '00:01:30.5'
    """
    sign, size = ("-", -duration) if duration < 0 else ("", duration)
    minutes, rest = divmod(size, MINUTE)
    hours, minutes = divmod(minutes, 60)
    seconds, fraction = divmod(rest, SECOND)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}{tail}"


def parse_timestamp(text: str) -> int:
    """An instant from ISO 8601; without an offset it is UTC.

    >>> parse_timestamp("1970-01-01 00:00:01")
    1000000
    """
    try:
        return instant_of(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise TimeError(
            f"'{text}' is not a timestamp", hint="write for example '2026-01-31 12:00:00'"
        ) from None


def instant_of(moment: date) -> int:
    """The instant of a datetime, or of a date's midnight; without a time zone it is UTC.

    >>> instant_of(date(1970, 1, 2)) == instant_of(datetime(1970, 1, 2, tzinfo=UTC)) == DAY
    True
    """
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_at(instant: int) -> datetime:
    """An instant as a datetime in UTC.

    >>> moment_at(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + timedelta(microseconds=instant)


def format_timestamp(instant: int) -> str:
    """
    >>> format_timestamp(1_500_000)
    '1970-01-01 00:00:01.5'
    """
    moment = moment_at(instant)
    text = moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return text + (f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else "")


def ceil_to(instant: int, period: int | None) -> int:
    """The first multiple of `period` not before `instant`; the instant itself without a period."""
    return instant if period is None else -(-instant // period) * period
