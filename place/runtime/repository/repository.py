"""The repository: the archives of all streams of a home, written beside the ticks, exactly once.

A thread follows the log of ticks. In a *round* it takes in what has come, writes files of rows that
are part of nothing yet, writes down its state as of the last tick, and then commits the files to
their tables, each commit with the number of that tick. Whoever opens the home again goes on from
the state of the last tick that a table has, and takes the ticks since from the log, which keeps
them until then. So each reading is archived once, whenever a process is killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa

from place.engine.slices import Told
from place.errors import ConfigurationError, PlaceError
from place.model.reading import Key
from place.model.schema import Stream, lasting
from place.plan.catalog import Catalog, fold
from place.runtime.archive import Box, Extent, Found, Span
from place.runtime.durable.crash import point
from place.runtime.durable.gate import Gate
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Damaged, Storage
from place.runtime.repository.amend import Amended, amend
from place.runtime.repository.delta import RepositoryFault
from place.runtime.repository.footers import Footers
from place.runtime.repository.pieces import Asked, TablePiece, pieces_of
from place.runtime.repository.stream_archive import Captured, Prepared, StreamArchive

LOG = logging.getLogger("place.repository")
DIRECTORY, STATES = "repository", "repository/_state"
MARK = "repository.json"
"""Says which archives a home has, so that one that is gone is missed."""


POLL = 0.5
"""Seconds after which the log is looked at again."""


@dataclass(frozen=True)
class Pace:
    """When a round begins: complete readings that wait, or seconds since the last one; files that
    are part of nothing go after so many seconds, in which others may still read them."""

    readings: int = 1 << 20
    seconds: float = 30.0
    grace: float = 600.0
    retry: float = 10.0


@dataclass(frozen=True)
class TickOfLog:
    """What a tick took in, with which version of the catalog; and the times that streams had
    reached, which a query over several of them may have given to one that was silent."""

    tick: int
    catalog: int
    told: Sequence[Told]
    clocks: Mapping[str, int | None] = field(default_factory=dict)


TicksAfter = Callable[[int], Iterable[TickOfLog]]
"""The ticks of the log after one, in their order."""


class Repository:
    """The archives of a home. `confirm` raises an error if the home is somebody else's by now."""

    def __init__(
        self,
        storage: Storage,
        ticks_after: TicksAfter,
        load: Callable[[int], Catalog],
        *,
        pace: Pace | None = None,
        has_thread: bool = True,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        self.storage, self._ticks_after, self._load = storage, ticks_after, load
        self._confirm, self._gate = confirm, Gate(storage)
        self._has_thread = has_thread
        """Whether it follows the log by itself, or somebody else calls `catch_up` and `archive`."""
        self.pace = pace or Pace()
        self._footers = Footers(storage)
        self._archives: dict[str, StreamArchive] = {}
        self.faults: dict[str, str] = {}
        """Why the past of a stream is not there, or not written, by the stream's name."""
        self._catalogs: dict[int, Catalog] = {}
        self._current: Catalog | None = None
        self._newest = 0
        self._position: int | None = None
        """The last tick that was taken in; None while no stream is archived."""
        self._passed: int | None = None
        self._intake, self._round = threading.RLock(), threading.Lock()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._unused: dict[str, float] = {}

    # The log

    def open(self, newest: int, catalog: Catalog) -> None:
        """Go on where the last process stopped. What is damaged is said, and stops nothing."""
        self.know(catalog)
        self._newest = newest
        try:
            self._restore()
        except (PlaceError, OSError) as error:
            for stream in archived(catalog):
                self.faults[stream.name] = str(error)
            LOG.warning("the repository cannot be used: %s", error)
            return
        if self._position is not None:
            self._start()

    def know(self, catalog: Catalog) -> None:
        """A version of the catalog that ticks from now on have."""
        with self._intake:
            self._catalogs[catalog.version] = catalog

    def told(self, tick: int, catalog: Catalog) -> None:
        """A tick is in the log."""
        if self._position is None:
            if not any(archived(catalog)):
                self._newest = tick
                return
            with self._intake:
                self._position = self._passed = tick - 1
        if catalog.version not in self._catalogs:
            self.know(catalog)
        self._newest = tick
        if self._thread is None:
            self._start()

    @property
    def passed(self) -> int | None:
        """The log may forget ticks up to this one; None if nothing is archived."""
        return self._passed

    @property
    def behind(self) -> int:
        """The ticks that are not archived yet."""
        return 0 if self._passed is None else self._newest - self._passed

    def _start(self) -> None:
        if not self._has_thread:
            return
        self._thread = threading.Thread(target=self._run, name="place-repository", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Archive what is complete, and stop."""
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        since = swept = time.monotonic()
        pause = POLL
        while True:
            with self._wake:
                if not self._is_closing:
                    self._wake.wait(pause)
                is_closing = self._is_closing
            is_due = time.monotonic() - since >= self.pace.seconds
            try:
                waiting = self.catch_up()
                if is_due or is_closing or waiting >= self.pace.readings or self.is_due():
                    self.archive()
                    since = time.monotonic()
                pause = POLL
                if time.monotonic() - swept >= self.pace.grace / 4:
                    self._sweep()
                    swept = time.monotonic()
            except Exception as error:  # live queries go on, and it is tried again
                self._failed(error)
                pause = self.pace.retry
            if is_closing:
                return

    def is_due(self) -> bool:
        """Does an interval end with what was taken in?"""
        return any(archive.is_ripe() for archive in self._archives.values())

    def files(self, stream: Stream) -> list[str]:
        """The files of a stream's table, by their names in the storage."""
        archive = self._archives[stream.name]
        return sorted(f"{archive.directory}/{path}" for path in archive.held())

    def _failed(self, error: Exception) -> None:
        for name in self._archives:
            self.faults[name] = f"its past cannot be written: {error}"
        LOG.warning("the repository cannot be written: %s", error, exc_info=True)
        with contextlib.suppress(PlaceError, OSError), self._round, self._intake:
            self._restore()

    # What comes

    def catch_up(self) -> int:
        """Take in all ticks of the log; how many complete readings are in no file."""
        with self._intake:
            position = self._position
            if position is None:
                return 0
            if position < self._newest:
                for each in self._ticks_after(position):
                    self._take(each)
            return sum(archive.waiting for archive in self._archives.values())

    def _take(self, logged: TickOfLog) -> None:
        before = self._current.version if self._current is not None else None
        if logged.catalog != before:
            self._follow(logged.tick, self.catalog(logged.catalog))
        for archive in self._archives.values():
            archive.take(logged.tick, logged.told, logged.clocks.get(archive.stream.name))
        self._position = logged.tick

    def catalog(self, version: int) -> Catalog:
        """A version of the catalog that the log may name; earlier ones are not asked for again."""
        with self._intake:
            if version not in self._catalogs:
                self._catalogs[version] = self._load(version)
            self._catalogs = {v: c for v, c in self._catalogs.items() if v >= version}
            return self._catalogs[version]

    def _follow(self, tick: int, catalog: Catalog) -> None:
        """Begin archives of new streams, and end those of streams that are gone or begin anew."""
        before = self._current
        wanted = {stream.name: stream for stream in archived(catalog)}
        for name in list(self._archives):
            is_reset = before is not None and (
                before.revisions.get(fold(name)) != catalog.revisions.get(fold(name))
            )
            held, stream = self._archives[name], wanted.get(name)
            if stream is None or lasting(stream) != lasting(held.stream) or is_reset:
                del self._archives[name]
                self.faults.pop(name, None)
            elif stream != held.stream:
                held.alter(stream)
        for name, stream in wanted.items():
            if name not in self._archives and name not in self.faults:
                directory = f"{DIRECTORY}/{quote(name, safe='')}/{catalog.version}"
                made = StreamArchive(self.storage, directory, stream, self._footers, tick - 1)
                made.open()
                self._archives[name] = made
        self._current = catalog

    # What is written

    def archive(self, *, fresh: bool = True) -> None:
        """A round: commit what is complete, with the tick that was taken in last.

        There is one round for a tick. What a round that is not fresh leaves in memory is in the
        state that it saves, and in files after the next tick.
        """
        with self._round:
            with self._intake:
                tick, current = self._position, self._current
                captured = {n: archive.capture() for n, archive in self._archives.items()}
                archives = dict(self._archives)
            if tick is None or current is None or tick == self._passed:
                return
            prepared = {
                name: archives[name].prepare(each, pins_of(current, name), fresh=fresh)
                for name, each in captured.items()
            }
            self._confirm()
            point("archiving", tick)
            with self._gate.passing():
                late = self._save(tick, current, archives, captured, prepared)
                point("archive", tick)
                for name, each in prepared.items():
                    if each is not None:
                        archives[name].commit(each, tick)
                        point("archived", tick)
                        self.faults.pop(name, None)
                self._mark(archives)
                for name, files in late.items():
                    archives[name].late.settle(files, len(captured[name].late))
                self._passed = tick
                for state, _ in list(self.storage.list(STATES)):
                    if state != _state_of(tick):
                        self.storage.remove(state)

    def _save(
        self,
        tick: int,
        catalog: Catalog,
        archives: Mapping[str, StreamArchive],
        captured: Mapping[str, Captured],
        prepared: Mapping[str, Prepared | None],
    ) -> dict[str, list[str]]:
        """Write down the state as of a tick; it counts for a stream if its table is as far. The
        files of late readings that it names, by stream."""
        tables: dict[str, pa.Table] = {}
        about: dict[str, object] = {}
        late = {name: archives[name].late.write(tick, each.late) for name, each in captured.items()}
        for number, (name, archive) in enumerate(archives.items()):
            about[name] = {
                "directory": archive.directory,
                "transaction": tick if prepared[name] is not None else archive.delta.tick(),
                "number": number,
                "late": late[name],
            }
            for kind, table in archive.state(captured[name], prepared[name]).items():
                tables[f"{number}/{kind}"] = table
        facts = {"tick": tick, "catalog": catalog.version, "streams": about}
        self.storage.write(_state_of(tick), lambda out: write_tables(out, tables, facts))
        return late

    def _mark(self, archives: Mapping[str, StreamArchive]) -> None:
        """Say which archives there are, once their tables are there: a table of which nothing was
        committed yet is not missed, but made again from the log. Those that are missed stay so."""
        known = self._marks()
        marks = {name: known[name] for name in known.keys() & self.faults.keys()}
        marks |= {name: archive.directory for name, archive in archives.items()}
        if marks != known:
            self.storage.replace(MARK, json.dumps(marks).encode("utf-8"))

    def _marks(self) -> dict[str, str]:
        known = json.loads(self.storage.read(MARK)) if self.storage.exists(MARK) else {}
        return dict(known)

    def _restore(self) -> None:
        """Begin with the last state that each table agrees with."""
        self._archives, self._current = {}, None
        marks = self._marks()
        positions: list[tuple[int, Catalog]] = []
        names = [name for name, _ in self.storage.list(STATES) if name.endswith(".arrow")]
        for name in sorted(names, reverse=True):
            try:
                pack = load_pack(self.storage, name)
            except Damaged as error:
                LOG.warning("%s; the state before it is taken, if there is one", error)
                continue
            catalog = self._load(pack.facts["catalog"])
            streams = {stream.name: stream for stream in archived(catalog)}
            found = False
            for stream, about in pack.facts["streams"].items():
                if stream in self._archives or stream not in streams:
                    continue
                prefix = f"{about['number']}/"
                state = {
                    k[len(prefix) :]: t for k, t in pack.tables.items() if k.startswith(prefix)
                }
                tick = pack.facts["tick"]
                made = StreamArchive(
                    self.storage,
                    about["directory"],
                    streams[stream],
                    self._footers,
                    tick,
                    state,
                    about.get("late", ()),
                )
                made.open()
                if made.delta.tick() == about["transaction"]:
                    self._archives[stream], found = made, True
                    self.faults.pop(stream, None)
            if found or not pack.facts["streams"]:
                positions.append((pack.facts["tick"], catalog))
        if positions:
            self._position, self._current = min(positions, key=lambda each: each[0])
            self._passed = self._position
        elif not marks and any(archived(self._catalogs[max(self._catalogs)])):
            first = next(iter(self._ticks_after(0)), None)
            self._position = self._passed = self._newest if first is None else first.tick - 1
        for name in marks.keys() - self._archives.keys():
            self.faults[name] = (
                f"its past is gone, or damaged: {marks[name]} has no state that fits its table"
            )

    # What goes

    def _sweep(self) -> None:
        """Remove files that are part of no table for a while, and that nobody reads here."""
        now = time.monotonic()
        seen: dict[str, float] = {}
        with self._round, self._gate.passing():
            for archive in self._archives.values():
                held = archive.held()
                for name, _ in self.storage.list(archive.directory):
                    path = name[len(archive.directory) + 1 :]
                    if not path.endswith(".parquet") or path.startswith("_") or path in held:
                        continue
                    seen[name] = self._unused.get(name, now)
            for archive in self._archives.values():
                archive.late.sweep()
            for name, since in list(seen.items()):
                if now - since >= self.pace.grace:
                    self.storage.remove(name)
                    del seen[name]
            self._unused = seen

    # What is asked

    def amend(self) -> list[Amended]:
        """Put the late readings of all streams into their tables."""
        with self._round:
            self._confirm()
            with self._gate.passing():
                return [amend(archive) for archive in self._archives.values()]

    @contextlib.contextmanager
    def _asked(self, stream: Stream) -> Iterator[StreamArchive | None]:
        """The archive of a stream with all that the log has."""
        if stream.archiving is None:
            raise ConfigurationError(
                f'stream "{stream.name}" has no archive',
                hint="create it with archive = 'all' to keep its past",
            )
        try:
            self.catch_up()
        except (PlaceError, OSError) as error:
            raise RepositoryFault(f'the past of "{stream.name}" cannot be read: {error}') from None
        found = self._archives.get(stream.name)
        if found is None and stream.name in self.faults:
            raise RepositoryFault(
                f'the past of "{stream.name}" cannot be read: {self.faults[stream.name]}',
                hint="restore the repository from a copy: live queries go on without it",
            )
        yield found

    def span(self, stream: Stream, at: int | None = None) -> Span | None:
        """The times that can be asked about; None if nothing is there yet."""
        with self._asked(stream) as archive:
            return None if archive is None else archive.span(at)

    def extent(self, stream: Stream, at: int) -> Extent | None:
        """Where the objects of a time are, as the files say."""
        with self._asked(stream) as archive:
            return None if archive is None else archive.extent(at)

    def objects(
        self, stream: Stream, at: int, box: Box | None = None, keys: frozenset[Key] | None = None
    ) -> Found:
        """The last reading of each object that was there at a time."""
        with self._asked(stream) as archive:
            if archive is None:
                raise RepositoryFault(f'there is no past of "{stream.name}" yet')
            return archive.objects(at, box, keys)

    def readings(
        self,
        stream: Stream,
        after: int,
        until: int,
        box: Box | None = None,
        keys: frozenset[Key] | None = None,
    ) -> Found:
        """The readings after a time, up to another, in the order of times."""
        with self._asked(stream) as archive:
            if archive is None:
                raise RepositoryFault(f'there is no past of "{stream.name}" yet')
            return archive.readings(after, until, box, keys)

    @contextlib.contextmanager
    def reading(self, stream: Stream) -> Iterator[Callable[[Asked], list[TablePiece]]]:
        """The pieces of a stream's table that hold what is asked, as it is now; its files stay for
        as long as this lasts."""
        with self._asked(stream) as archive:
            if archive is None:
                yield lambda asked: []
                return
            with archive.reading() as view:
                yield lambda asked: pieces_of(archive, view, asked)


def archived(catalog: Catalog) -> Iterator[Stream]:
    """The streams of a catalog whose past is kept."""
    return (stream for stream in catalog.streams.values() if stream.archiving is not None)


def pins_of(catalog: Catalog, stream: str) -> list[int]:
    """The times of a stream that are pinned."""
    return [pin.at for pin in catalog.pins.values() if pin.stream == stream]


def _state_of(tick: int) -> str:
    return f"{STATES}/{tick:012d}.arrow"
