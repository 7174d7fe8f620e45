"""Combinations of elements on their way through a join: they grow by one source after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.approach_sides import Horizon
from place.engine.columns import Columns, Dictionary
from place.engine.elements import ALWAYS, Changed, Elements, Face
from place.engine.operators.contract import NEVER
from place.engine.sides import (
    JoinSides,
    SideBoxes,
    SidePoints,
    boxes_of_rows,
    points_of,
)
from place.engine.vector import holds
from place.kernels.arrays import Floats, Longs
from place.kernels.box_join import join_boxes
from place.model import deadline
from place.plan.expression import Expression, conjunction, sources_of

FEW = 64
"""Up to so many combinations look through all elements, without an index."""
MOST_AT_ONCE = 1 << 22
"""So many combinations are asked at once where no side tells which of them can fit."""


@dataclass(frozen=True)
class Step:
    """One more source: by which sides it is found, through which of its faces, and what is asked
    then. `asked` are all conditions that can be asked now; boxes decide some of them."""

    source: int
    sides: JoinSides
    face: int
    asked: tuple[Expression, ...]

    @property
    def undecided(self) -> tuple[Expression, ...]:
        return tuple(c for c in self.asked if c not in self.sides.decided)


@dataclass
class Combinations:
    """Elements of several sources beside each other, and from when to when all of them are there.

    `ids` are those of `Elements.pick`, None for sources that are not there yet. Combinations with
    the same `names` look the same to everybody above the join; they are None where nobody has to
    tell combinations apart.
    """

    ids: list[Longs | None]
    names: list[Longs | None]
    starts: Longs
    ends: Longs

    def __len__(self) -> int:
        return len(self.starts)

    @staticmethod
    def of_changed(width: int, source: int, some: Changed) -> Combinations:
        """The changed elements of one source."""
        made = Combinations([None] * width, [None] * width, some.starts, some.ends)
        made.ids[source], made.names[source] = some.ids, some.names
        return made

    @staticmethod
    def of_standing(width: int, source: int, numbers: Longs, names: Longs) -> Combinations:
        """Elements of one source that stand."""
        count = len(numbers)
        made = Combinations(
            [None] * width, [None] * width, np.full(count, ALWAYS), np.full(count, NEVER)
        )
        made.ids[source], made.names[source] = ~numbers, names
        return made

    @staticmethod
    def none(width: int, sources: Sequence[int]) -> Combinations:
        """No combinations of some sources."""
        nothing = np.empty(0, np.int64)
        known = [nothing if i in sources else None for i in range(width)]
        return Combinations(list(known), list(known), nothing, nothing)

    def take(self, chosen: Longs) -> Combinations:
        """Some of them."""
        return Combinations(
            [None if ids is None else ids[chosen] for ids in self.ids],
            [None if names is None else names[chosen] for names in self.names],
            self.starts[chosen],
            self.ends[chosen],
        )

    def beside(self, source: int, number: int) -> Combinations:
        """All of them with one element more that stands."""
        count = len(self)
        ids, names = list(self.ids), list(self.names)
        ids[source], names[source] = (np.broadcast_to(n, count) for n in (~number, number))
        return Combinations(ids, names, self.starts, self.ends)

    @staticmethod
    def joined(parts: Sequence[Combinations]) -> Combinations:
        """Several, one after the other."""
        if len(parts) == 1:
            return parts[0]

        def both(columns: Sequence[Longs | None]) -> Longs | None:
            some = [column for column in columns if column is not None]
            return np.concatenate(some) if len(some) == len(columns) else None

        return Combinations(
            [both(ids) for ids in zip(*(part.ids for part in parts), strict=True)],
            [both(names) for names in zip(*(part.names for part in parts), strict=True)],
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
        )


@dataclass(frozen=True)
class Partners:
    """The elements of a source that combinations may be extended by: what they are in a face, their
    ids and names, and from when to when they are there (None: all the time)."""

    arrays: tuple[Floats, ...]
    is_exact: bool
    ids: Longs | None
    names: Longs | None
    starts: Longs | None = None
    ends: Longs | None = None

    @staticmethod
    def standing(elements: Elements, face: Face, frontier: int) -> Partners:
        """The elements that stand, for so many combinations.

        A few of these meet the arrays as they are; for more, or where no side tells the elements
        apart, it pays to leave out where none stands.
        """
        if face.width and frontier <= FEW:
            return Partners(face.arrays, face.is_exact, None, None)
        numbers = elements.standing()
        return Partners(face.at(numbers), face.is_exact, ~numbers, elements.names(numbers))

    @staticmethod
    def changed(some: Changed, number: int, face: Face, *, timed: bool) -> Partners:
        """Elements that begin or end within the tick, as they are in a face of this number."""
        starts, ends = (some.starts, some.ends) if timed else (None, None)
        made = some.face(number)  # which tells whether the face is exact
        return Partners(made, face.is_exact, some.ids, some.names, starts, ends)

    def __len__(self) -> int:
        return len(self.arrays[0])


class Extender:
    """Extends combinations by the elements of one more source."""

    def __init__(
        self,
        elements: Sequence[Elements],
        dictionary: Dictionary,
        horizon: Horizon,
        method: str | None,
        threads: int,
    ) -> None:
        self._elements = elements
        self._dictionary = dictionary
        self._horizon = horizon
        self._method = method
        self._threads = threads
        self.chosen: dict[int, str] = {}
        """By source, how its elements were found last, and why."""

    def rows(self, some: Combinations, sources: frozenset[int]) -> list[Columns | None]:
        """The rows of some sources of combinations."""
        found: list[Columns | None] = []
        for i, ids in enumerate(some.ids):
            found.append(self._elements[i].pick(ids) if i in sources and ids is not None else None)
        return found

    def extend(self, some: Combinations, step: Step, partners: Partners) -> Combinations:
        """All combinations with one of the partners that fit."""
        width = step.sides.width
        bound = [i for i, ids in enumerate(some.ids) if ids is not None]
        if not len(some) or not len(partners):
            return Combinations.none(len(some.ids), [*bound, step.source])
        if width == 0 and len(some) * len(partners) > MOST_AT_ONCE:
            piece = max(1, MOST_AT_ONCE // len(partners))
            parts = [
                self._extend(some.take(np.arange(i, min(i + piece, len(some)))), step, partners)
                for i in range(0, len(some), piece)
            ]
            return Combinations.joined(parts)
        return self._extend(some, step, partners)

    def _extend(self, some: Combinations, step: Step, partners: Partners) -> Combinations:
        deadline.check()
        sides = step.sides
        read = frozenset(
            source
            for part in sides.parts
            for expression in (part.of_point if sides.new_is_box else part.of_box)
            for source in sources_of(expression)
        )
        rows = self.rows(some, read)
        own: SidePoints | SideBoxes
        if sides.new_is_box:
            own = points_of(sides, rows, len(some), self._dictionary, self._horizon)
            place, (low, high) = own.places, partners.arrays
        else:
            own = boxes_of_rows(sides, rows, len(some), self._dictionary, self._horizon)
            (place,), low, high = partners.arrays, own.low, own.high
        is_exact = own.is_exact and partners.is_exact
        if partners.starts is not None and partners.ends is not None:
            mine, others = (some.starts, some.ends), (partners.starts, partners.ends)
            first, second = (mine, others) if sides.new_is_box else (others, mine)
            place, low, high = _with_times(place, low, high, first, second)
        found = join_boxes(place, low, high, self._method, self._threads)
        self.chosen[step.source] = f"{found.method}: {found.reason}"
        at, other = found.points.astype(np.int64), found.boxes.astype(np.int64)
        if not sides.new_is_box:
            at, other = other, at
        ids = ~other if partners.ids is None else partners.ids[other]
        if partners.names is None:
            names = self._elements[step.source].names(other)
        else:
            names = partners.names[other]
        made = some.take(at)
        made.ids[step.source], made.names[step.source] = ids, names
        if partners.starts is not None and partners.ends is not None:
            made.starts = np.maximum(made.starts, partners.starts[other])
            made.ends = np.minimum(made.ends, partners.ends[other])
        condition = conjunction(step.undecided if is_exact else step.asked)
        return made if condition is None else self.chosen_by(condition, made)

    def chosen_by(self, condition: Expression, some: Combinations) -> Combinations:
        """The combinations for which a condition holds."""
        if not len(some):
            return some
        rows = self.rows(some, sources_of(condition))
        return some.take(np.flatnonzero(holds(condition, rows, len(some), self._dictionary)))


def _with_times(
    place: Floats,
    low: Floats,
    high: Floats,
    points: tuple[Longs, Longs],
    boxes: tuple[Longs, Longs],
) -> tuple[Floats, Floats, Floats]:
    """Two more sides: that both are there at the same time. Instants are counted by their order,
    so that numbers tell them apart."""
    known = np.unique(np.concatenate([*points, *boxes]))
    starts, ends = (np.searchsorted(known, part).astype(np.float64) for part in points)
    from_, until = (np.searchsorted(known, part).astype(np.float64) for part in boxes)
    nothing = np.full(len(from_), np.inf)
    return (
        np.column_stack([place, starts, ends]),
        np.column_stack([low, -nothing, from_ + 1]),
        np.column_stack([high, until - 1, nothing]),
    )
