"""A broker of MQTT: mosquitto on loopback, with its data in a directory of the test.

if reason := unavailable():
    pytest.skip(reason)
with broker(tmp_path) as running:
    running.publish("cars/1", {"id": 1, "x": 1})
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.harness import LOOPBACK, free_port

PATIENCE = 30.0


def _binary() -> str | None:
    return shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")


def unavailable() -> str | None:
    """Why there is no broker here; None if there is one."""
    return None if _binary() else "mosquitto is not installed"


@dataclass
class Broker:
    """A broker that runs, and can be stopped and started again."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def options(self) -> str:
        return f"host = '{LOOPBACK}', port = {self.port}"

    def start(self) -> None:
        settings = self.directory / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} {LOOPBACK}\nallow_anonymous true\nuser root\n"
            f"persistence true\npersistence_location {self.directory}/\n"
            "max_queued_messages 0\nautosave_interval 1\nlog_type all\n"
        )
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [str(_binary()), "-c", str(settings)], stdout=log, stderr=log
        )
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((LOOPBACK, self.port), 1).close()
                return
            assert time.monotonic() < until, (self.directory / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop after what it has to keep is written."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)
            self.process = None

    def subscribed(self) -> list[str]:
        """The subscriptions of ours so far, as the log tells: what is sent before is nobody's."""
        log = (self.directory / "log").read_text("utf-8", "replace")
        return [line for line in log.splitlines() if "Sending SUBACK to place-" in line]

    def client(self, name: str, *, lasts: bool = False) -> mqtt.Client:
        """A client that is connected; one that lasts has a session that the broker keeps."""
        made = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=not lasts)
        made.connect(LOOPBACK, self.port)
        made.loop_start()
        return made

    def publish(self, *messages: tuple[str, Any], retain: bool = False) -> None:
        """Publish messages with QoS 1; the broker has all of them when this returns."""
        client = self.client("")
        for topic, payload in messages:
            body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            sent = client.publish(topic, body, qos=1, retain=retain)
        sent.wait_for_publish(PATIENCE)
        assert sent.is_published()
        client.disconnect()
        client.loop_stop()


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    running = Broker(directory, free_port())
    running.start()
    try:
        yield running
    finally:
        running.stop()
