"""`place bench dispatch`: the nearest drivers of each call, beside SciPy's k-d tree.

A cell of the engine takes the readings of a tick and gives the changes of the answer, as Arrow. The
tree is built and asked anew, and its answer is told apart from the last one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import place
from bench.rivals import Keys, library, told_apart
from bench.world import Floats, World, calibrate
from place.engine.cell import Cell
from place.engine.changes import Change
from place.engine.columns import Columns
from place.engine.matrix import Matrix
from place.engine.objects import Messages
from place.engine.partial_answers import Found
from place.engine.query_changes import Changes
from place.errors import ConfigurationError, InternalError
from place.kernels.nearest import NearestMatcher
from place.model.schema import Stream
from place.model.time import SECOND
from place.plan.catalog import fold

SIDE = 0.01
"""Calls and drivers walk up to a quarter of this in every tick, as in the other experiments."""
STREAMS = "Calls", "Drivers"
Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """How many calls and drivers, how many drivers each call asks for, and what share moves."""

    calls: int = 10_000
    drivers: int = 100_000
    k: int = 3
    moving: float = 1.0
    ticks: int = 9
    threads: int = os.cpu_count() or 1


@dataclass(frozen=True)
class Figures:
    """What was measured: medians over the ticks, in seconds.

    `engine_s` is the engine's operator, from what objects were and are to signed rows. `cell_s` is
    all of the cell around it: readings are found by their keys and kept, and changes leave as
    Arrow. `kernel_s` is the search alone.
    """

    calls: int
    drivers: int
    k: int
    moving: float
    ticks: int
    engine_s: float
    ckdtree_s: float
    ratio: float
    cell_s: float
    cell_ratio: float
    kernel_s: float
    kernel_ratio: float
    deltas: int
    calibration_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Steps:
    """Where calls and drivers are at an instant, and which of them moved."""

    places: tuple[Floats, Floats]
    moved: tuple[NDArray[np.bool_], NDArray[np.bool_]]


class Walk:
    """Calls and drivers on a random walk."""

    def __init__(self, setting: Setting) -> None:
        self._world = World(setting.drivers, setting.calls, SIDE, setting.moving)
        self._is_first = True

    def next(self) -> Steps:
        instant = self._world.first() if self._is_first else self._world.next()
        self._is_first = False
        calls = (instant.boxes[:, :2] + instant.boxes[:, 2:4]) / 2
        moved = instant.changed_boxes, instant.changed_points
        return Steps((calls, instant.points[:, :2].copy()), moved)


class Engine:
    """A cell with one query, which is given messages by columns."""

    def __init__(self, setting: Setting) -> None:
        with place.connect() as session:
            for name in STREAMS:
                session.sql(f"CREATE STREAM {name} (id BIGINT KEY, x DOUBLE, y DOUBLE)")
            session.sql(
                "REGISTER QUERY dispatch AS SELECT c.id, d.id FROM Calls c, Drivers d"
                f" kNN ({setting.k}, c)"
            )
            catalog = session.runtime.catalog
        self._streams: list[Stream] = [catalog.streams[fold(name)] for name in STREAMS]
        self._cell = Cell(Matrix().places()[0], self._streams, threads=setting.threads)
        self._cell.change(Changes(0, [catalog.queries["dispatch"]]))
        self._drivers = setting.drivers
        self._instant = 0

    def messages(self, steps: Steps) -> dict[str, tuple[Messages, Longs]]:
        """The readings of all that moved."""
        instant = self._instant + SECOND
        told = {}
        for stream, places, moved in zip(self._streams, steps.places, steps.moved, strict=True):
            ids = np.flatnonzero(moved)
            count = len(ids)
            rows = Columns(stream.columns, self._cell.dictionary, 0)
            rows.values = [ids, places[ids, 0], places[ids, 1]]
            rows.nulls = [np.zeros(count, np.bool_) for _ in stream.columns]
            times = np.full(count, instant)
            told[stream.name] = Messages(ids, times, np.zeros(count, np.bool_), rows), times
        return told

    def tick(self, told: dict[str, tuple[Messages, Longs]]) -> Sequence[Found]:
        """The changes that readings cause."""
        before, self._instant = self._instant, self._instant + SECOND
        return self._cell.take(before, self._instant, told, {})

    def operator_seconds(self) -> float:
        """What the join has taken so far."""
        (chain,) = self._cell.chains
        return self._cell.counters.seconds((id(chain), "choose"))

    def keys(self, found: Sequence[Found]) -> Keys:
        """Changes as the rivals' keys."""
        parts = [np.empty(0, np.int64)]
        for change in found:
            assert isinstance(change, Change)
            calls, drivers = (column.to_numpy() for column in change.columns)
            parts.append((calls * self._drivers + drivers) * 2 + (change.sign > 0))
        return np.sort(np.concatenate(parts))


class KdTree:
    """SciPy's cKDTree, asked on all cores; what it finds is told apart from what it found last."""

    def __init__(self, setting: Setting) -> None:
        self._tree = library("scipy.spatial").cKDTree
        self._setting = setting
        self._calls = np.arange(setting.calls, dtype=np.int64)[:, None]
        self._answer: Keys = np.empty(0, np.int64)

    def tick(self, steps: Steps) -> Keys:
        """The changes from the last tick's answer."""
        setting = self._setting
        calls, drivers = steps.places
        found: Any = self._tree(drivers).query(calls, setting.k, workers=setting.threads)[1]
        members = np.asarray(found).reshape(setting.calls, setting.k)
        answer: Keys = (self._calls * setting.drivers + members).ravel()
        changes = told_apart(self._answer, answer)
        self._answer = answer
        return changes


class Kernel:
    """The search that the engine's operator asks, by itself."""

    def __init__(self, setting: Setting) -> None:
        self._matcher, self._threads = NearestMatcher(), setting.threads
        self._ranks = np.arange(setting.drivers, dtype=np.int64)
        self._excluded = np.full(setting.calls, -1, np.int64)
        self._ks = np.full(setting.calls, setting.k, np.int64)

    def tick(self, steps: Steps) -> None:
        calls, drivers = steps.places
        shifted, moved = steps.moved
        self._matcher.match(
            drivers,
            self._ranks,
            moved,
            calls,
            self._excluded,
            self._ks,
            shifted,
            threads=self._threads,
        )


def measure(setting: Setting) -> Figures:
    """All over the same instants, in turn; engine and tree have to find the same changes."""
    if setting.k > setting.drivers:
        raise ConfigurationError(
            f"there are no {setting.k} drivers", hint=f"write --k {setting.drivers}"
        )
    calibration = calibrate()
    walk, engine, tree, kernel = Walk(setting), Engine(setting), KdTree(setting), Kernel(setting)
    times: dict[str, list[float]] = {"engine": [], "cell": [], "kernel": [], "ckdtree": []}
    deltas: list[int] = []
    for tick in range(-3, setting.ticks):
        steps = walk.next()
        told, spent = engine.messages(steps), engine.operator_seconds()
        clock = [time.perf_counter()]
        found = engine.tick(told)
        clock.append(time.perf_counter())
        expected = tree.tick(steps)
        clock.append(time.perf_counter())
        kernel.tick(steps)
        clock.append(time.perf_counter())
        for name, seconds in zip(("cell", "ckdtree", "kernel"), np.diff(clock), strict=True):
            times[name].append(float(seconds))
        times["engine"].append(engine.operator_seconds() - spent)
        if not np.array_equal(engine.keys(found), expected):
            raise InternalError(f"cKDTree and the engine differ at tick {tick}")
        deltas.append(len(expected))
    # The first three ticks compile, fill caches and appear: they are no measurement.
    seconds_of = {name: median(measured[3:]) for name, measured in times.items()}
    rival = seconds_of["ckdtree"]
    return Figures(
        calls=setting.calls,
        drivers=setting.drivers,
        k=setting.k,
        moving=setting.moving,
        ticks=setting.ticks,
        engine_s=seconds_of["engine"],
        ckdtree_s=rival,
        ratio=rival / seconds_of["engine"],
        cell_s=seconds_of["cell"],
        cell_ratio=rival / seconds_of["cell"],
        kernel_s=seconds_of["kernel"],
        kernel_ratio=rival / seconds_of["kernel"],
        deltas=int(median(deltas[3:])),
        calibration_s=min(calibration, calibrate()),
    )
