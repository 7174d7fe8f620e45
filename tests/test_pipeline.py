"""The pipeline on Spark in one process: sinks, what is kept, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

import place
from place.errors import ConfigurationError
from place.model.reading import Advance, Reading
from place.runtime.durable.deltas import NotKept
from place.runtime.durable.kept_ticks import Keep
from place.runtime.durable.told import write_told
from place.runtime.local import told_of
from place.runtime.spark.session import start_session
from tests.harness.pipeline import CARS, NEAR, START, opened, reading, runtime_of, write_csv


def test_changes_as_a_streaming_data_frame(tmp_path: Path) -> None:
    spark = start_session("local[2]")
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.sql("REGISTER QUERY all_of_them AS SELECT id FROM Cars")

        def go_on() -> list[Any]:
            frame = session.changes("near")
            writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            writer.trigger(availableNow=True).start().awaitTermination()
            found = spark.read.parquet(str(tmp_path / "out")).orderBy("tick", "position")
            return [(r["query"], r["sign"], json.loads(r["row"])) for r in found.collect()]

        session.push("Cars", [reading(1, 1, 1, 1, 'q"uote')], time=START * 1_000_000 + 1_000_000)
        assert go_on() == [("near", 1, [1, 'q"uote'])]
        session.push("Cars", [reading(1, 9, 9, 2)], time=START * 1_000_000 + 2_000_000)
        assert go_on() == [("near", 1, [1, 'q"uote']), ("near", -1, [1, 'q"uote'])]


def test_a_sink_gets_each_tick_once_also_after_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        session.sql(f"CREATE SINK audit FOR near TO PARQUET ('{tmp_path}/changes')")
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
    progress = next((home / "sinks").glob("*.json"))
    kept = progress.read_bytes()
    with opened(home) as session:
        session.push("Cars", [reading(1, 9, 9, 90_000)], time=(START + 90_000) * 1_000_000)
    progress.write_bytes(kept)  # as if the process had been killed before it remembered
    with opened(home) as session:
        assert session.answer("near") == []
    found = pyarrow.dataset.dataset(tmp_path / "changes", partitioning="hive").to_table()
    rows = found.sort_by("tick").to_pylist()
    assert [(row["sign"], row["row"], str(row["day"])) for row in rows] == [
        (1, '[1, "a"]', "2026-01-01"),
        (-1, '[1, "a"]', "2026-01-02"),
    ]


def test_resuming_after_an_id(tmp_path: Path) -> None:
    with opened(tmp_path / "home", keep=Keep(ticks=3)) as session:
        session.sql(CARS)
        session.sql(NEAR)
        for second in range(1, 4):
            rows = [reading(car, 1 + 8 * (second % 2), 1, second) for car in range(3)]
            session.push("Cars", rows, time=(START + second) * 1_000_000)
        seen = list(session.resume())
        assert len({each[:2] for each in seen}) == len(seen) == 6
        for number in range(len(seen)):
            assert list(session.resume(seen[number][:2])) == seen[number + 1 :]
        for second in range(4, 7):  # nothing happens, and nothing of what is kept is given up
            session.push("Cars", [reading(1, 9, 1, second)], time=(START + second) * 1_000_000)
        assert list(session.resume(seen[0][:2])) == seen[1:]
        for second in range(7, 12):
            x = 1 + 8 * (second % 2)
            session.push("Cars", [reading(1, x, 1, second)], time=(START + second) * 1_000_000)
        assert len({each.tick for each in session.resume()}) == 3
        with pytest.raises(NotKept, match="not kept any more"):
            list(session.resume(seen[0][:2]))


def test_what_was_durable_becomes_a_tick_at_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.sql(NEAR)
        runtime = runtime_of(session)
        session.push("Cars", [reading(1, 1, 1, 1)], time=(START + 1) * 1_000_000)
        # A process that is killed between the log and the tick leaves this behind.
        row = reading(2, 2, 2, 2)
        moment = (START + 2) * 1_000_000
        inputs = [Reading("Cars", 2, moment, row), Advance(moment, "Cars")]
        told = told_of(session.catalog, inputs)
        storage = runtime.pipeline.storage
        storage.write("ingest/000000000002.arrow", lambda out: write_told(out, told))
        storage.write("ingest/000000000003.arrow.tmp", lambda out: out.write(b"half"))
        before = session.catalog
        with place.connect() as other:
            other.sql(CARS)
            other.sql(NEAR)
            other.sql("REGISTER QUERY more AS SELECT id FROM Cars")
            runtime._store.save(before, other.catalog)
    with opened(home) as session:
        assert session.answer("near") == [(1, "a"), (2, "a")]
        assert session.answer("more") == [(1,), (2,)]
        assert [file.name for file in (home / "ingest").glob("*.tmp")] == []


def test_orphans_are_swept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
    for name in ("state/0-0/000000000002-dead.arrow", "outbox/000000000002-0-0-dead.arrow"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(b"half")
    with opened(home) as session:
        session.sql(NEAR)
    assert not list(home.glob("**/*dead*"))


def test_homes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home, storage=str(tmp_path / "far")) as session:
        session.sql(CARS)
        with pytest.raises(ConfigurationError, match="in use"):
            opened(home)
    from place.engine.matrix import Matrix

    with pytest.raises(ConfigurationError, match="cells 1x1, not 1x2"):
        opened(home, matrix=Matrix(1, 2))
    with opened(home) as session:  # it remembers where its storage is
        assert [stream.name for stream in session.catalog.streams.values()] == ["Cars"]
    shutil.rmtree(tmp_path / "far")
    with opened(tmp_path / "other", storage=str(tmp_path / "far")) as session:
        session.sql(CARS)
    with pytest.raises(ConfigurationError, match="belongs to another home"):
        opened(home)


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(f"{CARS} FROM FILES ('{tmp_path}/in', format = 'csv')")
        write_csv_in(tmp_path, 1)
        session.drain()
    shutil.rmtree(home / "checkpoints")
    with opened(home) as session, pytest.raises(ConfigurationError, match="another query"):
        session.drain()


def write_csv_in(directory: Path, number: int) -> None:
    (directory / "in").mkdir(exist_ok=True)
    write_csv(directory / "in" / f"{number}.csv", [reading(1, 1, 1, number)])
