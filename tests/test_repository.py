"""The repository: what it says of the past is what a search through all readings says."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import place
from place.errors import PlaceError
from place.model.reading import Advance, Input, Reading
from place.model.schema import Stream
from place.plan.catalog import fold
from place.runtime.local import LocalRuntime
from place.runtime.past_shares import ShareArchive
from place.runtime.repository import repository, stream_archive
from place.runtime.repository.layout import Layout
from place.runtime.repository.pieces import Asked
from place.runtime.repository.repository import Pace, Repository
from place.runtime.tables import TableLoader
from place.session import Session
from tests.harness.cells_here import runtime_here
from tests.harness.examples import examples

EXAMPLES = examples(8)
SECOND = 1_000_000
COLUMNS = "(id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING, ts TIMESTAMP)"


def opened(home: Path, runtime: str = "local") -> Session:
    made = LocalRuntime(home) if runtime == "local" else runtime_here(home)
    return Session(made, TableLoader())


def repository_of(session: Session) -> Repository:
    archive = session.runtime.archive
    assert isinstance(archive, Repository)
    return archive


def stream_of(session: Session, name: str = "Cars") -> Stream:
    return session.runtime.catalog.streams[fold(name)]


class World:
    """All readings that are archived, searched through one by one."""

    def __init__(self, readings: list[Reading]) -> None:
        self.readings = sorted(readings, key=lambda reading: reading.time)

    def objects(self, at: int) -> dict[Any, tuple[Any, ...]]:
        found: dict[Any, tuple[Any, ...]] = {}
        for reading in self.readings:
            if reading.time > at:
                break
            if reading.row is None:
                found.pop(reading.key, None)
            else:
                found[reading.key] = reading.row
        return found

    def between(self, after: int, until: int) -> list[tuple[Any, int, Any]]:
        return [(r.key, r.time, r.row) for r in self.readings if after < r.time <= until]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def check(repository: Repository, stream: Stream, world: World, times: list[int]) -> None:
    box = (2.0, 2.0, 6.0, 5.0)
    for at in times:
        expected = world.objects(at)
        found = rows_of(repository.objects(stream, at).table)
        assert {row[0]: row[:-2] for row in found} == expected
        assert len(found) == len(expected)
        inside = {k for k, r in expected.items() if 2 <= r[1] <= 6 and 2 <= r[2] <= 5}
        assert {r[0] for r in rows_of(repository.objects(stream, at, box).table)} == inside
        some = frozenset((1, 3))
        found = rows_of(repository.objects(stream, at, None, some).table)
        assert {row[0] for row in found} == some & expected.keys()
    for after, until in pairwise(times):
        share = gathered(repository, stream, Asked(after, until))
        assert {r[0]: r[:-2] for r in rows_of(share.objects(stream, after).table)} == (
            world.objects(after)
        )
        assert share.readings(stream, after, until).table.equals(
            repository.readings(stream, after, until).table
        )
        told = [
            (row[0], row[-2], None if row[-1] else row[:-2])
            for row in rows_of(repository.readings(stream, after, until).table)
        ]
        assert told == world.between(after, until)
        some = frozenset((2,))
        told = [
            (row[0], row[-2], None if row[-1] else row[:-2])
            for row in rows_of(repository.readings(stream, after, until, None, some).table)
        ]
        assert told == [each for each in world.between(after, until) if each[0] == 2]


def gathered(repository: Repository, stream: Stream, asked: Asked) -> ShareArchive:
    """What tasks elsewhere would read, all in one share."""
    with repository.reading(stream) as pieces_of:
        rows = [piece.read(repository.storage) for piece in pieces_of(asked)]
    layout = Layout(stream)
    table = layout.in_order(pa.concat_tables([layout.schema.empty_table(), *rows]))
    spans = {stream.name: repository.span(stream)}
    return ShareArchive(spans, {stream.name: layout.segment(table)})


reading = st.tuples(
    st.integers(1, 5),  # key
    st.integers(0, 40),  # seconds since the last reading, in fifths of a period
    st.one_of(st.none(), st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from("ab"))),
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    ticks=st.lists(st.lists(reading, min_size=1, max_size=8), min_size=1, max_size=8),
    rounds=st.lists(st.sampled_from(["", "round", "fresh", "again"]), min_size=8, max_size=8),
    lateness=st.sampled_from([0, 7]),
    most=st.sampled_from([5, 1 << 20]),
)
def test_the_past_is_what_a_search_through_all_readings_says(
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
        now, all_readings = 1_700_000_000 * SECOND, list[Reading]()
        latest = 0
        for number, tick in enumerate(ticks):
            inputs: list[Input] = []
            for key, step, place in tick:
                now += step * SECOND // 5
                back = now - (key * SECOND if lateness else 0)
                latest = max(latest, back)
                row = None if place is None else (key, *map(float, place[:2]), place[2], back)
                inputs.append(Reading("Cars", key, back, row))
            session.runtime.feed(inputs)
            all_readings += [each for each in inputs if isinstance(each, Reading)]
            repository = repository_of(session)
            match rounds[number]:
                case "round":
                    repository.catch_up()
                    repository.archive(fresh=False)
                case "fresh":
                    repository.catch_up()
                    repository.archive()
                case "again":
                    session.close()
                    session = opened(home)
        session.runtime.feed([Advance(latest + lateness * SECOND, "Cars")])
        world = World(all_readings)
        stream, repository = stream_of(session), repository_of(session)
        span = repository.span(stream)
        assert span is not None
        assert (span.begin, span.end) == (world.readings[0].time, latest)
        step = max(1, (latest - span.begin) // 7)
        times = [span.begin, *range(span.begin + 1, latest, step), latest]
        check(repository, stream, world, times)
        repository.archive()
        check(repository, stream, world, times)
        session.close()
        session = opened(home)
        check(repository_of(session), stream_of(session), world, times)
        assert repository_of(session).faults == {}
        session.close()


def fed(session: Session, seconds: range, objects: int = 3) -> list[Reading]:
    readings = [
        Reading("Cars", key, s * SECOND, (key, float(s % 9), float(key), "a", s * SECOND))
        for s in seconds
        for key in range(1, objects + 1)
    ]
    session.runtime.feed(readings)
    return readings


def test_what_is_late_is_not_archived(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all')")
        kept = fed(session, range(100, 110))
        fed(session, range(50, 60))
        kept += fed(session, range(110, 112))
        found = repository_of(session).readings(stream_of(session), 0, 200 * SECOND)
        assert found.table.num_rows == len([r for r in kept if r.time < 111 * SECOND])


@pytest.mark.parametrize(
    ("option", "expected"),
    [("every 3 readings", [0, 3, 6, 9]), ("every 4 seconds", [0, 4, 8])],
)
@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_sample_does_not_depend_on_ticks(
    option: str, expected: list[int], size: int, tmp_path: Path
) -> None:
    with opened(tmp_path) as session:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = '{option}')")
        for start in range(0, 10, size):
            fed(session, range(1000 + start, 1000 + min(start + size, 10)))
            repository_of(session).catch_up()
            repository_of(session).archive()
        fed(session, range(1010, 1011))
        found = repository_of(session).readings(stream_of(session), 0, 1009 * SECOND)
        assert found.table.num_rows == 3 * len(expected)
        times = sorted(set(found.table.column("time").to_pylist()))
        assert times == [(1000 + second) * SECOND for second in expected]


def test_gaps_are_filled_in_the_archive(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all', missing = 'last')")
        first = 1000 * SECOND
        session.runtime.feed([Reading("Cars", 1, first, (1, 1.0, 2.0, "a", first))])
        repository_of(session).catch_up()
        repository_of(session).archive()
        later = first + SECOND
        session.runtime.feed([Reading("Cars", 1, later, (1, 3.0, 4.0, None, later))])
        session.runtime.feed([Advance(later + SECOND, "Cars")])
        found = repository_of(session).objects(stream_of(session), later)
        assert rows_of(found.table)[0][:4] == (1, 3.0, 4.0, "a")


def test_streams_without_objects_have_readings(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql("CREATE STREAM Packets (port BIGINT, ts TIMESTAMP) WITH (archive = 'all')")
        day = 86_400
        for second in (100, 100, 101, day + 5, 2 * day + 7, 2 * day + 8):
            session.runtime.feed([Reading("Packets", -1, second * SECOND, (7, second * SECOND))])
        repository, stream = repository_of(session), stream_of(session, "Packets")
        assert repository.readings(stream, 0, 10 * day * SECOND).table.num_rows == 5
        repository.archive()
        assert repository.readings(stream, 0, 10 * day * SECOND).table.num_rows == 5
        assert repository.objects(stream, 200 * SECOND).table.num_rows == 0


def names_of(repository: Repository) -> set[str]:
    return {Path(each.file.path).name for each in repository._archives["Cars"]._view.files}


def test_what_is_too_old_goes_and_files_that_nobody_reads(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql(
            f"CREATE STREAM Cars {COLUMNS}"
            " WITH (archive = 'all', snapshot = '10 seconds', keep = '30 seconds')"
        )
        repository = repository_of(session)
        repository.pace = Pace(grace=0.0)
        for start in range(1000, 1100, 20):
            fed(session, range(start, start + 20))
            repository.catch_up()
            repository.archive()
        stream = stream_of(session)
        span = repository.span(stream)
        assert span is not None
        assert 1050 * SECOND <= span.begin <= 1080 * SECOND
        with pytest.raises(PlaceError, match="nothing is kept of"):
            repository.objects(stream, 1010 * SECOND)
        with repository._archives["Cars"].reading() as view:
            fed(session, range(1100, 1160))
            repository.catch_up()
            repository.archive()
            for _ in range(2):
                repository._sweep()
            read = {Path(each.file.path).name for each in view.files}
            assert read <= {path.name for path in tmp_path.glob("repository/**/*.parquet")}
        for _ in range(2):
            repository._sweep()
        left = set(tmp_path.glob("repository/**/*.parquet"))
        assert {path.name for path in left} == names_of(repository)


def test_a_repository_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all')")
        session.sql("REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 9, 9)")
        fed(session, range(1000, 1010))
    shutil.rmtree(tmp_path / "repository")
    with opened(tmp_path) as session:
        fed(session, range(1010, 1020))
        assert len(session.answer("near")) == 3
        with pytest.raises(PlaceError, match=r"past of \"Cars\" cannot be read.*gone"):
            repository_of(session).span(stream_of(session))


def test_a_stream_that_begins_anew_has_a_table_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all')")
        fed(session, range(1000, 1010))
        session.sql("ALTER STREAM Cars RESET TIME")
        fed(session, range(500, 505))
        found = repository_of(session).readings(stream_of(session), 0, 2000 * SECOND)
        assert found.table.num_rows == 12


def write_forever(session: Session, ready: int) -> None:
    """Feed a session without a pause, and say when it has begun."""
    repository.POLL = 0.005
    stream_archive.MOST_ROWS = 40
    if not session.runtime.catalog.streams:
        session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all', snapshot = '10 seconds')")
    repository_of(session).pace = Pace(seconds=0.02, readings=20, grace=0.05)
    for number in count():
        second = next_second(session)
        fed(session, range(second, second + 3))
        if number == 1:
            os.write(ready, b".")


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from tests.test_repository import opened, write_forever
home, times, runtime = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
chance = random.Random(times)
for _ in range(times):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        write_forever(opened(home, runtime), writing)
    assert os.read(reading, 1) == b"."
    time.sleep(chance.uniform(0.02, 0.5))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
ON_SPARK = """
import sys
from pathlib import Path
from tests.harness.pipeline import opened
from tests.test_repository import write_forever
write_forever(opened(Path(sys.argv[1])), sys.stdout.fileno())
"""


def next_second(session: Session) -> int:
    """The second that a home has to be fed next, which may have been killed in the middle."""
    return 1000 + session.runtime.statistics("Cars")["readings"] // 3


TIMES = int(os.environ.get("PLACE_KILLS", "100"))
KILLS = (
    pytest.param("local", 3, id="few"),
    pytest.param("local", TIMES, id="many", marks=pytest.mark.long),
    pytest.param("pipeline", TIMES, id="pipeline", marks=pytest.mark.long),
)


@pytest.mark.parametrize(("runtime", "times"), KILLS)
def test_each_reading_is_archived_once_whenever_a_process_is_killed(
    runtime: str, times: int, tmp_path: Path
) -> None:
    """The process writes without a pause; the kills come while it feeds, archives and sweeps. The
    pipeline has its cells in the process, which take no part in archiving."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(times), runtime]
    subprocess.run(command, check=True, env=environment, timeout=60 + 60 * times)
    with opened(tmp_path, runtime) as session:
        check_archived_once(session, tmp_path)


@pytest.mark.long
def test_each_reading_is_archived_once_whenever_a_pipeline_is_killed(tmp_path: Path) -> None:
    """With a real Spark, which is started again each time; so there are fewer kills."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    chance = random.Random(TIMES)
    for _ in range(max(1, TIMES // 20)):
        with subprocess.Popen(
            [sys.executable, "-c", ON_SPARK, str(tmp_path)], env=environment, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"."
            time.sleep(chance.uniform(0.02, 1.5))
            process.kill()
    with place.connect(tmp_path, master="local[2]") as session:
        check_archived_once(session, tmp_path)


def check_archived_once(session: Session, home: Path) -> None:
    """A home that was fed without a pause has all readings that it took, each of them once."""
    second = next_second(session)
    fed(session, range(second, second + 1))
    repository, stream = repository_of(session), stream_of(session)
    assert repository.faults == {}
    expected = World(
        [
            Reading("Cars", key, s * SECOND, (key, float(s % 9), float(key), "a", s * SECOND))
            for s in range(1000, second)
            for key in (1, 2, 3)
        ]
    )
    check(
        repository,
        stream,
        expected,
        [
            *range(1000 * SECOND, second * SECOND, 50 * SECOND),
            second * SECOND - 1,
        ],
    )
    repository.archive()
    (table,) = (home / "repository" / "Cars").iterdir()
    names = DeltaTable(table).file_uris()
    counted = duckdb.execute(
        "SELECT count(*), count(DISTINCT (id, ts)), max(ts) FROM read_parquet($1)"
        " WHERE snapshot IS NULL",
        [names],
    ).fetchone()
    assert counted is not None
    assert counted[0] == counted[1] == 3 * (second - 1000)


def test_killed_before_its_first_commit_an_archive_begins_again(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from tests.test_repository import COLUMNS, fed, opened
with opened(Path(sys.argv[1])) as session:
    session.sql(f"CREATE STREAM Cars {COLUMNS} WITH (archive = 'all')")
    fed(session, range(1000, 1010))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    environment["PLACE_CRASH_AT"] = "archive:2"
    command = [sys.executable, "-c", program, str(tmp_path)]
    killed = subprocess.run(command, env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with opened(tmp_path) as session:
        repository, stream = repository_of(session), stream_of(session)
        assert repository.faults == {}
        found = repository.readings(stream, 0, 2000 * SECOND)
        assert found.table.num_rows == 27
    with opened(tmp_path) as session:
        found = repository_of(session).readings(stream_of(session), 0, 2000 * SECOND)
        assert found.table.num_rows == 27


def test_what_is_pinned_can_be_asked_about_however_old_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.sql(
            f"CREATE STREAM Cars {COLUMNS}"
            " WITH (archive = 'all', snapshot = '10 seconds', keep = '30 seconds');"
            " CREATE PIN accident ON Cars AS OF '1970-01-01 00:17:15'"
        )
        repository = repository_of(session)
        for start in range(1000, 1100, 20):
            fed(session, range(start, start + 20))
            repository.catch_up()
            repository.archive()
        then = session.sql("SELECT id, x FROM Cars AS OF '1970-01-01 00:17:15'").rows
        assert sorted(then) == [(key, float(1035 % 9)) for key in (1, 2, 3)]
        with pytest.raises(PlaceError, match=r"00:17:05 is before the past of Cars"):
            session.sql("SELECT id FROM Cars AS OF '1970-01-01 00:17:05'")
        session.sql("DROP PIN accident")
        fed(session, range(1100, 1120))
        repository.catch_up()
        repository.archive()
        with pytest.raises(PlaceError, match=r"00:17:15 is before the past of Cars"):
            session.sql("SELECT id FROM Cars AS OF '1970-01-01 00:17:15'")
