"""How the ways of objects and readings find the regions that they may meet, for a whole tick.

The box of a way meets that of a region if it begins before the other one ends, and ends after that
begins, from west to east and from south to north. So the four sides of a way's box are a point that
lies in a box of four dimensions, of which each side is a half-line. Whether the way itself meets
the region is decided afterwards, of the candidates.
"""

from __future__ import annotations

import numpy as np

from place.engine.layout import Polygons
from place.engine.matching import NO_PAIRS, Matcher, RegionPairs
from place.engine.regions import RegionIndex
from place.engine.tick_readings import TickReadings
from place.engine.versions import Versions
from place.engine.way_boxes import Way, boxes_of
from place.kernels.arrays import Floats, Longs
from place.kernels.box_join import BoxIndex


class WayMatcher(Matcher):
    """Finds the pairs of ways and regions that stand still."""

    def __init__(self, way: Way, polygons: Polygons, threads: int) -> None:
        super().__init__((), polygons, threads, None)
        self._way = way
        self._known: BoxIndex | None = None

    def reset(self) -> None:
        """Start anew, because regions have come or gone."""
        super().reset()
        self._known = None

    def present(self, index: RegionIndex, rows: Longs, objects: Versions, at: int) -> RegionPairs:
        """The objects whose ways may meet some regions now: both `was` and `now` are true."""
        store = objects.store
        slots = np.flatnonzero(store.alive[: store.size])
        met = _half_lines(index.now.boxes[rows]).find(boxes_of(self._way, objects, ~slots))
        found = slots[met.points]
        true, instants = np.ones(len(found), np.bool_), np.full(len(found), at, np.int64)
        return RegionPairs(rows[met.boxes], found, instants, true, true, ~found, ~found)

    def standing(self, index: RegionIndex, objects: Versions) -> RegionPairs:
        """The ways of every version of an object and of the one before it."""
        count = len(objects)
        if not count or not index.size:
            return NO_PAIRS
        ids = np.concatenate([np.arange(count), objects.before])
        met = self._index(index).find(boxes_of(self._way, objects, ids), self._threads)
        sides = met.points.astype(np.int64)
        is_now = sides < count
        keys = met.boxes.astype(np.int64) * count + np.where(is_now, sides, sides - count)
        pairs, which = np.unique(keys, return_inverse=True)
        was, now = np.zeros(len(pairs), np.bool_), np.zeros(len(pairs), np.bool_)
        now[which[is_now]] = True
        was[which[~is_now]] = True
        rows, at = pairs // count, pairs % count
        slots, instants = objects.slots[at], objects.instants[at]
        return RegionPairs(rows, slots, instants, was, now, objects.before[at], at)

    def readings(self, index: RegionIndex, readings: TickReadings) -> RegionPairs:
        """The ways that led to readings."""
        if not len(readings) or not index.size:
            return NO_PAIRS
        points = boxes_of(self._way, readings, np.arange(len(readings)))
        met = self._index(index).find(points, self._threads)
        at = met.points.astype(np.int64)
        was, now = np.zeros(len(at), np.bool_), np.ones(len(at), np.bool_)
        rows = met.boxes.astype(np.int64)
        return RegionPairs(rows, readings.slots[at], readings.instants[at], was, now, at, at)

    def _index(self, index: RegionIndex) -> BoxIndex:
        if self._known is None:
            self._known = _half_lines(index.now.boxes[: index.size])
        return self._known


def _half_lines(boxes: Floats) -> BoxIndex:
    """The regions whose boxes meet that of a way, which is a point of its four sides."""
    low, high = np.full((len(boxes), 4), -np.inf), np.full((len(boxes), 4), np.inf)
    high[:, :2], low[:, 2:] = boxes[:, 2:], boxes[:, :2]
    return BoxIndex(low, high)
