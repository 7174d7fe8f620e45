"""The doors of a session: whatever form a reading comes in, it is the same, or refused alike."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import place
from place.engine.slices import Segment
from place.errors import ReadingError
from place.model.reading import Advance, Input, Reading
from place.model.segment import read_segment
from place.model.time import parse_timestamp
from place.model.types import Type
from place.runtime.intake.pushed import MOMENT_EXPECTED
from place.runtime.intake.values import EXPECTED
from place.session import Session

NOON = parse_timestamp("2026-01-31 12:00:00")
DAY = parse_timestamp("2026-01-31")
HALF = NOON + 500_000
PLUS_TWO = timezone(timedelta(hours=2))
BERLIN = ZoneInfo("Europe/Berlin")

COLUMNS = {"n": "BIGINT", "d": "DOUBLE", "s": "STRING", "b": "BOOLEAN", "t": "TIMESTAMP"}
OTHERS: dict[str, Any] = {"id": [7, 8], "x": [1.5, 2.5], "y": [2, 3]}


class Listening(Session):
    """A session that keeps what it is fed, one by one."""

    def feed(self, inputs: Any) -> Any:
        self.fed: list[Input] = []
        for item in inputs:
            is_table = isinstance(item, Segment)
            self.fed += read_segment(self.stream("S"), item.table) if is_table else [item]
        return super().feed(inputs)


def listening(columns: str, options: str = "") -> Listening:
    plain = place.connect()
    assert isinstance(plain, Session)
    session = Listening(plain.runtime, plain.loader)
    session.sql(f"CREATE STREAM S (id BIGINT KEY, x DOUBLE, y DOUBLE, {columns}){options}")
    session.fed = []
    return session


def with_column(name: str) -> Listening:
    """A session whose stream has one column besides; the time of readings is given to `push`."""
    return listening(f"{name} {COLUMNS[name]}, at TIMESTAMP", " WITH (time = 'at')")


def taken(session: Listening, data: Any, time: Any = NOON) -> list[Any]:
    """The rows of the readings that were taken, or the words of the error."""
    session.fed = []
    try:
        session.push("S", data, time=time)
    except ReadingError as error:
        assert session.fed == []
        return [str(error)]
    return [item.row for item in session.fed if isinstance(item, Reading)]


def tuples(name: str, values: list[Any]) -> Any:
    return list(zip(OTHERS["id"], OTHERS["x"], OTHERS["y"], values, strict=True))


def dicts(name: str, values: list[Any]) -> Any:
    rows = tuples(name, values)
    return [dict(zip(["ID", "x", "Y", name.upper()], row, strict=True)) for row in rows]


def arrow(name: str, values: list[Any]) -> Any:
    return pa.table({name: pa.array(values), **OTHERS})


def frame(name: str, values: list[Any]) -> Any:
    return pandas.DataFrame({**OTHERS, name.upper(): values})


def objects(name: str, values: list[Any]) -> Any:
    return pandas.DataFrame({**OTHERS, name: pandas.Series(values, dtype=object)})


def poles(name: str, values: list[Any]) -> Any:
    return polars.DataFrame({**OTHERS, name: polars.Series(values, strict=False)})


ROWS: list[Callable[[str, list[Any]], Any]] = [tuples, dicts]
FORMS = [*ROWS, arrow, frame, objects, poles]

# A value, beside a NULL, of each type, and what it means
VALUES: list[tuple[str, Any, Any]] = [
    ("n", 5, 5),
    ("n", -(2**63), -(2**63)),
    ("n", "5", 5),
    ("n", 5.0, 5),
    ("n", Decimal("5.00"), 5),
    ("d", 5, 5.0),
    ("d", 0.1, 0.1),
    ("d", "1e3", 1000.0),
    ("d", Decimal("0.1"), 0.1),
    ("d", Decimal("1234567.123456789012345678"), 1234567.123456789012345678),
    ("d", float("nan"), None),
    ("s", "Ä", "Ä"),
    ("s", b"text", "text"),
    ("b", True, True),
    ("b", "f", False),
    ("t", NOON, NOON),
    ("t", "2026-01-31 12:00:00", NOON),
    ("t", "2026-01-31T14:00:00+02:00", NOON),
    ("t", datetime(2026, 1, 31, 12), NOON),
    ("t", datetime(2026, 1, 31, 12, tzinfo=UTC), NOON),
    ("t", datetime(2026, 1, 31, 14, tzinfo=PLUS_TWO), NOON),
    ("t", datetime(2026, 1, 31, 13, 0, 0, 500_000, tzinfo=BERLIN), HALF),
    ("t", datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
    ("t", date(2026, 1, 31), DAY),
    ("t", pandas.Timestamp("2026-01-31 12:00:00.5"), HALF),
    ("t", pandas.Timestamp("2026-01-31 13:00", tz="Europe/Berlin"), NOON),
    ("t", pandas.Timestamp("2026-01-31 12:00:00.500000999"), HALF),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "value", "meant"), VALUES)
def test_a_value_means_the_same_in_every_form(
    form: Callable[[str, list[Any]], Any], name: str, value: Any, meant: Any
) -> None:
    if form is poles and isinstance(value, datetime) and value.tzinfo is BERLIN:
        value = value.astimezone(UTC)  # polars wants the zone with the column
    session = with_column(name)
    data = form(name, [value, None])
    assert taken(session, data) == [(7, 1.5, 2.0, meant, NOON), (8, 2.5, 3.0, None, NOON)]
    types = {type(item) for row in taken(session, data) for item in row}
    assert types <= {int, float, str, bool, type(None)}


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("n", np.int64(5), 5),
        ("n", np.uint8(5), 5),
        ("n", np.float32(5), 5),
        ("n", np.str_("5"), 5),
        ("d", np.float32(0.5), 0.5),
        ("d", np.int16(5), 5.0),
        ("d", np.longdouble(0.5), 0.5),
        ("d", np.float64("nan"), None),
        ("d", Decimal("NaN"), None),
        ("s", np.str_("a"), "a"),
        ("s", pandas.NA, None),
        ("b", np.bool_(True), True),
        ("t", np.datetime64("2026-01-31"), DAY),
        ("t", np.datetime64("2026-01-31T12:00", "s"), NOON),
        ("t", np.datetime64("2026-01-31T12:00:00.500000999", "ns"), HALF),
        ("t", np.datetime64("1969-12-31T23:59:59.999999999", "ns"), -1),
        ("t", np.datetime64("NaT"), None),
        ("t", pandas.NaT, None),
        ("t", np.int64(NOON), NOON),
    ],
)
def test_scalars_of_libraries_in_rows(
    form: Callable[[str, list[Any]], Any], name: str, value: Any, meant: Any
) -> None:
    session = with_column(name)
    assert taken(session, form(name, [value, None])) == [
        (7, 1.5, 2.0, meant, NOON),
        (8, 2.5, 3.0, None, NOON),
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("values", "meant"),
    [
        ([date(2026, 1, 31), datetime(2026, 1, 31, 12)], [DAY, NOON]),
        ([datetime(2026, 1, 31, 12), datetime(2026, 1, 31, 14, tzinfo=PLUS_TWO)], [NOON, NOON]),
        (["2026-01-31", NOON], [DAY, NOON]),
    ],
)
def test_types_that_are_mixed(
    form: Callable[[str, list[Any]], Any], values: list[Any], meant: list[int]
) -> None:
    if form in (arrow, poles):
        pytest.skip("columns of one type")
    found = taken(with_column("t"), form("t", values))
    assert [row[3] for row in found] == meant


STAMPS = pa.array([datetime(2026, 1, 31, 12), None])


@pytest.mark.parametrize(
    ("name", "column", "meant"),
    [
        *[("t", STAMPS.cast(pa.timestamp(unit)), NOON) for unit in ("s", "ms", "us", "ns")],
        *[
            ("t", STAMPS.cast(pa.timestamp(unit, "America/New_York")), NOON)
            for unit in ("s", "ms", "us", "ns")
        ],
        ("t", STAMPS.cast(pa.date32()), DAY),
        ("t", STAMPS.cast(pa.date32()).cast(pa.date64()), DAY),
        ("t", STAMPS.dictionary_encode(), NOON),
        ("t", pa.array(["2026-01-31 12:00", None], pa.large_string()), NOON),
        ("s", pa.array(["a", None], pa.large_string()), "a"),
        ("s", pa.array(["a", None], pa.string_view()), "a"),
        ("s", pa.array(["a", None], pa.large_string()).dictionary_encode(), "a"),
        ("n", pa.array([5, None], pa.uint64()), 5),
        ("n", pa.array([5, None], pa.uint8()), 5),
        ("n", pa.array([5, None], pa.int16()).dictionary_encode(), 5),
        ("n", pa.array([5, None], pa.float32()), 5),
        ("n", pa.array([Decimal(2**62), None], pa.decimal128(38, 4)), 2**62),
        ("n", pa.array([Decimal(-5), None], pa.decimal128(9, 0)), -5),
        ("d", pa.array([0.5, None], pa.float32()), 0.5),
        ("d", pa.array([0.5, None], pa.float16()), 0.5),
        ("d", pa.array([2**64 - 1, None], pa.uint64()), 2.0**64),
        ("d", pa.array([Decimal("0.3"), None], pa.decimal128(38, 20)), 0.3),
        ("d", pa.nulls(2), None),
    ],
)
@pytest.mark.parametrize("library", ["arrow", "batch", "chunks", "pandas", "polars"])
def test_types_of_arrow(library: str, name: str, column: pa.Array, meant: Any) -> None:
    session = with_column(name)
    table = pa.table({**OTHERS, name: column})
    data: Any = table
    if library == "batch":
        (data,) = table.to_batches()
    elif library == "chunks":
        data = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    elif library == "pandas":
        if column.type == pa.float16():
            pytest.skip("pandas has none")
        data = table.to_pandas(types_mapper=pandas.ArrowDtype)
    elif library == "polars":
        data = polars.from_arrow(table)
    assert taken(session, data) == [(7, 1.5, 2.0, meant, NOON), (8, 2.5, 3.0, None, NOON)]


def test_decimals_are_read_to_the_last_bit() -> None:
    chance = np.random.default_rng(1)
    numbers = [Decimal(int(n)).scaleb(-9) for n in chance.integers(0, 2**62, 2000)]
    others = {"id": range(2000), "x": [0.0] * 2000, "y": [0.0] * 2000}
    table = pa.table({**others, "d": pa.array(numbers)})
    found = taken(listening("d DOUBLE"), table)
    assert [row[3] for row in found] == [float(number) for number in numbers]


def test_columns_that_arrow_does_not_have() -> None:
    integers = polars.DataFrame({**OTHERS, "n": polars.Series([5, None], dtype=polars.Int128)})
    assert [row[3] for row in taken(with_column("n"), integers)] == [5, None]
    texts = polars.DataFrame({**OTHERS, "s": polars.Series(["a", None], dtype=polars.Object)})
    assert [row[3] for row in taken(with_column("s"), texts)] == ["a", None]
    periods = pandas.DataFrame({**OTHERS, "t": pandas.period_range("2026-01", periods=2, freq="M")})
    (told,) = taken(with_column("t"), periods)
    assert told.startswith("row 1, column \"t\": Period('2026-01', 'M') is not a TIMESTAMP;")


# What is wrong, in the same words

BIGINT = "a BIGINT is a whole number of 64 bits"
STAMP = EXPECTED[Type.TIMESTAMP]
FAR = 400_000_000_000


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "good", "wrong", "words"),
    [
        ("n", "5", "five", f"'five' is not a BIGINT; {BIGINT}"),
        ("n", 5.0, 5.5, f"5.5 is not a BIGINT; {BIGINT}"),
        ("n", 5, 2**63, f"9223372036854775808 is too large for a BIGINT; {BIGINT}"),
        ("n", Decimal("5.0"), Decimal("5.5"), f"5.5 is not a BIGINT; {BIGINT}"),
        ("n", None, True, f"True is not a BIGINT; {BIGINT}"),
        ("n", None, date(2026, 1, 31), f"2026-01-31 is not a BIGINT; {BIGINT}"),
        (
            "d",
            None,
            datetime(2026, 1, 31, 14, tzinfo=PLUS_TWO),
            "2026-01-31 12:00:00 is not a DOUBLE; a DOUBLE is a finite number",
        ),
        ("d", "1", "1e999", "'1e999' is too large for a DOUBLE; a DOUBLE is a finite number"),
        ("d", 1.0, float("inf"), "inf is not a DOUBLE; a DOUBLE is a finite number"),
        ("d", None, timedelta(seconds=5), "00:00:05 is not a DOUBLE; a DOUBLE is a finite number"),
        ("s", None, 5.5, "5.5 is not a STRING; a STRING is a text"),
        ("s", None, b"\xff", "invalid UTF-8; a STRING is a text"),
        ("b", None, 0.5, "0.5 is not a BOOLEAN; a BOOLEAN is true or false"),
        ("t", "2026-01-31", "soon", f"'soon' is not a TIMESTAMP; {STAMP}"),
        (
            "t",
            NOON,
            20_260_131,
            "20260131 is not a TIMESTAMP: so small a number does not tell its unit, and no option"
            f" timestamps does; {STAMP}",
        ),
        ("t", None, True, f"True is not a TIMESTAMP; {STAMP}"),
        ("t", None, timedelta(days=1), f"24:00:00 is not a TIMESTAMP; {STAMP}"),
    ],
)
def test_what_is_wrong_is_told_in_the_same_words(
    form: Callable[[str, list[Any]], Any], name: str, good: Any, wrong: Any, words: str
) -> None:
    session = with_column(name)
    if form in (arrow, poles) and wrong == 2**63:
        data: Any = pa.table({**OTHERS, name: pa.array([good, wrong], pa.uint64())})
        data = polars.from_arrow(data) if form is poles else data
    else:
        data = form(name, [good, wrong])
    assert taken(session, data) == [f'row 2, column "{name}": {words}']


@pytest.mark.parametrize(
    "data",
    [
        tuples("t", [None, np.datetime64(FAR, "s")]),
        dicts("t", [None, np.datetime64(FAR, "s")]),
        arrow("t", pa.array([None, FAR], pa.timestamp("s"))),
        polars.from_arrow(arrow("t", pa.array([None, FAR * 1000], pa.timestamp("ms")))),
    ],
)
def test_instants_that_cannot_be_written_down(data: Any) -> None:
    words = f'row 2, column "t": 14645-06-30 15:06:40 is not a TIMESTAMP; {STAMP}'
    assert taken(with_column("t"), data) == [words]


POSITION = "a reading needs a position: x and y are numbers, not NULL or NaN"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, 1.0, 2.0), 'column "id": the key is missing; a reading with no key is of no'),
        ((1, None, 2.0), f'column "x": the position is missing; {POSITION}'),
        ((1, 1.0, 90.5), 'column "y": latitude 90.5 is not between -90 and 90; x is the'),
        ((1, float("inf"), 0.0), 'column "x": the position is infinite; a DOUBLE is a finite'),
    ],
)
def test_keys_and_positions(row: tuple[Any, ...], words: str) -> None:
    session = listening("s STRING", " WITH (space = 'wgs84')")
    rows = [(9, 0.5, 0.5, "a"), (*row, "a")]
    named = [dict(zip(["id", "x", "y", "s"], each, strict=True)) for each in rows]
    forms = (rows, named, pa.Table.from_pylist(named), polars.DataFrame(named))
    for data in forms:
        (told,) = taken(session, data)
        assert told.startswith(f"row 2, {words}")


def test_nan_is_no_position() -> None:
    rows = [{"id": 1, "x": 1.0, "y": 1.0}, {"id": 2, "x": 1.0, "y": float("nan")}]
    tables = (pa.Table.from_pylist(rows), pandas.DataFrame(rows), polars.DataFrame(rows))
    session = listening("s STRING")
    words = f'row 2, column "y": the position is NaN; {POSITION}'
    assert taken(session, rows) == [words]
    for table in tables:
        with_text = table.append_column("s", pa.nulls(2)) if isinstance(table, pa.Table) else None
        if isinstance(table, pandas.DataFrame):
            with_text = table.assign(s=None)
        elif isinstance(table, polars.DataFrame):
            with_text = table.with_columns(s=None)
        assert taken(session, with_text) == [words]


# Dicts


def test_dicts_by_name() -> None:
    session = listening("s STRING, t TIMESTAMP")
    timed = {"id": 3, "y": 0, "x": 0, "T": HALF, "tt": 3}  # and a member that no column has
    rows = [{"Y": 2, "ID": np.int32(1), "x": 1}, (2, 1, 2, "a"), timed]
    assert taken(session, rows) == [
        (1, 1.0, 2.0, None, NOON),
        (2, 1.0, 2.0, "a", NOON),
        (3, 0.0, 0.0, None, HALF),
    ]
    assert taken(session, [{"id": 1, "x": 1}]) == [
        f'row 1, column "y": the position is missing; {POSITION}'
    ]
    assert taken(session, rows[:1], time=None) == [
        f'row 1, column "t": the time is missing; {STAMP}'
    ]


def test_op_in_every_form() -> None:
    rows = [{"id": 1, "x": 1.0, "y": 1.0, "s": "a", "op": op} for op in (None, "disappear", "")]
    wrong = [*rows, {**rows[0], "op": "vanish"}]
    session = listening("s STRING")
    for form in (list, pa.Table.from_pylist, pandas.DataFrame, polars.DataFrame):
        assert taken(session, form(rows)) == [(1, 1.0, 1.0, "a"), None, (1, 1.0, 1.0, "a")]
        assert taken(session, form(wrong)) == [
            "row 4: unknown op 'vanish': write 'disappear', or nothing;"
            " any other operation does not exist"
        ]
    assert taken(session, [{"id": "1", "OP": "disappear"}]) == [None]
    own = listening("op STRING")
    assert taken(own, [{"id": 1, "x": 1, "y": 1, "op": "vanish"}]) == [(1, 1.0, 1.0, "vanish")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"id": 1, "x": 1, "y": 2, "s": "a"}, "a dict holds no readings"),
        (5, "a int holds no readings"),
        (b"abc", "a bytes holds no readings"),
        (pandas.Series([1, 2]), "a Series holds no readings"),
        (polars.LazyFrame({"id": [1]}), "a LazyFrame holds no readings"),
        (pa.chunked_array([[1, 2]]), "a ChunkedArray holds no readings"),
        ([5], "row 1: 5 is not a row of values"),
        (["abc"], "row 1: 'abc' is not a row of values"),
        ([(1, 1, 1, "a"), (1, 1)], 'row 2: a reading of stream "S" has 4 values besides its'),
        (pandas.DataFrame({"id": [1], "x": [1], "yy": [1]}), 'no column "y"; did you mean "yy"'),
    ],
)
def test_what_holds_no_readings(data: Any, words: str) -> None:
    (told,) = taken(listening("s STRING"), data)
    assert told.startswith(words)


def test_a_reading_needs_a_time() -> None:
    (told,) = taken(listening("s STRING"), [(1, 1, 1, "a")], time=None)
    assert told.startswith('a reading of stream "S" has no time')
    assert taken(listening("s STRING"), [], time=None) == []


def test_rows_of_numpy_and_of_generators() -> None:
    session = listening("d DOUBLE")
    wanted = [(1, 2.0, 3.0, 4.0), (5, 6.0, 7.0, 8.0)]
    assert taken(session, np.arange(1, 9).reshape(2, 4)) == wanted
    assert taken(session, (row for row in wanted)) == wanted
    reader = pa.table(dict(zip("id x y d".split(), zip(*wanted, strict=True), strict=True)))
    assert taken(session, reader.to_reader()) == wanted


# The time of push, disappear and advance

TIMES = [
    NOON,
    np.int64(NOON),
    "2026-01-31 12:00",
    datetime(2026, 1, 31, 12),
    datetime(2026, 1, 31, 14, tzinfo=PLUS_TWO),
    pandas.Timestamp("2026-01-31 12:00"),
    np.datetime64("2026-01-31T12:00"),
    np.datetime64("2026-01-31T12:00", "ns"),
]


@pytest.mark.parametrize("time", TIMES)
def test_the_time_may_be_what_a_column_takes(time: Any) -> None:
    session = listening("s STRING")
    session.push("S", [(1, 1, 1, "a")], time=time)
    assert session.fed == [Reading("S", 1, NOON, (1, 1.0, 1.0, "a")), Advance(NOON, "S")]
    session.disappear("S", np.int64(1), time)
    assert session.fed == [Reading("S", 1, NOON, None)]
    session.advance(time)
    assert session.fed == [Advance(NOON)]


def test_a_date_is_its_midnight() -> None:
    session = listening("t TIMESTAMP")
    session.disappear("S", "1", date(2026, 1, 31))
    assert session.fed == [Reading("S", 1, DAY, None)]


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("soon", f"time: 'soon' is not a TIMESTAMP; {MOMENT_EXPECTED}"),
        (10**30, f"time: {10**30} is not a TIMESTAMP; {MOMENT_EXPECTED}"),
        (timedelta(seconds=1), f"time: 00:00:01 is not a TIMESTAMP; {MOMENT_EXPECTED}"),
        (pandas.NaT, f"the time is missing; {MOMENT_EXPECTED}"),
    ],
)
def test_a_time_that_is_none(time: Any, words: str) -> None:
    session = listening("s STRING")
    calls: list[Callable[[], Any]] = [
        lambda: session.push("S", [(1, 1, 1, "a")], time=time),
        lambda: session.disappear("S", 1, time),
        lambda: session.advance(time),
    ]
    for call in calls:
        with pytest.raises(ReadingError) as told:
            call()
        assert str(told.value) == words
        assert session.fed == []


def test_a_key_that_is_none() -> None:
    session = listening("s STRING")
    for key, words in (("one", "'one' is not a BIGINT"), (None, "the key is missing")):
        with pytest.raises(ReadingError, match=f'^column "id": {words}'):
            session.disappear("S", key, NOON)
