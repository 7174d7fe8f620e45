"""Sources of the pipeline on Spark: files, DataFrames, messages, and rows that are wrong."""

import json
import random
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from place.errors import ConfigurationError
from place.operate.aside import SetAside
from place.runtime.spark.session import start_session
from place.runtime.spark.sources import Sources
from tests.harness.pipeline import (
    CARS,
    NEAR,
    START,
    opened,
    reading,
    runtime_of,
    write_csv,
    written,
)

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


def test_a_source_goes_on_where_it_was_when_its_stream_is_altered(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    with opened(tmp_path / "home") as session:
        session.sql(f"{CARS} FROM FILES ('{incoming}', format = 'csv')")
        session.sql("REGISTER QUERY seen AS SELECT id FROM Cars WINDOW 1 HOUR")
        write_csv(incoming / "1.csv", [reading(1, 1, 1, 1), reading(2, 9, 9, 9)])
        session.drain()
        session.sql("ALTER STREAM Cars SET (lateness = '5 seconds')")
        write_csv(incoming / "2.csv", [reading(3, 1, 1, 20), reading(4, 1, 1, 16)])
        session.drain()
    with opened(tmp_path / "home") as session:
        write_csv(incoming / "3.csv", [reading(5, 1, 1, 40)])
        session.drain()
        counts = session.runtime.statistics("Cars")
        assert (counts["readings"], counts["late"]) == (5, 0)


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
                    json.dumps(dict(zip(names, (*r[:3], written(r[3]), r[4]), strict=True)))
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


def test_messages_of_a_topic_by_their_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but Kafka itself: rows as its connector gives them, from files."""
    spark = start_session("local[2]")
    (tmp_path / "in").mkdir()
    texts, partitions = [], []
    for partition in range(2):
        for second in range(1, 6):
            row = {"id": partition, "x": second, "y": 1, "ts": written((START + second) * 10**6)}
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
    monkeypatch.setattr(Sources, "_kafka", lambda self, *_: frame)
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


def test_fifty_thousand_readings_of_which_some_are_broken_in_twelve_ways(tmp_path: Path) -> None:
    chance = random.Random(3)
    good = bad = 0
    ways: Counter[str] = Counter()
    (tmp_path / "in").mkdir()
    for number in range(5):
        lines = ["id,x,y,ts,kind,op"]
        for i in range(10_000):
            ts = written((START + number * 100) * 1_000_000 + i * 1000)
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


def test_a_run_that_takes_nothing_says_why(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    ahead = "2150-01-01 00:00:00"
    (incoming / "1.csv").write_text(f"id,x,y,ts,kind\n1,1,1,{ahead},a\n2,1,1,soon,a\n")
    with opened(tmp_path / "home") as session:
        runtime = runtime_of(session)
        session.sql(f"{CARS} FROM FILES ('{incoming}')")
        aside = SetAside(runtime)
        session.drain()
        lost = aside.lost()
        assert lost is not None
        count, first = lost
        assert count == 2
        assert str(first).partition("/incoming/")[2] == (
            f'1.csv, line 2: column "ts": {ahead} is too far in the future;'
            " the option max_future of the stream says how far it may be ahead"
        )
        assert runtime.reason("Cars") == str(first)
        aside = SetAside(runtime)
        session.drain()  # nothing new
        assert aside.lost() is None
        write_csv(incoming / "2.csv", [reading(1, 1, 1, 1), reading(2, 1, 1, 0)])
        aside = SetAside(runtime)
        session.drain()  # of which the second is late
        assert aside.lost() is None
