"""Trajectories: against SQL, against MEOS, against the reference, and lines against brute force."""

import itertools
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import place
from place.errors import StatementError
from place.kernels.trajectories import simplified
from place.model.space import Space, offset
from place.model.time import SECOND, instant_of
from place.session import Session
from tests.harness.examples import examples

BEGIN = datetime(2026, 1, 1, 14, tzinfo=UTC)
OBJECTS, SECONDS = 30, 600
EXAMPLES = examples(60)
CARS = "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, ts TIMESTAMP)"
MEASURES = ", ".join(
    f"{each}(TRAJECTORY(id))" for each in ("LENGTH", "DURATION", "SPEED", "TOP_SPEED")
)


def moment(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S.%f}"


@pytest.fixture(scope="module")
def readings() -> pa.Table:
    """Objects that walk at random, each of them now and then."""
    chance = np.random.default_rng(11)
    count = 3000
    ids = chance.integers(0, OBJECTS, count)
    at = np.sort(chance.choice(SECONDS * 10, count, replace=False)) * (SECOND // 10)
    x, y = (np.round(chance.uniform(0, 100, count), 3) for _ in range(2))
    times = pa.array(at + instant_of(BEGIN), pa.timestamp("us", "UTC"))
    return pa.table({"id": ids, "x": x, "y": y, "ts": times})


@pytest.fixture(scope="module", params=["memory", "repository"])
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, readings: pa.Table
) -> Iterator[Session]:
    home = None if request.param == "memory" else tmp_path_factory.mktemp("trajectories")
    with place.connect(home) as opened:  # type: ignore[call-overload]
        opened.sql(f"{CARS} WITH (archive = 'all', snapshot = '1 minute')")
        for start in range(0, readings.num_rows, 500):
            opened.push("Cars", readings.slice(start, 500))
        opened.advance(BEGIN + timedelta(seconds=SECONDS))
        yield opened


def test_measures_are_those_of_sql(session: Session, readings: pa.Table) -> None:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("readings", readings)
    begin, end = moment(100), moment(400)
    wanted = database.execute(
        f"""
        WITH valid AS (
            SELECT *, lead(ts) OVER ways AS until, lead(x) OVER ways AS to_x,
                lead(y) OVER ways AS to_y FROM readings WINDOW ways AS (PARTITION BY id ORDER BY ts)
        ), inside AS (
            SELECT *, greatest(ts, TIMESTAMPTZ '{begin}+00') AS since,
                least(coalesce(until, TIMESTAMPTZ '{end}+00'), TIMESTAMPTZ '{end}+00') AS ends,
                ts >= TIMESTAMPTZ '{begin}+00' AND until <= TIMESTAMPTZ '{end}+00'
                    AND to_x BETWEEN 20 AND 60 AND to_y BETWEEN 20 AND 60 AS is_leg,
                sqrt((to_x - x) * (to_x - x) + (to_y - y) * (to_y - y)) AS way,
                epoch_us(until - ts) / 1e6 AS seconds
            FROM valid WHERE x BETWEEN 20 AND 60 AND y BETWEEN 20 AND 60
                AND ts <= TIMESTAMPTZ '{end}+00'
                AND coalesce(until > TIMESTAMPTZ '{begin}+00', TRUE))
        SELECT id, coalesce(sum(way) FILTER (is_leg), 0), sum(epoch_us(ends - since)),
            sum(way) FILTER (is_leg) / sum(seconds) FILTER (is_leg),
            max(way / seconds) FILTER (is_leg)
        FROM inside GROUP BY id ORDER BY id"""
    ).fetchall()
    found = session.sql(
        f"SELECT id, {MEASURES} FROM Cars BETWEEN '{begin}' AND '{end}' INSIDE (20, 20, 60, 60)"
    )
    assert found.columns == ("id", "length", "duration", "speed", "top_speed")
    assert len(found.rows) == len(wanted) > 20
    for mine, theirs in zip(found.rows, wanted, strict=True):
        assert (mine[0], mine[2]) == (theirs[0], theirs[2])
        for one, other in zip(mine[1:], theirs[1:], strict=True):
            assert one == (None if other is None else pytest.approx(other, rel=1e-12))


def test_lengths_and_places_are_those_of_meos(session: Session, readings: pa.Table) -> None:
    pymeos = pytest.importorskip("pymeos")
    pymeos.pymeos_initialize()
    begin, end = moment(50), moment(550)
    lengths = dict(
        session.sql(
            f"SELECT id, LENGTH(TRAJECTORY(id)) FROM Cars BETWEEN '{begin}' AND '{end}'"
        ).rows
    )
    for car in (3, 17):
        rows = session.sql(
            f"SELECT TRAJECTORY(id) FROM Cars BETWEEN '{begin}' AND '{end}' WHERE id = {car}"
        ).rows
        since = instant_of(BEGIN + timedelta(seconds=50))
        steps = [
            f"POINT({x} {y})@{_text(at)}+00" for _, x, y, at, _ in rows if at > since
        ]  # the first is where it was before
        way = pymeos.TGeomPointSeq(f"[{', '.join(steps)}]")
        assert lengths[car] == pytest.approx(way.length(), rel=1e-12)
        stays = pymeos.TGeomPointSeq(f"Interp=Step;[{', '.join(steps)}]")
        for seconds in range(80, 520, 20):
            then = BEGIN + timedelta(seconds=seconds)
            ((x, y),) = [
                (x, y)
                for _, x, y, at, until in rows
                if at <= instant_of(then) and (until is None or instant_of(then) < until)
            ]
            found = stays.value_at_timestamp(then)
            assert (found.x, found.y) == (x, y)


def _text(instant: int) -> str:
    return f"{datetime.fromtimestamp(instant / SECOND, UTC):%Y-%m-%d %H:%M:%S.%f}"


def test_rows_are_the_readings_in_order(session: Session, readings: pa.Table) -> None:
    begin, end = moment(100), moment(200)
    found = session.sql(f"SELECT TRAJECTORY(id) FROM Cars BETWEEN '{begin}' AND '{end}'")
    assert list(found.rows) == sorted(found.rows, key=lambda row: (row[0], row[3]))
    since = instant_of(BEGIN)
    plain = [
        (row["id"], row["x"], row["y"], instant_of(row["ts"]))
        for row in readings.to_pylist()
        if 100 * SECOND < instant_of(row["ts"]) - since <= 200 * SECOND
    ]
    assert [tuple(row[:4]) for row in found.rows if row[3] > since + 100 * SECOND] == sorted(
        plain, key=lambda row: (row[0], row[3])
    )


def test_a_way_as_geojson(session: Session) -> None:
    select = f"SELECT TRAJECTORY(id, 20) FROM Cars BETWEEN '{moment(0)}' AND '{moment(300)}'"
    with pytest.raises(StatementError, match="before the past"):
        session.sql(select)
    select = select.replace(moment(0), moment(30))
    result = session.sql(f"{select} INSIDE (0, 0, 80, 80)")
    found = json.loads(json.dumps(result.to_geojson()))
    assert found["type"] == "FeatureCollection"
    places = 0
    for feature in found["features"]:
        times = feature["properties"]["times"]
        coordinates = feature["geometry"]["coordinates"]
        if feature["geometry"]["type"] == "Point":
            coordinates = [coordinates]
        assert len(times) == len(coordinates)
        assert times == sorted(times, key=datetime.fromisoformat)
        assert set(feature["properties"]) == {"id", "valid_from", "valid_to", "times"}
        places += len(coordinates)
    assert places == len(result.rows)
    points = session.sql(f"SELECT id, x, y FROM Cars AS OF '{moment(300)}' WHERE id = 3")
    ((_, x, y),) = points.rows
    assert points.to_geojson()["features"] == [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [x, y]},
            "properties": {"id": 3},
        }
    ]
    with pytest.raises(StatementError, match="without columns x and y"):
        session.sql("SHOW STREAMS").to_geojson()


def test_explain_tells_whose_readings_are_read(session: Session) -> None:
    between = f"BETWEEN '{moment(100)}' AND '{moment(200)}'"
    rows = session.sql(f"EXPLAIN SELECT TRAJECTORY(id) FROM Cars {between} WHERE id = 3").rows
    assert "of 1 object" in rows[-1][0]


# Lines with fewer places


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    places=st.lists(
        st.tuples(st.integers(-179, 180), st.integers(-80, 80)), min_size=1, max_size=25
    ),
    tolerance=st.sampled_from([0.0, 0.5, 3.0, 20.0, 1e9]),
    sphere=st.booleans(),
)
def test_no_place_is_farther_than_the_tolerance(
    places: list[tuple[int, int]], tolerance: float, sphere: bool
) -> None:
    x, y = (np.array(part, np.float64) for part in zip(*places, strict=True))
    space = Space.WGS84 if sphere else Space.PLANAR
    allowed = tolerance * 100_000 if sphere else tolerance
    kept = np.flatnonzero(simplified(np.array([0, len(x)]), x, y, allowed, sphere))
    assert kept[0] == 0
    assert kept[-1] == len(x) - 1
    for a, b in itertools.pairwise(kept):
        for k in range(a + 1, b):
            ends = ((x[a], y[a]), (x[b], y[b]))
            assert offset(space, (x[k], y[k]), *ends) <= allowed
    if tolerance == 1e9:
        assert len(kept) == min(2, len(x))


def test_the_distance_to_a_line_is_the_shortest_to_its_places() -> None:
    chance = np.random.default_rng(5)
    for _ in range(50):
        place_, a, b = (tuple(chance.uniform(-10, 10, 2).tolist()) for _ in range(3))
        steps = np.linspace(0, 1, 20_001)[:, None]
        along = np.array(a) + steps * (np.array(b) - np.array(a))
        brute = float(np.hypot(*(along - np.array(place_)).T).min())
        assert offset(Space.PLANAR, place_, a, b) == pytest.approx(brute, abs=1e-3)
    # A degree of latitude from the equator, and across the antimeridian.
    degree = 6_371_008.8 * math.pi / 180
    assert offset(Space.WGS84, (0.0, 1.0), (-5.0, 0.0), (5.0, 0.0)) == pytest.approx(degree)
    assert offset(Space.WGS84, (179.9, 1.0), (178.0, 0.0), (-178.0, 0.0)) == pytest.approx(degree)


# Random worlds, beside the reference

READING = st.tuples(
    st.integers(1, 3), st.integers(0, 6), st.integers(0, 6), st.integers(0, 40), st.booleans()
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    told=st.lists(READING, min_size=1, max_size=25),
    options=st.sampled_from(["", ", timeout = '5 seconds'", ", space = 'wgs84'"]),
    times=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    asked=st.sampled_from(["TRAJECTORY(id)", "TRAJECTORY(id, 1)", "TRAJECTORY(id), x * 2"]),
    where=st.sampled_from(["", "WHERE x > 1", "INSIDE (1, 1, 4, 5)", "INSIDE (3, 3, 2)"]),
)
def test_random_ways_are_those_of_the_reference(
    told: list[tuple[int, int, int, int, bool]],
    options: str,
    times: tuple[int, int],
    asked: str,
    where: str,
) -> None:
    answers: list[list[Any]] = []
    for runtime in ("reference", "local"):
        with place.connect(runtime=runtime) as opened:
            opened.sql(f"{CARS} WITH (archive = 'all'{options})")
            for car, x, y, second, is_gone in sorted(told, key=lambda each: each[3]):
                then = BEGIN + timedelta(seconds=second)
                if is_gone:
                    opened.disappear("Cars", car, then)
                else:
                    opened.push("Cars", [(car, x, y, then)])
            opened.advance(BEGIN + timedelta(seconds=50))
            first = min(each[3] for each in told)
            begin, end = sorted(max(first, each) for each in times)
            between = f"FROM Cars BETWEEN '{moment(begin)}' AND '{moment(end)}' {where}"
            selects = [f"SELECT {asked} {between}", f"SELECT id, {MEASURES} {between}"]
            answers.append([opened.sql(select).rows for select in selects])
    assert answers[0] == answers[1]
