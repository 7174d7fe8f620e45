"""Answers that several cells hold together: the driver adds up what each has found.

With one row of cells no answer needs this. With more, the nearest, the last readings, groups and
DISTINCT follow only from all rows; cells send what changed of their share. What the driver knows
is in its memory alone: it follows from the states of the cells, and is asked of them again when
the driver is a new one, or when a tick has failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from place.engine.answers import Answers
from place.engine.changes import Change, settle
from place.engine.columns import Dictionary
from place.engine.compile import compile_query
from place.engine.matrix import Matrix
from place.engine.partial_answers import PartialAnswer, is_merged
from place.engine.worker import PROBE
from place.model.types import Row
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable.pack import load_pack, read_pack
from place.runtime.durable.storage import Storage
from place.runtime.interface import check_rows
from place.runtime.spark.parts import read_parts
from place.runtime.spark.requests import Probed


class Merger:
    """The answers that cells hold together. `is_known` while it is as of the last tick."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self.is_known = False
        self.forget()

    def forget(self) -> None:
        """Know nothing."""
        self._answers = Answers(Dictionary())

    def merged(self, catalog: Catalog) -> list[Query]:
        """The queries of a catalog whose answers several cells hold together."""
        return [
            query
            for query in catalog.queries.values()
            if query.trigger is None
            and is_merged(compile_query(query, Dictionary()).shape, self._matrix)
        ]

    def know(self, query: Query, found: Sequence[bytes]) -> None:
        """Take over what cells have told of a query that was asked."""
        self._answers.take([_named(part, query) for part in _asked(query, found)])

    def take(
        self, storage: Storage, files: Sequence[str], queries: Mapping[str, Query]
    ) -> list[Change]:
        """What the parts in these files change."""
        parts: list[PartialAnswer] = []
        for file in sorted(files):
            parts += read_parts(load_pack(storage, file), queries)
        return self._answers.take(parts)

    def observed(self, query: Query, found: Sequence[bytes]) -> Observed:
        """What has passed through the answer of a query, or through one that was asked."""
        if not found:
            return self._answers.observed(query.name)
        answers = Answers(Dictionary())
        answers.take(_asked(query, found))
        return answers.observed(PROBE)


def whole_rows(query: Query, found: Sequence[Probed], most: int | None) -> list[Row]:
    """An answer from what each cell has of it; a TooManyRows instead of more than `most`."""
    check_rows(sum(count for _, _, count in found), most)
    rows = [row for rows, _, _ in found for row in rows]
    rows += merged_rows(query, [parts for _, parts, _ in found if parts is not None])
    check_rows(len(rows), most)
    return rows


def merged_rows(query: Query, found: Sequence[bytes]) -> list[Row]:
    """The answer of a query that was asked, from the parts of the cells."""
    changes = Answers(Dictionary()).take(_asked(query, found))
    return [delta.row for change in settle(changes) for delta in change.deltas()]


def _asked(query: Query, found: Sequence[bytes]) -> list[PartialAnswer]:
    queries = {PROBE: replace(query, name=PROBE), query.name: query}
    packs = (read_pack(pa.BufferReader(content)) for content in found)
    return [part for pack in packs for part in read_parts(pack, queries)]


def _named(part: PartialAnswer, query: Query) -> PartialAnswer:
    """A part that was asked for, as that of the query that is registered."""
    return replace(part, queries=tuple(query for _ in part.queries))
