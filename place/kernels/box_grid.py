"""Points and boxes by a grid over the one to three dimensions that tell most of them apart.

Two layouts. For many points at once, points lie in the order of their cells, and each box walks
over the cells that it reaches. For a few points, each cell has a list of the boxes that reach it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_cells import edge_rows, list_boxes, look_up, place_points, walk_cells
from place.kernels.box_pairs import Met, fill, in_pieces, sample_of

MOST_SIDES = 3
SAMPLE = 4096
"""Values of which ranges are made."""
NS_RUN, NS_TEST, NS_CELL = 20.0, 3.0, 3.0
"""What a run of cells, a candidate and a cell cost (nanoseconds on a machine of 2026)."""
MOST_ENTRIES = 24
"""Entries of the lists for each box, on average."""


class GridPlan(NamedTuple):
    """The dimensions of a grid, their ranges as powers of two, and what is expected of it."""

    sides: Longs
    bits: Longs
    candidates: float
    """The share of all pairs that is tested."""
    runs: float
    """Runs of cells that a box walks."""
    cells_each: float
    """Cells that a box reaches."""

    @property
    def cells(self) -> int:
        return 1 << int(self.bits.sum())


def plan_grid(
    shares: Floats, elements: int, ns_run: float = NS_RUN, most_cells: float = np.inf
) -> GridPlan:
    """The grid with the least to do for each box and `elements` points in its cells, among those
    in which a box reaches no more than `most_cells`.

    `shares` is the share of points that a box holds, for each dimension alone. The narrowest three
    dimensions are looked at; the widest of these is the one along which cells are runs.
    """
    sides = np.argsort(shares, kind="stable")[:MOST_SIDES]
    bits, candidates, runs, reached = best_grid(shares[sides], elements, ns_run, most_cells)
    used = bits > 0
    used[-1] |= not used.any()
    return GridPlan(sides[used].astype(np.int64), bits[used], candidates, runs, reached)


@njit(nogil=True, cache=True)
def best_grid(shares, elements, ns_run, most_cells):
    """Of all grids over up to three dimensions, the one with the least to do: ranges of each
    dimension as powers of two, and then what a plan says of it."""
    count = len(shares)
    most = 12 if count == 1 else (9 if count == 2 else 6)
    best, least = np.zeros(count, np.int64), np.inf
    bits = np.zeros(count, np.int64)
    found = (1.0, 1.0, 1.0)
    for number in range((most + 1) ** count):
        rest = number
        candidates, runs, reached, cells = 1.0, 1.0, 1.0, 1.0
        for side in range(count):
            bits[side] = rest % (most + 1)
            rest //= most + 1
            ranges = float(1 << bits[side])
            candidates *= min(1.0, shares[side] + 1.0 / ranges)
            each = 1.0 + shares[side] * (ranges - 1.0)
            reached *= each
            cells *= ranges
            if side + 1 < count:
                runs *= each
        cost = runs * ns_run + candidates * elements * NS_TEST
        cost += NS_CELL * cells / max(1, elements)
        if reached <= most_cells and cost < least:
            least = cost
            best[:] = bits
            found = (candidates, runs, reached)
    return best, *found


def order_of(shares: Floats) -> Longs:
    """The dimensions, those that tell most apart first."""
    return np.argsort(shares, kind="stable").astype(np.int64)


class PointGrid:
    """Boxes that walk over a grid of the points at hand, which is made for each batch."""

    def __init__(self, low: Floats, high: Floats, shares: Floats) -> None:
        self._low, self._high, self._shares = low, high, shares
        self._order = order_of(shares)

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""
        plan = plan_grid(self._shares, len(points))
        edges = edge_rows(points[sample_of(len(points), SAMPLE)], plan.sides, plan.bits)
        placed = place_points(points, plan.sides, edges, plan.bits)
        grid = (plan.sides, edges, plan.bits, self._order, *placed)

        def walked(begin: int, end: int) -> Met:
            needs = (self._low[begin:end], self._high[begin:end], begin, *grid)
            return fill(walk_cells, needs, end - begin, 0)

        return in_pieces(walked, len(self._low), threads)


class BoxLists:
    """Boxes in lists, one for each cell of a grid: a point looks at the list of its cell."""

    def __init__(self, low: Floats, high: Floats, shares: Floats) -> None:
        self._low, self._high = low, high
        self._order = order_of(shares)
        some = sample_of(len(low), SAMPLE // 2)
        bounds = np.concatenate([low[some], high[some]])
        plan = plan_grid(shares, len(low), 0.0, MOST_ENTRIES / 2)
        most = MOST_ENTRIES * len(low)
        fits = False
        while not fits:
            edges = edge_rows(bounds, plan.sides, plan.bits)
            self._grid = (plan.sides, edges, plan.bits, self._order)
            self._starts, self._lists, fits = list_boxes(low, high, *self._grid[:3], most)
            plan = plan._replace(bits=np.maximum(0, plan.bits - 1))

    def find(self, points: Floats, threads: int = 1) -> Met:
        """All pairs, each once."""
        return in_pieces(partial(self._found, points), len(points), threads)

    def _found(self, points: Floats, begin: int, end: int) -> Met:
        needs = (
            *(points[begin:end], begin, *self._grid),
            *(self._low, self._high, self._starts, self._lists),
        )
        return fill(look_up, needs, end - begin, 0)
