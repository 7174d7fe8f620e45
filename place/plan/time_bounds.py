"""What conditions say of the times of two variables, and all that follows from it.

A bound says that the time of one variable is at most so long after that of another one; negative
lengths say that it is before. All conditions on time differences are such bounds (`V2.t - V1.t IN
[0, 5]` is two of them), and what follows from them are shortest paths (Floyd and Warshall). Times
are whole microseconds, so a bound that is excluded itself is the one before it. Bounds that go
round in a circle and come back before they started can never hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from place.model.time import SECOND
from place.model.types import Row, Type
from place.plan.evaluate import evaluate
from place.plan.expression import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Expression,
    In,
    Negate,
    sources_of,
)
from place.plan.trigger import FOREVER

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
Matrix = list[list[int]]
IsTime = Callable[[Column], bool]
"""Which columns are the times of readings."""


@dataclass(frozen=True)
class TimeBound:
    """The time of `second` is at most the sum of the `terms` after that of `first`.

    The terms read no variable: constants and columns of tables, each with its sign. Where they are
    numbers of seconds, they are compared as such.
    """

    first: int
    second: int
    terms: tuple[tuple[int, Expression], ...]
    is_strict: bool = False
    is_seconds: bool = False

    def edge(self, rows: Sequence[Row]) -> Edge | None:
        """The bound for given rows of the tables; None where it is NULL."""
        total: float | int = 0
        for sign, term in self.terms:
            value = evaluate(term, rows)
            if value is None:
                return None
            total += sign * value
        if self.is_seconds:
            most = _microseconds(float(total), self.is_strict)
            return Edge(self.first, self.second, most, False)
        most = int(total) - self.is_strict
        return Edge(self.first, self.second, most, self.is_strict)


@dataclass(frozen=True)
class Edge:
    """The time of `second` less that of `first` is at most `most` microseconds.

    `is_strict`: it was written as less than one microsecond more.
    """

    first: int
    second: int
    most: int
    is_strict: bool = False


def _microseconds(seconds: float, is_strict: bool) -> int:
    """The longest time whose number of seconds, as a DOUBLE, is at most (or less than) this."""

    def fits(size: int) -> bool:
        return size / SECOND < seconds if is_strict else size / SECOND <= seconds

    size = math.floor(Fraction(seconds) * SECOND)
    while not fits(size):
        size -= 1
    while fits(size + 1):
        size += 1
    return size


# Conditions as bounds


@dataclass(frozen=True)
class Times:
    """A sum of times of variables, each so many times, and of terms that read none."""

    counts: dict[int, int]
    terms: tuple[tuple[int, Expression], ...]

    def minus(self, other: Times) -> Times:
        """This sum less another one."""
        counts = dict(self.counts)
        for source, count in other.counts.items():
            counts[source] = counts.get(source, 0) - count
        terms = (*self.terms, *((-sign, term) for sign, term in other.terms))
        return Times({source: count for source, count in counts.items() if count}, terms)


ZERO = Times({}, ())


def time_bounds(condition: Expression, is_time: IsTime, roles: int) -> tuple[TimeBound, ...] | None:
    """The bounds that a condition is; None of a condition that is no bound on a time difference.

    `is_time` knows the columns that are times of readings, and sources below `roles` are variables.
    """
    if not isinstance(condition, Compare) or condition.op not in _FLIPPED:
        return None
    left, op, right = condition.left, condition.op, condition.right
    for one, sign, other in ((left, str(op), right), (right, _FLIPPED[op], left)):
        if (
            isinstance(one, Arithmetic)
            and one.op == "/"
            and one.right == Constant(SECOND, Type.INTERVAL)
        ):
            if _is_fixed(other, roles):
                return _bounds(one.left, sign, ((1, other),), is_time, roles, is_seconds=True)
            return None
        if isinstance(one, Call) and one.function == "ABS" and _is_fixed(other, roles):
            return _bounds(one, sign, ((1, other),), is_time, roles)
    one_side, other_side = _sum(left, is_time, roles), _sum(right, is_time, roles)
    if one_side is None or other_side is None:
        return None
    return _of_difference(one_side.minus(other_side), op, (), is_seconds=False)


def hull(condition: Expression, is_time: IsTime, roles: int) -> tuple[TimeBound, ...]:
    """Bounds that follow from `V2.t - V1.t IN (1, 2, 3)`, which says more than they do."""
    if not isinstance(condition, In):
        return ()
    values = [v.value for v in condition.values if isinstance(v, Constant)]
    if len(values) < len(condition.values) or None in values:
        return ()
    found: list[TimeBound] = []
    for op, value in (("<=", max(values)), (">=", min(values))):  # type: ignore[type-var]
        bound = Compare(op, condition.operand, Constant(value, condition.values[0].type))  # type: ignore[arg-type]
        found += time_bounds(bound, is_time, roles) or ()
    return tuple(found)


def _bounds(
    inner: Expression,
    op: str,
    most: tuple[tuple[int, Expression], ...],
    is_time: IsTime,
    roles: int,
    *,
    is_seconds: bool = False,
) -> tuple[TimeBound, ...] | None:
    """The bounds of `inner op most`, where inner may be the size of a difference."""
    if isinstance(inner, Call) and inner.function == "ABS":
        whole = _sum(inner.arguments[0], is_time, roles)
        if whole is None or op not in ("<", "<=") or (is_seconds and whole.terms):
            return None
        both = (whole, ZERO.minus(whole))
        found = [_of_difference(each, op, most, is_seconds=is_seconds) for each in both]
        if found[0] is None or found[1] is None:
            return None
        return found[0] + found[1]
    whole = _sum(inner, is_time, roles)
    if whole is None or (is_seconds and whole.terms):
        return None
    return _of_difference(whole, op, most, is_seconds=is_seconds)


def _of_difference(
    whole: Times, op: str, most: tuple[tuple[int, Expression], ...], *, is_seconds: bool
) -> tuple[TimeBound, ...] | None:
    """The bounds of `whole op most`, if the whole has one time less another one."""
    if sorted(whole.counts.values()) != [-1, 1]:
        return None
    later = next(source for source, count in whole.counts.items() if count == 1)
    earlier = next(source for source, count in whole.counts.items() if count == -1)
    rest = (*most, *((-sign, term) for sign, term in whole.terms))
    opposite = tuple((-sign, term) for sign, term in rest)
    is_strict = op in ("<", ">")
    found = []
    if op in ("<", "<=", "="):
        found.append(TimeBound(earlier, later, rest, is_strict, is_seconds))
    if op in (">", ">=", "="):
        found.append(TimeBound(later, earlier, opposite, is_strict, is_seconds))
    return tuple(found)


def _is_fixed(expression: Expression, roles: int) -> bool:
    return all(source >= roles for source in sources_of(expression))


def _sum(expression: Expression, is_time: IsTime, roles: int) -> Times | None:
    """A sum of times and of what reads no variable; None of anything else."""
    if _is_fixed(expression, roles):
        times = (Type.TIMESTAMP, Type.INTERVAL)
        return Times({}, ((1, expression),)) if expression.type in times else None
    if isinstance(expression, Column):
        return Times({expression.source: 1}, ()) if is_time(expression) else None
    if isinstance(expression, Negate):
        inner = _sum(expression.operand, is_time, roles)
        return None if inner is None else ZERO.minus(inner)
    if isinstance(expression, Arithmetic) and expression.op in ("+", "-"):
        left = _sum(expression.left, is_time, roles)
        right = _sum(expression.right, is_time, roles)
        if left is None or right is None:
            return None
        return left.minus(right if expression.op == "-" else ZERO.minus(right))
    return None


# What follows


def closed(size: int, edges: Iterable[Edge]) -> Matrix | None:
    """The least bounds between any two that follow from bounds; None if they can never hold.

    >>> closed(3, [Edge(0, 1, 5), Edge(1, 2, 5), Edge(2, 1, -1)])[0][2]
    10
    """
    matrix = given(size, edges)
    indices = range(size)
    for middle in indices:
        onward = matrix[middle]
        for first in indices:
            start = matrix[first][middle]
            if start >= FOREVER:
                continue
            row = matrix[first]
            for second in indices:
                if onward[second] < FOREVER and start + onward[second] < row[second]:
                    row[second] = start + onward[second]
    return None if any(matrix[i][i] < 0 for i in indices) else matrix


def given(size: int, edges: Iterable[Edge]) -> Matrix:
    """The least of the bounds between any two as they were given."""
    matrix = [[0 if i == j else FOREVER for j in range(size)] for i in range(size)]
    for edge in edges:
        row = matrix[edge.first]
        row[edge.second] = min(row[edge.second], edge.most)
    return matrix


def cycle(size: int, edges: Sequence[Edge]) -> list[Edge]:
    """Bounds that lead round in a circle and back before they started (Bellman and Ford).

    They stand in order, and end with one that bounds from above, if there is such a one. The list
    is empty where all bounds can hold together.
    """
    distance = [0] * size
    reached: list[Edge | None] = [None] * size
    last: int | None = None
    for _ in range(size + 1):
        last = None
        for edge in edges:
            if distance[edge.first] + edge.most < distance[edge.second]:
                distance[edge.second] = distance[edge.first] + edge.most
                reached[edge.second] = edge
                last = edge.second
        if last is None:
            return []
    assert last is not None
    for _ in range(size):
        back = reached[last]
        assert back is not None
        last = back.first
    found: list[Edge] = []
    place = last
    while True:
        back = reached[place]
        assert back is not None
        found.insert(0, back)
        place = back.first
        if place == last:
            break
    for turn, edge in enumerate(found):
        if edge.most + edge.is_strict > 0:
            return found[turn + 1 :] + found[: turn + 1]
    return found


def in_words(edges: Sequence[Edge], names: Sequence[str]) -> str:
    """
    >>> in_words([Edge(1, 0, -SECOND), Edge(0, 1, SECOND // 2)], ["V1", "V2"])
    'V2 is at least 1 s after V1, and V2 at most 0.5 s after V1'
    """
    said = []
    for turn, edge in enumerate(edges):
        size = edge.most + edge.is_strict
        later, earlier = (edge.second, edge.first) if size > 0 else (edge.first, edge.second)
        bound = (
            ("less than" if edge.is_strict else "at most")
            if size > 0
            else ("more than" if edge.is_strict else "at least")
        )
        verb = "is " if turn == 0 else ""
        said.append(f"{names[later]} {verb}{bound} {seconds(abs(size))} after {names[earlier]}")
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])}, and {said[-1]}"


def seconds(size: int) -> str:
    """
    >>> seconds(1_500_000), seconds(-60_000_000), seconds(FOREVER)
    ('1.5 s', '-60 s', '∞')
    """
    if abs(size) >= FOREVER:
        return "∞" if size > 0 else "-∞"
    whole, rest = divmod(abs(size), SECOND)
    tail = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{'-' if size < 0 else ''}{whole}{tail} s"
