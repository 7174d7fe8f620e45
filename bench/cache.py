"""`place bench cache`: what a smaller cache around the regions keeps, and what it misses.

The same readings go to a stream that keeps all objects and to streams that keep only those near a
query (GPAC, section 3.3). Rows of the exact answer that the cache does not have are missed at that
instant; those that come at a later one are late.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import place
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import Session

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Setting:
    """Objects that wander in the unit square, and the queries that some of them lead."""

    objects: int
    queries: int
    side: float
    speed: float
    seconds: int
    seed: int


@dataclass(frozen=True)
class Figures:
    """`rows` are rows of exact answers over all instants; shares are of those, and of objects."""

    cache: float
    kept: float
    rows: int
    missed: int
    late: int
    missed_share: float


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the benchmark to the command line."""
    parser = commands.add_parser(
        "cache",
        help="what retain = 'cache' keeps and what it misses, by the size of the cache",
        description="Objects wander, each reports once a second at its own moment, and some lead a"
        " moving square. Compares retain = 'cache' with retain = 'all' at every instant.",
    )
    parser.add_argument("--objects", type=int, default=400)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--side", type=float, default=0.1, help="side of the queries")
    parser.add_argument("--speed", type=float, default=0.05, help="the largest speed, per second")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.set_defaults(run=run)


def readings(setting: Setting) -> Iterator[tuple[int, list[tuple[int, float, float]]]]:
    """The readings of each instant: an object reports every second, at its own tenth of it."""
    chance = np.random.default_rng(setting.seed)
    places = chance.random((setting.objects, 2))
    turns = chance.uniform(0, 2 * np.pi, setting.objects)
    phase = chance.integers(0, 10, setting.objects)
    for tenth in range(setting.seconds * 10):
        mine = np.flatnonzero(phase == tenth % 10)
        turns[mine] += chance.normal(0, 0.5, len(mine))
        way = setting.speed * chance.uniform(0.2, 1.0, len(mine))
        steps = np.stack([np.cos(turns[mine]) * way, np.sin(turns[mine]) * way], axis=1)
        places[mine] = np.clip(places[mine] + steps, 0, 1)
        rows = [(int(i), float(places[i, 0]), float(places[i, 1])) for i in mine]
        yield (tenth + 1) * SECOND // 10, rows


def open_session(setting: Setting, cache: float | None) -> Session:
    """A session whose stream keeps all objects, or a share of the cache."""
    session = place.connect(runtime="local")
    options = ""
    if cache is not None:
        options = (
            f" WITH (retain = 'cache', max_speed = {setting.speed}, report_every = '1 second',"
            f" cache = {cache})"
        )
    session.sql(f"CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE){options}")
    for number in range(setting.queries):
        area = f"INSIDE ('M', {number}, {setting.side}, {setting.side})"
        session.sql(f"REGISTER QUERY q{number} AS SELECT id FROM Objects {area}")
    return session


def answers(session: Session, setting: Setting) -> set[tuple[int, int]]:
    """All rows that all queries hold now."""
    return {(q, int(row[0])) for q in range(setting.queries) for row in session.answer(f"q{q}")}


def kept(session: Session) -> int:
    """How many objects the runtime keeps."""
    runtime = session.runtime
    assert isinstance(runtime, LocalRuntime)
    return runtime.statistics("Objects")["objects"]


def measure(setting: Setting, cache: float) -> Figures:
    """Compare a cache with keeping all, at every instant once everybody has reported."""
    exact, cached = open_session(setting, None), open_session(setting, cache)
    rows = missed = late = 0
    shares = []
    waiting: set[tuple[int, int]] = set()
    for instant, told in track(list(readings(setting)), f"cache {cache:.2f}", transient=True):
        for session in (exact, cached):
            session.push("Objects", told, time=instant)
        if (
            instant <= 2 * SECOND
        ):  # until then somebody has not reported since the queries have a place
            continue
        right, ours = answers(exact, setting), answers(cached, setting)
        rows += len(right)
        missed += len(right - ours)
        late += len(waiting & right & ours)
        waiting = (waiting & right - ours) | (right - ours)
        shares.append(kept(cached) / max(kept(exact), 1))
    return Figures(cache, float(np.mean(shares)), rows, missed, late, missed / max(rows, 1))


def run(arguments: argparse.Namespace) -> int:
    """Measure all sizes of the cache, and show them in one table."""
    setting = Setting(
        arguments.objects,
        arguments.queries,
        arguments.side,
        arguments.speed,
        arguments.seconds,
        arguments.seed,
    )
    found = [measure(setting, share) for share in SHARES]
    table = Table("cache", "objects kept", "rows", "missed", "late", "missed share", box=None)
    for figures in found:
        table.add_row(
            f"{figures.cache:.2f}",
            f"{figures.kept:.1%}",
            f"{figures.rows:,}",
            f"{figures.missed:,}",
            f"{figures.late:,}",
            f"{figures.missed_share:.3%}",
        )
    Console().print(table)
    if arguments.json is not None:
        record = {**asdict(setting), "caches": [asdict(figures) for figures in found]}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0
