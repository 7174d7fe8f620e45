"""The commands of those who run PLACE, and the clock of a stream that falls silent."""

import io
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import place
from place.cli import main
from place.errors import ConfigurationError, StatementError
from place.operate.options import set_up
from place.operate.run import IdleClock
from place.operate.status import DIRECTORIES, STAGES, prometheus, read_status, show
from place.runtime.durable.deltas import Deltas
from place.runtime.durable.state_figures import JOIN_FIGURES, TRIGGER_FIGURES
from place.runtime.durable.storage import Storage
from tests.harness.pipeline import CARS, NEAR, START, opened, reading, runtime_of, write_csv


def test_a_setup_is_executed_once(tmp_path: Path) -> None:
    text = f"{CARS};\n{NEAR};"
    with opened(tmp_path / "home") as session:
        assert set_up(session, text) == 2
        assert set_up(session, text) == 0
        with pytest.raises(StatementError, match="the home has"):
            set_up(session, text.replace("(0, 0, 5, 5)", "(0, 0, 6, 6)"))


def test_status_tells_counts_sizes_and_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.push("Cars", [reading(1, 1, 1, 5), reading(2, 1, 1, 3)])
        session.advance((START + 6) * 1_000_000)
    status = read_status(home)
    assert status["tick"] == 4
    assert status["streams"]["Cars"] == {
        "objects": 1,
        "on_disk": 0,
        "readings": 1,
        "late": 1,
        "bad": 0,
        "time": (START + 6) * 1_000_000,
        "lag": pytest.approx(time.time() - START, rel=0.01),
        "reason": "Cars: late: its time 2026-01-01 00:00:03 was over when it came; the option"
        " lateness of the stream says how long it waits for readings",
    }
    assert status["deltas"] == 1
    assert status["sizes"]["manifest"] > 0
    text = prometheus(status)
    assert 'place_late_total{stream="Cars"} 1\n' in text
    assert "# TYPE place_tick counter\nplace_tick 4\n" in text
    assert main(["status", "--home", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "Cars" in shown
    assert all(f" {stage} " in shown for stage in STAGES[:-1])
    assert main(["changes", "--home", str(home), "--query", "near"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["row"] == [1, "a"]
    assert main(["status", "--home", str(tmp_path)]) == 1
    assert "not a home directory" in capsys.readouterr().err


def test_status_fits_80_columns() -> None:
    counts = {"objects": 12_345_678, "readings": 123_456_789, "late": 1_234_567, "bad": 123_456}
    name = "readings_of_all_the_cars_of_the_whole_city"
    status = {
        "tick": 12_345_678,
        "ago": 86_400.0,
        "catalog": 100_000,
        "cells": "12x12",
        "kept": 100_000,
        "kept_from": 12_245_678,
        "set_aside": ["ingest/000000012345-abcdef.arrow.failed"],
        "past_faults": {},
        "clients": {
            "a_client_with_a_long_name": {
                "queries": 10_000,
                "suspended": 12,
                "webhooks": 100,
                "quota": {"queries": 20_000, "webhooks": 200},
            }
        },
        "deltas": 12_345_678_901,
        "streams": {
            name: {
                **counts,
                "time": START * 1_000_000,
                "lag": 31_536_000.0,
                "reason": "a.csv, line 2: " + "the reason may be long; " * 9,
            }
        },
        "triggers": {name: dict.fromkeys(TRIGGER_FIGURES, 123_456_789)},
        "joins": {name: dict.fromkeys(JOIN_FIGURES, 123_456_789)},
        "sizes": dict.fromkeys(DIRECTORIES, 123 << 40),
        "last": dict.fromkeys(STAGES, 1234.5),
        "median": dict.fromkeys(STAGES, 1234.5),
    }
    show(status, Console(highlight=False, width=80, file=(out := io.StringIO())))
    lines = out.getvalue().splitlines()
    # Only a file's name may be longer: it has to be copied.
    assert max(len(line) for line in lines if "are set aside" not in line) <= 80
    assert any("123,456,789" in line and "1,234,567" in line for line in lines)
    assert any("1234.500" in line and "128,974,848.0" in line for line in lines)
    assert any(line.startswith(f"{name} is at 2026-01-01") for line in lines)


def test_an_idle_stream_goes_on_by_the_clock_on_the_wall(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} WITH (timeout = '10 seconds')")
        session.sql(NEAR)
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
        runtime = runtime_of(session)
        clock = IdleClock(runtime, 5_000_000)
        clock.look(1000.0)
        clock.look(1004.0)
        assert session.answer("near") == [(1, "a")]
        clock.look(1014.9)  # silent for 14.9 s, of which 5 are allowed for
        assert session.answer("near") == [(1, "a")]
        clock.look(1016.1)
        assert session.answer("near") == []
        last = runtime.pipeline.last
        assert last is not None
        (advance,) = last.inputs
        assert advance["stream"] == "Cars"
        clock.look(2000.0)
        assert runtime.pipeline.last is last  # nobody is left who could time out


def test_windows_go_on_expiring_when_all_objects_have_timed_out(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} WITH (timeout = '5 seconds')")
        session.sql("REGISTER QUERY passed AS SELECT id FROM Cars WINDOW 20 SECONDS")
        session.sql(
            "REGISTER QUERY met AS SELECT a.id, b.id FROM Cars a WINDOW 20 SECONDS,"
            " Cars b WINDOW 3 ROWS WHERE a.id = b.id"
        )
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
        runtime = runtime_of(session)
        clock = IdleClock(runtime, 1_000_000)
        for second in range(1000, 1020, 3):
            clock.look(float(second))
        assert runtime.statistics("Cars")["objects"] == 0
        assert session.answer("passed") == [(1,)]
        assert session.answer("met") == [(1, 1)]
        for second in range(1020, 1030, 3):
            clock.look(float(second))
        assert session.answer("passed") == []
        assert session.answer("met") == []
        last = runtime.pipeline.last
        clock.look(2000.0)
        clock.look(3000.0)
        assert runtime.pipeline.last is last  # nothing is left that could expire


def test_the_only_reading_of_a_silent_stream_is_in_the_answer_after_a_while(tmp_path: Path) -> None:
    """Nothing expires, and no object is there yet: its instant is complete all the same, once."""
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.push("Cars", [reading(1, 1, 1, 1)])
        runtime = runtime_of(session)
        clock = IdleClock(runtime, 5_000_000)
        clock.look(1000.0)
        clock.look(1004.0)
        assert session.answer("near") == []
        clock.look(1005.5)
        assert session.answer("near") == [(1, "a")]
        last = runtime.pipeline.last
        clock.look(2000.0)
        assert runtime.pipeline.last is last


def test_deltas_are_kept_for_as_long_as_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    setup = tmp_path / "setup.sql"
    setup.write_text(f"{CARS} FROM FILES ('{tmp_path}/in');\n{NEAR};\n")
    home = tmp_path / "home"
    call = ["run", "--setup", str(setup), "--home", str(home), "--once", "--master", "local[2]"]
    # A reading is evaluated when the next one comes.
    for second, keep, ticks in ((1, "24h", 0), (2, "24h", 1), (3, "1 day", 2), (4, "0s", 1)):
        row = reading(1, 1 if second % 2 else 9, 1, second)
        write_csv(tmp_path / "in" / f"{second}.csv", [row])
        assert main([*call, "--keep", keep]) == 0
        assert len(list(Deltas(Storage(str(home))).after(None))) == ticks
    capsys.readouterr()
    assert main(["changes", "--home", str(home), "--after", "1"]) == 1
    assert "not kept any more" in capsys.readouterr().err


def test_a_home_is_of_one_kind_and_of_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with place.connect(tmp_path / "alone") as session:
        session.sql(CARS)
        with pytest.raises(ConfigurationError, match="in use by another process"):
            place.connect(tmp_path / "alone", runtime="reference")
    for open_it in (opened, lambda home: place.connect(home, runtime="reference")):
        with pytest.raises(ConfigurationError, match="the home of a session without Spark"):
            open_it(tmp_path / "alone")
    assert main(["status", "--home", str(tmp_path / "alone")]) == 1
    assert "the home of a session without Spark" in capsys.readouterr().err
    with place.connect(tmp_path / "journal", runtime="reference") as session:
        session.sql(CARS)
    with pytest.raises(ConfigurationError, match="whose readings are in a journal"):
        opened(tmp_path / "journal")
    with opened(tmp_path / "pipeline") as session:
        session.sql(CARS)
        with pytest.raises(ConfigurationError, match="in use by another process"):
            place.connect(tmp_path / "pipeline")
    for runtime in ("local", "reference"):
        with pytest.raises(ConfigurationError, match="the home of a pipeline on Spark"):
            place.connect(tmp_path / "pipeline", runtime=runtime)
    for home in ("alone", "journal"):  # which becomes the home of a session without Spark
        with place.connect(tmp_path / home) as session:
            assert list(session.catalog.streams) == ["cars"]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Path]:
    chance = random.Random(5)
    for number in range(6):
        rows = [
            reading(
                chance.randrange(30), chance.uniform(0, 9), chance.uniform(0, 9), number + i / 50
            )
            for i in range(50)
        ]
        write_csv(tmp_path / f"{number}.csv", rows)
    queries = "REGISTER QUERY kinds AS SELECT kind FROM Cars INSIDE ('M', 3, 6, 6)"
    (tmp_path / "setup.sql").write_text(f"{CARS} WITH (timeout = '2 s');{NEAR};{queries};")
    return tmp_path


def test_a_replay_does_not_depend_on_how_it_is_run(recorded: Path) -> None:
    found = []
    for name, options in {
        "reference": [],
        "local": ["--files-per-tick", "4"],
        "spark": ["--files-per-tick", "2", "--master", "local[2]"],
        "spark ": ["--cells", "2x2", "--files-per-tick", "3", "--master", "local[2]"],
    }.items():
        out = recorded / f"{name}.parquet"
        files = [str(recorded / f"{number}.csv") for number in range(6)]
        arguments = ["--setup", str(recorded / "setup.sql"), "--out", str(out), *options]
        asked = ["replay", "--runtime", name.strip(), "--readings", *files, *arguments]
        assert main(asked) == 0
        table = pq.read_table(out)
        columns = (table.column(c).to_pylist() for c in ("query", "sign", "row", "instant"))
        found.append(Counter(zip(*columns, strict=True)))
        moments = [tuple(row.values()) for row in table.select(["tick", "instant"]).to_pylist()]
        assert moments == sorted(moments), "in the order of instants, whatever the query"
        numbers = [tuple(row.values()) for row in table.select(["tick", "position"]).to_pylist()]
        assert numbers == sorted(set(numbers))
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0].total() > 50


def test_a_replay_in_which_every_row_is_set_aside(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv, setup = recorded / "epochs.csv", recorded / "epochs.sql"
    csv.write_text("id,x,y,ts\n1,1,1,5\n2,1,1,6\n")
    columns = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
    asked = ["replay", "--setup", str(setup), "--readings", str(csv)]
    asked += ["--out", str(recorded / "out.parquet")]
    setup.write_text(f"{columns};{NEAR.replace(', kind', '')};")
    assert main(asked) == 1
    first = f"nothing was taken: all of 2 rows are set aside. The first: {csv}, line 2: column"
    reason = "'5' is not a TIMESTAMP: so small a number does not tell its unit, and no option"
    said = capsys.readouterr().err.strip()
    assert said.startswith(f'{first} "ts": {reason} timestamps does; ')
    setup.write_text(f"{columns} WITH (timestamps = 'seconds');{NEAR.replace(', kind', '')};")
    assert main(asked) == 0
    assert "2 readings, 2 deltas" in capsys.readouterr().out
