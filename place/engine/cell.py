"""The cell: the objects of a row meet the regions of a column, and what changed comes out.

It takes all that happens at one instant and keeps no answer: membership before and now follows
from what the objects and regions were and are, so every change is found by comparing the two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from place.engine.columns import Dictionary
from place.engine.focals import Focals
from place.engine.lay import Layout
from place.engine.objects import Changed, Objects
from place.engine.plans import Dimensions, RangePlan, make_plan
from place.engine.refine import Candidates, Side, decide
from place.engine.regions import Regions
from place.engine.retain import kept_slots, reach_of
from place.engine.route import Place
from place.engine.rows import View, make_rows
from place.engine.shapes import fan_of
from place.kernels.bulk import TOUCHED, BulkMatcher
from place.model.delta import Delta
from place.model.schema import Stream
from place.model.space import Space
from place.model.types import Row
from place.plan.bind_query_table import layout_of
from place.plan.query import Around, Query

Messages = Sequence[tuple[Hashable, Row | None]]
Locate = Callable[[str, Hashable], tuple[float, float] | None]


@dataclass(frozen=True)
class Step:
    """All that happens at one instant.

    `messages` are the last word of each key of each stream: its row, or None where the object is
    gone. `tables` are the rows of the tables that registered queries read, and `locate` tells where
    an object is at this instant, for regions that begin to follow it.
    """

    instant: int
    messages: Mapping[str, Messages] = field(default_factory=dict)
    register: Sequence[Query] = ()
    drop: Sequence[str] = ()
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    locate: Locate = lambda stream, key: None


class Cell:
    """Objects, regions and plans of one cell of the matrix."""

    def __init__(self, place: Place, streams: Iterable[Stream], threads: int = 1) -> None:
        self.place = place
        self.threads = threads
        self.dictionary = Dictionary()
        self.subjects: dict[str, Objects] = {}
        self.region_rows: dict[str, Objects] = {}
        self.plans: dict[int, RangePlan] = {}
        self.groups: dict[tuple[str, Dimensions], Regions] = {}
        self._matchers: dict[tuple[str, Dimensions], BulkMatcher] = {}
        self.focals = Focals()
        self.layout = Layout(self.focals)
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._many_focals = 1024
        self.retained: dict[str, float] = {}
        self.evicted: dict[str, list[Hashable]] = {}
        """The objects that the last instant let go of, by stream."""
        for stream in streams:
            self.subjects[stream.name] = Objects(stream, self.dictionary)
            if stream.retention is not None:
                self.retained[stream.name] = reach_of(stream.retention)
            if layout_of(stream.columns) is not None:
                self.region_rows[stream.name] = Objects(stream, self.dictionary)

    def process(self, step: Step) -> list[Delta]:
        """Take an instant; the deltas of this cell's part of the answers, not yet consolidated."""
        for regions in self.groups.values():
            regions.begin()
        self.focals.begin()
        objects = self._change(self.subjects, step.messages, self.place.has_object)
        rows = self._change(self.region_rows, step.messages, self.place.has_region)
        self._move_focals(step)
        for name in step.drop:
            self._drop(name)
        for query in step.register:
            self._register(query, step)
        self._change_region_rows(rows, step)
        self._follow_focals()
        deltas: list[Delta] = []
        for (subject, dimensions), regions in self.groups.items():
            deltas += self._match(subject, dimensions, regions, objects, rows, step.instant)
            self.layout.polygons.release(regions.replaced_polygons())
            regions.forget()
        self._forget_dropped(step.drop)
        self._forget_focals()
        if self.plans:  # without a query nobody asks, and cells are filled before their queries
            self.evicted = {name: self._evict(name, objects.get(name)) for name in self.retained}
        return deltas

    # What changes

    def _change(
        self,
        stores: dict[str, Objects],
        messages: Mapping[str, Messages],
        is_mine: Callable[[Hashable], bool],
    ) -> dict[str, Changed]:
        changed = {}
        for name, told in messages.items():
            if name in stores:
                mine = [message for message in told if is_mine(message[0])]
                if mine:
                    changed[name] = stores[name].change(mine)
        return changed

    def _move_focals(self, step: Step) -> None:
        """Focal objects are told to every row of the columns whose regions they lead."""
        for name, told in step.messages.items():
            for key, row in told:
                self.follow(name, key, row)

    def follow(self, stream: str, key: Hashable, row: Row | None) -> None:
        """An object reported, or is gone; if it leads regions, remember where it is."""
        number = self.focals.find(stream, key)
        if number < 0:
            return
        objects = self.subjects[stream]
        relation = objects.relation
        at = None
        if row is not None and relation.x is not None and relation.y is not None:
            at = float(row[relation.x]), float(row[relation.y])  # type: ignore[arg-type]
        self.focals.move(number, at, objects.find(key))

    def _focal(self, locate: Locate, stream: str, key: Hashable) -> int:
        """The number of a focal object, which may be new to this cell."""
        known = self.focals.find(stream, key)
        if known >= 0:
            return known
        slot = self.subjects[stream].find(key)
        return self.focals.add(stream, key, locate(stream, key), slot)

    # Queries come and go

    def _register(self, query: Query, step: Step) -> None:
        focal_of = partial(self._focal, step.locate)
        plan = make_plan(query, self.dictionary)
        number, self._next = self._next, self._next + 1
        self.plans[number] = plan
        self._numbers[query.name] = number
        self._load_tables(plan, step)
        regions = self.groups.setdefault((plan.subject, plan.dimensions), Regions())
        fan = fan_of(query.space) if plan.is_spatial else 1
        simple, watches = plan.is_simple, plan.watches
        if query.query_table is not None:
            name = query.sources[query.query_table.source].relation.name
            store = self.region_rows[name]
            owners = np.flatnonzero(store.alive[: store.size])
            if isinstance(query.inside, Around):
                focal_of(query.inside.focal.stream, query.inside.focal.key)
            rows = regions.add(number, owners, fan, simple, watches)
            self.layout.lay_owners(plan, regions, rows, owners, store, focal_of)
        elif not self.place.has_region(query.name):
            return
        elif isinstance(query.inside, Around):
            rows = regions.add(number, np.array([-1]), fan, simple, watches)
            focal = query.inside.focal
            regions.now.focals[rows] = focal_of(focal.stream, focal.key)
            extents = query.inside.extents
            regions.extents[rows] = extents if len(extents) == 2 else (extents[0], np.nan)
            self.layout.lay_around(plan.query.space, regions, rows)
        elif query.inside is not None:
            rows = regions.add(number, np.array([-1]), fan, simple, watches)
            self.layout.lay_shape(query.inside, query.space, regions, rows)
        else:  # a region without a place
            rows = regions.add(number, np.full(len(plan.boxes), -1), 1, simple, watches)
            regions.now.kinds[rows] = 0
            regions.now.params[rows] = 0.0
            regions.now.boxes[rows] = _attribute_boxes(plan)

    def _load_tables(self, plan: RangePlan, step: Step) -> None:
        """Stationary objects and query tables come with the first query that reads them."""
        for i, source in enumerate(plan.query.sources):
            if source.is_stream:
                continue
            table = plan.query.query_table
            is_regions = table is not None and table.source == i
            stores = self.region_rows if is_regions else self.subjects
            if source.relation.name not in stores:
                store = Objects(source.relation, self.dictionary)
                is_mine = self.place.has_region if is_regions else self.place.has_object
                told = enumerate(step.tables[source.relation.name])
                store.change([(key, row) for key, row in told if is_mine(key)])
                stores[source.relation.name] = store

    def _drop(self, name: str) -> None:
        number = self._numbers.pop(name)
        plan = self.plans[number]
        regions = self.groups[plan.subject, plan.dimensions]
        regions.remove(regions.rows_of(number))

    def _forget_dropped(self, names: Sequence[str]) -> None:
        """Let go of the plans that were dropped, and of tables that no plan reads."""
        if not names:
            return
        kept = set(self._numbers.values())
        self.plans = {number: plan for number, plan in self.plans.items() if number in kept}
        read = {s.relation.name for plan in self.plans.values() for s in plan.query.sources}
        for stores in (self.subjects, self.region_rows):
            for name in [n for n, store in stores.items() if n not in read]:
                if not isinstance(stores[name].relation, Stream):
                    del stores[name]
                    self.forget_order()

    def _forget_focals(self) -> None:
        """Let go of focal objects that lead no region any more, once they are many."""
        if len(self.focals) < self._many_focals:
            return
        used = {int(n) for r in self.groups.values() for n in np.unique(r.now.focals[: r.size])}
        for plan in self.plans.values():
            used |= {self.focals.find(f.stream, f.key) for f in plan.query.focals}
        numbers = self.focals.keep(used - {-1})
        for regions in self.groups.values():
            regions.now.focals = numbers[regions.now.focals]
        self._many_focals = max(1024, 2 * len(self.focals))

    # Regions move

    def _change_region_rows(self, changed: dict[str, Changed], step: Step) -> None:
        """Rows of a query table that streams in: new, other, or gone."""
        focal_of = partial(self._focal, step.locate)
        for number, plan in self.plans.items():
            table = plan.query.query_table
            if table is None or plan.name not in self._numbers:
                continue
            name = plan.query.sources[table.source].relation.name
            if name not in changed or plan.query in step.register:
                continue
            change = changed[name]
            store = self.region_rows[name]
            regions = self.groups[plan.subject, plan.dimensions]
            mine = regions.rows_of(number)
            gone = mine[np.isin(regions.owner[mine], change.slots[change.was & ~change.now])]
            if len(gone):
                regions.remove(gone)
            other = change.slots[change.was & change.now]
            if len(other):
                rows = regions.grouped(mine[np.isin(regions.owner[mine], other)])
                regions.touch(rows)
                owners = np.unique(regions.owner[rows])
                self.layout.lay_owners(plan, regions, rows, owners, store, focal_of)
            new = change.slots[~change.was & change.now]
            if len(new):
                fan = fan_of(plan.query.space)
                rows = regions.add(number, new, fan, plan.is_simple, plan.watches)
                self.layout.lay_owners(plan, regions, rows, new, store, focal_of)

    def _follow_focals(self) -> None:
        """Regions whose focal object moved, came or went."""
        if not self.focals.any_moved():
            return
        for regions in self.groups.values():
            rows = np.flatnonzero(self.focals.moved(regions.now.focals[: regions.size]))
            if not len(rows):
                continue
            regions.touch(rows)
            spaces = {number: plan.query.space for number, plan in self.plans.items()}
            for space in Space:
                of_space = [n for n, s in spaces.items() if s is space]
                mine = rows[np.isin(regions.plan[rows], of_space)]
                if len(mine):
                    self.layout.lay_around(space, regions, mine)
        for number, plan in self.plans.items():
            if plan.query.query_table is not None and isinstance(plan.query.inside, Around):
                focal_object = plan.query.inside.focal
                found = self.focals.find(focal_object.stream, focal_object.key)
                if found >= 0 and self.focals.moved(np.array([found]))[0]:
                    regions = self.groups[plan.subject, plan.dimensions]
                    regions.touch(regions.rows_of(number))

    def knows(self, stream: str, key: Hashable) -> bool:
        """Does the cell keep an object, or follow it?"""
        return self.subjects[stream].find(key) >= 0 or self.focals.find(stream, key) >= 0

    # Retention

    def _evict(self, name: str, changed: Changed | None) -> list[Hashable]:
        """Let go of objects that no region can reach before they report again."""
        store = self.subjects[name]
        groups = {d: regions for (subject, d), regions in self.groups.items() if subject == name}
        tested = np.zeros(store.size, np.bool_)
        if changed is not None:
            tested[changed.slots] = True
        if any(regions.changed[: regions.size].any() for regions in groups.values()):
            tested[:] = True
        tested &= store.alive[: store.size]
        if not tested.any():
            return []
        points = {dimensions: _points(store, dimensions, None)[0] for dimensions in groups}
        kept = kept_slots(store, tested, groups, self.retained[name], points)
        gone = np.flatnonzero(tested & ~kept)
        if len(gone):
            self.forget_order()
        return store.evict(gone)

    def forget_order(self) -> None:
        """Objects or regions changed without an instant of the bulk join that says so."""
        for matcher in self._matchers.values():
            matcher.reset()

    # The join

    def _match(
        self,
        subject: str,
        dimensions: Dimensions,
        regions: Regions,
        objects: dict[str, Changed],
        rows: dict[str, Changed],
        instant: int,
    ) -> list[Delta]:
        store = self.subjects.get(subject)
        changed = objects.get(subject)
        size = regions.size
        if store is None or not size or (changed is None and not regions.changed[:size].any()):
            return []
        points, moved = _points(store, dimensions, changed)
        boxes = np.concatenate([regions.now.boxes[:size], regions.before.boxes[:size]], axis=1)
        modes = regions.modes[:size]
        shifted = regions.changed[:size]
        if shifted.any():
            modes = np.where(shifted & (modes == 1), np.uint8(TOUCHED), modes)
        matcher = self._matchers.setdefault((subject, dimensions), BulkMatcher())
        pairs = matcher.match(points, boxes, modes, moved, shifted, threads=self.threads)
        if not len(pairs.boxes):
            return []
        found = Candidates(pairs.boxes, pairs.points, pairs.codes, modes[pairs.boxes] == TOUCHED)
        view = View(store.columns, changed)
        sides = (
            Side(regions.now, points[:, 0:2], now=True),
            Side(regions.before, points[:, 2:4], now=False),
        )
        decided = decide(self, regions, found, view, sides, rows, subject)
        instants = np.full(len(decided.slots), instant)
        return make_rows(self, regions, decided, view, rows, instants)


def _attribute_boxes(plan: RangePlan) -> np.ndarray:
    """The boxes of a query that has no place, over the one or two columns it is found by."""
    bounds = np.array([-np.inf, -np.inf, np.inf, np.inf])
    boxes = np.tile(bounds, (len(plan.boxes), 1))
    for i, box in enumerate(plan.boxes):
        for k, column in enumerate(plan.dimensions):
            boxes[i, k], boxes[i, k + 2] = box[column]
    return boxes


def _points(
    store: Objects, dimensions: Dimensions, changed: Changed | None
) -> tuple[np.ndarray, np.ndarray]:
    """Where the objects are now and were before, over the columns that regions are found by."""
    size = store.size
    points = np.zeros((size, 4))
    gone = ~store.alive[:size]
    for k, column in enumerate(dimensions[:2]):
        values = store.columns.numbers(column)[:size]
        points[:, k] = values
        points[:, k + 2] = values
        if changed is not None:
            points[changed.slots, k + 2] = changed.before.numbers(column)
    points[gone, 0:2] = np.nan
    was_gone = gone.copy()
    moved = np.zeros(size, np.bool_)
    if changed is not None:
        was_gone[changed.slots] = ~changed.was
        moved[changed.slots] = True
    points[was_gone, 2:4] = np.nan
    return points, moved
