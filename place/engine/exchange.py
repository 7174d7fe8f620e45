"""What cells of different rows tell each other: objects that a cell begins to follow.

A cell knows the objects of its own row, and of other rows those that it follows. When it begins to
follow another one, the cell of that object's row tells once what it knows of it: where it is, what
waits for its instant, and what the history of its stream has of it. From then on its readings come
to both. How far histories go back depends on the readings of all rows, too; so cells tell when
their own readings were, and the floor follows from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.history import History, floor_of
from place.engine.matrix import Place
from place.engine.missing import Gaps
from place.engine.objects import Messages
from place.engine.slices import Keys
from place.engine.timeline import Timeline
from place.kernels.arrays import Bools, Longs
from place.model.clock import ceil_all
from place.model.schema import Stream
from place.model.types import Type

State = dict[str, pa.Table]
"""Arrow tables by name."""
BASE, RECENT, LOOSE, NOW, PENDING, KNOWN, WAITING = (
    *("base", "recent", "loose"),  # of a history
    *("now", "pending"),  # of a timeline
    *("known", "waiting"),  # of readings with gaps
)


@dataclass(frozen=True)
class HistoryReach:
    """How far the history of a stream goes back in one cell: its floor, and the instants of the
    readings of the cell's own row. `closed` is the last complete instant of the stream, `slowest`
    that of the slowest stream, or None while one of them has sent nothing."""

    floor: int
    due: Longs
    closed: int
    slowest: int | None


@dataclass(frozen=True)
class Wants:
    """What a cell has to be told by those of other rows: of each stream the keys of objects (None
    for all). `reaches` are those of its own histories, where the floors of all are needed."""

    keys: Mapping[str, Keys] = field(default_factory=dict)
    reaches: Mapping[str, HistoryReach] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.keys or self.reaches)


@dataclass(frozen=True)
class Moved:
    """What a cell was told by those of other rows, and the floors of the histories of all."""

    states: Sequence[State] = ()
    floors: Mapping[str, int] = field(default_factory=dict)


NOTHING = Moved()
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Holdings:
    """All that a cell holds of objects and readings."""

    place: Place
    dictionary: Dictionary
    timelines: Mapping[frozenset[str], Timeline]
    histories: Mapping[str, History]
    gaps: Mapping[str, Gaps]

    def is_mine(self, stream: Stream, keys: Longs) -> Bools:
        """Which of these keys are of this cell's row?"""
        texts = self.dictionary if stream.key_type is Type.STRING else None
        mine = self.place.has_objects(keys, texts)
        return np.ones(len(keys), np.bool_) if mine is None else mine

    def reach(self, name: str, closed: int, slowest: int | None) -> HistoryReach:
        """How far the history of a stream goes back here."""
        history = self.histories[name]
        due = [
            ceil_all(part.times[self.is_mine(history.stream, part.keys)], history.stream.evaluate)
            for part in (*history.recent, *history.fresh)
        ]
        return HistoryReach(history.floor, np.concatenate([NONE, *due]), closed, slowest)

    def tell(self, wanted: Mapping[str, Keys]) -> State:
        """What is known here of objects of this row."""
        state: State = {}
        for name, keys in wanted.items():
            if name not in self.histories:
                continue
            history = self.histories[name]

            for (kind, line), parts in self._held(name, keys).items():
                some = [self._of_row(history.stream, messages, keys) for messages in parts]
                some = [messages for messages in some if len(messages)]
                if some:
                    where = json.dumps([kind, name, sorted(line)])
                    messages = Messages.joined(some)
                    state[where] = _packed(messages, history.stream, self.dictionary)
            if history.is_loose:
                state[json.dumps([LOOSE, name, []])] = pa.table({"": pa.array([], pa.int8())})
        return state

    def _held(self, name: str, keys: Keys) -> dict[tuple[str, frozenset[str]], list[Messages]]:
        """What is held of a stream, by its kind and the timeline that holds it; of what is on the
        disk only the objects of these keys."""
        history, nowhere = self.histories[name], frozenset[str]()
        found = {
            (BASE, nowhere): [history.base.all_messages()],
            (RECENT, nowhere): [*history.recent, *history.fresh],
        }
        for streams, line in self.timelines.items():
            if name in streams:
                found[NOW, streams] = [line.cell.stores.subjects[name].messages()]
                for messages in self._on_disk(line, history.stream, keys):
                    lasts = line.cell.reserves.lasts(name, messages, line.instant)
                    found[NOW, streams].append(messages.take(np.flatnonzero(lasts)))
                    if len(streams) == 1:  # who has expired was there before
                        lost = ~lasts & (history.base.find_all(messages.keys) < 0)
                        found[BASE, nowhere].append(messages.take(np.flatnonzero(lost)))
                found[PENDING, streams] = line.pending[name]
        if name in self.gaps:
            found[KNOWN, nowhere] = [self.gaps[name].known.messages()]
            found[WAITING, nowhere] = self.gaps[name].waiting
        return found

    def _on_disk(self, line: Timeline, stream: Stream, keys: Keys) -> list[Messages]:
        if keys is None:
            return line.cell.reserves.present(stream.name)
        numbers: Longs = (
            self.dictionary.codes(keys).astype(np.int64)
            if stream.key_type is Type.STRING
            else keys.to_numpy()
        )
        return line.cell.reserves.present_of(stream.name, numbers)

    def _of_row(self, stream: Stream, messages: Messages, keys: Keys) -> Messages:
        chosen = self.is_mine(stream, messages.keys) & self._among(stream, messages.keys, keys)
        return messages if chosen.all() else messages.take(np.flatnonzero(chosen))

    def take(self, state: State, wanted: Mapping[str, Keys]) -> None:
        """Take over what a cell of another row has told, as far as it is wanted here."""
        for where, table in state.items():
            kind, name, line = json.loads(where)
            if name not in wanted or name not in self.histories:
                continue
            history = self.histories[name]
            if kind == LOOSE:
                history.is_loose = True
                continue
            is_plain = kind in (KNOWN, WAITING)  # these have no columns of motion yet
            stream = self.gaps[name].stream if is_plain else history.stream
            messages = _unpacked(table, stream, self.dictionary)
            chosen = self._among(history.stream, messages.keys, wanted[name])
            if not chosen.all():
                messages = messages.take(np.flatnonzero(chosen))
            if kind == BASE:
                history.load(messages)
            elif kind == RECENT:
                history.recent.append(messages)
            elif kind == KNOWN:
                self.gaps[name].known.change(messages)
            elif kind == WAITING:
                self.gaps[name].waiting.append(messages)
            elif kind == NOW:
                self.timelines[frozenset(line)].cell.stores.learn(name, messages)
            else:
                self.timelines[frozenset(line)].offer(name, messages)

    def let_go(self, name: str, keys: Keys) -> None:
        """Keep of the objects of other rows only those of these keys."""
        if keys is None or name not in self.histories:
            return
        history = self.histories[name]

        def is_kept(numbers: Longs) -> Bools:
            kept = self.is_mine(history.stream, numbers)
            return kept | self._among(history.stream, numbers, keys)

        def kept(parts: Iterable[Messages]) -> list[Messages]:
            some = [part.take(np.flatnonzero(is_kept(part.keys))) for part in parts]
            return [part for part in some if len(part)]

        held = history.base.all_messages().keys
        history.base.evict(history.base.find_all(held[~is_kept(held)]))
        history.recent, history.fresh = kept(history.recent), kept(history.fresh)
        for streams, line in self.timelines.items():
            if name in streams:
                line.pending[name] = kept(line.pending[name])
                line.cell.stores.unlearn(name, is_kept)
        if name in self.gaps:
            known = self.gaps[name].known
            held = known.messages().keys
            known.evict(known.find_all(held[~is_kept(held)]))
            self.gaps[name].waiting = kept(self.gaps[name].waiting)

    def _among(self, stream: Stream, numbers: Longs, keys: Keys) -> Bools:
        if keys is None:
            return np.ones(len(numbers), np.bool_)
        asked: Longs = (
            self.dictionary.known(keys.to_pylist())
            if stream.key_type is Type.STRING
            else keys.to_numpy()
        )
        return np.isin(numbers, asked)


def exchanged(
    streams: Iterable[Stream], cells: Sequence[Holdings], wants: Sequence[Wants]
) -> list[Moved]:
    """What each of the cells of a matrix is told, where all of them are in one process."""
    if not any(wants):
        return [NOTHING for _ in cells]
    reaches = [
        each.reaches
        for cell, each in zip(cells, wants, strict=True)
        if cell.place.column == 0 and each.reaches
    ]
    floors = floors_of(streams, reaches)
    moved: list[Moved] = []
    for cell, wanted in zip(cells, wants, strict=True):
        others = [
            other
            for other in cells
            if other.place.column == cell.place.column and other.place.row != cell.place.row
        ]
        states = [other.tell(wanted.keys) for other in others] if wanted.keys else []
        moved.append(Moved(states, floors))
    return moved


def joint_keys(wanted: Sequence[Mapping[str, Keys]]) -> dict[str, Keys]:
    """What several cells want, together."""
    found: dict[str, Keys] = {}
    for each in wanted:
        for name, keys in each.items():
            known = found.get(name, keys)
            if known is None or keys is None:
                found[name] = None
            else:
                found[name] = pa.concat_arrays([known, keys]).unique()
    return found


def floors_of(
    streams: Iterable[Stream], reaches: Sequence[Mapping[str, HistoryReach]]
) -> dict[str, int]:
    """The floors of histories, from the reaches of one cell of each row."""
    floors: dict[str, int] = {}
    known = {stream.name: stream for stream in streams}
    for name, first in reaches[0].items() if reaches else ():
        parts = [reach[name] for reach in reaches]
        due = np.concatenate([part.due for part in parts])
        floors[name] = max(part.floor for part in parts)
        if len(due):
            floors[name] = floor_of(known[name], floors[name], due, first.closed, first.slowest)
    return floors


def _packed(messages: Messages, stream: Stream, dictionary: Dictionary) -> pa.Table:
    """Messages with their texts, which have other codes elsewhere."""
    keys = pa.array(messages.keys)
    if stream.key_type is Type.STRING:
        keys = dictionary.to_arrow(messages.keys.astype(np.int32), None)
    arrays = [keys, pa.array(messages.times), pa.array(messages.gone)]
    arrays += [messages.rows.array(i, slice(None)) for i in range(len(messages.rows.columns))]
    return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def _unpacked(table: pa.Table, stream: Stream, dictionary: Dictionary) -> Messages:
    keys, times, gone, *columns = (column.combine_chunks() for column in table.columns)
    numbers: Longs = (
        dictionary.codes(keys).astype(np.int64)
        if stream.key_type is Type.STRING
        else keys.to_numpy()
    )
    rows = Columns.from_arrow(stream.columns, dictionary, columns)
    return Messages(numbers, times.to_numpy(), gone.to_numpy(zero_copy_only=False), rows)
