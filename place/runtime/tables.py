"""Tables from files: csv, json (an object a line, or one array) and parquet.

A file is read whole or not at all. Declared columns are found by name, in any order; without a
declaration the columns are those of the file. A value that does not fit is answered with its row.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from place.errors import ConfigurationError, suggestion
from place.model.schema import Column
from place.model.segment import ARROW
from place.model.table_rows import TableRows
from place.model.types import Type, ValueMismatch
from place.runtime.intake.values import settle

READERS = (".csv", ".json", ".ndjson", ".jsonl", ".parquet")
MOST_BYTES = 2 * 1024**3


class TableLoader:
    """Reads the files of tables; relative paths start at `directory`.

    With `confined`, no path may lead out of the directory.
    """

    def __init__(self, directory: Path | None = None, *, confined: bool = False) -> None:
        self.directory = (directory or Path.cwd()).resolve()
        self.confined = confined

    def __call__(
        self, path: str, declared: tuple[Column, ...]
    ) -> tuple[tuple[Column, ...], TableRows]:
        """The columns and rows of a file."""
        table = self._read(path)
        columns = declared or _columns(table, path)
        return columns, _rows(table, columns, path)

    def _read(self, path: str) -> pa.Table:
        try:
            file = (self.directory / path).resolve()
        except (OSError, ValueError):
            raise ConfigurationError(f"'{path[:60]}' is not a path") from None
        if self.confined and not file.is_relative_to(self.directory):
            raise ConfigurationError(f"file '{path}' is outside the data directory")
        if not file.is_file():
            near = [other.name for other in file.parent.glob("*")] if file.parent.is_dir() else []
            files = [name for name in sorted(near) if Path(name).suffix in READERS]
            raise ConfigurationError(
                f"file '{path}' does not exist",
                hint=suggestion(file.name, files, "files there") if files else None,
            )
        if file.stat().st_size > MOST_BYTES:
            raise ConfigurationError(f"file '{path}' is larger than {MOST_BYTES >> 30} GiB")
        suffix = file.suffix.casefold()
        try:
            if suffix == ".csv":
                return _read_csv(file)
            if suffix == ".parquet":
                import pyarrow.parquet as pq  # loads clients of object stores, too: only if need be

                return pq.read_table(file)
            if suffix in READERS:
                return _read_json(file)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise ConfigurationError(f"file '{path}' cannot be read: {reason}") from None
        raise ConfigurationError(
            f"file '{path}' is of no known format",
            hint="a table is loaded from .csv, .json or .parquet",
        )


def _read_csv(file: Path) -> pa.Table:
    return pa.csv.read_csv(
        file,
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _read_json(file: Path) -> pa.Table:
    text = file.read_text("utf-8-sig")
    if text.lstrip().startswith("["):
        records = json.loads(text)
    else:
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("expected objects, one a line or in one array")
    names = list(dict.fromkeys(name for record in records for name in record))
    return pa.table({name: pa.array([record.get(name) for record in records]) for name in names})


def _columns(table: pa.Table, path: str) -> tuple[Column, ...]:
    if table.num_columns == 0:
        raise ConfigurationError(f"file '{path}' has no columns")
    return tuple(Column(field.name, _type(field.type)) for field in table.schema)


def _type(kind: pa.DataType) -> Type:
    if pa.types.is_boolean(kind):
        return Type.BOOLEAN
    if pa.types.is_integer(kind):
        return Type.BIGINT
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Type.DOUBLE
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Type.TIMESTAMP
    return Type.STRING


def _rows(table: pa.Table, columns: tuple[Column, ...], path: str) -> TableRows:
    by_name = {name.casefold(): i for i, name in reversed(list(enumerate(table.column_names)))}
    values = []
    for column in columns:
        index = by_name.get(column.name.casefold())
        if index is None:
            raise ConfigurationError(
                f"file '{path}' has no column \"{column.name}\"",
                hint=suggestion(column.name, table.column_names, "its columns"),
            )
        given = table.column(index)
        ready = _as_they_are(given, column.type)
        values.append(_converted(given.to_pylist(), column, path) if ready is None else ready)
    return TableRows.of_arrays(values)


def _as_they_are(values: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray | None:
    """Values that need no look at each of them; None if they do."""
    given, wanted = values.type, ARROW[kind]
    if kind is Type.DOUBLE and (pa.types.is_floating(given) or pa.types.is_integer(given)):
        numbers = values.cast(pa.float64(), safe=False)
        is_finite = pa.compute.is_finite(numbers)
        return numbers if pa.compute.all(is_finite, min_count=0).as_py() else None
    if kind is Type.BIGINT and pa.types.is_signed_integer(given):
        return values.cast(wanted)
    if kind is Type.STRING and pa.types.is_string(given):
        return values
    if kind is Type.BOOLEAN and pa.types.is_boolean(given):
        return values
    return None


def _converted(values: list[Any], column: Column, path: str) -> pa.Array:
    converted = []
    for number, value in enumerate(values, start=1):
        try:
            converted.append(settle(_plain(value, column.type), column.type))
        except ValueMismatch as error:
            raise ConfigurationError(
                f"file '{path}', row {number}, column \"{column.name}\": {error.message}"
            ) from None
    return pa.array(converted, ARROW[column.type])


def _plain(value: Any, kind: Type) -> Any:
    """A value that Arrow read, as one that the model knows."""
    if kind is Type.TIMESTAMP:  # as in readings, numbers among them
        return value
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.isoformat()
    if kind is Type.STRING and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, int | float | str | bool):
        return float(value) if kind.is_numeric else str(value)
    return value
