"""Objects now, and rows of tables, as elements of a join."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns
from place.engine.elements import ALWAYS, NONE, Changed, Passes, StandingElements, numbered
from place.engine.objects import Objects
from place.engine.operators.contract import NEVER
from place.engine.stored_versions import StoredVersions
from place.engine.tick import Tick
from place.engine.vector import same_rows
from place.engine.versions import Versions
from place.kernels.arrays import Longs
from place.kernels.version_links import name_versions
from place.model.schema import Column
from place.model.types import Type

IDENTITY = Column("number", Type.BIGINT)


class ObjectElements(StandingElements):
    """The objects of a stream now: those of this cell's row, or those of all rows."""

    def __init__(
        self,
        name: str,
        stores: Sequence[Objects],
        needed: Sequence[int],
        shown: Sequence[int],
    ) -> None:
        super().__init__()
        self._held = StoredVersions(name, stores)
        self._needed = tuple(needed)
        # The key of an object is the same in all its versions.
        self._watched = tuple(i for i in shown if i != self._held.relation.key)
        self._passes: Passes | None = None
        self._last: Longs = NONE

    def load(self, passes: Passes) -> None:
        """Look at all objects anew."""
        self._passes = passes
        self._fall_all()
        self._held.close()
        for part, store in enumerate(self._held.stores):
            slots = np.flatnonzero(store.alive[: store.size])
            rows = store.columns.pick(self._needed, slots)
            self._stand(slots[passes(rows)] * self._held.stride + part)

    def open(self, tick: Tick) -> Changed:
        """The versions of objects that begin or end."""
        self._held.open(tick)
        self._last = NONE
        first = 0
        parts: list[tuple[Longs, Longs, Longs, Longs]] = []
        for part, versions in enumerate(self._held.parts):
            if len(versions):
                parts += self._opened(part, versions, first)
            first += len(versions)
        if not parts:
            return self._changed(NONE, NONE, NONE, NONE)
        return self._changed(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _opened(
        self, part: int, versions: Versions, first: int
    ) -> list[tuple[Longs, Longs, Longs, Longs]]:
        """What changes in one store: what it held, and the rows of the tick; of each ids, starts,
        ends and names."""
        assert self._passes is not None
        stride = self._held.stride
        heads = np.flatnonzero(versions.before < 0)
        numbers = versions.slots[heads] * stride + part
        stood = self.is_standing(numbers)
        if not stood.all():
            numbers, heads = numbers[stood], heads[stood]
        always = np.broadcast_to(ALWAYS, len(numbers))
        held = ~numbers, always, versions.instants[heads], numbers
        self._fall(numbers)
        chosen = self._passes(versions.messages.rows.pick(self._needed)) & ~versions.messages.gone
        new = slice(None) if chosen.all() else np.flatnonzero(chosen)
        after = versions.after[new]
        stays = after < 0
        until: Longs = np.broadcast_to(NEVER, len(after))
        if not stays.all():
            until = np.where(stays, until, versions.instants[np.maximum(after, 0)])
        last = versions.slots[new][stays] * stride + part
        self._last = np.concatenate([self._last, last])
        ids = np.arange(first, first + len(versions))[new]
        names = self._named(versions, first, part, self._held.size)[new]
        return [held, (ids, versions.instants[new], until, names)]

    def _named(self, versions: Versions, first: int, part: int, base: int) -> Longs:
        """Rows that show the same as the version before them have its name."""
        before = versions.before
        same = versions.alive(before)
        if self._watched:
            now = versions.messages.rows.pick(self._watched)
            same &= same_rows(now, versions.pick(before, self._watched))
        found: Longs = name_versions(before, same, first, self._held.stride, part, base)
        return found

    def settle(self, until: int) -> None:
        """The last versions stand."""
        self._stand(self._last)
        self._last = NONE

    def pick(self, ids: Longs, columns: Sequence[int] | None = None) -> Columns:
        """The rows of versions."""
        wanted = self._needed if columns is None else tuple(self._needed[i] for i in columns)
        return self._held.pick(ids, wanted)

    def names(self, numbers: Longs) -> Longs:
        """An object that stands is called by its number."""
        return numbers

    def identity(self, ids: Longs) -> Columns:
        """Their keys."""
        relation = self._held.relation
        assert relation.key is not None
        columns = (relation.columns[relation.key], IDENTITY)
        made = Columns(columns, self._held.dictionary, len(ids))
        keys = self._held.pick(ids, (relation.key,))
        made.values[0], made.nulls[0] = keys.values[0], keys.nulls[0]
        made.nulls[1][:] = False
        return made

    def next_expiry(self) -> int:
        """Timeouts come as messages."""
        return NEVER


class TableElements(StandingElements):
    """The rows of a table, by their numbers; nothing of it changes."""

    def __init__(self, rows: Columns, mine: Longs | None) -> None:
        super().__init__()
        self._rows = rows
        self._mine = np.arange(len(rows)) if mine is None else mine

    def load(self, passes: Passes) -> None:
        """Look at all rows anew."""
        self._fall_all()
        rows = self._rows.take(self._mine)
        self._stand(self._mine[passes(rows)])

    def open(self, tick: Tick) -> Changed:
        """Nothing changes."""
        return self._changed(NONE, NONE, NONE, NONE)

    def settle(self, until: int) -> None:
        """Nothing has changed."""

    def pick(self, ids: Longs, columns: Sequence[int] | None = None) -> Columns:
        """Rows."""
        return self._rows.take(~ids) if columns is None else self._rows.pick(columns, ~ids)

    def names(self, numbers: Longs) -> Longs:
        """A row is called by its number."""
        return numbers

    def identity(self, ids: Longs) -> Columns:
        """Their numbers; keys of tables may be the same in several rows."""
        return numbered(~ids, self._rows.dictionary)

    def next_expiry(self) -> int:
        """Rows stay."""
        return NEVER
