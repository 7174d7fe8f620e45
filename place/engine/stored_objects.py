"""The disk store of a stream: the last readings of the objects that memory has let go of.

A key that memory does not hold is in one place at most: among those that wait to be written, or in
one row of one run that still counts. So no object can come back from where it was before. What
waits supersedes what the runs have of the same keys; the rows of the runs are marked when it is
written, because to look up keys on the disk is cheaper for many of them together. Nothing is kept
in memory for each object but a byte, so that a stream may have more objects than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.given_back import give_back
from place.engine.objects import Messages, Objects
from place.engine.store_files import StoreFiles
from place.engine.stored_run import BLOCK, StoredRun, numbers_of, write_run
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.bulk import TOUCHED, match_bulk
from place.model import deadline
from place.model.clock import ceil_all
from place.model.schema import Stream
from place.model.time import BEGINNING
from place.model.types import Type

MOST_WAITING = 1 << 17
"""So many objects wait at most, however long it is until the next flush."""
LARGEST = 1 << 19
"""Runs are put together as long as they have no more rows than this."""
FEW = 8
"""So many boxes are simply compared with all places."""
PIECE = 1 << 15
"""Of more boxes, so many places are compared at a time; more, if there are many boxes to sort."""
ALIKE = 4
"""So many runs of about one size become one."""


class StoredObjects:
    """What waits to be written, and the runs."""

    def __init__(
        self,
        stream: Stream,
        dictionary: Dictionary,
        files: StoreFiles,
        runs: Sequence[StoredRun] = (),
    ) -> None:
        self._stream = stream
        self._dictionary = dictionary
        self._files = files
        self.runs = list(runs)
        self.waiting = Objects(stream, dictionary)
        """A key that is not alive in it is not on the disk any more."""
        self.flushed = BEGINNING
        """The instant of the last flush."""
        self.floor: int | None = None
        """Objects that expired by then are asked for by nobody; None for those that expired."""
        self._marked = 0
        """Of so many slots of what waits the rows in runs are marked."""

    @property
    def is_empty(self) -> bool:
        """Has it nothing, and nothing to forget?"""
        return not self.runs and not self.waiting.size

    # What memory lets go of

    def put(self, messages: Messages) -> None:
        """Objects that memory holds no more, as they are."""
        if len(messages):
            slots = self.waiting.take_all(messages.keys)
            self.waiting.columns.put(slots, messages.rows)
            self.waiting.times[slots] = messages.times
            self.waiting.alive[slots] = True

    def forget(self, keys: Longs) -> None:
        """What the disk has of these keys counts no more."""
        # Where nothing is written, only those that wait have to be forgotten.
        slots = self.waiting.take_all(keys) if self.runs else self.waiting.find_all(keys)
        self.waiting.alive[slots[slots >= 0]] = False

    def restore(self, waiting: Messages) -> None:
        """Go on with what waited when it was saved; keys that are marked as gone are not on the
        disk."""
        self.put(waiting)
        slots = self.waiting.take_all(waiting.keys)
        self.waiting.alive[slots] = ~waiting.gone

    # What memory takes back

    def take_within(self, columns: Sequence[int], boxes: Floats, instant: int) -> Messages:
        """Take the objects within boxes over up to two columns that are there at an instant."""
        return self._taken(columns, boxes, instant)

    def take_all(self, instant: int) -> Messages:
        """Take all objects that are there at an instant."""
        return self._taken((), None, instant)

    def take_keys(self, keys: Longs, instant: int) -> Messages:
        """Take the objects of keys, as far as they are here and there at an instant."""
        found = self.of_keys(keys)
        found = found.take(np.flatnonzero(self.lasts(found.times, instant)))
        self.forget(found.keys)
        return found

    def clear(self) -> None:
        """Have nothing any more."""
        self._retire(self.runs)
        self.waiting, self._marked = Objects(self._stream, self._dictionary), 0

    # What others want to know

    def expired(self, instant: int) -> Messages:
        """The objects that are here and have expired by an instant."""
        found = self.all()
        return found.take(np.flatnonzero(~self.lasts(found.times, instant)))

    def of_keys(self, keys: Longs) -> Messages:
        """The objects of keys, as far as they are here; those that have expired among them."""
        keys = np.unique(keys)
        slots = self.waiting.find_all(keys)
        known = slots >= 0
        here = slots[known]
        parts = [self._waiting_at(here[self.waiting.alive[here]])]
        asked = keys[~known]
        if len(asked):
            numbers, texts = self._asked(asked)
            for run in self.runs:
                _, rows = run.find(self._files, numbers, texts)
                rows = np.sort(run.still(rows))
                for block in np.unique(rows // BLOCK).tolist():
                    table, live = run.block(self._files, block)
                    chosen = np.flatnonzero(np.isin(live, rows))
                    parts.append(self._messages(table.take(pa.array(chosen))))
        return Messages.joined(parts)

    def all(self) -> Messages:
        """All objects; those that have expired among them."""
        alive = np.flatnonzero(self.waiting.alive[: self.waiting.size])
        parts = [self._waiting_at(alive)]
        for _, table, _ in self._blocks(None):
            parts.append(self._messages(table))
        return Messages.joined(parts)

    def count(self, instant: int | None = None) -> int:
        """How many objects are here at an instant, or with those that have expired."""
        self._mark()
        waiting = self.waiting
        alive = waiting.alive[: waiting.size]
        if self._stream.timeout is None or instant is None:
            return int(alive.sum()) + sum(run.count for run in self.runs)
        found = int((alive & self.lasts(waiting.times[: waiting.size], instant)).sum())
        for _, table, _ in self._blocks(None):
            found += int(self.lasts(_times(table), instant).sum())
        return found

    # The disk

    def is_due(self, instant: int) -> bool:
        """Should what waits be written?"""
        storing = self._stream.storing
        assert storing is not None
        if not self.waiting.size:
            return False
        if self.flushed == BEGINNING:
            self.flushed = instant
        return self.waiting.size >= MOST_WAITING or instant - self.flushed >= storing.flush

    def flush(self, instant: int) -> None:
        """Write what waits, and put runs together that are small, or of which little counts."""
        self._mark()
        self.flushed = instant
        self._write_waiting()
        self._tidy()

    def _write_waiting(self) -> None:
        alive = np.flatnonzero(self.waiting.alive[: self.waiting.size])
        if len(alive):
            table = self._table(self._waiting_at(alive))
            self.runs.append(write_run(self._files, self._stream, table))
        self.waiting = Objects(self._stream, self._dictionary)
        self._marked = 0

    def _mark(self) -> None:
        """Mark what is superseded by what waits."""
        keys = self.waiting.keys[self._marked : self.waiting.size]
        self._marked = self.waiting.size
        if not len(keys) or not self.runs:
            return
        numbers, texts = self._asked(keys)
        for run in self.runs:
            run.supersede(run.find(self._files, numbers, texts)[1])

    def _tidy(self) -> None:
        for run in [run for run in self.runs if not run.count or self._is_over(run)]:
            self._retire([run])
        worn = [run for run in self.runs if 2 * run.count < len(run)]
        while worn:
            chosen = _fitting(worn)
            self._join(chosen)
            worn = worn[len(chosen) :]
        alike: dict[int, list[StoredRun]] = {}
        for run in self.runs:
            alike.setdefault(run.count.bit_length() // 2, []).append(run)
        for some in alike.values():
            chosen = _fitting(some)
            if len(some) >= ALIKE and len(chosen) > 1:
                self._join(chosen)

    @property
    def _oldest(self) -> int:
        return self.flushed if self.floor is None else self.floor

    def _is_over(self, run: StoredRun) -> bool:
        """Have all of its objects expired before anybody could ask for them?"""
        return not self.lasts(np.array([run.latest]), self._oldest).any()

    def _join(self, runs: Sequence[StoredRun]) -> None:
        """Make one run of several. This takes far more memory than all else that a cell does with
        its disk store, and then none of it."""
        self._write_together(runs)
        give_back()

    def _write_together(self, runs: Sequence[StoredRun]) -> None:
        tables = [table for run in runs for _, table, _ in self._blocks(None, [run])]
        joined = pa.concat_tables(tables)
        joined = joined.filter(pa.array(self.lasts(_times(joined), self._oldest)))
        self._retire(runs)
        if joined.num_rows:
            self.runs.append(write_run(self._files, self._stream, joined))

    def _retire(self, runs: Sequence[StoredRun]) -> None:
        self.runs = [run for run in self.runs if run not in runs]
        for run in runs:
            self._files.retire(run.name)

    # How it is found

    def _taken(self, columns: Sequence[int], boxes: Floats | None, instant: int) -> Messages:
        waiting = self.waiting
        slots = np.flatnonzero(waiting.alive[: waiting.size])
        slots = slots[self.lasts(waiting.times[slots], instant)]
        if boxes is not None:
            places = np.zeros((len(slots), 2))
            for k, column in enumerate(columns[:2]):
                places[:, k] = waiting.columns.numbers(column, slots)
            slots = slots[inside_boxes(places, boxes)]
        parts = [self._waiting_at(slots)]
        taken: list[tuple[StoredRun, Longs]] = []
        is_placed = tuple(columns) == (self._stream.x, self._stream.y)
        for run, table, rows in self._blocks(boxes if is_placed else None):
            chosen = self.lasts(_times(table), instant)
            if boxes is not None:
                chosen &= inside_boxes(self._places(table, columns), boxes)
            at = np.flatnonzero(chosen)
            if len(at):
                parts.append(self._messages(table.take(pa.array(at))))
                taken.append((run, rows[at]))
        for run, gone in taken:  # only now: whoever fails in the middle has taken nothing
            run.supersede(gone)
        waiting.alive[slots] = False
        return Messages.joined(parts)

    def _blocks(
        self, boxes: Floats | None, runs: Sequence[StoredRun] | None = None
    ) -> Iterator[tuple[StoredRun, pa.Table, Longs]]:
        """The rows that count in the blocks that boxes meet, and their numbers, run by run."""
        for run in self.runs if runs is None else runs:
            for number in run.meeting(boxes).tolist():
                deadline.check()
                table, rows = run.block(self._files, number)
                if len(rows) and self.waiting.size:
                    free = np.flatnonzero(self._is_free(table))
                    table, rows = table.take(pa.array(free)), rows[free]
                if len(rows):
                    yield run, table, rows

    def _is_free(self, table: pa.Table) -> Bools:
        """Which rows are not superseded by what waits."""
        assert self._stream.key is not None
        keys = table.column(self._stream.key).combine_chunks()
        if self._stream.key_type is not Type.STRING:
            return self.waiting.find_all(keys.to_numpy()) < 0
        codes = self._dictionary.find(keys).astype(np.int64)
        return (codes < 0) | (self.waiting.find_all(codes) < 0)

    def _asked(self, keys: Longs) -> tuple[Longs, pa.Array | None]:
        """The numbers by which keys are found on the disk, and their texts."""
        if self._stream.key_type is not Type.STRING:
            return keys, None
        texts = self._dictionary.to_arrow(keys.astype(np.int32), None).cast(pa.string())
        return numbers_of(self._stream, texts), texts

    def lasts(self, times: Longs, instant: int) -> Bools:
        """Which of the objects with these last readings are still there at an instant?"""
        stream = self._stream
        if stream.timeout is None:
            return np.ones(len(times), np.bool_)
        lasts: Bools = ceil_all(times + stream.timeout, stream.evaluate) > instant
        return lasts

    def _places(self, table: pa.Table, columns: Sequence[int]) -> Floats:
        places = np.zeros((table.num_rows, 2))
        for k, column in enumerate(columns[:2]):
            array = table.column(column).combine_chunks()
            if self._stream.columns[column].type is Type.STRING:
                numbers = self._dictionary.find(array).astype(np.float64)
            else:
                numbers = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).copy()
            if array.null_count:
                numbers[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
            places[:, k] = numbers
        return places

    def _waiting_at(self, slots: Longs) -> Messages:
        waiting = self.waiting
        rows, gone = waiting.columns.take(slots), np.zeros(len(slots), np.bool_)
        return Messages(waiting.keys[slots], waiting.times[slots], gone, rows)

    def _table(self, messages: Messages) -> pa.Table:
        """Objects as they are written: with their texts, and their times at the end."""
        arrays = []
        for i, column in enumerate(self._stream.columns):
            array = messages.rows.array(i, slice(None))
            arrays.append(array.cast(pa.string()) if column.type is Type.STRING else array)
        arrays.append(pa.array(messages.times))
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    def _messages(self, table: pa.Table) -> Messages:
        """Objects as they were written."""
        stream = self._stream
        assert stream.key is not None
        rows = Columns.from_arrow(stream.columns, self._dictionary, table.columns[:-1])
        keys = rows.values[stream.key].astype(np.int64)
        return Messages(keys, _times(table), np.zeros(len(keys), np.bool_), rows)


def _times(table: pa.Table) -> Longs:
    times: Longs = table.column(table.num_columns - 1).to_numpy()
    return times


def _fitting(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """As many of some runs as fit into one; one of them at least."""
    sizes = np.cumsum([run.count for run in runs])
    return list(runs[: max(1, int(np.count_nonzero(sizes <= LARGEST)))])


def inside_boxes(places: Floats, boxes: Floats) -> Bools:
    """Which places lie within one of some boxes."""
    found = np.zeros(len(places), np.bool_)
    if not len(places) or not len(boxes):
        return found
    if len(boxes) <= FEW:
        for x1, y1, x2, y2 in boxes.tolist():
            x, y = places[:, 0], places[:, 1]
            found |= (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
        return found
    now = np.concatenate([boxes, np.full((len(boxes), 4), np.nan)], axis=1)
    modes, still = np.full(len(boxes), TOUCHED, np.uint8), np.zeros(len(boxes), np.bool_)
    size = max(PIECE, 8 * len(boxes))
    for low in range(0, len(places), size):
        some = places[low : low + size]
        points = np.concatenate([some, np.full((len(some), 2), np.nan)], axis=1)
        pairs = match_bulk(points, now, modes, np.ones(len(some), np.bool_), still)
        found[pairs.points.astype(np.int64) + low] = True
    return found
