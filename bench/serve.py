"""`place bench serve`: readings through HTTP into many queries, with many subscribers.

A server of its own gets readings at a given rate; each subscriber keeps the answer of a query from
the deltas that it gets over its WebSocket. A reading's time is when it was posted, so a delta's
instant tells how long it took to arrive. In the end every answer has to be the server's own.
"""

from __future__ import annotations

import asyncio
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import websockets.asyncio.client
import websockets.exceptions
from rich.console import Console

from bench.world import calibrate
from place.errors import ConfigurationError, InternalError
from place.model.time import SECOND, format_timestamp, parse_timestamp

ARROW = "application/vnd.apache.arrow.stream"
PERIOD = 0.1
"""Seconds between posts."""
TOGETHER = 1000
"""Queries that are registered with one request."""
AT_ONCE = 100
"""WebSockets that are opened together."""
WAIT = 120.0
INITIAL = 1 << 52


@dataclass(frozen=True)
class Setting:
    """How much of everything. Queries are squares of this side in the unit square."""

    subscribers: int = 500
    rate: int = 20_000
    seconds: int = 60
    queries: int = 10_000
    objects: int = 10_000
    side: float = 0.01


@dataclass(frozen=True)
class Figures:
    """What was measured; milliseconds are from the post to the subscriber, MiB of all processes."""

    subscribers: int
    queries: int
    objects: int
    readings: int
    readings_per_s: float
    refused_for_a_while: int
    ticks: int
    seconds_a_tick: float
    deltas: int
    delivered: int
    post_p50_ms: float
    p50_ms: float
    p99_ms: float
    start_mib: float
    end_mib: float
    server_start_mib: float
    server_end_mib: float
    register_s: float
    connect_s: float
    calibration_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def measure(setting: Setting, console: Console) -> Figures:
    """Run a server and its load, and check that every subscriber has the server's answer."""
    with (
        tempfile.TemporaryDirectory(prefix="place-bench-") as directory,
        running_server(directory) as (url, process),
        httpx.Client(base_url=url, timeout=WAIT) as client,
    ):
        return _measure(setting, client, url, process, console)


def _measure(
    setting: Setting, client: httpx.Client, url: str, process: int, console: Console
) -> Figures:
    calibration, world = calibrate(), World(setting)
    console.print(f"{setting.queries:,} queries are registered …")
    began = time.perf_counter()
    _register(client, world)
    registering = time.perf_counter() - began
    _post(client, world.table(), _now())
    watched = [f"q{i * setting.queries // setting.subscribers}" for i in range(setting.subscribers)]
    console.print(f"{setting.subscribers:,} subscribers connect …")
    _settled(client)
    began = time.perf_counter()
    with _listening(url, watched) as listeners:
        connecting = time.perf_counter() - began
        _settled(client)
        before = memory(process)
        ticks, began = _ticks(client), time.perf_counter()
        console.print(f"{setting.rate:,} readings a second for {setting.seconds} seconds …")
        sent = _send(client, world, setting)
        elapsed = time.perf_counter() - began
        _settled(client)
        took = time.perf_counter() - began
        ticks = _ticks(client) - ticks
        after = memory(process)
        heard = listeners.finish()
    _compare(url, watched, heard.answers)
    found = client.get("/streams").json()[0]
    if found["late"] or found["bad"]:
        raise InternalError(f"{found['late']} readings were late, {found['bad']} bad")
    delays = np.array(heard.delays or [0.0]) * 1000
    return Figures(
        subscribers=setting.subscribers,
        queries=setting.queries,
        objects=setting.objects,
        readings=sent.readings,
        readings_per_s=round(sent.readings / elapsed, 1),
        refused_for_a_while=sent.refused,
        ticks=ticks,
        seconds_a_tick=round(took / max(1, ticks), 3),
        deltas=_metric(client, "place_deltas_total"),
        delivered=len(heard.delays),
        post_p50_ms=round(float(np.median(sent.posts)) * 1000, 1),
        p50_ms=round(float(np.percentile(delays, 50)), 1),
        p99_ms=round(float(np.percentile(delays, 99)), 1),
        start_mib=before[0],
        end_mib=after[0],
        server_start_mib=before[1],
        server_end_mib=after[1],
        register_s=round(registering, 2),
        connect_s=round(connecting, 2),
        calibration_s=calibration,
    )


# The server


@contextmanager
def running_server(directory: str) -> Iterator[tuple[str, int]]:
    """`place serve` as a process of its own; its address and its number."""
    with (Path(directory) / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "place.cli", "serve", "--home", f"{directory}/home"),
                *("--port", "0", "--idle", "0s"),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("place serve: http"):
            said = (Path(directory) / "log").read_text("utf-8")[-2000:]
            raise ConfigurationError(f"the server did not start: {line}{said}")
        yield line.split()[2].rstrip(","), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def memory(process: int) -> tuple[float, float]:
    """MiB that a process and all below it hold, and that the process itself holds."""
    below: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            below.setdefault(int(fields[1]), []).append(int(entry.name))
            sizes[int(entry.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    total, rest = 0, [process]
    while rest:
        one = rest.pop()
        total += sizes.get(one, 0)
        rest += below.get(one, [])
    return round(total / (1 << 20), 1), round(sizes.get(process, 0) / (1 << 20), 1)


def _metric(client: httpx.Client, name: str) -> int:
    for line in client.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return int(float(line.split()[1]))
    raise InternalError(f"the server has no figure {name}")


def _ticks(client: httpx.Client) -> int:
    return int(client.get("/health").json()["tick"])


def _settled(client: httpx.Client) -> None:
    """Wait until all that was sent is in a tick, and given out."""
    deadline = time.monotonic() + WAIT
    quiet = 0
    while quiet < 3:
        waits = _metric(client, "place_waiting_readings") + _metric(client, "place_behind_ticks")
        quiet = quiet + 1 if not waits else 0
        if time.monotonic() > deadline:
            raise InternalError(f"{waits} readings or ticks still wait after {WAIT:g} seconds")
        time.sleep(0.3)


# What is sent


class World:
    """Objects that walk in the unit square, a part of them in each step, one after the other."""

    def __init__(self, setting: Setting) -> None:
        self._chance = np.random.default_rng(7)
        self._side = setting.side
        self._objects = setting.objects
        self._places = self._chance.random((setting.objects, 2))
        self._next = 0
        corners = self._chance.random((setting.queries, 2)) * (1 - setting.side)
        self.regions = np.column_stack([corners, corners + setting.side]).tolist()

    def table(self, count: int | None = None) -> pa.Table:
        """The next readings, without a time; all objects without a count."""
        chosen = (self._next + np.arange(count or self._objects)) % self._objects
        self._next = int(chosen[-1] + 1) % self._objects
        steps = self._chance.normal(0, self._side / 4, (len(chosen), 2))
        self._places[chosen] = np.clip(self._places[chosen] + steps, 0, 1)
        here = self._places[chosen]
        return pa.table({"id": chosen, "x": here[:, 0], "y": here[:, 1]})


def _register(client: httpx.Client, world: World) -> None:
    stream = "CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
    _sql(client, stream)
    texts = [
        f"REGISTER QUERY q{i} AS SELECT id FROM Objects INSIDE ({', '.join(map(str, corners))})"
        for i, corners in enumerate(world.regions)
    ]
    for start in range(0, len(texts), TOGETHER):
        _sql(client, ";\n".join(texts[start : start + TOGETHER]))


def _sql(client: httpx.Client, text: str) -> None:
    reply = client.post("/sql", json={"sql": text})
    if not reply.is_success:
        raise InternalError(f"the server refused a statement: {reply.text[:500]}")


def _now() -> int:
    return int(time.time() * SECOND)


def _post(client: httpx.Client, table: pa.Table, moment: int) -> int:
    """Post readings of one time; how often they were refused for a while."""
    times = pa.array(np.full(table.num_rows, moment), pa.int64())
    told = table.append_column("ts", times.cast(pa.timestamp("us")))
    out = io.BytesIO()
    with pa.ipc.new_stream(out, told.schema) as writer:
        writer.write_table(told)
    refused = 0
    while True:
        reply = client.post(
            "/streams/Objects/readings",
            content=out.getvalue(),
            params={"time": format_timestamp(moment)},
            headers={"Content-Type": ARROW},
        )
        if reply.status_code != 429:
            break
        refused += 1
        time.sleep(float(reply.headers["Retry-After"]))
    if not reply.is_success or reply.json()["taken"] != table.num_rows:
        raise InternalError(f"readings were not taken: {reply.text[:500]}")
    return refused


@dataclass
class Sent:
    """What was sent."""

    readings: int
    refused: int
    posts: list[float]


def _send(client: httpx.Client, world: World, setting: Setting) -> Sent:
    """Post all readings that are due, every so often; after a slow post there are more of them."""
    sent = Sent(0, 0, [])
    began = time.monotonic()
    moment = 0
    while sent.readings < setting.rate * setting.seconds:
        time.sleep(PERIOD - (time.monotonic() - began) % PERIOD)
        due = min(time.monotonic() - began, setting.seconds) * setting.rate
        count = max(1, round(due) - sent.readings)
        table = world.table(count)
        moment = max(moment + 1, _now())
        start = time.perf_counter()
        sent.refused += _post(client, table, moment)
        sent.posts.append(time.perf_counter() - start)
        sent.readings += count
    return sent


# Who listens


@dataclass
class Heard:
    """The answers that subscribers have built up, and the seconds that deltas took."""

    answers: dict[str, list[tuple[list[Any], int]]]
    delays: list[float]


class Listeners:
    """A process with all subscribers."""

    def __init__(self, url: str, queries: Sequence[str]) -> None:
        self._pipe, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_listen_all, args=(url, list(queries), theirs), daemon=True
        )
        self._process.start()
        self._expect("ready")

    def _expect(self, what: str) -> Any:
        if not self._pipe.poll(WAIT):
            raise InternalError("the subscribers do not answer")
        kind, value = self._pipe.recv()
        if kind != what:
            raise InternalError(f"a subscriber failed: {value}")
        return value

    def finish(self) -> Heard:
        """Let them leave; what they have heard."""
        self._pipe.send("stop")
        heard = self._expect("heard")
        assert isinstance(heard, Heard)
        return heard

    def close(self) -> None:
        self._process.terminate()
        self._process.join(10)


@contextmanager
def _listening(url: str, queries: Sequence[str]) -> Iterator[Listeners]:
    listeners = Listeners(url, queries)
    try:
        yield listeners
    finally:
        listeners.close()


def _listen_all(url: str, queries: list[str], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_subscribe(url, queries, pipe))
    except BaseException as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))


async def _subscribe(url: str, queries: list[str], pipe: Connection) -> None:
    delays: list[float] = []
    loop = asyncio.get_running_loop()
    address = url.replace("http", "ws", 1)

    async def connect(query: str) -> Any:
        async with gate:
            return await websockets.asyncio.client.connect(
                f"{address}/queries/{query}/updates",
                compression=None,
                max_size=None,
                open_timeout=WAIT,
            )

    gate = asyncio.Semaphore(AT_ONCE)
    sockets = await asyncio.gather(*map(connect, queries))
    views = [Subscribed(query) for query in queries]
    tasks = [
        asyncio.create_task(view.listen(socket, delays))
        for view, socket in zip(views, sockets, strict=True)
    ]
    pipe.send(("ready", None))
    asked = loop.run_in_executor(None, pipe.recv)
    done, _ = await asyncio.wait({asked, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    if asked not in done:
        raise InternalError("a subscriber was dropped")
    for socket in sockets:
        await socket.close()
    await asyncio.gather(*tasks)
    answers = {
        view.query: [(list(row), count) for row, count in view.rows.items() if count]
        for view in views
    }
    pipe.send(("heard", Heard(answers, delays)))


class Subscribed:
    """One subscriber: its answer, from deltas whose ids only grow."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self._last = (0, -1)

    async def listen(self, socket: Any, delays: list[float]) -> None:
        try:
            async for text in socket:
                now = time.time()
                said = json.loads(text)
                if isinstance(said, dict):
                    raise InternalError(f"{self.query}: {said['error']['message']}")
                for delta in said:
                    self._take(delta, now, delays)
        except websockets.exceptions.ConnectionClosed:
            return

    def _take(self, delta: dict[str, Any], now: float, delays: list[float]) -> None:
        tick, _, position = delta["id"].partition("-")
        number = int(tick), int(position)
        if number <= self._last:
            raise InternalError(f"{self.query}: {number} came after {self._last}")
        self._last = number
        row = tuple(delta["row"])
        self.rows[row] += delta["sign"]
        if self.rows[row] not in (0, 1):
            raise InternalError(f"{self.query}: {row} is there {self.rows[row]} times")
        if number[1] < INITIAL:
            delays.append(now - parse_timestamp(delta["instant"]) / SECOND)


def _compare(
    url: str, queries: Sequence[str], answers: dict[str, list[tuple[list[Any], int]]]
) -> None:
    """Nobody watches any more, so these answers come from the state, not from deltas."""

    def ask(query: str) -> tuple[str, list[list[Any]]]:
        reply = httpx.get(f"{url}/queries/{query}/answer", timeout=WAIT)
        return query, reply.json()["rows"]

    with ThreadPoolExecutor(32) as pool:
        for query, rows in pool.map(ask, dict.fromkeys(queries)):
            mine = sorted(row for row, count in answers[query] for _ in range(count))
            if mine != sorted(rows):
                raise InternalError(f"{query}: a subscriber has {mine}, the server {rows}")
