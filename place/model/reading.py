"""Readings: what moving objects send, checked at the door.

A message is the row of a stream's columns, or word that an object disappears. Whatever does not
fit the stream's schema is refused here with a reason, so that nothing behind has to ask again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from place.errors import ReadingError
from place.model.schema import Stream
from place.model.space import Space
from place.model.types import Row, Value, ValueMismatch, coerce

Key = int | str


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


def make_reading(stream: Stream, values: Sequence[Any], time: int | None = None) -> Reading:
    """A reading from values in column order; without the time column where `time` is given.

    >>> make_reading(cars, (1, 0.5, 0.5, "Car"), time=0)  # doctest: +SKIP
    """
    given = list(values)
    if time is not None and stream.time is not None and len(given) == len(stream.columns) - 1:
        given.insert(stream.time, time)
    if len(given) != len(stream.columns):
        timed = stream.time is not None
        names = ", ".join(c.name for i, c in enumerate(stream.columns) if i != stream.time)
        raise ReadingError(
            f'a reading of stream "{stream.name}" has {len(stream.columns) - timed} values besides'
            f" its time, got {len(values)}",
            hint=f"they are {names}",
        )
    row = tuple(_checked(stream, index, value) for index, value in enumerate(given))
    _check_position(stream, row)
    moment = row[stream.time] if stream.time is not None else time
    if not isinstance(moment, int):
        raise ReadingError(f'a reading of stream "{stream.name}" has no time')
    return Reading(stream.name, _key(stream, row[stream.key]), moment, row)


def make_disappearance(stream: Stream, key: Any, time: int) -> Reading:
    """Word that an object disappears at `time`."""
    return Reading(stream.name, _key(stream, _checked(stream, stream.key, key)), time, None)


def _checked(stream: Stream, index: int, value: Any) -> Value:
    column = stream.columns[index]
    try:
        return coerce(value, column.type)
    except ValueMismatch as mismatch:
        raise ReadingError(f'column "{column.name}": {mismatch.message}') from None


def _key(stream: Stream, value: Value) -> Key:
    if value is None or not isinstance(value, int | str):
        raise ReadingError(f'a reading of stream "{stream.name}" has no key')
    return value


def _check_position(stream: Stream, row: Row) -> None:
    if stream.x is None or stream.y is None:
        return
    x, y = row[stream.x], row[stream.y]
    if not isinstance(x, int | float) or not isinstance(y, int | float):
        raise ReadingError("a reading needs a position: x and y are numbers, not NULL or NaN")
    if not (math.isfinite(x) and math.isfinite(y)):
        raise ReadingError(f"position ({x}, {y}) is not finite")
    if stream.space is Space.WGS84:
        if abs(y) > 90:
            raise ReadingError(f"latitude {y:g} is not between -90 and 90")
        if abs(x) > 180:
            raise ReadingError(f"longitude {x:g} is not between -180 and 180")
