"""What a statement or a push answers, wherever it was executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import pyarrow as pa

from place.model.delta import Delta
from place.model.delta_columns import DeltaColumns, LazyDeltas
from place.model.geojson import feature_collection
from place.model.record import Record, record_type, unique_names
from place.model.tabular import COLUMN_TYPES, Tabular, arrow_table
from place.model.types import Row, Type

HEAD = ("query", "sign", "instant")
HEAD_TYPES = (Type.STRING, Type.BIGINT, Type.TIMESTAMP)


RowKind = Callable[[Row], Row]
"""What makes the rows of a query: the class of its records, or tuples without names."""


class Namer:
    """Gives the rows of deltas the names of their query's columns."""

    def __init__(self, kind_of: Callable[[str], RowKind]) -> None:
        self._kind_of = kind_of
        self._known: dict[str, RowKind] = {}

    def kind_of(self, query: str) -> RowKind:
        kind = self._known.get(query)
        if kind is None:
            kind = self._known[query] = self._kind_of(query)
        return kind

    def __call__(self, delta: Delta) -> Delta:
        query, sign, row, instant = delta
        return Delta(query, sign, self.kind_of(query)(row), instant)


class DeltaList(Tabular, Sequence[Delta]):
    """Deltas in their order, which can be read like a list.

    As a table they have a column for each of the query's columns if they are of one query, and
    otherwise `row`, a JSON array. What a runtime gives as columns stays so until somebody reads
    delta by delta; only then `namer` gives their rows the names of columns.
    """

    def __init__(self, deltas: Iterable[Delta] = (), namer: Namer | None = None) -> None:
        self._source: Sequence[Delta] = (
            deltas if isinstance(deltas, LazyDeltas | DeltaList) else list(deltas)
        )
        self._namer = namer
        self._named: Sequence[Delta] | None = self._source if namer is None else None

    @classmethod
    def joined(cls, parts: Iterable[DeltaList]) -> DeltaList:
        """The deltas of several lists, one after the other."""
        some = [part for part in parts if len(part)]
        return some[0] if len(some) == 1 else cls(delta for part in some for delta in part)

    @property
    def _deltas(self) -> Sequence[Delta]:
        if self._named is None:
            assert self._namer is not None
            self._named = list(map(self._namer, self._source))
        return self._named

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[Delta]:
        return iter(self._deltas)

    @overload
    def __getitem__(self, place: int) -> Delta: ...
    @overload
    def __getitem__(self, place: slice) -> DeltaList: ...
    def __getitem__(self, place: int | slice) -> Delta | DeltaList:
        if isinstance(place, slice):
            return DeltaList(list(self._deltas)[place])
        return self._deltas[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeltaList | list):
            return NotImplemented
        return len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable[Delta]) -> DeltaList:
        return DeltaList([*self, *other])

    def __radd__(self, other: Iterable[Delta]) -> DeltaList:
        return DeltaList([*other, *self])

    def __repr__(self) -> str:
        return repr(list(self))

    def _by_columns(self) -> pa.Table | None:
        """The table without a look at one of the deltas, where a runtime gave columns."""
        source = self._source
        if isinstance(source, DeltaList):
            return source._by_columns()
        columns = source.columns() if isinstance(source, LazyDeltas) else None
        if columns is None or self._namer is None:
            return None
        kind = self._namer.kind_of(columns.query)
        if isinstance(kind, type) and issubclass(kind, Record):
            return _table_of(columns, kind)
        return None

    def to_arrow(self) -> pa.Table:
        found = self._by_columns()
        if found is not None:
            return found
        is_of_one = len({(delta.query, type(delta.row)) for delta in self}) == 1
        if is_of_one and isinstance(first := self[0].row, Record):
            rows: list[Row] = [(d.query, d.sign, d.instant, *d.row) for d in self]
            return arrow_table((*HEAD, *first._columns), (*HEAD_TYPES, *first._types), rows)
        rows = [(d.query, d.sign, d.instant, json.dumps(d.row)) for d in self]
        return arrow_table((*HEAD, "row"), (*HEAD_TYPES, Type.STRING), rows)


def _table_of(deltas: DeltaColumns, kind: type[Record]) -> pa.Table:
    """Deltas of one query as a table, without a look at one of them."""
    count = len(deltas.signs)
    query = pa.repeat(deltas.query, count)
    columns = [query, deltas.signs, deltas.instants, *deltas.values]
    shown = [
        _shown(column, kind)
        for column, kind in zip(columns, (*HEAD_TYPES, *kind._types), strict=True)
    ]
    return pa.Table.from_arrays(shown, names=unique_names((*HEAD, *kind._columns)))


def _shown(column: pa.Array, kind: Type) -> pa.Array:
    if kind is Type.NULL:
        return pa.nulls(len(column))
    return column.cast(COLUMN_TYPES[kind])


class Pushed(DeltaList):
    """What became of pushed readings: the deltas that they caused, and how many there were.

    `taken` counts the readings that were taken, `late` those that came too late and are set aside,
    as far as that is known. A server answers when readings are durable, before the tick that takes
    them: its deltas come to subscriptions only, and more may turn out to be late.
    """

    def __init__(self, deltas: Iterable[Delta] = (), *, taken: int = 0, late: int = 0) -> None:
        super().__init__(deltas)
        self.taken = taken
        self.late = late


@dataclass(frozen=True)
class Result(Tabular):
    """What a statement answers: a message, or rows under columns; and the deltas it caused.

    A server tells deltas to subscriptions only: there are none in its results.
    """

    message: str
    columns: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    rows: tuple[Row, ...] = ()
    deltas: DeltaList = field(default_factory=DeltaList)
    line: str | None = None
    """The column of the key, if the rows are trajectories: of each object in the order of times."""

    def __post_init__(self) -> None:
        if self.rows:
            named = tuple(map(record_type(self.columns, self.types), self.rows))
            object.__setattr__(self, "rows", named)

    def to_arrow(self) -> pa.Table:
        return arrow_table(self.columns, self.types, self.rows)

    def to_geojson(self) -> dict[str, Any]:
        """The rows as a FeatureCollection: a point each, or lines if they are trajectories."""
        return feature_collection(self.columns, self.types, self.rows, self.line)
