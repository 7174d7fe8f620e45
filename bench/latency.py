"""`place bench latency`: how soon a reading is answered, through the whole durable pipeline.

A tick of ten pushed readings stands beside the smallest Spark job, in one process, turn by turn.
Then a server of its own has many fences registered, each a query; a reading is posted over HTTP,
and its delta comes at a WebSocket.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import httpx
import numpy as np
import websockets.sync.client as ws
from rich.console import Console

from bench.serve import WAIT, running_server
from bench.world import calibrate
from place.errors import InternalError
from place.session import connect

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime

STREAM = "CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE)"
QUERY = "REGISTER QUERY {name} AS SELECT id FROM Objects INSIDE ({places})"
READINGS = 10
WARM_UP = 20
SECOND = 1_000_000
TOGETHER = 5_000
"""Fences that are registered with one request."""
SIDE = 0.001


@dataclass(frozen=True)
class Setting:
    """How many fences are registered, and how often a tick, a job and a post are measured."""

    fences: int = 100_000
    times: int = 200


@dataclass(frozen=True)
class Figures:
    """Milliseconds: medians of a tick and of a job, and from a post to its delta."""

    fences: int
    times: int
    tick_ms: float
    job_ms: float
    ratio: float
    """A tick's share of a job."""
    post_to_delta_p50_ms: float
    post_to_delta_p99_ms: float
    calibration_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def measure(setting: Setting, console: Console) -> Figures:
    """Ticks beside jobs, then posts to a server."""
    calibration = calibrate()
    console.print("ticks beside Spark jobs …")
    tick, job = ticks_and_jobs(setting.times)
    console.print(f"a server with {setting.fences:,} fences …")
    delays = np.array(posts(setting))
    return Figures(
        setting.fences,
        setting.times,
        round(tick, 2),
        round(job, 2),
        round(tick / job, 3),
        round(float(np.quantile(delays, 0.5)), 2),
        round(float(np.quantile(delays, 0.99)), 2),
        round(calibration, 3),
    )


def _same(value: int) -> int:
    return value


def ticks_and_jobs(times: int) -> tuple[float, float]:
    """Milliseconds of a tick of ten pushed readings, durable, and of a Spark job of one task."""
    ticks: list[float] = []
    jobs: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="place-bench-") as home,
        connect(home, runtime="spark") as session,
    ):
        session.sql(STREAM)
        session.sql(QUERY.format(name="near", places="0, 0, 5, 5"))
        context = cast("SparkRuntime", session.runtime).spark.sparkContext
        for number in range(WARM_UP + times):
            rows = [(i, (i + number) % READINGS, 1.0) for i in range(READINGS)]
            start = time.perf_counter()
            deltas = session.push("Objects", rows, time=(number + 1) * SECOND)
            between = time.perf_counter()
            context.parallelize([0], 1).map(_same).collect()
            end = time.perf_counter()
            if not deltas:
                raise InternalError(f"tick {number} told nothing")
            ticks.append(1000 * (between - start))
            jobs.append(1000 * (end - between))
    return statistics.median(ticks[WARM_UP:]), statistics.median(jobs[WARM_UP:])


def posts(setting: Setting) -> list[float]:
    """Milliseconds from the post of a reading until its delta has come, one after the other."""
    delays: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="place-bench-") as directory,
        running_server(directory) as (url, _),
        httpx.Client(base_url=url, timeout=WAIT) as client,
    ):
        _register(client, setting.fences)
        address = url.replace("http", "ws", 1) + "/queries/q0/updates"
        with ws.connect(address, max_size=None, compression=None, open_timeout=WAIT) as socket:
            socket.recv(WAIT)  # the answer of now, which is empty
            for number in range(WARM_UP + setting.times):
                is_inside = number % 2 == 0
                start = time.perf_counter()
                _post(client, SIDE / 2 if is_inside else 2.0)
                found = json.loads(socket.recv(WAIT))
                delays.append(1000 * (time.perf_counter() - start))
                signs = [delta["sign"] for delta in found]
                if signs != [1 if is_inside else -1]:
                    raise InternalError(f"post {number} was told as {found}")
                time.sleep(0.005)  # whatever goes on after a tick is not measured
    return delays[WARM_UP:]


def _register(client: httpx.Client, fences: int) -> None:
    """A square for each fence; the first one is where the object goes in and out."""
    corners = np.random.default_rng(3).random((fences, 2))
    corners[0] = 0.0
    _ask(client, "/sql", {"sql": STREAM})
    texts = [
        QUERY.format(name=f"q{i}", places=f"{x:.6f}, {y:.6f}, {x + SIDE:.6f}, {y + SIDE:.6f}")
        for i, (x, y) in enumerate(corners.tolist())
    ]
    for first in range(0, fences, TOGETHER):
        _ask(client, "/sql", {"sql": ";\n".join(texts[first : first + TOGETHER])})


def _post(client: httpx.Client, x: float) -> None:
    _ask(client, "/streams/Objects/readings", [[1, x, SIDE / 2]])


def _ask(client: httpx.Client, path: str, content: Any) -> None:
    reply = client.post(path, json=content)
    if not reply.is_success:
        raise InternalError(f"the server refused {path}: {reply.text[:500]}")
