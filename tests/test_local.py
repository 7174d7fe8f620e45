"""The local runtime: what it keeps, what it takes, and how a cell continues another's work."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import place
from place.engine.boxes import boxes_of
from place.engine.checkpoint import load_worker, save_worker
from place.engine.columns import Dictionary
from place.engine.operators import region_join
from place.errors import ReadingError
from place.kernels import bulk, order
from place.model.reading import Advance, Input, Reading
from place.runtime.local import LocalRuntime
from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner
from place.session import Session
from tests.harness.turns import in_turns

SCRIPTS = find_scripts([Path(__file__).parent / "scripts"])
BATCHINGS = ("one", "random:2")


@pytest.mark.parametrize(("path", "batching"), list(in_turns(SCRIPTS, BATCHINGS, every=4)))
def test_a_worker_goes_on_from_its_arrow_tables(
    path: Path, batching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = count()

    def renewed(name: str) -> Any:
        as_it_is = getattr(LocalRuntime, name)

        def with_new_workers(self: LocalRuntime, *arguments: object) -> object:
            turn = next(turns)  # all of them, or those of a row: those that stay must fit
            self.workers = [
                load_worker(
                    worker.place,
                    worker.catalog,
                    self.catalog.arrow_of,
                    save_worker(worker),
                    files=worker.files,
                )
                if turn % 3 == 0 or worker.place.row == turn % 3 - 1
                else worker
                for worker in self.workers
            ]
            return as_it_is(self, *arguments)

        return with_new_workers

    # And without texts that it needs no more.
    monkeypatch.setattr("place.engine.checkpoint.MANY_TEXTS", 0)
    for name in ("_take", "_become", "_probe"):
        monkeypatch.setattr(LocalRuntime, name, renewed(name))
    ScriptRunner(read_script(path), opener("local", "2x2"), Batching.parse(batching)).run()


def cars(options: str = "") -> Session:
    session = place.connect(runtime="local")
    session.sql(f"CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING){options}")
    session.sql("REGISTER QUERY q AS SELECT id, type FROM Cars INSIDE (0, 0, 5, 5)")
    return session


COLUMNS = {"TYPE": ["a", None], "y": [1, 2], "id": [1, 2], "x": [1.5, 9]}


@pytest.mark.parametrize(
    "data",
    [
        [(1, 1.5, 1, "a"), (2, 9, 2, None)],
        pa.table(COLUMNS),
        pa.RecordBatch.from_pydict(COLUMNS),
        pandas.DataFrame(COLUMNS),
        polars.DataFrame(COLUMNS, strict=False),
        pa.table({**COLUMNS, "TYPE": pa.array(["a", None]).dictionary_encode()}),
    ],
    ids=["rows", "arrow", "batch", "pandas", "polars", "dictionary"],
)
def test_readings_come_in_many_forms(data: object) -> None:
    session = cars()
    deltas = session.push("cars", data, time="2026-01-01")
    assert [(d.sign, d.row) for d in deltas] == [(1, (1, "a"))]
    gone = pa.table({**COLUMNS, "op": ["disappear", ""]})
    deltas = session.push("Cars", gone, time="2026-01-02")
    assert [(d.sign, d.row) for d in deltas] == [(-1, (1, "a"))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([(1, 1, 1)], "has 4 values"),
        ([(1, float("nan"), 1, "a")], "needs a position"),
        ([(None, 1, 1, "a")], "no key"),
        (pa.table({"id": [1], "x": [1.0], "why": [2.0], "type": ["a"]}), 'no column "y"'),
        (pa.table({**COLUMNS, "op": ["vanish", ""]}), "does not exist"),
        ("text", "holds no readings"),
    ],
)
def test_wrong_readings_are_refused_whole(data: object, message: str) -> None:
    session = cars()
    with pytest.raises(ReadingError, match=message):
        session.push("Cars", data, time="2026-01-01")
    assert session.answer("q") == []


def kept(session: Session) -> set[object]:
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    (line,) = runtime.workers[0].timelines.values()
    store = line.cell.stores.subjects["Cars"]
    return set(store.keys[: store.size][store.alive[: store.size]].tolist())


def test_objects_that_no_query_can_reach_are_not_kept() -> None:
    session = cars(
        " WITH (retain = 'cache', max_speed = 2, report_every = '1 second', cache = 0.5)"
    )
    session.push("Cars", [(1, 4, 4, "a"), (2, 5.5, 5, "b"), (3, 7, 5, "c")], time=1_000_000)
    assert kept(session) == {1, 2}
    session.push("Cars", [(3, 5, 5, "c"), (1, 50, 50, "a")], time=2_000_000)
    assert kept(session) == {2, 3}
    assert session.answer("q") == [(3, "c")]
    assert session.runtime.statistics("Cars")["objects"] == 2
    session.sql("DROP QUERY q; REGISTER QUERY all AS SELECT id FROM Cars INSIDE (0, 0, 99, 99)")
    assert session.answer("all") == [(2,), (3,)]  # whoever was not kept is not known


@pytest.mark.parametrize("cache", [0.0, 1.0])
def test_a_cache_of_the_whole_way_misses_nothing(cache: float) -> None:
    chance = np.random.default_rng(3)
    retained = "retain = 'cache', max_speed = 1.5, report_every = '1 second'"
    sessions = [cars(), cars(f" WITH ({retained}, cache = {cache})")]
    for session in sessions:
        for focal in range(5):
            session.sql(
                f"REGISTER QUERY m{focal} AS SELECT id FROM Cars INSIDE ('M', {focal}, 3, 3)"
            )
    places = chance.uniform(0, 20, (60, 2))
    differences = 0
    for second in range(1, 30):
        # One coordinate at a time, so that nobody is faster than 1.5 a second.
        steps = np.zeros_like(places)
        steps[np.arange(60), chance.integers(0, 2, 60)] = chance.uniform(-1, 1, 60)
        places += steps
        rows = [(i, float(x), float(y), "a") for i, (x, y) in enumerate(places)]
        answers = []
        for session in sessions:
            # The focal objects report first, and the rest half a second later.
            session.push("Cars", rows[:5], time=second * 1_000_000)
            answers.append([session.answer(f"m{i}") for i in range(5)])
            session.push("Cars", rows[5:], time=second * 1_000_000 + 500_000)
        differences += answers[0] != answers[1]
    assert (differences == 0) == (cache == 1.0)


def where_boxes(condition: str) -> tuple[tuple[dict[int, tuple[float, float]], ...], bool]:
    session = place.connect()
    session.sql(
        "CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE, n BIGINT, t STRING, b BOOLEAN)"
    )
    session.sql(f"REGISTER QUERY q AS SELECT id FROM S WHERE {condition}")
    found = boxes_of(session.query("q").where, 0, Dictionary(["zero", "one"]))
    return found.boxes, found.exact


@pytest.mark.parametrize(
    ("condition", "boxes", "exact"),
    [
        ("n > 20", ({3: (21, np.inf)},), True),
        ("n >= 20.5 AND n < 23.5", ({3: (21, 23)},), True),
        ("20 > x", ({1: (-np.inf, np.nextafter(20, -np.inf))},), True),
        ("NOT (n <= 3 OR b)", ({3: (4, np.inf), 5: (0, 0)},), True),
        ("t = 'one' OR t = 'two'", ({4: (1, 1)}, {4: (2, 2)}), True),
        ("t IN ('one', 'zero') AND n = 1", ({4: (1, 1), 3: (1, 1)}, {4: (0, 0), 3: (1, 1)}), True),
        ("FALSE", (), True),
        ("n BETWEEN 1 AND 5 AND t LIKE 'a%'", ({3: (1, 5)},), False),
        ("n <> 1", ({},), False),
        ("n = 9007199254740993", ({},), False),
        ("x = NULL", (), True),
        ("n + 1 > 2", ({},), False),
        ("b IS TRUE", ({5: (1, 1)},), True),
        ("TRUE", ({},), True),
    ],
)
def test_conditions_are_boxes(condition: str, boxes: object, exact: bool) -> None:
    assert where_boxes(condition) == (boxes, exact)


def test_what_is_not_needed_any_more_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("place.engine.cell.MANY_FOCALS", 100)
    session = place.connect(runtime="local")
    session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    session.sql("CREATE STREAM Zones (ID BIGINT KEY, region STRING)")
    session.sql("CREATE STREAM Patrols (ID BIGINT KEY, focal BIGINT, r DOUBLE)")
    for name in ("Zones", "Patrols"):
        session.sql(
            f"REGISTER QUERY {name} AS SELECT Q.ID, O.id FROM {name} Q, Cars O WHERE O INSIDE Q"
        )
    for second in range(1, 500):
        zone = f"POLYGON (({second} 0, {second + 2} 0, {second + 2} 2, {second} 2))"
        session.push("Zones", [(1, zone)], time=second * 1_000_000)
        session.push("Patrols", [(1, second, 1.5)], time=second * 1_000_000)
        session.push("Cars", [(second, second, 1), (0, second, 0)], time=second * 1_000_000)
        if second % 80 == 0:
            assert session.answer("Zones") == [(1, 0), (1, second)]
            assert session.answer("Patrols") == [(1, 0), (1, second - 1)]
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    cells = [line.cell for line in runtime.workers[0].timelines.values()]
    assert all(len(cell.polygons) <= 3 for cell in cells)
    assert all(len(cell.stores.focals) <= 176 for cell in cells)


@pytest.mark.parametrize("cells", ["1x1", "2x2"])
def test_one_pass_over_many_instants_sends_what_one_instant_after_the_other_sends(
    cells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(11)
    inputs: list[Input] = []
    for instant in range(1, 400):
        for key in chance.integers(0, 60, chance.integers(0, 4)).tolist():
            x, y = (float(v) for v in chance.integers(0, 40, 2) / 4)
            row = (key, x, y) if chance.random() < 0.9 else None
            inputs.append(Reading("Cars", key, instant * 250_000, row))
    found = []
    for few in (2, 10**9):
        monkeypatch.setattr(region_join, "FEW_INSTANTS", few)
        session = place.connect(runtime="local", cells=cells)
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (timeout = '20 seconds')"
        )
        patrols = ", ".join(f"({i}, {i % 30}, {1 + i % 3}, 2)" for i in range(50))
        session.sql(
            "CREATE TABLE Patrols (ID BIGINT, focal BIGINT, xdist DOUBLE, ydist DOUBLE)"
            f" AS VALUES {patrols}"
        )
        session.sql("REGISTER QUERY p AS SELECT Q.ID, O.id FROM Patrols Q, Cars O WHERE O INSIDE Q")
        session.sql("REGISTER QUERY s AS SELECT id FROM Cars INSIDE (2, 2, 7, 7)")
        session.sql("REGISTER QUERY n AS SELECT id FROM Cars WHERE id BETWEEN 10 AND 20")
        found.append(sorted(session.feed([*inputs, Advance(130_000_000)])))
        assert session.answer("s") == [] == session.answer("n")  # all have timed out
    assert found[0] == found[1]
    assert len(found[0]) > 2_000


def test_a_silent_stream_does_not_make_others_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("place.engine.history.MOST_RECENT", 50)
    monkeypatch.setattr("place.engine.history.HISTORY", 20)
    session = cars()
    session.sql("CREATE STREAM Drones (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    session.push("Drones", [(1, 1, 1)], time=1_000_000)
    for second in range(1, 200):
        session.push("Cars", [(second % 7, 1, second % 9, "a")], time=second * 1_000_000)
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    assert sum(map(len, runtime.workers[0].histories["Cars"].recent)) <= 51
    session.sql("REGISTER QUERY m AS SELECT id FROM Cars INSIDE ('M', 1 OF Drones, 100)")
    assert len(session.answer("m")) == 7


@pytest.fixture
def joins_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small work takes the way of large work: no comparing of every pair, pieces of a few."""
    monkeypatch.setattr(bulk, "FEW", 0)
    monkeypatch.setattr(bulk, "FEW_EACH", 0)
    monkeypatch.setattr(order, "SERIAL", 9)


@pytest.mark.usefixtures("joins_only")
@pytest.mark.parametrize(("path", "cells"), list(in_turns(SCRIPTS, ("1x2", "2x1"), every=8)))
def test_scripts_by_the_joins_of_large_work(path: Path, cells: str) -> None:
    ScriptRunner(read_script(path), opener("local", cells), Batching.parse("each")).run()


@pytest.mark.usefixtures("joins_only")
def test_a_refreshed_table_of_stationary_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = place.connect(runtime="local")
    session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)")
    file = tmp_path / "stations.csv"
    file.write_text("name,x,y\n" + "".join(f"s{i},{i},1\n" for i in range(20)))
    session.sql("CREATE TABLE Stations FROM 'stations.csv'")
    # The other query keeps the cells, and what they remember, alive over the refresh.
    session.sql("REGISTER QUERY other AS SELECT id FROM Cars INSIDE (0, 0, 5)")
    session.sql("REGISTER QUERY near AS SELECT name FROM Stations INSIDE ('M', 1 OF Cars, 3, 3)")
    for second in range(1, 6):
        session.push("Cars", [(1, second, 1)], time=second * 1_000_000)
    file.write_text("name,x,y\n" + "".join(f"s{i},{19 - i},1\n" for i in range(20)))
    deltas = session.sql("REFRESH TABLE Stations").deltas
    assert sorted((d.sign, d.row[0]) for d in deltas) == [
        (-1, "s4"),
        (-1, "s5"),
        (-1, "s6"),
        (1, "s13"),
        (1, "s14"),
        (1, "s15"),
    ]
    session.push("Cars", [(1, 8, 1)], time=8_000_000)
    assert session.answer("near") == [("s10",), ("s11",), ("s12",)]
