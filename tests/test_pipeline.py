"""The pipeline on Spark in one process: sources, sinks, what is kept, and what is refused."""

import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import place
from place.cli import main
from place.errors import ConfigurationError, StatementError
from place.model.reading import Advance, Reading
from place.operate.options import set_up
from place.operate.run import IdleClock
from place.operate.status import prometheus, read_status
from place.runtime import manifest as manifests
from place.runtime.local import told_of
from place.runtime.spark.pipeline import Keep
from place.runtime.spark.runtime import SparkRuntime
from place.runtime.spark.session import start_session
from place.runtime.spark.sources import Sources
from place.runtime.spark.task import write_told
from place.runtime.storage import Storage
from place.runtime.tables import TableLoader
from place.session import Session

pytestmark = pytest.mark.xdist_group("spark")

CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING)"
NEAR = "REGISTER QUERY near AS SELECT id, kind FROM Cars INSIDE (0, 0, 5, 5)"
START = 1_767_225_600  # 2026-01-01


def opened(home: Path | None = None, **options: Any) -> Session:
    runtime = SparkRuntime(start_session("local[2]"), home, **options)
    return Session(runtime, TableLoader())


def runtime_of(session: Session) -> SparkRuntime:
    assert isinstance(session.runtime, SparkRuntime)
    return session.runtime


def reading(car: int, x: float, y: float, second: float, kind: str = "a") -> tuple[Any, ...]:
    return car, x, y, int((START + second) * 1e6), kind


def write_csv(path: Path, rows: list[tuple[Any, ...]], *, zipped: bool = False) -> None:
    lines = ["id,x,y,ts,kind"]
    for car, x, y, moment, kind in rows:
        lines.append(f"{car},{x},{y},{place_time(moment)},{kind}")
    text = "\n".join(lines) + "\n"
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    draft.rename(path)


def place_time(moment: int) -> str:
    from place.model.time import format_timestamp

    return format_timestamp(moment)


def test_files_of_all_kinds_are_picked_up(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for kind, options in (("csv", ""), ("json", ""), ("parquet", "")):
        home = tmp_path / kind
        directory = incoming / kind
        directory.mkdir()
        with opened(home) as session:
            session.sql(f"{CARS} FROM FILES ('{directory}', format = '{kind}'{options})")
            session.sql(NEAR)
            seen = session.subscribe("near")
            rows = [reading(1, 1, 1, 1), reading(2, 9, 9, 1), reading(3, 2, 2, 2, "b")]
            if kind == "csv":
                write_csv(directory / "1.csv.gz", rows, zipped=True)
            elif kind == "json":
                names = ("id", "x", "y", "ts", "kind")
                text = "\n".join(
                    json.dumps(dict(zip(names, (*r[:3], place_time(r[3]), r[4]), strict=True)))
                    for r in rows
                )
                (directory / "1.json").write_text(text + "\n", "utf-8")
            else:
                columns = list(zip(*rows, strict=True))
                table = pa.table(
                    {
                        "ID": columns[0],
                        "y": pa.array(columns[2], pa.float64()),
                        "x": pa.array(columns[1], pa.float64()),
                        "ts": pa.array(columns[3], pa.timestamp("us")),
                        "kind": columns[4],
                    }
                )
                pq.write_table(table, directory / "1.parquet")
            session.drain()
            assert session.answer("near") == [(1, "a")]
            session.drain()  # nothing new: nothing happens
            assert runtime_of(session).statistics("Cars")["readings"] == 3
            session.advance((START + 2) * 1_000_000)
            assert [delta.row for delta in seen] == [(1, "a"), (3, "b")]


def test_a_running_source_tells_subscribers(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} FROM FILES ('{tmp_path}/in', format = 'csv')")
        session.sql(NEAR)
        seen = session.subscribe("near")
        session.start()
        write_csv(tmp_path / "in" / "1.csv", [reading(1, 1, 1, 1), reading(1, 1, 1, 2)])
        got = []
        deadline = time.monotonic() + 30
        while not got and time.monotonic() < deadline:
            time.sleep(0.05)
            got = list(seen)
        session.stop()
        assert [delta.row for delta in got] == [(1, "a")]


def test_a_streaming_data_frame_is_a_source(tmp_path: Path) -> None:
    spark = start_session("local[2]")
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"id": [1, 2, None], "x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0], "s": [1, 2, 3]}),
        tmp_path / "in" / "1.parquet",
    )
    frame = spark.readStream.schema("id BIGINT, x DOUBLE, y DOUBLE, s BIGINT").parquet(
        str(tmp_path / "in")
    )
    with opened(tmp_path / "home") as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)")
        session.sql("REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5, 5)")
        session.attach("Cars", frame.selectExpr("id", "x", "y", "timestamp_seconds(s) AS ts"))
        session.drain()
        assert session.answer("near") == [(1,)]
        assert runtime_of(session).statistics("Cars")["bad"] == 1
        with pytest.raises(ConfigurationError, match="not a streaming one"):
            session.attach("Cars", spark.range(3))


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
        for second in range(4, 12):
            session.push("Cars", [reading(1, 1, 1, second)], time=(START + second) * 1_000_000)
        assert len(manifests.ticks(runtime_of(session).pipeline.storage)) == 3
        with pytest.raises(ConfigurationError, match="not kept any more"):
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
        assert not list((home / "ingest").iterdir())


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
    assert len(list((home / "state" / "0-0").iterdir())) == 1


def test_homes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home, storage=str(tmp_path / "far")) as session:
        session.sql(CARS)
        with pytest.raises(ConfigurationError, match="in use"):
            opened(home)
    from place.engine.route import Matrix

    with pytest.raises(ConfigurationError, match="cells 1x1, not 1x2"):
        opened(home, matrix=Matrix(1, 2))
    with pytest.raises(ConfigurationError, match="another home"):
        opened(tmp_path / "other", storage=str(tmp_path / "far"))
    with opened(home) as session:  # it remembers where its storage is
        assert [stream.name for stream in session.catalog.streams.values()] == ["Cars"]


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    import shutil

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


BROKEN = {  # by the first field: the row, and what the reason says
    "701": ("701,abc,1,{ts},a,", 'column "x": '),
    "": (",1,1,{ts},a,", "key"),
    "703": ("703,nan,1,{ts},a,", "position"),
    "704": ("704,inf,1,{ts},a,", "finite"),
    "705": ("705,1,91,{ts},a,", "latitude 91"),
    "706": ("706,181,1,{ts},a,", "longitude 181"),
    "707": ("707,1,1,{ts},a,explode", "explode"),
    "708": ("708,1,1,0001-01-01 00:00:00,a,", "0001"),
    "709": ("709,1,1,yesterday,a,", "yesterday"),
    "710": ("710,1", "fields"),
    "9" * 23: ("9" * 23 + ",1,1,{ts},a,", "9" * 23),
    "712": ("712,1,1,,a,", "time"),
}


def test_fifty_thousand_readings_of_which_some_are_broken_in_twelve_ways(tmp_path: Path) -> None:
    chance = random.Random(3)
    good = bad = 0
    ways: Counter[str] = Counter()
    (tmp_path / "in").mkdir()
    for number in range(5):
        lines = ["id,x,y,ts,kind,op"]
        for i in range(10_000):
            ts = place_time((START + number * 100) * 1_000_000 + i * 1000)
            if chance.random() < 0.05:
                way = chance.choice(list(BROKEN))
                line = BROKEN[way][0].format(ts=ts)
                ways[way] += 1
                bad += 1
            else:
                line = f"{chance.randrange(500)},{chance.uniform(-9, 9):.3f},1,{ts},a,"
                good += 1
            lines.append(line)
        (tmp_path / "in" / f"{number}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert len(ways) == 12
    (tmp_path / "in" / "9.csv").write_bytes(bytes(range(256)) * 50)  # garbage stops nothing
    home = tmp_path / "home"
    with opened(home) as session:
        wgs = CARS + f" FROM FILES ('{tmp_path}/in', format = 'csv') WITH (space = 'wgs84')"
        session.sql(wgs)
        session.sql("REGISTER QUERY all_of_them AS SELECT id FROM Cars")
        session.drain()
        counts = runtime_of(session).statistics("Cars")
        assert counts["readings"] == good
        assert counts["late"] == 0
    found = [
        json.loads(line)
        for path in sorted((home / "quarantine").iterdir())
        for line in path.read_text("utf-8").splitlines()
    ]
    from_files = [entry for entry in found if not entry["source"].endswith("9.csv")]
    assert len(from_files) == bad
    assert counts["bad"] == len(found)
    for entry in from_files:
        way = entry["text"].partition(",")[0]
        assert BROKEN[way][1] in entry["reason"], entry
        assert isinstance(entry["line"], int)
        ways[way] -= 1
    assert not +ways


def test_late_readings_are_kept_aside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as session:
        session.sql(CARS)
        session.push("Cars", [reading(1, 1, 1, 5), reading(2, 1, 1, 3)])
        assert runtime_of(session).statistics("Cars")["late"] == 1
    (entry,) = [
        json.loads(line)
        for path in (home / "quarantine").iterdir()
        for line in path.read_text("utf-8").splitlines()
    ]
    assert entry["reason"].startswith("late: its time 2026-01-01 00:00:03")
    assert json.loads(entry["text"])["id"] == 2


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


def test_the_storage_need_not_be_a_directory_of_this_machine(tmp_path: Path) -> None:
    class Far(Storage):
        is_local = False

    far = Far(str(tmp_path))
    assert far.write("a/b", lambda out: out.write(b"one")) == 3
    assert far.publish("a/c", b"two")
    assert not far.publish("a/c", b"three")
    assert far.read("a/c") == b"two"
    with far.open("a/b") as source:
        assert source.read() == b"one"
    far.replace("a/c", b"four")
    assert list(far.list("a")) == [("a/b", 3), ("a/c", 4)]
    far.remove("a/c")
    far.remove("a/c")
    assert not far.exists("a/c")


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
        "readings": 1,
        "late": 1,
        "bad": 0,
        "time": (START + 6) * 1_000_000,
        "lag": pytest.approx(time.time() - START, rel=0.01),
    }
    assert status["deltas"] == 1
    assert status["sizes"]["state"] > 0
    text = prometheus(status)
    assert 'place_late_total{stream="Cars"} 1\n' in text
    assert "# TYPE place_tick counter\nplace_tick 4\n" in text
    assert main(["status", "--home", str(home)]) == 0
    assert "Cars" in capsys.readouterr().out
    assert main(["changes", "--home", str(home), "--query", "near"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["row"] == [1, "a"]
    assert main(["status", "--home", str(tmp_path)]) == 1
    assert "not a home directory" in capsys.readouterr().err


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
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0].total() > 50


def test_messages_of_a_topic_by_their_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but Kafka itself: rows as its connector gives them, from files."""
    spark = start_session("local[2]")
    (tmp_path / "in").mkdir()
    texts, partitions = [], []
    for partition in range(2):
        for second in range(1, 6):
            row = {"id": partition, "x": second, "y": 1, "ts": place_time((START + second) * 10**6)}
            texts.append(json.dumps(row))
            partitions.append(partition)
    texts.append("no reading")
    partitions.append(1)
    stamps = [START * 10**6] * len(texts)
    table = pa.table(
        {
            "value": pa.array([text.encode() for text in texts], pa.binary()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(range(len(texts)), pa.int64()),
            "timestamp": pa.array(stamps, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, tmp_path / "in" / "1.parquet")
    schema = "value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    monkeypatch.setattr(Sources, "_kafka", lambda self, source: frame)
    with opened(tmp_path / "home") as session:
        source = "FROM KAFKA (servers = 'nowhere:1', topic = 'cars', format = 'json')"
        session.sql(
            f"CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP) {source}"
        )
        session.sql("REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 3, 3)")
        session.drain()
        counts = runtime_of(session).statistics("Cars")
        assert (counts["readings"], counts["late"], counts["bad"]) == (10, 0, 1)
        assert session.answer("near") == []
        assert len(list(session.resume())) == 4
