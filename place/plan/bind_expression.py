"""Binding expressions: names become columns, types are checked, constants take their type.

Every operation that the evaluation knows is bound here, and nothing else is: what the language
does not have is answered with where it stood and what may stand there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from place.errors import PlaceError, suggestion
from place.model.schema import column_names, find_column
from place.model.time import parse_interval
from place.model.types import LARGEST, Type, ValueMismatch, coerce
from place.plan.bind_areas import bound_area
from place.plan.bind_function import (
    SCALARS,
    bind_case,
    bind_cast,
    bind_concat,
    bind_extract,
    bind_function,
    unknown_function,
)
from place.plan.bind_place import bind_distance
from place.plan.bind_ways import WAYS
from place.plan.evaluate import evaluate
from place.plan.expression import (
    Aggregate,
    And,
    Arithmetic,
    ArithmeticOp,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expression,
    In,
    IsNull,
    IsTruth,
    Like,
    Negate,
    Not,
    Or,
    show,
)
from place.plan.query import Source
from place.sql.statements import Inside, InsideArea, Position, position_of, wrong

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")

_COMPARISONS: dict[type[exp.Expr], CompareOp] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], ArithmeticOp] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_RESULTS: dict[tuple[str, Type, Type], Type] = {
    ("-", Type.TIMESTAMP, Type.TIMESTAMP): Type.INTERVAL,
    ("+", Type.TIMESTAMP, Type.INTERVAL): Type.TIMESTAMP,
    ("+", Type.INTERVAL, Type.TIMESTAMP): Type.TIMESTAMP,
    ("-", Type.TIMESTAMP, Type.INTERVAL): Type.TIMESTAMP,
    ("+", Type.INTERVAL, Type.INTERVAL): Type.INTERVAL,
    ("-", Type.INTERVAL, Type.INTERVAL): Type.INTERVAL,
    ("*", Type.INTERVAL, Type.BIGINT): Type.INTERVAL,
    ("*", Type.BIGINT, Type.INTERVAL): Type.INTERVAL,
    ("/", Type.INTERVAL, Type.INTERVAL): Type.DOUBLE,
}


@dataclass
class ExpressionBinder:
    """Binds expressions over the sources of FROM.

    Where aggregates may stand (`collect` is a list), they are collected and the expression that
    comes back reads the aggregated row: first the `groups`, then the aggregates.
    """

    sources: tuple[Source, ...]
    groups: tuple[Expression, ...] | None = None
    collect: list[Aggregate] | None = None
    clause: str = "WHERE"
    _within_aggregate: bool = field(default=False, init=False)

    def bind(self, node: exp.Expr) -> Expression:
        """The bound expression of a parsed one."""
        if self.collect is not None and not self._within_aggregate:
            grouped = self._as_group(node)
            if grouped is not None:
                return grouped
        handler = self._handlers().get(type(node))
        if handler is None:
            raise wrong(
                f"{type(node).__name__.upper()} is not supported here",
                position_of(node),
                expected="comparisons, BETWEEN, IN, IS NULL, LIKE, AND, OR, NOT or arithmetic",
            )
        return handler(node)

    def condition(self, node: exp.Expr) -> Expression:
        """A bound expression that is true, false or NULL."""
        bound = self.bind(node)
        if bound.type not in (Type.BOOLEAN, Type.NULL):
            raise wrong(
                f"{show(bound)} is a {bound.type.value}, not a condition",
                position_of(node),
                expected=f"a condition in {self.clause}",
                hint=f"compare it: {show(bound)} = …; INSIDE is a clause of its own, after WHERE"
                if self.clause == "WHERE"
                else f"compare it: {show(bound)} = …",
            )
        return bound

    def _handlers(self) -> dict[type[exp.Expr], Callable[[Any], Expression]]:
        return {
            exp.Paren: lambda node: self.bind(node.this),
            exp.Literal: self._literal,
            exp.Boolean: lambda node: Constant(bool(node.this), Type.BOOLEAN),
            exp.Null: lambda node: Constant(None, Type.NULL),
            exp.Interval: self._interval,
            exp.Column: self._column,
            exp.Neg: self._negate,
            exp.Not: lambda node: Not(self.condition(node.this)),
            exp.And: lambda node: And(tuple(self._flat(node, exp.And))),
            exp.Or: lambda node: Or(tuple(self._flat(node, exp.Or))),
            exp.Is: self._is,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Like: self._like,
            exp.Anonymous: self._call,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.DPipe: lambda node: bind_concat(self.bind(node.this), self.bind(node.expression)),
            exp.Extract: lambda node: bind_extract(
                node.this.this, self.bind(node.expression), position_of(node)
            ),
            Inside: self._inside,
            InsideArea: self._area,
            **dict.fromkeys(_COMPARISONS, self._compare),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
        }

    # Leaves

    def _literal(self, node: exp.Literal) -> Expression:
        if node.is_string:
            return Constant(node.this, Type.STRING)
        text = node.this
        if text.isdecimal():
            if int(text) > LARGEST:
                raise wrong(f"{text} does not fit a BIGINT", position_of(node))
            return Constant(int(text), Type.BIGINT)
        return Constant(float(text), Type.DOUBLE)

    def _interval(self, node: exp.Interval) -> Expression:
        try:
            return Constant(parse_interval(node.this.this), Type.INTERVAL)
        except PlaceError as error:
            raise wrong(
                error.message, position_of(node), hint="write INTERVAL '5 minutes'"
            ) from None

    def _column(self, node: exp.Column) -> Expression:
        name, place = node.name, position_of(node)
        found = [
            Column(i, index, source.relation.columns[index].type, self._shown(i, index))
            for i, source in enumerate(self.sources)
            if not source.is_hidden
            if not node.table or source.alias.casefold() == node.table.casefold()
            if (index := find_column(source.relation.columns, name)) is not None
        ]
        if len(found) == 1:
            if self.collect is not None and not self._within_aggregate:
                raise wrong(
                    f'column "{name}" is neither in GROUP BY nor within an aggregate',
                    place,
                    hint=f"add GROUP BY {name}, or write for example MAX({name})",
                )
            return found[0]
        if found:
            choices = ", ".join(f"{self.sources[c.source].alias}.{name}" for c in found)
            raise wrong(f'column "{name}" is in several relations', place, hint=f"write {choices}")
        raise self._unknown_column(node, place)

    def _shown(self, source: int, index: int) -> str:
        column = self.sources[source].relation.columns[index].name
        named = sum(not source.is_hidden for source in self.sources)
        is_alone = named == 1 and not self.sources[source].is_hidden
        return column if is_alone else f"{self.sources[source].alias}.{column}"

    def _unknown_column(self, node: exp.Column, place: Position | None) -> PlaceError:
        name = node.name
        aliases = [source.alias for source in self.sources if not source.is_hidden]
        if node.table and node.table.casefold() not in {alias.casefold() for alias in aliases}:
            hint = suggestion(node.table, aliases, "relations in FROM")
            return wrong(f'"{node.table}" is not in FROM', place, hint=hint)
        columns = [
            column
            for source in self.sources
            if not source.is_hidden
            if not node.table or source.alias.casefold() == node.table.casefold()
            for column in column_names(source.relation.columns)
        ]
        hint = suggestion(name, columns, "columns")
        if hint.startswith("columns"):
            hint += f"; a text is written in single quotes: '{name}'"
        where = f' in "{node.table}"' if node.table else ""
        return wrong(f'column "{name}" does not exist{where}', place, hint=hint)

    # Operations

    def _negate(self, node: exp.Neg) -> Expression:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and inner.this.isdecimal():
            if int(inner.this) > LARGEST + 1:
                raise wrong(f"-{inner.this} does not fit a BIGINT", position_of(node))
            return Constant(-int(inner.this), Type.BIGINT)
        operand = self.bind(inner)
        if isinstance(operand, Constant) and isinstance(operand.value, float):
            return Constant(0.0 - operand.value, Type.DOUBLE)
        if not (operand.type.is_numeric or operand.type in (Type.INTERVAL, Type.NULL)):
            raise wrong(f"-{show(operand)}: a {operand.type.value} has no sign", position_of(node))
        return Negate(operand, operand.type)

    def _flat(self, node: exp.Expr, kind: type[exp.Expr]) -> list[Expression]:
        """The operands of a chain, without a call for each link of it."""
        parts: list[Expression] = []
        stack: list[exp.Expr] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, kind):
                stack.extend((part.expression, part.this))
            elif isinstance(part, exp.Paren) and isinstance(part.this, kind):
                stack.append(part.this)
            else:
                parts.append(self.condition(part))
        return parts

    def _is(self, node: exp.Is) -> Expression:
        if isinstance(node.expression, exp.Null):
            return IsNull(self.bind(node.this))
        return IsTruth(self.condition(node.this), bool(node.expression.this))

    def _compare(self, node: exp.Binary) -> Expression:
        left, right = self._comparable(node.this, node.expression, node)
        return Compare(_COMPARISONS[type(node)], left, right)

    def _between(self, node: exp.Between) -> Expression:
        low = self._comparable(node.this, node.args["low"], node)
        high = self._comparable(node.this, node.args["high"], node)
        return And((Compare(">=", *low), Compare("<=", *high)))

    def _in(self, node: exp.In) -> Expression:
        pairs = [self._comparable(node.this, value, node) for value in node.expressions]
        return In(pairs[0][0], tuple(value for _, value in pairs))

    def _like(self, node: exp.Like) -> Expression:
        operand, pattern = self.bind(node.this), self.bind(node.expression)
        for side in (operand, pattern):
            if side.type not in (Type.STRING, Type.NULL):
                raise wrong(
                    f"LIKE compares texts, and {show(side)} is a {side.type.value}",
                    position_of(node),
                )
        return Like(operand, pattern)

    def _comparable(
        self, left: exp.Expr, right: exp.Expr, node: exp.Expr
    ) -> tuple[Expression, Expression]:
        """Both sides, of types that can be compared; a text becomes the time it is compared to."""
        one, other = self.bind(left), self.bind(right)
        one, other = self._timed(one, other, left), self._timed(other, one, right)
        one, other = self._in_seconds(one, other, node)
        fits = (
            Type.NULL in (one.type, other.type)
            or one.type is other.type
            or (one.type.is_numeric and other.type.is_numeric)
        )
        if not fits:
            raise wrong(
                f"a {one.type.value} cannot be compared with a {other.type.value}:"
                f" {show(one)} and {show(other)}",
                position_of(node),
                hint=self._quoting_hint(one, other),
            )
        return one, other

    def _in_seconds(
        self, one: Expression, other: Expression, node: exp.Expr
    ) -> tuple[Expression, Expression]:
        """Both sides as they are compared; where numbers beside durations are seconds, so."""
        return one, other

    def _quoting_hint(self, one: Expression, other: Expression) -> str | None:
        for text, number in ((one, other), (other, one)):
            if isinstance(text, Constant) and text.type is Type.STRING and number.type.is_numeric:
                digits = str(text.value).strip().removeprefix("-").replace(".", "", 1).isdecimal()
                return f"write the number without quotes: {text.value}" if digits else None
            if isinstance(number, Constant) and number.type.is_numeric and text.type is Type.STRING:
                return f"write the text in quotes: '{number.value}'"
        return None

    def _timed(self, one: Expression, other: Expression, node: exp.Expr) -> Expression:
        times = (Type.TIMESTAMP, Type.INTERVAL)
        if isinstance(one, Constant) and one.type is Type.STRING and other.type in times:
            try:
                return Constant(coerce(one.value, other.type), other.type)
            except ValueMismatch as error:
                raise wrong(
                    error.message,
                    position_of(node),
                    hint="write for example '2026-01-31 12:00:00'"
                    if other.type is Type.TIMESTAMP
                    else "write for example INTERVAL '5 minutes'",
                ) from None
        return one

    def _arithmetic(self, node: exp.Binary) -> Expression:
        op = _ARITHMETIC[type(node)]
        left, right = self.bind(node.this), self.bind(node.expression)
        left, right = self._timed(left, right, node.this), self._timed(right, left, node.expression)
        kinds = [Type.DOUBLE if k is Type.NULL else k for k in (left.type, right.type)]
        if all(kind.is_numeric for kind in kinds):
            whole = kinds == [Type.BIGINT, Type.BIGINT] and op != "/"
            return Arithmetic(op, left, right, Type.BIGINT if whole else Type.DOUBLE)
        result = _RESULTS.get((op, left.type, right.type))
        if result is None:
            raise wrong(
                f"{show(left)} {op} {show(right)}: a {left.type.value} and a {right.type.value}"
                " cannot be combined so",
                position_of(node),
            )
        return Arithmetic(op, left, right, result)

    def _inside(self, node: Inside) -> Expression:
        raise wrong(
            f"{node.this.name} INSIDE {node.expression.name} must hold for every row",
            position_of(node),
            expected="it as one of the conditions joined by AND",
            hint="do not put it under OR or NOT",
        )

    # Functions and aggregates

    def _call(self, node: exp.Anonymous) -> Expression:
        name, place = str(node.this), position_of(node)
        if name in AGGREGATES:
            return self._aggregate(node, name, place)
        if name == "DISTANCE":
            return self._distance(node, place)
        if name in WAYS:
            self._need_group(name, place, f"MAX({name}())")
            return WAYS[name](node, self.sources, self._shown)
        if name == "NOW":
            raise self._now(place)
        if name not in SCALARS:
            if name == "TRAJECTORY":
                hint = "write SELECT TRAJECTORY(id) FROM Cars BETWEEN 'time' AND 'time'"
                raise wrong("TRAJECTORY stands in a SELECT about the past", place, hint=hint)
            if name == "POINT":
                hint = "a POINT stands within DISTANCE: write DISTANCE(a, POINT (x, y))"
                raise wrong(f"function {name} does not exist", place, hint=hint)
            raise unknown_function(name, AGGREGATES, place)
        if node.meta.get("distinct") or any(isinstance(a, exp.Star) for a in node.expressions):
            raise wrong(f"{name} takes values", place, hint=f"write {name}(column)")
        return bind_function(name, tuple(self.bind(a) for a in node.expressions), place)

    def _case(self, node: exp.Case) -> Expression:
        """The conditions are those of the WHENs; behind CASE value they compare with it."""
        conditions: list[Expression] = []
        values: list[Expression] = []
        for part in node.args["ifs"]:
            if node.this is None:
                conditions.append(self.condition(part.this))
            else:
                conditions.append(Compare("=", *self._comparable(node.this, part.this, part)))
            values.append(self.bind(part.args["true"]))
        default = node.args.get("default")
        values.append(Constant(None, Type.NULL) if default is None else self.bind(default))
        return bind_case(conditions, values, position_of(node))

    def _cast(self, node: exp.Cast) -> Expression:
        value, place = self.bind(node.this), position_of(node)
        if isinstance(node.this, exp.Literal) and node.this.is_string:
            return self._typed_literal(str(node.this.this), str(node.args["to"]), place)
        return bind_cast(value, str(node.args["to"]), place)

    def _typed_literal(self, text: str, kind: str, place: Position | None) -> Expression:
        """`TIMESTAMP '…'`, `DATE '…'`, or a text that is cast: what is no such value is wrong."""
        bound = bind_cast(Constant(text, Type.STRING), kind, place)
        value = evaluate(bound, ())
        if value is None:
            raise wrong(
                f"'{text}' is not a {kind.upper()}",
                place,
                hint=f"write for example {kind.upper()} '2026-01-31'"
                if kind.upper() in ("TIMESTAMP", "DATE")
                else None,
            )
        return Constant(value, bound.type)

    def _now(self, place: Position | None) -> PlaceError:
        """NOW() is refused: by it the answer would change at every instant, by the clock alone."""
        return wrong(
            "NOW() is the instant itself, so that an answer with it would change by the clock"
            " alone",
            place,
            hint="a clause says how long something counts: WINDOW 5 MINUTES holds the readings of"
            " the last five minutes, the stream's option timeout = '5 minutes' lets silent objects"
            " go; a delta tells its instant anyway",
        )

    def _distance(self, node: exp.Anonymous, place: Position | None) -> Expression:
        bound = bind_distance(node, self.sources, self.bind, self._shown)
        self._need_group("DISTANCE", place, "MIN(DISTANCE(a, b))")
        return bound

    def _area(self, node: InsideArea) -> Expression:
        bound = bound_area(node, self.sources, self._shown)
        example = "COUNT(CASE WHEN INSIDE Downtown THEN 1 END)"
        self._need_group("INSIDE", position_of(node), example)
        return bound

    def _need_group(self, what: str, place: Position | None, example: str) -> None:
        """Raise a StatementError where a place is read beside aggregates."""
        if self.collect is not None and not self._within_aggregate:
            raise wrong(
                f"{what} is neither in GROUP BY nor within an aggregate",
                place,
                hint=f"write for example {example}",
            )

    def _aggregate(self, node: exp.Anonymous, name: str, place: Position | None) -> Expression:
        if self.collect is None or self._within_aggregate:
            what = "another aggregate" if self._within_aggregate else self.clause
            hint = "use HAVING to choose groups" if what == "WHERE" else None
            raise wrong(f"{name} cannot stand within {what}", place, hint=hint)
        if len(node.expressions) != 1:
            raise wrong(f"{name} takes one argument", place, hint=f"write {name}(column)")
        (inner,) = node.expressions
        argument: Expression | None = None
        if isinstance(inner, exp.Star):
            if name != "COUNT" or node.meta.get("distinct"):
                raise wrong(f"{name}(*) has no meaning", place, hint="write COUNT(*)")
        else:
            self._within_aggregate = True
            try:
                argument = self.bind(inner)
            finally:
                self._within_aggregate = False
        kind = aggregate_type(name, argument, place)
        bound = Aggregate(name, argument, bool(node.meta.get("distinct")), kind)
        if bound not in self.collect:
            self.collect.append(bound)
        index = len(self.groups or ()) + self.collect.index(bound)
        inner_text = "*" if argument is None else show(argument)
        label = f"{name}({'DISTINCT ' if bound.distinct else ''}{inner_text})"
        return Column(0, index, kind, label)

    def _as_group(self, node: exp.Expr) -> Expression | None:
        """The group's key that this expression is, if it is one."""
        if not self.groups:
            return None
        plain = ExpressionBinder(self.sources, clause=self.clause)
        try:
            bound = plain.bind(node)
        except PlaceError:
            return None
        if bound in self.groups:
            return Column(0, self.groups.index(bound), bound.type, show(bound))
        return None


def aggregate_type(name: str, argument: Expression | None, place: Position | None) -> Type:
    """The type of an aggregate, or a StatementError."""
    if name == "COUNT" or argument is None:
        return Type.BIGINT
    kind = argument.type
    if name in ("MIN", "MAX"):
        return kind
    if not (kind.is_numeric or kind in (Type.INTERVAL, Type.NULL)):
        raise wrong(f"{name} takes numbers, and {show(argument)} is a {kind.value}", place)
    return Type.DOUBLE if name == "AVG" and kind is not Type.INTERVAL else kind
