"""From matches to alerts: what is asked of whole matches, which of them are told, and their rows.

Triggers that differ only in constants, or in the rows of their tables, have one shape and are asked
together: their constants are columns of one source more than a match has readings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from place.engine.abstraction import Abstraction
from place.engine.changes import Change
from place.engine.columns import Columns, Dictionary
from place.engine.constraint_ticks import Found
from place.engine.held_readings import HeldReadings
from place.engine.multiset import longer
from place.engine.operators.contract import Parameters
from place.engine.trigger_silence import Silence
from place.engine.vector import as_columns, evaluate_all, holds
from place.kernels.arrays import Bools, Longs
from place.kernels.match_order import order_runs
from place.model.schema import Column as Field
from place.model.types import Row, Type
from place.plan.expression import Column, Expression, columns_of, substitute
from place.plan.query import Query
from place.plan.trigger import Constraints

Put = Callable[[Column], Expression]

NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class AlertShape:
    """What triggers have in common whose matches become alerts together. Expressions read the
    readings of a match by the numbers of their variables, and constants after them."""

    streams: tuple[str, ...]
    variables: int
    others: tuple[Expression, ...]
    absence: tuple[Expression, ...]
    outputs: tuple[Expression, ...]
    groups: tuple[Expression, ...]
    kinds: tuple[Type, ...]
    is_first: bool
    is_silenced: bool


class _KnownShape(NamedTuple):
    """A shape, and the constants of the graphs that have it."""

    shape: AlertShape
    constants: Parameters


def shape_of(query: Query, constraints: Constraints, put: Put) -> tuple[AlertShape, Row]:
    """The shape of a trigger with a row of each of its tables, and its constants. `put` puts the
    values of these rows in the place of columns of tables."""
    trigger = query.trigger
    assert trigger is not None
    roles = trigger.roles
    constants = Abstraction(roles)
    shape = AlertShape(
        tuple(source.relation.name for source in query.sources[:roles]),
        trigger.variables,
        constants.of_all(constraints.others),
        constants.of_all(constraints.absence),
        constants.of_all([substitute(output.expression, put) for output in query.outputs]),
        constants.of_all([substitute(group, put) for group in trigger.groups]),
        tuple(constants.kinds),
        trigger.is_first,
        trigger.every is not None,
    )
    return shape, tuple(constants.constants)


def _wanted(expressions: Sequence[Expression]) -> dict[int, set[int]]:
    """The columns that expressions read, by source."""
    found: dict[int, set[int]] = {}
    for expression in expressions:
        for column in columns_of(expression):
            found.setdefault(column.source, set()).add(column.index)
    return found


def _some(matched: Found, chosen: Longs) -> Found:
    """Some of the matches, with their blockers."""
    places = np.full(len(matched.graphs), -1)
    places[chosen] = np.arange(len(chosen))
    at, slots = matched.blockers
    kept = np.flatnonzero(places[at] >= 0)
    return Found(
        matched.graphs[chosen],
        matched.instants[chosen],
        matched.completing[chosen],
        matched.slots[chosen],
        (places[at[kept]], slots[kept]),
    )


class TriggerAlerts:
    """Makes alerts of matches, for all triggers of a cell."""

    def __init__(self, held: HeldReadings, dictionary: Dictionary) -> None:
        self._held = held
        self._dictionary = dictionary
        self._shapes: dict[AlertShape, int] = {}
        self._known: list[_KnownShape] = []
        self._shape = np.zeros(16, np.int64)
        self._owner = np.zeros(16, np.int64)
        self._queries: dict[int, Query] = {}
        self._counts = np.zeros(16, np.int64)
        self.silence = Silence()
        self.told: dict[int, set[int]] = {}
        """Of graphs with REPORT FIRST whose matches wait for each other: the completing readings
        of which one was told."""

    # Triggers come and go

    def begin(
        self, graph: int, number: int, query: Query, shape: AlertShape, constants: Row
    ) -> None:
        """A graph of a trigger begins."""
        if shape not in self._shapes:
            self._shapes[shape] = len(self._known)
            self._known.append(_KnownShape(shape, Parameters(shape.kinds, self._dictionary)))
        at = self._shapes[shape]
        self._known[at].constants.put(graph, constants)
        self._shape = longer(self._shape, graph + 1)
        self._owner = longer(self._owner, graph + 1)
        self._shape[graph], self._owner[graph] = at, number
        self._queries[number] = query
        self._counts = longer(self._counts, number + 1)
        assert query.trigger is not None
        if query.trigger.every is not None:
            self.silence.begin(graph, query.trigger.every)
        if shape.is_first and len(shape.streams) > shape.variables:
            self.told[graph] = set()

    def end(self, graphs: Sequence[int], number: int) -> None:
        """A trigger ends, with all of its graphs."""
        self._queries.pop(number, None)
        for graph in graphs:
            self.silence.end(graph)
            self.told.pop(graph, None)
        if not self._queries:
            self._shapes, self._known = {}, []

    def count(self, number: int) -> int:
        """How many alerts of a trigger were told."""
        return int(self._counts[number])

    # A tick

    def of(self, matched: Found) -> list[Change]:
        """The alerts of matches."""
        if not len(matched.graphs):
            return []
        shapes = self._shape[matched.graphs]
        changes = []
        for at in np.flatnonzero(np.bincount(shapes)).tolist():
            chosen = np.flatnonzero(shapes == at)
            mine = matched if len(chosen) == len(shapes) else _some(matched, chosen)
            change = self._told(mine, self._known[at])
            if change is not None:
                changes.append(change)
        return changes

    def _told(self, matched: Found, known: _KnownShape) -> Change | None:
        shape = known.shape
        chosen = self._fulfilled(matched, known)
        chosen = chosen[self._in_order(matched, shape, chosen)]
        if shape.is_first:
            chosen = chosen[self._first(matched, chosen)]
        if shape.is_silenced and len(chosen):
            groups = self._evaluated(shape.groups, matched, known, chosen)
            graphs, instants = matched.graphs[chosen], matched.instants[chosen]
            chosen = chosen[self.silence.told(graphs, instants, groups)]
        if not len(chosen):
            return None
        columns = self._evaluated(shape.outputs, matched, known, chosen)
        numbers = self._owner[matched.graphs[chosen]]
        counts = np.bincount(numbers)
        self._counts[: len(counts)] += counts
        told = np.flatnonzero(counts)
        places = np.zeros(len(counts), np.int32)
        places[told] = np.arange(len(told))
        return Change(
            tuple(self._queries[number] for number in told.tolist()),
            1,
            matched.instants[chosen],
            tuple(columns.array(i, slice(None)) for i in range(len(shape.outputs))),
            True,
            None if len(told) == 1 else places[numbers],
        )

    def _sources(
        self,
        known: _KnownShape,
        graphs: Longs,
        slots: Longs,
        expressions: Sequence[Expression],
        blockers: Longs | None = None,
    ) -> list[Columns | None]:
        """What expressions read of the readings of matches by variable, of those that may block
        them, and constants."""
        shape, wanted = known.shape, _wanted(expressions)
        sources: list[Columns | None] = [
            self._held.some(shape.streams[i], slots[:, i], wanted[i]) if i in wanted else None
            for i in range(shape.variables)
        ]
        for name in shape.streams[shape.variables :]:
            sources.append(None if blockers is None else self._held.rows(name, blockers))
        return [*sources, known.constants.rows(graphs)]

    def _fulfilled(self, matched: Found, known: _KnownShape) -> Longs:
        """The matches for which all holds that is asked last, and that nothing blocks."""
        shape, size = known.shape, len(matched.graphs)
        at, slots = matched.blockers
        if not shape.others and not len(at):
            return np.arange(size)
        kept = np.ones(size, np.bool_)
        sources = self._sources(known, matched.graphs, matched.slots, shape.others)
        for condition in shape.others:
            kept &= holds(condition, sources, size, self._dictionary)
        if len(at):
            match = (matched.graphs[at], matched.slots[at])
            beside = self._sources(known, *match, shape.absence, slots)
            blocks = np.ones(len(at), np.bool_)
            for condition in shape.absence:
                blocks &= holds(condition, beside, len(at), self._dictionary)
            kept[at[blocks]] = False
        return np.flatnonzero(kept)

    def _evaluated(
        self, expressions: Sequence[Expression], matched: Found, known: _KnownShape, chosen: Longs
    ) -> Columns:
        """What expressions are worth for the chosen matches, as columns."""
        match = (matched.graphs[chosen], matched.slots[chosen])
        sources = self._sources(known, *match, expressions)
        size, dictionary = len(chosen), self._dictionary
        made = [evaluate_all(expression, sources, size, dictionary) for expression in expressions]
        fields = tuple(Field(str(i), each.type) for i, each in enumerate(expressions))
        return as_columns(fields, made, dictionary)

    # Which matches are told

    def _in_order(self, matched: Found, shape: AlertShape, chosen: Longs) -> Longs:
        """Matches by the instant at which they are told, then by the times of their variables, then
        by their keys."""
        slots, instants = matched.slots[chosen], matched.instants[chosen]
        count = shape.variables
        facts = np.empty((len(chosen), 2 * count), np.int64)
        for i in range(count):
            facts[:, i] = self._held.times(shape.streams[i], slots[:, i])
            facts[:, count + i] = self._held.ranks(shape.streams[i], slots[:, i])
        if (instants[1:] < instants[:-1]).any():
            return np.lexsort((*facts.T[::-1], instants))
        order: Longs = order_runs(instants, facts)
        return order

    def _first(self, matched: Found, chosen: Longs) -> Bools:
        """Which of ordered matches are the first of their completing readings."""
        pairs = np.stack([matched.graphs[chosen], matched.completing[chosen]], axis=1)
        _, at = np.unique(pairs, axis=0, return_index=True)
        kept = np.zeros(len(chosen), np.bool_)
        kept[at] = True
        if self.told:
            for i in at.tolist():
                graph, completing = pairs[i].tolist()
                known = self.told.get(graph)
                if known is not None:
                    kept[i] = completing not in known
                    known.add(completing)
        return kept
