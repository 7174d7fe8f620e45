"""How the driver has readings cut for cells: it knows which objects the queries of columns follow.

Whoever writes segments, a task of Spark or the driver itself, is told by a `Cutting`. Where many
objects are followed, it names a file that holds their keys, which a task reads once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from place.engine.following import Following, TableOf
from place.engine.matrix import Matrix, Place
from place.engine.share import changed_queries
from place.engine.slices import Keys, Told, is_shared
from place.model.schema import Stream
from place.plan.catalog import Catalog
from place.plan.query import Query
from place.runtime.durable.slice_file import Cutting, write_cut, write_keys
from place.runtime.durable.storage import Fill, Storage

MANY_KEYS = 1000
"""With more keys than these, tasks of Spark read them from a file."""


class Slicing:
    """What is followed with the last version of the catalog that is known."""

    def __init__(self, storage: Storage, matrix: Matrix) -> None:
        self._storage = storage
        self._matrix = matrix
        self._catalog = Catalog()
        self._columns = [Following(Place(matrix, 0, c)) for c in range(matrix.columns)]
        self._file: str | None = None
        self.cutting: Cutting | None = None
        """How readings are cut in this process; None while nothing is known, or nothing is cut."""

    def know(self, catalog: Catalog, table_of: TableOf, least: int) -> None:
        """Go over to a version of the catalog."""
        if self._matrix.rows == 1:
            return
        is_new = catalog.version != self._catalog.version
        if not is_new and self.cutting is not None and self.cutting.least == least:
            return
        _, ended, begun = changed_queries(self._catalog, catalog)
        for following in self._columns:
            old, new = (_of_column(some, following.place) for some in (ended, begun))
            change = following.after(old, new, table_of)
            if change:
                following.apply(change)
                self._drop_file()
        self._catalog = catalog
        keys: dict[str, list[Keys]] = {}
        for stream in catalog.streams.values():
            named = [each.named(stream) for each in self._columns]
            if not is_shared(stream) and any(map(len, named)):
                keys[stream.name] = list(named)
        self.cutting = Cutting(self._matrix, catalog.version, least, keys)

    def fill(self, streams: Iterable[Stream], told: Sequence[Told]) -> Fill:
        """What fills a file with what was pushed, cut for the cells."""
        return write_cut(self._storage, self.cutting, streams, told)

    def for_tasks(self) -> Cutting | None:
        """How readings are cut by tasks of Spark."""
        cutting = self.cutting
        if cutting is None:
            return None
        count = sum(len(keys or ()) for columns in cutting.keys.values() for keys in columns)
        if count <= MANY_KEYS:
            return cutting
        if self._file is None:
            self._file = f"segments/followed-{uuid.uuid4().hex[:12]}.arrow"
            write_keys(self._storage, self._file, cutting.keys)
        return Cutting(cutting.matrix, cutting.version, cutting.least, file=self._file)

    def _drop_file(self) -> None:
        if self._file is not None:
            self._storage.remove(self._file)
            self._file = None


def _of_column(queries: list[Query], place: Place) -> list[Query]:
    """The queries that may follow something in a column: of most it is told by their names."""
    return [q for q in queries if q.query_table is not None or place.has_query(q.name)]
