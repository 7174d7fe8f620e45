"""The catalog on disk: a SQLite file that holds every definition with the versions it lived in.

A definition is kept as the statement that made it, so that there is one way to read the
language; a table's rows are kept beside it, so that a restart does not depend on its file. The
catalog as of any version can be had again, which is what a replay needs.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from place.errors import ConfigurationError, InternalError
from place.model.schema import Column
from place.model.table_rows import TableRows
from place.model.types import Type
from place.plan.apply import apply
from place.plan.catalog import STORES, Catalog
from place.plan.define import Load
from place.sql.dialect import parse_one
from place.sql.limits import NONE, within
from place.sql.statements import Change, CreateTable

FORMAT = 2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS place (format INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS definitions (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  statement TEXT NOT NULL,
  columns TEXT,
  rows BLOB,
  since INTEGER NOT NULL,
  until INTEGER,
  PRIMARY KEY (kind, name, since)
);
CREATE TABLE IF NOT EXISTS resets (
  stream TEXT NOT NULL,
  reset INTEGER,
  since INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS lifetimes ON definitions (since, until);
CREATE TABLE IF NOT EXISTS entries (name TEXT NOT NULL);
"""

Definition = tuple[str, str, str, str | None, bytes | None, int, int | None]
"""Kind, folded name, statement, columns and rows of a table, and the versions that it lived in."""


class StoredChange(NamedTuple):
    """A change as it is kept: definitions that end and begin with a version, and resets."""

    version: int
    ended: Sequence[tuple[str, str, int]]
    begun: Sequence[Definition]
    resets: Sequence[tuple[str, int | None, int]]


class ChangeLog(Protocol):
    """Where changes are kept, too, for those who have not this file."""

    def append(self, after: str, change: StoredChange, whole: Callable[[], StoredChange]) -> str:
        """Keep a change that comes after an entry, or all that has changed so far; the entry."""


class CatalogStore:
    """Keeps the catalog in `catalog.sqlite` of a directory, or in memory without one."""

    log: ChangeLog | None = None
    """Keeps all changes elsewhere, too, before they are kept here."""

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
            elif found[0] == 1:
                self._migrate()
            elif found[0] != FORMAT:
                raise ConfigurationError(
                    f"{place} has format {found[0]}, this version of PLACE reads {FORMAT}"
                )
        except sqlite3.Error as error:
            raise ConfigurationError(f"{place} is not a catalog: {error}") from None

    def _migrate(self) -> None:
        """From format 1, which had the rows of tables as JSON."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("ALTER TABLE definitions RENAME COLUMN rows TO columns")
        self._db.execute("ALTER TABLE definitions ADD COLUMN rows BLOB")
        kept = self._db.execute("SELECT rowid, columns FROM definitions WHERE columns IS NOT NULL")
        for number, text in kept.fetchall():
            packed = json.loads(text)
            columns = [Column(name, Type(kind)) for name, kind in packed["columns"]]
            rows = TableRows.of_rows(columns, map(tuple, packed["rows"]))
            self._db.execute(
                "UPDATE definitions SET columns = ?, rows = ? WHERE rowid = ?",
                (*_written(columns, rows), number),
            )
        self._db.execute("UPDATE place SET format = ?", (FORMAT,))
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()

    def version(self) -> int:
        """The version of the last change."""
        return int(self._db.execute("SELECT version FROM place").fetchone()[0])

    def since(self, kind: str, name: str, version: int | None = None) -> int:
        """The version in which the definition of that folded name was made, as of a version or now;
        one that was altered is still the same."""
        found = self._db.execute(
            "SELECT since, until FROM definitions WHERE kind = ? AND name = ? AND since <= ?"
            " ORDER BY since DESC",
            (kind, name, self.version() if version is None else version),
        ).fetchall()
        lives = [(int(since), until) for since, until in found]
        made = lives[0][0]
        for since, until in lives[1:]:
            if until != made:
                break
            made = since
        return made

    def save(self, before: Catalog, after: Catalog) -> None:
        """Make a change durable, all of it or nothing."""
        definitions = [_changed(kind, before, after) for kind in STORES]
        change = StoredChange(
            after.version,
            [each for ended, _ in definitions for each in ended],
            [each for _, begun in definitions for each in begun],
            _reset(before, after),
        )
        with self._changing():
            self._write(change)
            if self.log is not None:
                self._enter(self.log.append(self.entry(), change, self.whole))

    def entry(self) -> str:
        """The last entry of the log of changes that is kept here; empty if there is none."""
        found = self._db.execute("SELECT name FROM entries").fetchone()
        return "" if found is None else str(found[0])

    def whole(self) -> StoredChange:
        """All that has changed so far, as one change."""
        begun = self._db.execute(
            "SELECT kind, name, statement, columns, rows, since, until FROM definitions"
            " ORDER BY rowid"
        ).fetchall()
        resets = self._db.execute("SELECT stream, reset, since FROM resets ORDER BY rowid")
        return StoredChange(self.version(), [], begun, resets.fetchall())

    def become(self, changes: Iterable[StoredChange], entry: str) -> None:
        """Hold nothing but these changes, one after the other, the last of which is an entry."""
        with self._changing():
            for table in ("definitions", "resets", "entries"):
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("UPDATE place SET version = 0")
            for change in changes:
                self._write(change)
            self._enter(entry)

    def enter_whole(self, log: ChangeLog) -> None:
        """Keep all that has changed so far in a log that has nothing yet."""
        with self._changing():
            self._enter(log.append("", self.whole(), self.whole))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise ConfigurationError(f"the catalog cannot be written: {error}") from None
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _write(self, change: StoredChange) -> None:
        self._db.executemany(
            "UPDATE definitions SET until = ? WHERE kind = ? AND name = ? AND until IS NULL",
            [(until, kind, name) for kind, name, until in change.ended],
        )
        self._db.executemany(
            "INSERT INTO definitions (kind, name, statement, columns, rows, since, until)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            change.begun,
        )
        self._db.executemany("INSERT INTO resets VALUES (?, ?, ?)", change.resets)
        self._db.execute("UPDATE place SET version = ?", (change.version,))

    def _enter(self, name: str) -> None:
        self._db.execute("DELETE FROM entries")
        self._db.execute("INSERT INTO entries VALUES (?)", (name,))

    def _resets(self, version: int, streams: Sequence[str]) -> dict[str, int]:
        """When streams, which are there as of a version, were reset last."""
        found: dict[str, int | None] = {}
        made = {name: self.since("stream", name, version) for name in streams}
        for name, reset, since in self._db.execute(
            "SELECT stream, reset, since FROM resets WHERE since <= ? ORDER BY since", (version,)
        ):
            if since > made.get(name, version):
                found[name] = reset
        return {name: reset for name, reset in found.items() if reset is not None}

    def load(self, version: int | None = None) -> Catalog:
        """The catalog as of a version; the last one without."""
        version = self.version() if version is None else version
        found: list[tuple[str, str, str | None, bytes | None, str, int]] = self._db.execute(
            "SELECT kind, statement, columns, rows, name, since FROM definitions"
            " WHERE since <= ? AND (until IS NULL OR until > ?) ORDER BY since, rowid",
            (version, version),
        ).fetchall()
        catalog = self._with(Catalog(), found)
        revisions = {name: since for kind, *_, name, since in found if kind == "table"}
        streams = [name for kind, *_, name, _ in found if kind == "stream"]
        revisions |= self._resets(version, streams)
        return replace(catalog, version=version, revisions=revisions)

    def _with(
        self,
        catalog: Catalog,
        found: Sequence[tuple[str, str, str | None, bytes | None, str, int]],
    ) -> Catalog:
        """A catalog with definitions more."""
        order = {kind: i for i, kind in enumerate(STORES)}
        with within(NONE):  # they were accepted, whatever the limits are by now
            for _, text, columns, rows, _, _ in sorted(found, key=lambda row: order[row[0]]):
                statement = parse_one(text)
                if not isinstance(statement, Change):
                    raise InternalError(f"the catalog holds what changes nothing: {text}")
                catalog = apply(catalog, statement, text, _stored(columns, rows))
                if rows is not None and isinstance(statement, CreateTable):
                    held = TableRows(pa.ipc.open_stream(rows).read_all())
                    catalog = catalog.with_rows(statement.name.text, held)
        return catalog

    def versions(self, wanted: Sequence[int]) -> Iterator[Catalog]:
        """The catalog as of some versions, in their order; each is made of the one before."""
        catalog: Catalog | None = None
        for version in wanted:
            catalog = self.load(version) if catalog is None else self.after(catalog, version)
            yield catalog

    def after(self, before: Catalog, version: int) -> Catalog:
        """A later version of a catalog, by what has ended and begun since."""
        catalog, first = before, before.version
        ended: list[tuple[str, str]] = self._db.execute(
            "SELECT kind, name FROM definitions WHERE since <= ? AND until > ? AND until <= ?",
            (first, first, version),
        ).fetchall()
        for kind, name in ended:
            catalog = catalog.remove(kind, name)
        begun = self._db.execute(
            "SELECT kind, statement, columns, rows, name, since FROM definitions"
            " WHERE since > ? AND since <= ? AND (until IS NULL OR until > ?)"
            " ORDER BY since, rowid",
            (first, version, version),
        ).fetchall()
        revisions = dict(before.revisions)
        for kind, name in ended:
            if kind in ("table", "stream"):
                revisions.pop(name, None)
        catalog = self._with(catalog, begun)
        revisions |= {name: since for kind, *_, name, since in begun if kind == "table"}
        streams = [
            name
            for (name,) in self._db.execute(
                "SELECT name FROM definitions WHERE kind = 'stream'"
                " AND since <= ? AND (until IS NULL OR until > ?)",
                (version, version),
            )
        ]
        for name in streams:
            revisions.pop(name, None)
        revisions |= self._resets(version, streams)
        return replace(catalog, version=version, revisions=revisions)


def _changed(
    kind: str, before: Catalog, after: Catalog
) -> tuple[list[tuple[str, str, int]], list[Definition]]:
    """The definitions of a kind that end and begin."""
    ended, begun = after.store_of(kind).since(before.store_of(kind))
    if kind == "table":
        again = [
            name
            for name, rows in after.contents.items()
            if name in before.tables and before.contents[name] is not rows
        ]
        ended += [name for name in again if name not in ended]
        begun += [name for name in again if name not in begun]
    version = after.version
    return [(kind, name, version) for name in ended], [
        (kind, name, after.text_of(kind, name), *_packed(kind, name, after), version, None)
        for name in begun
    ]


def _reset(before: Catalog, after: Catalog) -> list[tuple[str, int | None, int]]:
    """Streams that begin anew; or do so no longer, because that could not be made effective."""
    if before.revisions is after.revisions:
        return []
    old, new = before.revisions, after.revisions
    return [
        (name, new.get(name), after.version)
        for name in before.streams
        if name in after.streams and old.get(name) != new.get(name)
    ]


def _packed(kind: str, name: str, catalog: Catalog) -> tuple[str | None, bytes | None]:
    """The columns and the rows of a table, as they are kept; nothing of other kinds."""
    if kind != "table":
        return None, None
    return _written(catalog.tables[name].columns, catalog.contents[name])


def _written(columns: Sequence[Column], rows: TableRows) -> tuple[str, bytes]:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.arrow.schema) as writer:
        writer.write_table(rows.arrow)
    text = json.dumps([[column.name, column.type.value] for column in columns])
    return text, out.getvalue().to_pybytes()


def _stored(columns: str | None, rows: bytes | None) -> Load:
    def load(path: str, _: tuple[Column, ...]) -> tuple[tuple[Column, ...], TableRows]:
        if columns is None or rows is None:
            raise InternalError(f"the rows of '{path}' are not in the catalog")
        kept = tuple(Column(name, Type(kind)) for name, kind in json.loads(columns))
        return kept, TableRows(pa.ipc.open_stream(rows).read_all())

    return load
