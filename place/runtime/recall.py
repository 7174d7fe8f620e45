"""Questions about the past, answered by the engine: workers in memory are opened at that time.

They are given the streams, tables and regions of the catalog, then the objects and readings that an
archive has of that time, as far back as the windows of the query reach, and are then asked like any
others. A question about all of a time registers its query in them and feeds the readings of that
time; a tick may hold any number of instants, so that few ticks do. Their changes tell when each row
joined and left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from place.engine.answers import Answers, merge
from place.engine.changes import Change, settle
from place.engine.columns import Dictionary
from place.engine.matrix import Matrix, Place
from place.engine.partial_answers import Found as Part
from place.engine.slices import Segment, Told
from place.engine.validity import STILL, Lasting, lasting
from place.engine.worker import Worker
from place.kernels.arrays import Longs
from place.model import deadline
from place.model.reading import Advance, Key
from place.model.regions import around
from place.model.schema import Stream
from place.model.space import Point
from place.model.time import HOUR, format_timestamp
from place.model.types import Row
from place.plan.past import Question
from place.plan.past_reads import (
    Needed,
    begins_with_objects,
    box_around,
    floor_to,
    needs_of,
    start_of,
)
from place.plan.query import Around, Query
from place.runtime.archive import Archive, Box
from place.runtime.archive_reads import Reads, keys_within, since_of, told_of
from place.runtime.interface import Recalled, check_rows
from place.runtime.nearest_box import around_nearest, asks_nearest
from place.runtime.together import asking, become_all
from place.runtime.trajectories import trajectories
from place.sql.limits import current

LOG = logging.getLogger("place.past")
PIECE = 2_000_000
"""About so many readings are taken at once."""
PATIENCE = 5.0
"""Seconds after which a question that is not answered yet says how far it is."""


def recall(archive: Archive, question: Question, most: int | None = None) -> Recalled:
    """What a question is answered with; its range was checked before."""
    with deadline.at_most(current().seconds, can_be_given_up=True):
        if question.trajectory is not None:
            return trajectories(archive, question, most)
        past = OpenPast(archive, question)
        if question.until is None and past.is_simple:
            past.open()
            changes = past.ask()
            check_rows(sum(map(len, changes)), most)
            rows = [delta.row for change in changes for delta in change.deltas()]
            return Recalled(rows, past.notes())
        changes = list(past.run(most))
        return Recalled(rows_told(question, changes, most), past.notes())


def rows_told(question: Question, changes: Sequence[Change], most: int | None = None) -> list[Row]:
    """The rows that a question is answered with, from all changes of its answer."""
    found = lasting(question.query, changes)
    if question.query.trigger is not None:
        chosen = found.take((found.joined >= question.begin) & (found.joined <= question.last))
        times = [chosen.joined]
    elif question.until is None:
        chosen, times = found.take(found.left == STILL), []
    else:
        chosen = found.take(found.left > question.begin)
        times = [np.maximum(chosen.joined, question.begin), chosen.left]
    check_rows(len(chosen), most)
    return _rows(chosen, times)


class Progress:
    """Says now and then how far a question is: in the log, and to whoever asked."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()

    def is_due(self) -> bool:
        """Has nothing been said for a while?"""
        return time.monotonic() - self._told > PATIENCE

    def tell(self, how_far: str) -> None:
        """Say how far it is."""
        self._told = time.monotonic()
        text = f"{how_far}, after {self._told - self._began:.0f} s"
        LOG.info("%s", text)
        deadline.tell(text)


class Counted:
    """Counts the rows that join an answer after the first instant, of which only so many may."""

    def __init__(self, question: Question, most: int | None) -> None:
        self._begin, self._joined = question.begin, 0
        self._most = most if question.until is not None else None

    def add(self, changes: Iterable[Change]) -> None:
        """Count the rows of some changes; a TooManyRows instead of more than may be."""
        if self._most is not None:
            self._joined += sum(
                int((np.broadcast_to(change.instants, len(change)) > self._begin).sum())
                for change in changes
                if change.sign > 0
            )
            check_rows(self._joined, self._most)


def _rows(found: Lasting, times: list[Longs]) -> list[Row]:
    columns = [column.to_pylist() for column in found.columns]
    columns += [pa.array(each, pa.int64(), mask=each == STILL).to_pylist() for each in times]
    return list(zip(*columns, strict=True))


class OpenPast:
    """Workers that are at a time of the past, and go on from there with what an archive has."""

    def __init__(
        self, archive: Archive, question: Question, places: Sequence[Place] | None = None
    ) -> None:
        self._archive = archive
        self.question = question
        self._catalog = question.catalog
        self.workers = [Worker(place) for place in places or Matrix().places()]
        self._answers = Answers(Dictionary())
        self.reads = {stream.name: Reads() for stream in question.streams}
        self._needs = {need.stream.name: need for need in needs_of(question)}
        self._spans = {
            stream.name: archive.span(stream, question.begin) for stream in question.streams
        }
        self._start = start_of(question)
        self.is_simple = begins_with_objects(question)
        self._reached: dict[str, int] = {}
        """How far each stream was read."""
        self._focal: frozenset[Key] | None = None
        """The focal object, where it is of a stream that is read by place."""
        self._become()

    def notes(self) -> tuple[str, ...]:
        """What was read, and what was not."""
        return tuple(told_of(self._needs[name], reads) for name, reads in self.reads.items())

    # The engine

    def _become(self) -> list[Part]:
        return become_all(self.workers, self._catalog)

    def register(self) -> list[Part]:
        """The query is answered from now on: its first answer."""
        self.question = question = named(self.question)
        self._catalog = self._catalog.put(question.query.kind, question.query, "")
        return self._become()

    def ask(self) -> list[Change]:
        """The answer at the instant that was opened."""
        tables, query = self._catalog.arrow_of, self.question.query
        found = [
            each
            for worker, moved in asking(self.workers, self._catalog, query)
            for each in worker.probe(query, tables, moved)
        ]
        return settle(merge(found, Answers(Dictionary())))

    def _take(self, told: Iterable[Told]) -> list[Part]:
        told = list(told)
        return [each for worker in self.workers for each in worker.take(told)]

    # What it is given

    def open(self) -> list[Part]:
        """Have the objects at the first instant; what changes by that, if the query is there."""
        if self.is_simple:
            self._look_around()
            self._look_near()
        told: list[Told] = []
        for name, need in self._needs.items():
            span = self._spans[name]
            if span is None:  # nothing is archived of it
                self._reached[name] = self.question.last
                continue
            since = self._reached[name] = since_of(need, span, self._start)
            if need.objects:
                told.append(Segment(name, _by_time(self._objects(need, since))))
        if self.is_simple and self.question.until is not None:
            told += self._read(self.question.begin)  # what takes effect at an instant after it
        for name, reached in self._reached.items():
            at = max(reached, self.question.begin) if self.is_simple else reached
            told.append(Advance(at, name))
        return self._take(told)

    def run(self, most: int | None = None) -> Iterator[Change]:
        """The changes of the answer, from nothing to what it is at the last instant."""
        counted = Counted(self.question, most)
        progress = Progress()
        for found in self.found(self._slices()):
            changes = settle(merge(found, self._answers))
            counted.add(changes)
            yield from changes
            if progress.is_due() and self._reached:
                reached, last = min(self._reached.values()), self.question.last
                progress.tell(
                    f"the past is read until {format_timestamp(reached)} of"
                    f" {format_timestamp(last)}"
                )

    def found(self, slices: Iterable[int]) -> Iterator[list[Part]]:
        """What the workers find, tick by tick: the first answer, and what changes until each of
        these times. Workers of other rows may be elsewhere: whoever registers the query before it
        is given objects has to be told nothing by them."""
        self._choose_keys()
        if self.is_simple and self._is_whole:
            self.open()
            yield self.register()
        else:
            yield self.register()
            yield self.open()
        for until in slices:
            deadline.check()
            yield self._take(self._read(until))

    @property
    def _is_whole(self) -> bool:
        """Are the workers of all rows here?"""
        return len(self.workers) == self.workers[0].place.matrix.size

    def _slices(self) -> Iterator[int]:
        """Times until which readings are taken together; how many these are tells the next one."""
        last = self.question.last
        at = min(self._reached.values())
        steps = [s.archiving.snapshot for s in self.question.streams if s.archiving is not None]
        step = min(steps, default=HOUR)
        while at < last:
            before = sum(reads.rows for reads in self.reads.values())
            at = min(at + step, last)
            yield at
            rows = sum(reads.rows for reads in self.reads.values()) - before
            if rows < PIECE // 4:
                step *= 4
            elif rows > PIECE:
                step = max(1, step // 2)

    def _read(self, until: int) -> Iterator[Told]:
        for name, need in self._needs.items():
            since = self._reached[name]
            if self._spans[name] is not None and since < until:
                found = self._archive.readings(need.stream, since, until, need.box, need.keys)
                yield Segment(name, self.reads[name].add(found))
                self._reached[name] = until
            yield Advance(until, name)

    def _objects(self, need: Needed, at: int) -> pa.Table:
        """The objects of a stream at a time, as far as they matter."""
        reads = self.reads[need.stream.name]
        table = reads.add(self._archive.objects(need.stream, at, need.box, need.keys))
        if need.box is not None and self._focal is not None:  # which is not inside of its region
            focal = self._archive.objects(need.stream, at, None, self._focal)
            table = pa.concat_tables([table, reads.add(focal)])
        return table

    # What it can do without

    def _choose_keys(self) -> None:
        """Of a region that stands still only objects matter that were in it at some time.

        Also where only readings count, as in a window: the last reading of an object at an instant
        replaces those before it, and it may be elsewhere.
        """
        question = self.question
        if self.is_simple and question.until is None:
            return
        for name, need in self._needs.items():
            span = self._spans[name]
            if span is None:
                continue
            begin = question.begin
            if not self.is_simple:
                begin = span.begin if self._start is None else self._start
            self._needs[name] = keys_within(
                self._archive, need, begin, question.last, self.reads[name]
            )

    def _look_around(self) -> None:
        """Where a region is that moves is known once its focal object is: the objects around it are
        enough, at one instant."""
        query = self.question.query
        area = query.inside
        if not isinstance(area, Around) or self.question.until is not None or query.is_join:
            return
        subject, need = query.sources[query.subject], self._needs.get(area.focal.stream)
        if need is None or not isinstance(subject.relation, Stream) or query.query_table:
            return
        if any(focal != area.focal for focal in query.focals) or len(query.streams) > 2:
            return
        box = self._box_of(need.stream, area, query)
        name = subject.relation.name
        asked = self._needs[name]
        if box is None or asked.keys is not None or _is_twice(query, name):
            return
        self._needs[name] = replace(asked, box=box)
        if name == need.stream.name:
            self._focal = frozenset((area.focal.key,))

    def _look_near(self) -> None:
        """Of kNN around a place, only objects near it matter; how near is found by looking."""
        nearest = self.question.query.nearest
        if nearest is None or not asks_nearest(self.question):
            return
        name = self.question.query.sources[0].relation.name
        need, span = self._needs[name], self._spans[name]
        centre, focal = nearest.point, nearest.focal
        if focal is not None and focal.stream in self._needs:
            centre = self._place_of(self._needs[focal.stream].stream, focal.key)
        if centre is None or span is None:
            return
        at = max(floor_to(self.question.begin, need.stream.evaluate), span.begin)
        found = around_nearest(self._archive, self.question, need, centre, at, self.reads[name])
        self._needs[name] = found
        if found.box is not None and focal is not None and focal.stream == name:
            self._focal = frozenset((focal.key,))

    def _box_of(self, stream: Stream, area: Around, query: Query) -> Box | None:
        place = self._place_of(stream, area.focal.key)
        if place is None:
            return None
        return box_around(around(query.space, place, area.extents), query.space)

    def _place_of(self, stream: Stream, key: Key) -> Point | None:
        """Where an object was at the first instant."""
        span = self._spans[stream.name]
        if span is None or stream.x is None or stream.y is None or stream.key is None:
            return None
        at = max(floor_to(self.question.begin, stream.evaluate), span.begin)
        keys = frozenset((key,))
        table = self.reads[stream.name].add(self._archive.objects(stream, at, None, keys))
        places = zip(
            table.column(stream.key).to_pylist(),
            table.column(stream.x).to_pylist(),
            table.column(stream.y).to_pylist(),
            strict=True,
        )
        for each, x, y in places:
            if each == key and x is not None and y is not None:
                return x, y
        return None


def named(question: Question) -> Question:
    """The same question, its query with a name."""
    query = question.query
    return question if query.name else replace(question, query=replace(query, name="past"))


def _is_twice(query: Query, stream: str) -> bool:
    return sum(source.relation.name == stream for source in query.sources) > 1


def _by_time(table: pa.Table) -> pa.Table:
    times = table.column(table.num_columns - 2).to_numpy()
    return table.take(pa.array(np.argsort(times, kind="stable")))
