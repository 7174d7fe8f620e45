"""In which order the sources of a join are met, and by which sides.

There is an order for each source whose elements may change: it begins with that source, and goes on
with whichever source the conditions tie most closely to what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from place.engine.columns import Dictionary
from place.engine.combinations import Step
from place.engine.elements import Face
from place.engine.shared_conditions import SharedConditions
from place.engine.sides import NearSides, Sides, sides_of
from place.plan.expression import Expression, sources_of


@dataclass(frozen=True)
class JoinPlan:
    """`steps` by the source that an order begins with, the conditions of each source `alone`, and
    the `faces` of each source; the `last` step meets the queries, a source of their own. `first` is
    where to begin if all elements are asked for."""

    first: int
    steps: tuple[tuple[Step, ...], ...]
    last: Step
    alone: tuple[tuple[Expression, ...], ...]
    faces: tuple[list[Face], ...]


def plan_join(width: int, shared: SharedConditions, dictionary: Dictionary) -> JoinPlan:
    """The orders of a join of `width` sources."""
    conditions = [*shared.alike, *shared.widest]
    alone = tuple(
        tuple(c for c in conditions if sources_of(c) == {i} or (i == 0 and not sources_of(c)))
        for i in range(width)
    )
    between = [c for c in conditions if len(sources_of(c)) > 1]
    faces: tuple[list[Face], ...] = tuple([] for _ in range(width + 1))

    def step(sides: Sides, source: int, asked: Sequence[Expression]) -> Step:
        mine = faces[source]
        face = Face(sides, source, sides.new_is_box, sides.width, width + 1, dictionary)
        mine.append(face)
        return Step(source, sides, len(mine) - 1, tuple(asked))

    steps = []
    for source in range(width):
        order: list[Step] = []
        bound, waiting = frozenset((source,)), set(range(width)) - {source}
        while waiting:
            found = {i: sides_of(between, bound, i) for i in sorted(waiting)}
            chosen = max(found, key=lambda i: (_strength(found[i]), -i))
            reached = bound | {chosen}
            asked = [c for c in between if sources_of(c) <= reached and not sources_of(c) <= bound]
            order.append(step(found[chosen], chosen, asked))
            bound, waiting = reached, waiting - {chosen}
        steps.append(tuple(order))
    sides = sides_of(shared.differing, frozenset(range(width)), width)
    last = step(sides, width, shared.differing)
    return JoinPlan(0, tuple(steps), last, alone, faces)


def _strength(sides: Sides) -> tuple[bool, bool, int]:
    """How closely sides tie a source to what is there."""
    near = any(isinstance(part, NearSides) for part in sides.parts)
    return sides.has_equality, near, len(sides.parts)
