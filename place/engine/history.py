"""The history of a stream: its last readings, for queries that begin before now.

A window also sees readings from before its registration, and a query over several streams begins
where the slowest of them is. So each stream keeps its last readings: all after an instant that is
called the floor. For each object that sent one of these readings it also keeps the last reading
before the floor. An object that sent none since the floor is now as it was at the floor. From both
together follow the objects at any instant since the floor. A stream without KEY has no objects, so
that there is nothing to keep but its readings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Messages, Objects
from place.kernels.arrays import Bools, Longs
from place.kernels.key_index import last_of_each
from place.model.clock import ceil_all
from place.model.schema import Stream
from place.model.time import BEGINNING

MOST_RECENT = 1_000_000
"""How many readings may wait for another stream that is slow or silent."""
HISTORY = 10_000
"""How many readings every stream keeps for later windows; the option `history` keeps more."""
SLACK = 4
"""Old readings are dropped only when a history is exceeded by this part (a quarter) of itself."""

Present = Callable[[Longs], Sequence[Messages]]
"""The objects of keys that there are now, wherever they are kept."""


@dataclass
class History:
    """The readings since the floor, and the last reading before it of each object that sent one of
    them.

    `base` has a slot for each key that sent a reading or expired since the floor. A key that is not
    alive in `base` did not exist at the floor.
    """

    stream: Stream
    base: Objects
    recent: list[Messages] = field(default_factory=list)
    fresh: list[Messages] = field(default_factory=list)
    floor: int = BEGINNING
    is_loose: bool = False
    """Does `recent` hold readings for which `base` does not have the state before them? The objects
    have not taken these readings yet, so the objects themselves are still that state."""

    @staticmethod
    def empty(stream: Stream, dictionary: Dictionary, floor: int = BEGINNING) -> History:
        return History(stream, Objects(stream, dictionary), floor=floor)

    def load(self, base: Messages) -> None:
        """Load the state of objects at the floor; those that are marked as gone did not exist
        then."""
        self._put(base.keys, base.times, ~base.gone, base.rows)

    def __len__(self) -> int:
        return sum(map(len, self.recent)) + sum(map(len, self.fresh))

    def hear(self, messages: Messages) -> None:
        """Add readings that the objects have not taken yet."""
        if len(messages):
            self.fresh.append(messages)

    def fold(self, closed: int, slowest: int | None, now: Present) -> None:
        """Take the fresh readings, drop those that are too many, and remember the state before the
        rest.

        `closed` is the last complete instant of the stream, `slowest` that of the slowest stream,
        or None while one of the streams has sent nothing. `now` gives objects by their keys as they
        are before they take the fresh readings. Readings are dropped only when they are clearly
        more than a history holds, because dropping costs time.
        """
        is_much = self._is_much(closed)
        if is_much and self._rises_at_once(closed, slowest):
            return
        if self.is_loose:
            for messages in self.recent:
                self._remember(messages.keys, now)
            self.is_loose = False
        if is_much:
            self.rise(closed, slowest)
        for messages in self.fresh:
            self._remember(messages.keys, now)
        self.recent += self.fresh
        self.fresh = []

    def _rises_at_once(self, closed: int, slowest: int | None) -> bool:
        """Raise the floor above all complete readings if it belongs there. Did it rise?

        The objects are then exactly as they are at the floor, and nothing has to be remembered:
        where a tick has more readings than a history holds, that saves most of the work.
        """
        if self.stream.timeout is not None:
            return False
        parts = [*self.recent, *self.fresh]
        dues = [ceil_all(part.times, self.stream.evaluate) for part in parts]
        floor = floor_of(self.stream, self.floor, np.concatenate(dues), closed, slowest)
        laters = [due > floor for due in dues]
        if floor <= self.floor or any(
            (due[later] <= closed).any() for due, later in zip(dues, laters, strict=True)
        ):
            return False
        self.floor = floor
        self.base = Objects(self.stream, self.base.columns.dictionary)
        self.recent, self.fresh = [], []
        for part, later in zip(parts, laters, strict=True):
            if later.any():
                self.recent.append(part if later.all() else part.take(np.flatnonzero(later)))
        self.is_loose = len(self.recent) > 0
        return True

    def _is_much(self, closed: int) -> bool:
        history = self.stream.history
        if history is not None and (closed - history - self.floor) * SLACK < history:
            return False
        return len(self) > HISTORY + HISTORY // SLACK

    def rise(self, closed: int, slowest: int | None, floor: int | None = None) -> None:
        """Raise the floor to where a history begins, so that it depends on the readings alone; or
        to where it begins by the readings of all rows, some of which may not be here."""
        if not len(self):
            return
        said = Messages.joined(self.recent + self.fresh)
        due = ceil_all(said.times, self.stream.evaluate)
        if floor is None:
            floor = floor_of(self.stream, self.floor, due, closed, slowest)
        if floor <= self.floor:
            return
        self.floor = floor
        later = np.flatnonzero(due > floor)
        if not len(later) and self.stream.timeout is None:
            dictionary = self.base.columns.dictionary
            self.base, self.recent, self.fresh = Objects(self.stream, dictionary), [], []
            return
        if self.stream.key is not None:
            self._raise_base(said, due, said.keys[later], closed)
        count = sum(map(len, self.recent))
        recent, fresh = later[later < count], later[later >= count]
        self.recent = [said.take(recent)] if len(recent) else []
        self.fresh = [said.take(fresh)] if len(fresh) else []

    def _raise_base(self, said: Messages, due: Longs, keys: Longs, closed: int) -> None:
        """Move `base` up to the new floor: the state at the floor of all objects that sent a
        reading or expired after it."""
        stream, old = self.stream, self.base
        ready = np.flatnonzero(due <= self.floor)
        ready = ready[np.argsort(said.times[ready], kind="stable")]
        size = old.size
        known = np.isin(old.keys[:size], keys)
        if stream.timeout is not None:
            ends = ceil_all(old.times[:size] + stream.timeout, stream.evaluate)
            known |= old.alive[:size] & (ends > self.floor)
        slots = np.flatnonzero(known)
        self.base = Objects(stream, old.columns.dictionary)
        self._put(old.keys[slots], old.times[slots], old.alive[slots], old.columns.take(slots))
        last = said.take(ready)
        wanted = np.isin(last.keys, keys) | (self.base.find_all(last.keys) >= 0)
        if stream.timeout is not None:  # objects that expire before any query has seen them
            ends = ceil_all(last.times + stream.timeout, stream.evaluate)
            wanted |= (ends > self.floor) & (ends <= closed)
            wanted |= np.isin(last.keys, last.keys[wanted])
        last = last.take(np.flatnonzero(wanted))
        taken = self.base.take_all(last.keys)
        last = last.take(np.flatnonzero(last_of_each(taken, self.base.scratch())))
        self._put(last.keys, last.times, ~last.gone, last.rows)

    def _remember(self, keys: Longs, now: Present) -> None:
        """Remember the present state of objects that send their first reading since the floor."""
        if self.stream.key is None:
            return
        unknown = np.unique(keys[self.base.find_all(keys) < 0])
        self.base.take_all(unknown)
        for known in now(unknown) if len(unknown) else ():
            rows = known.rows.widened(self.stream.columns)
            self._put(known.keys, known.times, np.ones(len(known), np.bool_), rows)

    def lose(self, expired: Messages) -> None:
        """Objects that expired, with their last readings."""
        unknown = np.flatnonzero(self.base.find_all(expired.keys) < 0)
        if len(unknown):
            some = expired.take(unknown)
            self._put(some.keys, some.times, np.ones(len(some), np.bool_), some.rows)

    def _put(self, keys: Longs, times: Longs, there: Bools, rows: Columns) -> None:
        slots = self.base.take_all(keys)
        self.base.columns.put(slots, rows)
        self.base.times[slots] = times
        self.base.alive[slots] = there

    def at(self, instant: int, now: Messages) -> tuple[Messages, Messages]:
        """The last reading of each object at an instant, and all later readings.

        `now` are the present objects of the stream.
        """
        stream, base = self.stream, self.base
        same = now.take(np.flatnonzero(base.find_all(now.keys) < 0))
        said = Messages.joined([same, base.messages(), *self.recent, *self.fresh])
        due = ceil_all(said.times, stream.evaluate)
        ready = np.flatnonzero(due <= instant) if stream.key is not None else np.empty(0, np.int64)
        ready = ready[np.argsort(said.times[ready], kind="stable")]
        last = said.take(ready)
        present = ~last.gone
        store = Objects(stream, base.columns.dictionary)
        slots = store.take_all(last.keys)
        present &= last_of_each(slots, store.scratch())
        if stream.timeout is not None:
            present &= ceil_all(last.times + stream.timeout, stream.evaluate) > instant
        return last.take(np.flatnonzero(present)), said.take(np.flatnonzero(due > instant))


def floor_of(stream: Stream, floor: int, due: Longs, closed: int, slowest: int | None) -> int:
    """Where the floor has to be, given where it is and the instants of all readings since."""
    wanted = _wanted(stream, floor, due[due <= closed], closed)
    waits = slowest is None or slowest < wanted
    if waits and len(due) <= MOST_RECENT:
        wanted = floor if slowest is None else slowest
    return wanted


def _wanted(stream: Stream, floor: int, due: Longs, closed: int) -> int:
    """The floor above which there are no more readings than a history has."""
    if len(due) > HISTORY:
        at = len(due) - HISTORY - 1
        floor = int(np.partition(due, at)[at])
    if stream.history is not None:
        floor = min(floor, closed - stream.history)
    return floor
