"""Tables with many rows in the statement: the same rows, and the same errors, as with few."""

import pytest

import place
from place.errors import StatementError
from place.sql.bulk_values import LONG, BulkTable
from place.sql.dialect import parse_one

COLUMNS = "id BIGINT KEY, name STRING, v DOUBLE, ok BOOLEAN, since TIMESTAMP"
HEAD = f"CREATE TABLE T ({COLUMNS})\n AS VALUES\n"
ROW = "({}, 'it''s {}', -{}.5e0, {}, '2026-01-0{}')"


def rows_text(count: int) -> list[str]:
    return [ROW.format(i, i, i, ("TRUE", "false", "NULL")[i % 3], i % 9 + 1) for i in range(count)]


def test_rows_read_in_bulk_are_those_of_the_parser() -> None:
    text = HEAD + ",\n ".join(rows_text(300))
    assert isinstance(parse_one(text), BulkTable)
    found = []
    for statement in (text, text + " -- read as others are\n, (1000, 'x', 1, TRUE, NULL)"):
        with place.connect() as session:
            session.sql(statement)
            found.append(session.catalog.rows_of("T"))
    assert found[1][:-1] == found[0]
    assert found[0][1][:4] == (1, "it's 1", -1.5, False)


@pytest.mark.parametrize(
    ("wrong", "message", "line"),
    [
        ("('x', 'a', 1, TRUE, NULL)", "'x' is not a BIGINT", 203),
        ("(7, 'a', 1, TRUE)", "the row has 4 values", 203),
        ("(7 'a')", "expected", 203),
        ("(-5, 'a', 1e999, TRUE, NULL)", "too large", 203),
    ],
)
def test_a_wrong_row_is_named_by_its_place(wrong: str, message: str, line: int) -> None:
    rows = rows_text(300)
    rows[200] = wrong
    with place.connect() as session, pytest.raises(StatementError, match=message) as found:
        session.sql(HEAD + ",\n".join(rows))
    assert found.value.line == line


def test_what_follows_the_rows_has_its_place() -> None:
    text = HEAD + ",\n".join(rows_text(300)) + "\nWITH (spaze = 'wgs84')"
    assert len(text) > LONG
    with place.connect() as session, pytest.raises(StatementError, match="spaze") as found:
        session.sql(text)
    assert (found.value.line, found.value.column) == (303, 7)


def test_a_key_that_repeats_is_named() -> None:
    rows = rows_text(300)
    rows[250] = rows[10]
    with place.connect() as session, pytest.raises(StatementError, match="repeats the key 10"):
        session.sql(HEAD + ",\n".join(rows))
