"""A tick takes about as long as was asked, whatever a reading costs; by a clock that tests move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import place
from place.engine.slices import Segment
from place.errors import ConfigurationError
from place.model.segment import segment_schema
from place.runtime.durable import tick_pace
from place.runtime.durable.storage import Storage
from place.runtime.durable.tick_pace import Budget, TickPace, parse_tick
from place.runtime.durable.told import read_told
from place.runtime.spark.batches import files_in_pieces
from place.runtime.spark.ingest import IngestLog
from place.runtime.spark.inputs import FileInput
from place.runtime.spark.kafka_source import Allowance
from tests.harness.pipeline import CARS, NEAR, opened, reading, runtime_of, write_csv

MOST = Budget(1_000_000, 256 << 20)
BYTES = 40
"""Of a reading, in these worlds."""


class Machine:
    """Ticks take a time of their own, and a time for each reading; the clock is theirs."""

    def __init__(self, floor: float, each: float) -> None:
        self.floor, self.each, self.now = floor, each, 0.0

    def run(self, pace: TickPace, waiting: int) -> tuple[int, float]:
        """A tick of as much as the pace allows: its readings, and its seconds."""
        budget = pace.budget()
        readings = min(waiting, budget.readings, max(1, budget.size // BYTES))
        seconds = self.floor + self.each * readings
        self.now += seconds
        pace.count(readings, readings * BYTES, seconds)
        return readings, seconds


@pytest.mark.parametrize("target", [0.05, 0.3, 5.0])
@pytest.mark.parametrize("each", [1e-7, 1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("floor", [0.002, 0.02])
def test_ticks_become_as_long_as_asked(target: float, each: float, floor: float) -> None:
    pace, machine = TickPace(target, MOST), Machine(floor, each)
    ticks = [machine.run(pace, 10**9) for _ in range(30)]
    for readings, seconds in ticks[-5:]:
        is_all = readings == MOST.readings
        assert seconds < 1.4 * target
        assert is_all or seconds > 0.6 * target


def test_what_becomes_slower_or_faster_is_followed() -> None:
    pace, machine = TickPace(0.2, MOST), Machine(0.005, 1e-6)
    for _ in range(20):
        machine.run(pace, 10**9)
    machine.each = 1e-5  # many queries were registered
    assert machine.run(pace, 10**9)[1] > 1.0  # which nobody could know
    later = [machine.run(pace, 10**9)[1] for _ in range(12)]
    assert all(seconds < 0.9 for seconds in later)
    assert all(0.1 < seconds < 0.3 for seconds in later[-4:])
    machine.each = 1e-6  # and dropped again
    later = [machine.run(pace, 10**9)[1] for _ in range(20)]
    assert all(0.1 < seconds < 0.3 for seconds in later[-4:])


def test_small_ticks_in_between_do_not_mislead() -> None:
    pace, machine = TickPace(0.2, MOST), Machine(0.005, 1e-6)
    for _ in range(20):
        machine.run(pace, 10**9)
    for number in range(40):
        machine.run(pace, 1 + number % 7)
    seconds = [machine.run(pace, 10**9)[1] for _ in range(16)]
    assert max(seconds) < 0.4
    assert all(0.12 < each < 0.3 for each in seconds[-4:])


def test_without_a_target_a_tick_takes_the_most() -> None:
    pace = TickPace(None, MOST)
    for seconds in (0.1, 60.0):
        pace.count(1000, 1000, seconds)
        assert pace.budget() == MOST


def test_how_long_what_waits_will_take() -> None:
    pace, machine = TickPace(0.2, MOST), Machine(0.01, 1e-5)
    for _ in range(20):
        machine.run(pace, 10**9)
    assert 9 < pace.seconds_for(1_000_000, 40_000_000) < 13


def test_a_duration_that_no_tick_can_take_is_refused() -> None:
    assert parse_tick("250 milliseconds") == 0.25
    for text in ("49ms", "6s"):
        with pytest.raises(ConfigurationError, match="from 50ms to 5s"):
            parse_tick(text)


# What is pushed


def stream_of() -> Any:
    session = place.connect(runtime="reference")
    session.sql(CARS)
    return session.catalog.streams["cars"]


def test_what_is_pushed_is_cut_into_ticks(tmp_path: Path) -> None:
    stream = stream_of()
    log = IngestLog(Storage(str(tmp_path)), 0, (), lambda _: True, lambda _: None, target=0.05)
    log.pace.count(100, 100 * 100, 0.05)  # a slow machine: a hundred readings are a tick
    columns = list(zip(*(reading(car, 1, 1, 1) for car in range(1050)), strict=True))
    schema = segment_schema(stream.columns)
    arrays = [*columns, columns[3], [False] * 1050]
    table = pa.table(
        [pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema.names
    )
    last = log.offer(stream, table)
    found = []
    sizes = []
    while due := log.due():
        sizes.append(sum(each.readings for each in due))
        for each in due:
            for told in read_told(Storage(str(tmp_path)), each.name):
                assert isinstance(told, Segment)
                found += told.table.column("id").to_pylist()
        log.forget(due[-1].number, ())
    assert found == list(range(1050))
    assert max(sizes) <= 200  # twice what the largest tick had
    assert last.number >= 6


# Files


class Frame:
    """A batch of paths, times and sizes."""

    def __init__(self, rows: list[tuple[str, int, int]]) -> None:
        self._rows = rows

    def collect(self) -> list[tuple[str, int, int]]:
        return self._rows


def test_a_batch_of_files_is_cut_by_bytes_and_goes_on_where_it_was() -> None:
    pace = TickPace(0.1, MOST)
    pace.count(1000, 1_000_000, 0.1)
    pieces = files_in_pieces(stream_of(), pace)
    frame: Any = Frame([(f"f{i}", 100 - i, 600_000) for i in range(5)] + [("big", 0, 9_000_000)])

    def taken(begin: int) -> list[tuple[list[str], int | None]]:
        found = []
        for entry, _, upto in pieces(frame, 3, begin):
            paths = [item.path for item in entry.inputs if isinstance(item, FileInput)]
            found.append((paths, upto))
        return found

    every = taken(0)
    assert every == [
        (["big"], 1),
        (["f4"], 2),
        (["f3"], 3),
        (["f2"], 4),
        (["f1"], 5),
        (["f0"], None),
    ]
    assert taken(3) == every[3:]
    pace.target = None
    assert taken(2) == [(["f3", "f2", "f1", "f0"], None)]


def test_kafka_is_told_how_much_to_give(tmp_path: Path) -> None:
    allowance = Allowance(str(tmp_path / "pace" / "a"))
    assert allowance.read(7) == 7
    allowance.write(Budget(500, 1))
    assert allowance.read(7) == 500


# On Spark


def test_a_batch_that_was_cut_is_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver ends in the middle of a batch, and the next one goes on with the rest of it."""
    monkeypatch.setattr(tick_pace, "FEWEST_BYTES", 1)
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for number in range(6):
        write_csv(incoming / f"{number}.csv", [reading(number, 1, 1, number)])
    source = f"{CARS} FROM FILES ('{incoming}', format = 'csv') WITH (lateness = '1 hour')"
    ended = 0
    with opened(tmp_path / "home", tick=0.05) as session:
        session.sql(source)
        session.sql(NEAR)
        runtime = runtime_of(session)

        def stop(_: object) -> None:
            nonlocal ended
            ended += 1
            if ended == 3:
                raise ConfigurationError("enough")

        pace_of_one_file(runtime)
        runtime.watch(stop)
        with pytest.raises(ConfigurationError, match="enough"):
            session.drain()
        mark = next(iter(runtime.last.sources.values())) if runtime.last else None
        assert mark is not None
        assert (mark.batch, mark.taken) == (-1, 3)
    with opened(tmp_path / "home") as session:
        session.drain()
        assert runtime_of(session).statistics("Cars")["readings"] == 6


def pace_of_one_file(runtime: Any) -> None:
    """Every file is a tick."""
    sources = runtime.sources
    opening = sources._opened

    def opened_slowly(stream: Any) -> Any:
        found = opening(stream)
        found.pace.count(1, 10, 100.0)
        return found

    sources._opened = opened_slowly
