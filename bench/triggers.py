"""`place bench triggers`: many triggers over drifting buoys, by each strategy, beside DuckDB.

Measured is what a worker does with a tick: from a segment of readings (Arrow columns, checked) to
changes with all alerts as Arrow columns, on one thread. Making the segments, settling changes above
the workers and telling subscribers are left out. Seconds are those of the thread on its processor,
as others use the cores of a machine, too. All strategies have to tell the same alerts. DuckDB finds
the matches of some of the triggers by joining all readings with themselves, in one go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from rich.console import Console

from bench.buoys import BUOYS, MEASURES, Numbers, Reports, drift, metres_of, stream_of
from bench.rivals import library
from bench.trigger_queries import STREAM_NAME, Chain, draw_triggers, texts
from bench.world import calibrate
from place.engine.changes import Change
from place.engine.slices import Segment
from place.engine.triggers import Triggers
from place.engine.worker import Worker
from place.errors import InternalError
from place.model.space import Space
from place.runtime.local import LocalRuntime
from place.session import Session, connect

HINTS = {"chosen": "", "loose": "LOOSE", "tight": "TIGHT", "noindex": "NO INDEX"}
"""The strategies, and how each is asked for; the first is what the planner chooses."""
FEW = 5
"""Triggers whose matches DuckDB finds, too, at most."""


@dataclass(frozen=True)
class Setting:
    """How many triggers of how many variables, how many events in ticks of what size, which share
    of the events each trigger tells, and the seconds from a variable to the next at most. `ticks`
    are so many of one instant each, measured beside the others."""

    triggers: int = 100
    events: int = 200_000
    verbosity: float = 0.01
    variables: int = 3
    seconds: int = 1_200
    nearness: float = 1.0
    buoys: int = BUOYS
    tick: int = 20_000
    ticks: int = 500
    space: str = "wgs84"
    seed: int = 1


@dataclass(frozen=True)
class Figures:
    """What was measured. `verbosity` is what came out, on average over the triggers. Peaks are the
    most readings that were kept at once; those of entries count a reading once for each list or
    square that it is in. `exponent` says how the time grows with the events (1 is in proportion).
    `instant_ms` is what a tick of a single instant takes, and `instant_per_s` the events a second
    in such ticks.
    """

    triggers: int
    events: int
    variables: int
    verbosity: float
    events_per_s: float
    loose_per_s: float
    tight_per_s: float
    noindex_per_s: float
    peak_events: int
    loose_peak: int
    tight_peak: int
    noindex_peak: int
    noindex_entries: int
    tight_to_loose: float
    matches: int
    compared: float
    exponent: float
    instant_ms: float
    instant_per_s: float
    register_s: float
    duckdb_s: float
    duckdb_triggers: int
    duckdb_ratio: float
    calibration_s: float

    def as_json(self) -> dict[str, float | str]:
        return asdict(self)


@dataclass(frozen=True)
class Run:
    """One strategy over all events."""

    seconds: float
    """Of all ticks but the first, which compiles and fills."""
    ticks: tuple[float, ...]
    register: float
    alerts: Numbers
    """How many, by trigger."""
    checksum: int
    peak: int
    entries: int
    compared: float
    """Pairs of readings for each event, over all triggers."""

    def per_s(self, setting: Setting) -> float:
        """Events a second."""
        return (setting.events - min(setting.tick, setting.events // 2)) / self.seconds


def measure(setting: Setting, console: Console) -> Figures:
    """All strategies one after the other, and DuckDB; all have to find the same."""
    calibration = calibrate()
    reports = reports_of(setting)
    console.print("tuning the triggers …")
    chains = draw(setting, reports)
    console.print("warming up …")
    few = reports.part(0, min(2 * setting.tick, len(reports)))
    for hint in HINTS.values():
        take(setting, chains[:FEW], few, hint)
    runs = {}
    for how, hint in HINTS.items():
        console.print(f"{how} …")
        runs[how] = take(setting, chains, reports, hint)
    check(runs)
    console.print("a tick for each instant …")
    instants = take_instants(setting, chains, reports)
    console.print("DuckDB …")
    compared = chains[:FEW]
    seconds, counts = duckdb_matches(compared, reports, Space(setting.space))
    ours = runs["chosen"]
    if counts != ours.alerts[: len(counts)].tolist():
        raise InternalError(f"DuckDB finds {counts}, the triggers {ours.alerts[:FEW].tolist()}")
    return Figures(
        triggers=setting.triggers,
        events=setting.events,
        variables=setting.variables,
        verbosity=float(ours.alerts.mean()) / setting.events,
        events_per_s=ours.per_s(setting),
        loose_per_s=runs["loose"].per_s(setting),
        tight_per_s=runs["tight"].per_s(setting),
        noindex_per_s=runs["noindex"].per_s(setting),
        peak_events=ours.peak,
        loose_peak=runs["loose"].peak,
        tight_peak=runs["tight"].peak,
        noindex_peak=runs["noindex"].peak,
        noindex_entries=runs["noindex"].entries,
        tight_to_loose=runs["tight"].peak / max(1, runs["loose"].peak),
        matches=int(ours.alerts.sum()),
        compared=ours.compared,
        exponent=exponent(ours.ticks),
        instant_ms=instants.seconds / max(1, instants.ticks) * 1e3,
        instant_per_s=instants.events / instants.seconds if instants.ticks else float("nan"),
        register_s=ours.register,
        duckdb_s=seconds,
        duckdb_triggers=len(compared),
        duckdb_ratio=seconds / len(compared) * setting.triggers / sum(ours.ticks),
        calibration_s=min(calibration, calibrate()),
    )


def reports_of(setting: Setting) -> Reports:
    """The events."""
    space = Space(setting.space)
    return drift(space, setting.events, buoys=setting.buoys, seed=setting.seed)


def draw(setting: Setting, reports: Reports) -> list[Chain]:
    """The triggers."""
    return draw_triggers(
        reports,
        metres_of(Space(setting.space), reports.places),
        setting.triggers,
        variables=setting.variables,
        seconds=setting.seconds,
        verbosity=setting.verbosity,
        nearness=setting.nearness,
        seed=setting.seed,
    )


def take(setting: Setting, chains: Sequence[Chain], reports: Reports, hint: str) -> Run:
    """A session of its own takes all events."""
    measures = tuple(reports.measured)
    with opened(setting.space, texts(chains, hint), measures) as (session, register):
        worker = worker_of(session)
        columns = session.stream(STREAM_NAME).columns
        size = min(setting.tick, max(1, len(reports) // 2))
        ticks: list[float] = []
        alerts, checksum = np.zeros(len(chains), np.int64), 0
        for begin in range(0, len(reports), size):
            part = reports.part(begin, min(begin + size, len(reports)))
            segment = Segment(STREAM_NAME, part.as_segment(columns))
            start = time.thread_time()
            found = worker.take([segment])
            ticks.append(time.thread_time() - start)
            for change in found:
                assert isinstance(change, Change)
                owners = numbers_of(change)
                alerts += np.bincount(owners, minlength=len(alerts))
                checksum = (checksum + digest(owners, change)) % (1 << 64)
        kept = triggers_of(worker).store
        steps = sum(kept.steps_of(g) for g in graphs_of(worker))
    if len(reports) != worker.readings[STREAM_NAME]:
        raise InternalError("the engine did not take all events")
    return Run(
        sum(ticks[1:]),
        tuple(ticks),
        register,
        alerts,
        checksum,
        kept.peak,
        kept.peak_entries,
        steps / len(reports),
    )


@dataclass(frozen=True)
class Instants:
    """Ticks of one instant each: how many there were, their events and their seconds."""

    ticks: int
    events: int
    seconds: float


def take_instants(setting: Setting, chains: Sequence[Chain], reports: Reports) -> Instants:
    """After a tick of many events, which fills the lists, each instant is a tick of its own."""
    begin = min(setting.tick, len(reports) // 2)
    times = reports.times[begin:]
    cuts = begin + np.append(0, np.flatnonzero(np.diff(times)) + 1)[: setting.ticks + 1]
    spent, alerts = 0.0, []
    for size in (1, max(1, len(cuts) - 1)):
        # Once with a tick for each instant, and once with one for all: both have to tell the same.
        with opened(setting.space, texts(chains), tuple(reports.measured)) as (session, _):
            worker, columns = worker_of(session), session.stream(STREAM_NAME).columns
            told = checksum = 0
            for at, end in pairwise([0, *cuts[::size].tolist()]):
                segment = Segment(STREAM_NAME, reports.part(at, end).as_segment(columns))
                start = time.thread_time()
                found = worker.take([segment])
                spent += time.thread_time() - start if at and size == 1 else 0.0
                for change in found if at else ():
                    assert isinstance(change, Change)
                    told += len(change)
                    checksum = (checksum + digest(numbers_of(change), change)) % (1 << 64)
            alerts.append((told, checksum))
    if alerts[0] != alerts[1]:
        raise InternalError("ticks of one instant tell other alerts than one tick")
    return Instants(len(cuts) - 1, int(cuts[-1] - cuts[0]), spent)


@contextmanager
def opened(
    space: str, statements: Sequence[str], measures: Sequence[str] = MEASURES
) -> Iterator[tuple[Session, float]]:
    """A session with all triggers, registered by one text, and the seconds that this took."""
    with connect(runtime="local") as session:
        session.sql(stream_of(space, measures))
        start = time.thread_time()
        session.sql(";\n".join(statements))
        yield session, time.thread_time() - start


def worker_of(session: Session) -> Worker:
    """The one worker of a local session."""
    return cast(LocalRuntime, session.runtime).workers[0]


def triggers_of(worker: Worker) -> Triggers:
    """All triggers of a worker over the buoys."""
    return worker.timelines[frozenset((STREAM_NAME,))].cell.triggers


def graphs_of(worker: Worker) -> list[int]:
    """The graphs of all triggers."""
    return [g for each in triggers_of(worker).registered.values() for g in each.graphs.values()]


def numbers_of(change: Change) -> Numbers:
    """The triggers of alerts by their numbers, which their names tell."""
    names = np.array([int(query.name[1:]) for query in change.queries])
    owners = np.zeros(len(change), np.int64) if change.owners is None else change.owners
    found: Numbers = names[owners]
    return found


def digest(owners: Numbers, change: Change) -> int:
    """A number that follows from a set of alerts, in whatever order."""
    mixed = owners.astype(np.uint64)
    for column in change.columns:
        values = column.cast("int64").to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return int(mixed.sum(dtype=np.uint64))


def check(runs: dict[str, Run]) -> None:
    """All have to tell the same alerts."""
    first = runs["chosen"]
    for how, run in runs.items():
        if run.checksum != first.checksum or not np.array_equal(run.alerts, first.alerts):
            raise InternalError(f"{how} tells other alerts than what is chosen")


def exponent(ticks: Sequence[float]) -> float:
    """How the time of the first events grows with their number, the first tick left out."""
    spent = np.cumsum(ticks[1:])
    if len(spent) < 3:
        return float("nan")
    events = np.arange(1, len(spent) + 1)
    return float(np.polyfit(np.log(events), np.log(spent), 1)[0])


def duckdb_matches(
    chains: Sequence[Chain], reports: Reports, space: Space
) -> tuple[float, list[int]]:
    """Seconds for all matches of some triggers on one thread, and how many each has."""
    connection: Any = library("duckdb").connect(":memory:")
    connection.execute("SET threads = 1")
    connection.register("given", reports.as_table())
    connection.execute("CREATE TABLE readings AS SELECT * FROM given")
    start = time.process_time()
    counts = [
        int(connection.execute(chain.select(space, "count(*)")).fetchone()[0]) for chain in chains
    ]
    return time.process_time() - start, counts
