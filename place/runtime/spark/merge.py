"""Answers that several cells hold together, as the driver has them: it tells who hands over what.

With one cell no answer needs this. With more, the nearest, the last readings, groups and DISTINCT
follow only from all rows, and deltas of one answer may cancel each other. Cells hand over what they
have found to the answer cells (`answer_cell.py`), in files, whose names pass through here. Only the
parts of a question that is asked once come to the driver, as its answer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from place.engine.answers import Answers
from place.engine.changes import settle
from place.engine.columns import Dictionary
from place.engine.compile import compile_query
from place.engine.matrix import Matrix
from place.engine.partial_answers import PartialAnswer, is_merged
from place.engine.worker import PROBE
from place.errors import PlaceError
from place.model.types import Row
from place.plan.catalog import Catalog
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable.manifest import Posted
from place.runtime.durable.pack import read_pack
from place.runtime.durable.storage import Storage
from place.runtime.interface import check_rows
from place.runtime.spark.answer_cell import by_answer_cell
from place.runtime.spark.parts import read_parts
from place.runtime.spark.requests import (
    Answered,
    ByAnswerCell,
    CellResult,
    HandOver,
    Job,
    Probed,
    Settle,
)
from place.runtime.spark.standing_job import StandingCells
from place.runtime.spark.telling import Telling


class AnswersLost(PlaceError):
    """An answer cell was lost in the middle of a tick, which has to be run again."""


class AnswerCells:
    """The answer cells: what they know, and what cells hand over to them."""

    def __init__(
        self, matrix: Matrix, storage: Storage, cells: StandingCells, telling: Telling
    ) -> None:
        self._matrix, self._storage = matrix, storage
        self._cells, self._telling = cells, telling
        self._at: str | None = None
        """The tick that they know the answers of; None if they have to be told."""
        self._admitted = 0

    @property
    def is_alone(self) -> bool:
        """Is there a single cell, whose answers are whole?"""
        return self._matrix.rows * self._matrix.columns == 1

    def remember(self, job: Job, catalog: Catalog) -> None:
        """See that answer cells know the answers as of the last tick, whose catalog this is; from
        the states of cells, if one of them is a new one."""
        is_known = self._at is not None and self._admitted == self._cells.admitted
        if self.is_alone or is_known:
            return
        merged = self._merged(catalog) if job.at is not None else []
        found: list[ByAnswerCell] = []
        if merged:
            before = replace(job, after=job.before)
            with self._telling.meanwhile(before, catalog, merged) as moved:
                found = self._cells.ask(HandOver(before, merged, moved))
        self._cells.gather()
        self._admitted, self._at = self._cells.admitted, job.at or job.attempt
        self._cells.ask(Settle(replace(job, at=self._at), by_answer_cell(found), None))
        for name in _files(found):
            self._storage.remove(name)

    def settle(
        self, job: Job, results: Sequence[CellResult]
    ) -> list[tuple[Posted | None, bytes | None]]:
        """The deltas of what cells have found in a tick about the same answers. Until it is
        committed, nothing is known of them."""
        handed = by_answer_cell([result.handed for result in results])
        if not handed:
            return []
        since, self._at = self._at, None
        assert since is not None
        answered: list[Answered] = self._cells.ask(Settle(job, handed, since))
        if not all(each.is_known for each in answered):
            raise AnswersLost("an answer cell was lost in the middle of a tick")
        return [(each.outbox, each.enclosed) for each in answered]

    def committed(self, job: Job, results: Sequence[CellResult]) -> list[str]:
        """A tick is committed: answers are known as of it. The files that nobody needs now."""
        names = _files([result.handed for result in results])
        if names:
            self._at = job.token
        return names

    def _merged(self, catalog: Catalog) -> list[Query]:
        """The queries of a catalog whose answers several cells hold together."""
        return [
            query
            for query in catalog.queries.values()
            if query.trigger is None
            and is_merged(compile_query(query, Dictionary()).shape, self._matrix)
        ]


def _files(handed: Sequence[ByAnswerCell]) -> list[str]:
    return [name for each in handed for one in each.values() for name in one.files]


def observed_of(query: Query, found: Sequence[bytes]) -> Observed:
    """What has passed through the answer of a query that was asked."""
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
    return [part for pack in packs for part in read_parts(pack, queries.__getitem__)]
