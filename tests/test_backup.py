"""Backups: taken while ticks run, compared by checksums, restored where nothing is, and exact."""

from __future__ import annotations

import io
import itertools
import os
import tarfile
import threading
import time
from pathlib import Path

import pytest

import place
from place.cli import main
from place.errors import ConfigurationError
from place.runtime.durable import backup
from place.runtime.durable.backup import back_up, check, read_listing, restore
from place.runtime.durable.gate import Gate
from place.runtime.durable.storage import Damaged, Storage
from place.runtime.intake.pushed import segment_of
from place.runtime.interface import tick_of
from place.server.store import ServerStore
from place.session import Session
from tests.harness.pipeline import CARS, NEAR, START, opened, reading, runtime_of, write_csv

WINDOWED = (
    "REGISTER QUERY busy AS SELECT COUNT(*) AS n FROM Cars INSIDE (0, 0, 5, 5) WINDOW 5 SECONDS"
)


def push(session: Session, second: int) -> None:
    """What comes in a second: cars drive in and out of the square."""
    rows = [reading(car, (car + second) % 7, 1 + car % 3, second) for car in range(6)]
    session.push("Cars", rows, time=(START + second) * 1_000_000)


def changelog(session: Session) -> list[tuple[object, ...]]:
    return [(each.tick, each.position, each.delta) for each in session.resume()]


def history(session: Session, last: int) -> list[tuple[object, ...]]:
    """Where all cars were at some times."""
    found: list[tuple[object, ...]] = []
    for second in range(1, last, 2):
        moment = f"2026-01-01 00:{second // 60:02d}:{second % 60:02d}"
        found += session.sql(f"SELECT id, x FROM Cars AS OF '{moment}'").rows
    return found


def test_a_backup_while_ticks_run_is_restored_and_goes_on_exactly(tmp_path: Path) -> None:
    home, file, again = tmp_path / "home", tmp_path / "home.tar", tmp_path / "again"
    done = threading.Event()
    with opened(home) as session:
        for statement in (f"{CARS} WITH (archive = 'all')", NEAR, WINDOWED):
            session.sql(statement)
        repository = runtime_of(session).repository
        tokens = ServerStore(home)  # what a server keeps beside the pipeline
        tokens.create_token("ann", "client")
        tokens.close()
        first = runtime_of(session).last
        assert first is not None
        push(session, 1)

        def take() -> None:
            assert main(["backup", "--home", str(home), "--to", str(file)]) == 0
            done.set()

        taking = threading.Thread(target=take)
        taking.start()
        last = 1
        for last in itertools.count(2):
            push(session, last)
            if last % 3 == 0:  # rounds of the archive, too, come beside the backup
                repository.catch_up()
                repository.archive()
            if done.is_set() and last >= 12:
                break
        taking.join()
        expected, past = changelog(session), history(session, last)
    contents = read_listing(file)
    assert first.tick < contents.tick <= first.tick + last
    assert main(["restore", "--from", str(file), "--home", str(again)]) == 0
    with opened(again) as session:
        at = runtime_of(session).last
        assert at is not None
        assert at.tick == contents.tick
        for second in range(contents.tick - first.tick + 1, last + 1):
            push(session, second)
        assert changelog(session) == expected
        assert history(session, last) == past
    store = ServerStore(again)
    assert [token.name for token in store.tokens()] == ["ann"]
    store.close()
    assert not list(home.glob(".backup-*"))
    assert file.stat().st_mode & 0o077 == 0


def test_sources_are_read_on_from_where_the_backup_was(tmp_path: Path) -> None:
    """Files that were read after the backup are read again, each once."""
    home, file, again = tmp_path / "home", tmp_path / "home.tar", tmp_path / "again"
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for number in range(10):
        rows = [reading(car, (car + number) % 7, 1, 10 * number + car) for car in range(8)]
        write_csv(incoming / f"{number:02d}.csv", rows)
        os.utime(incoming / f"{number:02d}.csv", (1_700_000_000 + number,) * 2)
    with opened(home, files_per_tick=1) as session:
        session.sql(f"{CARS} FROM FILES ('{incoming}', format = 'csv')")
        session.sql(NEAR)
        runtime = runtime_of(session)
        first = tick_of(runtime)
        reader = threading.Thread(target=session.drain)
        reader.start()
        while tick_of(runtime) < first + 3:
            time.sleep(0.005)
        contents = back_up(home, file)
        reader.join()
        expected = changelog(session)
    assert first + 3 <= contents.tick
    restore(file, again)
    with opened(again, files_per_tick=1) as session:
        session.drain()
        # How files fall into ticks is another matter: how many wait decides it.
        assert [each[-1] for each in changelog(session)] == [each[-1] for each in expected]


def test_acknowledged_readings_that_wait_are_in_it(tmp_path: Path) -> None:
    """What is in the ingest log and in no tick yet becomes one where it is restored."""
    home, file, again = tmp_path / "home", tmp_path / "home.tar", tmp_path / "again"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime = runtime_of(session)
        stream = session.stream("Cars")
        rows = [reading(1, 1, 1, 1), reading(2, 1, 1, 2), reading(3, 9, 9, 3)]
        runtime.accept(stream, segment_of(stream, rows, None))
        back_up(home, file)
    restore(file, again)
    with opened(again) as session:
        assert session.answer("near") == [(1, "a"), (2, "a")]


def test_a_commit_waits_while_the_gate_is_closed(tmp_path: Path) -> None:
    gate = Gate(Storage(str(tmp_path)))
    passed = threading.Event()

    def commit() -> None:
        with gate.passing():
            passed.set()

    with gate.closed(1):
        committing = threading.Thread(target=commit)
        committing.start()
        assert not passed.wait(0.1)
    assert passed.wait(5)
    committing.join()
    with (
        gate.passing(),
        gate.passing(),  # ticks and archives do not wait for each other
        pytest.raises(ConfigurationError, match="has been committing"),
        gate.closed(0.05),
    ):
        pass


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The home of a session without Spark, and a backup of it."""
    folder = tmp_path_factory.mktemp("kept")
    with place.connect(folder / "home") as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
    (folder / "home" / "data").mkdir()
    (folder / "home" / "data" / "table.csv").write_text("id\n1\n")
    back_up(folder / "home", folder / "home.tar")
    return folder / "home", folder / "home.tar"


def test_a_session_without_spark_is_backed_up_when_it_is_closed(
    kept: tuple[Path, Path], tmp_path: Path
) -> None:
    home, file = kept
    with place.connect(home), pytest.raises(ConfigurationError, match="in use by another process"):
        back_up(home, tmp_path / "x.tar")
    restore(file, tmp_path / "again")
    assert (tmp_path / "again" / "data" / "table.csv").read_text() == "id\n1\n"
    with place.connect(tmp_path / "again") as session:
        assert session.answer("near") == [(1, "a")]
        assert len(session.push("Cars", [reading(1, 9, 9, 2)], time=(START + 2) * 1_000_000)) == 1
    back_up(home, tmp_path / "bare.tar", with_data=False)
    assert not any(name.startswith("data/") for name in read_listing(tmp_path / "bare.tar").files)


def test_nothing_is_restored_over_what_is_there(kept: tuple[Path, Path], tmp_path: Path) -> None:
    home, file = kept
    with pytest.raises(ConfigurationError, match="not empty"):
        restore(file, home)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigurationError, match="not empty"):
        restore(file, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    restore(file, tmp_path / "empty")
    with pytest.raises(ConfigurationError, match="is there already"):
        back_up(home, file)
    with pytest.raises(ConfigurationError, match="not a home directory"):
        back_up(tmp_path, tmp_path / "x.tar")
    with pytest.raises(ConfigurationError, match="is not there"):
        restore(tmp_path / "gone.tar", tmp_path / "new")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_backup_that_was_cut_short_is_refused(
    kept: tuple[Path, Path], tmp_path: Path, share: float
) -> None:
    _, file = kept
    content = file.read_bytes()
    (tmp_path / "cut.tar").write_bytes(content[: int(len(content.rstrip(b"\0")) * share)])
    with pytest.raises(Damaged, match="no backup, or was cut short"):
        restore(tmp_path / "cut.tar", tmp_path / "again")
    assert list(tmp_path.iterdir()) == [tmp_path / "cut.tar"]


def test_a_changed_byte_is_found_wherever_it_is(kept: tuple[Path, Path], tmp_path: Path) -> None:
    _, file = kept
    content = file.read_bytes()
    with tarfile.open(file) as archive:
        members = archive.getmembers()
    for number, member in enumerate(members):
        if member.size:
            at = member.offset_data + member.size // 2
            changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
            path = tmp_path / f"{number}.tar"
            path.write_bytes(changed)
            with pytest.raises(Damaged):
                check(path, read_listing(path))
            assert main(["backup", "--check", str(path)]) == 1
            path.unlink()
    assert main(["backup", "--check", str(file)]) == 0


def test_a_backup_of_somebody_else_writes_nowhere_else(
    kept: tuple[Path, Path], tmp_path: Path
) -> None:
    """Names that lead out of the home, and links, are refused even if the list has them."""
    contents = read_listing(kept[1])
    for name in ("../evil", "/tmp/evil", "a/../../evil"):
        path = tmp_path / "evil.tar"
        listed = backup.Contents("h", "log", 1, 0.0, {name: (1, "0"), **contents.files})
        text = backup._listing(listed)
        with tarfile.open(path, "w") as archive:
            for each, content in ((name, b"x"), (backup.LISTING, text)):
                member = tarfile.TarInfo(each)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        with pytest.raises(Damaged, match="which its list does not have"):
            restore(path, tmp_path / "again")
        assert sorted(tmp_path.iterdir()) == [path]
        path.unlink()


def test_a_storage_elsewhere_is_not_backed_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home, storage=str(tmp_path / "store")) as session:
        session.sql(CARS)
    with pytest.raises(ConfigurationError, match="storage elsewhere"):
        back_up(home, tmp_path / "x.tar")
