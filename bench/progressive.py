"""`place bench progressive`: readings one by one, on one core.

The kernel is measured alone; with `--beside`, the engine around it, without and with queries that
are answered from the deltas of others.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.world import Floats, calibrate
from place.engine.changes import Change
from place.engine.slices import Segment
from place.errors import InternalError
from place.kernels.progressive import Events, match_progressive
from place.model.reading import Advance
from place.model.segment import segment_schema
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import Session, connect

START = 1_767_225_600 * SECOND
APART = SECOND // 1000
"""Time between two readings through the engine: a minute has 60,000 of them."""
SETUP = """
CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, ts TIMESTAMP);
CREATE TABLE Fences (ID BIGINT KEY, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE) FROM '{fences}';
REGISTER QUERY fences AS SELECT Q.ID, O.id FROM Fences Q, Objects O WHERE O INSIDE Q;
"""
BESIDE = """
REGISTER QUERY total AS SELECT COUNT(*), AVG(speed) FROM Objects INSIDE (0.25, 0.25, 0.75, 0.75);
REGISTER QUERY passed AS SELECT id FROM Objects INSIDE (0.5, 0.5, 0.1) WINDOW 1 MINUTE;
REGISTER QUERY nearest AS SELECT id FROM Objects kNN (10, 0.5, 0.5);
"""


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


@dataclass(frozen=True)
class BesideFigures:
    """The engine without and with the queries beside; `share` is what they leave of its rate.

    `deltas` are those of the squares alone, the same in both.
    """

    objects: int
    queries: int
    side: float
    readings: int
    readings_per_s: float
    beside_readings_per_s: float
    share: float
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
    to = _walk(chance, positions, slots, setting.side / 4)
    starts = np.concatenate([[0], np.cumsum(focal)]).astype(np.int64)
    move_to = np.hstack([to[focal] - half, to[focal] + half])
    flags = np.zeros(setting.queries, np.uint8)
    start = time.perf_counter()
    events = match_progressive(positions, boxes, flags, slots, to, starts, slots[focal], move_to)
    return time.perf_counter() - start, events


def _walk(
    chance: np.random.Generator, positions: Floats, slots: NDArray[np.int32], longest: float
) -> Floats:
    """Where each reading finds its object, a step away from where its last reading left it."""
    to = np.empty((len(slots), 2))
    place = positions.copy()
    steps = chance.uniform(-longest, longest, to.shape)
    for i, slot in enumerate(slots.tolist()):
        place[slot] += steps[i]
        to[i] = place[slot]
    return to


# Through the engine


def measure_beside(setting: Setting, repetitions: int = 3) -> BesideFigures:
    """Medians of the engine's rates without and with the queries beside, measured in turn."""
    sizes = {"objects": 1000, "queries": 1000, "readings": 2000}
    few = replace(setting, **{name: min(getattr(setting, name), n) for name, n in sizes.items()})
    for statements in ("", BESIDE):
        _taken_by_engine(few, statements)
    calibration = calibrate()
    times: dict[str, list[float]] = {"": [], BESIDE: []}
    deltas: set[int] = set()
    for _ in range(repetitions):
        for statements, seconds in times.items():
            taken, found = _taken_by_engine(setting, statements)
            seconds.append(taken)
            deltas.add(found)
    if len(deltas) > 1:
        raise InternalError(f"the squares had {sorted(deltas)} deltas in several runs")
    alone, beside = (setting.readings / median(seconds) for seconds in times.values())
    return BesideFigures(
        objects=setting.objects,
        queries=setting.queries,
        side=setting.side,
        readings=setting.readings,
        readings_per_s=alone,
        beside_readings_per_s=beside,
        share=beside / alone,
        deltas=deltas.pop(),
        calibration_s=min(calibration, calibrate()),
    )


def _taken_by_engine(setting: Setting, beside: str) -> tuple[float, int]:
    """Seconds for a run of readings in one push, each an instant, and the deltas of the squares.

    All objects are there before, and so are the first answers.
    """
    chance = np.random.default_rng(0)
    positions, centres = chance.random((setting.objects, 2)), chance.random((setting.queries, 2))
    slots = chance.integers(0, setting.objects, setting.readings).astype(np.int32)
    to = _walk(chance, positions, slots, setting.side / 4)
    with connect(runtime="local") as session, tempfile.TemporaryDirectory() as scratch:
        fences = Path(scratch) / "fences.parquet"
        corners = np.hstack([centres - setting.side / 2, centres + setting.side / 2])
        names = ("x1", "y1", "x2", "y2")
        columns = {name: corners[:, i].copy() for i, name in enumerate(names)}
        pq.write_table(pa.table({"ID": np.arange(setting.queries), **columns}), fences)
        session.sql(SETUP.format(fences=fences) + beside)
        everybody = np.arange(setting.objects, dtype=np.int32)
        times = START + APART * np.arange(1, setting.readings + 1)
        runtime = cast(LocalRuntime, session.runtime)
        first = _segment(session, everybody, positions, np.full(setting.objects, START))
        runtime.take([first, Advance(START, "Objects")])
        readings = _segment(session, slots, to, times)
        start = time.perf_counter()
        changes = runtime.take([readings, Advance(int(times[-1]), "Objects")])
        seconds = time.perf_counter() - start
    return seconds, _deltas_of_squares(changes)


def _segment(
    session: Session, slots: NDArray[np.int32], places: Floats, times: NDArray[np.int64]
) -> Segment:
    speeds, gone = places[:, 0] + places[:, 1], np.zeros(len(slots), np.bool_)
    x, y = places.T.copy()
    values = (slots.astype(np.int64), x, y, speeds, times, times, gone)
    schema = segment_schema(session.stream("Objects").columns)
    return Segment("Objects", pa.Table.from_arrays(list(map(pa.array, values)), schema=schema))


def _deltas_of_squares(changes: Sequence[Change]) -> int:
    parts = (part for change in changes for part in change.by_query())
    return sum(len(part) for part in parts if part.queries[0].name == "fences")
