"""Expressions over columns at a time; they are worth what `place.plan.evaluate` says.

A vector is as long as its rows, or one element long where it is the same for all of them. What it
holds where it is NULL has no meaning, but that of texts is always a code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from place.engine.area_questions import OF_AREA, parts_of_question, question_of
from place.engine.columns import DTYPES, Columns, Dictionary, Vector
from place.engine.row_sums import sum_rows
from place.engine.vector_functions import (
    TWO_TO_53,
    TWO_TO_63,
    bounded,
    call_columns,
    lesser,
    with_sign,
)
from place.engine.vector_ways import Areas, ask
from place.kernels.arrays import Bools, Longs
from place.kernels.distances import distances
from place.model import schema
from place.model.space import Space
from place.model.types import Type
from place.plan.evaluate import like
from place.plan.expression import (
    OVER_VALUES,
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
from place.plan.query import Output

Sources = Sequence[Columns | None]

MANY = 4
"""More constants than these in an IN are looked up together."""


def evaluate_all(
    expression: Expression, sources: Sources, size: int, dictionary: Dictionary
) -> Vector:
    """The values of an expression on `size` rows, given the rows of each source of FROM.

    A bare column is not copied: what comes back may be the rows' own arrays.
    """
    if isinstance(expression, Column):
        return _Rows(sources, dictionary).evaluate(expression)
    with np.errstate(all="ignore"):
        found = _Rows(sources, dictionary).evaluate(expression)
    if len(found.nulls) == len(found.values) == size:
        return found
    return Vector(_of_size(found.values, size), _of_size(found.nulls, size))


def _of_size(part: NDArray[Any], size: int) -> NDArray[Any]:
    return part if len(part) == size else np.repeat(part, size)


def holds(expression: Expression, sources: Sources, size: int, dictionary: Dictionary) -> Bools:
    """Where a condition is true: neither false nor NULL."""
    found = evaluate_all(expression, sources, size, dictionary)
    return _is(found, True)


def outputs(
    asked: Sequence[Output], sources: Sources, size: int, dictionary: Dictionary
) -> Columns:
    """The outputs of a query for rows, as columns."""
    columns = tuple(schema.Column(output.name, output.expression.type) for output in asked)
    found = [evaluate_all(output.expression, sources, size, dictionary) for output in asked]
    return as_columns(columns, found, dictionary)


def as_columns(
    columns: tuple[schema.Column, ...], vectors: Sequence[Vector], dictionary: Dictionary
) -> Columns:
    """Vectors of one length as rows."""
    made = Columns((), dictionary, 0)
    made.columns = columns
    made.values = [vector.values for vector in vectors]
    made.nulls = [vector.nulls for vector in vectors]
    return made


def same_rows(a: Columns, b: Columns, columns: Sequence[int] | None = None) -> Bools:
    """Where two lists of rows hold the same in all, or in these, columns; NULL is like NULL."""
    chosen = range(len(a.columns)) if columns is None else columns
    same = np.ones(a.capacity, np.bool_)
    for index in chosen:
        same &= a.equal(b, index, index)
    return same


class _Rows:
    """The rows that an expression is evaluated on."""

    def __init__(self, sources: Sources, dictionary: Dictionary) -> None:
        self._sources = sources
        self._dictionary = dictionary

    def evaluate(self, expression: Expression) -> Vector:
        match expression:
            case Column(source=source, index=index):
                rows = self._sources[source]
                assert rows is not None, f"no rows of source {source}"
                return Vector(rows.values[index], rows.nulls[index])
            case Constant(value=value, type=kind):
                return self._constant(value, kind)
            case Compare(op=op, left=left, right=right):
                return self._compare(op, left, right, self.evaluate(left), self.evaluate(right))
            case And(operands=operands):
                return _all_of([self.evaluate(part) for part in operands])
            case Or(operands=operands):
                return _negate(_all_of([_negate(self.evaluate(part)) for part in operands]))
            case Not(operand=operand):
                return _negate(self.evaluate(operand))
            case IsNull(operand=operand):
                return _certain(self.evaluate(operand).nulls)
            case IsTruth(operand=operand, value=truth):
                return _certain(_is(self.evaluate(operand), truth))
            case Like(operand=operand, pattern=pattern):
                return self._like(self.evaluate(operand), self.evaluate(pattern))
            case In():
                return self._in(expression)
            case Arithmetic(op=op, left=left, right=right, type=kind):
                return _arithmetic(op, self.evaluate(left), self.evaluate(right), kind)
            case Negate(operand=operand, type=kind):
                found = self.evaluate(operand)
                return with_sign(np.negative, found, kind)
            case Call(function=function, arguments=arguments, type=kind):
                found_all = [self.evaluate(argument) for argument in arguments]
                return self._call(function, found_all, [a.type for a in arguments], kind)
            case Distance(space=space):
                return _distance([self.evaluate(part) for part in children(expression)], space)
            case Lies() | Near() | Sweeps() | Crossing():
                asked = question_of(expression)
                parts = [self.evaluate(part) for part in children(expression)]
                areas = Areas.one(asked.area, asked.space, self._dictionary)
                return ask(asked.question, parts, areas, asked.length)

    def _constant(self, value: Any, kind: Type) -> Vector:
        if value is None:
            return Vector(np.zeros(1, DTYPES[kind]), np.ones(1, np.bool_))
        if kind is Type.STRING:
            value = self._dictionary.code(value)
        return Vector(np.array([value], DTYPES[kind]), np.zeros(1, np.bool_))

    # Comparisons

    def _compare(
        self, op: str, left: Expression, right: Expression, one: Vector, other: Vector
    ) -> Vector:
        """`one op other`, which are the values of `left` and `right`."""
        nulls = one.nulls | other.nulls
        texts = [side.type is Type.STRING for side in (left, right)]
        if Type.NULL in (left.type, right.type):
            return Vector(np.zeros(1, np.bool_), np.ones(1, np.bool_))
        if not any(texts):
            return Vector(_compare_numbers(op, one.values, other.values), nulls)
        if not all(texts):  # in a list of IN: a text equals nothing else
            return Vector(np.full(1, op == "<>"), nulls)
        if op in ("=", "<>"):
            return Vector(_COMPARISONS[op](one.values, other.values), nulls)
        chosen, places = self._distinct(np.concatenate([one.values, other.values]))
        texts_of = [self._dictionary.texts[code] for code in chosen]
        ranks = np.empty(len(chosen), np.int64)
        ranks[sorted(range(len(chosen)), key=texts_of.__getitem__)] = np.arange(len(chosen))
        ranked = ranks[places] if len(chosen) else places
        first = len(one.values)
        return Vector(_COMPARISONS[op](ranked[:first], ranked[first:]), nulls)

    def _in(self, expression: In) -> Vector:
        operand, values = expression.operand, expression.values
        wanted = self.evaluate(operand)
        if len(values) > MANY:
            listed = [v.value for v in values if isinstance(v, Constant) and v.type is operand.type]
            if len(listed) == len(values) and None not in listed:
                if operand.type is Type.STRING:
                    listed = [self._dictionary.code(str(text)) for text in listed]
                found = np.isin(wanted.values, np.array(listed, DTYPES[operand.type]))
                return Vector(found, wanted.nulls)
        differs = [self._compare("<>", operand, v, wanted, self.evaluate(v)) for v in values]
        return _negate(_all_of(differs))

    # Texts

    def _distinct(self, codes: NDArray[Any]) -> tuple[list[int], NDArray[np.intp]]:
        """The codes that occur, each once, and the place among them of every one."""
        count = len(self._dictionary.texts)
        if not count:  # then all are NULL, and there is nothing that they are codes of
            return [], np.zeros(len(codes), np.intp)
        if len(codes) < count:
            chosen, places = np.unique(codes, return_inverse=True)
            return chosen.tolist(), places
        used = np.zeros(count, np.bool_)
        used[codes] = True
        return np.flatnonzero(used).tolist(), (np.cumsum(used) - 1)[codes]

    def _each(self, codes: NDArray[Any], make: Callable[[str], Any], kind: Type) -> NDArray[Any]:
        """What `make` makes of each text; it is asked once for each that occurs."""
        chosen, places = self._distinct(codes)
        if not chosen:
            return np.zeros(len(codes), DTYPES[kind])
        texts = self._dictionary.texts
        made: NDArray[Any] = np.array([make(texts[code]) for code in chosen], DTYPES[kind])
        return made[places]

    def _like(self, text: Vector, pattern: Vector) -> Vector:
        nulls = text.nulls | pattern.nulls
        texts = self._dictionary.texts
        if not texts:
            return Vector(np.zeros(1, np.bool_), nulls)
        if len(pattern.values) == 1:
            wanted = texts[int(pattern.values[0])]
            return Vector(
                self._each(text.values, lambda one: like(one, wanted), Type.BOOLEAN), nulls
            )
        pairs = (text.values.astype(np.int64) << 32) | pattern.values
        chosen, places = np.unique(pairs, return_inverse=True)
        fits = [like(texts[pair >> 32], texts[pair & 0xFFFFFFFF]) for pair in chosen.tolist()]
        return Vector(np.array(fits, np.bool_)[places], nulls)

    def _call(
        self, function: str, arguments: list[Vector], kinds: list[Type], kind: Type
    ) -> Vector:
        if function.startswith(OF_AREA):
            question, space, length = parts_of_question(function)
            areas = Areas.of_texts(arguments[-1].values, space, self._dictionary)
            return ask(question, arguments[:-1], areas, length)
        if function in OVER_VALUES:
            return self._aggregate(function, arguments, kind)
        return call_columns(function, arguments, kinds, kind, self._dictionary)

    def _aggregate(self, function: str, arguments: list[Vector], kind: Type) -> Vector:
        """An aggregate over the arguments of each row, without those that are NULL."""
        if function == "COUNT":
            counts = reduce(np.add, [(~a.nulls).astype(np.int64) for a in arguments])
            return Vector(counts, np.zeros(1, np.bool_))
        if function in ("MIN", "MAX"):
            is_less = np.less if function == "MIN" else np.greater
            ranks = self._dictionary.ranks() if kind is Type.STRING else None
            return reduce(lambda one, other: lesser(one, other, is_less, ranks), arguments)
        return _total(function, arguments, kind)


# Three-valued logic


def _is(found: Vector, truth: bool) -> Bools:
    """Where a truth value is known to be this one."""
    values = found.values.astype(np.bool_, copy=False)
    return (values if truth else ~values) & ~found.nulls


def _certain(truth: Bools) -> Vector:
    return Vector(truth, np.zeros(1, np.bool_))


def _negate(found: Vector) -> Vector:
    return Vector(~found.values.astype(np.bool_, copy=False), found.nulls)


def _all_of(found: Sequence[Vector]) -> Vector:
    """AND: false if any is false, otherwise unknown if any is unknown."""
    false, unknown = np.zeros(1, np.bool_), np.zeros(1, np.bool_)
    for part in found:
        false = false | _is(part, False)
        unknown = unknown | part.nulls
    return Vector(~false, unknown & ~false)


# Longs

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compare_numbers(op: str, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """A comparison of the numbers themselves, as Python's, also of whole ones with others."""
    if (one.dtype == np.float64) == (other.dtype == np.float64):
        return _COMPARISONS[op](one, other)  # type: ignore[no-any-return]
    if one.dtype == np.float64:
        return _compare_numbers(_SWAPPED[op], other, one)
    # Rounding keeps the order, so that only a whole number that is rounded to what it is compared
    # with is in doubt; the other one then is whole too.
    rounded = one.astype(np.float64)
    result: NDArray[Any] = _COMPARISONS[op](rounded, other)
    doubtful = (rounded == other) & (np.abs(rounded) >= TWO_TO_53)
    if not doubtful.any():
        return result
    above = rounded == TWO_TO_63  # no whole number of 64 bits is as large
    whole = np.where(doubtful & ~above, rounded, 0).astype(np.int64)
    exact = np.where(above, _COMPARISONS[op](0, 1), _COMPARISONS[op](one, whole))
    return np.where(doubtful, exact, result)


def _arithmetic(op: str, left: Vector, right: Vector, kind: Type) -> Vector:
    """`left op right` as values of type `kind`, NULL where there is none."""
    nulls = left.nulls | right.nulls
    if kind is Type.DOUBLE:
        return bounded(_double(op, left.values, right.values), nulls, kind)
    one = left.values.astype(np.int64, copy=False)
    other = right.values.astype(np.int64, copy=False)
    made, overflows = _whole(op, one, other)
    return bounded(made, nulls | overflows, kind)


def _double(op: str, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    one, other = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    match op:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case "/":
            return one / other  # by 0 neither this nor the remainder is finite
        case _:
            return np.fmod(one, other)


def _whole(op: str, one: Longs, other: Longs) -> tuple[Longs, Bools]:
    """The result modulo 2**64, and where it is not the true one or there is none."""
    match op:
        case "+":
            made = one + other
            return made, ((one ^ made) & (other ^ made)) < 0
        case "-":
            made = one - other
            return made, ((one ^ other) & (one ^ made)) < 0
        case "*":
            made = one * other
            # Off by a multiple of 2**64, or by nothing: rounding is far smaller than that.
            about = one.astype(np.float64) * other.astype(np.float64)
            return made, np.abs(about - made.astype(np.float64)) > TWO_TO_63
        case _:
            # Dividing by -1 leaves nothing, as by 1, but overflows on the smallest number.
            divisor = np.where((other == 0) | (other == -1), 1, other)
            return np.fmod(one, divisor), other == 0


def _distance(places: Sequence[Vector], space: Space) -> Vector:
    """How far places are from each other: x and y of one and of the other."""
    size = max(len(part.values) for part in places)
    ax, ay, bx, by = (_of_size(part.values.astype(np.float64, copy=False), size) for part in places)
    nulls = reduce(np.logical_or, [part.nulls for part in places])
    return bounded(distances(ax, ay, bx, by, space is Space.WGS84), nulls, Type.DOUBLE)


def _total(function: str, arguments: Sequence[Vector], kind: Type) -> Vector:
    """The SUM or the AVG over the arguments of each row: exact, and rounded as aggregates are."""
    sizes = {len(part) for a in arguments for part in (a.values, a.nulls)}
    size = max(sizes) if min(sizes) else 0
    values = np.stack([_of_size(a.values, size) for a in arguments], axis=1)
    present = ~np.stack([_of_size(a.nulls, size) for a in arguments], axis=1)
    found = sum_rows(values, present, is_interval=kind is Type.INTERVAL)
    is_sum = function == "SUM"
    numbers, nulls = (found.sums, found.no_sum) if is_sum else (found.means, found.no_mean)
    return bounded(numbers.view(DTYPES[kind]), nulls, kind)
