"""Lines as others write them: without a header, with other separators, with other dates."""

import json
from typing import Any

import pytest

from place.errors import StatementError
from place.model.time import parse_timestamp
from tests.harness.route import Folder, rows_of, stream_of, told

COLUMNS = "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, name STRING"
NOON = parse_timestamp("2026-01-31 12:00:00")


@pytest.mark.parametrize("separator", [";", "|", "tab", "space", ","])
def test_fields_may_stand_apart_by_other_letters(folder: Folder, separator: str) -> None:
    letter = {"tab": "\t", "space": " "}.get(separator, separator)
    stream = stream_of(
        COLUMNS, f"header = 'id, ts, x, y, name', separator = '{separator}', format = 'csv'"
    )
    rows = [
        ["1", "2026-01-31T12:00:00", "1.5", "2.5", f'"a{letter}""b"""'],
        ["2", "2026-01-31T12:00:00", "east", "2.5", "c"],
        ["3", "2026-01-31T12:00:00", "3.5"],
        ["4", "2026-01-31T12:00:00", "3.5", "4.5", ""],
    ]
    text = "\n".join(letter.join(row) for row in rows)
    found = folder.read(stream, "a.txt", text)
    assert [row[:5] for row in rows_of(found)] == [
        (1, 1.5, 2.5, NOON, f'a{letter}"b"'),
        (4, 3.5, 4.5, NOON, None),
    ]
    assert [(line, reason) for line, reason, _ in told(found)] == [
        (2, "column \"x\": 'east' is not a DOUBLE"),
        (3, "3 fields, but the header has 5"),
    ]
    good = letter.join(rows[0]) + "\n"
    assert len(rows_of(folder.read(stream, "b.txt", good * 100))) == 100
    headed = stream_of(COLUMNS, f"separator = '{separator}'")
    header = letter.join(["id", "ts", "x", "y", "name"]) + "\n"
    assert rows_of(folder.read(headed, "b.csv", header + good)) == rows_of(
        folder.read(stream, "b.txt", good)
    )


def test_a_header_without_a_column_is_one_error(folder: Folder) -> None:
    stream = stream_of(COLUMNS, "header = 'id, ts, x, y', format = 'csv'")
    ((line, reason, text),) = told(folder.read(stream, "a.txt", "1,2026-01-31,1,2\n"))
    assert (line, reason, text) == (None, 'no column "name"', "id, ts, x, y")
    with pytest.raises(StatementError, match="is not a list of names"):
        stream_of(COLUMNS, "header = 'id,,x'")
    with pytest.raises(StatementError, match="separator '::' does not exist"):
        stream_of(COLUMNS, "separator = '::'")


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("day/month/year", "31/01/2026 12:00:00", NOON),
        ("day/month/year", "31.1.2026 12:00:00", NOON),
        ("day/month/year", "31-01-2026T12:00:00Z", NOON),
        ("day/month/year", "31/01/2026", parse_timestamp("2026-01-31")),
        ("month/day/year", "01/31/2026 12:00:00", NOON),
        ("month/day/year", "1/31/2026 13:00:00+01:00", NOON),
        ("day/month/year", "01/31/2026 12:00:00", None),
        ("day/month/year", "2026-01-31 12:00:00", None),
        ("day/month/year", "1769860800", None),
        ("month/day/year", "31/01/2026 12:00:00", None),
        ("month/day/year", "02/30/2026 12:00:00", None),
    ],
)
def test_dates_in_the_order_of_a_country(
    folder: Folder, form: str, text: str, expected: int | None
) -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", f"timestamps = '{form}'")
    lines = "id,x,y,ts\n" + f"1,1,2,{text}\n" * 3
    objects = "\n".join([json.dumps({"id": 1, "x": 1, "y": 2, "ts": text})] * 3)
    for found in (folder.read(stream, "a.csv", lines), folder.read(stream, "a.json", objects)):
        if expected is None:
            reasons: list[Any] = [reason for _, reason, _ in told(found)]
            assert reasons == [f"column \"ts\": '{text}' is not a TIMESTAMP in {form}"] * 3
        else:
            assert [row[3] for row in rows_of(found)] == [expected] * 3
    number = json.dumps({"id": 1, "x": 1, "y": 2, "ts": 1769860800})
    assert told(folder.read(stream, "n.json", number)), "no number is a date"
