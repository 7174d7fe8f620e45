"""What stands above the join in a cell: table joins, kNN, and windows.

The join tells which pairs of object and region came and went; here they become signed rows, beside
the rows of tables, chosen by distance, or held for the time of a window. What is done with whole
answers (aggregates, DISTINCT) comes after that, above the cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from place.engine.changes import Change
from place.engine.columns import Columns
from place.engine.flows import changed_flows, flow_of
from place.engine.join import Joiner
from place.engine.near import NearGroup
from place.engine.objects import Changed
from place.engine.part import Flow, Part
from place.engine.past import ceil_all
from place.engine.plans import RangePlan, UpperPlan
from place.engine.refine import Decided
from place.engine.regions import Regions
from place.engine.rows import View, by_plan
from place.engine.said import NOTHING, Said
from place.engine.tally import CHOOSE, JOIN
from place.engine.vector import outputs
from place.engine.window import NEVER, Pairs, Queue
from place.model.schema import Stream
from place.plan.query import Query

if TYPE_CHECKING:
    from place.engine.cell import Cell

Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass
class Upper:
    """What a cell keeps above the join for one query, and what it has found at this instant."""

    plan: RangePlan
    upper: UpperPlan
    joiner: Joiner | None
    window: Queue | Pairs | None
    flows: list[Flow] = field(default_factory=list)
    present: bool = True
    is_told: bool = False
    """Does whoever keeps the answer know of the query?"""
    told: Flow | None = None
    """Of a kNN query that several cells answer: what this one has told."""
    entering: tuple[Numbers, Flow] | None = None
    """The readings that come into its window at this instant."""
    is_direct: bool = False
    """Is what comes and goes already what is told? Then it is told together with its group's."""

    @property
    def query(self) -> Query:
        return self.upper.asked


class Above:
    """All that a cell keeps above its join."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self.uppers: dict[int, Upper] = {}
        self.groups: dict[Query, NearGroup] = {}
        self._bases: dict[int, Query] = {}
        """The group of kNN queries that a plan tells its candidates."""
        self._partners: dict[tuple[str, tuple[int, ...]], Columns] = {}
        self._windows: set[int] = set()
        self._alone: set[int] = set()
        """Queries that have a row without any object, as long as they have their focal objects."""
        self._touched: set[int] = set()
        self.stage = 0
        """Of the parts that are told; the same in all cells."""

    def __len__(self) -> int:
        return len(self.uppers)

    # Queries come and go

    def register(
        self,
        number: int,
        plan: RangePlan,
        tables: Mapping[str, pa.Table],
        content: pa.Table | None,
    ) -> bool:
        """Begin to answer a query; must its regions be laid out?"""
        assert plan.upper is not None
        upper = plan.upper
        joiner = None
        if upper.joined or upper.conditions:
            partners = {i: self._partner(upper, i, tables) for i in upper.joined}
            joiner = Joiner(upper, partners, self._cell.dictionary)
        window = self._window(plan, upper)
        alone = self._cell.place.matrix.rows == 1
        direct = upper.query.nearest is not None and alone and not upper.has_answer
        made = Upper(plan, upper, joiner, window, is_direct=direct)
        self.uppers[number] = made
        if not made.is_direct:
            self._touched.add(number)
        if upper.query.groups == () and upper.query.focals and window is None:
            self._alone.add(number)
        if window is not None:
            self._windows.add(number)
            if content is not None:
                window.load(content)
                made.flows.append(window.content(1))
        nearest = upper.query.nearest
        if nearest is None:
            return True
        shape = _shape(upper.asked)
        is_new = shape not in self.groups
        if is_new:
            store = self._cell.subjects[plan.subject]
            self.groups[shape] = NearGroup(number, plan, store, joiner, not alone)
            self._bases[number] = shape
        focal = -1
        if nearest.focal is not None:
            focal = self._cell.focal(nearest.focal.stream, nearest.focal.key)
        self.groups[shape].add(number, nearest, focal)
        return is_new and not self.groups[shape].is_open

    def turn(self, number: int, plan: RangePlan) -> None:
        """A query goes over to an equivalent plan."""
        if number in self.uppers:
            self.uppers[number].plan = plan
        if number in self._bases:
            self.groups[self._bases[number]].plan = plan

    def base_of(self, number: int) -> int | None:
        """The plan among whose objects a kNN query chooses."""
        upper = self.uppers.get(number)
        if upper is None or upper.upper.query.nearest is None:
            return None
        return self.groups[_shape(upper.query)].base

    def joiner(self, number: int) -> Joiner | None:
        """What joins the rows of a query with its tables."""
        if number in self.uppers:
            return self.uppers[number].joiner
        return self.groups[self._bases[number]].joiner

    def _partner(self, upper: UpperPlan, source: int, tables: Mapping[str, pa.Table]) -> Columns:
        """The rows of a table that is joined, kept once for all queries that need the same."""
        relation, needed = upper.asked.sources[source].relation, upper.needed[source]
        key = (relation.name, needed)
        if key not in self._partners:
            rows = tables[relation.name]
            self._partners[key] = Columns.from_arrow(
                tuple(relation.columns[i] for i in needed),
                self._cell.dictionary,
                [rows.column(i) for i in needed],
            )
        return self._partners[key]

    def _window(self, plan: RangePlan, upper: UpperPlan) -> Queue | Pairs | None:
        window = upper.query.window
        if window is None:
            return None
        stream = upper.asked.sources[plan.query.subject].relation
        assert isinstance(stream, Stream)
        columns = [
            None if i in upper.joined else tuple(source.relation.columns[c] for c in needed)
            for i, (source, needed) in enumerate(
                zip(upper.asked.sources, upper.needed, strict=True)
            )
        ]
        if window.is_previous:
            return Pairs(stream, columns, self._cell.dictionary)
        key_type = stream.columns[stream.key].type
        return Queue(window, key_type, columns, self._cell.dictionary)

    def drop(self, number: int) -> bool:
        """End a query; must its regions be removed?"""
        upper = self.uppers[number]
        if not upper.is_direct:
            self._touched.add(number)
        if upper.window is not None:
            upper.flows.append(upper.window.content(-1))
        if upper.upper.query.nearest is None:
            return True
        group = self.groups[_shape(upper.upper.asked)]
        group.end(number)
        return False

    def forget(self, dropped: Sequence[int]) -> list[int]:
        """Queries that have ended; the plans whose regions nobody needs any more."""
        for number in dropped:
            self.uppers.pop(number, None)
            self._windows.discard(number)
            self._alone.discard(number)
        read = {
            (upper.query.sources[i].relation.name, upper.upper.needed[i])
            for upper in self.uppers.values()
            for i in upper.upper.joined
        }
        self._partners = {key: rows for key, rows in self._partners.items() if key in read}
        idle = [number for number, shape in self._bases.items() if not len(self.groups[shape])]
        for number in idle:
            del self.groups[self._bases.pop(number)]
        return idle

    @property
    def bases(self) -> set[int]:
        """The plans among whose objects kNN queries choose."""
        return set(self._bases)

    # What the join tells

    def take(
        self,
        number: int,
        regions: Regions,
        decided: Decided,
        view: View,
        rows: dict[str, Changed],
        said: Said | None,
    ) -> None:
        """Pairs of a plan's regions that came and went, or readings that lie in them."""
        if said is not None:
            self._enter(self.uppers[number], regions, decided, said, rows)
            return
        if number in self._bases:
            group = self.groups[self._bases[number]]
            slots, chosen = decided.slots.astype(np.int64), decided.now.copy()
            if group.joiner is not None:
                at = np.flatnonzero(chosen)
                flow = flow_of(self._cell, group.plan, slots[at], None, view, rows, True)
                chosen[at] = group.joiner.qualifies(flow)
            group.choose(slots, chosen)
            return
        plan = self.uppers[number].plan
        self._tell(number, *changed_flows(self._cell, plan, regions, decided, view, rows))

    def _enter(
        self,
        upper: Upper,
        regions: Regions,
        decided: Decided,
        said: Said,
        rows: dict[str, Changed],
    ) -> None:
        """Readings that lie in the region of a window."""
        window, plan = upper.window, upper.plan
        at = np.flatnonzero(decided.now)
        readings = decided.slots[at].astype(np.int64)
        owners = regions.owner[decided.regions[at]]
        if isinstance(window, Pairs):
            is_pair = said.previous[readings] > NOTHING
            readings, owners = readings[is_pair], owners[is_pair]
        else:
            ranks = said.ranks(self._cell.subjects[plan.subject])
            order = np.lexsort((owners, ranks[readings], said.times[readings]))
            readings, owners = readings[order], owners[order]
        flow = flow_of(self._cell, plan, readings, owners, View(said.rows, None), rows, True)
        if isinstance(window, Pairs):
            other = _other_stream(plan.query)
            sources = list(flow.sources)
            sources[other] = said.before(readings, upper.upper.needed[other])
            flow = Flow(flow.weights, tuple(sources))
        elif upper.joiner is not None and upper.upper.has_order:
            fits = np.flatnonzero(upper.joiner.qualifies(flow))
            flow, readings = flow.take(fits), readings[fits]
        upper.entering = (readings, flow)

    def _slide(
        self,
        number: int,
        upper: Upper,
        instant: int,
        said: Said | None,
        changed: Changed | None,
    ) -> None:
        """A window takes what came, and lets go of what is over."""
        window, subject = upper.window, upper.plan.subject
        entering, upper.entering = upper.entering, None
        if isinstance(window, Pairs):
            over = np.empty(0, np.int64)
            if changed is not None:
                over = self._cell.subjects[subject].keys[changed.slots[~changed.now]]
            keys = np.union1d(over, said.spoke) if said is not None else np.unique(over)
            if len(keys):
                come = np.zeros(len(keys), np.bool_)
                rows = window.content(0).sources
                if said is not None and entering is not None:
                    readings, flow = entering
                    order = np.argsort(said.keys[readings], kind="stable")
                    come[np.searchsorted(keys, said.keys[readings[order]])] = True
                    rows = flow.take(order).sources
                self._tell(number, window.replace(keys, come, rows))
        elif isinstance(window, Queue):
            if said is not None and entering is not None:
                readings, flow = entering
                times = said.times[readings]
                ends = self._ends(upper, times)
                numbers = np.cumsum(np.diff(readings, prepend=readings[:1]) != 0)
                keys = said.keys[readings]
                self._tell(number, window.enter(keys, times, ends, numbers, flow.sources))
            self._tell(number, window.leave(instant))

    def _ends(self, upper: Upper, times: Numbers) -> Numbers:
        """The instants at which readings of these times leave."""
        window, stream = upper.upper.query.window, self._cell.subjects[upper.plan.subject].relation
        assert window is not None
        assert isinstance(stream, Stream)
        if window.duration is None:
            return np.full(len(times), NEVER)
        return ceil_all(times + window.duration, stream.evaluate)

    # The end of an instant

    def next_expiry(self) -> int:
        """The next instant at which a window lets go of a reading."""
        windows = (self.uppers[number].window for number in self._windows)
        return min((w.next_expiry() for w in windows if w is not None), default=NEVER)

    def finish(
        self,
        instant: int,
        objects: Mapping[str, Changed],
        said: Mapping[str, Said],
        ended: Sequence[int],
    ) -> list[Change | Part]:
        """What the instant has changed of each query, as parts of the answers."""
        for number in self._windows:
            upper, subject = self.uppers[number], self.uppers[number].plan.subject
            self._slide(number, upper, instant, said.get(subject), objects.get(subject))
        parts: list[Change | Part] = []
        for group in self.groups.values():
            parts += self._choose(group, objects.get(group.plan.subject), instant)
        for number in sorted(self._touched | self._alone):
            part = self._part(number, self.uppers[number], instant, number in ended)
            if part is not None:
                parts.append(part)
        self._touched.clear()
        return parts

    def _tell(self, number: int, *flows: Flow) -> None:
        """Rows of a query that came and went at this instant."""
        some = [flow for flow in flows if len(flow)]
        if some:
            self.uppers[number].flows += some
            self._touched.add(number)

    def _choose(self, group: NearGroup, changed: Changed | None, instant: int) -> list[Change]:
        """Who the nearest are now, as rows of each kNN query, or as what is told of it."""
        cell, plan = self._cell, group.plan
        if changed is None and not group.is_touched(cell.focals):
            return []
        view = View(cell.subjects[plan.subject].columns, changed)
        with cell.tally.timed((group.base, CHOOSE)):
            (rows, slots, weights), ranks = group.find(cell, changed, view)
        flows = [
            flow_of(self._cell, plan, slots[at], None, view, {}, is_now)
            for at, is_now in (
                (np.flatnonzero(weights < 0), False),
                (np.flatnonzero(weights > 0), True),
            )
        ]
        order = np.concatenate([np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)])
        flow, rows = Flow.joined(flows), rows[order]
        if ranks is not None:
            flow = Flow(flow.weights, flow.sources, ranks.take(order))
        if not group.merges and plan.upper is not None and not plan.upper.has_answer:
            changes = self._direct(group, rows, flow, instant)
            group.finish()
            return changes
        by_row = np.argsort(rows, kind="stable")
        rows, flow = rows[by_row], flow.take(by_row)
        starts = np.searchsorted(rows, np.arange(len(group.numbers) + 1))
        numbers = group.numbers
        for row in np.unique(rows).tolist() if not group.merges else group.held():
            number = int(numbers[row])
            upper = self.uppers[number]
            mine = flow.take(slice(int(starts[row]), int(starts[row + 1])))
            if group.merges:
                told, upper.told = upper.told, mine
                if told is not None and told.says_the_same(mine):
                    continue
                if told is not None:
                    self._tell(number, Flow(-told.weights, told.sources, told.ranks))
            self._tell(number, mine)
        group.finish()
        return []

    def _direct(self, group: NearGroup, rows: Numbers, flow: Flow, instant: int) -> list[Change]:
        """The rows of all kNN queries of a shape, made together."""
        cell, upper = self._cell, group.plan.upper
        assert upper is not None
        numbers = group.numbers[rows]
        cell.tally.count(CHOOSE, numbers)
        if group.joiner is not None:
            flow, origin = group.joiner.expand(flow)
            numbers = numbers[origin]
            cell.tally.count(JOIN, numbers)
        made = outputs(upper.query.outputs, flow.sources, len(flow), cell.dictionary)
        changes: list[Change] = []
        for sign in (-1, 1):
            mine = np.flatnonzero(flow.weights == sign)
            columns = [made.array(i, mine) for i in range(len(made.columns))]
            changes += by_plan(cell, numbers[mine], columns, sign, instant)
        return changes

    def _part(self, number: int, upper: Upper, instant: int, ends: bool) -> Part | None:
        present = self._is_present(upper)
        flows, upper.flows = [flow for flow in upper.flows if len(flow)], []
        flow = Flow.joined(flows) if flows else None
        if flow is not None:
            tally = self._cell.tally
            tally.add(number, CHOOSE, len(flow))
            if upper.joiner is not None:
                with tally.timed((number, JOIN)):
                    flow = upper.joiner.expand(flow)[0]
                tally.add(number, JOIN, len(flow))
        if flow is None and upper.is_told and upper.present == present and not ends:
            return None
        upper.present, upper.is_told = present, True
        if flow is None:
            flow = Flow(np.empty(0, np.int64), ())
        return Part(upper.upper, instant, flow, present, ends, self.stage)

    def _is_present(self, upper: Upper) -> bool:
        """Has the query its focal objects? It matters to an answer that is there without any row.

        A window keeps its readings without them.
        """
        cell, query = self._cell, upper.query
        if query.groups != () or upper.window is not None or not query.focals:
            return True
        return all(
            cell.focals.position(cell.focal(focal.stream, focal.key), now=True) is not None
            for focal in upper.query.focals
        )

    def content(self, number: int) -> Part:
        """All that a window holds, as if it came just now."""
        upper = self.uppers[number]
        assert upper.window is not None
        flow = upper.window.content(1)
        if upper.joiner is not None:
            flow = upper.joiner.expand(flow)[0]
        return Part(upper.upper, 0, flow)


def _shape(query: Query) -> Query:
    """What kNN queries have in common that choose among the same candidates."""
    return replace(query, name="", nearest=None)


def _other_stream(query: Query) -> int:
    """The second name of the stream in `WINDOW PREVIOUS`."""
    return next(
        i for i, source in enumerate(query.sources) if source.is_stream and i != query.subject
    )
