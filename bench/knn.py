"""`place bench knn`: the k nearest objects of moving queries, beside SciPy's k-d tree."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.rivals import Keys, library, told_apart
from bench.world import Floats, World, calibrate
from place.errors import ConfigurationError, InternalError
from place.kernels.nearest import Nearby, NearestMatcher

SIDE = 0.01
"""Objects walk up to a quarter of this in every tick, as in the other experiments."""


@dataclass(frozen=True)
class Setting:
    """How many objects and queries, what share of the objects moves, and how often.

    Query i asks for the k objects nearest to object i.
    """

    objects: int = 100_000
    queries: int = 10_000
    k: int = 10
    moving: float = 1.0
    ticks: int = 9
    threads: int = os.cpu_count() or 1


@dataclass(frozen=True)
class Figures:
    """What was measured: medians over the ticks, in seconds."""

    objects: int
    queries: int
    k: int
    moving: float
    ticks: int
    knn_s: float
    ckdtree_s: float
    ratio: float
    deltas: int
    calibration_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


class KdTree:
    """SciPy's cKDTree: built anew in every tick, and asked on all cores.

    It tells answers and not what changed in them: that is left out of its time.
    """

    def __init__(self, setting: Setting) -> None:
        self._tree = library("scipy.spatial").cKDTree
        self._setting = setting

    def tick(self, points: Floats) -> NDArray[np.int64]:
        """The nearest k + 1 of each query's object, which are k and the object itself."""
        setting = self._setting
        asked = points[: setting.queries]
        found: Any = self._tree(points).query(asked, setting.k + 1, workers=setting.threads)[1]
        members: NDArray[np.int64] = np.asarray(found)
        return members


def without_focal(found: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """A row of k for each query; its own object is dropped, or else the last of those as near."""
    own = found == np.arange(len(found))[:, None]
    own[~own.any(axis=1), -1] = True
    others: NDArray[np.int64] = found[~own].reshape(len(found), k)
    return others


def measures_of(points: Floats, members: NDArray[np.int64]) -> Floats:
    """The squared distances of each query's members, ascending."""
    apart = points[: len(members), None, :] - points[members]
    found: Floats = np.sort(apart[..., 0] * apart[..., 0] + apart[..., 1] * apart[..., 1], axis=1)
    return found


def keys_of(members: NDArray[np.int64], objects: int) -> Keys:
    """Pairs of query and object as the rivals' keys."""
    queries = np.arange(len(members), dtype=np.int64)[:, None]
    keys: Keys = (queries * objects + members).ravel()
    return keys


def check(points: Floats, members: NDArray[np.int64], rival: NDArray[np.int64], tick: int) -> None:
    """Both have the same members, or others that are exactly as near."""
    differs = (np.sort(members, axis=1) != np.sort(rival, axis=1)).any(axis=1)
    if differs.any() and not np.array_equal(
        measures_of(points, members)[differs], measures_of(points, rival)[differs]
    ):
        raise InternalError(f"cKDTree and the kernel differ at tick {tick}")


def check_changes(old: Keys, new: Keys, changes: Nearby, objects: int, tick: int) -> None:
    """The changes are what tells the old answers from the new."""
    keys = changes.queries.astype(np.int64) * objects + changes.slots
    if not np.array_equal(np.sort(keys * 2 + (changes.signs > 0)), told_apart(old, new)):
        raise InternalError(f"the changes do not lead to the answers of tick {tick}")


def measure(setting: Setting) -> Figures:
    """Both over the same instants, in turn; both have to find the same answers."""
    if setting.queries > setting.objects:
        raise ConfigurationError(
            "every query follows an object of its own, and there are fewer",
            hint=f"write --objects {setting.queries}",
        )
    if setting.k >= setting.objects:
        raise ConfigurationError(
            f"there are no {setting.k} other objects", hint=f"write --k {setting.objects - 1}"
        )
    calibration = calibrate()
    world, matcher = World(setting.objects, 1, SIDE, setting.moving), NearestMatcher()
    rival = KdTree(setting)
    ranks = np.arange(setting.objects, dtype=np.int64)
    excluded = ranks[: setting.queries]
    ks = np.full(setting.queries, setting.k, np.int64)
    times: dict[str, list[float]] = {"knn": [], "ckdtree": []}
    old, deltas = np.empty(0, np.int64), []
    for tick in range(-2, setting.ticks):
        instant = world.first() if tick == -2 else world.next()
        points, moved = instant.points[:, :2].copy(), instant.changed_points
        centers, shifted = points[: setting.queries], moved[: setting.queries]
        start = time.perf_counter()
        changes = matcher.match(
            points, ranks, moved, centers, excluded, ks, shifted, threads=setting.threads
        )
        times["knn"].append(time.perf_counter() - start)
        start = time.perf_counter()
        found = rival.tick(points)
        times["ckdtree"].append(time.perf_counter() - start)
        members = matcher.members.reshape(setting.queries, setting.k).astype(np.int64)
        check(points, members, without_focal(found, setting.k), tick)
        new = np.sort(keys_of(members, setting.objects))
        check_changes(old, new, changes, setting.objects, tick)
        deltas.append(len(changes.queries))
        old = new
    # The first two ticks compile, fill caches and appear: they are no measurement.
    seconds = {name: median(found[2:]) for name, found in times.items()}
    return Figures(
        objects=setting.objects,
        queries=setting.queries,
        k=setting.k,
        moving=setting.moving,
        ticks=setting.ticks,
        knn_s=seconds["knn"],
        ckdtree_s=seconds["ckdtree"],
        ratio=seconds["ckdtree"] / seconds["knn"],
        deltas=int(median(deltas[2:])),
        calibration_s=min(calibration, calibrate()),
    )
