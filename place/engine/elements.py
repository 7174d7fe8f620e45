"""The elements of one source of a join: rows of a table, objects now, or readings in a window.

A source gives its elements to a tick in two parts. Those that stand, from before the tick to after
it, are kept in arrays (`Face`) that joins can be asked of as they are. Those that change, because
they begin or end within the tick, come as a list (`Changed`), each with the instants from which and
until which it is there. Faces are made when somebody looks: where all objects move and only their
places are compared, nobody does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from place.engine.approach_sides import Horizon
from place.engine.columns import Columns, Dictionary
from place.engine.multiset import longer
from place.engine.operators.contract import NEVER
from place.engine.sides import JoinSides, boxes_of_rows, points_of
from place.engine.tick import Tick
from place.kernels.arrays import Bools, Floats, Longs
from place.model.schema import Column
from place.model.types import Type

NONE = np.empty(0, np.int64)
ALWAYS = -NEVER
"""The instant from which an element is there that was there before the tick."""

Passes = Callable[[Columns], Bools]
"""Which rows pass what is asked of a source alone."""
Made = tuple[Floats, ...]
"""What elements are in a face: points, or the lower and upper corners of boxes."""


@dataclass
class Face:
    """The elements of a source as one join sees them: points, or boxes, by the number of the
    element. Where there is none, a NaN meets nothing."""

    sides: JoinSides
    source: int
    is_box: bool
    width: int
    sources: int
    dictionary: Dictionary
    horizon: Horizon
    is_exact: bool = True
    arrays: Made = ()

    def __post_init__(self) -> None:
        self.clear_all()

    def clear_all(self) -> None:
        """No element stands."""
        self.arrays = tuple(np.full((16, self.width), np.nan) for _ in range(1 + self.is_box))
        self.is_exact = True

    def made(self, rows: Columns, size: int) -> tuple[Made, bool]:
        """What rows of the source are in this face, and whether by exact numbers."""
        beside: list[Columns | None] = [None] * self.sources
        beside[self.source] = rows
        if self.is_box:
            boxes = boxes_of_rows(self.sides, beside, size, self.dictionary, self.horizon)
            return (boxes.low, boxes.high), boxes.is_exact
        points = points_of(self.sides, beside, size, self.dictionary, self.horizon)
        return (points.places,), points.is_exact

    def put(self, numbers: Longs, made: Made) -> None:
        """Elements of these numbers stand from now on."""
        if not len(numbers):
            return
        size = int(numbers.max()) + 1
        if size > len(self.arrays[0]):
            self.arrays = tuple(_more(array, size) for array in self.arrays)
        for mine, new in zip(self.arrays, made, strict=True):
            mine[numbers] = new

    def clear(self, numbers: Longs) -> None:
        """Elements of these numbers stand no more."""
        known = numbers[numbers < len(self.arrays[0])]
        for mine in self.arrays:
            mine[known] = np.nan

    def at(self, numbers: Longs) -> Made:
        """What elements that stand are in this face."""
        return tuple(array[numbers] for array in self.arrays)


def _more(array: Floats, size: int) -> Floats:
    made = np.full((max(size, 2 * len(array)), array.shape[1]), np.nan)
    made[: len(array)] = array
    return made


@dataclass
class Changed:
    """Elements that begin or end within a tick.

    `ids` say which rows they are (see `Elements.pick`). Elements of one name have the same row as
    far as anybody above can see, so that one that ends as another of its name begins is no change.
    `make` makes what they are in a face of their source, by its number.
    """

    ids: Longs
    starts: Longs
    ends: Longs
    names: Longs
    make: Callable[[int], Made]
    _made: dict[int, Made] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def face(self, number: int) -> Made:
        """What they are in a face."""
        if number not in self._made:
            self._made[number] = self.make(number)
        return self._made[number]

    def take(self, chosen: Longs) -> Changed:
        """Some of them."""
        return Changed(
            self.ids[chosen],
            self.starts[chosen],
            self.ends[chosen],
            self.names[chosen],
            lambda number: tuple(array[chosen] for array in self.face(number)),
        )


class Elements(Protocol):
    """What every kind of source gives to a join. Elements that stand have numbers from 0 on; the
    id of one that stands is `~number`."""

    faces: list[Face]

    def face(self, number: int) -> Face:
        """One of the faces, with all elements that stand."""

    def renew(self) -> None:
        """Faces have to be made anew, because the horizon is another one."""

    def load(self, passes: Passes) -> None:
        """Look at all elements anew, because other conditions are asked of them."""

    def open(self, tick: Tick) -> Changed:
        """The elements that change within a tick; they stand no more."""

    def settle(self, until: int) -> None:
        """The tick is over: what began and did not end stands."""

    def standing(self) -> Longs:
        """The numbers of the elements that stand."""

    def pick(self, ids: Longs, columns: Sequence[int] | None = None) -> Columns:
        """The rows of elements, with the columns that the join needs, or some of these."""

    def names(self, numbers: Longs) -> Longs:
        """The names of elements that stand."""

    def identity(self, ids: Longs) -> Columns:
        """A key and a number that tell elements apart, the same in every cell."""

    def next_expiry(self) -> int:
        """The next instant at which an element ends, if nothing else happens."""


def numbered(numbers: Longs, dictionary: Dictionary) -> Columns:
    """The identity of elements that have no key, only a number."""
    columns = Column("key", Type.BIGINT), Column("number", Type.BIGINT)
    made = Columns(columns, dictionary, len(numbers))
    made.values[1][:] = numbers
    for nulls in made.nulls:
        nulls[:] = False
    return made


class StandingElements(ABC):
    """Which elements stand, by number, and what faces they have."""

    def __init__(self) -> None:
        self.faces: list[Face] = []
        self._there = np.zeros(16, np.bool_)
        self._stale: list[Longs] = []
        """The numbers of elements that faces do not know to stand, or not to."""
        self._stale_count = 0

    @abstractmethod
    def pick(self, ids: Longs, columns: Sequence[int] | None = None) -> Columns:
        """The rows of elements."""

    def face(self, number: int) -> Face:
        """One of the faces, with all elements that stand."""
        if self._stale:
            numbers = np.concatenate(self._stale)
            stands = self.is_standing(numbers)
            standing, fallen = numbers[stands], numbers[~stands]
            made = [self._made(~standing, i) for i in range(len(self.faces))]
            for face, arrays in zip(self.faces, made, strict=True):
                face.clear(fallen)
                face.put(standing, arrays)
            self._stale, self._stale_count = [], 0
        return self.faces[number]

    def renew(self) -> None:
        """Faces have to be made anew, because the horizon is another one."""
        self._stale, self._stale_count = [], 0
        self._touch(self.standing())
        for face in self.faces:
            face.clear_all()

    def _touch(self, numbers: Longs) -> None:
        self._stale.append(numbers)
        self._stale_count += len(numbers)
        if self._stale_count > 2 * len(self._there):
            touched = np.zeros(len(self._there), np.bool_)
            for part in self._stale:
                touched[part] = True
            self._stale = [np.flatnonzero(touched)]
            self._stale_count = len(self._stale[0])

    def _stand(self, numbers: Longs) -> None:
        if len(numbers):
            self._there = longer(self._there, int(numbers.max()) + 1)
            self._there[numbers] = True
            self._touch(numbers)

    def _fall(self, numbers: Longs) -> None:
        known = numbers[self.is_standing(numbers)]
        if len(known):
            self._there[known] = False
            self._touch(known)

    def _fall_all(self) -> None:
        self._there = np.zeros(16, np.bool_)
        self._stale, self._stale_count = [], 0
        for face in self.faces:
            face.clear_all()

    def _made(self, ids: Longs, number: int) -> Made:
        """What elements are in a face."""
        face = self.faces[number]
        arrays, is_exact = face.made(self.pick(ids), len(ids))
        face.is_exact &= is_exact
        return arrays

    def _changed(self, ids: Longs, starts: Longs, ends: Longs, names: Longs) -> Changed:
        return Changed(ids, starts, ends, names, lambda number: self._made(ids, number))

    def standing(self) -> Longs:
        """The numbers of the elements that stand."""
        return np.flatnonzero(self._there)

    def is_standing(self, numbers: Longs) -> Bools:
        """Which of these stand."""
        if len(self._there) and (not len(numbers) or int(numbers.max()) < len(self._there)):
            found: Bools = self._there[numbers]
            return found
        found = np.zeros(len(numbers), np.bool_)
        known = numbers < len(self._there)
        found[known] = self._there[numbers[known]]
        return found
