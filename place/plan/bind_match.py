"""Binding the expressions of a trigger: what its conditions and alerts say of variables.

They are expressions as in WHERE. `V.t` is the time of a reading and `V.r` its place. Numbers
beside time differences are seconds. What is said of a set of variables becomes one condition for
each member, or for each two of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

from sqlglot import exp

from place.errors import PlaceError
from place.model.schema import Stream, find_column
from place.model.time import LATEST, SECOND
from place.model.types import Type
from place.plan.bind_expression import AGGREGATES, ExpressionBinder, aggregate_type
from place.plan.bind_variables import Variables
from place.plan.expression import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Distance,
    Expression,
    sources_of,
)
from place.plan.trigger import time_column
from place.sql.statements import Inside, Position, position_of, wrong

SPAN = "SPAN"
_WHOLE = (*AGGREGATES, SPAN)
"""Functions that read a whole set: V within them does not stand for each member."""
_JOINTS = (exp.And, exp.Or, exp.Not, exp.Paren)
A_SECOND = Constant(SECOND, Type.INTERVAL)


class MatchBinder(ExpressionBinder):
    """Binds expressions over the variables and tables of a trigger."""

    def __init__(self, variables: Variables, clause: str) -> None:
        super().__init__(variables.sources, clause=clause)
        self.variables = variables

    # Columns

    def _column(self, node: exp.Column) -> Expression:
        at = position_of(node)
        if not node.table:
            is_column = _has_column(self.variables, node.name)
            if self.variables.members(node.name) is not None and not is_column:
                raise wrong(
                    f'"{node.name}" is a reading, not a value',
                    at,
                    hint=f"write a column of it, such as {node.name}.t",
                )
            return self._timely(super()._column(node), at)
        found = self.variables.members(node.table)
        if found is None:
            raise self.variables.unknown(node.table, at)
        if node.table.casefold() in self.variables.sets:
            raise self._is_set(node.table, node.name, at)
        self._check_present(found[0], at)
        special = self._time_or_place(found[0], node, at)
        return self._timely(super()._column(node), at) if special is None else special

    def _time_or_place(
        self, source: int, node: exp.Column, at: Position | None
    ) -> Expression | None:
        """`V.t`, unless the stream has a column of that name; `V.r` stands in DISTANCE only."""
        relation = self.sources[source].relation
        if not isinstance(relation, Stream) or find_column(relation.columns, node.name) is not None:
            return None
        if node.name.casefold() == "t":
            return time_column(source, relation, self.sources[source].alias)
        if node.name.casefold() == "r":
            raise wrong(
                f"{node.table}.r is a place, and stands within DISTANCE",
                at,
                hint=f"write DISTANCE({node.table}.r, POINT (x, y)), or a column of it",
            )
        return None

    def _timely(self, bound: Expression, at: Position | None) -> Expression:
        """The stream's column of time is the time of the reading."""
        if not isinstance(bound, Column):
            return bound
        self._check_present(bound.source, at)
        source = self.sources[bound.source]
        relation = source.relation
        if isinstance(relation, Stream) and bound.index == relation.time:
            return time_column(bound.source, relation, source.alias)
        return bound

    def _check_present(self, source: int, at: Position | None) -> None:
        if source == self.variables.absent and self.clause != "UNLESS":
            alias = self.sources[source].alias
            raise wrong(
                f'"{alias}" is the reading that UNLESS waits for in vain',
                at,
                hint=f"write what is said of {alias} into UNLESS … WHEN; {self.clause} reads the"
                " variables of FOR",
            )

    def _is_set(self, name: str, column: str, at: Position | None) -> PlaceError:
        size = len(self.variables.sets[name.casefold()])
        return wrong(
            f"{name} is a set of {size} readings",
            at,
            expected="one of them, or an aggregate",
            hint=f"write {name}[1].{column} or MIN({name}.{column})",
        )

    def _shown(self, source: int, index: int) -> str:
        return f"{self.sources[source].alias}.{self.sources[source].relation.columns[index].name}"

    # Seconds

    def _in_seconds(
        self, one: Expression, other: Expression, node: exp.Expr
    ) -> tuple[Expression, Expression]:
        if one.type is Type.INTERVAL and other.type.is_numeric:
            return self._with_seconds(one, other, node)
        if other.type is Type.INTERVAL and one.type.is_numeric:
            duration, number = self._with_seconds(other, one, node)
            return number, duration
        return one, other

    def _with_seconds(
        self, duration: Expression, number: Expression, node: exp.Expr
    ) -> tuple[Expression, Expression]:
        """A constant becomes a duration; beside another number the duration becomes seconds."""
        if not isinstance(number, Constant) or number.value is None:
            return Arithmetic("/", duration, A_SECOND, Type.DOUBLE), number
        size = round(Fraction(str(number.value)) * SECOND)
        if abs(size) > LATEST:
            raise wrong(f"{number.value} seconds is too long a time", position_of(node))
        return duration, Constant(size, Type.INTERVAL)

    def _in(self, node: exp.In) -> Expression:
        bound = super()._in(node)
        kinds = {self._comparable(node.this, value, node)[0].type for value in node.expressions}
        if len(kinds) > 1:
            raise wrong(
                "IN takes numbers or durations beside a time difference, not both kinds",
                position_of(node),
                hint="compare them one by one: … = p.seconds OR … = '5 seconds'",
            )
        return bound

    # Functions

    def _inside(self, node: Inside) -> Expression:
        raise wrong(
            f"{node.this.name} INSIDE must hold for every match",
            position_of(node),
            expected="it as one of the conditions joined by AND",
            hint="do not put it under OR or NOT",
        )

    def _call(self, node: exp.Anonymous) -> Expression:
        if node.this == SPAN:
            return self._span(node)
        return super()._call(node)

    def _span(self, node: exp.Anonymous) -> Expression:
        """The latest time of a set less its earliest."""
        at = position_of(node)
        inner = node.expressions[0] if len(node.expressions) == 1 else None
        named = isinstance(inner, exp.Column) and not inner.table
        members = self.variables.sets.get(inner.name.casefold()) if named and inner else None
        if members is None:
            raise wrong(
                "SPAN is the time from the first to the last reading of a set",
                at,
                expected="a set of variables, such as V[5]",
                hint="write SPAN(V) <= '5 minutes'; of other variables write V2.t - V1.t",
            )
        first, last = (self._time(source) for source in (members[0], members[-1]))
        return Arithmetic("-", last, first, Type.INTERVAL)

    def _time(self, source: int) -> Column:
        stream = self.variables.stream(source)
        return time_column(source, stream, self.sources[source].alias)

    def _aggregate(self, node: exp.Anonymous, name: str, place: Position | None) -> Expression:
        """An aggregate over the members of a set: a function of so many values."""
        inner = node.expressions[0] if len(node.expressions) == 1 else None
        if inner is None or isinstance(inner, exp.Star) or node.meta.get("distinct"):
            raise wrong(
                f"{name} is over the readings of a set", place, hint=f"write {name}(V.column)"
            )
        if isinstance(inner, exp.Column) and not inner.table and name == "COUNT":
            members = self.variables.sets.get(inner.name.casefold())
            if members is not None:
                return Constant(len(members), Type.BIGINT)
        if not any(True for _ in self._references(inner)):
            raise wrong(
                f"{name} is over the readings of a set, and there is none in it",
                place,
                hint=f"declare a set in FOR: stream AS V[5], then write {name}(V.column)",
            )
        values = tuple(self.bind(each) for each in self.for_each(inner))
        kind = aggregate_type(name, values[0] if values else None, place)
        return Call(name, values, kind) if values else Constant(None, Type.NULL)

    def _distance(self, node: exp.Anonymous, place: Position | None) -> Expression:
        for index, part in enumerate(node.expressions):
            if not isinstance(part, exp.Column):
                continue
            name = part.table or part.name
            found = self.variables.members(name)
            if found is None:
                raise self.variables.unknown(name, position_of(part))
            if name.casefold() in self.variables.sets:
                size = len(found)
                raise wrong(
                    f"{name} is a set of {size} readings",
                    position_of(part),
                    hint=f"write {name}[1], or MAX(DISTANCE({name}, …))",
                )
            self._check_present(found[0], position_of(part))
            columns = self.sources[found[0]].relation.columns
            is_place = part.name.casefold() == "r" and find_column(columns, "r") is None
            if part.table and is_place:
                whole = exp.Column(this=exp.to_identifier(name, quoted=True))
                whole.meta.update(part.meta)
                node.expressions[index].replace(whole)
        bound = super()._distance(node, place)
        return _canonical(bound)

    # Sets

    def conditions(self, node: exp.Expr) -> list[Expression]:
        """A condition, as one or several without sets in them; symmetric ones once."""
        found = (_canonical(self.condition(each)) for each in self.for_each(node))
        return list(dict.fromkeys(found))

    def for_each(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """The expression once for each member of the sets in it.

        Where a comparison names a set twice, it is once for each two different members, in both
        orders.
        """
        times: dict[str, int] = {}
        for leaf in _leaves(node):
            counts: dict[str, int] = {}
            for reference in self._references(leaf):
                name = _set_of(reference)
                counts[name] = counts.get(name, 0) + 1
            for name, count in counts.items():
                self._check_times(name, count, times.setdefault(name, count), leaf)
        choices = [
            itertools.permutations(self.variables.sets[name], count)
            for name, count in times.items()
        ]
        for chosen in itertools.product(*choices):
            yield self._with_members(node, dict(zip(times, chosen, strict=True)))

    def _check_times(self, folded: str, count: int, before: int, leaf: exp.Expr) -> None:
        name = next(each for each in self.variables.names if each.casefold() == folded)
        if count > 2:
            raise wrong(
                f"the set {name} stands {count} times in one comparison",
                position_of(leaf),
                expected="it once, for each reading, or twice, for each two of them",
                hint=f"name the readings: {name}[1], {name}[2]",
            )
        if count != before:
            raise wrong(
                f"the set {name} stands once in one comparison and twice in another one of the"
                " same condition",
                position_of(leaf),
                hint=f"join them by AND, or name the readings: {name}[1], {name}[2]",
            )

    def _with_members(self, node: exp.Expr, chosen: dict[str, tuple[int, ...]]) -> exp.Expr:
        if not chosen:
            return node
        copied = exp.Paren(this=node.copy())  # so that the whole of it can be replaced, too
        for leaf in list(_leaves(copied.this)):
            seen: dict[str, int] = {}
            for reference in list(self._references(leaf)):
                name = _set_of(reference)
                turn = seen.get(name, 0)
                seen[name] = turn + 1
                alias = exp.to_identifier(self.sources[chosen[name][turn]].alias, quoted=True)
                reference.set("table" if reference.table else "this", alias)
        return copied.this  # type: ignore[no-any-return]

    def _references(self, node: exp.Expr) -> Iterator[exp.Column]:
        """Where an expression names a set, but for what reads the whole set, in order."""
        stack = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, exp.Anonymous) and part.this in _WHOLE:
                continue
            if isinstance(part, exp.Column):
                if _set_of(part) in self.variables.sets:
                    yield part
                continue
            stack.extend(reversed(list(part.iter_expressions())))


def _has_column(variables: Variables, name: str) -> bool:
    columns = (source.relation.columns for source in variables.sources)
    return any(find_column(each, name) is not None for each in columns)


def _leaves(node: exp.Expr) -> Iterator[exp.Expr]:
    """The comparisons that AND, OR and NOT join."""
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, _JOINTS):
            stack.extend(reversed(list(part.iter_expressions())))
        else:
            yield part


def _set_of(reference: exp.Column) -> str:
    return (reference.table or reference.name).casefold()


def _canonical(bound: Expression) -> Expression:
    """The same for conditions that say the same of two variables, whichever stands first."""
    if isinstance(bound, Distance):
        one, other = sources_of(bound.ax), sources_of(bound.bx)
        if min(one, default=-1) > min(other, default=-1) >= 0:
            return Distance(bound.bx, bound.by, bound.ax, bound.ay, bound.space)
    if isinstance(bound, Compare) and bound.op in ("=", "<>"):
        one, other = sources_of(bound.left), sources_of(bound.right)
        if min(one, default=-1) > min(other, default=-1) >= 0:
            return Compare(bound.op, bound.right, bound.left)
    return bound
