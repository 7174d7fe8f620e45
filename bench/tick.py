"""A whole tick, from a file to a committed manifest, beside DuckDB doing the same work durably.

The file is one of a source that Spark reads (`files`), or whoever pushes reads it and pushes its
readings (`push`), so that no Spark job is in the way.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from bench.durable import AgainDuckDb, DurableDuckDb, Walk
from bench.world import calibrate
from place.errors import InternalError
from place.runtime.intake.check import check_table
from place.session import Session, connect

if TYPE_CHECKING:
    from place.runtime.durable.manifest import Manifest
    from place.runtime.spark.runtime import SparkRuntime

WARM = 3
"""Ticks before the clock starts: everything appears, is compiled, and finds its order."""
FLOOR_OBJECTS = 10
COUNTS = ("rows", "read", "lag")
"""What a tick tells beside the seconds of its stages: readings, bytes, and how late it is."""
READING, DELTA = 4 * 8 + 1, 2 * 8
"""The bytes of a reading in memory (key, place, time, and whether it is gone), and of a delta."""

STREAM = "CREATE STREAM Objects (ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
SETUP = """
{stream} WITH (evaluate = '1 second');
CREATE TABLE Fences (ID BIGINT KEY, focal BIGINT, xdist DOUBLE, ydist DOUBLE) FROM '{fences}';
REGISTER QUERY fences AS SELECT Q.ID, O.ObjectID FROM Fences Q, Objects O WHERE O INSIDE Q;
"""


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    objects: int = 100_000
    queries: int = 100_000
    side: float = 0.01
    moving: float = 1.0
    ticks: int = 9
    cells: str | None = None
    source: str = "files"


@dataclass(frozen=True)
class Figures:
    """Seconds are medians of ticks; `peak_rss_mb` is that of all processes together.

    `duckdb_s` is the fastest way we know for DuckDB to do the work, `duckdb_again_s` evaluates all
    queries again in every tick. `written_mb` is what all processes have written for a tick, in the
    mean over all that were measured, and `written_ratio` how many times that is the readings and
    deltas of a tick as they are in memory.
    """

    objects: int
    queries: int
    side: float
    moving: float
    ticks: int
    tick_s: float
    floor_s: float
    duckdb_s: float
    duckdb_again_s: float
    readings_per_s: float
    deltas_per_tick: float
    match_s: float
    written_mb: float
    written_ratio: float
    peak_rss_mb: float
    calibration_s: float
    stages: dict[str, float]

    def as_json(self) -> dict[str, float]:
        """The figures, then the seconds of the stages."""
        figures = asdict(self)
        stages: dict[str, float] = figures.pop("stages")
        return {**figures, **{f"stage_{name}_s": seconds for name, seconds in stages.items()}}


def measure(setting: Setting, console: Console) -> Figures:
    """Measure the pipeline, its floor and the rival, one after the other, on the same files."""
    threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="place-bench-") as scratch:
        root = Path(scratch)
        console.print("writing readings …")
        files = _write_readings(root / "readings", setting.objects, setting)
        small = _write_readings(root / "few", FLOOR_OBJECTS, setting)
        connect(master=f"local[{threads}]", cells=setting.cells).close()  # Spark starts here
        console.print("the pipeline …")
        ours = _run(root, "home", files, setting, setting.queries)
        memory = tree_rss_mb()
        console.print("its floor …")
        floor = _run(root, "floor", small, setting, FLOOR_OBJECTS)
        rivals: list[list[float]] = []
        for kind in (DurableDuckDb, AgainDuckDb):
            console.print("DuckDB …")
            times, changes = _rival(kind, root, files, setting, threads)
            rivals.append(times)
            # An instant is complete when a later one is told: the pipeline is one tick behind.
            if changes[:-1] != ours.deltas:
                raise InternalError(f"DuckDB found {changes} deltas, the pipeline {ours.deltas}")
        calibration = calibrate()
    readings = statistics.median(ours.readings[WARM:])
    tick = statistics.median(ours.periods[WARM:])
    return Figures(
        setting.objects,
        setting.queries,
        setting.side,
        setting.moving,
        setting.ticks,
        tick,
        statistics.median(floor.periods[WARM:]),
        statistics.median(rivals[0][WARM:]),
        statistics.median(rivals[1][WARM:]),
        readings / tick,
        statistics.median(ours.deltas[WARM:]),
        statistics.median(ours.stages["match"][WARM:]),
        ours.written / 1e6 / setting.ticks,
        ours.written / (READING * sum(ours.readings[WARM:]) + DELTA * sum(ours.deltas[WARM:])),
        memory,
        calibration,
        {name: statistics.median(seconds[WARM:]) for name, seconds in ours.stages.items()},
    )


def _write_readings(directory: Path, objects: int, setting: Setting) -> list[Path]:
    directory.mkdir()
    walk = Walk(objects, setting.side, setting.moving, seed=1)
    files = []
    for number in range(WARM + setting.ticks + 1):
        path = walk.write(directory, number)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        files.append(path)
    return files


@dataclass
class Run:
    """What a run of the pipeline took, tick by tick."""

    periods: list[float]
    readings: list[float]
    deltas: list[int]
    stages: dict[str, list[float]]
    written: int
    """Bytes, of all measured ticks."""


def _run(root: Path, name: str, files: list[Path], setting: Setting, queries: int) -> Run:
    fences = root / f"{name}.parquet"
    numbers = np.arange(queries)
    sides = np.full(queries, setting.side)
    pq.write_table(
        pa.table({"ID": numbers, "focal": numbers, "xdist": sides, "ydist": sides}), fences
    )
    session = connect(root / name, runtime="spark", cells=setting.cells)
    moments: list[float] = []
    manifests: list[Manifest] = []
    written: list[int] = []
    stream = STREAM
    if setting.source == "files":
        stream += f" FROM FILES ('{files[0].parent}', format = 'parquet')"
    with session:
        session.sql(SETUP.format(stream=stream, fences=fences))
        runtime = cast("SparkRuntime", session.runtime)
        runtime.files_per_tick = 1

        def committed(manifest: Manifest) -> None:
            moments.append(time.perf_counter())
            manifests.append(manifest)
            if len(manifests) in (WARM + 1, len(files)):
                written.append(sum(tree_facts("io", "write_bytes").values()))

        runtime.watch(committed)
        if setting.source == "files":
            session.drain()
        else:
            _push(session, files)
    shutil.rmtree(root / name)
    periods = [after - before for before, after in itertools.pairwise(moments)]
    done = manifests[1:]
    return Run(
        periods,
        [manifest.metrics["rows"] for manifest in done],
        [manifest.deltas for manifest in done],
        {s: [m.metrics.get(s, 0.0) for m in done] for s in done[-1].metrics if s not in COUNTS},
        written[-1] - written[0],
    )


def _push(session: Session, files: list[Path]) -> None:
    """Read files and push their readings, as a server does with those that it is sent as Arrow."""
    stream = session.catalog.streams["objects"]
    runtime = cast("SparkRuntime", session.runtime)
    for path in files:
        routed = check_table(stream, pq.read_table(path), path.name)
        runtime.accept(stream, routed.segment)
        if runtime.pump() is None:
            raise InternalError(f"{path.name} made no tick")


def _rival(
    kind: type[DurableDuckDb | AgainDuckDb],
    root: Path,
    files: list[Path],
    setting: Setting,
    threads: int,
) -> tuple[list[float], list[int]]:
    path = root / f"{kind.__name__}.duckdb"
    rival = kind(path, setting.objects, setting.queries, setting.side, threads)
    times, changes = [], []
    try:
        for number, path in enumerate(files):
            start = time.perf_counter()
            changes.append(sum(rival.tick(path, number)))
            times.append(time.perf_counter() - start)
    finally:
        rival.close()
    return times[1:], changes


def tree_rss_mb() -> float:
    """The most memory that this process and all below it have held, added up, in MiB."""
    return sum(tree_facts("status", "VmHWM").values()) / 1024


def tree_facts(file: str, fact: str) -> dict[int, int]:
    """A number that the system tells of this process and all below it, by process."""
    children: dict[int, list[int]] = {}
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = _facts(entry / "status")["PPid"]
                found[int(entry.name)] = int(_facts(entry / file).get(fact, "0").split()[0])
            except OSError:  # it has ended, or is not ours
                continue
            children.setdefault(int(parent), []).append(int(entry.name))
    mine, waiting = {}, [os.getpid()]
    while waiting:
        process = waiting.pop()
        mine[process] = found.get(process, 0)
        waiting += children.get(process, [])
    return mine


def _facts(path: Path) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
