"""`place bench scale`: what a cell reads, holds and writes, with more and more cells.

The same work is given to matrices of several sizes: objects that all move in each tick, and queries
that follow some of them. The cells are those of the pipeline, with their files in a directory; they
run one after the other in this process, so that each is measured alone. What the driver and the
cells send each other is counted as it would be sent.

From the figures follows what a cluster would need: each cell has its share of objects, and follows
the focal objects of its column's queries.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.figures import number, share
from bench.world import calibrate
from place.engine.matrix import Matrix
from place.engine.slices import Segment
from place.errors import ConfigurationError, InternalError
from place.model.schema import Stream
from place.model.segment import segment_schema
from place.plan.catalog import Catalog
from place.runtime.durable.manifest import token_of
from place.runtime.durable.slice_file import write_cut
from place.runtime.durable.storage import Storage
from place.session import connect

MATRICES = ("1x1", "2x1", "4x1", "2x2", "4x4")
STREAM = "CREATE STREAM Objects (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
TICKS = 3
SECOND = 1_000_000
TOGETHER = 2_000
BOUND = 1.3
"""How much more than its share a cell may read, hold or write."""


@dataclass(frozen=True)
class Setting:
    """How many objects move, how many queries follow one of them, and the side of their regions in
    a world of 1 by 1."""

    objects: int = 100_000
    queries: int = 10_000
    side: float = 0.01


@dataclass(frozen=True)
class Figures:
    """Of the largest cell: bytes that it reads in a tick, holds, and writes in a tick (deltas), and
    the seconds of one core that a tick takes; each beside its share of what a single cell has.
    `driver` are the bytes that pass through the driver in a tick: requests and answers."""

    cells: str
    read: int
    held: int
    written: int
    driver: int
    seconds: float
    read_of_share: float = 1.0
    held_of_share: float = 1.0
    written_of_share: float = 1.0
    deltas: int = 0


def add_parser(benches: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the experiment."""
    parser = benches.add_parser(
        "scale",
        help="what a cell reads, holds and writes, with 1 to 16 cells",
        description="Gives the same work to 1x1, 2x1, 4x1, 2x2 and 4x4 cells: objects that all "
        "move, and queries that follow some of them. Counts what the largest cell reads, holds and "
        "writes, and what passes through the driver, beside the share that it should have; and "
        "computes from that what 10 million objects and a million queries need on 100 cores.",
        epilog="example: place bench scale --objects 100000 --queries 10000 --json scale.json",
    )
    parser.add_argument(
        "--objects", type=number, default=Setting.objects, metavar="N", help="objects (100000)"
    )
    parser.add_argument(
        "--queries",
        type=number,
        default=Setting.queries,
        metavar="N",
        help="queries, each around an object of its own (10000)",
    )
    parser.add_argument(
        "--side",
        type=share,
        default=Setting.side,
        metavar="S",
        help="the side of a query's region (0.01)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures to this file, too"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the experiment."""
    setting = Setting(arguments.objects, arguments.queries, arguments.side)
    if setting.queries > setting.objects:
        raise ConfigurationError(
            f"{setting.queries:,} queries cannot follow {setting.objects:,} objects, one each",
            hint="ask for fewer queries",
        )
    console = Console(highlight=False, soft_wrap=True, width=120)
    found = measure(setting, MATRICES)
    show(console, setting, found)
    if arguments.json is not None:
        content = {
            "setting": asdict(setting),
            "cells": [asdict(each) for each in found],
            "cluster": cluster(setting, found),
            "calibration_s": round(calibrate(), 3),
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return 0


def measure(setting: Setting, matrices: Sequence[str]) -> list[Figures]:
    """The figures of each matrix; all have to find the same number of deltas."""
    with connect() as session:
        session.sql(STREAM)
        statements = [
            f"REGISTER QUERY q{i} AS SELECT id FROM Objects INSIDE ('M', {i},"
            f" {setting.side / 2}, {setting.side / 2})"
            for i in range(setting.queries)
        ]
        for first in range(0, len(statements), TOGETHER):
            session.sql(";".join(statements[first : first + TOGETHER]))
        catalog = session.runtime.catalog
    found = [_measured(setting, text, catalog) for text in matrices]
    if len({each.deltas for each in found}) != 1:
        raise InternalError("matrices have found different deltas")
    return [_beside(each, found[0], setting) for each in found]


def _measured(setting: Setting, text: str, catalog: Catalog) -> Figures:
    # These need Spark's package, which not all who measure have.
    from place.runtime.spark.catalogs import Catalogs
    from place.runtime.spark.inputs import PackInput
    from place.runtime.spark.requests import Job, RunTick
    from place.runtime.spark.slicing import Slicing
    from place.runtime.spark.standing_cell import StandingCell

    rows, columns = map(int, text.split("x"))
    matrix = Matrix(rows, columns)
    stream = next(iter(catalog.streams.values()))
    with tempfile.TemporaryDirectory(prefix="place-scale-") as directory:
        storage, catalogs = Storage(directory), Catalogs(Storage(directory))
        catalogs.share(catalog)
        slicing = Slicing(storage, matrix)
        slicing.know(catalog, catalog.arrow_of, 0)
        cells = [StandingCell(storage, place, 1) for place in matrix.places()]
        updates = catalogs.updates((), catalog.version)
        before: str | None = None
        figures = Figures(text, 0, 0, 0, 0, 0.0)
        for tick in range(1, TICKS + 1):
            file = f"segments/{tick}.arrow"
            told = [Segment(stream.name, _walked(setting, stream, tick))]
            storage.write(file, write_cut(storage, slicing.cutting, [stream], told))
            job = Job(tick, "scale", catalog.version, catalog.version, before, 0)
            request = RunTick(job, [PackInput(file)])
            sent = len(pickle.dumps(request)) * len(cells)
            results: list[Any] = []
            seconds = 0.0
            for cell in cells:
                began = time.process_time()
                known = updates if tick == 1 else []
                results.append(cell.answer(request, known, is_first=False))
                seconds = max(seconds, time.process_time() - began)
            sent += sum(len(pickle.dumps(result)) for result in results)
            before = token_of(tick, "scale")
            written = [result.outbox.size if result.outbox else 0 for result in results]
            figures = replace(
                figures,
                read=max(result.read for result in results),
                written=max(written),
                driver=sent,
                seconds=round(seconds, 4),
                deltas=figures.deltas + sum(r.outbox.deltas for r in results if r.outbox),
            )
        states = [sum(table.nbytes for table in cell.state().values()) for cell in cells]
        return replace(figures, held=max(states))


def _walked(setting: Setting, stream: Stream, tick: int) -> pa.Table:
    """All objects, each somewhere else near its place in each tick."""
    places = np.random.default_rng(7).random((setting.objects, 2))
    places += np.random.default_rng(tick).uniform(-0.25, 0.25, places.shape) * setting.side
    times = np.full(setting.objects, tick * SECOND)
    arrays = [np.arange(setting.objects), places[:, 0], places[:, 1], times]
    arrays += [times, np.zeros(setting.objects, np.bool_)]
    return pa.Table.from_arrays(list(map(pa.array, arrays)), schema=segment_schema(stream.columns))


def _beside(each: Figures, alone: Figures, setting: Setting) -> Figures:
    """Figures beside the share of a single cell's that they should be."""
    rows, columns = map(int, each.cells.split("x"))
    objects = _share_of(setting, each)
    return replace(
        each,
        read_of_share=round(each.read / (alone.read * objects), 3),
        held_of_share=round(each.held / (alone.held * objects), 3),
        written_of_share=round(each.written / (alone.written / (rows * columns)), 3),
    )


def _share(setting: Setting, rows: int, columns: int) -> float:
    """The part of all objects that a cell has to know: those of its row, and of the other rows
    those that the queries of its column follow."""
    followed = setting.queries / setting.objects / columns
    return 1 / rows + followed * (1 - 1 / rows)


def _share_of(setting: Setting, figures: Figures) -> float:
    rows, columns = map(int, figures.cells.split("x"))
    return _share(setting, rows, columns)


def cluster(setting: Setting, found: Sequence[Figures]) -> dict[str, float]:
    """What 10 million objects and a million queries, all moving, need on 10 x 10 cells, each a core
    of ten nodes: bytes of a tick by what the largest matrix has measured, seconds by the median of
    all matrices."""
    objects, queries, rows, columns = 10_000_000, 1_000_000, 10, 10
    alone, last = found[0], found[-1]
    large = Setting(objects, queries)
    known = objects * _share(large, rows, columns)
    rows_now, columns_now = map(int, last.cells.split("x"))
    known_now = setting.objects * _share_of(setting, last)
    paces = [each.seconds / (setting.objects * _share_of(setting, each)) for each in found]
    deltas = alone.written / setting.objects * objects / (rows * columns)
    return {
        "objects_known_by_a_cell": round(known),
        "read_by_a_cell": round(last.read / known_now * known),
        "held_by_a_cell": round(last.held / known_now * known),
        "written_by_a_cell": round(deltas),
        "read_by_a_node": round(10 * last.read / known_now * known),
        "held_by_a_node": round(10 * last.held / known_now * known),
        "seconds_of_a_tick": round(statistics.median(paces) * known, 2),
        "driver": round(last.driver / (rows_now * columns_now) * rows * columns),
    }


def show(console: Console, setting: Setting, found: Sequence[Figures]) -> None:
    """The figures as tables."""
    table = Table(
        title=f"{setting.objects:,} objects, {setting.queries:,} queries that follow one each;"
        " the largest cell"
    )
    for name in ("cells", "read", "of share", "held", "of share", "written", "of share"):
        table.add_column(name, justify="right")
    table.add_column("driver", justify="right")
    table.add_column("seconds", justify="right")
    for each in found:
        table.add_row(
            each.cells,
            *(f"{each.read:,}", f"{each.read_of_share:.2f}"),
            *(f"{each.held:,}", f"{each.held_of_share:.2f}"),
            *(f"{each.written:,}", f"{each.written_of_share:.2f}"),
            *(f"{each.driver:,}", f"{each.seconds:.3f}"),
        )
    console.print(table)
    most = max(max(each.read_of_share, each.held_of_share, each.written_of_share) for each in found)
    console.print(f"at most {most:.2f} times its share (wanted: {BOUND})")
    about = cluster(setting, found)
    console.print(
        "computed for 10,000,000 objects and 1,000,000 queries that all move, on 10x10 cells of ten"
        " nodes with ten cores each, a tick of all objects:"
    )
    for name, value in about.items():
        console.print(f"  {name.replace('_', ' ')}: {value:,}")
