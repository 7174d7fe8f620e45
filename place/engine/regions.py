"""The regions of a cell that meet one relation by the same columns: arrays, a row for each box.

A region belongs to a query, or to a row of the query's query table, which is called its owner. How
regions were before the present instant, and how they are at it, stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.layout import Laid
from place.kernels import inside
from place.kernels.arrays import Bytes, Floats, Longs
from place.kernels.bulk import SIMPLE, TOUCHED
from place.kernels.gather import copy_boxes


@dataclass
class Geometry:
    """What regions are at one time: boxes, numbers of the exact test, focal objects (or −1)."""

    boxes: Floats
    kinds: Bytes
    params: Floats
    focals: Longs

    @staticmethod
    def nowhere(boxes: Floats) -> Geometry:
        size = len(boxes)
        return Geometry(
            boxes,
            np.full(size, inside.RECTANGLE, np.uint8),
            np.full((size, 4), np.nan),
            np.full(size, -1, np.int64),
        )

    def clear(self, rows: Longs) -> None:
        """These regions are nowhere."""
        self.boxes[rows] = np.nan
        self.params[rows] = np.nan
        self.kinds[rows] = inside.RECTANGLE
        self.focals[rows] = -1

    def extend(self, boxes: Floats) -> Geometry:
        """The same with room for more; the boxes are those given."""
        rest = Geometry.nowhere(boxes[len(self.kinds) :])
        return Geometry(
            boxes,
            np.concatenate([self.kinds, rest.kinds]),
            np.concatenate([self.params, rest.params]),
            np.concatenate([self.focals, rest.focals]),
        )

    def take_over(self, other: Geometry, rows: Longs | slice, boxes_only: bool) -> None:
        """Become what another is, at these rows."""
        self.boxes[rows] = other.boxes[rows]
        if boxes_only:
            return
        self.kinds[rows] = other.kinds[rows]
        self.params[rows] = other.params[rows]
        self.focals[rows] = other.focals[rows]


class RegionIndex:
    """Arrays of regions that grow; a row that is freed is used again after its instant."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self.queries = np.full(16, -1, np.int64)
        self.owner = np.full(16, -1, np.int64)
        self.extents = np.full((16, 2), np.nan)
        self.modes = np.zeros(16, np.uint8)
        self.boxes = np.full((16, 8), np.nan)
        """The boxes now and before, side by side, as the join reads them."""
        self.now = Geometry.nowhere(self.boxes[:, :4])
        self.before = Geometry.nowhere(self.boxes[:, 4:])
        self.siblings = np.full(16, -1, np.int64)
        """Another row of the same region, or −1."""
        self.has_siblings = False
        """Has any row had another of the same region?"""
        self.shown = np.zeros(16, np.bool_)
        """Has this row ever had a box that holds anything?"""
        self.changed = np.zeros(16, np.bool_)
        self._any_changed = False
        self.has_moved = False
        """Has any region changed since the last tick?"""
        self.size = 0
        self._led: tuple[Longs, Longs] | None = None
        self._is_led_anew = True
        self._free: list[int] = []
        self._freed: list[int] = []

    def settle(self) -> None:
        """End an instant: what regions are now becomes what they were before, and freed rows may be
        used again."""
        if self._any_changed:
            rows = np.flatnonzero(self.changed[: self.size])
            most = 2 * len(rows) > self.size
            # Regions that are found by their boxes alone need no numbers for an exact test.
            boxes_only = not self._is_led_anew and not self.modes[: self.size].any()
            if most and boxes_only:
                copy_boxes(self.boxes, self.size, self._threads)
            else:
                self.before.take_over(self.now, slice(self.size) if most else rows, boxes_only)
            self._is_led_anew = False
            self.changed[: self.size] = False
            self._any_changed = False
        if self._freed:
            self.queries[self._freed] = -1
            self.modes[self._freed] = SIMPLE
            self._free += self._freed
            self._freed = []

    def put(self, rows: Longs, laid: Laid) -> None:
        """Regions are here now; `rows` has as many for each as it has boxes."""
        fan = laid.boxes.shape[1]
        self.touch(rows)
        self.now.kinds[rows] = np.repeat(laid.kinds, fan)
        self.now.params[rows] = np.repeat(laid.params, fan, axis=0)
        self.now.boxes[rows] = laid.boxes.reshape(-1, 4)
        self.shown[rows] |= ~np.isnan(self.now.boxes[rows, 0])

    def lead(self, rows: Longs, focals: Longs, extents: Floats) -> None:
        """The focal objects and the extents of regions that move."""
        self.now.focals[rows] = focals
        self.extents[rows] = extents
        self._led = None
        self._is_led_anew = True

    def led(self) -> tuple[Longs, Longs]:
        """The rows of regions that follow focal objects, and the numbers of these, in order."""
        if self._led is None:
            focals = self.now.focals[: self.size]
            rows = np.flatnonzero(focals >= 0)
            rows = rows[np.argsort(focals[rows], kind="stable")]
            self._led = rows, focals[rows]
        return self._led

    def touch(self, rows: Longs) -> None:
        """These rows change at this instant."""
        self.changed[rows] = True
        self._any_changed = self.has_moved = True

    def add(self, query: int, owners: Longs, fan: int, mode: int) -> Longs:
        """Rows for the boxes of new regions (owners × fan); they were nowhere before."""
        together = fan if len(owners) and (owners[0] >= 0 or fan > 1) else len(owners) * fan
        return self._added(np.full(len(owners), query), owners, fan, mode, together)

    def add_alike(self, queries: Longs, fan: int, mode: int) -> Longs:
        """Rows for the regions of queries that have one each."""
        return self._added(queries, np.full(len(queries), -1), fan, mode, fan)

    def _added(self, queries: Longs, owners: Longs, fan: int, mode: int, together: int) -> Longs:
        """Rows for new boxes, of which so many are together one region."""
        count = len(owners) * fan
        if not count:
            return np.empty(0, np.int64)
        kept = max(0, len(self._free) - count)
        reused = self._free[kept:][::-1]
        del self._free[kept:]
        fresh = np.arange(self.size, self.size + count - len(reused))
        self._reserve(self.size + len(fresh))
        self.size += len(fresh)
        rows = np.concatenate([np.array(reused, np.int64), fresh]).astype(np.int64)
        self.touch(rows)
        self._led = None
        self._is_led_anew = True
        self.before.clear(rows)
        self.now.clear(rows)
        self.queries[rows] = np.repeat(queries, fan)
        self.owner[rows] = np.repeat(owners, fan)
        self.extents[rows] = np.nan
        self.modes[rows] = mode if fan == 1 else TOUCHED
        self.siblings[rows] = -1
        self.has_siblings |= together > 1
        self.shown[rows] = False
        if together > 1:
            blocks = rows.reshape(-1, together)
            self.siblings[blocks] = np.roll(blocks, 1, axis=1)
        return rows

    def move(self, rows: Longs, to: RegionIndex, mode: int) -> None:
        """Keep these regions elsewhere from now on, as they are; nothing changes by that."""
        owners = self.owner[rows]
        fan = len(rows) // max(1, len(np.unique(owners)))
        new = to.add(int(self.queries[rows[0]]), np.unique(owners), fan, mode)
        order = np.argsort(owners, kind="stable")
        to.extents[new] = self.extents[rows[order]]
        to.shown[new] = self.shown[rows[order]]
        for mine, other in ((self.now, to.now), (self.now, to.before)):
            other.boxes[new] = mine.boxes[rows[order]]
            other.kinds[new] = mine.kinds[rows[order]]
            other.params[new] = mine.params[rows[order]]
            other.focals[new] = mine.focals[rows[order]]
        self.now.clear(rows)
        self.before.clear(rows)
        self.changed[rows] = False
        self._led = None
        self._freed += rows.tolist()
        self.settle()
        to.settle()

    def remove(self, rows: Longs) -> None:
        """These regions are nowhere from now on; their rows are free after the instant."""
        self.touch(rows)
        self._led = None
        self._is_led_anew = True
        self.now.clear(rows)
        self._freed += rows.tolist()

    def renumber(self, numbers: Longs) -> None:
        """Focal objects have other numbers now."""
        self.now.focals[:] = numbers[self.now.focals]
        self.before.focals[:] = numbers[self.before.focals]
        self._led = None

    def grouped(self, rows: Longs) -> Longs:
        """The rows so that those of one owner stand together, owners in ascending order."""
        return rows[np.lexsort((rows, self.owner[rows], self.queries[rows]))]

    def rows_of(self, query: int) -> Longs:
        """The rows of a query."""
        return np.flatnonzero(self.queries[: self.size] == query)

    def rows_of_all(self, queries: Longs) -> Longs:
        """The rows of queries."""
        return np.flatnonzero(np.isin(self.queries[: self.size], queries))

    def polygons(self) -> set[int]:
        """The numbers of the polygons that rows hold."""
        kinds = self.now.kinds[: self.size]
        rows = (kinds == inside.POLYGON) | (kinds == inside.SPHERE_POLYGON)
        return set(self.now.params[: self.size][rows, 0].astype(np.int64).tolist())

    def _reserve(self, size: int) -> None:
        capacity = len(self.queries)
        if size <= capacity:
            return
        more = max(size, 2 * capacity) - capacity
        self.queries = _longer(self.queries, more, -1)
        self.owner = _longer(self.owner, more, -1)
        self.extents = _longer(self.extents, more, np.nan)
        self.modes = _longer(self.modes, more, 0)
        self.siblings = _longer(self.siblings, more, -1)
        self.shown = _longer(self.shown, more, False)
        self.changed = _longer(self.changed, more, False)
        self.boxes = _longer(self.boxes, more, np.nan)
        self.now = self.now.extend(self.boxes[:, :4])
        self.before = self.before.extend(self.boxes[:, 4:])


def _longer(array: NDArray, more: int, value: object) -> NDArray:  # type: ignore[type-arg]
    shape = (more, *array.shape[1:])
    return np.concatenate([array, np.full(shape, value, array.dtype)])
