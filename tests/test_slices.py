"""Slices: a cell reads, holds and saves only its share, and lateness is as if it saw everything."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import place
from place.engine.checkpoint import load_worker, save_worker
from place.engine.matrix import Matrix, Place
from place.engine.slices import Segment, Told, cut_of, merged, rows_of
from place.engine.worker import Worker
from place.kernels.text_hash import hash_texts
from place.model.clock import Clock, Whole
from place.model.reading import Advance
from place.model.schema import Stream
from place.runtime.durable.slice_file import Cutting, read_share, read_whole, write_cut, write_keys
from place.runtime.durable.storage import Damaged, Storage
from place.runtime.local import LocalRuntime
from place.runtime.spark.inputs import AdvanceInput, FloorsInput, MovedInput
from place.runtime.spark.route import Routing, gathered
from place.runtime.spark.slicing import Slicing
from place.session import Session
from tests.harness.examples import examples
from tests.harness.pipeline import CARS, START, opened, reading, runtime_of, write_csv

OBJECTS = 4_000
SETUP = f"""
{CARS};
REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 50, 50);
REGISTER QUERY kinds AS SELECT kind, COUNT(*) FROM Cars GROUP BY kind;
"""


def follow(cars: Sequence[int]) -> str:
    """Queries around some cars."""
    return ";".join(
        f"REGISTER QUERY around{car} AS SELECT id FROM Cars INSIDE ('M', {car}, 5)" for car in cars
    )


def some_cars(second: int) -> pa.Table:
    """Readings of all cars, as a segment."""
    rng = np.random.default_rng(second)
    return pa.table(
        {
            "id": np.arange(OBJECTS),
            "x": rng.uniform(0, 100, OBJECTS),
            "y": rng.uniform(0, 100, OBJECTS),
            "ts": np.full(OBJECTS, (START + second) * 1_000_000),
            "kind": pa.array(["a", "b"] * (OBJECTS // 2)),
            "time": np.full(OBJECTS, (START + second) * 1_000_000),
            "gone": np.zeros(OBJECTS, np.bool_),
        }
    )


@pytest.fixture(params=[Matrix(1, 1), Matrix(2, 1), Matrix(4, 1), Matrix(4, 2)], ids=str)
def runtime(request: pytest.FixtureRequest) -> Iterator[LocalRuntime]:
    with place.connect(cells=f"{request.param.rows}x{request.param.columns}") as session:
        session.sql(SETUP)
        session.sql(follow(range(40)))
        assert isinstance(session.runtime, LocalRuntime)
        yield session.runtime


def cars_of(runtime: LocalRuntime) -> Stream:
    return next(iter(runtime.catalog.streams.values()))


def test_what_a_cell_reads_holds_and_saves_is_its_share(
    runtime: LocalRuntime, tmp_path: Path
) -> None:
    """Each within 1.3 times of its share: the objects of its row, and those that are followed."""
    matrix = runtime.workers[0].place.matrix
    storage, stream = Storage(str(tmp_path)), cars_of(runtime)
    slicing = Slicing(storage, matrix)
    slicing.know(runtime.catalog, runtime.catalog.arrow_of, 0)
    read = {worker.place: 0 for worker in runtime.workers}
    for second in (1, 2, 3):
        told = [Segment("Cars", some_cars(second))]
        name = f"segments/{second}.arrow"
        whole = storage.write(name, write_cut(storage, slicing.cutting, [stream], told))
        for worker in runtime.workers:
            version = runtime.catalog.version
            mine: list[Told] = told
            size = whole
            if matrix.rows > 1:
                mine, size = read_share(storage, name, worker.share, {"Cars": stream}, version)
            worker.take(mine)
            read[worker.place] += size
    alone = 3 * whole if matrix.rows == 1 else 3 * sum_of(storage)
    assert max(read.values()) <= 1.3 * alone / matrix.rows
    held = [
        len(store)
        for worker in runtime.workers
        for line in worker.timelines.values()
        for store in (*line.cell.stores.subjects.values(), *line.cell.stores.others.values())
    ]
    assert max(held) <= 1.3 * OBJECTS / matrix.rows
    saved = [sum(table.nbytes for table in save_worker(w).values()) for w in runtime.workers]
    with place.connect() as session:
        session.sql(SETUP)
        session.sql(follow(range(40)))
        assert isinstance(session.runtime, LocalRuntime)
        for second in (1, 2, 3):
            session.runtime.take([Segment("Cars", some_cars(second))])
        one = sum(table.nbytes for table in save_worker(session.runtime.workers[0]).values())
    assert max(saved) <= 1.3 * one / matrix.rows
    assert sum(worker.objects("Cars") for worker in runtime.workers if not worker.place.column) == (
        OBJECTS
    )


def sum_of(storage: Storage) -> int:
    """The bytes of readings that are cut for a single row."""
    fill = write_cut(storage, None, [], [Segment("Cars", some_cars(1))])
    return storage.write("segments/whole.arrow", fill)


def test_only_what_is_followed_is_known_of_other_rows() -> None:
    with place.connect(cells="3x2") as session:
        session.sql(SETUP)
        runtime = session.runtime
        assert isinstance(runtime, LocalRuntime)
        now = Advance((START + 1) * 1_000_000, "Cars")
        runtime.take([Segment("Cars", some_cars(1)), now])

        def known() -> set[int]:
            line = (worker.timelines[frozenset(["Cars"])] for worker in runtime.workers)
            others = [each.cell.stores.others["Cars"].messages() for each in line]
            return {key for each in others for key in each.keys.tolist()}

        assert known() == set()
        session.sql(follow([7, 8]))
        assert known() == {7, 8}
        session.sql("DROP QUERY around7")
        assert known() == {8}
        session.sql("SELECT a.id FROM Cars a, Cars b WHERE DISTANCE(a, b) < 1 AND a.id < b.id")
        assert known() == {8}
        pairs = "SELECT a.id FROM Cars a, Cars b WHERE DISTANCE(a, b) < 1 AND a.id < b.id"
        session.sql(f"REGISTER QUERY pairs AS {pairs}")
        assert known() == set(range(OBJECTS))
        session.sql("DROP QUERY pairs")
        assert known() == {8}


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=4),
    st.integers(0, 20),
    st.integers(1, 3),
    st.sampled_from([None, "0"]),
)
def test_a_slice_is_as_late_as_the_whole(
    ticks: list[list[int]], lateness: int, rows: int, part: str | None
) -> None:
    whole, clocks = Clock(lateness), [Clock(lateness) for _ in range(rows)]
    for times in ticks:
        table = pa.table({"time": np.array(times, np.int64), "gone": np.zeros(len(times), bool)})
        segment = Segment("S", table, part)
        expected = whole.tell_all(segment.times, part)
        for row, clock in enumerate(clocks):
            mine = segment.take(np.arange(row, len(times), rows))
            assert mine.cut is not None
            told = Whole(mine.cut.latest, mine.cut.before)
            if mine.cut.count:
                found = clock.tell_all(mine.times, part, told)
                assert found.tolist() == expected[row::rows].tolist()
            assert (clock.closed, clock.parts) == (whole.closed, whole.parts)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.text(max_size=9), max_size=30), st.integers(1, 5))
def test_texts_have_the_rows_that_cells_give_them(texts: list[str], rows: int) -> None:
    stream = _text_stream()
    worker = Worker(Place(Matrix(rows, 1)))
    codes = np.array([worker.dictionary.code(text) for text in texts], np.int64)
    for array in (pa.array(texts, pa.string()), pa.array(texts, pa.string()).dictionary_encode()):
        table = pa.table({"id": array})
        expected = worker.dictionary.hashes()[codes] % rows if texts else np.empty(0)
        assert rows_of(stream, table, rows).tolist() == expected.tolist()


def _text_stream() -> Stream:
    with place.connect() as session:
        session.sql("CREATE STREAM S (id STRING KEY, x DOUBLE, y DOUBLE)")
        return next(iter(session.runtime.catalog.streams.values()))


def test_an_empty_text_has_a_hash() -> None:
    assert hash_texts(np.zeros(2, np.int32), np.empty(0, np.uint8)).tolist() == [0]


def test_a_file_of_slices_is_what_was_told(tmp_path: Path) -> None:
    storage, table = Storage(str(tmp_path)), some_cars(1)
    with place.connect() as session:
        session.sql(CARS)
        stream = next(iter(session.runtime.catalog.streams.values()))
    times = table.column("time").to_numpy().copy()
    times[::3] -= 5_000_000
    table = table.set_column(5, "time", pa.array(times))
    write_keys(storage, "keys.arrow", {"Cars": [pa.array([1, 2]), pa.array([3])]})
    cutting = Cutting(Matrix(3, 2), 1, 0, file="keys.arrow")
    storage.write("s.arrow", write_cut(storage, cutting, [stream], [Segment("Cars", table)]))
    (found,) = read_whole(storage, "s.arrow")
    assert isinstance(found, Segment)
    assert found.table.equals(table)
    expected = cut_of(Segment("Cars", table))
    assert found.cut is not None
    assert found.cut.before is not None
    assert expected.before is not None
    assert found.cut.before.tolist() == expected.before.tolist()
    assert merged([found]) == found
    content = bytearray((tmp_path / "s.arrow").read_bytes())
    content[20] ^= 0x55
    (tmp_path / "s.arrow").write_bytes(content)
    with pytest.raises(Damaged, match="the checksum of its index"):
        read_whole(storage, "s.arrow")


def test_a_state_of_all_rows_becomes_one_of_its_own() -> None:
    """Before there were slices, each cell held the objects of all rows."""
    with place.connect(cells="2x1") as session, place.connect() as alone:
        for each in (session, alone):
            each.sql(SETUP)
            each.sql(follow(range(3)))
        runtime, one = session.runtime, alone.runtime
        assert isinstance(runtime, LocalRuntime)
        assert isinstance(one, LocalRuntime)
        for worker in runtime.workers:
            worker.share.is_whole = True
        for second in (1, 2):
            runtime.take([Segment("Cars", some_cars(second))])
            one.take([Segment("Cars", some_cars(second))])
        catalog = runtime.catalog
        runtime.workers = [
            load_worker(w.place, catalog, catalog.arrow_of, save_worker(w), w.threads, w.files)
            for w in runtime.workers
        ]
        assert all(worker.share.is_whole for worker in runtime.workers)
        assert session.sql(follow([3])).deltas == alone.sql(follow([3])).deltas
        third = Segment("Cars", some_cars(3))
        runtime.take([replace(third, cut=cut_of(third))])
        one.take([third])
        assert not any(worker.share.is_whole for worker in runtime.workers)
        assert max(worker.objects("Cars") for worker in runtime.workers) < 0.6 * OBJECTS
        assert runtime.statistics("Cars") == one.statistics("Cars")
        for query in ("near", "around0", "around3", "kinds"):
            assert session.answer(query) == alone.answer(query)


@pytest.mark.parametrize("kind", ["pushed", "files"])
def test_cells_on_spark_read_their_slices(kind: str, tmp_path: Path) -> None:
    """With queries that follow objects of other rows, and a window that begins late."""
    incoming = tmp_path / "incoming"
    incoming.mkdir()

    def run(session: Session, source: str) -> Iterator[dict[str, object]]:
        session.sql(f"{CARS} {source}")
        session.sql("REGISTER QUERY kinds AS SELECT kind, COUNT(*) FROM Cars GROUP BY kind")
        names = ["kinds"]
        for second in range(1, 5):
            if second == 2:
                session.sql(follow(range(4)))
                names += [f"around{car}" for car in range(4)]
            if second == 3:
                session.sql("REGISTER QUERY past AS SELECT id FROM Cars WINDOW 5 SECONDS")
                names.append("past")
            rows = [reading(car, (car * second) % 9, car, second) for car in range(20)]
            if source:
                write_csv(incoming / f"{second}.csv", rows)
                runtime_of(session).sources.drain()
            else:
                session.push("Cars", rows)
            yield {name: sorted(session.answer(name)) for name in names}

    with place.connect() as session:
        expected = list(run(session, ""))
    home, source = tmp_path / "home", f"FROM FILES ('{incoming}', format = 'csv')"
    with opened(home, matrix=Matrix(2, 1)) as session:
        runtime_of(session).pipeline.small = 0
        assert list(run(session, source if kind == "files" else "")) == expected
    with opened(home, matrix=Matrix(2, 1)) as session:
        assert sorted(session.answer("around1")) == expected[-1]["around1"]


def test_what_cells_tell_each_other_is_no_reading(tmp_path: Path) -> None:
    """The archive reads the ticks of the log again, also those in which queries begin."""
    routing = Routing(Storage(str(tmp_path)), 1, "", {})
    inputs = [FloorsInput({"Cars": 5}), MovedInput("segments/moved.arrow"), AdvanceInput(7)]
    assert gathered(routing, inputs) == [Advance(7)]
