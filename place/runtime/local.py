"""The local runtime: the cells of the matcher in this process."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from place.engine.answers import Answers, merge
from place.engine.changes import Change, ChangedRows, settle
from place.engine.checkpoint import Checkpoint, load_worker, save_worker
from place.engine.columns import Dictionary
from place.engine.compile import compile_query
from place.engine.matrix import Matrix
from place.engine.partial_answers import Found, PartialAnswer, is_merged
from place.engine.slices import Segment, Told
from place.engine.worker import PROBE, Worker
from place.model import deadline
from place.model.deadline import OutOfTime
from place.model.delta import Answer, Delta
from place.model.reading import Reading
from place.model.schema import Stream
from place.model.segment import make_segment
from place.plan.catalog import Catalog, fold
from place.plan.explain import Observed
from place.plan.logical import Plan
from place.plan.past import Question
from place.plan.planner import make_plan
from place.plan.query import Query
from place.runtime.archive import Archive
from place.runtime.catch_up import CaughtUp, apart, catch_up
from place.runtime.durable.home import Home
from place.runtime.durable.local_log import LocalLog
from place.runtime.durable.run_files import RunFiles
from place.runtime.durable.storage import Storage
from place.runtime.intake.check import last_late
from place.runtime.interface import Fed, Listener, Recalled, Runtime, check_rows
from place.runtime.journal import FILE as JOURNAL
from place.runtime.journal import Journal, replay
from place.runtime.memory_archive import MemoryArchive
from place.runtime.recall import recall
from place.runtime.store import CatalogStore
from place.runtime.together import asking, become_all
from place.sql.limits import current

if TYPE_CHECKING:
    from place.runtime.repository.repository import Repository


class LocalRuntime:
    """Runs queries by the shared matcher. `home` keeps it durable; without one, in memory."""

    name = "local"
    listener: Listener | None = None

    def __init__(
        self, home: Path | None = None, *, matrix: Matrix | None = None, threads: int = 1
    ) -> None:
        self._matrix = matrix or Matrix()
        self._home = Home(home, "log") if home is not None else None
        self._store = CatalogStore(home)
        self._log: LocalLog | None = None
        self.repository: Repository | None = None
        self.catalog = Catalog()
        storage = None if home is None else Storage(str(home.absolute()))
        places = self._matrix.places()
        self._files = [RunFiles(storage, f"{place.row}-{place.column}") for place in places]
        self.workers = [
            Worker(place, threads, files=files)
            for place, files in zip(places, self._files, strict=True)
        ]
        self._memory = MemoryArchive()
        self.archive: Archive = self._memory
        self._answers = Answers(Dictionary())
        self._reasons: dict[str, str] = {}
        if home is not None:
            try:
                self._open(home)
            except BaseException:
                self.close()
                raise

    def _open(self, home: Path) -> None:
        """Begin with the states that were saved last, and take what came since."""
        # Its tables take a library of many megabytes, which sessions without a home do not need.
        from place.runtime.repository.repository import Repository, TickOfLog

        log = self._log = LocalLog(home, f"{self._matrix.rows}x{self._matrix.columns}")

        def ticks(tick: int) -> Iterator[TickOfLog]:
            return (TickOfLog(*each) for each in log.after(tick))

        repository = Repository(Storage(str(home.absolute())), ticks, self._store.load)
        self.repository = self.archive = repository
        self._log.archived = lambda: repository.passed
        self._log.retired = lambda: [name for files in self._files for name in files.retired()]
        self._load(self._log)
        for worker, files in zip(self.workers, self._files, strict=True):
            files.sweep(worker.stored_files())
        if self._log.beginning.tick == 0 and (home / JOURNAL).exists():
            self._take_journal(home)
        assert self._home is not None
        if self._home.about["kind"] != "log":
            self._home.remember(kind="log")
        repository.open(self._log.newest, self._store.load())
        for tick in self._log.since():
            began = time.perf_counter()
            if tick.catalog != self.catalog.version:
                self._follow(self._store.after(self.catalog, tick.catalog))
            self.take(tick.told)
            self._log.count(tick.told, time.perf_counter() - began)
        if self._store.version() != self.catalog.version:  # killed before the log had it
            self._follow(self._store.load())
            self._append([])
            repository.told(self._log.tick, self.catalog)
        self._log.sweep()
        self._log.tend(self.workers, self._reasons)

    def _append(self, told: Sequence[Told]) -> None:
        """Put a tick into the log."""
        assert self._log is not None
        self._log.append(self.catalog.version, told, self.workers[0].clocks.times())

    def _load(self, log: LocalLog) -> None:
        states = log.states()
        if not states:
            return
        self.catalog = catalog = self._store.load(log.beginning.catalog)
        self._reasons = dict(log.beginning.reasons)
        self.workers = [
            _loaded(worker, catalog, state)
            for worker, state in zip(self.workers, states, strict=True)
        ]
        self.remember_answers()

    def remember_answers(self) -> None:
        """Know the answers that several cells hold together, from what these have loaded."""
        catalog = self.catalog
        self._answers = Answers(Dictionary())
        for query in catalog.queries.values():
            if query.trigger is None and self._is_merged(query):
                parts = [
                    replace(part, queries=tuple(query for _ in part.queries))
                    for worker in self.workers
                    for part in worker.probe(query, catalog.arrow_of)
                    if isinstance(part, PartialAnswer)
                ]
                self._answers.take(parts)

    def _is_merged(self, query: Query) -> bool:
        """Is the answer of a query put together from parts that cells hold?"""
        return is_merged(compile_query(query, Dictionary()).shape, self._matrix)

    def _take_journal(self, home: Path) -> None:
        """Take over a home as it was when readings were kept in a journal."""
        assert self._log is not None
        journal = Journal(home)
        replay(journal, lambda v: self._follow(self._store.load(v)), self._take)
        journal.close()
        self._log.append(self.catalog.version, [])
        self._log.save(self.workers, self._reasons)
        self._log.close()
        (home / JOURNAL).unlink()

    def close(self) -> None:
        """Stop; what was durable stays."""
        if self.repository is not None:
            self.repository.close()
        if self._log is not None:
            self._log.close()
        self._store.close()
        if self._home is not None:
            self._home.close()

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Ticks begin only when someone feeds."""
        return contextlib.nullcontext()

    def change(self, catalog: Catalog) -> Sequence[Delta]:
        """Make a new version of the catalog effective and durable; the deltas that it causes."""
        before = self.catalog
        _, begun = catalog.queries.since(before.queries)
        states = _States(self.workers, before, catalog) if begun else None
        with deadline.at_most(current().seconds if begun else None):
            caught_up = self._caught_up(catalog)
        self._store.save(before, catalog)
        try:
            with deadline.at_most(current().seconds if begun else None):
                found = self._become(catalog, caught_up)
        except OutOfTime:
            assert states is not None
            self.catalog = replace(before, version=catalog.version + 1)
            self.workers = states.workers(self.catalog)
            self._store.save(catalog, self.catalog)
            raise
        if self._log is not None and self.repository is not None:
            self._append([])
            self.repository.told(self._log.tick, catalog)
        return self._settled(found, caught_up)

    def feed(self, inputs: Sequence[Fed]) -> Sequence[Delta]:
        """One tick: take readings and advances in the source's order; the deltas that follow."""
        if self._log is None or self.repository is None:
            return self._take(inputs)
        told = told_of(self.catalog, inputs)
        self._append(told)
        self.repository.told(self._log.tick, self.catalog)
        began = time.perf_counter()
        deltas = ChangedRows(self.take(told))
        self._log.count(told, time.perf_counter() - began)
        self._log.tend(self.workers, self._reasons)
        return deltas

    def answer(self, query: str) -> Answer:
        """The answer of a registered query now, from what its cells hold."""
        return self._probe(self.catalog.queries[fold(query)])

    def instant(self, query: str) -> int:
        """The instant that a registered query has reached."""
        return self.workers[0].instant(self.catalog.queries[fold(query)])

    def ask(self, query: Query, most: int | None = None) -> Answer:
        """The answer of any query now, registered or not."""
        return self._probe(query, most, current().seconds)

    def recall(self, question: Question, most: int | None = None) -> Recalled:
        """What a question about the past is answered with."""
        return recall(self.archive, question, most)

    def plan(self, query: Query) -> Plan:
        """How a query is answered, or would be."""
        return plan_of(self, query)

    def analyze(self, query: Query) -> Observed:
        """What passed through the plan of a registered query since it began; of any other, now."""
        if self.catalog.queries.get(fold(query.name)) == query:
            seen = [worker.observed(query) for worker in self.workers]
            return Observed.together([*seen, self._answers.observed(query.name)])
        answers = Answers(Dictionary())
        found: list[Found] = []
        seen = []
        with self._at_most(current().seconds):
            for worker, moved in asking(self.workers, self.catalog, query):
                some, observed = worker.trial(query, self.catalog.arrow_of, moved)
                found += some
                seen.append(observed)
        merge(found, answers)
        return Observed.together([*seen, answers.observed(PROBE)])

    def statistics(self, stream: str) -> dict[str, int]:
        """How many objects a stream has now, and how many readings were taken and were late."""
        name = self.catalog.streams[fold(stream)].name
        rows = [worker for worker in self.workers if worker.place.column == 0]
        return {
            "objects": sum(worker.objects(name) + worker.stored(name) for worker in rows),
            "on_disk": sum(worker.stored(name) for worker in rows),
            "readings": sum(worker.readings[name] for worker in rows),
            "late": sum(worker.late[name] for worker in rows),
        }

    def reason(self, stream: str) -> str | None:
        """Why a reading of a stream was set aside last: one that is wrong is never taken."""
        name = self.catalog.streams[fold(stream)].name
        return self._reasons.get(name) if self.statistics(name)["late"] else None

    def _follow(self, catalog: Catalog) -> Sequence[Delta]:
        """Go over to a version that was accepted, however long it takes."""
        caught_up = self._caught_up(catalog)
        return self._settled(self._become(catalog, caught_up), caught_up)

    def _caught_up(self, catalog: Catalog) -> dict[str, CaughtUp]:
        """What queries of a new version have told that begin in the past."""
        _, begun = catalog.queries.since(self.catalog.queries)
        found = {}
        for query in (catalog.queries[key] for key in begun):
            if query.since is not None:
                now = self.workers[0].beginning(query.streams)
                past = catch_up(self.archive, catalog, query, now, self._matrix)
                found[query.name] = past
        return found

    def _become(self, catalog: Catalog, caught_up: Mapping[str, CaughtUp]) -> list[Found]:
        before, self.catalog = self.catalog, catalog
        self._memory.follow(catalog.streams.values())
        for key, stream in before.streams.items():
            if before.revisions.get(key) != catalog.revisions.get(key):
                self._memory.forget(stream.name)
        for dropped in self._reasons.keys() - {stream.name for stream in catalog.streams.values()}:
            del self._reasons[dropped]
        held = [
            {name: past.contents[number] for name, past in caught_up.items()}
            for number in range(len(self.workers))
        ]
        return become_all(self.workers, catalog, held)

    def _settled(
        self, found: Iterable[Found], caught_up: Mapping[str, CaughtUp] | None = None
    ) -> Sequence[Delta]:
        settled = settle(merge(found, self._answers))
        if not caught_up:
            return ChangedRows(settled)
        others, first = apart(settled, caught_up)
        for name, past in caught_up.items():
            others += past.told(first[name])
        return ChangedRows(others)

    def _probe(self, query: Query, most: int | None = None, seconds: float | None = None) -> Answer:
        tables = self.catalog.arrow_of
        with self._at_most(seconds):
            found = [
                each
                for worker, moved in asking(self.workers, self.catalog, query)
                for each in worker.probe(query, tables, moved)
            ]
            changes = settle(merge(found, Answers(Dictionary())))
        check_rows(sum(map(len, changes)), most)
        return Counter(delta.row for change in changes for delta in change.deltas())

    @contextlib.contextmanager
    def _at_most(self, seconds: float | None) -> Iterator[None]:
        """A query is asked meanwhile; if it takes too long, nothing is left of it."""
        states = _States(self.workers, self.catalog, self.catalog)
        try:
            with deadline.at_most(seconds):
                yield
        except OutOfTime:
            self.workers = states.workers(self.catalog)
            raise

    def _take(self, inputs: Sequence[Fed]) -> Sequence[Delta]:
        return ChangedRows(self.take(told_of(self.catalog, inputs)))

    def take(self, told: Sequence[Told]) -> list[Change]:
        """One tick by columns, in memory only: the settled changes that follow."""
        found = [each for worker in self.workers for each in worker.take(told)]
        for late in self.aside():
            definition = self.catalog.streams[fold(late.stream)]
            self._reasons[late.stream] = last_late(definition, late.table)
        if self.repository is None:
            self._archive(told)
        for number, worker in enumerate(self.workers):
            if worker.stored_files() and worker.is_bloated():  # by texts of what is on the disk
                self.workers[number] = _loaded(worker, self.catalog, save_worker(worker))
        return settle(merge(found, self._answers))

    def _archive(self, told: Sequence[Told]) -> None:
        """Keep what the archive wants of a tick, and how far streams are complete."""
        times = self.workers[0].clocks.times()
        for stream in self.catalog.streams.values():
            if stream.archiving is not None:
                self._memory.take(stream, told, times[stream.name])

    def aside(self) -> list[Segment]:
        """The readings of the last tick that were late; the last of each stream at the end."""
        rows = [worker for worker in self.workers if worker.place.column == 0]
        rows = [worker for worker in rows if not worker.share.is_whole] or rows[:1]
        found = [(row.last_late[late.stream], late) for row in rows for late in row.aside]
        return [late for _, late in sorted(found, key=lambda each: each[0])]


class _States:
    """What workers were before a query began, of which nothing may be left if it takes too long.

    Only what a query that begins may change is kept from before: the clocks of streams that have
    said nothing. All else that a worker saves is untouched by it, and is saved when it is needed;
    but for a change that does more than that.
    """

    def __init__(self, workers: Sequence[Worker], before: Catalog, after: Catalog) -> None:
        self._workers = list(workers)
        self._clocks = [(worker.clocks.times(), worker.clocks.parts()) for worker in workers]
        ended, _ = after.queries.since(before.queries)
        more = [*ended, *(name for part in after.streams.since(before.streams) for name in part)]
        does_more = bool(more) or after.revisions != before.revisions
        self._saved = [save_worker(worker) for worker in workers] if does_more else None

    def workers(self, catalog: Catalog) -> list[Worker]:
        """The workers as they were, with a catalog that has the same in it."""
        saved = self._saved or [save_worker(worker) for worker in self._workers]
        made = []
        for worker, state, clocks in zip(self._workers, saved, self._clocks, strict=True):
            again = _loaded(worker, catalog, state)
            again.clocks.set_times(*clocks)
            read = {query.streams for query in catalog.queries.values()}
            for streams in [s for s in again.timelines if len(s) > 1 and s not in read]:
                del again.timelines[streams]
            again.share.tidy()
            made.append(again)
        return made


def _loaded(worker: Worker, catalog: Catalog, state: Checkpoint) -> Worker:
    """A worker in the place of another, with a state that was saved."""
    tables, threads = catalog.arrow_of, worker.threads
    loaded = load_worker(worker.place, catalog, tables, state, threads, worker.files)
    if isinstance(worker.files, RunFiles):
        worker.files.keep(loaded.stored_files())
    return loaded


def plan_of(runtime: Runtime, query: Query) -> Plan:
    """The plan of a query by what its cells have seen of it, if it is registered."""
    is_registered = runtime.catalog.queries.get(fold(query.name)) == query
    return make_plan(query, runtime.analyze(query).knowledge if is_registered else None)


def told_of(catalog: Catalog, inputs: Sequence[Fed]) -> list[Told]:
    """Inputs as segments. Clocks are of one stream each, so that only its own order counts."""
    streams = {stream.name: stream for stream in catalog.streams.values()}
    told: list[Told] = []
    waiting: dict[str, list[Reading]] = {}
    for item in inputs:
        if isinstance(item, Reading):
            waiting.setdefault(item.stream, []).append(item)
        else:
            told += _segments(streams, waiting)
            told.append(item)
    return told + _segments(streams, waiting)


def _segments(streams: dict[str, Stream], waiting: dict[str, list[Reading]]) -> list[Told]:
    made: list[Told] = [
        Segment(name, make_segment(streams[name], readings)) for name, readings in waiting.items()
    ]
    waiting.clear()
    return made
