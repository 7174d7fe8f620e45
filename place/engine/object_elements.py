"""Objects now, and rows of tables, as elements of a join."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns
from place.engine.elements import (
    ALWAYS,
    NONE,
    Changed,
    Passes,
    StandingElements,
    joined_faces,
    numbered,
)
from place.engine.objects import Objects
from place.engine.operators.contract import NEVER
from place.engine.stored_versions import StoredVersions
from place.engine.tick import Tick
from place.engine.vector import same_rows
from place.engine.versions import Versions
from place.kernels.arrays import Floats, Longs
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
        self._shown = tuple(shown)
        self._passes: Passes | None = None
        self._last: tuple[Longs, list[tuple[Floats, ...]]] | None = None

    def load(self, passes: Passes) -> None:
        """Look at all objects anew."""
        self._passes = passes
        self._fall_all()
        self._held.close()
        for part, store in enumerate(self._held.stores):
            slots = np.flatnonzero(store.alive[: store.size])
            rows = store.columns.pick(self._needed, slots)
            chosen = np.flatnonzero(passes(rows))
            if len(chosen):
                numbers = slots[chosen] * self._held.stride + part
                self._stand(numbers, self._made(rows.take(chosen), len(chosen)))

    def open(self, tick: Tick) -> Changed:
        """The versions of objects that begin or end."""
        self._held.open(tick)
        if not any(map(len, self._held.parts)):
            self._last = None
            return Changed.none(self.faces)
        base = self._held.size
        parts: list[Changed] = []
        last: list[tuple[Longs, list[tuple[Floats, ...]]]] = []
        first = 0
        for part, versions in enumerate(self._held.parts):
            if len(versions):
                parts += self._opened(part, versions, first, base, last)
            first += len(versions)
        self._last = _both(last)
        return Changed.joined(parts)

    def _opened(
        self,
        part: int,
        versions: Versions,
        first: int,
        base: int,
        last: list[tuple[Longs, list[tuple[Floats, ...]]]],
    ) -> list[Changed]:
        """What changes in one store: what it held, and the rows of the tick."""
        assert self._passes is not None
        stride = self._held.stride
        heads = np.flatnonzero(versions.before < 0)
        numbers = versions.slots[heads] * stride + part
        stood = self.is_standing(numbers)
        old, ends = numbers[stood], versions.instants[heads[stood]]
        held = Changed(
            ~old, np.full(len(old), ALWAYS), ends, old, [face.at(old) for face in self.faces]
        )
        self._fall(old)
        rows = versions.messages.rows.pick(self._needed)
        chosen = np.flatnonzero(self._passes(rows) & ~versions.messages.gone)
        made = self._made(rows.take(chosen), len(chosen))
        after = versions.after[chosen]
        until = np.where(after < 0, NEVER, versions.instants[np.maximum(after, 0)])
        names = self._named(versions, first, part, base)[chosen]
        new = Changed(first + chosen, versions.instants[chosen], until, names, made)
        stays = np.flatnonzero(after < 0)
        kept = [tuple(array[stays] for array in face) for face in made]
        last.append((versions.slots[chosen[stays]] * stride + part, kept))
        return [held, new]

    def _named(self, versions: Versions, first: int, part: int, base: int) -> Longs:
        """Rows that show the same as the version before them have its name."""
        before = versions.before
        same = versions.alive(before)
        if self._shown:
            now = versions.messages.rows.pick(self._shown)
            same &= same_rows(now, versions.pick(before, self._shown))
        found: Longs = name_versions(before, same, first, self._held.stride, part, base)
        return found

    def settle(self, until: int) -> None:
        """The last versions stand."""
        if self._last is not None:
            self._stand(*self._last)
        self._last = None

    def pick(self, ids: Longs) -> Columns:
        """The rows of versions."""
        return self._held.pick(ids, self._needed)

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
        chosen = np.flatnonzero(passes(rows))
        self._stand(self._mine[chosen], self._made(rows.take(chosen), len(chosen)))

    def open(self, tick: Tick) -> Changed:
        """Nothing changes."""
        return Changed.none(self.faces)

    def settle(self, until: int) -> None:
        """Nothing has changed."""

    def pick(self, ids: Longs) -> Columns:
        """Rows."""
        return self._rows.take(~ids)

    def names(self, numbers: Longs) -> Longs:
        """A row is called by its number."""
        return numbers

    def identity(self, ids: Longs) -> Columns:
        """Their numbers; keys of tables may be the same in several rows."""
        return numbered(~ids, self._rows.dictionary)

    def next_expiry(self) -> int:
        """Rows stay."""
        return NEVER


def _both(
    parts: list[tuple[Longs, list[tuple[Floats, ...]]]],
) -> tuple[Longs, list[tuple[Floats, ...]]]:
    if len(parts) == 1:
        return parts[0]
    numbers = np.concatenate([NONE, *(numbers for numbers, _ in parts)])
    return numbers, joined_faces([made for _, made in parts])
