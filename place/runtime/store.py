"""The catalog on disk: a SQLite file that holds every definition with the versions it lived in.

A definition is kept as the statement that made it, so that there is one way to read the
language; a table's rows are kept beside it, so that a restart does not depend on its file. The
catalog as of any version can be had again, which is what a replay needs.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

from place.errors import ConfigurationError, InternalError
from place.model.schema import Column
from place.model.types import Row, Type
from place.plan.apply import Change, apply
from place.plan.catalog import PLURALS, Catalog
from place.plan.define import Load
from place.sql.dialect import parse_one
from place.sql.limits import NONE, within

FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS place (format INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS definitions (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  statement TEXT NOT NULL,
  rows TEXT,
  since INTEGER NOT NULL,
  until INTEGER,
  PRIMARY KEY (kind, name, since)
);
CREATE INDEX IF NOT EXISTS lifetimes ON definitions (since, until);
"""


class CatalogStore:
    """Keeps the catalog in `catalog.sqlite` of a directory, or in memory without one."""

    def __init__(self, home: Path | None = None) -> None:
        place = ":memory:"
        if home is not None:
            try:
                home.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(f"{home} cannot be made: {error.strerror}") from None
            place = str(home / "catalog.sqlite")
        try:
            self._db = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
            found = self._db.execute("SELECT format FROM place").fetchone()
            if found is None:
                self._db.execute("INSERT INTO place VALUES (?, 0)", (FORMAT,))
            elif found[0] != FORMAT:
                raise ConfigurationError(
                    f"{place} has format {found[0]}, this version of PLACE reads {FORMAT}"
                )
        except sqlite3.Error as error:
            raise ConfigurationError(f"{place} is not a catalog: {error}") from None

    def close(self) -> None:
        self._db.close()

    def version(self) -> int:
        """The version of the last change."""
        return int(self._db.execute("SELECT version FROM place").fetchone()[0])

    def since(self, kind: str, name: str) -> int:
        """The version in which the definition of that folded name was made."""
        found = self._db.execute(
            "SELECT since FROM definitions WHERE kind = ? AND name = ? ORDER BY since DESC",
            (kind, name),
        ).fetchone()
        return int(found[0])

    def save(self, before: Catalog, after: Catalog) -> None:
        """Make a change durable, all of it or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for kind in PLURALS:
                self._save_kind(kind, before, after)
            self._db.execute("UPDATE place SET version = ?", (after.version,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise ConfigurationError(f"the catalog cannot be written: {error}") from None

    def _save_kind(self, kind: str, before: Catalog, after: Catalog) -> None:
        old, new = before.of_kind(kind), after.of_kind(kind)
        if old is new:
            return
        changed = {
            name
            for name in (old.keys() | new.keys() if kind == "table" else old.keys() ^ new.keys())
            if old.get(name) is not new.get(name) or self._rows_differ(kind, name, before, after)
        }
        for name in changed:
            if name in old:
                self._db.execute(
                    "UPDATE definitions SET until = ?"
                    " WHERE kind = ? AND name = ? AND until IS NULL",
                    (after.version, kind, name),
                )
        for name in new if changed else ():
            if name in changed:
                rows = None
                if kind == "table":
                    rows = _packed(new[name].columns, after.contents[name])
                self._db.execute(
                    "INSERT INTO definitions VALUES (?, ?, ?, ?, ?, NULL)",
                    (kind, name, after.text_of(kind, name), rows, after.version),
                )

    @staticmethod
    def _rows_differ(kind: str, name: str, before: Catalog, after: Catalog) -> bool:
        return kind == "table" and before.contents.get(name) is not after.contents.get(name)

    def load(self, version: int | None = None) -> Catalog:
        """The catalog as of a version; the last one without."""
        version = self.version() if version is None else version
        found: list[tuple[str, str, str | None, str, int]] = self._db.execute(
            "SELECT kind, statement, rows, name, since FROM definitions"
            " WHERE since <= ? AND (until IS NULL OR until > ?) ORDER BY since, rowid",
            (version, version),
        ).fetchall()
        order = {kind: i for i, kind in enumerate(PLURALS)}
        catalog = Catalog()
        with within(NONE):  # they were accepted, whatever the limits are by now
            for _, text, rows, _, _ in sorted(found, key=lambda row: order[row[0]]):
                statement = parse_one(text)
                if not isinstance(statement, Change):
                    raise InternalError(f"the catalog holds what changes nothing: {text}")
                catalog = apply(catalog, statement, text, _stored(rows))
        revisions = {name: since for kind, _, _, name, since in found if kind == "table"}
        return replace(catalog, version=version, revisions=revisions)


def _packed(columns: tuple[Column, ...], rows: tuple[Row, ...]) -> str:
    return json.dumps({"columns": [[c.name, c.type.value] for c in columns], "rows": rows})


def _stored(rows: str | None) -> Load:
    def load(path: str, columns: tuple[Column, ...]) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
        if rows is None:
            raise InternalError(f"the rows of '{path}' are not in the catalog")
        packed = json.loads(rows)
        columns = tuple(Column(name, Type(kind)) for name, kind in packed["columns"])
        return columns, tuple(tuple(row) for row in packed["rows"])

    return load
