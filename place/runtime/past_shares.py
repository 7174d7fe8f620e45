"""A question about the past in shares: each has the objects of one row, by the hash of their keys.

A share is answered by a worker of that row, as cells of a matrix are, with nobody beside it: all
that it has to know of other rows, the objects that its query follows, is in every share. All shares
take the same slices of time, so that what they find of one slice can be put together before the
next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.answers import Answers, merge
from place.engine.changes import Change, settle
from place.engine.columns import Dictionary
from place.engine.following import EVERYTHING, needs_of
from place.engine.matrix import Matrix, Place
from place.engine.partial_answers import Found as Part
from place.engine.slices import among, is_shared, rows_of
from place.model.reading import Key
from place.model.schema import Stream
from place.model.segment import ARROW, segment_schema
from place.plan.past import Question
from place.plan.query import Around
from place.runtime.archive import Box, Extent, Found, Span
from place.runtime.interface import Recalled, TooManyRows
from place.runtime.memory_archive import gone_of, last_of_each, times_of, with_keys, within_box
from place.runtime.nearest_box import asks_nearest
from place.runtime.recall import Counted, OpenPast, rows_told
from place.runtime.trajectories import trajectories


def why_whole(question: Question) -> str | None:
    """Why a question is not answered in shares, in words; None if it may be."""
    query = question.query
    if query.trigger is not None:
        return "a trigger looks at the readings of all objects together"
    for stream in question.streams:
        if stream.key is None:
            return f"readings of {stream.name} have no KEY to divide them by"
        if is_shared(stream):
            return f"the rows of {stream.name} are regions, which all objects need"
    if any(EVERYTHING in keys for keys in _followed(question).values()):
        return "objects of its streams meet each other"
    is_around = isinstance(query.inside, Around) and not query.needs_history
    if question.until is None and (is_around or asks_nearest(question)):
        return "at one instant only what is near its centre is read"
    return None


def _followed(question: Question) -> dict[str, list[object]]:
    """The objects that every share needs, by stream."""
    found = needs_of(question.query, Place(Matrix()), question.catalog.arrow_of)
    return {stream: list(keys) for stream, keys in found.items()}


@dataclass(frozen=True)
class Division:
    """A question, into how many shares it is divided, the times of its archives, and the times
    until which all shares take readings together."""

    question: Question
    shares: int
    spans: Mapping[str, Span | None]
    slices: tuple[int, ...]

    def cut(self, stream: Stream, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Rows of a stream, whose first columns are those of a segment, by the shares that need
        them."""
        own = rows_of(stream, rows, self.shares)
        order = np.argsort(own, kind="stable")
        bounds = np.searchsorted(own[order], np.arange(self.shares + 1))
        followed = _followed(self.question).get(stream.name, [])
        beside = np.empty(0, np.int64)
        if followed:
            known = among(stream, rows, pa.array(followed, ARROW[stream.key_type]))
            beside = np.flatnonzero(known)
        for share in range(self.shares):
            mine = order[bounds[share] : bounds[share + 1]]
            chosen = np.concatenate([mine, beside[own[beside] != share]])
            if len(chosen):
                yield share, rows.take(pa.array(chosen))

    def ways(self, tables: Mapping[str, pa.Table], most: int | None) -> Recalled:
        """The trajectories of a share, whose objects and readings are given by stream, in the order
        of times."""
        return trajectories(ShareArchive(self.spans, tables), self.question, most)

    def open(self, share: int, tables: Mapping[str, pa.Table]) -> OpenPast:
        """The past of a share, likewise."""
        place = Place(Matrix(self.shares), share)
        return OpenPast(ShareArchive(self.spans, tables), self.question, [place])

    def found(self, past: OpenPast, most: int | None) -> Iterator[list[Part]]:
        """What a share finds, slice by slice, until it is certain that the answer has too many
        rows: those of changes that no other share can take back."""
        counted = Counted(self.question, most)
        for found in past.found(self.slices):
            yield found
            try:
                counted.add(each for each in found if isinstance(each, Change) and each.is_settled)
            except TooManyRows:
                return  # and whoever puts the shares together will see that


class Together:
    """Puts together what the shares of a question have found, one slice of time after the other."""

    def __init__(self, question: Question, most: int | None) -> None:
        self._question, self._most = question, most
        self._answers = Answers(Dictionary())
        self._counted = Counted(question, most)
        self._changes: list[Change] = []

    def add(self, found: Iterable[Part]) -> None:
        """What all shares have found in the next slice."""
        changes = settle(merge(found, self._answers))
        self._counted.add(changes)
        self._changes += changes

    def recalled(self) -> Recalled:
        """What the question is answered with."""
        return Recalled(rows_told(self._question, self._changes, self._most))


def ways_together(shares: Sequence[Recalled]) -> Recalled:
    """The ways of all objects, by their keys; those of one object are of one share."""
    keys = [key for share in shares for key in share.keys]
    rows = [row for share in shares for row in share.rows]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return Recalled([rows[i] for i in order], keys=tuple(keys[i] for i in order))


class ShareArchive:
    """An archive of the objects of a share: for each stream one table in the order of times, with
    the objects at the first time that matters and the readings since."""

    def __init__(self, spans: Mapping[str, Span | None], tables: Mapping[str, pa.Table]) -> None:
        self._spans, self._tables = spans, tables

    def span(self, stream: Stream, at: int | None = None) -> Span | None:
        """The times that the whole archive can be asked about."""
        return self._spans[stream.name]

    def extent(self, stream: Stream, at: int) -> Extent | None:
        """Where the objects of a time are: nobody knows without a look at them."""
        return None

    def objects(
        self, stream: Stream, at: int, box: Box | None = None, keys: frozenset[Key] | None = None
    ) -> Found:
        """The last reading with time <= `at` of each object that had not disappeared by then."""
        table = self._between(stream, None, at)
        last = last_of_each(stream, with_keys(stream, table, keys))
        return Found(within_box(stream, last.filter(pc.invert(gone_of(last))), box))

    def readings(
        self,
        stream: Stream,
        after: int,
        until: int,
        box: Box | None = None,
        keys: frozenset[Key] | None = None,
    ) -> Found:
        """The readings with `after` < time <= `until`, in the order of times."""
        some = with_keys(stream, self._between(stream, after, until), keys)
        return Found(within_box(stream, some, box))

    def _between(self, stream: Stream, after: int | None, until: int) -> pa.Table:
        table = self._tables.get(stream.name)
        if table is None:
            return segment_schema(stream.columns).empty_table()
        times = times_of(table).to_numpy()
        start = 0 if after is None else int(np.searchsorted(times, after, side="right"))
        end = int(np.searchsorted(times, until, side="right"))
        return table.slice(start, end - start)
