"""Scalar functions over columns at a time; they are worth what `place/plan/functions.py` says.

Numbers and times are computed by whole columns. A function of texts is asked once for each
combination of arguments that occurs, because texts are codes of a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import DTYPES, Dictionary, Vector
from place.engine.vector_ways import closest
from place.kernels.arrays import Bools, Longs
from place.kernels.distances import distances, headings
from place.kernels.powers import powers
from place.model.space import Space
from place.model.time import DAY, EARLIEST, HOUR, LATEST, MINUTE, SECOND
from place.model.types import SMALLEST, Type
from place.plan import functions
from place.plan.functions import APPROACH, LENGTHS, MOVING, parts_of_approach

TWO_TO_53, TWO_TO_63 = 2.0**53, 2.0**63


def call_columns(
    function: str,
    arguments: Sequence[Vector],
    kinds: Sequence[Type],
    kind: Type,
    dictionary: Dictionary,
) -> Vector:
    """A scalar function of columns, whose types are `kinds`, as a column of type `kind`."""
    if function == "COALESCE":
        return reduce(_otherwise, [as_kind(argument, kind) for argument in arguments])
    if function == "CASE":
        return _case(arguments, kind)
    if function in ("GREATEST", "LEAST"):
        is_less = np.less if function == "LEAST" else np.greater
        ranks = dictionary.ranks() if kind is Type.STRING else None
        typed = [as_kind(argument, kind) for argument in arguments]
        return reduce(lambda one, other: lesser(one, other, is_less, ranks), typed)
    if function.startswith(APPROACH):
        found, unknown = closest(*parts_of_approach(function), arguments)
        return bounded(found, unknown, kind)
    nulls = reduce(np.logical_or, [argument.nulls for argument in arguments])
    if function != "CONCAT" and nulls.all():
        return Vector(np.zeros(1, DTYPES[kind]), nulls)
    name, _, part = function.partition(" ")
    if Type.STRING in (kind, *kinds):
        return _by_texts(function, arguments, kinds, kind, dictionary)
    if name == "EXTRACT":
        return _extract(part, arguments[0].values, nulls, kind)
    if name in MOVING:
        return _motion(name, Space(part), [argument.values for argument in arguments], nulls)
    if name == "DATE_TRUNC":
        return bounded(_truncate(part, arguments[0].values), nulls, kind)
    return _NUMERIC[name]([argument.values for argument in arguments], nulls, kind)


# Texts


def _by_texts(
    function: str,
    arguments: Sequence[Vector],
    kinds: Sequence[Type],
    kind: Type,
    dictionary: Dictionary,
) -> Vector:
    """The value of each combination of arguments that occurs, computed once."""
    sizes = {len(part) for argument in arguments for part in (argument.values, argument.nulls)}
    size = 0 if 0 in sizes else max(sizes)
    places = np.zeros(size, np.intp)
    for argument in arguments:
        filled = np.where(argument.nulls, np.zeros(1, argument.values.dtype), argument.values)
        # The bits of numbers tell 0.0 from -0.0, which are written alike, and are equal.
        for part in (filled, argument.nulls):
            found, inverse = np.unique(_of_size(part, size), return_inverse=True)
            _, places = np.unique(places * len(found) + inverse, return_inverse=True)
    if not size:
        return Vector(np.zeros(0, DTYPES[kind]), np.ones(0, np.bool_))
    chosen = np.zeros(int(places.max()) + 1, np.intp)
    chosen[places] = np.arange(size)
    given = [_plain(a, t, chosen, size, dictionary) for a, t in zip(arguments, kinds, strict=True)]
    made = [functions.call(function, list(values), kind) for values in zip(*given, strict=True)]
    nulls = np.array([value is None for value in made], np.bool_)
    if kind is Type.STRING:
        codes = [0 if value is None else dictionary.code(str(value)) for value in made]
        return Vector(np.array(codes, np.int32)[places], nulls[places])
    values = np.array([0 if value is None else value for value in made], DTYPES[kind])
    return Vector(values[places], nulls[places])


def _plain(
    argument: Vector, kind: Type, chosen: NDArray[np.intp], size: int, dictionary: Dictionary
) -> list[Any]:
    """Some values as Python has them."""
    values = _of_size(argument.values, size)[chosen].tolist()
    nulls = _of_size(argument.nulls, size)[chosen].tolist()
    if kind is Type.STRING:
        texts = dictionary.texts
        return [None if n else texts[v] for v, n in zip(values, nulls, strict=True)]
    return [None if n else v for v, n in zip(values, nulls, strict=True)]


# Choices


def _case(arguments: Sequence[Vector], kind: Type) -> Vector:
    """Conditions and values in turn, then the value of ELSE: the first that holds decides."""
    found = as_kind(arguments[-1], kind)
    pairs = list(zip(arguments[:-1:2], arguments[1::2], strict=True))
    for condition, value in reversed(pairs):
        holds = condition.values.astype(np.bool_, copy=False) & ~condition.nulls
        typed = as_kind(value, kind)
        found = Vector(
            np.where(holds, typed.values, found.values), np.where(holds, typed.nulls, found.nulls)
        )
    return found


def as_kind(found: Vector, kind: Type) -> Vector:
    """Values of a type, or bare NULLs, as those of another."""
    return Vector(found.values.astype(DTYPES[kind], copy=False), found.nulls)


def _otherwise(found: Vector, other: Vector) -> Vector:
    values = np.where(found.nulls, other.values, found.values)
    return Vector(values, found.nulls & other.nulls)


def lesser(
    one: Vector, other: Vector, is_less: Callable[[Any, Any], Any], ranks: Longs | None
) -> Vector:
    """The lesser of two values, the other one where one is NULL; of equal ones the first."""
    if ranks is None:
        before = is_less(other.values, one.values)
    elif len(ranks):
        before = is_less(ranks[other.values], ranks[one.values])
    else:  # then all are NULL
        before = np.zeros(1, np.bool_)
    chosen = one.nulls | (before & ~other.nulls)
    return Vector(np.where(chosen, other.values, one.values), one.nulls & other.nulls)


# Numbers


def bounded(values: NDArray[Any], nulls: Bools, kind: Type) -> Vector:
    """NULL where a value is not one of its type: not finite, or not within the calendar."""
    if kind is Type.DOUBLE:
        return Vector(values + 0.0, nulls | ~np.isfinite(values))
    if kind is Type.TIMESTAMP:
        return Vector(values, nulls | (values < EARLIEST) | (values > LATEST))
    return Vector(values, nulls)


def with_sign(change: Callable[[Any], Any], found: Vector, kind: Type) -> Vector:
    """The negative or the size of values; that of the smallest of 64 bits is none."""
    if kind is Type.DOUBLE:
        return bounded(change(found.values), found.nulls, kind)
    return Vector(change(found.values), found.nulls | (found.values == SMALLEST))


Given = Sequence[NDArray[Any]]


def _abs(given: Given, nulls: Bools, kind: Type) -> Vector:
    return with_sign(np.abs, Vector(given[0], nulls), kind)


def _whole_part(change: Callable[[Any], Any]) -> Callable[[Given, Bools, Type], Vector]:
    def made(given: Given, nulls: Bools, kind: Type) -> Vector:
        return bounded(given[0] if kind is Type.BIGINT else change(given[0]), nulls, kind)

    return made


def _round(given: Given, nulls: Bools, kind: Type) -> Vector:
    places = given[1].astype(np.int64, copy=False) if len(given) > 1 else np.zeros(1, np.int64)
    if kind is Type.BIGINT:
        return _round_whole(given[0], places, nulls)
    values = given[0].astype(np.float64, copy=False)
    if not places.any():
        return bounded(_half_away(values), nulls, kind)
    shown, inverse = np.unique(np.clip(places, -400, 400), return_inverse=True)
    scales = np.array([10.0 ** abs(p) if abs(p) <= 308 else np.inf for p in shown.tolist()])
    scale, is_right = scales[inverse], places >= 0
    scaled = np.where(is_right, values * scale, values / scale)
    whole = _half_away(scaled)
    found = np.where(is_right, whole / scale, whole * scale)
    found = np.where(scaled == 0, 0.0, found)
    return bounded(
        np.where(np.isfinite(found), found, np.where(is_right, values, 0.0)), nulls, kind
    )


def _half_away(values: NDArray[Any]) -> NDArray[Any]:
    whole: NDArray[Any] = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)


def _round_whole(values: NDArray[Any], places: Longs, nulls: Bools) -> Vector:
    if (places >= 0).all():
        return Vector(values, nulls)
    size = np.abs(values).view(np.uint64)  # also that of the smallest number of 64 bits
    shown, inverse = np.unique(np.clip(-places, 0, 20), return_inverse=True)
    units = np.array([10 ** min(p, 19) for p in shown.tolist()], np.uint64)
    unit = units[inverse]
    made = (size + unit // np.uint64(2)) // unit * unit
    made = np.where(places < -19, np.uint64(0), made)
    negative = values < 0
    limit = np.where(negative, np.uint64(2**63), np.uint64(2**63 - 1))
    signed = made.view(np.int64)
    result = np.where(negative, -signed, signed)
    return Vector(np.where(places >= 0, values, result), nulls | (made > limit))


def _sqrt(given: Given, nulls: Bools, kind: Type) -> Vector:
    values = given[0].astype(np.float64, copy=False)
    return bounded(np.sqrt(values), nulls, kind)


def _power(given: Given, nulls: Bools, kind: Type) -> Vector:
    size = max(len(given[0]), len(given[1])) if min(len(g) for g in given) else 0
    base, exponent = (_of_size(g.astype(np.float64, copy=False), size) for g in given)
    return bounded(powers(base, exponent), nulls, kind)


def _cast(given: Given, nulls: Bools, kind: Type) -> Vector:
    (values,) = given
    if kind is Type.BOOLEAN:
        return Vector(values != 0, nulls)
    if kind is Type.DOUBLE:
        return Vector(values.astype(np.float64), nulls)
    if values.dtype != np.float64:
        return Vector(values.astype(np.int64), nulls)
    rounded = np.rint(values)
    fits = (rounded >= -TWO_TO_63) & (rounded < TWO_TO_63)
    return Vector(np.where(fits, rounded, 0.0).astype(np.int64), nulls | ~fits)


def _crossed_at(given: Sequence[NDArray[Any]], nulls: Bools, kind: Type) -> Vector:
    fraction, time, since = given
    passed = np.floor(fraction * since + 0.5).astype(np.int64)
    return bounded(time - since + passed, nulls, kind)


_NUMERIC: dict[str, Callable[[Given, Bools, Type], Vector]] = {
    "ABS": _abs,
    "CAST": _cast,
    "CEIL": _whole_part(np.ceil),
    "CROSSED": _crossed_at,
    "FLOOR": _whole_part(np.floor),
    "POWER": _power,
    "ROUND": _round,
    "SQRT": _sqrt,
}


# Motion


def _motion(name: str, space: Space, given: Sequence[NDArray[Any]], nulls: Bools) -> Vector:
    """SPEED or HEADING, of where objects were, where they are, and how long ago they were there."""
    size = max(map(len, given)) if min(map(len, given)) else 0
    ax, ay, bx, by = (_of_size(part.astype(np.float64, copy=False), size) for part in given[:4])
    sphere = space is Space.WGS84
    if name == "HEADING":
        return bounded(headings(ax, ay, bx, by, sphere), nulls, Type.DOUBLE)
    ways = distances(ax, ay, bx, by, sphere)
    return bounded(ways / (given[4] / SECOND), nulls, Type.DOUBLE)


# Times


def _extract(part: str, values: NDArray[Any], nulls: Bools, kind: Type) -> Vector:
    if part == "EPOCH":
        return bounded(values / SECOND, nulls, kind)
    is_length = part.startswith("INTERVAL ")
    size = np.where(values == SMALLEST, values, np.abs(values)) if is_length else values % DAY
    sign = np.where(values < 0, -1, 1) if is_length else np.ones(1, np.int64)
    if is_length:  # the smallest number of 64 bits has no size among them
        size = np.abs(values).view(np.uint64)
    units = {"HOUR": (HOUR, 2**62), "MINUTE": (MINUTE, 60), "SECOND": (SECOND, 60)}
    name = part.removeprefix("INTERVAL ")
    if name in units:
        length, most = units[name]
        made = size // size.dtype.type(length) % size.dtype.type(most)
        return Vector(sign * made.astype(np.int64), nulls)
    if name in ("MILLISECOND", "MICROSECOND"):
        made = size % size.dtype.type(MINUTE) // size.dtype.type(LENGTHS[name])
        return Vector(sign * made.astype(np.int64), nulls)
    return Vector(_calendar(part, values), nulls)


def _calendar(part: str, values: NDArray[Any]) -> Longs:
    """A part of the date; times without a value may be anything that the calendar has."""
    safe = np.clip(values, EARLIEST, LATEST)
    days: Longs = safe // DAY
    date = days.astype("M8[D]")
    month: Longs = date.astype("M8[M]").astype(np.int64)  # since 1970
    weekday: Longs = (days + 3) % 7  # Monday is 0
    match part:
        case "YEAR":
            return month // 12 + 1970
        case "QUARTER":
            return month % 12 // 3 + 1
        case "MONTH":
            return month % 12 + 1
        case "DAY":
            return days - _days(date.astype("M8[M]")) + 1
        case "DOW":
            return (weekday + 1) % 7
        case "ISODOW":
            return weekday + 1
        case "DOY":
            return days - _days(date.astype("M8[Y]")) + 1
        case _:  # the week of the year of its Thursday
            thursday = days - weekday + 3
            begin = _days(thursday.astype("M8[D]").astype("M8[Y]"))
            return (thursday - begin) // 7 + 1


def _days(dates: NDArray[Any]) -> Longs:
    made: Longs = dates.astype("M8[D]").astype(np.int64)
    return made


def _truncate(part: str, values: NDArray[Any]) -> Longs:
    safe = np.clip(values, EARLIEST, LATEST)
    if part in LENGTHS:
        return safe - safe % LENGTHS[part]  # type: ignore[no-any-return]
    days = safe // DAY
    date = days.astype("M8[D]")
    match part:
        case "DAY":
            start = days
        case "WEEK":
            start = days - (days + 3) % 7
        case "MONTH":
            start = _days(date.astype("M8[M]"))
        case "QUARTER":
            month = date.astype("M8[M]").astype(np.int64)
            start = _days((month - month % 3).astype("M8[M]"))
        case _:
            start = _days(date.astype("M8[Y]"))
    return start * DAY  # type: ignore[no-any-return]


def _of_size(part: NDArray[Any], size: int) -> NDArray[Any]:
    return part if len(part) == size else np.repeat(part, size)
