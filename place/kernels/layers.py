"""Points that stand and, on top of them, points that move: two nests in the arrays of one.

Points that move are struck out below and sorted on top. Points that stand again stay on top until
it is worth to sort all that stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Bools, Floats, Ints, Longs
from place.kernels.nested_grid import FIRST, NestedGrid, build_nest
from place.kernels.order import Pool

LOOSE_COST = 2
"""What a point costs at an instant if it is loose, beside what it costs to sort it."""


@njit(nogil=True, cache=True)
def _strike(xs, ys, zs, axes, where, moved):
    """Points that move are taken from where they were; where that is, NaN if they were nowhere."""
    before = np.full((len(moved), axes), np.nan)
    for i in range(len(moved)):
        at = where[moved[i]]
        if at >= 0:
            before[i, 0], before[i, 1] = xs[at], ys[at]
            if axes > 2:
                before[i, 2] = zs[at]
            xs[at] = np.nan
            where[moved[i]] = -1
    return before


class Layers:
    """Keeps points sorted from instant to instant; in `nest`, grids lie below each of the roots."""

    def __init__(self, rows: Floats, ranks: Longs, pool: Pool, spare: Layers | None = None) -> None:
        """Takes all points as they are, and the memory of layers that are not needed any more."""
        every = np.arange(len(rows), dtype=np.int32)
        self._rest(rows, every, ranks, pool, None if spare is None else spare.nest)
        self._where, self._loose = np.empty(0, np.int32), np.zeros(0, np.bool_)

    @property
    def largest(self) -> int:
        """The root of the layer that has more points."""
        return int(self.roots[-1]) if self._on_top > self._sizes[0] else 0

    @property
    def grids(self) -> int:
        """How many grids there are in all."""
        return self._grids

    def move(self, rows: Floats, ranks: Longs, moved: Bools, movers: Ints, pool: Pool) -> Floats:
        """Takes those that moved, `moved` as flags and `movers` as numbers; where they were."""
        if len(self._where) == 0:
            self._where = self._places(len(rows))
        more = len(rows) - len(self._where)
        if more:
            self._where = np.concatenate([self._where, np.full(more, -1, np.int32)])
        more = len(rows) - len(self._loose)
        if more:
            self._loose = np.concatenate([self._loose, np.zeros(more, np.bool_)])
        xs, ys, zs = self.nest[:3]
        before: Floats = _strike(xs, ys, zs, rows.shape[1], self._where, movers)
        self._loose[movers] = True
        loose = np.flatnonzero(self._loose).astype(np.int32)
        self._debt += LOOSE_COST * (len(loose) - len(movers))
        if self._debt > self._sizes[0]:
            still = np.flatnonzero(~moved).astype(np.int32)
            self._rest(rows, still, ranks, pool, self.nest)
            self._where = self._places(len(rows))
            self._loose, loose = moved.copy(), movers
        self._lay_on(build_nest(rows, loose, ranks, pool))
        return before

    def _rest(
        self, rows: Floats, chosen: Ints, ranks: Longs, pool: Pool, spare: NestedGrid | None
    ) -> None:
        self.nest = build_nest(rows, chosen, ranks, pool, spare)
        self._sizes = (len(self.nest.names), len(self.nest.starts), len(self.nest.shapes))
        self.roots, self._on_top, self._debt = np.zeros(1, np.int64), 0, 0
        self._grids = self._sizes[2]

    def _places(self, count: int) -> Ints:
        """Where each point is in the nest, of which nothing is on top; −1 where it is not."""
        where = np.full(count, -1, np.int32)
        where[self.nest.names] = np.arange(len(self.nest.names), dtype=np.int32)
        return where

    def _lay_on(self, top: NestedGrid) -> None:
        """Puts a nest behind the points, squares and grids of what stands."""
        points, squares, grids = self._sizes
        deep = points if len(self.nest.zs) else 0
        sizes = (points, points, deep, points, squares, squares, grids, grids)
        parts: list[tuple[NDArray[Any], NDArray[Any], int]]
        parts = list(zip(self.nest, top, sizes, strict=True))
        if any(len(old) < size + len(new) for old, new, size in parts):
            self.nest = NestedGrid(
                *(_with_room(old[:size], 2 * len(new)) for old, new, size in parts)
            )
        for number, (_, new, size) in enumerate(parts):
            self.nest[number][size : size + len(new)] = new
        self.nest.starts[squares : squares + len(top.starts)] += np.uint32(points)
        self.nest.shapes[grids : grids + len(top.shapes), FIRST] += squares
        inner = self.nest.inner[squares : squares + len(top.inner)]
        inner[inner >= 0] += grids
        self.roots, self._on_top = np.array([0, grids], np.int64), len(top.names)
        self._grids = grids + len(top.shapes)
        self._where[top.names] = np.arange(points, points + len(top.names), dtype=np.int32)


def _with_room(array: NDArray[Any], more: int) -> NDArray[Any]:
    """The same array with room for more."""
    return np.concatenate([array, np.empty((more, *array.shape[1:]), array.dtype)])
