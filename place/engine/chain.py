"""A chain: the operators above the region join that all queries of one shape share.

What EXPLAIN draws is what stands here: each node of a plan above the region join became one step,
and each step is one operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from place.engine.changes import Change
from place.engine.columns import Columns, Dictionary
from place.engine.compiled import QueryShape
from place.engine.consolidate import consolidated
from place.engine.counters import Counters
from place.engine.flow import Flow
from place.engine.objects import Objects
from place.engine.operator_specs import (
    DistinctSpec,
    DwellSpec,
    FirstSpec,
    GroupSpec,
    JoinSpec,
    NearestEachSpec,
    NearestSpec,
    PreviousSpec,
    ProjectSpec,
    Spec,
    StreamJoinSpec,
    WindowSpec,
)
from place.engine.operators.contract import NEVER, Operator, Parameters, Span
from place.engine.operators.distinct import Distinct
from place.engine.operators.dwell import Dwell
from place.engine.operators.first import First
from place.engine.operators.group import Group
from place.engine.operators.nearest_each import NearestEach
from place.engine.operators.nearest_join import NearestJoin
from place.engine.operators.previous import Previous
from place.engine.operators.project import Project
from place.engine.operators.reverse_nearest import ReverseNearest
from place.engine.operators.stream_join import StreamJoin
from place.engine.operators.table_join import TableJoin
from place.engine.operators.window import Window
from place.engine.tick_readings import reading_ranks
from place.errors import InternalError
from place.kernels.arrays import Longs
from place.model import deadline
from place.model.delta import Sign
from place.model.schema import Column as Field
from place.model.schema import Stream
from place.model.types import Row
from place.plan.expression import Column
from place.plan.query import Query

Partner = Callable[[str, tuple[int, ...]], Columns]
"""The rows of a table, by its name and the columns that are needed."""


class Chain:
    """Operators one above the other, with the constants in which their queries differ."""

    def __init__(self, shape: QueryShape, dictionary: Dictionary) -> None:
        self.shape = shape
        self.parameters = Parameters(shape.kinds, dictionary)
        self.operators: list[Operator] = []
        self.queries: dict[int, None] = {}
        """The numbers of its queries, in the order in which they began."""
        self._dictionary = dictionary

    def put(self, query: int, constants: Row) -> None:
        """The constants of a query that begins."""
        self.parameters.put(query, constants)
        self.queries[query] = None

    def begin_all(self, queries: Longs, constants: Row) -> None:
        """Queries begin that have the same constants, and whose windows hold nothing yet."""
        self.parameters.put_all(queries, constants)
        self.queries.update(dict.fromkeys(queries.tolist()))
        for query in queries.tolist():
            self.begin(query, None)

    def begin(self, query: int, content: pa.Table | None) -> None:
        """A query begins; `content` is what its window holds already."""
        for operator in self.operators:
            operator.begin(query, content)

    def end(self, query: int) -> None:
        """End a query; the next call of `take` also takes back the rows that it still holds."""
        for operator in self.operators:
            operator.end(query)
        self.queries.pop(query, None)

    def take(self, flow: Flow, span: Span, counters: Counters) -> Flow:
        """Send a flow of the region join (or of several cells) through the operators, from the
        lowest to the highest: the rows that join and leave answers."""
        for operator in self.operators:
            deadline.check()
            with counters.timed((id(self), operator.name)):
                flow = operator.take(flow, span)
            if not isinstance(operator, Project):
                counters.count(operator.name, flow.queries)
        return flow

    def explained(self) -> tuple[str, ...]:
        """How the elements of a join were found last, and how many its windows hold."""
        for operator in self.operators:
            if isinstance(operator, StreamJoin | NearestJoin | ReverseNearest):
                return operator.explained()
        return ()

    def next_expiry(self) -> int:
        """The next instant at which something happens, if nothing else does."""
        return min((operator.next_expiry() for operator in self.operators), default=NEVER)

    def content(self, query: int) -> pa.Table | None:
        """What the operators hold of one query that does not follow from the objects."""
        for operator in self.operators:
            if isinstance(operator, StreamJoin):
                return operator.content(query)
        table = self.save()
        if table is None:
            return None
        return table.filter(pa.array(table.column(0).to_numpy() == query))

    def save(self) -> pa.Table | None:
        """What the operators hold that does not follow from the objects."""
        found = [table for operator in self.operators if (table := operator.save()) is not None]
        return found[0] if found else None

    @property
    def needs_order(self) -> bool:
        """Must rows come in the order of instants? A projection alone takes any order."""
        return not (len(self.operators) == 1 and isinstance(self.operators[0], Project))


@dataclass(frozen=True)
class Workshop:
    """What operators are made with in a cell, or above the cells."""

    dictionary: Dictionary
    partner: Partner | None = None
    store: Objects | None = None
    nearest: Callable[[NearestSpec], Operator] | None = None
    stream_join: Callable[[StreamJoinSpec, Chain], Operator] | None = None

    def lower(self, chain: Chain) -> list[Operator]:
        """The operators that each cell runs over its own objects."""
        return [self._made(step, chain) for step in chain.shape.lower]

    def upper(self, chain: Chain, *, merges: bool) -> list[Operator]:
        """The operators that need whole answers; where `merges`, above several cells."""
        steps = [s for s in chain.shape.upper if merges or not isinstance(s, FirstSpec)]
        return [self._made(step, chain) for step in steps]

    def _made(self, step: Spec, chain: Chain) -> Operator:
        shape, dictionary = chain.shape, self.dictionary
        match step:
            case JoinSpec(tables=tables):
                assert self.partner is not None
                rows = {source: self.partner(name, needed) for source, name, needed in tables}
                return TableJoin(step, rows, chain.parameters, dictionary)
            case StreamJoinSpec():
                assert self.stream_join is not None
                return self.stream_join(step, chain)
            case NearestEachSpec():
                return NearestEach(lambda: First(False, dictionary))
            case NearestSpec():
                assert self.nearest is not None
                return self.nearest(step)
            case WindowSpec(window=window, subject=subject):
                stream = shape.sources[subject]
                assert isinstance(stream, Stream)
                ranks = reading_ranks(stream)
                return Window(window, stream, _kept(shape), ranks, dictionary)
            case DwellSpec() as stays:
                assert self.store is not None
                return Dwell(self.store, stays, chain.parameters)
            case PreviousSpec(previous=previous):
                assert self.store is not None
                needed, ranks = shape.needed[previous], reading_ranks(self.store.relation)
                return Previous(self.store, previous, needed, _kept(shape), ranks, dictionary)
            case FirstSpec(latest=latest):
                return First(latest, dictionary)
            case GroupSpec(keys=keys, aggregates=aggregates, having=having, width=width):
                return Group(keys, aggregates, having, width, chain.parameters, dictionary)
            case ProjectSpec():
                return Project(step, chain.parameters, dictionary)
            case DistinctSpec():
                return Distinct(dictionary)
        raise InternalError(f"no operator for {step}")


def _kept(shape: QueryShape) -> list[tuple[Field, ...] | None]:
    """The columns of each source that a window keeps; tables are joined above it."""
    joined = {
        source for step in shape.lower if isinstance(step, JoinSpec) for source, _, _ in step.tables
    }
    return [
        None if i in joined else tuple(relation.columns[c] for c in needed)
        for i, (relation, needed) in enumerate(zip(shape.sources, shape.needed, strict=True))
    ]


def is_settled_by_keys(shape: QueryShape) -> bool:
    """Are the rows of an answer always different, because they hold the keys of all that they are
    made of?"""
    project = next(step for step in shape.upper if isinstance(step, ProjectSpec))
    plain = all(isinstance(expression, Column) for _, expression in project.outputs)
    return shape.is_keyed and plain


def _by_sign(weights: Longs) -> tuple[Longs | slice, Longs | slice]:
    """Where negative rows are, and positive ones, each as often as its weight says."""
    negative = weights < 0
    count = int(negative.sum())
    is_plain = weights.min() >= -1 and weights.max() <= 1 and bool(weights.all())
    if is_plain and negative[:count].all():
        return slice(0, count), slice(count, len(weights))
    left, come = np.flatnonzero(negative), np.flatnonzero(weights > 0)
    return np.repeat(left, -weights[left]), np.repeat(come, weights[come])


def settled(flow: Flow, shape: QueryShape) -> Flow:
    """The same flow after rows that leave and join at the same instant have cancelled each
    other."""
    return flow if is_settled_by_keys(shape) or not len(flow) else consolidated(flow)


def changes_of(
    flow: Flow, asked: Callable[[Longs], Sequence[Query]], *, is_settled: bool
) -> list[Change]:
    """The rows of answers as changes."""
    if not len(flow):
        return []
    rows = flow.sources[0]
    changes: list[Change] = []
    signs: tuple[Sign, Sign] = (-1, 1)
    for sign, mine in zip(signs, _by_sign(flow.weights), strict=True):
        numbers = flow.queries[mine]
        if rows is None or not len(numbers):
            continue
        first = int(numbers[0])
        is_one = first == numbers.min() == numbers.max()
        known = np.array([first]) if is_one else np.flatnonzero(np.bincount(numbers))
        owners = None
        if len(known) > 1:
            places = np.zeros(known[-1] + 1, np.int32)
            places[known] = np.arange(len(known))
            owners = places[numbers]
        columns = tuple(rows.array(i, mine) for i in range(len(rows.columns)))
        queries = tuple(asked(known))
        at = flow.instants[mine]
        changes.append(Change(queries, sign, at, columns, is_settled, owners))
    return changes
