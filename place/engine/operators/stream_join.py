"""The join of elements: objects now, readings in windows, rows of tables (Spatial Join CQ).

Only combinations with an element that begins or ends within the tick are looked for: those of each
source in turn are extended by the elements of all others. A combination is there from when its last
element begins until its first one ends. No combinations are kept: what is taken back is found again
among the elements as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from place.engine.approach_sides import Horizon
from place.engine.areas import lies_around
from place.engine.columns import Columns, Dictionary
from place.engine.combinations import Combinations, Extender, Partners, Step
from place.engine.elements import Changed, Elements, Passes
from place.engine.flow import NOTHING, Flow
from place.engine.join_content import JoinContent
from place.engine.join_plan import JoinPlan, plan_join, twins_of
from place.engine.near_moves import FEW as MANY_MOVES
from place.engine.near_moves import Moves, NearMoves
from place.engine.operator_specs import StreamJoinSpec
from place.engine.operators.contract import Parameters
from place.engine.query_elements import QueryElements
from place.engine.rank_combinations import ranks_of
from place.engine.shared_conditions import SharedConditions, share_conditions
from place.engine.tick import Tick
from place.engine.vector import holds
from place.engine.window_elements import WindowElements
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.cancel import uncancelled
from place.kernels.version_links import times_within
from place.plan.expression import conjunction
from place.plan.query import Around

FEW = 1024
"""As many changes as these are joined at once, however few elements stand."""
LARGEST_KEY = 1 << 62

Choose = Callable[[Changed], Bools]


class StreamJoin:
    """The joins of all queries of one shape."""

    name = "join"

    def __init__(
        self,
        spec: StreamJoinSpec,
        elements: Sequence[Elements],
        parameters: Parameters,
        areas: Sequence[Callable[[Columns], Bools] | None],
        dictionary: Dictionary,
        threads: int,
        *,
        is_whole: bool,
    ) -> None:
        """`areas` are the tests of INSIDE of each source; `is_whole` says that one row of cells
        holds all elements."""
        self._spec = spec
        self._is_whole = is_whole
        self._parameters = parameters
        self._dictionary = dictionary
        self._areas = areas
        self._queries = QueryElements(parameters)
        self._own: list[Elements] = [*elements, self._queries]
        self._elements = list(self._own)
        self._content = JoinContent(elements)
        self._horizon = Horizon()
        self._extender = Extender(self._elements, dictionary, self._horizon, spec.method, threads)
        self._shared: SharedConditions | None = None
        self._plan: JoinPlan | None = None
        self._near: NearMoves | None = None
        self._threads = threads
        self._begun: list[int] = []
        self._ended: list[int] = []

    # Queries come and go

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins, with what the windows of its sources hold already."""
        if self._content.begin(query, content):
            self._shared = None  # readings that it brings are to be asked, too
        self._begun.append(query)

    def end(self, query: int) -> None:
        """A query ends; all its combinations leave."""
        if query in self._begun:
            self._begun.remove(query)
        else:
            self._ended.append(query)

    def save(self) -> pa.Table | None:
        """What windows hold."""
        return self._content.save(self._queries.active.tolist())

    def content(self, query: int) -> pa.Table | None:
        """What the windows of one query hold."""
        return self._content.of_query(query)

    def next_expiry(self) -> int:
        """The next instant at which a reading leaves a window."""
        return min(elements.next_expiry() for elements in self._elements)

    @property
    def readings(self) -> int:
        """How many readings the windows hold; one that several sources share counts once."""
        windows = [each for each in self._elements if isinstance(each, WindowElements)]
        return sum(each.readings for each in dict.fromkeys(windows))

    def explained(self) -> tuple[str, ...]:
        """How the elements of each source were found last, and how many stand."""
        told = []
        for i, source in enumerate(self._spec.sources):
            kind = "readings" if source.window is not None else "elements"
            count = len(self._elements[i].standing())
            how = self._extender.chosen.get(i)
            found = "" if how is None else f", found by {how}"
            if found and self._plan is not None and self._plan.follows_ways_to(i):
                found += ", where the boxes of ways meet"
            told.append(f"{count} {kind} of {source.relation.name} stand{found}")
        return tuple(told)

    def _prepare(self) -> None:
        """Ask of elements what the queries of now ask."""
        spec = self._spec
        constants = None
        if not self._parameters.is_empty:
            constants = self._parameters.rows(self._queries.active)
        shared = share_conditions(spec.conditions, spec.width, constants)
        if shared == self._shared:
            self._queries.load(_everything)
            return
        self._shared = shared
        twins = twins_of(spec, shared, is_whole=self._is_whole)
        self._plan = plan_join(spec.width, shared, twins, self._dictionary, self._horizon)
        self._near = NearMoves.of(spec, self._plan, self._dictionary, self._threads)
        # Sources that give the same elements are one.
        self._elements[:] = [self._own[twin] for twin in (*twins, spec.width)]
        for i, elements in enumerate(self._own):
            elements.faces = self._plan.faces[i]
            if elements in self._elements:
                elements.load(self._passes(i))

    def _passes(self, source: int) -> Passes:
        """What is asked of a source alone."""
        assert self._plan is not None
        if source == self._spec.width:
            return _everything
        condition, area = conjunction(self._plan.alone[source]), self._areas[source]

        def passes(rows: Columns) -> Bools:
            found = np.ones(len(rows), np.bool_)
            if condition is not None:
                beside: list[Columns | None] = [None] * (self._spec.width + 1)
                beside[source] = rows
                found &= holds(condition, beside, len(rows), self._dictionary)
            return found if area is None else found & area(rows)

        return passes

    # A tick

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """The combinations that come and go."""
        parts = [Flow.of_marks(flow.marks)]
        self._look_ahead(tick.until)
        if self._ended:
            parts.append(self._whole(self._ended, tick.until, -1))
            self._queries.drop(self._ended)
            self._content.forget(self._ended)
        if self._begun:
            self._content.watch(tick.until)
            self._queries.add(self._begun)
        if (self._begun or self._ended) and len(self._queries.active):
            self._prepare()
            self._look_ahead(tick.until)
        if self._begun:
            parts.append(self._whole(self._begun, tick.until, 1))
        self._begun, self._ended = [], []
        if len(self._queries.active):
            parts += self._changes(tick)
        return Flow.joined(parts)

    def _look_ahead(self, until: int) -> None:
        """Follow the ways of objects as far as the readings of a tick need it."""
        ahead = 0 if self._plan is None else self._plan.ahead
        if ahead and self._horizon.reach(until, ahead):
            for elements in dict.fromkeys(self._elements):
                elements.renew()

    def _whole(self, queries: Sequence[int], instant: int, weight: int) -> Flow:
        """The whole answer of queries: all combinations of elements that stand."""
        assert self._plan is not None
        first = self._plan.first
        numbers = self._elements[first].standing()
        names = self._elements[first].names(numbers)
        some = Combinations.of_standing(self._spec.width + 1, first, numbers, names)
        for step in self._plan.steps[first]:
            elements = self._elements[step.source]
            partners = Partners.standing(elements, elements.face(step.face), len(some))
            some = self._extender.extend(some, step, partners)
        some = self._asked(self._in_area(some), np.array(queries, np.int64))
        return self._told(some, np.full(len(some), instant), np.full(len(some), weight))

    def _changes(self, tick: Tick) -> list[Flow]:
        """What follows from the elements that begin and end within a tick."""
        opened = {elements: elements.open(tick) for elements in dict.fromkeys(self._elements)}
        changed = [opened[elements] for elements in self._elements[: self._spec.width]]
        flows: list[Flow] = []
        for after, first, until in self._spans(changed, tick):
            if first == until:
                flows.append(self._at_once(changed, until))
            else:
                flows.append(self._between(changed, after, until))
        for elements in dict.fromkeys(self._elements):
            elements.settle(tick.until)
        return flows

    def _spans(self, changed: Sequence[Changed], tick: Tick) -> list[tuple[int, int, int]]:
        """The tick in parts, so that few elements change more than once within one of them: each
        after an instant, with the first and the last one at which something happens."""
        given = {id(some): some for some in changed}.values()
        bounds = [times_within(s.starts, s.ends, tick.after, tick.until) for s in given]
        first, last = min(b[0] for b in bounds), max(b[1] for b in bounds)
        if first >= last:
            return [(tick.after, first, last)] if first == last else []
        times = np.concatenate([part for some in given for part in (some.starts, some.ends)])
        times = times[(times > tick.after) & (times <= tick.until)]
        instants, counts = np.unique(times, return_counts=True)
        stands = max(len(elements.standing()) for elements in self._elements[:-1])
        most = max(FEW, stands // 2)
        # A span ends where its share of all changes is full, and around an instant that is larger.
        share, is_large = (np.cumsum(counts) - counts) // most, counts > most
        breaks = (share[1:] != share[:-1]) | is_large[1:] | is_large[:-1]
        starts = np.flatnonzero(np.concatenate([[True], breaks]))
        firsts = instants[starts].tolist()
        lasts = instants[np.append(starts[1:], len(instants)) - 1].tolist()
        return list(zip([tick.after, *lasts[:-1]], firsts, lasts, strict=True))

    def _at_once(self, changed: Sequence[Changed], at: int) -> Flow:
        """All changes of one instant: what was there before it, and what is there after it."""
        if self._near is None or sum(map(len, changed)) <= MANY_MOVES:
            old, new = self._uncancelled(*self._before_and_after(changed, at, None))
        else:
            old, new = self._moved(self._near, changed, at)
        weights = np.repeat(np.array([-1, 1]), [len(old), len(new)])
        return self._told(Combinations.joined([old, new]), np.full(len(weights), at), weights)

    def _moved(
        self, near: NearMoves, changed: Sequence[Changed], at: int
    ) -> tuple[Combinations, Combinations]:
        """What leaves and what comes at an instant at which many only move: none of it looks the
        same before and after, because what only moves is compared."""
        known = {id(some): some for some in changed}
        linked = {name: Moves.of(some, at) for name, some in known.items()}
        moves = [linked[id(some)] for some in changed]
        old, new, others = near.changes(self._elements, changed, moves)
        condition = conjunction(others)
        if condition is not None:
            old = self._extender.chosen_by(condition, old)
            new = self._extender.chosen_by(condition, new)
        if any(some.others for some in moves):
            gone, come = self._before_and_after(changed, at, moves)
            old, new = Combinations.joined([gone, old]), Combinations.joined([come, new])
        return self._asked(old, None), self._asked(new, None)

    def _before_and_after(
        self, changed: Sequence[Changed], at: int, moves: Sequence[Moves] | None
    ) -> tuple[Combinations, Combinations]:
        """The combinations before an instant, and those after it, of what changes at it."""
        old = self._grown(
            changed,
            lambda some: (some.starts < at) & (some.ends == at),
            lambda some: (some.starts < at) & (some.ends >= at),
            lambda some: (some.starts < at) & (some.ends > at),
            moves,
        )
        new = self._grown(
            changed,
            lambda some: some.starts == at,
            lambda some: (some.starts <= at) & (some.ends > at),
            lambda some: (some.starts < at) & (some.ends > at),
            moves,
        )
        return old, new

    def _between(self, changed: Sequence[Changed], after: int, until: int) -> Flow:
        """All changes of several instants."""

        def changes(some: Changed) -> Bools:
            begins = (some.starts > after) & (some.starts <= until)
            found: Bools = begins | ((some.ends > after) & (some.ends <= until))
            return found

        some = self._grown(
            changed,
            changes,
            lambda some: (some.starts <= until) & (some.ends > after),
            lambda some: (some.starts <= after) & (some.ends > until),
            None,
            timed=True,
        )
        some = self._asked(some, None)
        left = np.flatnonzero((some.ends > after) & (some.ends <= until))
        come = np.flatnonzero((some.starts > after) & (some.starts <= until))
        if len(left) and len(come):
            # What leaves at the instant at which it comes looks the same before and after.
            names = [None if part is None else (part[left], part[come]) for part in some.names]
            at = _ordinals(some.ends[left], some.starts[come])
            old, new = uncancelled(*_keys([at, *(pair for pair in names if pair is not None)]))
            left, come = left[old], come[new]
        both = some.take(np.concatenate([left, come]))
        instants = np.concatenate([some.ends[left], some.starts[come]])
        weights = np.repeat(np.array([-1, 1]), [len(left), len(come)])
        return self._told(both, instants, weights).in_order()

    def _grown(
        self,
        changed: Sequence[Changed],
        first: Choose,
        later: Choose,
        earlier: Choose,
        moves: Sequence[Moves] | None,
        *,
        timed: bool = False,
    ) -> Combinations:
        """The combinations with an element that `first` chooses: those of each source in turn.

        So that none is found twice, sources before that one give only elements that `earlier`
        chooses, beside those that stand; sources after it give those that `later` chooses. Elements
        that only move are looked at elsewhere, as far as they meet each other.
        """
        assert self._plan is not None
        width = self._spec.width
        found = [Combinations.none(width + 1, range(width))]
        for source, some in enumerate(changed):
            begins = first(some)
            if moves is not None:
                begins &= ~moves[source].is_moved
            chosen = np.flatnonzero(begins)
            if not len(chosen):
                continue
            grown = Combinations.of_changed(width + 1, source, some.take(chosen))
            for step in self._plan.steps[source]:
                other = changed[step.source]
                met = later(other)
                if step.source < source:
                    still = earlier(other)
                    if moves is not None:
                        still |= moves[step.source].is_moved
                    met &= still
                partners = other.take(np.flatnonzero(met))
                grown = self._extended(grown, step, partners, timed=timed)
            found.append(grown)
        return self._in_area(Combinations.joined(found))

    def _extended(
        self, some: Combinations, step: Step, partners: Changed, *, timed: bool
    ) -> Combinations:
        elements = self._elements[step.source]
        face = elements.face(step.face)
        standing = Partners.standing(elements, face, len(some))
        parts = [self._extender.extend(some, step, standing)]
        if len(partners):
            moving = Partners.changed(partners, step.face, face, timed=timed)
            parts.append(self._extender.extend(some, step, moving))
        return Combinations.joined(parts)

    def _in_area(self, some: Combinations) -> Combinations:
        """The combinations whose subject lies around its focal object."""
        area = self._spec.area
        if area is None or area.focal is None or not len(some):
            return some
        assert isinstance(area.area, Around)
        xs, ys = self._places(some, area.subject)
        centers = np.stack(self._places(some, area.focal), axis=1)
        inside = lies_around(xs, ys, centers, area.area.extents, self._spec.space)
        return some.take(np.flatnonzero(inside))

    def _places(self, some: Combinations, source: int) -> tuple[Floats, Floats]:
        ids = some.ids[source]
        assert ids is not None
        relation, needed = self._spec.sources[source].relation, self._spec.needed[source]
        assert relation.x is not None
        assert relation.y is not None
        rows = self._elements[source].pick(ids)
        index = needed.index
        return rows.numbers(index(relation.x)), rows.numbers(index(relation.y))

    def _asked(self, some: Combinations, queries: Longs | None) -> Combinations:
        """The combinations of each query: of all, or of some."""
        assert self._plan is not None
        step = self._plan.last
        if queries is None:
            queries = self._queries.active
        if len(queries) == 1 and not step.asked:
            some = some.beside(self._spec.width, int(queries[0]))
            return self._content.visible(some, self._spec.width)
        face = self._queries.face(step.face)
        partners = Partners(face.at(queries), face.is_exact, ~queries, queries)
        some = self._extender.extend(some, step, partners)
        return self._content.visible(some, self._spec.width)

    def _uncancelled(
        self, old: Combinations, new: Combinations
    ) -> tuple[Combinations, Combinations]:
        """What leaves and what comes, without what looks the same before and after."""
        assert self._plan is not None
        differs = bool(self._plan.last.asked) or self._content.has_floors
        if differs:
            old, new = self._asked(old, None), self._asked(new, None)
        old, new = _without_common(old, new)
        if not differs:
            old, new = self._asked(old, None), self._asked(new, None)
        return old, new

    def _told(self, some: Combinations, instants: Longs, weights: Longs) -> Flow:
        """Combinations as rows of queries."""
        spec = self._spec
        queries = some.ids[spec.width]
        if queries is None or not len(some):
            return NOTHING
        is_ranked = spec.rank is not None
        rows = tuple(
            self._elements[i].pick(ids, None if is_ranked else spec.shown[i])
            if ids is not None and spec.shown[i]
            else None
            for i, ids in enumerate(some.ids[: spec.width])
        )
        ranks = None
        if is_ranked:
            ranks = ranks_of(spec, self._elements, some, rows, self._dictionary)
            # Rows are taken back as they were given: what nobody watches must not be in them.
            rows = tuple(
                None if each is None else each.pick(spec.shown[i]) for i, each in enumerate(rows)
            )
        return Flow(~queries, instants, weights, rows, ranks)


def _everything(rows: Columns) -> Bools:
    return np.ones(len(rows), np.bool_)


def _without_common(old: Combinations, new: Combinations) -> tuple[Combinations, Combinations]:
    """Two lists of combinations without those that are in both, by their names."""
    if not len(old) or not len(new):
        return old, new
    kept_old, kept_new = uncancelled(*_keys(zip(old.names, new.names, strict=True)))
    return old.take(kept_old), new.take(kept_new)


def _keys(columns: Iterable[tuple[Longs | None, Longs | None]]) -> tuple[Longs, Longs]:
    """Numbers that tell the rows of two lists apart, given their columns; neither is empty."""
    left, right = np.zeros(1, np.int64), np.zeros(1, np.int64)
    largest = 1
    for one, other in columns:
        if one is None or other is None:
            continue
        span = int(max(one.max(), other.max())) + 1
        if largest * span >= LARGEST_KEY:
            left, right = _ordinals(left, right)
            largest = len(left) + len(right)
        largest *= span
        left, right = left * span + one, right * span + other
    return left, right


def _ordinals(left: Longs, right: Longs) -> tuple[Longs, Longs]:
    """Other numbers that tell the same apart: how many lesser ones there are."""
    places = np.unique(np.concatenate([left, right]), return_inverse=True)[1]
    return places[: len(left)], places[len(left) :]
