"""A delta is one change of an answer; consolidation leaves only the changes that matter.

An answer is a bag of rows. What changed between two instants is the difference of two bags: a
row that left and came back within one instant makes no delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

from place.model.record import Record, unique_names
from place.model.time import moment_at
from place.model.types import Row

Sign = Literal[1, -1]
Answer = Counter[Row]


class Delta(NamedTuple):
    """`row` joined (+1) or left (−1) the answer of `query` at `instant`."""

    query: str
    sign: Sign
    row: Row
    instant: int

    @property
    def time(self) -> datetime:
        """The instant as a datetime in UTC."""
        return moment_at(self.instant)

    def as_dict(self) -> dict[str, Any]:
        """Its query, sign and instant, and the columns of its row where their names are known."""
        head = {"query": self.query, "sign": self.sign, "instant": self.time}
        if not isinstance(self.row, Record):
            return {**head, "row": self.row}
        own = self.row.as_dict()
        names = unique_names([*head, *own])[len(head) :]
        return {**head, **dict(zip(names, own.values(), strict=True))}


FEW = 1000
"""So many rows are put in order for those who read them; more are for programs."""


def difference(query: str, before: Answer, after: Answer, instant: int) -> list[Delta]:
    """The deltas that lead from one answer to the other, negative ones first.

    >>> [d.sign for d in difference("q", Counter({(1,): 1}), Counter({(2,): 1}), 0)]
    [-1, 1]
    """
    gone = list((before - after).elements())
    come = list((after - before).elements())
    return [
        *(Delta(query, -1, row, instant) for row in (ordered(gone) if len(gone) < FEW else gone)),
        *(Delta(query, 1, row, instant) for row in (ordered(come) if len(come) < FEW else come)),
    ]


def apply(answer: Answer, deltas: Iterable[Delta]) -> Answer:
    """The answer after its deltas; a row whose count falls to zero is gone."""
    after = Counter(answer)
    for delta in deltas:
        after[delta.row] += delta.sign
        if after[delta.row] == 0:
            del after[delta.row]
    return after


def ordered(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows in a stable order whatever their values; NULL comes first in a column."""
    return iter(
        sorted(rows, key=lambda row: tuple((v is not None, 0 if v is None else v) for v in row))
    )
