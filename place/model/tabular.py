"""What has rows and columns as a table of Arrow, pandas or polars, and as a table in a notebook.

pandas and polars are asked for only here, and only when somebody wants them.
"""

from __future__ import annotations

import html
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import ModuleType
from typing import Any

import pyarrow as pa

from place.errors import ConfigurationError
from place.model.record import Record, record_type, unique_names
from place.model.time import format_timestamp, instant_of
from place.model.types import Row, Type

TIMESTAMP = pa.timestamp("us", "UTC")
COLUMN_TYPES: dict[Type, pa.DataType] = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: TIMESTAMP,
    Type.INTERVAL: pa.duration("us"),
    Type.NULL: pa.null(),
}
"""The types of columns for people who go on with them elsewhere: times are times there."""

SHOWN = 60
"""A notebook shows so many rows; data frames have all of them."""


class Tabular(ABC):
    """Rows and columns that others can take over; whoever inherits says what `to_arrow` gives."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """A table of Arrow; TIMESTAMP columns are timestamps in UTC, INTERVAL ones durations."""

    def to_pandas(self) -> Any:
        """A DataFrame of pandas. A BIGINT or BOOLEAN with NULLs is `Int64` or `boolean`."""
        pandas = _library("pandas")
        table = self.to_arrow()
        nullable = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
        frame = {
            name: column.to_pandas(
                types_mapper=nullable.get if column.null_count else None,
            )
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        return pandas.DataFrame(frame, columns=table.column_names)

    def to_polars(self) -> Any:
        """A DataFrame of polars."""
        return _library("polars").from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, and how many there are."""
        table = self.to_arrow()
        names = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
        columns = [column.to_pylist() for column in table.slice(0, SHOWN).columns]
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in zip(*columns, strict=True)
        )
        left = table.num_rows - SHOWN
        more = f"<p>and {left:,} more</p>" if left > 0 else ""
        return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{more}"


class Rows(Tabular, list[Record]):
    """The rows of an answer, in a stable order: a list of tuples whose values have names.

    >>> rows = Rows(("id", "kind"), (Type.BIGINT, Type.STRING), [(1, "a")])
    >>> rows == [(1, "a")], rows[0].kind
    (True, 'a')
    """

    def __init__(
        self, columns: Sequence[str], types: Sequence[Type], rows: Iterable[Row] = ()
    ) -> None:
        self.columns = tuple(columns)
        self.types = tuple(types)
        super().__init__(map(record_type(self.columns, self.types), rows))

    def to_arrow(self) -> pa.Table:
        return arrow_table(self.columns, self.types, self)


def arrow_table(columns: Sequence[str], types: Sequence[Type], rows: Sequence[Row]) -> pa.Table:
    """Rows by columns; a second column of a name has a number behind it."""
    values = zip(*rows, strict=True) if rows else iter([()] * len(columns))
    arrays = [arrow_column(each, kind) for each, kind in zip(values, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=unique_names(columns))


def arrow_column(values: Sequence[Any], kind: Type) -> pa.Array:
    """Values as they are kept, as a column."""
    wanted = COLUMN_TYPES[kind]
    if kind in (Type.TIMESTAMP, Type.INTERVAL):
        return pa.array(values, pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def _library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigurationError(
            f"{name} is not installed", hint=f"pip install {name}, or use to_arrow()"
        ) from None


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return format_timestamp(instant_of(value))
    return "NULL" if value is None else str(value)
