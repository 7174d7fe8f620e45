"""What random scripts are made of: places, regions, tables, streams and their readings.

Everything is drawn from few values, so that points coincide and lie on edges, keys meet and rows
are equal. What fails is a script, so that it can be committed as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from place.script.blocks import Block
from place.script.runner import ScriptRunner

# Few places; some far away, some crowded.
coordinate = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 2.5, 2.25, -3, 1e6])
longitude = st.sampled_from([-180, -179, -175, -90, 0, 10, 10.5, 90, 175, 179, 180])
latitude = st.sampled_from([-90, -80, -10, 0, 0.5, 1, 10, 45, 89, 90])
length = st.sampled_from([0, 1, 2, 2.5, 5, 10, 1e7])
metres = st.sampled_from([0, 1000, 111195.1, 500000, 2e6, 1e7, 3e7])
key = st.integers(1, 5)
kind = st.sampled_from(["'Car'", "'Truck'", "NULL", "'Bus'"])
speed = st.sampled_from(["0", "10", "20", "20.5", "NULL", "-1"])


class World:
    """What a script is made over: a space, texts or numbers for keys, the options of streams."""

    def __init__(self, sphere: bool, texts: bool, options: dict[str, list[str]]) -> None:
        self.sphere = sphere
        self.texts = texts
        self.options = options
        self.x = longitude if sphere else coordinate
        self.y = latitude if sphere else coordinate
        self.size = metres if sphere else length
        self.speed: st.SearchStrategy[str] = speed
        self.number: st.SearchStrategy[int] = key
        self.leader: st.SearchStrategy[int] = key
        self.regions = ["none", "static", "static", "moving", "moving", "region"]
        self.senders = ["Cars"] * 6 + ["Drones", "Patrols", "Zones", "gone"]
        self.key_type = "STRING" if texts else "BIGINT"

    def key(self, number: int) -> str:
        return f"'k{number}'" if self.texts else str(number)

    def with_options(self, relation: str) -> str:
        """The WITH of a stream or table that lives in space, or of one that does not."""
        placed = self.sphere and relation in ("Cars", "Drones", "Stations")
        options = self.options.get(relation, []) + ["space = 'wgs84'"] * placed
        return f" WITH ({', '.join(options)})" if options else ""


# Regions


def numbers(draw: st.DrawFn, *parts: st.SearchStrategy[float]) -> str:
    return ", ".join(str(draw(part)) for part in parts)


def corners_of(world: World) -> list[st.SearchStrategy[float]]:
    return [world.x, world.y, world.x, world.y]


def ring(draw: st.DrawFn, world: World) -> str:
    corners = draw(st.lists(st.tuples(world.x, world.y), min_size=3, max_size=5, unique=True))
    return ", ".join(f"{x} {y}" for x, y in corners)


def shape(draw: st.DrawFn, world: World) -> str:
    which = draw(st.sampled_from(["rectangle", "circle", "polygon"]))
    if which == "rectangle":
        return f"({numbers(draw, *corners_of(world))})"
    if which == "circle":
        return f"({numbers(draw, world.x, world.y, world.size)})"
    return f"POLYGON (({ring(draw, world)}))"


def focal(draw: st.DrawFn, world: World, streams: tuple[str, ...] = ("", "", " OF Drones")) -> str:
    """A focal object: its key, and its stream unless that is the one in FROM."""
    return world.key(draw(world.leader)) + draw(st.sampled_from(streams))


def inside(draw: st.DrawFn, world: World, streams: tuple[str, ...] = ("", "", " OF Drones")) -> str:
    which = draw(st.sampled_from(world.regions))
    if which == "none":
        return ""
    if which == "region":
        return "INSIDE Downtown"
    if which == "static":
        return f"INSIDE {shape(draw, world)}"
    leader = focal(draw, world, streams)
    extents = numbers(draw, *[world.size] * draw(st.integers(1, 2)))
    return f"INSIDE ('M', {leader}, {extents})"


def group(draw: st.DrawFn, world: World, streams: tuple[str, ...] = ("", "", " OF Drones")) -> str:
    """Points and focal objects that kNN takes together."""
    places = [
        f"FOCAL {focal(draw, world, streams)}"
        if draw(st.booleans())
        else f"POINT ({numbers(draw, world.x, world.y)})"
        for _ in range(draw(st.integers(1, 3)))
    ]
    return f"{draw(st.sampled_from(['SUM', 'MAX', 'MIN']))} OF ({', '.join(places)})"


# Tables


@dataclass(frozen=True)
class TableSpec:
    """A table of a script: its columns as they are declared, and how a row of it is drawn."""

    name: str
    columns: tuple[str, ...]
    row: Callable[[st.DrawFn, int], list[str]]

    def rows(self, draw: st.DrawFn, least: int, most: int) -> list[list[str]]:
        return [self.row(draw, number) for number in range(draw(st.integers(least, most)))]

    def create(self, rows: list[list[str]], options: str) -> str:
        """The statement that makes it, with its rows."""
        shown = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"CREATE TABLE {self.name} ({', '.join(self.columns)}) AS VALUES {shown}{options}"

    def create_from_file(self, options: str) -> str:
        """The statement that makes it from its file."""
        return f"CREATE TABLE {self.name} ({', '.join(self.columns)}) FROM '{self.file}'{options}"

    @property
    def file(self) -> str:
        return f"{self.name.lower()}.csv"

    def comment(self, rows: list[list[str]]) -> str:
        """Its file as comments above a statement, where ScriptWithFiles finds it."""
        header = ",".join(column.split()[0] for column in self.columns)
        lines = [header, *(",".join(csv_field(value) for value in row) for row in rows)]
        return "\n".join([f"# file {self.file}", *(f"# | {line}" for line in lines)])


def csv_field(literal: str) -> str:
    """A literal of SQL as the field of a csv file."""
    if literal == "NULL":
        return ""
    return json.dumps(literal[1:-1]) if literal.startswith("'") else literal.lower()


LAYOUTS = {
    "rectangle": ("x1 DOUBLE", "y1 DOUBLE", "x2 DOUBLE", "y2 DOUBLE"),
    "circle": ("x DOUBLE", "y DOUBLE", "r DOUBLE"),
    "moving circle": ("focal {key}", "r DOUBLE"),
    "moving rectangle": ("focal {key}", "xdist DOUBLE", "ydist DOUBLE"),
    "polygon": ("region STRING",),
}


def fences(world: World, layout: str) -> TableSpec:
    """A query table of regions, each with a limit of speed."""

    def row(draw: st.DrawFn, number: int) -> list[str]:
        match layout:
            case "rectangle":
                region = [str(draw(part)) for part in corners_of(world)]
            case "circle":
                region = [str(draw(part)) for part in (world.x, world.y, world.size)]
            case "polygon":
                region = [f"'POLYGON (({ring(draw, world)}))'"]
            case _:
                sizes = len(LAYOUTS[layout]) - 1
                region = [
                    world.key(draw(world.leader)),
                    *(str(draw(world.size)) for _ in range(sizes)),
                ]
        return [str(number), "10", *region]

    columns = (column.format(key=world.key_type) for column in LAYOUTS[layout])
    return TableSpec("Fences", ("ID BIGINT", "lim DOUBLE", *columns), row)


def stations(world: World) -> TableSpec:
    """Stationary objects."""

    def row(draw: st.DrawFn, number: int) -> list[str]:
        place = [str(draw(world.x)), str(draw(world.y))]
        if draw(st.integers(0, 9)) == 9:
            place[1] = "NULL"
        return [f"'s{number}'", *place, draw(st.sampled_from(["TRUE", "FALSE"]))]

    return TableSpec("Stations", ("name STRING", "x DOUBLE", "y DOUBLE", "open BOOLEAN"), row)


# Streams


def streams(world: World, extra: str = "") -> list[str]:
    """Moving objects, others that may lead them, and two streams of regions."""
    return [
        f"CREATE STREAM Cars (id {world.key_type} KEY, x DOUBLE, y DOUBLE, type STRING,"
        f" speed DOUBLE{extra}){world.with_options('Cars')}",
        f"CREATE STREAM Drones (id {world.key_type} KEY, x DOUBLE, y DOUBLE)"
        + world.with_options("Drones"),
        f"CREATE STREAM Patrols (ID BIGINT KEY, lim DOUBLE, focal {world.key_type},"
        f" xdist DOUBLE, ydist DOUBLE){world.with_options('Patrols')}",
        "CREATE STREAM Zones (ID BIGINT KEY, lim DOUBLE, region STRING)"
        + world.with_options("Zones"),
    ]


def region(draw: st.DrawFn, world: World) -> str:
    return f"CREATE REGION Downtown AS RECTANGLE ({numbers(draw, *corners_of(world))})"


def reading(draw: st.DrawFn, world: World) -> str:
    """A line of an `at` block."""
    which = draw(st.sampled_from(world.senders))
    number = draw(world.number)
    if which == "gone":
        stream = draw(st.sampled_from(["Cars", "Drones"]))
        return f"{stream} ({world.key(number)}) disappear"
    if which == "Drones":
        return f"Drones ({world.key(number)}, {numbers(draw, world.x, world.y)})"
    if which == "Patrols":
        if draw(st.integers(0, 3)) == 0:
            return f"Patrols ({number}) disappear"
        leader = draw(st.sampled_from([world.key(1), world.key(2), "NULL"]))
        sides = numbers(draw, world.size, world.size)
        return f"Patrols ({number}, {draw(world.speed)}, {leader}, {sides})"
    if which == "Zones":
        corners = [f"{draw(world.x)} {draw(world.y)}" for _ in range(4)]
        wkt = draw(st.sampled_from([f"'POLYGON (({', '.join(corners)}))'", "NULL", "'nothing'"]))
        return f"Zones ({number}, {draw(world.speed)}, {wkt})"
    place = numbers(draw, world.x, world.y)
    return f"Cars ({world.key(number)}, {place}, {draw(kind)}, {draw(world.speed)})"


# Files


class ScriptWithFiles(ScriptRunner):
    """Runs a script whose tables are loaded from files that stand in it, as comments.

    Before a block, its files are written beside the script, so that REFRESH TABLE finds what has
    changed::

        # file owners.csv
        # | car,owner
        # | 1,Ada
        statement ok
        REFRESH TABLE Owners
    """

    def _run_block(self, block: Block) -> None:
        for name, text in files_above(self.script.lines, block.line):
            (self._directory / name).write_text(text, "utf-8")
        super()._run_block(block)


def files_above(lines: tuple[str, ...], line: int) -> list[tuple[str, str]]:
    """The files in the comments directly above a line, by name."""
    first = line - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    found: list[tuple[str, str]] = []
    for comment in lines[first : line - 1]:
        if name := re.fullmatch(r"# file (\S+)", comment):
            found.append((name[1], ""))
        elif comment.startswith("# |") and found:
            found[-1] = (found[-1][0], found[-1][1] + comment[3:].strip() + "\n")
    return found
