"""Where readings come from: files, Kafka, any streaming DataFrame. Each source is a Spark query of
its own, whose batches are ticks.

Spark remembers what it has read in a checkpoint; the manifest of a tick remembers which batch of
which query it was. A batch that Spark gives again is therefore known, and nothing is computed.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from place.engine.slices import UNORDERED
from place.errors import ConfigurationError, PlaceError
from place.model.schema import External, Stream
from place.plan.catalog import fold
from place.runtime.durable.crash import point
from place.runtime.durable.kafka import client_settings
from place.runtime.durable.manifest import Mark
from place.runtime.durable.storage import StorageFull
from place.runtime.intake.check import Routed, check_table
from place.runtime.intake.files import check_json
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.spark.failure import failure_of
from place.runtime.spark.inputs import FileInput, PackInput, StepsInput, TickInput
from place.runtime.spark.kafka_source import NAME as KAFKA
from place.runtime.spark.kafka_source import SETTINGS, KafkaReader, KafkaSource
from place.runtime.spark.pipeline import Entry
from place.runtime.spark.route import Routing, keep_routed
from place.sim.recipe import Recipe

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime

FILES_PER_TICK = 64
MESSAGES_PER_TICK = 1_000_000
PATHS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
NAMES = (
    "file STRING, bad BIGINT, quarantine ARRAY<STRING>, seconds DOUBLE, number INT, reason STRING"
)

BEAT = 0.5
"""Seconds between the ticks of a generator whose steps come faster than that."""
READINGS_PER_TICK = 200_000
"""So many readings a tick takes of a generator that nothing holds back."""

FromBatch = Callable[[DataFrame, int], Entry]
"""What a tick takes of a batch of a source."""


@dataclass(frozen=True)
class Opened:
    """A source: its batches, and what a tick takes of each.

    `beat` are the seconds from batch to batch, where they do not come with the data; `batches` is
    how many there are, where they come to an end.
    """

    frame: DataFrame
    entry: FromBatch
    beat: float | None = None
    batches: int | None = None


@dataclass
class Running:
    """A source that is being read."""

    stream: Stream
    query: StreamingQuery | None = None
    is_stopping: bool = False


class Stopped(Exception):
    """A batch that came too late to be a tick: Spark gives it again when it is read again."""


class Sources:
    """The sources of a runtime's streams; those of dropped streams are stopped."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self._runtime = runtime
        self._running: dict[str, Running] = {}
        self._attached: dict[str, DataFrame] = {}
        self._trigger: dict[str, Any] | None = None
        self._ending: list[threading.Thread] = []
        self._failures: dict[str, PlaceError] = {}
        self._checkpoints = runtime.checkpoints

    # Begin and end

    def start(self) -> None:
        """Read all sources from now on, as data comes."""
        self._failures.clear()
        self._trigger = {"processingTime": "0 seconds"}
        self.follow()

    def drain(self) -> None:
        """Read all that the sources have now, and return when it is done."""
        if self._trigger is not None:
            raise ConfigurationError("the sources are being read already", hint="stop them first")
        self._failures.clear()
        self._trigger = {"availableNow": True}
        try:
            self.follow()
            self.check()
            for running in list(self._running.values()):
                self._wait(running)
        finally:
            self.stop()
        self._runtime.deliveries.settle()

    def stop(self) -> None:
        """Stop reading; a tick that has begun is finished first."""
        self._trigger = None
        for name in list(self._running):
            self._stop(name)
        for ending in self._ending:
            ending.join()
        self._ending = []

    def attach(self, name: str, frame: DataFrame) -> None:
        """Let a streaming DataFrame be the source of a stream."""
        if not frame.isStreaming:
            raise ConfigurationError(
                f'the DataFrame for stream "{name}" is not a streaming one',
                hint="make it with spark.readStream, or push its rows",
            )
        self._attached[name] = frame
        self.follow()

    def follow(self) -> None:
        """Read the sources of the streams that there are now, once reading has begun.

        What keeps one from being read is told by `check`: the statement that made it has worked.
        """
        if self._trigger is None:
            return
        streams = {stream.name: stream for stream in self._runtime.catalog.streams.values()}
        for name, running in list(self._running.items()):
            if streams.get(name) != running.stream:
                self._stop(name)
        for name in self._failures.keys() - streams.keys():
            del self._failures[name]
        for name, stream in streams.items():
            if name not in self._running and (stream.source or name in self._attached):
                try:
                    self._begin(stream)
                except PlaceError as error:
                    self._failures[name] = error

    def check(self) -> None:
        """Raise what has ended a source."""
        for error in list(self._failures.values()):
            raise error
        for running in list(self._running.values()):  # which other threads begin and end
            ended = running.query.exception() if running.query is not None else None
            if ended is not None:
                raise _failed(running, str(ended))

    def is_waited_for(self) -> bool:
        """Has a source data that is not yet in a tick?"""
        return any(
            running.query is not None and bool(running.query.status["isDataAvailable"])
            for running in list(self._running.values())
        )

    def _wait(self, running: Running) -> None:
        assert running.query is not None
        try:
            running.query.awaitTermination()
        except Exception as error:  # of Spark; what we raised ourselves is kept
            known = self._failures.get(running.stream.name)
            raise known or _failed(running, str(error)) from None

    def _stop(self, name: str) -> None:
        """End a source: the tick that is under way is finished, a batch that waits is refused.

        Spark waits for that batch, and the batch for the lock, which whoever drops a stream holds;
        so someone else asks Spark to stop.
        """
        with self._runtime.pipeline.lock:
            running = self._running.pop(name)
        self._end(running)

    def _end(self, running: Running) -> None:
        if running.is_stopping:
            return
        running.is_stopping = True

        def end() -> None:
            if running.query is not None:
                with contextlib.suppress(Exception):  # a batch that was refused ends it with one
                    running.query.stop()

        self._ending.append(threading.Thread(target=end, daemon=True))
        self._ending[-1].start()

    def _begin(self, stream: Stream) -> None:
        opened = self._opened(stream)
        label = f"{fold(stream.name)}-{self._runtime.since(stream)}"
        last = self._runtime.last
        mark = last.sources.get(label) if last is not None else None
        checkpoint = self._checkpoints.location(label, mark)
        writer = opened.frame.writeStream.queryName(f"place-{stream.name}-{id(self)}")
        writer = writer.option("checkpointLocation", checkpoint)
        self._running[stream.name] = running = Running(stream)
        handle = self._handler(running, label, opened)
        trigger = self._trigger or {}
        if opened.beat is not None:
            beat = 0.0 if self._is_draining else opened.beat
            trigger = {"processingTime": f"{round(beat * 1000)} milliseconds"}
        running.query = writer.foreachBatch(handle).trigger(**trigger).start()

    @property
    def _is_draining(self) -> bool:
        return "availableNow" in (self._trigger or {})

    def _handler(
        self, running: Running, label: str, opened: Opened
    ) -> Callable[[DataFrame, int], None]:
        """What a batch of a source is: a tick, unless it has been one already."""
        runtime, stream = self._runtime, running.stream

        def take(frame: DataFrame, batch: int) -> None:
            came = time.time()
            query = str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
            with runtime.pipeline.lock:
                if opened.batches is not None and batch >= opened.batches:
                    # Spark may ask for one more batch before it hears that the last one was the
                    # last. There is nothing in it, and refusing it would look like a failure.
                    self._end(running)
                    return
                if running.is_stopping or stream not in runtime.catalog.streams.values():
                    raise Stopped
                runtime.check_sinks()
                last = runtime.pipeline.last
                mark = last.sources.get(label) if last is not None else None
                if mark is not None and mark.query != query:
                    raise ConfigurationError(
                        f'stream "{stream.name}" was read by another query before: its checkpoint'
                        " is gone or is not its own",
                        hint="restore the checkpoint, or drop the stream and create it again",
                    )
                if mark is None or mark.batch < batch:
                    self._checkpoints.save(label)
                    marks = {label: Mark(query, batch, runtime.pipeline.storage.epoch)}
                    entry = opened.entry(frame, batch)
                    runtime.tick(replace(entry, marks=marks, since=came))
                if opened.batches is not None and batch + 1 >= opened.batches:
                    self._end(running)  # it stays among those that are read: it has been
                number = runtime.pipeline.last.tick if runtime.pipeline.last else 0
            point("commit", number)

        def handle(frame: DataFrame, batch: int) -> None:
            try:
                take(frame, batch)
            except PlaceError as error:
                self._failures[stream.name] = error
                raise

        return handle

    # The kinds of sources

    def _opened(self, stream: Stream) -> Opened:
        if stream.name in self._attached:
            return Opened(self._attached[stream.name], _frame_entry(stream))
        source = stream.source
        assert source is not None
        if source.kind == "FILES":
            return Opened(self._files(source), _files_entry(stream))
        if source.kind == "KAFKA":
            return Opened(self._kafka(source), _kafka_entry(stream))
        return self._generated(stream, source)

    def _generated(self, stream: Stream, source: External) -> Opened:
        """Spark counts the batches and keeps the beat; cells make the readings of their steps."""
        recipe = Recipe.of(dict(source.options))
        recipe.make_city(stream.space)  # what is wrong with it is told before anything runs
        steps, rate = (source.option(name) for name in ("steps", "rate"))
        if self._is_draining and steps is None:
            raise ConfigurationError(
                f'the generator of stream "{stream.name}" has no end',
                hint="give it one: GENERATOR (…, steps = 1000)",
            )
        rate = 1.0 / recipe.period if rate is None else float(rate)
        # Batches are numbered, and steps with them: this must be the same when it starts again.
        many = max(1, math.ceil(rate * BEAT) if rate else READINGS_PER_TICK // recipe.objects)
        reader = self._runtime.spark.readStream.format("rate-micro-batch")
        frame = reader.option("rowsPerBatch", 1).load()
        last = None if steps is None else int(steps)

        def entry(_: DataFrame, batch: int) -> Entry:
            after = (batch + 1) * many
            first, after = batch * many, after if last is None else min(after, last)
            return Entry([StepsInput(stream.name, first, after)])

        batches = None if last is None else math.ceil(last / many)
        return Opened(frame, entry, many / rate if rate else 0.0, batches)

    def _files(self, source: External) -> DataFrame:
        path = str(source.option("path"))
        if "://" not in path:
            directory = Path(path)
            if directory.exists() and not directory.is_dir():
                raise ConfigurationError(f"{path} is not a directory")
            directory.mkdir(parents=True, exist_ok=True)
            path = str(directory.absolute())
        reader = self._runtime.spark.readStream.format("binaryFile").schema(PATHS)
        reader = reader.option("maxFilesPerTrigger", self._runtime.files_per_tick)
        # Spark leaves out files that are older than the newest by this; none should be left out.
        frame = reader.option("maxFileAge", "36500d").load(path)
        return frame.selectExpr("path", "unix_micros(modificationTime) AS at")

    def _kafka(self, source: External) -> DataFrame:
        settings, topic = client_settings(source), str(source.option("topic"))
        KafkaReader(settings, topic, MESSAGES_PER_TICK).check()
        self._runtime.spark.dataSource.register(KafkaSource)
        reader = self._runtime.spark.readStream.format(KAFKA).option("topic", topic)
        reader = reader.option(SETTINGS, json.dumps(settings)).option("most", MESSAGES_PER_TICK)
        return reader.load()


def _files_entry(stream: Stream) -> FromBatch:
    """Only paths pass through Spark: cells, or the tasks of the route stage, read the files."""
    name, arrives = stream.name, stream.time is None

    def entry(frame: DataFrame, _: int) -> Entry:
        latest = latest_time(stream, wall_clock())

        def named(_: Routing) -> list[TickInput]:
            return [
                FileInput(name, path, at, at if arrives else None, latest)
                for path, at in frame.collect()
            ]

        return Entry(given=named)

    return entry


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


def _frame_entry(stream: Stream) -> FromBatch:
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


def _kafka_entry(stream: Stream) -> FromBatch:
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
            parts[str(partition)] = check_json(
                stream, some.column("value"), source, arrival=arrival, latest=latest
            )
        return keep_routed(routing, stream.name, parts, _partition(), start)

    return _through(stream, route)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _failed(running: Running, text: str) -> PlaceError:
    """What has ended a source, in our words where we have some."""
    said = f'the source of stream "{running.stream.name}" failed: '
    if "No space left" in text:
        hint = "free some space and start again: nothing that was committed is lost"
        return StorageFull(f"{said}no space left on the disk", hint=hint)
    if "place.errors." in text:
        found = failure_of(text)
        return type(found)(said + found.message, hint=found.hint)
    return ConfigurationError(said + _first(text))


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]
