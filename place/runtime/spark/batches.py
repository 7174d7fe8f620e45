"""What a tick takes of a batch of a source: paths of files, or rows that pass through Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from place.engine.slices import UNORDERED
from place.model.schema import Stream
from place.runtime.durable.tick_pace import TickPace
from place.runtime.intake.binary import BinaryForm, check_binary
from place.runtime.intake.check import Routed, check_table
from place.runtime.intake.files import check_json
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.intake.judge import Arrival
from place.runtime.spark.inputs import FileInput, PackInput, TickInput
from place.runtime.spark.pipeline import Entry
from place.runtime.spark.route import Routing, keep_routed

NAMES = (
    "file STRING, bad BIGINT, quarantine ARRAY<STRING>, seconds DOUBLE, number INT, reason STRING"
)

FromBatch = Callable[[DataFrame, int], Entry]
"""What a tick takes of a batch of a source."""
Piece = tuple[Entry, int, int | None]
"""What a tick takes of a part of a batch, its bytes, and how many files of the batch are taken with
it; None if all are."""
Pieces = Callable[[DataFrame, int, int], Iterator[Piece]]
"""The parts of a batch, by its number, of which so many files are taken already."""


def whole(entry: FromBatch) -> Pieces:
    """A batch is one tick: the source itself has made it as large as a tick should be."""

    def pieces(frame: DataFrame, batch: int, _: int) -> Iterator[Piece]:
        yield entry(frame, batch), 0, None

    return pieces


def files_in_pieces(stream: Stream, pace: TickPace) -> Pieces:
    """A batch of files in parts that each take about as long as a tick should, by their bytes.

    Only paths pass through Spark: cells, or the tasks of the route stage, read the files.
    """
    arrives = stream.time is None

    def pieces(frame: DataFrame, _: int, taken: int) -> Iterator[Piece]:
        files = sorted((at, path, size) for path, at, size in frame.collect())
        while taken < len(files):
            latest, budget = latest_time(stream, wall_clock()), pace.budget()
            first, total = taken, 0
            while taken < len(files) and (taken == first or total + files[taken][2] <= budget.size):
                total += files[taken][2]
                taken += 1
            inputs = [
                FileInput(stream.name, path, at, at if arrives else None, latest)
                for at, path, _ in files[first:taken]
            ]
            yield Entry(inputs), total, taken if taken < len(files) else None

    return pieces


Route = Callable[[Routing, Iterable[pa.RecordBatch], int], PackInput | None]
"""Checks rows and writes their segments; the number is the latest time that they may have."""


def _through(stream: Stream, route: Route) -> FromBatch:
    """The rows of a DataFrame pass through Spark once, into segments; their names go on."""

    def entry(frame: DataFrame, _: int) -> Entry:
        latest = latest_time(stream, wall_clock())
        return Entry(given=lambda routing: _routed(frame, routing, stream.name, route, latest))

    return entry


def _routed(
    frame: DataFrame, routing: Routing, stream: str, route: Route, latest: int
) -> list[TickInput]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = route(routing, batches, latest)
        if made is not None:
            yield pa.RecordBatch.from_pydict(
                {
                    "file": [made.file],
                    "bad": [made.bad],
                    "quarantine": [list(made.quarantine)],
                    "seconds": [made.seconds],
                    "number": pa.array([made.order], pa.int32()),
                    "reason": pa.array([made.reason], pa.string()),
                }
            )

    return [
        PackInput(file, number, stream, bad, tuple(aside), seconds, reason)
        for file, bad, aside, seconds, number, reason in frame.mapInArrow(write, NAMES).collect()
    ]


def frame_entry(stream: Stream) -> FromBatch:
    def route(routing: Routing, batches: Iterable[pa.RecordBatch], latest: int) -> PackInput | None:
        start = time.perf_counter()
        found = list(batches)
        if not sum(batch.num_rows for batch in found):
            return None
        number = _partition()
        table = pa.Table.from_batches(found)
        arrival = routing.arrival(stream, wall_clock()) if stream.time is None else None
        source = f"partition {number}"
        routed = check_table(stream, table, source, arrival=arrival, latest=latest)
        return keep_routed(routing, stream.name, {UNORDERED: routed}, number, start)

    return _through(stream, route)


def kafka_entry(stream: Stream, form: BinaryForm | None) -> FromBatch:
    def checked(values: pa.ChunkedArray, source: str, arrival: Arrival, latest: int) -> Routed:
        if form is None:
            return check_json(stream, values, source, arrival=arrival, latest=latest)
        return check_binary(stream, form, values, source, arrival=arrival, latest=latest)

    def route(routing: Routing, batches: Iterable[pa.RecordBatch], latest: int) -> PackInput | None:
        start = time.perf_counter()
        found = list(batches)
        if not sum(batch.num_rows for batch in found):
            return None
        table = pa.Table.from_batches(found).sort_by(
            [("partition", "ascending"), ("offset", "ascending")]
        )
        parts: dict[str | None, Routed] = {}
        for partition in table.column("partition").unique().to_pylist():
            some = table.filter(pa.compute.equal(table.column("partition"), partition))
            times = some.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64())
            arrival = times.combine_chunks() if stream.time is None else None
            source = f"partition {partition} from offset {some.column('offset')[0]}"
            parts[str(partition)] = checked(some.column("value"), source, arrival, latest)
        return keep_routed(routing, stream.name, parts, _partition(), start)

    return _through(stream, route)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
