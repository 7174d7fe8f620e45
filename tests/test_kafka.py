"""A real Kafka: readings from a topic, deltas to another, killed and started again in between."""

import io
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import fastavro
import pytest

from place.errors import ConfigurationError
from place.runtime.durable import tick_pace
from place.runtime.durable.kafka import CLIENT
from place.runtime.spark.kafka_source import KafkaReader, Range, _cut
from place.statements import masked
from tests.harness.kafka import Broker, broker, unavailable
from tests.harness.pipeline import opened, runtime_of

STREAM = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  FROM KAFKA (servers = '{servers}', topic = '{topic}', format = 'json')
  WITH (lateness = '10 seconds');
"""
SETUP = (
    STREAM
    + """
REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5, 5);
CREATE SINK out FOR near TO KAFKA (servers = '{servers}', topic = 'deltas');
"""
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        reason = unavailable()
    except Exception as error:  # whatever keeps a machine from asking for packages
        reason = f"packages cannot be asked for: {error}"
    if reason:
        pytest.skip(reason)
    with broker(directory=tmp_path_factory.mktemp("kafka")) as running:
        yield running


def start(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "place.cli", "run", "--master", "local[2]"),
            *("--setup", str(home.parent / "setup.sql"), "--home", str(home), "--idle", "0s"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ),
    )


def message(car: int, x: float, second: int) -> tuple[str, str]:
    row = {"id": car, "x": x, "y": 1.0, "ts": f"2026-01-01T00:00:{second:02d}"}
    return str(car), json.dumps(row)


@pytest.mark.long
def test_each_delta_is_sent_once_whoever_is_killed(kafka: Broker, tmp_path: Path) -> None:
    kafka.create_topic("readings", 2)
    kafka.create_topic("deltas", 1)
    setup = SETUP.format(servers=kafka.servers, topic="readings")
    (tmp_path / "setup.sql").write_text(setup, "utf-8")
    expected: Counter[tuple[int, int]] = Counter()
    process = start(tmp_path / "home")
    for part in range(3):
        rows = []
        for second in range(part * 10, part * 10 + 10):
            for car in range(20):
                inside = (car + second // 5) % 2
                rows.append(message(car, 1.0 if inside else 9.0, second))
        kafka.produce("readings", [*rows, ("x", "this is no reading")])
        time.sleep(6)
        if part == 1:
            kafka.restart()
        process.kill()
        process.communicate(timeout=60)
        process = start(tmp_path / "home")
    deadline = time.monotonic() + 180  # it ends as soon as all are there
    found: list[dict[str, object]] = []
    while time.monotonic() < deadline and len(found) < 70:
        found = [json.loads(value or "{}") for _, _, _, value in kafka.consume("deltas")]
        time.sleep(0.5)
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    found = [json.loads(value or "{}") for _, _, _, value in kafka.consume("deltas")]
    for second in range(0, 20, 5):  # the last ten seconds are within the lateness
        for car in range(20):
            inside = (car + second // 5) % 2
            if second == 0 and not inside:
                continue
            expected[car, 1 if inside else -1] += 1
    got: Counter[tuple[int, int]] = Counter(
        (json.loads(str(delta["row"]))[0], int(str(delta["sign"]))) for delta in found
    )
    assert got == expected
    ids = [(delta["tick"], delta["position"]) for delta in found]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)  # type: ignore[type-var]


@pytest.mark.long
def test_a_million_readings_with_three_kills(kafka: Broker, tmp_path: Path) -> None:
    """A thousand cars for a thousand seconds, each now inside and now outside."""
    cars, seconds = 1000, 1000
    kafka.create_topic("million", 4)
    kafka.create_topic("deltas-of-a-million", 1)
    setup = SETUP.format(servers=kafka.servers, topic="million")
    setup = setup.replace("'deltas'", "'deltas-of-a-million'")
    (tmp_path / "setup.sql").write_text(setup, "utf-8")
    expected: Counter[tuple[int, int]] = Counter()
    was = [False] * cars

    def rows() -> Iterator[tuple[str, str]]:
        for second in range(seconds):
            for car in range(cars):
                is_inside = (car * 7 + second // (3 + car % 5)) % 3 == 0
                if second < seconds - 20 and is_inside != was[car]:
                    expected[car, 1 if is_inside else -1] += 1
                    was[car] = is_inside
                x = 1.0 if is_inside else 9.0
                row = {"id": car, "x": x, "y": 1.0, "ts": 1_767_225_600 + second}
                yield str(car), json.dumps(row)

    kafka.produce("million", rows())
    process = start(tmp_path / "home")
    began = time.monotonic()
    for _ in range(3):
        time.sleep(12)
        process.kill()
        process.communicate(timeout=60)
        process = start(tmp_path / "home")
    found: list[dict[str, object]] = []
    while time.monotonic() - began < 500 and len(found) < expected.total():
        time.sleep(5)
        messages = kafka.consume("deltas-of-a-million", 120)
        found = [json.loads(value or "{}") for _, _, _, value in messages]
    took = time.monotonic() - began
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    print(f"a million readings with three kills in {took:.0f} s: {1e6 / took:,.0f} a second")
    last = (1_767_225_600 + seconds - 20) * 1_000_000
    counted: Counter[tuple[int, int]] = Counter()
    for delta in found:
        moment = datetime.fromisoformat(str(delta["instant"])).timestamp() * 1e6
        if moment < last:
            counted[json.loads(str(delta["row"]))[0], int(str(delta["sign"]))] += 1
    assert counted == expected
    ids = [(delta["tick"], delta["position"]) for delta in found]
    assert len(set(ids)) == len(ids)


@pytest.mark.long
def test_partitions_come_and_messages_go(kafka: Broker, tmp_path: Path) -> None:
    kafka.create_topic("moves", 1)
    kafka.produce("moves", [message(1, 1.0, 1), message(2, 1.0, 2)], 0)
    kafka.delete_before("moves", 0, 1)  # before anybody has asked for it
    with opened(tmp_path / "home") as session:
        session.sql(STREAM.format(servers=kafka.servers, topic="moves"))
        session.drain()
        assert runtime_of(session).statistics("Cars")["readings"] == 1
        kafka.add_partitions("moves", 2)
        kafka.produce("moves", [message(3, 1.0, 3)], 1)
        kafka.produce("moves", [message(4, 1.0, second) for second in range(4, 8)], 0)
        wait = time.monotonic() + 30
        while runtime_of(session).statistics("Cars")["readings"] < 6 and time.monotonic() < wait:
            session.drain()
        assert runtime_of(session).statistics("Cars")["readings"] == 6
        kafka.produce("moves", [message(5, 1.0, 8), message(5, 1.0, 9)], 0)
        kafka.delete_before("moves", 0, 7)
        with pytest.raises(ConfigurationError, match="has lost messages 6 to 6 of partition 0"):
            session.drain()


@pytest.mark.long
def test_messages_in_avro_are_read_in_the_pace_that_was_asked(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("encoded", 1)
    names = [("id", "long"), ("x", "double"), ("y", "double"), ("ts", "string")]
    schema = {
        "type": "record",
        "name": "Car",
        "fields": [{"name": name, "type": kind} for name, kind in names],
    }
    (tmp_path / "car.avsc").write_text(json.dumps(schema), "utf-8")
    written = []
    for second in range(30):
        out = io.BytesIO(b"\0\0\0\0\1")
        out.seek(5)
        row = {"id": 1, "x": 1.0, "y": 1.0, "ts": f"2026-01-01T00:00:{second:02d}"}
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        written.append((None, out.getvalue()))
    kafka.produce("encoded", [*written, (None, b"\0\0\0\0\1oops")])
    source = STREAM.format(servers=kafka.servers, topic="encoded").replace(
        "format = 'json'",
        f"format = 'avro', schema = '{tmp_path}/car.avsc', framing = 'registry'",
    )
    monkeypatch.setattr(tick_pace, "FIRST_READINGS", 200)
    monkeypatch.setattr(tick_pace, "FEWEST_READINGS", 10)
    with opened(tmp_path / "home", tick=0.05) as session:
        session.sql(source)
        before = runtime_of(session).pipeline.last
        session.drain()
        told = runtime_of(session).statistics("Cars")
        assert (told["readings"], told["bad"]) == (30, 1)
        after = runtime_of(session).pipeline.last
        assert before is not None
        assert after is not None
        assert after.tick - before.tick > 1


def test_what_cannot_be_read_is_said(kafka: Broker, tmp_path: Path) -> None:
    with opened(tmp_path / "home") as session:
        session.sql(STREAM.format(servers=kafka.servers, topic="nowhere"))
        with pytest.raises(ConfigurationError, match="Unknown topic or partition"):
            session.drain()


def test_only_what_was_asked_for_is_read(kafka: Broker) -> None:
    kafka.create_topic("ranges", 1)
    kafka.produce("ranges", [(None, str(number)) for number in range(100)])
    reader = KafkaReader({"bootstrap.servers": kafka.servers}, "ranges", 10)
    assert reader.initialOffset() == {"0": 0}
    batches = reader.read(Range(0, 20, 45))
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert values == [str(number).encode() for number in range(20, 45)]
    assert reader.latestOffset({"0": 20}, reader.getDefaultReadLimit()) == {"0": 30}
    assert [(r.first, r.after) for r in reader.partitions({"0": 20}, {"0": 30})] == [(20, 30)]  # type: ignore[attr-defined]
    reader.stop()


def test_a_batch_takes_the_same_share_of_each_partition() -> None:
    assert _cut({"0": 5, "1": 0}, {"0": 15, "1": 30}, None) == {"0": 15, "1": 30}
    assert _cut({"0": 5, "1": 0}, {"0": 15, "1": 30}, 20) == {"0": 10, "1": 15}
    assert _cut({"0": 0, "1": 0}, {"0": 9, "1": 8}, 1) == {"0": 1, "1": 0}
    assert _cut({"0": 7}, {"0": 3}, 10) == {"0": 7}


def test_passwords_are_not_shown() -> None:
    said = "FROM KAFKA (topic = 'a', password = 'x y', key_password = 'z')"
    assert masked(said) == "FROM KAFKA (topic = 'a', password = '***', key_password = '***')"
    assert {"password", "key_password"} < CLIENT.keys()
