"""Windows: the readings of the last time, or the last so many of each query (PLACE, section 4).

A reading that lies in a query's region enters at its instant. It leaves when its time is over, or
when so many others have come that it is one too much. What enters and leaves at one instant was
never there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from place.engine.columns import Dictionary
from place.engine.flow import Flow
from place.engine.operators.contract import NEVER, Span
from place.engine.readings import END, QUERY, READING, Readings
from place.kernels.arrays import Bools, Longs
from place.model.clock import ceil_all
from place.model.schema import Column, Stream
from place.model.types import Type
from place.plan.query import Window as WindowClause


class Window:
    """The windows of all queries of one shape."""

    name = "choose"

    def __init__(
        self,
        clause: WindowClause,
        stream: Stream,
        columns: Sequence[tuple[Column, ...] | None],
        ranks: tuple[Column, ...],
        dictionary: Dictionary,
    ) -> None:
        self._clause = clause
        self._stream = stream
        self._dictionary = dictionary
        self._held = Readings(columns, ranks, dictionary)
        self._begun: list[int] = []
        self._ended: list[int] = []

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins with what its window holds already."""
        if content is not None and content.num_rows:
            self._held.load(_of_query(content, query))
            self._begun.append(query)

    def end(self, query: int) -> None:
        """A query ends; what its window holds leaves."""
        self._ended.append(query)

    def save(self) -> pa.Table | None:
        """All readings that are held."""
        return self._held.save()

    def next_expiry(self) -> int:
        """The next instant at which a reading leaves, if nothing else happens."""
        return NEVER if self._clause.duration is None else self._held.next_end()

    def take(self, flow: Flow, span: Span) -> Flow:
        """Take the readings that come, and let go of those that are over or too many."""
        parts = [Flow.of_marks(flow.marks)]
        if self._begun:  # by their numbers: entries move where others are loaded
            held = self._held.held()
            new = held[np.isin(self._held.fact(QUERY, held), self._begun)]
            parts.append(self._held.flow(new, np.full(len(new), span.until), 1))
            self._begun = []
        if self._ended:
            held = self._held.held()
            gone = held[np.isin(self._held.fact(QUERY, held), self._ended)]
            parts.append(self._held.flow(gone, np.full(len(gone), span.until), -1))
            self._held.remove(gone)
            self._ended = []
        if self._clause.duration is not None:
            parts += self._slide(flow, span.until)
        elif len(flow):
            parts += self._push(flow)
        return Flow.joined(parts)

    def _slide(self, flow: Flow, until: int) -> list[Flow]:
        """Readings of the last time."""
        found: list[Flow] = []
        if len(flow):
            assert flow.ranks is not None
            assert self._clause.duration is not None
            times = flow.ranks.values[0]
            ends = ceil_all(times + self._clause.duration, self._stream.evaluate)
            kept = np.flatnonzero(ends > flow.instants)
            flow = flow.take(kept)
            self._held.add(flow, ends[kept], _numbered(flow))
            found.append(flow)
        over = self._held.expired(until)
        found.append(self._held.flow(over, self._held.fact(END, over), -1))
        self._held.remove(over)
        return found

    def _push(self, flow: Flow) -> list[Flow]:
        """The last so many readings, in the order of their times and keys."""
        assert flow.ranks is not None
        assert self._clause.rows is not None
        keys = flow.ranks.values[1]
        if flow.ranks.columns[1].type is Type.STRING:
            keys = self._dictionary.ranks()[keys]
        flow = flow.take(np.lexsort((keys, flow.ranks.values[0], flow.instants)))
        new = self._held.add(flow, np.full(len(flow), NEVER), _numbered(flow))
        held = self._held.held()
        mine = held[np.isin(self._held.fact(QUERY, held), flow.queries)]
        came = np.full(len(mine), -NEVER)
        came[len(mine) - len(new) :] = flow.instants
        order = np.argsort(self._held.fact(QUERY, mine), kind="stable")
        mine, came = mine[order], came[order]
        leaves = _overtaken(
            self._held.fact(QUERY, mine), self._held.fact(READING, mine), came, self._clause.rows
        )
        is_over = leaves < NEVER
        shown = is_over & (came < leaves)  # what leaves as it comes was never there
        over = np.flatnonzero(shown)
        found = [self._held.flow(mine[over], leaves[over], -1)]
        hidden = np.isin(new, mine[is_over & ~shown])
        found.append(flow.take(np.flatnonzero(~hidden)))
        self._held.remove(mine[is_over])
        return found


def _of_query(content: pa.Table, query: int) -> pa.Table:
    """What was saved of one query, which has this number now."""
    return content.set_column(0, "0", pa.array(np.full(content.num_rows, query, np.int64)))


def _numbered(flow: Flow) -> Longs:
    """Readings that stand together, numbered from 0 on."""
    assert flow.readings is not None
    if not len(flow):
        return flow.readings
    fresh: Bools = np.zeros(len(flow), np.bool_)
    fresh[1:] = flow.readings[1:] != flow.readings[:-1]
    return np.cumsum(fresh)


def _overtaken(queries: Longs, readings: Longs, came: Longs, most: int) -> Longs:
    """The instants at which entries, in the order of queries and readings, are one too much."""
    count = len(queries)
    fresh = np.ones(count, np.bool_)
    fresh[1:] = (queries[1:] != queries[:-1]) | (readings[1:] != readings[:-1])
    starts = np.flatnonzero(fresh)
    number = np.cumsum(fresh) - 1
    following = np.arange(len(starts)) + most
    leaves = np.full(len(starts), NEVER)
    there = np.flatnonzero(following < len(starts))
    same = queries[starts[following[there]]] == queries[starts[there]]
    there = there[same]
    leaves[there] = came[starts[following[there]]]
    found: Longs = leaves[number]
    return found
