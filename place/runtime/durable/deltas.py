"""The one reader of outboxes: for subscriptions, sinks, the server, `place changes` and Spark.

A delta is known by its tick and its position in it. Positions are in the order of instants, across
all queries and all files of the tick, and never change: whoever keeps the last id that it has seen
gets each delta once, however often it is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.engine.changes import plain
from place.errors import ConfigurationError
from place.model.delta import Delta
from place.model.delta_columns import DeltaColumns, LazyDeltas
from place.model.segment import ARROW
from place.model.tabular import COLUMN_TYPES
from place.model.types import Type
from place.plan.query import Query
from place.runtime.durable import manifest as manifests
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.outbox import Piece, read_outbox, rows_as_json
from place.runtime.durable.storage import Damaged, Storage

Id = tuple[int, int]
"""Of a delta: its tick, and its position in it."""

WHOLE = 1 << 62
"""The position after all deltas of a tick."""

CACHED = 16
"""So many files stay at hand for those who read the same ones."""

CHANGELOG = pa.schema(
    [
        ("query", pa.string()),
        ("sign", pa.int8()),
        ("row", pa.string()),
        ("instant", pa.timestamp("us", "UTC")),
        ("tick", pa.int64()),
        ("position", pa.int64()),
    ]
)
"""A delta as others read it: `row` is a JSON array, (tick, position) the id."""


# A column of nothing but NULLs has a type all the same: Parquet wants one.
_SHOWN: dict[Type, pa.DataType] = {**COLUMN_TYPES, Type.NULL: ARROW[Type.NULL]}


def changelog_schema(query: Query | None = None) -> pa.Schema:
    """The columns of a changelog; where it is of one query, those of its rows, too.

    A column that is called like one of the changelog's gets an underscore.
    """
    if query is None:
        return CHANGELOG
    taken, fields = set(CHANGELOG.names), list(CHANGELOG)
    for name, kind in zip(query.names, query.types, strict=True):
        while name in taken:
            name += "_"
        taken.add(name)
        fields.append(pa.field(name, _SHOWN[kind]))
    return pa.schema(fields)


class NotKept(ConfigurationError):
    """Deltas after an id are not kept any more."""


class Numbered(NamedTuple):
    """A delta with its id."""

    tick: int
    position: int
    delta: Delta


class Placed(NamedTuple):
    """Deltas of queries whose rows have the same types, with their positions, which only grow."""

    piece: Piece
    positions: NDArray[np.int64]


@dataclass(frozen=True)
class TickDeltas:
    """The deltas of a tick, or those after one of its positions."""

    tick: int
    placed: tuple[Placed, ...]

    @classmethod
    def of(cls, tick: int, pieces: Sequence[Piece]) -> TickDeltas:
        """Give the deltas of a tick their positions."""
        found = zip(pieces, _positions(pieces), strict=True)
        return cls(tick, tuple(Placed(piece, positions) for piece, positions in found))

    def after(self, position: int) -> TickDeltas:
        """The deltas at later positions."""
        rest = []
        for piece, positions in self.placed:
            first = int(np.searchsorted(positions, position, "right"))
            if first < len(positions):
                part = Piece(piece.names, piece.types, piece.table.slice(first))
                rest.append(Placed(part, positions[first:]))
        return TickDeltas(self.tick, tuple(rest))

    def numbered(self, names: set[str] | None = None) -> list[Numbered]:
        """The deltas one by one, of some queries or of all, in the order of their positions."""
        found: list[Numbered] = []
        for piece, positions in self.placed:
            if names is not None and not names & set(piece.names):
                continue
            rows = zip(*(column.to_pylist() for column in piece.columns), strict=True)
            heads = (positions, piece.queries, piece.signs, piece.instants)
            parts = zip(*(head.tolist() for head in heads), rows, strict=True)
            for position, query, sign, instant, row in parts:
                if names is None or query in names:
                    found.append(Numbered(self.tick, position, Delta(query, sign, row, instant)))
        if len(self.placed) > 1:
            found.sort(key=lambda each: each.position)
        return found

    def deltas(self) -> list[Delta]:
        """The deltas without their ids."""
        return [each.delta for each in self.numbered()]

    def changelog(self, names: set[str] | None = None, query: Query | None = None) -> pa.Table:
        """The deltas as others read them, of some queries or of all; if they are all of one query,
        that may be given, and its columns are columns, too."""
        mine = [each for each in self.placed if names is None or names & set(each.piece.names)]
        if query is not None and any(each.piece.types != query.types for each in mine):
            query = None  # they are of another query that had its name
        tables, schema = [], changelog_schema(query)
        for piece, positions in mine:
            columns = [
                piece.queries.dictionary_decode(),
                piece.signs,
                rows_as_json(piece),
                piece.instants.cast(pa.timestamp("us", "UTC")),
                pa.array(np.full(len(positions), self.tick)),
                pa.array(positions),
            ]
            if query is not None:
                columns += [_shown(values, kind) for values, kind in _typed(piece)]
            table = pa.table(columns, schema=schema)
            if names is not None and not names.issuperset(piece.names):
                table = table.filter(pc.is_in(table["query"], pa.array(sorted(names))))
            tables.append(table)
        if not tables:
            return schema.empty_table()
        whole = pa.concat_tables(tables)
        return whole.sort_by("position") if len(tables) > 1 else whole


class KeptRows(LazyDeltas):
    """The deltas of ticks, one tick after the other, as their files have them."""

    def __init__(self, ticks: Iterable[TickDeltas]) -> None:
        self._ticks = [tick for tick in ticks if tick.placed]

    def __len__(self) -> int:
        return sum(len(each.positions) for tick in self._ticks for each in tick.placed)

    def _read(self) -> list[Delta]:
        return [delta for tick in self._ticks for delta in tick.deltas()]

    def of(self, queries: Collection[str]) -> list[Delta]:
        names = set(queries)
        return [each.delta for tick in self._ticks for each in tick.numbered(names)]

    def columns(self) -> DeltaColumns | None:
        """By columns, where the deltas of each tick are one piece."""
        pieces = [each.piece for tick in self._ticks for each in tick.placed]
        if len(pieces) != len(self._ticks) or len({piece.names for piece in pieces}) != 1:
            return None
        first = pieces[0]
        if len(first.names) != 1 or any(piece.types != first.types for piece in pieces):
            return None
        parts = [
            [piece.signs, piece.instants, *(plain(column) for column in piece.columns)]
            for piece in pieces
        ]
        signs, instants, *values = (pa.concat_arrays(each) for each in zip(*parts, strict=True))
        return DeltaColumns(first.names[0], signs, instants, tuple(values))


def _typed(piece: Piece) -> Iterable[tuple[pa.Array, Type]]:
    return zip(piece.columns, piece.types, strict=True)


def _shown(values: pa.Array, kind: Type) -> pa.Array:
    return plain(values).cast(_SHOWN[kind])


def _positions(pieces: Sequence[Piece]) -> list[NDArray[np.int64]]:
    """The places of deltas in the order of their instants; at one instant, that of the pieces."""
    instants: list[NDArray[Any]] = [piece.instants.to_numpy() for piece in pieces]
    ends = np.cumsum([len(each) for each in instants], dtype=np.int64)
    places = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    some = [each for each in instants if len(each)]
    if any(before[-1] > after[0] for before, after in pairwise(some)):
        order = np.argsort(np.concatenate(instants), kind="stable")
        places[order] = places.copy()
    return np.split(places, ends[:-1]) if len(ends) else []


class Kept(Protocol):
    """Which ticks of a storage are kept."""

    @property
    def kept_from(self) -> int:
        """The deltas of ticks from this one on are kept."""

    def ticks_after(self, tick: int) -> list[int]:
        """The later ticks that may have deltas, in their order."""

    def at(self, tick: int) -> int | None:
        """The newest tick up to this one whose manifest is kept."""


class Beside:
    """What is kept, for those who read beside the process that makes the ticks."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def kept_from(self) -> int:
        last = self.at(WHOLE)
        return manifests.load(self._storage, last).kept_from if last is not None else 1

    def ticks_after(self, tick: int) -> list[int]:
        return [each for each in manifests.ticks(self._storage) if each > tick]

    def at(self, tick: int) -> int | None:
        return max((t for t in manifests.ticks(self._storage) if t <= tick), default=None)


class Deltas:
    """Reads the deltas of a storage; from several threads, if need be."""

    def __init__(self, storage: Storage, kept: Kept | None = None) -> None:
        self._storage = storage
        self._kept = kept or Beside(storage)
        self._pieces = lru_cache(maxsize=CACHED)(self._read)

    def _read(self, file: str) -> list[Piece]:
        return read_outbox(self._storage, file)

    def of(self, manifest: Manifest) -> TickDeltas:
        """The deltas of a tick."""
        pieces = [piece for file in manifest.files for piece in self._pieces(file)]
        return TickDeltas.of(manifest.tick, pieces)

    def check(self, after: Id) -> None:
        """Raise NotKept if there may have been deltas after an id that are not kept any more."""
        kept_from = self._kept.kept_from
        if _first(after) < kept_from:
            raise _not_kept(after[0], kept_from)

    def after(self, after: Id | None, until: int | None = None) -> Iterator[TickDeltas]:
        """The deltas after an id, or all that are kept, tick by tick, up to a tick.

        NotKept if some of them are not kept any more.
        """
        if after is not None:
            self.check(after)
        first = self._kept.kept_from if after is None else _first(after)
        for tick in self._kept.ticks_after(first - 1):
            if until is not None and tick > until:
                return
            found = self._tick(tick)
            if found is not None and after is not None and tick == after[0]:
                found = found.after(after[1])
            if found is not None and found.placed:
                yield found

    def _tick(self, tick: int) -> TickDeltas | None:
        """The deltas of a tick; None if it had none and its manifest is gone."""
        manifest = None
        try:
            manifest = manifests.load(self._storage, tick)
            return self.of(manifest)
        except FileNotFoundError as error:
            kept_from = self._kept.kept_from
            if tick < kept_from:  # swept while we read
                raise _not_kept(tick, kept_from) from None
            if manifest is not None:
                raise Damaged(f"deltas of tick {tick} are missing: {error}") from None
            return None

    def numbered(
        self, after: Id | None, names: set[str] | None = None, until: int | None = None
    ) -> Iterator[Numbered]:
        """The deltas after an id one by one, of some queries or of all."""
        for found in self.after(after, until):
            yield from found.numbered(names)

    def manifest(self, tick: int) -> Manifest | None:
        """The newest manifest up to a tick that is kept: what came between has told nothing."""
        found = self._kept.at(tick)
        try:
            return None if found is None else manifests.load(self._storage, found)
        except FileNotFoundError:
            return None


def _first(after: Id) -> int:
    """The first tick of which something may be after an id."""
    tick, position = after
    return max(1, tick + 1 if position >= WHOLE else tick)


def _not_kept(tick: int, kept_from: int) -> NotKept:
    return NotKept(
        f"the deltas of tick {tick} are not kept any more; they begin at tick {kept_from}",
        hint="take the answer as it is now, and go on from there",
    )
