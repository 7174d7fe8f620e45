"""Answers that several cells hold together are put together by cells as well: answer cells.

Each cell of the matrix is one. A query's answer cell follows from a hash of its name, so that what
is put together spreads over all of them, and the driver sees only names of files. What an answer
cell knows is in its memory alone: it follows from the states of all cells, who hand it over again
where it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from place.engine.answers import Answers
from place.engine.changes import Change, settle
from place.engine.columns import Dictionary
from place.engine.matrix import Matrix
from place.engine.partial_answers import Found, PartialAnswer
from place.kernels.arrays import Longs
from place.plan.explain import Observed
from place.plan.query import Query
from place.runtime.durable.outbox import changes_of, post, read_outbox, write_outbox
from place.runtime.durable.pack import load_pack
from place.runtime.durable.storage import Storage
from place.runtime.spark.parts import read_parts, write_parts
from place.runtime.spark.requests import Answered, ByAnswerCell, Handed, Job

Named = Callable[[str], Query]
"""Finds a query by its name."""


class AnswerCell:
    """The answers that this cell puts together, as of the tick of a token."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage, self._name = storage, name
        self._at: str | None = None
        self._answers = Answers(Dictionary())

    def know(self, at: str | None, handed: Sequence[Handed], named: Named) -> None:
        """Begin with whole answers, as of a tick."""
        self._at, self._answers = None, Answers(Dictionary())
        self._answers.take(self._parts(handed, named))
        self._at = at

    def take(self, job: Job, since: str, handed: Sequence[Handed], named: Named) -> Answered:
        """The deltas of whole answers that follow from what cells have handed over."""
        if self._at != since:
            return Answered(is_known=False)
        self._at = None  # if it fails in the middle
        changes = [
            change
            for file in sorted(each.deltas for each in handed if each.deltas is not None)
            for piece in read_outbox(self._storage, file)
            for change in changes_of(piece, named)
        ]
        settled = settle(changes + self._answers.take(self._parts(handed, named)))
        answered = Answered()
        if settled:
            name = f"outbox/{job.token}-answer-{self._name}.arrow"
            answered = Answered(True, *post(self._storage, name, settled, job.small))
        self._at = job.token
        return answered

    def observed(self, query: Query) -> Observed:
        """What has passed through the answer of a query; nothing if it is not put together here."""
        return self._answers.observed(query.name)

    def _parts(self, handed: Sequence[Handed], named: Named) -> list[PartialAnswer]:
        files = sorted(each.parts for each in handed if each.parts is not None)
        return [
            part for file in files for part in read_parts(load_pack(self._storage, file), named)
        ]


def hand_over(
    storage: Storage, matrix: Matrix, token: str, found: Sequence[Found]
) -> dict[int, Handed]:
    """Write what a cell has found, by the cell that puts it together."""
    changes: dict[int, list[Change]] = {}
    parts: dict[int, list[PartialAnswer]] = {}
    for each in found:
        owners = np.array([matrix.answer_cell(query.name) for query in each.queries], np.int64)
        for owner in np.unique(owners).tolist():
            if isinstance(each, PartialAnswer):
                parts.setdefault(owner, []).append(each.of(owners == owner))
            elif len(some := _of_owner(each, owners, owner)):
                changes.setdefault(owner, []).append(some)
    handed: dict[int, Handed] = {}
    for owner, deltas in changes.items():
        name = f"segments/{token}-to-{owner}-open.arrow"
        write_outbox(storage, name, deltas, lasts=False)
        handed[owner] = Handed(deltas=name)
    for owner, pieces in parts.items():
        name = f"segments/{token}-to-{owner}-parts.arrow"
        storage.write(name, partial(write_parts, parts=pieces), lasts=False)
        handed[owner] = replace(handed.get(owner, Handed()), parts=name)
    return handed


def _of_owner(change: Change, owners: Longs, owner: int) -> Change:
    if change.owners is None or (owners == owner).all():
        return change
    return change.take(np.flatnonzero(owners[change.owners] == owner))


def by_answer_cell(handed: Sequence[ByAnswerCell]) -> dict[int, list[Handed]]:
    """What all cells hand over, by the cell that puts it together."""
    found: dict[int, list[Handed]] = {}
    for each in handed:
        for owner, files in each.items():
            found.setdefault(owner, []).append(files)
    return found
