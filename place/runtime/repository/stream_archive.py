"""The archive of one stream: rows in memory, then in files of its table, then in intervals.

Complete readings gather in memory, from where questions can already read them; the log still has
them. A commit writes them to files of the table, with the tick that it goes up to. When enough have
come since the last snapshot, they become an interval, and the files that they were in cease to be
part of the table, in the same commit.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.slices import Told
from place.model.reading import Key
from place.model.schema import Stream
from place.model.time import DAY, format_timestamp, moment_at
from place.runtime.archive import Box, Extent, Found, Span
from place.runtime.durable.storage import Storage
from place.runtime.repository.complete import Completing
from place.runtime.repository.delta import APPLICATION, Delta, RepositoryFault, TableFile
from place.runtime.repository.footers import Footers
from place.runtime.repository.interval import (
    Interval,
    arranged,
    by_object,
    last_of_each,
    open_rows,
    valid_at,
)
from place.runtime.repository.late import LateReadings
from place.runtime.repository.layout import Layout
from place.runtime.repository.parquet import Wanted, fits, write_rows

RECENT = "recent"
AMENDED, AMENDED_READINGS = "place amend", "place amended readings"
"""Transactions of a table: the tick up to which late readings were put in, and how many were."""
ENOUGH = 4
"""An interval has so many readings for each object that it begins with, or it is a whole day."""
MOST_ROWS = 1 << 20
"""An interval with so many readings, and enough for each object, need not wait for its end."""


@dataclass(frozen=True)
class ArchivedFile:
    """A file, and the times that it is about: an interval, or readings that are in none yet."""

    file: TableFile
    is_interval: bool
    begin: int
    end: int

    @staticmethod
    def of(file: TableFile) -> ArchivedFile:
        kind, begin, end, _ = file.path.rpartition("/")[2].split("_")
        return ArchivedFile(file, kind == "interval", int(begin), int(end))


@dataclass(frozen=True)
class View:
    """What an archive has at one moment: files, and rows in memory that are in none yet."""

    files: tuple[ArchivedFile, ...] = ()
    recent: tuple[pa.Table, ...] = ()
    closed: int | None = None
    objects: int = 0
    """The objects at the end of the last interval."""

    @property
    def intervals(self) -> list[ArchivedFile]:
        """The intervals in the order of times."""
        return sorted((f for f in self.files if f.is_interval), key=lambda f: f.begin)

    @property
    def loose(self) -> list[ArchivedFile]:
        """Files of readings since the last interval."""
        return sorted((f for f in self.files if not f.is_interval), key=lambda f: f.begin)


@dataclass(frozen=True)
class Captured:
    """What an archive has after a tick: its view, and what is on its way to it."""

    tick: int
    view: View
    state: dict[str, pa.Table]
    late: tuple[pa.Table, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """Files that are written, those whose rows are in them now, and the rows that are in none; of
    the tables in memory so many were looked at."""

    added: tuple[TableFile, ...]
    removed: tuple[TableFile, ...]
    rest: pa.Table
    taken: int


class StreamArchive:
    """The archive of a stream in a directory of a storage."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        stream: Stream,
        footers: Footers,
        tick: int = 0,
        state: Mapping[str, pa.Table] | None = None,
        late: Sequence[str] = (),
    ) -> None:
        self.stream, self.directory = stream, directory
        self.late = LateReadings(storage, directory, stream, late)
        self.layout = Layout(stream)
        self._storage, self.footers = storage, footers
        state = state or {}
        self.completing = Completing(stream, state)
        self.tick = tick
        """The tick up to which its state goes; earlier ones are not taken again."""
        self.delta = Delta(storage.root, directory, self.layout.table_schema, self.layout.day)
        recent = (state[RECENT],) if RECENT in state else ()
        self._view = View(recent=recent, closed=self.completing.clock.closed)
        self._lock = threading.Lock()
        self._readers: dict[int, View] = {}
        self._numbers = count()

    def alter(self, stream: Stream) -> None:
        """Go on with other options of the same stream."""
        self.stream = self.completing.stream = stream
        self.completing.clock.lateness = stream.lateness

    # What comes

    def open(self) -> None:
        """See what the table has."""
        self.delta.open()
        self.late.forget(self.delta.tick(AMENDED))
        self._see()

    def take(self, tick: int, told: Sequence[Told], started: int | None) -> None:
        """What a tick of the log has taken in."""
        if tick <= self.tick:
            return
        self.completing.take(told, started)
        late = self.completing.late()
        if not self.stream.fills_gaps:  # what later readings left out was filled without them
            self.late.take(late)
        self.tick = tick
        rows, closed = self.completing.completed(), self.completing.clock.closed
        with self._lock:
            recent = self._view.recent
            if rows is not None and rows.num_rows:
                recent = (*recent, rows)
            self._view = replace(self._view, recent=recent, closed=closed)

    def capture(self) -> Captured:
        """What is there after the tick that was taken last."""
        return Captured(self.tick, self._view, self.completing.state(), self.late.recent)

    def state(self, captured: Captured, prepared: Prepared | None) -> dict[str, pa.Table]:
        """All that is in no file of the table when what was prepared is part of it."""
        rest = self._gathered(captured.view) if prepared is None else prepared.rest
        if not rest.num_rows:
            return captured.state
        return {**captured.state, RECENT: rest.combine_chunks()}

    @property
    def waiting(self) -> int:
        """Complete readings that are in no file."""
        return sum(rows.num_rows for rows in self._view.recent)

    # What is committed

    def is_ripe(self) -> bool:
        """Does an interval end with what has come?"""
        view = self._view
        if not view.recent:
            return False
        times = np.concatenate([self.layout.times(rows) for rows in view.recent])
        return self._cut(times, view) is not None

    def prepare(
        self, captured: Captured, pinned: Collection[int], *, fresh: bool
    ) -> Prepared | None:
        """Write complete readings to files that are part of nothing yet: intervals that have ended,
        and the rest if it is to be fresh. What is too old is to go, but for what holds a pinned
        time. None if there is nothing to do."""
        view = captured.view
        rows = self._gathered(view)
        removed = self._expired(view, pinned)
        added: list[TableFile] = []
        left, then = rows, view
        base = None
        while (cut := self._cut(self.layout.times(left), then)) is not None:
            begin, end, stop = cut
            part = left.slice(0, stop)
            if then is view:
                part = pa.concat_tables([*self._loose_rows(view), part])
                removed += [each.file for each in view.loose]
            made = arranged(
                self.layout, self._base(view) if base is None else base, part, begin, end
            )
            added.append(self.write_interval(made))
            base = open_rows(self.layout, pa.concat_tables(made.pieces), end)
            left = left.slice(stop)
            then = View(files=(ArchivedFile.of(added[-1]),), objects=made.objects)
        if fresh and left.num_rows:
            added.append(self.write_loose(left))
            left = left.slice(0, 0)
        if not added and not removed:
            return None
        return Prepared(tuple(added), tuple(removed), left, len(view.recent))

    def _expired(self, view: View, pinned: Collection[int]) -> list[TableFile]:
        """The intervals that are over for longer than they should be kept."""
        archiving = self.stream.archiving
        assert archiving is not None
        if archiving.keep is None or view.closed is None:
            return []
        oldest = view.closed - archiving.keep
        return [
            each.file
            for each in view.intervals[:-1]
            if each.end <= oldest and not any(each.begin <= at < each.end for at in pinned)
        ]

    def commit(self, prepared: Prepared, tick: int) -> None:
        """Make what was written part of the table, as of a tick."""
        self.delta.commit(prepared.added, prepared.removed, {APPLICATION: tick}, f"tick {tick}")
        self._see(prepared)

    def amend(
        self,
        added: Sequence[TableFile],
        removed: Sequence[TableFile],
        transactions: Mapping[str, int],
        note: str,
    ) -> None:
        """Replace files, for late readings that are in the new ones."""
        self.delta.commit(added, removed, transactions, note)
        self.late.forget(self.delta.tick(AMENDED))
        self._see()

    def _see(self, prepared: Prepared | None = None) -> None:
        files = tuple(ArchivedFile.of(file) for file in self.delta.files())
        intervals = sorted((f for f in files if f.is_interval), key=lambda f: f.begin)
        objects = self.footers.objects(self.layout, self.name_of(intervals[-1])) if intervals else 0
        with self._lock:
            recent = self._view.recent
            if prepared is not None:
                rest = (prepared.rest,) if prepared.rest.num_rows else ()
                recent = (*rest, *recent[prepared.taken :])
            self._view = replace(self._view, files=files, recent=recent, objects=objects)

    def _gathered(self, view: View) -> pa.Table:
        """The complete readings in memory, in the order of times."""
        return pa.concat_tables([self.layout.schema.empty_table(), *view.recent])

    def _cut(self, times: NDArray[np.int64], view: View) -> tuple[int, int, int] | None:
        """The interval that ends with rows of these times: its begin and end, and how many of them
        it takes. It ends with a period of snapshots that has enough readings, or with a day; or
        anywhere, if there are very many. None if it goes on."""
        if not len(times):
            return None
        archiving = self.stream.archiving
        assert archiving is not None
        loose, intervals = view.loose, view.intervals
        before = loose[-1].end if loose else int(times[0])
        count = sum(each.file.rows for each in loose)
        begin = intervals[-1].end if intervals else min([int(times[0]), *(f.begin for f in loose)])
        marks = np.concatenate([[before], times])
        days = marks // DAY
        periods = marks // archiving.snapshot
        place = count + np.arange(len(times))
        is_end = (periods[1:] != periods[:-1]) & (place >= ENOUGH * view.objects)
        is_end |= days[1:] != days[:-1]
        is_end |= (marks[1:] != marks[:-1]) & (place >= max(MOST_ROWS, ENOUGH * view.objects))
        is_end[0] &= count > 0
        if not is_end.any():
            return None
        stop = int(np.argmax(is_end))
        time = int(times[stop])
        end = max(time // archiving.snapshot * archiving.snapshot, time // DAY * DAY)
        return begin, end if end > marks[stop] else time, stop

    def _base(self, view: View) -> pa.Table:
        """The objects at the end of the last interval."""
        intervals = view.intervals
        if not intervals or self.layout.key is None:
            return self.layout.schema.empty_table()
        last = intervals[-1]
        wanted = Wanted(until=last.end, since=last.end - 1)
        return open_rows(self.layout, self.rows_of(last, wanted), last.end)

    def _loose_rows(self, view: View) -> list[pa.Table]:
        return [self.rows_of(each, Wanted(until=each.end)) for each in view.loose]

    def rows_of(self, each: ArchivedFile, wanted: Wanted) -> pa.Table:
        """The rows of a file that may be wanted."""
        return self.footers.read(self.layout, self.name_of(each), wanted)[0]

    def name_of(self, each: ArchivedFile) -> str:
        """The name of a file in the storage."""
        return f"{self.directory}/{each.file.path}"

    def write_interval(self, made: Interval) -> TableFile:
        """Write an interval to a file that is part of nothing yet."""
        name = f"interval_{made.begin}_{made.end}"
        day = _day(made.begin)
        return write_rows(self._storage, self.directory, self.layout, name, day, made.pieces)

    def write_loose(self, rows: pa.Table) -> TableFile:
        """Write readings that are in no interval yet, in the order of times; they are of one
        day."""
        times = self.layout.times(rows)
        name = f"loose_{times[0]}_{times[-1]}"
        day = _day(int(times[0]))
        pieces = by_object(self.layout, rows)
        return write_rows(self._storage, self.directory, self.layout, name, day, pieces)

    # What is asked

    @contextmanager
    def reading(self) -> Iterator[View]:
        """What is there now; its files stay for as long as this lasts."""
        with self._lock:
            view = self._view
            number = next(self._numbers)
            self._readers[number] = view
        try:
            yield view
        finally:
            with self._lock:
                del self._readers[number]

    def held(self) -> set[str]:
        """The files that are part of the table, or that somebody reads."""
        with self._lock:
            views = [self._view, *self._readers.values()]
        return {each.file.path for view in views for each in view.files}

    def span(self, at: int | None = None) -> Span | None:
        """The times that can be asked about; those around a time that is kept by a pin."""
        view = self._view
        if view.closed is None:
            return None
        begin = self._begin(view)
        if begin is None:
            return None
        if at is not None and at < begin:
            around = [each for each in view.intervals if each.begin <= at < each.end]
            if around:
                return Span(around[0].begin, around[0].end - 1, is_pinned=True)
        return Span(begin, max(view.closed, begin))

    def _begin(self, view: View) -> int | None:
        """Since when everything is there; what is pinned may be older."""
        begin = None
        for each in reversed(view.intervals):
            if begin is not None and each.end != begin:
                break
            begin = each.begin
        if begin is not None:
            return begin
        begins = [each.begin for each in view.loose]
        begins += [int(self.layout.times(rows.slice(0, 1))[0]) for rows in view.recent[:1]]
        return min(begins, default=None)

    def extent(self, at: int) -> Extent | None:
        """Where the objects of a time in a complete interval are, as its file says."""
        for each in self._view.intervals if self.layout.place is not None else ():
            if each.begin <= at < each.end:
                x, y = self.layout.place or ("", "")
                least, greatest = each.file.least, each.file.greatest
                found = [part.get(name) for part in (least, greatest) for name in (x, y)]
                if any(not isinstance(value, int | float) for value in found):
                    return None
                left, bottom, right, top = (float(str(value)) for value in found)
                objects = self.footers.objects(self.layout, self.name_of(each))
                return Extent((left, bottom, right, top), objects)
        return None

    def objects(self, at: int, box: Box | None, keys: Collection[Key] | None) -> Found:
        """The objects as they were at a time."""
        with self.reading() as view:
            layout = self.layout
            inside = [f for f in view.intervals if f.begin <= at < f.end]
            if inside:
                wanted = Wanted(until=at, since=at, box=box, keys=keys)
                rows, read, size = self._read(inside, wanted)
                rows = fits(layout, valid_at(layout, rows, at), box, keys)
                return self._found(view, rows, read, size)
            before = view.intervals[-1:]
            if before and at < before[0].end:
                raise RepositoryFault(f"nothing is kept of {format_timestamp(at)}")
            # An object that was elsewhere before may have come since, and the other way round.
            wanted = Wanted(
                until=at, since=before[0].end - 1 if before else None, box=box, keys=keys
            )
            base, read, size = self._read(before, wanted)
            if before:
                base = open_rows(layout, base, before[0].end)
            loose = [f for f in view.loose if f.begin <= at]
            since, more, more_size = self._read(loose, Wanted(until=at, keys=keys))
            rows = pa.concat_tables([base, self._until(view, since, at)])
            rows = fits(layout, last_of_each(layout, rows), box, keys)
            return self._found(view, rows, read + more, size + more_size)

    def _until(self, view: View, loose: pa.Table, at: int) -> pa.Table:
        """The readings since the last interval up to a time, those of each object in order."""
        rows = pa.concat_tables([loose, *view.recent])
        return rows.filter(pa.array(self.layout.times(rows) <= at))

    def readings(
        self, after: int, until: int, box: Box | None, keys: Collection[Key] | None
    ) -> Found:
        """The readings after a time, up to another."""
        with self.reading() as view:
            chosen = [
                f
                for f in view.files
                if f.begin <= until and (f.end > after if f.is_interval else f.end >= after)
            ]
            rows, read, size = self._read(
                chosen, Wanted(until=until, after=after, box=box, keys=keys)
            )
            rows = pa.concat_tables([rows, *view.recent])
            times = self.layout.times(rows)
            chosen_rows = (times > after) & (times <= until)
            is_reading = rows.column(self.layout.snapshot).is_null()
            rows = rows.filter(pa.array(chosen_rows)).filter(
                is_reading.filter(pa.array(chosen_rows))
            )
            rows = self.layout.in_order(fits(self.layout, rows, box, keys))
            return self._found(view, rows, read, size)

    def _read(self, files: list[ArchivedFile], wanted: Wanted) -> tuple[pa.Table, int, int]:
        """What files may hold of what is wanted; how many were read, and how many bytes."""
        parts, read, size = [self.layout.schema.empty_table()], 0, 0
        for rows, bytes_read in self.footers.read_all(
            self.layout, [self.name_of(each) for each in files], wanted
        ):
            parts.append(rows)
            read += rows.num_rows > 0
            size += bytes_read
        return pa.concat_tables(parts), read, size

    def _found(self, view: View, rows: pa.Table, read: int, size: int) -> Found:
        return Found(self.layout.segment(rows), read, len(view.files) - read, size)


def _day(instant: int) -> str:
    return moment_at(instant).strftime("%Y-%m-%d")
