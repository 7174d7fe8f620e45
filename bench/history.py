"""`place bench history`: the repository beside plain Parquet and beside DuckDB over its files.

A generated fleet drives in a square of 20 km: each vehicle reports its place, speed and heading
every ten seconds. The readings are archived as a pipeline would do it; then both sides answer where
the vehicles of a part of the city were at a time, and where one vehicle was on a day. Ticks of a
live session are measured with and without an archive.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import track

import place
from bench.figures import number, tell
from bench.world import calibrate
from place.engine.slices import Segment
from place.model.schema import Stream
from place.model.segment import segment_schema
from place.model.time import DAY, SECOND, format_timestamp
from place.runtime.durable.storage import Storage
from place.runtime.local import LocalRuntime
from place.runtime.repository.repository import Repository, TickOfLog
from place.runtime.tables import TableLoader
from place.session import Session

SIDE = 20_000.0
EVERY = 10
BEGIN = 1_767_225_600 * SECOND
CREATE = (
    "CREATE STREAM Fleet (id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, heading DOUBLE,"
    " kind STRING, ts TIMESTAMP)"
)
ASKED = 15
LIVE_TICKS = 60


@dataclass(frozen=True)
class Setting:
    readings: int = 2_000_000
    vehicles: int = 0
    """0: one for each 5,000 readings, but at least 500."""
    seed: int = 1

    @property
    def fleet(self) -> int:
        return self.vehicles or max(500, self.readings // 5_000)


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark to the command line."""
    parser = benches.add_parser(
        "history",
        help="the repository beside plain Parquet, and beside DuckDB over the same files",
        description="A fleet that reports every ten seconds is archived. Tells the bytes of the"
        " repository beside those of plain Parquet in the order of times; then the seconds and the"
        " bytes of a question about the vehicles in 1% of the city at a time, and about one vehicle"
        " on a day, beside DuckDB's SQL over the files of the repository (all have to find the"
        " same rows); and what archiving costs a live tick. Times are medians.",
        epilog="example: place bench history --readings 50000000 --json history.json",
    )
    default = Setting()
    parser.add_argument(
        "--readings", type=number, default=default.readings, metavar="N", help="how many (2000000)"
    )
    parser.add_argument(
        "--vehicles", type=number, default=None, metavar="N", help="how many (readings / 5000)"
    )
    parser.add_argument("--seed", type=int, default=default.seed, metavar="N", help="of chance (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmark."""
    setting = Setting(arguments.readings, arguments.vehicles or 0, arguments.seed)
    with tempfile.TemporaryDirectory(prefix="place-bench-") as directory:
        figures = measure(setting, Path(directory))
    tell("history", [figures], arguments.json)
    return 0


class Fleet:
    """Vehicles that drive straight on, turn now and then, and stay within the city."""

    def __init__(self, setting: Setting) -> None:
        self._chance = np.random.default_rng(setting.seed)
        self._size = setting.fleet
        self._place = self._chance.random((self._size, 2)) * SIDE
        self._heading = self._chance.random(self._size) * 2 * np.pi
        self._phase = np.sort(self._chance.integers(0, EVERY, self._size))
        kinds = np.array(["Car", "Taxi", "Truck"])
        self._kinds = pa.array(kinds[self._chance.integers(0, 3, self._size)])
        self._step = 0

    def step(self, stream: Stream) -> pa.Table:
        """The readings of the next ten seconds, in the order of times."""
        chance = self._chance
        turning = chance.random(self._size) < 0.1
        self._heading[turning] += chance.normal(0, 1, int(turning.sum()))
        speed = np.round(chance.normal(11.0, 3.0, self._size).clip(0), 1)
        way = np.stack([np.cos(self._heading), np.sin(self._heading)], 1)
        moved = self._place + way * (speed * EVERY)[:, None]
        outside = ((moved < 0) | (moved > SIDE)).any(1)
        self._heading[outside] += np.pi
        self._place = moved.clip(0, SIDE)
        seconds = self._step * EVERY + self._phase
        self._step += 1
        times = BEGIN + seconds * SECOND
        place = np.round(self._place, 2)
        degrees = np.round(np.degrees(self._heading) % 360, 1)
        columns = [np.arange(self._size), place[:, 0], place[:, 1], speed, degrees]
        arrays = [pa.array(values) for values in columns]
        arrays += [self._kinds, pa.array(times), pa.array(times)]
        arrays.append(pa.array(np.zeros(self._size, np.bool_)))
        return pa.Table.from_arrays(arrays, schema=segment_schema(stream.columns))


def measure(setting: Setting, directory: Path) -> dict[str, float | str]:
    """All figures of a run."""
    calibration = calibrate()
    runtime = LocalRuntime()
    with Session(runtime, TableLoader()) as session:
        session.sql(f"{CREATE} WITH (archive = 'all')")
        catalog = runtime.catalog
    stream = catalog.streams["fleet"]
    waiting: list[TickOfLog] = []
    storage = Storage(str(directory / "home"))
    repository = Repository(
        storage, lambda tick: iter(waiting), lambda version: catalog, has_thread=False
    )
    fleet, plain = Fleet(setting), directory / "plain.parquet"
    steps = max(1, setting.readings // setting.fleet)
    seconds = 0.0
    with _Plain(plain) as writer:
        for tick in track(range(1, steps + 1), "archiving"):
            table = fleet.step(stream)
            writer.write(table)
            waiting[:] = [TickOfLog(tick, catalog.version, [Segment("Fleet", table)])]
            began = time.perf_counter()
            repository.told(tick, catalog)
            repository.catch_up()
            if repository.is_due() or tick == steps:
                repository.archive(fresh=tick == steps)
            seconds += time.perf_counter() - began
    files = [f"{directory / 'home'}/{name}" for name in repository.files(stream)]
    size = sum(Path(file).stat().st_size for file in files)
    rows = steps * setting.fleet
    figures: dict[str, float | str] = {
        "readings": rows,
        "vehicles": setting.fleet,
        "archived_per_s": rows / seconds,
        "bytes": size,
        "plain_bytes": plain.stat().st_size,
        "size_ratio": size / plain.stat().st_size,
    }
    figures |= _places(repository, stream, files, size, steps, setting)
    figures |= _days(repository, stream, files, size, steps, setting)
    figures |= _live(setting, directory)
    figures["calibration_s"] = min(calibration, calibrate())
    return figures


class _Plain:
    """Readings as a Parquet file with the defaults of Arrow, a million in a row group."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def __enter__(self) -> _Plain:
        return self

    def write(self, table: pa.Table) -> None:
        moments = table.column("ts").cast(pa.timestamp("us", tz="UTC"))
        self._waiting.append(table.select(range(6)).append_column("ts", moments))
        self._rows += table.num_rows
        if self._rows >= 1 << 20:
            self._flush()

    def _flush(self) -> None:
        table = pa.concat_tables(self._waiting).combine_chunks()
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table, row_group_size=1 << 20)
        self._waiting, self._rows = [], 0

    def __exit__(self, *_: object) -> None:
        if self._waiting:
            self._flush()
        assert self._writer is not None
        self._writer.close()


def _median(work: Callable[[], object], times: int = 3) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2]


def _places(
    repository: Repository,
    stream: Stream,
    files: list[str],
    size: int,
    steps: int,
    setting: Setting,
) -> dict[str, float | str]:
    """Who was in 1% of the city at a time."""
    chance = np.random.default_rng(setting.seed)
    mine, theirs, read = [], [], []
    connection = duckdb.connect()
    for _ in range(ASKED):
        # Times of complete intervals: there one filter over all files has the answer in SQL.
        at = BEGIN + int(chance.integers(EVERY, max(EVERY + 1, int(steps * EVERY * 0.8)))) * SECOND
        left, bottom = chance.random(2) * 0.9 * SIDE
        box = (left, bottom, left + 0.1 * SIDE, bottom + 0.1 * SIDE)
        found = repository.objects(stream, at, box)
        read.append(found.bytes_read)
        moment = format_timestamp(at) + "+00"
        query = (
            "SELECT id, x, y, speed, heading, kind, ts FROM read_parquet($files)"
            " WHERE ts <= $at::TIMESTAMPTZ AND valid_to > $at::TIMESTAMPTZ"
            " AND (snapshot IS NULL OR snapshot <= $at::TIMESTAMPTZ) AND NOT gone"
            " AND x BETWEEN $left AND $right AND y BETWEEN $bottom AND $top"
        )
        bound = {
            "files": files,
            "at": moment,
            **dict(zip(("left", "bottom", "right", "top"), box, strict=True)),
        }

        def ask(query: str = query, bound: dict[str, object] = bound) -> pa.Table:
            return connection.execute(query, bound).to_arrow_table()

        other = ask()
        expected = sorted(zip(other["id"].to_pylist(), other["x"].to_pylist(), strict=True))
        got = found.table
        assert sorted(zip(got["id"].to_pylist(), got["x"].to_pylist(), strict=True)) == expected
        mine.append(_median(lambda at=at, box=box: repository.objects(stream, at, box)))  # type: ignore[misc]
        theirs.append(_median(ask))
    return _compared("as_of", mine, theirs, read, size)


def _days(
    repository: Repository,
    stream: Stream,
    files: list[str],
    size: int,
    steps: int,
    setting: Setting,
) -> dict[str, float | str]:
    """Where one vehicle was on a day."""
    chance = np.random.default_rng(setting.seed + 1)
    mine, theirs, read = [], [], []
    connection = duckdb.connect()
    days = max(1, steps * EVERY * SECOND // DAY)
    for _ in range(ASKED):
        key = int(chance.integers(setting.fleet))
        begin = BEGIN + int(chance.integers(days)) * DAY
        keys = frozenset((key,))

        def ask_mine(begin: int = begin, keys: frozenset[int] = keys) -> pa.Table:
            return repository.readings(stream, begin - 1, begin + DAY - 1, None, keys)

        found = ask_mine()
        read.append(found.bytes_read)
        query = (
            "SELECT id, x, y, speed, heading, kind, ts FROM read_parquet($files)"
            " WHERE id = $id AND ts >= $begin::TIMESTAMPTZ AND ts < $end::TIMESTAMPTZ"
            " AND snapshot IS NULL ORDER BY ts"
        )
        bound = {
            "files": files,
            "id": key,
            "begin": format_timestamp(begin) + "+00",
            "end": format_timestamp(begin + DAY) + "+00",
        }

        def ask(query: str = query, bound: dict[str, object] = bound) -> pa.Table:
            return connection.execute(query, bound).to_arrow_table()

        assert found.table["x"].to_pylist() == ask()["x"].to_pylist()
        mine.append(_median(ask_mine))
        theirs.append(_median(ask))
    return _compared("day", mine, theirs, read, size)


def _compared(
    name: str, mine: list[float], theirs: list[float], read: list[int], size: int
) -> dict[str, float | str]:
    one, two = float(np.median(mine)), float(np.median(theirs))
    return {
        f"{name}_ms": 1e3 * one,
        f"{name}_duckdb_ms": 1e3 * two,
        f"{name}_ratio": two / one,
        f"{name}_bytes": float(np.median(read)),
        f"{name}_share_of_scan": float(np.median(read)) / size,
    }


def _live(setting: Setting, directory: Path) -> dict[str, float | str]:
    """What a tick takes with an archive and without one; both sessions take turns."""
    vehicles = 5_000
    found: dict[str, list[float]] = {"": [], " WITH (archive = 'all')": []}
    fleets = {option: Fleet(Setting(vehicles=vehicles, seed=setting.seed)) for option in found}
    sessions = {
        option: place.connect(directory / f"live{number}") for number, option in enumerate(found)
    }
    for option, session in sessions.items():
        session.sql(CREATE + option)
        side = SIDE / 10
        for row in range(10):
            for column in range(10):
                box = f"({column * side}, {row * side}, {(column + 1) * side}, {(row + 1) * side})"
                session.sql(f"REGISTER QUERY q{row}_{column} AS SELECT id FROM Fleet INSIDE {box}")
    for _ in track(range(LIVE_TICKS), "live ticks"):
        for option, session in sessions.items():
            stream: Stream = session.runtime.catalog.streams["fleet"]
            table = fleets[option].step(stream)
            rows = table.select(range(7))
            began = time.perf_counter()
            session.push("Fleet", rows)
            found[option].append(time.perf_counter() - began)
    for session in sessions.values():
        session.close()
    without, with_it = (float(np.median(times[5:])) for times in found.values())
    return {
        "live_tick_ms": 1e3 * without,
        "live_tick_archived_ms": 1e3 * with_it,
        "live_cost": with_it / without - 1,
    }
