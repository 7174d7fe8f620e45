"""Random scripts of range queries: the local runtime sends what the reference sends.

What fails is a script, so that it can be committed as it is.
"""

import os
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from place.kernels import bulk
from place.script.blocks import parse_script
from place.script.command import opener
from place.script.runner import Batching, ScriptRunner

EXAMPLES = int(os.environ.get("PLACE_EXAMPLES", "100"))

# Few places, so that points coincide and lie on edges; some far away, some crowded.
coordinate = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 2.5, 2.25, -3, 1e6])
longitude = st.sampled_from([-180, -179, -175, -90, 0, 10, 10.5, 90, 175, 179, 180])
latitude = st.sampled_from([-90, -80, -10, 0, 0.5, 1, 10, 45, 89, 90])
length = st.sampled_from([0, 1, 2, 2.5, 5, 10, 1e7])
metres = st.sampled_from([0, 1000, 111195.1, 500000, 2e6, 1e7, 3e7])
key = st.integers(1, 5)
kind = st.sampled_from(["'Car'", "'Truck'", "NULL", "'Bus'"])
speed = st.sampled_from(["0", "10", "20", "20.5", "NULL", "-1"])


class World:
    """What a script is made over: a space, and whether keys are texts."""

    def __init__(self, sphere: bool, texts: bool, options: list[str]) -> None:
        self.sphere = sphere
        self.texts = texts
        self.options = [*options, "space = 'wgs84'"] if sphere else options
        self.x = longitude if sphere else coordinate
        self.y = latitude if sphere else coordinate
        self.size = metres if sphere else length

    def key(self, number: int) -> str:
        return f"'k{number}'" if self.texts else str(number)


def numbers(draw: st.DrawFn, *parts: st.SearchStrategy[float]) -> str:
    return ", ".join(str(draw(part)) for part in parts)


def corners_of(world: World) -> list[st.SearchStrategy[float]]:
    return [world.x, world.y, world.x, world.y]


def shape(draw: st.DrawFn, world: World) -> str:
    which = draw(st.sampled_from(["rectangle", "circle", "polygon"]))
    if which == "rectangle":
        return f"({numbers(draw, *corners_of(world))})"
    if which == "circle":
        return f"({numbers(draw, world.x, world.y, world.size)})"
    corners = draw(st.lists(st.tuples(world.x, world.y), min_size=3, max_size=5, unique=True))
    return f"POLYGON (({', '.join(f'{x} {y}' for x, y in corners)}))"


def inside(draw: st.DrawFn, world: World) -> str:
    which = draw(st.sampled_from(["none", "static", "static", "moving", "moving", "region"]))
    if which == "none":
        return ""
    if which == "region":
        return "INSIDE Downtown"
    if which == "static":
        return f"INSIDE {shape(draw, world)}"
    focal = world.key(draw(key)) + draw(st.sampled_from(["", "", " OF Drones"]))
    extents = numbers(draw, *[world.size] * draw(st.integers(1, 2)))
    return f"INSIDE ('M', {focal}, {extents})"


CONDITIONS = [
    "type = 'Car'",
    "type <> 'Car'",
    "type IN ('Car', 'Bus')",
    "type IS NULL",
    "type LIKE '%u%'",
    "speed > 10",
    "speed >= 20 AND speed < 20.5",
    "speed BETWEEN 0 AND 20",
    "NOT speed = 10",
    "NOT (speed > 10 OR type = 'Car')",
    "speed > 10 OR type = 'Truck'",
    "speed * 2 > 30",
    "speed = 10 AND type = 'Car' OR speed = 20 AND type = 'Truck'",
    "id IN (1, 2)",
    "FALSE",
]


def where(draw: st.DrawFn, world: World) -> str:
    if draw(st.booleans()):
        return ""
    condition = draw(st.sampled_from(CONDITIONS))
    if world.texts and condition.startswith("id"):
        condition = "id IN ('k1', 'k2')"
    return f"WHERE {condition}"


SELECTS = ["id", "id, type", "type", "speed", "id, x + y AS s", "*", "COALESCE(type, 'none')"]


def query(draw: st.DrawFn, world: World, name: str) -> str:
    if draw(st.integers(0, 4)) == 0:
        table = draw(st.sampled_from(["Fences", "Patrols", "Zones"]))
        extra = draw(st.sampled_from(["", " AND O.speed > Q.lim", " AND O.type = 'Car'"]))
        select = draw(st.sampled_from(["Q.ID, O.id", "Q.ID", "Q.ID, O.id, O.speed, Q.lim"]))
        clause = inside(draw, world) if draw(st.integers(0, 5)) == 0 else ""
        return (
            f"REGISTER QUERY {name} AS SELECT {select} FROM {table} Q, Cars O"
            f" WHERE O INSIDE Q{extra} {clause}"
        )
    if draw(st.integers(0, 5)) == 0:
        clause = inside(draw, world)
        if "'M'" in clause and " OF " not in clause:
            clause = clause.replace(",", "\0", 1).replace(",", " OF Cars,", 1).replace("\0", ",")
        return f"REGISTER QUERY {name} AS SELECT name FROM Stations WHERE open = TRUE {clause}"
    return (
        f"REGISTER QUERY {name} AS SELECT {draw(st.sampled_from(SELECTS))} FROM Cars"
        f" {where(draw, world)} {inside(draw, world)}"
    )


def setup(draw: st.DrawFn, world: World) -> list[str]:
    kind_of_key = "STRING" if world.texts else "BIGINT"
    options = f" WITH ({', '.join(world.options)})" if world.options else ""
    space = " WITH (space = 'wgs84')" if world.sphere else ""
    layout = draw(
        st.sampled_from(
            ["x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE", "x DOUBLE, y DOUBLE, r DOUBLE"]
        )
    )
    corner = [world.x, world.y, world.x, world.y] if "x1" in layout else [world.x, world.y]
    corner += [] if "x1" in layout else [world.size]
    fences = [f"({i}, 10, {numbers(draw, *corner)})" for i in range(draw(st.integers(1, 4)))]
    stations = [
        f"('s{i}', {numbers(draw, world.x, world.y)}, {draw(st.sampled_from(['TRUE', 'FALSE']))})"
        for i in range(3)
    ]
    statements = [
        f"CREATE STREAM Cars (id {kind_of_key} KEY, x DOUBLE, y DOUBLE, type STRING, speed DOUBLE)"
        + options,
        f"CREATE STREAM Drones (id {kind_of_key} KEY, x DOUBLE, y DOUBLE){space}",
        f"CREATE STREAM Patrols (ID BIGINT KEY, lim DOUBLE, focal {kind_of_key},"
        " xdist DOUBLE, ydist DOUBLE)",
        "CREATE STREAM Zones (ID BIGINT KEY, lim DOUBLE, region STRING)",
        f"CREATE TABLE Fences (ID BIGINT, lim DOUBLE, {layout}) AS VALUES {', '.join(fences)}",
        "CREATE TABLE Stations (name STRING, x DOUBLE, y DOUBLE, open BOOLEAN)"
        f" AS VALUES {', '.join(stations)}{space}",
        f"CREATE REGION Downtown AS RECTANGLE ({numbers(draw, *corners_of(world))})",
    ]
    return [f"statement ok\n{statement}" for statement in statements]


def reading(draw: st.DrawFn, world: World) -> str:
    which = draw(st.sampled_from(["Cars"] * 6 + ["Drones", "Patrols", "Zones", "gone"]))
    number = draw(key)
    if which == "gone":
        stream = draw(st.sampled_from(["Cars", "Drones"]))
        return f"{stream} ({world.key(number)}) disappear"
    if which == "Drones":
        return f"Drones ({world.key(number)}, {numbers(draw, world.x, world.y)})"
    if which == "Patrols":
        if draw(st.integers(0, 3)) == 0:
            return f"Patrols ({number}) disappear"
        focal = draw(st.sampled_from([world.key(1), world.key(2), "NULL"]))
        return (
            f"Patrols ({number}, {draw(speed)}, {focal}, {numbers(draw, world.size, world.size)})"
        )
    if which == "Zones":
        corners = [f"{draw(world.x)} {draw(world.y)}" for _ in range(4)]
        wkt = draw(st.sampled_from([f"'POLYGON (({', '.join(corners)}))'", "NULL", "'nothing'"]))
        return f"Zones ({number}, {draw(speed)}, {wkt})"
    place = numbers(draw, world.x, world.y)
    return f"Cars ({world.key(number)}, {place}, {draw(kind)}, {draw(speed)})"


@st.composite
def scripts(draw: st.DrawFn) -> str:
    options = draw(
        st.lists(st.sampled_from(["evaluate = '5 seconds'", "timeout = '7 seconds'"]), unique=True)
    )
    world = World(draw(st.booleans()), draw(st.booleans()), options)
    blocks = setup(draw, world)
    live: list[str] = []
    clock = 0.0
    for number in range(draw(st.integers(3, 14))):
        choice = draw(
            st.sampled_from(["at", "at", "at", "at", "query", "query", "drop", "recover"])
        )
        if number < 2 or choice == "query":
            name = f"q{number}"
            live.append(name)
            blocks.append(f"statement ok\n{query(draw, world, name)}")
        elif choice == "drop" and live:
            name = live.pop(draw(st.integers(0, len(live) - 1)))
            blocks.append(f"statement ok\nDROP QUERY {name}")
        elif choice == "recover" and draw(st.integers(0, 3)) == 0:
            blocks.append("recover")
        else:
            clock += draw(st.sampled_from([0.5, 1, 2.5, 5, 8]))
            lines = [reading(draw, world) for _ in range(draw(st.integers(0, 6)))]
            blocks.append("\n".join([f"at {clock}s", *lines]))
    blocks += [f"answer {name}" for name in live]
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("cells", ["1x1", "2x3"])
@settings(
    max_examples=EXAMPLES // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    text=scripts(),
    batching=st.sampled_from(["each", "one", "random:1", "random:2"]),
    large=st.booleans(),
)
def test_local_agrees_with_the_reference(cells: str, text: str, batching: str, large: bool) -> None:
    note(text)
    runner = ScriptRunner(
        parse_script(text, Path("search.cq")), opener("local", cells), Batching.parse(batching)
    )
    # Half of them take the joins of large work, which small work does not need.
    few = {"FEW": 0, "FEW_EACH": 0} if large else {}
    with patch.multiple(bulk, **few) if few else nullcontext():
        runner.run()
