"""Flows: signed rows of queries on their way from operator to operator, for a whole tick at once.

A row that joined has a positive weight, one that left a negative weight; operators add weights up,
so that rows are taken back as they were given (the negative tuples of PLACE). Every row has the
number of its query and the instant at which it joined or left. Rows are in the order of instants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.kernels.arrays import Longs

Sources = tuple[Columns | None, ...]
"""Rows by the source in FROM that they are of; those of one combination are at one position."""

NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Marks:
    """Queries that begin (+1) or cease (−1) to have an answer at an instant, in order.

    A query has an answer from its registration to its end, while it has its focal objects. Only an
    aggregate without GROUP BY needs to know: it has a row without any object.
    """

    queries: Longs
    instants: Longs
    signs: Longs

    def __len__(self) -> int:
        return len(self.queries)

    @staticmethod
    def joined(parts: Sequence[Marks]) -> Marks:
        """All of them, in the order of instants."""
        queries = np.concatenate([NONE, *(part.queries for part in parts)])
        instants = np.concatenate([NONE, *(part.instants for part in parts)])
        signs = np.concatenate([NONE, *(part.signs for part in parts)])
        order = np.argsort(instants, kind="stable")
        return Marks(queries[order], instants[order], signs[order])


NO_MARKS = Marks(NONE, NONE, NONE)


@dataclass(frozen=True)
class Flow:
    """Rows with their queries, instants and weights.

    `ranks` are the columns by which some of the rows are chosen: of readings their time and key,
    of the nearest their measure, key and number. `marks` pass through every operator unchanged.
    `slots` are where the objects of rows are in their store, `readings` which readings of the tick
    rows are of; operators that make other rows leave them out.
    """

    queries: Longs
    instants: Longs
    weights: Longs
    sources: Sources
    ranks: Columns | None = None
    marks: Marks = NO_MARKS
    slots: Longs | None = None
    readings: Longs | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def __bool__(self) -> bool:
        """Does it hold anything, rows or marks?"""
        return len(self.weights) > 0 or len(self.marks) > 0

    @staticmethod
    def of_marks(marks: Marks) -> Flow:
        """A flow without rows."""
        return Flow(NONE, NONE, NONE, (), None, marks)

    def take(self, chosen: Longs | slice) -> Flow:
        """Some of the rows, and all marks."""
        return Flow(
            self.queries[chosen],
            self.instants[chosen],
            self.weights[chosen],
            tuple(None if rows is None else rows.take(chosen) for rows in self.sources),
            None if self.ranks is None else self.ranks.take(chosen),
            self.marks,
            None if self.slots is None else self.slots[chosen],
            None if self.readings is None else self.readings[chosen],
        )

    def in_order(self) -> Flow:
        """The same in the order of instants; rows of one instant stay as they stand."""
        if (self.instants[1:] >= self.instants[:-1]).all():
            return self
        return self.take(np.argsort(self.instants, kind="stable"))

    def recoded(self, dictionary: Dictionary) -> Flow:
        """The same with the codes of another dictionary."""
        return replace(
            self,
            sources=tuple(
                None if rows is None else rows.recoded(dictionary) for rows in self.sources
            ),
            ranks=None if self.ranks is None else self.ranks.recoded(dictionary),
        )

    @staticmethod
    def joined(flows: Sequence[Flow]) -> Flow:
        """Several in one, in the order of instants. Those with rows have the same sources."""
        some = [flow for flow in flows if len(flow)]
        marks = [flow.marks for flow in flows if len(flow.marks)]
        both = NO_MARKS if not marks else marks[0] if len(marks) == 1 else Marks.joined(marks)
        if not some:
            return Flow.of_marks(both)
        if len(some) == 1:
            return some[0] if some[0].marks is both else replace(some[0], marks=both)
        sources = tuple(
            None if rows[0] is None else Columns.joined([r for r in rows if r is not None])
            for rows in zip(*(flow.sources for flow in some), strict=True)
        )
        ranks = [flow.ranks for flow in some if flow.ranks is not None]
        slots = [flow.slots for flow in some if flow.slots is not None]
        readings = [flow.readings for flow in some if flow.readings is not None]
        return Flow(
            np.concatenate([flow.queries for flow in some]),
            np.concatenate([flow.instants for flow in some]),
            np.concatenate([flow.weights for flow in some]),
            sources,
            Columns.joined(ranks) if len(ranks) == len(some) else None,
            both,
            np.concatenate(slots) if len(slots) == len(some) else None,
            np.concatenate(readings) if len(readings) == len(some) else None,
        ).in_order()


NOTHING = Flow.of_marks(NO_MARKS)
