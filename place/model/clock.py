"""A stream's clock: which instants are complete, and which readings come too late.

Event time advances by data alone. A reading tells that its source has reached its time: whatever
is more than `lateness` older, and comes later in the source's order, is late. So lateness does
not depend on how readings fall into ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

from place.model.time import BEGINNING


@dataclass
class Clock:
    """`closed` is the last instant that is complete; None until the stream has told a time."""

    lateness: int = 0
    closed: int | None = None

    def tell(self, time: int) -> bool:
        """A reading of this time is there: is it in time? Its own instant stays open for others.

        >>> clock = Clock(lateness=2)
        >>> clock.tell(10), clock.tell(8), clock.tell(7)
        (True, True, False)
        """
        if self.closed is not None and time <= self.closed:
            return False
        self._close(time - self.lateness - 1)
        return True

    def advance(self, time: int) -> None:
        """All readings up to `time` are told, but for those that may come `lateness` later."""
        self._close(time - self.lateness)

    def _close(self, instant: int) -> None:
        self.closed = instant if self.closed is None else max(self.closed, instant)


def now(clocks: list[Clock]) -> int:
    """The instant of what happens to several streams now: the slowest of those that told a time."""
    return min((c.closed for c in clocks if c.closed is not None), default=BEGINNING)
