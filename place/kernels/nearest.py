"""The k nearest points of every centre, from instant to instant, and who came and who left.

Points are kept sorted, and answers are kept. What did not change is not looked at again as far as
that can be told more cheaply than by searching.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Bools, Floats, Ints, Longs
from place.kernels.inside import unit_vectors
from place.kernels.layers import Layers
from place.kernels.nearest_renew import renew
from place.kernels.nearest_search import FEW, room_for
from place.kernels.nested_grid import LOW, SCALE, NestedGrid, square_on
from place.kernels.order import SERIAL, Pool

_Answers = tuple[Longs, Ints, Floats]
_Changes = tuple[Ints, Ints, NDArray[np.int8]]

MOST_MOVED = 0.4
"""The share of points that move, from which on all are sorted and all queries search."""
FEW_MOVED = 16
"""Points that move, up to which every query simply looks at all of them."""
ORDER_AGE = 8
"""Instants after which queries are put in the order of their squares again."""
PIECE = 1 << 16
"""Changes that a piece of output holds, if no single batch needs more."""
QUERIES = 1024
"""Queries that are worth a piece of their own."""
BATCH, CANDIDATES = 128, 1 << 15
"""Queries and candidates of a batch; eight queries at least, however many candidates that are."""
MOST_MARKS = 1 << 30
"""Marks that are given before they begin anew."""


@dataclass(frozen=True)
class Nearby:
    """Who came (+1) into the answers of which queries, and who left (−1)."""

    queries: Ints
    slots: Ints
    signs: NDArray[np.int8]


class _Scratch:
    """What a thread needs: a batch, room for sorting, grids to visit, and marks of members."""

    def __init__(self, most: int, slots: int, grids: int) -> None:
        room = room_for(most)
        size = min(BATCH, max(8, CANDIDATES // room))
        self._sizes = (most, slots, grids)
        self.batch = (
            np.empty(size, np.int32),
            np.empty((size, 3)),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size),
            *(np.empty(size, np.int64) for _ in range(4)),
            np.empty(size * room),
            np.empty(size * room, np.int32),
            np.empty(size * room, np.int32),
        )
        most = max(FEW, room)
        self.sorter = np.empty(FEW, np.int32), np.empty(most), np.empty(most, np.int32)
        self.rest = np.empty(grids, np.int32), np.zeros(slots, np.int32), np.zeros(1, np.int32)

    def fits(self, *sizes: int) -> bool:
        most, slots, grids = (had >= asked for had, asked in zip(self._sizes, sizes, strict=True))
        return most and slots and grids and self.rest[2][0] < MOST_MARKS


@njit(nogil=True, cache=True)
def _carry(shifted, old_starts, old_members, old_measures, starts, members, measures):
    """Takes the answers of queries that stand to their new places."""
    for query in range(len(old_starts) - 1):
        if not shifted[query]:
            apart = starts[query] - old_starts[query]
            for i in range(old_starts[query], old_starts[query + 1]):
                members[i + apart] = old_members[i]
                measures[i + apart] = old_measures[i]


@njit(nogil=True, cache=True)
def _touched(centers, shifted, starts, measures, before, after):
    """The queries that shifted, or in whose circles a point was or is."""
    found, count = np.empty(len(centers), np.int32), 0
    for query in range(len(centers)):
        touched, circle = shifted[query], np.inf
        if not touched and starts[query] < starts[query + 1]:
            circle = measures[starts[query + 1] - 1]
        for i in range(len(before)):
            was, now = 0.0, 0.0
            for axis in range(centers.shape[1]):
                center = centers[query, axis]
                was += (center - before[i, axis]) * (center - before[i, axis])
                now += (center - after[i, axis]) * (center - after[i, axis])
            touched |= (was <= circle) | (now <= circle)
        found[count] = query
        count += touched
    return found[:count]


@njit(nogil=True, cache=True)
def _order_queries(centers, places, shapes):
    """Queries in the order of the outermost grid's squares."""
    nx, ny, nz = shapes[0, 0], shapes[0, 1], shapes[0, 2]
    squares = np.empty(len(centers), np.int32)
    counts = np.zeros(nx * ny * nz + 1, np.int32)
    for i in range(len(centers)):
        square = square_on(centers[i, 1], places[0, LOW + 1], places[0, SCALE + 1], ny) * nx
        square += square_on(centers[i, 0], places[0, LOW], places[0, SCALE], nx)
        if centers.shape[1] > 2:
            square += (
                square_on(centers[i, 2], places[0, LOW + 2], places[0, SCALE + 2], nz) * nx * ny
            )
        squares[i] = square
        counts[square + 1] += 1
    for square in range(nx * ny * nz):
        counts[square + 1] += counts[square]
    order = np.empty(len(centers), np.int32)
    for i in range(len(centers)):
        order[counts[squares[i]]] = i
        counts[squares[i]] += 1
    return order


class NearestMatcher:
    """Keeps the k nearest points of every centre from instant to instant, and tells who came and
    who left.

    It relies on the flags alone: what is not flagged has the values of the last call. Points and
    queries may be appended; after anything else there is `reset`.
    """

    def __init__(self, sphere: bool = False) -> None:
        self._sphere = sphere
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next match tells all members as new."""
        self._layers: Layers | None = None
        self._slots, self._most, self._ks = 0, 1, np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int64)
        self._members, self._measures = np.empty(0, np.int32), np.empty(0)
        self._points, self._centers = np.empty((0, 3)), np.empty((0, 3))
        self._order, self._age = np.empty(0, np.int32), 0
        self._scratch: list[_Scratch] = []
        self._rooms: dict[int, _Changes] = {}

    @property
    def starts(self) -> Longs:
        """Where each query's answer begins, and where the last one ends."""
        return self._starts

    @property
    def members(self) -> Ints:
        """The answers in order of distance, then rank; −1 where there are fewer than k."""
        return self._members

    @property
    def measures(self) -> Floats:
        """The measure of each member's distance; infinite where there is none."""
        return self._measures

    def match(
        self,
        points: Floats,
        ranks: Longs,
        moved: Bools,
        centers: Floats,
        excluded: Longs,
        ks: Longs,
        shifted: Bools,
        *,
        threads: int = 1,
    ) -> Nearby:
        """Takes what moved at an instant into the answers; the changes, each once.

        A point that is NaN is no candidate; a query whose centre is NaN has an empty answer.
        `excluded` is a slot that is never in the query's answer, or −1.
        """
        if len(points) < self._slots or len(centers) < len(self._ks):
            self.reset()
        self._slots = len(points)
        points, centers = plain(points, np.float64), plain(centers, np.float64)
        ranks, excluded, ks = (plain(one, np.int64) for one in (ranks, excluded, ks))
        moved, shifted = plain(moved, np.bool_), plain(shifted, np.bool_)
        pool = Pool(threads if len(points) + len(centers) > SERIAL else 1)
        movers = np.flatnonzero(moved).astype(np.int32)
        if self._sphere:
            shifts = np.flatnonzero(shifted).astype(np.int32)
            points = self._points = _vectors(self._points, points, movers, pool)
            centers = self._centers = _vectors(self._centers, centers, shifts, pool)
        old, new = self._lay_out(ks, shifted)
        layers, layered = self._layers, len(movers) <= MOST_MOVED * len(points)
        if layers is None or not layered:
            layers, layered = Layers(points, ranks, pool, layers), False
            todo = self._queries(centers, layers.nest)
        elif len(movers) == 0:
            todo = self._queries(centers, layers.nest)
            todo = todo[shifted[todo]]
        else:
            before = layers.move(points, ranks, moved, movers, pool)
            if len(movers) <= FEW_MOVED:
                todo = _touched(centers, shifted, new[0], new[2], before, points[movers])
            else:
                todo = self._queries(centers, layers.nest)
        self._layers, nest = layers, layers.nest
        needs = (
            *(layered, layers.roots, layers.largest, nest.zs if self._sphere else None),
            *(centers, excluded, ks, shifted, moved, ranks, tuple(nest), old, new),
        )
        sizes = (self._most, len(points), layers.grids)
        pieces = max(1, min(4 * threads, len(todo) // QUERIES)) if threads > 1 else 1
        cuts = [len(todo) * number // pieces for number in range(pieces + 1)]
        found = pool.map(
            partial(self._renewed, number, todo[low:high], needs, sizes)
            for number, (low, high) in enumerate(pairwise(cuts))
        )
        return _joined(found)

    def _queries(self, centers: Floats, nest: NestedGrid) -> Ints:
        """All queries, those that are near one another near in the order: they share memory."""
        self._age += 1
        if len(self._order) != len(centers) or self._age > ORDER_AGE:
            self._order, self._age = _order_queries(centers, nest.places, nest.shapes), 0
        return self._order

    def _lay_out(self, ks: Longs, shifted: Bools) -> tuple[_Answers, _Answers]:
        """The old answers, and where the new ones go: the same place if no k changed."""
        old = (self._starts, self._members, self._measures)
        if np.array_equal(ks, self._ks):
            return old, old
        self._most = max(int(ks.max(initial=1)), int(self._ks.max(initial=1)))
        self._ks = ks.copy()
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(ks)])
        self._members = np.full(self._starts[-1], -1, np.int32)
        self._measures = np.full(self._starts[-1], np.inf)
        _carry(shifted, *old, self._starts, self._members, self._measures)
        return old, (self._starts, self._members, self._measures)

    def _renewed(
        self, number: int, todo: Ints, needs: tuple[Any, ...], sizes: tuple[int, int, int]
    ) -> Nearby:
        """The changes of a piece of the queries, in memory that is kept for it."""
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = _Scratch(*sizes)
        if not scratch.fits(*sizes):
            scratch = _Scratch(*sizes)
        bring: Callable[..., tuple[int, int]] = renew
        work = (*needs, scratch.batch, scratch.sorter, scratch.rest)
        out = self._rooms.get(number) or _room(PIECE)
        first, told = bring(todo, 0, *work, 0, *out)
        while first < len(todo):
            more = _room(2 * len(out[0]))
            for part in range(3):
                more[part][:told] = out[part][:told]
            out = more
            first, told = bring(todo, first, *work, told, *out)
        self._rooms[number] = out
        self._scratch.append(scratch)
        return Nearby(out[0][:told], out[1][:told], out[2][:told])


def _room(size: int) -> _Changes:
    return np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int8)


def _joined(parts: list[Nearby]) -> Nearby:
    """All changes, in memory of their own."""
    return Nearby(
        np.concatenate([part.queries for part in parts]),
        np.concatenate([part.slots for part in parts]),
        np.concatenate([part.signs for part in parts]),
    )


def plain(array: NDArray[Any], kind: type[Any]) -> NDArray[Any]:
    """The same values in the one layout for which kernels are compiled."""
    array = np.ascontiguousarray(array, kind)
    return array if array.flags.writeable else array.copy()


def _vectors(old: Floats, places: Floats, changed: Ints, pool: Pool) -> Floats:
    """The points of the sphere, of which some changed."""
    if len(old) < len(places):
        old = np.concatenate([old, np.full((len(places) - len(old), 3), np.nan)])
    some = places[changed]
    cuts = pool.cut(len(changed))
    old[changed] = np.concatenate(
        pool.map(partial(unit_vectors, some[low:high, 0], some[low:high, 1]) for low, high in cuts)
    )
    return old
