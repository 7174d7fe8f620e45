"""Objects that only move, in a join by DISTANCE: their places before and after are compared.

Where most objects move a little, most pairs that are near stay near. Looking for all pairs before
an instant and for all after it, and leaving out what is in both, would find each of them twice; a
comparison of old and new places finds those alone that change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.combinations import Combinations
from place.engine.elements import ALWAYS, Changed, Elements
from place.engine.join_plan import JoinPlan
from place.engine.operator_specs import StreamJoinSpec
from place.engine.operators.contract import NEVER
from place.engine.sides import NearSides, places_of
from place.kernels.arrays import Bools, Floats, Ints, Longs
from place.kernels.near_changes import Pairs, near_changes, reach_of
from place.kernels.version_links import link_moves, put_in_order
from place.model.schema import Stream
from place.model.space import Space
from place.model.types import Type
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
    """What changed elements of one source do at an instant, by where they are in the list of
    changes: those that only move end and begin anew, `stays` are there before and after it.
    `others` counts those that begin or end otherwise."""

    ends: Longs
    begins: Longs
    stays: Longs
    is_moved: Bools
    others: int

    @staticmethod
    def of(some: Changed, at: int) -> Moves:
        """What happens at an instant; to move is to end at it and to begin anew under the same
        name."""
        largest = int(some.names.max()) if len(some) else 0
        return Moves(*link_moves(some.names, some.starts, some.ends, at, largest))


@dataclass(frozen=True)
class _Steps:
    """Elements of a source, with the ids that each has before and after an instant, and with its
    places after and before."""

    old_ids: Longs
    ids: Longs
    points: Floats


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
        self._read = [
            sorted({c.index for part in place for c in columns_of(part)}) for place in places
        ]
        self._places = [
            _renumbered(place, read) for place, read in zip(places, self._read, strict=True)
        ]
        self._is_one_place = _as_first(places[0]) == _as_first(places[1])
        self._others = others
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
    ) -> tuple[Combinations, Combinations, tuple[Expression, ...]]:
        """The pairs that are near no more, and those that have come near, of elements that only
        move and of elements that stay; and what has still to be asked of them."""
        one = self._steps(0, elements[0], changed[0], moves[0])
        is_self = elements[0] is elements[1] and self._is_one_place
        other = one if is_self else self._steps(1, elements[1], changed[1], moves[1])
        found = near_changes(one.points, other.points, self._reach, self._threads)
        if not is_self:
            left = _pairs(one.old_ids, other.old_ids, *found.left)
            return left, _pairs(one.ids, other.ids, *found.came), self._others
        order = next((c for c in self._others if _is_order(c)), None)
        told = []
        for ids, pairs in ((one.old_ids, found.left), (one.ids, found.came)):
            both = self._both_ways(elements[0], ids, pairs, order)
            told.append(_pairs(ids, ids, *both))
        return told[0], told[1], tuple(c for c in self._others if c is not order)

    def _both_ways(
        self, elements: Elements, ids: Longs, pairs: Pairs, order: Expression | None
    ) -> tuple[Longs, Longs] | Pairs:
        """Pairs of one list as the join asks for them: each both ways, or the lesser first."""
        if order is None:
            first, second = pairs
            return np.concatenate([first, second]), np.concatenate([second, first])
        assert isinstance(order, Compare)
        assert isinstance(order.left, Column)
        rows = elements.pick(ids, (order.left.index,))
        found: tuple[Longs, Longs] = put_in_order(*pairs, rows.values[0], rows.nulls[0])
        lesser, greater = found
        is_first = (order.op == "<") == (order.left.source == 0)
        return (lesser, greater) if is_first else (greater, lesser)

    def _steps(self, source: int, elements: Elements, some: Changed, moves: Moves) -> _Steps:
        """Elements that move, and after them those that stay."""
        standing = elements.standing()
        stays = np.concatenate([some.ids[moves.stays], ~standing])
        ids, old_ids = some.ids[moves.begins], some.ids[moves.ends]
        axes, count = 3 if self._sphere else 2, len(ids)
        points = np.empty((2 * axes, count + len(stays)))
        self._place(source, elements, ids, points[:axes, :count])
        self._place(source, elements, old_ids, points[axes:, :count])
        if len(stays):
            self._place(source, elements, stays, points[:axes, count:])
            points[axes:, count:] = points[:axes, count:]
            ids, old_ids = np.concatenate([ids, stays]), np.concatenate([old_ids, stays])
        return _Steps(old_ids, ids, points)

    def _place(self, source: int, elements: Elements, ids: Longs, points: Floats) -> None:
        """Write down where elements are."""
        beside: list[Columns | None] = [None, None]
        beside[source] = rows = elements.pick(ids, self._read[source])
        points[:] = places_of(self._space, self._places[source], beside, len(ids), self._dictionary)
        if any(nulls.any() for nulls in rows.nulls):
            points[:, np.isnan(points).any(axis=0)] = np.nan


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


def _is_order(condition: Expression) -> bool:
    """Does it put two elements of one list in order, by a column whose numbers have that order?"""
    if not isinstance(condition, Compare) or condition.op not in ("<", ">"):
        return False
    left, right = condition.left, condition.right
    return (
        isinstance(left, Column)
        and isinstance(right, Column)
        and left.source != right.source
        and left.index == right.index
        and left.type is right.type
        and left.type is not Type.STRING
    )


def _renumbered(place: Place, read: Sequence[int]) -> Place:
    """A place over just the columns that it reads."""
    x, y = (substitute(part, lambda c: replace(c, index=read.index(c.index))) for part in place)
    return x, y


def _as_first(place: Place) -> tuple[Expression, ...]:
    """The expressions of a place as if they were of the first source."""
    return tuple(substitute(part, lambda c: Column(0, c.index, c.type, "")) for part in place)


def _pairs(ids: Longs, other_ids: Longs, one: Longs | Ints, other: Longs | Ints) -> Combinations:
    always, never = (np.broadcast_to(instant, len(one)) for instant in (ALWAYS, NEVER))
    return Combinations([ids[one], other_ids[other], None], [None] * 3, always, never)
