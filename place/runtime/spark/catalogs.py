"""The catalog as tasks get it: once as a whole, and from then on what has changed.

A catalog of 100,000 queries is large, and most ticks change nothing of it. A process that has a
version of it in memory goes on from there; any other begins with the whole.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark import Broadcast, SparkContext

from place.plan.catalog import STORES, Catalog, CatalogChange
from place.runtime.durable.pack import write_tables
from place.runtime.durable.storage import Storage
from place.runtime.spark.task import table_file

FEW = 100
"""A change of so many definitions goes with each job; a larger one is sent once, to those who ask
for it."""
MOST_KEPT = 4
"""Versions of catalogs that a process remembers."""

_KEPT: OrderedDict[tuple[str, int], Catalog] = OrderedDict()


@dataclass(frozen=True)
class SharedCatalog:
    """One version: the whole catalog of an earlier one, large changes that were sent since then,
    and a small one that goes with each job."""

    sender: str
    version: int
    first: int
    whole: Broadcast[Catalog]
    sent: tuple[tuple[int, Broadcast[CatalogChange]], ...] = ()
    small: CatalogChange | None = None

    @property
    def value(self) -> Catalog:
        """The catalog, without the texts of statements and the rows of tables."""
        known = _KEPT.get((self.sender, self.version))
        if known is not None:
            return known
        versions = [self.first, *(version for version, _ in self.sent)]
        start = len(versions) - 1
        while start > 0 and (self.sender, versions[start]) not in _KEPT:
            start -= 1
        found = _KEPT.get((self.sender, versions[start]))
        catalog = self.whole.value if found is None else found
        _keep(self.sender, versions[start], catalog)  # the last of all to be forgotten
        for version, change in self.sent[start:]:
            catalog = catalog.after(change.value)
            _keep(self.sender, version, catalog)
        if self.small is not None:
            catalog = catalog.after(self.small)
        _keep(self.sender, self.version, catalog)
        return catalog

    def broadcasts(self) -> dict[int, Any]:
        """All that was sent beside the jobs, by identity."""
        return {id(each): each for each in (self.whole, *(change for _, change in self.sent))}


def _keep(sender: str, version: int, catalog: Catalog) -> None:
    _KEPT[sender, version] = catalog
    _KEPT.move_to_end((sender, version))
    while len(_KEPT) > MOST_KEPT:
        _KEPT.popitem(last=False)


class Catalogs:
    """Sends catalogs to tasks; the rows of their tables go to files of the storage."""

    def __init__(self, context: SparkContext, storage: Storage) -> None:
        self._context = context
        self._storage = storage
        self._sender = uuid.uuid4().hex
        self._shared: dict[int, SharedCatalog] = {}
        self._files: dict[int, set[str]] = {}
        """The files of the tables of each version."""
        self._anchor: tuple[Catalog, SharedCatalog] | None = None
        """The last version that needs no small change, and how it was sent."""
        self._changed = 0
        """How many definitions the large changes since the whole catalog have."""

    def __contains__(self, version: int) -> bool:
        return version in self._shared

    def get(self, version: int, default: SharedCatalog) -> SharedCatalog:
        """A version that was shared and is still needed."""
        return self._shared.get(version, default)

    def share(self, catalog: Catalog, needed: int) -> SharedCatalog:
        """The catalog for tasks; of older versions only `needed` has to be there any longer."""
        version = catalog.version
        if version not in self._shared:
            self._write_tables(catalog)
            self._shared[version] = self._sent(catalog)
            self._forget({version, needed})
        return self._shared[version]

    def _sent(self, catalog: Catalog) -> SharedCatalog:
        slim = replace(catalog, contents={}, texts={})
        if self._anchor is None:
            return self._whole(slim)
        before, shared = self._anchor
        change = slim.since(before)
        if len(change) <= FEW:
            return replace(shared, version=slim.version, small=change)
        self._changed += len(change)
        if self._changed > max(FEW, sum(len(slim.store_of(kind)) for kind in STORES)):
            return self._whole(slim)
        step = (slim.version, self._context.broadcast(change))
        made = replace(shared, version=slim.version, sent=(*shared.sent, step), small=None)
        self._anchor = slim, made
        return made

    def _whole(self, slim: Catalog) -> SharedCatalog:
        whole = self._context.broadcast(slim)
        made = SharedCatalog(self._sender, slim.version, slim.version, whole)
        self._anchor, self._changed = (slim, made), 0
        return made

    def _forget(self, needed: set[int]) -> None:
        """Let go of versions, of what was sent of them, and of the rows of their tables."""
        old = self._shared
        self._shared = {version: shared for version, shared in old.items() if version in needed}
        kept = list(self._shared.values())
        if self._anchor is not None:
            kept.append(self._anchor[1])
        used = {key for shared in kept for key in shared.broadcasts()}
        for shared in old.values():
            for key, sent in shared.broadcasts().items():
                if key not in used:
                    used.add(key)
                    sent.destroy()
        self._files = {version: self._files[version] for version in self._shared}
        named = {name for names in self._files.values() for name in names}
        for name in [n for n, _ in self._storage.list("tables") if n not in named]:
            self._storage.remove(name)

    def _write_tables(self, catalog: Catalog) -> None:
        known = {name for names in self._files.values() for name in names}
        names = self._files[catalog.version] = set()
        for table in catalog.tables.values():
            name = table_file(catalog, table.name)
            if name not in known and not self._storage.exists(name):
                rows = catalog.arrow_of(table.name)
                self._storage.write(name, partial(write_tables, tables={"rows": rows}))
            names.add(name)
