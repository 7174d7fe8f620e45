"""GROUP BY over rows that come and go: the row of a group is replaced when it changes.

What an aggregate is worth does not depend on how its rows came to be there: it is what
`place.plan.evaluate.aggregate` says of them, to the last bit. Groups of many queries are kept
together, since the number of a query is a part of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.engine.accumulate import Counts, Extremes, Known, Slots, Sums, TextOrder, Values
from place.engine.columns import DTYPES, Dictionary, Vector
from place.engine.flow import Flow, Sources
from place.engine.multiset import MASK, as_numbers, longer, pack, width_of
from place.engine.operators.contract import Parameters, Span, Stateless
from place.engine.vector import as_columns, evaluate_all, holds
from place.kernels.arrays import Bools, Longs
from place.kernels.segments import Segments, replace_rows, sort_into_segments
from place.model.schema import Column
from place.model.types import Type
from place.plan.expression import Aggregate, Expression, show, show_aggregate

NO_NULLS = np.zeros(1, np.bool_)


class _Entries(NamedTuple):
    """Rows, and marks where they matter, sorted by group and instant.

    `places` says where each entry stands among the rows, marks after all rows. The `weights` of
    marks are 0, as are the `signs` of rows. There are `size` slots of groups.
    """

    segments: Segments
    places: Longs
    weights: Longs
    signs: Longs
    size: int


class Group(Stateless):
    """Groups of rows and their aggregates, exact also when rows are taken back.

    A group has a row while it has rows; the only group of an aggregate without GROUP BY has one
    while its query is marked. All that is kept comes and goes with rows and marks, so that nothing
    is to be done when a query begins or ends.
    """

    name = "group"

    def __init__(
        self,
        keys: tuple[Expression, ...],
        aggregates: tuple[Aggregate, ...],
        having: Expression | None,
        width: int,
        parameters: Parameters,
        dictionary: Dictionary,
    ) -> None:
        """`width` is how many sources there are; rows of groups take the place of the first."""
        self._keys = keys
        self._having = having
        self._others = (None,) * (width - 1)
        self._parameters = parameters
        self._dictionary = dictionary
        self._key_types = [Type.BIGINT, *(key.type for key in keys)]
        self._types = [aggregate.type for aggregate in aggregates]
        self.columns = (
            *(Column(show(key), key.type) for key in keys),
            *(Column(show_aggregate(aggregate), aggregate.type) for aggregate in aggregates),
        )
        self._groups = Slots(width_of(1 + len(keys)))
        self._rows = Counts()
        self._marked = Counts()
        self._shown = np.zeros((8, width_of(len(aggregates))), np.int64)
        self._aggregates = aggregates
        self._arguments: dict[Expression, _Argument] = {}
        order = TextOrder(dictionary)
        for aggregate in aggregates:
            if aggregate.argument is not None:
                new = _Argument(aggregate.argument, order)
                self._arguments.setdefault(aggregate.argument, new).serve(aggregate)

    def take(self, flow: Flow, span: Span) -> Flow:
        """The rows that groups had before an instant (−1) and that they have after it (+1)."""
        if not len(flow) and (self._keys or not len(flow.marks)):
            return Flow.of_marks(flow.marks)
        sources = self._parameters.beside(flow) if len(flow) else ()
        entries = self._sorted(flow, sources)
        segments = entries.segments
        was, present, counts = self._count(entries)
        known = _stacked(self._evaluate(flow, sources, entries, counts), len(counts))
        self._shown = longer(self._shown, entries.size)
        rows, signs, changed = replace_rows(
            self._shown, segments.slots, segments.moments, known, was, present
        )
        slots, instants = segments.slots[changed], segments.instants[changed]
        result = self._told(flow, slots, instants, signs, rows)
        self._compact()
        return result

    def _sorted(self, flow: Flow, sources: Sources) -> _Entries:
        """The entries of a flow, each at the slot of its group.

        Kernels get copies of the flow's arrays: for arrays that are read-only, they would be
        compiled once more.
        """
        queries, weights = flow.queries, np.array(flow.weights, np.int64)
        instants = np.array(flow.instants, np.int64)
        touching, signs, merged = weights, np.zeros(len(weights), np.int64), None
        if not self._keys and len(flow.marks):
            marks = flow.marks
            instants = np.concatenate([instants, marks.instants])
            merged = np.argsort(instants, kind="stable")
            instants = instants[merged]
            queries = np.concatenate([queries, marks.queries])[merged]
            none = np.zeros(len(marks), np.int64)
            weights = np.concatenate([weights, none])[merged]
            signs = np.concatenate([signs, marks.signs])[merged]
            touching = weights | signs
        keys = [evaluate_all(key, sources, len(flow), self._dictionary) for key in self._keys]
        packed = pack([Vector(queries, NO_NULLS), *keys], len(queries))
        slots = self._groups.find(packed, touching)
        segments = sort_into_segments(slots, instants, self._groups.used)
        order = segments.order
        places = order if merged is None else merged[order]
        return _Entries(segments, places, weights[order], signs[order], self._groups.used)

    def _count(self, entries: _Entries) -> tuple[Bools, Bools, Longs]:
        """Whether groups have a row before each segment and after it, and how many rows then."""
        segments = entries.segments
        before, now = self._rows.run(segments, entries.weights, entries.size)
        if self._keys:
            self._groups.settle(segments.slots, before, now)
            return before > 0, now > 0, now
        was, marked = self._marked.run(segments, entries.signs, entries.size)
        self._groups.settle(segments.slots, before | was, now | marked)
        return was > 0, marked > 0, now

    def _evaluate(
        self, flow: Flow, sources: Sources, entries: _Entries, counts: Longs
    ) -> list[Known]:
        """What the aggregates are worth after each segment, given the counts of rows then."""
        known = {}
        for expression, argument in self._arguments.items():
            vector = None
            if len(flow):
                vector = evaluate_all(expression, sources, len(flow), self._dictionary)
            known[expression] = argument.run(entries, vector)
        return [
            Known(counts, None)
            if aggregate.argument is None
            else known[aggregate.argument][_kind_of(aggregate)]
            for aggregate in self._aggregates
        ]

    def _told(self, flow: Flow, slots: Longs, instants: Longs, signs: Longs, rows: Longs) -> Flow:
        """Signed rows, given by slots of groups and by aggregates, of which HAVING keeps some."""
        if not len(slots):
            return Flow.of_marks(flow.marks)
        keys = np.ascontiguousarray(self._groups.rows[slots].T)
        _, *vectors = _vectors(keys, self._key_types)
        vectors += _vectors(rows, self._types)
        columns = as_columns(self.columns, vectors, self._dictionary)
        sources = (columns, *self._others)
        made = Flow(keys[0], instants, signs, sources, None, flow.marks)
        if self._having is None:
            return made
        kept = holds(self._having, self._parameters.beside(made), len(made), self._dictionary)
        return made.take(np.flatnonzero(kept))

    def _compact(self) -> None:
        """Forget groups that are gone, if they are many."""
        size = self._groups.used
        kept = self._groups.compact()
        if kept is None:
            return
        self._rows.keep(kept)
        if not self._keys:
            self._marked.keep(kept)
        self._shown = longer(self._shown[kept], 8)
        for argument in self._arguments.values():
            argument.keep(kept, size)


def _stacked(known: Sequence[Known], size: int) -> Longs:
    """Aggregates by columns, and after these their NULLs, as `pack` has them in rows."""
    stacked = np.zeros((width_of(len(known)), size), np.int64)
    for i, (numbers, nulls) in enumerate(known):
        stacked[i] = numbers
        if nulls is not None and nulls.any():
            stacked[len(known) + i // MASK] |= nulls.astype(np.int64) << (i % MASK)
    return stacked


def _vectors(packed: Longs, kinds: Sequence[Type]) -> list[Vector]:
    """The columns of packed rows that are given by columns."""
    vectors = []
    some_null = packed[len(kinds) :].any()
    for i, kind in enumerate(kinds):
        nulls = np.zeros(packed.shape[1], np.bool_)
        if some_null:
            nulls = (packed[len(kinds) + i // MASK] >> (i % MASK) & 1).astype(np.bool_)
        if kind is Type.DOUBLE:
            values: NDArray[Any] = packed[i].view(np.float64)
        else:
            values = packed[i].astype(DTYPES[kind], copy=False)
        vectors.append(Vector(values, nulls))
    return vectors


_Kind = tuple[str, bool]
"""A function of an argument: its name, and whether it is one of the different values alone."""


def _kind_of(aggregate: Aggregate) -> _Kind:
    is_extreme = aggregate.function in ("MIN", "MAX")
    return aggregate.function, aggregate.distinct and not is_extreme


class _Argument:
    """What the aggregates of one argument need: of all its values, or of the different ones."""

    def __init__(self, expression: Expression, order: TextOrder) -> None:
        self._type = expression.type
        self._order = order
        self._counts: dict[bool, Counts] = {}
        self._sums: dict[bool, Sums] = {}
        self._values: Values | None = None
        self._extremes: dict[str, Extremes] = {}

    def serve(self, aggregate: Aggregate) -> None:
        """Also keep what this aggregate needs."""
        name, distinct = _kind_of(aggregate)
        if name in ("MIN", "MAX"):
            self._values = self._values or Values()
            self._extremes[name] = Extremes(
                self._values, self._type, self._order, greatest=name == "MAX"
            )
            return
        if distinct:
            self._values = self._values or Values()
        self._counts.setdefault(distinct, Counts())
        if name != "COUNT":
            is_double, is_interval = self._type is Type.DOUBLE, self._type is Type.INTERVAL
            self._sums.setdefault(distinct, Sums(is_double, is_interval))

    def run(self, entries: _Entries, vector: Vector | None) -> dict[_Kind, Known]:
        """Add the values of entries, None if none is a row: all functions after each segment."""
        segments, weights, size = entries.segments, entries.weights, entries.size
        numbers = np.zeros(len(weights), np.int64)
        if vector is not None:
            # A mark gets the value of the last row, which does not matter, for it has no weight.
            numbers = as_numbers(vector.values).take(entries.places, mode="clip")
            if vector.nulls.any():
                nulls = vector.nulls.take(entries.places, mode="clip")
                weights = np.where(nulls, 0, weights)
        known: dict[_Kind, Known] = {}
        self._fold(False, segments, numbers, weights, size, known)
        if self._values is not None:
            items, signs = self._values.run(segments, numbers, weights)
            self._fold(True, segments, numbers, signs, size, known)
            for name, extremes in self._extremes.items():
                known[name, False] = extremes.run(segments, numbers, items, signs, size)
            if self._values.compact() is not None:
                self._start_again(size)
        return known

    def _fold(
        self,
        distinct: bool,
        segments: Segments,
        numbers: Longs,
        weights: Longs,
        size: int,
        known: dict[_Kind, Known],
    ) -> None:
        if distinct not in self._counts:
            return
        _, counts = self._counts[distinct].run(segments, weights, size)
        known["COUNT", distinct] = Known(counts, None)
        if distinct in self._sums:
            total, mean = self._sums[distinct].run(segments, numbers, weights, counts, size)
            known["SUM", distinct], known["AVG", distinct] = total, mean

    def _start_again(self, size: int) -> None:
        for extremes in self._extremes.values():
            extremes.start_again(size)

    def keep(self, kept: Longs, size: int) -> None:
        """Of `size` groups those at these slots are kept, and get new numbers."""
        for counts in self._counts.values():
            counts.keep(kept)
        for sums in self._sums.values():
            sums.keep(kept)
        if self._values is not None:
            self._values.renumber(kept, size)
            self._start_again(len(kept))
