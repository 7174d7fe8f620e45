"""The states of cells of one matrix as those of another: what each cell of the new one holds.

Every object is in the states of the cells of its row, and what windows and triggers hold is in the
states of cells of their queries' columns. All of it is put together, and each new cell gets what is
its share. Nothing else has to be known: the rest of a state follows from objects, queries and
tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from place.engine.checkpoint import META, TEXTS, Checkpoint, pack_messages, unpack_messages
from place.engine.columns import Columns, Dictionary
from place.engine.following import Following, TableOf
from place.engine.matrix import Place
from place.engine.objects import Messages
from place.engine.rescale_contents import Held, rescaled_contents
from place.engine.slices import Keys, is_shared
from place.kernels.arrays import Bools, Longs
from place.model.schema import Stream, tracked
from place.model.types import Type
from place.plan.catalog import Catalog


class SavedCell(NamedTuple):
    """A cell of the matrix as it was, and its state."""

    place: Place
    state: Checkpoint


def rescaled(
    cells: Sequence[SavedCell], place: Place, catalog: Catalog, table_of: TableOf
) -> Checkpoint:
    """The state of a cell of another matrix, from the states of all cells at the same tick."""
    return _Rescaling(cells, place, catalog, table_of).state()


class _Rescaling:
    def __init__(
        self, cells: Sequence[SavedCell], place: Place, catalog: Catalog, table_of: TableOf
    ) -> None:
        self._cells = cells
        self._place = place
        self._catalog = catalog
        self._plain = {stream.name: stream for stream in catalog.streams.values()}
        self._streams = {name: tracked(stream) for name, stream in self._plain.items()}
        self._dictionary = Dictionary()
        self._codes = [
            np.array([*map(self._dictionary.code, _texts(each)), 0], np.int64) for each in cells
        ]
        self._metas: list[dict[str, Any]] = [
            json.loads(each.state[META].column(0)[0].as_py()) for each in cells
        ]
        self._following = Following(place)
        queries = list(catalog.queries.values())
        self._following.apply(self._following.after((), queries, table_of))

    def state(self) -> Checkpoint:
        """All that the new cell holds."""
        state: Checkpoint = {}
        first = self._metas[0]
        lines: list[dict[str, Any]] = []
        for number, line in enumerate(first["timelines"]):
            for name in line["streams"]:
                self._put_objects(state, number, name)
                waiting = self._mine(f"{number}/pending/{name}", name)
                if waiting is not None:
                    state[f"{number}/pending/{name}"] = pack_messages(waiting)
            held = rescaled_contents(
                list(self._held(number)), self._place, self._catalog.queries.values()
            )
            for chain, (_, table) in enumerate(held):
                state[f"{number}/held/{chain}"] = table
            about = {"streams": line["streams"], "instant": line["instant"]}
            lines.append({**about, "held": [names for names, _ in held]})
        for name in first["floors"]:
            self._put_past(state, name)
        meta = {
            **first,
            "timelines": lines,
            "floors": {
                name: max(meta["floors"][name] for meta in self._metas) for name in first["floors"]
            },
            "readings": self._totals("readings"),
            "late": self._totals("late"),
            "numbered": first.get("numbered", first["readings"]),
            "slices": self._place.matrix.rows > 1,
            "since": self._catalog.version,
        }
        state[META] = pa.table({"meta": [json.dumps(meta)]})
        state[TEXTS] = pa.table({"text": pa.array(self._dictionary.texts, pa.string())})
        return state

    def _totals(self, kind: str) -> dict[str, int]:
        """Counts of each stream, which the first row goes on with."""
        totals = dict.fromkeys(self._metas[0][kind], 0)
        if self._place.row:
            return totals
        for (place, _), meta in zip(self._cells, self._metas, strict=True):
            if place.column == 0 and (place.row == 0 or meta.get("slices", False)):
                for name, count in meta[kind].items():
                    totals[name] += count
        return totals

    # Objects and readings

    def _put_objects(self, state: Checkpoint, number: int, name: str) -> None:
        stream = self._streams[name]
        known = self._of_rows(f"{number}/subjects/{name}", name)
        assert known is not None
        mine = self._is_mine(stream, known.keys)
        state[f"{number}/subjects/{name}"] = pack_messages(known.take(np.flatnonzero(mine)))
        if self._place.matrix.rows > 1 and stream.key is not None:
            followed = ~mine & self._is_followed(stream, known.keys)
            others = known.take(np.flatnonzero(followed))
            state[f"{number}/others/{name}"] = pack_messages(others)
        where = f"{number}/region_rows/{name}"
        if where in self._cells[0].state:
            parts = [
                self._unpacked(place, each.state[where], stream)
                for place, each in enumerate(self._cells)
                if each.place.row == 0
            ]
            regions = Messages.joined(parts)
            here = self._place.has_regions(regions.keys, self._texts_of(stream))
            chosen = np.arange(len(regions)) if here is None else np.flatnonzero(here)
            state[where] = pack_messages(regions.take(chosen))

    def _put_past(self, state: Checkpoint, name: str) -> None:
        """The history of a stream, and its readings with gaps."""
        stream = self._streams[name]
        nothing = Columns(stream.columns, self._dictionary, 0)
        none = np.empty(0, np.int64)
        blank = Messages(none, none, np.empty(0, np.bool_), nothing)
        base = self._mine(f"history/base/{name}", name)
        state[f"history/base/{name}"] = pack_messages(blank if base is None else base)
        recent = self._mine(f"history/recent/{name}", name)
        if recent is not None:
            state[f"history/recent/{name}"] = pack_messages(recent)
        if stream.waits:
            known = self._mine(f"gaps/known/{name}", name)
            columns = Columns(self._plain[name].columns, self._dictionary, 0)
            unknown = Messages(none, none, np.empty(0, np.bool_), columns)
            state[f"gaps/known/{name}"] = pack_messages(unknown if known is None else known)
            waiting = self._mine(f"gaps/waiting/{name}", name)
            if waiting is not None:
                state[f"gaps/waiting/{name}"] = pack_messages(waiting)

    def _mine(self, where: str, name: str) -> Messages | None:
        """What all rows hold of a stream, as far as the new cell holds it."""
        stream, found = self._streams[name], self._of_rows(where, name)
        if found is None:
            return None
        chosen = self._is_mine(stream, found.keys) | self._is_followed(stream, found.keys)
        return found.take(np.flatnonzero(chosen)) if chosen.any() else None

    def _of_rows(self, where: str, name: str) -> Messages | None:
        """What the cells of all rows hold of objects of their own rows. Those of one row hold the
        same, but for objects that some of them let go of."""
        stream = (self._plain if where.startswith("gaps/") else self._streams)[name]
        parts: list[Messages] = []
        for row in range(self._cells[0].place.matrix.rows):
            known = np.empty(0, np.int64)
            for number, (place, state) in enumerate(self._cells):
                if place.row != row or where not in state:
                    continue
                some = self._unpacked(number, state[where], stream)
                mine = place.has_objects(some.keys, self._texts_of(stream))
                chosen = np.ones(len(some), np.bool_) if mine is None else mine
                if place.column:
                    if "/subjects/" not in where:
                        continue
                    chosen &= ~np.isin(some.keys, known)
                known = np.concatenate([known, some.keys[chosen]])
                parts.append(some.take(np.flatnonzero(chosen)))
        if not parts:
            return None
        found = Messages.joined(parts)
        if "/subjects/" in where or where.startswith(("history/base", "gaps/known")):
            return found
        order = (
            np.lexsort((found.keys, found.times))
            if stream.key is None
            else np.argsort(found.times, kind="stable")
        )
        return found.take(order)

    def _unpacked(self, number: int, table: pa.Table, stream: Stream) -> Messages:
        """Messages of a state, with the codes that texts have now."""
        saved = unpack_messages(table, stream.columns, self._dictionary)
        codes = self._codes[number]
        for index, column in enumerate(stream.columns):
            if column.type is Type.STRING:
                saved.rows.values[index] = codes[saved.rows.values[index]].astype(np.int32)
        keys = codes[saved.keys] if stream.key_type is Type.STRING else saved.keys
        return Messages(keys, saved.times, saved.gone, saved.rows)

    def _is_mine(self, stream: Stream, keys: Longs) -> Bools:
        mine = self._place.has_objects(keys, self._texts_of(stream))
        return np.ones(len(keys), np.bool_) if mine is None else mine

    def _is_followed(self, stream: Stream, keys: Longs) -> Bools:
        wanted: Keys = None if is_shared(stream) else self._following.keys(stream)
        if wanted is None:
            return np.ones(len(keys), np.bool_)
        if stream.key_type is Type.STRING:
            return np.isin(keys, self._dictionary.known(wanted.to_pylist()))
        return np.isin(keys, wanted.to_numpy())

    def _texts_of(self, stream: Stream) -> Dictionary | None:
        return self._dictionary if stream.key_type is Type.STRING else None

    # What operators hold

    def _held(self, number: int) -> Iterator[Held]:
        for (place, state), meta in zip(self._cells, self._metas, strict=True):
            for chain, names in enumerate(meta["timelines"][number]["held"]):
                yield Held(place, names, state[f"{number}/held/{chain}"])


def _texts(cell: SavedCell) -> list[str]:
    found: list[str] = cell.state[TEXTS].column(0).to_pylist()
    return found
