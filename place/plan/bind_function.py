"""Binding scalar functions: which arguments each takes, and of which type its value is.

`place/plan/functions.py` says what they are worth. A function that another one can say
(MOD, NULLIF) is bound as that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from place.errors import PlaceError, nearest
from place.model.types import NAMES, Type, ValueMismatch, coerce
from place.plan.expression import Arithmetic, Call, Compare, Constant, Expression, show
from place.plan.functions import FIELDS, INTERVAL_FIELDS, MOVING, TRUNCATIONS
from place.sql.statements import Position, wrong

Arguments = tuple[Expression, ...]
_OTHER_NAMES = {"CEILING": "CEIL", "POW": "POWER", "SUBSTRING": "SUBSTR"}
_SIZED = (Type.BIGINT, Type.DOUBLE, Type.INTERVAL)
_NUMBERS = (Type.BIGINT, Type.DOUBLE)
_TEXT, _COUNT = (Type.STRING,), (Type.BIGINT,)

_SIGNATURES: dict[str, tuple[tuple[tuple[Type, ...], ...], int, str]] = {
    # the types of each argument, how many must be there, and what to write
    "ABS": ((_SIZED,), 1, "a number: ABS(column)"),
    "CEIL": ((_NUMBERS,), 1, "a number: CEIL(column)"),
    "FLOOR": ((_NUMBERS,), 1, "a number: FLOOR(column)"),
    "LEFT": ((_TEXT, _COUNT), 2, "a text and how many letters: LEFT(column, 3)"),
    "LENGTH": ((_TEXT,), 1, "a text: LENGTH(column)"),
    "LOWER": ((_TEXT,), 1, "a text: LOWER(column)"),
    "LTRIM": ((_TEXT,), 1, "a text: LTRIM(column)"),
    "POWER": ((_NUMBERS, _NUMBERS), 2, "two numbers: POWER(column, 2)"),
    "RIGHT": ((_TEXT, _COUNT), 2, "a text and how many letters: RIGHT(column, 3)"),
    "ROUND": ((_NUMBERS, _COUNT), 1, "a number and perhaps how many digits: ROUND(column, 2)"),
    "RTRIM": ((_TEXT,), 1, "a text: RTRIM(column)"),
    "SQRT": ((_NUMBERS,), 1, "a number: SQRT(column)"),
    "SUBSTR": (
        (_TEXT, _COUNT, _COUNT),
        2,
        "a text, where to begin and perhaps how many letters: SUBSTR(column, 1, 3)",
    ),
    "TRIM": ((_TEXT,), 1, "a text: TRIM(column)"),
    "UPPER": ((_TEXT,), 1, "a text: UPPER(column)"),
}
_RESULTS = {
    "LENGTH": Type.BIGINT,
    "POWER": Type.DOUBLE,
    "SQRT": Type.DOUBLE,
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "ROUND"), Type.NULL),
}
"""The type of the value: STRING where nothing else is said, NULL for that of the first argument."""


def bind_function(name: str, arguments: Arguments, at: Position | None) -> Expression:
    """A function of bound arguments, or a StatementError that says what it takes."""
    name = _OTHER_NAMES.get(name, name)
    if name in _SPECIAL:
        return _SPECIAL[name](arguments, at)
    kinds, least, form = _SIGNATURES[name]
    fits = least <= len(arguments) <= len(kinds) and all(
        argument.type in (*good, Type.NULL)
        for argument, good in zip(arguments, kinds, strict=False)
    )
    if not fits:
        given = ", ".join(f"{show(a)} (a {a.type.value})" for a in arguments) or "nothing"
        takes, _, example = form.partition(": ")
        raise wrong(f"{name} takes {takes}, not {given}", at, hint=f"write {example}")
    kind = _RESULTS.get(name, Type.STRING)
    return Call(name, arguments, arguments[0].type if kind is Type.NULL else kind)


def one_type(name: str, values: Sequence[Expression], at: Position | None) -> Type:
    """The type that all values have, or become: whole numbers beside others are DOUBLE."""
    kinds = list(dict.fromkeys(value.type for value in values if value.type is not Type.NULL))
    if not values:
        raise wrong(f"{name} takes values of one type", at, hint=f"write {name}(column, 0)")
    if set(kinds) == {Type.BIGINT, Type.DOUBLE}:
        return Type.DOUBLE
    if len(kinds) > 1:
        given = " and ".join(f"a {kind.value}" for kind in kinds)
        raise wrong(f"{name} takes values of one type, and there are {given}", at)
    return kinds[0] if kinds else Type.NULL


def alike(values: Sequence[Expression]) -> list[Expression]:
    """Texts beside times become the times that they say, where they are constants."""
    times = {v.type for v in values} & {Type.TIMESTAMP, Type.INTERVAL}
    if len(times) != 1:
        return list(values)
    (kind,) = times
    made: list[Expression] = []
    for value in values:
        if isinstance(value, Constant) and value.type is Type.STRING:
            with suppress(ValueMismatch):  # the types then differ, as the caller says
                value = Constant(coerce(value.value, kind), kind)
        made.append(value)
    return made


def bind_case(
    conditions: Sequence[Expression], values: Sequence[Expression], at: Position | None
) -> Expression:
    """CASE: the value of the first condition that is true; the last value is that of ELSE."""
    values = alike(values)
    kind = one_type("CASE", values, at)
    pairs = zip(conditions, values[:-1], strict=True)
    return Call("CASE", (*(part for pair in pairs for part in pair), values[-1]), kind)


def bind_cast(value: Expression, written: str, at: Position | None) -> Expression:
    """CAST(value AS type). A DATE is the TIMESTAMP of its midnight."""
    name = written.upper()
    if name == "DATE":
        return Call("DATE_TRUNC DAY", (bind_cast(value, "TIMESTAMP", at),), Type.TIMESTAMP)
    kind = Type.INTERVAL if name == "INTERVAL" else NAMES.get(name)
    if kind is None:
        known = dict.fromkeys([each.value for each in NAMES.values()] + ["INTERVAL", "DATE"])
        raise wrong(f"{written} is not a type", at, expected=", ".join(known))
    if value.type is kind:
        return value
    if value.type is Type.NULL:
        return Constant(None, kind)
    if value.type in (Type.TIMESTAMP, Type.INTERVAL) and kind is not Type.STRING:
        raise wrong(
            f"{show(value)} is a {value.type.value}, which is no {kind.value}",
            at,
            hint=f"write EXTRACT(EPOCH FROM {show(value)}) for its seconds",
        )
    if kind in (Type.TIMESTAMP, Type.INTERVAL) and value.type is not Type.STRING:
        raise wrong(f"{show(value)} is a {value.type.value}, which is no {kind.value}", at)
    if kind is Type.STRING:
        return as_text(value)
    return Call("CAST", (value,), kind)


def as_text(value: Expression) -> Expression:
    """A value as a text; what it looks like depends on its type."""
    if value.type in (Type.STRING, Type.NULL):
        return value
    if value.type in (Type.BIGINT, Type.DOUBLE):
        return Call("CAST", (value,), Type.STRING)
    return Call(f"TEXT OF {value.type.value}", (value,), Type.STRING)


def bind_concat(one: Expression, other: Expression) -> Expression:
    """`one || other`: NULL where either is."""
    return Call("||", (as_text(one), as_text(other)), Type.STRING)


def bind_extract(field: str, value: Expression, at: Position | None) -> Expression:
    """EXTRACT(field FROM value)."""
    of_interval = value.type is Type.INTERVAL
    part = _unit(field, INTERVAL_FIELDS if of_interval else FIELDS, "EXTRACT", at)
    if value.type not in (Type.TIMESTAMP, Type.INTERVAL, Type.NULL):
        raise wrong(
            f"EXTRACT takes a TIMESTAMP or an INTERVAL, and {show(value)} is a {value.type.value}",
            at,
            hint="write EXTRACT(HOUR FROM ts)",
        )
    kind = Type.DOUBLE if part == "EPOCH" else Type.BIGINT
    prefix = "INTERVAL " if of_interval and part != "EPOCH" else ""
    return Call(f"EXTRACT {prefix}{part}", (value,), kind)


def _date_part(arguments: Arguments, at: Position | None) -> Expression:
    field, value = _unit_and_value("DATE_PART", arguments, at)
    return bind_extract(field, value, at)


def _date_trunc(arguments: Arguments, at: Position | None) -> Expression:
    field, value = _unit_and_value("DATE_TRUNC", arguments, at)
    part = _unit(field, TRUNCATIONS, "DATE_TRUNC", at)
    (value,) = alike_to(Type.TIMESTAMP, (value,))
    if value.type not in (Type.TIMESTAMP, Type.NULL):
        raise wrong(f"DATE_TRUNC takes a TIMESTAMP, and {show(value)} is a {value.type.value}", at)
    return Call(f"DATE_TRUNC {part}", (value,), Type.TIMESTAMP)


def alike_to(kind: Type, values: Sequence[Expression]) -> list[Expression]:
    """Constant texts as constants of a type of times."""
    return alike([*values, Constant(None, kind)])[:-1]


def _unit_and_value(name: str, arguments: Arguments, at: Position | None) -> tuple[str, Expression]:
    unit = arguments[0] if len(arguments) == 2 else None
    if not isinstance(unit, Constant) or not isinstance(unit.value, str):
        raise wrong(
            f"{name} takes a unit as a text and a time", at, hint=f"write {name}('hour', ts)"
        )
    return unit.value, arguments[1]


def _unit(written: str, known: Sequence[str], name: str, at: Position | None) -> str:
    part = written.strip().upper()
    part = part[:-1] if part.endswith("S") and part[:-1] in known else part
    if part not in known:
        close = nearest(written, known)
        raise wrong(
            f"{name} does not know {written}",
            at,
            expected=", ".join(each.lower() for each in known),
            hint=f'did you mean "{close.lower()}"?' if close else None,
        )
    return part


def _coalesce(arguments: Arguments, at: Position | None) -> Expression:
    made = alike(arguments)
    return Call("COALESCE", tuple(made), one_type("COALESCE", made, at))


def _extreme(name: str) -> Callable[[Arguments, Position | None], Expression]:
    def bind(arguments: Arguments, at: Position | None) -> Expression:
        made = alike(arguments)
        return Call(name, tuple(made), one_type(name, made, at))

    return bind


def _concat(arguments: Arguments, at: Position | None) -> Expression:
    if not arguments:
        raise wrong("CONCAT takes values", at, hint="write CONCAT(kind, ' ', id)")
    return Call("CONCAT", tuple(as_text(argument) for argument in arguments), Type.STRING)


def _mod(arguments: Arguments, at: Position | None) -> Expression:
    if len(arguments) != 2 or any(a.type not in (*_NUMBERS, Type.NULL) for a in arguments):
        raise wrong("MOD takes two numbers", at, hint="write MOD(column, 10)")
    whole = all(argument.type is Type.BIGINT for argument in arguments)
    return Arithmetic("%", *arguments, Type.BIGINT if whole else Type.DOUBLE)


def _nullif(arguments: Arguments, at: Position | None) -> Expression:
    if len(arguments) != 2:
        raise wrong("NULLIF takes two values", at, hint="write NULLIF(column, 0)")
    one, other = alike(arguments)
    one_type("NULLIF", (one, other), at)
    return Call("CASE", (Compare("=", one, other), Constant(None, Type.NULL), one), one.type)


_SPECIAL: dict[str, Callable[[Arguments, Position | None], Expression]] = {
    "COALESCE": _coalesce,
    "CONCAT": _concat,
    "DATE_PART": _date_part,
    "DATE_TRUNC": _date_trunc,
    "GREATEST": _extreme("GREATEST"),
    "LEAST": _extreme("LEAST"),
    "MOD": _mod,
    "NULLIF": _nullif,
}
SCALARS = frozenset({*_SIGNATURES, *_SPECIAL, *_OTHER_NAMES})
"""The functions that are bound here from their arguments alone."""
FUNCTIONS = tuple(
    sorted({*SCALARS, "CASE", "CAST", "CPA", "CROSSING_TIME", "DISTANCE", "EXTRACT", *MOVING})
)
"""All functions, as errors list them."""


def unknown_function(name: str, aggregates: Sequence[str], at: Position | None) -> PlaceError:
    """The error of a function that does not exist: the nearest name, and all that there are."""
    known = (*aggregates, *FUNCTIONS)
    close = nearest(name, known)
    listed = f"functions: {', '.join(known)}"
    hint = f'did you mean "{close}"? {listed}' if close else listed
    return wrong(f"function {name} does not exist", at, hint=hint)
