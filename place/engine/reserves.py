"""The reserves of a cell: for each of its streams that has a disk store, what memory does not hold.

The cell says when regions come, move and go; here is decided what has to be taken from the disk
before it goes on, and what memory lets go of when it is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from place.engine.chains import Chains
from place.engine.columns import Dictionary
from place.engine.compiled import JoinKey
from place.engine.matrix import Place
from place.engine.objects import Messages, Objects
from place.engine.operators.region_join import RegionJoin
from place.engine.reserve import Reserve
from place.engine.store_files import StoreFiles
from place.engine.stored_objects import StoredObjects
from place.engine.stores import Stores
from place.engine.tick import Due, Tick
from place.kernels.arrays import Bools, Longs
from place.model.schema import Stream
from place.model.time import BEGINNING
from place.plan.query import Query


class Reserves:
    """The reserves of the streams of one cell; without files there are none."""

    def __init__(
        self,
        place: Place,
        stores: Stores,
        chains: Chains,
        joins: Mapping[JoinKey, RegionJoin],
        dictionary: Dictionary,
        files: StoreFiles | None,
    ) -> None:
        self._place = place
        self._stores = stores
        self._chains = chains
        self._joins = joins
        self.instant = BEGINNING
        """What has expired by then is not there."""
        self.of: dict[str, Reserve] = {}
        """By the name of the stream. Streams of regions are held whole."""
        for name, store in stores.subjects.items():
            stream = store.relation
            if not isinstance(stream, Stream) or stream.storing is None or files is None:
                continue
            if name not in stores.region_rows:
                self.of[name] = Reserve(store, StoredObjects(stream, dictionary, files))
        stores.recall = self._recall_keys

    def __bool__(self) -> bool:
        return bool(self.of)

    def present(self, stream: str) -> list[Messages]:
        """What the disk has of a stream."""
        return [self.of[stream].disk.all()] if stream in self.of else []

    def present_of(self, stream: str, keys: Longs) -> list[Messages]:
        """What the disk has of some objects of a stream."""
        return [self.of[stream].disk.of_keys(keys)] if stream in self.of else []

    def lasts(self, stream: str, messages: Messages, instant: int) -> Bools:
        """Which of some objects that the disk has are there at an instant."""
        return self.of[stream].disk.lasts(messages.times, instant)

    def count(self, stream: str, instant: int | None) -> int:
        """How many objects of a stream are on the disk."""
        return self.of[stream].disk.count(instant) if stream in self.of else 0

    def waiting(self) -> Iterator[Objects]:
        """What waits for the disk stores."""
        return (reserve.disk.waiting for reserve in self.of.values())

    def files(self) -> Iterator[str]:
        """The files of the disk stores."""
        for reserve in self.of.values():
            yield from (run.name for run in reserve.disk.runs)

    def hold_all(self, instant: int) -> Iterator[tuple[str, Messages]]:
        """Take all objects from the disk; of each stream those that have expired."""
        for name, reserve in self.of.items():
            yield name, reserve.disk.expired(instant)
            reserve.recall_all(instant)
            reserve.disk.clear()

    def clear(self) -> None:
        """Nobody needs these objects any more."""
        for reserve in self.of.values():
            reserve.disk.clear()

    def keep_since(self, stream: str, floor: int) -> None:
        """Objects of a stream that expired after this instant may still be asked for."""
        if stream in self.of:
            self.of[stream].disk.floor = floor

    # What is taken from the disk

    def _recall_keys(self, stream: str, keys: Longs) -> None:
        if stream in self.of:
            self.of[stream].recall_keys(keys, self.instant)

    def prepare(self, queries: Sequence[Query], instant: int, beside: str | None) -> None:
        """Queries begin: where they need all objects of a stream, these are held from now on. A
        cell that was saved adopts its queries at the instant that it has reached."""
        self.instant = max(self.instant, instant)
        for query in queries if self.of else ():
            is_here = query.query_table is not None or self._place.has_query(beside or query.name)
            if is_here and query.needs_all_objects:
                for name in query.streams & self.of.keys():
                    self.of[name].recall_all(instant)

    def begin(self) -> None:
        """Regions have come, of which nobody has yet asked who is within."""
        for join, reserve in self._reserved():
            rows = join.coming()
            if len(rows):
                reserve.recall(join, rows, join.index.now.boxes[rows], self.instant)

    def follow(self, tick: Tick) -> bool:
        """Hold all objects of where regions will be in a tick. Was any of them missing?"""
        self.instant = tick.after
        found = [
            reserve.recall(join, *join.ahead(tick), self.instant)
            for join, reserve in self._reserved()
            if join.key.moves
        ]
        return any(found)

    @property
    def may_move(self) -> bool:
        """Are there regions that move over objects of these streams?"""
        return any(join.key.moves for join, _ in self._reserved())

    def _reserved(self) -> Iterator[tuple[RegionJoin, Reserve]]:
        for key, join in self._joins.items():
            if key.subject in self.of and not key.readings:
                yield join, self.of[key.subject]

    # What memory lets go of

    def expect(self, told: Mapping[str, Due]) -> None:
        """A tick begins."""
        for name, reserve in self.of.items():
            if name in told:
                messages = told[name][0]
                texts = self._stores.texts(self._stores.subjects[name])
                mine = self._place.has_objects(messages.keys, texts)
                reserve.expect(
                    messages.keys if mine is None else messages.keys[np.flatnonzero(mine)]
                )

    def let_go(self, tick: Tick, moved: set[str]) -> None:
        """A tick is over: memory lets go of what no region is near. Regions have moved over the
        objects of these streams."""
        self.instant = tick.until
        for name, reserve in self.of.items():
            holds_all = self._chains.reach_everywhere(name)
            objects = tick.objects.get(name)
            reserve.let_go(
                self._joins, objects, tick.until, has_moved=name in moved, holds_all=holds_all
            )

    def shrink(self, instant: int) -> None:
        """Hold only what regions are near, whatever was held until now."""
        self.instant = instant
        for name, reserve in self.of.items():
            holds_all = self._chains.reach_everywhere(name)
            reserve.let_go(self._joins, None, instant, has_moved=True, holds_all=holds_all)
