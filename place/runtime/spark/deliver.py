"""Delivery: after each tick, and after a restart, every sink gets the ticks it has not got yet.

Each sink has a thread while there is something to deliver. A tick waits a moment for it, so that
whoever pushes finds the deltas where they belong; but a sink that does not answer holds up nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from place.errors import ConfigurationError
from place.model.delta import Answer
from place.model.schema import Sink
from place.plan.catalog import fold
from place.runtime.durable.crash import point
from place.runtime.durable.deltas import WHOLE
from place.runtime.durable.kafka import KafkaTarget
from place.runtime.durable.mqtt import MqttTarget
from place.runtime.durable.postgres import PostgresTarget
from place.runtime.durable.sinks import (
    HOLD_BYTES,
    HOLD_TICKS,
    NOBODY,
    REMEMBER,
    Delivery,
    ParquetTarget,
    Target,
    WebhookTarget,
    progress_file,
    read_progress,
    write_progress,
)
from place.runtime.durable.storage import digest
from place.runtime.durable.webhook import Address

if TYPE_CHECKING:
    from place.runtime.spark.runtime import SparkRuntime


PATIENCE = 1.0
"""Seconds that a tick waits for its sinks, unless they took longer the last time."""
HELD = "held"
"""The fact about a home that tells which deltas others than its sinks still need."""


class Deliveries:
    """The sinks of a runtime's catalog."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self._runtime = runtime
        self._known: dict[str, Delivery] = {}
        self._lock = threading.Lock()
        self._is_closing = False
        self.others: Callable[[], int] = self._remembered
        """The last tick that all others have got for whom deltas are kept."""

    def delivered(self) -> int:
        """The last tick that all sinks have got, and all others for whom deltas are kept."""
        return min([self.others(), *(d.tick for d in list(self._known.values()))])

    def may_hold(self, tick: int) -> bool:
        """Are deltas after a tick still kept for somebody else who does not take them?"""
        kept = self._runtime.pipeline.kept
        behind = kept.count_after(tick)
        return not behind or (behind <= HOLD_TICKS and kept.size <= HOLD_BYTES)

    def hold(self, tick: int) -> None:
        """Remember the last tick that others have got, for whoever opens this home next.

        An older tick only keeps more, so not each one has to be written down.
        """
        home = self._runtime.home
        known = home.about.get(HELD)
        if tick >= NOBODY:
            if known is not None:
                home.remember(**{HELD: None})
        elif known is None or not known <= tick < known + REMEMBER:
            home.remember(**{HELD: tick})

    def _remembered(self) -> int:
        held = self._runtime.home.about.get(HELD)
        return held if held is not None and self.may_hold(held) else NOBODY

    def failures(self) -> dict[str, str]:
        """What keeps sinks from getting their deltas."""
        known = ((d.sink.name, d.attempts.error) for d in list(self._known.values()))
        return {name: error for name, error in known if error is not None}

    def check(self) -> None:
        """Raise if a sink is so far behind that its deltas would have to be given up."""
        kept = self._runtime.pipeline.kept
        for delivery in list(self._known.values()):
            if kept.is_overdue(delivery.tick):
                behind = kept.count_after(delivery.tick)
                raise ConfigurationError(
                    f'sink "{delivery.sink.name}" is {behind} ticks behind:'
                    f" {delivery.attempts.error}",
                    hint="mend or drop the sink; nothing is lost until then",
                )

    def follow(self) -> None:
        """Have a delivery for each sink of the catalog; a new one begins with the next tick."""
        self.forget_dropped()
        pipeline = self._runtime.pipeline
        for sink in self._runtime.catalog.sinks.values():
            if sink.name not in self._known:
                file = self._file(sink)
                tick = read_progress(pipeline.storage, file)
                if tick is None:
                    tick = pipeline.last.tick if pipeline.last else 0
                    write_progress(pipeline.storage, file, tick)
                # What is swept, every sink has got, or there was nothing in it for this one.
                tick = max(tick, pipeline.kept.kept_from - 1)
                self._known[sink.name] = Delivery(sink, self._target(sink), tick)

    def forget_dropped(self) -> None:
        """Deliver no more to sinks that the catalog does not have."""
        sinks = {sink.name: sink for sink in self._runtime.catalog.sinks.values()}
        for name in [n for n, d in self._known.items() if sinks.get(n) != d.sink]:
            del self._known[name]

    def _file(self, sink: Sink) -> str:
        return progress_file(sink, self._runtime.since(sink))

    def _target(self, sink: Sink) -> Target:
        if sink.target.kind == "PARQUET":
            return ParquetTarget(str(sink.target.option("path")), digest(sink.name))
        since = self._runtime.since(sink)
        label = f"{self._runtime.home.about['id']}-{digest(sink.name.casefold())}-{since}"
        if sink.target.kind == "KAFKA":
            return KafkaTarget(sink.target, label)
        if sink.target.kind == "MQTT":
            names = tuple(sink.queries or ())
            told = sink.target.option("tells")
            ask = (lambda: self._runtime.answers(names)) if told == "answers" else None
            return MqttTarget(sink.target, f"place-{label}", ask)
        if sink.target.kind == "POSTGRES":
            return self._table(sink, label)
        secret = sink.target.option("secret")
        # Only who may see everything creates sinks: they may name any address.
        url = str(sink.target.option("url"))
        return WebhookTarget(Address(url, str(secret) if secret else None, trusted=True))

    def _table(self, sink: Sink, label: str) -> Target:
        """A table of PostgreSQL for the answer of the sink's only query."""
        (name,) = sink.queries or ()
        query = self._runtime.catalog.queries[fold(name)]

        def answer() -> tuple[int, Answer]:
            tick, found = self._runtime.answers([name])
            return tick, found[query.name]

        return PostgresTarget(sink.target, label, query, answer)

    def deliver(self) -> None:
        """Give every sink what it has not got; one that fails is tried again after a pause."""
        begun = []
        for delivery in list(self._known.values()):
            with self._lock:
                if (
                    delivery.thread is None
                    and delivery.attempts.is_due
                    and self._is_behind(delivery)
                ):
                    name = f"place-sink-{delivery.sink.name}"
                    thread = threading.Thread(
                        target=self._run, args=(delivery,), name=name, daemon=True
                    )
                    delivery.thread = thread
                    begun.append((delivery, thread))
        for _, thread in begun:
            thread.start()
        until = time.monotonic() + PATIENCE
        for delivery, thread in begun:
            if not delivery.is_slow:
                thread.join(max(0.0, until - time.monotonic()))

    def settle(self) -> None:
        """Wait until all sinks have got what there is, or have failed."""
        for delivery in list(self._known.values()):
            if (thread := delivery.thread) is not None:
                thread.join()

    def close(self) -> None:
        """Stop after the ticks that are being delivered."""
        self._is_closing = True
        self.settle()

    def _is_behind(self, delivery: Delivery) -> bool:
        """Is there something to deliver to a sink that is still one of the catalog's?"""
        last = self._runtime.last
        is_known = self._known.get(delivery.sink.name) is delivery and not self._is_closing
        return is_known and last is not None and delivery.tick < last.tick

    def _run(self, delivery: Delivery) -> None:
        """Deliver until the sink has got all; in a thread of its own."""
        while True:
            with self._lock:
                if not self._is_behind(delivery):
                    delivery.thread = None
                    break
            began = time.monotonic()
            try:
                self._deliver(delivery)
                delivery.attempts.succeed()
            except Exception as error:  # of a connector, a file system, an address
                delivery.attempts.fail(error)
                with self._lock:
                    delivery.thread = None
                break
            finally:
                delivery.is_slow = time.monotonic() - began > PATIENCE

    def wants_retry(self) -> bool:
        """Is there a sink that has failed and whose pause is over?"""
        return any(d.attempts.failures and d.attempts.is_due for d in list(self._known.values()))

    def retry(self) -> None:
        """Try those again that have failed and whose pause is over."""
        if self.wants_retry():
            self.deliver()

    def _deliver(self, delivery: Delivery) -> None:
        newest = self._runtime.last
        assert newest is not None
        storage = self._runtime.pipeline.storage
        names = set(delivery.sink.queries) if delivery.sink.queries is not None else None
        query = None
        if names is not None and len(names) == 1 and delivery.target.wants_columns:
            query = self._runtime.catalog.queries.get(fold(next(iter(names))))
        for found in self._runtime.deltas.after((delivery.tick, WHOLE), newest.tick):
            if not self._is_behind(delivery):
                return
            changelog = found.changelog(names, query)
            if changelog.num_rows:
                delivery.target.deliver(found.tick, changelog)
                point("delivery", found.tick)
                write_progress(storage, self._file(delivery.sink), found.tick)
            delivery.tick = found.tick
        delivery.tick = newest.tick
