"""In which order the sources of a join are met, and by which sides.

There is an order for each source whose elements may change: it begins with that source, and goes on
with whichever source the conditions tie most closely to what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from place.engine.approach_sides import Horizon
from place.engine.columns import Dictionary
from place.engine.combinations import Step
from place.engine.elements import Face
from place.engine.operator_specs import StreamJoinSpec
from place.engine.shared_conditions import SharedConditions
from place.engine.sides import JoinSides, sides_of
from place.plan.expression import Expression, sources_of, substitute


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

    @property
    def ahead(self) -> int:
        """The longest time that ways are followed ahead; 0 without ways."""
        return max((step.sides.ahead for order in self.steps for step in order), default=0)

    def follows_ways_to(self, source: int) -> bool:
        """Are the elements of a source found by their ways?"""
        return any(
            step.source == source and step.sides.ahead for order in self.steps for step in order
        )


def twins_of(spec: StreamJoinSpec, shared: SharedConditions, *, is_whole: bool) -> tuple[int, ...]:
    """For each source the first one whose elements are the same: a stream beside itself, of whose
    objects the same is asked and shown on both sides. `is_whole` says that no source is spread over
    several rows of cells."""
    alone = _alone(spec.width, shared)
    known: dict[object, int] = {}
    found = []
    for i, source in enumerate(spec.sources):
        asked = tuple(substitute(c, lambda c: replace(c, source=0, name="")) for c in alone[i])
        is_subject = spec.area is not None and spec.area.subject == i
        key: object = (source.relation, spec.needed[i], spec.shown[i], asked)
        is_part = source.is_spread and not is_whole
        if source.window is not None or is_part or is_subject:
            key = i
        found.append(known.setdefault(key, i))
    return tuple(found)


def _alone(width: int, shared: SharedConditions) -> tuple[tuple[Expression, ...], ...]:
    """What is asked of each source alone."""
    conditions = [*shared.alike, *shared.widest]
    return tuple(
        tuple(c for c in conditions if sources_of(c) == {i} or (i == 0 and not sources_of(c)))
        for i in range(width)
    )


def plan_join(
    width: int,
    shared: SharedConditions,
    twins: Sequence[int],
    dictionary: Dictionary,
    horizon: Horizon,
) -> JoinPlan:
    """The orders of a join of `width` sources; those that are twins have the same faces."""
    conditions = [*shared.alike, *shared.widest]
    alone = _alone(width, shared)
    between = [c for c in conditions if len(sources_of(c)) > 1]
    own: list[list[Face]] = [[] for _ in range(width + 1)]
    faces = tuple(own[twin] for twin in (*twins, width))

    def step(sides: JoinSides, source: int, asked: Sequence[Expression]) -> Step:
        mine = faces[source]
        face = Face(sides, source, sides.new_is_box, sides.width, width + 1, dictionary, horizon)
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


def _strength(sides: JoinSides) -> tuple[bool, bool, int]:
    """How closely sides tie a source to what is there."""
    return sides.has_equality, sides.is_near, len(sides.parts)
