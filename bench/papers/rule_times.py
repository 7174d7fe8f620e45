"""What the algorithms of Spatial Join CQ take for a reading, in one run.

SJ-Batch and SJ-Immediate are the paper's algorithm (`place.kernels.box_clusters`), whose query
index is a tree over corners in the place of a multilevel grid file; *ours* are what the kernel
chooses for a batch and for one reading. IBS walks over its readings in compiled code; the two that
are asked for one reading after the other are called for each. Times are those of the thread on its
processor, the least of some repetitions: all contestants run on one core, which others use, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.conditions import Conditions
from bench.ibs import Ibs
from bench.papers.record import Row, Value
from bench.world import calibrate
from place.errors import InternalError
from place.kernels.box_clusters import BoxClusters
from place.kernels.box_join import BoxIndex

Floats = NDArray[np.float64]

HOWS = ("SJ-Batch", "SJ-Immediate", "IBS", "our batch", "our immediate")
REPEATS = 3
WHERE = "Spatial Join CQ"


def machine(calibrations: list[float]) -> dict[str, float]:
    """What a record says of the machine."""
    return {
        "cores": os.cpu_count() or 1,
        "calibration_s": round(float(np.median([*calibrations, calibrate()])), 3),
        "load": round(os.getloadavg()[0], 1),
    }


def least_ms(work: Callable[[], Any], readings: int) -> float:
    """Milliseconds for a reading, the least of some repetitions."""
    best = np.inf
    for _ in range(REPEATS):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return round(1e3 * best / max(1, readings), 6)


def compare(
    readings: Floats, rules: Conditions, singles: int, about: dict[str, Value]
) -> tuple[Row, list[Row]]:
    """The pairs that are found, and the milliseconds that each algorithm needs for a reading."""
    alone = readings[:singles]
    clusters, single, trees = BoxClusters(*rules), BoxClusters(*rules, size=1), Ibs(*rules)
    batches, ones = BoxIndex(*rules), BoxIndex(*rules)
    batches.prepare(readings, len(readings))
    ones.prepare(readings, 1)
    met, ours = clusters.find(readings), batches.find(readings)
    if len(met.points) != len(ours.points) or checksum(*met) != checksum(*ours[:2]):
        raise InternalError("SJ-Batch and the kernel's choice find different pairs")
    below = ours.points < len(alone)
    if checksum(*trees.find(alone)) != checksum(ours.points[below], ours.boxes[below]):
        raise InternalError("IBS and the kernel's choice find different pairs")
    each = [alone[i : i + 1] for i in range(len(alone))]
    work: dict[str, tuple[Callable[[], Any], int]] = {
        "SJ-Batch": (lambda: clusters.find(readings), len(readings)),
        "SJ-Immediate": (lambda: [single.find(one) for one in each], len(alone)),
        "IBS": (lambda: trees.find(alone), len(alone)),
        "our batch": (lambda: batches.find(readings), len(readings)),
        "our immediate": (lambda: [ones.find(one) for one in each], len(alone)),
    }
    count = {**about, "readings": len(readings), "pairs": len(ours.points)}
    times: list[Mapping[str, int | float | str]] = [
        {**about, "how": how, "ms": least_ms(*work[how])} for how in HOWS
    ]
    return count, times


def checksum(points: Any, boxes: Any) -> int:
    """A number that follows from a set of pairs."""
    mixed = np.asarray(points).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.asarray(boxes).astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return int((mixed * np.uint64(0x94D049BB133111EB)).sum(dtype=np.uint64))
