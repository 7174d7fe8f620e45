"""The versions of objects that are kept in several stores: those of this cell's row, and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.objects import Objects
from place.engine.tick import Tick
from place.engine.versions import Versions
from place.kernels.arrays import Longs
from place.model.schema import Column, Relation


class StoredVersions:
    """The objects of a stream, by numbers: one at slot s of store p has the number
    `s * stores + p`.

    The rows of a tick have the ids 0, 1, 2, …, those of the second store after those of the first.
    What an object of number n was before the tick has the id `~n`.
    """

    def __init__(self, name: str, stores: Sequence[Objects]) -> None:
        self._name = name
        self.stores = list(stores)
        self.parts = [Versions.none(store) for store in self.stores]

    @property
    def stride(self) -> int:
        """How far the numbers of one store are apart."""
        return len(self.stores)

    @property
    def size(self) -> int:
        """All numbers are below it."""
        return max(store.size for store in self.stores) * self.stride

    @property
    def relation(self) -> Relation:
        return self.stores[0].relation

    @property
    def dictionary(self) -> Dictionary:
        return self.stores[0].columns.dictionary

    def close(self) -> None:
        """There are no versions but those that the stores hold."""
        self.parts = [Versions.none(store) for store in self.stores]

    def open(self, tick: Tick) -> None:
        """Go over to the versions of a tick."""
        given = (tick.objects.get(self._name), tick.elsewhere.get(self._name))
        self.parts = [
            Versions.none(store) if found is None else found
            for store, found in zip(self.stores, given[: len(self.stores)], strict=True)
        ]

    def pick(self, ids: Longs, columns: Sequence[int]) -> Columns:
        """Some columns of versions."""
        if self.stride == 1:
            return self.parts[0].pick(ids, columns)
        made = Columns(tuple(self._column(i) for i in columns), self.dictionary, len(ids))
        parts, own = self._split(ids)
        for part, versions in enumerate(self.parts):
            mine = np.flatnonzero(parts == part)
            if len(mine):
                made.put(mine, versions.pick(own[mine], columns))
        return made

    def around(self, numbers: Longs, instants: Longs) -> tuple[Longs, Longs]:
        """The versions of objects just before instants and at them; instants are in order."""
        if self.stride == 1:
            return self.parts[0].around(numbers, instants)
        before, after = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
        slots, parts = np.divmod(numbers, self.stride)
        first = 0
        for part, versions in enumerate(self.parts):
            mine = np.flatnonzero(parts == part)
            for made, own in zip(
                (before, after), versions.around(slots[mine], instants[mine]), strict=True
            ):
                made[mine] = np.where(own < 0, ~(~own * self.stride + part), own + first)
            first += len(versions)
        return before, after

    def _split(self, ids: Longs) -> tuple[Longs, Longs]:
        """The store of each version, and its id there."""
        first, stride = len(self.parts[0]), self.stride
        parts = np.where(ids < 0, ~ids % stride, ids >= first)
        own = np.where(ids < 0, ~(~ids // stride), np.where(ids >= first, ids - first, ids))
        return parts, own

    def _column(self, index: int) -> Column:
        return self.stores[0].columns.columns[index]
