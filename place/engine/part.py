"""Parts: signed rows on their way from the join to the answer.

A row that joined has a positive weight, one that left a negative weight; operators add weights up,
so that rows are taken back as they were given (PLACE's negative tuples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary, Slots
from place.engine.plans import UpperPlan
from place.engine.vector import same_rows
from place.plan.query import Query

Weights = NDArray[np.int64]
Sources = tuple[Columns | None, ...]
"""Rows by the source in FROM that they are of, those of one combination at one position."""


@dataclass(frozen=True)
class Flow:
    """Rows and their weights; `ranks` say which of them come first where some are chosen."""

    weights: Weights
    sources: Sources
    ranks: Columns | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, chosen: Slots | slice) -> Flow:
        """Some of them."""
        return Flow(
            self.weights[chosen],
            tuple(None if rows is None else rows.take(chosen) for rows in self.sources),
            None if self.ranks is None else self.ranks.take(chosen),
        )

    def recoded(self, dictionary: Dictionary) -> Flow:
        """The same with the codes of another dictionary."""
        return Flow(
            self.weights,
            tuple(None if rows is None else rows.recoded(dictionary) for rows in self.sources),
            None if self.ranks is None else self.ranks.recoded(dictionary),
        )

    def says_the_same(self, other: Flow) -> bool:
        """Has another the same rows, weights and ranks, in the same order?"""
        if len(self) != len(other) or not np.array_equal(self.weights, other.weights):
            return False
        mine, others = (*self.sources, self.ranks), (*other.sources, other.ranks)
        return all(
            a is None or b is None or bool(same_rows(a, b).all())
            for a, b in zip(mine, others, strict=True)
        )

    @staticmethod
    def joined(flows: Sequence[Flow]) -> Flow:
        """Several, one after the other."""
        if len(flows) == 1:
            return flows[0]
        sources = tuple(
            None if rows[0] is None else Columns.joined([r for r in rows if r is not None])
            for rows in zip(*(flow.sources for flow in flows), strict=True)
        )
        ranks = [flow.ranks for flow in flows if flow.ranks is not None]
        return Flow(
            np.concatenate([flow.weights for flow in flows]),
            sources,
            Columns.joined(ranks) if len(ranks) == len(flows) else None,
        )


@dataclass(frozen=True)
class Part:
    """What a cell has found for a query at an instant; the answer follows from the parts of all.

    `present` tells that the query has its focal objects, `ends` that it was dropped. `stage` puts
    what happens at one instant in order: a query may end and begin again at the same one.
    """

    upper: UpperPlan
    instant: int
    flow: Flow
    present: bool = True
    ends: bool = False
    stage: int = 0

    @property
    def query(self) -> Query:
        return self.upper.asked
