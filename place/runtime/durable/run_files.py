"""The files of the disk stores of one cell, in a storage.

A file has the blocks of a run one after the other, each with its checksums. It is durable before a
state names it, and is removed when no state does: what is retired is needed by the states that were
saved before, until the next one is. Whoever opens a home removes what a killed process has left.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Collection, Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa

from place.engine.checkpoint import stored_files
from place.kernels.arrays import Longs
from place.runtime.durable.pack import load_pack, write_tables
from place.runtime.durable.storage import Damaged, Storage, part_of

DIRECTORY = "store"
ROWS = "rows"


class RunFiles:
    """The files of one cell; without a storage, which outlives the process, in a directory that
    does not."""

    def __init__(self, storage: Storage | None, cell: str) -> None:
        self._given = storage
        self._cell = cell
        self._retired: list[str] = []
        self._turning: list[str] = []
        self._taken: list[list[str]] = []
        """What was retired when each of the last states was taken."""

    @cached_property
    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="place-store-")

    @cached_property
    def _storage(self) -> Storage:
        return Storage(self._scratch.name) if self._given is None else self._given

    def write(self, blocks: Iterable[pa.Table]) -> tuple[str, Longs]:
        """Write a new file, durable when this returns: its name, and for each block its first byte
        and its size."""
        if self._given is None:
            for retired in self.retired():
                self._storage.remove(retired)
        name = f"{DIRECTORY}/{self._cell}/{uuid.uuid4().hex}.arrow"
        places: list[tuple[int, int]] = []

        def fill(out: pa.NativeFile) -> None:
            for block in blocks:
                first = out.tell()
                write_tables(out, {ROWS: block.combine_chunks()})
                places.append((first, out.tell() - first))

        self._storage.write(name, fill, lasts=self._given is not None)
        return name, np.array(places, np.int64).reshape(-1, 2)

    def read(self, name: str, first: int, size: int) -> pa.Table:
        """A block of a file."""
        try:
            return load_pack(self._storage, part_of(name, first, size)).tables[ROWS]
        except FileNotFoundError:
            raise Damaged(f"{name} is missing, and has objects of the disk store") from None

    def retire(self, name: str) -> None:
        """This file is needed no more, but by states that were saved while it was."""
        self._retired.append(name)

    def keep(self, names: Collection[str]) -> None:
        """These files are needed again: a worker goes back to a state that names them."""
        self._retired = [name for name in self._retired if name not in names]

    def retired(self) -> list[str]:
        """The files that no state needs that is taken from now on; they are told once."""
        found, self._retired = self._retired, []
        return found

    def turn(self) -> None:
        """A state is taken: it needs nothing of what is retired by now, but those before it do."""
        self._turning += self.retired()

    def passed(self) -> None:
        """The state that was taken last is written, and will be committed. Until then the two
        before it are kept, and the ones before those are not."""
        self._taken.append(self._turning)
        self._turning = []
        while len(self._taken) > 2:
            for name in self._taken.pop(0):
                self._storage.remove(name)

    def sweep(self, named: Collection[str], states: Iterable[str] = ()) -> None:
        """Remove all files of the cell that neither its state names nor one of those in these
        files: what a process has left that was ended."""
        needed = set(named)
        for state in states:
            with contextlib.suppress(FileNotFoundError, Damaged):
                needed |= stored_files(load_pack(self._storage, state).tables)
        for name, _ in list(self._storage.list(f"{DIRECTORY}/{self._cell}")):
            if name not in needed:
                self._storage.remove(name)
