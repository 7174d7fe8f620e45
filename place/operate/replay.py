"""`place replay`: recorded readings through registered queries, into a changelog.

It never looks at the clock on the wall: the same files and statements give the same changelog, on
every runtime, however files fall into ticks.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from place.engine.changes import from_deltas
from place.engine.slices import Segment
from place.errors import ConfigurationError
from place.model.delta import Delta
from place.model.reading import Advance
from place.model.schema import Stream
from place.model.time import SECOND
from place.operate.aside import complain
from place.operate.options import add_spark_options, read_setup, spark_settings
from place.plan.catalog import fold
from place.plan.query import Query
from place.runtime.durable.deltas import TickDeltas, changelog_schema
from place.runtime.durable.outbox import pieces_of
from place.runtime.intake.check import Rejected, late_readings
from place.runtime.intake.files import read_file
from place.runtime.intake.quarantine import pack
from place.runtime.interface import durable
from place.runtime.local import LocalRuntime
from place.session import RUNTIMES, Session, connect


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "replay",
        help="run recorded readings through registered queries into a changelog",
        description="Runs recorded readings through the queries of a setup file and writes all"
        " deltas to a Parquet file: query, sign, row (a JSON array), instant, tick, position; where"
        " there is one query, also the columns of its rows."
        " Readings are csv files with a header of the stream's columns, json lines, parquet,"
        " GeoJSON, GPX or AIS (.nmea), also gzipped; a column op may say disappear. Rows that are"
        " wrong are set aside beside the changelog, with the reason. The changelog does not depend"
        " on the runtime, the cells or"
        " how files fall into ticks.",
    )
    parser.add_argument("--setup", type=Path, required=True, help="statements: streams and queries")
    parser.add_argument(
        "--readings", nargs="+", required=True, metavar="FILE", help="files, in their order"
    )
    parser.add_argument("--stream", help="the stream of the readings; the only one without it")
    parser.add_argument("--out", type=Path, required=True, help="the changelog to write")
    parser.add_argument("--runtime", choices=RUNTIMES, default="local", help="local without it")
    add_spark_options(parser)
    parser.set_defaults(run=run)


@dataclass
class Taken:
    """What one tick took and gave."""

    readings: int
    rejected: list[Rejected]
    changelog: pa.Table


class Player(Protocol):
    """A runtime as a replay sees it."""

    def play(self, tick: int, paths: Sequence[str]) -> Taken:
        """One tick of files."""

    def end(self, tick: int) -> pa.Table:
        """All is told: the deltas of the last instants."""


class InProcess:
    """The reference or the local runtime."""

    def __init__(self, session: Session, stream: Stream, query: Query | None) -> None:
        self._session = session
        self._stream = stream
        self._query = query
        self._latest: int | None = None

    def play(self, tick: int, paths: Sequence[str]) -> Taken:
        taken = Taken(0, [], changelog_schema(self._query).empty_table())
        segments = []
        for path in paths:
            arrival = _modified(path) if self._stream.time is None else None
            routed = read_file(self._stream, path, pa.fs.LocalFileSystem(), arrival=arrival)
            segments.append(routed.segment)
            taken.rejected += routed.rejected
        table = pa.concat_tables(segments)
        taken.readings = table.num_rows
        if table.num_rows:
            last = pa.compute.max(table.column(table.num_columns - 2)).as_py()
            self._latest = last if self._latest is None else max(last, self._latest)
        runtime = self._session.runtime
        if isinstance(runtime, LocalRuntime):
            changes = runtime.take([Segment(self._stream.name, table)])
            taken.changelog = TickDeltas.of(tick, pieces_of(changes)).changelog(query=self._query)
            for late in runtime.aside():
                taken.rejected += late_readings(self._stream, late.table)
        else:
            deltas = self._session.feed([Segment(self._stream.name, table)])
            taken.changelog = self._shown(deltas, tick)
        return taken

    def end(self, tick: int) -> pa.Table:
        if self._latest is None:
            return changelog_schema(self._query).empty_table()
        over = Advance(self._latest + self._stream.lateness, self._stream.name)
        return self._shown(self._session.feed([over]), tick)

    def _shown(self, deltas: Iterable[Delta], tick: int) -> pa.Table:
        groups: dict[str, list[Delta]] = {}
        for delta in deltas:
            groups.setdefault(delta.query, []).append(delta)
        queries = self._session.catalog.queries
        changes = [
            change
            for name, group in groups.items()
            for change in from_deltas(queries[fold(name)], group)
        ]
        return TickDeltas.of(tick, pieces_of(changes)).changelog(query=self._query)


class OnSpark:
    """The runtime on Spark: files are read by its tasks."""

    def __init__(self, session: Session, stream: Stream, query: Query | None) -> None:
        self._runtime = durable(session.runtime)
        self._stream = stream
        self._query = query

    def play(self, tick: int, paths: Sequence[str]) -> Taken:
        before = self._runtime.statistics(self._stream.name)
        files = [
            (str(Path(path).absolute()), _modified(path) if self._stream.time is None else None)
            for path in paths
        ]
        manifest = self._runtime.read_files(self._stream.name, files)
        after = self._runtime.statistics(self._stream.name)
        rejected = self._runtime.quarantined(manifest)
        count = after["readings"] + after["late"] - before["readings"] - before["late"]
        return Taken(
            count, rejected, self._runtime.deltas.of(manifest).changelog(query=self._query)
        )

    def end(self, tick: int) -> pa.Table:
        manifest = self._runtime.finish(self._stream.name)
        if manifest is None:
            return changelog_schema(self._query).empty_table()
        return self._runtime.deltas.of(manifest).changelog(query=self._query)


def _modified(path: str) -> int:
    return int(os.stat(path).st_mtime * SECOND)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    text = read_setup(arguments.setup)
    for path in arguments.readings:
        if not Path(path).is_file():
            raise ConfigurationError(f"{path} is not there")
    on_spark = arguments.runtime == "spark"
    session = connect(
        master=arguments.master if on_spark else None,
        runtime=arguments.runtime,
        cells=arguments.cells,
        storage=arguments.storage,
        ui=arguments.ui,
        settings=spark_settings(arguments) if on_spark else None,
    )
    with session:
        session.loader.directory = arguments.setup.resolve().parent
        session.sql(text)
        stream = _stream(session, arguments.stream)
        query = _only_query(session)
        play = OnSpark if on_spark else InProcess
        player: Player = play(session, stream, query)
        return _play(player, stream, changelog_schema(query), arguments, console)


def _stream(session: Session, name: str | None) -> Stream:
    if name is not None:
        return session.stream(name)
    streams = list(session.catalog.streams.values())
    if len(streams) != 1:
        names = ", ".join(stream.name for stream in streams) or "none"
        raise ConfigurationError(
            f"the setup has {len(streams)} streams", hint=f"name one with --stream: {names}"
        )
    return streams[0]


def _only_query(session: Session) -> Query | None:
    """The query of a changelog that is of one query; None where there are several."""
    queries = list(session.catalog.queries.values())
    return queries[0] if len(queries) == 1 else None


def _play(
    player: Player,
    stream: Stream,
    schema: pa.Schema,
    arguments: argparse.Namespace,
    console: Console,
) -> int:
    files: list[str] = arguments.readings
    step = arguments.files_per_tick or 1
    aside = arguments.out.with_name(arguments.out.name + ".quarantine.jsonl")
    readings = deltas = tick = bad = 0
    first: Rejected | None = None
    began = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar,
        pq.ParquetWriter(arguments.out, schema) as writer,
        aside.open("wb") as set_aside,
    ):
        task = bar.add_task("files", total=len(files))
        for start in range(0, len(files), step):
            tick += 1
            taken = player.play(tick, files[start : start + step])
            readings += taken.readings
            bad += len(taken.rejected)
            first = first or next(iter(taken.rejected), None)
            set_aside.write(pack(stream.name, tick, taken.rejected))
            writer.write_table(taken.changelog)
            deltas += taken.changelog.num_rows
            bar.advance(task, min(step, len(files) - start))
        tick += 1
        last = player.end(tick)
        writer.write_table(last)
        deltas += last.num_rows
    if not bad:
        aside.unlink()
    seconds = time.perf_counter() - began
    print(f"{readings:,} readings, {deltas:,} deltas, {tick:,} ticks, {seconds:.2f} seconds")
    if bad:
        print(f"{bad:,} rows are set aside in {aside}")
    return complain(bad, first) if first is not None and not readings else 0
