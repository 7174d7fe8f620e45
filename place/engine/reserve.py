"""A reserve: the objects of a stream that memory has let go of, and the areas of which it has not.

Memory holds all objects of the areas that regions are in; the disk store has the others. Where a
region begins, or moves to where nobody looked before, its objects are taken from the disk before
anybody asks who is there. So what is let go of, and when, decides nothing about answers: a tick
passes through the cell in one piece, and memory lets go at its end.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from place.engine.compiled import JoinKey
from place.engine.objects import Messages, Objects
from place.engine.operators.region_join import RegionJoin
from place.engine.stored_objects import StoredObjects, inside_boxes
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.key_index import spread_keys
from place.model.schema import Stream
from place.model.space import METRES_PER_DEGREE, Space

MARGIN = 0.25
"""How much of its own size a region that moves is known around, so that it need not ask the disk
at every step."""
NOBODY = np.empty(0, np.int64)


class Reserve:
    """What memory holds of one stream in one cell, and what the disk does."""

    def __init__(self, store: Objects, disk: StoredObjects) -> None:
        assert isinstance(store.relation, Stream)
        self._stream = store.relation
        assert self._stream.retention is not None
        is_sphere = self._stream.space is Space.WGS84
        self._reach = self._stream.retention.reach / (METRES_PER_DEGREE if is_sphere else 1.0)
        self._store = store
        self.disk = disk
        self._known: dict[JoinKey, Floats] = {}
        """For each region that moves the area around it of which memory holds all objects."""
        self._absent = NOBODY
        """The keys that a tick brings and that memory does not hold before it."""
        self._is_loose = True
        """May memory hold objects that no region is near, without a reading of theirs?"""

    # What is taken from the disk

    def recall_keys(self, keys: Longs, instant: int) -> None:
        """Hold the objects of these keys."""
        slots = self._store.find_all(keys)
        missing = np.unique(keys[(slots < 0) | ~self._store.alive[slots]])
        if len(missing):
            self._admit(self.disk.take_keys(missing, instant))

    def recall_all(self, instant: int) -> None:
        """Hold all objects."""
        self._admit(self.disk.take_all(instant))

    def recall(self, join: RegionJoin, rows: Longs, boxes: Floats, instant: int) -> bool:
        """Hold all objects within regions, which are or will be there. Was one of them missing?"""
        there = ~np.isnan(boxes[:, 0])
        rows, boxes = rows[there], boxes[there]
        if join.key.moves:
            rows, boxes = self._unknown(join, rows, boxes)
        if not len(boxes):
            return False
        if join.key.way is not None:
            self.recall_all(instant)
            return True
        found = self.disk.take_within(join.key.dimensions[:2], boxes, instant)
        self._admit(found)
        if join.key.moves:
            self._areas(join)[rows] = boxes
        return len(found) > 0

    def _unknown(self, join: RegionJoin, rows: Longs, boxes: Floats) -> tuple[Longs, Floats]:
        """Those of some regions that move out of the areas of which memory holds all objects, and
        the areas around them of which it should."""
        new = ~_contains(self._areas(join)[rows], boxes)
        rows, at = np.unique(rows[new], return_inverse=True)
        hulls = np.tile([np.inf, np.inf, -np.inf, -np.inf], (len(rows), 1))
        np.minimum.at(hulls[:, :2], at, boxes[new][:, :2])
        np.maximum.at(hulls[:, 2:], at, boxes[new][:, 2:])
        return rows, self._wide(hulls)

    def _areas(self, join: RegionJoin) -> Floats:
        known = self._known.get(join.key)
        size = join.index.size
        if known is None or len(known) < size:
            larger = np.full((2 * size, 4), np.nan)
            if known is not None:
                larger[: len(known)] = known
            known = self._known[join.key] = larger
        return known

    def _wide(self, boxes: Floats) -> Floats:
        """Boxes and some of what is around them."""
        sides = np.maximum(MARGIN * (boxes[:, 2:] - boxes[:, :2]), self._reach)
        return np.concatenate([boxes[:, :2] - sides, boxes[:, 2:] + sides], axis=1)

    def _admit(self, found: Messages) -> None:
        if len(found):
            self._store.change(found)
            self._is_loose = True

    # What memory lets go of

    def expect(self, keys: Longs) -> None:
        """A tick begins that has messages of these keys."""
        slots = self._store.find_all(keys)
        self._absent = np.unique(keys[(slots < 0) | ~self._store.alive[slots]])

    def let_go(
        self,
        joins: Mapping[JoinKey, RegionJoin],
        tick: Versions | None,
        instant: int,
        *,
        has_moved: bool = False,
        holds_all: bool = False,
    ) -> None:
        """Let go of objects that lead no region and that no region is near; write what waits, if
        it is time. `holds_all` says that queries need all objects."""
        self._hand_over(NOBODY if holds_all else self._unreached(joins, tick, has_moved))
        if self.disk.is_due(instant):
            self.disk.flush(instant)

    def _hand_over(self, gone: Longs) -> None:
        """The disk gets the objects at these slots, and forgets those that memory holds now."""
        messages = self._messages(gone)
        if len(gone):
            self._store.evict(gone)
        absent, self._absent = self._absent, NOBODY
        others = absent[~np.isin(absent, messages.keys)]
        if len(others):
            self.disk.forget(others)
        self.disk.put(self._stored(messages, absent))

    def _unreached(
        self, joins: Mapping[JoinKey, RegionJoin], tick: Versions | None, has_moved: bool
    ) -> Longs:
        store = self._store
        tested = np.zeros(store.size, np.bool_)
        if self._is_loose or has_moved:
            tested[:] = True
            self._is_loose = False
        elif tick is not None:
            tested[tick.slots] = True
        tested &= store.alive[: store.size] & (store.leads[: store.size] < 0)
        slots = np.flatnonzero(tested)
        if not len(slots):
            return slots
        for key in self._known.keys() - joins.keys():
            del self._known[key]
        kept = np.zeros(len(slots), np.bool_)
        for key, join in joins.items():
            if key.subject == self._stream.name and not key.readings:
                kept |= self._held(slots, key, join)
        return slots[~kept]

    def _held(self, slots: Longs, key: JoinKey, join: RegionJoin) -> Bools:
        """Which slots hold an object of an area that a region is in, or may have gone there."""
        if key.way is not None:
            return np.ones(len(slots), np.bool_)
        areas = join.index.now.boxes[: join.index.size]
        if key.moves:
            areas = self._shrink(self._areas(join)[: join.index.size], areas)
        areas = areas[~np.isnan(areas[:, 0])]
        if not len(areas):
            return np.zeros(len(slots), np.bool_)
        places = Versions.none(self._store).places(~slots, key.dimensions[:2])
        return inside_boxes(places, areas)

    def _shrink(self, known: Floats, boxes: Floats) -> Floats:
        """Know nothing of areas that are far from where regions are now. Of a region itself all
        objects are always held, also if another join had it until now."""
        lost = ~_contains(known, boxes)
        known[lost] = boxes[lost]
        wide = self._wide(boxes)
        known[:, :2] = np.maximum(known[:, :2], wide[:, :2])
        known[:, 2:] = np.minimum(known[:, 2:], wide[:, 2:])
        return known

    def _messages(self, slots: Longs) -> Messages:
        store = self._store
        gone = np.zeros(len(slots), np.bool_)
        return Messages(store.keys[slots], store.times[slots], gone, store.columns.take(slots))

    def _stored(self, messages: Messages, absent: Longs) -> Messages:
        """Those objects that go to the disk as they are now. Where not every reading is stored, the
        disk keeps what it has of an object that memory did not hold before this reading, unless it
        is the turn of the reading: by its time alone, so that nothing is counted for each object.
        Of an object that reports as often as it promised, that is every n-th."""
        storing, retention = self._stream.storing, self._stream.retention
        assert storing is not None
        assert retention is not None
        if storing.nth == 1 or not len(messages):
            return messages
        keys = messages.keys
        if self._store.is_coded:
            keys = self._store.columns.dictionary.hashes()[keys]
        turns = messages.times // retention.report_every + spread_keys(keys, storing.nth)
        chosen = (turns % storing.nth == 0) | ~np.isin(messages.keys, absent)
        return messages.take(np.flatnonzero(chosen))


def _contains(areas: Floats, boxes: Floats) -> Bools:
    """Which areas have all of a box in them? NaN has nothing."""
    low, high = areas[:, :2] <= boxes[:, :2], areas[:, 2:] >= boxes[:, 2:]
    return np.asarray(np.concatenate([low, high], axis=1).all(axis=1))
