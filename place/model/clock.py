"""A stream's clock: which instants are complete, and which readings come too late.

Event time advances by data alone. A reading says that its source has reached the reading's time. A
reading that comes later in the source's order, and is more than `lateness` older, is late. So
lateness does not depend on how readings fall into ticks (docs/design.md, "Time and lateness").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.model.schema import Stream
from place.model.time import BEGINNING, LATEST

LONG_BEFORE = -(1 << 62)


class Whole(NamedTuple):
    """What has to be known of all readings that were told together, by whoever sees only some of
    them: the latest time, and the latest time before each that is seen (None if all of them were in
    the order of their times)."""

    latest: int
    before: NDArray[np.int64] | None = None


@dataclass
class Clock:
    """`closed` is the last complete instant; it is None until the stream has got a reading or an
    advance.

    A source of several partitions has an order only within each of them. `parts` is the last
    complete instant of each partition, and the stream is as far as the slowest partition that has
    sent a reading.
    """

    lateness: int = 0
    closed: int | None = None
    parts: dict[str, int] = field(default_factory=dict)

    def tell(self, time: int) -> bool:
        """Take a reading of this time. Is it in time? Its own instant stays open for others.

        >>> clock = Clock(lateness=2)
        >>> clock.tell(10), clock.tell(8), clock.tell(7)
        (True, True, False)
        """
        if self.closed is not None and time <= self.closed:
            return False
        self._close(time - self.lateness - 1)
        return True

    def tell_all(
        self, times: NDArray[np.int64], part: str | None = None, whole: Whole | None = None
    ) -> NDArray[np.bool_]:
        """Take many readings in the order of their source, or of a partition of it. Which are in
        time? If these are only some of the readings that were told, `whole` tells of all of them.

        A late reading is older than one before it, so it cannot move the clock, and need not be
        left out.
        """
        if not len(times) and whole is None:
            return np.ones(0, np.bool_)
        known = LONG_BEFORE if self.closed is None else self.closed
        if part is not None:
            known = max(known, self.parts.get(part, LONG_BEFORE))
        if whole is not None:
            last = whole.latest - self.lateness - 1
        else:
            last = int(times.max()) - self.lateness - 1
        in_time: NDArray[np.bool_]
        if not len(times) or times.min() > max(known, last):
            in_time = np.ones(len(times), np.bool_)  # no reading closes the instant of another
        else:
            before = np.full(len(times), known)
            if whole is None:
                closing = np.maximum.accumulate(times - self.lateness - 1)
                before[1:] = np.maximum(before[1:], closing[:-1])
            elif whole.before is not None:
                before = np.maximum(before, whole.before - self.lateness - 1)
            in_time = times > before
        if part is None:
            self._close(last)
        else:
            self.parts[part] = max(known, last)
            slowest = min(self.parts.values())
            if slowest > LONG_BEFORE:
                self._close(slowest)
        return in_time

    def meet(self, parts: Iterable[str]) -> None:
        """Wait for readings of these partitions, too: the stream does not advance until they have
        sent some."""
        start = LONG_BEFORE if self.closed is None else self.closed
        self.parts = {**dict.fromkeys(parts, start), **self.parts}

    def advance(self, time: int) -> None:
        """The source has sent all readings up to `time`, except those that may still come
        `lateness` later."""
        self._close(time - self.lateness)
        self.parts = {
            part: max(closed, time - self.lateness) for part, closed in self.parts.items()
        }

    def _close(self, instant: int) -> None:
        self.closed = instant if self.closed is None else max(self.closed, instant)


class Clocks:
    """The clocks of all streams, and what time it is for those that a query reads together."""

    def __init__(self) -> None:
        self._clocks: dict[str, Clock] = {}

    def follow(self, streams: Iterable[Stream]) -> None:
        """Have a clock for each of these streams, and for no others."""
        latenesses = {stream.name: stream.lateness for stream in streams}
        for gone in self._clocks.keys() - latenesses.keys():
            del self._clocks[gone]
        for name in latenesses.keys() - self._clocks.keys():
            self._clocks[name] = Clock(latenesses[name])
        for name, clock in self._clocks.items():
            clock.lateness = latenesses[name]  # what is complete stays so

    def forget(self, stream: str) -> None:
        """A stream has told no time, as far as anybody knows."""
        self._clocks[stream] = Clock(self._clocks[stream].lateness)

    def tell(self, stream: str, time: int) -> bool:
        """Take a reading of this time. Is it in time?"""
        return self._clocks[stream].tell(time)

    def tell_all(
        self,
        stream: str,
        times: NDArray[np.int64],
        part: str | None = None,
        whole: Whole | None = None,
    ) -> NDArray[np.bool_]:
        """Take readings of these times, in this order. Which are in time?"""
        return self._clocks[stream].tell_all(times, part, whole)

    def meet(self, stream: str, parts: Iterable[str]) -> None:
        """Wait for readings of these partitions of a stream, too."""
        self._clocks[stream].meet(parts)

    def parts(self) -> dict[str, dict[str, int]]:
        """The last complete instant of each partition of each stream."""
        return {name: clock.parts for name, clock in self._clocks.items()}

    def times(self) -> dict[str, int | None]:
        """The last complete instant of each stream; None for one that has sent nothing yet."""
        return {name: clock.closed for name, clock in self._clocks.items()}

    def set_times(
        self, times: Mapping[str, int | None], parts: Mapping[str, dict[str, int]]
    ) -> None:
        """Set the clocks to these times."""
        for name, closed in times.items():
            self._clocks[name].closed = closed
            self._clocks[name].parts = parts[name]

    def advance(self, time: int, stream: str | None) -> None:
        """A source (or all of them, if None) has sent all readings up to `time`."""
        for name, clock in self._clocks.items():
            if stream in (None, name):
                clock.advance(time)

    def closed(self, stream: str) -> int:
        """The last instant of a stream that is complete."""
        closed = self._clocks[stream].closed
        return BEGINNING if closed is None else closed

    def floor(self) -> int | None:
        """The last instant that is complete in all streams; None while one of them has sent
        nothing."""
        closed = [clock.closed for clock in self._clocks.values() if clock.closed is not None]
        return min(closed) if closed and len(closed) == len(self._clocks) else None

    def slowest(self) -> int | None:
        """How far the slowest stream is, which the history of another may have to wait for; None
        while one of them has sent nothing."""
        return self.floor() if len(self._clocks) > 1 else LATEST

    def now(self, streams: frozenset[str]) -> int:
        """The instant at which a statement about these streams takes effect: the last complete
        instant of the slowest of those that have sent anything.

        A statement about no stream takes effect at the last complete instant of the fastest stream.
        """
        chosen = [self._clocks[name] for name in streams] or list(self._clocks.values())
        told = [clock.closed for clock in chosen if clock.closed is not None]
        if not told:
            return BEGINNING
        return min(told) if streams else max(told)

    def join(self, streams: frozenset[str]) -> int:
        """The instant at which a query over these streams is registered. Streams that have sent
        nothing yet start with that instant."""
        instant = self.now(streams)
        clocks = [self._clocks[name] for name in streams]
        if any(clock.closed is not None for clock in clocks):
            for clock in clocks:
                clock.closed = instant if clock.closed is None else clock.closed
        return instant

    def complete(self, streams: frozenset[str]) -> int | None:
        """The last instant that is complete in all of these; None while one of them has sent
        nothing."""
        closed = [self._clocks[name].closed for name in streams]
        told = [instant for instant in closed if instant is not None]
        return min(told) if told and len(told) == len(closed) else None


def ceil_all(times: NDArray[np.int64], period: int | None) -> NDArray[np.int64]:
    """`ceil_to` of many: the instants at which readings of these times take effect."""
    if period is None:
        return times
    if len(times) > 1 and times[0] == times[-1] == times.min() == times.max():
        return np.full(len(times), -(-int(times[0]) // period) * period)
    ceiled: NDArray[np.int64] = -(-times // period) * period
    return ceiled
