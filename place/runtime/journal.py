"""A journal of all that entered a runtime, in order: readings, advances, catalog versions.

The reference keeps no state that it could not compute again, so its journal is all that it needs
to be started again from where it was stopped.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from place.errors import ConfigurationError
from place.model.reading import Advance, Input, Reading

FILE = "journal.sqlite"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS journal (
  position INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  stream TEXT,
  time INTEGER NOT NULL,
  message TEXT
);
"""


class Journal:
    """Keeps the journal in `journal.sqlite` of a directory, or in memory without one."""

    def __init__(self, home: Path | None = None) -> None:
        place = str(home / FILE) if home is not None else ":memory:"
        try:
            self._db = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise ConfigurationError(f"{place} is not a journal: {error}") from None

    def close(self) -> None:
        self._db.close()

    def append_version(self, version: int) -> None:
        """The catalog became this version here."""
        self._db.execute("INSERT INTO journal (kind, time) VALUES ('version', ?)", (version,))

    def append(self, inputs: list[Input]) -> None:
        """Readings and advances, all of them or none."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                "INSERT INTO journal (kind, stream, time, message) VALUES (?, ?, ?, ?)",
                [_entry(item) for item in inputs],
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._db.execute("ROLLBACK")
            raise ConfigurationError(f"the journal cannot be written: {error}") from None

    def entries(self) -> Iterator[int | Input]:
        """All entries in order; a catalog version is an int."""
        rows = self._db.execute("SELECT kind, stream, time, message FROM journal ORDER BY position")
        for kind, stream, time, message in rows.fetchall():
            if kind == "version":
                yield int(time)
            elif kind == "advance":
                yield Advance(time, stream)
            else:
                key, row = json.loads(message)
                yield Reading(stream, key, time, None if row is None else tuple(row))


def replay(
    journal: Journal,
    become: Callable[[int], object],
    take: Callable[[list[Input]], object],
) -> None:
    """Let a runtime live through its journal again: versions of the catalog, and the inputs."""
    pending: list[Input] = []
    for entry in journal.entries():
        if isinstance(entry, int):
            take(pending)
            pending = []
            become(entry)
        else:
            pending.append(entry)
    take(pending)


def _entry(item: Input) -> tuple[str, str | None, int, str | None]:
    if isinstance(item, Advance):
        return "advance", item.stream, item.time, None
    return "reading", item.stream, item.time, json.dumps([item.key, item.row])
