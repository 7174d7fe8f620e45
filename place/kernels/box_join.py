"""Points and boxes of any number of dimensions: which point is in which box.

The join behind tables of rules, joins of windows and conditions of many queries: a reading is a
point, a condition on it is a box. Several ways find the same pairs; which one is cheapest depends
on how many there are and how wide they are, and is chosen from samples (`place.kernels.box_choice`)
unless it is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from place.kernels.arrays import Floats, Longs
from place.kernels.box_bitmaps import BoxBitmaps
from place.kernels.box_choice import (
    METHODS,
    SAMPLE,
    BoxSides,
    Cost,
    Shares,
    costs_of,
    reason_for,
    shares_of,
    sides_of,
)
from place.kernels.box_clusters import BoxClusters
from place.kernels.box_grid import BoxLists, PointGrid, order_of
from place.kernels.box_hash import BoxHash
from place.kernels.box_pairs import NONE_MET, BoxFinder, BoxPairs, Met, sample_of
from place.kernels.box_scan import scan_boxes

SMALL = 1 << 16
"""Pairs that are simply looked at: choosing would cost more."""
PIECE_PAIRS = 3 << 16
"""Pairs of a piece: they fit into the room that a thread keeps."""
AGAIN = 8
"""Samples are taken again when so many times as many points are known, up to `SAMPLE`."""


class _Scan:
    """Boxes without an index."""

    def __init__(self, low: Floats, high: Floats, order: Longs) -> None:
        self._low, self._high, self._order = low, high, order

    def find(self, points: Floats, threads: int = 1) -> Met:
        return scan_boxes(points, self._low, self._high, self._order)


class _Known(NamedTuple):
    """What samples told, how many points they had, and what follows for so many points at once."""

    shares: Shares
    sides: BoxSides
    points: int
    costs: dict[int, dict[str, Cost]]
    settled: dict[int, str]


class BoxIndex:
    """Boxes that stand, to be asked for the points of one reading or of many.

    A way is prepared when it is worth that: `prepare` says that many batches are to come; else
    what a better way would have saved until now has to reach what it costs to prepare.
    """

    def __init__(self, low: Floats, high: Floats, method: str | None = None) -> None:
        if method is not None and method not in METHODS:
            raise ValueError(f"{method} is none of {', '.join(METHODS)}")
        self._low, self._high = _plain(low), _plain(high)
        self._method = method
        self._made: dict[str, BoxFinder] = {}
        self._known: _Known | None = None
        self._sample = np.empty((0, self._low.shape[1]))
        self._saved: dict[str, float] = {}

    def prepare(self, points: Floats, batch: int) -> str:
        """Prepare the way that is best for many batches of so many points like these; its name."""
        points = _plain(points)
        if min(points.shape) == 0 or len(self._low) == 0:
            return self._method or "scan"
        known = self._learn(points)
        costs = self._costs(known, batch)
        name = self._forced(known, batch) or min(costs, key=lambda name: costs[name].ask)
        self._finder(name, known)
        return _public(name)

    def find(self, points: Floats, threads: int = 1) -> BoxPairs:
        """All pairs of a point and a box that holds it, each once."""
        points = _plain(points)
        many, boxes = len(points), len(self._low)
        if many == 0 or boxes == 0:
            return BoxPairs(*NONE_MET, self._method or "scan", "nothing to compare")
        if points.shape[1] == 0:
            return BoxPairs(*_all_pairs(many, boxes), self._method or "scan", "no bounds")
        known = self._known
        if known is None or known.points < SAMPLE:
            seen = len(self._sample) + many
            if self._method is None and known is None and seen * boxes <= SMALL:
                self._sample = np.concatenate([self._sample, points])
                return BoxPairs(*scan_boxes(points, self._low, self._high), "scan", "few pairs")
            known = self._learn(points)
        name = known.settled.get(many)
        if name is None:
            name = self._forced(known, many) or self._cheapest(known, many)
        met = self._finder(name, known).find(points, threads)
        return BoxPairs(*met, _public(name), self._reason(name, known))

    def pieces(
        self, points: Floats, threads: int = 1, most: int = PIECE_PAIRS
    ) -> Iterator[BoxPairs]:
        """The same pairs, for some of the points after the others, with about `most` in a piece:
        for whoever passes pairs on and need not have all of them at once."""
        points = _plain(points)
        if min(points.shape) == 0 or len(self._low) == 0:
            yield self.find(points, threads)
            return
        known = self._known or self._learn(points)
        step = max(1, int(most / max(known.shares.all * len(self._low), 1e-9)))
        for begin in range(0, len(points), step):
            found = self.find(points[begin : begin + step], threads)
            found.points[:] += begin
            yield found

    def _learn(self, points: Floats) -> _Known:
        """What samples tell, with these points; few are kept until there are more."""
        if len(self._sample) < SAMPLE:
            self._sample = np.concatenate([self._sample, points[sample_of(len(points), SAMPLE)]])
        known, seen = self._known, len(self._sample)
        if known is None or seen >= min(SAMPLE, AGAIN * known.points) > known.points:
            sides = known.sides if known else sides_of(self._low, self._high)
            shares = shares_of(self._sample, self._low, self._high)
            known = self._known = _Known(shares, sides, seen, {}, {})
        return known

    def _costs(self, known: _Known, points: int) -> dict[str, Cost]:
        costs = known.costs.get(points)
        if costs is None:
            if len(known.costs) >= MOST_KNOWN:
                known.costs.clear()
            costs = costs_of(known.shares, known.sides, points, len(self._low))
            known.costs[points] = costs
        return costs

    def _cheapest(self, known: _Known, points: int) -> str:
        """The cheapest of what is prepared, and of what would be worth it."""
        costs = self._costs(known, points)
        debts = {
            name: 0.0 if name in self._made else max(0.0, cost.prepare - self._saved.get(name, 0.0))
            for name, cost in costs.items()
        }
        best = min(costs, key=lambda name: costs[name].ask + debts[name])
        if costs[best].ask == min(cost.ask for cost in costs.values()):
            if len(known.settled) >= MOST_KNOWN:
                known.settled.clear()
            known.settled[points] = best
        for name, cost in costs.items():
            saved = self._saved.get(name, 0.0) + costs[best].ask - cost.ask
            self._saved[name] = max(0.0, saved)
        return best

    def _forced(self, known: _Known, points: int) -> str | None:
        """The layout of the way that was asked for, or a scan where that is impossible."""
        if self._method == "grid":
            costs = self._costs(known, points)
            return min(("grid", "lists"), key=lambda name: sum(costs[name]))
        if self._method == "hash" and not len(known.sides.equal):
            return "scan"
        if self._method == "bitmaps" and not len(known.sides.bounded):
            return "scan"
        return self._method

    def _reason(self, name: str, known: _Known) -> str:
        if self._method is None:
            return reason_for(name, known.shares, known.sides)
        if _public(name) == self._method:
            return "asked for"
        return f"{self._method} was asked for, and no dimension has {_LACKING[self._method]}"

    def _finder(self, name: str, known: _Known) -> BoxFinder:
        """The boxes as a way needs them, which is prepared now if it is not yet."""
        finder = self._made.get(name)
        if finder is None:
            finder = self._made[name] = self._make(name, known)
        return finder

    def _make(self, name: str, known: _Known) -> BoxFinder:
        low, high, shares = self._low, self._high, known.shares.each
        order = order_of(shares)
        match name:
            case "scan":
                return _Scan(low, high, order)
            case "hash":
                return BoxHash(low, high, known.sides.equal)
            case "grid":
                return PointGrid(low, high, shares)
            case "lists":
                return BoxLists(low, high, shares)
            case "clusters":
                return BoxClusters(low, high)
            case _:
                return BoxBitmaps(low, high, order[np.isin(order, known.sides.bounded)])


_LACKING = {"hash": "an equality", "bitmaps": "bounds"}
MOST_KNOWN = 64
"""Sizes of batches for which costs are kept."""


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


def _public(name: str) -> str:
    """Both layouts of the grid have one name."""
    return "grid" if name == "lists" else name


def _all_pairs(points: int, boxes: int) -> Met:
    some, others = np.arange(points, dtype=np.int32), np.arange(boxes, dtype=np.int32)
    return Met(np.repeat(some, boxes), np.tile(others, points))
