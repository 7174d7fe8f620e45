"""A pipeline from MQTT to PostgreSQL and MQTT, killed in the middle: nothing is lost."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from place.runtime.durable.crash import FEED, VARIABLE
from tests.harness import mosquitto, postgres
from tests.harness.mosquitto import Broker
from tests.harness.server import wait_for

START = 1_767_225_600  # 2026-01-01
SETUP = """
CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  FROM MQTT ({broker}, topic = 'cars');
REGISTER QUERY near AS SELECT id FROM Cars INSIDE (0, 0, 5, 5);
CREATE SINK board FOR near TO POSTGRES ({database}, table = 'near');
CREATE SINK told FOR near TO MQTT ({broker}, topic = 'out');
"""


class Pipeline:
    """`place run` as a process that dies at a point, and is started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, crash: str | None = None) -> None:
        environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
        if crash is not None:
            environment[VARIABLE] = crash
        with (self.home.parent / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "place.cli", "run", "--master", "local[2]"),
                    *("--setup", str(self.home.parent / "setup.sql"), "--home", str(self.home)),
                    *("--idle", "0s"),
                ],
                stdout=output,
                stderr=output,
                env=environment,
            )

    @property
    def is_dead(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Fleet:
    """Cars that each report once, at the door of the broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.sent = 0

    def report(self, cars: int) -> None:
        rows = [
            {"id": self.sent + i, "x": 1, "y": 1, "ts": START + self.sent + i} for i in range(cars)
        ]
        self.broker.publish(*(("cars", row) for row in rows))
        self.sent += cars


@pytest.mark.long
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    if reason := mosquitto.unavailable() or postgres.unavailable():
        pytest.skip(reason)
    (tmp_path / "broker").mkdir()
    with (
        mosquitto.broker(tmp_path / "broker") as broker,
        postgres.database(tmp_path / "database") as database,
    ):
        setup = SETUP.format(broker=broker.options, database=database.options)
        (tmp_path / "setup.sql").write_text(setup, "utf-8")
        heard: dict[tuple[int, int], Any] = {}
        listener = broker.client("listener", lasts=True)

        def take(_: Any, __: Any, message: Any) -> None:
            delta = json.loads(message.payload)
            heard[delta["tick"], delta["position"]] = delta

        listener.on_message = take
        listener.subscribe("out/#", 1)
        fleet, pipeline = Fleet(broker), Pipeline(tmp_path / "home")
        try:
            for crash in (f"{FEED}:6", "manifest:14", "delivery:22", None):
                pipeline.start(crash)
                wait_for(broker.subscribed)
                until = time.monotonic() + 120
                while not pipeline.is_dead and time.monotonic() < until:
                    fleet.report(5)
                    time.sleep(0.1)
                    if crash is None:
                        break
                assert (crash is None) != pipeline.is_dead
                fleet.report(5)  # while nobody is there
            last = {"id": -1, "x": 99, "y": 99, "ts": START + fleet.sent}
            broker.publish(("cars", last))  # with which all instants before it are complete
            everybody = [(number, 1) for number in range(fleet.sent)]
            query = "SELECT id, place_copies FROM near ORDER BY id"
            wait_for(lambda: database.ask(query) == everybody, 120)
            wait_for(lambda: len(heard) == fleet.sent)
            assert sorted(delta["row"][0] for delta in heard.values()) == list(range(fleet.sent))
            assert {delta["sign"] for delta in heard.values()} == {1}
        finally:
            pipeline.kill()
            listener.disconnect()
            listener.loop_stop()
