"""Answers in the formats of other programs: GeoJSON, CSV, and Arrow's streams and Parquet's files.

A request names one by `?format=`. Times are times there, as in `to_arrow`: where a format has only
texts for them, they are in ISO 8601, and intervals are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from fastapi import Query

from place.model.geojson import feature_collection
from place.model.schema import position_of
from place.model.tabular import arrow_table
from place.model.time import SECOND
from place.model.types import Row, Type
from place.server.encode import iso
from place.server.errors import Refused

Format = Annotated[
    Literal["json", "geojson", "csv", "arrow", "parquet"],
    Query(alias="format", description="the format of the rows; all but json have nothing else"),
]


@dataclass(frozen=True)
class Rowset:
    """Rows with the names and types of their columns. `line` names the column of the key if they
    are the ways of objects."""

    columns: Sequence[str]
    types: Sequence[Type]
    rows: Sequence[Row]
    line: str | None = None

    def to_arrow(self) -> pa.Table:
        return arrow_table(self.columns, self.types, self.rows)


def written(form: str, found: Rowset, about: Mapping[str, Any]) -> tuple[bytes, str]:
    """Rows in a format that is not `json`, and the media type; GeoJSON also says what they are."""
    if form == "geojson":
        return _geojson(found, about), "application/geo+json"
    write, media = _TABLES[form]
    return write(found.to_arrow()), media


def check_position(columns: Sequence[str]) -> tuple[int, int]:
    """The columns of a position, found by the names that those of a stream have."""
    found = position_of(columns)
    if found is None:
        raise Refused(
            400,
            "no_position",
            f"the rows have no position for GeoJSON: their columns are {', '.join(columns)}",
            hint="select the columns of the position, or call two columns so: AS x, AS y",
        )
    return found


def _geojson(found: Rowset, about: Mapping[str, Any]) -> bytes:
    """A point for each row, with all other columns as its properties, or a line for each way."""
    check_position(found.columns)
    made = feature_collection(found.columns, found.types, found.rows, found.line)
    return json.dumps({"type": made["type"], **about, "features": made["features"]}).encode()


def _csv(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pc_csv.write_csv(_as_texts(table), out)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _arrow(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _parquet(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


_TABLES: dict[str, tuple[Callable[[pa.Table], bytes], str]] = {
    "csv": (_csv, "text/csv"),
    "arrow": (_arrow, "application/vnd.apache.arrow.stream"),
    "parquet": (_parquet, "application/vnd.apache.parquet"),
}


def _as_texts(table: pa.Table) -> pa.Table:
    """The same table, with times and intervals as formats have them that know only texts."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_timestamp(field.type):
            moments = column.cast(pa.int64()).combine_chunks().dictionary_encode()
            texts = [iso(moment) for moment in moments.dictionary.to_pylist()]
            column = pa.array(texts, pa.string()).take(moments.indices)
        elif pa.types.is_duration(field.type):
            column = pc.divide(column.cast(pa.int64()).cast(pa.float64()), float(SECOND))
        else:
            continue
        table = table.set_column(place, field.name, column)
    return table
