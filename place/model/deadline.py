"""How long something may take: a deadline that work looks at between its pieces.

Nobody can stop a compiled kernel, or an operator in the middle of its arrays, and leave behind what
others can go on with. So work that may be too much is done in pieces of a bounded size, and asks
before each of them whether there is still time (`check`). Without a deadline there always is.

Work that nobody else depends on can also be given up (`at_most(…, can_be_given_up=True)`) when
whoever asked for it has left (`asked_by`), who is told meanwhile how far it is (`tell`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from place.errors import PlaceError

clock = time.monotonic
"""Tests have one of their own."""
_END: ContextVar[float] = ContextVar("end", default=math.inf)
_ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)
_CAN_BE_GIVEN_UP: ContextVar[bool] = ContextVar("can_be_given_up", default=False)


class OutOfTime(PlaceError):
    """The deadline has passed, and the work was left where it was."""

    def __init__(self) -> None:
        super().__init__("there is no time left")


class GivenUp(PlaceError):
    """Whoever asked has left, and the work was left where it was."""

    def __init__(self) -> None:
        super().__init__("nobody waits for the answer any more")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came while something was done that can be given up: all else is as it was."""


class Asker(Protocol):
    """Somebody who waits for an answer."""

    def is_there(self) -> bool:
        """Does anybody still wait?"""

    def hear(self, progress: str) -> None:
        """How far the work is, in words."""


@contextmanager
def asked_by(asker: Asker) -> Iterator[None]:
    """What is done meanwhile is done for somebody, who may leave."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


def tell(progress: str) -> None:
    """Tell whoever asked how far the work is."""
    asker = _ASKER.get()
    if asker is not None:
        asker.hear(progress)


@contextmanager
def at_most(seconds: float | None, *, can_be_given_up: bool = False) -> Iterator[None]:
    """What is done meanwhile may take so many seconds; None is no deadline. If it can be given up,
    it is when whoever asked for it has left.

    >>> with at_most(0):
    ...     check()
    Traceback (most recent call last):
    place.model.deadline.OutOfTime: there is no time left
    """
    token = _END.set(math.inf if seconds is None else clock() + seconds)
    other = _CAN_BE_GIVEN_UP.set(can_be_given_up)
    try:
        yield
    finally:
        _END.reset(token)
        _CAN_BE_GIVEN_UP.reset(other)


def check() -> None:
    """Raise an OutOfTime if the deadline has passed, or a GivenUp if the work can be given up and
    whoever asked for it has left: called between two pieces of work."""
    end = _END.get()
    if end != math.inf and clock() >= end:
        raise OutOfTime
    if _CAN_BE_GIVEN_UP.get():
        asker = _ASKER.get()
        if asker is not None and not asker.is_there():
            raise GivenUp
