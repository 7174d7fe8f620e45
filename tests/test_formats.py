"""Answers and results over HTTP in the formats of other programs, read by those programs."""

import io
import json
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import shapely

from tests.harness.server import wait_for
from tests.harness.town import Town

FORMS = {
    "geojson": "application/geo+json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}


@pytest.fixture(scope="module")
def busy(town: Town) -> Town:
    """A town with a query of every type of column, NULLs and a comma."""
    served = town.running
    served.sql(
        "CREATE STREAM Things (name STRING KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP, big BIGINT,"
        " good BOOLEAN) WITH (archive = 'all');"
        "REGISTER QUERY things AS SELECT name, x, y, ts, big, good, big / 2 AS half FROM Things;"
        "REGISTER QUERY halved AS SELECT name, big / 2 AS x, y FROM Things;"
        "REGISTER QUERY bare AS SELECT name FROM Things;"
        "REGISTER QUERY middle AS SELECT AVG(x) AS lon, AVG(y) AS lat, COUNT(*) AS many FROM Things"
    )
    at = "2026-01-01 12:00:00.5"
    rows: list[Any] = [["a, b", 1.5, 2.5, at, 9_007_199_254_740_993, True]]
    rows.append(["ü", 3.5, 4.5, at, None, None])
    served.push("Things", rows, time=at)
    wait_for(lambda: len(served.answer("things")) == 2)
    return town


def asked(town: Town, query: str, form: str) -> Any:
    reply = town.running.http.get(f"/queries/{query}/answer", params={"format": form})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].partition(";")[0] == FORMS[form]
    assert reply.headers["x-place-after"].startswith(reply.headers["x-place-tick"] + "-")
    return reply


def test_an_answer_as_geojson_is_read_by_shapely(busy: Town) -> None:
    reply = asked(busy, "things", "geojson")
    found = reply.json()
    assert found["type"] == "FeatureCollection"
    assert found["tick"] == int(reply.headers["x-place-tick"])
    first, second = found["features"]
    assert shapely.from_geojson(json.dumps(first["geometry"])) == shapely.Point(1.5, 2.5)
    assert first["properties"] == {
        "name": "a, b",
        "ts": "2026-01-01T12:00:00.5Z",
        "big": 9_007_199_254_740_993,
        "good": True,
        "half": 4_503_599_627_370_496.5,
    }
    assert second["properties"] == {
        "name": "ü",
        "ts": "2026-01-01T12:00:00.5Z",
        "big": None,
        "good": None,
        "half": None,
    }
    points = [each["geometry"] for each in asked(busy, "halved", "geojson").json()["features"]]
    assert points[1] is None, "there is no position"
    (middle,) = asked(busy, "middle", "geojson").json()["features"]
    assert middle["geometry"]["coordinates"] == [2.5, 3.5], "columns may be called so"


def test_an_answer_as_csv_is_read_by_polars_and_arrow(busy: Town) -> None:
    body = asked(busy, "things", "csv").content
    frame = polars.read_csv(io.BytesIO(body), try_parse_dates=True)
    assert frame["name"].to_list() == ["a, b", "ü"]
    assert frame["big"].to_list() == [9_007_199_254_740_993, None]
    assert frame["ts"][0].isoformat() == "2026-01-01T12:00:00.500000+00:00"
    assert pa.csv.read_csv(io.BytesIO(body)).column("good").to_pylist() == [True, None]


def test_an_answer_as_arrow_and_parquet_has_the_types_of_its_columns(busy: Town) -> None:
    with pa.ipc.open_stream(asked(busy, "things", "arrow").content) as source:
        table = source.read_all()
    parquet = asked(busy, "things", "parquet").content
    assert pq.read_table(io.BytesIO(parquet)).equals(table)
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert table.schema.field("big").type == pa.int64()
    with duckdb.connect() as other:  # of its own: that of the module may be in use
        found = other.from_arrow(table).sum("big").fetchall()
    assert found == [(9_007_199_254_740_993,)]
    assert pandas.read_parquet(io.BytesIO(parquet)).name.tolist() == ["a, b", "ü"]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_rows_of_a_select_have_the_same_formats(busy: Town, form: str) -> None:
    def ask(sql: str) -> Any:
        return busy.running.http.post("/sql", json={"sql": sql}, params={"format": form})

    past = "SELECT name, x, y FROM Things AS OF '2026-01-01 12:00:00.5' WHERE x < 2"
    for sql in ("SELECT name, x, y FROM Things WHERE x < 2", past):
        reply = ask(sql)
        assert reply.headers["content-type"].partition(";")[0] == FORMS[form], reply.text
        match form:
            case "geojson":
                assert [f["properties"] for f in reply.json()["features"]] == [{"name": "a, b"}]
            case "csv":
                assert reply.text == '"name","x","y"\n"a, b",1.5,2.5\n'
            case "arrow":
                table = pa.ipc.open_stream(reply.content).read_all()
                assert table.to_pylist() == [{"name": "a, b", "x": 1.5, "y": 2.5}]
            case "parquet":
                rows = pq.read_table(io.BytesIO(reply.content)).to_pylist()
                assert rows == [{"name": "a, b", "x": 1.5, "y": 2.5}]
    done = ask("DROP QUERY IF EXISTS nobody")
    assert "is not there" in done.json()["message"], "no rows, no columns: the message"


def test_what_has_no_position_is_no_geojson(busy: Town) -> None:
    http = busy.running.http
    wrong = http.get("/queries/bare/answer", params={"format": "geojson"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "no_position")
    assert "their columns are name" in wrong.json()["error"]["message"]
    assert "AS x" in wrong.json()["error"]["hint"]
    unknown = http.get("/queries/bare/answer", params={"format": "xml"})
    assert unknown.status_code == 422
    assert "'geojson'" in unknown.json()["error"]["message"]
