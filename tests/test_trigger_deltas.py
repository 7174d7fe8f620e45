"""Alerts are deltas: subscriptions, sinks, changelogs and replays take them as any other."""

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import place
from place.cli import main
from place.errors import ConfigurationError
from tests.harness.pipeline import START, opened, reading, runtime_of
from tests.harness.receiver import Receiver

CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, kind STRING)"
CLOSE = """CREATE TRIGGER close FOR Cars AS V[2]
  WHEN DISTANCE(V, V) <= 1 AND SPAN(V) <= '10 seconds' AND V.id <> V.id"""
SECOND = 1_000_000


def told(deltas: Any) -> list[tuple[int, int, int]]:
    """The signs of alerts, and the keys of the two readings."""
    return [(delta.sign, delta.row[0], delta.row[2]) for delta in deltas]


def sent(receiver: Receiver) -> list[dict[str, Any]]:
    """What a sink has sent, a line for each delta."""
    return [json.loads(line) for _, body in receiver.got for line in body.splitlines()]


@pytest.mark.parametrize("runtime", ["reference", "local"])
def test_a_session_tells_alerts(runtime: str) -> None:
    with place.connect(runtime=runtime) as session:
        session.sql(CARS)
        assert session.sql(CLOSE).message == 'trigger "close" created'
        alerts = session.subscribe("close")
        session.push("Cars", [reading(1, 1, 1, 1), reading(2, 1, 1, 2)])
        pushed = session.push("Cars", [], time=(START + 3) * SECOND)
        assert told(alerts) == [(1, 1, 2)]
        assert [delta.query for delta in pushed] == ["close"]
        assert list(session.answer("close")) == []
        assert list(session.subscribe("close")) == [], "what was told is not told again"
        result = session.sql("SHOW TRIGGERS")
        assert result.rows[0][:2] == ("close", "V[1], V[2]")
        told_of = [row[0] for row in session.sql("EXPLAIN ANALYZE TRIGGER close").rows]
        assert any("1 alert" in line for line in told_of)
        session.sql("DROP TRIGGER close")
        with pytest.raises(ConfigurationError, match='trigger "close" was dropped'):
            alerts.next()


def test_sinks_take_alerts_and_they_can_be_resumed_after(tmp_path: Path) -> None:
    receiver = Receiver()
    with opened(tmp_path / "home") as session:
        session.sql(CARS)
        session.sql(CLOSE)
        session.sql(f"CREATE SINK kept FOR close TO PARQUET ('{tmp_path}/kept')")
        session.sql(f"CREATE SINK sent FOR close TO WEBHOOK (url = '{receiver.url}')")
        session.push("Cars", [reading(1, 1, 1, 1), reading(2, 1, 1, 2)], time=(START + 3) * SECOND)
        (first,) = session.resume()
        runtime_of(session).deliveries.settle()
        assert len(sent(receiver)) == 1
    with opened(tmp_path / "home") as session:
        session.push("Cars", [reading(3, 1, 1, 5)], time=(START + 6) * SECOND)
        later = [each.delta for each in session.resume((first.tick, first.position))]
        assert sorted(told(later)) == [(1, 1, 3), (1, 2, 3)], "readings are kept across a restart"
        assert list(session.answer("close")) == []
        runtime_of(session).deliveries.settle()
    receiver.close()
    assert [delta["sign"] for delta in sent(receiver)] == [1, 1, 1]
    found = pyarrow.dataset.dataset(tmp_path / "kept", partitioning="hive").to_table().to_pylist()
    assert sorted(json.loads(row["row"])[::2] for row in found) == [[1, 2], [1, 3], [2, 3]]
    assert {(row["query"], row["sign"]) for row in found} == {("close", 1)}


@pytest.mark.parametrize("runtime", ["reference", "local"])
def test_a_replay_has_alerts_in_its_changelog(tmp_path: Path, runtime: str) -> None:
    setup, readings, out = (tmp_path / name for name in ("setup.sql", "cars.csv", "out.parquet"))
    setup.write_text(f"{CARS};\n{CLOSE};\n")
    rows = ["id,x,y,ts,kind", "1,1,1,2026-01-01 00:00:01,a", "2,1,1,2026-01-01 00:00:02,a"]
    readings.write_text("\n".join(rows) + "\n")
    asked = ["replay", "--setup", str(setup), "--readings", str(readings), "--out", str(out)]
    assert main([*asked, "--runtime", runtime]) == 0
    (row,) = pq.read_table(out).to_pylist()
    assert (row["sign"], row["V[1].id"], row["V[2].id"]) == (1, 1, 2)
