"""Every form of every value through every door: the same reading, or the same words."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from place.errors import ReadingError
from place.model.schema import Stream
from place.model.segment import read_segment
from place.model.time import MINUTE, parse_timestamp
from place.runtime.intake import future
from place.runtime.intake.check import Routed, check_table
from place.runtime.intake.files import check_json, read_file
from place.runtime.intake.pushed import segment_of
from place.server.readings import read_body
from tests.harness.route import LOCAL, rows_of, stream_of

NOON = parse_timestamp("2026-01-31 12:00:00")
COLUMNS = "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, n BIGINT, d DOUBLE, s STRING, b BOOLEAN"
STREAM = stream_of(COLUMNS)
ABSENT: Any = object()

Found = tuple[Any, ...] | str
"""A row with its time, or the reason and what would mend it."""


@dataclass(frozen=True)
class Form:
    """One value: as Python has it, as JSON has it, as csv has it."""

    python: Any
    json: Any = ABSENT
    csv: Any = ABSENT

    def of(self, door: str) -> Any:
        if door in CSV:
            return self.csv if self.csv is not ABSENT else self.of("json")
        return self.json if door in JSON and self.json is not ABSENT else self.python


def row_of(column: str, value: Any) -> dict[str, Any]:
    row = {"id": 7, "x": 1.5, "y": 2.5, "ts": "2026-01-31 12:00:00", "n": None, "d": None}
    return {**row, "s": None, "b": None, column: value}


# The doors


def _of(routed: Routed) -> list[Found]:
    refused = [f"{bad.reason}; {bad.hint}" for bad in routed.rejected]
    return [*rows_of(routed), *refused]


def _pushed(stream: Stream, data: Any) -> list[Found]:
    try:
        found = read_segment(stream, segment_of(stream, data, None))
    except ReadingError as error:
        return [str(error).removeprefix("row 1, ").removeprefix("row 1: ")]
    blank = (None,) * len(stream.columns)
    return [
        (*(r.row or (r.key, *blank[1:])), r.time, r.disappears)  # the key is the first column
        for r in found
    ]


def _arrow(row: dict[str, Any]) -> pa.Table:
    def array(value: Any) -> pa.Array:
        if isinstance(value, int) and value >= 2**63:
            return pa.array([value], pa.uint64())
        return pa.array([value])

    return pa.table({name: array(value) for name, value in row.items()})


def _stream_of_arrow(row: dict[str, Any]) -> bytes:
    table, out = _arrow(row), io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _csv(row: dict[str, Any]) -> bytes:
    fields = ["" if value is None else f'"{value}"' for value in row.values()]
    return (",".join(row) + "\n" + ",".join(fields) + "\n").encode()


def _parquet(row: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(_arrow(row), sink)
    return bytes(sink.getvalue().to_pybytes())


def _body(media: str, write: Callable[[dict[str, Any]], bytes]) -> Callable[..., list[Found]]:
    return lambda stream, row, _: _of(read_body(stream, media, write(row), None))


def _file(name: str, write: Callable[[dict[str, Any]], bytes]) -> Callable[..., list[Found]]:
    def read(stream: Stream, row: dict[str, Any], folder: Path) -> list[Found]:
        (folder / name).write_bytes(write(row))
        return _of(read_file(stream, str(folder / name), LOCAL))

    return read


def _dumped(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


DOORS: dict[str, Callable[[Stream, dict[str, Any], Path], list[Found]]] = {
    "rows": lambda stream, row, _: _pushed(stream, [tuple(row.values())]),
    "dicts": lambda stream, row, _: _pushed(stream, [row]),
    "arrow": lambda stream, row, _: _pushed(stream, _arrow(row)),
    "pandas": lambda stream, row, _: _pushed(stream, pandas.DataFrame([row], dtype=object)),
    "polars": lambda stream, row, _: _pushed(
        stream,
        polars.DataFrame(
            [
                polars.Series(k, np.array([v]) if isinstance(v, np.generic) else [v], strict=False)
                for k, v in row.items()
            ]
        ),
    ),
    "DataFrame": lambda stream, row, _: _of(check_table(stream, _arrow(row), "partition 0")),
    "HTTP objects": _body("application/json", lambda row: b"[" + _dumped(row) + b"]"),
    "HTTP arrays": _body("application/json", lambda row: json.dumps([[*row.values()]]).encode()),
    "HTTP lines": _body("application/x-ndjson", _dumped),
    "HTTP csv": _body("text/csv", _csv),
    "HTTP Arrow": _body("application/vnd.apache.arrow.stream", _stream_of_arrow),
    "csv": _file("a.csv", _csv),
    "json": _file("a.json", _dumped),
    "json array": _file("b.json", lambda row: b"[" + _dumped(row) + b"]"),
    "parquet": _file("a.parquet", _parquet),
    "Kafka": lambda stream, row, _: _of(check_json(stream, pa.array([json.dumps(row)]), "0")),
}
CSV = {"HTTP csv", "csv"}
JSON = {"HTTP objects", "HTTP arrays", "HTTP lines", "json", "json array", "Kafka", *CSV}

# What values mean

MEANT: list[tuple[str, Form, Any]] = [
    ("n", Form(5), 5),
    ("n", Form(5.0, csv="5"), 5),
    ("n", Form("5"), 5),
    ("n", Form(Decimal("5.0"), 5.0, "5"), 5),
    ("n", Form(np.int16(5), 5), 5),
    ("n", Form(-(2**63)), -(2**63)),
    ("n", Form(None), None),
    ("d", Form(5), 5.0),
    ("d", Form(0.1), 0.1),
    ("d", Form("1e3"), 1000.0),
    ("d", Form(Decimal("0.1"), 0.1), 0.1),
    ("d", Form(np.float32(0.5), 0.5), 0.5),
    ("s", Form("Ä, b"), "Ä, b"),
    ("s", Form(b"text", "text"), "text"),
    ("b", Form(True, csv="true"), True),
    ("b", Form("f"), False),
    ("ts", Form("2026-01-31 12:00"), NOON),
    ("ts", Form("2026-01-31T14:00:00+02:00"), NOON),
    ("ts", Form(date(2026, 1, 31), "2026-01-31"), NOON - 12 * 60 * MINUTE),
    ("ts", Form(datetime(2026, 1, 31, 12), "2026-01-31T12:00:00"), NOON),
    ("ts", Form(datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00Z"), NOON),
    ("ts", Form(pandas.Timestamp("2026-01-31 12:00"), "2026-01-31 12:00"), NOON),
    ("ts", Form(np.datetime64("2026-01-31T12:00", "ms"), "2026-01-31T12:00"), NOON),
    ("ts", Form(NOON // 10**6), NOON),
    ("ts", Form(NOON // 10**6 + 0.5), NOON + 500_000),
    ("ts", Form(NOON // 1000), NOON),
    ("ts", Form(NOON), NOON),
    ("ts", Form(NOON * 1000 + 999), NOON),
    ("ts", Form(str(NOON // 10**6)), NOON),
    ("ts", Form(f"{NOON // 1000}.5"), NOON + 500),
    ("ts", Form(str(NOON * 1000)), NOON),
    ("ts", Form(Decimal(NOON // 1000), NOON // 1000), NOON),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("column", "form", "meant"), MEANT)
def test_a_value_means_the_same_at_every_door(
    tmp_path: Path, door: str, column: str, form: Form, meant: Any
) -> None:
    row = row_of(column, form.of(door))
    expected = {**row_of(column, meant), "ts": meant if column == "ts" else NOON}
    wanted = (*expected.values(), expected["ts"], False)
    assert DOORS[door](STREAM, row, tmp_path) == [wanted]


BIGINT = "a BIGINT is a whole number of 64 bits"
STAMP = "a TIMESTAMP is a datetime, a date, a text like"
WRONG: list[tuple[str, Form, str]] = [
    ("n", Form("five"), f'column "n": five is not a BIGINT; {BIGINT}'),
    ("n", Form(5.5), f'column "n": 5.5 is not a BIGINT; {BIGINT}'),
    ("n", Form(2**64 - 1), f'column "n": {2**64 - 1} is too large for a BIGINT; {BIGINT}'),
    ("d", Form("1e999"), 'column "d": 1e999 is too large for a DOUBLE; a DOUBLE is a finite'),
    ("b", Form("maybe"), 'column "b": maybe is not a BOOLEAN; a BOOLEAN is true or false'),
    ("ts", Form("soon"), f'column "ts": soon is not a TIMESTAMP; {STAMP}'),
    ("ts", Form(5), 'column "ts": 5 is not a TIMESTAMP: so small a number does not tell its unit'),
    ("ts", Form(20260131), 'column "ts": 20260131 is not a TIMESTAMP: so small a number does not'),
    ("ts", Form("1850-01-01"), 'column "ts": 1850-01-01 00:00:00 is not in the years 1900 to 2200'),
    ("ts", Form(None), f'column "ts": the time is missing; {STAMP}'),
    ("id", Form(None), 'column "id": the key is missing; a reading with no key is of no object'),
    ("x", Form(None), 'column "x": the position is missing; a reading needs a position'),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("column", "form", "words"), WRONG)
def test_what_is_wrong_is_told_in_the_same_words(
    tmp_path: Path, door: str, column: str, form: Form, words: str
) -> None:
    (told,) = DOORS[door](STREAM, row_of(column, form.of(door)), tmp_path)
    assert isinstance(told, str)
    assert told.replace("'", "").startswith(words.replace("'", ""))


# Options of the stream


@pytest.mark.parametrize("door", DOORS)
def test_the_stream_says_what_its_numbers_count_and_what_its_columns_are_called(
    tmp_path: Path, door: str
) -> None:
    options = "timestamps = 'milliseconds', columns = 'id = mmsi, ts = \"# Time\"'"
    stream = stream_of(COLUMNS, options=options)
    row = row_of("ts", 1500)
    row = {"mmsi": row.pop("id"), **row}
    named = {("# Time" if name == "ts" else name): value for name, value in row.items()}
    wanted = (7, 1.5, 2.5, 1_500_000, None, None, None, None, 1_500_000, False)
    assert DOORS[door](stream, named, tmp_path) == [wanted]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("own", ["x DOUBLE, y DOUBLE", "lon DOUBLE, lat DOUBLE"])
@pytest.mark.parametrize(
    "names", [("x", "y"), ("lon", "lat"), ("LNG", "Lat"), ("Longitude", "LATITUDE")]
)
def test_degrees_by_their_names(
    tmp_path: Path, door: str, own: str, names: tuple[str, str]
) -> None:
    stream = stream_of(f"id BIGINT KEY, {own}, ts TIMESTAMP", options="space = 'wgs84'")
    row = {"id": 7, names[0]: 10.5, names[1]: 53.5, "ts": NOON}
    assert DOORS[door](stream, row, tmp_path) == [(7, 10.5, 53.5, NOON, NOON, False)]


def test_other_names_of_degrees_are_for_degrees_alone(tmp_path: Path) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP")
    row = {"id": 7, "lon": 10.5, "lat": 53.5, "ts": NOON}
    (told,) = DOORS["csv"](stream, row, tmp_path)
    assert told == (
        'no column "x"; columns: id, lon, lat, ts, or say what it is called there:'
        " WITH (columns = 'x = …')"
    )


def test_objects_that_call_a_column_by_two_names(tmp_path: Path) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", options="space = 'wgs84'")
    first = {"id": 1, "lon": 1.5, "lat": 2.5, "ts": NOON}
    both = {"id": 2, "lon": 1.5, "lat": 2.5, "ts": NOON, "X": 3.5}
    (tmp_path / "a.json").write_text(json.dumps(first) + "\n" + json.dumps(both) + "\n")
    found = rows_of(read_file(stream, str(tmp_path / "a.json"), LOCAL))
    assert [row[1] for row in found] == [1.5, 3.5]


# Streams of readings only


@pytest.mark.parametrize("door", DOORS)
def test_a_reading_of_a_stream_without_a_key(tmp_path: Path, door: str) -> None:
    stream = stream_of("src BIGINT, bytes DOUBLE, ts TIMESTAMP")
    for src in (7, None):
        row = {"src": src, "bytes": 1.5, "ts": NOON}
        assert DOORS[door](stream, row, tmp_path) == [(src, 1.5, NOON, NOON, False)]


@pytest.mark.parametrize("door", [door for door in DOORS if door not in ("rows", "HTTP arrays")])
def test_nothing_disappears_from_a_stream_without_a_key(tmp_path: Path, door: str) -> None:
    stream = stream_of("src BIGINT, bytes DOUBLE, ts TIMESTAMP")
    row = {"src": 7, "bytes": 1.5, "ts": NOON, "op": "disappear"}
    words = f'stream "{stream.name}" has no objects; only an object disappears, and the stream'
    (told,) = DOORS[door](stream, row, tmp_path)
    assert isinstance(told, str)
    assert told.startswith(words)
    assert DOORS[door](stream, {**row, "op": "reading"}, tmp_path) == [(7, 1.5, NOON, NOON, False)]


# The future


def test_what_is_too_far_in_the_future(tmp_path: Path) -> None:
    plain = stream_of(COLUMNS)
    near, far = row_of("ts", NOON + 5 * MINUTE), row_of("ts", NOON + 5 * MINUTE + 1)
    words = (
        'column "ts": 2026-01-31 12:05:00.000001 is too far in the future;'
        " the option max_future of the stream says how far it may be ahead"
    )
    latest = future.latest_time(plain, NOON)
    for media, write in (
        ("application/json", lambda row: json.dumps([row]).encode()),
        ("application/x-ndjson", _dumped),
        ("text/csv", _csv),
        ("application/vnd.apache.arrow.stream", _stream_of_arrow),
    ):
        assert len(rows_of(read_body(plain, media, write(near), None, latest))) == 1
        assert _of(read_body(plain, media, write(far), None, latest)) == [words]
    for name, write in (("a.csv", _csv), ("a.json", _dumped), ("a.parquet", _parquet)):
        (tmp_path / name).write_bytes(write(far))
        assert _of(read_file(plain, str(tmp_path / name), LOCAL, latest=latest)) == [words]
        assert len(rows_of(read_file(plain, str(tmp_path / name), LOCAL))) == 1
    # a session in this process judges only where the stream says so
    assert len(segment_of(plain, [far], None, now=lambda: NOON)) == 1
    strict = stream_of(COLUMNS, options="max_future = '5 minutes'")
    with pytest.raises(ReadingError) as told:
        segment_of(strict, [near, far], None, now=lambda: NOON)
    assert str(told.value) == "row 2, " + words
    with pytest.raises(ReadingError, match=r"^time: 2026-01-31 13:00:00 is too far"):
        segment_of(strict, [], NOON + 60 * MINUTE, now=lambda: NOON)
    assert future.latest_time(stream_of(COLUMNS, options="max_future = 'any'"), NOON) > 2 * NOON
