"""Large questions about the past as Spark jobs; small ones are answered in this process.

Which rows have to be read is known from the footers of files. If these are many, tasks read them,
each a piece, and pass the readings of each object to its share; a task for each share opens the
past over it, as cells do over their rows; and the driver puts together what they have found, one
slice of time after the other. All that is on its way is Spark's own, so that nothing is left behind
when a question is given up.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import queue
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import RDD, SparkContext

from place.engine.changes import Change
from place.engine.partial_answers import Found, PartialAnswer
from place.model import deadline
from place.plan.past import Question
from place.plan.past_reads import Needed, begins_with_objects, needs_of, start_of
from place.plan.query import Query
from place.runtime.archive import Span
from place.runtime.archive_reads import Reads, since_of, told_of
from place.runtime.durable.outbox import changes_of, pieces_in, write_changes
from place.runtime.durable.pack import read_pack
from place.runtime.durable.storage import Storage
from place.runtime.interface import Recalled, check_rows
from place.runtime.past_shares import Division, Together, ways_together, why_whole
from place.runtime.recall import PIECE, Progress, named, recall
from place.runtime.repository.pieces import Asked, TablePiece
from place.runtime.repository.repository import Repository
from place.runtime.spark.failure import failure_of
from place.runtime.spark.parts import read_parts, write_parts
from place.runtime.spark.worker_process import hush_broken_pipes, spare_the_collector
from place.sql.limits import current

JOB_ROWS = 5_000_000
"""A question for which so many rows have to be read is a Spark job, unless told otherwise."""
SHARE_ROWS = 2_000_000
"""A share has about so many rows, which are in the memory of a task at once."""
POLL = 0.1
"""Seconds after which whoever waits for a job looks at the clock."""
DONE, FAILED = "done", "failed"
Sent = tuple[int, bytes]
"""A number, of a share or of a slice of time, and what is sent to it."""


def _in_time() -> contextlib.AbstractContextManager[None]:
    return deadline.at_most(current().seconds, can_be_given_up=True)


class PastJobs:
    """Answers questions about the past of a repository, large ones by jobs of a Spark context."""

    def __init__(
        self, context: SparkContext, storage: Storage, archive: Repository, rows: int | None
    ) -> None:
        self._context, self._storage, self._archive = context, storage, archive
        self.rows = JOB_ROWS if rows is None else rows
        """The rows with which a question is large."""

    def recall(self, question: Question, most: int | None = None) -> Recalled:
        """What a question is answered with, and in which way; its range was checked before."""
        why = why_whole(question)
        if why is None:
            with contextlib.ExitStack() as held, _in_time():
                plan = self._planned(named(question), held)
                if plan.count >= self.rows:
                    return self._run(plan, most)
                why = f"{plan.count:,} rows may have to be read, fewer than {self.rows:,}"
        found = recall(self._archive, question, most)
        return replace(found, reads=(*found.reads, f"answered in this process: {why}"))

    def _planned(self, question: Question, held: contextlib.ExitStack) -> _Plan:
        """What has to be read. Files stay until `held` is closed."""
        start = start_of(question)
        is_one_look = question.until is None and begins_with_objects(question)
        needs = {need.stream.name: need for need in needs_of(question)}
        spans: dict[str, Span | None] = {}
        pieces: list[TablePiece] = []
        count = 0
        for name, need in needs.items():
            span = spans[name] = self._archive.span(need.stream, question.begin)
            if span is None:
                continue
            asked = Asked(
                since_of(need, span, start), question.last, need.objects, need.box, need.keys
            )
            pieces_of = held.enter_context(self._archive.reading(need.stream))
            mine = pieces_of(asked)
            count += sum(piece.count for piece in mine)
            if need.box is not None and not is_one_look:
                # An object counts if it was ever in the box, and then all of its readings are
                # needed: one outside of the box ends its stay, or takes its place in a window.
                mine = pieces_of(replace(asked, box=None))
            pieces += mine
        return _Plan(question, needs, spans, pieces, count, start)

    def _run(self, plan: _Plan, most: int | None) -> Recalled:
        shares = max(self._context.defaultParallelism, -(-plan.rows // SHARE_ROWS))
        division = Division(plan.question, shares, plan.spans, plan.slices())
        tasks = max(1, min(len(plan.pieces), 4 * shares))
        pieces = self._context.parallelize(plan.pieces, tasks)
        by_share = pieces.flatMap(partial(_cut, division, self._storage)).partitionBy(shares, int)
        job = _Running(self._context, by_share)
        if plan.question.trajectory is not None:
            found = job.each(partial(_ways, division, most))
            recalled = ways_together([pickle.loads(each) for _, each in found])
            check_rows(len(recalled.rows), most)
            reads: dict[str, Reads] = {}
        else:
            together, reads = Together(plan.question, most), {}
            count = len(division.slices) + 3
            found = job.each(partial(_found, division, most), count)
            for number, group in itertools.groupby(found, key=lambda each: each[0]):
                if number == 0:
                    reads = _sum(pickle.loads(each) for _, each in group)
                else:
                    together.add(p for _, each in group for p in _unpacked(each, plan.question))
            recalled = together.recalled()
        return replace(recalled, reads=(*plan.notes(reads), plan.way(shares)))


@dataclass(frozen=True)
class _Plan:
    """What has to be read for a question, and how many rows that may be, in the box it names."""

    question: Question
    needs: Mapping[str, Needed]
    spans: Mapping[str, Span | None]
    pieces: Sequence[TablePiece]
    count: int
    start: int | None

    @property
    def rows(self) -> int:
        """How many rows the pieces have."""
        return sum(piece.count for piece in self.pieces)

    def slices(self) -> tuple[int, ...]:
        """Times until which all shares take readings together, with about as many in each slice."""
        last = self.question.last
        readings = sorted(
            (piece for piece in self.pieces if piece.at is None), key=lambda piece: piece.end
        )
        counts = np.cumsum([0, *(piece.count for piece in readings)])
        ends = [readings[0].begin, *(piece.end for piece in readings)] if readings else [last]
        wanted = np.arange(PIECE, counts[-1], PIECE)
        times = np.interp(wanted, counts, ends).astype(np.int64)
        reached = [since_of(n, span, self.start) for n, span in self._read()]
        first = max([self.question.begin, *reached])
        chosen = np.unique(times[(times > first) & (times < last)])
        return (*chosen.tolist(), last)

    def _read(self) -> Iterator[tuple[Needed, Span]]:
        for name, need in self.needs.items():
            span = self.spans[name]
            if span is not None:
                yield need, span

    def notes(self, reads: Mapping[str, Reads]) -> tuple[str, ...]:
        """What was read of each stream."""
        notes = []
        for name, need in self.needs.items():
            mine = [piece for piece in self.pieces if piece.layout.stream.name == name]
            rows = reads[name].rows if name in reads else sum(piece.count for piece in mine)
            files = len({piece.file for piece in mine if piece.file})
            size = sum(piece.size for piece in mine)
            notes.append(told_of(need, Reads(rows, files, 0, size)))
        return tuple(notes)

    def way(self, shares: int) -> str:
        """How it was answered, in words."""
        return f"answered by a Spark job in {shares:,} shares: {self.count:,} rows had to be read"


# What tasks do


def _cut(division: Division, storage: Storage, piece: TablePiece) -> Iterator[Sent]:
    """The readings of a piece, as the shares get them."""
    rows, layout = piece.read(storage), piece.layout
    if rows.num_rows:
        table = layout.segment(rows)
        sequence = rows.column(layout.sequence)
        numbered = table.append_column(pa.field("", sequence.type), sequence)
        for share, some in division.cut(layout.stream, numbered):
            yield share, pickle.dumps((layout.stream.name, some))
    hush_broken_pipes()
    spare_the_collector()


def _tables(items: Iterable[Sent]) -> dict[str, pa.Table]:
    """The readings of a share by stream, by time and, at one time, in the order of their source."""
    parts: dict[str, list[pa.Table]] = {}
    for _, content in items:
        name, table = pickle.loads(content)
        parts.setdefault(name, []).append(table)
    return {name: _in_order(pa.concat_tables(some)) for name, some in parts.items()}


def _in_order(table: pa.Table) -> pa.Table:
    size = table.num_columns
    times, sequence = (table.column(i).to_numpy() for i in (size - 3, size - 1))
    order = np.lexsort((sequence, times))
    return table.select(range(size - 1)).take(pa.array(order)).combine_chunks()


def _ways(
    division: Division, most: int | None, share: int, items: Iterable[Sent]
) -> Iterator[Sent]:
    """The trajectories of a share."""
    yield 0, pickle.dumps(division.ways(_tables(items), most))


def _found(
    division: Division, most: int | None, share: int, items: Iterable[Sent]
) -> Iterator[Sent]:
    """What a share has found in each slice of time, and before them what it has read."""
    past = division.open(share, _tables(items))
    for number, found in enumerate(division.found(past, most)):
        if found:
            yield number + 1, _packed(found)
    yield 0, pickle.dumps(past.reads)
    spare_the_collector()


def _packed(found: Sequence[Found]) -> bytes:
    changes = [each for each in found if isinstance(each, Change) and len(each)]
    parts = [each for each in found if isinstance(each, PartialAnswer)]
    outs = pa.BufferOutputStream(), pa.BufferOutputStream()
    if changes:
        write_changes(outs[0], changes)
    if parts:
        write_parts(outs[1], parts)
    return pickle.dumps([out.getvalue().to_pybytes() for out in outs])


def _unpacked(content: bytes, question: Question) -> Iterator[Found]:
    def known(_: str) -> Query:
        return question.query

    changes, parts = pickle.loads(content)
    if changes:
        for piece in pieces_in(read_pack(pa.BufferReader(changes))):
            yield from changes_of(piece, known)
    if parts:
        yield from read_parts(read_pack(pa.BufferReader(parts)), known)


def _sum(found: Iterable[Mapping[str, Reads]]) -> dict[str, Reads]:
    total: dict[str, Reads] = {}
    for reads in found:
        for name, each in reads.items():
            total.setdefault(name, Reads()).rows += each.rows
    return total


# The job


class _Running:
    """A job in a thread of its own, so that whoever waits for it can give it up at any time."""

    def __init__(self, context: SparkContext, shares: RDD[Sent]) -> None:
        self._context, self._shares = context, shares
        self._group = f"place-past-{uuid.uuid4().hex}"
        self._results: queue.Queue[tuple[str, Any]] = queue.Queue(16)
        self._is_over = threading.Event()
        self._progress = Progress()

    def each(self, answer: Any, count: int = 1) -> Iterator[Sent]:
        """What the shares send, in the order of the numbers that they send it to, below `count`."""
        made = self._shares.mapPartitionsWithIndex(answer).partitionBy(count, int)
        thread = threading.Thread(target=self._work, args=(made,), name="place-past", daemon=True)
        thread.start()
        try:
            while True:
                kind, value = self._next()
                if kind == DONE:
                    return
                if kind == FAILED:
                    raise failure_of(str(value)) from None
                yield value
        finally:
            self._is_over.set()
            if thread.is_alive():
                self._context.cancelJobGroup(self._group)
            thread.join()

    def _next(self) -> tuple[str, Any]:
        while True:
            deadline.check()
            try:
                return self._results.get(timeout=POLL)
            except queue.Empty:
                if self._progress.is_due():
                    done, tasks = self._tasks()
                    self._progress.tell(f"of {tasks} tasks that read the past {done} are done")

    def _work(self, made: RDD[Sent]) -> None:
        try:
            self._context.setJobGroup(self._group, "a question about the past")
            for each in made.toLocalIterator():
                if not self._put("sent", each):
                    return
            self._put(DONE, None)
        except Exception as error:  # of Spark, or of the bridge to Java: the text has the cause
            self._put(FAILED, error)

    def _put(self, kind: str, value: Any) -> bool:
        """Hand over something, unless nobody waits for it any more."""
        while not self._is_over.is_set():
            with contextlib.suppress(queue.Full):
                self._results.put((kind, value), timeout=POLL)
                return True
        return False

    def _tasks(self) -> tuple[int, int]:
        """How many tasks are done, and of how many, as far as Spark knows them."""
        tracker = self._context.statusTracker()
        stages: dict[int, Any] = {}
        for job in tracker.getJobIdsForGroup(self._group):
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found is not None else ():
                stages[stage] = tracker.getStageInfo(stage)
        known = [stage for stage in stages.values() if stage is not None]
        return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
