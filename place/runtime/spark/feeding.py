"""Feeds as sources: a thread for each makes a tick of what has come, and acknowledges it then.

Nothing of a feed passes through Spark: a batch is checked in the driver, and what is good and what
is set aside of it are inputs of its tick, as those of Kafka are. The commit of the tick makes it
durable. A feed that cannot be reached, or a tick that fails, is tried again after a pause; what was
not acknowledged meanwhile is still with who sent it, or in memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from place.errors import PlaceError
from place.model.schema import Stream
from place.plan.catalog import fold
from place.runtime.durable.crash import FEED, point
from place.runtime.durable.storage import digest
from place.runtime.durable.tick_pace import Budget, TickPace
from place.runtime.durable.webhook import Attempts
from place.runtime.feeds.feed import MOST_WAITING, Batch, Feed
from place.runtime.feeds.opened import open_feed
from place.runtime.intake.future import latest_time, wall_clock
from place.runtime.spark.inputs import TickInput
from place.runtime.spark.pipeline import Entry
from place.runtime.spark.route import Routing, kept

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime

LOG = logging.getLogger("place.spark")
WAIT = 0.2
"""Seconds that a thread waits for messages before it looks whether it should end."""
MOST = Budget(MOST_WAITING, 1 << 40)


class FeedThread:
    """A feed that is being read, by a thread of its own."""

    def __init__(self, runtime: SparkRuntime, stream: Stream) -> None:
        self.stream = stream
        self._runtime = runtime
        label = f"{fold(stream.name)}-{runtime.since(stream)}"
        self._feed: Feed = open_feed(stream, f"place-{runtime.home.about['id']}-{digest(label)}")
        self._pace = TickPace(runtime.tick_seconds, MOST)
        self._stopping = threading.Event()
        self._has_taken = False
        self._attempts = Attempts()
        self.error: PlaceError | None = None
        """What has gone wrong last, until something goes well."""
        name = f"place-feed-{stream.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def is_waited_for(self) -> bool:
        """Has it messages that are in no tick yet?"""
        return self._has_taken or self._feed.is_waited_for()

    def end(self) -> None:
        """Have it stop after the tick that is under way."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        waiting: Batch | None = None
        try:
            while not self._stopping.is_set():
                try:
                    waiting = waiting or self._feed.take(WAIT, self._pace.budget().readings)
                    if waiting is None:
                        continue
                    self._has_taken = True
                    if waiting.items:  # or there is nothing in them for this stream
                        self._tick(waiting)
                    self._feed.acknowledge(waiting)
                    waiting, self._has_taken = None, False
                    self._succeed()
                except _Over:
                    return
                except PlaceError as error:
                    self._fail(error)
                except Exception as error:  # of a library, or a bug: other streams go on
                    LOG.debug("feed", exc_info=error)
                    self._fail(PlaceError(f"{type(error).__name__}: {error}".partition("\n")[0]))
        finally:
            self._feed.close()

    def _succeed(self) -> None:
        if self._attempts.failures:
            LOG.info('the feed of stream "%s" is read again', self.stream.name)
        self._attempts.succeed()
        self.error = None

    def _fail(self, error: PlaceError) -> None:
        if self._attempts.error != str(error).strip().partition("\n")[0]:
            LOG.warning('the feed of stream "%s": %s', self.stream.name, error)
        self.error = error
        self._stopping.wait(self._attempts.fail(error))

    def _tick(self, batch: Batch) -> None:
        runtime, came = self._runtime, time.time()

        def given(routing: Routing) -> Sequence[TickInput]:
            start, stream = time.perf_counter(), self.stream
            now = wall_clock()
            arrival = routing.arrival(stream, now) if stream.time is None else None
            routed = batch.check(stream, arrival, latest_time(stream, now))
            return [kept(routing, stream.name, {None: routed}, 0, start)]

        with runtime.pipeline.lock:
            streams = runtime.catalog.streams.values()
            if self._stopping.is_set() or self.stream not in streams:
                raise _Over
            runtime.check_sinks()
            manifest = runtime.tick(Entry(given=given, since=came))
        self._pace.count(int(manifest.metrics["rows"]), 0, manifest.metrics["seconds"])
        point(FEED, manifest.tick)


class _Over(Exception):
    """The stream was dropped, or reading is stopped: what was taken is not acknowledged."""


class Feeds:
    """The feeds of a runtime's streams."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self._runtime = runtime
        self._threads: dict[str, FeedThread] = {}
        self._ending: list[FeedThread] = []

    def follow(self, streams: Mapping[str, Stream]) -> None:
        """Read these and no others. Who drops a stream need not wait until its feed has ended."""
        for name, reading in list(self._threads.items()):
            if streams.get(name) != reading.stream:
                del self._threads[name]
                reading.end()
                self._ending.append(reading)
        for name, stream in streams.items():
            if name not in self._threads:
                self._threads[name] = FeedThread(self._runtime, stream)

    def stop(self) -> None:
        """Read none any more, after the ticks that are under way."""
        self.follow({})
        for reading in self._ending:
            reading.join()
        self._ending = []

    def check(self) -> None:
        """Raise what has gone wrong, if no tick can be made any more; else it is tried again."""
        for thread in list(self._threads.values()):
            if thread.error is not None and self._runtime.pipeline.is_over:
                raise thread.error

    def is_waited_for(self) -> bool:
        return any(reading.is_waited_for() for reading in list(self._threads.values()))
