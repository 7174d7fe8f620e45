"""`place bench progressive`: readings one by one, on one core."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from statistics import median

import numpy as np

from bench.world import calibrate
from place.kernels.progressive import Events, match_progressive


@dataclass(frozen=True)
class Setting:
    """How many objects and queries, and what share of the readings leads a query."""

    objects: int = 100_000
    queries: int = 100_000
    side: float = 0.01
    readings: int = 200_000
    focal: float = 0.0


@dataclass(frozen=True)
class Figures:
    objects: int
    queries: int
    side: float
    readings: int
    focal: float
    readings_per_s: float
    deltas: int
    calibration_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def measure(setting: Setting, repetitions: int = 5) -> Figures:
    """The median over some repetitions of a run of readings, each of a few steps of a walk."""
    _taken(replace(setting, objects=1000, queries=1000, readings=20_000, focal=0.1), 0)
    calibration = calibrate()
    results = [_taken(setting, seed) for seed in range(repetitions)]
    seconds = median(taken for taken, _ in results)
    return Figures(
        objects=setting.objects,
        queries=setting.queries,
        side=setting.side,
        readings=setting.readings,
        focal=setting.focal,
        readings_per_s=setting.readings / seconds,
        deltas=len(results[0][1].box),
        calibration_s=min(calibration, calibrate()),
    )


def _taken(setting: Setting, seed: int) -> tuple[float, Events]:
    """Seconds for a run of readings, with the lists that are made for it, and its events.

    Object i leads query i if its readings are focal ones: the query is a square around it.
    """
    chance = np.random.default_rng(seed)
    positions, centres = chance.random((setting.objects, 2)), chance.random((setting.queries, 2))
    led = int(setting.focal * min(setting.objects, setting.queries))
    centres[:led] = positions[:led]
    half = setting.side / 2
    boxes = np.hstack([centres - half, centres + half])
    focal = chance.random(setting.readings) < setting.focal
    others = chance.integers(led, max(setting.objects, led + 1), setting.readings)
    leaders = chance.integers(0, max(led, 1), setting.readings)
    slots = np.where(focal, leaders, others).astype(np.int32)
    # Where an object goes depends on where its last reading left it.
    to = np.empty((setting.readings, 2))
    place = positions.copy()
    steps = chance.uniform(-setting.side / 4, setting.side / 4, to.shape)
    for i, slot in enumerate(slots.tolist()):
        place[slot] += steps[i]
        to[i] = place[slot]
    starts = np.concatenate([[0], np.cumsum(focal)]).astype(np.int64)
    move_to = np.hstack([to[focal] - half, to[focal] + half])
    modes = np.zeros(setting.queries, np.uint8)
    start = time.perf_counter()
    events = match_progressive(positions, boxes, modes, slots, to, starts, slots[focal], move_to)
    return time.perf_counter() - start, events
