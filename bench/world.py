"""What the experiments move: objects and square queries on a random walk in the unit square."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from place.kernels.bulk import BulkMatcher, Pairs

Floats = NDArray[np.float64]

CALIBRATION_SIZE = 5_000_000
DENSE_SHARE, DENSE_SIDE = 0.9, 0.1
"""A skewed world has this share of objects and queries in a square of this side."""


def calibrate() -> float:
    """Seconds for sorting 5 million numbers: how fast this machine is, just now."""
    numbers = np.random.default_rng(0).random(CALIBRATION_SIZE)
    start = time.perf_counter()
    np.argsort(numbers)
    return time.perf_counter() - start


@dataclass(frozen=True)
class Instant:
    """What a kernel is given: objects and queries now and before, and which of them moved."""

    points: Floats
    boxes: Floats
    modes: NDArray[np.uint8]
    changed_points: NDArray[np.bool_]
    changed_boxes: NDArray[np.bool_]

    def match(self, matcher: BulkMatcher, threads: int) -> Pairs:
        return matcher.match(
            self.points,
            self.boxes,
            self.modes,
            self.changed_points,
            self.changed_boxes,
            threads=threads,
        )


class World:
    """Objects and queries; a fixed share of both walks, the others stand still.

    The same arguments make the same walk, so that several contestants see the same instants.
    """

    def __init__(
        self,
        objects: int,
        queries: int,
        side: float,
        moving: float = 1.0,
        *,
        skewed: bool = False,
        seed: int = 1,
    ) -> None:
        self._chance = np.random.default_rng(seed)
        self._side = side
        self._places = [self._scattered(objects, skewed), self._scattered(queries, skewed)]
        self._moving = [
            self._chance.random(objects) < moving,
            self._chance.random(queries) < moving,
        ]
        self._modes = np.zeros(queries, np.uint8)

    def _scattered(self, count: int, skewed: bool) -> Floats:
        places = self._chance.random((count, 2))
        if skewed:
            dense = self._chance.random(count) < DENSE_SHARE
            places[dense] = 0.3 + places[dense] * DENSE_SIDE
        return places

    def _boxes(self) -> Floats:
        centres, half = self._places[1], self._side / 2
        return np.hstack([centres - half, centres + half])

    def first(self) -> Instant:
        """The instant at which everything appears."""
        points, boxes = self._places[0], self._boxes()
        return Instant(
            np.hstack([points, np.full_like(points, np.nan)]),
            np.hstack([boxes, np.full_like(boxes, np.nan)]),
            self._modes,
            np.ones(len(points), np.bool_),
            np.ones(len(boxes), np.bool_),
        )

    def next(self) -> Instant:
        """The instant after a step of everything that walks."""
        points, boxes = self._places[0], self._boxes()
        for number, (places, moving) in enumerate(zip(self._places, self._moving, strict=True)):
            steps = self._chance.uniform(-self._side / 4, self._side / 4, places.shape)
            walked = np.clip(places + steps, 0.0, 1.0)
            self._places[number] = np.where(moving[:, None], walked, places)
        return Instant(
            np.hstack([self._places[0], points]),
            np.hstack([self._boxes(), boxes]),
            self._modes,
            self._moving[0],
            self._moving[1],
        )


def peak_rss_mb() -> float:
    """The most memory that this process has held, in MiB; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
