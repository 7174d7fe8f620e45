"""GROUP BY over rows that come and go: the row of a group is replaced when it changes.

What an aggregate is worth does not depend on how its rows came to be there: it is what
`place.plan.evaluate.aggregate` says of them, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from place.engine.accumulate import Counts, Extremes, Sums, TextOrder, Values
from place.engine.columns import Columns, Dictionary
from place.engine.multiset import Multiset, as_numbers, longer, pack, unpack, width_of
from place.engine.vector import Vector, as_columns, evaluate_all
from place.model.schema import Column
from place.model.types import Type
from place.plan.evaluate import round_half_even
from place.plan.expression import Aggregate, Expression, show, show_aggregate
from place.plan.query import Query

Numbers = NDArray[np.int64]
Weights = NDArray[np.int64]

NONE = np.empty(0, np.int64)
ONCE = np.ones(1, np.int64)
EXACT = 2**53
"""The whole numbers up to this one are DOUBLEs."""


class Aggregates:
    """Groups of rows and what is known of each, exact also when rows are taken back."""

    def __init__(self, query: Query, dictionary: Dictionary) -> None:
        assert query.groups is not None, f"{query.name} has no groups"
        self._keys = query.groups
        self._aggregates = query.aggregates
        self._dictionary = dictionary
        keys = [Column(show(key), key.type) for key in query.groups]
        self.columns = (*keys, *(Column(show_aggregate(a), a.type) for a in query.aggregates))
        self._start()

    def _start(self) -> None:
        self._groups = Multiset(width_of(len(self._keys)))
        self._shown = np.zeros((8, width_of(len(self._aggregates))), np.int64)
        self._begun = False
        order = TextOrder(self._dictionary)
        arguments: dict[Expression, _Argument] = {}
        self._readers: list[tuple[Aggregate, _Argument | None]] = []
        for aggregate in self._aggregates:
            argument = None
            if aggregate.argument is not None:
                new = _Argument(aggregate.argument, order)
                argument = arguments.setdefault(aggregate.argument, new)
                argument.serve(aggregate)
            self._readers.append((aggregate, argument))
        self._arguments = list(arguments.values())

    def begin(self) -> tuple[Weights, Columns]:
        """What is there before any row: the one group of a query without GROUP BY."""
        if self._keys or self._begun:
            return self._rows(NONE, self._shown[NONE], NONE, self._shown[NONE])
        nothing = np.empty((1, 0), np.int64)
        self._groups.add(nothing, ONCE)
        group = self._groups.add(nothing, -ONCE).touched
        self._begun = True
        self._shown[group] = self._known(group)
        return self._rows(NONE, self._shown[NONE], group, self._shown[group])

    def end(self) -> tuple[Weights, Columns]:
        """Take back the rows of all groups, and forget them."""
        counts = self._groups.counts[: self._groups.used]
        there = np.flatnonzero(counts > 0) if self._keys else np.arange(len(counts))
        gone = self._rows(there, self._shown[there], NONE, self._shown[NONE])
        self._start()
        return gone

    def update(
        self, sources: Sequence[Columns | None], weights: Weights
    ) -> tuple[Weights, Columns]:
        """Take rows with their weights; the rows that groups had (−1) and have now (+1)."""
        given = np.array(weights, np.int64)
        keys = [evaluate_all(key, sources, len(given), self._dictionary) for key in self._keys]
        slots, _, groups, before, now = self._groups.add(pack(keys, len(given)), given)
        for argument in self._arguments:
            vector = evaluate_all(argument.expression, sources, len(given), self._dictionary)
            counted = np.where(vector.nulls, 0, given) if vector.nulls.any() else given
            argument.add(slots, as_numbers(vector.values), counted, groups, self._groups.used)
        was, there = before > 0, now > 0
        if not self._keys and len(groups):
            was[:], there[:] = self._begun, True
            self._begun = True
        self._shown = longer(self._shown, self._groups.used)
        old, new = self._shown[groups], self._known(groups)
        changed = (was != there) | (old != new).any(axis=1)
        (lost,), (come,) = (was & changed).nonzero(), (there & changed).nonzero()
        self._shown[groups[come]] = new[come]
        result = self._rows(groups[lost], old[lost], groups[come], new[come])
        self._compact()
        return result

    def _known(self, groups: Numbers) -> Numbers:
        """The aggregates of groups, packed."""
        vectors = [
            Vector(self._groups.counts[groups], np.zeros(len(groups), np.bool_))
            if argument is None
            else argument.read(aggregate, groups)
            for aggregate, argument in self._readers
        ]
        return pack(vectors, len(groups))

    def _rows(
        self, lost: Numbers, old: Numbers, come: Numbers, new: Numbers
    ) -> tuple[Weights, Columns]:
        """Signed rows: the keys of groups beside what was, and what is, known of them."""
        signs = np.empty(len(lost) + len(come), np.int64)
        signs[: len(lost)], signs[len(lost) :] = -1, 1
        keys = self._groups.rows[np.concatenate([lost, come])]
        vectors = [
            *unpack(keys, [key.type for key in self._keys]),
            *unpack(np.concatenate([old, new]), [a.type for a in self._aggregates]),
        ]
        return signs, as_columns(self.columns, vectors, self._dictionary)

    def _compact(self) -> None:
        """Forget groups that are gone, if they are many."""
        size = self._groups.used
        kept = self._groups.compact() if self._keys else None
        if kept is not None:
            self._shown = longer(self._shown[kept], 8)
            for argument in self._arguments:
                argument.keep(kept, size)


class _Argument:
    """What the aggregates of one argument need: of all its values, or of the different ones."""

    def __init__(self, expression: Expression, order: TextOrder) -> None:
        self.expression = expression
        self._kind = expression.type
        self._order = order
        self._counts: dict[bool, Counts] = {}
        self._sums: dict[bool, Sums] = {}
        self._values: Values | None = None
        self._extremes: dict[str, Extremes] = {}

    def serve(self, aggregate: Aggregate) -> None:
        """Also keep what this aggregate needs."""
        name, distinct = aggregate.function, aggregate.distinct
        if (distinct or name in ("MIN", "MAX")) and self._values is None:
            self._values = Values()
        if name in ("MIN", "MAX"):
            assert self._values is not None
            self._extremes[name] = Extremes(
                self._values, self._kind, self._order, greatest=name == "MAX"
            )
            return
        self._counts.setdefault(distinct, Counts())
        if name != "COUNT":
            self._sums.setdefault(distinct, Sums(self._kind is Type.DOUBLE))

    def add(
        self, slots: Numbers, numbers: Numbers, weights: Weights, touched: Numbers, size: int
    ) -> None:
        """Add weighted values to groups; `touched` are all of these, and there are `size`."""
        self._fold(False, slots, numbers, weights, touched, size)
        if self._values is None:
            return
        crossed = self._values.change(slots, numbers, weights)
        self._fold(True, crossed.slots, crossed.numbers, crossed.signs, touched, size)
        came = np.flatnonzero(crossed.signs > 0)
        for extremes in self._extremes.values():
            extremes.appear(crossed.items[came], crossed.slots[came], size)
        if self._values.compact() is not None:
            self._start_again(size)

    def _fold(
        self,
        distinct: bool,
        slots: Numbers,
        numbers: Numbers,
        weights: Weights,
        touched: Numbers,
        size: int,
    ) -> None:
        if distinct in self._counts:
            self._counts[distinct].add(slots, weights, size)
        if distinct in self._sums:
            self._sums[distinct].add(slots, numbers, weights, touched, size)

    def _start_again(self, size: int) -> None:
        for extremes in self._extremes.values():
            extremes.start_again(size)

    def keep(self, kept: Numbers, size: int) -> None:
        """Of `size` groups those at these slots are kept, and get new numbers."""
        for counts in self._counts.values():
            counts.keep(kept)
        for sums in self._sums.values():
            sums.keep(kept)
        if self._values is not None:
            self._values.renumber(kept, size)
            self._start_again(len(kept))

    def read(self, aggregate: Aggregate, groups: Numbers) -> Vector:
        """What the aggregate is worth of each group."""
        if aggregate.function in ("MIN", "MAX"):
            return self._extremes[aggregate.function].at(groups)
        counts = self._counts[aggregate.distinct].at(groups)
        if aggregate.function == "COUNT":
            return Vector(counts, np.zeros(len(groups), np.bool_))
        sums = self._sums[aggregate.distinct]
        if self._kind is Type.DOUBLE:
            values = sums.doubles(groups)
            if aggregate.function == "AVG":
                values = values / np.maximum(counts, 1)
            return Vector(values, (counts <= 0) | ~np.isfinite(values))
        if aggregate.function == "AVG":
            return _mean(sums, groups, counts, aggregate.type)
        totals, fits = sums.wholes(groups)
        return Vector(totals, (counts <= 0) | ~fits)


def _mean(sums: Sums, groups: Numbers, counts: Numbers, kind: Type) -> Vector:
    """Means of whole numbers: rounded once, to a DOUBLE or to a microsecond."""
    nulls = counts <= 0
    totals, fits = sums.wholes(groups)
    if kind is Type.INTERVAL:
        values: NDArray[Any] = np.zeros(len(groups), np.int64)
        by_hand = ~nulls
    else:
        values = totals / np.maximum(counts, 1)
        by_hand = ~nulls & (~fits | (totals > EXACT) | (totals < -EXACT))
    for i in np.flatnonzero(by_hand).tolist():
        total, count = sums.exact(int(groups[i])), int(counts[i])
        values[i] = round_half_even(total, count) if kind is Type.INTERVAL else total / count
    return Vector(values, nulls)
