"""Rows with positions as GeoJSON: a point for each row, or a line for each way of an object.

Coordinates are those of the stream: degrees where its space is wgs84, as GeoJSON has them, and
otherwise the lengths of its plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from place.errors import StatementError
from place.model.schema import position_of
from place.model.time import SECOND, format_timestamp
from place.model.types import Row, Type

VALID_FROM, VALID_TO = "valid_from", "valid_to"


def feature_collection(
    columns: Sequence[str], types: Sequence[Type], rows: Sequence[Row], line: str | None
) -> dict[str, Any]:
    """Rows with columns x and y as a FeatureCollection.

    With `line`, the name of the key's column, rows that follow each other without a gap are one
    LineString (or a Point, if there is one), with the `times` at which each place was reached.
    """
    names = list(columns)
    position = position_of(names)
    if position is None:
        raise StatementError(
            "rows without columns x and y are no GeoJSON",
            hint="write SELECT id, x, y FROM … or SELECT TRAJECTORY(id) FROM … BETWEEN …",
        )
    x, y = position
    if line is None:
        features = [
            _feature("Point", [row[x], row[y]], _properties(names, types, row, (x, y)))
            for row in rows
        ]
    else:
        features = list(_lines(names, types, rows, (names.index(line), x, y)))
    return {"type": "FeatureCollection", "features": features}


def _lines(
    names: list[str], types: Sequence[Type], rows: Sequence[Row], at: tuple[int, int, int]
) -> Iterator[dict[str, Any]]:
    key, x, y = at
    since, until = names.index(VALID_FROM), names.index(VALID_TO)
    start = 0
    for index, row in enumerate(rows):
        following = rows[index + 1] if index + 1 < len(rows) else None
        if following is None or following[key] != row[key] or following[since] != row[until]:
            part = rows[start : index + 1]
            properties = {
                names[key]: _plain(row[key], types[key]),
                VALID_FROM: _plain(part[0][since], Type.TIMESTAMP),
                VALID_TO: _plain(row[until], Type.TIMESTAMP),
                "times": [_plain(each[since], Type.TIMESTAMP) for each in part],
            }
            places = [[each[x], each[y]] for each in part]
            if len(places) == 1:
                yield _feature("Point", places[0], properties)
            else:
                yield _feature("LineString", places, properties)
            start = index + 1


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    geometry = None
    if coordinates[0] is not None and coordinates[-1] is not None:
        geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def _properties(
    names: list[str], types: Sequence[Type], row: Row, without: tuple[int, int]
) -> dict[str, Any]:
    return {
        name: _plain(value, kind)
        for index, (name, kind, value) in enumerate(zip(names, types, row, strict=True))
        if index not in without
    }


def _plain(value: Any, kind: Type) -> Any:
    """A value as others read it: times by ISO 8601, in UTC, and intervals as seconds."""
    if value is None:
        return None
    if kind is Type.TIMESTAMP:
        return format_timestamp(value).replace(" ", "T") + "Z"
    return value / SECOND if kind is Type.INTERVAL else value
