"""Where readings come from: files, Kafka, any streaming DataFrame. Each source is a Spark query of
its own, whose batches are ticks; feeds have threads instead (`feeding.py`).

Spark remembers what it has read in a checkpoint; the manifest of a tick remembers which batch of
which query it was. A batch that Spark gives again is therefore known, and nothing is computed.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from place.errors import ConfigurationError, PlaceError
from place.model.schema import External, Stream
from place.plan.catalog import fold
from place.runtime.durable.crash import point
from place.runtime.durable.kafka import client_settings
from place.runtime.durable.manifest import Mark
from place.runtime.durable.storage import StorageFull, digest
from place.runtime.durable.tick_pace import Budget, TickPace
from place.runtime.feeds.feed import is_feed
from place.runtime.intake.binary import binary_form
from place.runtime.spark.batches import (
    Piece,
    Pieces,
    files_in_pieces,
    frame_entry,
    kafka_entry,
    whole,
)
from place.runtime.spark.failure import failure_of
from place.runtime.spark.feeding import Feeds
from place.runtime.spark.inputs import StepsInput
from place.runtime.spark.kafka_source import NAME as KAFKA
from place.runtime.spark.kafka_source import SETTINGS, Allowance, KafkaReader, KafkaSource
from place.runtime.spark.pipeline import Entry
from place.sim.recipe import Recipe

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime

FILES_PER_TICK = 64
MOST = Budget(1_000_000, 1 << 40)
"""What a tick takes at most of a source; of files, as many as the option says."""
PATHS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


BEAT = 0.5
"""Seconds between the ticks of a generator whose steps come faster than that."""
READINGS_PER_TICK = 200_000
"""So many readings a tick takes of a generator that nothing holds back."""


@dataclass(frozen=True)
class Opened:
    """A source: its batches, and what a tick takes of each.

    `beat` are the seconds from batch to batch, where they do not come with the data; `batches` is
    how many there are, where they come to an end. `pace` learns how much a tick should take, and
    `allow` tells the source how much its next batch should have, where it asks for that.
    """

    frame: DataFrame
    pieces: Pieces
    pace: TickPace
    allow: Callable[[Budget], None] = lambda _: None
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
        self._feeds = Feeds(runtime)

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
        for stream in self._runtime.catalog.streams.values():
            if is_feed(stream):
                raise ConfigurationError(
                    f'the feed of stream "{stream.name}" has no end',
                    hint="read it until you stop: session.start(), or place run without --once",
                )
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
        self._feeds.stop()
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
        feeds = {name: streams.pop(name) for name in list(streams) if is_feed(streams[name])}
        self._feeds.follow(feeds)
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
        self._feeds.check()
        for error in list(self._failures.values()):
            raise error
        for running in list(self._running.values()):  # which other threads begin and end
            ended = running.query.exception() if running.query is not None else None
            if ended is not None:
                raise _failed(running, str(ended))

    def is_waited_for(self) -> bool:
        """Has a source data that is not yet in a tick?"""
        return self._feeds.is_waited_for() or any(
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

        def is_over(batch: int) -> bool:
            """Is there no such batch? Spark may ask for one more before it hears that the last one
            was the last; refusing it would look like a failure."""
            return opened.batches is not None and batch >= opened.batches

        def mark_of(query: str) -> Mark | None:
            last = runtime.pipeline.last
            mark = last.sources.get(label) if last is not None else None
            if mark is not None and mark.query != query:
                raise ConfigurationError(
                    f'stream "{stream.name}" was read by another query before: its checkpoint'
                    " is gone or is not its own",
                    hint="restore the checkpoint, or drop the stream and create it again",
                )
            return mark

        def take(frame: DataFrame, batch: int) -> None:
            came = time.time()
            query = str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
            if not is_over(batch):
                with runtime.pipeline.lock:
                    mark = mark_of(query)
                if mark is None or mark.batch < batch:
                    is_begun = mark is not None and mark.batch == batch - 1
                    taken = mark.taken if mark is not None and is_begun else 0
                    for piece in opened.pieces(frame, batch, taken):
                        tick(query, batch, piece, came)
            with runtime.pipeline.lock:
                if is_over(batch + 1):
                    self._end(running)  # it stays among those that are read: it has been
                number = runtime.pipeline.last.tick if runtime.pipeline.last else 0
            point("commit", number)

        def tick(query: str, batch: int, piece: Piece, came: float) -> None:
            """One tick. Others may have theirs before the next part of the batch."""
            entry, size, taken = piece
            with runtime.pipeline.lock:
                if running.is_stopping or stream not in runtime.catalog.streams.values():
                    raise Stopped
                runtime.check_sinks()
                self._checkpoints.save(label)
                epoch = runtime.pipeline.storage.epoch
                mark = Mark(query, batch, epoch)
                if taken is not None:
                    mark = Mark(query, batch - 1, epoch, taken)
                manifest = runtime.tick(replace(entry, marks={label: mark}, since=came))
            figures = manifest.metrics
            opened.pace.count(int(figures["rows"]), size, figures["seconds"])
            opened.allow(opened.pace.budget())

        def handle(frame: DataFrame, batch: int) -> None:
            try:
                take(frame, batch)
            except PlaceError as error:
                self._failures[stream.name] = error
                raise

        return handle

    # The kinds of sources

    def _opened(self, stream: Stream) -> Opened:
        pace = TickPace(self._runtime.tick_seconds, MOST)
        if stream.name in self._attached:
            return Opened(self._attached[stream.name], whole(frame_entry(stream)), pace)
        source = stream.source
        assert source is not None
        if source.kind in ("FILES", "NMEA"):
            return Opened(self._files(source), files_in_pieces(stream, pace), pace)
        if source.kind == "KAFKA":
            form, allowance = binary_form(stream, source), self._allowance(stream)
            frame = self._kafka(source, allowance, pace)
            return Opened(frame, whole(kafka_entry(stream, form)), pace, allow=allowance.write)
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
        beat = many / rate if rate else 0.0
        return Opened(frame, whole(entry), TickPace(None, MOST), beat=beat, batches=batches)

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
        return frame.selectExpr("path", "unix_micros(modificationTime) AS at", "length")

    def _allowance(self, stream: Stream) -> Allowance:
        label = f"{fold(stream.name)}-{self._runtime.since(stream)}"
        return Allowance(str(self._runtime.directory / "pace" / digest(label)))

    def _kafka(self, source: External, allowance: Allowance, pace: TickPace) -> DataFrame:
        settings, topic = client_settings(source), str(source.option("topic"))
        KafkaReader(settings, topic, MOST.readings).check()
        allowance.write(pace.budget())
        self._runtime.spark.dataSource.register(KafkaSource)
        reader = self._runtime.spark.readStream.format(KAFKA).option("topic", topic)
        reader = reader.option("most", MOST.readings).option("allowance", allowance.path)
        return reader.option(SETTINGS, json.dumps(settings)).load()


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
