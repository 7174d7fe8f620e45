"""Inference: what the conditions of a trigger say once a row of each table is given.

Each condition is put where it is cheapest to ask: bounds on time differences and distances into two
matrices, which are closed under inference (`place/plan/time_bounds.py`,
`place/plan/reach_bounds.py`), conditions over one variable to that variable, comparisons between
two to that pair, and what remains to whole matches.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from place.model.schema import Stream
from place.model.space import Space
from place.model.types import Row
from place.plan import reach_bounds, time_bounds
from place.plan.evaluate import evaluate
from place.plan.expression import (
    Column,
    Compare,
    Constant,
    Expression,
    conjunction,
    conjuncts,
    sources_of,
    substitute,
)
from place.plan.query import Query
from place.plan.reach_bounds import Reaches
from place.plan.time_bounds import Edge, Matrix
from place.plan.trigger import ANYWHERE, FOREVER, Comparison, Constraints, Trigger


@dataclass
class Sorted:
    """The conditions of a trigger by what they speak of; the bounds as they were given.

    Sources are the variables, that of UNLESS last. `never` is a condition that is not true for
    these rows of tables whatever the readings are, such as a bound that is NULL.
    """

    unary: list[list[Expression]]
    edges: list[Edge] = field(default_factory=list)
    """Bounds between the times of variables of a match."""
    absent_edges: list[Edge] = field(default_factory=list)
    """Those of the variable of UNLESS."""
    reaches: Reaches = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    others: list[Expression] = field(default_factory=list)
    absence: list[Expression] = field(default_factory=list)
    never: Expression | None = None
    origins: dict[Edge, int] = field(default_factory=dict)
    """Which of the conditions a bound comes from."""


def constraints_of(query: Query, rows: Sequence[Row] = ()) -> Constraints | None:
    """The constraints of a trigger, given a row of each of its tables in the order of FOR.

    None if they can never hold, if a bound is NULL, or if nothing says how long UNLESS waits.
    """
    trigger = trigger_of(query)
    found = sort_conditions(query, rows)
    if found.never is not None:
        return None
    latest = latest_of(trigger, found)
    if latest is None or (trigger.absence is not None and latest[0][-1] == FOREVER):
        return None
    reaches = reaches_of(query, found)
    count = trigger.variables
    if any(reach_bounds.is_empty(reaches[i][j]) for i in range(count) for j in range(i)):
        return None
    return Constraints(
        tuple(conjunction(each) for each in found.unary),
        tuple(map(tuple, latest)),
        tuple(map(tuple, reaches)),
        tuple(found.comparisons),
        tuple(found.others),
        tuple(found.absence),
    )


def trigger_of(query: Query) -> Trigger:
    """The trigger that a query is."""
    assert query.trigger is not None
    return query.trigger


def latest_of(trigger: Trigger, found: Sorted) -> Matrix | None:
    """All bounds on times that follow; the variable of UNLESS is bounded, and bounds nobody."""
    count = trigger.variables
    inner = time_bounds.closed(count, found.edges)
    if inner is None or trigger.absence is None:
        return inner
    upper = [FOREVER] * count
    lower = [FOREVER] * count
    for edge in found.absent_edges:
        if edge.second == count:
            upper[edge.first] = min(upper[edge.first], edge.most)
        else:
            lower[edge.second] = min(lower[edge.second], edge.most)
    for i in range(count):
        inner[i].append(min(_plus(inner[i][k], upper[k]) for k in range(count)))
    inner.append([min(_plus(lower[k], inner[k][i]) for k in range(count)) for i in range(count)])
    inner[count].append(0)
    return inner


def _plus(one: int, other: int) -> int:
    return FOREVER if FOREVER in (one, other) else one + other


def reaches_of(query: Query, found: Sorted) -> Reaches:
    """All bounds on distances that follow."""
    trigger = trigger_of(query)
    spaces = {source.relation.space for source in query.sources[: trigger.roles]}
    space = Space.WGS84 if Space.WGS84 in spaces else Space.PLANAR
    inner = [row[: trigger.variables] for row in found.reaches[: trigger.variables]]
    inner = reach_bounds.closed(inner, space)
    if trigger.absence is None:
        return inner
    absent = trigger.variables
    outer = [[*row, found.reaches[i][absent]] for i, row in enumerate(inner)]
    outer.append(list(found.reaches[absent]))
    return reach_bounds.closed(outer, space, trigger.variables)


# Which condition goes where


def sort_conditions(query: Query, rows: Sequence[Row], *, tables: bool = True) -> Sorted:
    """The conditions of a trigger by what they speak of.

    Without `tables`, those that read a table are left out.
    """
    trigger = trigger_of(query)
    roles = trigger.roles
    found = Sorted([[] for _ in range(roles)])
    found.reaches = [[ANYWHERE] * roles for _ in range(roles)]
    for members in trigger.sets:
        found.edges += [Edge(b, a, 0) for a, b in itertools.pairwise(members)]
    if trigger.within is not None:
        several = range(trigger.variables)
        found.edges += [Edge(a, b, trigger.within) for a in several for b in several if a != b]
    every = [(c, False) for c in trigger.conditions]
    every += [(c, True) for c in trigger.absence or ()]
    for number, (written, is_absence) in enumerate(every):
        if not tables and any(source >= roles for source in sources_of(written)):
            continue
        for condition in conjuncts(with_rows(written, roles, rows)):
            _put(query, found, condition, is_absence, number)
    return found


def with_rows(condition: Expression, roles: int, rows: Sequence[Row]) -> Expression:
    """A condition with the values of the tables' rows in the place of their columns."""

    def put(column: Column) -> Expression:
        if column.source < roles:
            return column
        return Constant(rows[column.source - roles][column.index], column.type)

    return substitute(condition, put)


def _put(query: Query, found: Sorted, condition: Expression, is_absence: bool, number: int) -> None:
    trigger = trigger_of(query)
    sources = sources_of(condition)
    if is_absence and trigger.variables not in sources:
        found.absence.append(condition)  # of the match alone, which it must not bound
    elif not sources:
        if evaluate(condition, ()) is not True:
            found.never = found.never or condition
    elif _put_times(query, found, condition, number) or _put_distance(found, condition, trigger):
        pass
    elif len(sources) == 1:
        found.unary[next(iter(sources))].append(condition)
    elif is_absence:
        found.absence.append(condition)
    elif (comparison := _comparison(condition)) is not None:
        found.comparisons.append(comparison)
    else:
        found.others.append(condition)


def is_time_of(query: Query) -> time_bounds.IsTime:
    """Which columns are the times of readings."""

    def is_time(column: Column) -> bool:
        relation = query.sources[column.source].relation
        return isinstance(relation, Stream) and column.index == len(relation.columns)

    return is_time


def _put_times(query: Query, found: Sorted, condition: Expression, number: int) -> bool:
    """Is it a bound on a time difference, and nothing more?"""
    trigger = trigger_of(query)
    is_time = is_time_of(query)
    bounds = time_bounds.time_bounds(condition, is_time, trigger.roles)
    is_whole = bounds is not None
    for bound in bounds or time_bounds.hull(condition, is_time, trigger.roles):
        edge = bound.edge(())
        is_absent = trigger.variables in (bound.first, bound.second)
        if edge is None:
            _put_unknown(found, condition, is_absent)
            return True
        (found.absent_edges if is_absent else found.edges).append(edge)
        found.origins.setdefault(edge, number)
    return is_whole


def _put_unknown(found: Sorted, condition: Expression, is_absent: bool) -> None:
    """A bound that is NULL is never true: there is no match, or no reading of UNLESS."""
    if is_absent:
        found.absence.append(condition)
    else:
        found.never = found.never or condition


def _put_distance(found: Sorted, condition: Expression, trigger: Trigger) -> bool:
    """Is it a bound on the distance of two variables, and nothing more?"""
    bound = reach_bounds.distance_bound(condition, trigger.roles)
    if bound is None:
        return False
    reach = bound.reach(())
    if reach is None:
        _put_unknown(found, condition, trigger.variables in (bound.first, bound.second))
        return True
    if reach_bounds.says_nothing(reach):
        return False  # but that both have a place
    for a, b in ((bound.first, bound.second), (bound.second, bound.first)):
        found.reaches[a][b] = reach_bounds.both(found.reaches[a][b], reach)
    return True


def _comparison(condition: Expression) -> Comparison | None:
    if not isinstance(condition, Compare):
        return None
    left, right = sources_of(condition.left), sources_of(condition.right)
    if len(left) != 1 or len(right) != 1 or left == right:
        return None
    (first,), (second,) = left, right
    return Comparison(first, condition.left, condition.op, second, condition.right)
