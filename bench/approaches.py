"""`place bench approaches`: which ships will come near each other, beside SciPy and all pairs.

Ships go straight on and turn a little when they report. A query with CPA tells which pairs will
come near each other within ten minutes. Both rivals know which ships have reported and ask only
their pairs: one all of them by NumPy, the other those that SciPy's k-d tree finds around where
ships are now, as far away as the fastest two could come together.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import cast

import numpy as np
import pyarrow as pa

from bench.figures import number, share, tell
from bench.rivals import Keys, library, told_apart
from bench.world import Floats, calibrate
from place.engine.changes import Change
from place.engine.slices import Segment
from place.errors import InternalError
from place.model.reading import Advance
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import connect

STEP = 10
"""Seconds between two instants."""
AHEAD = 600
FASTEST = 12.0
SIDE = 2000.0
"""Ships have the square of so many metres each, on average."""
BLOCK = 1 << 21
"""Pairs that NumPy looks at at once."""

Pairs = tuple[Keys, Keys]
Find = Callable[[Keys], Pairs]


@dataclass(frozen=True)
class Setting:
    """How many ships, how near is near, which share of them reports, and how often."""

    ships: int = 10_000
    distance: float = 500.0
    moving: float = 1.0
    ticks: int = 5
    threads: int = os.cpu_count() or 1


@dataclass(frozen=True)
class Figures:
    """What was measured: medians over the ticks, in seconds."""

    ships: int
    distance: float
    moving: float
    ticks: int
    pairs: int
    deltas: int
    engine_s: float
    all_pairs_s: float
    ckdtree_s: float
    ratio: float
    ckdtree_ratio: float
    calibration_s: float


class Fleet:
    """Where ships were last, when, and where they were going."""

    def __init__(self, setting: Setting) -> None:
        self._chance = np.random.default_rng(7)
        self._setting = setting
        count, side = setting.ships, SIDE * np.sqrt(setting.ships)
        self._speeds = self._chance.uniform(0, FASTEST, count)
        self._headings = self._chance.uniform(0, 2 * np.pi, count)
        self.places = self._chance.uniform(0, side, (count, 2))
        self.velocities = np.zeros((count, 2))
        self.seconds = np.zeros(count)
        self.now = 0

    def report(self, moving: float) -> Keys:
        """Let some time pass, after which some ships report: who does."""
        self.now += STEP
        count = self._setting.ships
        size = max(1, round(moving * count))
        told: Keys = np.sort(self._chance.choice(count, size, replace=False))
        self._headings[told] += self._chance.normal(0, 0.05, size)
        ways = np.stack([np.cos(self._headings[told]), np.sin(self._headings[told])], axis=1)
        passed = (self.now - self.seconds[told])[:, None]
        after = self.places[told] + ways * self._speeds[told][:, None] * passed
        self.velocities[told] = (after - self.places[told]) / passed
        self.places[told], self.seconds[told] = after, self.now
        return told

    def places_now(self) -> Floats:
        """Where ships are by now, if they went on as they came."""
        found: Floats = self.places + self.velocities * (self.now - self.seconds)[:, None]
        return found

    def approaches(self, one: Keys, other: Keys) -> Floats:
        """How near ships will come to each other."""
        start = np.maximum(self.seconds[one], self.seconds[other])
        ours, theirs = (
            self.places[side] + self.velocities[side] * (start - self.seconds[side])[..., None]
            for side in (one, other)
        )
        apart, drift = theirs - ours, self.velocities[other] - self.velocities[one]
        square = (drift * drift).sum(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = -(apart * drift).sum(axis=-1) / square
        at = np.where(square == 0.0, 0.0, np.clip(at, 0.0, AHEAD))
        nearest = apart + drift * at[..., None]
        found: Floats = np.hypot(nearest[..., 0], nearest[..., 1])
        return found


class Rival:
    """Asks the pairs of ships that have reported, and keeps all others."""

    def __init__(self, fleet: Fleet, setting: Setting, find: Find) -> None:
        self._fleet, self._setting, self._find = fleet, setting, find
        self.pairs: Keys = np.empty(0, np.int64)

    def tick(self, told: Keys) -> Keys:
        """What came and what left, as keys."""
        count = self._setting.ships
        one, other = self._find(told)
        new = np.unique(np.minimum(one, other) * count + np.maximum(one, other))
        moved = np.zeros(count, np.bool_)
        moved[told] = True
        kept = self.pairs[~(moved[self.pairs // count] | moved[self.pairs % count])]
        new = np.sort(np.concatenate([kept, new]))
        changed = told_apart(self.pairs, new)
        self.pairs = new
        return changed


def find_all(fleet: Fleet, setting: Setting) -> Find:
    """All pairs of a ship that has reported, by NumPy."""

    def find(told: Keys) -> Pairs:
        count, parts = setting.ships, [(told[:0], told[:0])]
        everybody = np.arange(count)
        rows = max(1, BLOCK // count)
        for begin in range(0, len(told), rows):
            some = told[begin : begin + rows]
            # Where all have reported, each pair is looked at once.
            others = everybody if len(told) < count else everybody[some[0] :]
            near = fleet.approaches(some[:, None], others[None, :]) < setting.distance
            one, other = np.nonzero(near & (some[:, None] != others[None, :]))
            parts.append((some[one], others[other]))
        return _joined(parts)

    return find


def find_near(fleet: Fleet, setting: Setting) -> Find:
    """The pairs that a k-d tree finds, which are asked then."""
    make = library("scipy.spatial").cKDTree

    def find(told: Keys) -> Pairs:
        places = fleet.places_now()
        reach = setting.distance + 2 * np.hypot(*fleet.velocities.T).max() * AHEAD
        if 2 * len(told) > setting.ships:
            one, other = make(places).query_pairs(reach, output_type="ndarray").T
        else:
            near = make(places).query_ball_point(
                places[told], reach, workers=setting.threads, return_sorted=False
            )
            one = np.repeat(told, [len(each) for each in near])
            other = np.concatenate([np.array(each, np.int64) for each in near])
            one, other = one[one != other], other[one != other]
        parts = [(one[:0], other[:0])]
        for begin in range(0, len(one), BLOCK):
            some, others = one[begin : begin + BLOCK], other[begin : begin + BLOCK]
            is_near = fleet.approaches(some, others) < setting.distance
            parts.append((some[is_near], others[is_near]))
        return _joined(parts)

    return find


def _joined(parts: list[Pairs]) -> Pairs:
    one, other = (np.concatenate(column) for column in zip(*parts, strict=True))
    return one, other


def measure(setting: Setting) -> Figures:
    """All over the same instants, in turn; all have to find the same changes."""
    calibration = calibrate()
    fleet = Fleet(setting)
    rivals = {
        "all_pairs": Rival(fleet, setting, find_all(fleet, setting)),
        "ckdtree": Rival(fleet, setting, find_near(fleet, setting)),
    }
    times: dict[str, list[float]] = {"engine": [], "all_pairs": [], "ckdtree": []}
    deltas = []
    with connect(runtime="local", threads=setting.threads) as session:
        session.sql(
            "CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            " WITH (motion = TRUE);"
            "REGISTER QUERY near AS SELECT a.id AS one, b.id AS other FROM Ships a, Ships b"
            f" WHERE a.id < b.id AND CPA(a, b, '{AHEAD} seconds') < {setting.distance!r}"
        )
        runtime = cast(LocalRuntime, session.runtime)
        runtime.take([_segment(fleet, np.arange(setting.ships)), Advance(0, "Ships")])
        for tick in range(-2, setting.ticks):
            # All report in the first tick, so that all have a velocity.
            told = fleet.report(1.0 if tick == -2 else setting.moving)
            segment, end = _segment(fleet, told), Advance(fleet.now * SECOND, "Ships")
            start = time.perf_counter()
            changes = runtime.take([segment, end])
            times["engine"].append(time.perf_counter() - start)
            ours = _keys(changes, setting.ships)
            for name, rival in rivals.items():
                start = time.perf_counter()
                theirs = rival.tick(told)
                times[name].append(time.perf_counter() - start)
                # Ships are near each other before anybody knows where they go.
                if tick > -2 and not np.array_equal(ours, theirs):
                    raise InternalError(f"{name} and the engine differ at tick {tick}")
            deltas.append(len(ours))
    # The first two ticks compile, fill caches and appear: they are no measurement.
    seconds = {name: median(taken[2:]) for name, taken in times.items()}
    return Figures(
        ships=setting.ships,
        distance=setting.distance,
        moving=setting.moving,
        ticks=setting.ticks,
        pairs=len(rivals["all_pairs"].pairs),
        deltas=int(median(deltas[2:])),
        engine_s=seconds["engine"],
        all_pairs_s=seconds["all_pairs"],
        ckdtree_s=seconds["ckdtree"],
        ratio=seconds["all_pairs"] / seconds["engine"],
        ckdtree_ratio=seconds["ckdtree"] / seconds["engine"],
        calibration_s=min(calibration, calibrate()),
    )


def _segment(fleet: Fleet, told: Keys) -> Segment:
    times = np.full(len(told), fleet.now * SECOND)
    columns = {
        "id": told,
        "x": np.ascontiguousarray(fleet.places[told, 0]),
        "y": np.ascontiguousarray(fleet.places[told, 1]),
        "ts": times,
        "time": times,
        "gone": np.zeros(len(told), np.bool_),
    }
    return Segment("Ships", pa.table(columns))


def _keys(changes: list[Change], count: int) -> Keys:
    """The changes as the rivals' keys."""
    parts = [np.empty(0, np.int64)]
    for change in changes:
        one, other = (column.to_numpy() for column in change.columns)
        parts.append((one * count + other) * 2 + (change.sign > 0))
    keys: Keys = np.sort(np.concatenate(parts))
    return keys


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark to the command line."""
    parser = benches.add_parser(
        "approaches",
        help="which ships will come near each other (CPA), beside SciPy and all pairs",
        description="Ships go straight on and turn a little when they report. A query with CPA "
        "tells which pairs will come near each other within ten minutes. Of the ships that have "
        "reported, one rival asks all pairs by NumPy, and the other those that SciPy's cKDTree "
        "finds as far away as the fastest two could come together. All have to find the same "
        "changes. ratio is all_pairs_s / engine_s, ckdtree_ratio is ckdtree_s / engine_s.",
        epilog="example: place bench approaches --ships 10000 --moving 0.01 --json cpa.json",
    )
    default = Setting()
    parser.add_argument(
        "--ships", type=number, default=default.ships, metavar="N", help="ships (10000)"
    )
    parser.add_argument(
        "--distance",
        type=float,
        default=default.distance,
        metavar="D",
        help="how near is near, in metres (500)",
    )
    parser.add_argument(
        "--moving", type=share, default=default.moving, metavar="F", help="share that reports (1)"
    )
    parser.add_argument(
        "--ticks", type=number, default=default.ticks, metavar="T", help="measured ticks (5)"
    )
    parser.add_argument(
        "--threads",
        type=number,
        default=default.threads,
        metavar="K",
        help="threads of the engine and of SciPy (all cores)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    names = [field.name for field in fields(Setting)]
    figures = measure(Setting(**{name: getattr(arguments, name) for name in names}))
    tell("approaches", [asdict(figures)], arguments.json)
    return 0
