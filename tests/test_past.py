"""Questions about the past, against SQL over the same readings and against another library."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import place
from place.errors import LimitError, PlaceError, StatementError
from place.model.segment import segment_schema
from place.model.time import SECOND, instant_of
from place.runtime.memory_archive import MemoryArchive
from place.runtime.repository.repository import Repository
from place.session import Limits, Session, within

BEGIN = datetime(2026, 1, 1, 14, tzinfo=UTC)
OBJECTS, SECONDS = 40, 600
REGION = (20.0, 20.0, 60.0, 60.0)


def moment(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S.%f}"


@pytest.fixture(scope="module")
def readings() -> pa.Table:
    """Objects that walk at random, each of them now and then."""
    chance = np.random.default_rng(7)
    count = 4000
    ids = chance.integers(0, OBJECTS, count)
    at = np.sort(chance.choice(SECONDS * 10, count, replace=False)) * (SECOND // 10)
    x, y = (np.round(chance.uniform(0, 100, count), 3) for _ in range(2))
    times = pa.array(at + instant_of(BEGIN), pa.timestamp("us", "UTC"))
    return pa.table({"id": ids, "x": x, "y": y, "ts": times})


@pytest.fixture(params=["memory", "repository"])
def session(
    request: pytest.FixtureRequest, tmp_path: Path, readings: pa.Table
) -> Iterator[Session]:
    home = None if request.param == "memory" else tmp_path
    with place.connect(home) as opened:  # type: ignore[call-overload]
        opened.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
            " WITH (archive = 'all', snapshot = '1 minute')"
        )
        for start in range(0, readings.num_rows, 500):
            opened.push("Cars", readings.slice(start, 500))
        opened.advance(BEGIN + timedelta(seconds=SECONDS))
        if isinstance(opened.runtime.archive, Repository):
            opened.runtime.archive.catch_up()
            opened.runtime.archive.archive()
        yield opened


def test_positions_at_a_time_are_those_of_sql(session: Session, readings: pa.Table) -> None:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("readings", readings)
    for seconds in (5, 61.25, 300, 599.9):
        wanted = database.execute(
            "SELECT id, arg_max(x, ts), arg_max(y, ts) FROM readings"
            f" WHERE ts <= TIMESTAMPTZ '{moment(seconds)}+00' GROUP BY id"
        ).fetchall()
        found = session.sql(f"SELECT id, x, y FROM Cars AS OF '{moment(seconds)}'")
        assert sorted(found.rows) == sorted(wanted)


def test_time_inside_a_region_is_that_of_sql(session: Session, readings: pa.Table) -> None:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("readings", readings)
    x1, y1, x2, y2 = REGION
    begin, end = moment(100), moment(400)
    wanted = database.execute(
        f"""
        WITH valid AS (
            SELECT id, x, y, ts AS since, lead(ts) OVER (PARTITION BY id ORDER BY ts) AS until
            FROM readings)
        SELECT id, sum(epoch_us(least(coalesce(until, TIMESTAMPTZ '{end}+00'),
                                      TIMESTAMPTZ '{end}+00'))
                     - epoch_us(greatest(since, TIMESTAMPTZ '{begin}+00')))::BIGINT
        FROM valid
        WHERE x BETWEEN {x1} AND {x2} AND y BETWEEN {y1} AND {y2}
          AND since < TIMESTAMPTZ '{end}+00' AND coalesce(until > TIMESTAMPTZ '{begin}+00', TRUE)
        GROUP BY id"""
    ).fetchall()
    found = session.sql(
        f"SELECT id FROM Cars BETWEEN '{begin}' AND '{end}' INSIDE ({x1}, {y1}, {x2}, {y2})"
    )
    inside: dict[int, int] = {}
    for car, since, until in found.rows:
        last = instant_of(BEGIN) + 400 * SECOND if until is None else until
        inside[car] = inside.get(car, 0) + last - since
    assert {car: span for car, span in inside.items() if span} == dict(wanted)


def test_positions_are_those_of_meos(session: Session, readings: pa.Table) -> None:
    pymeos = pytest.importorskip("pymeos")
    pymeos.pymeos_initialize()
    rows = readings.to_pylist()
    for car in (3, 17):
        steps = ", ".join(
            f"{row['x']}@{row['ts']:%Y-%m-%d %H:%M:%S.%f}+00" for row in rows if row["id"] == car
        )
        way = pymeos.TFloatSeq(f"Interp=Step;[{steps}]")
        for seconds in (120, 250.5, 480):
            found = session.sql(f"SELECT x FROM Cars AS OF '{moment(seconds)}' WHERE id = {car}")
            then = BEGIN + timedelta(seconds=seconds)
            if way.start_timestamp() <= then <= way.end_timestamp():
                assert found.rows == ((way.value_at_timestamp(then),),)


def test_explain_tells_what_is_read(session: Session) -> None:
    def read(sql: str) -> tuple[int, str]:
        line = next(row[0] for row in session.sql(sql).rows if row[0].startswith("read of"))
        return int(line.split(": ")[1].split()[0].replace(",", "")), line

    nearest, line = read(f"EXPLAIN SELECT id FROM Cars AS OF '{moment(300)}' kNN (2, 50, 50)")
    if isinstance(session.runtime.archive, MemoryArchive):
        assert nearest == OBJECTS
    else:
        assert "within" in line
    some, line = read(f"EXPLAIN SELECT id FROM Cars AS OF '{moment(300)}' INSIDE (20, 20, 60, 60)")
    assert 0 < some < OBJECTS
    assert "within (20, 20, 60, 60)" in line
    one, line = read(f"EXPLAIN SELECT x FROM Cars AS OF '{moment(300)}' WHERE id IN (3, 4)")
    assert one == 2
    assert "of 2 objects" in line
    around, line = read(f"EXPLAIN SELECT id FROM Cars AS OF '{moment(300)}' INSIDE ('M', 3, 15)")
    assert around < OBJECTS
    assert "within" in line


def test_the_nearest_of_a_time_are_those_of_a_search_through_all(session: Session) -> None:
    chance = np.random.default_rng(9)
    for _ in range(25):
        at = moment(chance.uniform(20, 590))
        x, y = chance.uniform(-50, 150, 2).round(2)
        k = int(chance.integers(1, 8)) if chance.random() < 0.8 else 45
        everyone = session.sql(f"SELECT id, x, y FROM Cars AS OF '{at}'").rows
        some = [row for row in everyone if row[1] > 40]
        for where, chosen in (("", everyone), ("WHERE x > 40", some)):
            found = session.sql(f"SELECT id FROM Cars AS OF '{at}' {where} kNN ({k}, {x}, {y})")
            ranked = sorted(chosen, key=lambda row: ((row[1] - x) ** 2 + (row[2] - y) ** 2, row[0]))
            assert {row[0] for row in found.rows} == {row[0] for row in ranked[:k]}
        (focal, fx, fy), *others = everyone
        found = session.sql(f"SELECT id FROM Cars AS OF '{at}' kNN ('M', {k}, {focal})")
        ranked = sorted(others, key=lambda row: ((row[1] - fx) ** 2 + (row[2] - fy) ** 2, row[0]))
        assert {row[0] for row in found.rows} == {row[0] for row in ranked[:k]}


def test_a_session_of_the_past_can_only_be_read(session: Session) -> None:
    session.sql("REGISTER QUERY near AS SELECT id FROM Cars INSIDE (50, 50, 20)")
    then = session.at(BEGIN + timedelta(seconds=200))
    direct = session.sql(f"SELECT id, x FROM Cars AS OF '{moment(200)}' WHERE x > 50")
    assert then.sql("SELECT id, x FROM Cars WHERE x > 50").rows == direct.rows
    assert then.answer("near") == list(
        session.sql(f"SELECT * FROM QUERY near AS OF '{moment(200)}'").rows
    )
    assert "read of the past" in str(then.sql("EXPLAIN SELECT id FROM Cars").rows)
    for wrong in ("DROP QUERY near", "SHOW QUERIES", "REGISTER QUERY q AS SELECT id FROM Cars"):
        with pytest.raises(StatementError, match="can only be read"):
            then.sql(wrong)
    with pytest.raises(StatementError, match="of another time"):
        then.sql(f"SELECT id FROM Cars AS OF '{moment(100)}'")
    with pytest.raises(PlaceError, match="is before the past of Cars"):
        session.at("2020-01-01").sql("SELECT id FROM Cars")
    with pytest.raises(PlaceError, match="does not exist"):
        then.answer("far")


def test_questions_have_the_limits_of_other_selects(session: Session) -> None:
    with within(Limits(answer=100)), pytest.raises(LimitError, match="values"):
        session.sql(
            f"SELECT id FROM Cars BETWEEN '{moment(10)}' AND '{moment(500)}' INSIDE (0, 0, 50)"
        )
    with within(Limits(seconds=0)), pytest.raises(LimitError):
        session.sql(f"SELECT id FROM Cars BETWEEN '{moment(10)}' AND '{moment(500)}'")
    assert len(session.sql(f"SELECT id FROM Cars AS OF '{moment(500)}'").rows) == OBJECTS


def test_an_archive_in_memory_lets_go_of_what_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("place.runtime.memory_archive.MANY", 10)
    with place.connect(runtime="local") as opened:
        opened.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE)"
            " WITH (archive = 'all', keep = '10 seconds')"
        )
        opened.push("Cars", [(2, 7, 7)], time=0)
        for second in range(1, 60):
            opened.push("Cars", [(1, second, 0)], time=second * SECOND)
        archive, stream = opened.runtime.archive, opened.catalog.streams["cars"]
        assert isinstance(archive, MemoryArchive)
        span = archive.span(stream)
        assert span is not None
        assert (span.begin, span.end) == (49 * SECOND, 59 * SECOND)
        assert archive._table(stream).num_rows < 40
        at_begin = archive.objects(stream, span.begin).table
        assert at_begin.schema == segment_schema(stream.columns)
        assert sorted(at_begin.column("id").to_pylist()) == [1, 2]
        assert opened.at(span.begin).sql("SELECT id, x FROM Cars").rows == ((1, 49.0), (2, 7.0))


@pytest.mark.parametrize("cells", ["1x1", "2x2"])
def test_a_join_that_begins_in_the_past_has_readings_that_nobody_remembers(cells: str) -> None:
    """Beside one of the same windows that began with the last 10,000 readings, in another order
    than that of their times: which row of cells holds a reading is not the same in the past."""
    select = (
        "SELECT a.n, b.n AS last FROM Shots a WINDOW 20000 ROWS, Shots b WINDOW 1 ROW"
        " WHERE (a.n < 3 OR a.n > 10048)"
    )
    count = 10_050
    numbers = np.arange(count)[::-1]
    times = pa.array(numbers * (SECOND // 100) + instant_of(BEGIN), pa.timestamp("us", "UTC"))
    with place.connect(cells=cells) as session:
        session.sql(
            "CREATE STREAM Shots (n BIGINT, ts TIMESTAMP)"
            " WITH (archive = 'all', lateness = '200 seconds')"
        )
        session.push("Shots", pa.table({"n": numbers, "ts": times}))
        session.advance(BEGIN + timedelta(seconds=400))
        session.sql(f"REGISTER QUERY live AS {select}")
        session.sql(f"REGISTER QUERY late FROM '{moment(100)}' AS {select}")
        expected = {"live": {count - 1}, "late": {0, 1, 2, count - 1}}
        for last in (count - 1, count):
            for name, held in expected.items():
                assert set(session.answer(name)) == {(n, last) for n in held}
            session.push("Shots", [(count, BEGIN + timedelta(seconds=450))])
            session.advance(BEGIN + timedelta(seconds=700))
            expected = {name: held | {count} for name, held in expected.items()}
