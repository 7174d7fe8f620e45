"""EXPLAIN TRIGGER: the complete graph of constraints as matrices, with what was inferred.

Each variable stands with its own conditions. Below are the bounds on times and distances between
any two variables: a star marks those that nobody wrote so, because they follow from others. The
rest says what is asked of pairs and of whole matches, how long readings are kept, and when a match
is told.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from place.model.shape import show_shape
from place.model.space import Space
from place.model.time import format_interval
from place.model.types import Row
from place.plan import time_bounds
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.expression import show
from place.plan.infer import Sorted, constraints_of, sort_conditions, trigger_of
from place.plan.query import Query
from place.plan.reach_bounds import Reaches
from place.plan.time_bounds import seconds
from place.plan.trigger import ANYWHERE, FOREVER, Constraints, Reach

MOST_TRIED = 1000
"""So many combinations of rows of tables are tried to find one that can hold."""


def rows_to_explain(query: Query, catalog: Catalog) -> tuple[Row, ...] | None:
    """The first rows of a trigger's tables whose constraints can hold; None if there are none."""
    tables = [catalog.rows_of(s.relation.name) for s in query.sources[trigger_of(query).roles :]]
    tried = itertools.islice(itertools.product(*tables), MOST_TRIED)
    return next((rows for rows in tried if constraints_of(query, rows) is not None), None)


def explain_trigger(
    query: Query, rows: Sequence[Row] | None, observed: Observed | None = None
) -> list[str]:
    """The constraints of a trigger as lines of text, given a row of each of its tables."""
    trigger = trigger_of(query)
    names = [source.alias for source in query.sources[: trigger.roles]]
    lines = [f"Trigger {query.name} tells {', '.join(query.names)}"]
    constraints = None if rows is None else constraints_of(query, rows)
    tables = query.sources[trigger.roles :]
    if tables:
        listed = ", ".join(f"{t.relation.name} as {t.alias}" for t in tables)
        lines.append(f"for each combination of rows of {listed}")
    if constraints is None or rows is None:
        return [*lines, "no row of the tables gives constraints that can hold"]
    if tables:
        lines.append("with the constraints of the first row that can hold:")
    given = sort_conditions(query, rows)
    lines += _variables(query, constraints)
    if len(names) > 1:
        lines += _times(names, given, constraints)
        lines += _distances(query, names, given.reaches, constraints)
    for comparison in constraints.comparisons:
        left, right = show(comparison.left), show(comparison.right)
        lines.append(f"Compare {left} {comparison.op} {right}")
    lines += [f"Ask last: {show(condition)}" for condition in constraints.others]
    lines += _unless(query, names, constraints)
    lines += _told(query)
    lines += _kept(names, constraints)
    strategy = "chosen by cost" if trigger.hint is None else f"{trigger.hint}, by a hint"
    lines.append(f"Strategy {strategy}")
    return [*lines, *(observed.notes if observed is not None else ())]


def _variables(query: Query, constraints: Constraints) -> Iterator[str]:
    trigger = trigger_of(query)
    for index, source in enumerate(query.sources[: trigger.roles]):
        kind = "Absent" if index >= trigger.variables else "Variable"
        asked = [show(each) for each in [constraints.unary[index]] if each is not None]
        asked += [f"INSIDE {show_shape(s)}" for variable, s in trigger.regions if variable == index]
        said = f": {' AND '.join(asked)}" if asked else ""
        yield f"{kind} {source.alias} of stream {source.relation.name}{said}"


# Matrices


def _times(names: Sequence[str], given: Sorted, constraints: Constraints) -> list[str]:
    written = time_bounds.given(len(names), [*given.edges, *given.absent_edges])
    latest = constraints.latest

    def entry(i: int, j: int) -> str:
        if latest[i][j] == latest[j][i] == FOREVER:
            return "any"
        is_same = (latest[i][j], latest[j][i]) == (written[i][j], written[j][i])
        least = seconds(-latest[j][i])
        return f"{least} … {seconds(latest[i][j])}{'' if is_same else ' *'}"

    return _matrix("Time from the row to the column", names, entry)


def _distances(
    query: Query, names: Sequence[str], given: Reaches, constraints: Constraints
) -> list[str]:
    size = range(len(names))
    if all(constraints.reaches[i][j] == ANYWHERE for i in size for j in size):
        return []

    def entry(i: int, j: int) -> str:
        reach = constraints.reaches[i][j]
        return f"{show_reach(reach)}{'' if reach == given[i][j] else ' *'}"

    metres = " in metres" if query.space is Space.WGS84 else ""
    return _matrix(f"Distance{metres}", names, entry)


def show_reach(reach: Reach) -> str:
    """The bounds of a distance in signs."""
    parts = []
    if reach.least > 0 or reach.least_open:
        parts.append(f"{'>' if reach.least_open else '≥'} {reach.least:g}")
    if reach.most < math.inf:
        parts.append(f"{'<' if reach.most_open else '≤'} {reach.most:g}")
    return " and ".join(parts) or "any"


def _matrix(title: str, names: Sequence[str], entry: Callable[[int, int], str]) -> list[str]:
    """A table with the names at its rows and columns; * is explained where one stands."""
    size = range(len(names))
    cells = [[entry(i, j) if i != j else "·" for j in size] for i in size]
    table = [["", *names], *([names[i], *cells[i]] for i in size)]
    widths = [max(len(row[column]) for row in table) for column in range(len(names) + 1)]
    drawn = [
        "  "
        + "  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    is_inferred = any(cell.endswith("*") for row in cells for cell in row)
    return [f"{title}{', * follows from other conditions' if is_inferred else ''}", *drawn]


# What becomes of a match


def _unless(query: Query, names: Sequence[str], constraints: Constraints) -> Iterator[str]:
    trigger = trigger_of(query)
    if trigger.absence is None:
        return
    absent = trigger.variables
    for condition in constraints.absence:
        yield f"Ask of {names[absent]}: {show(condition)}"
    ends = [
        f"{seconds(constraints.latest[i][absent])} after {names[i]}"
        for i in range(absent)
        if constraints.latest[i][absent] < FOREVER
    ]
    yield f"Wait for {names[absent]} until {' or '.join(ends)}" + (
        ", whichever is first" if len(ends) > 1 else ""
    )


def _told(query: Query) -> Iterator[str]:
    trigger = trigger_of(query)
    if trigger.within is not None:
        yield f"All readings lie within {format_interval(trigger.within)}"
    if trigger.is_first:
        yield "Tell the first match of each reading that completes some"
    else:
        yield "Tell every match"
    if trigger.every is not None:
        groups = ", ".join(map(show, trigger.groups))
        per = f" of the same {groups}" if groups else ""
        yield f"Be silent for {format_interval(trigger.every)} after an alert{per}"


def _kept(names: Sequence[str], constraints: Constraints) -> Iterator[str]:
    """How long readings are kept at most: as long as another variable may still come."""
    kept = []
    for i, name in enumerate(names):
        longest = max((constraints.latest[i][j] for j in range(len(names)) if j != i), default=0)
        kept.append(f"{name} for {seconds(max(longest, 0))}")
    yield f"Keep readings of {', '.join(kept)} at most"
