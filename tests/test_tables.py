"""Tables from csv, json and parquet, declared or not; and files that are wrong."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from place.errors import ConfigurationError
from place.model.schema import Column
from place.model.time import parse_timestamp
from place.model.types import Type
from place.runtime.tables import TableLoader

ROWS = ((1, "Ada", 1.5, True, parse_timestamp("2026-01-01 12:00:00")), (2, None, 2.0, False, None))
COLUMNS = (
    Column("id", Type.BIGINT),
    Column("name", Type.STRING),
    Column("weight", Type.DOUBLE),
    Column("open", Type.BOOLEAN),
    Column("since", Type.TIMESTAMP),
)
FILES = {
    "t.csv": "id,name,weight,open,since\n1,Ada,1.5,true,2026-01-01 12:00:00\n2,,2,false,\n",
    "t.json": '[{"id": 1, "name": "Ada", "weight": 1.5, "open": true,'
    ' "since": "2026-01-01T12:00:00"},\n {"id": 2, "weight": 2, "open": false}]',
    "t.ndjson": '{"id": 1, "name": "Ada", "weight": 1.5, "open": true, "since":'
    ' "2026-01-01T12:00:00Z"}\n{"id": 2, "weight": 2.0, "open": false, "name": null}\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    arrays = {column.name: [row[i] for row in ROWS] for i, column in enumerate(COLUMNS) if i < 4}
    since = pa.array([row[4] for row in ROWS], pa.timestamp("us"))
    pa.parquet.write_table(pa.table({**arrays, "since": since}), tmp_path / "t.parquet")
    return tmp_path


@pytest.mark.parametrize("name", [*FILES, "t.parquet"])
def test_declared_columns(folder: Path, name: str) -> None:
    columns, rows = TableLoader(folder)(name, COLUMNS)
    assert columns == COLUMNS
    assert rows.tuples() == ROWS


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_columns_of_the_file(folder: Path, name: str) -> None:
    columns, rows = TableLoader(folder)(name, ())
    assert (columns, rows.tuples()) == (COLUMNS, ROWS)


def test_columns_are_found_by_name(folder: Path) -> None:
    columns = (Column("NAME", Type.STRING), Column("ID", Type.STRING))
    assert TableLoader(folder)("t.csv", columns)[1].tuples() == (("Ada", "1"), (None, "2"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "id,name\n1,Ada\n2\n", "cannot be read"),
        ("x.csv", "", "cannot be read"),
        ("x.csv", "id,name\none,Ada\n", 'row 1, column "id": .*not a BIGINT'),
        ("x.csv", "idd,name\n1,Ada\n", 'no column "id"; did you mean "idd"'),
        ("x.json", "{", "cannot be read"),
        ("x.json", "[1, 2]", "cannot be read"),
        ("x.parquet", "no parquet", "cannot be read"),
        ("x.txt", "id,name", "no known format"),
        ("y.csv", "id\n1\n", "does not exist"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name.replace("y", "z")).write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        TableLoader(tmp_path)(name, (Column("id", Type.BIGINT), Column("name", Type.STRING)))


def test_a_confined_loader_stays_in_its_directory(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "link.csv").symlink_to(folder / "t.csv")
    for path in ("../t.csv", str(folder / "t.csv"), "link.csv"):
        assert TableLoader(inner)(path, COLUMNS)[1].tuples() == ROWS
        with pytest.raises(ConfigurationError, match="outside the data directory"):
            TableLoader(inner, confined=True)(path, COLUMNS)
