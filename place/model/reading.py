"""Readings: what moving objects send.

A message is the row of a stream's columns, or word that an object disappears. Whatever does not
fit the stream's schema is refused at the door (`place/runtime/intake`), so that nothing behind has
to ask again.
"""

from __future__ import annotations

from dataclasses import dataclass

from place.model.types import Row

Key = int | str

UNNUMBERED = 0
"""The key of a reading of a stream without KEY, until the runtime that takes it numbers it."""


@dataclass(frozen=True)
class Reading:
    """One message of an object: its row, or None where it says that the object disappears."""

    stream: str
    key: Key
    time: int
    row: Row | None

    @property
    def disappears(self) -> bool:
        return self.row is None


@dataclass(frozen=True)
class Advance:
    """Word that a stream's source has told all readings up to this time (all streams if None)."""

    time: int
    stream: str | None = None


Input = Reading | Advance
