"""What a task of a tick does: read its inputs, go on from the cell's state, write what follows.

A task gets names and returns names; readings and deltas are in files. It needs nothing but the
files that the last manifest names. That a worker process of Python may still have the cell of the
last tick in its memory only saves time.
"""

from __future__ import annotations

import gc
import itertools
import re
import sys
import time
import traceback
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs

from place.engine.changes import Change, settle
from place.engine.checkpoint import load_worker, save_worker
from place.engine.matrix import Matrix, Place
from place.engine.partial_answers import Found, PartialAnswer
from place.engine.worker import Segment, TableOf, Told, Worker
from place.model import deadline
from place.model.deadline import OutOfTime
from place.model.reading import Advance
from place.model.schema import Stream
from place.model.types import Row
from place.plan.catalog import Catalog, fold
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable.crash import point
from place.runtime.durable.manifest import Posted, Saved
from place.runtime.durable.outbox import write_outbox
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Storage, digest
from place.runtime.intake.check import (
    Rejected,
    Routed,
    last_late,
    late_readings,
)
from place.runtime.intake.files import read_file
from place.runtime.intake.generated import Steps
from place.runtime.intake.quarantine import pack
from place.runtime.spark.parts import write_parts

MOST_KEPT = 4
"""So many cells stay in the memory of a worker process, those used last."""

_PRINT_EXCEPTION = traceback.print_exc
_TASKS = itertools.count(1)
"""The tasks of this process."""
_KEPT: OrderedDict[tuple[str, str], tuple[str, Worker]] = OrderedDict()


@dataclass(frozen=True)
class FileInput:
    """A file of a stream's source, still to be read and checked; `order` is its place, `latest` the
    latest time that its readings may have."""

    stream: str
    path: str
    order: int = 0
    arrival: int | None = None
    latest: int | None = None


@dataclass(frozen=True)
class PackInput:
    """Segments and advances that are in the storage already, with what was set aside of them."""

    file: str
    order: int = 0
    stream: str | None = None
    bad: int = 0
    quarantine: tuple[str, ...] = ()
    seconds: float = 0.0
    reason: str | None = None
    """Why a row was set aside, if any was."""


@dataclass(frozen=True)
class AdvanceInput:
    """A time that a stream has reached without a reading that tells it (all streams if None)."""

    time: int
    stream: str | None = None


@dataclass(frozen=True)
class StepsInput:
    """Steps of a stream's generator, still to be made: from the first up to before `after`."""

    stream: str
    first: int
    after: int


TickInput = FileInput | PackInput | AdvanceInput | StepsInput


@dataclass(frozen=True)
class Job:
    """What all tasks of a tick have to know. `before` is the catalog of the saved states, and
    `clocks` are the last complete instants of streams then."""

    storage: Storage
    tick: int
    attempt: str
    matrix: Matrix
    threads: int
    before: Any
    after: Any
    states: dict[str, Saved]
    driver: int
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    seconds: float | None = None
    """How long queries that begin, or are asked, may take in a cell."""

    def arrival(self, stream: Stream, at: int) -> int:
        """When readings come that have no time of their own, if a clock says that it was `at`.

        Where that clock has gone back so far that they would be late, they come right after what
        their stream has reached.
        """
        closed = self.clocks.get(stream.name)
        return at if closed is None or at > closed else closed + stream.lateness + 1


@dataclass
class CellResult:
    """What a task has done, in names and numbers."""

    cell: str
    state: Saved | None = None
    outbox: Posted | None = None
    open: Posted | None = None
    """Deltas that have to be settled with those of other cells."""
    parts: str | None = None
    """The file of parts of answers that several cells hold together."""
    quarantine: tuple[str, ...] = ()
    readings: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a reading of a stream was set aside, where any was."""
    objects: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, int | None] = field(default_factory=dict)
    instants: dict[str, int] = field(default_factory=dict)
    triggers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rows: int = 0
    times: dict[str, float] = field(default_factory=dict)
    is_out_of_time: bool = False
    """Queries that begin took too long, and nothing was done."""


def cell_name(place: Place) -> str:
    return f"{place.row}-{place.column}"


# Route


def in_order(inputs: Iterable[TickInput]) -> list[TickInput]:
    """Inputs in their order: files by when they came, then by name."""

    def order(item: TickInput) -> tuple[int, str]:
        if isinstance(item, FileInput):
            return item.order, item.path
        if isinstance(item, PackInput):
            return item.order, item.file
        return (item.first if isinstance(item, StepsInput) else 0), ""

    return sorted(inputs, key=order)


def route(job: Job, inputs: Iterable[TickInput]) -> Iterator[TickInput]:
    """Read files, and make what is generated, into segments in the storage for several cells."""
    for item in inputs:
        start = time.perf_counter()
        if isinstance(item, FileInput):
            routed = _read(job, item)
            yield keep_routed(job, item.stream, {None: routed}, item.order, start)
        elif isinstance(item, StepsInput):
            file = _keep_told(job, _made(job, item))
            seconds = time.perf_counter() - start
            yield PackInput(file, item.first, item.stream, seconds=seconds)
        else:
            yield item


def keep_routed(
    job: Job, stream: str, parts: Mapping[str | None, Routed], order: int, start: float
) -> PackInput:
    """Write what was read of a source, by its partitions, and what has to be set aside."""
    file = _keep_told(
        job, [Segment(stream, routed.segment, part) for part, routed in parts.items()]
    )
    rejected = [bad for routed in parts.values() for bad in routed.rejected]
    aside = _set_aside(job, stream, rejected)
    seconds = time.perf_counter() - start
    reason = str(rejected[0]) if rejected else None
    return PackInput(file, order, stream, len(rejected), aside, seconds, reason)


def _keep_told(job: Job, told: Sequence[Told]) -> str:
    file = f"segments/{job.tick:012d}-{job.attempt}-{uuid.uuid4().hex[:12]}.arrow"
    job.storage.write(file, lambda out: write_told(out, told))
    return file


def _made(job: Job, item: StepsInput) -> list[Told]:
    stream = job.after.value.streams[fold(item.stream)]
    return Steps(job.storage, stream).told(item.first, item.after)


def _read(job: Job, item: FileInput) -> Routed:
    stream = job.after.value.streams[fold(item.stream)]
    filesystem, path = _opened(item.path)
    arrival = None if item.arrival is None else job.arrival(stream, item.arrival)
    return read_file(stream, path, filesystem, arrival=arrival, latest=item.latest)


def _opened(path: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system of a path. Spark writes those of this machine as `file:/…`, not encoded."""
    if path.startswith("file:"):
        return pa.fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        # Hadoop's names of the schemes are not always Arrow's.
        found: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(
            re.sub("^s3[an]:", "s3:", path)
        )
        return found
    return pa.fs.LocalFileSystem(), path


def _set_aside(job: Job, stream: str, rejected: list[Rejected]) -> tuple[str, ...]:
    if not rejected:
        return ()
    file = f"quarantine/{job.tick:012d}-{job.attempt}-{uuid.uuid4().hex[:12]}.jsonl"
    content = pack(stream, job.tick, rejected)
    job.storage.write(file, lambda out: out.write(content))
    return (file,)


def write_told(out: pa.NativeFile, told: Sequence[Told]) -> None:
    """Write segments and advances in their order."""
    tables: dict[str, pa.Table] = {}
    order: list[dict[str, Any]] = []
    for number, item in enumerate(told):
        if isinstance(item, Segment):
            tables[str(number)] = item.table
            order.append({"stream": item.stream, "table": str(number), "part": item.part})
        else:
            order.append({"stream": item.stream, "advance": item.time})
    write_tables(out, tables, {"told": order})


def read_told(storage: Storage, name: str) -> list[Told]:
    """The segments and advances of a file, in their order."""
    tables, facts = load_pack(storage, name)
    told: list[Told] = []
    for item in facts["told"]:
        if "table" in item:
            told.append(Segment(item["stream"], tables[item["table"]], item["part"]))
        else:
            told.append(Advance(item["advance"], item["stream"]))
    return told


# Match and answer


def run_cell(job: Job, place: Place, inputs: Sequence[TickInput]) -> CellResult:
    """One tick of one cell: from its saved state to the next, and its deltas."""
    result = CellResult(cell_name(place))
    clock = _Stopwatch(result.times)
    worker = _resume(job, place)
    clock.lap("load")
    told, rejected = _gather(job, inputs, result)
    clock.lap("route")
    found: list[Found] = []
    if worker.catalog.version != job.after.value.version:
        try:
            with deadline.at_most(job.seconds):
                found += worker.become(job.after.value, _tables(job.storage, job.after.value))
        except OutOfTime:  # nothing that Spark should try again; the worker is not kept
            return replace(result, is_out_of_time=True)
    found += worker.take(told)
    changes = [each for each in found if isinstance(each, Change)]
    parts = [each for each in found if isinstance(each, PartialAnswer)]
    clock.lap("match")
    alone = job.matrix.rows * job.matrix.columns == 1
    settled = settle([change for change in changes if alone or change.is_settled])
    unsettled = [] if alone else [change for change in changes if not change.is_settled]
    clock.lap("answer")
    point("state", job.tick, job.driver)
    # Each attempt of a task has names of its own: one that was given up may still be writing.
    token = f"{job.tick:012d}-{job.attempt}-{uuid.uuid4().hex[:8]}"
    file = f"state/{result.cell}/{token}.arrow"
    state = save_worker(worker)
    size = job.storage.write(file, lambda out: write_tables(out, state))
    result.state = Saved(file, token, size)
    clock.lap("state")
    point("outbox", job.tick, job.driver)
    if settled:
        posted = f"outbox/{token}-{result.cell}.arrow"
        result.outbox = Posted(posted, *write_outbox(job.storage, posted, settled))
    if unsettled:
        posted = f"segments/{token}-{result.cell}-open.arrow"
        result.open = Posted(posted, *write_outbox(job.storage, posted, unsettled))
    if parts:
        result.parts = f"segments/{token}-{result.cell}-parts.arrow"
        job.storage.write(result.parts, lambda out: write_parts(out, parts))
    clock.lap("outbox")
    if (place.row, place.column) == (0, 0):
        for stream, bad in rejected.items():
            result.bad[stream] = result.bad.get(stream, 0) + len(bad)
            result.quarantine += _set_aside(job, stream, bad)
            if bad:
                result.reasons[stream] = str(bad[0])
        for segment in worker.aside:
            definition = job.after.value.streams[fold(segment.stream)]
            late = late_readings(definition, segment.table)
            result.quarantine += _set_aside(job, segment.stream, late)
            result.reasons[segment.stream] = last_late(definition, segment.table)
    else:  # one cell tells for all
        result.quarantine, result.bad, result.reasons = (), {}, {}
    _tell(worker, result)
    _keep(job.storage, result.cell, token, worker)
    _spare_the_collector()
    return result


Probed = tuple[list[Row], bytes | None, int]
"""A cell's part of an answer: rows, or a part as `write_parts` has it; and how many rows these are,
of which none are made if they are too many."""


def probe_cell(
    job: Job, place: Place, queries: Sequence[Query], most: int | None = None
) -> list[Probed] | None:
    """This cell's parts of the answers of queries; None if they take too long."""
    worker = _resume(job, place)
    tables = _tables(job.storage, worker.catalog)
    try:
        with deadline.at_most(job.seconds):
            asked = [worker.probe(query, tables) for query in queries]
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
    cell = cell_name(place)
    if cell in job.states:
        _keep(job.storage, cell, job.states[cell].token, worker)
    return answers


def observe_cell(job: Job, place: Place, query: Query) -> tuple[Observed, bytes | None] | None:
    """What has passed through the plan of a query in this cell; one that is not registered is
    asked, and its part is as `write_parts` has it. None if it takes too long."""
    worker = _resume(job, place)
    parts: list[PartialAnswer] = []
    if worker.catalog.queries.get(fold(query.name)) == query:
        seen = worker.observed(query)
    else:
        try:
            with deadline.at_most(job.seconds):
                found, seen = worker.trial(query, _tables(job.storage, worker.catalog))
        except OutOfTime:
            return None
        parts = [each for each in found if isinstance(each, PartialAnswer)]
    cell = cell_name(place)
    if cell in job.states:
        _keep(job.storage, cell, job.states[cell].token, worker)
    return seen, _packed(parts)


def _packed(parts: Sequence[PartialAnswer]) -> bytes | None:
    if not parts:
        return None
    out = pa.BufferOutputStream()
    write_parts(out, parts)
    content: bytes = out.getvalue().to_pybytes()
    return content


def _spare_the_collector() -> None:
    """Set what is there aside from garbage collection, now and then.

    Spark's daemon collects garbage after every task, and looks at each object of the modules and
    compiled kernels, which stay for good: that takes longer than a small tick. After tasks 1, 2, 4,
    8 and so on of this process, what is there is taken to stay; what is let go of later is freed
    all the same, unless it refers to itself.
    """
    number = next(_TASKS)
    if number == 1:
        traceback.print_exc = _print_but_for_broken_pipes
    if number & (number - 1) == 0:
        gc.freeze()


def _print_but_for_broken_pipes(*arguments: Any, **options: Any) -> None:
    """A worker that waits for a task when Spark stops finds its pipe broken: that is no news."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        _PRINT_EXCEPTION(*arguments, **options)


def _resume(job: Job, place: Place) -> Worker:
    """The worker of a cell as the last manifest has left it."""
    cell = cell_name(place)
    saved = job.states.get(cell)
    token, kept = _KEPT.pop((job.storage.root, cell), ("", None))
    if saved is None:
        return Worker(place, job.threads)
    if kept is not None and token == saved.token:
        return kept
    catalog: Catalog = job.before.value
    state = load_pack(job.storage, saved.file).tables
    return load_worker(place, catalog, _tables(job.storage, catalog), state, job.threads)


def _keep(storage: Storage, cell: str, token: str, worker: Worker) -> None:
    if worker.is_bloated():  # the next tick begins with its state, and only the texts in use
        return
    _KEPT[storage.root, cell] = token, worker
    while len(_KEPT) > MOST_KEPT:
        _KEPT.popitem(last=False)


def table_file(catalog: Catalog, name: str) -> str:
    """The file that holds the rows of a table."""
    return f"tables/{digest(fold(name))}-{catalog.revisions[fold(name)]}.arrow"


def _tables(storage: Storage, catalog: Catalog) -> TableOf:
    def table_of(name: str) -> pa.Table:
        return load_pack(storage, table_file(catalog, name)).tables["rows"]

    return table_of


def _gather(
    job: Job, inputs: Sequence[TickInput], result: CellResult
) -> tuple[list[Told], dict[str, list[Rejected]]]:
    """The inputs in their order, and what could not be read."""
    told: list[Told] = []
    rejected: dict[str, list[Rejected]] = {}
    for item in inputs:
        if isinstance(item, FileInput):
            routed = _read(job, item)
            told.append(Segment(item.stream, routed.segment))
            rejected.setdefault(item.stream, []).extend(routed.rejected)
        elif isinstance(item, PackInput):
            told += read_told(job.storage, item.file)
            result.quarantine += item.quarantine
            result.times["route"] = max(result.times.get("route", 0.0), item.seconds)
            if item.stream is not None:
                result.bad[item.stream] = result.bad.get(item.stream, 0) + item.bad
                if item.reason:
                    result.reasons[item.stream] = item.reason
        elif isinstance(item, StepsInput):
            told += _made(job, item)
        else:
            told.append(Advance(item.time, item.stream))
    result.rows = sum(item.table.num_rows for item in told if isinstance(item, Segment))
    return told, rejected


def _tell(worker: Worker, result: CellResult) -> None:
    result.readings, result.late = dict(worker.readings), dict(worker.late)
    result.objects = {name: worker.objects(name) for name in worker.readings}
    result.clocks, result.triggers = worker.clocks.times(), worker.trigger_counts()
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
