"""What a trigger may not be: one that can never be told, or that would remember for ever.

Errors name what contradicts what, and what to add. Of conditions that read a table only their form
is known here: a bound that a row gives counts as one, and rows whose bounds can never hold are
passed over when the trigger runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from place.errors import StatementError
from place.plan import reach_bounds, time_bounds
from place.plan.expression import show, sources_of
from place.plan.infer import (
    Sorted,
    is_time_of,
    latest_of,
    reaches_of,
    sort_conditions,
    trigger_of,
)
from place.plan.limits import check_kept
from place.plan.query import Query
from place.plan.time_bounds import Edge
from place.plan.trigger import FOREVER
from place.sql import statements as s
from place.sql.limits import NONE, current
from place.sql.statements import wrong

Places = Sequence[s.Position | None]
"""Where the conditions were written, those of UNLESS last."""


def check_trigger(query: Query, statement: s.CreateTrigger, places: Places) -> None:
    """Raise a StatementError if a trigger can never be told, or keeps readings for ever.

    A catalog that is read again is not asked, so that what was accepted once stays.
    """
    if current() is NONE:
        return
    found = sort_conditions(query, (), tables=False)
    if found.never is not None:
        raise _never(f"{show(found.never)} is not true", statement.name.at)
    _check_times(query, found, places)
    _check_distances(query, found, statement)
    _check_absence(query, found, places)
    _check_bounded(query, statement)
    trigger = trigger_of(query)
    latest = latest_of(trigger, found)
    assert latest is not None
    longest = max((most for row in latest for most in row if most < FOREVER), default=0)
    check_kept(longest, statement.name.at)


def _names(query: Query) -> list[str]:
    return [source.alias for source in query.sources]


def _never(said: str, at: s.Position | None) -> StatementError:
    return wrong(
        f"the trigger can never be told: {said}",
        at,
        hint="one of its conditions has to be wider",
    )


def _check_times(query: Query, found: Sorted, places: Places) -> None:
    trigger = trigger_of(query)
    circle = time_bounds.cycle(trigger.variables, found.edges)
    if circle:
        at = _place_of(circle, found, places)
        raise _never(time_bounds.in_words(circle, _names(query)), at)


def _place_of(circle: Sequence[Edge], found: Sorted, places: Places) -> s.Position | None:
    numbers = (found.origins[edge] for edge in circle if edge in found.origins)
    return next((places[number] for number in numbers if places[number] is not None), None)


def _check_distances(query: Query, found: Sorted, statement: s.CreateTrigger) -> None:
    trigger = trigger_of(query)
    reaches = reaches_of(query, found)
    names = _names(query)
    pairs = [(i, j) for i in range(trigger.roles) for j in range(i)]
    empty = [(i, j) for i, j in pairs if reach_bounds.is_empty(reaches[i][j])]
    if not empty:
        return
    i, j = max(empty, key=lambda pair: found.reaches[pair[0]][pair[1]].least)
    low, high = reaches[i][j].least, reaches[i][j].most
    said = f"DISTANCE({names[j]}, {names[i]}) is at least {low:g} and at most {high:g}"
    if not reach_bounds.is_empty(found.reaches[i][j]):
        said += ", by the distances to the others"
    if trigger.absence is not None and i == trigger.variables:
        raise wrong(
            f"no reading can be what UNLESS waits for: {said}",
            statement.unless.at if statement.unless else None,
            hint="leave UNLESS out, or widen one of the conditions",
        )
    raise _never(said, statement.name.at)


def _check_absence(query: Query, found: Sorted, places: Places) -> None:
    """What UNLESS waits for has to be possible, too."""
    trigger = trigger_of(query)
    if trigger.absence is None:
        return
    edges = [*found.edges, *found.absent_edges]
    circle = time_bounds.cycle(trigger.roles, edges)
    if circle:
        said = time_bounds.in_words(circle, _names(query))
        raise wrong(
            f"no reading can be what UNLESS waits for: {said}",
            _place_of(circle, found, places),
            hint="leave UNLESS out, or widen one of the conditions",
        )


# Memory


def _check_bounded(query: Query, statement: s.CreateTrigger) -> None:
    """Every two variables must be bounded in time to each other."""
    trigger = trigger_of(query)
    count, names = trigger.variables, _names(query)
    reached = _reached(query)
    at = statement.name.at
    for i in range(count):
        for j in range(i + 1, count):
            if not reached[i][j] or not reached[j][i]:
                raise _unbounded(names[i], names[j], reached[i][j], reached[j][i], at)
    if trigger.absence is None:
        return
    absent, unless = names[count], statement.unless
    where = unless.at if unless is not None else at
    if not any(reached[i][count] for i in range(count)):
        raise wrong(
            f"{absent} may come at any time after {names[0]}, so nobody knows when it is too late",
            where,
            expected="an upper bound on its time",
            hint=f"add {absent}.t - {names[0]}.t IN [0, 60] behind UNLESS … WHEN",
        )
    if not any(reached[count][i] for i in range(count)):
        raise wrong(
            f"{absent} may have come at any time before {names[0]}, so its readings would be kept"
            " for ever",
            where,
            expected="a lower bound on its time",
            hint=f"add {absent}.t - {names[0]}.t >= -60 behind UNLESS … WHEN",
        )


def _unbounded(
    one: str, other: str, is_above: bool, is_below: bool, at: s.Position
) -> StatementError:
    kept = "so readings would be kept for ever"
    if is_below and not is_above:
        how, add = f"{other} may be any time after {one}", f"{other}.t - {one}.t <= 60"
    elif is_above and not is_below:
        how, add = f"{other} may be any time before {one}", f"{other}.t - {one}.t >= -60"
    else:
        how, add = f"{one} and {other} may be any time apart", f"{other}.t - {one}.t IN [0, 60]"
    return wrong(f"{how}, {kept}", at, hint=f"add {add} or WITHIN '1 minute'")


def _reached(query: Query) -> list[list[bool]]:
    """Whose time is bounded from above by whose, whatever the rows of tables are."""
    trigger = trigger_of(query)
    roles, is_time = trigger.roles, is_time_of(query)
    reached = [[i == j for j in range(roles)] for i in range(roles)]
    for a in range(trigger.variables):
        for b in range(trigger.variables):
            reached[a][b] |= trigger.within is not None
    for members in trigger.sets:
        for a, b in itertools.pairwise(members):
            reached[b][a] = True
    conditions = [(c, False) for c in trigger.conditions]
    conditions += [(c, True) for c in trigger.absence or ()]
    for condition, is_absence in conditions:
        if is_absence and trigger.variables not in sources_of(condition):
            continue
        bounds = time_bounds.time_bounds(condition, is_time, roles)
        for bound in bounds or time_bounds.hull(condition, is_time, roles):
            reached[bound.first][bound.second] = True
    for k in range(trigger.variables):  # what UNLESS needs bounds nobody else
        for i in range(roles):
            for j in range(roles):
                reached[i][j] |= reached[i][k] and reached[k][j]
    return reached
