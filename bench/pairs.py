"""`place bench pairs`: who is near whom among objects that move, beside SciPy's k-d tree."""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bench.figures import number, share, tell
from bench.rivals import Keys, library, told_apart
from bench.world import Floats, World, calibrate
from place.engine.changes import Change
from place.engine.matrix import Matrix
from place.engine.partial_answers import Found
from place.engine.slices import Segment
from place.engine.worker import Worker
from place.errors import InternalError
from place.kernels.near_changes import near_changes, reach_of
from place.model.reading import Advance
from place.plan.apply import apply
from place.plan.catalog import Catalog
from place.sql.dialect import parse_one
from place.sql.statements import Change as Statement

NEIGHBOURS = 5.0
"""Objects near each object, if no distance is given."""
SECOND = 1_000_000


@dataclass(frozen=True)
class Setting:
    """How many objects, how near is near, what share of the objects moves, and how often."""

    objects: int = 100_000
    distance: float | None = None
    moving: float = 1.0
    ticks: int = 9
    threads: int = os.cpu_count() or 1

    @property
    def reach(self) -> float:
        return self.distance or math.sqrt(NEIGHBOURS / (self.objects * math.pi))


@dataclass(frozen=True)
class Figures:
    """What was measured: medians over the ticks, in seconds."""

    objects: int
    distance: float
    moving: float
    ticks: int
    pairs: int
    deltas: int
    pairs_s: float
    engine_s: float
    ckdtree_s: float
    ratio: float
    engine_ratio: float
    calibration_s: float


class Tree:
    """SciPy's cKDTree: built anew and asked for all pairs, which are compared with the last."""

    def __init__(self, setting: Setting) -> None:
        self._tree = library("scipy.spatial").cKDTree
        self._setting = setting
        self.pairs: Keys = np.empty(0, np.int64)

    def tick(self, points: Floats) -> Keys:
        """What came and what left, as keys."""
        found = self._tree(points).query_pairs(self._setting.reach, output_type="ndarray")
        new: Keys = found.min(axis=1) * self._setting.objects + found.max(axis=1)
        new.sort()
        changed = told_apart(self.pairs, new)
        self.pairs = new
        return changed


class Engine:
    """A cell with one query over all objects."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._worker = Worker(Matrix().places()[0], threads=setting.threads)
        catalog = Catalog()
        for text in (
            "CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE)",
            "REGISTER QUERY pairs AS SELECT a.id, b.id FROM Objects a, Objects b "
            f"WHERE DISTANCE(a, b) <= {setting.reach!r} AND a.id < b.id",
        ):
            statement = parse_one(text)
            assert isinstance(statement, Statement)
            catalog = apply(catalog, statement, text, _no_table)
        self._worker.become(catalog, _no_table)

    def segment(self, points: Floats, moved: np.ndarray, second: int) -> Segment:
        """The readings of an instant."""
        ids = np.flatnonzero(moved)
        columns = {
            "id": ids,
            "x": np.ascontiguousarray(points[ids, 0]),
            "y": np.ascontiguousarray(points[ids, 1]),
            "time": np.full(len(ids), second * SECOND),
            "gone": np.zeros(len(ids), np.bool_),
        }
        return Segment("Objects", pa.table(columns))

    def tick(self, segment: Segment, second: int) -> list[Found]:
        """Take an instant; the changes of the answer, by columns."""
        return self._worker.take([segment, Advance(second * SECOND, "Objects")])

    def keys(self, found: list[Found]) -> Keys:
        """The changes as the rival's keys."""
        parts = []
        for change in found:
            assert isinstance(change, Change)
            one, other = (column.to_numpy() for column in change.columns)
            parts.append((one * self._setting.objects + other) * 2 + (change.sign > 0))
        keys: Keys = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
        return keys


def _no_table(*_: object) -> pa.Table:
    raise InternalError("there is no table here")


def measure(setting: Setting) -> Figures:
    """All over the same instants, in turn; all have to find the same changes."""
    calibration = calibrate()
    world = World(setting.objects, 1, setting.reach, setting.moving)
    tree, engine = Tree(setting), Engine(setting)
    reach = reach_of(setting.reach, closed=True, sphere=False)
    times: dict[str, list[float]] = {"pairs": [], "engine": [], "ckdtree": []}
    before = np.full((setting.objects, 2), np.nan)
    deltas = []
    for tick in range(-2, setting.ticks):
        instant = world.first() if tick == -2 else world.next()
        points, moved = instant.points[:, :2].copy(), instant.changed_points
        steps = np.ascontiguousarray(np.hstack([points, before]).T)
        start = time.perf_counter()
        found = near_changes(steps, steps, reach, setting.threads)
        times["pairs"].append(time.perf_counter() - start)
        segment = engine.segment(points, moved, tick + 3)
        start = time.perf_counter()
        told = engine.tick(segment, tick + 3)
        times["engine"].append(time.perf_counter() - start)
        start = time.perf_counter()
        changed = tree.tick(points)
        times["ckdtree"].append(time.perf_counter() - start)
        keys = [
            (np.minimum(one, other).astype(np.int64) * setting.objects + np.maximum(one, other)) * 2
            + came
            for (one, other), came in ((found.left, 0), (found.came, 1))
        ]
        mine = {"kernel": np.sort(np.concatenate(keys)), "engine": engine.keys(told)}
        for name, changes in mine.items():
            if not np.array_equal(changes, changed):
                raise InternalError(f"cKDTree and the {name} differ at tick {tick}")
        deltas.append(len(changed))
        before = points
    # The first two ticks compile, fill caches and appear: they are no measurement.
    seconds = {name: median(taken[2:]) for name, taken in times.items()}
    return Figures(
        objects=setting.objects,
        distance=setting.reach,
        moving=setting.moving,
        ticks=setting.ticks,
        pairs=len(tree.pairs),
        deltas=int(median(deltas[2:])),
        pairs_s=seconds["pairs"],
        engine_s=seconds["engine"],
        ckdtree_s=seconds["ckdtree"],
        ratio=seconds["ckdtree"] / seconds["pairs"],
        engine_ratio=seconds["ckdtree"] / seconds["engine"],
        calibration_s=min(calibration, calibrate()),
    )


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark to the command line."""
    parser = benches.add_parser(
        "pairs",
        help="who is near whom among moving objects, beside a k-d tree (SciPy)",
        description="Objects walk in the unit square, up to a quarter of the distance in every "
        "tick. The kernel compares places before and after, and tells which pairs came near each "
        "other and which are near no more; the engine does so for a registered query, from the "
        "readings to the rows that changed. SciPy's cKDTree is built and asked for all pairs "
        "again, which are compared with the last ones. All have to find the same changes. ratio "
        "is ckdtree_s / pairs_s, engine_ratio is ckdtree_s / engine_s.",
        epilog="example: place bench pairs --objects 100000 --moving 0.1 --json pairs.json",
    )
    default = Setting()
    parser.add_argument(
        "--objects", type=number, default=default.objects, metavar="N", help="objects (100000)"
    )
    parser.add_argument(
        "--distance",
        type=share,
        metavar="D",
        help="how near is near (so that each object has about 5 neighbours)",
    )
    parser.add_argument(
        "--moving", type=share, default=default.moving, metavar="F", help="share that moves (1)"
    )
    parser.add_argument(
        "--ticks", type=number, default=default.ticks, metavar="T", help="measured ticks (9)"
    )
    parser.add_argument(
        "--threads",
        type=number,
        default=default.threads,
        metavar="K",
        help="threads of the kernel and the engine (all cores); SciPy asks for pairs on one",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    names = [field.name for field in fields(Setting)]
    figures = measure(Setting(**{name: getattr(arguments, name) for name in names}))
    tell("pairs", [asdict(figures)], arguments.json)
    return 0
