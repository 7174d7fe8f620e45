"""How long something may take: a deadline that work looks at between its pieces.

Nobody can stop a compiled kernel, or an operator in the middle of its arrays, and leave behind what
others can go on with. So work that may be too much is done in pieces of a bounded size, and asks
before each of them whether there is still time (`check`). Without a deadline there always is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from place.errors import PlaceError

clock = time.monotonic
"""Tests have one of their own."""
_END: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTime(PlaceError):
    """The deadline has passed, and the work was left where it was."""

    def __init__(self) -> None:
        super().__init__("there is no time left")


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """What is done meanwhile may take so many seconds; None is no deadline.

    >>> with at_most(0):
    ...     check()
    Traceback (most recent call last):
    place.model.deadline.OutOfTime: there is no time left
    """
    token = _END.set(math.inf if seconds is None else clock() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def check() -> None:
    """Raise an OutOfTime if the deadline has passed: called between two pieces of work."""
    end = _END.get()
    if end != math.inf and clock() >= end:
        raise OutOfTime
