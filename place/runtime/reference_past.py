"""The reference of questions about the past: the definition of an answer, asked at another time.

`answer(q, t)` reads all readings and asks which of them are in effect at t, so it needs nothing but
that t. What an archive keeps of the readings, and which rows lasted how long, is spelled out here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from place.model.reading import Key, Reading
from place.model.schema import Stream
from place.model.segment import make_segment
from place.model.time import BEGINNING
from place.model.types import Row
from place.plan.past import Question
from place.plan.query import Query
from place.runtime.archive import Box, Extent, Found, Span
from place.runtime.reference import World, answer, instants, without_gaps
from place.runtime.reference_trajectory import trajectories
from place.runtime.reference_trigger import alerts


@dataclass(frozen=True)
class ReferenceArchive:
    """All readings of all streams, as an archive. `closed` is how far a stream is complete.

    `streams` are the streams as they were declared: whether they fill gaps is asked of them.
    """

    readings_of: Callable[[], Mapping[str, Sequence[Reading]]]
    closed: Callable[[str], int]
    streams: Callable[[str], Stream]

    def kept(self, stream: Stream) -> list[Reading]:
        """The readings that are archived, by time: from the beginning of the archive on, and the
        last one of each object before it."""
        span, sampled = self.span(stream), self._sampled(stream)
        if span is None:
            return []
        last = {r.key: r for r in sampled if r.time <= span.begin}
        return [
            r
            for r in sampled
            if r.time >= span.begin or (last[r.key] is r and stream.key is not None)
        ]

    def _sampled(self, stream: Stream) -> list[Reading]:
        """Of each object every nth reading, or the first in each period, by time and then as told.

        An object that has disappeared begins anew. Without KEY there are no objects, and all
        readings are kept.
        """
        archiving, taken = stream.archiving, []
        seen: dict[Key, int] = {}
        for reading in self._complete(stream):
            key, count = reading.key, seen.get(reading.key)
            if archiving is None or archiving.is_complete or stream.key is None:
                taken.append(reading)
            elif reading.disappears:
                seen.pop(key, None)
                taken.append(reading)
            elif archiving.period is not None:
                seen[key] = reading.time // archiving.period
                if seen[key] != count:
                    taken.append(reading)
            else:
                seen[key] = 0 if count is None else count + 1
                if seen[key] % archiving.nth == 0:
                    taken.append(reading)
        return taken

    def _complete(self, stream: Stream) -> list[Reading]:
        """The readings of a stream that are complete, by time and then as told, without gaps."""
        told = self.readings_of().get(stream.name, ())
        if self.streams(stream.name).fills_gaps:
            told = without_gaps(self.streams(stream.name), told)
        closed = self.closed(stream.name)
        return sorted((r for r in told if r.time <= closed), key=lambda reading: reading.time)

    def span(self, stream: Stream, at: int | None = None) -> Span | None:
        """The times that can be asked about; None if nothing is there yet."""
        told, end = self.readings_of().get(stream.name, ()), self.closed(stream.name)
        first = min((reading.time for reading in told), default=end + 1)
        if stream.archiving is None or first > end:
            return None
        keep = stream.archiving.keep
        return Span(first if keep is None else max(first, end - keep), end)

    def extent(self, stream: Stream, at: int) -> Extent | None:
        """Where the objects of a time are: nobody knows without a look at them."""
        return None

    def objects(
        self, stream: Stream, at: int, box: Box | None = None, keys: frozenset[Key] | None = None
    ) -> Found:
        """The last reading with time <= `at` of each object that had not disappeared by then."""
        last: dict[Key, Reading] = {}
        for reading in self.kept(stream):
            if reading.time <= at and stream.key is not None:
                last[reading.key] = reading
        there = [reading for reading in last.values() if not reading.disappears]
        return Found(make_segment(stream, [r for r in there if _fits(stream, r, box, keys)]))

    def readings(
        self,
        stream: Stream,
        after: int,
        until: int,
        box: Box | None = None,
        keys: frozenset[Key] | None = None,
    ) -> Found:
        """The readings with `after` < time <= `until`, in the order of times."""
        some = [r for r in self.kept(stream) if after < r.time <= until]
        return Found(make_segment(stream, [r for r in some if _fits(stream, r, box, keys)]))


def _fits(stream: Stream, reading: Reading, box: Box | None, keys: frozenset[Key] | None) -> bool:
    if keys is not None and reading.key not in keys:
        return False
    if box is None or stream.x is None or stream.y is None:
        return True
    x, y = (None, None) if reading.row is None else (reading.row[stream.x], reading.row[stream.y])
    return (
        x is not None and y is not None and box[0] <= x <= box[2] and box[1] <= y <= box[3]  # type: ignore[operator]
    )


def recalled(archive: ReferenceArchive, question: Question) -> list[Row]:
    """The rows that a question is answered with."""
    readings = {stream.name: archive.kept(stream) for stream in question.streams}
    world, query = World(question.catalog, readings), question.query
    if question.trajectory is not None:
        return trajectories(question, world)
    if query.trigger is not None:
        found = alerts(query, world, BEGINNING, question.last)
        return [(*row, instant) for instant, row in found if instant >= question.begin]
    if question.until is None:
        return list(answer(query, world, question.begin).elements())
    return lasting(query, world, question.begin, question.until)


def lasting(query: Query, world: World, begin: int, until: int) -> list[Row]:
    """Each row that was in the answer at some instant, with when it joined and when it left.

    It joined at `begin` if it was there before, and has not left (None) if it is there at the end.
    Of equal rows the one that joined first leaves first.
    """
    rows: list[Row] = []
    there: dict[Row, deque[int]] = {}
    before: Counter[Row] = Counter()
    for instant in [begin, *instants(query, world, begin, until)]:
        now = answer(query, world, instant)
        for row in (before - now).elements():
            rows.append((*row, there[row].popleft(), instant))
        for row in (now - before).elements():
            there.setdefault(row, deque()).append(instant)
        before = now
    rows += [(*row, joined, None) for row, since in there.items() for joined in since]
    return rows
