"""Joins against engines that nobody here wrote: DuckDB, SciPy, and plain formulas on the sphere.

DuckDB evaluates the definition of each query over all readings at every instant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import place

SECOND = 1_000_000
INSTANTS = 100
EACH = 200
"""Readings of all streams in an instant: 20,000 in all."""

duckdb = pytest.importorskip("duckdb")


def readings(seed: int) -> Iterator[tuple[int, pa.Table, pa.Table]]:
    """Readings of two streams, instant by instant: id, zone (some are NULL), level."""
    rng = np.random.default_rng(seed)

    def table(count: int) -> pa.Table:
        zones = rng.integers(0, 40, count)
        return pa.table(
            {
                "id": rng.choice(500, count, replace=False),
                "zone": pa.array(zones, mask=rng.random(count) < 0.05),
                "level": rng.integers(0, 60, count) / 4.0,
            }
        )

    for second in range(1, INSTANTS + 1):
        yield second, table(EACH // 2), table(EACH // 2)


def open_session() -> place.Session:
    session = place.connect()
    for name in ("Radar", "Sonar"):
        session.sql(f"CREATE STREAM {name} (id BIGINT KEY, zone BIGINT, level DOUBLE)")
    return session


def with_time(table: pa.Table, second: int) -> pa.Table:
    times = pa.array(np.full(table.num_rows, second * SECOND))
    return table.append_column("t", times)


def test_window_joins_are_what_duckdb_finds_at_every_instant() -> None:
    session = open_session()
    session.sql(
        "REGISTER QUERY echo AS SELECT r.id, s.id, r.level FROM Radar r WINDOW 3 SECONDS,"
        " Sonar s WINDOW 150 ROWS WHERE r.zone = s.zone AND r.level > s.level + 10"
    )
    database = duckdb.connect()
    told: dict[str, list[pa.Table]] = {"radar": [], "sonar": []}
    for second, radar, sonar in readings(1):
        for name, table in (("Radar", radar), ("Sonar", sonar)):
            session.push(name, table, time=second * SECOND)
            told[name.lower()].append(with_time(table, second))
        database.register("radar", pa.concat_tables(told["radar"][-4:]))
        database.register("sonar", pa.concat_tables(told["sonar"][-4:]))
        expected = database.sql(
            f"SELECT r.id, s.id, r.level FROM radar r, (SELECT * FROM sonar ORDER BY t DESC,"
            f" id DESC LIMIT 150) s WHERE r.t > {(second - 3) * SECOND} AND r.zone = s.zone"
            " AND r.level > s.level + 10"
        ).fetchall()
        assert Counter(tuple(row) for row in session.answer("echo")) == Counter(expected)
    session.close()


def test_tables_of_rules_are_what_duckdb_finds_at_every_instant() -> None:
    rng = np.random.default_rng(5)
    low = rng.integers(0, 50, 300) / 4.0
    rules = pa.table(
        {
            "rule": np.arange(300),
            "low": low,
            "high": low + rng.integers(0, 8, 300) / 4.0,
            "zone": rng.integers(0, 40, 300),
        }
    )
    session = open_session()
    values = ", ".join(str(tuple(row.values())) for row in rules.to_pylist())
    session.sql(
        "CREATE TABLE Rules (rule BIGINT, low DOUBLE, high DOUBLE, zone BIGINT) AS VALUES " + values
    )
    session.sql(
        "REGISTER QUERY rules AS SELECT q.rule, r.id FROM Rules q, Radar r"
        " WHERE r.level BETWEEN q.low AND q.high AND r.zone >= q.zone AND r.zone < q.zone + 9"
    )
    session.sql(
        "REGISTER QUERY both AS SELECT q.rule, r.id, s.id FROM Rules q, Radar r, Sonar s"
        " WHERE r.level BETWEEN q.low AND q.high AND s.zone = q.zone AND r.zone = s.zone"
    )
    database = duckdb.connect()
    database.register("rules", rules)
    last: dict[str, dict[int, tuple[object, ...]]] = {"radar": {}, "sonar": {}}
    for second, radar, sonar in readings(2):
        for name, table in (("Radar", radar), ("Sonar", sonar)):
            session.push(name, table, time=second * SECOND)
            last[name.lower()].update({row["id"]: tuple(row.values()) for row in table.to_pylist()})
        for name, objects in last.items():
            columns = zip(*objects.values(), strict=True)
            now = dict(zip(("id", "zone", "level"), map(list, columns), strict=True))
            database.register(name, pa.table(now))
        expected = database.sql(
            "SELECT q.rule, r.id FROM rules q, radar r WHERE r.level BETWEEN q.low AND q.high"
            " AND r.zone >= q.zone AND r.zone < q.zone + 9"
        ).fetchall()
        assert Counter(tuple(row) for row in session.answer("rules")) == Counter(expected)
        expected = database.sql(
            "SELECT q.rule, r.id, s.id FROM rules q, radar r, sonar s WHERE r.level BETWEEN q.low"
            " AND q.high AND s.zone = q.zone AND r.zone = s.zone"
        ).fetchall()
        assert Counter(tuple(row) for row in session.answer("both")) == Counter(expected)
    session.close()


def haversine(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Metres between two places on the mean sphere, by another formula than the project's."""
    (x1, y1), (x2, y2) = (tuple(map(math.radians, place)) for place in (one, other))
    half = math.sin((y2 - y1) / 2) ** 2 + math.cos(y1) * math.cos(y2) * math.sin((x2 - x1) / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(math.sqrt(half))


def test_pairs_on_the_sphere_are_those_of_the_haversine() -> None:
    rng = np.random.default_rng(7)
    session = place.connect()
    session.sql("CREATE STREAM Ships (id BIGINT KEY, x DOUBLE, y DOUBLE) WITH (space = 'wgs84')")
    session.sql(
        "REGISTER QUERY close AS SELECT a.id, b.id, DISTANCE(a, b) FROM Ships a, Ships b"
        " WHERE DISTANCE(a, b) <= 60000 AND a.id < b.id"
    )
    # Around the antimeridian and near a pole, where degrees say least about distances.
    places = np.column_stack([rng.uniform(178.5, 181.5, 120), rng.uniform(-1, 1, 120)])
    places[60:] = np.column_stack([rng.uniform(-180, 180, 60), rng.uniform(88.8, 90, 60)])
    seen = 0
    for second in range(1, 31):
        places += rng.normal(0, 0.05, places.shape)
        places[:, 1] = np.minimum(places[:, 1], 90.0)
        wrapped = (places[:, 0] + 180) % 360 - 180
        where = list(zip(wrapped.tolist(), places[:, 1].tolist(), strict=True))
        session.push("Ships", [(i, *p) for i, p in enumerate(where)], time=second * SECOND)
        apart = {(i, j): haversine(where[i], where[j]) for j in range(120) for i in range(j)}
        answer = {(row[0], row[1]): row[2] for row in session.answer("close")}
        sure = {pair for pair, metres in apart.items() if metres < 60000 - 1e-3}
        maybe = {pair for pair, metres in apart.items() if metres < 60000 + 1e-3}
        assert sure <= answer.keys() <= maybe
        for pair, metres in answer.items():
            assert metres == pytest.approx(apart[pair], abs=1e-2)
        seen += len(answer)
    assert seen > 1000
    session.close()
