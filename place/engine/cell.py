"""The cell: the objects of a row meet the regions of a column, and what changed comes out.

It takes all that happens at one instant and keeps no answer: membership before and now follows
from what the objects and regions were and are, so every change is found by comparing the two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.above import Above
from place.engine.columns import Columns, Dictionary
from place.engine.filters import make_passes
from place.engine.focals import Focals
from place.engine.lay import Layout, attribute_boxes
from place.engine.meet import Join
from place.engine.objects import Changed, Messages, Objects
from place.engine.observe import Observer
from place.engine.plans import Group, RangePlan, compile_plan, has_upper, readings_of
from place.engine.regions import Regions
from place.engine.retain import evict, reach_of
from place.engine.route import Place
from place.engine.rows import Shapes
from place.engine.said import Said, listen
from place.engine.shapes import fan_of
from place.engine.step import Found, Step
from place.engine.tally import Tally
from place.engine.trail import Passes
from place.engine.window import Pairs
from place.model.schema import Relation, Stream
from place.model.space import Space
from place.model.time import BEGINNING
from place.plan.bind_query_table import layout_of
from place.plan.query import Around, Query

Numbers = NDArray[np.int64]


class Cell:
    """Objects, regions and plans of one cell of the matrix.

    It holds the objects of its row, and of the other rows where each object is: a region of its
    column may begin to follow any of them.
    """

    def __init__(
        self,
        place: Place,
        streams: Iterable[Stream],
        dictionary: Dictionary | None = None,
        threads: int = 1,
    ) -> None:
        self.place = place
        self.threads = threads
        self.dictionary = Dictionary() if dictionary is None else dictionary
        self.subjects: dict[str, Objects] = {}
        self.others: dict[str, Objects] = {}
        self.region_rows: dict[str, Objects] = {}
        self.plans: dict[int, RangePlan] = {}
        self.groups: dict[Group, Regions] = {}
        self.passes: dict[Group, Passes] = {}
        self.shapes = Shapes()
        self._join = Join(self)
        self.focals = Focals()
        self.layout = Layout(self.focals)
        self.above = Above(self)
        self.tally = Tally()
        self.observer = Observer(self)
        self.numbers: dict[str, int] = {}
        self._next = 0
        self._many_focals = 1024
        self.retained: dict[str, float] = {}
        for stream in streams:
            self.subjects[stream.name] = Objects(stream, self.dictionary)
            if place.matrix.rows > 1:
                known = tuple(stream.columns[i] for i in _whereabouts(stream))
                self.others[stream.name] = Objects(stream, self.dictionary, known)
            if stream.retention is not None:
                self.retained[stream.name] = reach_of(stream.retention)
            if layout_of(stream.columns) is not None:
                self.region_rows[stream.name] = Objects(stream, self.dictionary)

    def process(self, step: Step, *, is_known: bool = False) -> list[Found]:
        """Take an instant; the changes of this cell's part of the answers, not yet settled.

        `is_known` tells that nobody needs to hear the answers of queries that have only a join.
        """
        for regions in self.groups.values():
            regions.begin()
        self.focals.begin()
        objects: dict[str, Changed] = {}
        rows: dict[str, Changed] = {}
        said = self._listen(step)
        for name, messages in step.messages.items():
            self._tell(name, messages, objects, rows)
        self.above.stage = step.stage
        ended = [self._drop(name) for name in step.drop]
        for query in step.register:
            self._register(query, step)
        self._change_region_rows(rows, step)
        self._follow_focals()
        found: list[Found] = []
        heard = {readings_of(name): each for name, each in said.items()}
        for group, regions in self.groups.items():
            if group.meets in heard:
                self._join.match_readings(group, regions, heard[group.meets], rows)
            else:
                changed = objects.get(group.meets)
                found += self._join.match(group, regions, changed, rows, step.instant, is_known)
            self.layout.polygons.release(regions.replaced_polygons())
            regions.forget()
        for name, changed in objects.items():
            self.tally.read(name, len(changed.slots))
        for meets, each in heard.items():
            self.tally.read(meets, len(each.keys))
        if len(self.above):
            found += self.above.finish(step.instant, objects, said, ended)
        self._forget_dropped(ended)
        self._forget_focals()
        # Without a query nobody asks, cells are filled before their queries, and whoever drops or
        # asks a query need not be the last to do so.
        if self.plans and step.messages:
            for name in self.retained.keys() - self.region_rows.keys():
                evict(self, name, objects.get(name))
        for number, plan in self.observer.look(objects):
            self._turn(number, plan)
        return found

    def adopt(
        self,
        queries: Sequence[Query],
        tables: Mapping[str, pa.Table],
        contents: Mapping[str, pa.Table],
    ) -> list[Found]:
        """Take over queries whose answers are known already: a cell that was saved goes on.

        What stands above the join is told as if it came just now, for whoever keeps the answers.
        """
        step = Step(BEGINNING, register=queries, tables=tables, contents=contents)
        if any(has_upper(query) for query in queries):
            return self.process(step, is_known=True)
        for query in queries:
            self._register(query, step)
        return []

    def window(self, name: str) -> pa.Table | None:
        """What the window of a query holds; None if the query is not in this cell's column."""
        upper = self.above.uppers.get(self.numbers[name])
        return None if upper is None or upper.window is None else upper.window.save()

    def held(self, name: str) -> list[Found]:
        """All that a query with a window holds, as if it came just now."""
        number = self.numbers[name]
        return [self.above.content(number)] if number in self.above.uppers else []

    # What changes

    def _listen(self, step: Step) -> dict[str, Said]:
        """What the readings of this cell's row say to windows, before the objects take them."""
        said = {}
        for name, messages in step.readings.items():
            windows = [
                upper.window
                for upper in self.above.uppers.values()
                if upper.plan.subject == name and upper.window is not None
            ]
            if windows:
                store = self.subjects[name]
                mine = self.place.has_objects(messages.keys, self._texts(store))
                some = messages if mine is None else messages.take(np.flatnonzero(mine))
                pairs = any(isinstance(window, Pairs) for window in windows)
                said[name] = listen(some, store, step.instant, pairs=pairs)
        return said

    def _tell(
        self,
        name: str,
        messages: Messages,
        objects: dict[str, Changed],
        rows: dict[str, Changed],
    ) -> None:
        """Objects, regions and focal objects take the messages of a stream that are theirs."""
        mine, others = self.split(name, messages)
        if len(mine):
            objects[name] = changed = self.subjects[name].change(mine)
            self.lead(self.subjects[name], changed.slots)
        if others is not None and len(others):
            self.lead(self.others[name], self.others[name].change(others).slots)
        if name in self.region_rows:
            store = self.region_rows[name]
            here = self.place.has_regions(messages.keys, self._texts(store))
            told = messages if here is None else messages.take(np.flatnonzero(here))
            if len(told):
                rows[name] = store.change(told)

    def _texts(self, store: Objects) -> Dictionary | None:
        return self.dictionary if store.is_coded else None

    def split(self, name: str, messages: Messages) -> tuple[Messages, Messages | None]:
        """The messages of this cell's row, and of the others only where each object is."""
        store = self.subjects[name]
        mask = self.place.has_objects(messages.keys, self._texts(store))
        if mask is None:
            return messages, None
        others = messages.take(np.flatnonzero(~mask))
        known = _whereabouts(store.relation)
        rows = Columns(self.others[name].columns.columns, self.dictionary, 0)
        rows.values = [others.rows.values[i] for i in known]
        rows.nulls = [others.rows.nulls[i] for i in known]
        elsewhere = Messages(others.keys, others.times, others.gone, rows)
        return messages.take(np.flatnonzero(mask)), elsewhere

    def lead(self, store: Objects, slots: Numbers) -> None:
        """Focal objects are told to every row of the columns whose regions they lead."""
        if not len(self.focals):
            return
        numbers = store.leads[slots].astype(np.int64)
        leading = np.flatnonzero(numbers >= 0)
        if len(leading):
            self.focals.move(numbers[leading], self.where(store, slots[leading]))

    def where(self, store: Objects, slots: Numbers) -> NDArray[np.float64]:
        """Where the objects at these slots are; NaN where none is."""
        relation = store.relation
        if relation.x is None or relation.y is None:
            return np.full((len(slots), 2), np.nan)
        names = [column.name for column in store.columns.columns]
        at = [names.index(relation.columns[i].name) for i in (relation.x, relation.y)]
        positions = np.stack([store.columns.numbers(i, slots) for i in at], axis=1)
        positions[~store.alive[slots]] = np.nan
        return positions

    def _focals_of(self, stream: str, keys: Numbers) -> Numbers:
        """The numbers of focal objects, some of which may be new to this cell."""
        numbers = np.empty(len(keys), np.int64)
        mask = self.place.has_objects(keys, self._texts(self.subjects[stream]))
        parts = [(self.subjects[stream], np.arange(len(keys)), True)]
        if mask is not None:
            here, there = np.flatnonzero(mask), np.flatnonzero(~mask)
            parts = [(self.subjects[stream], here, True), (self.others[stream], there, False)]
        for store, chosen, is_mine in parts:
            slots = store.take_all(keys[chosen])
            fresh = np.unique(slots[store.leads[slots] < 0])
            if len(fresh):
                seats = fresh if is_mine else np.full(len(fresh), -1)
                added = self.focals.add(stream, seats, self.where(store, fresh))
                store.follow(fresh, added.astype(np.int32))
            numbers[chosen] = store.leads[slots]
        return numbers

    def focal(self, stream: str, key: Hashable) -> int:
        """The number of a focal object."""
        number = self.subjects[stream].number(key)
        return int(self._focals_of(stream, np.array([number], np.int64))[0])

    # Queries come and go

    def _register(self, query: Query, step: Step) -> None:
        plan = compile_plan(query, self.dictionary)
        number, self._next = self._next, self._next + 1
        self.plans[number] = plan
        self.shapes.add(number, plan)
        self.numbers[query.name] = number
        is_here = query.query_table is not None or self.place.has_query(query.name)
        if not is_here:
            return
        self._load_tables(plan, step)
        there = 0 if plan.meets_readings else len(self.subjects[plan.subject])
        self.tally.begin(number, (plan.group.meets, plan.group), there)
        if plan.upper is not None:
            content = step.contents.get(query.name)
            if not self.above.register(number, plan, step.tables, content):
                return
        if plan.has_choice:
            self.observer.begin(number)
        query = plan.query
        regions = self._group(number, plan)
        fan = fan_of(query.space) if plan.is_spatial else 1
        simple, watches = plan.is_simple, plan.watches
        if query.query_table is not None:
            name = query.sources[query.query_table.source].relation.name
            store = self.region_rows[name]
            owners = np.flatnonzero(store.alive[: store.size])
            if isinstance(query.inside, Around):
                self.focal(query.inside.focal.stream, query.inside.focal.key)
            rows = regions.add(number, owners, fan, simple, watches)
            self.layout.lay_owners(plan, regions, rows, owners, store, self._focals_of)
        elif isinstance(query.inside, Around):
            rows = regions.add(number, np.array([-1]), fan, simple, watches)
            focal = query.inside.focal
            regions.now.focals[rows] = self.focal(focal.stream, focal.key)
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
            regions.now.boxes[rows] = attribute_boxes(plan)

    def _group(self, number: int, plan: RangePlan) -> Regions:
        """The regions that a plan's are kept with."""
        group = plan.group
        regions = self.groups.setdefault(group, Regions())
        if plan.before is not None and not (regions.plan[: regions.size] >= 0).any():
            # Tables may have other rows since the last time that somebody passed here.
            self.passes[group] = self.passes_of(number, plan)
            self.forget_order()
        return regions

    def passes_of(self, number: int, plan: RangePlan) -> Passes:
        """What the objects of a plan have to pass besides its region."""
        joiner = self.above.joiner(number) if plan.upper is not None else None
        return make_passes(plan.filter, plan.upper, joiner, self.dictionary)

    def _turn(self, number: int, plan: RangePlan) -> None:
        """Go over to an equivalent plan between two instants."""
        old = self.plans[number]
        rows = self.groups[old.group].rows_of(number)
        self.plans[number] = plan
        mode = (plan.is_simple, plan.watches)
        self.groups[old.group].move(rows, self._group(number, plan), *mode)
        self.above.turn(number, plan)
        self.tally.begin(number, (plan.group.meets, plan.group), 0)
        self.forget_order()

    def _load_tables(self, plan: RangePlan, step: Step) -> None:
        """Stationary objects and query tables come with the first query that reads them."""
        for i, source in enumerate(plan.query.sources):
            if source.is_stream:
                continue
            if plan.upper is not None and i in plan.upper.joined:
                continue
            table = plan.query.query_table
            is_regions = table is not None and table.source == i
            stores = self.region_rows if is_regions else self.subjects
            if source.relation.name not in stores:
                store = Objects(source.relation, self.dictionary)
                table_rows = step.tables[source.relation.name]
                keys = np.arange(table_rows.num_rows)
                is_mine = self.place.has_regions if is_regions else self.place.has_objects
                mine = is_mine(keys, None)
                if mine is not None:
                    keys = np.flatnonzero(mine)
                    table_rows = table_rows.take(pa.array(keys))
                columns = source.relation.columns
                rows = Columns.from_arrow(columns, self.dictionary, table_rows.columns)
                store.load(keys, np.zeros(len(keys), np.int64), rows)
                stores[source.relation.name] = store

    def _drop(self, name: str) -> int:
        number = self.numbers.pop(name)
        plan = self.plans[number]
        if number not in self.above.uppers or self.above.drop(number):
            self._remove_regions(number, plan)
        return number

    def _remove_regions(self, number: int, plan: RangePlan) -> None:
        if plan.group in self.groups:
            regions = self.groups[plan.group]
            regions.remove(regions.rows_of(number))

    def _forget_dropped(self, ended: Sequence[int]) -> None:
        """Let go of the plans that were dropped, and of tables that no plan reads."""
        if not ended:
            return
        for number in self.above.forget(ended):
            self._remove_regions(number, self.plans[number])
            for regions in self.groups.values():
                self.layout.polygons.release(regions.replaced_polygons())
                regions.forget()
            self.forget_order()  # no instant has told of it
        kept = set(self.numbers.values()) | self.above.bases
        for number in self.plans.keys() - kept:
            self.observer.end(number)
            self.tally.end(number)
        self.plans = {number: plan for number, plan in self.plans.items() if number in kept}
        for group, regions in list(self.groups.items()):
            if group.before is not None and not (regions.plan[: regions.size] >= 0).any():
                del self.groups[group], self.passes[group]
        if len(self.shapes.plans) > 64 + 2 * len(self.plans):
            self.shapes = Shapes()
            for number, plan in self.plans.items():
                self.shapes.add(number, plan)
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
        asked = [
            self.focal(focal.stream, focal.key)
            for plan in self.plans.values()
            for focal in (plan.query if plan.upper is None else plan.upper.asked).focals
        ]
        used = np.zeros(len(self.focals) + 1, np.bool_)
        used[asked] = True
        for regions in self.groups.values():
            used[regions.now.focals[: regions.size]] = True
        for group in self.above.groups.values():
            used[group.focals] = True
        numbers = self.focals.keep(used)
        for group in self.above.groups.values():
            group.renumber(numbers)
        for regions in self.groups.values():
            regions.now.focals[:] = numbers[regions.now.focals]
            regions.before.focals[:] = numbers[regions.before.focals]
        for store in (*self.subjects.values(), *self.others.values()):
            led = np.flatnonzero(store.leads[: store.size] >= 0)
            store.follow(led, numbers[store.leads[led]].astype(np.int32))
        self._many_focals = max(1024, 2 * len(self.focals))

    # Regions move

    def _change_region_rows(self, changed: dict[str, Changed], step: Step) -> None:
        """Rows of a query table that streams in: new, other, or gone."""
        if not changed:
            return
        for number, plan in self.plans.items():
            table = plan.query.query_table
            if table is None or plan.name not in self.numbers:
                continue
            name = plan.query.sources[table.source].relation.name
            if name not in changed or any(plan.name == query.name for query in step.register):
                continue
            change = changed[name]
            store = self.region_rows[name]
            regions = self.groups[plan.group]
            mine = regions.rows_of(number)
            gone = mine[np.isin(regions.owner[mine], change.slots[change.was & ~change.now])]
            if len(gone):
                regions.remove(gone)
            other = change.slots[change.was & change.now]
            if len(other):
                rows = regions.grouped(mine[np.isin(regions.owner[mine], other)])
                regions.touch(rows)
                owners = np.unique(regions.owner[rows])
                self.layout.lay_owners(plan, regions, rows, owners, store, self._focals_of)
            new = change.slots[~change.was & change.now]
            if len(new):
                fan = fan_of(plan.query.space)
                rows = regions.add(number, new, fan, plan.is_simple, plan.watches)
                self.layout.lay_owners(plan, regions, rows, new, store, self._focals_of)

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
                found = self.focal(focal_object.stream, focal_object.key)
                if self.focals.moved(np.array([found]))[0]:
                    regions = self.groups[plan.group]
                    regions.touch(regions.rows_of(number))

    # Retention

    def forget_order(self) -> None:
        """Objects or regions changed without an instant of the bulk join that says so."""
        self._join.forget_order()


def _whereabouts(stream: Relation) -> tuple[int, ...]:
    """The columns of a stream that tell where its objects are: key, x and y."""
    named = (stream.key, stream.x, stream.y)
    return tuple(dict.fromkeys(index for index in named if index is not None))
