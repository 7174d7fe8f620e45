"""The scalar functions of the language, on values: what each of them is worth.

They follow DuckDB's functions of the same names, which tests compare them with. What has no value
(the root of a negative number, a text that is no number) is NULL, as everywhere in the language,
where DuckDB raises an error. `place/engine/vector_functions.py` says the same by columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from place.model.path import Moving, closest_approach
from place.model.space import Space, distance
from place.model.time import (
    DAY,
    EARLIEST,
    HOUR,
    LATEST,
    MINUTE,
    SECOND,
    format_interval,
    format_timestamp,
    instant_of,
    moment_at,
)
from place.model.types import LARGEST, SMALLEST, Type, Value, ValueMismatch, coerce

MOST_LETTERS = 2**20
"""A text of more letters is not put together: it is NULL."""
SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What TRIM takes away: the separators of Unicode's class Zs, and no tabs or line ends."""
LENGTHS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": SECOND, "MINUTE": MINUTE, "HOUR": HOUR}
"""Units of a fixed length within a day, in microseconds."""
TRUNCATIONS = (*LENGTHS, "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
FIELDS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW", "DOY"),
    *("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "EPOCH"),
)
"""What EXTRACT takes out of a TIMESTAMP."""
APPROACH = "CPA "
"""What the name of CPA begins with; the space and the time ahead follow."""
MOVING = ("SPEED", "HEADING")
"""Functions of motion; the space is part of their names."""
INTERVAL_FIELDS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "EPOCH")


def bounded(value: Any, kind: Type) -> Value:
    """The value if it is one of its type: finite, within 64 bits, within the calendar."""
    if kind is Type.DOUBLE:
        return float(value) + 0.0 if math.isfinite(value) else None
    if kind is Type.TIMESTAMP:
        return int(value) if EARLIEST <= value <= LATEST else None
    return int(value) if SMALLEST <= value <= LARGEST else None


def call(function: str, values: list[Any], kind: Type) -> Value:
    """A scalar function of values. Those of `_OF_NULLS` decide about NULLs; others are NULL."""
    if function in _OF_NULLS:
        return _OF_NULLS[function](values, kind)
    if function.startswith(APPROACH):
        return _approach(*parts_of_approach(function), values)
    if None in values:
        return None
    name, _, part = function.partition(" ")
    if name == "EXTRACT":
        return extract(part, values[0], kind)
    if name == "DATE_TRUNC":
        return truncate(part, values[0])
    if name in MOVING:
        return motion(name, Space(part), values)
    return _OF_VALUES[function](*values, kind)


def typed(value: Any, kind: Type) -> Any:
    """A whole number as a DOUBLE, where one is wanted."""
    return float(value) if kind is Type.DOUBLE and value is not None else value


def _coalesce(values: list[Any], kind: Type) -> Value:
    return typed(next((value for value in values if value is not None), None), kind)  # type: ignore[no-any-return]


def _case(values: list[Any], kind: Type) -> Value:
    """Conditions and values in turn, then the value of ELSE."""
    chosen = values[-1]
    for condition, value in zip(values[:-1:2], values[1::2], strict=True):
        if condition is True:
            chosen = value
            break
    return typed(chosen, kind)  # type: ignore[no-any-return]


def _concat(values: list[Any], kind: Type) -> str | None:
    """The texts one after the other, without those that are NULL."""
    return _put_together([value for value in values if value is not None])


def _put_together(texts: list[str]) -> str | None:
    return "".join(texts) if sum(map(len, texts)) <= MOST_LETTERS else None


def _greatest(values: list[Any], kind: Type) -> Value:
    known = [typed(value, kind) for value in values if value is not None]
    return max(known, default=None)


def _least(values: list[Any], kind: Type) -> Value:
    known = [typed(value, kind) for value in values if value is not None]
    return min(known, default=None)


# Numbers


def _round(value: Any, *rest: Any) -> Value:
    """Ties go away from zero. The digits may be negative: ROUND(1234, -2) is 1200."""
    *digits, kind = rest
    places = digits[0] if digits else 0
    if kind is Type.BIGINT:
        return round_whole(value, places)
    return bounded(round_double(float(value), places), kind)


def round_whole(value: int, places: int) -> Value:
    if places >= 0:
        return value
    if places < -19:
        return 0
    unit = 10**-places
    size = (abs(value) + unit // 2) // unit * unit
    return bounded(-size if value < 0 else size, Type.BIGINT)


def round_double(value: float, places: int) -> float:
    """As DuckDB does it: scaled, rounded, scaled back."""
    if places >= 0:
        scale = 10.0 ** min(places, 308) if places <= 308 else math.inf
        scaled = half_away(value * scale) / scale if value * scale != 0 else 0.0
        return scaled if math.isfinite(scaled) else value
    scale = 10.0**-places if places >= -308 else math.inf
    scaled = half_away(value / scale) * scale if math.isfinite(scale) else 0.0
    return scaled if math.isfinite(scaled) else 0.0


def half_away(value: float) -> float:
    """The nearest whole number; of two equally near the one farther from zero."""
    if not math.isfinite(value):
        return value
    whole = float(math.trunc(value)) if abs(value) < 2.0**53 else value
    return whole + math.copysign(1.0, value) if abs(value - whole) >= 0.5 else whole


def _floor(value: Any, kind: Type) -> Value:
    return bounded(math.floor(value), kind)


def _ceil(value: Any, kind: Type) -> Value:
    return bounded(math.ceil(value), kind)


def _sqrt(value: Any, kind: Type) -> Value:
    return bounded(math.sqrt(value), kind) if value >= 0 else None


def _power(base: Any, exponent: Any, kind: Type) -> Value:
    try:
        return bounded(math.pow(base, exponent), kind)
    except (ValueError, OverflowError):
        return None


# Texts: letters count from 1, and from the end if the number is negative


def _substr(text: str, start: int, *rest: Any) -> str:
    *length, _ = rest
    size = len(text)
    first = start - 1 if start > 0 else size + start if start < 0 else -1
    if not length:
        return text[max(first, 0) :]
    begin, end = (first, first + length[0]) if length[0] >= 0 else (first + length[0], first)
    return text[max(begin, 0) : max(end, 0)]


def _left(text: str, count: int, kind: Type) -> str:
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def _right(text: str, count: int, kind: Type) -> str:
    if count >= 0:
        return text[max(len(text) - count, 0) :]
    return text[-count:]


# Times


def extract(part: str, value: int, kind: Type) -> Value:
    """A part of a time, or of the length of an interval."""
    if part == "EPOCH":
        return bounded(value / SECOND, kind)
    size = abs(value) if part.startswith("INTERVAL ") else value % DAY
    sign = -1 if part.startswith("INTERVAL ") and value < 0 else 1
    match part.removeprefix("INTERVAL "):
        case "HOUR":
            return sign * (size // HOUR)
        case "MINUTE":
            return sign * (size // MINUTE % 60)
        case "SECOND":
            return sign * (size // SECOND % 60)
        case "MILLISECOND":
            return sign * (size % MINUTE // 1000)
        case "MICROSECOND":
            return sign * (size % MINUTE)
    moment = moment_at(value)
    match part:
        case "YEAR":
            return moment.year
        case "QUARTER":
            return (moment.month + 2) // 3
        case "MONTH":
            return moment.month
        case "WEEK":
            return moment.isocalendar().week
        case "DAY":
            return moment.day
        case "DOW":
            return moment.isoweekday() % 7
        case "ISODOW":
            return moment.isoweekday()
        case _:
            return moment.timetuple().tm_yday


def truncate(part: str, value: int) -> Value:
    """The beginning of the unit that a time lies in; a week begins on Monday."""
    if part in LENGTHS:
        return bounded(value - value % LENGTHS[part], Type.TIMESTAMP)
    start = moment_at(value - value % DAY)
    match part:
        case "WEEK":
            if instant_of(start) - start.weekday() * DAY < EARLIEST:
                return None
            start -= timedelta(days=start.weekday())
        case "MONTH":
            start = start.replace(day=1)
        case "QUARTER":
            start = start.replace(month=(start.month - 1) // 3 * 3 + 1, day=1)
        case "YEAR":
            start = start.replace(month=1, day=1)
    return bounded(instant_of(start), Type.TIMESTAMP)


# Motion: of where an object was, where it is, and how long ago it was there


def motion(name: str, space: Space, values: list[Any]) -> Value:
    """SPEED or HEADING."""
    ax, ay, bx, by = map(float, values[:4])
    if name == "SPEED" and not values[4]:
        return None
    if name == "SPEED":
        return bounded(distance(space, ax, ay, bx, by) / (values[4] / SECOND), Type.DOUBLE)
    return heading(space, ax, ay, bx, by)


def heading(space: Space, ax: float, ay: float, bx: float, by: float) -> float | None:
    """Degrees from north by east of the way from one place to another, from 0 to below 360.

    On the sphere it is the direction in which the shortest way begins.

    >>> heading(Space.PLANAR, 0, 0, 1, 0), heading(Space.WGS84, 0, 0, 0, -1)
    (90.0, 180.0)
    """
    if ax == bx and ay == by:
        return None
    if space is Space.WGS84:
        turn, south, north = math.radians(bx - ax), math.radians(ay), math.radians(by)
        east = math.sin(turn) * math.cos(north)
        ahead = math.cos(south) * math.sin(north)
        ahead -= math.sin(south) * math.cos(north) * math.cos(turn)
    else:
        east, ahead = bx - ax, by - ay
    angle = math.degrees(math.atan2(east, ahead))
    angle = angle + 360.0 if angle < 0 else angle
    return 0.0 if angle >= 360.0 else angle + 0.0


def parts_of_approach(function: str) -> tuple[Space, int]:
    """The space of a CPA, and the time ahead."""
    space, ahead = function.removeprefix(APPROACH).split()
    return Space(space), int(ahead)


def _approach(space: Space, ahead: int, values: list[Any]) -> Value:
    """How near two objects come to each other; NULL where a place or a time is."""
    one, other = values[:6], values[6:]
    if None in (*one[2:4], one[5], *other[2:4], other[5]):
        return None
    found = closest_approach(space, _moving(one), _moving(other), ahead)
    return bounded(found, Type.DOUBLE)


def _moving(values: list[Any]) -> Moving:
    x, y, now_x, now_y, since, time = values
    return x, y, float(now_x), float(now_y), since, time


def _crossed_at(fraction: float, time: int, since: int, kind: Type) -> Value:
    """When an object was so far along its way, which ended at a time and took a while."""
    return bounded(time - since + math.floor(fraction * since + 0.5), kind)


# CAST


def cast(value: Any, kind: Type) -> Value:
    """The value as one of another type, NULL where it is none."""
    if kind is Type.STRING:
        return str(value)
    if kind is Type.BOOLEAN:
        return _truth(value)
    if kind is Type.BIGINT and isinstance(value, float):
        return bounded(round(value), kind)
    if kind is Type.BIGINT and isinstance(value, bool):
        return int(value)
    if kind is Type.DOUBLE and not isinstance(value, str):
        return bounded(float(value), kind)
    try:
        return coerce(value.strip() if isinstance(value, str) else value, kind)
    except ValueMismatch:
        return None


def _truth(value: Any) -> bool | None:
    if not isinstance(value, str):
        return bool(value)
    try:
        return coerce(value, Type.BOOLEAN)  # type: ignore[return-value]
    except ValueMismatch:
        return None


_OF_NULLS: dict[str, Callable[[list[Any], Type], Value]] = {
    "CASE": _case,
    "COALESCE": _coalesce,
    "CONCAT": _concat,
    "GREATEST": _greatest,
    "LEAST": _least,
}
_OF_VALUES: dict[str, Callable[..., Value]] = {
    "ABS": lambda value, kind: bounded(abs(value), kind),
    "CAST": cast,
    "CEIL": _ceil,
    "CROSSED": _crossed_at,
    "FLOOR": _floor,
    "LEFT": _left,
    "LENGTH": lambda text, kind: len(text),
    "LOWER": lambda text, kind: text.lower(),
    "LTRIM": lambda text, kind: text.lstrip(SPACES),
    "POWER": _power,
    "RIGHT": _right,
    "ROUND": _round,
    "RTRIM": lambda text, kind: text.rstrip(SPACES),
    "SQRT": _sqrt,
    "SUBSTR": _substr,
    "TEXT OF BOOLEAN": lambda value, kind: "true" if value else "false",
    "TEXT OF INTERVAL": lambda value, kind: format_interval(value),
    "TEXT OF TIMESTAMP": lambda value, kind: format_timestamp(value),
    "TRIM": lambda text, kind: text.strip(SPACES),
    "UPPER": lambda text, kind: text.upper(),
    "||": lambda one, other, kind: _put_together([one, other]),
}
