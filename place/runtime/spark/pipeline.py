"""The pipeline: ticks, one after the other, each committed by its manifest or not at all.

The driver sends a tick to the standing cells. They go on from the tick before, write files that
nobody knows of, and return their names; the driver then publishes the manifest. Whatever happens
before that leaves nothing but orphans, which are swept; whatever happens after it finds the tick
done. What a tick takes in is in files before it is committed, so that it can be run again: cells
save their states only now and then. Only where sources have to be read by several tasks is a tick a
Spark job, too.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from place.engine.checkpoint import Checkpoint
from place.engine.matrix import Matrix
from place.errors import ConfigurationError, InternalError, PlaceError
from place.model import deadline
from place.model.deadline import OutOfTime
from place.model.schema import Stream
from place.model.types import Row
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable import manifest as manifests
from place.runtime.durable.crash import point
from place.runtime.durable.gate import Gate
from place.runtime.durable.kept_ticks import Keep, KeptTicks
from place.runtime.durable.lease import Lease
from place.runtime.durable.manifest import Enclosed, Manifest, Mark, Posted
from place.runtime.durable.pack import load_pack
from place.runtime.durable.saving import usual_pace
from place.runtime.durable.state_figures import JOIN_FIGURES, TRIGGER_FIGURES, counts_since
from place.runtime.durable.storage import Storage, StorageFault, TakenOver
from place.runtime.durable.takeover import fence
from place.runtime.spark.catalogs import Catalogs, sweep_tables
from place.runtime.spark.failure import failure_of
from place.runtime.spark.figures import last_reasons, metrics_of
from place.runtime.spark.inputs import (
    RAW,
    EnclosedInput,
    PackInput,
    TickInput,
    described,
    in_order,
)
from place.runtime.spark.merge import AnswerCells, AnswersLost, observed_of, whole_rows
from place.runtime.spark.requests import (
    CellResult,
    Job,
    Locate,
    Observe,
    Probe,
    Probed,
    Reach,
    Restore,
    RunTick,
)
from place.runtime.spark.route import Routing, route
from place.runtime.spark.slicing import Slicing
from place.runtime.spark.standing_job import ATTEMPTS, StandingCells
from place.runtime.spark.telling import Telling
from place.runtime.spark.tick_log import TickLog


@dataclass(frozen=True)
class Entry:
    """What a tick takes: inputs in their order, or those that a source gives when it is read.

    `marks` tell how far the sources are read with it, and `ingest` the pushed readings; `since` is
    when the first of them came, by the clock on the wall.
    """

    inputs: Sequence[TickInput] = ()
    given: Callable[[Routing], Sequence[TickInput]] | None = None
    marks: Mapping[str, Mark] = field(default_factory=dict)
    ingest: int | None = None
    since: float | None = None

    @property
    def has_raw(self) -> bool:
        """Has it inputs that are no segments yet?"""
        return self.given is not None or any(isinstance(item, RAW) for item in self.inputs)


SMALL = 64 << 10
"""What has at most so many bytes is no file of its own."""
OnCommit = Callable[[Manifest], object]


class Pipeline:
    """Runs ticks on a Spark session; everything durable is in `storage`."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        home_id: str,
        matrix: Matrix,
        threads: int,
        keep: Keep,
        lease: Lease | None = None,
    ) -> None:
        self._context = spark.sparkContext
        self.storage = storage
        self._home = home_id
        self._lease = lease
        self._gate = Gate(storage)
        self._fault: StorageFault | None = None
        """Why no tick can be committed any more."""
        self.matrix = matrix
        self.slicing = Slicing(storage, matrix)
        self._lock = threading.RLock()
        self._catalogs = Catalogs(storage)
        self.on_commit: list[OnCommit] = []
        self.small = SMALL
        """Deltas, and pushed readings, of at most so many bytes are enclosed in manifests."""
        if lease is not None and lease.needs_fence:
            fence(storage, home_id, f"{matrix.rows}x{matrix.columns}")
            lease.needs_fence = False
        self.kept = KeptTicks(storage, keep)
        self.last: Manifest | None = self.kept.last
        self._check_home()
        self.log = TickLog(storage, self.last)
        self.kept.open(self.log.files, self.confirm)
        if lease is not None:
            sweep_tables(storage, lease)
        self.cells = StandingCells(
            self._context, storage, matrix, threads, self._catalogs, self._past, usual_pace()
        )
        self._telling = Telling(matrix, storage, self.cells.ask)
        self._answers = AnswerCells(matrix, storage, self.cells, self._telling)

    def close(self) -> None:
        """Let the cells end, after the tick that is under way."""
        with self._lock:
            self.cells.close()

    @property
    def lock(self) -> threading.RLock:
        """Held while a tick runs: whoever holds it sees no tick begin."""
        return self._lock

    def confirm(self) -> None:
        """Raise TakenOver if another process has taken over this storage. What was durable before
        this was called is not lost."""
        if self._lease is not None:
            self._lease.confirm()

    def _check_home(self) -> None:
        """What the storage holds must be of this home, and of these cells."""
        if self.last is None:
            return
        if self.last.home != self._home:
            raise ConfigurationError(
                f"manifest {self.last.tick} belongs to another home",
                hint="a home directory cannot be put together from parts of others",
            )
        wanted = f"{self.matrix.rows}x{self.matrix.columns}"
        if self.last.cells != wanted:
            raise ConfigurationError(
                f"the home was made with cells {self.last.cells}, not {wanted}",
                hint=f"open it with cells={self.last.cells!r}, or see place rescale --help",
            )

    # One tick

    def tick(self, catalog: Catalog, entry: Entry, seconds: float | None = None) -> Manifest:
        """Run a tick, commit it, and call everyone who waits for commits.

        Queries that begin with it may take so many seconds in each cell; then an OutOfTime, and no
        tick.
        """
        with self._lock:
            if self._fault is not None:
                raise self._fault
            for _ in range(ATTEMPTS - 1):
                with contextlib.suppress(AnswersLost):
                    return self._tick(catalog, entry, seconds)
            return self._tick(catalog, entry, seconds)

    def _tick(self, catalog: Catalog, entry: Entry, seconds: float | None) -> Manifest:
        """Try to run a tick and to commit it."""
        began = time.perf_counter()
        previous = self.last
        number = 1 if previous is None else previous.tick + 1
        job = replace(self._job(number, catalog), seconds=seconds)
        try:
            self._answers.remember(job, self._catalogs[job.before])
            self.slicing.know(catalog, catalog.arrow_of, self.small)
            inputs, results = self._run(job, catalog, entry)
            if any(result.is_out_of_time for result in results):
                raise OutOfTime
            ran = time.perf_counter()
            enclosed = Enclosed(number)
            posted = self._posted(job, results, enclosed)
        except PlaceError:
            self.kept.sweep_attempt(job.attempt)
            raise
        for place, item in enumerate(inputs):
            if isinstance(item, EnclosedInput):
                inputs[place] = PackInput(enclosed.add(item.content, manifests.INPUTS))
        manifest = self._manifest(job, catalog, entry, inputs, results, posted)
        settled = time.perf_counter()
        metrics, now = metrics_of(results, began, ran, settled), time.time()
        if entry.since is not None:
            metrics["lag"] = round(max(0.0, now - entry.since), 6)
        manifest = replace(manifest, metrics=metrics, written=now)
        manifest = self.kept.planned(manifest, self.delivered)
        point("manifest", number)
        with self._gate.passing():
            self._commit(manifest, enclosed)
            passing = self._answers.committed(job, results)
            self.last = manifest
            self.kept.committed(manifest)
            passed = self.log.append(manifest, inputs)
            for tell in list(self.on_commit):
                tell(manifest)
            self.kept.sweep(manifest, previous, passed + passing)
            self._catalogs.keep({*self.log.versions, catalog.version})
        return manifest

    def _commit(self, manifest: Manifest, enclosed: Enclosed) -> None:
        """Publish a manifest. If somebody else has done so, or a store does not say whether it was
        done, there is no tick to go on from."""
        try:
            manifests.publish(self.storage, manifest, enclosed)
        except TakenOver as error:
            self._fault = error
            raise
        except StorageFault as error:
            if not self.storage.is_local:
                self._fault = StorageFault(
                    f"it is not known whether tick {manifest.tick} is committed: {error.message}",
                    hint="start again, when the store can be reached",
                )
                raise self._fault from None
            raise

    @property
    def is_over(self) -> bool:
        """Can no tick be committed any more? Then what waits is left to whoever comes next."""
        return self._fault is not None

    def _past(self, cell: str) -> Restore:
        """What a cell that is behind has to begin with."""
        assert self.last is not None
        return Restore(self.last.token, *self.log.since(cell))

    def probe(
        self,
        catalog: Catalog,
        queries: Sequence[Query],
        most: int | None = None,
        seconds: float | None = None,
    ) -> list[list[Row]]:
        """The answers of queries as of the last tick; of `most` rows each, and in so many seconds,
        in each cell and where their parts are put together."""
        with self._lock:
            job = replace(self._job(0, catalog), seconds=seconds)
            cells = self._probe_cells(job, queries, most)
            with deadline.at_most(seconds):
                return [
                    whole_rows(query, found, most)
                    for query, found in zip(queries, cells, strict=True)
                ]

    def observe(self, catalog: Catalog, query: Query, seconds: float | None = None) -> Observed:
        """What has passed through the plan of a query, in the cells as they are in memory."""
        with self._lock:
            job = replace(self._job(0, catalog), seconds=seconds)
            with self._telling.meanwhile(job, self._catalogs[job.after], [query]) as moved:
                found = _in_time(self.cells.ask(Observe(job, query, moved)))
            parts = [part for _, part in found if part is not None]
            seen = [seen for seen, _ in found]
            return Observed.together([*seen, observed_of(query, parts)] if parts else seen)

    def beginning(self, catalog: Catalog, streams: frozenset[str]) -> int:
        """The instant at which a query over these streams would begin now."""
        with self._lock:
            found: list[int] = self.cells.ask(Reach(self._job(0, catalog), streams))
            return found[0]

    def located(self, catalog: Catalog, stream: Stream) -> tuple[int, Stream, list[Checkpoint]]:
        """The last tick, and the objects of a stream then, as the cells of the first column have
        them."""
        with self._lock:
            if self.last is None:
                return 0, stream, []
            found = self.cells.ask(Locate(self._job(0, catalog), stream.name))
            files = [file for file in found if file is not None]
            try:
                tables = [load_pack(self.storage, file).tables for file in files]
                return self.last.tick, stream, tables
            finally:
                for file in files:  # who has mapped one sees it for as long as need be
                    self.storage.remove(file)

    def _probe_cells(
        self, job: Job, queries: Sequence[Query], most: int | None = None
    ) -> list[list[Probed]]:
        """For each query, what each cell has of its answer."""
        with self._telling.meanwhile(job, self._catalogs[job.after], queries) as moved:
            found = _in_time(self.cells.ask(Probe(job, list(queries), most, moved)))
        return [list(each) for each in zip(*found, strict=True)]

    def _job(self, number: int, catalog: Catalog) -> Job:
        version = self.last.catalog if self.last is not None else catalog.version
        self.know(catalog)
        if version not in self._catalogs:
            raise InternalError("the catalog of the last tick is not known")
        return Job(
            number,
            uuid.uuid4().hex[:8],
            version,
            catalog.version,
            self.last.token if self.last is not None else None,
            os.getpid(),
            self.last.clocks if self.last is not None else {},
            small=self.small,
        )

    def know(self, catalog: Catalog) -> None:
        """Let cells know a catalog; the rows of its tables are in files."""
        self._catalogs.share(catalog)

    def _run(
        self, job: Job, catalog: Catalog, entry: Entry
    ) -> tuple[list[TickInput], list[CellResult]]:
        """Route where that is needed, then match and answer in the cells; the inputs as the log has
        them, and what cells have done."""
        routing = Routing(
            *(self.storage, job.tick, job.attempt, dict(catalog.streams), job.clocks),
            self.slicing.for_tasks() if entry.has_raw else None,
        )
        try:
            inputs = self._telling.before(job, self._catalogs[job.before], catalog)
            inputs += self._routed(routing, entry)
        except PlaceError:
            raise
        except Exception as error:  # of Spark, or of the bridge to Java: the text has the cause
            raise failure_of(str(error)) from None
        results: list[CellResult] = self.cells.ask(RunTick(job, inputs))
        for place, file in results[0].taken.items():  # a single cell has read files itself
            inputs[place] = PackInput(file)
        return inputs, results

    def _routed(self, routing: Routing, entry: Entry) -> list[TickInput]:
        """The inputs of a tick for its cells. Several read segments, into which each file is read
        once, by a Spark job; a single one reads files itself."""
        if not entry.has_raw:
            return list(entry.inputs)
        inputs = in_order(entry.inputs if entry.given is None else entry.given(routing))
        if any(isinstance(item, RAW) for item in inputs) and len(self.matrix.places()) > 1:
            files = self._context.parallelize(inputs, len(inputs))
            inputs = files.mapPartitions(lambda items: route(routing, items)).collect()
        return inputs

    def _posted(self, job: Job, results: list[CellResult], enclosed: Enclosed) -> list[Posted]:
        """The deltas of all cells, and of what several have found together; small ones are enclosed
        in the manifest."""
        found = [(result.outbox, result.enclosed) for result in results]
        found += self._answers.settle(job, results)
        return [
            posted if pack is None else replace(posted, file=enclosed.add(pack, manifests.DELTAS))
            for posted, pack in found
            if posted is not None
        ]

    def _manifest(
        self,
        job: Job,
        catalog: Catalog,
        entry: Entry,
        inputs: Sequence[TickInput],
        results: list[CellResult],
        posted: list[Posted],
    ) -> Manifest:
        previous = self.last
        known, older = (dict(previous.states), dict(previous.older)) if previous else ({}, {})
        saved = {result.cell: result.saved for result in results if result.saved is not None}
        first = results[0]
        totals: dict[str, dict[str, int]] = {}
        for stream in first.readings:
            before = previous.totals.get(stream, {}) if previous is not None else {}
            bad = sum(result.bad.get(stream, 0) for result in results)
            rows = [result for result in results if result.cell.endswith("-0")]
            totals[stream] = {
                "objects": sum(result.objects[stream] for result in rows),
                "on_disk": sum(result.stored.get(stream, 0) for result in rows),
                "readings": sum(result.readings[stream] for result in rows),
                "late": sum(result.late[stream] for result in rows),
                "bad": before.get("bad", 0) + bad,
            }
        aside = [name for result in results for name in result.quarantine]
        told = {
            "deltas": sum(each.deltas for each in posted)
            + (previous.totals.get("", {}).get("deltas", 0) if previous is not None else 0)
        }
        return Manifest(
            tick=job.tick,
            home=self._home,
            catalog=catalog.version,
            cells=f"{self.matrix.rows}x{self.matrix.columns}",
            states=known | saved,
            older=older | {cell: known[cell] for cell in saved if cell in known},
            attempt=job.attempt,
            outbox=tuple(posted),
            quarantine=tuple(aside),
            sources={**(previous.sources if previous is not None else {}), **entry.marks},
            ingest=(previous.ingest if previous is not None else 0)
            if entry.ingest is None
            else entry.ingest,
            inputs=tuple(map(described, inputs)),
            clocks=first.clocks,
            instants=first.instants,
            totals={**totals, "": told},
            triggers=counts_since(
                TRIGGER_FIGURES,
                previous.triggers if previous is not None else {},
                (result.triggers for result in results),
            ),
            joins=counts_since(JOIN_FIGURES, {}, (result.joins for result in results)),
            reasons=manifests.reasons_since(previous, last_reasons(results), totals),
            epoch=self.storage.epoch,
            statements=self.statements(),
            archived=self.archived(),
        )

    statements: Callable[[], str] = staticmethod(lambda: "")
    """The last entry of the log of statements, where there is one."""

    archived: Callable[[], int | None] = staticmethod(lambda: None)
    """The last tick that the repository has; None if no stream is archived."""

    delivered: Callable[[], int] = staticmethod(lambda: 1 << 62)
    """The last tick that all sinks have got; later ones are kept for them."""


def _in_time(found: list[Any | None]) -> list[Any]:
    """What cells have found, if none of them took too long."""
    if any(each is None for each in found):
        raise OutOfTime
    return found
