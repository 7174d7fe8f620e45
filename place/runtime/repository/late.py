"""Late readings of a stream, which were in no answer: kept beside its table until they are put in.

They gather in memory, and each round of archiving writes them to a file of its own. The state of
the repository names the files that count, as it names everything else: a file that a round has
written, which was killed before its commit, counts for nothing, and the next one has its readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from place.model.schema import Stream
from place.model.segment import segment_schema
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Storage

LATE = "_late"
"""The directory below that of a table. No reader of Delta looks into one of such a name."""


@dataclass(frozen=True)
class LateFile:
    """A file of late readings: those of the ticks since the file before, up to its own."""

    name: str

    @property
    def tick(self) -> int:
        return int(self._parts[0])

    @property
    def rows(self) -> int:
        return int(self._parts[1])

    @property
    def _parts(self) -> list[str]:
        return self.name.rpartition("/")[2].removesuffix(".arrow").split("_")


class LateReadings:
    """The late readings of one stream, in the order in which they came."""

    def __init__(
        self, storage: Storage, directory: str, stream: Stream, names: Sequence[str] = ()
    ) -> None:
        self._storage, self._directory = storage, f"{directory}/{LATE}"
        self._schema = segment_schema(stream.columns)
        self.files = tuple(LateFile(name) for name in names)
        self.recent: tuple[pa.Table, ...] = ()
        """Those that are in no file yet."""

    def take(self, tables: Sequence[pa.Table]) -> None:
        """More of them have come."""
        self.recent = (*self.recent, *tables)

    def write(self, tick: int, tables: Sequence[pa.Table]) -> list[str]:
        """Write what had come by a tick; the names of all files, for the state of that tick."""
        names = [file.name for file in self.files]
        if tables:
            table = pa.concat_tables(tables)
            name = f"{self._directory}/{tick:012d}_{table.num_rows}.arrow"
            self._storage.replace(name, lambda out: write_tables(out, {LATE: table}))
            names.append(name)
        return names

    def settle(self, names: Sequence[str], written: int) -> None:
        """A round is over: these files count, and so many tables are in them."""
        self.files = tuple(LateFile(name) for name in names)
        self.recent = self.recent[written:]

    def forget(self, tick: int | None) -> list[str]:
        """Files up to a tick count no more, their readings are in the table; their names."""
        done = [f for f in self.files if tick is not None and f.tick <= tick]
        self.files = tuple(file for file in self.files if file not in done)
        return [file.name for file in done]

    def read(self) -> pa.Table:
        """The readings of all files."""
        found = [load_pack(self._storage, file.name).tables[LATE] for file in self.files]
        return pa.concat_tables([self._schema.empty_table(), *found])

    def sweep(self) -> None:
        """Remove files that do not count."""
        held = {file.name for file in self.files}
        for name, _ in list(self._storage.list(self._directory)):
            if name not in held:
                self._storage.remove(name)


def late_files(storage: Storage, directory: str, amended: int | None) -> list[LateFile]:
    """The files of a table's late readings that were not put into it, as the storage has them."""
    names = [n for n, _ in storage.list(f"{directory}/{LATE}") if n.endswith(".arrow")]
    files = [LateFile(name) for name in names]
    return [file for file in files if amended is None or file.tick > amended]
