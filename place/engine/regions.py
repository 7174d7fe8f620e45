"""The regions of a cell that meet one relation by the same columns: arrays, a row for each box.

A region's rows have one owner: the plan, and the row of its query table. Before and now stand side
by side for the length of an instant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.kernels import inside
from place.kernels.bulk import SIMPLE, TOUCHED, WATCHED

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass
class State:
    """What regions are at one time: boxes, numbers of the exact test, focal objects (or −1)."""

    boxes: Floats
    kinds: NDArray[np.uint8]
    params: Floats
    focals: Numbers

    @staticmethod
    def nowhere(boxes: Floats) -> State:
        size = len(boxes)
        return State(
            boxes,
            np.full(size, inside.RECTANGLE, np.uint8),
            np.full((size, 4), np.nan),
            np.full(size, -1, np.int64),
        )

    def clear(self, rows: Numbers) -> None:
        """These regions are nowhere."""
        self.boxes[rows] = np.nan
        self.params[rows] = np.nan
        self.kinds[rows] = inside.RECTANGLE
        self.focals[rows] = -1

    def extend(self, boxes: Floats) -> State:
        """The same with room for more; the boxes are those given."""
        rest = State.nowhere(boxes[len(self.kinds) :])
        return State(
            boxes,
            np.concatenate([self.kinds, rest.kinds]),
            np.concatenate([self.params, rest.params]),
            np.concatenate([self.focals, rest.focals]),
        )

    def take_over(self, other: State, rows: Numbers | slice) -> None:
        """Become what another is, at these rows."""
        self.boxes[rows] = other.boxes[rows]
        self.kinds[rows] = other.kinds[rows]
        self.params[rows] = other.params[rows]
        self.focals[rows] = other.focals[rows]


class Regions:
    """Growing arrays of regions; a freed row is used again after its instant."""

    def __init__(self) -> None:
        self.plan = np.full(16, -1, np.int64)
        self.owner = np.full(16, -1, np.int64)
        self.extents = np.full((16, 2), np.nan)
        self.modes = np.zeros(16, np.uint8)
        self.boxes = np.full((16, 8), np.nan)
        """The boxes now and before, side by side, as the join reads them."""
        self.now = State.nowhere(self.boxes[:, :4])
        self.before = State.nowhere(self.boxes[:, 4:])
        self.changed = np.zeros(16, np.bool_)
        self._any_changed = False
        self.size = 0
        self._free: list[int] = []
        self._freed: list[int] = []

    def begin(self) -> None:
        """An instant begins: what is now, is before."""
        if self._any_changed:
            rows = np.flatnonzero(self.changed[: self.size])
            most = 2 * len(rows) > self.size
            self.before.take_over(self.now, slice(self.size) if most else rows)
            self.changed[: self.size] = False
            self._any_changed = False
        self._free += self._freed
        self._freed = []

    def touch(self, rows: Numbers) -> None:
        """These rows change at this instant."""
        self.changed[rows] = True
        self._any_changed = True

    def add(self, plan: int, owners: Numbers, fan: int, simple: bool, watches: bool) -> Numbers:
        """Rows for the boxes of new regions (owners × fan); they were nowhere before."""
        count = len(owners) * fan
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = np.arange(self.size, self.size + count - len(reused))
        self._reserve(self.size + len(fresh))
        self.size += len(fresh)
        rows = np.concatenate([np.array(reused, np.int64), fresh]).astype(np.int64)
        self.touch(rows)
        self.before.clear(rows)
        self.now.clear(rows)
        self.plan[rows] = plan
        self.owner[rows] = np.repeat(owners, fan)
        self.extents[rows] = np.nan
        alone = SIMPLE if not watches else WATCHED
        self.modes[rows] = alone if simple and fan == 1 else TOUCHED
        return rows

    def move(self, rows: Numbers, to: Regions, simple: bool, watches: bool) -> None:
        """Keep these regions elsewhere from now on, as they are; nothing changes by that."""
        owners = self.owner[rows]
        fan = len(rows) // max(1, len(np.unique(owners)))
        new = to.add(int(self.plan[rows[0]]), np.unique(owners), fan, simple, watches)
        order = np.argsort(owners, kind="stable")
        to.extents[new] = self.extents[rows[order]]
        for mine, other in ((self.now, to.now), (self.now, to.before)):
            other.boxes[new] = mine.boxes[rows[order]]
            other.kinds[new] = mine.kinds[rows[order]]
            other.params[new] = mine.params[rows[order]]
            other.focals[new] = mine.focals[rows[order]]
        to.changed[new] = False
        self.now.clear(rows)
        self.before.clear(rows)
        self.changed[rows] = False
        self._freed += rows.tolist()
        self.forget()

    def remove(self, rows: Numbers) -> None:
        """These regions are nowhere from now on; their rows are free after the instant."""
        self.touch(rows)
        self.now.clear(rows)
        self._freed += rows.tolist()

    def grouped(self, rows: Numbers) -> Numbers:
        """The rows so that those of one owner stand together, owners in ascending order."""
        return rows[np.lexsort((rows, self.owner[rows], self.plan[rows]))]

    def rows_of(self, plan: int) -> Numbers:
        """The rows of a plan."""
        return np.flatnonzero(self.plan[: self.size] == plan)

    def replaced_polygons(self) -> set[int]:
        """The numbers of the polygons that rows held before the instant and hold no more."""
        if not self._any_changed:
            return set()
        held = []
        for state in (self.before, self.now):
            kinds = state.kinds[: self.size]
            rows = (kinds == inside.POLYGON) | (kinds == inside.SPHERE_POLYGON)
            held.append(
                set(state.params[: self.size][rows & self.changed[: self.size], 0].tolist())
            )
        return {int(number) for number in held[0] - held[1]}

    def forget(self) -> None:
        """The instant is over: freed rows belong to nobody."""
        if self._freed:
            self.plan[self._freed] = -1
            self.modes[self._freed] = SIMPLE

    def _reserve(self, size: int) -> None:
        capacity = len(self.plan)
        if size <= capacity:
            return
        more = max(size, 2 * capacity) - capacity
        self.plan = _longer(self.plan, more, -1)
        self.owner = _longer(self.owner, more, -1)
        self.extents = _longer(self.extents, more, np.nan)
        self.modes = _longer(self.modes, more, 0)
        self.changed = _longer(self.changed, more, False)
        self.boxes = _longer(self.boxes, more, np.nan)
        self.now = self.now.extend(self.boxes[:, :4])
        self.before = self.before.extend(self.boxes[:, 4:])


def _longer(array: NDArray, more: int, value: object) -> NDArray:  # type: ignore[type-arg]
    shape = (more, *array.shape[1:])
    return np.concatenate([array, np.full(shape, value, array.dtype)])
