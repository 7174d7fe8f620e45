"""A table of PostgreSQL that holds the answer of a query, kept right by its deltas: exactly once.

A row of the answer is a row of the table, with its columns. `place_row`, a hash of the row, finds
it, and `place_copies` counts equal rows, because an answer is a bag. A tick is one transaction,
which also writes the number of the tick to the table of marks, `place_marks`: both are there or
neither is. Whoever delivers holds the row of its mark, so that a process that was thought dead
cannot write beside another one.

A sink begins with the whole answer. Where PostGIS is installed in the database and the answer has a
position, `place_point` is it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
from psycopg import sql

from place.errors import ConfigurationError
from place.model.delta import Answer
from place.model.record import unique_names
from place.model.schema import External, position_of
from place.model.space import Space
from place.model.tabular import arrow_table
from place.model.types import Type
from place.plan.query import Query

PATIENCE = 10
"""Seconds for a connection."""
HEAD = 6
"""The columns of a changelog before those of the query."""
TYPES = {
    Type.BIGINT: "bigint",
    Type.DOUBLE: "double precision",
    Type.STRING: "text",
    Type.BOOLEAN: "boolean",
    Type.TIMESTAMP: "timestamptz",
    Type.INTERVAL: "interval",
    Type.NULL: "bigint",
}
NOTHING = -1
"""The mark of a sink that has delivered nothing."""
CHANGES = sql.Identifier("place_changes")

AnswerNow = Callable[[], tuple[int, Answer]]
"""The answer as of a tick, and that tick."""


class PostgresTarget:
    """`label` is this sink's own, whoever runs it."""

    wants_columns = True

    def __init__(self, target: External, label: str, query: Query, answer: AnswerNow) -> None:
        self._label = label
        self._query = query
        self._answer = answer
        names = unique_names([*query.names, "place_row", "place_copies", "place_point"])
        self._names = names[: len(query.names)]
        *schema, table = str(target.option("table")).split(".")
        self._table = sql.Identifier(*schema, table)
        self._marks = sql.Identifier(*schema, "place_marks")
        self._settings = _settings(target)
        self._connection: psycopg.Connection[Any] | None = None

    def deliver(self, tick: int, changelog: pa.Table) -> None:
        """Apply the deltas of a tick, unless that was done before."""
        try:
            connection = self._opened()
            with connection.transaction(), connection.cursor() as cursor:
                mark = self._mark(cursor)
                if mark == NOTHING:
                    mark = self._begin(cursor, tick)
                if tick > mark:
                    rows, signs = changelog.column("row"), changelog.column("sign")
                    self._apply(cursor, changelog.columns[HEAD:], rows, signs)
                    mark = tick
                self._execute(
                    cursor, "UPDATE {marks} SET tick = %s WHERE sink = %s", (mark, self._label)
                )
        except psycopg.Error as error:
            self._close()
            raise self._wrong(error) from None
        except BaseException:
            self._close()
            raise

    def _mark(self, cursor: psycopg.Cursor[Any]) -> int:
        """The last tick that was delivered; nobody else delivers until this transaction ends."""
        own = (self._label,)
        found = self._execute(
            cursor, "SELECT tick FROM {marks} WHERE sink = %s FOR UPDATE", own
        ).fetchone()
        return NOTHING if found is None else int(found[0])

    def _begin(self, cursor: psycopg.Cursor[Any], tick: int) -> int:
        """Make the table, empty, and put the answer into it; the tick as of which it is.

        Of alerts and arrivals there is nothing to begin with: they are told from this tick on.
        """
        self._make_table(cursor)
        self._execute(cursor, "DELETE FROM {table}")
        self._execute(
            cursor,
            "INSERT INTO {marks} (sink, tick) VALUES (%s, %s)"
            " ON CONFLICT (sink) DO UPDATE SET tick = excluded.tick",
            (self._label, NOTHING),
        )
        if self._query.only_adds:
            return tick - 1
        asked, answer = self._answer()
        rows = list(answer.elements())
        if rows:
            columns = arrow_table(self._query.names, self._query.types, rows).columns
            texts = pa.array([json.dumps(row) for row in rows], pa.string())
            self._apply(cursor, columns, texts, pa.array([1] * len(rows), pa.int8()))
        return asked

    def _make_table(self, cursor: psycopg.Cursor[Any]) -> None:
        kinds = zip(self._names, self._query.types, strict=True)
        columns: list[sql.Composable] = [
            sql.SQL("{} " + TYPES[kind]).format(sql.Identifier(name)) for name, kind in kinds
        ]
        columns += [
            sql.SQL("place_row bytea PRIMARY KEY"),
            sql.SQL("place_copies bigint NOT NULL"),
        ]
        place = position_of(self._query.names)
        has_shapes = self._execute(
            cursor, "SELECT 1 FROM pg_extension WHERE extname = 'postgis'"
        ).fetchone()
        if place is not None and has_shapes is not None:
            number = 4326 if self._query.space is Space.WGS84 else 0
            made = (
                f"place_point geometry(Point, {number}) GENERATED ALWAYS AS"
                f" (ST_SetSRID(ST_MakePoint({{}}, {{}}), {number})) STORED"
            )
            columns.append(sql.SQL(made).format(*(sql.Identifier(self._names[p]) for p in place)))
        self._execute(
            cursor, "CREATE TABLE IF NOT EXISTS {table} ({columns})", columns=_listed(columns)
        )

    def _apply(
        self,
        cursor: psycopg.Cursor[Any],
        columns: Sequence[pa.ChunkedArray],
        rows: pa.Array | pa.ChunkedArray,
        signs: pa.Array | pa.ChunkedArray,
    ) -> None:
        """Add rows to the table, and take others away, all at once."""
        names = _listed([sql.Identifier(name) for name in self._names])
        own = _listed(
            [
                sql.SQL("{} " + TYPES[kind]).format(sql.Identifier(name))
                for name, kind in zip(self._names, self._query.types, strict=True)
            ]
        )
        self._execute(cursor, "DROP TABLE IF EXISTS {changes}")
        self._execute(
            cursor,
            "CREATE TEMPORARY TABLE {changes} ({own}, place_text text, place_sign bigint)"
            " ON COMMIT DROP",
            own=own,
        )
        copied = self._composed(
            "COPY {changes} ({names}, place_text, place_sign) FROM STDIN (FORMAT csv)", names=names
        )
        with cursor.copy(copied) as copy:
            copy.write(_csv([*columns, rows, signs]))
        self._execute(
            cursor,
            "INSERT INTO {table} AS kept ({names}, place_row, place_copies)"
            " SELECT {names}, sha256(convert_to(place_text, 'UTF8')), sum(place_sign)"
            " FROM {changes} GROUP BY {names}, place_text HAVING sum(place_sign) <> 0"
            " ON CONFLICT (place_row)"
            " DO UPDATE SET place_copies = kept.place_copies + excluded.place_copies",
            names=names,
        )
        touched = (
            "place_row IN (SELECT sha256(convert_to(place_text, 'UTF8')) FROM {changes})"
            " AND place_copies"
        )
        self._execute(cursor, "DELETE FROM {table} WHERE " + touched + " = 0")
        lost = self._execute(cursor, "SELECT 1 FROM {table} WHERE " + touched + " < 0 LIMIT 1")
        if lost.fetchone() is not None:
            raise ConfigurationError(
                "rows of the table were removed by somebody else",
                hint="drop the sink and create it again: it begins with the whole answer",
            )

    def _execute(
        self,
        cursor: psycopg.Cursor[Any],
        text: str,
        values: tuple[Any, ...] | None = None,
        **parts: sql.Composable,
    ) -> psycopg.Cursor[Any]:
        return cursor.execute(self._composed(text, **parts), values)

    def _composed(self, text: str, **parts: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(table=self._table, marks=self._marks, changes=CHANGES, **parts)

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(**self._settings, autocommit=True)
            with self._connection.cursor() as cursor:
                self._execute(
                    cursor,
                    "CREATE TABLE IF NOT EXISTS {marks} (sink text PRIMARY KEY, tick bigint)",
                )
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _wrong(self, error: psycopg.Error) -> ConfigurationError:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        host = self._settings["host"]
        return ConfigurationError(
            f"PostgreSQL at {host}: {said}",
            hint="check host, port, database, table, username and password",
        )


def _settings(target: External) -> dict[str, Any]:
    """How to connect to a database."""
    named = {
        "host": target.option("host"),
        "port": target.option("port") or 5432,
        "dbname": target.option("database"),
        "user": target.option("username"),
        "password": target.option("password"),
        "sslmode": target.option("security"),
        "sslrootcert": target.option("ca"),
    }
    given = {name: value for name, value in named.items() if value is not None}
    return {**given, "connect_timeout": PATIENCE, "application_name": "place"}


def _listed(parts: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)


def _csv(columns: Sequence[pa.Array | pa.ChunkedArray]) -> bytes:
    """Columns as COPY takes them: an empty text is quoted, and NULL is nothing at all."""
    written = []
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_duration(column.type):
            counts = column.cast(pa.int64()).cast(pa.string())
            column = pc.binary_join_element_wise(counts, "microseconds", " ")
        elif pa.types.is_string(column.type):
            column = pc.replace_substring(column, "\0", "")  # which PostgreSQL does not have
        written.append(column)
    table = pa.table(written, names=[str(place) for place in range(len(written))])
    out = pa.BufferOutputStream()
    pc_csv.write_csv(table, out, pc_csv.WriteOptions(include_header=False))
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]
