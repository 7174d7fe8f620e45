"""The catalog as cells get it: once as a whole, and from then on what has changed.

A catalog of 100,000 queries is large, and most ticks change nothing of it. The driver knows which
versions each cell holds, and sends the way from one of them, or the whole to a cell that has none.
The rows of tables are in files of the storage.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from place.engine.following import TableOf
from place.plan.catalog import Catalog, CatalogChange, fold
from place.runtime.durable.lease import Lease
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Storage, digest


@dataclass(frozen=True)
class Update:
    """A version of the catalog for a cell: a change of a version that it holds, or a whole one."""

    version: int
    content: bytes
    """A pickled Catalog or CatalogChange: it is made once, for all cells."""

    def applied(self, held: Mapping[int, Catalog]) -> Catalog:
        """The catalog, without the texts of statements and the rows of tables."""
        made: Catalog | CatalogChange = pickle.loads(self.content)
        return made if isinstance(made, Catalog) else held[made.before].after(made)


class Catalogs:
    """The versions that cells may have to know: those of the log, and that of now."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._shared: dict[int, Catalog] = {}
        self._files: dict[int, set[str]] = {}
        """The files of the tables of each version."""
        self._packed: dict[tuple[int | None, int], Update] = {}
        """Updates by the version that they begin with (None: whole ones) and lead to."""

    def __contains__(self, version: int) -> bool:
        return version in self._shared

    def __getitem__(self, version: int) -> Catalog:
        return self._shared[version]

    def share(self, catalog: Catalog) -> None:
        """Let cells know a catalog."""
        version = catalog.version
        if version not in self._shared:
            self._write_tables(catalog)
            self._shared[version] = replace(catalog, contents={}, texts={})

    def updates(self, held: Collection[int], *wanted: int) -> list[Update]:
        """What a cell that holds some versions has to be sent to know the wanted ones."""
        known, sent = set(held) & self._shared.keys(), []
        for version in wanted:
            if version in self._shared and version not in known:
                sent.append(self._update(max(known, default=None), version))
                known.add(version)
        return sent

    def _update(self, before: int | None, version: int) -> Update:
        found = self._packed.get((before, version))
        if found is None:
            catalog = self._shared[version]
            made = catalog if before is None else catalog.since(self._shared[before])
            found = Update(version, pickle.dumps(made, pickle.HIGHEST_PROTOCOL))
            if before is not None:  # a whole one is large, and seldom needed again
                self._packed[before, version] = found
        return found

    def keep(self, needed: Collection[int]) -> None:
        """Let go of versions that are not needed, and of the rows of their tables."""
        if len(self._shared) <= len(needed) and self._shared.keys() <= set(needed):
            return
        self._shared = {v: catalog for v, catalog in self._shared.items() if v in needed}
        self._packed = {k: u for k, u in self._packed.items() if k[1] in needed}
        self._files = {version: self._files[version] for version in self._shared}
        named = {name for names in self._files.values() for name in names}
        for name in [n for n, _ in self._storage.list(_directory(self._storage)) if n not in named]:
            self._storage.remove(name)

    def _write_tables(self, catalog: Catalog) -> None:
        known = {name for names in self._files.values() for name in names}
        names = self._files[catalog.version] = set()
        for table in catalog.tables.values():
            name = table_file(self._storage, catalog, table.name)
            if name not in known and not self._storage.exists(name):
                rows = catalog.arrow_of(table.name)
                self._storage.write(name, partial(write_tables, tables={"rows": rows}))
            names.add(name)


def table_file(storage: Storage, catalog: Catalog, name: str) -> str:
    """The file that holds the rows of a table."""
    file = f"{digest(fold(name))}-{catalog.revisions[fold(name)]}.arrow"
    return f"{_directory(storage)}/{file}"


def _directory(storage: Storage) -> str:
    """Where the rows of tables are. Each epoch has its own: two processes that both believe to hold
    a storage may give the same version of a table other rows."""
    return f"tables/{storage.epoch}" if storage.epoch else "tables"


def sweep_tables(storage: Storage, lease: Lease) -> None:
    """Remove the rows of tables of earlier epochs: they are in the catalog, and written again."""
    names = [name for name, _ in storage.list("tables")]
    lease.confirm()
    for name in names:
        if not name.startswith(f"{_directory(storage)}/"):
            storage.remove(name)


def read_tables(storage: Storage, catalog: Catalog) -> TableOf:
    """The rows of a catalog's tables, read when they are asked for."""

    def table_of(name: str) -> pa.Table:
        return load_pack(storage, table_file(storage, catalog, name)).tables["rows"]

    return table_of
