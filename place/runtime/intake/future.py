"""How far ahead of the clock on the wall a reading may be.

One reading from the future moves the time of its stream there, and all others are late from then
on. So doors that take news refuse or set aside what lies too far ahead. It is judged once, before a
reading is written down, and never again: what was taken stays taken, also after a restart.
Recordings are no news, and are not judged.
"""

from __future__ import annotations

import time

from place.model.schema import Stream
from place.model.time import LATEST, MINUTE

LIVE = 5 * MINUTE
"""How far ahead a reading may be that comes by HTTP, from files, Kafka or a DataFrame, where the
stream has no option `max_future`."""


def wall_clock() -> int:
    """The instant that the clock on the wall shows."""
    return time.time_ns() // 1000


def latest_time(stream: Stream, now: int) -> int:
    """The latest time that a reading of a live source may have.

    >>> latest_time(cars, now) - now == 5 * MINUTE  # doctest: +SKIP
    """
    ahead = LIVE if stream.max_future is None else stream.max_future
    return min(now + ahead, LATEST)
