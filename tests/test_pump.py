"""The thread that makes ticks: which clock it goes by, and what it says of a tick that hangs."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from place.server import operate
from place.server.pump import Pump
from tests.harness.server import Running, serving, wait_for


class Idle:
    """A runtime in which nothing waits, and whose ticks may hang."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()

    def pump(self) -> None:
        self.goes_on.wait()

    def tend(self) -> None:
        pass


def test_silence_is_measured_by_a_clock_that_nobody_sets() -> None:
    looks: list[float] = []
    runtime: Any = Idle()
    before = time.monotonic()
    pump = Pump(runtime, looks.append)
    pump.start()
    wait_for(lambda: looks)
    pump.stop()
    assert before <= looks[0] <= time.monotonic()


def test_a_tick_that_hangs_is_told_of() -> None:
    runtime: Any = Idle()
    runtime.goes_on.clear()
    pump = Pump(runtime)
    pump.start()
    wait_for(lambda: pump.busy > 0.05)
    assert pump.failure is None
    runtime.goes_on.set()
    wait_for(lambda: pump.busy == 0)
    pump.stop()


def test_health_says_that_a_tick_hangs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operate, "STALLED", 0.2)

    def status(running: Running) -> tuple[int, str]:
        reply = running.http.get("/health")
        return reply.status_code, reply.json()["status"]

    with serving(tmp_path / "h") as running:
        assert status(running) == (200, "ok")
        with running.session.runtime.pause():  # as a Java process that does not answer
            wait_for(lambda: status(running) == (200, "stalled"))
        wait_for(lambda: status(running) == (200, "ok"))
