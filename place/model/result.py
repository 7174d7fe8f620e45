"""What a statement or a push answers, wherever it was executed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from place.model.delta import Delta
from place.model.geojson import feature_collection
from place.model.record import Record, record_type
from place.model.tabular import Tabular, arrow_table
from place.model.types import Row, Type

HEAD = ("query", "sign", "instant")
HEAD_TYPES = (Type.STRING, Type.BIGINT, Type.TIMESTAMP)


class DeltaList(Tabular, list[Delta]):
    """Deltas in their order, as a list.

    As a table they have a column for each of the query's columns if they are of one query, and
    otherwise `row`, a JSON array.
    """

    def to_arrow(self) -> pa.Table:
        is_of_one = len({(delta.query, type(delta.row)) for delta in self}) == 1
        if is_of_one and isinstance(first := self[0].row, Record):
            rows: list[Row] = [(d.query, d.sign, d.instant, *d.row) for d in self]
            return arrow_table((*HEAD, *first._columns), (*HEAD_TYPES, *first._types), rows)
        rows = [(d.query, d.sign, d.instant, json.dumps(d.row)) for d in self]
        return arrow_table((*HEAD, "row"), (*HEAD_TYPES, Type.STRING), rows)


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
