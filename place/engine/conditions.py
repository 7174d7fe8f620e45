"""What the shapes of regions do not decide: focal objects, conditions on attributes, and whether
anything that a query reads has changed.

Pairs are asked twice, as they are at their instant and as they were before it; those whose answers
differ, or whose rows may have changed, go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.compiled import Compiled, JoinKey
from place.engine.counters import Counters
from place.engine.focals import Focals
from place.engine.layout import Polygons, lay_out, lay_out_around
from place.engine.matching import NO_VECTORS, RegionPairs
from place.engine.objects import Objects
from place.engine.queries import Queries, Template
from place.engine.regions import RegionIndex
from place.engine.tick import Tick
from place.engine.tick_readings import TickReadings
from place.engine.vector import holds, same_rows
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Longs
from place.kernels.bulk import TOUCHED
from place.kernels.gather import taken
from place.kernels.inside import inside_pairs
from place.plan.query import Around, Focal


@dataclass(frozen=True)
class Matches:
    """Pairs of queries and objects, or readings, that come, go, or may change while they stay.

    `owner_before` and `owner_after` are the versions of the rows of query tables.
    """

    source: Versions | TickReadings
    numbers: Longs
    slots: Longs
    instants: Longs
    was: Bools
    now: Bools
    before: Longs
    after: Longs
    owner_before: Longs
    owner_after: Longs
    tables: Mapping[str, Versions]

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, chosen: Longs) -> Matches:
        """Some of them."""
        if len(chosen) == len(self):
            return self
        return replace(
            self,
            **{
                name: getattr(self, name)[chosen]
                for name in (
                    *("numbers", "slots", "instants", "was", "now"),
                    *("before", "after", "owner_before", "owner_after"),
                )
            },
        )

    def owners(self, table: str) -> Versions:
        """The versions of the rows of a query table."""
        return self.tables[table]


@dataclass(frozen=True)
class Asked:
    """What decides for one region join: its regions, and facts about its queries.

    `streamed` holds the queries whose query tables are streams of regions, each with the focal
    object that every version of a region names, or None. `second` holds the queries that have an
    INSIDE of their own beside a query table.
    """

    key: JoinKey
    index: RegionIndex
    streamed: Mapping[int, tuple[str, Longs | None]]
    second: Mapping[int, Compiled]


class Conditions:
    """Decides pairs for all region joins of a cell."""

    def __init__(
        self,
        queries: Queries,
        focals: Focals,
        focal_number: Callable[[Focal], int],
        region_rows: Mapping[str, Objects],
        counters: Counters,
        dictionary: Dictionary,
    ) -> None:
        self._queries = queries
        self._focals = focals
        self._focal_number = focal_number
        self._region_rows = region_rows
        self._counters = counters
        self._dictionary = dictionary

    def decide(
        self, asked: Asked, pairs: RegionPairs, source: Versions | TickReadings, tick: Tick
    ) -> Matches | None:
        """Which pairs matter, and whether the object was, or is, in the answer."""
        index = asked.index
        pairs = _together(index, pairs)
        numbers = taken(index.queries, pairs.rows, source.store.threads)
        tables = {
            name: tick.regions.get(name) or Versions.none(store)
            for name, store in self._region_rows.items()
        }
        owners = taken(index.owner, pairs.rows, source.store.threads)
        owner_before = owner_after = ~owners
        for number, (name, _) in asked.streamed.items():
            mine = np.flatnonzero(numbers == number)
            if len(mine) and len(tables[name]):
                order = mine[np.argsort(pairs.instants[mine], kind="stable")]
                if owner_before is owner_after:
                    owner_before, owner_after = owner_before.copy(), owner_after.copy()
                found = tables[name].around(owners[order], pairs.instants[order])
                owner_before[order], owner_after[order] = found
        matches = Matches(
            source,
            numbers,
            pairs.slots,
            pairs.instants,
            pairs.was,
            pairs.now,
            pairs.before,
            pairs.after,
            owner_before,
            owner_after,
            tables,
        )
        if not _is_none_itself(asked, source):
            matches = self._without_itself(asked, pairs.rows, matches)
            matches = self._in_second(asked, matches, tick)
            matches = matches.take(self._restless(asked, matches))
        if not (index.modes[: index.size] == TOUCHED).any():
            self._counters.count_all(("inside", "select"), matches.numbers)
        else:
            self._counters.count("inside", matches.numbers)
            matches = self._selected(matches)
            self._counters.count("select", matches.numbers)
        return matches if len(matches) else None

    def _without_itself(self, asked: Asked, rows: Longs, matches: Matches) -> Matches:
        """An object is never in the region that it leads."""
        index = asked.index
        leaders = index.now.focals[rows]
        before = after = leaders
        for number, (_, named) in asked.streamed.items():
            if named is not None and len(named):
                mine = np.flatnonzero(matches.numbers == number)
                before, after = before.copy(), after.copy()
                for ids, found in (
                    (matches.owner_before[mine], before),
                    (matches.owner_after[mine], after),
                ):
                    told = ids >= 0
                    found[mine[told]] = named[ids[told]]
        if not (before >= 0).any() and not (after >= 0).any():
            return matches
        subject = asked.key.subject
        was = matches.was & ~self._focals.is_itself(before, matches.slots, subject)
        now = matches.now & ~self._focals.is_itself(after, matches.slots, subject)
        return replace(matches, was=was, now=now)

    def _in_second(self, asked: Asked, matches: Matches, tick: Tick) -> Matches:
        """Which pairs are in the INSIDE of a query that has a query table, too."""
        for number, compiled in asked.second.items():
            mine = np.flatnonzero(matches.numbers == number)
            if len(mine):
                was, now = matches.was.copy(), matches.now.copy()
                for side, ids, at_once in (
                    (was, matches.before[mine], False),
                    (now, matches.after[mine], True),
                ):
                    side[mine] &= self._inside(compiled, matches, mine, ids, tick, at_once)
                matches = replace(matches, was=was, now=now)
        return matches

    def _inside(
        self,
        compiled: Compiled,
        matches: Matches,
        mine: Longs,
        ids: Longs,
        tick: Tick,
        at_once: bool,
    ) -> Bools:
        query, count, polygons = compiled.asked, len(mine), Polygons()
        places = matches.source.places(ids, compiled.key.dimensions)
        itself = np.zeros(count, np.bool_)
        if isinstance(query.inside, Around):
            number, at = self._focal_number(query.inside.focal), matches.instants[mine]
            itself = self._focals.is_itself(
                np.full(count, number), matches.slots[mine], compiled.subject
            )
            moves = tick.focals
            own = np.flatnonzero(moves.numbers == number)
            step = np.searchsorted(moves.instants[own], at, "right" if at_once else "left") - 1
            centers = np.repeat(self._focals.positions(np.array([number])), count, axis=0)
            told = step >= 0
            centers[told] = moves.places[own[step[told]]]
            extents = np.full((count, 2), np.nan)
            extents[:, : len(query.inside.extents)] = query.inside.extents
            laid, rows = lay_out_around(centers, extents, query.space), np.arange(count)
        else:
            assert query.inside is not None
            laid = lay_out([query.inside], query.space, polygons)
            rows = np.zeros(count, np.int64)
        found = np.empty(count, np.bool_)
        shapes = (laid.kinds, laid.params, *polygons.arrays())
        inside_pairs(rows, np.arange(count), places, NO_VECTORS, *shapes, found)
        return found & ~itself

    def _restless(self, asked: Asked, matches: Matches) -> Longs:
        """Which pairs can change an answer: those that enter or leave, and those whose row is
        different now."""
        live: Bools = matches.was != matches.now
        stays = np.flatnonzero(matches.was & matches.now)
        if not len(stays):
            return np.flatnonzero(live)
        if asked.key.alone:
            live[stays] = True
            return np.flatnonzero(live)
        live[stays] = matches.owner_before[stays] != matches.owner_after[stays]
        changed = stays[matches.before[stays] != matches.after[stays]]
        sets = self._queries.reads(matches.numbers[changed])
        for number in np.flatnonzero(np.bincount(sets)).tolist() if len(sets) else ():
            columns = self._queries.read_sets[number]
            mine = changed[sets == number]
            if columns:
                before = matches.source.pick(matches.before[mine], columns)
                after = matches.source.pick(matches.after[mine], columns)
                live[mine] |= ~same_rows(before, after)
        return np.flatnonzero(live)

    def _selected(self, matches: Matches) -> Matches:
        """The pairs for which the rest of WHERE holds on either side."""
        was = self._select(matches, matches.was, matches.before, matches.owner_before)
        now = self._select(matches, matches.now, matches.after, matches.owner_after)
        kept = np.flatnonzero(was | now)
        return replace(matches, was=was, now=now).take(kept)

    def _select(self, matches: Matches, within: Bools, ids: Longs, owners: Longs) -> Bools:
        """Of the pairs within, those that pass the rest of WHERE on one side of the instant."""
        found, queries = within.copy(), self._queries
        asked = np.flatnonzero(found & queries.checks(matches.numbers))
        if len(asked):
            subject = matches.source.store.relation.name
            rows = matches.source.pick(ids[asked], queries.columns_of_boxes(subject))
            queries.in_boxes(subject, matches.numbers, asked, rows, found)
        templates = queries.templates_of(matches.numbers)
        open_pairs = np.flatnonzero(found & (templates >= 0))
        if not len(open_pairs):
            return found
        mine = templates[open_pairs]
        for number in np.flatnonzero(np.bincount(mine)).tolist():
            some = open_pairs[mine == number]
            found[some] = self._holds(queries.templates[number], matches, some, ids, owners)
        return found

    def _holds(
        self, template: Template, matches: Matches, some: Longs, ids: Longs, owners: Longs
    ) -> Bools:
        """The condition that no box decides, asked of pairs."""
        number = int(matches.numbers[some[0]])
        query, needed = self._queries.compiled[number].asked, template.condition.needed
        sources: list[Columns | None] = [None] * len(needed)
        sources[query.subject] = matches.source.pick(ids[some], needed[query.subject])
        if query.query_table is not None:
            at = query.query_table.source
            table = matches.owners(query.sources[at].relation.name)
            sources[at] = table.pick(owners[some], needed[at])
        sides = template.parameters.beside_queries(tuple(sources), matches.numbers[some])
        return holds(template.condition.expression, sides, len(some), self._dictionary)


def _is_none_itself(asked: Asked, source: Versions | TickReadings) -> bool:
    """Can we be sure that no pair consists of an object and the region that it leads itself?

    Where a join reports only who enters and who leaves, an object and its own region, which moves
    with it, can be reported only if the object appears or disappears, or if the region begins to
    follow another object.
    """
    index = asked.index
    if asked.streamed or index.modes[: index.size].any() or isinstance(source, TickReadings):
        return False
    stays = source.alive(source.before).all() and not source.messages.gone.any()
    return len(source) > 0 and bool(stays)


def _together(index: RegionIndex, pairs: RegionPairs) -> RegionPairs:
    """Each pair of a region and an object once, although a region may have several boxes."""
    if not index.has_siblings:
        return pairs
    siblings = index.siblings[pairs.rows]
    # Most regions need only one box: their other box has never held anything.
    several = (siblings >= 0) & index.shown[siblings]
    some = np.flatnonzero(several)
    if not len(some):
        return pairs
    rows = pairs.rows[some]
    keys = (
        pairs.slots[some],
        index.owner[rows],
        index.queries[rows],
        pairs.instants[some],
        pairs.after[some],
    )
    order = some[np.lexsort(keys)]
    rows = pairs.rows[order]
    starts = np.ones(len(order), np.bool_)
    for key in (
        pairs.slots[order],
        index.owner[rows],
        index.queries[rows],
        pairs.instants[order],
        pairs.after[order],
    ):
        starts[1:] &= key[1:] == key[:-1]
    starts[1:] = ~starts[1:]
    firsts = np.flatnonzero(starts)
    was, now = pairs.was.copy(), pairs.now.copy()
    was[order[firsts]] = np.logical_or.reduceat(pairs.was[order], firsts)
    now[order[firsts]] = np.logical_or.reduceat(pairs.now[order], firsts)
    kept = ~several
    kept[order[firsts]] = True
    merged = replace(pairs, was=was, now=now)
    return merged.take(np.flatnonzero(kept))
