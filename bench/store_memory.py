"""What one process of `place bench store` does: readings and queries, and the memory they take."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import place
from place.engine.slices import Segment
from place.model.segment import segment_schema
from place.runtime.local import LocalRuntime
from place.session import Session

SIDE = 1000.0
KINDS = ("bus", "car", "lorry", "tram", "van")
STRIDE = 7919
"""Objects report in the order of multiples of this prime: neighbours in time are none by key."""
OPTIONS = {"all": "", "disk": " WITH (retain = 'cache', store = 'every reading')"}


@dataclass(frozen=True)
class Setting:
    """Objects in a square area; queries reach a share of it. Each tick has so many readings."""

    objects: int
    reach: float
    queries: int
    moving: int
    tick: int
    again: float
    seed: int


@dataclass(frozen=True)
class Figures:
    """What one process needed; memory in MiB. `before` is that of the process without the stream,
    `resident` that at the end, and `peak` the most at any time. `libraries` is the part of
    `resident` that is in files: how much of them the kernel maps depends on how it has read them.
    """

    before: float
    resident: float
    peak: float
    libraries: float
    in_memory: int
    on_disk: int
    seconds: float
    rows: int
    answers: str


def readings(setting: Setting, session: Session) -> Iterator[tuple[str, Segment]]:
    """The ticks: first all objects, then some of them again, a little further on."""
    stream = session.runtime.catalog.streams["objects"]
    schema = segment_schema(stream.columns)
    second = 0
    for part, count in ((0, setting.objects), (1, int(setting.objects * setting.again))):
        for low in range(0, count, setting.tick):
            second += 1
            names = np.arange(low, min(low + setting.tick, count))
            chance = np.random.default_rng([setting.seed, low])
            places = chance.uniform(0, SIDE, (len(names), 2))
            speeds = chance.uniform(0, 30, len(names))
            kinds = chance.integers(0, len(KINDS), len(names))
            if part:
                places += np.random.default_rng([setting.seed, low, part]).normal(
                    0, SIDE / 50, places.shape
                )
            columns = [
                pa.array(names * STRIDE % setting.objects),
                pa.array(places[:, 0]),
                pa.array(places[:, 1]),
                pa.array(speeds),
                pa.array(KINDS).take(pa.array(kinds)),
                pa.array(np.full(len(names), second * 1_000_000)),
                pa.array(np.zeros(len(names), np.bool_)),
            ]
            yield (
                "again" if part else "first",
                Segment(stream.name, pa.Table.from_arrays(columns, schema=schema)),
            )


def queries(setting: Setting) -> Iterator[tuple[str, str]]:
    """The queries by name: squares on a lattice, and squares around objects."""
    across = int(np.ceil(np.sqrt(setting.queries)))
    side = SIDE * np.sqrt(setting.reach / max(1, setting.queries))
    for number in range(setting.queries):
        x, y = (SIDE * (cell + 0.5) / across for cell in divmod(number, across))
        box = f"{x - side / 2}, {y - side / 2}, {x + side / 2}, {y + side / 2}"
        yield f"s{number}", f"SELECT id, speed, kind FROM Objects INSIDE ({box})"
    for number in range(setting.moving):
        yield f"m{number}", f"SELECT id FROM Objects INSIDE ('M', {number}, {side}, {side})"


def memory() -> dict[str, float]:
    """The resident memory of this process, the most that it was, and what is in files; in MiB."""
    with open("/proc/self/status", encoding="utf-8") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {name: int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM", "RssFile")}


def measure(setting: Setting, mode: str) -> Figures:
    """Run all readings and queries in this process."""
    session = place.connect(runtime="local")
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    columns = "id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, kind STRING"
    warm_up(columns)
    session.sql(f"CREATE STREAM Objects ({columns}){OPTIONS[mode]}")
    before = memory()["VmRSS"]
    began = time.perf_counter()
    asked = list(queries(setting))
    for name, text in asked[::2]:
        session.sql(f"REGISTER QUERY {name} AS {text}")
    is_first = True
    for part, segment in readings(setting, session):
        if is_first and part == "again":
            is_first = False
            for name, text in asked[1::2]:
                session.sql(f"REGISTER QUERY {name} AS {text}")
        runtime.take([segment])
    seconds = time.perf_counter() - began
    rows, check = 0, hashlib.sha256()
    for name, _ in asked:
        found = session.answer(name)
        rows += len(found)
        check.update(repr((name, sorted(found))).encode())
    counts, now = runtime.statistics("Objects"), memory()
    return Figures(
        before,
        now["VmRSS"],
        now["VmHWM"],
        now["RssFile"],
        counts["objects"] - counts["on_disk"],
        counts["on_disk"],
        seconds,
        rows,
        check.hexdigest()[:16],
    )


def warm_up(columns: str) -> None:
    """Load what is compiled before memory is measured."""
    session = place.connect(runtime="local")
    session.sql(f"CREATE STREAM Objects ({columns}){OPTIONS['disk']}")
    session.sql("REGISTER QUERY a AS SELECT id FROM Objects INSIDE (0, 0, 9, 9)")
    session.sql("REGISTER QUERY b AS SELECT id FROM Objects INSIDE ('M', 1, 9, 9)")
    for second in (1, 2):
        session.push("Objects", [(i, i, i, 1.0, "bus") for i in range(99)], time=second * 1_000_000)
    session.close()
