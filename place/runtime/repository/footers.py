"""The footers of files, kept in memory: they never change, and each question needs them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from place.runtime.durable.storage import Storage
from place.runtime.repository.delta import RepositoryFault
from place.runtime.repository.layout import Layout
from place.runtime.repository.parquet import GroupIndex, Wanted, chosen_groups, read_file

AT_ONCE = 4
"""Files that are read at the same time."""
MOST = 4096
"""Footers that are kept."""


class Footers:
    """Reads files of a storage, with what is known of their row groups."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[str, GroupIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="place-archive")

    def read(
        self, layout: Layout, name: str, wanted: Wanted, *, alone: bool = True
    ) -> tuple[pa.Table, int]:
        """The rows of a file that may be wanted, and the bytes that were read."""
        with opened(self._storage, name) as source:
            index = self._index(layout, name, source)
            return read_file(source, index, layout, wanted, alone=alone)

    def chosen(self, layout: Layout, name: str, wanted: Wanted) -> tuple[list[int], GroupIndex]:
        """The row groups of a file that may hold what is wanted, and what is known of them."""
        with opened(self._storage, name) as source:
            index = self._index(layout, name, source)
            return chosen_groups(source, index, layout, wanted)[0], index

    def read_all(
        self, layout: Layout, names: Sequence[str], wanted: Wanted
    ) -> list[tuple[pa.Table, int]]:
        """The same of several files, some at the same time."""
        if len(names) < 2:
            return [self.read(layout, name, wanted) for name in names]
        return list(
            self._readers.map(lambda name: self.read(layout, name, wanted, alone=False), names)
        )

    def objects(self, layout: Layout, name: str) -> int:
        """How many rows are valid at the end of an interval: its last row groups."""
        with self._storage.open_lazily(name) as source:
            return self._index(layout, name, source).open_rows()

    def _index(self, layout: Layout, name: str, source: pa.NativeFile) -> GroupIndex:
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
                return found
        made = GroupIndex(layout, pq.read_metadata(source))
        source.seek(0)
        with self._lock:
            self._kept[name] = made
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return made


@contextmanager
def opened(storage: Storage, name: str) -> Iterator[pa.NativeFile]:
    """A file of the repository, which is read in parts; a RepositoryFault if that fails."""
    try:
        with storage.open_lazily(name) as source:
            yield source
    except FileNotFoundError:
        raise RepositoryFault(f"{name} is missing", hint=_HINT) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise RepositoryFault(f"{name} cannot be read: {error}", hint=_HINT) from None


_HINT = "restore it from a copy: times that need it cannot be asked about"
