"""The first of the rows that several cells have chosen: the nearest objects, or the latest
readings.

Each cell sends the first of its own rows, with the ranks by which it chose them. The first of all
rows are among those, and can be chosen only where the rows of all cells are known together.
"""

from __future__ import annotations

import numpy as np

from place.engine.accumulate import Slots, TextOrder, ascending
from place.engine.columns import Columns, Dictionary, Vector
from place.engine.flow import Flow, Sources
from place.engine.multiset import as_numbers, longer, pack, unpack, width_of
from place.engine.operators.contract import Span, Stateless
from place.engine.vector import as_columns
from place.kernels.arrays import Longs
from place.kernels.ranked_rows import FIRST, ITEM, NEXT, WANTED, choose_first, link_items
from place.kernels.segments import negative_first, sort_into_segments
from place.model.schema import Column
from place.model.types import Type

NO_NULLS = np.zeros(1, np.bool_)


class First(Stateless):
    """The rows of the n first ranks of each query, of all rows that cells have sent.

    Ranks are (measure, key, number), the smallest first, or (time, key), the largest first. All
    rows of one rank are of one object, or one reading: they go together and count once. All that is
    kept comes and goes with rows, so that nothing is to be done when a query begins or ends.
    """

    name = "first"

    def __init__(self, latest: bool, dictionary: Dictionary) -> None:
        self._latest = latest
        self._dictionary = dictionary
        self._texts = TextOrder(dictionary)
        self._version = self._texts.version
        self._by_query = np.zeros((8, 3), np.int64)
        self._schemas: list[tuple[Column, ...] | None] | None = None

    def _start(self, flow: Flow, ranks: Columns) -> None:
        """Make room for rows, and ranks, of the columns that a flow has."""
        self._schemas = [None if rows is None else rows.columns for rows in flow.sources]
        columns = [column for schema in self._schemas for column in schema or ()]
        self._kinds = [Type.BIGINT, *(column.type for column in columns)]
        self._ranks = Slots(width_of(1 + len(ranks.columns)))
        self._rows = Slots(width_of(1 + len(columns)))
        self._items = Slots(2)
        self._orders = np.zeros((8, 2 * len(ranks.columns)), np.int64)
        self._by_rank = np.zeros((8, 4), np.int64)
        self._by_item = np.zeros((8, 2), np.int64)
        self._by_row = np.zeros((8, 2), np.int64)

    @property
    def kept(self) -> int:
        """How many rows are kept to choose from."""
        return 0 if self._schemas is None else self._items.live

    def put(self, query: int, count: int) -> None:
        """Keep how many a query wants."""
        self._by_query = longer(self._by_query, query + 1)
        self._by_query[query, WANTED] = count

    def put_all(self, queries: Longs, counts: Longs) -> None:
        """Keep how many each of several queries wants."""
        self._by_query = longer(self._by_query, int(queries.max()) + 1)
        self._by_query[queries, WANTED] = counts

    def take(self, flow: Flow, span: Span) -> Flow:
        """The rows that after an instant are among the first (positive weights) or no more."""
        if not flow.weights.all():
            flow = flow.take(np.flatnonzero(flow.weights))
        if not len(flow):
            return Flow.of_marks(flow.marks)
        assert flow.ranks is not None, "rows to choose from have ranks"
        if self._schemas is None:
            self._start(flow, flow.ranks)
        queries, weights = np.array(flow.queries, np.int64), np.array(flow.weights, np.int64)
        items = self._find(flow, flow.ranks, queries, weights)
        size = int(queries.max()) + 1
        self._by_query = longer(self._by_query, size)
        segments = sort_into_segments(queries, np.array(flow.instants, np.int64), size)
        order = segments.order
        rows, changes, when, more = choose_first(
            self._orders,
            self._by_query,
            self._by_rank,
            self._by_item,
            self._by_row,
            self._items.counts,
            self._items.rows,
            segments.slots,
            segments.starts,
            items[order],
            weights[order],
        )
        self._items.hold(more)
        order = negative_first(segments.moments[when], changes)
        when = when[order]
        sources = self._unpacked(self._rows.rows[rows[order]])
        self._compact()
        queries, instants = segments.slots[when], segments.instants[when]
        return Flow(queries, instants, changes[order], sources, None, flow.marks)

    def _find(self, flow: Flow, ranks: Columns, queries: Longs, weights: Longs) -> Longs:
        """The item of each row: the pair of its rank and of itself."""
        query = Vector(queries, NO_NULLS)
        of_rank = self._ranks.find(pack([query, *_vectors(ranks)], len(flow)), weights)
        sides = [vector for rows in flow.sources for vector in _vectors(rows)]
        of_row = self._rows.find(pack([query, *sides], len(flow)), weights)
        known = self._items.used
        items = self._items.find(np.stack([of_rank, of_row], axis=1), weights)
        self._by_rank = longer(self._by_rank, self._ranks.used)
        self._by_item = longer(self._by_item, self._items.used)
        self._by_row = longer(self._by_row, self._rows.used)
        link_items(self._items.rows, self._by_rank, self._by_item, known, self._items.used)
        self._place(ranks, of_rank)
        return items

    def _place(self, ranks: Columns, slots: Longs) -> None:
        """Keep what ranks are compared by: for each column whether it is NULL, and a number."""
        self._orders = longer(self._orders, self._ranks.used)
        flip = -1 if self._latest else 0
        for i, (column, vector) in enumerate(zip(ranks.columns, _vectors(ranks), strict=True)):
            there = np.flatnonzero(~vector.nulls)
            numbers = as_numbers(vector.values)[there]
            if column.type is Type.STRING:
                numbers = self._texts.ranks(numbers)
            elif column.type is Type.DOUBLE:
                numbers = ascending(numbers)
            self._orders[slots, 2 * i] = ~vector.nulls ^ flip
            self._orders[slots[there], 2 * i + 1] = numbers ^ flip
        if self._version != self._texts.version:
            self._version = self._texts.version
            self._place_texts(ranks.columns, flip)

    def _place_texts(self, columns: tuple[Column, ...], flip: int) -> None:
        """All texts have other ranks than they had."""
        for i, column in enumerate(columns):
            if column.type is Type.STRING:
                there = np.flatnonzero(self._orders[: self._ranks.used, 2 * i] == (1 ^ flip))
                codes = self._ranks.rows[there, 1 + i]
                self._orders[there, 2 * i + 1] = self._texts.known(codes) ^ flip

    def _unpacked(self, packed: Longs) -> Sources:
        """The rows of each source, of rows that were packed together."""
        assert self._schemas is not None
        _, *vectors = unpack(packed, self._kinds)
        sources: list[Columns | None] = []
        for schema in self._schemas:
            if schema is None:
                sources.append(None)
                continue
            mine, vectors = vectors[: len(schema)], vectors[len(schema) :]
            sources.append(as_columns(schema, mine, self._dictionary))
        return tuple(sources)

    def _compact(self) -> None:
        """Forget items, ranks and rows that are gone, if they are many."""
        kept = self._items.compact()
        if kept is None:
            return
        used = self._items.used
        pairs = self._items.rows[:used]
        ranks, pairs[:, 0] = np.unique(pairs[:, 0], return_inverse=True)
        rows, pairs[:, 1] = np.unique(pairs[:, 1], return_inverse=True)
        self._items.keep(np.arange(used))
        self._rows.keep(rows)
        self._by_row = np.zeros((max(len(rows), 8), 2), np.int64)
        links = np.zeros(self._ranks.used + 1, np.int64)
        links[ranks + 1] = np.arange(1, len(ranks) + 1)
        self._ranks.keep(ranks)
        self._orders = longer(self._orders[ranks], 8)
        self._by_query[:, FIRST] = links[self._by_query[:, FIRST]]
        self._by_rank = longer(self._by_rank[ranks], 8)
        self._by_rank[:, NEXT] = links[self._by_rank[:, NEXT]]
        self._by_rank[:, ITEM] = 0
        self._by_item = longer(self._by_item[kept], 8)
        link_items(self._items.rows, self._by_rank, self._by_item, 0, used)


def _vectors(rows: Columns | None) -> list[Vector]:
    if rows is None:
        return []
    return [Vector(values, nulls) for values, nulls in zip(rows.values, rows.nulls, strict=True)]
