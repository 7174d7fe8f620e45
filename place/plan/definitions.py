"""Definitions by name, as a value that never changes and yet is cheap to change.

A catalog of 100,000 queries gets one more: copying all of them for it would take longer than all
the rest. So a new version shares the large part with the old one and has a small part of its own,
which is merged into the large one when it has grown to about the square root of it. Names stand in
the order in which they were defined last.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

T = TypeVar("T")
D = TypeVar("D")

_GONE: Any = object()
FEW = 64
"""A small part of so many is never merged."""


class Definitions(Mapping[str, T]):
    """A mapping that is not changed in place: `put` and `without` give another one."""

    __slots__ = ("__weakref__", "_base", "_compared", "_merged", "_recent", "_size")

    def __init__(self, base: dict[str, T] | None = None) -> None:
        self._base: dict[str, T] = base if base is not None else {}
        self._recent: dict[str, T] = {}
        self._size = len(self._base)
        self._merged: tuple[dict[str, T], dict[str, T]] | None = None
        """The large part before it was merged with a small one, and that small one."""
        self._compared: tuple[weakref.ref[Definitions[T]], list[str], list[str]] | None = None
        """The version that this one was compared with last, and what was different: a tick asks
        many times."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Definitions, (_merged(self._base, self._recent),)

    def __getitem__(self, key: str) -> T:
        found = self._recent.get(key)
        if found is None:
            return self._base[key]
        if found is _GONE:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: str, /) -> T | None: ...
    @overload
    def get(self, key: str, /, default: T) -> T: ...
    @overload
    def get(self, key: str, /, default: D) -> T | D: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        found = self._recent.get(key)
        if found is None:
            return self._base.get(key, default)
        return default if found is _GONE else found

    def __contains__(self, key: object) -> bool:
        found = self._recent.get(key)  # type: ignore[call-overload]
        return key in self._base if found is None else found is not _GONE

    def __iter__(self) -> Iterator[str]:
        recent = self._recent
        if not recent:
            return iter(self._base)
        older = (key for key in self._base if key not in recent)
        return (key for part in (older, self._newer()) for key in part)

    def _newer(self) -> Iterator[str]:
        return (key for key, value in self._recent.items() if value is not _GONE)

    def __len__(self) -> int:
        return self._size

    def put(self, key: str, value: T) -> Definitions[T]:
        """The same with one definition more, or another one of that name."""
        recent = self._recent.copy()
        recent.pop(key, None)  # it stands at the end, where it was defined last
        recent[key] = value
        return self._next(recent, self._size + (key not in self))

    def without(self, key: str) -> Definitions[T]:
        """The same without one definition."""
        return self._next({**self._recent, key: _GONE}, self._size - (key in self))

    def _next(self, recent: dict[str, T], size: int) -> Definitions[T]:
        made: Definitions[T] = Definitions.__new__(Definitions)
        made._base, made._recent, made._size = self._base, recent, size
        made._merged, made._compared = self._merged, None
        if len(recent) > FEW and len(recent) ** 2 > len(self._base):
            made._base, made._recent = _merged(self._base, recent), {}
            made._merged = (self._base, recent)
        return made

    def since(self, before: Definitions[T]) -> tuple[list[str], list[str]]:
        """The names that were there before and are not, or are another definition, and the names
        that are new, or are another definition, in their order."""
        if self is before:
            return [], []
        if self._compared is None or self._compared[0]() is not before:
            self._compared = (weakref.ref(before), *self._differences(before))
        _, ended, begun = self._compared
        return ended.copy(), begun.copy()

    def _differences(self, before: Definitions[T]) -> tuple[list[str], list[str]]:
        if not before:
            return [], list(self)
        touched = self._touched_since(before)
        ended = [key for key in touched if key in before and _differ(self.get(key), before[key])]
        begun = [key for key in touched if key in self and _differ(before.get(key), self[key])]
        return ended, begun

    def _touched_since(self, before: Definitions[T]) -> Iterable[str]:
        """Names that may be different, those that are here in their order."""
        mine, theirs = self._recent, before._recent
        if self._base is before._base:
            new = [key for key, value in mine.items() if theirs.get(key) is not value]
            return [*(key for key in theirs if key not in mine), *new]
        if self._merged is not None and self._merged[0] is before._base:
            mine = {**self._merged[1], **mine}
            new = [key for key, value in mine.items() if theirs.get(key) is not value]
            return [*(key for key in theirs if key not in mine), *new]
        return [*(key for key in before if key not in self), *self]


def _merged(base: dict[str, T], recent: dict[str, T]) -> dict[str, T]:
    merged = base.copy()
    for key, value in recent.items():
        merged.pop(key, None)
        if value is not _GONE:
            merged[key] = value
    return merged


def _differ(one: Any, other: Any) -> bool:
    return one is not other and bool(one != other)
