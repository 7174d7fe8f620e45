"""The repository as others read it, by docs/history.md: the same objects, the same readings."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import place
from place.model.time import SECOND, instant_of
from place.session import Session

BEGIN = datetime(2026, 1, 1, 13, tzinfo=UTC)
READINGS = 5000
THEN = datetime(2026, 1, 1, 14, tzinfo=UTC)
DOCS = Path(__file__).parent.parent / "docs" / "history.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers") / "place-data"


@pytest.fixture(scope="module")
def session(home: Path) -> Iterator[Session]:
    chance = np.random.default_rng(3)
    times = np.sort(chance.choice(7200, READINGS, replace=True)) * SECOND + instant_of(BEGIN)
    readings = pa.table(
        {
            "id": chance.integers(0, 50, READINGS),
            "x": chance.uniform(0, 100, READINGS),
            "y": chance.uniform(0, 100, READINGS),
            "speed": chance.uniform(0, 30, READINGS),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )
    with place.connect(home) as opened:
        opened.sql(
            "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, speed DOUBLE, ts TIMESTAMP)"
            " WITH (archive = 'all', snapshot = '10 minutes', keep = '90 days')"
        )
        opened.push("Cars", readings.slice(0, 2500))
        opened.push("Cars", readings.slice(2500))
        opened.disappear("Cars", 7, BEGIN + timedelta(hours=2))
        opened.advance(BEGIN + timedelta(hours=3))
    with place.connect(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def table(session: Session, home: Path) -> str:
    assert "place-data/repository/Cars/1" in DOCS.read_text("utf-8")
    return str(home / "repository" / "Cars" / "1")


def objects_then(session: Session) -> list[tuple[Any, ...]]:
    rows = session.sql(f"SELECT id, x, y FROM Cars AS OF '{THEN:%Y-%m-%d %H:%M}'").rows
    return sorted(tuple(row) for row in rows)


def test_duckdb_reads_the_list_of_files(session: Session, table: str) -> None:
    files = DeltaTable(table).file_uris()
    count = duckdb.connect().execute(
        "SELECT count(*) FROM read_parquet($1) WHERE snapshot IS NULL", [files]
    )
    assert count.fetchall() == [(READINGS + 1,)]
    found = duckdb.connect().execute(
        """
        SELECT id, x, y FROM read_parquet($1)
        WHERE ts <= '2026-01-01 14:00Z' AND valid_to > '2026-01-01 14:00Z'
          AND (snapshot IS NULL OR snapshot <= '2026-01-01 14:00Z') AND NOT gone
        """,
        [files],
    )
    assert sorted(found.fetchall()) == objects_then(session)
    assert len(objects_then(session)) == 50


def test_polars_scans_the_table(session: Session, table: str) -> None:
    cars = polars.scan_delta(table)
    counts = (
        cars.filter(polars.col("snapshot").is_null()).group_by("id").agg(polars.len()).collect()
    )
    assert (counts["len"].sum(), len(counts)) == (READINGS + 1, 50)
    then = polars.lit(THEN)
    found = cars.filter(
        (polars.col("ts") <= then)
        & (polars.col("valid_to") > then)
        & (polars.col("snapshot").is_null() | (polars.col("snapshot") <= then))
        & ~polars.col("gone")
    )
    rows = found.select("id", "x", "y").collect().rows()
    assert sorted(rows) == objects_then(session)


def test_pandas_takes_columns_of_the_table(table: str) -> None:
    cars = DeltaTable(table).to_pandas(columns=["id", "x", "y", "ts"])
    assert list(cars.columns) == ["id", "x", "y", "ts"]
    assert len(cars) > READINGS
