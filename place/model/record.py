"""Rows whose values have names: what Python users get of answers, results and deltas.

A record is the plain tuple that it was: it is compared, hashed, counted and unpacked like one, and
its places hold the values as they are kept, in which a TIMESTAMP is an int of microseconds. By
name, as an attribute or a key, a TIMESTAMP is a datetime in UTC and an INTERVAL a timedelta.

>>> car = record_type(("id", "ts"), (Type.BIGINT, Type.TIMESTAMP))((7, 1_000_000))
>>> car == (7, 1_000_000), car.id, car["ts"].isoformat()
(True, 7, '1970-01-01T00:00:01+00:00')
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, SupportsIndex

from place.errors import suggestion
from place.model.time import moment_at
from place.model.types import Type, Value

PythonValue = int | float | str | bool | datetime | timedelta | None


class Record(tuple[Value, ...]):
    """A row with names; `record_type` makes the class of a query's rows."""

    __slots__ = ()
    _columns: tuple[str, ...] = ()
    _types: tuple[Type, ...] = ()
    _places: dict[str, int] = {}

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        """The value at a place as it is kept; by name, as Python has it."""
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        place = self._places.get(key)
        if place is None:
            place = self._places.get(key.casefold())
        if place is None:
            raise KeyError(_unknown(key, self._columns))
        return python_value(tuple.__getitem__(self, place), self._types[place])

    def __getattr__(self, name: str) -> Any:
        """A column whose name is written in another case, or the error."""
        if not name.startswith("_") and name.casefold() in self._places:
            return self[name]
        raise AttributeError(_unknown(name, self._columns))

    def as_dict(self) -> dict[str, PythonValue]:
        """The values by name; a second column of a name has a number behind it.

        >>> record_type(("id", "id"), (Type.BIGINT, Type.BIGINT))((1, 2)).as_dict()
        {'id': 1, 'id_2': 2}
        """
        values = map(python_value, self, self._types)
        return dict(zip(unique_names(self._columns), values, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return _record, (self._columns, self._types, tuple(self))


def _record(columns: tuple[str, ...], types: tuple[Type, ...], row: tuple[Value, ...]) -> Record:
    return record_type(columns, types)(row)


@lru_cache(maxsize=1024)
def record_type(columns: tuple[str, ...], types: tuple[Type, ...]) -> type[Record]:
    """The class of rows with these columns."""
    places: dict[str, int] = {}
    for place, name in reversed(list(enumerate(columns))):  # the first of a name counts
        places[name.casefold()] = place
    places |= {name: place for place, name in reversed(list(enumerate(columns)))}
    attributes: dict[str, Any] = {"__slots__": ()}
    for name in columns:
        is_free = name != "as_dict" and not name.startswith("_")
        if is_free and name.isidentifier() and not keyword.iskeyword(name):
            attributes[name] = _attribute(places[name], types[places[name]])
    attributes |= {"_columns": columns, "_types": types, "_places": places}
    return type("Record", (Record,), attributes)


def _attribute(place: int, kind: Type) -> property:
    return property(lambda row: python_value(tuple.__getitem__(row, place), kind))


def python_value(value: Value, kind: Type) -> PythonValue:
    """A value as Python has it: a TIMESTAMP as a datetime in UTC, an INTERVAL as a timedelta."""
    if value is not None and kind is Type.TIMESTAMP:
        return moment_at(int(value))
    if value is not None and kind is Type.INTERVAL:
        return timedelta(microseconds=int(value))
    return value


def unique_names(names: Sequence[str]) -> list[str]:
    """Names of which none stands twice.

    >>> unique_names(["id", "sign", "id", "id_2"])
    ['id', 'sign', 'id_3', 'id_2']
    """
    taken = set(names)
    seen: set[str] = set()
    found: list[str] = []
    for name in names:
        chosen, number = name, 2
        while chosen in seen or (chosen != name and chosen in taken):
            chosen, number = f"{name}_{number}", number + 1
        seen.add(chosen)
        found.append(chosen)
    return found


def _unknown(name: str, columns: Sequence[str]) -> str:
    return f'there is no column "{name}"; {suggestion(name, columns, "columns")}'
