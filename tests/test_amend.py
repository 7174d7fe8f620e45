"""`place amend`: late readings become part of the past, each once, however often it is tried."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from place.cli import main
from place.errors import ConfigurationError
from place.model.reading import Advance, Input, Reading
from place.operate.amend import amend_home
from place.operate.history import read_history
from place.runtime.repository import stream_archive
from tests.harness.examples import examples
from tests.test_repository import (
    COLUMNS,
    SECOND,
    World,
    check,
    fed,
    opened,
    repository_of,
    stream_of,
)

EXAMPLES = examples(8)
READING = st.tuples(
    st.integers(1, 4),
    st.integers(-60, 20),  # seconds since the latest reading: most of those before it are late
    st.one_of(st.none(), st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from("ab"))),
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    ticks=st.lists(st.lists(READING, min_size=1, max_size=8), min_size=1, max_size=6),
    rounds=st.lists(st.sampled_from(["", "round", "again", "amend"]), min_size=6, max_size=6),
    lateness=st.sampled_from([0, 5]),
    most=st.sampled_from([5, 1 << 20]),
)
def test_the_amended_past_has_all_readings(
    ticks: list[Any],
    rounds: list[str],
    lateness: int,
    most: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream_archive, "MOST_ROWS", most)
        session = opened(home)
        session.sql(
            f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all', snapshot = '10 seconds',"
            f" lateness = '{lateness} seconds')"
        )
        latest = 1_700_000_000 * SECOND
        told: list[Reading] = []
        for number, tick in enumerate(ticks):
            inputs: list[Input] = []
            for key, step, place in tick:
                at = latest + step * SECOND
                latest = max(latest, at)
                row = None if place is None else (key, *map(float, place[:2]), place[2], at)
                inputs.append(Reading("Cars", key, at, row))
            session.runtime.feed(inputs)
            told += [each for each in inputs if isinstance(each, Reading)]
            match rounds[number]:
                case "round":
                    repository_of(session).catch_up()
                    repository_of(session).archive()
                case "again":
                    session.close()
                    session = opened(home)
                case "amend":
                    session.close()
                    amend_home(home)
                    session = opened(home)
        session.runtime.feed([Advance(latest + lateness * SECOND, "Cars")])
        late = session.runtime.statistics("Cars")["late"]
        span = repository_of(session).span(stream_of(session))
        assert span is not None
        session.close()
        amend_home(home)
        assert amend_home(home) == []
        (report,) = read_history(home)["streams"]
        known = [reading for reading in told if reading.time >= span.begin]
        assert report["late"] == 0
        assert report["amended"] == late - (len(told) - len(known))
        assert report["readings"] == len(known)
        session = opened(home)
        world = World(known)
        step = max(1, (latest - span.begin) // 7)
        times = [span.begin, *range(span.begin + 1, latest, step), latest]
        check(repository_of(session), stream_of(session), world, times)
        fed(session, range(latest // SECOND + 1, latest // SECOND + 30))  # and it goes on
        check(repository_of(session), stream_of(session), world, times)
        session.close()


def late_home(home: Path) -> int:
    """A home with late readings; how many of all have a place in its past."""
    with opened(home) as session:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all', snapshot = '10 seconds')")
        count = len(fed(session, range(1000, 1100)))
        fed(session, range(990, 995))  # older than all that is known
        count += len(fed(session, range(1015, 1020), objects=5))
        count += len(fed(session, range(1100, 1120)))
        return count - 3  # the last instant is not complete


def counted(home: Path) -> tuple[int, ...]:
    (table,) = (home / "repository" / "Cars").iterdir()
    found = duckdb.execute(
        "SELECT count(*), count(DISTINCT (id, ts, sequence)) FROM read_parquet($1)"
        " WHERE snapshot IS NULL",
        [DeltaTable(table).file_uris()],
    ).fetchone()
    assert found is not None
    return found


@pytest.mark.parametrize("moment", ["amending", pytest.param("amended", marks=pytest.mark.long)])
def test_killed_before_or_after_its_commit_each_reading_is_there_once(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_archive, "MOST_ROWS", 40)
    expected = late_home(tmp_path)
    (waiting,) = (tmp_path / "repository" / "Cars").glob("*/_late/*")
    tick = int(waiting.name.split("_")[0])
    program = "import sys; from place.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "amend", "--home", str(tmp_path)]
    killed = subprocess.run(
        command, env={**os.environ, "PLACE_CRASH_AT": f"{moment}:{tick}"}, check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    assert counted(tmp_path)[0] == expected - (25 if moment == "amending" else 0)
    amend_home(tmp_path)
    assert counted(tmp_path) == (expected, expected)
    assert amend_home(tmp_path) == []
    assert not list((tmp_path / "repository" / "Cars").glob("*/_late/*"))


def test_what_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late_home(tmp_path)
    with opened(tmp_path) as session:
        before = session.sql("SELECT id FROM Cars AS OF '1970-01-01 00:17:00'").rows
        with pytest.raises(ConfigurationError, match="in use by another process"):
            amend_home(tmp_path)
    assert len(before) == 3
    assert main(["history", "--home", str(tmp_path)]) == 0
    assert "40 late readings set aside: place amend puts them in" in capsys.readouterr().out
    assert main(["amend", "--home", str(tmp_path)]) == 0
    said = "Cars: 25 late readings put into its past, 15 left out, from before what is kept\n"
    assert capsys.readouterr().out == said
    with opened(tmp_path) as session:
        after = session.sql("SELECT id FROM Cars AS OF '1970-01-01 00:17:00'").rows
    assert len(after) == 5
    assert main(["amend", "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing came too late\n"
    assert main(["history", "--home", str(tmp_path), "--json"]) == 0
    (stream,) = json.loads(capsys.readouterr().out)["streams"]
    assert (stream["late"], stream["amended"]) == (0, 25)
    assert main(["amend", "--home", str(tmp_path / "nowhere")]) == 1
    assert "is not a home directory" in capsys.readouterr().err
