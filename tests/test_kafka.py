"""A real Kafka: readings from a topic, deltas to another, killed and started again in between."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.kafka import CONNECTOR, broker, unavailable

SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  FROM KAFKA (servers = '{servers}', topic = 'readings', format = 'json')
  WITH (lateness = '10 seconds');
REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5, 5);
CREATE SINK out FOR near TO KAFKA (servers = '{servers}', topic = 'deltas');
"""


def start(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "place.cli", "run", "--kafka", "--master", "local[2]"),
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


def test_readings_from_a_topic_and_deltas_to_another(tmp_path: Path) -> None:
    for packages in ((), (CONNECTOR,)):
        try:
            reason = unavailable(*packages)
        except Exception as error:  # whatever keeps a machine from asking for packages
            reason = f"packages cannot be asked for: {error}"
        if reason:
            pytest.skip(reason)
    home = tmp_path / "home"
    with broker(directory=tmp_path) as kafka:
        kafka.create_topic("readings", 2)
        kafka.create_topic("deltas", 1)
        (tmp_path / "setup.sql").write_text(SETUP.format(servers=kafka.servers), "utf-8")
        expected: Counter[tuple[int, int]] = Counter()
        process = start(home)
        for part in range(3):
            rows = []
            for second in range(part * 10, part * 10 + 10):
                for car in range(20):
                    inside = (car + second // 5) % 2
                    rows.append(message(car, 1.0 if inside else 9.0, second))
            kafka.produce("readings", [*rows, ("x", "this is no reading")])
            time.sleep(6)
            process.kill()
            process.communicate(timeout=60)
            process = start(home)
        deadline = time.monotonic() + 60
        found: dict[tuple[int, int], dict[str, object]] = {}
        while time.monotonic() < deadline and len(found) < 60:
            for _, _, _, value in kafka.consume("deltas", timeout=5):
                delta = json.loads(value or "{}")
                found[delta["tick"], delta["position"]] = delta
        process.terminate()
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
    for second in range(0, 20, 5):  # the last ten seconds are within the lateness
        for car in range(20):
            inside = (car + second // 5) % 2
            if second == 0 and not inside:
                continue
            expected[car, 1 if inside else -1] += 1
    got: Counter[tuple[int, int]] = Counter(
        (json.loads(str(delta["row"]))[0], int(str(delta["sign"]))) for delta in found.values()
    )
    assert got == expected
