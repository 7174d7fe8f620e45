"""The runtime on Spark: statements and pushed readings are ticks, and so is each batch of a source.

Everything is durable when it is acknowledged: a statement in the catalog, pushed readings in the
ingest log, a tick by its manifest. What was durable and not yet a tick when a process ended becomes
one when the next begins.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from place.engine.matrix import Matrix
from place.engine.slices import Told
from place.errors import ConfigurationError, PlaceError
from place.model.deadline import OutOfTime
from place.model.delta import Answer, Delta
from place.model.schema import Sink, Stream
from place.model.time import BEGINNING
from place.plan.catalog import Catalog, fold
from place.plan.explain import Observed
from place.plan.logical import Plan
from place.plan.past import Question
from place.plan.query import Query
from place.runtime.archive import Archive
from place.runtime.durable.deltas import Deltas, KeptRows
from place.runtime.durable.home import Home
from place.runtime.durable.kept_ticks import Keep
from place.runtime.durable.lease import Lease
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.positions import Positions, check_has_places, positions_of
from place.runtime.durable.statement_log import follow
from place.runtime.durable.storage import Storage, StorageFault
from place.runtime.durable.takeover import cells_of, held, root_of
from place.runtime.durable.told import packed_told
from place.runtime.intake.check import Rejected
from place.runtime.intake.quarantine import unpack
from place.runtime.interface import DurableRuntime, Fed, Listener, OnCommit, Recalled
from place.runtime.local import plan_of, told_of
from place.runtime.spark.archived_ticks import open_repository
from place.runtime.spark.changes import changes_of
from place.runtime.spark.checkpoints import Checkpoints
from place.runtime.spark.deliver import Deliveries
from place.runtime.spark.ingest import IngestLog, size_of
from place.runtime.spark.inputs import AdvanceInput, BegunInput, EnclosedInput, FileInput
from place.runtime.spark.late_queries import begun_inputs
from place.runtime.spark.past_jobs import PastJobs
from place.runtime.spark.pipeline import Entry, Pipeline
from place.runtime.spark.pushed_ticks import take_files, take_singly
from place.runtime.spark.sources import FILES_PER_TICK, Sources
from place.runtime.store import CatalogStore
from place.sql.limits import current

LOG = logging.getLogger("place.spark")


class SparkRuntime:
    """Queries on a Spark session. Without a home it keeps its files only while it is open."""

    name = "spark"
    listener: Listener | None = None

    def __init__(
        self,
        spark: SparkSession,
        home: Path | None = None,
        *,
        storage: str | None = None,
        matrix: Matrix | None = None,
        threads: int | None = None,
        keep: Keep | None = None,
        files_per_tick: int = FILES_PER_TICK,
        tick: float | None = None,
        job_rows: int | None = None,
    ) -> None:
        self.spark = spark
        self.tick_seconds = tick
        """How long a tick should take, if that was asked."""
        self.files_per_tick = files_per_tick
        self._job_rows = job_rows
        self._scratch = tempfile.TemporaryDirectory(prefix="place-home-") if home is None else None
        self.directory = (
            home if home is not None else Path(str(self._scratch and self._scratch.name))
        )
        self.home = Home(self.directory, "pipeline")
        self._lease: Lease | None = None
        try:
            self._store = CatalogStore(self.directory)
            self.pipeline = self._made(storage, matrix, threads, keep)
            try:
                self._open()
            except BaseException:
                self.pipeline.close()
                raise
        except BaseException:
            self._let_go()
            raise

    def _made(
        self, storage: str | None, matrix: Matrix | None, threads: int | None, keep: Keep | None
    ) -> Pipeline:
        asked = [matrix.rows, matrix.columns] if matrix is not None else None
        root = root_of(self.home, storage)
        if root is None:
            place = Storage(str(self.directory.absolute()))
        else:
            place, self._lease = held(self.home, root, asked)
        about = self.home.about
        cells = cells_of(place) or about.get("cells") or asked or [1, 1]
        self.home.remember(cells=cells)
        matrix = matrix or Matrix(*cells)
        cores = self.spark.sparkContext.defaultParallelism
        share = max(1, cores // (matrix.rows * matrix.columns)) if threads is None else threads
        made = Pipeline(self.spark, place, about["id"], matrix, share, keep or Keep(), self._lease)
        if self._lease is not None:
            follow(self._store, place, made.last, self._lease)
            made.statements = self._store.entry
        return made

    def _open(self) -> None:
        self.deltas = Deltas(self.pipeline.storage, self.pipeline.kept)
        last = self.last
        self.ingest = IngestLog(
            self.pipeline.storage,
            last.ingest if last is not None else 0,
            self.pipeline.log.files,
            lambda stream: self.catalog.has(stream),
            self.reached,
            self.pipeline.confirm,
            lambda told: self.pipeline.slicing.fill(self.catalog.streams.values(), told),
            self.tick_seconds,
        )
        self.catalog = Catalog()
        for known in self._store.versions(self.pipeline.log.versions):
            self.pipeline.know(known)
            self.catalog = known
        self.checkpoints = Checkpoints(self.pipeline.storage, self.directory, self._lease)
        self.sources = Sources(self)
        self.deliveries = Deliveries(self)
        self._is_own = False
        self.deliveries.follow()
        self.pipeline.on_commit = [self._committed]
        self.pipeline.delivered = self.deliveries.delivered
        self.deliveries.deliver()
        self.archive: Archive
        self.repository = self.archive = open_repository(self.pipeline, self._store.load)
        self.repository.open(0 if last is None else last.tick, self.catalog)
        context = self.spark.sparkContext
        self.past = PastJobs(context, self.pipeline.storage, self.repository, self._job_rows)
        self._roll_forward()

    def _roll_forward(self) -> None:
        """Make ticks of what was durable and had become none."""
        if self.ingest.due():
            LOG.info("readings of before are taken first: %d", self.ingest.waiting()[0])
        newest = self._store.load()
        if newest.version != self.catalog.version:
            self._adopt(newest)  # which was accepted, however long it takes
        while self.ingest.due():
            try:
                self.pump()
            except StorageFault:
                raise
            except PlaceError:
                self.take_singly()

    def take_singly(self) -> None:
        """Make ticks of files that make none together: one that is bad must not stop the rest."""
        take_singly(self)

    def tick(self, entry: Entry, seconds: float | None = None) -> Manifest:
        """Run a tick with the catalog as it is; queries that begin may take so many seconds."""
        with self.pipeline.lock:
            return self.pipeline.tick(self.catalog, entry, seconds)

    def check_sinks(self) -> None:
        """Raise if a sink is so far behind that no more should be taken in."""
        self.deliveries.check()

    def _committed(self, manifest: Manifest) -> None:
        """A tick is done: sinks and subscribers get its deltas."""
        self.repository.told(manifest.tick, self.catalog)
        self.deliveries.deliver()
        if self.listener is not None and not self._is_own and manifest.deltas:
            self.listener(self._deltas(manifest))

    def since(self, definition: Stream | Sink) -> int:
        """The version of the catalog in which a stream or sink was created."""
        kind = "stream" if isinstance(definition, Stream) else "sink"
        return self._store.since(kind, fold(definition.name))

    def reached(self, stream: Stream) -> int | None:
        """The time that a stream has reached by the last tick, if it has got anything."""
        last = self.pipeline.last
        closed = None if last is None else last.clocks.get(stream.name)
        return None if closed is None else closed + stream.lateness

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """No tick begins meanwhile."""
        with self.pipeline.lock:
            yield

    @contextlib.contextmanager
    def idle(self) -> Iterator[bool]:
        """True if no tick is under way and none is waited for; then none begins meanwhile."""
        if not self.pipeline.lock.acquire(blocking=False):
            yield False
            return
        try:
            yield not self.sources.is_waited_for()
        finally:
            self.pipeline.lock.release()

    def tend(self) -> None:
        """Try sinks again that have failed, take up readings that were put back, and raise what
        has ended a source."""
        self.deliveries.retry()
        self.ingest.restore()
        self.sources.check()

    @property
    def last(self) -> Manifest | None:
        """The last tick."""
        return self.pipeline.last

    def watch(self, listener: OnCommit) -> None:
        """Tell somebody of each tick from now on."""
        with self.pipeline.lock:
            self.pipeline.on_commit.append(listener)

    def unwatch(self, listener: OnCommit) -> None:
        """Tell somebody no more."""
        with self.pipeline.lock:
            self.pipeline.on_commit.remove(listener)

    @contextlib.contextmanager
    def _owned(self) -> Iterator[None]:
        """The tick's deltas are returned to whoever caused it, who passes them on."""
        with self.pipeline.lock:
            self._is_own = True
            try:
                yield
            finally:
                self._is_own = False

    def close(self) -> None:
        """Stop; what was durable stays."""
        self.sources.stop()
        self.deliveries.close()
        self.repository.close()
        self.pipeline.close()
        self._store.close()
        self._let_go()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _let_go(self) -> None:
        """Let another process have the home, and its storage."""
        if self._lease is not None:
            self._lease.release()
        self.home.close()

    # The runtime's interface

    def change(self, catalog: Catalog) -> Sequence[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""
        with self._owned(), self.ingest.lock:  # readings are of the streams that they were for
            done: list[Manifest] = []
            while (manifest := self.pump()) is not None:
                done.append(manifest)
            _, begun = catalog.queries.since(self.catalog.queries)
            self._store.save(self.catalog, catalog)
            try:
                done.append(self._adopt(catalog, current().seconds if begun else None))
            except OutOfTime:
                if self.listener is not None and any(manifest.deltas for manifest in done):
                    self.listener(self._deltas(*done))  # nobody gets them by this call
                raise
            deltas = self._deltas(*done)
        self.sources.follow()
        return deltas

    def _adopt(self, catalog: Catalog, seconds: float | None = None) -> Manifest:
        """Make a tick of a version that is in the store; if that fails, take the version back."""
        before, self.catalog = self.catalog, catalog
        self.deliveries.forget_dropped()
        begun: list[BegunInput] = []
        try:
            begun = begun_inputs(
                *(self.archive, self.pipeline.storage, self.pipeline.matrix, before, catalog),
                lambda query: self.pipeline.beginning(before, query.streams),
                seconds,
            )
            manifest = self.tick(Entry(begun), seconds)
        except Exception:  # also what cannot be sent to tasks: it must not stop later ticks
            self.catalog = replace(before, version=catalog.version + 1)
            self._store.save(catalog, self.catalog)
            for name in (name for each in begun for name in each.files):
                self.pipeline.storage.remove(name)
            raise
        finally:
            self.deliveries.follow()
        return manifest

    def feed(self, inputs: Sequence[Fed]) -> Sequence[Delta]:
        """One tick: take readings and advances in the source's order; the deltas that follow."""
        with self._owned():
            self.check_sinks()
            told = told_of(self.catalog, inputs)
            if size_of(told) <= self.pipeline.small:
                return self._feed_few(told)
            written = self.ingest.write_in_parts(told)
            done: list[Manifest] = []
            try:
                while not self._has_taken(written[-1].number):
                    manifest = self.pump()
                    assert manifest is not None
                    done.append(manifest)
            except PlaceError:
                for logged in written:  # and whoever pushed it is told
                    if not self._has_taken(logged.number) and not self.pipeline.is_over:
                        self.ingest.withdraw(logged)
                raise
            return self._deltas(*done)

    def _feed_few(self, told: Sequence[Told]) -> Sequence[Delta]:
        """A tick of readings that need no file of their own, after all that waits."""
        done: list[Manifest] = []
        while (manifest := self.pump()) is not None:
            done.append(manifest)
        return self._deltas(*done, self.tick(Entry([EnclosedInput(packed_told(told))])))

    def _has_taken(self, number: int) -> bool:
        return self.pipeline.last is not None and self.pipeline.last.ingest >= number

    def accept(self, stream: Stream, table: pa.Table) -> int:
        """Checked readings, durable when this returns, for the next tick; their number."""
        return self.ingest.offer(stream, table).number

    def accept_until(self, stream: Stream | None, told: Sequence[Told]) -> None:
        """Readings and advances, durable when this returns, in this order; of one stream, if there
        is still that one, or of all."""
        with self.ingest.lock:
            if stream is not None and not self.catalog.has(stream):
                raise ConfigurationError(f'stream "{stream.name}" does not exist')
            self.ingest.write_in_parts(told)

    def waiting(self) -> tuple[int, int]:
        """The accepted readings, and their bytes, that no tick has taken yet."""
        return self.ingest.waiting()

    def waiting_seconds(self) -> float:
        """How long it will be until they are taken, by what the last ticks took."""
        return self.ingest.pace.seconds_for(*self.ingest.waiting())

    def set_aside(self) -> list[str]:
        """The files of accepted readings of which no tick could be made."""
        return self.ingest.set_asides()

    def past_faults(self) -> dict[str, str]:
        """Why the past of streams cannot be read or written, by their names."""
        return dict(self.repository.faults)

    def pump(self) -> Manifest | None:
        """One tick of what was accepted; None if nothing waits."""
        with self.pipeline.lock:
            due = self.ingest.due()
            return take_files(self, due) if due else None

    def answer(self, query: str) -> Answer:
        """The answer of a registered query as of the last tick."""
        return self._probe(self.catalog.queries[fold(query)])

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""
        streams = ",".join(sorted(self.catalog.queries[fold(query)].streams))
        last = self.pipeline.last
        return BEGINNING if last is None else last.instants.get(streams, BEGINNING)

    def ask(self, query: Query, most: int | None = None) -> Answer:
        """The answer of any query as of the last tick."""
        return self._probe(query, most, current().seconds)

    def recall(self, question: Question, most: int | None = None) -> Recalled:
        """What a question about the past is answered with, in this process or by a Spark job."""
        return self.past.recall(question, most)

    def plan(self, query: Query) -> Plan:
        """How a query is answered, or would be."""
        return plan_of(self, query)

    def analyze(self, query: Query) -> Observed:
        """What passed through the plan of a registered query; of any other, now."""
        return self.pipeline.observe(self.catalog, query, current().seconds)

    def statistics(self, stream: str) -> dict[str, int]:
        """Counts of a stream: objects, those of them on the disk, readings, late, bad."""
        name = self.catalog.streams[fold(stream)].name
        last = self.pipeline.last
        blank = {"objects": 0, "on_disk": 0, "readings": 0, "late": 0, "bad": 0}
        return blank if last is None else {**blank, **last.totals.get(name, {})}

    def reason(self, stream: str) -> str | None:
        """Why a reading of a stream was set aside last."""
        last = self.pipeline.last
        name = self.catalog.streams[fold(stream)].name
        return last.reasons.get(name) if last is not None else None

    def answers(self, queries: Sequence[str]) -> tuple[int, dict[str, Answer]]:
        """The answers of registered queries as of one tick, and that tick."""
        with self.pipeline.lock:
            asked = [self.catalog.queries[fold(query)] for query in queries]
            found = self.pipeline.probe(self.catalog, asked) if asked else []
            named = zip(asked, found, strict=True)
            tick = self.pipeline.last.tick if self.pipeline.last is not None else 0
            return tick, {query.name: Counter(rows) for query, rows in named}

    def positions(self, stream: str) -> Positions:
        """Where the objects of a stream are as of the last tick."""
        definition = self.catalog.streams[fold(stream)]
        check_has_places(definition)
        return positions_of(*self.pipeline.located(self.catalog, definition))

    def _probe(self, query: Query, most: int | None = None, seconds: float | None = None) -> Answer:
        (rows,) = self.pipeline.probe(self.catalog, [query], most, seconds)
        return Counter(rows)

    def _deltas(self, *done: Manifest) -> KeptRows:
        """The deltas of ticks, read while they are kept for sure."""
        return KeptRows(map(self.deltas.of, done))

    # Ticks that neither a statement nor a push makes

    def read_files(self, stream: str, files: Sequence[tuple[str, int | None]]) -> Manifest:
        """A tick of files, in their order, with the times of arrival of those without a time."""
        inputs = [
            FileInput(stream, path, number, arrival) for number, (path, arrival) in enumerate(files)
        ]
        return self.tick(Entry(inputs))

    def finish(self, stream: str) -> Manifest | None:
        """A recording is over: all that its stream has told so far is complete."""
        last = self.pipeline.last
        closed = last.clocks.get(stream) if last is not None else None
        if closed is None:
            return None
        lateness = next(s.lateness for s in self.catalog.streams.values() if s.name == stream)
        # The last reading has closed all before it, by its lateness.
        return self.tick(Entry([AdvanceInput(closed + 2 * lateness + 1, stream)]))

    def advance(self, times: Mapping[str, int]) -> Manifest:
        """Streams have reached these times, by the clock on the wall."""
        return self.tick(Entry([AdvanceInput(at, stream) for stream, at in times.items()]))

    def quarantined(self, manifest: Manifest) -> list[Rejected]:
        """The rows that a tick has set aside, with the reasons."""
        files = (self.pipeline.storage.read(name) for name in manifest.quarantine)
        return [rejected for content in files for rejected in unpack(content)]

    # For those who go on in Spark

    def attach(self, stream: str, frame: DataFrame) -> None:
        """Let a streaming DataFrame be the source of a stream."""
        self.sources.attach(stream, frame)

    def changes(self, queries: Sequence[str]) -> DataFrame:
        """The deltas of queries (of all, if none is named) as a streaming DataFrame."""
        return changes_of(self.spark, self.pipeline.storage.root, queries)


if TYPE_CHECKING:
    # It has all that servers and operators ask of a runtime whose ticks last.
    _IS_DURABLE: type[DurableRuntime] = SparkRuntime
