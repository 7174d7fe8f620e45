"""Route agrees with the model: whatever comes, each row is read as if it came alone."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from place.errors import PlaceError
from place.model.reading import Reading
from place.model.schema import Stream
from place.model.segment import make_segment
from place.model.types import Type
from place.runtime.intake import check, csv_file, lines
from place.runtime.intake.check import Routed, check_table
from place.runtime.intake.files import check_json
from place.runtime.intake.judge import FIRST_TIME, LAST_TIME
from place.runtime.intake.values import settle
from tests.harness.examples import examples
from tests.harness.route import (
    EARTH,
    MOMENT,
    NOON,
    Folder,
    make_disappearance,
    make_reading,
    rows_of,
    smaller_blocks,
    stream_of,
    told,
)

EXAMPLES = examples(24)


FULL = stream_of()


# What a row means, said once more: the model's own functions, row by row


def read_row(
    stream: Stream, values: Sequence[Any], op: Any = None, arrival: int | None = None
) -> Reading | None:
    """The reading of a row, or None for one that is wrong."""
    if op not in ("disappear", "reading", "", None):
        return None
    time = None if stream.time is None else values[stream.time]
    try:
        if op == "disappear":
            moment = arrival if stream.time is None else settle(time, Type.TIMESTAMP)
            if moment is None:
                return None
            reading = make_disappearance(stream, values[stream.key], int(moment))
        else:
            reading = make_reading(stream, values, arrival)
    except PlaceError:
        return None
    is_arrival = stream.time is None
    return reading if is_arrival or FIRST_TIME <= reading.time <= LAST_TIME else None


def assert_same(
    stream: Stream, routed: Routed, readings: Sequence[Reading | None], numbers: Sequence[int]
) -> None:
    """What was routed is what was read row by row; `numbers` are the rows' lines."""
    good = [reading for reading in readings if reading is not None]
    expected = make_segment(stream, good)
    assert repr(rows_of(routed)) == repr(rows_of(Routed(expected, [])))
    bad = [n for n, reading in zip(numbers, readings, strict=True) if reading is None]
    assert [row.line for row in routed.rejected] == bad
    assert all(row.reason for row in routed.rejected)


GARBAGE = """\
fast|1_000|0x1F|0X1f|x|+5|-5|007| 7 |7 |\t7|5.0|5.|.5|1e3|1E+2|1e999|-1e999|nan|NaN|-nan
inf|-Infinity|infinity|99999999999999999999|-9223372036854775808|9223372036854775807
9223372036854775808|-0|-0.0|0|1|0.1|123456789.123456789|1e-400|１２|٣|t|T|f|TRUE|False|yes
 true |1.0|2026-01-31|2026-01-31 12:00|2026-01-31T12:00:00Z
2026-01-31T12:00:00.123456+02:00|20260131|2026-01-31 12:00:00.1234567|2026-02-30
2024-02-29|2023-02-29|2026-13-01|2026-01-31 24:00:00|1899-12-31|0000-01-01
9999-12-31 23:59:59.999999|2201-01-01|2200-12-31 23:59:59|1900-01-01|2026-01-31T12
20260131T120000| 2026-01-31 |2026-W05-6|1767225600|1767225600.5|2026-01-31 12:00:00+0530
1767225600000|1767225600000000|1767225600000000999|-1767225600|1767225600e3|99999999|100000000
99999999999|100000000000|99999999999999999|100000000000000000|8999999999999999999
12:00|0001-01-01 00:00:00+05:00|null|None|NULL|é|Ünïcode|a b|disappear|reading|vanish|91
-91|181|-180|90"""
TEXTS = [text for line in GARBAGE.splitlines() for text in line.split("|")]

texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
good_times = st.sampled_from([NOON, "2026-01-31T12:00:01", "2026-01-31 12:00:02.5"])


def mostly(good: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(good, good, good, other)


search = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# Tables of any types


LIMITS = [10**8 - 1, 10**8, 1 - 10**11, 10**11, 10**14 - 1, 10**14, 1 - 10**17, 10**17]
COUNTS = [MOMENT // 10**6, MOMENT // 1000, MOMENT, MOMENT * 1000 + 999]
SOME = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), *LIMITS, *COUNTS]
numbers = st.sampled_from(SOME) | st.integers(-(2**63), 2**63 - 1)
floats = st.floats() | st.sampled_from(
    [-0.0, 2.0, math.nan, math.inf, 1e18, 1e19, *map(float, COUNTS)]
)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), texts),
    (pa.large_string(), texts),
    (pa.string_view(), texts),
    (pa.dictionary(pa.int32(), pa.string()), texts),
    (pa.int64(), numbers),
    (pa.int16(), st.integers(-200, 200)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), floats),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.null(), st.none()),
]
GOOD_KINDS: dict[Type, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    Type.BIGINT: (pa.int64(), st.integers(0, 9)),
    Type.DOUBLE: (pa.float64(), st.floats(-90, 90)),
    Type.STRING: (pa.string(), st.sampled_from(["Car", ""])),
    Type.BOOLEAN: (pa.bool_(), st.booleans()),
    Type.TIMESTAMP: (pa.int64(), st.integers(MOMENT, MOMENT + 9)),
}


@st.composite
def tables(draw: st.DrawFn, stream: Stream) -> pa.Table:
    rows = draw(st.integers(0, 12))
    names, arrays = [], []
    for column in stream.columns:
        kind, values = draw(mostly(st.just(GOOD_KINDS[column.type]), st.sampled_from(KINDS)))
        drawn = draw(st.lists(mostly(values, st.none()), min_size=rows, max_size=rows))
        names.append(draw(st.sampled_from([column.name, column.name.upper()])))
        arrays.append(pa.array(drawn, kind))
    if draw(st.booleans()):
        ops = mostly(st.sampled_from(["disappear", "reading", "", None]), texts)
        names.append("OP")
        arrays.append(pa.array(draw(st.lists(ops, min_size=rows, max_size=rows)), pa.string()))
    order = draw(st.permutations(range(len(names))))
    return pa.table([arrays[i] for i in order], names=[names[i] for i in order])


@search
@given(data=st.data(), stream=st.sampled_from([FULL, EARTH]))
def test_a_table_is_read_as_its_rows_would_be(data: st.DataObject, stream: Stream) -> None:
    table = data.draw(tables(stream))
    columns = {name.casefold(): table[name].to_pylist() for name in table.column_names}
    ops = columns.get("op", [None] * table.num_rows)
    named = [columns[column.name.casefold()] for column in stream.columns]
    values = list(zip(*named, strict=True))
    readings = [read_row(stream, row, op) for row, op in zip(values, ops, strict=True)]
    routed = check_table(stream, table, "t")
    assert_same(stream, routed, readings, range(1, table.num_rows + 1))
    cut = table.slice(0, 5).to_batches() + table.slice(5).to_batches()
    assert check_table(stream, pa.Table.from_batches(cut, table.schema), "t") == routed


# Lines of csv


@dataclass(frozen=True)
class Field:
    """A field as it stands in the file, and as it is meant."""

    written: str
    text: str | None


def field_of(text: str, quoted: bool) -> Field:
    if quoted or any(mark in text for mark in ',"\n\r') or not text.strip():
        return Field('"' + text.replace('"', '""') + '"', text)
    return Field(text, text)


@st.composite
def csv_rows(draw: st.DrawFn, stream: Stream) -> list[list[Field]]:
    good = {
        Type.BIGINT: st.integers(-5, 5).map(str),
        Type.DOUBLE: st.floats(-90, 90).map(repr),
        Type.STRING: st.sampled_from(["Car", 'the "big" one', "a,b", "é"]),
        Type.BOOLEAN: st.sampled_from(["true", "f", "1", "True"]),
        Type.TIMESTAMP: good_times,
    }
    odd = draw(st.booleans())  # without a single odd row, the quick way is taken
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row = []
        for column in stream.columns:
            values = mostly(good[column.type], texts) if odd else good[column.type]
            text = draw(values.filter(lambda text: "\n" not in text and "\r" not in text))
            field = field_of(text, draw(st.booleans()) and draw(st.booleans()))
            row.append(Field("", None) if odd and draw(st.integers(0, 19)) == 0 else field)
        rows.append(row)
    return rows


@search
@given(
    data=st.data(), stream=st.sampled_from([FULL, EARTH]), block=st.sampled_from([1, 2, 7, 50, 300])
)
def test_a_csv_file_is_read_as_its_rows_would_be(
    folder: Folder, data: st.DataObject, stream: Stream, block: int
) -> None:
    rows = data.draw(csv_rows(stream))
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    written = [",".join(column.name for column in stream.columns)]
    written += [",".join(field.written for field in row) for row in rows]
    content = end.join(written) + data.draw(st.sampled_from(["", end]))
    readings = []
    for row in rows:
        values = [
            None if field.text == "" and column.type is not Type.STRING else field.text
            for field, column in zip(row, stream.columns, strict=True)
        ]
        readings.append(read_row(stream, values))
    routed = folder.read(stream, "a.csv", content)
    assert_same(stream, routed, readings, range(2, len(rows) + 2))
    assert [row.text for row in routed.rejected] == [
        written[number][: check.LONGEST_TEXT]
        for number, reading in enumerate(readings, start=1)
        if reading is None
    ]
    with smaller_blocks(block):
        assert folder.read(stream, "a.csv", content) == routed


def fields_of(row: str) -> list[str | None] | None:
    """The fields of a line, told apart letter by letter; None where a quote is not closed."""
    fields: list[str | None] = []
    text, state, quoted = "", "start", False
    for letter in row + ",":
        if state == "quoted":
            text, state = (text, "closing") if letter == '"' else (text + letter, state)
        elif state == "closing" and letter == '"':
            text, state = text + letter, "quoted"
        elif letter == ",":
            fields.append(text if text or quoted else None)
            text, state, quoted = "", "start", False
        elif state == "start" and letter == '"':
            state, quoted = "quoted", True
        else:
            text, state = text + letter, "field"
    return fields if state == "start" else None


pieces = st.sampled_from(
    ['a"b', '"a,b"', '"', '""', '"1"', '"a""b"', '"1"2', '1"', "", " ", ",", '""a']
)
fields = mostly(st.sampled_from(["1", "2"]), pieces)


@search
@given(rows=st.lists(st.lists(fields, max_size=4).map(",".join), min_size=1, max_size=5))
def test_quotes_that_go_wrong_cost_only_their_own_line(folder: Folder, rows: list[str]) -> None:
    stream = stream_of("id STRING KEY, x DOUBLE, y DOUBLE, name STRING")
    readings: list[Reading | None] = []
    numbers = []
    for number, row in enumerate(rows, start=2):
        if not row.strip():
            continue
        numbers.append(number)
        match fields_of(row):
            case [key, x, y, name]:
                readings.append(read_row(stream, [key, x or None, y or None, name], arrival=0))
            case _:
                readings.append(None)
    content = "\n".join(["id,x,y,name", *rows])
    assert_same(stream, folder.read(stream, "a.csv", content, arrival=0), readings, numbers)


# Objects of JSON


json_values = st.one_of(
    texts,
    numbers,
    st.integers(-(2**80), 2**80),
    floats,
    st.booleans(),
    st.none(),
    st.just([1]),
    st.just({"a": 1}),
)
GOOD_JSON: dict[Type, st.SearchStrategy[Any]] = {
    **{kind: values for kind, (_, values) in GOOD_KINDS.items()},
    Type.TIMESTAMP: good_times,
}


@st.composite
def objects(draw: st.DrawFn, stream: Stream) -> list[dict[str, Any]]:
    odd = draw(st.booleans())
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row: dict[str, Any] = {}
        for column in stream.columns:
            good = GOOD_JSON[column.type]
            name = column.name.swapcase() if odd and draw(st.integers(0, 9)) == 0 else column.name
            if not odd or draw(st.integers(0, 19)):
                row[name] = draw(mostly(good, json_values) if odd else good)
        if draw(st.booleans()):
            row["op"] = draw(st.sampled_from([None, "", "reading", "disappear"]))
        if draw(st.booleans()):
            row["extra"] = draw(json_values)
        rows.append(row)
    return rows


@search
@given(
    data=st.data(), stream=st.sampled_from([FULL, EARTH]), block=st.sampled_from([1, 2, 7, 50, 300])
)
def test_json_is_read_as_its_objects_would_be(
    folder: Folder, data: st.DataObject, stream: Stream, block: int
) -> None:
    rows = data.draw(objects(stream))
    written = [json.dumps(row, ensure_ascii=data.draw(st.booleans())) for row in rows]
    readings = []
    for row in rows:
        members = {name.casefold(): value for name, value in row.items()}
        values = [members.get(column.name.casefold()) for column in stream.columns]
        readings.append(read_row(stream, values, row.get("op")))
    routed = check_json(stream, pa.array(written, pa.string()), "k")
    assert_same(stream, routed, readings, range(1, len(rows) + 1))
    pieces = pa.chunked_array([pa.array([text.encode()]) for text in written], pa.binary())
    assert check_json(stream, pieces, "k") == routed

    names = {name.casefold() for row in rows for name in row}
    if not rows or {column.name.casefold() for column in stream.columns} <= names:
        for name, content in [
            ("a.json", "\n".join(written)),
            ("b.json", "[" + ",\n".join(written) + "]\n"),
        ]:
            file = folder.read(stream, name, content)
            assert rows_of(file) == rows_of(routed)
            assert told(file) == told(routed)
        with smaller_blocks(block):
            assert folder.read(stream, "a.json", "\n".join(written)).segment == file.segment


# One odd value alone: the quick way must not take it for what it is not


GOOD_VALUES: dict[str, Any] = {
    "ObjectID": 1,
    "x": 0.5,
    "y": 0.25,
    "ts": NOON,
    "type": "Car",
    "speed": 1.5,
    "open": True,
}


@pytest.mark.parametrize("name", GOOD_VALUES)
def test_one_odd_text_in_csv(folder: Folder, name: str) -> None:
    for text in [*TEXTS, '"', 'a"b', "a,b", "nan(1)", ""]:
        given = GOOD_VALUES | {name: text}
        row = ",".join(field_of(str(value), quoted=False).written for value in given.values())
        values = [None if v == "" and n != "type" else str(v) for n, v in given.items()]
        routed = folder.read(FULL, "a.csv", ",".join(GOOD_VALUES) + "\n" + row)
        assert_same(FULL, routed, [read_row(FULL, values)], [2])


@pytest.mark.parametrize("name", GOOD_VALUES)
def test_one_odd_value_in_json(name: str) -> None:
    odd = [*TEXTS, 5, 2.0, 2.5, -0.0, 2**63, 2**64, 10**400, True, None, [1], {"a": 1}, MOMENT]
    for value in [*odd, math.nan, math.inf, -math.inf, float(MOMENT), "\ud800"]:
        row = GOOD_VALUES | {name: value}
        routed = check_json(FULL, pa.array([json.dumps(row)]), "k")
        reading = None if value == "\ud800" else read_row(FULL, list(row.values()))
        assert_same(FULL, routed, [reading], [1])


# What the quick way lets pass, the thorough way lets pass too


ODD_LINES = [
    ['c,1,2,"x', 'd,1,2,y"'],
    ['c,1,2,"x'],
    ["c,1,2,x,\xe9"],
    ["c,1,2,x,\x00"],
    ["", "  ", "c,1,2,x,"],
]


@pytest.mark.parametrize("odd", ODD_LINES)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("together", [csv_file._PARSED_TOGETHER, 20, 18])
def test_both_ways_agree_on_csv(
    folder: Folder, odd: list[str], last: bool, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "_PARSED_TOGETHER", together)  # a block in pieces
    stream = stream_of("id STRING KEY, x DOUBLE, y DOUBLE, name STRING")
    extra = "," if odd[-1].count(",") == 4 else ""
    rows = [f"a,1,2,n{extra}", *odd, *([] if last else [f"b,1,2,n{extra}"])]
    header = f"id,x,y,name{extra and ',more'}"
    quick = folder.read(stream, "a.csv", "\n".join([header, *rows]).encode("latin-1"), arrival=0)
    forced = "\n".join([header, "broken", *rows]).encode("latin-1")
    thorough = folder.read(stream, "a.csv", forced, arrival=0)
    assert rows_of(quick) == rows_of(thorough)
    assert [(line + 1, *rest) for line, *rest in told(quick) if line] == told(thorough)[1:]


THIS = '"ObjectID": 2, "x": 1, "y": 1, "type": "a", "speed": 1, "open": true'
ODD_OBJECTS = [
    [f'{{{THIS}, "ts": "{NOON}"}}{{{THIS}, "ts": "{NOON}"}}'],
    [f"{{{THIS},", f'"ts": "{NOON}"}}'],
    [f'{{{THIS}, "ts": "{NOON}"}}' * 2, f"{{{THIS},", f'"ts": "{NOON}"}}'],
    [f'{{{THIS}, "ts": "{NOON}", "more": {"[" * 5000}{"]" * 5000}}}'],
    [f'{{{THIS}, "ts": "{NOON}", "more": "\xe9"}}'],
    [f'{{{THIS}, "ts": "{NOON}", "more": "{"z" * lines.LONGEST}"}}'],
    [f'{{{THIS}, "ts": "{NOON}"}}'.replace('"speed": 1', '"speed": -NaN')],
    [f'{{{THIS}, "ts": "{NOON}"}}'.replace('"speed": 1', '"speed": Inf')],
    [f'{{{THIS}, "TS": "{NOON}"}}'],
    [f'{{{THIS}, "ts": "{NOON}"}}'.replace("speed", "SPEED")],
    [f'{{{THIS}, "ts": null}}'],
    [f"{{{THIS}}}"],
    [f'{{{THIS}, "ts": "{NOON}", "open": false}}'],
]


@pytest.mark.parametrize("odd", ODD_OBJECTS)
@pytest.mark.parametrize("arrival", [None, 9])
def test_both_ways_agree_on_json(folder: Folder, odd: list[str], arrival: int | None) -> None:
    rows = [json.dumps(GOOD_VALUES), *odd, json.dumps(GOOD_VALUES)]
    quick = folder.read(FULL, "a.json", ("\n".join(rows) + "\n").encode("latin-1"), arrival=arrival)
    forced = "\n".join(["broken", *rows]).encode("latin-1")
    thorough = folder.read(FULL, "a.json", forced, arrival=arrival)
    assert rows_of(quick) == rows_of(thorough)
    assert [(line + 1, *rest) for line, *rest in told(quick) if line] == told(thorough)[1:]
    messages = pa.array([row.encode("latin-1") for row in rows])
    assert rows_of(check_json(FULL, messages, "k", arrival=arrival)) == rows_of(quick)
