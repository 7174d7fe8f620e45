"""What joins hold in a cell, for those who watch how it grows.

Queries of one shape share what their join holds, so it is told once for all of them, under the name
of the query among them that began first.
"""

from __future__ import annotations

from typing import NamedTuple

from place.engine.chain import Chain
from place.engine.operators.nearest_each import NearestEach
from place.engine.operators.stream_join import StreamJoin
from place.engine.worker import Worker


class JoinCounts(NamedTuple):
    """Readings in the windows of a join, combinations that kNN of each element chooses from, and
    how many queries share them."""

    kept: int = 0
    combinations: int = 0
    queries: int = 0


def join_counts(worker: Worker) -> dict[str, JoinCounts]:
    """What each join of a worker holds. A row of cells counts what it holds itself; the queries,
    which are in all rows, are counted by the first one."""
    found: dict[str, JoinCounts] = {}
    for timeline in worker.timelines.values():
        cell = timeline.cell
        for chain in cell.chains:
            if chain.queries and any(isinstance(each, StreamJoin) for each in chain.operators):
                name = cell.queries.compiled[next(iter(chain.queries))].asked.name
                found[name] = _counts_of(chain, is_first=worker.place.row == 0)
    return found


def _counts_of(chain: Chain, *, is_first: bool) -> JoinCounts:
    joins = (each for each in chain.operators if isinstance(each, StreamJoin))
    choosers = (each for each in chain.operators if isinstance(each, NearestEach))
    return JoinCounts(
        sum(each.readings for each in joins),
        sum(each.combinations for each in choosers),
        len(chain.queries) if is_first else 0,
    )
