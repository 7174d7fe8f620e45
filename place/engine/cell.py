"""The cell: the objects of a row meet the regions of a column, and what changed comes out.

A tick passes through it in one piece: the stores open it as versions, each region join finds the
pairs of object and region that changed, and each chain of operators turns these pairs into the
changes of its queries' answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from place.engine.chain import Chain, changes_of, is_settled_by_keys, settled
from place.engine.chains import Chains
from place.engine.columns import Dictionary
from place.engine.compile import compile_alike, compile_query
from place.engine.compiled import Compiled, JoinKey, may_have_likes, named_by
from place.engine.conditions import Conditions, Matches
from place.engine.counters import Counters
from place.engine.filter_order import FilterOrder
from place.engine.filters import make_passes
from place.engine.flow import NO_MARKS, Flow, Marks
from place.engine.layout import Polygons
from place.engine.matching import Passes
from place.engine.matrix import Place
from place.engine.operator_specs import GroupSpec
from place.engine.operators.region_join import RegionJoin
from place.engine.partial_answers import Found, PartialAnswer, is_merged
from place.engine.presence import Presence
from place.engine.queries import Queries
from place.engine.query_changes import Changes
from place.engine.reserves import Reserves
from place.engine.retention import Retained
from place.engine.store_files import StoreFiles
from place.engine.stores import Stores
from place.engine.surroundings import Surroundings
from place.engine.tick import Due, Tick, by_instants
from place.engine.trigger_content import TriggerContent
from place.engine.triggers import Triggers
from place.kernels.arrays import Longs
from place.model import deadline
from place.model.schema import Stream
from place.model.time import BEGINNING
from place.plan.logical import Knowledge
from place.plan.query import Query

MANY_FOCALS = 1024
MANY_FORMS = 1024


class Cell:
    """Stores, queries, region joins and chains of one cell of the matrix."""

    def __init__(
        self,
        place: Place,
        streams: Iterable[Stream],
        dictionary: Dictionary | None = None,
        threads: int = 1,
        files: StoreFiles | None = None,
    ) -> None:
        self.place = place
        self.dictionary = Dictionary() if dictionary is None else dictionary
        known = list(streams)
        self.stores = Stores(place, known, self.dictionary, threads)
        self.queries = Queries(self.dictionary)
        self.counters = Counters()
        self.polygons = Polygons()
        self.joins: dict[JoinKey, RegionJoin] = {}
        self._presence = Presence()
        self._named: dict[tuple[str, str, int], int] = {}
        """For each query table that names focal objects, how many queries read it."""
        self.chains = Chains(place.matrix, self.stores, self.dictionary, threads)
        self.triggers = Triggers(place, known, self.dictionary, threads)
        stores, queries = self.stores, self.queries
        conditions = Conditions(
            queries,
            stores.focals,
            stores.focal_number,
            stores.region_rows,
            self.counters,
            self.dictionary,
        )
        self._around = Surroundings(
            stores.focals,
            stores.focal_numbers,
            stores.focal_number,
            self.polygons,
            stores.region_rows,
            conditions,
            self.counters,
            threads,
        )
        self.reserves = Reserves(place, stores, self.chains, self.joins, self.dictionary, files)
        self._order = FilterOrder(self.dictionary)
        self._retained = Retained(known)
        self._many_focals = MANY_FOCALS
        self._forms: dict[str, Compiled] = {}
        """A query of each form, as it was compiled."""

    # A tick

    def take(
        self,
        after: int,
        until: int,
        told: Mapping[str, Due],
        heard: Mapping[str, Due],
        stage: int = 0,
    ) -> list[Found]:
        """Take a tick: all messages up to an instant. Returns the changes of this cell's part of
        the answers.

        `told` are the messages of each stream together with the expiries of its objects, `heard`
        are the messages alone, which windows need. A stream without KEY is only heard.
        """
        if not len(self.queries) and not len(self.triggers):
            # Without queries only the last state of each object matters.
            self.reserves.expect(told)
            self.stores.take({name: messages for name, (messages, _) in told.items()})
            self.reserves.shrink(until)
            return []
        if not self._retained.names & told.keys():
            return self._take(after, until, told, heard, stage)
        # Which objects are let go of depends on the instant, and that may decide what is found at
        # the next instant; so a tick of a stream with retention goes instant by instant.
        found: list[Found] = []
        self.reserves.expect(told)
        for instant, now, said in by_instants(told, heard):
            found += self._take(after, instant, now, said, stage, is_part=True)
            after = instant
        found += self._take(after, until, {}, {}, stage, is_part=True)
        self.reserves.shrink(until)
        return found

    def _take(
        self,
        after: int,
        until: int,
        told: Mapping[str, Due],
        heard: Mapping[str, Due],
        stage: int,
        is_part: bool = False,
    ) -> list[Found]:
        if not is_part:
            self.reserves.expect(told)
        tick = self._open(after, until, told, heard)
        for name, versions in tick.objects.items():
            self.counters.read((name, False), len(versions))
        for name, readings in tick.readings.items():
            self.counters.read((name, True), len(readings))
        self._order.prepare(self.queries, self.joins)
        marks = self._presence.take(tick.focals, self.stores.focals.places)
        found = self._run(tick, marks, stage)
        found += self.triggers.take(heard, until)
        moved = {
            key.subject for key, join in self.joins.items() if key.moves and join.index.has_moved
        }
        turned = self._order.look(tick, self.queries, self.joins, self._passes, self.polygons)
        self.stores.close(tick)
        self._settle(has_polygons=bool(tick.regions))
        if told:
            self._retained.let_go(self.stores, self.chains, self.joins, tick, moved)
        if not is_part:  # or what the rest of the tick needs would be let go of
            self.reserves.let_go(tick, moved)
        for number, compiled in turned:
            self._turn(number, compiled)
        self._forget_focals()
        return found

    def recall(
        self, after: int, until: int, told: Mapping[str, Due], heard: Mapping[str, Due]
    ) -> bool:
        """Take from the disk what regions will be over in a tick. Was anything there? Then these
        objects may expire in the tick, too."""
        if not self.reserves.may_move:
            return False
        return self.reserves.follow(self._open(after, until, told, heard))

    def _open(
        self, after: int, until: int, told: Mapping[str, Due], heard: Mapping[str, Due]
    ) -> Tick:
        """Open a tick. `named` are the query tables that name focal objects: their name, the stream
        of these, the column."""
        windows = {key.subject for key in self.joins if key.readings}
        listened = {name: due for name, due in heard.items() if name in windows}
        held = self.chains.windowed()
        joined = {name: due for name, due in heard.items() if name in held}
        named = [named for named, queries in self._named.items() if queries]
        return self.stores.open(after, until, told, listened, named, joined)

    def _run(self, tick: Tick, marks: Marks, stage: int, ended: Sequence[int] = ()) -> list[Found]:
        """Run a tick: the region joins find pairs, then the chains make changes of them."""
        flows: dict[int, list[Flow]] = {}
        for join in self.joins.values():
            matches = join.take(tick)
            if matches is not None:
                self._hand_out(join, matches, tick, flows)
        if len(marks):
            for number in np.unique(marks.queries).tolist():
                mine = np.flatnonzero(marks.queries == number)
                part = Marks(marks.queries[mine], marks.instants[mine], marks.signs[mine])
                chain = self.chains.of(number)
                flows.setdefault(id(chain), []).append(Flow.of_marks(part))
        found: list[Found] = []
        for chain in self.chains:
            flow = Flow.joined(flows.get(id(chain), []))
            told = chain.take(flow, tick, self.counters)
            over = [number for number in ended if self.chains.of(number) is chain]
            found += self._found(chain, told, stage, over)
        return found

    def _hand_out(
        self, join: RegionJoin, matches: Matches, tick: Tick, flows: dict[int, list[Flow]]
    ) -> None:
        """Give each chain the rows of its queries."""
        for chosen in self.queries.by_shape(matches.numbers):
            mine = matches if chosen is None else matches.take(chosen)
            chain = self.chains.of(int(mine.numbers[0]))
            assert chain is not None
            flow = join.flow(chain.shape, mine, tick)
            if chain.needs_order:
                flow = flow.in_order()
            if len(flow):
                flows.setdefault(id(chain), []).append(flow)

    def _found(self, chain: Chain, flow: Flow, stage: int, ended: Sequence[int]) -> list[Found]:
        if is_merged(chain.shape, self.place.matrix):
            return self._part(chain, flow, stage, ended)
        matrix = self.place.matrix
        is_alone = matrix.rows * matrix.columns == 1
        has_groups = any(isinstance(step, GroupSpec) for step in chain.shape.upper)
        flow = settled(flow, chain.shape)
        self.counters.count("answer", flow.queries, flow.weights)
        is_settled = is_alone or has_groups or is_settled_by_keys(chain.shape)
        return list(changes_of(flow, self.queries.asked, is_settled=is_settled))

    def _part(self, chain: Chain, flow: Flow, stage: int, ended: Sequence[int]) -> list[Found]:
        if not flow and not ended:
            return []
        marks = flow.marks
        known = np.unique(np.concatenate([flow.queries, marks.queries, np.array(ended, np.int64)]))
        moved = replace(
            flow,
            queries=np.searchsorted(known, flow.queries),
            marks=Marks(np.searchsorted(known, marks.queries), marks.instants, marks.signs),
            slots=None,
            readings=None,
        )
        places = tuple(np.searchsorted(known, np.array(ended, np.int64)).tolist())
        return [PartialAnswer(tuple(self.queries.asked(known)), moved, stage, places)]

    def _settle(self, *, has_polygons: bool) -> None:
        """Finish after the changes were collected: joins forget how regions were before, polygons
        that no region uses any more are dropped."""
        for join in self.joins.values():
            join.settle()
        if has_polygons and len(self.polygons):
            used = [join.index.polygons() for join in self.joins.values()]
            self.polygons.keep(set().union(*used))

    # Queries come and go

    def change(self, changes: Changes, *, is_known: bool = False) -> list[Found]:
        """Register and drop queries: their answers as changes, or nothing if they are known."""
        for name in changes.drop:
            self.triggers.end(name)
        ended = self.queries.end(changes.drop)
        marks = self._end(ended, changes.instant)
        triggers = [query for query in changes.register if query.trigger is not None]
        self._begin_triggers(triggers, changes, is_known=is_known)
        others = [query for query in changes.register if query.trigger is None]
        self.reserves.prepare(others, changes.instant, changes.beside)
        marks += self._begin(others, changes)
        self.reserves.begin()
        tick = Tick(changes.instant, changes.instant)
        found = self._run(tick, Marks.joined(marks), changes.stage, ended)
        self._settle(has_polygons=bool(ended))
        self._forget(ended)
        self._forget_focals()
        if ended:
            self.reserves.shrink(changes.instant)
        return [] if is_known else found

    def _begin_triggers(
        self, triggers: Sequence[Query], changes: Changes, *, is_known: bool
    ) -> None:
        """Triggers of this cell begin, with the readings that they already keep."""
        content = TriggerContent(self.triggers, goes_on=is_known)
        for query in triggers:
            deadline.check()
            begun = self.triggers.begin(query, changes.tables)
            held = changes.contents.get(query.name)
            if begun is not None and held is not None:
                content.restore(begun, held)

    def adopt(
        self,
        queries: Sequence[Query],
        tables: Mapping[str, pa.Table],
        contents: Mapping[str, pa.Table],
    ) -> None:
        """Take over queries whose answers are known already: a cell that was saved goes on."""
        if queries:
            changes = Changes(BEGINNING, queries, tables=tables, contents=contents)
            self.change(changes, is_known=True)

    def _begin(self, queries: Sequence[Query], changes: Changes) -> list[Marks]:
        """Queries of this cell's column begin; those that are alike begin together."""
        marks: list[Marks] = []
        alike: list[Compiled] = []
        for query in queries:
            deadline.check()
            if query.query_table is None and not self.place.has_query(changes.beside or query.name):
                continue
            like = compile_alike(alike[0], query) if alike else None
            if like is None:
                self._begin_alike(alike)
                compiled = self._compiled(query)
                marks.append(self._begin_one(compiled, changes))
                alike = [compiled] if may_have_likes(compiled) else []
            else:
                alike.append(like)
        self._begin_alike(alike)
        return marks

    def _compiled(self, query: Query) -> Compiled:
        """What this cell makes of a query, perhaps as it has made it of one of the same form."""
        known = self._forms.get(query.form) if query.form is not None else None
        compiled = compile_alike(known, query) if known is not None else None
        if compiled is None:
            compiled = compile_query(query, self.dictionary)
        if query.form is not None:
            if len(self._forms) > MANY_FORMS:
                self._forms.clear()
            self._forms[query.form] = compiled
        return compiled

    def _begin_alike(self, alike: Sequence[Compiled]) -> None:
        """Queries begin that are like the first of them, which has begun."""
        others = alike[1:]
        if not others:
            return
        first = others[0]
        numbers = self.queries.add_alike(others)
        self.chains.begin_alike(numbers, others)
        there = 0 if first.key.readings else len(self.stores.subjects[first.subject])
        self.counters.begin_all(numbers, first.counted_with, there)
        self._join(first).add_alike(numbers, others)
        if first.has_choice and not first.key.readings:
            for number in numbers.tolist():
                self._order.begin(number)

    def _begin_one(self, compiled: Compiled, changes: Changes) -> Marks:
        query = compiled.asked
        number = self.queries.add(compiled)
        is_new = self.chains.begin(number, compiled, changes.tables)
        store = self.stores.subjects.get(compiled.subject)
        there = 0 if compiled.key.readings or store is None else len(store)
        self.counters.begin(number, compiled.counted_with, there)
        chain = self.chains.of(number)
        assert chain is not None
        chain.begin(number, changes.contents.get(query.name))
        base = number
        if compiled.shape.candidates is not None and is_new and compiled.has_regions:
            base = self.queries.add_candidates(compiled)
            self.chains.add_candidates(base, compiled)
            self.counters.begin(base, compiled.counted_with, 0)
        needs_regions = compiled.shape.candidates is None or base != number
        if needs_regions and not query.is_join:
            self._join(compiled).add(base, compiled)
            if compiled.has_choice and not compiled.key.readings:
                self._order.begin(base)
        if (named := named_by(query)) is not None:
            self._named[named] = self._named.get(named, 0) + 1
        if query.groups != ():
            return NO_MARKS
        holds_readings = query.window or query.sources[query.subject].window
        focals = () if holds_readings is not None else query.focals
        numbers = [self.stores.focal_number(focal) for focal in focals]
        if not self._tells_marks(query):
            return NO_MARKS
        return self._presence.begin(number, numbers, self.stores.focals.places, changes.instant)

    def _tells_marks(self, query: Query) -> bool:
        """Is this the cell that sends the query's marks? Several cells may hold a query together,
        and exactly one of them must."""
        return self.place.row == 0 and (query.query_table is None or self.place.column == 0)

    def _join(self, compiled: Compiled) -> RegionJoin:
        key = compiled.key
        if key not in self.joins:
            passes = None if key.before is None else self._passes(compiled)
            store = self.stores.subjects[key.subject]
            self.joins[key] = RegionJoin(key, store, self._around, passes)
        return self.joins[key]

    def _passes(self, compiled: Compiled) -> Passes:
        return make_passes(compiled.filter, self.chains.partner, self.dictionary)

    def _end(self, ended: Sequence[int], instant: int) -> list[Marks]:
        """Queries of this cell's column end."""
        by_join: dict[JoinKey, list[int]] = {}
        marks: list[Marks] = []
        for number in ended:
            compiled, chain = self.queries.compiled[number], self.chains.of(number)
            assert chain is not None
            chain.end(number)
            if (named := named_by(compiled.asked)) is not None:
                self._named[named] -= 1
            by_join.setdefault(compiled.key, []).append(number)
            marks.append(self._presence.end(number, instant))
        for key, numbers in by_join.items():
            if key in self.joins:
                self.joins[key].remove(numbers)
        return marks

    def _forget(self, ended: Sequence[int]) -> None:
        """Drop what belonged only to queries that have ended: chains, joins, tables and focal
        objects."""
        if not ended:
            return
        idle = self.chains.forget(list(ended))
        for number in idle:
            join = self.joins[self.queries.compiled[number].key]
            join.remove([number])
            join.settle()
        has_tables = False
        for number in (*ended, *idle):
            has_tables |= bool(self.queries.compiled[number].asked.tables)
            self.counters.end(number)
            self._order.end(number)
        self.queries.forget([*ended, *idle])
        for key, join in list(self.joins.items()):
            if join.is_empty:
                del self.joins[key]
        if has_tables:
            asked = [compiled.asked for compiled in self.queries.compiled.values()]
            read = {name for query in asked for name in query.tables}
            self.stores.forget_tables(read)
            self.chains.forget_tables(read)

    def _turn(self, number: int, compiled: Compiled) -> None:
        """Go over to an equivalent plan between two ticks."""
        old = self.queries.compiled[number]
        if old.key == compiled.key:
            return
        compiled = replace(compiled, asked=old.asked, shape=old.shape)
        self.queries.replace(number, compiled)
        self.joins[old.key].move_to(number, self._join(compiled), compiled)
        self.counters.begin(number, compiled.counted_with, 0)
        if self.joins[old.key].is_empty:
            del self.joins[old.key]

    def _forget_focals(self) -> None:
        """Let go of focal objects that lead no region any more, once they are many."""
        if len(self.stores.focals) < self._many_focals:
            return
        asked = [
            self.stores.focal_number(focal)
            for compiled in self.queries.compiled.values()
            for focal in compiled.asked.focals
        ]
        nearest = self.chains.nearest()
        parts: list[Longs] = [np.array(asked, np.int64)]
        parts += [join.index.now.focals[: join.index.size] for join in self.joins.values()]
        parts += [operator.rows.focals for operator in nearest]
        numbers = self.stores.keep_focals(np.concatenate(parts))
        for join in self.joins.values():
            join.index.renumber(numbers)
        for operator in nearest:
            operator.rows.renumber(numbers)
        self._presence.renumber(numbers)
        self._many_focals = max(MANY_FOCALS, 2 * len(self.stores.focals))

    # What is kept

    def contents(self) -> list[tuple[list[str], pa.Table]]:
        """What operators hold that does not follow from objects, by the names of queries."""
        held = TriggerContent(self.triggers).save()
        return self.chains.contents(self.queries.asked) + ([] if held is None else [held])

    def content(self, name: str) -> pa.Table | None:
        """What the operators of one query hold; None if it is not in this cell's column."""
        if name in self.triggers.registered:
            return TriggerContent(self.triggers).of(name)
        number = self.queries.numbers.get(name)
        return None if number is None else self.chains.content(number)

    def next_expiry(self) -> int:
        """The next instant at which something happens, if nothing else does."""
        return min(self.chains.next_expiry(), self.triggers.next_expiry())

    def knowledge(self, number: int) -> Knowledge:
        """What is known about the order of the filters of a query."""
        return self._order.knowledge(number)
