"""The statements of a storage that is not a home directory, so that another machine has them.

Each version of the catalog is a file `catalog/<version>-<base>-<id>.arrow`, which is written before
the version takes effect. It holds what has changed and the name of the file before it, back to one,
of the version `base`, that holds all. The manifest of a tick names the last one: so a version is
durable exactly when its tick is committed, and what a process has left that was taken over is never
looked at. After some hundred versions one holds all again, and those before it can go.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from place.errors import ConfigurationError
from place.runtime.durable.lease import Lease
from place.runtime.durable.manifest import Manifest
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Storage
from place.runtime.store import CatalogStore, StoredChange

DIRECTORY = "catalog"
MOST = 500
"""So many versions after one that holds all, the next one does."""
_TABLES: dict[str, pa.Schema] = {
    "ended": pa.schema([("kind", pa.string()), ("name", pa.string()), ("until", pa.int64())]),
    "begun": pa.schema(
        [
            ("kind", pa.string()),
            ("name", pa.string()),
            ("statement", pa.large_string()),
            ("columns", pa.large_string()),
            ("rows", pa.large_binary()),
            ("since", pa.int64()),
            ("until", pa.int64()),
        ]
    ),
    "resets": pa.schema([("stream", pa.string()), ("reset", pa.int64()), ("since", pa.int64())]),
}


class StatementLog:
    """The changes of the catalog in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def append(self, after: str, change: StoredChange, whole: Callable[[], StoredChange]) -> str:
        """Write a change that comes after an entry, or all that has changed so far; its name."""
        base = _base_of(after) if after else change.version
        if not after or change.version - base >= MOST:
            base, after, change = change.version, "", whole()
        tables = {name: _table(schema, getattr(change, name)) for name, schema in _TABLES.items()}
        facts = {"version": change.version, "after": after}
        unique = uuid.uuid4().hex[:12]
        name = f"{DIRECTORY}/{change.version:012d}-{base:012d}-{unique}.arrow"
        self._storage.write(name, lambda out: write_tables(out, tables, facts))
        return name

    def changes(self, entry: str) -> list[StoredChange]:
        """All changes up to an entry, in their order."""
        found: list[StoredChange] = []
        while entry:
            tables, facts = load_pack(self._storage, entry)
            rows = {name: _rows(table) for name, table in tables.items()}
            found.append(StoredChange(facts["version"], **rows))
            entry = facts["after"]
        return found[::-1]

    def sweep(self, entry: str, lease: Lease) -> None:
        """Remove what is not needed to have an entry again."""
        names = [f"{DIRECTORY}/{name}" for name in self._storage.names(DIRECTORY)]
        lease.confirm()  # so none of them is of somebody who has taken over
        for name in names:
            if name != entry and not _base_of(entry) <= _version_of(name) < _version_of(entry):
                self._storage.remove(name)


def follow(store: CatalogStore, storage: Storage, last: Manifest | None, lease: Lease) -> None:
    """Let a catalog be that of the last tick of a storage, and keep its changes there."""
    log, entry = StatementLog(storage), last.statements if last is not None else ""
    if entry:
        if store.entry() != entry:
            store.become(log.changes(entry), entry)
        log.sweep(entry, lease)
    elif last is not None and last.catalog > store.version():
        raise ConfigurationError(
            f"the statements of {storage} are neither there nor in this home directory",
            hint="restore catalog.sqlite in the home directory that it was made with",
        )
    elif last is not None and last.catalog:  # of a version of PLACE that kept them only there
        store.enter_whole(log)
    else:
        store.become([], "")
    store.log = log


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _version_of(name: str) -> int:
    return int(name.rpartition("/")[2].split("-")[0])


def _base_of(name: str) -> int:
    return int(name.rpartition("/")[2].split("-")[1])
