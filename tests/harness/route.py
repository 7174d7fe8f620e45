"""What the tests of the intake share: streams by their statements, and files that are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.fs

from place.errors import ReadingError
from place.model.reading import Reading
from place.model.schema import Stream
from place.model.segment import segment_schema
from place.model.space import Space
from place.model.time import parse_timestamp
from place.plan.define import define_stream
from place.runtime.intake import lines
from place.runtime.intake.check import Routed
from place.runtime.intake.files import read_file
from place.runtime.intake.values import settle
from place.sql import statements
from place.sql.dialect import parse_one

LOCAL = pyarrow.fs.LocalFileSystem()
NOON = "2026-01-31 12:00:00"
MOMENT = parse_timestamp(NOON)


def stream_of(
    columns: str = "ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, type STRING,"
    " speed DOUBLE, open BOOLEAN",
    source: str = "",
    options: str = "",
) -> Stream:
    """A stream as its statement makes it."""
    text = f"CREATE STREAM S ({columns})"
    text += f" FROM FILES ('in/', {source})" if source else ""
    text += f" WITH ({options})" if options else ""
    statement = parse_one(text, text, 0)
    assert isinstance(statement, statements.CreateStream)
    return define_stream(statement)


SMALL = stream_of("ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP")
EARTH = stream_of("id STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", options="space = 'wgs84'")
HEADER = "ObjectID,x,y,ts"


@dataclass
class Folder:
    """A directory whose files are read as soon as they are written."""

    path: Path

    def read(
        self, stream: Stream, name: str, data: str | bytes, *, arrival: int | None = None
    ) -> Routed:
        """What becomes of a file with this name and content."""
        file = self.path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        routed = read_file(stream, str(file), LOCAL, arrival=arrival)
        assert routed.segment.schema == segment_schema(stream.columns)
        assert all(row.source == str(file) for row in routed.rejected)
        return routed


@contextmanager
def smaller_blocks(size: int) -> Iterator[None]:
    """So that a file of a few lines has many blocks."""
    before, lines.BLOCK = lines.BLOCK, size
    try:
        yield
    finally:
        lines.BLOCK = before


def rows_of(routed: Routed) -> list[tuple[Any, ...]]:
    """The rows of the segment, values in the order of its columns."""
    columns = [column.to_pylist() for column in routed.segment.columns]
    return list(zip(*columns, strict=True))


def told(routed: Routed) -> list[tuple[int | None, str, str]]:
    """What was set aside: line, reason and text."""
    return [(row.line, row.reason, row.text) for row in routed.rejected]


def make_reading(stream: Stream, values: Sequence[Any], time: int | None = None) -> Reading:
    """A reading from values in column order, without the time where `time` is given: what it means,
    said value by value. A PlaceError if it is wrong."""
    given = list(values)
    if time is not None and stream.time is not None and len(given) == len(stream.columns) - 1:
        given.insert(stream.time, datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time))
    columns = zip(stream.columns, given, strict=True)
    row = tuple(settle(value, column.type, stream.timestamps) for column, value in columns)
    moment = row[stream.time] if stream.time is not None else time
    key = row[stream.key]
    if not isinstance(moment, int) or key is None or isinstance(key, float):
        raise ReadingError("no key, or no time")
    if stream.x is not None and stream.y is not None:
        x, y = row[stream.x], row[stream.y]
        if not isinstance(x, int | float) or not isinstance(y, int | float):
            raise ReadingError("no position")
        if stream.space is Space.WGS84 and (abs(y) > 90 or abs(x) > 180):
            raise ReadingError("not on the earth")
    return Reading(stream.name, key, moment, row)


def make_disappearance(stream: Stream, key: Any, time: int) -> Reading:
    """Word that an object disappears at `time`."""
    found = settle(key, stream.columns[stream.key].type)
    if found is None or isinstance(found, float):
        raise ReadingError("no key")
    return Reading(stream.name, found, time, None)


def reasons(routed: Routed) -> list[str]:
    return [row.reason for row in routed.rejected]
