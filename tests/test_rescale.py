"""A home gets other cells: what is told before and after is as if nothing had happened."""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest

import place
from place.cli import main
from place.engine.matrix import Matrix
from place.runtime.durable import manifest as manifests
from place.runtime.durable.crash import RESCALE_POINTS, VARIABLE
from place.runtime.durable.storage import Storage
from place.runtime.local import LocalRuntime
from place.script.blocks import read_script
from place.script.command import find_scripts, opener
from place.script.runner import Batching, ScriptRunner
from place.session import Session
from tests.harness.pipeline import CARS, NEAR, START, opened, reading, runtime_of
from tests.harness.rescaling import MATRICES, rescale_before_each_tick, rescale_cells

SETUP = f"""
{CARS} WITH (timeout = '30 seconds', history = '5 seconds');
CREATE STREAM Calls (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP);
{NEAR};
REGISTER QUERY passed AS SELECT id, kind FROM Cars WINDOW 10 SECONDS INSIDE (0, 0, 5, 5);
REGISTER QUERY last AS SELECT id FROM Cars WINDOW 5 ROWS;
REGISTER QUERY before AS SELECT a.id, a.x, b.x FROM Cars a, Cars b WHERE a.id = b.id
  WINDOW PREVIOUS;
REGISTER QUERY kinds AS SELECT kind, COUNT(*), AVG(x) FROM Cars GROUP BY kind;
REGISTER QUERY around AS SELECT id FROM Cars INSIDE ('M', 3, 4);
REGISTER QUERY nearest AS SELECT id FROM Cars kNN ('M', 2, 1 OF Calls);
REGISTER QUERY pairs AS SELECT a.id, b.id FROM Cars a, Cars b
  WHERE DISTANCE(a, b) < 1 AND a.id < b.id;
REGISTER QUERY meetings AS SELECT a.id, b.id FROM Cars a WINDOW 3 SECONDS, Calls b WINDOW 4 ROWS
  WHERE DISTANCE(a, b) < 4;
CREATE TRIGGER stop FOR Cars AS V1, Cars AS V2
  WHEN V1.id = V2.id AND V2.t - V1.t IN [1, 4] AND DISTANCE(V1, V2) < 3 ALERT V1.id;
CREATE TRIGGER start FOR Cars AS V1, Cars AS V2
  WHEN V1.id = V2.id AND V2.t - V1.t IN [1, 2] AND DISTANCE(V1, V2) > 3 ALERT V1.id;
"""
LATE = "REGISTER QUERY late AS SELECT id FROM Cars WINDOW 4 SECONDS"
SECONDS = range(1, 13)


def step(session: Session, second: int) -> list[tuple[object, ...]]:
    """What one second of cars and calls changes."""
    found = []
    if second == 6:
        found += list(session.sql(LATE).deltas)
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
        found = [step(session, second) for second in SECONDS]
    names = Counter(str(name) for each in found for name, *_ in each)
    assert set(names) == {
        *("near", "passed", "last", "before", "kinds", "around", "nearest", "pairs", "meetings"),
        *("stop", "start", "late"),
    }
    return found


def test_cells_become_others_in_the_middle_of_everything(
    expected: list[list[tuple[object, ...]]],
) -> None:
    found, matrices = [], cycle(MATRICES)
    with place.connect() as session:
        session.sql(SETUP)
        assert isinstance(session.runtime, LocalRuntime)
        for second in SECONDS:
            rescale_cells(session.runtime, next(matrices))
            found.append(step(session, second))
        counts = session.runtime.statistics("Cars")
    assert found == expected
    assert counts["readings"] == sum((car + s) % 5 > 0 for car in range(8) for s in SECONDS)


KINDS = ("windows", "window_joins", "meet", "triggers", "knn", "aggregates", "missing", "keyless")
SCRIPTS = find_scripts([Path(__file__).parent / "scripts"])


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            marks=() if path.parent.name in KINDS and i % 8 == 0 else pytest.mark.long,
            id=f"{path.parent.name}/{path.stem}",
        )
        for i, path in enumerate(SCRIPTS)
        if path.parent.name not in ("recovery", "retention") or path.stem.startswith("store_")
    ],
)
def test_scripts_hold_with_other_cells_in_each_tick(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention without a disk store is left out: which objects are let go of depends on the cells
    that there were."""
    rescale_before_each_tick(monkeypatch)
    runner = ScriptRunner(read_script(path), opener("local", "1x1"), Batching("each"))
    runner.run()


def run_command(home: Path, cells: str, crash: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, VARIABLE: crash}
    command = [sys.executable, "-m", "place.cli", "rescale", "--home", str(home), "--cells", cells]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_home_of_a_pipeline_goes_on_with_other_cells(
    expected: list[list[tuple[object, ...]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, found = tmp_path / "home", []
    with opened(home) as session:
        session.sql(SETUP)
        found += [step(session, second) for second in (1, 2, 3)]
    for cells, seconds in (("2x2", (4, 5)), ("3x1", (6, 7, 8)), ("1x1", (9, 10, 11, 12))):
        assert main(["rescale", "--home", str(home), "--cells", cells]) == 0
        assert f"the home has {cells} cells from tick" in capsys.readouterr().err
        with opened(home) as session:
            matrix = runtime_of(session).pipeline.matrix
            assert f"{matrix.rows}x{matrix.columns}" == cells
            found += [step(session, second) for second in seconds]
    assert found == expected


@pytest.mark.long
def test_killed_in_the_middle_it_is_the_old_home_or_the_new_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(f"{CARS}; {NEAR}")
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
        answer, tick = session.answer("near"), runtime_of(session).last.tick  # type: ignore[union-attr]
    before, after = RESCALE_POINTS
    for name, cells in ((before, "1x1"), (after, "2x1")):
        killed = run_command(home, "2x1", f"{name}:{tick + 1}")
        assert killed.returncode == -signal.SIGKILL
        last = manifests.ticks(Storage(str(home)))[-1]
        assert manifests.load(Storage(str(home)), last).cells == cells
    with opened(home) as session:
        assert runtime_of(session).pipeline.matrix == Matrix(2, 1)
        assert session.answer("near") == answer
        assert {path.name for path in (home / "state").iterdir()} <= {"0-0", "1-0", "rescale"}
        assert not list((home / "state").glob("rescale/*"))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("2", "cells '2' are not RxC"),
        ("0x1", "cells '0x1' are not RxC"),
        ("1x1", "the home has 1x1 cells already"),
    ],
)
def test_what_cannot_be_is_said(
    cells: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        assert main(["rescale", "--home", str(home), "--cells", "2x2"]) == 1
        assert "is in use by another process" in capsys.readouterr().err
    assert main(["rescale", "--home", str(home), "--cells", cells]) == 1
    assert said in capsys.readouterr().err
    assert main(["rescale", "--home", str(tmp_path / "none"), "--cells", "2x2"]) == 1
    assert "is not a home directory" in capsys.readouterr().err
