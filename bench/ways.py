"""`place bench ways`: ways and stays on a stream as it is, which is many small instants.

Each kind of query is asked of the same regions and the same readings, in ticks of some size, and
beside it plain INSIDE. The rival of ways knows all readings beforehand and puts the way of each
into one R-tree of Shapely; both have to find the same deltas.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench.figures import number, tell
from bench.rivals import library
from bench.stream import deltas_of
from bench.stream_city import EVERY, VEHICLES, Numbers, Readings, drive, make_shapes, written
from bench.stream_rival import Deltas
from bench.world import Floats, calibrate
from place.engine.changes import Change
from place.engine.slices import Segment
from place.errors import InternalError
from place.model.reading import Advance
from place.model.shape import Polygon, Shape
from place.model.space import Space
from place.model.time import SECOND
from place.runtime.local import LocalRuntime
from place.session import connect

STREAM = (
    "CREATE STREAM Cabs (id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, kind STRING,"
    " ts TIMESTAMP) WITH (motion = TRUE)"
)
AHEAD = 60
"""Seconds that WITHIN NEXT looks ahead."""
CLAUSES = {
    "inside": "INSIDE {area}",
    "path": "PATH INSIDE {area}",
    "crossing": "CROSSING LINE ({line})",
    "next": "INSIDE {area} WITHIN NEXT '" + str(AHEAD) + " seconds'",
    "dwell": "INSIDE {area} FOR '2 minutes'",
    "leave": "INSIDE {area} LEAVE BEYOND 100",
    "confirm": "INSIDE {area} CONFIRM 3 READINGS",
}
"""What is asked of a region: its clause, by the name of the kind."""
WAYS = ("inside", "path", "crossing", "next")
"""The kinds that the rival answers, too."""


@dataclass(frozen=True)
class Setting:
    """So many readings of so many vehicles, in ticks of some readings, against so many queries."""

    readings: int = 100_000
    vehicles: int = 20_000
    queries: int = 300
    tick: int = 1_000


@dataclass(frozen=True)
class Figures:
    """What was measured of one kind. `times_inside` says how many times as long as plain INSIDE it
    takes, `ratio` how many times as fast as the rival it is; 0 where there is no rival."""

    kind: str
    readings: int
    vehicles: int
    queries: int
    ticks: int
    deltas: int
    seconds: float
    readings_per_s: float
    times_inside: float
    baseline_s: float
    ratio: float
    calibration_s: float


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the experiment to `place bench`."""
    parser = benches.add_parser(
        "ways",
        help="PATH INSIDE, CROSSING LINE, WITHIN NEXT and stays on a stream, beside Shapely",
        description="Vehicles drive in a city, and each reports about every 80 seconds. The same "
        "polygons, and a line through each, are asked by INSIDE, PATH INSIDE, CROSSING LINE, "
        "WITHIN NEXT, FOR, LEAVE BEYOND and CONFIRM; readings are pushed in ticks. times_inside is "
        "seconds / the seconds of INSIDE. The rival of the first four knows all readings "
        "beforehand and finds the ways that meet regions by Shapely's STRtree: both have to find "
        "the same deltas. ratio is baseline_s / seconds.",
        epilog="example: place bench ways --kind crossing --queries 3000 --json ways.json",
    )
    default = Setting()
    for name, what in (
        ("readings", "readings"),
        ("vehicles", "vehicles that send them"),
        ("queries", "regions, each of a query of its own"),
        ("tick", "readings of a tick"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=number, default=value, metavar="N", help=f"{what} ({value})"
        )
    parser.add_argument(
        "--kind", choices=[*CLAUSES], action="append", help="only this one; may stand repeatedly"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `place bench ways`."""
    names = [field.name for field in fields(Setting)]
    setting = Setting(**{name: getattr(arguments, name) for name in names})
    kinds = [kind for kind in CLAUSES if kind in (arguments.kind or CLAUSES)]
    console = Console(highlight=False, stderr=True)
    found = measure(setting, kinds, console)
    tell("ways", [asdict(figures) for figures in found], arguments.json)
    return 0


def measure(setting: Setting, kinds: list[str], console: Console) -> list[Figures]:
    """Each kind in a session of its own, over the same readings; INSIDE first."""
    regions = make_shapes(Space.PLANAR, "polygon", setting.queries)
    readings = readings_of(setting)
    few = replace(setting, readings=2 * setting.tick)
    calibration, inside, found = calibrate(), 0.0, []
    for kind in ["inside", *(kind for kind in kinds if kind != "inside")]:
        console.print(f"{kind} …")
        take(kind, few, readings_of(few), regions)
        seconds, changes = take(kind, setting, readings, regions)
        inside = inside or seconds
        baseline = 0.0
        if kind in WAYS:
            start = time.perf_counter()
            theirs = rival_deltas(kind, readings, regions)
            baseline = time.perf_counter() - start
            compare(kind, deltas_of(changes), theirs)
        figures = Figures(
            kind=kind,
            readings=len(readings),
            vehicles=setting.vehicles,
            queries=setting.queries,
            ticks=-(-len(readings) // setting.tick),
            deltas=sum(map(len, changes)),
            seconds=seconds,
            readings_per_s=len(readings) / seconds,
            times_inside=seconds / inside,
            baseline_s=baseline,
            ratio=baseline / seconds,
            calibration_s=calibration,
        )
        if kind in kinds:
            found.append(figures)
    return found


def readings_of(setting: Setting) -> Readings:
    """What the vehicles send, each about as often as the 500 of `place bench stream`."""
    every = EVERY * VEHICLES / setting.vehicles
    return drive(Space.PLANAR, setting.readings, vehicles=setting.vehicles, every=every)


def lines_of(regions: list[Shape]) -> list[Floats]:
    """A line through each region: from its first corner to the one across."""
    found = []
    for region in regions:
        assert isinstance(region, Polygon)
        ring = region.rings[0]
        found.append(np.array([ring[0], ring[len(ring) // 2]]))
    return found


def statements(kind: str, regions: list[Shape]) -> Iterator[str]:
    """The queries q0, q1 and so on."""
    lines = lines_of(regions)
    for i, region in enumerate(regions):
        line = ", ".join(f"{x!r} {y!r}" for x, y in lines[i].tolist())
        clause = CLAUSES[kind].format(area=written(region), line=f"({line})")
        yield f"REGISTER QUERY q{i} AS SELECT id FROM Cabs {clause}"


def take(
    kind: str, setting: Setting, readings: Readings, regions: list[Shape]
) -> tuple[float, list[Change]]:
    """Seconds for all ticks in a fresh session, and the deltas by columns."""
    with connect(runtime="local") as session:
        session.sql(STREAM)
        session.sql(";\n".join(statements(kind, regions)))
        runtime = cast(LocalRuntime, session.runtime)
        table = readings.as_segment(session.stream("Cabs").columns)
        ticks = [table.slice(i, setting.tick) for i in range(0, len(readings), setting.tick)]
        end = Advance(int(readings.times[-1]), "Cabs")
        changes: list[Change] = []
        start = time.perf_counter()
        for number, tick in enumerate(ticks):
            inputs: list[Any] = [Segment("Cabs", pa.table(tick))]
            changes += runtime.take(inputs + [end] * (number + 1 == len(ticks)))
        return time.perf_counter() - start, changes


def rival_deltas(kind: str, readings: Readings, regions: list[Shape]) -> Deltas:
    """What Shapely finds: which ways meet which regions, and where the way before did not."""
    shapely = library("shapely")
    last = _last_of_instants(readings)
    keys, times, places = readings.keys[last], readings.times[last], readings.places[last]
    order = np.lexsort((times, keys))
    keys, times, places = keys[order], times[order], places[order]
    again = np.zeros(len(keys), np.bool_)
    again[1:] = keys[1:] == keys[:-1]
    before, since = places.copy(), np.ones(len(keys))
    before[1:][again[1:]] = places[:-1][again[1:]]
    since[1:][again[1:]] = (times[1:] - times[:-1])[again[1:]] / SECOND
    if kind == "next":
        ends = places + (places - before) * (AHEAD / since)[:, None]
        ways = shapely.linestrings(np.stack([places, ends], axis=1))
    elif kind == "inside":
        ways = shapely.points(places)
    else:
        ways = shapely.linestrings(np.stack([before, places], axis=1))
    if kind == "crossing":
        shapes = shapely.linestrings(np.stack(lines_of(regions)))
    else:
        rings = [cast(Polygon, region).rings for region in regions]
        shapes = np.array([shapely.Polygon(ring[0], ring[1:]) for ring in rings])
    queries, met = shapely.STRtree(ways).query(shapes, predicate="intersects")
    if kind == "crossing":  # an object that was nowhere before has crossed nothing
        queries, met = queries[again[met]], met[again[met]]
    pairs = np.unique(queries * len(keys) + met)
    queries, met = pairs // len(keys), pairs % len(keys)
    follows = np.isin(pairs - 1, pairs) & again[met]
    ends = np.zeros(len(pairs), np.bool_)
    inner = met + 1 < len(keys)
    ends[inner] = again[met[inner] + 1] & ~np.isin(pairs[inner] + 1, pairs)
    come, go = met[~follows], met[ends] + 1
    return Deltas(
        np.concatenate([queries[~follows], queries[ends]]),
        np.concatenate([keys[come], keys[go]]),
        np.concatenate([times[come], times[go]]),
        np.concatenate([np.ones(len(come), np.int64), np.full(len(go), -1)]),
    )


def _last_of_instants(readings: Readings) -> Numbers:
    """The last reading of each vehicle at each instant."""
    order = np.lexsort((np.arange(len(readings)), readings.times, readings.keys))
    keys, times = readings.keys[order], readings.times[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (keys[1:] != keys[:-1]) | (times[1:] != times[:-1])
    return np.sort(order[is_last])


def compare(kind: str, ours: Deltas, theirs: Deltas) -> None:
    """An error if the two differ."""
    one, other = (
        set(map(tuple, np.stack([d.queries, d.keys, d.instants, d.signs], axis=1).tolist()))
        for d in (ours, theirs)
    )
    if one != other:
        raise InternalError(
            f"{kind}: the engine found {len(one):,} deltas and the rival {len(other):,};"
            f" they differ in {len(one ^ other):,}, such as {sorted(one ^ other)[:3]}"
        )
