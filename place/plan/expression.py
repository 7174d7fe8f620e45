"""Bound expressions: every name a column of a known type, every operation one that has a meaning.

Nodes are frozen and small, so that optimizer rules can compare and rebuild them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from place.model.shape import Shape, show_shape
from place.model.space import Space
from place.model.time import format_interval
from place.model.types import Type, Value, format_value

ArithmeticOp = Literal["+", "-", "*", "/", "%"]
OVER_VALUES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
"""Aggregates that may be a Call: over its arguments, without those that are NULL."""
CompareOp = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Column:
    """A column of the source at a position in FROM (or of the aggregated row, source 0)."""

    source: int
    index: int
    type: Type
    name: str


@dataclass(frozen=True)
class Constant:
    value: Value
    type: Type


@dataclass(frozen=True)
class Arithmetic:
    """NULL where the value would not be finite, not fit its type, or divide by zero."""

    op: ArithmeticOp
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True)
class Negate:
    operand: Expression
    type: Type


@dataclass(frozen=True)
class Compare:
    op: CompareOp
    left: Expression
    right: Expression
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class And:
    operands: tuple[Expression, ...]
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Or:
    operands: tuple[Expression, ...]
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Not:
    operand: Expression
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class IsNull:
    operand: Expression
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class IsTruth:
    """`operand IS TRUE` or `IS FALSE`: never NULL."""

    operand: Expression
    value: bool
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Like:
    """`%` stands for any text, `_` for any character."""

    operand: Expression
    pattern: Expression
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class In:
    operand: Expression
    values: tuple[Expression, ...]
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Call:
    """A scalar function of `place/plan/functions.py`; or an aggregate over the values of its
    arguments (`OVER_VALUES`), which are those of a set of variables of a trigger.

    CASE has conditions and values in turn, and the value of ELSE at the end. `EXTRACT HOUR` and
    `DATE_TRUNC DAY` have their unit in the name, so that it is part of a query's shape.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True)
class Distance:
    """DISTANCE between two places, each an x and a y: metres on the sphere. NULL where a place
    is."""

    ax: Expression
    ay: Expression
    bx: Expression
    by: Expression
    space: Space
    type: Type = Type.DOUBLE


@dataclass(frozen=True)
class Lies:
    """`INSIDE area` as a condition: does a place lie in a region that stays? NULL where the place
    is. `region` is the name that the area was written by."""

    x: Expression
    y: Expression
    area: Shape
    space: Space
    region: str | None = None
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Near:
    """Is a place in a region, or no farther than a distance from it? NULL where the place is."""

    x: Expression
    y: Expression
    area: Shape
    distance: float
    space: Space
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Sweeps:
    """`PATH INSIDE area` and `INSIDE area WITHIN NEXT …`: does the way of an object meet a region?

    The way leads from where it was before to where it is; or, where there is a time `ahead`, from
    where it is to where it will be by then. An object that was nowhere before only is where it is.
    """

    before_x: Expression
    before_y: Expression
    x: Expression
    y: Expression
    since: Expression
    area: Shape
    space: Space
    ahead: int | None = None
    region: str | None = None
    type: Type = Type.BOOLEAN


@dataclass(frozen=True)
class Crossing:
    """`CROSSING LINE ((…))`: how far along its way, from 0 to 1, an object met a line; NULL where
    it met none."""

    before_x: Expression
    before_y: Expression
    x: Expression
    y: Expression
    line: tuple[tuple[float, float], ...]
    space: Space
    type: Type = Type.DOUBLE


Expression = (
    Column
    | Constant
    | Arithmetic
    | Negate
    | Compare
    | And
    | Or
    | Not
    | IsNull
    | IsTruth
    | Like
    | In
    | Call
    | Distance
    | Lies
    | Near
    | Sweeps
    | Crossing
)


@dataclass(frozen=True)
class Aggregate:
    """COUNT, SUM, AVG, MIN or MAX; the argument is None for COUNT(*)."""

    function: str
    argument: Expression | None
    distinct: bool
    type: Type


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly within."""
    match expression:
        case Column() | Constant():
            return ()
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return left, right
        case And(operands=operands) | Or(operands=operands):
            return operands
        case Like(operand=operand, pattern=pattern):
            return operand, pattern
        case In(operand=operand, values=values):
            return operand, *values
        case Call(arguments=arguments):
            return arguments
        case Distance(ax=ax, ay=ay, bx=bx, by=by):
            return ax, ay, bx, by
        case Lies(x=x, y=y) | Near(x=x, y=y):
            return x, y
        case Sweeps(before_x=before_x, before_y=before_y, x=x, y=y, since=since):
            return before_x, before_y, x, y, since
        case Crossing(before_x=before_x, before_y=before_y, x=x, y=y):
            return before_x, before_y, x, y
        case Negate() | Not() | IsNull() | IsTruth():
            return (expression.operand,)


def columns_of(expression: Expression) -> frozenset[Column]:
    """All columns that an expression reads."""
    found: set[Column] = set()
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Column):
            found.add(node)
        stack.extend(children(node))
    return frozenset(found)


def regions_of(expression: Expression) -> frozenset[str]:
    """The named regions that an expression was written with."""
    own: frozenset[str | None] = frozenset()
    if isinstance(expression, Lies | Sweeps):
        own = frozenset((expression.region,))
    inner = (regions_of(child) for child in children(expression))
    return frozenset(name for name in own.union(*inner) if name is not None)


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The conditions that all have to be true for a condition to be true."""
    if condition is None:
        return ()
    if isinstance(condition, And):
        return tuple(leaf for part in condition.operands for leaf in conjuncts(part))
    return (condition,)


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """One condition of several; None of none."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def sources_of(expression: Expression) -> frozenset[int]:
    """The positions in FROM whose rows an expression reads."""
    return frozenset(column.source for column in columns_of(expression))


def substitute(expression: Expression, put: Callable[[Column], Expression]) -> Expression:
    """The expression with other columns, or constants, in the place of its own columns."""
    match expression:
        case Column():
            return put(expression)
        case Constant():
            return expression
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return replace(expression, left=substitute(left, put), right=substitute(right, put))
        case And(operands=operands) | Or(operands=operands):
            return replace(expression, operands=tuple(substitute(o, put) for o in operands))
        case Like(operand=operand, pattern=pattern):
            return replace(
                expression, operand=substitute(operand, put), pattern=substitute(pattern, put)
            )
        case In(operand=operand, values=values):
            return replace(
                expression,
                operand=substitute(operand, put),
                values=tuple(substitute(value, put) for value in values),
            )
        case Call(arguments=arguments):
            return replace(expression, arguments=tuple(substitute(a, put) for a in arguments))
        case Distance(ax=ax, ay=ay, bx=bx, by=by):
            return replace(
                expression,
                ax=substitute(ax, put),
                ay=substitute(ay, put),
                bx=substitute(bx, put),
                by=substitute(by, put),
            )
        case Lies(x=x, y=y) | Near(x=x, y=y):
            return replace(expression, x=substitute(x, put), y=substitute(y, put))
        case Sweeps() | Crossing():
            return replace(expression, **_substituted(expression, put))
        case Negate() | Not() | IsNull() | IsTruth():
            return replace(expression, operand=substitute(expression.operand, put))


def _substituted(way: Sweeps | Crossing, put: Callable[[Column], Expression]) -> dict[str, Any]:
    names = ("before_x", "before_y", "x", "y", "since")
    return {n: substitute(getattr(way, n), put) for n in names if hasattr(way, n)}


def show(expression: Expression) -> str:
    """The expression as SQL, for people: EXPLAIN and the names of unnamed columns."""
    match expression:
        case Column(name=name):
            return name
        case Constant(value=value, type=kind):
            text = format_value(value, kind)
            return f"INTERVAL {text}" if kind is Type.INTERVAL and value is not None else text
        case Arithmetic(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case Negate(operand=operand):
            return f"-{_operand(operand)}"
        case And(operands=operands):
            return " AND ".join(map(_operand, operands))
        case Or(operands=operands):
            return " OR ".join(map(_operand, operands))
        case Not(operand=operand):
            return f"NOT {_operand(operand)}"
        case IsNull(operand=operand):
            return f"{_operand(operand)} IS NULL"
        case IsTruth(operand=operand, value=truth):
            return f"{_operand(operand)} IS {'TRUE' if truth else 'FALSE'}"
        case Like(operand=operand, pattern=pattern):
            return f"{_operand(operand)} LIKE {_operand(pattern)}"
        case In(operand=operand, values=values):
            return f"{_operand(operand)} IN ({', '.join(map(show, values))})"
        case Call():
            return _show_call(expression)
        case Distance(ax=ax, ay=ay, bx=bx, by=by):
            return f"DISTANCE({_place(ax, ay)}, {_place(bx, by)})"
        case Lies(x=x, y=y, area=area, region=region):
            whose = _place(x, y)
            who = "" if whose.startswith("POINT") else f"{whose} "
            return f"{who}INSIDE {region or show_shape(area)}"
        case Near(x=x, y=y, area=area, distance=distance):
            return f"{_place(x, y)} within {distance:g} of {show_shape(area)}"
        case Sweeps(x=x, y=y, area=area, region=region, ahead=ahead):
            whose = _place(x, y)
            who = "" if whose.startswith("POINT") else f"{whose} "
            named = region or show_shape(area)
            if ahead is None:
                return f"{who}PATH INSIDE {named}"
            return f"{who}INSIDE {named} WITHIN NEXT '{format_interval(ahead)}'"
        case Crossing(x=x, y=y, line=line):
            whose = _place(x, y)
            who = "" if whose.startswith("POINT") else f"{whose} "
            points = ", ".join(f"{px:g} {py:g}" for px, py in line)
            return f"{who}CROSSING LINE (({points}))"


def _show_call(call: Call) -> str:
    shown = [show(argument) for argument in call.arguments]
    name, _, part = call.function.partition(" ")
    if name == "CASE":
        cases = zip(shown[:-1:2], shown[1::2], strict=True)
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in cases)
        return f"CASE {whens} ELSE {shown[-1]} END"
    if name in ("CAST", "TEXT"):
        return f"CAST({shown[0]} AS {call.type.value})"
    if name == "EXTRACT":
        return f"EXTRACT({part.removeprefix('INTERVAL ')} FROM {shown[0]})"
    if name == "DATE_TRUNC":
        return f"DATE_TRUNC('{part.lower()}', {shown[0]})"
    if name in ("SPEED", "HEADING"):
        place = call.arguments[2]
        return f"{name}({place.name.rpartition('.')[0] if isinstance(place, Column) else ''})"
    if name == "CPA":
        places = zip(call.arguments[2::6], call.arguments[3::6], strict=True)
        who = ", ".join(_place(x, y) for x, y in places)
        return f"CPA({who}, '{format_interval(int(part.split()[1]))}')"
    if name == "CROSSED":
        return "CROSSING_TIME()"
    if name == "||":
        return " || ".join(map(_operand, call.arguments))
    return f"{name}({', '.join(shown)})"


def _place(x: Expression, y: Expression) -> str:
    if isinstance(x, Column) and isinstance(y, Column):
        alias, _, name = x.name.rpartition(".")
        if alias and y.name.rpartition(".")[0] == alias and name:
            return alias
    return f"POINT ({show(x)}, {show(y)})"


def _operand(expression: Expression) -> str:
    simple = isinstance(expression, Column | Constant | Call | Distance | Lies | Sweeps | Crossing)
    simple = simple and not (isinstance(expression, Call) and expression.function == "||")
    return show(expression) if simple else f"({show(expression)})"


def show_aggregate(aggregate: Aggregate) -> str:
    """
    >>> show_aggregate(Aggregate("COUNT", None, False, Type.BIGINT))
    'COUNT(*)'
    """
    inner = "*" if aggregate.argument is None else show(aggregate.argument)
    return f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{inner})"
