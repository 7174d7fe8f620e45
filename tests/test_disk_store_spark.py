"""Disk stores of cells on Spark: cells that are killed, homes that are opened again and homes that
get other cells go on as a session does that holds all objects in memory."""

import os
import signal
import time
from pathlib import Path

import pytest

import place
from place.cli import main
from place.engine.matrix import Matrix
from place.runtime.durable.run_files import RunFiles
from place.runtime.durable.storage import Storage
from place.session import Session
from tests.harness.pipeline import CARS, NEAR, OFTEN, START, opened, reading, runtime_of
from tests.test_standing_cells import processes_of

STORED = "timeout = '30 seconds', retain = 'cache', store = 'every reading', flush = '1 second'"
QUERIES = {
    2: NEAR,
    4: "REGISTER QUERY around AS SELECT id FROM Cars INSIDE ('M', 3, 4)",
    9: "REGISTER QUERY far AS SELECT id, x FROM Cars INSIDE (20, 0, 30, 30)",
    12: "REGISTER QUERY nearest AS SELECT id FROM Cars kNN (2, 25, 5)",
    14: "DROP QUERY nearest",
}


def step(session: Session, second: int) -> list[tuple[object, ...]]:
    """What one second of cars changes."""
    found = list(session.sql(QUERIES[second]).deltas) if second in QUERIES else []
    rows = [
        reading(car, (car * 3 + second * (car % 4)) % 40, second % 9, second, "ab"[car % 2])
        for car in range(30)
        if (car + second) % 3 == 0
    ]
    found += list(session.push("Cars", rows, time=(START + second) * 1_000_000))
    return sorted((d.query, d.sign, d.row, d.instant) for d in found)


@pytest.mark.long
def test_cells_go_on_with_what_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("place.runtime.spark.pipeline.usual_pace", lambda: OFTEN)
    home = tmp_path / "home"
    with place.connect() as plain:
        plain.sql(f"{CARS} WITH (timeout = '30 seconds')")
        expected = [step(plain, second) for second in range(1, 19)]
        count = plain.runtime.statistics("Cars")["objects"]
    found = []
    with opened(home, matrix=Matrix()) as session:
        session.sql(f"{CARS} WITH ({STORED})")
        found += [step(session, second) for second in range(1, 7)]
        os.kill(processes_of(session)[-1], signal.SIGKILL)
        found += [step(session, second) for second in range(7, 11)]
    with opened(home, matrix=Matrix()) as session:
        found += [step(session, second) for second in range(11, 15)]
        counts = runtime_of(session).statistics("Cars")
        assert counts["objects"] == 30
        assert 0 < counts["on_disk"] < 30
        time.sleep(0.2)
        assert 0 < len(list((home / "store" / "0-0").iterdir())) < 20
    assert main(["rescale", "--home", str(home), "--cells", "1x2"]) == 0
    assert not list((home / "store").rglob("*.arrow"))
    with opened(home, matrix=Matrix(1, 2)) as session:
        found += [step(session, second) for second in range(15, 19)]
        assert runtime_of(session).statistics("Cars")["objects"] == count
        assert 0 < runtime_of(session).statistics("Cars")["on_disk"] < count
    assert found == expected


def test_files_are_removed_when_two_later_states_are_written(tmp_path: Path) -> None:
    """The last state and the one before it are kept; what only earlier ones need is removed."""
    files = RunFiles(Storage(str(tmp_path)), "0-0")
    names = [files.write([])[0] for _ in range(4)]
    left = []
    for name in names:
        files.retire(name)
        files.turn()
        files.passed()
        left.append([each for each in names if (tmp_path / each).exists()])
    assert left == [names, names, names[1:], names[2:]]
