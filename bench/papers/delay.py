"""Figure 11 of GPAC: how long after its arrival a reading is answered, by the rate of arrivals.

Readings arrive by the clock on the wall, with exponential gaps that were drawn before: whoever is
slow finds more of them waiting. The delay of a reading is the time from its arrival until all
deltas up to it are out.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.papers.record import Record, Row, Watch
from bench.papers.sizes import Size
from bench.papers.traffic import readings, settled
from bench.world import calibrate
from place.engine.slices import Segment
from place.errors import InternalError
from place.model.reading import Advance
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import Session, connect

if TYPE_CHECKING:
    from place.runtime.durable.manifest import Manifest
    from place.runtime.spark.runtime import SparkRuntime

SIDE = 0.02
BATCH = 1.0
"""Seconds that the alternative buffers readings for."""
START = 1_767_225_600 * SECOND
"""2026-01-01, from which the events are timed: instants of batches are whole seconds."""
FILE_EVERY = 0.1
PATIENCE = 120.0
"""Seconds after the last arrival in which all has to be answered."""
QUERIES = ("stationary", "moving")
LOCAL = (("progressive", "stationary"), ("progressive", "moving"), ("batches", "stationary"))
WARM_UP = (200, 20_000)


@dataclass(frozen=True)
class Arrivals:
    """Readings and when they arrive, in seconds; `first` is where everybody is at the start."""

    first: pa.Table
    table: pa.Table
    seconds: NDArray[np.float64]
    centres: NDArray[np.float64]
    focals: NDArray[np.int64]


class Source:
    """Readings of the generator, in its order, and the objects that lead queries."""

    def __init__(self, size: Size, seed: int) -> None:
        generator = settled(size.delay_objects, seed, size.settling)
        start = generator.advance()
        most = [rate * size.delay_seconds for rate in size.rates]
        most += [rate * size.spark_seconds for rate in size.spark_rates]
        told = list(readings(generator, max(round(max(most)), WARM_UP[-1])))
        self._keys = np.concatenate([report.keys for report in told])
        self._xs = np.concatenate([report.xs for report in told])
        self._ys = np.concatenate([report.ys for report in told])
        self._first = _table(start.keys, start.xs, start.ys, np.full(len(start.keys), START))
        chosen = np.random.default_rng(seed).permutation(len(start.keys))[: size.delay_queries]
        self._centres = np.stack([start.xs[chosen], start.ys[chosen]], axis=1)
        self._focals = start.keys[chosen]
        self._seed = seed

    def arrivals(self, rate: int, count: int) -> Arrivals:
        """The first readings, at that rate; each has a microsecond of its own."""
        gaps = np.random.default_rng([self._seed, rate]).exponential(1 / rate, count)
        moments = np.floor(np.cumsum(gaps) * SECOND).astype(np.int64) + 1
        order = np.arange(count)
        moments = np.maximum.accumulate(moments - order) + order
        keys, xs, ys = (values[:count] for values in (self._keys, self._xs, self._ys))
        table = _table(keys, xs, ys, START + moments)
        return Arrivals(self._first, table, moments / SECOND, self._centres, self._focals)


def _table(keys: object, xs: object, ys: object, times: object) -> pa.Table:
    return pa.table({"id": keys, "x": xs, "y": ys, "ts": times})


def measure(size: Size, seed: int, watch: Watch) -> Record:
    """All rates: reading by reading, in batches of a second, and through the pipeline on Spark."""
    calibrations = [calibrate()]
    counts: list[Row] = []
    times: list[Row] = []
    source = Source(size, seed)
    with tempfile.TemporaryDirectory(prefix="place-papers-") as scratch:
        root = Path(scratch)
        _warm_up(source, root)
        for rate in watch.each(size.rates, "delay by the rate of arrivals"):
            coming = source.arrivals(rate, max(1, round(rate * size.delay_seconds)))
            for how, query in LOCAL:
                batch = BATCH if how == "batches" else None
                deltas, delays = run_local(coming, query, batch, root)
                counts.append(_counts(how, query, rate, coming, deltas))
                times.append(_times(how, query, rate, delays))
        calibrations.append(calibrate())
        if size.spark_rates:  # Spark starts, and its workers compile
            for query in QUERIES:
                run_spark(source.arrivals(1_000, 1_000), query, root / f"{query}-warm")
        for rate in watch.each(size.spark_rates, "delay on Spark"):
            coming = source.arrivals(rate, max(1, round(rate * size.spark_seconds)))
            for query in QUERIES:
                total, delays = run_spark(coming, query, root / f"{query}-{rate}")
                first, deltas = count_local(coming, query, root)
                if total != first + deltas:
                    raise InternalError(f"Spark found {total} deltas, not {first} + {deltas}")
                counts.append(_counts("spark", query, rate, coming, deltas))
                times.append(_times("spark", query, rate, delays))
    setting = {
        "size": size.name,
        "seed": seed,
        "objects": size.delay_objects,
        "queries": size.delay_queries,
        "side": SIDE,
        "seconds": size.delay_seconds,
        "spark_seconds": size.spark_seconds,
        "batch": BATCH,
    }
    machine = {
        "cores": os.cpu_count() or 1,
        "calibration_s": round(median([*calibrations, calibrate()]), 3),
        "load": round(os.getloadavg()[0], 1),
    }
    return Record(setting, counts, times, machine)


def _counts(how: str, query: str, rate: int, coming: Arrivals, deltas: int) -> Row:
    readings_of = coming.table.num_rows
    return {"how": how, "query": query, "rate": rate, "readings": readings_of, "deltas": deltas}


def _times(how: str, query: str, rate: int, delays: NDArray[np.float64]) -> Row:
    return {
        "how": how,
        "query": query,
        "rate": rate,
        "mean_ms": round(1000 * float(delays.mean()), 3),
        "p99_ms": round(1000 * float(np.quantile(delays, 0.99)), 3),
    }


def _warm_up(source: Source, root: Path) -> None:
    """Let everything be compiled, for few readings at a time and for many."""
    for count in WARM_UP:
        coming = source.arrivals(5 * count, count)
        for query in QUERIES:
            run_local(coming, query, None, root)
        run_local(coming, "stationary", BATCH, root)


# In this process


def open_session(session: Session, coming: Arrivals, query: str, source: str, root: Path) -> None:
    """A stream of objects and a table of queries: squares that stand, or follow an object."""
    numbers = np.arange(len(coming.focals))
    if query == "moving":
        sides = np.full(len(numbers), SIDE)
        fences = {"ID": numbers, "focal": coming.focals, "xdist": sides, "ydist": sides}
    else:
        x, y, half = coming.centres[:, 0], coming.centres[:, 1], SIDE / 2
        fences = {"ID": numbers, "x1": x - half, "y1": y - half, "x2": x + half, "y2": y + half}
    pq.write_table(pa.table(fences), root / "fences.parquet")
    kinds = ", ".join(f"{name} {_type(values)}" for name, values in fences.items())
    session.sql(
        f"CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP) {source};"
        f"CREATE TABLE Fences ({kinds.replace('BIGINT', 'BIGINT KEY', 1)})"
        f" FROM '{root / 'fences.parquet'}';"
        "REGISTER QUERY fences AS SELECT Q.ID, O.id FROM Fences Q, Objects O WHERE O INSIDE Q"
    )


def _type(values: NDArray[np.generic]) -> str:
    return "BIGINT" if values.dtype.kind == "i" else "DOUBLE"


def _segment(table: pa.Table) -> Segment:
    """Readings as a segment: with the time that the engine goes by, and none of them leaves."""
    gone = pa.array(np.zeros(table.num_rows, np.bool_))
    told = table.append_column("time", table.column("ts")).append_column("gone", gone)
    return Segment("Objects", told)


def run_local(
    coming: Arrivals, query: str, batch: float | None, root: Path
) -> tuple[int, NDArray[np.float64]]:
    """Deltas, and the delay of each reading: taken as they come, or in batches of some seconds."""
    evaluate = "progressive" if batch is None else f"{batch:g} seconds"
    delays = np.empty(coming.table.num_rows)
    told = _segment(coming.table).table
    with connect() as session:
        open_session(session, coming, query, f"WITH (evaluate = '{evaluate}')", root)
        runtime = cast(LocalRuntime, session.runtime)
        runtime.take([_segment(coming.first), Advance(START, "Objects")])
        deltas = 0
        for done, ready, now, since in _waiting(coming.seconds, batch):
            piece = Segment("Objects", told.slice(done, ready - done))
            changes = runtime.take([piece, Advance(START + int(now * SECOND), "Objects")])
            deltas += sum(map(len, changes))
            delays[done:ready] = time.perf_counter() - since - coming.seconds[done:ready]
    return deltas, delays


def count_local(coming: Arrivals, query: str, root: Path) -> tuple[int, int]:
    """The deltas of the first answers, and those of the same readings, all at once."""
    with connect() as session:
        open_session(session, coming, query, "", root)
        runtime = cast(LocalRuntime, session.runtime)
        last = Advance(START + round(float(coming.seconds[-1] + 1) * SECOND), "Objects")
        first = runtime.take([_segment(coming.first), Advance(START, "Objects")])
        changes = runtime.take([_segment(coming.table), last])
        return sum(map(len, first)), sum(map(len, changes))


def _waiting(
    seconds: NDArray[np.float64], batch: float | None
) -> Iterator[tuple[int, int, float, float]]:
    """Which readings have arrived and were not taken, until when, and when time began.

    Batches are due at whole multiples of their length; until then, readings wait.
    """
    since = time.perf_counter()
    done = 0
    while done < len(seconds):
        now = time.perf_counter() - since
        if batch is not None:
            now = now // batch * batch
        ready = int(np.searchsorted(seconds, now, "right"))
        if ready > done:
            yield done, ready, now, since
            done = ready
        else:
            due = float(seconds[done])
            if batch is not None:
                due = -(-due // batch) * batch
            time.sleep(max(0.0, due - (time.perf_counter() - since)))


# On Spark


def run_spark(coming: Arrivals, query: str, root: Path) -> tuple[int, NDArray[np.float64]]:
    """Deltas with those of the first answers, and the delay of each reading until the commit.

    Readings arrive as files, ten a second: a reading also waits for its file.
    """
    incoming, home = root / "incoming", root / "home"
    incoming.mkdir(parents=True)
    commits: list[tuple[float, int]] = []
    deltas = [0]

    def committed(manifest: Manifest) -> None:
        commits.append((time.perf_counter(), int(manifest.metrics.get("rows", 0))))
        deltas[0] += manifest.deltas

    with connect(home, master="local[2]") as session:
        source = f"FROM FILES ('{incoming}', format = 'parquet', timestamps = 'microseconds')"
        open_session(session, coming, query, source, root)
        cast("SparkRuntime", session.runtime).watch(committed)
        _put(coming.first, incoming, 0)
        session.start()
        _await(session, commits, coming.first.num_rows)
        since = time.perf_counter()
        done = number = 0
        while done < coming.table.num_rows:
            number += 1
            time.sleep(max(0.0, since + number * FILE_EVERY - time.perf_counter()))
            ready = int(np.searchsorted(coming.seconds, time.perf_counter() - since, "right"))
            if ready > done:
                _put(coming.table.slice(done, ready - done), incoming, number)
                done = ready
        _await(session, commits, coming.first.num_rows + coming.table.num_rows)
        session.stop()
        # An instant is complete when a later one is told: nobody tells one after the last.
        session.advance(START + round(float(coming.seconds[-1] + 1) * SECOND))
    moments = np.array([moment for moment, _ in commits]) - since
    upto = np.cumsum([rows for _, rows in commits]) - coming.first.num_rows
    answered = np.searchsorted(upto, np.arange(coming.table.num_rows), "right")
    return deltas[0], moments[answered] - coming.seconds


def _put(table: pa.Table, incoming: Path, number: int) -> None:
    """A file appears when it is whole."""
    hidden = incoming.parent / f"{number:06}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(incoming / hidden.name)


def _await(session: Session, commits: list[tuple[float, int]], rows: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while sum(taken for _, taken in list(commits)) < rows:
        if time.monotonic() > deadline:
            raise InternalError(f"the pipeline did not take {rows:,} readings in {PATIENCE:g} s")
        cast("SparkRuntime", session.runtime).sources.check()
        time.sleep(0.02)
