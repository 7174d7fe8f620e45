"""Objects now, and rows of tables, as centres and candidates of kNN: by numbers, with places.

An element that does not pass what is asked of its source alone is nowhere, as one is that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from place.engine.columns import DTYPES, Columns
from place.engine.elements import NONE, Passes
from place.engine.operators.contract import NEVER
from place.engine.stored_versions import StoredVersions
from place.engine.tick import Tick
from place.kernels.arrays import Bools, Floats, Longs, merged_values
from place.kernels.placing import put_places
from place.model.types import Type


class Placed(Protocol):
    """What centres and candidates have in common. Ids are those of versions: `~number` is what an
    element was before the tick."""

    is_watched: bool
    """May the columns that are shown change while an element stays?"""
    stride: int
    """The object of slot s has the number `s * stride`, if it is of this cell's row."""

    @property
    def places(self) -> Floats:
        """Where elements are now, by number; NaN for nowhere."""

    @property
    def ranks(self) -> Longs:
        """By number, what decides between elements that are equally far: the order of keys."""

    def __len__(self) -> int:
        """How many there are."""

    def load(self) -> None:
        """Look at all elements anew."""

    def open(self, tick: Tick) -> Longs:
        """Go over to a tick: the instants at which something happens, in order."""

    def divide(self, instants: Longs) -> None:
        """Divide what happens by these instants, which hold all of them."""

    def step(self, number: int) -> Bools:
        """Take what happens at one of the instants: the elements that are concerned, as flags."""

    def around(self, numbers: Longs, instants: Longs) -> tuple[Longs, Longs]:
        """The ids of elements just before instants and at them; instants are in order."""

    def pick(self, ids: Longs) -> Columns:
        """The columns of elements that are shown."""


class PlacedObjects:
    """The objects of a stream: those of this cell's row, or those of all rows."""

    def __init__(
        self,
        held: StoredVersions,
        needed: Sequence[int],
        shown: Sequence[int],
        passes: Passes | None,
    ) -> None:
        relation = held.relation
        assert relation.x is not None
        assert relation.y is not None
        self._held = held
        self._needed = tuple(needed)
        self._shown = tuple(shown)
        self._place = (relation.x, relation.y)
        self._passes = passes
        self._to: list[tuple[Longs, Floats, Floats]] = []
        self._starts: list[Longs] = []
        self._places = np.full((16, 2), np.nan)
        self._keys: Longs = NONE
        self._ranks: Longs = NONE
        self.is_watched = any(index != relation.key for index in shown)
        self.stride = held.stride

    @property
    def places(self) -> Floats:
        """Where objects are now."""
        return self._places[: self._held.size]

    @property
    def ranks(self) -> Longs:
        """The order of keys."""
        return self._ranks

    def __len__(self) -> int:
        return int((~np.isnan(self.places).any(axis=1)).sum())

    def load(self) -> None:
        """Look at all objects anew."""
        self._held.close()
        self._places = np.full((max(16, self._held.size), 2), np.nan)
        self._rank()
        for part, store in enumerate(self._held.stores):
            slots = np.flatnonzero(store.alive[: store.size])
            if self._passes is not None:
                slots = slots[self._passes(store.columns.pick(self._needed, slots))]
            for axis, column in enumerate(self._place):
                found = store.columns.numbers(column, slots)
                self._places[slots * self.stride + part, axis] = found

    def _rank(self) -> None:
        stores = self._held.stores
        if len(stores) == 1:
            keys = stores[0].keys[: stores[0].size]
        else:
            keys = np.zeros(self._held.size, np.int64)
            for part, store in enumerate(stores):
                keys[part :: self.stride][: store.size] = store.keys[: store.size]
        self._keys = keys
        self._ranks = self._held.dictionary.ranks()[keys] if stores[0].is_coded else keys

    def open(self, tick: Tick) -> Longs:
        """The instants at which objects say something."""
        self._held.open(tick)
        size = self._held.size
        if size > len(self._places):
            more = np.full((2 * size - len(self._places), 2), np.nan)
            self._places = np.concatenate([self._places, more])
        self._to = []
        for part, versions in enumerate(self._held.parts):
            rows, nowhere = versions.messages.rows, versions.messages.gone
            if self._passes is not None and len(versions):
                nowhere = nowhere | ~self._passes(rows.pick(self._needed))
            numbers = versions.slots
            if self.stride > 1:
                numbers = numbers * self.stride + part
            xs, ys = (_numbers(rows, column, nowhere) for column in self._place)
            self._to.append((numbers, xs, ys))
        if any(map(len, self._held.parts)):
            self._rank()
        return merged_values([versions.instants for versions in self._held.parts])

    def divide(self, instants: Longs) -> None:
        """Divide what objects say by instants."""
        cuts = np.append(instants, NEVER)
        self._starts = [np.searchsorted(part.instants, cuts) for part in self._held.parts]

    def step(self, number: int) -> Bools:
        """The objects that say something at an instant; they are where they say."""
        spoke = np.zeros(self._held.size, np.bool_)
        for told, starts in zip(self._to, self._starts, strict=True):
            if starts[number] < starts[number + 1]:
                put_places(self._places, spoke, *told, starts[number], starts[number + 1])
        return spoke

    def around(self, numbers: Longs, instants: Longs) -> tuple[Longs, Longs]:
        """Versions of objects; any of them where only keys are shown."""
        if not self.is_watched:
            return ~numbers, ~numbers
        return self._held.around(numbers, instants)

    def pick(self, ids: Longs) -> Columns:
        """What is shown of versions."""
        if self.is_watched:
            return self._held.pick(ids, self._shown)
        columns = tuple(self._held.relation.columns[index] for index in self._shown)
        made = Columns(columns, self._held.dictionary, 0)
        made.values = [self._keys[~ids].astype(DTYPES[column.type]) for column in columns]
        made.nulls = [np.zeros(len(ids), np.bool_) for _ in columns]
        return made


class PlacedRows:
    """The rows of a table, by their numbers; nothing of it changes.

    `key` and `place` are columns of `rows`, as are those that are shown; only of candidates the key
    is known.
    """

    is_watched = False
    stride = 1

    def __init__(
        self,
        rows: Columns,
        mine: Longs | None,
        key: int | None,
        place: tuple[int, int],
        shown: Sequence[int],
        passes: Passes | None,
    ) -> None:
        self._rows = rows
        self._mine = np.arange(len(rows)) if mine is None else mine
        self._place = place
        self._shown = tuple(shown)
        self._passes = passes
        self.places = np.full((len(rows), 2), np.nan)
        self.ranks = NONE if key is None else _order_of(rows, key)

    def __len__(self) -> int:
        return int((~np.isnan(self.places).any(axis=1)).sum())

    def load(self) -> None:
        """Look at all rows."""
        chosen = self._mine
        if self._passes is not None:
            chosen = chosen[self._passes(self._rows.take(chosen))]
        for axis, column in enumerate(self._place):
            self.places[chosen, axis] = self._rows.numbers(column, chosen)

    def open(self, tick: Tick) -> Longs:
        """Nothing happens."""
        return NONE

    def divide(self, instants: Longs) -> None:
        """There is nothing to divide."""

    def step(self, number: int) -> Bools:
        """No row is concerned."""
        return np.zeros(len(self.places), np.bool_)

    def around(self, numbers: Longs, instants: Longs) -> tuple[Longs, Longs]:
        """A row stays what it is."""
        return ~numbers, ~numbers

    def pick(self, ids: Longs) -> Columns:
        """What is shown of rows."""
        return self._rows.pick(self._shown, ~ids)


def _numbers(rows: Columns, column: int, nowhere: Bools) -> Floats:
    """A column as numbers; NaN for what is nowhere. It may be the column itself."""
    values, nulls = rows.values[column], rows.nulls[column]
    found: Floats = values.astype(np.float64, copy=False)
    if nowhere.any() or nulls.any():
        found = np.where(nowhere | nulls, np.nan, found)
    return np.ascontiguousarray(found)


def _order_of(rows: Columns, key: int) -> Longs:
    """The place of each row in the order of keys. A key may be NULL, which comes first, or there
    twice: then the order of rows counts."""
    values, nulls = rows.values[key], rows.nulls[key]
    if rows.columns[key].type is Type.STRING:
        values = rows.dictionary.ranks()[values] if len(rows.dictionary.texts) else values
    order = np.lexsort((np.arange(len(values)), np.where(nulls, 0, values), ~nulls))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
