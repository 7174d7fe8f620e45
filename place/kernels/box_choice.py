"""Which way points find boxes: the one that should cost least, by samples of the data at hand.

Every way says what it would cost, in nanoseconds on a machine of 2026: only ratios matter. What
counts is how many points a box holds in each dimension alone, and in all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Longs
from place.kernels.box_bitmaps import bits_for
from place.kernels.box_grid import MOST_ENTRIES, plan_grid
from place.kernels.box_hash import equal_sides
from place.kernels.box_pairs import sample_of

METHODS = ("scan", "hash", "grid", "clusters", "bitmaps")
SAMPLE = 128
"""Points and boxes of which all pairs are looked at, to know how many meet."""


class Sides(NamedTuple):
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


def sides_of(low: Floats, high: Floats) -> Sides:
    """What kinds of sides boxes have."""
    return Sides(equal_sides(low, high), _bounded_sides(low, high))


def shares_of(points: Floats, low: Floats, high: Floats) -> Shares:
    """What samples of points and boxes tell."""
    some, others = sample_of(len(points), SAMPLE), sample_of(len(low), SAMPLE)
    counts = _count_met(points[some], low[others], high[others])
    looked_at = len(some) * len(others)
    # Half a pair more: what no sample has met is rare, but it is not never.
    each = (counts[:-1] + 0.5) / (looked_at + 0.5)
    together = max(float(counts[-1]) / looked_at, min(float(each.prod()), 1.0 / looked_at))
    return Shares(each, together)


def costs_of(shares: Shares, sides: Sides, points: int, boxes: int) -> dict[str, Cost]:
    """What each way would cost for so many points and boxes; the grid in both of its layouts."""
    each, axes = shares.each, len(shares.each)
    pairs = float(points) * boxes
    found = shares.all * pairs
    left = float(np.cumprod(np.sort(each))[1::2].sum())
    costs = {"scan": Cost(0.0, 5e3 + pairs * (1.5 + 0.3 * axes + 0.6 * left) + found * 3.0)}
    if len(sides.equal):
        bucket = float(each[sides.equal].prod()) * pairs
        costs["hash"] = Cost(3.5e4 + 37.0 * boxes, 1.2e4 + 65.0 * points + 3.0 * bucket)
    walked = plan_grid(each, points)
    walk = 1.6e5 + points * (60.0 + 8.0 * axes) + 3.0 * walked.cells
    walk += boxes * (64.0 + 38.0 * walked.runs)
    walk += walked.candidates * pairs * (2.2 + 0.35 * axes)
    costs["grid"] = Cost(0.0, walk + found * 2.5)
    lists = plan_grid(each, boxes, 0.0, MOST_ENTRIES / 2)
    listed = 1.7e5 + boxes * (180.0 + 10.0 * lists.cells_each)
    tested = lists.candidates * pairs * (1.2 + 0.7 * axes)
    costs["lists"] = Cost(listed, 1.2e4 + 100.0 * points + tested + found * 5.0)
    if len(sides.bounded):
        costs["bitmaps"] = _cost_of_bitmaps(each[sides.bounded], found, points, boxes)
    held = float(np.minimum(1.0, each + 0.5).prod())
    costs["clusters"] = Cost(
        1.3e5 + boxes * (220.0 + 78.0 * axes), 1.5e5 + 400.0 * points + pairs * 3.0 * held
    )
    return costs


def _cost_of_bitmaps(each: Floats, found: float, points: int, boxes: int) -> Cost:
    """Words in which something may be follow from how alike 64 neighbours are: each bound has a
    part in their order."""
    axes, pairs, words = len(each), float(points) * boxes, boxes / 64
    alike = max(1.0, words) ** (1 / (2 * axes))
    alive = float((each + (1.0 - each) / alike).prod())
    width = 0.5 ** bits_for(axes)
    reach, cover = np.minimum(1.0, each + width).prod(), np.maximum(0.0, each - width).prod()
    ask = 1.4e4 + points * (6.0 + axes * (22.0 + 5.6 * np.ceil(words / 64)))
    ask += points * words * alive * axes * 2.1 + found * 3.0 + float(reach - cover) * pairs * 6.0
    return Cost(5e5 + boxes * (250.0 + 170.0 * axes), float(ask))


def reason_for(method: str, shares: Shares, sides: Sides) -> str:
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
