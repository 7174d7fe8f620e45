"""A standing cell: one cell of the matrix, in the memory of one long task of Spark.

For each tick it reads its inputs, goes on from what it has in memory, and writes what follows; it
gets names and returns names, and readings and deltas are in files. Its memory is as of the last
tick that it ran. If the driver's last tick is another one, because that tick was not committed or
the task is a new one, the cell says that it is behind. Then the driver tells it the state that it
has saved last and the ticks since, and it takes these again.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from place.engine.changes import Change, settle
from place.engine.checkpoint import (
    Checkpoint,
    load_worker,
    save_subjects,
    save_whole,
    save_worker,
)
from place.engine.exchange import Moved, Wants
from place.engine.join_counts import join_counts
from place.engine.matrix import Place
from place.engine.partial_answers import Found, PartialAnswer
from place.engine.slices import Keys
from place.engine.worker import Worker
from place.model import deadline
from place.model.deadline import OutOfTime
from place.plan.catalog import Catalog, fold
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable.crash import ANSWER, CELL, point
from place.runtime.durable.outbox import changes_of, post, read_outbox
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.run_files import RunFiles
from place.runtime.durable.saving import Pace, Saving, first_whole
from place.runtime.durable.storage import Storage
from place.runtime.intake.check import Rejected, last_late, late_readings
from place.runtime.spark.answer_cell import AnswerCell, hand_over
from place.runtime.spark.catalogs import Update, read_tables
from place.runtime.spark.gathering import gather
from place.runtime.spark.inputs import (
    CONTENT,
    BegunInput,
    FloorsInput,
    MovedInput,
    TickInput,
)
from place.runtime.spark.parts import write_parts
from place.runtime.spark.requests import (
    Answer,
    Answered,
    Behind,
    ByAnswerCell,
    CellResult,
    HandOver,
    Job,
    Locate,
    Observe,
    Prepare,
    Probe,
    Probed,
    Reach,
    Request,
    Restore,
    RunTick,
    Settle,
    Tell,
)
from place.runtime.spark.route import Routing


class StandingCell:
    """A cell and what it has in memory: its worker, and the versions of the catalog in use."""

    def __init__(
        self, storage: Storage, place: Place, threads: int, pace: Pace | None = None
    ) -> None:
        self._storage = storage
        self._place = place
        self._threads = threads
        self._catalogs: dict[int, Catalog] = {}
        self._kept: tuple[str, Worker] | None = None
        """The worker, and the token of the state that it is in."""
        self._saving = Saving(storage, self.name, pace or Pace())
        self._files = RunFiles(storage, self.name)
        self._answers = AnswerCell(storage, self.name)

    @property
    def name(self) -> str:
        """Its name in manifests and in the names of files."""
        return f"{self._place.row}-{self._place.column}"

    def answer(self, request: Request, updates: Sequence[Update], *, is_first: bool) -> Answer:
        """Do what is asked, with the catalogs that came with it; whether it is asked for the first
        time matters only to tests that end cells."""
        for update in updates:
            self._catalogs[update.version] = update.applied(self._catalogs)
        wanted = request.versions
        self._catalogs = {v: c for v, c in self._catalogs.items() if v in wanted}
        if isinstance(request, Restore):
            self._restore(request)
            return None
        job = request.job
        if isinstance(request, Settle):
            if is_first and request.since is not None:
                point(ANSWER, job.tick, os.getpid())
            return self._settle(job, request)
        worker = self._resume(job)
        if worker is None:
            return Behind()
        if isinstance(request, RunTick):
            if is_first:
                point(CELL, job.tick, os.getpid())
            return self._run(job, worker, request.inputs)
        if isinstance(request, Prepare):
            return self._prepare(job, worker, request.queries)
        if isinstance(request, Tell):
            return self._tell_others(job, worker, request.wanted[self._place.column])
        if isinstance(request, Probe):
            return self._probe(job, worker, request)
        if isinstance(request, HandOver):
            return self._hand_over(job, worker, request)
        if isinstance(request, Locate):
            return self._locate(job, worker, request.stream)
        if isinstance(request, Reach):
            self._keep_as_it_was(job, worker)
            return worker.beginning(request.streams)
        return self._observe(job, worker, request)

    def tend(self) -> None:
        """Take the state to be saved if it is time; the last tick has been answered by now."""
        if self._kept is not None and self._saving.is_due:
            token, worker = self._kept
            self._saving.take(worker, token)
            self._files.turn()

    def state(self) -> Checkpoint:
        """All that it has, in memory and on the disk."""
        assert self._kept is not None
        return save_whole(self._kept[1])

    def close(self) -> None:
        """Finish what is being saved."""
        self._saving.settle()

    def _run(self, job: Job, worker: Worker, inputs: Sequence[TickInput]) -> CellResult:
        """One tick: from the state before it to the one after it, and its deltas."""
        result = CellResult(self.name)
        clock = _Stopwatch(result.times)
        after = self._catalogs[job.after]
        routing = Routing(self._storage, job.tick, job.attempt, after.streams, job.clocks)
        found: list[Found] = []
        if worker.catalog.version != job.after:
            tables = read_tables(self._storage, after)
            try:
                with deadline.at_most(job.seconds):
                    moved, held = self._moved(inputs), self._held(inputs)
                    found += worker.become(after, tables, moved, held)
            except OutOfTime:  # nothing that should be tried again; the worker is not kept
                return replace(result, is_out_of_time=True)
        clock.lap("match")
        told, rejected, keeping = gather(routing, inputs, worker, result)
        clock.lap("route")
        found += worker.take(told)
        changes = [each for each in found if isinstance(each, Change)]
        changes = self._with_past(inputs, after, changes)
        parts = [each for each in found if isinstance(each, PartialAnswer)]
        clock.lap("match")
        alone = self._place.matrix.rows * self._place.matrix.columns == 1
        settled = settle([change for change in changes if alone or change.is_settled])
        shared: list[Found] = [] if alone else [c for c in changes if not c.is_settled]
        shared += parts
        clock.lap("answer")
        # Each attempt of a cell has names of its own: one that was given up may still be writing.
        token = f"{job.token}-{uuid.uuid4().hex[:8]}"
        point("outbox", job.tick, job.driver)
        if settled:
            name = f"outbox/{token}-{result.cell}.arrow"
            result.outbox, result.enclosed = post(self._storage, name, settled, job.small)
        if shared:
            result.handed = hand_over(
                self._storage, self._place.matrix, f"{token}-{result.cell}", shared
            )
        clock.lap("outbox")
        self._set_aside(routing, worker, rejected, result)
        _tell(worker, result)
        for each in keeping:
            each.join()
        clock.lap("log")
        # This tick goes on from the one before, so that one, and all before it, are committed.
        result.saved = self._saving.finished()
        if result.saved is not None:
            self._files.passed()
        self._saving.driver = job.driver
        self._saving.pacing.count(told, sum(result.times.values()))
        self._keep(job.token, worker)
        return result

    def _restore(self, request: Restore) -> None:
        """Begin with a saved state, and take the ticks since; what they told is told already."""
        self._kept = None
        saved, state = first_whole(self._storage, request.saved)
        self._saving.begin(0 if saved is None else saved.size)
        self._files = RunFiles(self._storage, self.name)
        if saved is None:
            worker = Worker(self._place, self._threads, files=self._files)
        else:
            worker = self._load(self._catalogs[saved.catalog], state)
        others = [each.file for each in request.saved if each != saved]
        self._files.sweep(worker.stored_files(), others)
        for each in request.ticks:
            if saved is not None and each.tick <= saved.tick:
                continue
            began = time.perf_counter()
            catalog = self._catalogs[each.catalog]
            if worker.catalog.version != each.catalog:
                tables = read_tables(self._storage, catalog)
                worker.become(catalog, tables, self._moved(each.inputs), self._held(each.inputs))
            routing = Routing(self._storage, each.tick, "", catalog.streams)
            told, _, _ = gather(routing, each.inputs, worker, CellResult(self.name))
            worker.take(told)
            self._saving.pacing.count(told, time.perf_counter() - began)
        worker.trigger_counts()
        self._keep(request.at, worker)

    def _load(self, catalog: Catalog, state: Checkpoint) -> Worker:
        tables = read_tables(self._storage, catalog)
        return load_worker(self._place, catalog, tables, state, self._threads, self._files)

    def _set_aside(
        self,
        routing: Routing,
        worker: Worker,
        rejected: Mapping[str, list[Rejected]],
        result: CellResult,
    ) -> None:
        """Set readings aside that could not be read, of which the first cell tells, or came too
        late, of which a cell of their row does."""
        if (self._place.row, self._place.column) != (0, 0):
            result.quarantine, result.bad, result.reasons = (), {}, {}
            rejected = {}
        if self._place.column or (self._place.row and worker.share.is_whole):
            return
        for stream, bad in rejected.items():
            result.bad[stream] = result.bad.get(stream, 0) + len(bad)
            result.quarantine += routing.set_aside(stream, bad)
            if bad:
                result.reasons[stream] = str(bad[0])
        for segment in worker.aside:
            definition = routing.streams[fold(segment.stream)]
            late = late_readings(definition, segment.table)
            result.quarantine += routing.set_aside(segment.stream, late)
            result.reasons[segment.stream] = last_late(definition, segment.table)
        result.last_late = dict(worker.last_late)

    def _prepare(self, job: Job, worker: Worker, queries: Sequence[Query] | None) -> Wants:
        """What this cell wants to be told by those of other rows."""
        if queries is None:
            after = self._catalogs[job.after]
            wants = worker.wants(after, read_tables(self._storage, after))
        else:
            tables = read_tables(self._storage, worker.catalog)
            wants = worker.wants_to_ask(queries, tables)
        self._keep_as_it_was(job, worker)
        return wants

    def _tell_others(self, job: Job, worker: Worker, wanted: Mapping[str, Keys]) -> str | None:
        """Write down what is known here of objects that other rows begin to follow."""
        state = worker.share.holdings.tell(wanted)
        self._keep_as_it_was(job, worker)
        if not state:
            return None
        token = f"{job.token}-{uuid.uuid4().hex[:8]}"
        file = f"segments/{token}-{self.name}-moved.arrow"
        self._storage.write(file, lambda out: write_tables(out, state))
        return file

    def _moved(self, inputs: Sequence[TickInput]) -> Moved:
        """What this cell was told by those of other rows."""
        files = [
            item.file
            for item in inputs
            if isinstance(item, MovedInput)
            and item.column == self._place.column
            and item.row != self._place.row
        ]
        floors = [item.floors for item in inputs if isinstance(item, FloorsInput)]
        states = [load_pack(self._storage, file).tables for file in files]
        return Moved(states, floors[0] if floors else {})

    def _held(self, inputs: Sequence[TickInput]) -> dict[str, pa.Table | None]:
        """What this cell has to hold of queries that begin in the past; None is nothing."""
        found: dict[str, pa.Table | None] = {}
        for item in inputs:
            if isinstance(item, BegunInput):
                file = item.held[self._place.number]
                tables = {} if file is None else load_pack(self._storage, file).tables
                found[item.query] = tables.get(CONTENT)
        return found

    def _with_past(
        self, inputs: Sequence[TickInput], catalog: Catalog, changes: Sequence[Change]
    ) -> list[Change]:
        """Changes with what queries have told that begin in the past, of which the first cell
        tells. It ends with their first answers, which other cells have a part in."""
        begun = [item for item in inputs if isinstance(item, BegunInput)]
        names = {item.query for item in begun}
        found = [
            change if names.isdisjoint(q.name for q in change.queries) else _loose(change)
            for change in changes
        ]
        for item in begun:
            if item.past is not None and not self._place.number:
                for piece in read_outbox(self._storage, item.past):
                    found += changes_of(piece, lambda name: catalog.queries[fold(name)])
        return found

    def _probe(self, job: Job, worker: Worker, request: Probe) -> list[Probed] | None:
        """This cell's parts of the answers of queries; None if they take too long."""
        tables, most = read_tables(self._storage, worker.catalog), request.most
        moved = self._moved(request.moved)
        try:
            with deadline.at_most(job.seconds):
                asked = [worker.probe(query, tables, moved) for query in request.queries]
        except OutOfTime:  # the worker, in which a query was left in the middle, is not kept
            return None
        answers: list[Probed] = []
        for found in asked:
            parts = [each for each in found if isinstance(each, PartialAnswer)]
            changes = settle([each for each in found if isinstance(each, Change)])
            count = sum(map(len, changes))
            made = changes if most is None or count <= most else []
            rows = [delta.row for change in made for delta in change.deltas()]
            answers.append((rows, _packed(parts), count))
        self._keep_as_it_was(job, worker)
        return answers

    def _hand_over(self, job: Job, worker: Worker, request: HandOver) -> ByAnswerCell:
        """Hand over this cell's parts of whole answers to those who put them together."""
        tables = read_tables(self._storage, worker.catalog)
        moved = self._moved(request.moved)
        parts: list[Found] = []
        for query in request.queries:
            for part in worker.probe(query, tables, moved):
                if isinstance(part, PartialAnswer):
                    parts.append(replace(part, queries=tuple(query for _ in part.queries)))
        self._keep_as_it_was(job, worker)
        token = f"{job.token}-{uuid.uuid4().hex[:8]}-{self.name}"
        return hand_over(self._storage, self._place.matrix, token, parts)

    def _settle(self, job: Job, request: Settle) -> Answered:
        """Put together what cells have handed over to this one."""
        before, after = (self._catalogs[v].queries for v in (job.before, job.after))

        def named(name: str) -> Query:
            return after.get(fold(name)) or before[fold(name)]

        mine = request.handed.get(self._place.number, ())
        if request.since is None:
            self._answers.know(job.at, mine, named)
            return Answered()
        return self._answers.take(job, request.since, mine, named)

    def _locate(self, job: Job, worker: Worker, stream: str) -> str | None:
        """Write the objects of a stream to a file that is read at once, if this cell is the one of
        its row that tells of them."""
        self._keep_as_it_was(job, worker)
        if self._place.column:
            return None
        file = f"segments/{job.attempt}-{self.name}-positions.arrow"
        state = save_subjects(worker, stream)
        self._storage.write(file, lambda out: write_tables(out, state), lasts=False)
        return file

    def _observe(
        self, job: Job, worker: Worker, request: Observe
    ) -> tuple[Observed, bytes | None] | None:
        """What has passed through the plan of a query, and the part of one that is not registered,
        as `write_parts` has it. None if it takes too long."""
        parts: list[PartialAnswer] = []
        query = request.query
        if worker.catalog.queries.get(fold(query.name)) == query:
            seen = Observed.together([worker.observed(query), self._answers.observed(query)])
        else:
            try:
                with deadline.at_most(job.seconds):
                    tables = read_tables(self._storage, worker.catalog)
                    found, seen = worker.trial(query, tables, self._moved(request.moved))
            except OutOfTime:
                return None
            parts = [each for each in found if isinstance(each, PartialAnswer)]
        self._keep_as_it_was(job, worker)
        return seen, _packed(parts)

    def _resume(self, job: Job) -> Worker | None:
        """The worker as the last tick has left it. It is kept again only when all went well."""
        kept, self._kept = self._kept, None
        if job.at is None:
            self._saving.begin(0)
            self._files = RunFiles(self._storage, self.name)
            return Worker(self._place, self._threads, files=self._files)
        return kept[1] if kept is not None and kept[0] == job.at else None

    def _keep_as_it_was(self, job: Job, worker: Worker) -> None:
        if job.at is not None:
            self._kept = job.at, worker

    def _keep(self, token: str, worker: Worker) -> None:
        if worker.is_bloated():  # with only the texts in use it is smaller
            worker = self._load(worker.catalog, save_worker(worker))
        self._kept = token, worker


def _loose(change: Change) -> Change:
    return replace(change, is_settled=False)


def _packed(parts: Sequence[PartialAnswer]) -> bytes | None:
    if not parts:
        return None
    out = pa.BufferOutputStream()
    write_parts(out, parts)
    content: bytes = out.getvalue().to_pybytes()
    return content


def _tell(worker: Worker, result: CellResult) -> None:
    result.readings, result.late = dict(worker.readings), dict(worker.late)
    if worker.share.is_whole and worker.place.row:  # the first row has counted all
        result.readings = dict.fromkeys(result.readings, 0)
        result.late = dict.fromkeys(result.late, 0)
    result.stored = {name: worker.stored(name, is_exact=False) for name in worker.readings}
    result.objects = {name: worker.objects(name) + result.stored[name] for name in worker.readings}
    result.clocks = worker.clocks.times()
    result.triggers, result.joins = worker.trigger_counts(), join_counts(worker)
    result.instants = {
        ",".join(sorted(streams)): line.instant for streams, line in worker.timelines.items()
    }


class _Stopwatch:
    def __init__(self, times: dict[str, float]) -> None:
        self._times = times
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._times[name] = self._times.get(name, 0.0) + now - self._last
        self._last = now
