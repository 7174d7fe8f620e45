"""Objects that only move, in a join by DISTANCE: their places before and after are compared.

Where most objects move a little, most pairs that are near stay near. Looking for all pairs before
an instant and for all after it, and leaving out what is in both, would find each of them twice; a
comparison of old and new places finds those alone that change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.combinations import Combinations
from place.engine.elements import ALWAYS, Changed, Elements
from place.engine.join_plan import JoinPlan
from place.engine.operator_specs import StreamJoinSpec
from place.engine.operators.contract import NEVER
from place.engine.sides import NearSides, places_of
from place.kernels.arrays import Bools, Floats, Ints, Longs
from place.kernels.near_changes import near_changes, reach_of
from place.model.schema import Stream
from place.model.space import Space
from place.plan.expression import (
    Column,
    Compare,
    Constant,
    Distance,
    Expression,
    columns_of,
    substitute,
)

FEW = 512
"""So many objects that only move are worth a comparison of all places."""

Place = tuple[Expression, Expression]


@dataclass(frozen=True)
class Moves:
    """Of one source, the changed elements that only move: where each is in the list of changes as
    it ends, and as it begins anew; and which elements of that list are among them."""

    ends: Longs
    begins: Longs
    is_moved: Bools

    @staticmethod
    def of(some: Changed, at: int) -> Moves:
        """The elements that end at an instant and begin at it under the same name."""
        ending = np.flatnonzero((some.starts < at) & (some.ends == at))
        starting = np.flatnonzero(some.starts == at)
        is_moved = np.zeros(len(some), np.bool_)
        if not len(ending) or not len(starting):
            return Moves(ending[:0], starting[:0], is_moved)
        places = np.full(int(some.names[ending].max()) + 1, -1)
        places[some.names[ending]] = ending
        names = some.names[starting]
        known = np.flatnonzero(names < len(places))
        known = known[places[names[known]] >= 0]
        begins, ends = starting[known], places[names[known]]
        is_moved[begins] = is_moved[ends] = True
        return Moves(ends, begins, is_moved)


class NearMoves:
    """The comparison of places, for a join that it serves."""

    def __init__(
        self,
        near: NearSides,
        places: tuple[Place, Place],
        *,
        closed: bool,
        others: tuple[Expression, ...],
        dictionary: Dictionary,
        threads: int,
    ) -> None:
        assert isinstance(near.radius, Constant)
        self._sphere = near.space is Space.WGS84
        length = float(near.radius.value)  # type: ignore[arg-type]
        self._reach = reach_of(length, closed=closed, sphere=self._sphere)
        self._space = near.space
        self._places = places
        self.others = others
        """What else is asked of pairs."""
        self._dictionary = dictionary
        self._threads = threads

    @staticmethod
    def of(
        spec: StreamJoinSpec, plan: JoinPlan, dictionary: Dictionary, threads: int
    ) -> NearMoves | None:
        """The comparison for a join of two streams by DISTANCE, whatever else it asks of columns
        that are shown; None for other joins."""
        moving = [isinstance(s.relation, Stream) and s.window is None for s in spec.sources]
        if moving != [True, True] or spec.rank is not None or plan.last.asked:
            return None
        if spec.area is not None and spec.area.focal is not None:
            return None
        step = plan.steps[0][0]
        near = [part for part in step.sides.parts if isinstance(part, NearSides)]
        asked = [c for c in step.asked if _is_near(c)]
        others = tuple(c for c in step.asked if not _is_near(c))
        if len(near) != 1 or len(asked) != 1 or not _is_length(near[0].radius):
            return None
        shown = {(i, column) for i, columns in enumerate(spec.shown) for column in columns}
        if any((c.source, c.index) not in shown for other in others for c in columns_of(other)):
            return None
        condition = asked[0]
        assert isinstance(condition, Compare)
        places = near[0].point, near[0].box
        first, second = places if step.sides.new_is_box else places[::-1]
        return NearMoves(
            near[0],
            (first, second),
            closed="=" in condition.op,
            others=others,
            dictionary=dictionary,
            threads=threads,
        )

    def changes(
        self, elements: Sequence[Elements], changed: Sequence[Changed], moves: Sequence[Moves]
    ) -> tuple[Combinations, Combinations]:
        """The pairs that are near no more, and those that have come near, of elements that only
        move and of elements that stand."""
        first = self._list(0, elements[0], changed[0], moves[0])
        same = elements[0] is elements[1] and self._is_one_place
        other = first if same else self._list(1, elements[1], changed[1], moves[1])
        old_ids, ids, names, moved, before, after = first
        found = near_changes(
            (before, other[4]), (after, other[5]), (moved, other[3]), self._reach, self._threads
        )
        left = _pairs(old_ids, other[0], names, other[2], found.left)
        return left, _pairs(ids, other[1], names, other[2], found.came)

    def _list(
        self, source: int, elements: Elements, some: Changed, moves: Moves
    ) -> tuple[Longs, Longs, Longs, Bools, Floats, Floats]:
        """Elements that move, then those that stand: ids before and after, names, which of them
        moved, and places before and after."""
        standing = elements.standing()
        ids, old_ids = some.ids[moves.begins], some.ids[moves.ends]
        names = np.concatenate([some.names[moves.begins], elements.names(standing)])
        moved = np.zeros(len(names), np.bool_)
        moved[: len(ids)] = True
        still = self._points(source, elements.pick(~standing), len(standing))
        before = self._points(source, elements.pick(old_ids), len(old_ids))
        after = self._points(source, elements.pick(ids), len(ids))
        return (
            np.concatenate([old_ids, ~standing]),
            np.concatenate([ids, ~standing]),
            names,
            moved,
            np.concatenate([before, still]) if len(still) else before,
            np.concatenate([after, still]) if len(still) else after,
        )

    def _points(self, source: int, rows: Columns, size: int) -> Floats:
        """Where rows are, as three numbers."""
        beside: list[Columns | None] = [None, None]
        beside[source] = rows
        points = np.zeros((size, 3))
        found = places_of(self._space, self._places[source], beside, size, self._dictionary)
        for axis, numbers in enumerate(found):
            points[:, axis] = numbers
        points[np.isnan(points[:, :2]).any(axis=1)] = np.nan
        return points

    @property
    def _is_one_place(self) -> bool:
        """Is the place of an element the same on both sides?"""
        return _as_first(self._places[0]) == _as_first(self._places[1])


def _is_near(condition: Expression) -> bool:
    """Is it a comparison of a DISTANCE with something that is at least as far?"""
    if not isinstance(condition, Compare):
        return False
    if isinstance(condition.left, Distance):
        return condition.op in ("<", "<=")
    return isinstance(condition.right, Distance) and condition.op in (">", ">=")


def _is_length(radius: Expression) -> bool:
    is_number = isinstance(radius, Constant) and isinstance(radius.value, int | float)
    return is_number and radius.value >= 0  # type: ignore[union-attr,operator]


def _as_first(place: Place) -> tuple[Expression, ...]:
    """The expressions of a place as if they were of the first source."""
    return tuple(substitute(part, lambda c: Column(0, c.index, c.type, "")) for part in place)


def _pairs(
    ids: Longs, others: Longs, names: Longs, other_names: Longs, found: tuple[Ints, Ints]
) -> Combinations:
    first, second = (part.astype(np.int64) for part in found)
    count = len(first)
    return Combinations(
        [ids[first], others[second], None],
        [names[first], other_names[second], None],
        np.full(count, ALWAYS),
        np.full(count, NEVER),
    )
