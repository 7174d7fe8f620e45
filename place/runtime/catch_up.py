"""Queries that begin in the past: `REGISTER QUERY late FROM 'time' AS …`.

What such a query has told since its beginning follows from an archive, as the answer to any other
question about the past. It goes on from there: cells take over what its windows hold, and the
deltas of the past end with the answer with which the live ones begin. So there is no seam.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from place.engine.changes import Change, settle
from place.engine.join_content import hidden_until, oldest_of
from place.engine.matrix import Matrix
from place.engine.validity import STILL, Lasting, lasting
from place.plan.catalog import Catalog
from place.plan.past import since_then
from place.plan.query import Query
from place.runtime.archive import Archive
from place.runtime.recall import OpenPast


@dataclass(frozen=True)
class CaughtUp:
    """What a query has told until now, and what each cell has to know of it to go on."""

    query: Query
    rows: Lasting
    until: int
    contents: tuple[pa.Table | None, ...]

    def past(self) -> list[Change]:
        """What the query has told until now, to be settled with its first answer live.

        That answer is the one with which the past ends, and is taken back here. Where a cell knows
        less than the archive, because its stream keeps no more, the difference is told at the
        instant of now.
        """
        since = self.query.since
        assert since is not None
        rows = self.rows.take(self.rows.left > since)
        has_left = rows.left != STILL
        gone = rows.take(has_left)
        still = rows.take(~has_left)
        told = [
            self._change(-1, gone, gone.left),
            self._change(1, rows, np.maximum(rows.joined, since)),
            self._change(-1, still, np.full(len(still), self.until)),
        ]
        return [change for change in told if len(change)]

    def told(self, first: Sequence[Change]) -> list[Change]:
        """All that the query tells when it is registered, given its first answer live."""
        return settle([*self.past(), *(replace(change, is_settled=False) for change in first)])

    def _change(self, sign: int, rows: Lasting, instants: np.ndarray) -> Change:
        return Change((self.query,), sign, instants, rows.columns, False)  # type: ignore[arg-type]


def catch_up(
    archive: Archive, catalog: Catalog, query: Query, until: int, matrix: Matrix
) -> CaughtUp:
    """What a query of the catalog that begins in the past has told until an instant."""
    past = OpenPast(archive, since_then(catalog, query, until, None), matrix.places())
    rows = lasting(query, list(past.run()))
    contents: list[pa.Table | None] = [None] * len(past.workers)
    if query.needs_history:
        cells = (worker.timelines[query.streams].cell for worker in past.workers)
        contents = [cell.content(query.name) for cell in cells]
    if query.is_join:
        # What windows do not hold by now is hidden, in all cells alike.
        held = [content for content in contents if content is not None]
        floor = min([until + 1, *map(oldest_of, held)]) - 1
        contents = [None if each is None else hidden_until(each, floor) for each in contents]
    return CaughtUp(query, rows, until, tuple(contents))


def apart(
    changes: Sequence[Change], caught_up: Mapping[str, CaughtUp]
) -> tuple[list[Change], dict[str, list[Change]]]:
    """The changes of other queries, and the first answers of those that begin in the past."""
    others: list[Change] = []
    first: dict[str, list[Change]] = {name: [] for name in caught_up}
    for change in changes:
        for part in change.by_query() if len(change.queries) > 1 else [change]:
            first.get(part.queries[0].name, others).append(part)
    return others, first
