"""Readings that are pushed: durable in a log before they are acknowledged, until a tick takes them.

Whoever pushes waits for the disk, not for a tick. Readings that come while the disk is busy are
written together, in the order in which they came.

Readings of a stream without a time column have the time at which they came. That never goes back:
where the clock on the wall does, it is the next microsecond after what the stream has reached.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.slices import Segment, Told
from place.errors import ConfigurationError, PlaceError
from place.model.reading import Advance
from place.model.schema import Stream
from place.runtime.durable.aside import FAILED, RETRY, number_of
from place.runtime.durable.slice_file import read_whole
from place.runtime.durable.storage import Fill, Storage
from place.runtime.durable.tick_pace import Budget, TickPace
from place.runtime.durable.told import packed_told, write_told
from place.runtime.spark.inputs import EnclosedInput, PackInput

Has = Callable[[Stream], bool]
"""Is there still such a stream?"""
Reached = Callable[[Stream], int | None]
"""The time that a stream has reached by the last tick, if it has got anything."""
MOST = Budget(1_000_000, 256 << 20)
"""What a tick takes at most of what was pushed."""
SMALL = 16 << 10
"""Files of so many bytes stay at hand until a tick takes them."""


@dataclass(frozen=True)
class Logged:
    """A file of the log that no tick has taken, and the times that streams reach with it."""

    number: int
    name: str
    readings: int = 0
    size: int = 0
    since: float | None = None
    reached: Mapping[str | None, int] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)
    """What is in the file, where that is little."""


@dataclass(eq=False)
class _Offer:
    """Readings that wait to be written; then the file they are in, or why there is none."""

    stream: Stream
    table: pa.Table
    logged: Logged | None = None
    error: Exception | None = None


class IngestLog:
    """Numbered files in the directory `ingest` of a storage. Of those that ticks have taken, some
    are needed for as long as cells may have to run these ticks again."""

    def __init__(
        self,
        log: Storage,
        done: int,
        needed: Collection[str],
        has: Has,
        reached: Reached,
        confirm: Callable[[], None] = lambda: None,
        fill: Callable[[Sequence[Told]], Fill] = lambda told: lambda out: write_told(out, told),
        target: float | None = None,
    ) -> None:
        self._log = log
        self._fill = fill
        """What fills a file that is not small: as cells should read it."""
        self.pace = TickPace(target, MOST)
        self._confirm = confirm
        """Raises an error if another process has taken over the storage, which would not know of
        what is written now."""
        self._has = has
        self._reached = reached
        self._number = done
        self._offers: list[_Offer] = []
        self._queue = threading.Lock()
        self._waiting: deque[Logged] = deque()
        self._aside: set[str] = set()
        self.lock = threading.RLock()
        """Held while a file is written: whoever holds it sees no readings come."""
        self._find(done, needed)

    def _find(self, done: int, needed: Collection[str]) -> None:
        """Files that an earlier process has left; those that nobody needs are removed."""
        found = list(self._log.list("ingest"))
        self._confirm()  # so none of them is of somebody who has taken over
        waiting: dict[int, tuple[str, int]] = {}
        for name, size in found:
            number = number_of(name)
            self._number = max(self._number, number)
            if name.endswith((FAILED, RETRY)):
                self._aside.add(name.removesuffix(FAILED).removesuffix(RETRY))
            elif name.endswith(".tmp") or (number <= done and name not in needed):
                self._log.remove(name)
            elif number > done:
                if number in waiting:  # the one of an earlier epoch was never acknowledged, or is
                    self._log.remove(waiting[number][0])  # the same, and was about to be removed
                waiting[number] = name, size
        for number, (name, size) in sorted(waiting.items()):
            with contextlib.suppress(FileNotFoundError):  # it was taken back
                mine = self._made_own(name, number)
                self._waiting.append(Logged(number, mine, 0, size, reached=self._left(mine)))
        self.restore()

    def _made_own(self, name: str, number: int) -> str:
        """A file that waits, under a name of this epoch: who wrote it may yet take it back."""
        mine = self._name(number)
        if name != mine:
            self._log.replace(mine, self._log.read(name))
            self._log.remove(name)
        return mine

    def _name(self, number: int) -> str:
        """The name of a file of the log; names are in the order of numbers, then of epochs."""
        epoch = f"-{self._log.epoch:08d}" if self._log.epoch else ""
        return f"ingest/{number:012d}{epoch}.arrow"

    def _left(self, name: str) -> dict[str | None, int]:
        """The times that streams reach with a file of an earlier process. One that cannot be read
        says nothing: the tick that takes it says what is wrong with it."""
        try:
            return _told_times(read_whole(self._log, name))
        except (PlaceError, OSError, ValueError, KeyError):
            return {}

    def write(self, told: Sequence[Told]) -> Logged:
        """A file of readings and advances, durable when this returns."""
        with self.lock:
            content = packed_told(told) if size_of(told) <= SMALL else None

            def small(out: pa.NativeFile) -> None:
                out.write(content)

            fill = self._fill(told) if content is None else small

            size = None
            while size is None:
                self._number += 1
                name = self._name(self._number)
                size = self._log.create(name, fill)
            self._confirm()
            readings = sum(each.table.num_rows for each in told if isinstance(each, Segment))
            logged = Logged(
                *(self._number, name, readings, size, time.time(), _told_times(told)),
                content=content,
            )
            self._waiting.append(logged)
            return logged

    def offer(self, stream: Stream, table: pa.Table) -> Logged:
        """Readings, durable when this returns, in one file with others that came meanwhile."""
        mine = _Offer(stream, table)
        with self._queue:
            self._offers.append(mine)
        with self.lock:
            if mine.logged is None and mine.error is None:
                with self._queue:
                    offers, self._offers = self._offers, []
                self._write_all(offers)
        if mine.error is not None:
            raise mine.error
        assert mine.logged is not None
        return mine.logged

    def _write_all(self, offers: list[_Offer]) -> None:
        for offer in offers:
            if not self._has(offer.stream):  # dropped since the readings were checked
                offer.error = ConfigurationError(f'stream "{offer.stream.name}" does not exist')
        offers = [offer for offer in offers if offer.error is None]
        if not offers:
            return
        try:
            logged = self.write_cut(_told(offers, self._arrival))[-1]
        except Exception as error:  # each of those who wait is told
            for offer in offers:
                offer.error = error
        else:
            for offer in offers:
                offer.logged = logged

    def write_cut(self, told: Sequence[Told]) -> list[Logged]:
        """Readings and advances in files that are each no more than a tick should take; all of
        them are durable when this returns, or none is there."""
        written: list[Logged] = []
        with self.lock:
            try:
                for part in self._cut(told):
                    written.append(self.write(part))
            except BaseException:
                for each in written:
                    self.withdraw(each)
                raise
        return written

    def _cut(self, told: Sequence[Told]) -> list[Sequence[Told]]:
        if self.pace.target is None:
            return [told]
        budget = self.pace.budget()
        parts: list[list[Told]] = [[]]
        room = budget.readings
        for each in told:
            if not isinstance(each, Segment):
                parts[-1].append(each)
                continue
            rows = each.table.num_rows
            width = max(1, each.table.nbytes // max(1, rows))
            most = max(1, min(budget.readings, budget.size // width))
            start = 0
            while start < rows:
                if room <= 0:
                    parts.append([])
                    room = most
                count = min(rows - start, room, most)
                parts[-1].append(replace(each, table=each.table.slice(start, count)))
                start, room = start + count, room - count
        return [*filter(None, parts)] or [told]

    def _arrival(self, stream: Stream) -> int:
        """When readings that are written now come: later than all that their stream was told.

        What a tick has taken is in its manifest, and the rest is in files that wait: both last.
        """
        now, known = int(time.time() * 1e6), self._reached(stream)
        told = [] if known is None else [known]
        for each in tuple(self._waiting):
            told += [each.reached[name] for name in (stream.name, None) if name in each.reached]
        return max(now, max(told, default=now - 1) + 1)

    def waiting(self) -> tuple[int, int]:
        """The readings and the bytes that no tick has taken."""
        files = list(self._waiting)
        return sum(each.readings for each in files), sum(each.size for each in files)

    def due(self) -> list[Logged]:
        """The files that the next tick should take: all, or as many as are enough for one."""
        chosen: list[Logged] = []
        readings = size = 0
        budget = self.pace.budget()
        for each in list(self._waiting):
            if chosen and not budget.holds(readings + each.readings, size + each.size):
                break
            chosen.append(each)
            readings, size = readings + each.readings, size + each.size
        return chosen

    def forget(self, upto: int, needed: Collection[str]) -> None:
        """A tick has taken all files up to a number. Those that cells may need again are removed
        by and by, the others now."""
        while self._waiting and self._waiting[0].number <= upto:
            name = self._waiting.popleft().name
            if name not in needed:
                self._log.remove(name)

    def withdraw(self, logged: Logged) -> None:
        """Take a file back that no tick has taken."""
        self._waiting.remove(logged)
        self._log.remove(logged.name)

    def set_aside(self, logged: Logged) -> None:
        """Keep a file that cannot become a tick under a name that nobody looks for."""
        self._waiting.remove(logged)
        self._log.move(logged.name, logged.name + FAILED)
        self._aside.add(logged.name)

    def set_asides(self) -> list[str]:
        """The files that are set aside, and were neither put back nor removed."""
        return [n + FAILED for n in sorted(self._aside) if self._log.exists(n + FAILED)]

    def restore(self) -> None:
        """Take files up that were set aside and have been put back, after those that wait."""
        for name in sorted(self._aside):
            if self._log.exists(name + FAILED):
                continue
            if self._log.exists(name + RETRY):
                with self.lock:
                    self._number += 1
                    again = self._name(self._number)
                    self._log.move(name + RETRY, again)
                    reached = self._left(again)
                    self._waiting.append(Logged(self._number, again, 0, 0, time.time(), reached))
            self._aside.discard(name)


def _told(offers: Sequence[_Offer], arrival: Callable[[Stream], int]) -> list[Told]:
    """What offers tell. Readings without a time of their own come when they are written, so that
    the order of the log is that of their times, and then their instant is complete."""
    told: list[Told] = []
    stamped: dict[str, int] = {}
    for offer in offers:
        name, table = offer.stream.name, offer.table
        if offer.stream.time is None:
            now = stamped[name] = stamped.get(name) or arrival(offer.stream)
            place = table.num_columns - 2
            times = pa.array(np.full(table.num_rows, now))
            table = table.set_column(place, table.schema.field(place), times)
        told.append(Segment(name, table))
    return told + [Advance(now, name) for name, now in sorted(stamped.items())]


def size_of(told: Iterable[Told]) -> int:
    """The bytes of readings."""
    return sum(each.table.nbytes for each in told if isinstance(each, Segment))


def _told_times(told: Iterable[Told]) -> dict[str | None, int]:
    """The last times that are told to streams (None: to all of them)."""
    reached: dict[str | None, int] = {}
    for each in told:
        if isinstance(each, Advance):
            at = each.time
        elif each.table.num_rows:
            at = pc.max(each.table.column(each.table.num_columns - 2)).as_py()
        else:
            continue
        reached[each.stream] = max(at, reached.get(each.stream, at))
    return reached


def inputs_of(due: Sequence[Logged], most: int) -> list[PackInput | EnclosedInput]:
    """The inputs of a tick of these files: their contents, if all together are small."""
    is_small = sum(len(each.content or b"") for each in due) <= most
    return [
        PackInput(each.name)
        if each.content is None or not is_small
        else EnclosedInput(each.content)
        for each in due
    ]
