"""How objects and readings find the regions that they enter, leave or lie in, for a whole tick.

Regions that stand still meet every version of an object beside the one before it, all at once.
Regions that move meet objects instant by instant where instants are large, and reading by reading
in one compiled loop where they are small: both tell the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns
from place.engine.layout import Polygons
from place.engine.objects import Objects
from place.engine.region_moves import RegionMoves
from place.engine.regions import Geometry, RegionIndex
from place.engine.tick_readings import TickReadings
from place.engine.versions import Versions
from place.kernels import bulk, progressive
from place.kernels.arrays import Bools, Floats, Longs, runs_of
from place.kernels.bulk import SIMPLE, TOUCHED, WATCHED, BulkMatcher, match_bulk
from place.kernels.gather import move_places, parted, put, taken
from place.kernels.gather import picked as picked_versions
from place.kernels.inside import SPHERE_CIRCLE, inside_pairs, unit_vectors
from place.kernels.version_links import merge_within_instants
from place.model import deadline

Passes = Callable[[Columns], Bools]
"""A filter below the join: which rows of the subject meet regions at all."""

NO_VECTORS = np.empty((0, 3))
PIECE = 1 << 14
"""Pairs of a point and a shape, which may have many corners, that are looked at together."""


@dataclass(frozen=True)
class RegionPairs:
    """Pairs of a region's row and an object's slot, each with the instant at which it may change.

    `was` and `now` say whether the object is within the shape just before the instant and at it.
    `before` and `after` are the object's versions at these times. For a reading `was` is never
    true, because it exists only at its own instant.
    """

    rows: Longs
    slots: Longs
    instants: Longs
    was: Bools
    now: Bools
    before: Longs
    after: Longs

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: Longs) -> RegionPairs:
        """Some of them."""
        return RegionPairs(
            self.rows[chosen],
            self.slots[chosen],
            self.instants[chosen],
            self.was[chosen],
            self.now[chosen],
            self.before[chosen],
            self.after[chosen],
        )

    @staticmethod
    def joined(parts: list[RegionPairs]) -> RegionPairs:
        """Several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return RegionPairs(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("rows", "slots", "instants", "was", "now", "before", "after")
            )
        )


_NO_LONGS, _NO_BOOLS = np.empty(0, np.int64), np.empty(0, np.bool_)
NO_PAIRS = RegionPairs(_NO_LONGS, _NO_LONGS, _NO_LONGS, _NO_BOOLS, _NO_BOOLS, _NO_LONGS, _NO_LONGS)


class Matcher:
    """Finds the pairs of one region index, and keeps between ticks what makes that faster."""

    def __init__(
        self, dimensions: tuple[int, ...], polygons: Polygons, threads: int, passes: Passes | None
    ) -> None:
        self._dimensions = dimensions[:2]
        self._polygons = polygons
        self._threads = threads
        self._passes = passes
        self.passed = 0
        """How many versions have passed the filter below the join, now or in the version before."""
        self._bulk = BulkMatcher()
        self._slots = _SlotPlaces()

    def reset(self) -> None:
        """Start anew, because regions have come or gone."""
        self._bulk.reset()

    # What is there, whatever happens

    def present(self, index: RegionIndex, rows: Longs, objects: Versions, at: int) -> RegionPairs:
        """The objects that are within some regions now: both `was` and `now` are true."""
        store = objects.store
        slots = np.flatnonzero(store.alive[: store.size])
        places = self._places(objects, ~slots)
        boxes = np.full((len(rows), 8), np.nan)
        boxes[:, :4] = index.now.boxes[rows]
        pairs = _members(places, boxes, self._threads)
        chosen, points = rows[pairs.boxes], pairs.points.astype(np.int64)
        within = self._inside(index.now, chosen, points, places)
        kept = np.flatnonzero(within)
        found = slots[points[kept]]
        true = np.ones(len(kept), np.bool_)
        instants = np.full(len(kept), at, np.int64)
        return RegionPairs(chosen[kept], found, instants, true, true, ~found, ~found)

    # Regions that stand still

    def standing(self, index: RegionIndex, objects: Versions) -> RegionPairs:
        """Every version of an object beside the one before it meets regions that do not move."""
        count, size = len(objects), index.size
        if not count or not size:
            return NO_PAIRS
        points = np.empty((count, 4))
        points[:, :2] = self._new_places(objects)
        points[:, 2:] = self._places(objects, objects.before)
        self._count_passed(points[:, 0], points[:, 2])
        modes = index.modes[:size]
        moved, still = np.ones(count, np.bool_), np.zeros(size, np.bool_)
        pairs = self._bulk.match(
            points, index.boxes[:size], modes, moved, still, threads=self._threads
        )
        rows, at = pairs.boxes.astype(np.int64), pairs.points.astype(np.int64)
        was, now = pairs.codes > 1, (pairs.codes & 1).astype(np.bool_)
        open_pairs = np.flatnonzero(modes[rows] == TOUCHED)
        if len(open_pairs):
            some_rows, some = rows[open_pairs], at[open_pairs]
            for side, out in ((points[:, :2], now), (points[:, 2:], was)):
                out[open_pairs] = self._inside(index.now, some_rows, some, side)
        slots, instants = objects.slots[at], objects.instants[at]
        return RegionPairs(rows, slots, instants, was, now, objects.before[at], at)

    def readings(self, index: RegionIndex, readings: TickReadings) -> RegionPairs:
        """Readings lie in regions that do not move."""
        if not len(readings) or not index.size:
            return NO_PAIRS
        return self._lying(index, readings, np.arange(len(readings)))

    def _lying(self, index: RegionIndex, readings: TickReadings, chosen: Longs) -> RegionPairs:
        places = self._places(readings, chosen)
        self._count_passed(places[:, 0], places[:, 0])
        pairs = _members(places, index.boxes[: index.size], self._threads)
        rows, at = pairs.boxes.astype(np.int64), pairs.points.astype(np.int64)
        kept = np.flatnonzero(self._inside(index.now, rows, at, places))
        return _read(readings, rows[kept], chosen[at[kept]])

    # Regions that move, instant by instant

    def by_instants(
        self, index: RegionIndex, objects: Versions, steps: Iterator[int]
    ) -> Iterator[RegionPairs]:
        """The pairs of one instant after the other; `steps` puts the regions where they are at an
        instant, and says which."""
        places, current = self._slots, np.empty(0, np.int64)
        store = objects.store
        if places.is_stale(store):
            every = np.arange(store.size)
            places.fill(store, self._places(objects, ~every))
            self._bulk.reset()
        places.reserve(store.size)
        after = self._new_places(objects)
        current = ~np.arange(store.size)
        for instant in steps:
            low, high = np.searchsorted(objects.instants, [instant, instant + 1]).tolist()
            slots = objects.slots[low:high]
            points, moved = places.move(slots, after[low:high], self._threads)
            if self._passes is not None:
                self._count_passed(points[slots, 0], points[slots, 2])
            pairs = self._instant(index, points, moved)
            rows, found, was, now = pairs
            before = taken(current, found, self._threads) if low else ~found
            put(current, slots, np.arange(low, high), self._threads)
            at = np.full(len(rows), instant, np.int64)
            now_at = taken(current, found, self._threads)
            yield RegionPairs(rows, found, at, was, now, before, now_at)
            index.settle()
        places.seen(store, len(objects) > 0)

    def _instant(
        self, index: RegionIndex, points: Floats, moved: Bools
    ) -> tuple[Longs, Longs, Bools, Bools]:
        size = index.size
        modes, shifted = index.modes[:size], index.changed[:size]
        if shifted.any():
            modes = np.where(shifted & (modes == WATCHED), np.uint8(TOUCHED), modes)
        boxes = index.boxes[:size]
        pairs = self._bulk.match(points, boxes, modes, moved, shifted, threads=self._threads)
        if not modes.any():  # each enters or leaves: flows have them apart
            rows, slots, was = parted(*pairs, self._threads)
            return rows, slots, was, ~was
        rows, slots = pairs.boxes.astype(np.int64), pairs.points.astype(np.int64)
        was, now = pairs.codes > 1, (pairs.codes & 1).astype(np.bool_)
        if (modes == TOUCHED).any():
            open_pairs = np.flatnonzero(modes[rows] == TOUCHED)
            some_rows, some = rows[open_pairs], slots[open_pairs]
            every = np.arange(len(some))
            now[open_pairs] = self._inside(index.now, some_rows, every, points[some, :2])
            was[open_pairs] = self._inside(index.before, some_rows, every, points[some, 2:])
        return rows, slots, was, now

    def readings_by_instants(
        self, index: RegionIndex, readings: TickReadings, steps: Iterator[int]
    ) -> Iterator[RegionPairs]:
        """Readings lie in regions as these are at the instants of the readings."""
        for instant in steps:
            low, high = np.searchsorted(readings.instants, [instant, instant + 1]).tolist()
            if low < high and index.size:
                yield self._lying(index, readings, np.arange(low, high))
            index.settle()

    # Regions that move, reading by reading

    def progressively(
        self, index: RegionIndex, objects: Versions, moves: RegionMoves, shifts: Bools
    ) -> RegionPairs:
        """One pass over the versions of objects and the moves of regions.

        `shifts` says for each region whether objects that stay within it have to be reported when
        it changes.
        """
        store, size = objects.store, index.size
        every = np.arange(store.size)
        positions = self._places(objects, ~every)
        to = self._new_places(objects)
        if self._passes is not None:
            before = picked_versions(to[:, 0], positions[:, 0], objects.before)
            self._count_passed(to[:, 0], before)
        flags = np.where(index.modes[:size] == SIMPLE, 0, progressive.STAYS).astype(np.uint8)
        flags[shifts[:size]] |= progressive.SHIFTS
        order = _Sequence(objects.instants, moves.instants, moves_first=False)
        slots = np.full(order.count, -1, np.int32)
        places = np.full((order.count, 2), np.nan)
        slots[order.readings], places[order.readings] = objects.slots, to
        events = self._run(index, moves, flags, order, slots, places, positions)
        instants = order.instants[events.reading]
        rows, found = events.box.astype(np.int64), events.point.astype(np.int64)
        was, now = events.code > 1, (events.code & 1).astype(np.bool_)
        kept = merge_within_instants(instants, rows, found, was, now)
        rows, found, instants = rows[kept], found[kept], instants[kept]
        before, after = objects.around(found, instants)
        return RegionPairs(rows, found, instants, was[kept], now[kept], before, after)

    def readings_progressively(
        self, index: RegionIndex, readings: TickReadings, moves: RegionMoves
    ) -> RegionPairs:
        """One pass over readings that come and vanish, and the moves of regions before them."""
        order = _Sequence(readings.instants, moves.instants, moves_first=True)
        slots = np.full(order.count, -1, np.int32)
        places = np.full((order.count, 2), np.nan)
        slots[order.readings] = np.arange(len(readings))
        to = places[order.readings] = self._places(readings, np.arange(len(readings)))
        self._count_passed(to[:, 0], to[:, 0])
        flags = np.zeros(index.size, np.uint8)
        nobody = np.empty((0, 2))
        events = self._run(index, moves, flags, order, slots, places, nobody, visiting=True)
        return _read(readings, events.box.astype(np.int64), events.point.astype(np.int64))

    def _run(
        self,
        index: RegionIndex,
        moves: RegionMoves,
        flags: np.ndarray,
        order: _Sequence,
        slots: np.ndarray,
        places: Floats,
        positions: Floats,
        *,
        visiting: bool = False,
    ) -> progressive.Events:
        now, size = index.now, index.size
        is_exact = (index.modes[:size] != TOUCHED).all()
        shapes = None
        if not is_exact:
            shapes = progressive.Shapes(
                now.kinds[:size].copy(),
                now.params[:size].copy(),
                moves.kinds,
                moves.params,
                *self._polygons.arrays(),
            )
        events = progressive.match_progressive(
            positions,
            np.ascontiguousarray(now.boxes[:size]),
            flags,
            slots,
            places,
            order.move_starts,
            moves.rows.astype(np.int32),
            np.ascontiguousarray(moves.boxes),
            shapes,
            visiting=visiting,
        )
        moves.apply(index)
        return events

    # Where things are

    def _count_passed(self, now: Floats, before: Floats) -> None:
        if self._passes is not None:
            self.passed += int((~np.isnan(now) | ~np.isnan(before)).sum())

    def _new_places(self, objects: Versions) -> Floats:
        """Where all versions of the tick are."""
        if self._passes is not None:
            return self._places(objects, np.arange(len(objects)))
        return objects.new_places(self._dimensions)

    def _places(self, rows: Versions | TickReadings, ids: Longs) -> Floats:
        """Where versions are over the columns that regions are found by; NaN for those that do not
        pass what stands before the join."""
        places = rows.places(ids, self._dimensions)
        if self._passes is not None and len(ids):
            columns = range(len(rows.store.columns.columns))
            places[~self._passes(rows.pick(ids, columns))] = np.nan
        return places

    def _inside(self, state: Geometry, rows: Longs, points: Longs, places: Floats) -> Bools:
        """Is each point in the shape of its region?"""
        found = np.empty(len(rows), np.bool_)
        vectors = NO_VECTORS
        if 2 * len(rows) > len(places) and (state.kinds[rows] == SPHERE_CIRCLE).any():
            vectors = unit_vectors(places[:, 0].copy(), places[:, 1].copy())
        shapes = (state.kinds, state.params, *self._polygons.arrays())
        at = np.ascontiguousarray(places)
        for start in range(0, len(rows), PIECE):
            deadline.check()
            some = slice(start, start + PIECE)
            inside_pairs(rows[some], points[some], at, vectors, *shapes, found[some])
        return found


class _Sequence:
    """Readings and moves of regions in one order, by instants: the moves of an instant go with its
    last reading, or stand alone; where moves are first, they stand before its readings."""

    def __init__(self, instants: Longs, moves: Longs, *, moves_first: bool) -> None:
        when, starts = runs_of(moves)
        counts = np.diff(starts, append=len(moves))
        last = np.searchsorted(instants, when, "right") - 1
        alone = (last < 0) | (instants[np.maximum(last, 0)] != when) if len(instants) else when >= 0
        if moves_first or not len(instants):
            alone = np.ones(len(when), np.bool_)
        at = np.searchsorted(instants, when[alone], "left" if moves_first else "right")
        self.readings = np.arange(len(instants))
        self.readings += np.searchsorted(at, self.readings, "right")
        self.count = len(instants) + len(at)
        is_reading = np.zeros(self.count, np.bool_)
        is_reading[self.readings] = True
        standing = np.flatnonzero(~is_reading)
        self.instants = np.empty(self.count, np.int64)
        self.instants[self.readings] = instants
        self.instants[standing] = when[alone]
        sizes = np.zeros(self.count, np.int64)
        sizes[standing] = counts[alone]
        sizes[self.readings[last[~alone]]] = counts[~alone]
        self.move_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


class _SlotPlaces:
    """Where the object at each slot is, and where it was before the present instant."""

    def __init__(self) -> None:
        self._points = np.empty((0, 4))
        self._moved = np.empty(0, np.bool_)
        self._last = np.empty(0, np.int64)
        self._size = 0
        self._revision: tuple[int, int] | None = None

    def is_stale(self, store: Objects) -> bool:
        """Has the store changed since this was filled?"""
        return self._revision != (id(store), store.revision)

    def fill(self, store: Objects, places: Floats) -> None:
        """Begin with the present places of all objects."""
        self._points = np.concatenate([places, places], axis=1)
        self._moved = np.zeros(len(places), np.bool_)
        self._last = np.empty(0, np.int64)
        self._size = len(places)

    def reserve(self, size: int) -> None:
        """Room for so many slots; those that were never seen have been nowhere."""
        if size > len(self._points):
            room = max(size, 2 * len(self._points))
            more = np.full((room - len(self._points), 4), np.nan)
            self._points = np.concatenate([self._points, more])
            self._moved = np.concatenate([self._moved, np.zeros(len(more), np.bool_)])
        self._size = max(self._size, size)

    def move(self, slots: Longs, places: Floats, threads: int) -> tuple[Floats, Bools]:
        """Objects are elsewhere at this instant; all places, and which of them changed."""
        points, moved = self._points[: self._size], self._moved[: self._size]
        moved[self._last] = False
        moved[slots] = True
        rest = self._last[~moved[self._last]]  # these have moved at the last instant only
        points[rest, 2:4] = points[rest, 0:2]
        move_places(points, slots, places, threads)
        self._last = slots
        return points, moved

    def seen(self, store: Objects, settles: bool) -> None:
        """Note that this is as the store will be when it has taken the tick, so that it need not be
        filled again."""
        revision: int = store.revision
        self._revision = (id(store), revision + settles)


def _members(places: Floats, boxes: Floats, threads: int) -> bulk.Pairs:
    """Every pair of a place and a box that holds it."""
    points = np.full((len(places), 4), np.nan)
    points[:, :2] = places
    modes = np.full(len(boxes), TOUCHED, np.uint8)
    moved, still = np.ones(len(points), np.bool_), np.zeros(len(boxes), np.bool_)
    return match_bulk(points, boxes, modes, moved, still, threads=threads)


def _read(readings: TickReadings, rows: Longs, at: Longs) -> RegionPairs:
    """Readings that lie in regions."""
    was, now = np.zeros(len(at), np.bool_), np.ones(len(at), np.bool_)
    return RegionPairs(rows, readings.slots[at], readings.instants[at], was, now, at, at)
