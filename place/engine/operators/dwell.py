"""`INSIDE … FOR '5 minutes'`: objects that were in the region at all instants of the last time.

A stay begins at the instant at which an object comes into the region, and ends at the one at which
it leaves or is gone; a row that changes meanwhile belongs to the same stay. A row is in the answer
from the instant on at which its stay is long enough, which time alone may bring.

`INSIDE … LEAVE BEYOND 50` counts stays within 50 of the region, and a row is in the answer from the
instant on at which its object first lay in the region itself. `INSIDE … CONFIRM 3 READINGS` counts
readings: a row is in the answer while the last three in a row that agreed lay in the region.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns
from place.engine.flow import Flow, Sources
from place.engine.held_stays import HeldStays, Stays
from place.engine.objects import Objects
from place.engine.operator_specs import DwellSpec
from place.engine.operators.contract import NEVER, Parameters
from place.engine.tick import Tick
from place.engine.vector import holds
from place.kernels.arrays import Bools, Longs
from place.model.clock import ceil_all
from place.model.schema import Stream

NO_IDS = np.empty(0, np.int64)
SLOT_BITS = 32


class Dwell:
    """The stays of all queries of one shape."""

    name = "dwell"

    def __init__(self, store: Objects, spec: DwellSpec, parameters: Parameters) -> None:
        self._store = store
        assert isinstance(store.relation, Stream)
        self._stream = store.relation
        self._duration = spec.duration
        self._is_standing = spec.is_standing
        self._entered = spec.entered
        self._confirm = spec.confirm
        self._parameters = parameters
        self._held = HeldStays()
        self._begun: dict[int, pa.Table | None] = {}

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins, with stays that are known already."""
        self._begun[query] = content

    def end(self, query: int) -> None:
        """A query ends; its rows leave as all others do."""

    def next_expiry(self) -> int:
        """The next instant at which a stay becomes long enough."""
        return self._held.next_due()

    def save(self) -> pa.Table | None:
        """All stays that last: the query, the key of the object, since when, and whether shown."""
        held = self._held.all()
        if not len(held):
            return None
        key = self._store.relation.key
        assert key is not None
        arrays = [
            pa.array(held.ids >> SLOT_BITS),
            self._store.columns.array(key, _slots(held.ids)),
            pa.array(held.since),
            pa.array(held.shown),
        ]
        return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    def take(self, flow: Flow, tick: Tick) -> Flow:
        """Take who comes and leaves, and tell of whom stays long enough."""
        if not len(flow):
            self._begun.clear()
            if self.next_expiry() > tick.until:
                return Flow.of_marks(flow.marks)
        events, before = self._events(flow, tick.until)
        # What leaves at an instant stands before what comes at it.
        order = np.lexsort((events.weights > 0, events.instants, events.ids))
        ids, instants = events.ids[order], events.instants[order]
        comes = events.weights[order] > 0
        same = np.zeros(len(ids), np.bool_)
        same[1:] = ids[1:] == ids[:-1]
        ends = np.full(len(ids), NEVER)
        ends[:-1][same[1:]] = instants[1:][same[1:]]
        goes_on = np.zeros(len(ids), np.bool_)
        goes_on[1:] = same[1:] & ~comes[:-1] & (instants[1:] == instants[:-1])
        goes_on[2:] &= same[1:-1]  # what was not worth holding begins anew
        goes_on[1:2] = False
        rows = np.flatnonzero(comes)
        chosen = order[rows]
        first = np.maximum.accumulate(np.where(goes_on[rows], 0, np.arange(len(rows))))
        since = events.since[chosen][first]
        shown = events.shown[chosen]
        at, end = instants[rows], ends[rows]
        if self._confirm is not None:
            confirmed, since = self._confirmed(events, chosen, first)
            visible = np.where(confirmed, at, NEVER)
        elif self._entered is None:
            visible = np.maximum(at, np.where(events.at_once[chosen], at, self._due(since)))
        else:
            came = shown | events.at_once[chosen] | self._lies(events)[chosen]
            last = np.maximum.accumulate(np.where(came, np.arange(len(rows)), -1))
            visible = np.where(last >= first, at, NEVER)
        joins = ~shown & (visible < end) & (visible <= tick.until)
        leaves = (shown | joins) & (end < NEVER)
        stays = np.flatnonzero((end == NEVER) & self._matters(shown | joins, events, chosen))
        after = Stays(
            ids[rows[stays]],
            since[stays],
            (shown | joins)[stays],
            _taken(events.sources, chosen[stays]),
        )
        self._held.replace(before, after, self._due(after.since) if self._entered is None else None)
        come, go = np.flatnonzero(joins), np.flatnonzero(leaves)
        told = np.concatenate([go, come])
        found = Flow(
            ids[rows[told]] >> SLOT_BITS,
            np.concatenate([end[go], visible[come]]),
            np.concatenate([np.full(len(go), -1), np.ones(len(come), np.int64)]),
            _taken(events.sources, chosen[told]),
            marks=flow.marks,
            slots=_slots(ids[rows[told]]),
        )
        return found.in_order()

    def _confirmed(
        self, events: _ComingsAndGoings, chosen: Longs, first: Longs
    ) -> tuple[Bools, Longs]:
        """Which rows are in the answer by what so many readings in a row say, and how many agree.

        Rows are in the order of objects and instants; `first` is where the life of each begins.
        What is known from before comes with the number of readings that agreed by then.
        """
        assert self._confirm is not None
        inside, known = self._lies(events)[chosen], events.since[chosen]
        places = np.arange(len(chosen))
        begins = (places == first) | (known > 0)
        begins[1:] |= inside[1:] != inside[:-1]
        start = np.maximum.accumulate(np.where(begins, places, 0))
        run = places - start + 1 + np.maximum(known[start] - 1, 0)
        said = np.where(known > 0, events.shown[chosen] | events.at_once[chosen], inside)
        decides = (known > 0) | (run >= self._confirm)
        last = np.maximum.accumulate(np.where(decides, places, -1))
        return (last >= first) & said[last], run

    def _matters(self, shown: Bools, events: _ComingsAndGoings, chosen: Longs) -> Bools:
        """Which rows have to be held. Where readings count, an object that is neither in the answer
        nor in the region is as if nothing had been heard of it."""
        if self._confirm is None:
            return np.ones(len(chosen), np.bool_)
        return shown | self._lies(events)[chosen]

    def _lies(self, events: _ComingsAndGoings) -> Bools:
        """Which rows are of objects that lie in the region itself, and not only near it."""
        assert self._entered is not None
        dictionary = self._store.columns.dictionary
        queries = events.ids >> SLOT_BITS
        sources = self._parameters.beside_queries(events.sources, queries)
        return holds(self._entered, sources, len(events.ids), dictionary)

    def _due(self, since: Longs) -> Longs:
        """When stays that began then are long enough."""
        return ceil_all(since + self._duration, self._stream.evaluate)

    def _events(self, flow: Flow, until: int) -> tuple[_ComingsAndGoings, Stays]:
        """What is held of those that come and leave, and of those that are due; then what comes
        and leaves. And what is held of them."""
        count = len(flow)
        ids = NO_IDS
        if count:
            assert flow.slots is not None
            ids = (flow.queries.astype(np.int64) << SLOT_BITS) | flow.slots
        since, at_once = flow.instants.astype(np.int64), np.zeros(count, np.bool_)
        if self._confirm is not None:
            since = np.zeros(count, np.int64)
        if self._begun and count:
            since, at_once = self._known(flow, since, at_once)
        self._begun.clear()
        weights, instants = flow.weights.astype(np.int64), flow.instants.astype(np.int64)
        held = self._held.touched(ids, until)
        if not len(held):
            shown = np.zeros(count, np.bool_)
            parts = (ids, instants, weights, since, shown, at_once, flow.sources)
            return _ComingsAndGoings(*parts), held
        many = len(held)
        sources = held.sources if not count else _joined(held.sources, flow.sources)
        found = _ComingsAndGoings(
            np.concatenate([held.ids, ids]),
            np.concatenate([np.full(many, -NEVER), instants]),
            np.concatenate([np.ones(many, np.int64), weights]),
            np.concatenate([held.since, since]),
            np.concatenate([held.shown, np.zeros(count, np.bool_)]),
            np.concatenate([np.zeros(many, np.bool_), at_once]),
            sources,
        )
        return found, held

    def _known(self, flow: Flow, since: Longs, at_once: Bools) -> tuple[Longs, Bools]:
        """Since when those stays last with which queries begin, and which are shown at once.

        An object is in a region that stays at least since its last reading.
        """
        assert flow.slots is not None
        for query, content in self._begun.items():
            mine = np.flatnonzero((flow.queries == query) & (flow.weights > 0))
            slots = flow.slots[mine]
            if self._is_standing and self._confirm is None:
                told = ceil_all(self._store.times[slots], self._stream.evaluate)
                since[mine] = np.minimum(since[mine], told)
            if content is None or not content.num_rows:
                continue
            key = self._stream.columns[self._stream.key or 0]
            keys = Columns.from_arrow((key,), self._store.columns.dictionary, [content.column(1)])
            known = self._store.find_all(keys.values[0].astype(np.int64))
            order = np.argsort(known, kind="stable")
            place = np.minimum(np.searchsorted(known[order], slots), len(order) - 1)
            there = known[order[place]] == slots
            rows = order[place[there]]
            since[mine[there]] = content.column(2).to_numpy()[rows]
            at_once[mine[there]] = content.column(3).to_numpy(zero_copy_only=False)[rows]
        return since, at_once


@dataclass(frozen=True)
class _ComingsAndGoings:
    """Rows that come and leave; those that were there before come first of all."""

    ids: Longs
    instants: Longs
    weights: Longs
    since: Longs
    shown: Bools
    at_once: Bools
    sources: Sources


def _slots(ids: Longs) -> Longs:
    return ids & ((1 << SLOT_BITS) - 1)


def _taken(sources: Sources, chosen: Longs) -> Sources:
    return tuple(None if rows is None else rows.take(chosen) for rows in sources)


def _joined(one: Sources, other: Sources) -> Sources:
    return tuple(
        None if a is None or b is None else Columns.joined([a, b])
        for a, b in zip(one, other, strict=True)
    )
