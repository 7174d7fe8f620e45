"""What an expression is worth on given rows: SQL's three-valued logic, in plain Python.

This is the meaning of expressions. It is as slow as it is plain; whatever evaluates columns at a
time has to agree with it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from place.model import space as spaces
from place.model.path import edges_of_line, first_meeting, is_near, place_ahead, way_meets
from place.model.shape import contains
from place.model.types import Row, Type, Value
from place.plan.expression import (
    OVER_VALUES,
    Aggregate,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Crossing,
    Distance,
    Expression,
    In,
    IsNull,
    IsTruth,
    Lies,
    Like,
    Near,
    Negate,
    Not,
    Or,
    Sweeps,
    children,
)
from place.plan.functions import bounded
from place.plan.functions import call as call_function

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expression: Expression, rows: Sequence[Row]) -> Any:
    """The value of an expression, given a row for each source of FROM."""
    match expression:
        case Column(source=source, index=index):
            return rows[source][index]
        case Constant(value=value):
            return value
        case Compare(op=op, left=left, right=right):
            return compare(op, evaluate(left, rows), evaluate(right, rows))
        case And(operands=operands):
            return all_of(evaluate(part, rows) for part in operands)
        case Or(operands=operands):
            return negate(all_of(negate(evaluate(part, rows)) for part in operands))
        case Not(operand=operand):
            return negate(evaluate(operand, rows))
        case IsNull(operand=operand):
            return evaluate(operand, rows) is None
        case IsTruth(operand=operand, value=truth):
            return evaluate(operand, rows) is truth
        case Like(operand=operand, pattern=pattern):
            return like(evaluate(operand, rows), evaluate(pattern, rows))
        case In(operand=operand, values=values):
            wanted = evaluate(operand, rows)
            return negate(all_of(compare("<>", wanted, evaluate(value, rows)) for value in values))
        case Arithmetic(op=op, left=left, right=right, type=kind):
            return arithmetic(op, evaluate(left, rows), evaluate(right, rows), kind)
        case Negate(operand=operand, type=kind):
            value = evaluate(operand, rows)
            return None if value is None else bounded(-value, kind)
        case Call(function=function, arguments=arguments, type=kind):
            return call(function, [evaluate(argument, rows) for argument in arguments], kind)
        case Distance(space=space):
            places = [evaluate(part, rows) for part in children(expression)]
            if None in places:
                return None
            return bounded(spaces.distance(space, *map(float, places)), Type.DOUBLE)
        case Lies(x=x, y=y, area=area, space=space):
            place = evaluate(x, rows), evaluate(y, rows)
            return None if None in place else contains(area, space, *map(float, place))
        case Near(x=x, y=y, area=area, space=space, distance=distance):
            place = evaluate(x, rows), evaluate(y, rows)
            if None in place:
                return None
            return is_near(area, space, float(place[0]), float(place[1]), distance)
        case Sweeps():
            return _sweeps(expression, rows)
        case Crossing(line=line, space=space):
            ends = [evaluate(part, rows) for part in children(expression)]
            if None in ends:
                return None
            ax, ay, bx, by = map(float, ends)
            edges = edges_of_line(line)
            found = first_meeting(edges, space, (ax, ay), (bx, by), at_start=False)
            return found if found >= 0 else None


def _sweeps(way: Sweeps, rows: Sequence[Row]) -> bool | None:
    """Does the way of an object meet a region?"""
    *was, x, y, since = (evaluate(part, rows) for part in children(way))
    if x is None or y is None:
        return None
    now = float(x), float(y)
    before = now if None in was else (float(was[0]), float(was[1]))
    if way.ahead is None:
        return way_meets(way.area, way.space, before, now)
    then = place_ahead(way.space, before, now, since or 0, way.ahead)
    return way_meets(way.area, way.space, now, then)


def compare(op: str, left: Any, right: Any) -> bool | None:
    """A comparison; unknown where either side is NULL."""
    return None if left is None or right is None else _COMPARISONS[op](left, right)


def negate(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def all_of(truths: Iterable[bool | None]) -> bool | None:
    """AND: false if any is false, otherwise unknown if any is unknown."""
    unknown = False
    for truth in truths:
        if truth is False:
            return False
        unknown = unknown or truth is None
    return None if unknown else True


def like(text: str | None, pattern: str | None) -> bool | None:
    """Whether a text fits a pattern: % stands for any letters, _ for any one letter.

    The pattern is cut at each %. Its first and last pieces have their places, and each of the
    others is taken where it is first found: what a later place fits, an earlier one fits too, so
    that no choice is ever taken back.

    >>> like("B-AB 1", "B-%_1"), like("B-AB 1", "b%")
    (True, False)
    """
    if text is None or pattern is None:
        return None
    pieces, least = _pieces(pattern)
    first, last = pieces[0], pieces[-1]
    if len(text) < least or not _stands_at(first, text, 0):
        return False
    if len(pieces) == 1:
        return len(text) == least
    position, end = len(first), len(text) - len(last)
    if not _stands_at(last, text, end):
        return False
    for piece in pieces[1:-1]:
        found = _find(piece, text, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[tuple[str, ...], int]:
    """What stands between the % of a pattern, and how many letters a text needs to fit it."""
    first, *others = pattern.split("%")
    pieces = (first, *filter(None, others[:-1]), *others[-1:])
    return pieces, sum(map(len, pieces))


def _stands_at(piece: str, text: str, start: int) -> bool:
    if "_" not in piece:
        return text.startswith(piece, start)
    letters = text[start : start + len(piece)]
    return all(wanted in ("_", letter) for wanted, letter in zip(piece, letters, strict=True))


def _find(piece: str, text: str, start: int, end: int) -> int:
    """The first place from `start` on where a piece fits the text before `end`, or -1."""
    if "_" not in piece:
        return text.find(piece, start, end)
    distances: dict[str, list[int]] = {letter: [] for letter in piece if letter != "_"}
    for distance, letter in enumerate(piece):
        if letter in distances:
            distances[letter].append(distance)
    while start + len(piece) <= end:
        window = text[start : min(start + 2 * len(piece) + 64, end)]
        tried = len(window) - len(piece) + 1
        fitting = _fitting(distances, window, tried)
        if fitting:
            return start + (fitting & -fitting).bit_length() - 1
        start += tried
    return -1


def _fitting(distances: dict[str, list[int]], window: str, tried: int) -> int:
    """At which of the first `tried` places of a text all letters stand at their distances.

    All places are tried at once: they are the bits of an integer, of which each letter leaves
    those that have it at its distance.
    """
    places: dict[str, list[int]] = {letter: [] for letter in distances}
    for place, letter in enumerate(window):
        if letter in places:
            places[letter].append(place)
    fitting = (1 << tried) - 1
    for letter, wanted in distances.items():
        bits = _as_bits(places[letter], len(window))
        for distance in wanted:
            fitting &= bits >> distance
            if not fitting:
                return 0
    return fitting


def _as_bits(places: list[int], size: int) -> int:
    octets = bytearray(size // 8 + 1)
    for place in places:
        octets[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(octets, "little")


def arithmetic(op: str, left: Any, right: Any, kind: Type) -> Value:
    """`left op right` as a value of type `kind`, or NULL where there is none."""
    if left is None or right is None:
        return None
    if kind is Type.DOUBLE:
        left, right = float(left), float(right)
    if op in "/%" and right == 0:
        return None
    try:
        match op:
            case "+":
                return bounded(left + right, kind)
            case "-":
                return bounded(left - right, kind)
            case "*":
                return bounded(left * right, kind)
            case "/":
                return bounded(left / right, kind)
            case _:
                return bounded(_remainder(left, right), kind)
    except OverflowError:
        return None


def _remainder(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend, as in PostgreSQL and DuckDB."""
    if isinstance(left, float):
        return math.fmod(left, right)
    size = abs(left) % abs(right)
    return -size if left < 0 else size


def call(function: str, values: list[Any], kind: Type) -> Value:
    """A scalar function, or an aggregate over the values that are not NULL."""
    if function in OVER_VALUES:
        return _aggregated(function, [value for value in values if value is not None], kind)
    return call_function(function, values, kind)


def aggregate(function: Aggregate, rows: Sequence[Sequence[Row]]) -> Value:
    """An aggregate over rows, each one row per source. NULLs do not count.

    Sums of DOUBLE are correctly rounded (`math.fsum`), so that they do not depend on the order
    in which rows came or went.
    """
    if function.argument is None:
        return len(rows)
    values = [v for row in rows if (v := evaluate(function.argument, row)) is not None]
    if function.distinct:
        values = list(dict.fromkeys(values))
    return _aggregated(function.function, values, function.type)


def _aggregated(function: str, values: list[Any], kind: Type) -> Value:
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    match function:
        case "MIN":
            return min(values)  # type: ignore[no-any-return]
        case "MAX":
            return max(values)  # type: ignore[no-any-return]
        case "SUM":
            return total(values, kind)
        case _:
            return mean(values, kind)


def total(values: list[Any], kind: Type) -> Value:
    """The sum, or NULL where it does not fit the type."""
    try:
        return bounded(_sum(values) if kind is Type.DOUBLE else sum(values), kind)
    except OverflowError:
        return None


def _sum(values: list[Any]) -> float:
    """The exact sum, rounded once; `fsum` gives up where a part of it is too large."""
    try:
        return math.fsum(values)
    except OverflowError:
        return float(sum(map(Fraction, values)))


def mean(values: list[Any], kind: Type) -> Value:
    """The sum over the count: rounded once for the sum and once for the quotient."""
    try:
        if kind is Type.INTERVAL:
            return round_half_even(sum(values), len(values))
        exact = all(isinstance(value, int) for value in values)
        return bounded((sum(values) if exact else _sum(values)) / len(values), kind)
    except OverflowError:
        return None


def round_half_even(numerator: int, denominator: int) -> int:
    """The nearest integer to a quotient, ties to even.

    >>> round_half_even(5, 2), round_half_even(7, 2)
    (2, 4)
    """
    quotient, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and quotient % 2):
        quotient += 1
    return quotient
