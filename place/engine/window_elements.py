"""The readings in a source's own window, as elements of a join.

A window of time holds a reading until its time is over; a window of rows holds the last so many
readings of the stream, whichever of them the join asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.elements import ALWAYS, NONE, Changed, Passes, StandingElements, numbered
from place.engine.heard import readings_in_order
from place.engine.objects import Messages
from place.engine.operators.contract import NEVER
from place.engine.tick import Tick
from place.kernels.arrays import Bools, Longs
from place.model.clock import ceil_all
from place.model.schema import Column, Stream
from place.model.segment import ARROW
from place.plan.query import Window

FACTS = START, END, ORDINAL = range(3)
"""Of each reading the instant at which it took effect, that at which it leaves, and which reading
of its stream it is, in the order of times and keys."""

Mine = Callable[[Longs], Bools | None]
"""Which keys are of this cell's row; None for all."""
Keeps = Callable[[Columns, Longs, Tick], Bools]
"""Which readings are held at all, given their instants: those that INSIDE holds at its moment."""


class WindowElements(StandingElements):
    """Readings by numbers that are used again when they have left."""

    def __init__(
        self,
        stream: Stream,
        window: Window,
        needed: Sequence[int],
        mine: Mine | None,
        keeps: Keeps,
        dictionary: Dictionary,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._window = window
        self._needed = tuple(needed)
        self._mine = mine
        self._keeps = keeps
        self._dictionary = dictionary
        self._rows = Columns(tuple(stream.columns[i] for i in needed), dictionary)
        self._facts = np.full((len(FACTS), 16), NEVER, np.int64)
        self._used = 0
        self._free: Longs = NONE
        self._ended: Longs = NONE
        self._new: Longs = NONE
        self._begun: Longs = NONE
        self.count = 0
        """How many readings the stream has told since the window began."""
        self._passes: Passes | None = None

    # What is asked of readings

    def load(self, passes: Passes) -> None:
        """Ask all readings that are held anew."""
        self._passes = passes
        held = self._held()
        self._fall_all()
        rows = self._rows.take(held)
        self._stand(held[passes(rows)])

    def _held(self) -> Longs:
        held = np.ones(self._used, np.bool_)
        held[self._free] = False
        return np.flatnonzero(held)

    # A tick

    def open(self, tick: Tick) -> Changed:
        """The readings that come, and those that leave."""
        heard = tick.heard.get(self._stream.name)
        messages, instants = (
            (None, NONE)
            if heard is None
            else readings_in_order(heard, self._stream, self._dictionary)
        )
        ordinals = self.count + np.arange(len(instants))
        if self._window.rows is not None and len(instants):
            self._overtake(instants)
        over = np.flatnonzero(self._facts[END, : self._used] <= tick.until)
        gone = over[self.is_standing(over)]
        self._fall(over)
        self._ended = over
        if messages is not None and len(messages):
            self._come(messages, instants, ordinals, tick)
        self.count += len(instants)
        numbers = np.concatenate([gone, self._begun])
        starts = self._facts[START, numbers]
        starts[: len(gone)] = ALWAYS
        return self._changed(~numbers, starts, self._facts[END, numbers], numbers)

    def _ends(self, times: Longs, instants: Longs) -> Longs:
        """When readings that come leave, as far as it is known."""
        if self._window.duration is not None:
            return ceil_all(times + self._window.duration, self._stream.evaluate)
        ends = np.full(len(instants), NEVER)
        rows = self._window.rows or 0
        if len(instants) > rows:
            ends[: len(instants) - rows] = instants[rows:]
        return ends

    def _overtake(self, instants: Longs) -> None:
        """So many readings have come that some that are held leave: at the instant of the one that
        is a whole window behind them."""
        assert self._window.rows is not None
        facts = self._facts[:, : self._used]
        behind = facts[ORDINAL] + self._window.rows - self.count
        leaves = np.flatnonzero((facts[END] == NEVER) & (behind < len(instants)) & (behind >= 0))
        facts[END, leaves] = instants[behind[leaves]]

    def _come(self, messages: Messages, instants: Longs, ordinals: Longs, tick: Tick) -> None:
        assert self._passes is not None
        ends = self._ends(messages.times, instants)
        rows = messages.rows.pick(self._needed)
        taken = self._keeps(rows, instants, tick) & (ends > instants)
        if self._mine is not None and (mine := self._mine(messages.keys)) is not None:
            taken &= mine
        chosen = np.flatnonzero(taken)
        numbers = self._take(len(chosen))
        rows = rows.take(chosen)
        self._rows.put(numbers, rows)
        self._facts[START, numbers] = instants[chosen]
        self._facts[END, numbers] = ends[chosen]
        self._facts[ORDINAL, numbers] = ordinals[chosen]
        self._new = numbers
        self._begun = numbers[self._passes(rows)]

    def _take(self, count: int) -> Longs:
        """Numbers for readings that come."""
        reused, self._free = self._free[:count], self._free[count:]
        fresh = np.arange(self._used, self._used + count - len(reused))
        self._used += len(fresh)
        if self._used > self._facts.shape[1]:
            facts = np.full((len(FACTS), 2 * self._used), NEVER, np.int64)
            facts[:, : self._facts.shape[1]] = self._facts
            self._facts = facts
            self._rows.reserve(2 * self._used)
        return np.concatenate([reused, fresh])

    def settle(self, until: int) -> None:
        """Readings that came and have not left stand; the numbers of others are free."""
        over = np.concatenate([self._ended, self._new[self._facts[END, self._new] <= until]])
        self._stand(self._begun[self._facts[END, self._begun] > until])
        self._facts[END, over] = NEVER
        self._free = np.concatenate([self._free, over])
        self._ended = self._new = self._begun = NONE

    # What it tells

    def pick(self, ids: Longs, columns: Sequence[int] | None = None) -> Columns:
        """Readings."""
        return self._rows.take(~ids) if columns is None else self._rows.pick(columns, ~ids)

    def names(self, numbers: Longs) -> Longs:
        """A reading is called by its number."""
        return numbers

    def born(self, ids: Longs) -> Longs:
        """When readings took effect."""
        found: Longs = self._facts[START, ~ids]
        return found

    def identity(self, ids: Longs) -> Columns:
        """Which readings of the stream they are."""
        return numbered(self._facts[ORDINAL, ~ids], self._dictionary)

    def next_expiry(self) -> int:
        """The first end of a reading."""
        ends = self._facts[END, : self._used]
        return int(ends.min()) if len(ends) else NEVER

    # To Arrow and back

    def save(self) -> list[pa.Array]:
        """Start, end and ordinal of all readings that are held, and their rows."""
        held = self._held()
        facts = [pa.array(self._facts[fact, held]) for fact in FACTS]
        rows = [self._rows.array(i, held) for i in range(len(self._rows.columns))]
        return facts + [
            row.dictionary_decode() if pa.types.is_dictionary(row.type) else row for row in rows
        ]

    def restore(self, arrays: Sequence[pa.Array], count: int, until: int) -> None:
        """Hold what was saved when the stream had told `count` readings, as far as it took effect
        until an instant, instead of what is held of that time; it is asked when conditions are
        loaded."""
        held = self._held()
        self._drop(held[self._facts[START, held] <= until])
        older = pa.array(np.flatnonzero(arrays[START].to_numpy() <= until))
        if until == NEVER:
            self.count = count
        numbers = self._take(len(older))
        for fact in FACTS:
            self._facts[fact, numbers] = arrays[fact].take(older).to_numpy()
        self._facts[ORDINAL, numbers] += self.count - count
        some = [array.take(older) for array in arrays[len(FACTS) :]]
        self._rows.reserve(self._used)
        self._rows.put(numbers, Columns.from_arrow(self._rows.columns, self._dictionary, some))

    def _drop(self, numbers: Longs) -> None:
        """Hold some readings no longer, whoever they stand for."""
        self._fall(numbers)
        self._facts[END, numbers] = NEVER
        self._facts[ORDINAL, numbers] = -NEVER  # no reading that comes is a window behind them
        self._free = np.concatenate([self._free, numbers])

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are kept of readings."""
        return self._rows.columns

    @property
    def kinds(self) -> list[pa.DataType]:
        """The types of what is saved of these columns."""
        return [ARROW[column.type] for column in self._rows.columns]

    @property
    def readings(self) -> int:
        """How many readings are held."""
        return self._used - len(self._free)

    @property
    def oldest(self) -> int:
        """When the oldest reading that is held took effect."""
        held = self._held()
        return int(self._facts[START, held].min()) if len(held) else NEVER
