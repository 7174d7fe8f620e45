"""The log of a pipeline: states are saved now and then, and the ticks since are taken again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import place
from place.engine.matrix import Matrix
from place.model.time import format_timestamp
from place.runtime.durable.saving import Pace
from place.session import Session
from tests.harness.pipeline import (
    CARS,
    NEAR,
    OFTEN,
    START,
    opened,
    reading,
    runtime_of,
    ticks_until_saved,
    write_csv,
)

HOMES = Path(__file__).parent / "fixtures" / "homes"
SETUP = f"""
{CARS} WITH (timeout = '30 seconds', history = '5 seconds');
CREATE STREAM Calls (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP);
{NEAR};
REGISTER QUERY passed AS SELECT id, kind FROM Cars WINDOW 10 SECONDS INSIDE (0, 0, 5, 5);
REGISTER QUERY kinds AS SELECT kind, COUNT(*), AVG(x) FROM Cars GROUP BY kind;
REGISTER QUERY nearest AS SELECT id FROM Cars kNN ('M', 2, 1 OF Calls);
REGISTER QUERY pairs AS SELECT a.id, b.id FROM Cars a, Cars b
  WHERE DISTANCE(a, b) < 1 AND a.id < b.id;
CREATE TRIGGER stop FOR Cars AS V1, Cars AS V2
  WHEN V1.id = V2.id AND V2.t - V1.t IN [1, 4] AND DISTANCE(V1, V2) < 3 ALERT V1.id;
"""
CHANGES = {
    3: "REGISTER QUERY late AS SELECT id FROM Cars WINDOW 4 SECONDS",
    5: "DROP QUERY near",
    6: NEAR,
    7: "DROP QUERY passed; REGISTER QUERY passed AS"
    " SELECT id, kind FROM Cars WINDOW 10 SECONDS INSIDE (0, 0, 5, 5)",
    9: "ALTER STREAM Calls RESET TIME",
}


def step(session: Session, second: int) -> list[tuple[object, ...]]:
    """What one second of cars and calls changes; some change what is asked, too."""
    found = []
    if second in CHANGES:
        found += list(session.sql(CHANGES[second]).deltas)
    now = (START + second) * 1_000_000
    rows = [
        reading(car, (car * 3 + second * (car % 3)) % 10, second % 7, second, "ab"[car % 2])
        for car in range(8)
        if (car + second) % 5
    ]
    found += list(session.push("Cars", rows, time=now))
    calls = [(call, second % 9, call, now) for call in (1, 2)]
    found += list(session.push("Calls", calls, time=now))
    return sorted((d.query, d.sign, d.row, d.instant) for d in found)


@pytest.fixture(scope="module")
def expected() -> list[list[tuple[object, ...]]]:
    with place.connect() as session:
        session.sql(SETUP)
        found = [step(session, second) for second in range(1, 13)]
    assert {name for each in found for name, *_ in each} == {
        *("near", "passed", "kinds", "nearest", "pairs", "stop", "late")
    }
    return found


@pytest.fixture(
    params=[
        pytest.param((Matrix(), OFTEN), id="1x1-often"),
        pytest.param((Matrix(), Pace()), id="1x1-seldom"),
        pytest.param((Matrix(2, 2), OFTEN), id="2x2-often", marks=pytest.mark.long),
        pytest.param((Matrix(2, 2), Pace()), id="2x2-seldom", marks=pytest.mark.long),
    ]
)
def opening(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], Session]:
    matrix, pace = request.param
    monkeypatch.setattr("place.runtime.spark.pipeline.usual_pace", lambda: pace)
    return lambda home: opened(home, matrix=matrix)


def test_whoever_begins_anew_goes_on_as_if_nothing_had_been(
    opening: Callable[[Path], Session], expected: list[list[tuple[object, ...]]], tmp_path: Path
) -> None:
    found = []
    with opening(tmp_path / "home") as session:
        session.sql(SETUP)
        found += [step(session, second) for second in (1, 2, 3)]
    for seconds in ((4, 5), (6,), (7, 8), (9, 10), (11, 12)):
        with opening(tmp_path / "home") as session:
            found += [step(session, second) for second in seconds]
    assert found == expected


def test_what_is_passed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("place.runtime.spark.pipeline.usual_pace", lambda: OFTEN)
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(f"{CARS}; {NEAR}")
        runtime = runtime_of(session)
        runtime.pipeline.small = 0  # also what is small is in files of its own
        for second in range(1, 200):
            session.push("Cars", [reading(1, 1, 1, second)], time=(START + second) * 1_000_000)
        last = runtime.last
        assert last is not None
        assert last.replayed_from > 100
        (state,), (older,) = last.states.values(), last.older.values()
        assert older.tick < state.tick
        assert runtime.pipeline.log.files == {
            f"ingest/{file.name}" for file in (home / "ingest").iterdir()
        }
        assert len(list((home / "ingest").iterdir())) == last.tick - older.tick
        assert (home / state.file).exists()
        assert (home / older.file).exists()
        assert len(list((home / "state" / "0-0").iterdir())) <= 3  # one may just be written
        assert len(list((home / "manifest").iterdir())) < 60


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_the_state_before_a_damaged_one_is_taken(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("place.runtime.spark.pipeline.usual_pace", lambda: OFTEN)
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(f"{CARS}; {NEAR}")
        last = ticks_until_saved(session)
        while not last.older:
            last = ticks_until_saved(session)
        session.sql("REGISTER QUERY more AS SELECT id FROM Cars")
        expected = session.answer("near"), session.answer("more")
        last = runtime_of(session).last
    assert last is not None
    (state,) = last.states.values()
    content = bytearray((home / state.file).read_bytes())
    content[len(content) // 2] ^= 0x55
    if damage == "missing":
        (home / state.file).unlink()
    else:
        (home / state.file).write_bytes(content)
    with opened(home) as session:
        assert (session.answer("near"), session.answer("more")) == expected
        session.push("Cars", [reading(9, 1, 1, 900)], time=(START + 900) * 1_000_000)
        assert (9, "a") in session.answer("near")


def test_with_the_usual_pace_a_small_state_is_not_saved_in_each_tick(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(SETUP)
        for second in range(1, 8):
            step(session, second)
    assert not (tmp_path / "home" / "state").exists()


def test_files_of_a_source_are_read_once(tmp_path: Path) -> None:
    """What a single cell has read of a file is in the log, whatever becomes of the file."""
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    write_csv(incoming / "1.csv", [reading(1, 1, 1, 1), reading(2, 9, 9, 2)])
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} FROM FILES ('{incoming}', format = 'csv')")
        session.sql(NEAR)
        runtime_of(session).sources.drain()
    shutil.rmtree(incoming)
    with opened(tmp_path / "home") as session:
        assert session.answer("near") == [(1, "a")]
        assert runtime_of(session).statistics("Cars")["readings"] == 2


def test_places_of_objects_are_as_of_the_last_tick(tmp_path: Path) -> None:
    with opened(tmp_path / "home", matrix=Matrix(2, 1)) as session:
        session.sql(CARS)
        runtime = runtime_of(session)
        assert len(runtime.positions("Cars")) == 0
        rows = [reading(car, car, 2 * car, 1, "ab"[car % 2]) for car in range(10)]
        session.push("Cars", rows, time=(START + 1) * 1_000_000)
        found = runtime.positions("Cars")
        assert runtime.last is not None
        assert found.tick == runtime.last.tick
        kinds = found.column("kind")
        assert kinds is not None
        seen = zip(found.keys, found.xs, found.ys, kinds.to_pylist(), strict=True)
        assert sorted(seen) == [(car, car, 2 * car, "ab"[car % 2]) for car in range(10)]
        assert not list((tmp_path / "home" / "segments").iterdir())


@pytest.mark.parametrize("name", ["pipeline-2"])
def test_a_home_of_the_version_before_goes_on(name: str, tmp_path: Path) -> None:
    """It was made by a version that saved the states in each tick, with readings up to 12:00:03."""
    shutil.unpack_archive(HOMES / f"{name}.tar.gz", tmp_path, filter="data")
    with opened(tmp_path / "home") as session:
        assert session.answer("near") == [(1, "a"), (3, "b")]
        assert session.answer("passed") == [(1, "a"), (2, "a"), (3, "b")]
        moment = (START + 4) * 1_000_000
        found = session.push("Cars", [reading(1, 9, 9, 4)], time=moment)
        assert [(d.query, d.sign, d.row) for d in found] == [("near", -1, (1, "a"))]
    with opened(tmp_path / "home") as session:
        assert session.answer("near") == [(3, "b")]
        ticks = [format_timestamp(each.delta.instant)[-8:] for each in session.resume()]
        assert ticks[-1] == "00:00:04"
