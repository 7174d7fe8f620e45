"""Is the way that is chosen the best one, and the size of clusters? Asked of many settings.

For each setting every way is forced, in turn with the choice, preparing included, as `join_boxes`
does it; the least time of each counts. And for some settings, clusters of each size are forced in
turn with the size that is found. Times are those of the thread on its processor: differences of
some percent would not be seen beside others who use the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.conditions import Conditions, draw_narrow_rules, draw_readings, draw_rules
from place.errors import InternalError
from place.kernels.box_choice import METHODS
from place.kernels.box_clusters import SIZES, BoxClusters
from place.kernels.box_join import join_boxes
from place.kernels.hilbert import hilbert_order

Floats = NDArray[np.float64]
World = tuple[Floats, Conditions]

COUNTS = ((40, 40_000), (2_000, 2_000), (10_000, 4_000), (50_000, 200))
"""Readings and rules."""
PAIRS_OF_SCANS = 60_000_000
"""Pairs up to which looking at all of them is tried."""
REPEATS, MOST_REPEATS = 9, 200
SECONDS = 4.0
"""A setting is measured as often as fits into this time: the shorter a join is, the more a machine
that others use disturbs it."""
SWEPT = (("wide, 4 attributes", 4, 1.0, 0.0), ("wide, 8 attributes", 8, 1.0, 0.0),
         ("half, 8 attributes", 8, 0.5, 0.0), ("skewed, 4 attributes", 4, 1.0, 0.8))  # fmt: skip


class Outcome(NamedTuple):
    """A setting: what each way took, which one was chosen, and what the choice took beside the
    best of them."""

    name: str
    readings: int
    rules: int
    pairs: int
    chosen: str
    best: str
    ratio: float
    seconds: dict[str, float]


def _equalities(readings: int, rules: int) -> World:
    """Rules for one kind of reading each, of 200 kinds, and conditions on two attributes more."""
    chance = np.random.default_rng(5)
    points, boxes = draw_readings(readings, 3), draw_rules(rules, 3)
    points[:, 0] = chance.integers(0, 200, readings)
    boxes.low[:, 0] = boxes.high[:, 0] = chance.integers(0, 200, rules)
    return points, boxes


WORLDS: dict[str, Callable[[int, int], World]] = {
    "wide, 8 attributes": lambda n, m: (draw_readings(n, 8), draw_rules(m, 8)),
    "half of 8 attributes": lambda n, m: (draw_readings(n, 8), draw_rules(m, 8, 0.5)),
    "narrow, 3 attributes": lambda n, m: (draw_readings(n, 3), draw_narrow_rules(m, 3, 0.05)),
    "narrow, 2, skewed": lambda n, m: (
        draw_readings(n, 2, skew=0.8),
        draw_narrow_rules(m, 2, 0.01),
    ),
    "bands, 1 attribute": lambda n, m: (draw_readings(n, 1), draw_narrow_rules(m, 1, 0.002)),
    "one kind of 200": _equalities,
}


def measure_choices(counts: tuple[tuple[int, int], ...] = COUNTS) -> list[Outcome]:
    """The choice beside all ways that can be forced, over worlds and sizes."""
    found = []
    for name, world in WORLDS.items():
        for readings, rules in counts:
            points, boxes = world(readings, rules)
            found.append(_beside_all(name, points, boxes))
    return found


def _beside_all(name: str, points: Floats, boxes: Conditions) -> Outcome:
    ways: list[str | None] = [None, *METHODS]
    if not (boxes.low == boxes.high).all(axis=0).any():
        ways.remove("hash")
    if len(points) * len(boxes.low) > PAIRS_OF_SCANS:
        ways.remove("scan")
    times: dict[str, float] = {}
    pairs, chosen, spent = -1, "", 0.0
    for repeat in range(MOST_REPEATS + 1):
        if repeat > REPEATS and spent > SECONDS:
            break
        # Each way comes after each other one: nobody always finds warm caches.
        turn = repeat % len(ways)
        for way in ways[turn:] + ways[:turn]:
            start = time.thread_time()
            found = join_boxes(points, *boxes, way)
            taken = time.thread_time() - start
            spent += taken
            if repeat:  # the first time compiles
                key = way or "choice"
                times[key] = min(times.get(key, np.inf), taken)
            if pairs not in (-1, len(found.points)):
                raise InternalError(f"{way} finds other pairs in {name}")
            pairs = len(found.points)
            chosen = found.method if way is None else chosen
    forced = {way: taken for way, taken in times.items() if way != "choice"}
    best = min(forced, key=lambda way: forced[way])
    ratio = times["choice"] / forced[best]
    return Outcome(name, len(points), len(boxes.low), pairs, chosen, best, ratio, times)


class Sweep(NamedTuple):
    """A setting: the seconds of each size of clusters, the size that is found, and what it takes
    beside the best."""

    name: str
    found: int
    best: int
    ratio: float
    seconds: dict[int, float]


def measure_sizes(readings: int = 4_000, rules: int = 4_000) -> list[Sweep]:
    """Clusters of each size, and of the one that is found."""
    sweeps = []
    for name, attributes, predicates, skew in SWEPT:
        points = draw_readings(readings, attributes, skew=skew)
        boxes = draw_rules(rules, attributes, predicates)
        columns = np.ascontiguousarray(points[hilbert_order(points)].T)
        found = BoxClusters(*boxes).size_of(columns)
        forced = {size: BoxClusters(*boxes, size) for size in {*SIZES, found} if size <= readings}
        times: dict[int, float] = {}
        for _ in range(REPEATS):
            for size, clusters in forced.items():
                start = time.thread_time()
                clusters.find(points)
                times[size] = min(times.get(size, np.inf), time.thread_time() - start)
        best = min(times, key=lambda size: times[size])
        sweeps.append(Sweep(name, found, best, times[found] / times[best], times))
    return sweeps


def choice_figures(outcomes: list[Outcome]) -> dict[str, Any]:
    """How far the choice is from the best, over all settings."""
    ratios = np.array([outcome.ratio for outcome in outcomes])
    return {
        "settings": len(outcomes),
        "best_is_chosen": sum(outcome.chosen == outcome.best for outcome in outcomes),
        "within_15_percent": int((ratios <= 1.15).sum()),
        "worst_ratio": float(ratios.max()),
        "mean_ratio": float(ratios.mean()),
    }
