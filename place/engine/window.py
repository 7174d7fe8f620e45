"""Windows: the readings that a query holds, in the order of their times (PLACE, section 4).

Readings come in order, so a window of time or of rows is a queue: they enter at one end and leave
at the other. `WINDOW PREVIOUS` holds one pair for each object, until its next reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Changed, Messages, Objects
from place.engine.part import Flow, Sources
from place.model.schema import Column, Stream
from place.model.types import Type
from place.plan.query import Window

Numbers = NDArray[np.int64]
NEVER = 1 << 62
KEY, TIME, END, READING = 0, 1, 2, 3


class Queue:
    """A window of time or of rows: which readings are in it.

    Each entry is a reading, or a reading in one region of a query table; entries of one reading
    stand together. Beside the rows it keeps key, time, the instant at which it leaves, and the
    number of its reading.
    """

    def __init__(
        self,
        window: Window,
        key_type: Type,
        columns: Sequence[tuple[Column, ...] | None],
        dictionary: Dictionary,
    ) -> None:
        self._window = window
        self._key_type = key_type
        self._dictionary = dictionary
        self._rows = [None if some is None else Columns(some, dictionary) for some in columns]
        self._facts = np.zeros((4, 16), np.int64)
        self._start = self._size = 0
        self._next = 0

    def __len__(self) -> int:
        return self._size - self._start

    def next_expiry(self) -> int:
        """The instant at which the oldest reading leaves, if nothing else happens."""
        if self._window.duration is None or not len(self):
            return NEVER
        return int(self._facts[END, self._start])

    def enter(
        self, keys: Numbers, times: Numbers, ends: Numbers, readings: Numbers, rows: Sources
    ) -> Flow:
        """Readings come, in (time, key) order; what they change.

        `readings` number them within this instant, from 0 on, in order.
        """
        count = len(keys)
        if not count:
            return self.content(0)
        self._reserve(count)
        new = np.arange(self._size, self._size + count)
        for fact, values in ((KEY, keys), (TIME, times), (END, ends)):
            self._facts[fact, new] = values
        self._facts[READING, new] = readings + self._next
        self._next += int(readings[-1]) + 1
        for mine, other in zip(self._rows, rows, strict=True):
            if mine is not None and other is not None:
                mine.put(new, other)
        self._size += count
        return self._flow(new, 1)

    def leave(self, instant: int) -> Flow:
        """What leaves at an instant: readings whose time is over, or that are too many."""
        if self._window.rows is None:
            gone = self._facts[END, self._start : self._size] <= instant
            count = int(np.argmin(gone)) if not gone.all() else len(gone)
        else:
            numbers = self._facts[READING, self._start : self._size]
            fresh = np.flatnonzero(np.diff(numbers, prepend=-1) != 0)
            surplus = len(fresh) - self._window.rows
            count = int(fresh[surplus]) if surplus > 0 else 0
        old = np.arange(self._start, self._start + count)
        flow = self._flow(old, -1)
        self._start += count
        return flow

    def content(self, weight: int) -> Flow:
        """All that it holds, with a weight; nothing for weight 0."""
        slots = np.arange(self._start, self._size if weight else self._start)
        return self._flow(slots, weight)

    def _flow(self, slots: Numbers, weight: int) -> Flow:
        rows = tuple(None if some is None else some.take(slots) for some in self._rows)
        return Flow(np.full(len(slots), weight, np.int64), rows, self._ranks(slots))

    def _ranks(self, slots: Numbers) -> Columns | None:
        """Time and key, by which the last rows are chosen among several cells."""
        if self._window.rows is None:
            return None
        names = (Column("time", Type.BIGINT), Column("key", self._key_type))
        made = Columns(names, self._dictionary, 0)
        keys = self._facts[KEY, slots]
        made.values = [self._facts[TIME, slots], keys]
        if self._key_type is Type.STRING:
            made.values[1] = keys.astype(np.int32)
        made.nulls = [np.zeros(len(slots), np.bool_) for _ in range(2)]
        return made

    def _reserve(self, count: int) -> None:
        """Room for more, at first where readings have left."""
        if self._size + count <= self._facts.shape[1]:
            return
        kept = np.arange(self._start, self._size)
        if 2 * (len(kept) + count) > self._facts.shape[1]:
            self._facts = np.concatenate(
                [self._facts, np.zeros((4, self._facts.shape[1] + 2 * count), np.int64)], axis=1
            )
        self._facts[:, : len(kept)] = self._facts[:, kept]
        for rows in self._rows:
            if rows is not None:
                moved = rows.take(kept)
                rows.reserve(self._facts.shape[1])
                rows.put(np.arange(len(kept)), moved)
        self._start, self._size = 0, len(kept)

    # To Arrow and back

    def save(self) -> pa.Table:
        """All that it holds."""
        slots = slice(self._start, self._size)
        arrays = [pa.array(self._facts[fact, slots]) for fact in range(4)]
        if self._key_type is Type.STRING:
            codes = self._facts[KEY, slots].astype(np.int32)
            arrays[KEY] = self._dictionary.to_arrow(codes, None)
        for rows in self._rows:
            if rows is not None:
                arrays += [rows.array(i, slots) for i in range(len(rows.columns))]
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    def load(self, table: pa.Table) -> None:
        """Hold what was saved."""
        arrays = [column.combine_chunks() for column in table.columns]
        self._facts = np.zeros((4, max(16, table.num_rows)), np.int64)
        for fact in range(4):
            if fact == KEY and self._key_type is Type.STRING:
                self._facts[fact, : table.num_rows] = self._dictionary.codes(arrays[fact])
            else:
                self._facts[fact, : table.num_rows] = arrays[fact].to_numpy()
        at = 4
        for i, rows in enumerate(self._rows):
            if rows is not None:
                width = len(rows.columns)
                given = Columns.from_arrow(rows.columns, rows.dictionary, arrays[at : at + width])
                made = Columns(rows.columns, rows.dictionary, self._facts.shape[1])
                made.put(np.arange(table.num_rows), given)
                self._rows[i] = made
                at += width
        self._start, self._size = 0, table.num_rows
        if table.num_rows:
            self._next = int(self._facts[READING, table.num_rows - 1]) + 1


class Pairs:
    """A window of each object's last two readings: the later one and the one before it."""

    def __init__(
        self,
        stream: Stream,
        columns: Sequence[tuple[Column, ...] | None],
        dictionary: Dictionary,
    ) -> None:
        self._widths = [None if some is None else len(some) for some in columns]
        self._flat = tuple(column for some in columns if some is not None for column in some)
        self._stream = stream
        self._store = Objects(stream, dictionary, self._flat)

    def replace(self, keys: Numbers, entering: NDArray[np.bool_], rows: Sources) -> Flow:
        """Objects of these keys have spoken or are gone; `rows` are the pairs of those entering."""
        store = self._store
        flat = Columns(self._flat, store.columns.dictionary, len(keys))
        placed = np.flatnonzero(entering)
        given = [some for some in rows if some is not None]
        values = [column for some in given for column in some.values]
        nulls = [column for some in given for column in some.nulls]
        for i, (value, null) in enumerate(zip(values, nulls, strict=True)):
            flat.values[i][placed], flat.nulls[i][placed] = value, null
        times = np.zeros(len(keys), np.int64)
        changed = store.change(Messages(keys, times, ~entering, flat))
        return self._flow(changed)

    def _flow(self, changed: Changed) -> Flow:
        left, came = np.flatnonzero(changed.was), changed.slots[changed.now]
        before = self._parted(changed.before.take(left))
        after = self._parted(self._store.columns.take(came))
        weights = np.concatenate([np.full(len(left), -1), np.full(len(came), 1)])
        sources = tuple(
            None if one is None or two is None else Columns.joined([one, two])
            for one, two in zip(before, after, strict=True)
        )
        return Flow(weights.astype(np.int64), sources)

    def content(self, weight: int) -> Flow:
        """All that it holds, with a weight; nothing for weight 0."""
        slots = np.flatnonzero(self._store.alive[: self._store.size])
        slots = slots if weight else slots[:0]
        rows = self._parted(self._store.columns.take(slots))
        return Flow(np.full(len(slots), weight, np.int64), rows)

    def _parted(self, flat: Columns) -> Sources:
        """The rows by the sources that they are of."""
        parts: list[Columns | None] = []
        at = 0
        for width in self._widths:
            parts.append(None if width is None else flat.pick(range(at, at + width)))
            at += width or 0
        return tuple(parts)

    def next_expiry(self) -> int:
        return NEVER

    def save(self) -> pa.Table:
        """All that it holds."""
        store = self._store
        slots = np.flatnonzero(store.alive[: store.size])
        keys = pa.array(store.keys[slots])
        if store.is_coded:
            keys = store.columns.dictionary.to_arrow(store.keys[slots].astype(np.int32), None)
        arrays = [keys, *(store.columns.array(i, slots) for i in range(len(self._flat)))]
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    def load(self, table: pa.Table) -> None:
        """Hold what was saved."""
        dictionary = self._store.columns.dictionary
        self._store = Objects(self._stream, dictionary, self._flat)
        arrays = [column.combine_chunks() for column in table.columns]
        coded = self._store.is_coded
        keys = dictionary.codes(arrays[0]).astype(np.int64) if coded else arrays[0].to_numpy()
        rows = Columns.from_arrow(self._flat, dictionary, arrays[1:])
        self._store.load(keys, np.zeros(len(keys), np.int64), rows)
