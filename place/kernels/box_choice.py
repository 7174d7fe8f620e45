"""Which way points find boxes: the one that should cost least, by samples of the data at hand.

Every way says what it would cost, in nanoseconds on a machine of 2026: only ratios matter. What
counts is how many points a box holds in each dimension alone, and in all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_grid import NS_CELL, NS_ENTRY, NS_PLACE, NS_RUN, NS_TEST, plan_grid
from place.kernels.box_hash import equal_sides
from place.kernels.box_pairs import sample_of

METHODS = ("scan", "hash", "grid", "clusters", "bitmaps")
SMALL = 1 << 15
"""Pairs that are simply looked at."""
SAMPLE = 128
"""Points and boxes of which all pairs are looked at, to know how many meet."""


class Shares(NamedTuple):
    """What samples tell: for each dimension the share of points that a box holds; that of all
    dimensions together; the dimensions in which boxes have no width, and those with bounds."""

    each: Floats
    all: float
    equal: Longs
    bounded: Longs


class Cost(NamedTuple):
    """What a way would cost: to prepare it once, and to ask it."""

    prepare: float
    ask: float


class Choice(NamedTuple):
    method: str
    reason: str


@njit(nogil=True, cache=True)
def _count_met(points, low, high):
    """How many pairs meet in each dimension, and, at the end, in all of them."""
    counts = np.zeros(points.shape[1] + 1, np.int64)
    for point in range(len(points)):
        for box in range(len(low)):
            all_met = 1
            for axis in range(points.shape[1]):
                value = points[point, axis]
                met = (low[box, axis] <= value) & (value <= high[box, axis])
                counts[axis] += met
                all_met &= met
            counts[-1] += all_met
    return counts


def shares_of(points: Floats, low: Floats, high: Floats) -> Shares:
    """What samples of points and boxes tell."""
    some, others = sample_of(len(points), SAMPLE), sample_of(len(low), SAMPLE)
    counts = _count_met(points[some], low[others], high[others])
    shares = counts / max(1, len(some) * len(others))
    bounded = np.flatnonzero((low > -np.inf).any(axis=0) | (high < np.inf).any(axis=0))
    floor = max(float(shares[-1]), float(np.prod(shares[:-1])))
    return Shares(shares[:-1], floor, equal_sides(low, high), bounded)


def costs_of(shares: Shares, points: int, boxes: int) -> dict[str, Cost]:
    """What each way would cost for so many points and boxes."""
    pairs = float(points) * boxes
    found = shares.all * pairs
    tested = 1.0 + float(np.cumprod(np.sort(shares.each))[1::2].sum())
    costs = {"scan": Cost(0.0, pairs * NS_TEST * tested)}
    if len(shares.equal):
        bucket = float(np.prod(shares.each[shares.equal]))
        costs["hash"] = Cost(30.0 * boxes, points * 20.0 + bucket * pairs * NS_TEST * 2)
    plan = plan_grid(shares.each, points)
    walk = NS_PLACE * points + NS_CELL * plan.cells
    walk += boxes * (15.0 + plan.runs * NS_RUN) + plan.candidates * pairs * NS_TEST * 1.5
    costs["grid"] = Cost(0.0, walk)
    lists = plan_grid(shares.each, boxes, 0.0)
    entries = boxes * min(24.0, lists.cells_each)
    listed = points * 20.0 + lists.candidates * pairs * NS_TEST * 1.5
    costs["lists"] = Cost(NS_ENTRY * 2 * entries, listed)
    words, axes = boxes / 64, max(1, len(shares.bounded))
    anded = points * (40.0 + words * axes * 0.6) + found * 3.0
    costs["bitmaps"] = Cost(boxes * axes * 12.0 + words * axes * 100.0, anded)
    return costs


def choose(shares: Shares, points: int, boxes: int) -> Choice:
    """The way that should cost least to prepare and to ask once."""
    costs = costs_of(shares, points, boxes)
    best = min(costs, key=lambda name: sum(costs[name]))
    return Choice(best, _reason(best, shares))


def _reason(method: str, shares: Shares) -> str:
    narrow = float(shares.each.min(initial=1.0))
    match method:
        case "scan":
            return "few pairs"
        case "hash":
            return f"equality in {len(shares.equal)} dimension(s)"
        case "grid" | "lists":
            return f"the narrowest side holds {narrow:.1%} of the points"
        case _:
            return f"wide boxes: the narrowest side holds {narrow:.0%} of the points"
