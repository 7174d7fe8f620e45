"""Route: columns by any name and of any type, times in any form, the options that say so."""

import gzip
import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
import pytest

from place.errors import InternalError, StatementError
from place.model.time import parse_timestamp
from place.plan.external import parse_columns
from place.runtime.intake import json_array, json_file
from place.runtime.intake.check import Rejected, check_table
from place.runtime.intake.files import check_json
from place.runtime.intake.quarantine import pack
from tests.harness.route import (
    HEADER,
    MOMENT,
    NOON,
    SMALL,
    Folder,
    reasons,
    rows_of,
    stream_of,
    told,
)


def table_of(rows: int) -> pa.Table:
    return pa.table(
        {
            "ObjectID": pa.array(range(rows), pa.int64()),
            "x": pa.array([i / 8 for i in range(rows)], pa.float64()),
            "y": pa.array([0.5] * rows, pa.float64()),
            "ts": pa.array([MOMENT + i for i in range(rows)], pa.timestamp("us", "UTC")),
        }
    )


# Columns


@pytest.mark.parametrize("name", ["a.csv", "a.json", "b.json", "a.parquet"])
def test_a_missing_column_is_one_entry(folder: Folder, name: str) -> None:
    table = table_of(3).rename_columns(["ObjectID", "xx", "y", "ts"])
    routed = folder.read(SMALL, name, written(table, name))
    assert routed.segment.num_rows == 0
    assert routed.rejected[0].reason == 'no column "x"'
    assert routed.rejected[0].hint.startswith('did you mean "xx"?')
    assert len(routed.rejected) == 1
    text = routed.rejected[0].text.replace(" ", "").replace('"', "")
    assert text == "ObjectID,xx,y,ts"


def test_a_member_of_a_member_is_no_column(folder: Folder) -> None:
    row = {"ObjectID": 1, "inner": {"x": 1}, "y": 1, "ts": NOON}
    (rejected,) = folder.read(SMALL, "a.json", "\n".join([json.dumps(row)] * 2)).rejected
    assert rejected.reason.startswith('no column "x"')


def test_a_member_that_only_some_objects_have(folder: Folder) -> None:
    stream = stream_of("ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, speed DOUBLE")
    row = {"ObjectID": 1, "x": 1, "y": 1, "ts": NOON}
    content = "\n".join(json.dumps(one) for one in (row, row | {"speed": 5}, row | {"SPEED": 6}))
    for lines in (2, 3):  # of one spelling, of two
        routed = folder.read(stream, "a.json", "\n".join(content.splitlines()[:lines]) + "\n")
        assert [found[4] for found in rows_of(routed)] == [None, 5.0, 6.0][:lines]


def test_spaces_around_the_names_of_columns(folder: Folder) -> None:
    routed = folder.read(SMALL, "a.csv", f' objectid , X," Y ",ts\n1, 2, 3,{NOON}\n')
    assert rows_of(routed) == [(1, 2.0, 3.0, MOMENT, MOMENT, False)]


def written(table: pa.Table, name: str) -> bytes:
    """A table as the content of a file of that name: csv, lines of JSON, an array, Parquet."""
    if name.endswith("parquet"):
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink)
        return bytes(sink.getvalue().to_pybytes())
    rows = table.to_pylist()
    if name.endswith("csv"):
        names = table.column_names
        body = [",".join("" if row[n] is None else str(row[n]) for n in names) for row in rows]
        return "\n".join([",".join(f'"{n}"' for n in names), *body]).encode()
    texts = [json.dumps(row, default=str) for row in rows]
    return ("[" + ",".join(texts) + "]" if name == "b.json" else "\n".join(texts)).encode()


@pytest.mark.parametrize("name", ["a.csv", "a.json", "b.json", "a.parquet"])
def test_columns_by_other_names_and_in_any_order(folder: Folder, name: str) -> None:
    stream = stream_of(
        "ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP",
        source="columns = 'objectid = mmsi, x = LON, y=\"the lat\"'",
    )
    table = pa.table(
        {
            "the lat": [2.0, 4.0],
            "x": ["not", "this"],
            "TS": [NOON, NOON],
            "Lon": [1.0, 3.0],
            "MMSI": [7, 8],
            "op": [None, "disappear"],
        }
    )
    routed = folder.read(stream, name, written(table, name))
    assert not routed.rejected
    assert rows_of(routed) == [
        (7, 1.0, 2.0, MOMENT, MOMENT, False),
        (8, None, None, None, MOMENT, True),
    ]
    without = table.drop_columns("Lon")
    (rejected,) = folder.read(stream, name, written(without, name)).rejected
    assert rejected.reason == 'no column "LON" for "x"'


def test_of_an_object_that_disappears_only_key_and_time_count() -> None:
    table = pa.table(
        {
            "ObjectID": ["1", "2", None, "x", "5", "6"],
            "x": ["oops", "nan", None, None, None, "1"],
            "y": [None, None, None, None, None, "inf"],
            "ts": [NOON, "soon", NOON, NOON, None, NOON],
            "op": ["disappear"] * 5 + ["reading"],
        }
    )
    routed = check_table(SMALL, table, "t")
    assert rows_of(routed) == [(1, None, None, None, MOMENT, True)]
    assert [(row.line, row.reason) for row in routed.rejected] == [
        (2, "column \"ts\": 'soon' is not a TIMESTAMP"),
        (3, 'column "ObjectID": the key is missing'),
        (4, "column \"ObjectID\": 'x' is not a BIGINT"),
        (5, 'column "ts": the time is missing'),
        (6, 'column "y": the position is infinite'),
    ]


def test_an_op_of_the_stream_is_not_an_operation() -> None:
    columns = "ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, op STRING"
    table = table_of(1).append_column("op", pa.array(["vanish"]))
    assert rows_of(check_table(stream_of(columns), table, "t"))[0][4:] == ("vanish", MOMENT, False)
    mapped = stream_of(columns.replace("op", "what"), source="columns = 'what = op'")
    assert rows_of(check_table(mapped, table, "t"))[0][4:] == ("vanish", MOMENT, False)


def test_two_columns_of_one_source_column(folder: Folder) -> None:
    stream = stream_of(
        "id BIGINT KEY, x DOUBLE, y DOUBLE, name STRING", source="columns = 'name = id, y = x'"
    )
    routed = folder.read(stream, "a.csv", "id,x\n7,1.5\n", arrival=5)
    assert rows_of(routed) == [(7, 1.5, 1.5, "7", 5, False)]


# Time


def test_the_time_of_arrival(folder: Folder) -> None:
    timeless = stream_of("ObjectID BIGINT KEY, x DOUBLE, y DOUBLE")
    for name in ("a.csv", "a.json", "b.json", "a.parquet"):
        content = written(table_of(2).drop_columns("ts"), name)
        for stream, own in ((timeless, ()), (SMALL, (9,))):
            routed = folder.read(stream, name, content, arrival=9)
            assert not routed.rejected
            assert rows_of(routed) == [(i, i / 8, 0.5, *own, 9, False) for i in range(2)]
        with pytest.raises(InternalError):
            folder.read(timeless, name, content)
        assert "no column" in reasons(folder.read(SMALL, name, content))[0]
        timed = folder.read(SMALL, name, written(table_of(2), name), arrival=9)
        assert [row[-2] for row in rows_of(timed)] == [MOMENT, MOMENT + 1]


def test_the_time_of_one_message_does_not_depend_on_others() -> None:
    without = '{"ObjectID": 1, "x": 1, "y": 1}'
    null = '{"ObjectID": 2, "x": 1, "y": 1, "ts": null}'
    timed = '{"ObjectID": 3, "x": 1, "y": 1, "TS": "2026-01-31 12:00:00"}'
    routed = check_json(SMALL, pa.array([without, null, timed]), "k", arrival=9)
    assert [row[-2] for row in rows_of(routed)] == [9, MOMENT]
    assert told(routed) == [(2, 'column "ts": the time is missing', null)]
    each = [check_json(SMALL, pa.array([text]), "k", arrival=9) for text in (without, null, timed)]
    assert [rows_of(one) for one in each] == [rows_of(routed)[:1], [], rows_of(routed)[1:]]


def test_messages_that_arrived_each_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "TOGETHER", 4)
    timeless = stream_of("ObjectID BIGINT KEY, x DOUBLE, y DOUBLE")
    good = '{"ObjectID": 1, "x": 1, "y": 1}'
    texts = pa.array([good, good, "oops", good, good, good, good, good, "{}", good])
    times = pa.array(range(100, 110), pa.int64())
    for stream in (timeless, SMALL):
        routed = check_json(stream, texts, "k", arrival=times)
        assert [row[-2] for row in rows_of(routed)] == [100, 101, 103, 104, 105, 106, 107, 109]
        assert [row.line for row in routed.rejected] == [3, 9]
    table = pa.table({"ObjectID": [1, None, 3], "x": [1.0] * 3, "y": [2.0] * 3})
    assert [row[-2] for row in rows_of(check_table(timeless, table, "t", arrival=times[:3]))] == [
        100,
        102,
    ]


SECONDS = MOMENT // 1_000_000


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (None, NOON, MOMENT),
        (None, f"{NOON}Z", MOMENT),
        (None, "2026-01-31T14:00:00+02:00", MOMENT),
        (None, MOMENT, MOMENT),
        (None, float(MOMENT), MOMENT),
        (None, MOMENT + 0.5, None),
        (None, str(MOMENT), MOMENT),
        (None, SECONDS, MOMENT),
        (None, SECONDS + 0.25, MOMENT + 250_000),
        (None, f"{SECONDS}.25", MOMENT + 250_000),
        (None, f"+{SECONDS}", MOMENT),
        (None, -SECONDS, -MOMENT),
        (None, SECONDS * 1000 + 7, MOMENT + 7000),
        (None, MOMENT * 1000 + 999, MOMENT),
        (None, str(MOMENT * 1000 + 999), MOMENT),
        (None, float(MOMENT * 1000), MOMENT),
        (None, 0, None),
        (None, 10**8 - 1, None),
        (None, str(10**8), 10**14),
        (None, "20260131", None),
        ("iso", "20260131", parse_timestamp("2026-01-31")),
        ("iso", NOON, MOMENT),
        ("iso", MOMENT, None),
        ("iso", str(MOMENT), None),
        ("seconds", SECONDS, MOMENT),
        ("seconds", SECONDS + 0.25, MOMENT + 250_000),
        ("seconds", str(SECONDS), MOMENT),
        ("seconds", f"{SECONDS}.123456", MOMENT + 123_456),
        ("seconds", f"{SECONDS}.1234567", MOMENT + 123_457),
        ("seconds", SECONDS + 0.7890625, MOMENT + 789_062),
        ("seconds", f"+{SECONDS}", MOMENT),
        ("seconds", NOON, None),
        ("seconds", "nan", None),
        ("seconds", True, None),
        ("seconds", 10**30, None),
        ("seconds", MOMENT, None),
        ("milliseconds", SECONDS * 1000 + 7, MOMENT + 7000),
        ("milliseconds", f"{SECONDS * 1000 + 7}", MOMENT + 7000),
        ("milliseconds", f"{SECONDS * 1000}.5", MOMENT + 500),
        ("microseconds", MOMENT, MOMENT),
        ("microseconds", str(MOMENT), MOMENT),
        ("microseconds", f"{MOMENT}.5", None),
        ("microseconds", "0x1F", None),
        ("nanoseconds", MOMENT * 1000 + 999, MOMENT),
        ("nanoseconds", str(MOMENT * 1000 + 999), MOMENT),
        ("nanoseconds", -1, -1),
        ("nanoseconds", 0.5, None),
    ],
)
def test_forms_of_timestamps(folder: Folder, form: str | None, value: Any, expected: int) -> None:
    option = f"timestamps = '{form}'" if form else "format = 'csv'"
    columns = "ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP"
    stream = stream_of(columns, source=option)
    wanted = [] if expected is None else [expected]
    row = {"ObjectID": 1, "x": 1, "y": 1, "ts": value}
    for companion in ([], [{**row, "ObjectID": 2, "ts": None}]):  # which is rejected
        rows = [row, *companion]
        routed = [check_json(stream, pa.array([json.dumps(r) for r in rows]), "k")]
        if not isinstance(value, int) or abs(value) < 2**63:
            routed.append(check_table(stream, pa.Table.from_pylist(rows), "t"))
        if isinstance(value, str):
            content = f"{HEADER}\n1,1,1,{value}\n" + "2,1,1,\n" * len(companion)
            routed.append(folder.read(stream, "a.csv", content))
        for one in routed:
            assert [found[-2] for found in rows_of(one)] == wanted
            assert len(one.rejected) == (expected is None) + len(companion)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([MOMENT], pa.timestamp("us")),
        pa.array([MOMENT], pa.timestamp("us", "Europe/Berlin")),
        pa.array([MOMENT // 1000], pa.timestamp("ms")),
        pa.array([SECONDS], pa.timestamp("s", "UTC")),
        pa.array([MOMENT * 1000 + 999], pa.timestamp("ns")),
    ],
)
def test_timestamps_of_arrow_are_taken_as_they_are(array: pa.Array) -> None:
    stream = stream_of(
        "ObjectID BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP", source="timestamps = 'seconds'"
    )
    table = table_of(1).set_column(3, "ts", array)
    assert rows_of(check_table(stream, table, "t"))[0][3] == MOMENT


def test_dates_and_times_beyond_all_calendars() -> None:
    days = MOMENT // 86_400_000_000
    for kind, values in [
        (pa.date32(), [days, None, 2**31 - 1]),
        (pa.date64(), [days * 86_400_000, None, 2**62 // 86_400_000 * 86_400_000]),
        (pa.timestamp("s"), [days * 86_400, None, 2**62]),
        (pa.timestamp("ns", "UTC"), [days * 86_400 * 10**9, None, -(2**62)]),
    ]:
        table = table_of(3).set_column(3, "ts", pa.array(values, kind))
        routed = check_table(SMALL, table, "t")
        assert [row[-2] for row in rows_of(routed)] == [parse_timestamp("2026-01-31")]
        assert [row.line for row in routed.rejected] == [2, 3]


def test_only_the_time_of_a_reading_must_be_of_our_age() -> None:
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, until TIMESTAMP")
    table = pa.table({"id": [1], "x": [1.0], "y": [1.0], "ts": [NOON], "until": ["9999-12-31"]})
    assert rows_of(check_table(stream, table, "t"))[0][4] == parse_timestamp("9999-12-31")


# Parquet, and arrays of other types


def test_a_parquet_file_reads_only_what_it_needs(folder: Folder) -> None:
    table = table_of(5).append_column("extra", pa.array([[1]] * 5))
    table = table.set_column(1, "X", pa.array([0.5, math.nan, None, math.inf, -0.0]))
    routed = folder.read(SMALL, "a.parquet", written(table, "a.parquet"))
    assert repr([row[1] for row in rows_of(routed)]) == "[0.5, 0.0]"
    assert [(row.line, row.reason) for row in routed.rejected] == [
        (2, 'column "x": the position is NaN'),
        (3, 'column "x": the position is missing'),
        (4, 'column "x": the position is infinite'),
    ]
    assert json.loads(routed.rejected[1].text)["ObjectID"] == 2
    assert "extra" not in routed.rejected[1].text


def test_arrays_of_other_types() -> None:
    names = pa.array([b"a", b"\xe9", "é".encode(), None])
    decimals = pa.array([1, 2, 3, 4]).cast(pa.decimal128(25, 2))
    stream = stream_of("id BIGINT KEY, x DOUBLE, y DOUBLE, name STRING, since TIMESTAMP")
    table = pa.table({"id": decimals, "x": decimals, "y": [1, 2, 3, 4], "name": names})
    table = table.append_column("since", pa.array([NOON] * 4).dictionary_encode())
    routed = check_table(stream, table, "t")
    assert [row[:4] for row in rows_of(routed)] == [
        (1, 1.0, 1.0, "a"),
        (3, 3.0, 3.0, "é"),
        (4, 4.0, 4.0, None),
    ]
    assert reasons(routed) == ['column "name": invalid UTF-8']
    nested = table.set_column(1, "x", pa.array([[1], None] * 2, pa.list_(pa.int64())))
    assert reasons(check_table(stream, nested, "t")) == [
        'column "x": [1] is not a DOUBLE',
        'column "name": invalid UTF-8',
        'column "x": [1] is not a DOUBLE',
        'column "x": the position is missing',
    ]
    broken = pa.Array.from_buffers(pa.string(), 4, [None, *names.fill_null(b"").buffers()[1:]])
    assert reasons(check_table(stream, table.set_column(3, "name", broken), "t")) == [
        'column "name": invalid UTF-8'
    ]


def test_the_text_of_a_row_may_come_from_elsewhere() -> None:
    table = table_of(3).set_column(1, "x", pa.array(["1", "b", "c"]))
    routed = check_table(SMALL, table, "t", text_of=lambda row: (row + 10, f"row {row}"))
    assert [(line, text) for line, _, text in told(routed)] == [(11, "row 1"), (12, "row 2")]


def test_a_large_array_of_json(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    good = '{"ObjectID": 1, "x": 1, "y": 1, "ts": "2026-01-31"}'
    broken = f'[{good},\n\n {good}, 5,\n {{"ObjectID": 2,}}, {good}]'
    routed = folder.read(SMALL, "a.json", broken)
    assert len(rows_of(routed)) == 2
    assert [(row.line, row.reason.partition(" (")[0]) for row in routed.rejected] == [
        (3, "a JSON number, not an object"),
        (4, "not JSON: Expecting property name enclosed in double quotes"),
    ]
    assert reasons(folder.read(SMALL, "a.json", f"[{good}] x")) == [
        "text after the end of the array"
    ]
    assert len(rows_of(folder.read(SMALL, "a.json", f"[{good}, {good}"))) == 2
    lines = folder.read(SMALL, "a.json", f"[1, 2]\n{good}")  # no array, but a line with one
    assert told(lines) == [(1, "a JSON array, not an object", "[1, 2]")]
    assert len(rows_of(lines)) == 1
    packed = gzip.compress(f"[{good}, {good}]".encode())
    assert "cut off" in reasons(folder.read(SMALL, "a.json.gz", packed[:-12]))[-1]
    monkeypatch.setattr(json_array, "LARGEST_ARRAY", 10)
    assert "an array of more than" in reasons(folder.read(SMALL, "a.json", f"[{good}]"))[0]


# The statement and the quarantine


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("columns = 'x'", r"option \"columns\": 'x' is not a list of names \(line 1, column"),
        ("columns = 'x = '", "is not a list of names"),
        ("columns = 'x = lon,'", "is not a list of names"),
        ("columns = 'x = lon, X = lat'", 'column "X" is there twice'),
        ("columns = 'z = lon'", r"the stream has no column \"z\" \(line 1, column \d+\); columns"),
        ("columns = 5", "is not a text"),
        ("timestamps = 'second'", "'second' does not exist .*did you mean \"seconds\""),
        ("timestamps = 5", "is not a text"),
    ],
)
def test_options_that_are_wrong(option: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        stream_of(source=option)


def test_options_that_are_right() -> None:
    assert parse_columns('"a" = "b=c, d", e=f g ') == {"a": "b=c, d", "e": "f g"}
    for form in ("iso", "seconds", "milliseconds", "microseconds"):
        assert stream_of(source=f"timestamps = '{form}'").source is not None


def test_the_quarantine_is_lines_of_json() -> None:
    rows = [Rejected("a.csv", 2, "é", "x\ny"), Rejected("b\udce9", None, "r", "\ud800")]
    packed = [json.loads(line) for line in pack("S", 3, rows).splitlines()]
    assert packed[0] == {
        "stream": "S",
        "tick": 3,
        "source": "a.csv",
        "line": 2,
        "reason": "é",
        "text": "x\ny",
    }
    assert packed[1]["line"] is None
    assert pack("S", 3, []) == b""
