"""The pipeline when something fails: statements, pushes and sinks that cannot work, and stops."""

import http.server
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

from place.cli import main
from place.engine.slices import UNORDERED, Segment
from place.errors import ConfigurationError, PlaceError, StatementError
from place.model.clock import Clock
from place.model.segment import make_segment
from place.operate.amend import amend_home
from place.operate.status import read_status
from place.runtime.durable.kept_ticks import Keep
from place.runtime.durable.sinks import WebhookTarget
from place.runtime.durable.storage import StorageFault, StorageFull
from place.runtime.durable.webhook import signature
from place.runtime.intake.pushed import segment_of
from place.runtime.interface import tick_of
from place.runtime.repository.amend import Amended
from place.runtime.spark import deliver, pipeline
from place.runtime.spark.pipeline import Pipeline
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


def test_a_late_disappearance_is_set_aside(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.push("Cars", [reading(1, 1, 1, 9)], time=(START + 9) * 1_000_000)
        session.disappear("Cars", 1, (START + 2) * 1_000_000)
        assert runtime_of(session).statistics("Cars")["late"] == 1
    (path,) = (tmp_path / "home" / "quarantine").iterdir()
    assert "late: its time 2026-01-01 00:00:02" in path.read_text("utf-8")


def test_a_late_reading_is_put_into_the_past(tmp_path: Path) -> None:
    asked = "SELECT id, x FROM Cars AS OF '2026-01-01 00:00:06'"
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} WITH (archive = 'all')")
        session.push("Cars", [reading(1, 1, 1, 3)], time=(START + 4) * 1_000_000)
        session.push("Cars", [reading(1, 2, 1, 9)], time=(START + 9) * 1_000_000)
        session.push("Cars", [reading(1, 7, 1, 5), reading(2, 8, 1, 5)])
        session.advance((START + 10) * 1_000_000)
        assert session.sql(asked).rows == ((1, 1.0),)
    assert amend_home(tmp_path / "home") == [Amended("Cars", 2, 0, 1)]
    with opened(tmp_path / "home") as session:
        assert session.sql(asked).rows == ((1, 7.0), (2, 8.0))


def test_a_quiet_sink_survives_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home, keep=Keep(ticks=3)) as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.sql(f"CREATE SINK quiet FOR near TO PARQUET ('{tmp_path}/changes')")
        for second in range(1, 8):
            session.push("Cars", [reading(1, 9, 9, second)], time=(START + second) * 1_000_000)
    with opened(home, keep=Keep(ticks=3)) as session:
        session.push("Cars", [reading(1, 1, 1, 20)], time=(START + 20) * 1_000_000)
    assert pyarrow.dataset.dataset(tmp_path / "changes").count_rows() == 1


def test_a_sink_that_fails_stops_the_pipeline_before_anything_is_lost(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a directory should be")
    home = tmp_path / "home"
    with opened(home, keep=Keep(ticks=3)) as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.sql(f"CREATE SINK out FOR ALL TO PARQUET ('{blocked}/changes')")

        def push(second: int) -> None:
            x = 1 + 8 * (second % 2)
            session.push("Cars", [reading(1, x, 1, second)], time=(START + second) * 1_000_000)

        second = 1
        runtime = runtime_of(session)
        while runtime.pipeline.last is None or (
            runtime.deliveries.delivered() + 3 >= runtime.pipeline.last.tick
        ):
            push(second)
            second += 1
        with pytest.raises(ConfigurationError, match="ticks behind"):
            push(second)
        blocked.unlink()
    with opened(home, keep=Keep(ticks=3)) as session:  # it has been mended
        session.push("Cars", [reading(2, 1, 1, 50)], time=(START + 50) * 1_000_000)
        signs = pyarrow.dataset.dataset(blocked / "changes").to_table().num_rows
        assert signs == second - 1  # the first is outside, the last was refused, and one more
        session.sql("DROP SINK out")
        assert session.answer("near")


def test_two_sinks_may_share_a_directory(tmp_path: Path) -> None:
    with opened() as session:
        session.sql(CARS)
        session.sql(NEAR)
        for name in ("one", "two"):
            session.sql(f"CREATE SINK {name} FOR near TO PARQUET ('{tmp_path}/changes')")
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
    assert pyarrow.dataset.dataset(tmp_path / "changes").count_rows() == 2


class Receiver(http.server.BaseHTTPRequestHandler):
    answers: list[int] = []
    got: list[bytes] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.answers.pop(0) if self.answers else 200
        if status == 200:
            self.got.append(body)
            assert self.headers["X-Place-Signature"] == signature("hush", body)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_a_sink_that_does_not_answer_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, receiver: str
) -> None:
    monkeypatch.setattr(deliver, "PATIENCE", 0.1)
    as_it_is, answers = WebhookTarget.deliver, threading.Event()
    waited: list[bool] = []

    def hang(self: WebhookTarget, tick: int, changelog: pa.Table) -> None:
        waited.append(answers.wait(60))
        as_it_is(self, tick, changelog)

    monkeypatch.setattr(WebhookTarget, "deliver", hang)
    with opened() as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.sql(f"CREATE SINK w FOR ALL TO WEBHOOK (url = '{receiver}', secret = 'hush')")
        for second in range(1, 4):
            row = reading(second, 1, 1, second)
            session.push("Cars", [row], time=(START + second) * 1_000_000)
        assert len(session.answer("near")) == 3
        assert Receiver.got == []
        answers.set()
        runtime_of(session).deliveries.settle()
        assert runtime_of(session).deliveries.delivered() == tick_of(runtime_of(session))
    assert all(waited), "a tick has waited for as long as it takes"
    rows = [json.loads(line)["row"] for body in Receiver.got for line in body.splitlines()]
    assert rows == [[1, "a"], [2, "a"], [3, "a"]]


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.answers, Receiver.got = [], []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_every_tick_also_if_it_fails_at_first(receiver: str) -> None:
    Receiver.answers = [500, 302]
    with opened() as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.sql(f"CREATE SINK w FOR ALL TO WEBHOOK (url = '{receiver}', secret = 'hush')")
        for second in range(1, 4):
            row = reading(second, 1, 1, second)
            session.push("Cars", [row], time=(START + second) * 1_000_000)
        runtime = runtime_of(session)
        assert runtime.deliveries.failures()
        deadline = time.monotonic() + 20
        while len(Receiver.got) < 3:  # without another tick, after a pause
            assert time.monotonic() < deadline
            runtime.tend()
            time.sleep(0.05)
        runtime.deliveries.settle()
        assert not runtime.deliveries.failures()
        assert session.sql("DESCRIBE w").rows[0][0].endswith("secret = '***')")  # type: ignore[union-attr]
    rows = [json.loads(line)["row"] for body in Receiver.got for line in body.splitlines()]
    assert rows == [[1, "a"], [2, "a"], [3, "a"]]


def test_statements_that_cannot_work_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        with pytest.raises(StatementError, match="address of the web"):
            session.sql("CREATE SINK w FOR ALL TO WEBHOOK (url = 'ftp://x')")
        name = "t" * 140
        session.sql(f"CREATE TABLE {name} (ID BIGINT) AS VALUES (1)")
        session.sql(f"CREATE SINK {name} FOR ALL TO PARQUET ('{tmp_path}/changes')")
        session.sql('CREATE STREAM "../../evil" (id BIGINT KEY, x DOUBLE, y DOUBLE)')
        session.push("../../evil", [(1, 1, 1)], time=2)
        session.push("../../evil", [(1, 1, 1)], time=1)
    with opened(home) as session:
        assert len(session.catalog.tables) == 1
    assert not list(tmp_path.glob("*evil*"))


def test_a_tick_that_fails_takes_its_statement_or_push_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    fails = [0]
    as_it_is = Pipeline._posted

    def full(self: Pipeline, *arguments: Any) -> Any:
        if fails[0]:
            fails[0] -= 1
            raise StorageFull("no space left")
        return as_it_is(self, *arguments)

    monkeypatch.setattr(Pipeline, "_posted", full)
    with opened(home) as session:
        session.sql(CARS)
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
        for attempt in (lambda: session.sql(NEAR), lambda: session.sql("DROP STREAM Cars")):
            fails[0] = 1
            with pytest.raises(StorageFull):
                attempt()
        fails[0] = 1
        with pytest.raises(StorageFull):
            session.push("Cars", [reading(2, 1, 1, 2)], time=(START + 2) * 1_000_000)
        assert [d.row for d in session.sql(NEAR).deltas] == [(1, "a")]
        session.push("Cars", [reading(3, 1, 1, 3)], time=(START + 3) * 1_000_000)
    with opened(home) as session:
        assert session.answer("near") == [(1, "a"), (3, "a")]
        assert [each.delta.row for each in session.resume()] == [(1, "a"), (3, "a")]
        assert not (home / "outbox").exists()  # what is small is in the manifests


def test_dropping_a_stream_does_not_wait_for_its_waiting_batch(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} FROM FILES ('{tmp_path}/in', format = 'csv')")
        runtime = runtime_of(session)
        session.start()

        def drop() -> None:
            with runtime.pipeline.lock:
                write_csv(tmp_path / "in" / "1.csv", [reading(1, 1, 1, 1)])
                time.sleep(2)  # its batch waits for the lock now
                session.sql("DROP STREAM Cars")

        dropping = threading.Thread(target=drop, daemon=True)
        dropping.start()
        dropping.join(timeout=30)
        assert not dropping.is_alive()
        session.stop()
        runtime.sources.check()


def test_partitions_of_one_tick_wait_for_each_other() -> None:
    clock = Clock()
    times = np.arange(1, 101)
    clock.meet(["0", "1"])
    assert clock.tell_all(times, "0").all()
    assert clock.closed is None
    assert clock.tell_all(times, "1").all()
    assert clock.closed == 99


def test_rows_of_a_source_without_an_order_are_taken_by_time(tmp_path: Path) -> None:
    from place.engine.matrix import Matrix
    from place.engine.worker import Worker
    from tests.harness.route import make_reading

    with opened() as session:
        session.sql(CARS)
        stream = session.stream("Cars")
        parts = [
            make_segment(stream, [make_reading(stream, reading(1, 1, 1, s)) for s in seconds])
            for seconds in ((1, 3, 5), (2, 4, 6))
        ]
        worker = Worker(Matrix().places()[0])
        worker.become(session.catalog, lambda name: pa.table({}))
        worker.take([Segment("Cars", part, UNORDERED) for part in parts])
        assert worker.late == {"Cars": 0}


def test_a_home_that_is_moved_goes_on_and_another_storage_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
    (tmp_path / "home").rename(tmp_path / "moved")
    with opened(tmp_path / "moved") as session:
        assert session.answer("near") == [(1, "a")]
    with pytest.raises(PlaceError, match="storage of this home"):
        opened(tmp_path / "moved", storage=str(tmp_path / "elsewhere"))


def test_an_empty_batch_is_a_tick_of_several_cells_too(tmp_path: Path) -> None:
    from place.engine.matrix import Matrix
    from place.runtime.spark.session import start_session

    spark = start_session("local[2]")
    (tmp_path / "in").mkdir()
    pa.parquet.write_table(pa.table({"id": [1], "x": [1.0], "y": [1.0]}), tmp_path / "in/1.parquet")
    frame = spark.readStream.schema("id BIGINT, x DOUBLE, y DOUBLE").parquet(str(tmp_path / "in"))
    with opened(tmp_path / "home", matrix=Matrix(1, 2)) as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)")
        session.attach("Cars", frame.where("id > 5"))
        session.drain()
        assert runtime_of(session).statistics("Cars")["readings"] == 0


def accept(session: Session, *cars: tuple[Any, ...]) -> None:
    """Readings that are acknowledged and wait for a tick."""
    stream = session.stream("Cars")
    table = segment_of(stream, cars, None)
    runtime_of(session).accept(stream, table)


def test_a_file_of_readings_that_is_damaged_does_not_stop_the_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime = runtime_of(session)
        runtime.pipeline.small = 0
        for car in (1, 2, 3):
            accept(session, reading(car, 1, 1, car))
        damaged = sorted((home / "ingest").iterdir())[1]
        whole = damaged.read_bytes()
        damaged.write_bytes(b"no Arrow")
        with pytest.raises(PlaceError):
            runtime.pump()
        runtime.take_singly()
        assert runtime.waiting() == (0, 0)
        assert not damaged.exists()
        assert runtime.set_aside() == [f"ingest/{damaged.name}.failed"]
        assert read_status(home)["set_aside"] == runtime.set_aside()
        # It can be mended here, and comes back to the process that runs.
        (home / "ingest" / f"{damaged.name}.failed").write_bytes(whole)
        assert main(["retry", "--home", str(home)]) == 0
        runtime.tend()
        assert runtime.pump() is not None
        assert (runtime.set_aside(), runtime.waiting()) == ([], (0, 0))
        session.advance((START + 9) * 1_000_000)
        assert session.answer("near") == [(1, "a"), (3, "a")]
        assert runtime.statistics("Cars")["late"] == 1


@pytest.mark.parametrize("is_running", [True, False])
def test_readings_that_were_put_back_are_taken_as_if_they_had_just_come(
    tmp_path: Path, is_running: bool
) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime = runtime_of(session)
        accept(session, reading(1, 1, 1, 1))
        (logged,) = runtime.ingest.due()
        runtime.ingest.set_aside(logged)
        session.push("Cars", [reading(2, 1, 1, 1)])
        if is_running:
            assert main(["retry", "--home", str(home)]) == 0
            runtime.tend()
            assert runtime.pump() is not None
    if not is_running:
        assert main(["retry", "--home", str(home)]) == 0
    with opened(home) as session:
        session.advance((START + 9) * 1_000_000)
        assert session.answer("near") == [(1, "a"), (2, "a")]
        assert {path.suffix for path in (home / "ingest").iterdir()} == {".arrow"}


def test_readings_are_not_to_blame_for_a_directory_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    """A tick without deltas writes no outbox, and says nothing about the readings beside it."""
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime = runtime_of(session)
        runtime.pipeline.small = 0
        accept(session, reading(1, 1, 1, 1), reading(1, 2, 1, 2))
        (home / "outbox").write_text("a file where a directory should be")
        for attempt in (runtime.pump, runtime.take_singly):
            with pytest.raises(StorageFault, match="cannot be written"):
                attempt()
        assert (runtime.waiting()[0], runtime.set_aside()) == (2, [])
        (home / "outbox").unlink()
        runtime.take_singly()
        assert runtime.waiting() == (0, 0)
        session.advance((START + 9) * 1_000_000)
        assert session.answer("near") == [(1, "a")]


def test_damaged_files_are_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "usual_pace", lambda: OFTEN)
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime_of(session).pipeline.small = 0  # also what is small is in files of its own
        last = ticks_until_saved(session)
        states = last.saved

    def ask(session: Session) -> None:
        session.answer("near")
        list(session.resume())

    for kind, named in {
        "state/0-0": r"state/0-0/\S+\.arrow is damaged",
        "outbox": r"outbox/\S+\.arrow is damaged",
        "ingest": r"ingest/\S+\.arrow is damaged",
        "manifest": rf"manifest/{last.tick:012d}\.json is damaged",
    }.items():
        for way in (cut, changed):
            copy = tmp_path / f"{kind.partition('/')[0]}-{way.__name__}"
            shutil.copytree(home, copy)
            files = [sorted((copy / kind).iterdir())[-1]]
            if kind.startswith("state"):
                files = [copy / state.file for state in states]
            for file in files:
                file.write_bytes(way(file.read_bytes()))
            with pytest.raises(PlaceError, match=named), opened(copy) as session:
                ask(session)


def cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def changed(content: bytes) -> bytes:
    """Eight bytes are others."""
    place = len(content) // 2
    eight = bytes(byte ^ 0x55 for byte in content[place : place + 8])
    return content[:place] + eight + content[place + 8 :]


def test_readings_are_kept_when_there_can_be_no_tick_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ConfigurationError("the storage is away")

    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime = runtime_of(session)
        accept(session, reading(1, 1, 1, 1))
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "_run", fail)
            with pytest.raises(PlaceError, match="the storage is away"):
                runtime.take_singly()
        assert runtime.waiting()[0] == 1
        runtime.take_singly()
        session.advance((START + 9) * 1_000_000)
        assert session.answer("near") == [(1, "a")]
