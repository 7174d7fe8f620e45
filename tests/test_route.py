"""Route: what is wrong with a row or a file is told, with line and text, and stops nothing."""

import gzip
import json
import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
import pytest

from place.model.segment import segment_schema
from place.runtime.intake import check, lines
from place.runtime.intake.check import Rejected, Routed, check_table
from place.runtime.intake.files import check_json, read_file
from tests.harness.route import (
    EARTH,
    HEADER,
    LOCAL,
    MOMENT,
    NOON,
    SMALL,
    Folder,
    reasons,
    rows_of,
    smaller_blocks,
    stream_of,
    told,
)

GOOD = f"1,0.5,0.25,{NOON}"


# Every reason


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"one,1,2,{NOON}", "column \"ObjectID\": 'one' is not a BIGINT"),
        (f"1_000,1,2,{NOON}", "column \"ObjectID\": '1_000' is not a BIGINT"),
        (
            f"99999999999999999999,1,2,{NOON}",
            "column \"ObjectID\": '99999999999999999999' is too large for a BIGINT",
        ),
        (f"1,fast,2,{NOON}", "column \"x\": 'fast' is not a DOUBLE"),
        (f"1,1e999,2,{NOON}", "column \"x\": '1e999' is too large for a DOUBLE"),
        (f",1,2,{NOON}", 'column "ObjectID": the key is missing'),
        (f"1,,2,{NOON}", 'column "x": the position is missing'),
        (f"1,NaN,2,{NOON}", 'column "x": the position is NaN'),
        (f"1,1,-inf,{NOON}", 'column "y": the position is infinite'),
        ("1,1,2,", 'column "ts": the time is missing'),
        ("1,1,2,yesterday", "column \"ts\": 'yesterday' is not a TIMESTAMP"),
        (
            "1,1,2,20260131",
            "column \"ts\": '20260131' is not a TIMESTAMP: so small a number does not tell its"
            " unit, and no option timestamps does",
        ),
        (
            "1,1,2,1899-12-31 23:59:59",
            'column "ts": 1899-12-31 23:59:59 is not in the years 1900 to 2200',
        ),
        ("1,1,2,2201-01-01", 'column "ts": 2201-01-01 00:00:00 is not in the years 1900 to 2200'),
        ("1,1,2", "3 fields, but the header has 4"),
        ("oops", "1 field, but the header has 4"),
        (f"1,1,2,{NOON},5", "5 fields, but the header has 4"),
        (f'"1,1,2,{NOON}', "a quote is not closed on its line"),
    ],
)
def test_reasons_of_csv(folder: Folder, row: str, reason: str) -> None:
    routed = folder.read(SMALL, "a.csv", f"{HEADER}\n{GOOD}\n{row}\n\n{GOOD}\n")
    assert told(routed) == [(3, reason, row)]
    assert len(rows_of(routed)) == 2


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (0, 90.5, 'column "y": latitude 90.5 is not between -90 and 90'),
        (0, -91, 'column "y": latitude -91 is not between -90 and 90'),
        (180.5, 0, 'column "x": longitude 180.5 is not between -180 and 180'),
        (-181, 91, 'column "y": latitude 91 is not between -90 and 90'),
    ],
)
def test_positions_off_the_earth(folder: Folder, x: float, y: float, reason: str) -> None:
    good = f"a,-180,90,{NOON}"
    content = f"id,x,y,ts\n{good}\nb,{x},{y},{NOON}\n"
    assert told(folder.read(EARTH, "a.csv", content)) == [(3, reason, f"b,{x},{y},{NOON}")]
    table = pa.table({"id": ["a"], "x": [float(x)], "y": [float(y)], "ts": [MOMENT]})
    (rejected,) = check_table(EARTH, table, "push").rejected
    text = json.dumps({"id": "a", "x": float(x), "y": float(y), "ts": MOMENT})
    hint = "x is the longitude and y the latitude, in degrees"
    assert rejected == Rejected("push", 1, reason, text, hint)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"oops", "not JSON: Expecting value (column 1)"),
        (b'{"ObjectID": 1', "not JSON: Expecting ',' delimiter (column 15)"),
        (b"[1, 2]", "a JSON array, not an object"),
        (b"5", "a JSON number, not an object"),
        (b'"a"', "a JSON text, not an object"),
        (b"null", "a JSON null, not an object"),
        (b'{"ObjectID": "\xe9"}', "invalid UTF-8"),
        (b'{"ObjectID": 1' + b"0" * 5000 + b"}", "a number of too many digits"),
        (b'{"ObjectID": ' + b"[" * 5000 + b"]" * 5000 + b"}", "JSON that is nested too deeply"),
        (b'{"extra": ' + b"[" * 5000 + b"]" * 5000 + b"}", "JSON that is nested too deeply"),
        (b'{"ObjectID": "' + b"a" * (1 << 20) + b'"}', "longer than 1 MB"),
        (b'{"x": 1, "y": 1, "ts": "2026-01-31"}', 'column "ObjectID": the key is missing'),
        (
            b'{"ObjectID": 1, "x": 1, "y": NaN, "ts": "2026-01-31"}',
            'column "y": the position is NaN',
        ),
        (
            b'{"ObjectID": 1, "x": "2", "y": -Infinity, "ts": "2026-01-31"}',
            'column "y": the position is infinite',
        ),
        (
            b'{"ObjectID": 1, "x": 1, "y": 1, "ts": "2026-01-31", "op": "vanish"}',
            "unknown op 'vanish': write 'disappear', or nothing",
        ),
        (
            b'{"ObjectID": 1, "x": 1, "y": 1, "ts": "2026-01-31", "op": 5}',
            "unknown op 5: write 'disappear', or nothing",
        ),
    ],
)
def test_reasons_of_json(folder: Folder, text: bytes, reason: str) -> None:
    good = b'{"ObjectID": 1, "x": 1, "y": 1, "ts": "2026-01-31"}'
    shown = text.decode("utf-8", "replace")[: check.LONGEST_TEXT]
    file = folder.read(SMALL, "a.ndjson", good + b"\n \n" + text + b"\n" + good)
    assert told(file) == [(3, reason, shown)]
    assert len(rows_of(file)) == 2
    messages = check_json(SMALL, pa.array([good, text, good]), "topic/0")
    assert told(messages) == [(2, reason, shown)]
    assert messages.segment == file.segment


def test_messages_without_a_text_are_rejected() -> None:
    routed = check_json(SMALL, pa.array([None, "", " "]), "topic/0")
    assert [row.line for row in routed.rejected] == [1, 2, 3]
    assert reasons(routed)[0] == "no text, so no JSON object"


def test_a_line_that_is_not_utf8_or_too_long(folder: Folder) -> None:
    stream = stream_of("id STRING KEY, x DOUBLE, y DOUBLE, note STRING")
    good = "ä,1,2,ok".encode()
    long = b"b,1,2," + b"z" * lines.LONGEST
    at_most = b"c,1,2," + b"z" * (lines.LONGEST - 6)
    noise = "é,1,2,x".encode("latin-1")
    content = b"\n".join([b"\xef\xbb\xbfid,x,y,note", good, noise, long, at_most, good])
    for block in (lines.BLOCK, 1 << 16):
        with smaller_blocks(block):
            routed = folder.read(stream, "a.csv", content, arrival=0)
        assert [row[0] for row in rows_of(routed)] == ["ä", "c", "ä"]
        assert [(row.line, row.reason) for row in routed.rejected] == [
            (3, "invalid UTF-8"),
            (4, "longer than 1 MB"),
        ]
        assert routed.rejected[0].text == "\ufffd,1,2,x"
        assert routed.rejected[1].text == long[: check.LONGEST_TEXT].decode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_an_editor_does(folder: Folder, end: str) -> None:
    content = end.join([HEADER, "", GOOD, "oops", "", "", "oops", GOOD])
    for block in range(1, len(content) + 2):
        with smaller_blocks(block):
            routed = folder.read(SMALL, "a.csv", content)
        assert [row.line for row in routed.rejected] == [4, 7]
        assert len(rows_of(routed)) == 2


# Fifty thousand readings, one in twenty broken


def test_many_readings_of_which_some_are_broken(folder: Folder) -> None:
    stream = stream_of(
        "id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, speed DOUBLE, name STRING",
        options="space = 'wgs84'",
    )
    ways: list[tuple[Callable[[str], str], str]] = [
        (lambda i: f"car{i},1,2,{NOON},3,a", "column \"id\": 'car{i}' is not a BIGINT"),
        (lambda i: f",1,2,{NOON},{i},a", 'column "id": the key is missing'),
        (lambda i: f"{i},nan,2,{NOON},3,a", 'column "x": the position is NaN'),
        (lambda i: f"{i},1,inf,{NOON},3,a", 'column "y": the position is infinite'),
        (lambda i: f"{i},1,-95,{NOON},3,a", 'column "y": latitude -95 is not between -90 and 90'),
        (
            lambda i: f"{i},200,2,{NOON},3,a",
            'column "x": longitude 200 is not between -180 and 180',
        ),
        (lambda i: f"{i},1,2,3026-01-31,3,a", 'column "ts": 3026-01-31 00:00:00 is not in the'),
        (lambda i: f"{i},1,2,soon,3,a", "column \"ts\": 'soon' is not a TIMESTAMP"),
        (lambda i: f"{i},1,2,{NOON},fast,a", "column \"speed\": 'fast' is not a DOUBLE"),
        (lambda i: f"{i},1,2", "3 fields, but the header has 6"),
        (lambda i: f'{i},1,2,{NOON},3,"a', "a quote is not closed on its line"),
        (lambda i: f"{i}{'0' * 20},1,2,{NOON},3,a", "column \"id\": '{i}{zeros}' is too large"),
    ]
    chance = random.Random(1)
    written, good, bad = [], [], []
    for i in range(1, 50_001):
        if i % 20 == 7:
            break_it, reason = ways[i // 20 % len(ways)]
            written.append(break_it(str(i)))
            bad.append((i + 1, reason.format(i=i, zeros="0" * 20), written[-1]))
        else:
            x, y = chance.uniform(-180, 180), chance.uniform(-90, 90)
            name = chance.choice(["a", '"a,b"', '"the ""one"""', "é", ""])
            written.append(f"{i},{x!r},{y!r},{NOON},{i / 7!r},{name}")
            good.append((i, x, y, MOMENT, i / 7, name))
    routed = folder.read(stream, "a.csv", "\n".join(["id,x,y,ts,speed,name", *written]))
    assert len(bad) == 2_500
    assert [(row.line, row.text) for row in routed.rejected] == [(n, text) for n, _, text in bad]
    for row, (_, reason, _) in zip(routed.rejected, bad, strict=True):
        assert row.reason.startswith(reason)
    meant = {'"a,b"': "a,b", '"the ""one"""': 'the "one"', "": None}
    expected = [(*row[:5], meant.get(row[5], row[5]), MOMENT, False) for row in good]
    assert rows_of(routed) == expected


# Whole files that are broken


def test_empty_files(folder: Folder) -> None:
    for name in ("a.csv", "a.json", "a.parquet", "a.csv.gz", "a.jsonl.gz"):
        assert folder.read(SMALL, name, b"") == Routed(
            segment_schema(SMALL.columns).empty_table(), []
        )
    files: list[tuple[str, str | bytes]] = [
        ("b.csv", "\n \n"),
        ("b.csv", HEADER),
        ("b.csv", f"\n{HEADER}\n\n"),
        ("b.json", " \n"),
        ("b.json", "[]"),
        ("b.json.gz", gzip.compress(b"")),
    ]
    for name, content in files:
        assert told(folder.read(SMALL, name, content)) == []
    pa.parquet.write_table(table_of(0), folder.path / "c.parquet")
    assert told(read_file(SMALL, str(folder.path / "c.parquet"), LOCAL)) == []


def table_of(rows: int) -> pa.Table:
    return pa.table(
        {
            "ObjectID": pa.array(range(rows), pa.int64()),
            "x": pa.array([i / 8 for i in range(rows)], pa.float64()),
            "y": pa.array([0.5] * rows, pa.float64()),
            "ts": pa.array([MOMENT + i for i in range(rows)], pa.timestamp("us", "UTC")),
        }
    )


def csv_of(rows: int) -> str:
    return "\n".join([HEADER, *(f"{i},{i / 8},0.5,{NOON}" for i in range(rows))]) + "\n"


def json_of(rows: int) -> str:
    objects = ({"ObjectID": i, "x": i / 8, "y": 0.5, "ts": NOON} for i in range(rows))
    return "".join(json.dumps(o) + "\n" for o in objects)


@pytest.mark.parametrize(("name", "make"), [("a.csv", csv_of), ("a.ndjson", json_of)])
def test_gzip(folder: Folder, name: str, make: Callable[[int], str]) -> None:
    text = make(20_000)
    plain = folder.read(SMALL, name, text)
    assert plain.segment.num_rows == 20_000
    data = gzip.compress(text.encode())
    half = text.index("\n", len(text) // 2) + 1
    members = gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode()) + b"\0" * 9
    for content in (data, members):
        for packed in (f"{name}.gz", name):  # it is seen by itself
            routed = folder.read(SMALL, packed, content)
            assert routed.segment == plain.segment
            assert not routed.rejected
    with smaller_blocks(1000):
        assert folder.read(SMALL, f"{name}.gz", members).segment == plain.segment


@pytest.mark.parametrize(("name", "make"), [("a.csv.gz", csv_of), ("a.json.gz", json_of)])
def test_a_gzip_file_that_is_cut_off_or_damaged(
    folder: Folder, name: str, make: Callable[[int], str]
) -> None:
    text = make(20_000)
    data = gzip.compress(text.encode())
    routed = folder.read(SMALL, name, data[: len(data) // 2])
    kept = routed.segment.num_rows
    assert 1_000 < kept < 19_000
    assert [row[0] for row in rows_of(routed)] == list(range(kept))
    (rejected,) = routed.rejected
    assert rejected.line is not None
    assert rejected.line == kept + (2 if make is csv_of else 1)
    assert "cut off" in rejected.reason
    assert text.splitlines()[rejected.line - 1].startswith(rejected.text)

    noise = random.Random(1).randbytes(100_000)
    damaged = gzip.compress(noise.hex().encode())  # does not get smaller, so that it has pieces
    damaged = gzip.compress(text.encode() + noise.hex().encode())
    damaged = damaged[:-50_000] + bytes(1000) + damaged[-49_000:]
    routed = folder.read(SMALL, name, damaged)
    assert "gzip data is damaged" in reasons(routed)[-1]
    for cut in (1, 5, 11, len(data) - 1):
        assert "cut off" in reasons(folder.read(SMALL, name, data[:cut]))[-1]
    assert reasons(folder.read(SMALL, name, "no gzip")) == [lines.DAMAGED]


def test_a_parquet_file_that_is_broken_is_one_entry(folder: Folder) -> None:
    path = folder.path / "good.parquet"
    pa.parquet.write_table(table_of(1000), path)
    data = path.read_bytes()
    middle = len(data) // 2
    broken = [b"PAR1", b"noise" * 100, data[:middle], data[:-9], data[9:], data[:200] + data[400:]]
    for content in broken:
        routed = folder.read(SMALL, "a.parquet", content)
        assert routed.segment.num_rows == 0
        assert len(routed.rejected) == 1
        assert "no readable Parquet file" in routed.rejected[0].reason
    packed = gzip.compress(data)
    assert folder.read(SMALL, "a.parquet.gz", packed).segment.num_rows == 1000
    (rejected,) = folder.read(SMALL, "a.parquet.gz", packed[:-100]).rejected
    assert "cut off" in rejected.reason


def test_files_of_noise_stop_nothing(folder: Folder) -> None:
    noise = random.Random(1).randbytes(3_000_000)
    for name in ("a.csv", "a.json", "a.parquet", "a.csv.gz", "a.jsonl"):
        routed = folder.read(SMALL, name, noise)
        assert routed.segment.num_rows == 0
        assert 1 <= len(routed.rejected) <= check.MOST_REJECTED + 1
    endless = noise.replace(b"\n", b" ").replace(b"\r", b" ")
    for content in (noise, endless, b"\x00" * 3_000_000, b'"' * 3_000_000):
        for block in (lines.BLOCK, 100_000):
            with smaller_blocks(block):
                rest = HEADER.encode() + b"\n" + content + b"\n" + GOOD.encode() + b"\noops"
                routed = folder.read(SMALL, "a.csv", rest)
            assert [row[0] for row in rows_of(routed)] == [1]
            assert 1 <= len(routed.rejected) <= check.MOST_REJECTED + 1
            assert max(len(row.text) for row in routed.rejected) <= check.LONGEST_TEXT
            if content is not noise:
                told = [(row.line, row.reason) for row in routed.rejected]
                assert told == [(2, "longer than 1 MB"), (4, "1 field, but the header has 4")]


def test_only_so_many_rejected_rows_are_listed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "MOST_REJECTED", 10)
    content = "\n".join([HEADER, *["oops"] * 1007])
    for block in (lines.BLOCK, 50):
        with smaller_blocks(block):
            routed = folder.read(SMALL, "a.csv", content)
        assert [row.line for row in routed.rejected] == [*range(2, 12), None]
        assert routed.rejected[-1].reason == "997 more rows, which are not listed"
    assert len(check_json(SMALL, pa.array(["oops"] * 11), "k").rejected) == 11


def test_a_file_of_no_known_format(folder: Folder) -> None:
    (rejected,) = folder.read(SMALL, "a.xls", "?").rejected
    assert rejected.line is None
    assert "the format is not known" in rejected.reason
    routed = folder.read(stream_of(source="format = 'json'"), "a.xls", "[]")
    assert not routed.rejected


def test_a_file_that_cannot_be_read_is_an_error(folder: Folder) -> None:
    for name in ("a.csv", "a.json", "a.parquet"):
        with pytest.raises(FileNotFoundError):
            read_file(SMALL, str(folder.path / name), LOCAL)
