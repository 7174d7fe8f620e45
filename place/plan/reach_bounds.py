"""What conditions say of the DISTANCE of two variables, and all that follows from it.

Two readings that are both near a third one are near each other, and what is far from one of two
neighbours is not near the other one: the triangle inequality, in the plane and along great circles.
Computed distances are rounded, so what is inferred is a little wider than what follows exactly: a
bound that was inferred never excludes what the conditions let through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from place.model.space import Space
from place.model.types import Row
from place.plan.evaluate import evaluate
from place.plan.expression import Column, Compare, Distance, Expression, sources_of
from place.plan.trigger import ANYWHERE, Reach

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
PADDING = 1e-9
"""By how much of itself a bound that was inferred is wider."""
SMALL = {Space.PLANAR: 1e-150, Space.WGS84: 1e-6}
"""By how much a bound is wider at least: squares of tiny numbers vanish, and so do the last digits
of an angle."""
FAR = 15_000_000.0
"""Metres on the sphere beyond which nothing is inferred: next to the antipode the arcsine is too
steep."""

Reaches = list[list[Reach]]


@dataclass(frozen=True)
class DistanceBound:
    """`DISTANCE(first, second) op bound`, where the bound reads no variable."""

    first: int
    second: int
    op: str
    bound: Expression
    space: Space

    def reach(self, rows: Sequence[Row]) -> Reach | None:
        """What it says for given rows of the tables; None where it is NULL."""
        value = evaluate(self.bound, rows)
        if value is None:
            return None
        limit, is_open = float(value), self.op in ("<", ">")
        least, most = ANYWHERE.least, ANYWHERE.most
        if self.op in (">", ">=", "="):
            least = limit
        if self.op in ("<", "<=", "="):
            most = limit
        return Reach(
            max(least, 0.0),
            most,
            is_open and self.op == ">" and limit >= 0,
            is_open and self.op == "<",
        )


def distance_bound(condition: Expression, roles: int) -> DistanceBound | None:
    """The bound that a condition is; None of a condition that is no bound on a distance."""
    if not isinstance(condition, Compare) or condition.op not in _FLIPPED:
        return None
    sides = (
        (condition.left, str(condition.op), condition.right),
        (condition.right, _FLIPPED[condition.op], condition.left),
    )
    for one, op, other in sides:
        if not isinstance(one, Distance) or any(source < roles for source in sources_of(other)):
            continue
        first, second = _of_variable(one.ax, one.ay, roles), _of_variable(one.bx, one.by, roles)
        if first is not None and second is not None and first != second:
            return DistanceBound(first, second, op, other, one.space)
    return None


def _of_variable(x: Expression, y: Expression, roles: int) -> int | None:
    """The variable whose place this is."""
    if isinstance(x, Column) and isinstance(y, Column) and x.source == y.source < roles:
        return x.source
    return None


def says_nothing(reach: Reach) -> bool:
    """Is it true of any two places, and false only where one of them is unknown?"""
    return reach == ANYWHERE


def both(one: Reach, other: Reach) -> Reach:
    """
    >>> both(Reach(most=5.0), Reach(1.0, 5.0, most_open=True))
    Reach(least=1.0, most=5.0, least_open=False, most_open=True)
    """
    low = max((one.least, one.least_open), (other.least, other.least_open))
    high = min((one.most, not one.most_open), (other.most, not other.most_open))
    return Reach(low[0], high[0], low[1], not high[1])


def is_empty(reach: Reach) -> bool:
    """Can no distance be so?"""
    if reach.least == reach.most:
        return reach.least_open or reach.most_open
    return reach.least > reach.most


def closed(reaches: Reaches, space: Space, size: int | None = None) -> Reaches:
    """What follows from reaches: shortest ways from above, and from below what is left of a way.

    With a `size`, only places below it are on the way: what the variable of UNLESS needs says
    nothing of the others.
    """
    count = len(reaches)
    middle = range(count if size is None else size)
    most = [[0.0 if i == j else reaches[i][j].most for j in range(count)] for i in range(count)]
    for k in middle:
        for i in range(count):
            if most[i][k] == math.inf:
                continue
            for j in range(count):
                most[i][j] = min(most[i][j], most[i][k] + most[k][j])
    found = [list(row) for row in reaches]
    for i in range(count):
        for j in range(count):
            if i != j:
                found[i][j] = _tightened(found[i][j], _padded(most[i][j], space), -math.inf)
    lows = [
        (a, b, reaches[a][b].least)
        for a in range(count)
        for b in range(count)
        if a != b and reaches[a][b].least > 0
    ]
    for a, b, least in lows:
        for i in range(count):
            for j in range(count):
                ways = most[a][i] + most[j][b]
                is_own = size is not None and (max(a, b) >= size > max(i, j))
                if i != j and (i, j) != (a, b) and ways < math.inf and not is_own:
                    slack = (least + ways) * PADDING + SMALL[space]
                    is_near = space is Space.PLANAR or least + ways <= FAR
                    low = least - ways - slack if is_near else -math.inf
                    found[i][j] = _tightened(found[i][j], math.inf, low)
                    found[j][i] = _tightened(found[j][i], math.inf, low)
    return found


def _padded(most: float, space: Space) -> float:
    if space is Space.WGS84 and most > FAR:
        return math.inf
    return most * (1 + PADDING) + SMALL[space]


def _tightened(reach: Reach, most: float, least: float) -> Reach:
    """A reach with inferred bounds where they are narrower than its own."""
    if most >= reach.most and least <= reach.least:
        return reach
    high = (most, False) if most < reach.most else (reach.most, reach.most_open)
    low = (least, False) if least > reach.least else (reach.least, reach.least_open)
    return Reach(low[0], high[0], low[1], high[1])
