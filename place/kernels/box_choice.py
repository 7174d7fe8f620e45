"""Which way points find boxes: the one that should cost least, by samples of the data at hand.

Every way says what it would cost, in nanoseconds on a machine of 2026: only ratios matter. What
counts is how many points a box holds in each dimension alone, and in all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_bitmaps import ROWS
from place.kernels.box_grid import MOST_ENTRIES, NS_RUN, best_grid
from place.kernels.box_hash import equal_sides
from place.kernels.box_pairs import sample_of

METHODS = ("scan", "hash", "grid", "clusters", "bitmaps")
WAYS = ("scan", "hash", "grid", "lists", "clusters", "bitmaps")
"""The methods, of which the grid has two layouts."""
SCAN, HASH, GRID, LISTS, CLUSTERS, BITMAPS = range(len(WAYS))
SAMPLE = 128
"""Points and boxes of which all pairs are looked at, to know how many meet."""


class BoxSides(NamedTuple):
    """The dimensions in which no box has a width, and those in which some box has a bound."""

    equal: Longs
    bounded: Longs


class Shares(NamedTuple):
    """The share of points that a box holds in each dimension alone, and in all of them."""

    each: Floats
    all: float


class Cost(NamedTuple):
    """What a way would cost: to prepare it once, and to ask it."""

    prepare: float
    ask: float


@njit(nogil=True, cache=True)
def _bounded_sides(low, high):
    found = np.zeros(low.shape[1], np.int64)
    for axis in range(low.shape[1]):
        for box in range(len(low)):
            if low[box, axis] > -np.inf or high[box, axis] < np.inf:
                found[axis] = 1
                break
    return np.flatnonzero(found)


@njit(nogil=True, cache=True)
def _count_met(points, low, high):
    """How many pairs meet in each dimension, and, at the end, in all of them. Here low and high
    have a row for each dimension: a point is compared with many boxes at once."""
    counts = np.zeros(points.shape[1] + 1, np.int64)
    met = np.empty(low.shape[1], np.int64)
    for point in range(len(points)):
        met[:] = 1
        for axis in range(points.shape[1]):
            value, count = points[point, axis], np.int64(0)
            for box in range(len(met)):
                here = np.int64((low[axis, box] <= value) & (value <= high[axis, box]))
                count += here
                met[box] &= here
            counts[axis] += count
        counts[-1] += met.sum()
    return counts


def sides_of(low: Floats, high: Floats) -> BoxSides:
    """What kinds of sides boxes have."""
    return BoxSides(equal_sides(low, high), _bounded_sides(low, high))


def shares_of(points: Floats, low: Floats, high: Floats) -> Shares:
    """What samples of points and boxes tell."""
    some, others = sample_of(len(points), SAMPLE), sample_of(len(low), SAMPLE)
    bounds = (np.ascontiguousarray(side[others].T) for side in (low, high))
    counts = _count_met(points[some], *bounds)
    looked_at = len(some) * len(others)
    # Half a pair more: what no sample has met is rare, but it is not never.
    each = (counts[:-1] + 0.5) / (looked_at + 0.5)
    together = max(float(counts[-1]) / looked_at, min(float(each.prod()), 1.0 / looked_at))
    return Shares(each, together)


def costs_of(shares: Shares, sides: BoxSides, points: int, boxes: int) -> dict[str, Cost]:
    """What each way would cost for so many points and boxes; the grid in both of its layouts."""
    told = _costs(shares.each, shares.all, sides.equal, sides.bounded, points, boxes)
    costs = {name: Cost(*row) for name, row in zip(WAYS, told.tolist(), strict=True)}
    if not len(sides.equal):
        del costs["hash"]
    if not len(sides.bounded):
        del costs["bitmaps"]
    return costs


@njit(nogil=True, cache=True)
def _costs(shares, together, equal, bounded, points, boxes):
    """A row for each way: what it costs to prepare, and to ask. The numbers were fitted to times of
    seven worlds in six sizes each."""
    costs = np.zeros((len(WAYS), 2))
    each, axes = np.sort(shares), len(shares)
    pairs = float(points) * boxes
    found = together * pairs
    left, share = 0.0, 1.0
    for axis in range(axes):
        share *= each[axis]
        if axis % 2 == 1:
            left += share
    costs[SCAN, 1] = 5e3 + pairs * (1.5 + 0.3 * axes + 0.6 * left) + found * 3.0

    bucket = pairs
    for i in range(len(equal)):
        bucket *= shares[equal[i]]
    costs[HASH] = 3.5e4 + 37.0 * boxes, 1.2e4 + 105.0 * points + 4.0 * bucket

    bits, candidates, runs, reached = best_grid(each[:3], points, NS_RUN, np.inf)
    walk = 1.6e5 + points * (60.0 + 8.0 * axes) + 3.0 * float(1 << bits.sum())
    walk += boxes * (64.0 + 38.0 * runs) + candidates * pairs * (2.2 + 0.35 * axes)
    costs[GRID, 1] = walk + found * 2.5

    bits, candidates, runs, reached = best_grid(each[:3], boxes, 0.0, MOST_ENTRIES / 2)
    costs[LISTS, 0] = 1.7e5 + boxes * (180.0 + 10.0 * reached)
    tested = candidates * pairs * (1.2 + 0.7 * axes)
    costs[LISTS, 1] = 1.2e4 + 100.0 * points + tested + found * 5.0

    held = 1.0
    for axis in range(axes):
        held *= min(1.0, each[axis] + 0.5)
    costs[CLUSTERS, 0] = 1.3e5 + boxes * (220.0 + 78.0 * axes)
    costs[CLUSTERS, 1] = 1.5e5 + 400.0 * points + pairs * 3.0 * held

    # Words in which something may be follow from how alike 64 neighbours are: each bound has a
    # part in their order.
    axes, words = max(1, len(bounded)), boxes / 64
    alike, bits_each = max(1.0, words) ** (1 / (2 * axes)), ROWS
    while bits_each > 4 and axes << bits_each > 1 << ROWS:
        bits_each -= 1
    alive, reach, cover, width = 1.0, 1.0, 1.0, 0.5**bits_each
    for i in range(len(bounded)):
        share = shares[bounded[i]]
        alive *= share + (1.0 - share) / alike
        reach *= min(1.0, share + width)
        cover *= max(0.0, share - width)
    ask = 1.4e4 + points * (6.0 + axes * (22.0 + 5.6 * np.ceil(words / 64)))
    ask += points * words * alive * axes * 2.1 + found * 3.0 + (reach - cover) * pairs * 6.0
    costs[BITMAPS] = 5e5 + boxes * (250.0 + 170.0 * axes), ask
    return costs


def reason_for(method: str, shares: Shares, sides: BoxSides) -> str:
    """Why a way was chosen, in words."""
    narrow = float(shares.each.min(initial=1.0))
    match method:
        case "scan":
            return "few pairs"
        case "hash":
            return f"equality in {len(sides.equal)} of {len(shares.each)} dimensions"
        case "clusters":
            return f"a box holds {shares.all:.2g} of the points, and neighbours share boxes"
        case "bitmaps":
            return f"{len(sides.bounded)} dimensions with bounds, the narrowest holds {narrow:.2g}"
        case _:
            return f"the narrowest dimension of a box holds {narrow:.2g} of the points"
