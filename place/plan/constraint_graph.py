"""The graph of a trigger's constraints as data, for whoever draws it: the page does.

Variables are nodes, and what two of them must be to each other is an edge, marked where it was
inferred. A set whose members are all alike, such as V[5], is one node with an edge to itself. The
numbers of a trigger with tables depend on their rows; of such a one only the structure is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from place.model.shape import show_shape
from place.plan import time_bounds
from place.plan.explain_trigger import show_reach
from place.plan.expression import (
    Column,
    Distance,
    Expression,
    children,
    columns_of,
    conjuncts,
    show,
    sources_of,
)
from place.plan.infer import constraints_of, is_time_of, sort_conditions, trigger_of
from place.plan.query import Query
from place.plan.time_bounds import seconds
from place.plan.trigger import ANYWHERE, FOREVER, Constraints

OF_TABLES = "by a table"
"""What stands in the place of numbers that rows of tables give."""


@dataclass(frozen=True)
class Bound:
    """What is asked of two variables, in words; `inferred` if nobody wrote it so."""

    text: str
    inferred: bool = False


@dataclass(frozen=True)
class Node:
    """A variable, or a set of `count` of them; an `absent` one must have no reading."""

    name: str
    stream: str
    count: int
    absent: bool
    asks: str | None
    """The conditions of its own."""


@dataclass(frozen=True)
class Edge:
    """What two nodes are to each other, by their numbers; with itself, what the members of a set
    are. Times are those of the second less those of the first."""

    first: int
    second: int
    time: Bound | None
    distance: Bound | None
    compares: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConstraintGraph:
    """What a trigger asks of the readings of a match."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    """What is asked of whole matches."""
    has_numbers: bool = True
    """False if they depend on the rows of tables."""


def constraint_graph(query: Query) -> ConstraintGraph:
    """The graph of a trigger."""
    trigger = trigger_of(query)
    constraints = None if len(query.sources) > trigger.roles else constraints_of(query)
    if constraints is None:
        return _structure(query)
    groups = _groups(query, lambda members: _are_alike(query, constraints, members))
    nodes = [_node(query, group, _asked(query, constraints, group[0])) for group in groups]
    edges = list(_edges(query, constraints, groups))
    more = [show(condition) for condition in (*constraints.others, *constraints.absence)]
    return ConstraintGraph(nodes, edges, more)


def _groups(query: Query, is_one: Callable[[Sequence[int]], bool]) -> list[tuple[int, ...]]:
    """The variables that are drawn as one node each, by the number of the first."""
    trigger = trigger_of(query)
    sets = [members for members in trigger.sets if len(members) > 1 and is_one(members)]
    taken = set(itertools.chain.from_iterable(sets))
    alone = [(i,) for i in range(trigger.roles) if i not in taken]
    return sorted([*sets, *alone])


def _node(query: Query, group: Sequence[int], asks: str | None) -> Node:
    source = query.sources[group[0]]
    name = source.alias if len(group) == 1 else source.alias.removesuffix("[1]")
    asks = asks and asks.replace(f"{source.alias}.", f"{name}.")
    absent = group[0] >= trigger_of(query).variables
    return Node(name, source.relation.name, len(group), absent, asks)


def _asked(query: Query, constraints: Constraints, variable: int) -> str | None:
    asked = [show(each) for each in [constraints.unary[variable]] if each is not None]
    regions = trigger_of(query).regions
    asked += [f"INSIDE {show_shape(shape)}" for source, shape in regions if source == variable]
    return " AND ".join(asked) or None


# Bounds


def _are_alike(query: Query, constraints: Constraints, members: Sequence[int]) -> bool:
    """Is the same asked of all members of a set, and between any two of them?"""

    def asked(a: int, b: int) -> tuple[object, ...]:
        latest, reach = constraints.latest, constraints.reaches[a][b]
        return latest[a][b], latest[b][a], reach, tuple(_compared(query, constraints, a, b))

    others = [i for i in range(trigger_of(query).roles) if i not in members]
    return len({asked(*pair) for pair in itertools.combinations(members, 2)}) == 1 and all(
        len({asked(member, other) for member in members}) == 1 for other in others
    )


def _compared(query: Query, constraints: Constraints, a: int, b: int) -> list[str]:
    """What is compared between two variables, members of sets by the name of the set."""
    found = []
    for each in constraints.comparisons:
        if {each.first, each.second} == {a, b}:
            left, right = (
                show(side).replace(alias, alias.partition("[")[0])
                for side, alias in (
                    (each.left, query.sources[each.first].alias),
                    (each.right, query.sources[each.second].alias),
                )
            )
            found.append(f"{left} {each.op} {right}")
    return sorted(found)


def _edges(
    query: Query, constraints: Constraints, groups: Sequence[tuple[int, ...]]
) -> Iterator[Edge]:
    given = sort_conditions(query, ())
    roles = trigger_of(query).roles
    written = time_bounds.given(roles, [*given.edges, *given.absent_edges])
    latest, reaches = constraints.latest, constraints.reaches

    def bounds(a: int, b: int, *, is_set: bool) -> tuple[Bound | None, Bound | None]:
        is_given = latest[a][b] == written[a][b] and (is_set or latest[b][a] == written[b][a])
        least = -latest[a][b] if is_set else -latest[b][a]  # members are in the order of times
        text = _apart(least, latest[a][b])
        time = None if text is None else Bound(text, not is_given)
        reach = reaches[a][b]
        is_far = reach == ANYWHERE
        distance = None if is_far else Bound(show_reach(reach), reach != given.reaches[a][b])
        return time, distance

    for i, group in enumerate(groups):
        if len(group) > 1:
            time, distance = bounds(group[0], group[-1], is_set=True)
            compares = tuple(_compared(query, constraints, group[0], group[-1]))
            yield Edge(i, i, time, distance, compares)
    for (i, one), (j, other) in itertools.combinations(enumerate(groups), 2):
        a, b = one[0], other[0]
        if latest[a][b] <= 0 < latest[b][a]:  # the second is never later: it comes first
            i, j, a, b = j, i, b, a
        time, distance = bounds(a, b, is_set=False)
        compares = tuple(_compared(query, constraints, a, b))
        if time is not None or distance is not None or compares:
            yield Edge(i, j, time, distance, compares)


def _apart(least: int, most: int) -> str | None:
    """By how much the second may be later than the first.

    >>> _apart(0, 5_000_000), _apart(-5_000_000, 5_000_000), _apart(-FOREVER, FOREVER)
    ('0 s … 5 s later', '≤ 5 s apart', None)
    """
    if least == -FOREVER and most == FOREVER:
        return None
    if least == -most:
        return f"≤ {seconds(most)} apart"
    if most == FOREVER:
        return f"≥ {seconds(least)} later"
    if least == -FOREVER:
        return f"≤ {seconds(most)} later"
    return f"{seconds(least)} … {seconds(most)} later"


# Structure


def _structure(query: Query) -> ConstraintGraph:
    """The same without numbers: which variables a condition speaks of together, and of what."""
    trigger = trigger_of(query)
    groups = _groups(query, lambda _: True)
    node_of = {member: i for i, group in enumerate(groups) for member in group}
    found: dict[tuple[int, int], set[str]] = {}
    more: list[str] = []
    for written in (*trigger.conditions, *(trigger.absence or ())):
        for condition in conjuncts(written):
            roles = sorted(i for i in sources_of(condition) if i < trigger.roles)
            if len(roles) > 2:
                more.append(show(condition))
            elif len(roles) == 2:
                first, second = sorted(node_of[i] for i in roles)
                found.setdefault((first, second), set()).add(_subject(query, condition))
    for a, b in itertools.combinations(sorted({node_of[i] for i in range(trigger.variables)}), 2):
        if trigger.within is not None:
            found.setdefault((a, b), set()).add("time")
    edges = [
        Edge(
            first,
            second,
            Bound(OF_TABLES) if "time" in kinds else None,
            Bound(OF_TABLES) if "distance" in kinds else None,
            (OF_TABLES,) if "other" in kinds else (),
        )
        for (first, second), kinds in sorted(found.items())
    ]
    nodes = [_node(query, group, None) for group in groups]
    return ConstraintGraph(nodes, edges, list(dict.fromkeys(more)), has_numbers=False)


def _subject(query: Query, condition: Expression) -> str:
    """What a condition compares: times, distances, or something else."""
    if _has_distance(condition):
        return "distance"
    columns: frozenset[Column] = columns_of(condition)
    return "time" if any(map(is_time_of(query), columns)) else "other"


def _has_distance(expression: Expression) -> bool:
    return isinstance(expression, Distance) or any(map(_has_distance, children(expression)))
