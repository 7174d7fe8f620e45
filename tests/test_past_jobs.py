"""Questions about the past in shares: as Spark jobs, and by the same shares in this process."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

import place
from place.errors import LimitError
from place.model import deadline
from place.model.deadline import GivenUp
from place.model.reading import Advance
from place.runtime.spark import past_jobs
from place.runtime.spark.runtime import SparkRuntime
from place.runtime.spark.session import start_session
from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner
from place.session import Session
from place.sql.limits import EMBEDDED, within

SCRIPTS = find_scripts([Path(__file__).parent / "scripts" / "past"])
SHORT = {"windows_of_one_instant"}


def chosen() -> Iterator[ParameterSet]:
    for path in SCRIPTS:
        marks = () if path.stem in SHORT else (pytest.mark.long,)
        yield pytest.param(path, marks=marks, id=path.stem)


@pytest.fixture(scope="module", autouse=True)
def spark() -> None:
    start_session("local[2]")


@pytest.fixture
def all_are_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question that can be divided is a Spark job, with several slices of time."""
    monkeypatch.setattr(past_jobs, "JOB_ROWS", 0)
    monkeypatch.setattr(past_jobs, "PIECE", 3)


@pytest.mark.usefixtures("all_are_jobs")
@pytest.mark.parametrize("path", list(chosen()))
def test_scripts_hold_where_questions_are_jobs(path: Path) -> None:
    ScriptRunner(read_script(path), opener("spark", "1x1"), Batching.parse("random:1")).run()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Objects 0 to 99 go to the right, a step a second."""
    with place.connect(master="local[2]") as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            " WITH (archive = 'all');"
            "CREATE STREAM Signs (x DOUBLE, y DOUBLE, ts TIMESTAMP) WITH (archive = 'all')"
        )
        ids = pa.array(list(range(100)) * 60)
        times = pa.array([i // 100 * 1_000_000 for i in range(6000)], pa.timestamp("us"))
        xs = pa.array([float(i % 100 + i // 100) for i in range(6000)])
        cars = pa.table({"id": ids, "x": xs, "y": xs, "ts": times})
        session.push("Cars", cars)
        session.push("Signs", cars.select(["x", "y", "ts"]))
        session.feed([Advance(70_000_000)])
        yield session


def rows_for_jobs(session: Session, rows: int) -> None:
    runtime = session.runtime
    assert isinstance(runtime, SparkRuntime)
    runtime.past.rows = rows


BETWEEN = "BETWEEN '1970-01-01 00:00:10' AND '1970-01-01 00:00:50'"
ASKED = (
    f"SELECT id, x FROM Cars {BETWEEN} INSIDE (20, 20, 40, 40)",
    f"SELECT COUNT(*), MAX(x) FROM Cars {BETWEEN} INSIDE (20, 20, 40, 40)",
    f"SELECT DISTINCT x FROM Cars {BETWEEN} INSIDE ('M', 7 OF Cars, 3)",
    f"SELECT id FROM Cars {BETWEEN} kNN (3, 50, 50)",
    f"SELECT TRAJECTORY(id) FROM Cars {BETWEEN} INSIDE (20, 20, 40, 40)",
    f"SELECT LENGTH(TRAJECTORY(id)), id FROM Cars {BETWEEN}",
    "SELECT id, x FROM Cars AS OF '1970-01-01 00:00:30' WHERE x > 30",
    "SELECT AVG(x) FROM Cars AS OF '1970-01-01 00:00:30' WINDOW 5 SECONDS",
)


def answers() -> Iterator[ParameterSet]:
    for number, select in enumerate(ASKED):
        yield pytest.param(select, marks=() if number < 3 else pytest.mark.long)


@pytest.mark.parametrize("select", list(answers()))
def test_a_job_has_the_answer_of_this_process(session: Session, select: str) -> None:
    rows_for_jobs(session, 1 << 60)
    here = session.sql(select)
    rows_for_jobs(session, 1)
    assert session.sql(select).rows == here.rows
    assert len(here.rows) > 0


def test_explain_says_which_way_was_taken(session: Session) -> None:
    for rows, way in (
        (1, r"answered by a Spark job in 2 shares: [56],\d00 rows had to be read"),
        (9999, r"answered in this process: [56],\d00 rows may have to be read, fewer than 9,999"),
    ):
        rows_for_jobs(session, rows)
        assert re.fullmatch(way, session.sql(f"EXPLAIN {ASKED[1]}").rows[-1][0])


def test_what_cannot_be_divided_stays_in_this_process(session: Session) -> None:
    rows_for_jobs(session, 0)
    for select, why in (
        (f"SELECT x FROM Signs {BETWEEN} WINDOW 2 SECONDS", "have no KEY"),
        ("SELECT a.id FROM Cars a, Cars b AS OF '1970-01-01 00:00:30' WHERE a.id = b.id", "meet"),
        ("SELECT id FROM Cars AS OF '1970-01-01 00:00:30' kNN (2, 9, 9)", "near its centre"),
    ):
        how = session.sql(f"EXPLAIN {select}").rows
        assert how[-1][0].startswith("answered in this process: "), how
        assert why in how[-1][0]


def forever(began: Path) -> Callable[..., Iterator[Any]]:
    """What the task of a share does: it says that it began, and does not end for a minute."""

    def found(*_: Any) -> Iterator[Any]:
        began.touch()
        time.sleep(60)
        yield from ()

    return found


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is heard, although a shell that starts tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("way", ["limit", "left", "interrupted"])
def test_a_job_is_given_up(
    session: Session, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    monkeypatch.setattr(past_jobs, "_found", forever(started))
    rows_for_jobs(session, 1)

    class Asker:
        def is_there(self) -> bool:
            return way != "left" or not started.exists()

        def hear(self, progress: str) -> None: ...

    def interrupt() -> None:
        while not started.exists():
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    expected: dict[str, Callable[[], Any]] = {
        "limit": lambda: pytest.raises(LimitError, match="takes longer than"),
        "left": lambda: pytest.raises(GivenUp),
        "interrupted": lambda: pytest.raises(deadline.Interrupted),
    }
    if way == "interrupted":
        threading.Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    seconds = 1.0 if way == "limit" else None
    with (
        expected[way](),
        within(replace(EMBEDDED, seconds=seconds)),
        deadline.asked_by(Asker()),
    ):
        session.sql(ASKED[0])
    assert time.monotonic() - began < 30
    monkeypatch.undo()
    assert session.sql(ASKED[0]).rows  # slots are free again
