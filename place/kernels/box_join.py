"""Points and boxes of any number of dimensions: which point is in which box.

The join behind tables of rules, joins of windows and conditions of many queries: a reading is a
point, a condition on it is a box. Several ways find the same pairs; which one is cheapest depends
on how many there are and how wide they are, and is chosen from samples (`place.kernels.box_choice`)
unless it is named.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from place.kernels.arrays import Floats
from place.kernels.box_bitmaps import BoxBitmaps
from place.kernels.box_choice import METHODS, SMALL, Choice, Shares, choose, shares_of
from place.kernels.box_clusters import BoxClusters
from place.kernels.box_grid import BoxLists, PointGrid, order_of
from place.kernels.box_hash import BoxHash
from place.kernels.box_pairs import NONE_MET, BoxFinder, BoxPairs, Met
from place.kernels.box_scan import scan_boxes

FEW = 256
"""Points up to which boxes are kept in lists for a grid, instead of walking over the points."""


class _Scan:
    """Boxes without an index."""

    def __init__(self, low: Floats, high: Floats, shares: Shares) -> None:
        self._low, self._high, self._order = low, high, order_of(shares.each)

    def find(self, points: Floats, threads: int = 1) -> Met:
        return scan_boxes(points, self._low, self._high, self._order)


_MAKERS: dict[str, Callable[[Floats, Floats, Shares], BoxFinder]] = {
    "scan": _Scan,
    "hash": lambda low, high, shares: BoxHash(low, high, shares.equal),
    "grid": lambda low, high, shares: PointGrid(low, high, shares.each),
    "lists": lambda low, high, shares: BoxLists(low, high, shares.each),
    "clusters": lambda low, high, _: BoxClusters(low, high),
    "bitmaps": lambda low, high, shares: BoxBitmaps(low, high, shares.bounded),
}


class BoxIndex:
    """Boxes that stand, to be asked for the points of one reading or of many.

    What an answer needs is prepared when it is first asked for, and kept.
    """

    def __init__(self, low: Floats, high: Floats, method: str | None = None) -> None:
        if method is not None and method not in METHODS:
            raise ValueError(f"{method} is none of {', '.join(METHODS)}")
        self._low, self._high = _plain(low), _plain(high)
        self._method = method
        self._made: dict[str, BoxFinder] = {}
        self._shares: Shares | None = None

    def find(self, points: Floats, threads: int = 1) -> BoxPairs:
        """All pairs of a point and a box that holds it, each once."""
        points = _plain(points)
        choice = self._chosen(points)
        if len(points) == 0 or len(self._low) == 0:
            return BoxPairs(*NONE_MET, choice.method, choice.reason)
        if points.shape[1] == 0:
            met = _all_pairs(len(points), len(self._low))
        elif self._shares is None:
            met = scan_boxes(points, self._low, self._high)
        else:
            if choice.method not in self._made:
                maker = _MAKERS[choice.method]
                self._made[choice.method] = maker(self._low, self._high, self._shares)
            met = self._made[choice.method].find(points, threads)
        method = "grid" if choice.method == "lists" else choice.method
        return BoxPairs(*met, method, choice.reason)

    def _chosen(self, points: Floats) -> Choice:
        many, boxes = len(points), len(self._low)
        if many * boxes == 0 or points.shape[1] == 0:
            return Choice(self._method or "scan", "nothing to compare")
        if self._method is None and self._shares is None and many * boxes <= SMALL:
            return Choice("scan", "few pairs")
        if self._shares is None:
            self._shares = shares_of(points, self._low, self._high)
        if self._method is None:
            return choose(self._shares, many, boxes)
        forced = self._method
        if forced == "hash" and not len(self._shares.equal):
            return Choice("scan", "hash was asked for, and no side is an equality")
        if forced == "bitmaps" and not len(self._shares.bounded):
            return Choice("scan", "bitmaps were asked for, and no side is bounded")
        if forced == "grid" and many <= FEW:
            return Choice("lists", "asked for")
        return Choice(forced, "asked for")


def join_boxes(
    points: Floats, low: Floats, high: Floats, method: str | None = None, threads: int = 1
) -> BoxPairs:
    """All pairs of a point and a box that holds it: low <= point <= high in every dimension.

    `points` has a row for each point, `low` and `high` have one for each box. Bounds may be
    infinite. NaN is in nothing, and a box with a NaN bound, or with low > high, holds nothing.
    `method` is one of "scan", "hash", "grid", "clusters" and "bitmaps", or None for the cheapest.
    """
    return BoxIndex(low, high, method).find(points, threads)


def _plain(rows: Floats) -> Floats:
    """The same values in the one layout for which kernels are compiled."""
    rows = np.ascontiguousarray(rows, np.float64)
    return rows if rows.flags.writeable else rows.copy()


def _all_pairs(points: int, boxes: int) -> Met:
    some, others = np.arange(points, dtype=np.int32), np.arange(boxes, dtype=np.int32)
    return Met(np.repeat(some, boxes), np.tile(others, points))
