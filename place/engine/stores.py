"""What a cell holds of its streams and tables: the objects of its row, where the objects of other
rows are, and the rows of query tables. A tick opens them as versions, and they take it at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.focals import FocalMoves, Focals
from place.engine.matrix import Place
from place.engine.objects import Messages, Objects
from place.engine.tick import Due, Tick
from place.engine.tick_readings import TickReadings
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.gather import taken
from place.model.schema import Relation, Stream
from place.plan.bind_query_table import layout_of
from place.plan.query import Focal


class Stores:
    """The stores of one cell of the matrix.

    It holds the objects of its row, and those of other rows that it needs: regions of its column
    follow some of them, and joins pair the objects of its row with all others.
    """

    def __init__(
        self,
        place: Place,
        streams: Iterable[Stream],
        dictionary: Dictionary,
        threads: int = 1,
    ) -> None:
        self.place = place
        self.dictionary = dictionary
        self._threads = threads
        self.focals = Focals(threads)
        self.subjects: dict[str, Objects] = {}
        self.others: dict[str, Objects] = {}
        self.region_rows: dict[str, Objects] = {}
        self.recall: Callable[[str, Longs], None] = lambda stream, keys: None
        """Takes objects of this row from the disk, where a stream has some there."""
        for stream in streams:
            self.subjects[stream.name] = Objects(stream, dictionary, threads=threads)
            if stream.key is None:  # its store stays empty: it has readings only
                continue
            if place.matrix.rows > 1:
                self.others[stream.name] = Objects(stream, dictionary, threads=threads)
            if layout_of(stream.columns) is not None:
                self.region_rows[stream.name] = Objects(stream, dictionary, threads=threads)

    def texts(self, store: Objects) -> Dictionary | None:
        """The texts of keys, where keys are codes of texts."""
        return self.dictionary if store.is_coded else None

    # Tables

    def load_table(self, relation: Relation, rows: pa.Table, *, is_regions: bool) -> None:
        """Stationary objects and query tables come with the first query that reads them."""
        stores = self.region_rows if is_regions else self.subjects
        if relation.name in stores:
            return
        store = Objects(relation, self.dictionary, threads=self._threads)
        keys = np.arange(rows.num_rows)
        is_mine = self.place.has_regions if is_regions else self.place.has_objects
        mine = is_mine(keys, None)
        if mine is not None:
            keys = np.flatnonzero(mine)
            rows = rows.take(pa.array(keys))
        columns = Columns.from_arrow(relation.columns, self.dictionary, rows.columns)
        store.load(keys, np.zeros(len(keys), np.int64), columns)
        stores[relation.name] = store

    def forget_tables(self, read: set[str]) -> None:
        """Drop the tables that no query reads any more."""
        for stores in (self.subjects, self.region_rows):
            for name in [n for n, store in stores.items() if n not in read]:
                if not isinstance(stores[name].relation, Stream):
                    del stores[name]

    def holding(self, stream: str) -> list[Objects]:
        """The stores with the objects of a stream, those of other rows among them."""
        others = [self.others[stream]] if stream in self.others else []
        return [self.subjects[stream], *others]

    # Focal objects

    def where(self, store: Objects, slots: Longs) -> Floats:
        """Where the objects at these slots are; NaN where none is."""
        columns = _places_of(store)
        if columns is None:
            return np.full((len(slots), 2), np.nan)
        places = np.stack([store.columns.numbers(i, slots) for i in columns], axis=1)
        places[~store.alive[slots]] = np.nan
        return places

    def focal_numbers(self, stream: str, keys: Longs) -> Longs:
        """The numbers of focal objects, some of which may be new to this cell."""
        numbers = np.empty(len(keys), np.int64)
        mask = self.place.has_objects(keys, self.texts(self.subjects[stream]))
        parts = [(self.subjects[stream], np.arange(len(keys)), True)]
        if mask is not None:
            here, there = np.flatnonzero(mask), np.flatnonzero(~mask)
            parts = [(self.subjects[stream], here, True), (self.others[stream], there, False)]
        for store, chosen, is_mine in parts:
            if is_mine:
                self.recall(stream, keys[chosen])
            slots = store.take_all(keys[chosen])
            fresh = np.unique(slots[store.leads[slots] < 0])
            if len(fresh):
                seats = fresh if is_mine else np.full(len(fresh), -1)
                added = self.focals.add(stream, seats, self.where(store, fresh))
                store.follow(fresh, added.astype(np.int32))
            numbers[chosen] = store.leads[slots]
        return numbers

    def focal_number(self, focal: Focal) -> int:
        """The number of a focal object."""
        number = self.key_number(focal.stream, focal.key)
        return int(self.focal_numbers(focal.stream, np.array([number], np.int64))[0])

    def key_number(self, stream: str, key: Hashable) -> int:
        """The number of a key as readings have it."""
        return self.subjects[stream].number(key)

    def keep_focals(self, used: Longs) -> Longs:
        """Forget all other focal objects; the new number of each old one."""
        mask = np.zeros(len(self.focals) + 1, np.bool_)
        mask[used] = True
        numbers = self.focals.keep(mask)
        for store in (*self.subjects.values(), *self.others.values()):
            led = np.flatnonzero(store.leads[: store.size] >= 0)
            store.follow(led, numbers[store.leads[led]].astype(np.int32))
        return numbers

    # Ticks

    def open(
        self,
        after: int,
        until: int,
        told: Mapping[str, Due],
        heard: Mapping[str, Due],
        named: Iterable[tuple[str, str, int]],
        joined: Mapping[str, Due],
    ) -> Tick:
        """Open a tick: its messages become versions of what the stores hold.

        `told` are the messages of each stream together with the expiries of its objects; `heard`
        are the messages alone, of streams whose readings windows hold. `named` are the query tables
        that name focal objects: each with its name, the stream of the focal objects, and the column
        that names them. `joined` are the messages of streams whose readings the windows of joins
        hold.
        """
        regions = {}
        for name, (messages, instants) in told.items():
            if name in self.region_rows:
                store = self.region_rows[name]
                here = self.place.has_regions(messages.keys, self.texts(store))
                chosen = np.arange(len(messages)) if here is None else np.flatnonzero(here)
                if len(chosen):
                    some = messages if here is None else messages.take(chosen)
                    regions[name] = Versions.of(store, some, instants[chosen])
        for table, stream, column in named:
            if table in regions:
                rows = regions[table].messages.rows
                keys = rows.values[column][~rows.nulls[column]].astype(np.int64)
                self.focal_numbers(stream, keys)
        objects: dict[str, Versions] = {}
        elsewhere: dict[str, Versions] = {}
        moves: list[FocalMoves] = []
        for name, (messages, instants) in told.items():
            mine, others = self._split(name, messages)
            if len(mine):
                some, at = messages, instants
                if len(mine) < len(messages):
                    some, at = messages.take(mine), instants[mine]
                objects[name] = Versions.of(self.subjects[name], some, at)
                moves.append(self._focal_moves(objects[name]))
            if others is not None and len(others):
                some = messages.take(others)
                elsewhere[name] = Versions.of(self.others[name], some, instants[others])
                moves.append(self._focal_moves(elsewhere[name]))
        readings = {}
        for name, (messages, instants) in heard.items():
            mine, _ = self._split(name, messages)
            if len(mine):
                some = messages if len(mine) == len(messages) else messages.take(mine)
                readings[name] = TickReadings.of(some, instants[mine], self.subjects[name])
        moving = FocalMoves.joined([part for part in moves if len(part)])
        return Tick(after, until, objects, regions, readings, moving, elsewhere, joined)

    def close(self, tick: Tick) -> None:
        """End a tick: the stores take its last versions."""
        for versions in (*tick.objects.values(), *tick.elsewhere.values(), *tick.regions.values()):
            versions.settle()
        self.focals.settle(tick.focals)

    def take(self, told: Mapping[str, Messages]) -> None:
        """Take messages without versions, because there is no query that asks what happens in
        between."""
        for name, messages in told.items():
            mine, others = self._split(name, messages)
            self._change(self.subjects[name], messages.take(mine))
            if others is not None:
                self._change(self.others[name], messages.take(others))
            if name in self.region_rows:
                store = self.region_rows[name]
                here = self.place.has_regions(messages.keys, self.texts(store))
                some = messages if here is None else messages.take(np.flatnonzero(here))
                self._change(store, some)

    def _change(self, store: Objects, messages: Messages) -> None:
        if len(messages):
            store.change(messages)
            self._look(store)

    def _look(self, store: Objects) -> None:
        """Focal objects are where their store has them."""
        if len(self.focals):
            led = np.flatnonzero(store.leads[: store.size] >= 0)
            self.focals.places[store.leads[led]] = self.where(store, led)

    def learn(self, stream: str, messages: Messages) -> None:
        """Objects of other rows that are followed from now on."""
        self._change(self.others[stream], messages)

    def unlearn(self, stream: str, is_kept: Callable[[Longs], Bools]) -> None:
        """Know no objects of other rows but those of these keys."""
        if stream in self.others:
            store = self.others[stream]
            slots = np.flatnonzero(store.alive[: store.size])
            store.evict(slots[~is_kept(store.keys[slots])])
            self._look(store)

    def _split(self, name: str, messages: Messages) -> tuple[Longs, Longs | None]:
        """The messages of this cell's row, and those of the others."""
        mask = self.place.has_objects(messages.keys, self.texts(self.subjects[name]))
        if mask is None:
            return np.arange(len(messages)), None
        return np.flatnonzero(mask), np.flatnonzero(~mask)

    def _focal_moves(self, versions: Versions) -> FocalMoves:
        """Where the focal objects among versions go."""
        if not len(self.focals):
            return FocalMoves.joined([])
        leads = taken(versions.store.leads, versions.slots, self._threads)
        leading = np.flatnonzero(leads >= 0)
        numbers, instants = leads.astype(np.int64), versions.instants
        columns = _places_of(versions.store)
        if columns is None or not len(leading):
            places = np.full((len(leading), 2), np.nan)
            return FocalMoves(numbers[leading], instants[leading], places)
        places = versions.new_places(columns)
        if len(leading) == len(numbers):
            return FocalMoves(numbers, instants, places)
        return FocalMoves(numbers[leading], instants[leading], places[leading])


def _places_of(store: Objects) -> tuple[int, int] | None:
    """The columns of a store that hold positions, of which it may have fewer than its relation."""
    relation = store.relation
    if relation.x is None or relation.y is None:
        return None
    names = [column.name for column in store.columns.columns]
    x, y = (names.index(relation.columns[i].name) for i in (relation.x, relation.y))
    return x, y
