"""The disk store: what memory lets go of is found again, exactly once, also after a restart.

That answers are those of a stream that holds everything in memory, tests/test_disk_store_search.py
asks of the whole language. Here the store is asked alone, and about its files.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import place
from place.engine import history, stored_objects, stored_run
from place.engine.columns import Columns, Dictionary
from place.engine.matrix import Matrix
from place.engine.objects import Messages
from place.engine.stored_objects import StoredObjects
from place.model.schema import Column, Retention, Storing, Stream
from place.model.types import Type
from place.runtime.durable.run_files import RunFiles
from place.runtime.durable.saving import Pace
from place.runtime.local import LocalRuntime
from place.runtime.tables import TableLoader
from place.session import Session
from tests.harness.examples import examples

SECOND = 1_000_000
STORED = "retain = 'cache', store = 'every reading', flush = '2 seconds'"
EVERYWHERE = np.array([[-np.inf, -np.inf, np.inf, np.inf]])


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Runs and blocks of a few rows."""
    sizes = {"MOST_WAITING": 4, "ALIKE": 2, "BLOCK": 2}
    with patch.multiple(stored_objects, **sizes), patch.multiple(stored_run, BLOCK=2, KEYS=3):
        yield


# The store alone


def stream_of(key: Type, timeout: int | None = None) -> Stream:
    columns = (Column("id", key), Column("x", Type.DOUBLE), Column("y", Type.DOUBLE))
    columns += (Column("kind", Type.STRING),)
    kept = {"retention": Retention(), "storing": Storing()}
    return Stream("S", columns, 0, None, 1, 2, timeout=timeout, **kept)


KEYS = st.integers(0, 9)
PLACES = st.sampled_from([0.0, 1.0, 2.0, 5.0, 9.0])
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, PLACES, PLACES, st.sampled_from(["a", "b", None])),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("keys"), st.lists(KEYS, max_size=4)),
    st.tuples(st.just("within"), PLACES, PLACES, st.sampled_from([0.0, 1.0, 4.0])),
    st.tuples(st.just("kind"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("flush")),
    st.tuples(st.just("reload")),
)


@settings(deadline=None, max_examples=examples(10))
@given(steps=st.lists(STEPS, max_size=30), is_text=st.booleans())
def test_a_store_has_what_a_dictionary_would_have(steps: list[tuple], is_text: bool) -> None:  # type: ignore[type-arg]
    stream = stream_of(Type.STRING if is_text else Type.BIGINT)
    dictionary, files = Dictionary(), RunFiles(None, "0-0")
    store = StoredObjects(stream, dictionary, files)
    held: dict[int, tuple[object, ...]] = {}

    def number(key: int) -> int:
        return dictionary.code(f"k{key}") if is_text else key

    def found(messages: Messages) -> list[tuple[object, ...]]:
        rows = messages.rows.rows(np.arange(len(messages)))
        return sorted(
            ((t, *row) for t, row in zip(messages.times.tolist(), rows, strict=True)), key=str
        )

    for time, step in enumerate(steps):
        match step:
            case "put", key, x, y, kind:
                row = (f"k{key}" if is_text else key, x, y, kind)
                rows = Columns.from_rows(stream.columns, dictionary, [row])
                store.put(
                    Messages(np.array([number(key)]), np.array([time]), np.zeros(1, bool), rows)
                )
                held[key] = (time, *row)
            case "forget", key:
                store.forget(np.array([number(key)]))
                held.pop(key, None)
            case "keys", keys:
                asked = np.array([number(key) for key in keys], np.int64)
                wanted = [held[key] for key in {*keys} & held.keys()]
                assert found(store.of_keys(asked)) == sorted(wanted, key=str)
                assert found(store.take_keys(asked, time)) == sorted(wanted, key=str)
                held = {key: row for key, row in held.items() if key not in keys}
            case "within", x, y, size:
                box = np.array([[x, y, x + size, y + size]])
                inside = {
                    k: row
                    for k, row in held.items()
                    if x <= row[2] <= x + size and y <= row[3] <= y + size  # type: ignore[operator]
                }
                assert found(store.take_within((1, 2), box, time)) == sorted(
                    inside.values(), key=str
                )
                held = {key: row for key, row in held.items() if key not in inside}
            case "kind", kind:
                code = dictionary.code(kind)
                box = np.array([[code, -np.inf, code, np.inf]])
                alike = {k: row for k, row in held.items() if row[4] == kind}
                assert found(store.take_within((3,), box, time)) == sorted(alike.values(), key=str)
                held = {key: row for key, row in held.items() if key not in alike}
            case ("flush",):
                store.flush(time)
                assert not store.waiting.size
            case ("reload",):
                packed = stored_run.unpack_runs(stored_run.pack_runs({"S": store.runs}))
                again = StoredObjects(stream, dictionary, files, packed.get("S", []))
                again.restore(store.waiting.all_messages())
                store = again
        assert store.count() == len(held)
    assert found(store.all()) == sorted(held.values(), key=str)


def test_objects_that_expired_are_not_taken_and_go_with_their_runs() -> None:
    stream = stream_of(Type.BIGINT, timeout=10)
    dictionary = Dictionary()
    store = StoredObjects(stream, dictionary, RunFiles(None, "0-0"))
    for key in range(4):
        rows = Columns.from_rows(stream.columns, dictionary, [(key, 1.0, 1.0, None)])
        store.put(Messages(np.array([key]), np.array([key]), np.zeros(1, bool), rows))
    store.flush(4)
    assert store.count(11) == 2
    assert store.expired(11).keys.tolist() == [0, 1]
    assert store.take_within((1, 2), EVERYWHERE, 12).keys.tolist() == [3]
    assert [run.count for run in store.runs] == [3]
    store.floor = 13
    store.flush(13)
    assert not store.runs


# Beside a stream that holds everything


def opened(home: Path | None, matrix: Matrix) -> Session:
    return Session(LocalRuntime(home, matrix=matrix), TableLoader())


QUERIES = (
    "SELECT id, kind FROM Cars INSIDE (0, 0, 3, 3)",
    "SELECT id FROM Cars INSIDE ('M', 1, 3)",
    "SELECT id, x FROM Cars INSIDE ('M', 2, 2, 2) WINDOW 20 SECONDS",
    "SELECT id FROM Cars INSIDE ('M', 1 OF Drones, 4)",
    "SELECT kind, COUNT(*) FROM Cars INSIDE (2, 2, 8, 8) GROUP BY kind",
    "SELECT id FROM Cars INSIDE ('M', 3 OF Drones, 5) WINDOW 5 ROWS",
    "SELECT id FROM Cars kNN (2, 4, 4)",
    "SELECT C.id, D.id FROM Cars C, Drones D WHERE DISTANCE(C, D) < 2",
    "SELECT id FROM Cars WHERE kind = 'b' INSIDE ('M', 3, 4, 4) FOR '3 seconds'",
)


@pytest.mark.parametrize(
    ("matrix", "key"),
    [
        pytest.param(Matrix(), "STRING", id="1x1-STRING"),
        pytest.param(Matrix(2, 2), "BIGINT", id="2x2-BIGINT"),
        pytest.param(Matrix(), "BIGINT", id="1x1-BIGINT", marks=pytest.mark.long),
        pytest.param(Matrix(2, 2), "STRING", id="2x2-STRING", marks=pytest.mark.long),
    ],
)
def test_short_histories_and_those_who_begin_anew(
    matrix: Matrix, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history is shorter here than what is on the disk, states are saved in each tick, and the
    home is taken over as a killed process would leave it."""
    monkeypatch.setattr(history, "HISTORY", 6)
    often = Pace(ticks=1, share=1e9)
    monkeypatch.setattr("place.runtime.durable.local_log.usual_pace", lambda: often)
    chance = np.random.default_rng(5)
    plain, stored = opened(None, matrix), opened(tmp_path / "0", matrix)
    for session, options in ((plain, ""), (stored, f", {STORED}")):
        for name in ("Cars", "Drones"):
            session.sql(
                f"CREATE STREAM {name} (id {key} KEY, x DOUBLE, y DOUBLE, kind STRING)"
                f" WITH (timeout = '12 seconds'{options})"
            )
    queries = [q.replace("'M', 1", "'M', 'k1'").replace("'M', 2,", "'M', 'k2',") for q in QUERIES]
    queries = [q.replace("'M', 3", "'M', 'k3'") for q in queries] if key == "STRING" else QUERIES
    for second in range(1, 56):
        for name in ("Cars", "Drones"):
            rows = [
                (
                    f"k{i}" if key == "STRING" else int(i),
                    *chance.integers(0, 12, 2).astype(float),
                    k,
                )
                for i, k in zip(
                    chance.choice(20, chance.integers(0, 5), replace=False),
                    chance.choice(["a", "b"], 5),
                    strict=False,
                )
            ]
            told = [
                sorted(map(repr, session.push(name, rows, time=second * SECOND)))
                for session in (plain, stored)
            ]
            assert told[0] == told[1], second
        if second % 6 == 0 and second // 6 <= len(queries):
            text = f"REGISTER QUERY q{second // 6} AS {queries[second // 6 - 1]}"
            begun = [sorted(map(repr, session.sql(text).deltas)) for session in (plain, stored)]
            assert begun[0] == begun[1], text
        if second % 7 == 0:
            answers = [
                sorted(map(repr, session.sql("SELECT id, x FROM Cars INSIDE (5, 5, 12, 12)").rows))
                for session in (plain, stored)
            ]
            assert answers[0] == answers[1]
            counts = [session.runtime.statistics("Cars")["objects"] for session in (plain, stored)]
            assert counts[0] == counts[1]
        if second % 10 == 0:
            stored.runtime._log._background.settle()  # type: ignore[attr-defined]
            shutil.copytree(tmp_path / str(second // 10 - 1), tmp_path / str(second // 10))
            stored.close()
            stored = opened(tmp_path / str(second // 10), matrix)
    assert len(list((tmp_path / "5" / "store").rglob("*.arrow"))) < 30
    plain.close()
    stored.close()


def test_files_are_removed_when_no_state_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = Pace(ticks=1, share=1e9)
    monkeypatch.setattr("place.runtime.durable.local_log.usual_pace", lambda: often)
    home = tmp_path / "home"
    for beginning in (1, 30):
        session = opened(home, Matrix())
        if beginning == 1:
            session.sql(f"CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH ({STORED})")
        for second in range(beginning, beginning + 29):
            rows = [(i, float(second), 1.0) for i in range(6)]
            session.push("Cars", rows, time=second * SECOND)
        assert session.runtime.statistics("Cars")["on_disk"] == 6
        session.close()
        assert len(list((home / "store").rglob("*.arrow"))) <= 20
        (home / "store" / "0-0" / "left.arrow").write_bytes(b"by somebody who was ended")
    session = opened(home, Matrix())
    assert not (home / "store" / "0-0" / "left.arrow").exists()
    assert len(session.sql("SELECT id FROM Cars INSIDE (58, 0, 58, 9)").rows) == 6
    session.close()


# A sample


def test_a_sampled_store_stays_within_its_bound() -> None:
    """An object that comes from the disk is where it was at most ten readings ago."""
    session = place.connect()
    session.sql(
        "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (retain = 'cache',"
        " max_speed = 2, report_every = '1 second', store = 'every 10 readings')"
    )
    chance = np.random.default_rng(3)
    x = chance.uniform(0, 1000, 300)
    for second in range(1, 26):
        x += chance.uniform(-2, 2, 300)
        session.push("Cars", [(i, float(x[i]), 0.0) for i in range(300)], time=second * SECOND)
    found = dict(session.sql("SELECT id, x FROM Cars").rows)
    away = [abs(found[i] - x[i]) for i in range(300)]
    assert len(found) == 300
    assert 2 < max(away) <= 20
    assert sum(distance == 0 for distance in away) < 100
    plan = "\n".join(
        row[0] for row in session.sql("EXPLAIN SELECT id FROM Cars INSIDE (0, 0, 9, 9)").rows
    )
    assert "takes objects of Cars from the disk where memory holds none" in plan
    assert "may be where it was 00:00:10 ago, up to 20 away" in plan
    nearest = session.sql("EXPLAIN SELECT id FROM Cars kNN (2, 1, 1)").rows
    assert ("holds all objects of Cars in memory",) in nearest


def test_the_texts_of_what_is_on_the_disk_need_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY", 6)
    monkeypatch.setattr("place.engine.worker.MANY_TEXTS", 20)
    monkeypatch.setattr("place.engine.checkpoint.MANY_TEXTS", 20)
    session = opened(None, Matrix())
    assert isinstance(session.runtime, LocalRuntime)
    session.sql(f"CREATE STREAM Cars (id STRING KEY, x DOUBLE, y DOUBLE) WITH ({STORED})")
    session.sql("REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 1, 1)")
    for second in range(1, 200):
        session.push("Cars", [(f"car {second}", float(second), 1.0)], time=second * SECOND)
    assert len(session.runtime.workers[0].dictionary.texts) < 100
    assert session.runtime.statistics("Cars") == {
        "objects": 199,
        "on_disk": 198,
        "readings": 199,
        "late": 0,
    }
    session.push("Cars", [("car 150", 1.0, 1.0)], time=200 * SECOND)
    assert session.answer("near") == [("car 1",), ("car 150",)]
    assert len(session.sql("SELECT id FROM Cars").rows) == 199
