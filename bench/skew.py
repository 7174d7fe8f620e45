"""`place bench skew`: 90% of objects and queries in 1% of the space, beside an even spread."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from statistics import median

from bench.world import DENSE_SHARE, DENSE_SIDE, World, calibrate
from place.kernels.bulk import BulkMatcher


@dataclass(frozen=True)
class Setting:
    """How many objects and queries; queries have this side where they are spread evenly."""

    objects: int = 100_000
    queries: int = 100_000
    side: float = 0.01
    ticks: int = 9
    threads: int = os.cpu_count() or 1

    @property
    def skewed_side(self) -> float:
        """The side with which queries of the skewed world hold as many objects."""
        dense = DENSE_SHARE + (1 - DENSE_SHARE) * DENSE_SIDE**2
        denser = DENSE_SHARE * dense / DENSE_SIDE**2 + (1 - DENSE_SHARE) * (1 - DENSE_SHARE)
        return float(self.side / denser**0.5)


@dataclass(frozen=True)
class Figures:
    objects: int
    queries: int
    side: float
    skewed_side: float
    ticks: int
    uniform_s: float
    skewed_s: float
    ratio: float
    uniform_deltas: int
    skewed_deltas: int
    calibration_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def measure(setting: Setting) -> Figures:
    """Both worlds tick by tick in turn, so that both see the same machine."""
    calibration = calibrate()
    sides = (setting.side, setting.skewed_side)
    worlds = [
        World(setting.objects, setting.queries, side, skewed=skewed)
        for side, skewed in zip(sides, (False, True), strict=True)
    ]
    matchers = [BulkMatcher(), BulkMatcher()]
    times: list[list[float]] = [[], []]
    deltas = [0, 0]
    for tick in range(-2, setting.ticks):
        for number, (world, matcher) in enumerate(zip(worlds, matchers, strict=True)):
            instant = world.first() if tick == -2 else world.next()
            start = time.perf_counter()
            pairs = instant.match(matcher, setting.threads)
            times[number].append(time.perf_counter() - start)
            deltas[number] = len(pairs.boxes)
    # The first two ticks compile, fill caches and appear: they are no measurement.
    uniform, skewed = (median(found[2:]) for found in times)
    return Figures(
        objects=setting.objects,
        queries=setting.queries,
        side=setting.side,
        skewed_side=setting.skewed_side,
        ticks=setting.ticks,
        uniform_s=uniform,
        skewed_s=skewed,
        ratio=skewed / uniform,
        uniform_deltas=deltas[0],
        skewed_deltas=deltas[1],
        calibration_s=min(calibration, calibrate()),
    )
