"""`place generate`: readings of moving objects on the roads of a city, as files."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from place.errors import ConfigurationError
from place.model.space import Space
from place.operate.options import positive
from place.sim import Generator, Report
from place.sim.recipe import START, Recipe
from place.sim.tables import report_table

EPILOG = """\
examples:
  place generate --objects 100000 --steps 100 --out readings
  place generate --objects 5000 --steps 600 --period 5 --format csv --seed 7 --out readings
  place generate --city roads.geojson --space wgs84 --steps 60 --out readings
  place generate --city oldenburg_node.txt --edges oldenburg_edge.txt --steps 60 --out readings

the readings of the same options are the same, and those of GENERATOR in CREATE STREAM, too. Read
them with
  CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING, speed DOUBLE)
    FROM FILES ('readings/', format = 'parquet');
or replay them: place replay --setup setup.sql --readings readings/* --out changes.parquet"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    default = Recipe()
    parser = commands.add_parser(
        "generate",
        help="write readings of moving objects on the roads of a city",
        description="Objects appear, drive the fastest way to a destination on the roads of a city,"
        " tell where they are in every step, and disappear when they arrive. Writes a file for each"
        " step: id, x, y, ts, type, speed (km/h), and op, which says disappear.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new directory")
    parser.add_argument("--objects", type=positive, default=default.objects, metavar="N")
    parser.add_argument("--steps", type=positive, default=100, metavar="N", help="how many (100)")
    parser.add_argument(
        "--period", type=_above_zero, default=1.0, metavar="SECONDS", help="between steps (1)"
    )
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="parquet without it")
    parser.add_argument(
        "--city",
        default=default.city,
        help="the name of a city that is grown (default), a GeoJSON file of lines, or with --edges"
        " the file of nodes of Brinkhoff's generator",
    )
    parser.add_argument("--edges", metavar="FILE", help="the edges, in a file of their own")
    parser.add_argument("--space", choices=[s.value for s in Space], default=Space.PLANAR.value)
    parser.add_argument("--centre", metavar="'LON LAT'", help="where a grown city lies in wgs84")
    parser.add_argument("--nodes", type=positive, default=default.nodes, metavar="N")
    parser.add_argument(
        "--metres", type=_above_zero, default=default.metres, help="how wide it is (20000)"
    )
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument(
        "--destinations", type=positive, default=default.destinations, metavar="N", help="(256)"
    )
    parser.add_argument(
        "--weather", type=int, default=default.weather, help="areas that slow their roads (2)"
    )
    parser.add_argument(
        "--crowding", type=float, default=default.crowding, help="0 for roads never full (1)"
    )
    parser.add_argument(
        "--roam", action="store_true", help="objects drive on when they arrive, and never disappear"
    )
    parser.add_argument("--start", default=START, metavar="TIME", help=f"of step 0 ({START})")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    console = Console()
    recipe = Recipe.of(vars(arguments))
    recipe.time_of(0)
    out: Path = arguments.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigurationError(f"{out} is not empty", hint="name a new directory")
    with console.status("growing the city and the fastest ways …"):
        generator = recipe.make(Space(arguments.space))
    try:
        out.mkdir(parents=True, exist_ok=True)
        seconds, spent = _write(arguments, recipe, generator, console)
    except OSError as error:
        raise ConfigurationError(f"{out} cannot be written: {error}") from None
    many = arguments.objects * arguments.steps
    size = sum(path.stat().st_size for path in out.iterdir())
    console.print(
        f"{many:,} readings in {arguments.steps:,} files ({size / 1e6:,.1f} MB) in {out}:"
        f" {many / seconds:,.0f} a second, of which the generator made {many / spent:,.0f} a second"
    )
    return 0


def _write(
    arguments: argparse.Namespace, recipe: Recipe, generator: Generator, console: Console
) -> tuple[float, float]:
    """Write all steps; the seconds in all, and those of the generator."""
    save = FORMATS[arguments.format]
    digits = max(6, len(str(arguments.steps)))
    before: Report | None = None
    spent = 0.0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    rate = TextColumn("steps, {task.fields[rate]} readings/s,")
    began = time.perf_counter()
    with Progress(*columns, rate, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("generating", total=arguments.steps, rate="0")
        for step in range(arguments.steps):
            start = time.perf_counter()
            report = generator.advance()
            spent += time.perf_counter() - start
            table = _readings(report_table(generator, report, before, recipe.time_of(step)))
            path = arguments.out / f"step-{step:0{digits}d}.{arguments.format}"
            # Whoever reads the directory meanwhile passes over names that begin with a dot.
            draft = path.with_name(f".{path.name}.tmp")
            save(table, draft)
            os.replace(draft, path)
            before = report
            done = (step + 1) * arguments.objects / (time.perf_counter() - began)
            progress.update(task, advance=1, rate=f"{done:,.0f}")
    return time.perf_counter() - began, max(spent, 1e-9)


def _readings(table: pa.Table) -> pa.Table:
    """A step with the names and types that a stream's columns have."""
    times = table.column("time").cast(pa.timestamp("us", "UTC"))
    said = pa.array(np.where(table.column("gone").to_numpy(), "disappear", ""))
    kept = [table.column(name) for name in ("id", "x", "y")]
    kept += [times, table.column("type"), table.column("speed"), said]
    return pa.Table.from_arrays(kept, names=["id", "x", "y", "ts", "type", "speed", "op"])


def _save_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


def _save_csv(table: pa.Table, path: Path) -> None:
    texts = table.set_column(3, "ts", _iso(table.column("ts")))
    pa.csv.write_csv(texts, path, pa.csv.WriteOptions(quoting_style="none"))


def _save_json(table: pa.Table, path: Path) -> None:
    columns = [table.column(name).to_pylist() for name in table.column_names if name != "ts"]
    moment = _iso(table.column("ts"))[0].as_py()
    with path.open("w", encoding="utf-8") as out:
        for key, x, y, kind, speed, said in zip(*columns, strict=True):
            if said:
                out.write(f'{{"id":{key},"ts":"{moment}","op":"{said}"}}\n')
            else:
                out.write(
                    f'{{"id":{key},"x":{x!r},"y":{y!r},"ts":"{moment}","type":"{kind}",'
                    f'"speed":{speed!r}}}\n'
                )


def _iso(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.compute.strftime(times, "%Y-%m-%dT%H:%M:%SZ")


FORMATS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": _save_parquet,
    "csv": _save_csv,
    "json": _save_json,
}


def _above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
