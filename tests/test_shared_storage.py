"""A pipeline whose storage is elsewhere: an object store, or a directory that others reach."""

import shutil
from pathlib import Path

import pytest

from place.errors import ConfigurationError
from place.model.reading import Advance, Reading
from place.runtime.durable import lease as leases
from place.runtime.durable.manifest import ticks
from place.runtime.durable.storage import Storage, TakenOver
from place.runtime.local import told_of
from place.runtime.spark.runtime import SparkRuntime
from place.session import Session
from tests.harness.object_store import SECRET, Bucket
from tests.harness.pipeline import CARS, NEAR, START, opened, reading, runtime_of, write_csv

SHORT = 0.9
"""Seconds after which a lease that does not change has run out."""


@pytest.fixture(params=["directory", "objects"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "far")
    bucket: Bucket = request.getfixturevalue("bucket")
    return bucket.uri()


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LASTS", SHORT)


def push(session: Session, second: int, car: int, x: float) -> list[tuple[object, ...]]:
    """Push a reading, and what it changes."""
    rows, moment = [reading(car, x, 1, second)], (START + second) * 1_000_000
    return [(d.query, d.sign, d.row) for d in session.push("Cars", rows, time=moment)]


def seem_dead(session: Session) -> SparkRuntime:
    """Let the lease of a session run out, as if its process were stopped for a while."""
    runtime = runtime_of(session)
    lease = runtime._lease
    assert lease is not None
    lease._ended.set()
    lease._thread.join()
    return runtime


def test_a_whole_pipeline(root: str, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (tmp_path / "kinds.csv").write_text("kind,weight\na,1\nb,2\n", "utf-8")
    with opened(tmp_path / "one", storage=root) as session:
        session.sql(f"{CARS} FROM FILES ('{incoming}', format = 'csv'); {NEAR}")
        session.sql(f"CREATE TABLE Kinds FROM '{tmp_path}/kinds.csv'")
        session.sql(
            "REGISTER QUERY weights AS SELECT c.id, k.weight FROM Cars c, Kinds k"
            " WHERE c.kind = k.kind"
        )
        write_csv(
            incoming / "1.csv", [reading(1, 1, 1, 1), reading(2, 9, 1, 1), reading(2, 9, 2, 2)]
        )
        session.drain()
        first = list(session.resume())
        assert {each.delta.query for each in first} == {"near", "weights"}
    with opened(tmp_path / "one") as session:  # it remembers where its storage is
        runtime_of(session).pipeline.small = 0  # also what is small is in files of its own
        assert ("near", 1, (3, "a")) in push(session, 5, 3, 2)
        write_csv(incoming / "2.csv", [reading(2, 1, 1, 6, "b")])
        session.drain()
    shutil.rmtree(tmp_path / "one")
    with opened(tmp_path / "two", storage=root) as session:
        write_csv(incoming / "3.csv", [reading(1, 9, 1, 8), reading(4, 3, 1, 9)])
        session.drain()
        assert sorted(session.answer("near")) == [(2, "b"), (3, "a")]
        assert sorted(session.answer("weights")) == [(1, 1), (2, 2), (3, 1)]
        deltas = list(session.resume())
        assert deltas[: len(first)] == first
        last = first[-1]
        assert list(session.resume((last.tick, last.position))) == deltas[len(first) :]
        assert runtime_of(session).statistics("Cars")["readings"] == 7
        session.sql("DROP QUERY near")
    with opened(tmp_path / "three", storage=root) as session:
        assert [query.name for query in session.catalog.queries.values()] == ["weights"]


def test_a_storage_that_is_in_use_is_refused(root: str, tmp_path: Path) -> None:
    with opened(tmp_path / "one", storage=root) as session:
        session.sql(CARS)
        with pytest.raises(ConfigurationError, match=r"is in use by process \d+ on") as caught:
            opened(tmp_path / "two", storage=root)
        assert SECRET not in str(caught.value)
        assert "endpoint" not in str(caught.value)
        session.sql(NEAR)
        assert push(session, 1, 1, 1) == [("near", 1, (1, "a"))]


def test_a_home_of_another_storage_is_refused(root: str, tmp_path: Path) -> None:
    with opened(tmp_path / "one", storage=root) as session:
        session.sql(CARS)
    with opened(tmp_path / "other", storage=str(tmp_path / "elsewhere")) as session:
        session.sql(CARS)
    with pytest.raises(ConfigurationError, match="the storage of this home is"):
        opened(tmp_path / "other", storage=root)
    with opened(tmp_path / "plain") as session:
        session.sql(CARS)
    with pytest.raises(ConfigurationError, match="the storage of this home is the home itself"):
        opened(tmp_path / "plain", storage=root)


def test_who_was_taken_over_can_commit_nothing(root: str, tmp_path: Path) -> None:
    one = opened(tmp_path / "one", storage=root)
    one.sql(f"{CARS}; {NEAR}")
    push(one, 1, 1, 1)
    stale = seem_dead(one)
    with opened(tmp_path / "two", storage=root) as two:
        # The one that seemed dead goes on: neither ticks nor statements nor readings are taken.
        before = ticks(Storage(root))
        with pytest.raises(TakenOver, match="another process has taken over this home"):
            push(one, 2, 7, 1)
        with pytest.raises(TakenOver):
            one.sql("REGISTER QUERY more AS SELECT id FROM Cars")
        with pytest.raises(TakenOver):
            stale.accept_until(None, [])
        assert ticks(Storage(root)) == before
        assert push(two, 3, 2, 2) == [("near", 1, (2, "a"))]
        two.sql("REGISTER QUERY others AS SELECT id FROM Cars")
        push(two, 4, 3, 2)
        assert sorted(two.answer("near")) == [(1, "a"), (2, "a"), (3, "a")]
        assert set(two.catalog.queries) == {"near", "others"}
    one.close()
    with opened(tmp_path / "one") as again:  # it takes what has happened meanwhile
        assert set(again.catalog.queries) == {"near", "others"}
        push(again, 5, 4, 2)
        assert sorted(again.answer("near")) == [(1, "a"), (2, "a"), (3, "a"), (4, "a")]


def test_what_was_acknowledged_and_is_in_no_tick_is_taken_over(root: str, tmp_path: Path) -> None:
    one = opened(tmp_path / "one", storage=root)
    one.sql(f"{CARS}; {NEAR}")
    stream = one.catalog.streams["cars"]
    moment = (START + 1) * 1_000_000
    inputs = [Reading("Cars", 1, moment, reading(1, 1, 1, 1)), Advance(moment, "Cars")]
    runtime_of(one).accept_until(stream, told_of(one.catalog, inputs))
    stale = seem_dead(one)
    with opened(tmp_path / "two", storage=root) as two:
        assert two.answer("near") == [(1, "a")]
        for logged in stale.ingest.due():
            stale.ingest.withdraw(logged)  # it is another's by now
        push(two, 2, 2, 2)
    with opened(tmp_path / "three", storage=root) as three:
        assert sorted(three.answer("near")) == [(1, "a"), (2, "a")]
    one.close()


def test_a_storage_of_the_version_before_gets_its_statements(tmp_path: Path) -> None:
    """They were only in the home directory, from which it has to be opened once."""
    home, far = tmp_path / "home", tmp_path / "far"
    with opened(home, storage=str(far)) as session:
        runtime = runtime_of(session)
        runtime.pipeline.statements = lambda: ""
        runtime._store.log = None
        session.sql(f"{CARS}; {NEAR}")
    for name in ("catalog", "lease"):
        shutil.rmtree(far / name, ignore_errors=True)
    (far / "place.json").unlink()
    with pytest.raises(ConfigurationError, match="in the home directory that it was made with"):
        opened(tmp_path / "new", storage=str(far))
    with opened(home) as session:
        assert push(session, 1, 1, 1) == [("near", 1, (1, "a"))]
    with opened(tmp_path / "another", storage=str(far)) as session:
        assert session.answer("near") == [(1, "a")]
