"""Standing cells: what they survive, whom they refuse, and that nothing of them stays behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from place.engine.matrix import Matrix
from place.errors import ConfigurationError
from place.runtime.durable.saving import Pace
from place.runtime.spark import pipeline, standing_job
from place.runtime.spark.channel import Disconnected, Terms, introduce
from place.runtime.spark.standing_job import StandingCells
from place.session import Session
from tests.harness import Processes, members_of
from tests.harness.pipeline import CARS, NEAR, START, opened, reading, runtime_of, write_csv
from tests.harness.server import wait_for

KINDS = "REGISTER QUERY kinds AS SELECT kind, COUNT(*) FROM Cars GROUP BY kind"


def cells_of(session: Session) -> StandingCells:
    return runtime_of(session).pipeline.cells


def push(session: Session, second: int, x: float) -> list[tuple[str, int, tuple[object, ...]]]:
    rows = [reading(car, x, 1, second) for car in range(4)]
    found = session.push("Cars", rows, time=(START + second) * 1_000_000)
    return sorted((delta.query, delta.sign, delta.row) for delta in found)


def processes_of(session: Session) -> list[int]:
    """The Python processes that are connected to the door of a session's cells."""
    port = f":{cells_of(session).address[1]:04X}"
    sockets = {
        fields[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if (fields := line.split())[2].endswith(port)
    }
    return [pid for pid in _all() if pid != os.getpid() and sockets & _sockets(pid)]


def _all() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


@pytest.fixture(
    params=[
        pytest.param(Matrix(), id="1x1"),
        pytest.param(Matrix(2, 2), id="2x2", marks=pytest.mark.long),
    ]
)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path / "home", matrix=request.param) as made:
        made.sql(f"{CARS}; {NEAR}; {KINDS}")
        yield made


def in_and_out(session: Session) -> None:
    """Cars go in and out, and all that is said of it is right; seconds go on from call to call."""
    last = runtime_of(session).statistics("Cars")["readings"]
    for second in (last + 1, last + 2):
        found = push(session, second, 1 if second % 2 else 9)
        sign = 1 if second % 2 else -1
        near = [("near", sign, (car, "a")) for car in range(4)]
        assert [each for each in found if each[0] == "near"] == sorted(near)
    assert session.answer("kinds") == [("a", 4)]
    assert session.answer("near") == []


def test_ticks_and_questions_are_no_spark_jobs(session: Session) -> None:
    context = runtime_of(session).spark.sparkContext
    before = context.statusTracker().getJobIdsForGroup(None)
    in_and_out(session)
    session.sql("REGISTER QUERY more AS SELECT id FROM Cars")
    assert session.sql("SELECT COUNT(*) FROM Cars").rows == ((4,),)
    session.sql("EXPLAIN ANALYZE QUERY near")
    assert context.statusTracker().getJobIdsForGroup(None) == before
    # Whoever has jobs of their own runs them beside the cells.
    assert context.parallelize(range(8), 8).map(lambda n: n * n).sum() == 140


def test_a_cell_that_is_killed_goes_on_from_its_last_state(session: Session) -> None:
    in_and_out(session)
    for _ in range(2):
        victim = processes_of(session)[-1]
        os.kill(victim, signal.SIGKILL)
        in_and_out(session)
        assert victim not in processes_of(session)
    assert cells_of(session).epoch == 3  # a local master does not start tasks again itself


def test_a_channel_that_is_cut_is_made_anew(session: Session) -> None:
    in_and_out(session)
    cells_of(session)._cells[0].connection.close()
    in_and_out(session)
    assert cells_of(session).epoch == 2


def test_a_request_that_is_interrupted_leaves_no_answer_behind(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_and_out(session)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StandingCells, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.answer("near")
    in_and_out(session)


def test_strangers_are_refused_and_hold_up_nobody(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    in_and_out(session)
    cells = cells_of(session)
    host, port = cells.address
    assert host == "127.0.0.1"
    with contextlib.ExitStack() as silent:
        for _ in range(standing_job.STRANGERS // 2):
            silent.enter_context(socket.create_connection((host, port)))
        with pytest.raises(Disconnected):
            introduce(Terms(host, port, cells.epoch, bytes(32)), 0)
        in_and_out(session)
        # One that has the token, but is of a job that is over.
        assert introduce(Terms(host, port, cells.epoch - 1, cells._token), 0) is None
        assert introduce(Terms(host, port, cells.epoch, cells._token), 4) is None
        in_and_out(session)
    assert cells.epoch == 1
    wait_for(lambda: "without the token is refused" in caplog.text)
    assert cells._token.hex() not in caplog.text


def test_a_task_that_spark_starts_again_takes_the_place_of_the_one_before(
    session: Session,
) -> None:
    """As on a cluster: there the job goes on, and the new task has the epoch of the old one."""
    in_and_out(session)
    cells = cells_of(session)
    before = cells._cells[0].connection
    again = introduce(Terms(*cells.address, cells.epoch, cells._token), 0)
    assert again is not None
    wait_for(lambda: cells._cells.get(0) is not None and cells._cells[0].connection is not before)
    again.close()  # and this one is lost as well; by then the first one has ended its job
    in_and_out(session)
    assert cells.epoch == 2


def test_what_fails_in_a_cell_is_told_and_the_cell_goes_on(session: Session) -> None:
    runtime_of(session).pipeline.small = 0  # also small deltas are files of their own
    in_and_out(session)
    home = runtime_of(session).directory
    outbox = home / "outbox"
    outbox.rename(home / "moved")
    outbox.write_text("a file where a directory should be")
    epoch = cells_of(session).epoch
    with pytest.raises(Exception, match="cannot be written"):
        push(session, 50, 1)
    outbox.unlink()
    (home / "moved").rename(outbox)
    assert session.answer("near") == []
    in_and_out(session)
    assert cells_of(session).epoch == epoch


def test_what_cannot_be_sent_leaves_the_cells_as_they_are(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_and_out(session)
    with monkeypatch.context() as patched:
        patched.setattr(standing_job, "MOST_BYTES", 10)
        with pytest.raises(ConfigurationError, match="too large for a cell"):
            session.sql("REGISTER QUERY more AS SELECT id FROM Cars")
    in_and_out(session)
    assert cells_of(session).epoch == 1
    assert "more" not in session.catalog.queries


def test_more_cells_than_slots_are_refused(tmp_path: Path) -> None:
    said = r"9 cells need 10 slots of Spark, .* it has 6.*local\[10\].*--cells"
    with pytest.raises(ConfigurationError, match=said):
        opened(tmp_path / "home", matrix=Matrix(3, 3))
    with (
        opened(tmp_path / "one"),
        opened(tmp_path / "two", matrix=Matrix(2, 2)),
        pytest.raises(ConfigurationError, match=r"1 cells need 7 slots"),
    ):
        opened(tmp_path / "three")
    with opened(tmp_path / "three", matrix=Matrix(2, 2)) as session:
        session.sql(CARS)


def test_nothing_of_the_cells_stays_when_a_session_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path / "home", matrix=Matrix(2, 2)) as session:
        session.sql(CARS)
        address = cells_of(session).address
        assert len(processes_of(session)) == 4
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 1)
    tracker = runtime_of(session).spark.sparkContext.statusTracker()
    wait_for(lambda: not tracker.getActiveJobsIds())


def test_a_session_that_is_closed_before_its_cells_have_come(tmp_path: Path) -> None:
    for _ in range(3):
        opened(tmp_path / "home", matrix=Matrix(2, 2)).close()
    with opened(tmp_path / "home", matrix=Matrix(2, 2)) as session:
        session.sql(CARS)


DRIVER = """
import sys
from place.session import connect
session = connect(sys.argv[1], master="local[2]", cells="2x2")
session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)")
session.push("Cars", [(1, 1, 1)], time=1)
print("ready", flush=True)
if sys.argv[2] == "stay":
    sys.stdin.read()
"""


def test_the_cells_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    with Processes() as processes:
        log = tmp_path / "log"
        command = [sys.executable, "-c", DRIVER, str(tmp_path / "home"), "stay"]
        driver = processes.start(command, log=log, environ=dict(os.environ))
        processes.wait(
            driver,
            lambda: True if "ready" in log.read_text() else None,
            purpose="the driver",
            timeout=400,
        )
        assert len(list(members_of(driver.pid))) >= 6  # itself, Java, a daemon, and the cells
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_for(lambda: not list(members_of(driver.pid)), 20)
        assert log.read_text() == "ready\n"


@pytest.mark.long
def test_a_process_that_ends_without_closing_is_quiet(tmp_path: Path) -> None:
    began = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path / "home"), "leave"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert (began.returncode, began.stdout, began.stderr) == (0, "ready\n", "")


def test_files_for_several_cells_are_read_once_by_a_spark_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = Pace(ticks=1 << 62, seconds=1e9)  # on a busy machine a tick may take seconds
    monkeypatch.setattr(pipeline, "usual_pace", lambda: never)
    with opened(tmp_path / "home", matrix=Matrix(2, 2)) as session:
        session.sql(f"{CARS} FROM FILES ('{tmp_path}/in', format = 'csv'); {NEAR}")
        (tmp_path / "in").mkdir(exist_ok=True)
        for second in range(1, 4):
            file = tmp_path / "in" / f"{second}.csv"
            write_csv(file, [reading(second, 1, 1, second)])
            os.utime(file, (START, START))  # of files that came together, names are the order
        session.drain()
        session.advance((START + 9) * 1_000_000)
        assert session.answer("near") == [(1, "a"), (2, "a"), (3, "a")]
        files = os.listdir(tmp_path / "home" / "segments")
        assert len(files) == 3  # one for each file, which the log needs, and nothing else
        assert runtime_of(session).pipeline.log.files == {f"segments/{name}" for name in files}
