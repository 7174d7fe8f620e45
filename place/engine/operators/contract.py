"""The contract of operators: a flow of a whole tick comes in, the flow that follows goes out.

An operator serves all queries of one shape: rows of its flows carry the numbers of their queries.
It is given what it needs when it is made, and knows neither the other operators nor the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.flow import Flow, Sources
from place.kernels.arrays import Longs
from place.model.schema import Column
from place.model.types import Row, Type

NEVER = 1 << 62
"""An instant after all instants."""


@dataclass(frozen=True)
class Span:
    """The part of event time that a call is about: all instants after `after` up to `until`."""

    after: int
    until: int


class Operator(Protocol):
    """What every operator does.

    `begin` and `end` say that a query comes or goes at the instant of the next call of `take`; the
    result of that call then also holds what follows from it. `save` returns the state that cannot
    be computed again from objects, tables and queries, with the number of the query as its first
    column, or None where there is no such state. `begin` gets back what was saved for its query.
    """

    name: str
    """The edge above it, as EXPLAIN ANALYZE counts rows."""

    def begin(self, query: int, content: pa.Table | None) -> None: ...

    def end(self, query: int) -> None: ...

    def take(self, flow: Flow, tick: Any) -> Flow: ...

    def next_expiry(self) -> int: ...

    def save(self) -> pa.Table | None: ...


class Stateless:
    """The methods that all operators without state have in common."""

    def begin(self, query: int, content: pa.Table | None) -> None:
        """There is no state of a query to begin."""

    def end(self, query: int) -> None:
        """There is no state of a query to end."""

    def next_expiry(self) -> int:
        """Nothing expires."""
        return NEVER

    def save(self) -> pa.Table | None:
        """Nothing has to be saved."""
        return None


class Parameters:
    """The constants in which queries of one shape differ: a row for each query.

    Expressions of a shape read them as columns of one source more than the query has.
    """

    def __init__(self, kinds: Sequence[Type], dictionary: Dictionary) -> None:
        columns = tuple(Column(f"constant {i}", kind) for i, kind in enumerate(kinds))
        self._rows = Columns(columns, dictionary)

    def put(self, query: int, constants: Row) -> None:
        """Keep the constants of a query."""
        self.put_all(np.array([query]), constants)

    def put_all(self, queries: Longs, constants: Row) -> None:
        """Keep the constants that several queries have alike."""
        if not constants or not len(queries):
            return
        self._rows.reserve(int(queries.max()) + 1)
        given = Columns.from_rows(self._rows.columns, self._rows.dictionary, [constants])
        self._rows.put(queries, given.take(np.zeros(len(queries), np.int64)))

    def beside(self, flow: Flow) -> Sources:
        """The sources of a flow, and beside them the constants of each row's query."""
        return self.beside_queries(flow.sources, flow.queries)

    def beside_queries(self, sources: Sources, queries: Longs) -> Sources:
        """Sources, and beside them the constants of the query of each row."""
        return (*sources, self._rows.take(queries)) if self._rows.columns else sources

    def rows(self, queries: Longs) -> Columns:
        """The constants of queries; nothing where none has any."""
        return self._rows.take(queries)

    @property
    def dictionary(self) -> Dictionary:
        """The texts that constants are codes of."""
        return self._rows.dictionary

    @property
    def is_empty(self) -> bool:
        """Have queries no constants?"""
        return not self._rows.columns
