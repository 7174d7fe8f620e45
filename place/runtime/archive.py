"""What a question about the past asks of an archive, wherever that is kept.

An archive holds the readings of a stream that were in time, in the order of its source, and enough
to know which objects there were at an instant. Times are microseconds since 1970, and tables are
segments (`place/model/segment.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from place.model.reading import Key
from place.model.schema import Stream

Box = tuple[float, float, float, float]
"""Least x, least y, greatest x, greatest y; closed."""


@dataclass(frozen=True)
class Span:
    """The times that an archive can speak of, both ends among them.

    At any time from `begin` on the objects are known as they were then; `end` is the last time
    that is complete: the archive has all readings up to it that will ever be there.
    """

    begin: int
    end: int
    is_pinned: bool = False
    """Whether it is kept only because a time in it is pinned; what was before it is gone."""


@dataclass(frozen=True)
class Found:
    """Readings that an archive gave, and what it had to read for them, which EXPLAIN tells."""

    table: pa.Table
    files_read: int = 0
    files_skipped: int = 0
    bytes_read: int = 0


@dataclass(frozen=True)
class Extent:
    """A box that holds all readings that may be in effect at a time, and about how many objects
    there are."""

    box: Box
    objects: int


class Archive(Protocol):
    """The past of streams. `box` and `keys` name what matters; an archive may leave out the rest,
    and may give more than was asked for."""

    def span(self, stream: Stream, at: int | None = None) -> Span | None:
        """The times that can be asked about; None if nothing is there yet.

        Where `at` lies in an older time that was pinned: the times around it that are kept.
        """

    def extent(self, stream: Stream, at: int) -> Extent | None:
        """Where the objects of a time are, if that is known without a look at them."""

    def objects(
        self, stream: Stream, at: int, box: Box | None = None, keys: frozenset[Key] | None = None
    ) -> Found:
        """The last reading with time <= `at` of each object that had not disappeared by then.

        With a box: of each object whose last reading lies in it. Timeouts are left to the caller.
        """

    def readings(
        self,
        stream: Stream,
        after: int,
        until: int,
        box: Box | None = None,
        keys: frozenset[Key] | None = None,
    ) -> Found:
        """The readings with `after` < time <= `until`, word that objects disappear among them, in
        the order of times and, at one time, of their source. With a box: those that lie in it."""
