"""Definitions by name, as a value that never changes and yet is cheap to change.

A catalog of 100,000 queries gets one more: copying all of them for it would take longer than all
the rest. So a new version shares the large part with the old one and has a small part beside it,
which is merged into the large one when it has grown to about the square root of it. The small part
is shared, too, as long as one version follows the other and names are new: each version knows how
many of its entries are its own. Names stand in the order in which they were defined last.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

T = TypeVar("T")
D = TypeVar("D")

_GONE: Any = object()
FEW = 64
"""A small part of so many is never merged."""
_ADDING = threading.Lock()
"""Two versions that follow the same one must not both add to what it shares."""


class Definitions(Mapping[str, T]):
    """A mapping that is not changed in place: `put` and `without` give another one."""

    __slots__ = ("__weakref__", "_base", "_compared", "_count", "_merged", "_recent", "_size")

    def __init__(self, base: dict[str, T] | None = None) -> None:
        self._base: dict[str, T] = base if base is not None else {}
        self._recent: dict[str, tuple[int, T]] = {}
        """The small part: each name with its place in it. Later versions may have added some."""
        self._count = 0
        """How many names of the small part this version has."""
        self._size = len(self._base)
        self._merged: tuple[dict[str, T], dict[str, T]] | None = None
        """The large part before it was merged with a small one, and that small one."""
        self._compared: tuple[weakref.ref[Definitions[T]], list[str], list[str]] | None = None
        """The version that this one was compared with last, and what was different."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Definitions, (_merged(self._base, self._own()),)

    def _own(self) -> dict[str, T]:
        """The small part as this version has it, with the names that are gone."""
        # The list is made at once: another thread may be adding a name.
        entries = list(self._recent.items())[: self._count]
        return {key: value for key, (_, value) in entries}

    def _find(self, key: Any) -> T | None:
        """What the small part has under a name."""
        found = self._recent.get(key)
        return found[1] if found is not None and found[0] < self._count else None

    def __getitem__(self, key: str) -> T:
        found = self._recent.get(key)
        if found is None or found[0] >= self._count:
            return self._base[key]
        if found[1] is _GONE:
            raise KeyError(key)
        return found[1]

    @overload
    def get(self, key: str, /) -> T | None: ...
    @overload
    def get(self, key: str, /, default: T) -> T: ...
    @overload
    def get(self, key: str, /, default: D) -> T | D: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        found = self._recent.get(key)
        if found is None or found[0] >= self._count:
            return self._base.get(key, default)
        return default if found[1] is _GONE else found[1]

    def __contains__(self, key: object) -> bool:
        found = self._find(key)
        return key in self._base if found is None else found is not _GONE

    def __iter__(self) -> Iterator[str]:
        if not self._count:
            return iter(self._base)
        recent = self._own()
        older = (key for key in self._base if key not in recent)
        newer = (key for key, value in recent.items() if value is not _GONE)
        return (key for part in (older, newer) for key in part)

    def __len__(self) -> int:
        return self._size

    def put(self, key: str, value: T) -> Definitions[T]:
        """The same with one definition more, or another one of that name."""
        return self._with(key, value, self._size + (key not in self))

    def without(self, key: str) -> Definitions[T]:
        """The same without one definition."""
        return self._with(key, _GONE, self._size - (key in self))

    def _with(self, key: str, value: T, size: int) -> Definitions[T]:
        with _ADDING:
            recent = self._recent
            if len(recent) != self._count or key in recent:
                own = self._own()
                own.pop(key, None)  # it stands at the end, where it was defined last
                recent = {k: (place, v) for place, (k, v) in enumerate(own.items())}
            recent[key] = (len(recent), value)
            count = len(recent)
        made: Definitions[T] = Definitions.__new__(Definitions)
        made._base, made._recent, made._count, made._size = self._base, recent, count, size
        made._merged, made._compared = self._merged, None
        if count > FEW and count**2 > len(self._base):
            own = made._own()
            made._base, made._recent, made._count = _merged(self._base, own), {}, 0
            made._merged = (self._base, own)
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
        mine, theirs = self._own(), before._own()
        if self._base is not before._base:
            if self._merged is None or self._merged[0] is not before._base:
                return [*(key for key in before if key not in self), *self]
            mine = {**self._merged[1], **mine}
        new = [key for key, value in mine.items() if theirs.get(key) is not value]
        return [*(key for key in theirs if key not in mine), *new]


def _merged(base: dict[str, T], recent: dict[str, T]) -> dict[str, T]:
    merged = base.copy()
    for key, value in recent.items():
        merged.pop(key, None)
        if value is not _GONE:
            merged[key] = value
    return merged


def _differ(one: Any, other: Any) -> bool:
    return one is not other and bool(one != other)
