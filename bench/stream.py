"""`place bench stream`: the engine on a stream as it is, which is many small instants.

All readings are pushed at once, by columns, so that no Python object is made for each of them or
for a delta. The rival does the same in bulk, and both have to find the same deltas.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import cast

import numpy as np
from rich.console import Console

from bench.stream_city import (
    CITY,
    VEHICLES,
    Numbers,
    Readings,
    drive,
    make_shapes,
    positions,
    radius_for,
    written,
)
from bench.stream_rival import Deltas, FixedRegions, MovingCircles, Rival
from bench.world import calibrate
from place.engine.changes import Change
from place.engine.slices import Segment
from place.errors import ConfigurationError, InternalError
from place.model.reading import Advance
from place.model.shape import Circle
from place.model.space import Space
from place.runtime.local import LocalRuntime
from place.session import Session, connect

STREAM = (
    "CREATE STREAM Cabs (id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, kind STRING,"
    " ts TIMESTAMP) WITH (space = '{}')"
)
WARM_UP = (5_000, 300)
"""Readings and queries, at most, with which everything is compiled."""
LARGE = 5_000.0
"""The radius of the circles of an aggregate and a window, in metres."""
NEAREST = 10


@dataclass(frozen=True)
class Setting:
    """What is measured. With `moving`, so many circles around vehicles are all the regions."""

    readings: int = 100_000
    queries: int = 300
    shape: str = "circle"
    space: str = "wgs84"
    moving: int = 0
    one_by_one: bool = False
    aggregate: bool = False
    window: bool = False
    knn: bool = False

    @property
    def regions(self) -> int:
        return self.moving or self.queries

    @property
    def beside(self) -> list[str]:
        """The kinds of queries that are registered beside those that the rival answers, too."""
        return [name for name in ("aggregate", "window", "knn") if getattr(self, name)]


@dataclass(frozen=True)
class Figures:
    """What was measured: `seconds`, `baseline_s` and `register_s` are medians of all sessions.

    `ratio` says how many times as fast as the rival the engine is. `deltas` are those of all
    queries; `left_out` are queries that were not compared because a reading is on their edge.
    `pushed_per_s` are readings a second through `Session.push`, as a table of Arrow, with all its
    checks, until their deltas are counted.
    """

    readings: int
    queries: int
    shape: str
    space: str
    moving: int
    beside: str
    readings_per_s: float
    pushed_per_s: float
    instants: int
    deltas: int
    seconds: float
    baseline_s: float
    ratio: float
    register_s: float
    left_out: int
    calibration_s: float

    def as_json(self) -> dict[str, float | str]:
        return asdict(self)


def measure(setting: Setting, console: Console, repetitions: int = 3) -> Figures:
    """The engine and the rival in turn, over the same readings; a fresh session each time."""
    if setting.moving > VEHICLES:
        raise ConfigurationError(
            f"each moving query follows a vehicle of its own, and there are {VEHICLES}",
            hint=f"write --moving {VEHICLES}",
        )
    console.print("warming up …")
    few = (min(setting.readings, WARM_UP[0]), min(setting.queries, WARM_UP[1]))
    with opened(replace(setting, readings=few[0], queries=few[1])) as (session, _):
        take(session, readings_of(setting, few[0], seed=2))
    readings, rival = readings_of(setting, setting.readings), rival_of(setting)
    rival.find(readings_of(setting, few[0], seed=2))
    calibration = calibrate()
    times: dict[str, list[float]] = {"place": [], "pushed": [], "rival": [], "register": []}
    deltas = left_out = 0
    for number in range(repetitions):
        console.print(f"session {number + 1} of {repetitions} …")
        with opened(setting) as (session, register):
            seconds, deltas, changes = take(session, readings)
        times["place"].append(seconds)
        times["register"].append(register)
        with opened(setting) as (session, _):
            times["pushed"].append(push(session, readings, deltas))
        start = time.perf_counter()
        found = rival.find(readings)
        times["rival"].append(time.perf_counter() - start)
        left_out = compare(deltas_of(changes), found, rival, readings)
    seconds, baseline = median(times["place"]), median(times["rival"])
    return Figures(
        readings=len(readings),
        queries=setting.regions,
        shape="circle" if setting.moving else setting.shape,
        space=setting.space,
        moving=setting.moving,
        beside=", ".join(setting.beside),
        readings_per_s=len(readings) / seconds,
        pushed_per_s=len(readings) / median(times["pushed"]),
        instants=len(np.unique(readings.times)),
        deltas=deltas,
        seconds=seconds,
        baseline_s=baseline,
        ratio=baseline / seconds,
        register_s=median(times["register"]),
        left_out=left_out,
        calibration_s=min(calibration, calibrate()),
    )


def readings_of(setting: Setting, count: int, seed: int = 1) -> Readings:
    """That many readings as the setting has them."""
    return drive(Space(setting.space), count, one_by_one=setting.one_by_one, seed=seed)


def rival_of(setting: Setting) -> Rival:
    """The rival, which knows the regions."""
    space = Space(setting.space)
    if setting.moving:
        return MovingCircles(np.arange(setting.moving), _reach(setting), space)
    return FixedRegions(make_shapes(space, setting.shape, setting.queries), space)


def _reach(setting: Setting) -> float:
    """The radius of moving circles: they count twice, because either end of a pair may move."""
    return radius_for(2 * setting.moving)


def statements(setting: Setting) -> Iterator[str]:
    """The queries, those of the regions first: q0, q1 and so on."""
    space = Space(setting.space)
    if setting.moving:
        inside = [f"('M', {focal}, {_reach(setting)!r})" for focal in range(setting.moving)]
    else:
        inside = list(map(written, make_shapes(space, setting.shape, setting.queries)))
    for number, shape in enumerate(inside):
        yield f"REGISTER QUERY q{number} AS SELECT id FROM Cabs INSIDE {shape}"
    x, y = positions(space, CITY / 2).tolist()
    circle = written(Circle(x, y, LARGE))
    selects = {
        "aggregate": f"SELECT COUNT(*), AVG(speed) FROM Cabs INSIDE {circle}",
        "window": f"SELECT id FROM Cabs INSIDE {circle} WINDOW 1 MINUTE",
        "knn": f"SELECT id FROM Cabs kNN ({NEAREST}, {x!r}, {y!r})",
    }
    for name in setting.beside:
        yield f"REGISTER QUERY beside_{name} AS {selects[name]}"


@contextmanager
def opened(setting: Setting) -> Iterator[tuple[Session, float]]:
    """A session with all queries, registered one by one, and the seconds that this took."""
    with connect(runtime="local") as session:
        session.sql(STREAM.format(setting.space))
        queries = list(statements(setting))
        start = time.perf_counter()
        for statement in queries:
            session.sql(statement)
        yield session, time.perf_counter() - start


def take(session: Session, readings: Readings) -> tuple[float, int, list[Change]]:
    """Seconds for all readings in one push, the number of deltas, and the deltas by columns."""
    runtime = cast(LocalRuntime, session.runtime)
    segment = Segment("Cabs", readings.as_segment(session.stream("Cabs").columns))
    end = Advance(int(readings.times[-1]), "Cabs")
    start = time.perf_counter()
    changes = runtime.take([segment, end])
    deltas = sum(map(len, changes))
    seconds = time.perf_counter() - start
    counts = runtime.statistics("Cabs")
    if (counts["readings"], counts["late"]) != (len(readings), 0):
        raise InternalError(f"of {len(readings):,} readings, the engine took {counts}")
    return seconds, deltas, changes


def push(session: Session, readings: Readings, wanted: int) -> float:
    """Seconds for all readings through the door that everybody has."""
    columns = session.stream("Cabs").columns
    table = readings.as_segment(columns).select([column.name for column in columns])
    start = time.perf_counter()
    deltas = len(session.push("Cabs", table, time=int(readings.times[-1])))
    seconds = time.perf_counter() - start
    if deltas != wanted:
        raise InternalError(f"{wanted:,} deltas of the engine, {deltas:,} of a push")
    return seconds


def deltas_of(changes: Sequence[Change]) -> Deltas:
    """The deltas of the queries q0, q1 and so on, which the rival answers, too."""
    parts: list[tuple[Numbers, ...]] = [tuple(np.empty((4, 0), np.int64))]
    for change in changes:
        owners = np.zeros(len(change), np.int64) if change.owners is None else change.owners
        used, which = np.unique(owners, return_inverse=True)
        names = [change.queries[owner].name for owner in used.tolist()]
        numbers = np.array([int(name[1:]) if name[1:].isdigit() else -1 for name in names], int)
        queries = numbers[which]
        mine = queries >= 0
        if mine.any():
            keys = change.columns[0].to_numpy(zero_copy_only=False)
            instants = np.broadcast_to(np.asarray(change.instants), len(change))
            signs = np.full(len(change), change.sign)
            parts.append((queries[mine], keys[mine], instants[mine], signs[mine]))
    return Deltas(*map(np.concatenate, zip(*parts, strict=True)))


def compare(ours: Deltas, theirs: Deltas, rival: Rival, readings: Readings) -> int:
    """How many queries are left out of the comparison; an error if others differ in a delta."""
    moments = np.unique(np.concatenate([ours.instants, theirs.instants]))
    apart = np.setxor1d(_keys(ours, moments), _keys(theirs, moments))
    differing = np.unique(apart // (VEHICLES * len(moments) * 2)).tolist()
    wrong = [query for query in differing if not rival.is_close(query, readings)]
    if wrong or (not differing and len(ours) != len(theirs)):
        raise InternalError(
            f"the engine found {len(ours):,} deltas and the rival {len(theirs):,};"
            f" they differ in the queries {', '.join(f'q{query}' for query in wrong[:10])}"
        )
    return len(differing)


def _keys(deltas: Deltas, moments: Numbers) -> Numbers:
    """A number for each delta, by its query, vehicle, instant and sign."""
    when = np.searchsorted(moments, deltas.instants)
    pairs = deltas.queries * VEHICLES + deltas.keys
    keys: Numbers = (pairs * len(moments) + when) * 2 + (deltas.signs > 0)
    return keys
