"""Rows, results and deltas with names, and as tables of other libraries."""

import copy
import pickle
import sys
import typing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pytest

import place
from place.client import Client
from place.connection import Connection
from place.errors import ConfigurationError
from place.model.delta import FEW, Delta
from place.model.reading import Reading
from place.model.record import record_type
from place.model.result import DeltaList, Result
from place.model.tabular import SHOWN, Rows
from place.model.types import Type
from place.session import Session

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MICROSECONDS = 1_769_860_800_000_000
COLUMNS = ("id", "count", "COUNT(*)", "as_dict", "ts", "age", "class")
TYPES = (*[Type.BIGINT] * 4, Type.TIMESTAMP, Type.INTERVAL, Type.STRING)
ROW = (1, 2, 3, 4, MICROSECONDS, 1_500_000, "a")


def test_a_record_is_the_tuple_that_it_was() -> None:
    record = record_type(COLUMNS, TYPES)(ROW)
    assert (record == ROW, hash(record) == hash(ROW), {record: 1}[ROW]) == (True, True, 1)
    assert (record[4], record[-1], record[:2], repr(record)) == (
        MICROSECONDS,
        "a",
        (1, 2),
        str(ROW),
    )
    same = [pickle.loads(pickle.dumps(record)), copy.deepcopy(record)]
    assert [each.ts for each in same] == [NOON, NOON]


def test_a_record_knows_its_columns() -> None:
    record = record_type(COLUMNS, TYPES)(ROW)
    assert (record.count, record.ID, record["Id"], record["COUNT(*)"]) == (2, 1, 1, 3)
    assert (record.ts, record["age"], record["class"]) == (NOON, timedelta(seconds=1.5), "a")
    assert list(record.as_dict().values()) == [1, 2, 3, 4, NOON, timedelta(seconds=1.5), "a"]
    assert record_type(COLUMNS, TYPES)((None,) * 7).ts is None
    with pytest.raises(AttributeError, match='there is no column "agee"; did you mean "age"'):
        record.agee  # noqa: B018
    with pytest.raises(KeyError, match='there is no column "agee"'):
        record["agee"]
    with pytest.raises(AttributeError):
        record._missing  # noqa: B018


def test_rows_as_tables() -> None:
    rows = Rows(
        ("id", "id", "ts", "age", "open", "nothing"),
        (*(Type.BIGINT, Type.BIGINT, Type.TIMESTAMP, Type.INTERVAL, Type.BOOLEAN, Type.NULL),),
        [(2**60 + 1, 1, MICROSECONDS, 5, True, None), (None, 2, None, None, None, None)],
    )
    table = rows.to_arrow()
    assert table.column_names == ["id", "id_2", "ts", "age", "open", "nothing"]
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert table.schema.field("age").type == pa.duration("us")
    assert table.column("ts").to_pylist() == [NOON, None]
    frame = rows.to_pandas()
    assert frame["id"].iloc[0] == 2**60 + 1, "a NULL beside it does not make it a float"
    assert (str(frame["id"].dtype), str(frame["id_2"].dtype)) == ("Int64", "int64")
    assert (frame["ts"].iloc[0], frame["open"].iloc[0]) == (pandas.Timestamp(NOON), True)
    assert rows.to_polars()["ts"].dtype == polars.Datetime("us", "UTC")
    empty = Rows(("id", "ts"), (Type.BIGINT, Type.TIMESTAMP))
    assert (empty.to_arrow().num_rows, list(empty.to_pandas().columns)) == (0, ["id", "ts"])
    assert empty.to_arrow().schema.types == [pa.int64(), pa.timestamp("us", "UTC")]


def test_notebooks_show_a_table() -> None:
    rows = Rows(("<b>", "ts"), (Type.STRING, Type.TIMESTAMP), [("<i>", MICROSECONDS), (None, 0)])
    shown = rows._repr_html_()
    assert "<th>&lt;b&gt;</th>" in shown
    assert "<td>&lt;i&gt;</td><td>2026-01-31 12:00:00</td>" in shown
    assert "<td>NULL</td>" in shown
    many = Rows(("id",), (Type.BIGINT,), [(number,) for number in range(SHOWN + 5)])
    assert (many._repr_html_().count("<td>"), "and 5 more" in many._repr_html_()) == (SHOWN, True)


def test_deltas_as_tables() -> None:
    kind = record_type(("sign", "ts"), (Type.STRING, Type.TIMESTAMP))
    deltas = DeltaList([Delta("q", 1, kind(("a", MICROSECONDS)), MICROSECONDS)])
    table = deltas.to_arrow()
    assert table.column_names == ["query", "sign", "instant", "sign_2", "ts"]
    assert table.to_pylist() == [deltas[0].as_dict()]
    assert deltas[0].as_dict()["instant"] == deltas[0].time == NOON
    both = DeltaList([*deltas, Delta("other", -1, (1, None), MICROSECONDS)])
    assert both.to_arrow().column("row").to_pylist() == [f'["a", {MICROSECONDS}]', "[1, null]"]
    assert both[1].as_dict()["row"] == (1, None)
    assert DeltaList().to_pandas().empty
    assert "<th>sign_2</th>" in deltas._repr_html_()


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigurationError, match="polars is not installed; pip install polars"):
        Result("1 row", ("id",), (Type.BIGINT,), ((1,),)).to_polars()


def test_deltas_of_a_session_have_the_names_of_their_query() -> None:
    with place.connect() as session:
        session.sql("CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)")
        began = session.sql("REGISTER QUERY q AS SELECT id, ts FROM Cars INSIDE (0, 0, 5)")
        assert (began.deltas, type(began.deltas)) == ([], DeltaList)
        pushed = session.push("Cars", [(7, 1, 1, NOON)], time=NOON)
        assert [(d.row.id, d.row.ts, d.time) for d in pushed] == [(7, NOON, NOON)]
        assert pushed.to_pandas()["id"].tolist() == [7]
        again = session.sql("DROP QUERY q; REGISTER QUERY q AS SELECT x FROM Cars")
        assert [delta.as_dict().get("id") for delta in again.deltas] == [7, None]
        assert [delta.as_dict().get("x") for delta in again.deltas] == [None, 1.0]
        assert session.sql("SELECT id, ts FROM Cars").rows[0].ts == NOON
        assert session.advance(NOON) == []


def test_connect_is_typed_for_what_it_returns() -> None:
    names = {"Client": Client, "Connection": Connection, "Session": Session}
    kinds = [each.__annotations__["return"] for each in typing.get_overloads(place.connect)]
    assert [names[kind] for kind in kinds] == [Client, Connection, Session]


@pytest.mark.parametrize("runtime", ["local", "spark"])
def test_a_table_that_is_pushed_is_a_table_again_and_nothing_between(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Python object of a reading or of a delta is made until somebody asks for one."""
    master = "local[1]" if runtime == "spark" else None
    home = tmp_path / "home" if runtime == "spark" else None
    with place.connect(home, master=master) as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, kind STRING, ts TIMESTAMP);"
            "REGISTER QUERY q AS SELECT id, kind, ts FROM Cars INSIDE (0, 0, 5, 5)"
        )
        ids = list(range(2 * FEW))
        frames = [
            pa.table(
                {
                    "id": ids,
                    "x": [9.0 if number % 4 == left else 1.0 for number in ids],
                    "y": [1.0] * len(ids),
                    "kind": [(None, "a", "b")[number % 3] for number in ids],
                    "ts": [NOON + timedelta(seconds=at + number // 500) for number in ids],
                }
            )
            for at, left in ((0, 0), (10, 1))
        ]
        with monkeypatch.context() as patched:
            patched.setattr(Reading, "__init__", _refused)
            patched.setattr(Delta, "__new__", _refused)
            pushed = [session.push("Cars", frame, time=frame["ts"][-1].as_py()) for frame in frames]
            tables = [each.to_arrow() for each in pushed]
            counts = [(len(each), each.taken, each.late) for each in pushed]
        assert counts == [(1500, 2000, 0), (3000, 2000, 0)]
        assert tables == [DeltaList(list(each)).to_arrow() for each in pushed]
        assert tables[1].column("sign").to_pylist().count(-1) == 1500
        assert pushed[0][0].row.as_dict() == {"id": 1, "kind": "a", "ts": NOON}


def _refused(*_: object, **__: object) -> None:
    raise AssertionError("made one by one")


def test_deltas_are_read_like_a_list() -> None:
    with place.connect() as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE);"
            "REGISTER QUERY q AS SELECT id FROM Cars; REGISTER QUERY r AS SELECT x, id FROM Cars"
        )
        pushed = session.push("Cars", [(1, 2, 3), (4, 5, 6)], time=NOON)
        told = [(delta.query, tuple(delta.row)) for delta in pushed]
        assert told == [("q", (1,)), ("q", (4,)), ("r", (2.0, 1)), ("r", (5.0, 4))]
        assert pushed == list(pushed)
        assert list(pushed) == pushed
        assert pushed != list(pushed)[1:]
        assert pushed[1:3] == list(pushed)[1:3]
        assert (pushed[-1], len(pushed), pushed[0] in pushed) == (list(pushed)[-1], 4, True)
        assert [*pushed, *pushed] == pushed + pushed == list(pushed) + pushed
        assert repr(pushed) == repr(list(pushed))
        assert pushed.to_arrow().column("row").to_pylist()[3] == "[5.0, 4]"
        assert pushed.to_arrow().column_names == ["query", "sign", "instant", "row"]


def test_a_subscription_makes_only_the_deltas_of_its_query() -> None:
    with place.connect() as session:
        session.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE);"
            "REGISTER QUERY low AS SELECT id FROM Cars INSIDE (0, 0, 9, 9);"
            "REGISTER QUERY high AS SELECT id FROM Cars INSIDE (10, 10, 9999, 9999);"
            "REGISTER QUERY far AS SELECT id, x FROM Cars INSIDE (1500, 1500, 9999, 9999)"
        )
        subscribed = [session.subscribe(query) for query in ("low", "far")]
        numbers = [float(number) for number in range(2 * FEW)]
        pushed = session.push(
            "Cars", pa.table({"id": range(2 * FEW), "x": numbers, "y": numbers}), time=NOON
        )
        low, far = (list(each) for each in subscribed)
        assert [delta.row.id for delta in low] == list(range(10))
        assert [tuple(delta.row) for delta in far] == [(n, float(n)) for n in range(1500, 2000)]
        assert low == [delta for delta in pushed if delta.query == "low"]
        assert far == [delta for delta in pushed if delta.query == "far"]
