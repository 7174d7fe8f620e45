"""The region join: objects, or readings, meet the regions of many queries.

It is the leaf of every chain of operators. It keeps no answers: membership before and now follows
from what objects and regions were and are, so every change is found by comparing the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from place.engine.columns import Columns
from place.engine.compiled import Compiled, JoinKey, QueryShape
from place.engine.conditions import Asked, Matches
from place.engine.flow import NOTHING, Flow
from place.engine.layout import fan_of, lay_out_around
from place.engine.matching import NO_PAIRS, Matcher, Passes, RegionPairs
from place.engine.new_regions import NewRegions
from place.engine.objects import Objects
from place.engine.region_moves import (
    RegionMoves,
    StreamedRegions,
    followed,
    streamed,
)
from place.engine.regions import RegionIndex
from place.engine.surroundings import Surroundings
from place.engine.tick import Tick
from place.engine.tick_readings import TickReadings
from place.engine.vector import same_rows
from place.engine.versions import Versions
from place.engine.way_matching import WayMatcher
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.gather import taken
from place.kernels.moving_regions import lay_around
from place.kernels.order import in_pieces
from place.model import deadline
from place.model.space import Space
from place.plan.query import Around

CROWD, FEW_INSTANTS = 256, 2
"""Regions that move are joined one instant after the other if there are more than so many readings
in an instant on average, or no more than so many instants."""


class RegionJoin:
    """The join of one relation with the regions that meet it by the same columns."""

    name = "inside"

    def __init__(
        self, key: JoinKey, store: Objects, around: Surroundings, passes: Passes | None
    ) -> None:
        self.key = key
        self.index = RegionIndex(around.threads)
        self._store = store
        self._around = around
        self._newcomers = NewRegions(self.index, key.space, around)
        self._matcher = (
            Matcher(key.dimensions, around.polygons, around.threads, passes)
            if key.way is None
            else WayMatcher(key.way, around.polygons, around.threads)
        )
        self._added: list[Longs] = []
        self._removed: list[Longs] = []
        self._ended: list[int] = []
        self._tables: dict[int, Compiled] = {}
        """The queries whose query tables are streams of regions."""
        self._second: dict[int, Compiled] = {}
        """The queries with an INSIDE of their own beside their query table."""
        self._named: dict[int, tuple[str, Longs | None]] = {}
        """The query tables that got messages in this tick, and the focal objects that these
        name."""
        self._streams: list[StreamedRegions] = []
        """What messages to query tables change in the regions; the index takes it at the end of the
        tick."""

    # Queries come and go

    def add(self, number: int, compiled: Compiled) -> None:
        """Lay out the regions of a query; the next call of `take` tells who is within."""
        self._matcher.reset()
        if compiled.asked.query_table is not None:
            self._add_table(number, compiled)
        rows = self._newcomers.add(number, compiled)
        if not self.key.readings:
            self._added.append(rows)

    def _add_table(self, number: int, compiled: Compiled) -> None:
        query = compiled.asked
        assert query.query_table is not None
        if query.sources[query.query_table.source].is_stream:
            self._tables[number] = compiled
        if compiled.is_twice:
            self._second[number] = compiled
            if isinstance(query.inside, Around):
                self._around.focal_number(query.inside.focal)

    def add_alike(self, numbers: Longs, compiled: Sequence[Compiled]) -> None:
        """Lay out the regions of queries that are alike but for names and places, and have no
        query table."""
        self._matcher.reset()
        rows = self._newcomers.add_alike(numbers, compiled)
        if not self.key.readings:
            self._added.append(rows)

    def remove(self, numbers: Sequence[int]) -> None:
        """Queries end; the next call of `take` tells who was within."""
        self._matcher.reset()
        self._ended += numbers
        rows = self.index.rows_of_all(np.array(numbers, np.int64))
        if len(rows):
            self._removed.append(rows)

    def move_to(self, number: int, other: RegionJoin, compiled: Compiled) -> None:
        """The regions of a query are kept in another join from now on; nothing changes by that."""
        rows = self.index.rows_of(number)
        self.index.move(rows, other.index, compiled.mode)
        for join in (self, other):
            join._matcher.reset()

    @property
    def queries(self) -> int:
        """How many queries have regions here."""
        numbers = self.index.queries[: self.index.size]
        return len(np.unique(numbers[numbers >= 0]))

    @property
    def is_empty(self) -> bool:
        """Has no query regions here? One over a query table may have none yet."""
        return not self._tables and not (self.index.queries[: self.index.size] >= 0).any()

    # Where regions will be, before a tick or a change is taken

    def coming(self) -> Longs:
        """The rows of the regions that have come since the last tick."""
        return np.concatenate([np.empty(0, np.int64), *self._added])

    def ahead(self, tick: Tick) -> tuple[Longs, Floats]:
        """Where regions go within a tick: their rows and boxes, for each move one."""
        if not self.key.moves or not self._moves_in(tick):
            return np.empty(0, np.int64), np.empty((0, 4))
        moves, _ = self._all_moves(tick, self._streamed(tick))
        return moves.rows, moves.boxes

    # A tick

    def take(self, tick: Tick) -> Matches | None:
        """The pairs of objects and regions that come, go, or change while they stay."""
        deadline.check()
        if self._added or self._removed:
            return self._tell_new(tick)
        if self.key.readings:
            readings = tick.readings.get(self.key.subject)
            if readings is None and not self._moves_in(tick):
                return None
            return self._take_readings(tick, readings)
        objects = tick.objects.get(self.key.subject)
        if objects is None:
            objects = Versions.none(self._store)
        if not self.index.size and not self._tables:
            return None
        self._matcher.passed = 0
        with self._around.counters.timed((self.key, "inside")):
            if not self.key.moves or not self._moves_in(tick):
                pairs = self._matcher.standing(self.index, objects)
            else:
                pairs = self._moving(tick, objects)
        self._around.counters.read(self.key, self._matcher.passed)
        return self._decide(pairs, objects, tick)

    def _tell_new(self, tick: Tick) -> Matches | None:
        """Who is within regions that have come, and who was within those that go."""
        objects = Versions.none(self._store)
        found: list[RegionPairs] = []
        for parts, come in ((self._removed, False), (self._added, True)):
            if parts and not self.key.readings:
                rows = np.concatenate(parts)
                there = self._matcher.present(self.index, rows, objects, tick.until)
                nobody = np.zeros(len(there), np.bool_)
                was, now = (nobody, there.now) if come else (there.was, nobody)
                found.append(
                    RegionPairs(
                        there.rows,
                        there.slots,
                        there.instants,
                        was,
                        now,
                        there.before,
                        there.after,
                    )
                )
        pairs = RegionPairs.joined(found) if found else NO_PAIRS
        return self._decide(pairs, objects, tick)

    def _moves_in(self, tick: Tick) -> bool:
        """May any of the regions change within this tick?"""
        if any(self._table_of(each) in tick.regions for each in self._tables.values()):
            return True
        return len(tick.focals) > 0 and (len(self.index.led()[0]) > 0 or bool(self._second))

    @staticmethod
    def _table_of(compiled: Compiled) -> str:
        table = compiled.asked.query_table
        assert table is not None
        return compiled.asked.sources[table.source].relation.name

    def _moving(self, tick: Tick, objects: Versions) -> RegionPairs:
        tables = self._streamed(tick)
        if self._is_crowded(tick, len(objects)):
            steps = self._steps(tick, tables)
            parts = self._matcher.by_instants(self.index, objects, steps)
            found = [part for part in parts if len(part)]
            pairs = RegionPairs.joined(found) if found else NO_PAIRS
        else:
            moves, shifts = self._all_moves(tick, tables)
            pairs = self._matcher.progressively(self.index, objects, moves, shifts)
        return pairs

    def _is_crowded(self, tick: Tick, count: int) -> bool:
        """Are instants so large, or so few, that regions are better joined one instant after the
        other? A second INSIDE that moves is looked at in this way only."""
        instants = len(tick.instants)
        return bool(self.key.alone) or instants <= FEW_INSTANTS or count > CROWD * instants

    def _take_readings(self, tick: Tick, readings: TickReadings | None) -> Matches | None:
        if readings is None:
            readings = TickReadings.none(self._store)
        self._matcher.passed = 0
        with self._around.counters.timed((self.key, "inside")):
            if not self.key.moves or not self._moves_in(tick):
                pairs = self._matcher.readings(self.index, readings)
            else:
                pairs = self._readings_in_moving(tick, readings)
        self._around.counters.read(self.key, self._matcher.passed)
        return self._decide(pairs, readings, tick)

    def _readings_in_moving(self, tick: Tick, readings: TickReadings) -> RegionPairs:
        tables = self._streamed(tick)
        if not self._is_crowded(tick, len(readings)):
            moves, _ = self._all_moves(tick, tables)
            return self._matcher.readings_progressively(self.index, readings, moves)
        steps = self._steps(tick, tables)
        parts = self._matcher.readings_by_instants(self.index, readings, steps)
        found = [part for part in parts if len(part)]
        return RegionPairs.joined(found) if found else NO_PAIRS

    def _streamed(self, tick: Tick) -> list[StreamedRegions]:
        """What the rows of query tables that stream in make of regions."""
        found = []
        for number, compiled in self._tables.items():
            owners = tick.regions.get(self._table_of(compiled))
            if owners is None:
                continue
            table = compiled.asked.query_table
            assert table is not None
            leaders = None
            if table.focal_stream is not None:
                leaders = self._newcomers.leaders(table, owners.messages.rows)
            self._named[number] = (self._table_of(compiled), leaders)
            found.append(
                streamed(
                    number,
                    table,
                    self.key.space,
                    self.index,
                    compiled.mode,
                    owners,
                    self._around.polygons,
                    leaders,
                    tick.focals,
                    self._around.focals.places,
                )
            )
        self._streams = found
        return found

    def _all_moves(self, tick: Tick, tables: list[StreamedRegions]) -> tuple[RegionMoves, Bools]:
        """Where regions go, and which of them change in what they say while they stay."""
        told = _told(tables)
        parts = [table.moves for table in tables]
        if len(tick.focals):
            leadership = followed(self.index, self.key.space, told)
            parts.append(leadership.moves(tick.focals, self.key.space))
        shifts = np.zeros(self.index.size, np.bool_)
        shifts[told] = True
        return RegionMoves.joined(parts), shifts

    def _steps(self, tick: Tick, tables: list[StreamedRegions]) -> Iterator[int]:
        """Puts the regions where they are at one instant after the other."""
        index, focals = self.index, tick.focals
        moves = RegionMoves.joined([table.moves for table in tables])
        places = self._around.focals.places
        rows, leaders = index.led()
        if tables:
            kept = ~np.isin(rows, _told(tables))
            rows, leaders = rows[kept], leaders[kept]
        if len(focals):
            places = places.copy()
        for instant in tick.instants.tolist():
            deadline.check()
            low, high = np.searchsorted(moves.instants, [instant, instant + 1]).tolist()
            moves.between(low, high).apply(index)
            low, high = np.searchsorted(focals.instants, [instant, instant + 1]).tolist()
            if low < high:
                focals.put(places, low, high, self._around.threads)
                moved = np.zeros(len(places), np.bool_)
                moved[focals.numbers[low:high]] = True
                led = taken(moved, leaders, self._around.threads)
                if led.all():
                    self._lay_around(rows, leaders, places)
                else:
                    self._lay_around(rows[led], leaders[led], places)
            for number, compiled in self._second.items():
                if self._second_moves(compiled, tick, instant):
                    index.touch(index.rows_of(number))
            yield instant

    def _lay_around(self, rows: Longs, leaders: Longs, places: Floats) -> None:
        """Put regions around their focal objects."""
        index = self.index
        if self.key.space is Space.PLANAR:
            now = index.now
            index.touch(rows)
            shapes = (index.extents, now.boxes, now.kinds, now.params)
            in_pieces(
                len(rows),
                self._around.threads,
                lambda low, high: lay_around(rows[low:high], leaders[low:high], places, *shapes),
            )
            return
        order = np.lexsort((rows, index.owner[rows], index.queries[rows]))
        rows, leaders = rows[order], leaders[order]
        fan = fan_of(self.key.space)
        extents = index.extents[rows[::fan]]
        index.put(rows, lay_out_around(places[leaders[::fan]], extents, self.key.space))

    def _second_moves(self, compiled: Compiled, tick: Tick, instant: int) -> bool:
        area = compiled.asked.inside
        if not isinstance(area, Around):
            return False
        at = tick.focals.instants == instant
        return bool((tick.focals.numbers[at] == self._around.focal_number(area.focal)).any())

    def settle(self) -> None:
        """End a tick: regions of streams begin to follow other focal objects, and those that are
        gone free their rows."""
        for table in self._streams:
            if table.leaders is not None and table.extents is not None:
                fan = table.last.shape[1]
                rows = table.last.reshape(-1)
                extents = np.repeat(table.extents, fan, axis=0)
                self.index.lead(rows, np.repeat(table.leaders, fan), extents)
            if len(table.gone):
                self._removed.append(table.gone)
        for rows in self._removed:
            self.index.remove(rows)
        for number in self._ended:
            self._tables.pop(number, None)
            self._second.pop(number, None)
        self._ended = []
        self._added, self._removed, self._streams, self._named = [], [], [], {}
        self.index.settle()
        self.index.has_moved = False

    # What boxes cannot decide

    def _decide(
        self, pairs: RegionPairs, source: Versions | TickReadings, tick: Tick
    ) -> Matches | None:
        if not len(pairs):
            return None
        with self._around.counters.timed((self.key, "select")):
            asked = Asked(self.key, self.index, self._named, self._second)
            return self._around.conditions.decide(asked, pairs, source, tick)

    # From pairs to rows

    def flow(self, shape: QueryShape, matches: Matches, tick: Tick) -> Flow:
        """The rows of the pairs of queries of one shape."""
        if not len(matches):
            return NOTHING
        if isinstance(matches.source, TickReadings):
            return self._reading_flow(shape, matches, matches.source, tick)
        stays = np.flatnonzero(matches.was & matches.now)
        was, now = matches.was, matches.now
        if len(stays):
            same = self._says_the_same(shape, matches, stays)
            was, now = was.copy(), now.copy()
            was[stays[same]] = now[stays[same]] = False
        count = int(np.count_nonzero(was))
        left: Longs | slice
        come: Longs | slice
        chosen: Longs | slice
        if not len(stays) and was[:count].all() and now[count:].all():
            # They are apart already, and nothing has to be moved.
            left, come, chosen = slice(count), slice(count, None), slice(None)
            size = len(was)
        else:
            left, come = np.flatnonzero(was), np.flatnonzero(now)
            chosen = np.concatenate([left, come])
            size = len(chosen)
        weights = np.ones(size, np.int64)
        weights[:count] = -1
        ids = np.concatenate([matches.before[left], matches.after[come]])
        sources: list[Columns | None] = [None] * len(shape.needed)
        sources[shape.subject] = matches.source.pick(ids, shape.needed[shape.subject])
        if shape.table is not None:
            owners = matches.owner_before[chosen]
            if matches.owner_before is not matches.owner_after:
                owners = np.concatenate([matches.owner_before[left], matches.owner_after[come]])
            sources[shape.table] = matches.owners(shape.sources[shape.table].name).pick(
                owners, shape.needed[shape.table]
            )
        return Flow(
            matches.numbers[chosen],
            matches.instants[chosen],
            weights,
            tuple(sources),
            slots=matches.slots[chosen],
        )

    def _says_the_same(self, shape: QueryShape, matches: Matches, stays: Longs) -> Bools:
        """Which pairs that stay have the rows that they had."""
        needed = shape.needed[shape.subject]
        versions = (matches.before[stays], matches.after[stays])
        before, after = (matches.source.pick(ids, needed) for ids in versions)
        same = same_rows(before, after)
        if shape.table is not None:
            owners = matches.owners(shape.sources[shape.table].name)
            needed = shape.needed[shape.table]
            sides = (matches.owner_before[stays], matches.owner_after[stays])
            before, after = (owners.pick(ids, needed) for ids in sides)
            same &= same_rows(before, after)
        return same

    def _reading_flow(
        self, shape: QueryShape, matches: Matches, readings: TickReadings, tick: Tick
    ) -> Flow:
        at = np.argsort(matches.instants, kind="stable")
        ids = matches.after[at]
        sources: list[Columns | None] = [None] * len(shape.needed)
        sources[shape.subject] = readings.pick(ids, shape.needed[shape.subject])
        if shape.table is not None:
            sources[shape.table] = matches.owners(shape.sources[shape.table].name).pick(
                matches.owner_after[at], shape.needed[shape.table]
            )
        return Flow(
            matches.numbers[at],
            matches.instants[at],
            np.ones(len(at), np.int64),
            tuple(sources),
            readings.ranks(ids),
            slots=matches.slots[at],
            readings=ids,
        )


def _told(tables: list[StreamedRegions]) -> Longs:
    """The rows of regions whose owners have said something in the tick."""
    return np.concatenate([np.empty(0, np.int64), *(table.told for table in tables)])
