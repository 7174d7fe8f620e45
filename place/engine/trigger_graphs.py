"""From a bound trigger to the graphs that the store of constraints solves.

A trigger is one graph; beside tables it is one for each combination of their rows, with the values
of these rows as constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa

from place.engine.constraint_graphs import Graph
from place.engine.held_readings import HeldReadings
from place.engine.trigger_alerts import AlertShape, shape_of
from place.engine.trigger_features import OPERATORS, TriggerFeatures, is_comparable
from place.kernels.arrays import Longs
from place.model.schema import Stream
from place.model.shape import Shape
from place.model.space import Space
from place.model.types import Row
from place.plan.expression import Column, Compare, Constant, Expression
from place.plan.infer import constraints_of
from place.plan.query import Query
from place.plan.trigger import STRATEGIES, Constraints

CHOSEN = "NO INDEX"
"""How readings are found as long as nothing speaks for another way."""


@dataclass(frozen=True)
class TriggerGraph:
    """One graph of a trigger. `combination` counts the combinations of rows of its tables."""

    combination: int
    graph: Graph
    unary: tuple[Expression | None, ...]
    regions: tuple[tuple[Shape, ...], ...]
    shape: AlertShape
    constants: Row


def graphs_of(
    query: Query,
    tables: Mapping[str, pa.Table],
    held: HeldReadings,
    features: TriggerFeatures,
) -> Iterator[TriggerGraph]:
    """The graphs of a trigger that can have matches."""
    trigger = query.trigger
    assert trigger is not None
    roles = trigger.roles
    rows = [_rows_of(tables[source.relation.name]) for source in query.sources[roles:]]
    for number, combination in enumerate(product(*rows)):
        constraints = constraints_of(query, combination)
        if constraints is None:
            continue
        constraints = _without_strange_comparisons(constraints, trigger.variables)

        def put(column: Column, combination: tuple[Row, ...] = combination) -> Expression:
            if column.source < roles:
                return column
            return Constant(combination[column.source - roles][column.index], column.type)

        shape, constants = shape_of(query, constraints, put)
        regions = [
            tuple(region for source, region in trigger.regions if source == role)
            for role in range(roles)
        ]
        yield TriggerGraph(
            number,
            _graph_of(query, constraints, held, features),
            constraints.unary,
            tuple(regions),
            shape,
            constants,
        )


def _rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _without_strange_comparisons(constraints: Constraints, variables: int) -> Constraints:
    """Comparisons that features cannot decide are asked last."""
    comparisons, others, absence = [], list(constraints.others), list(constraints.absence)
    for each in constraints.comparisons:
        if is_comparable(each):
            comparisons.append(each)
            continue
        asked = absence if variables in (each.first, each.second) else others
        asked.append(Compare(each.op, each.left, each.right))
    return replace(
        constraints,
        comparisons=tuple(comparisons),
        others=tuple(others),
        absence=tuple(absence),
    )


def _graph_of(
    query: Query, constraints: Constraints, held: HeldReadings, features: TriggerFeatures
) -> Graph:
    trigger = query.trigger
    assert trigger is not None
    streams = [source.relation for source in query.sources[: trigger.roles]]
    names = [stream.name for stream in streams]
    reaches = constraints.reaches
    order = np.zeros((len(streams), len(streams)), np.int8)
    for members in trigger.sets:
        for at, first in enumerate(members):
            for second in members[at + 1 :]:
                order[first, second] = 1
    return Graph(
        streams=np.array([held.number(name) for name in names], np.int64),
        periods=np.array([_period(stream) for stream in streams], np.int64),
        latest=np.array(constraints.latest, np.int64),
        least=np.array([[reach.least for reach in row] for row in reaches]),
        most=np.array([[reach.most for reach in row] for row in reaches]),
        least_open=np.array([[reach.least_open for reach in row] for row in reaches]),
        most_open=np.array([[reach.most_open for reach in row] for row in reaches]),
        order=order,
        comparisons=_compared(constraints, names, features),
        has_absent=trigger.absence is not None,
        asks_more=len(constraints.absence) > 0,
        sphere=any(stream.space is Space.WGS84 for stream in streams),
        strategy=STRATEGIES.index(trigger.hint or CHOSEN),
    )


def _period(stream: object) -> int:
    assert isinstance(stream, Stream)
    return stream.evaluate or 0


def _compared(constraints: Constraints, names: list[str], features: TriggerFeatures) -> Longs:
    made = [
        (
            each.first,
            features.number(names[each.first], each.left),
            OPERATORS.index(each.op),
            each.second,
            features.number(names[each.second], each.right),
        )
        for each in constraints.comparisons
    ]
    return np.array(made, np.int64).reshape(-1, 5)
