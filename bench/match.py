"""`place bench match`: the bulk join of one instant, beside an R-tree and a database."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from bench.rivals import DuckDb, Keys, Rival, StrTree
from bench.world import World, calibrate, peak_rss_mb
from place.errors import InternalError
from place.kernels.bulk import BulkMatcher, Pairs


@dataclass(frozen=True)
class Setting:
    """How many objects and queries, how large, what share of them moves, and how often."""

    objects: int = 100_000
    queries: int = 100_000
    side: float = 0.01
    moving: float = 1.0
    ticks: int = 5
    threads: int = os.cpu_count() or 1

    def world(self) -> World:
        return World(self.objects, self.queries, self.side, self.moving)


@dataclass(frozen=True)
class Figures:
    """What was measured: medians over the ticks, in seconds."""

    objects: int
    queries: int
    side: float
    moving: float
    ticks: int
    match_s: float
    strtree_s: float
    duckdb_s: float
    ratio: float
    deltas: int
    calibration_s: float
    peak_rss_mb: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def changes_of(pairs: Pairs, objects: int) -> Keys:
    """Our pairs as the rivals' keys: pairs that only stay within are no change."""
    alone = pairs.codes != 3
    keys = pairs.boxes[alone].astype(np.int64) * objects + pairs.points[alone]
    found: Keys = keys * 2 + (pairs.codes[alone] == 1)
    return found


def kernel_times(setting: Setting, warm_ups: int = 2) -> tuple[list[float], list[int], float]:
    """Seconds and deltas of each tick of the kernel alone, and the memory that it took in MiB."""
    world, matcher = setting.world(), BulkMatcher()
    for instant in [world.first(), *(world.next() for _ in range(warm_ups))]:
        instant.match(matcher, setting.threads)
    times, deltas = [], []
    for _ in range(setting.ticks):
        instant = world.next()
        start = time.perf_counter()
        pairs = instant.match(matcher, setting.threads)
        times.append(time.perf_counter() - start)
        deltas.append(len(pairs.boxes))
    return times, deltas, peak_rss_mb()


def measure(setting: Setting) -> Figures:
    """All contestants over the same instants, in turn; each has to find the same changes."""
    calibration = calibrate()
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        memory = fresh.apply(kernel_times, (setting,))[2]
    rivals: dict[str, Rival] = {
        "strtree": StrTree(setting.threads),
        "duckdb": DuckDb(setting.threads, setting.side),
    }
    times: dict[str, list[float]] = {name: [] for name in ["match", *rivals]}
    world, matcher = setting.world(), BulkMatcher()
    deltas = []
    for tick in range(-2, setting.ticks):
        instant = world.first() if tick == -2 else world.next()
        start = time.perf_counter()
        pairs = instant.match(matcher, setting.threads)
        times["match"].append(time.perf_counter() - start)
        expected = np.sort(changes_of(pairs, setting.objects))
        deltas.append(len(expected))
        now, regions = instant.points[:, :2].copy(), instant.boxes[:, :4].copy()
        for name, rival in rivals.items():
            start = time.perf_counter()
            found = rival.tick(now, regions)
            times[name].append(time.perf_counter() - start)
            if not np.array_equal(np.sort(found), expected):
                raise InternalError(f"{name} and the kernel differ at tick {tick}")
    # The first two ticks compile, fill caches and appear: they are no measurement.
    seconds = {name: median(found[2:]) for name, found in times.items()}
    return Figures(
        objects=setting.objects,
        queries=setting.queries,
        side=setting.side,
        moving=setting.moving,
        ticks=setting.ticks,
        match_s=seconds["match"],
        strtree_s=seconds["strtree"],
        duckdb_s=seconds["duckdb"],
        ratio=min(seconds["strtree"], seconds["duckdb"]) / seconds["match"],
        deltas=int(median(deltas[2:])),
        calibration_s=min(calibration, calibrate()),
        peak_rss_mb=memory,
    )
