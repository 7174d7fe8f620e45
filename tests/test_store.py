"""The catalog and the reference survive a restart, at every version."""

import sqlite3
from pathlib import Path

import pytest

import place
from place.errors import ConfigurationError, StatementError
from place.runtime.store import CatalogStore

STATEMENTS = [
    "CREATE STREAM Cars (id BIGINT KEY, x DOUBLE, y DOUBLE, type STRING)"
    " WITH (timeout = '1 minute', space = 'planar', bounds = '0 0 1 1')",
    "CREATE STREAM Ships (mmsi STRING KEY, x DOUBLE, y DOUBLE) WITH (space = 'wgs84')",
    "CREATE TABLE Owners FROM 'owners.csv'",
    "CREATE TABLE Fences (ID STRING, region STRING) AS VALUES ('f', 'POLYGON ((0 0, 4 0, 0 4))')",
    "CREATE REGION Town AS POLYGON ((0 0, 9 0, 9 9))",
    "REGISTER QUERY a AS SELECT id FROM Cars INSIDE Town",
    "REGISTER QUERY b AS SELECT Q.ID, O.id FROM Fences Q, Cars O WHERE O INSIDE Q",
    "REGISTER QUERY c AS SELECT name, COUNT(*) FROM Cars, Owners WHERE Cars.id = Owners.id"
    " GROUP BY name",
    "CREATE SINK s FOR a, b TO PARQUET ('out/')",
    "REFRESH TABLE Owners",
    "DROP QUERY c",
    "DROP TABLE Owners",
]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "owners.csv").write_text("id,name\n1,Ada\n2,\n3,Grace\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_version_can_be_had_again(directory: Path) -> None:
    session = place.connect(directory / "home")
    versions = [session.catalog]
    for statement in STATEMENTS:
        session.sql(statement)
        assert session.catalog.version == versions[-1].version + 1
        versions.append(session.catalog)
    session.close()
    (directory / "owners.csv").unlink()  # the rows are in the catalog
    store = CatalogStore(directory / "home")
    assert store.load() == versions[-1]
    for catalog in versions:
        assert store.load(catalog.version) == catalog


def test_a_failed_statement_leaves_nothing(directory: Path) -> None:
    session = place.connect(directory / "home")
    session.sql(STATEMENTS[0])
    with pytest.raises(StatementError):
        session.sql(
            "CREATE REGION R AS CIRCLE (0, 0, 1); REGISTER QUERY q AS SELECT nothing FROM Cars"
        )
    session.close()
    again = place.connect(directory / "home")
    assert [region.name for region in again.catalog.regions.values()] == ["R"]
    assert not again.catalog.queries
    assert again.catalog.version == 2


def test_if_exists_makes_no_version(directory: Path) -> None:
    session = place.connect()
    session.sql(STATEMENTS[0])
    session.sql(STATEMENTS[0].replace("STREAM", "STREAM IF NOT EXISTS"))
    session.sql("DROP QUERY IF EXISTS nothing")
    assert session.catalog.version == 1


def test_a_refreshed_table_takes_back_and_adds(directory: Path) -> None:
    session = place.connect(directory / "home")
    for statement in STATEMENTS[:3]:
        session.sql(statement)
    session.sql("REGISTER QUERY q AS SELECT C.id, name FROM Cars C, Owners O WHERE C.id = O.id")
    session.push("Cars", [(1, 0, 0, "Taxi"), (4, 0, 0, "Taxi")], time="2026-01-01")
    (directory / "owners.csv").write_text("id,name\n1,Bob\n4,Eve\n")
    deltas = session.sql("REFRESH TABLE owners").deltas
    assert [(d.sign, d.row) for d in deltas] == [(-1, (1, "Ada")), (1, (1, "Bob")), (1, (4, "Eve"))]
    session.close()
    again = place.connect(directory / "home")
    assert again.answer("q") == [(1, "Bob"), (4, "Eve")]


def test_a_subscription_starts_with_the_answer(directory: Path) -> None:
    session = place.connect()
    session.sql(STATEMENTS[0] + "; REGISTER QUERY q AS SELECT id FROM Cars INSIDE (0, 0, 5)")
    session.push("Cars", [(1, 1, 1, None)], time="2026-01-01")
    subscription = session.subscribe("Q")
    assert [(d.sign, d.row) for d in subscription] == [(1, (1,))]
    session.push("Cars", [(1, 9, 9, None), (2, 0, 5, None)], time="2026-01-02")
    assert [(d.sign, d.row) for d in subscription] == [(-1, (1,)), (1, (2,))]
    assert list(subscription) == []


def test_what_is_no_catalog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_text("this is a text and no database, of some length" * 50)
    with pytest.raises(ConfigurationError, match="not a catalog"):
        place.connect(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        place.connect(tmp_path / "catalog.sqlite" / "home")


def test_a_catalog_of_another_format_is_refused(tmp_path: Path) -> None:
    CatalogStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "catalog.sqlite") as db:
        db.execute("UPDATE place SET format = 99")
    with pytest.raises(ConfigurationError, match="format 99"):
        place.connect(tmp_path)
