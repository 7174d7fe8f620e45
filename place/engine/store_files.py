"""The files of a disk store, as the engine sees them: whoever runs it says where they are.

A file is written once, as a sequence of blocks, each of which is a table; it is never changed.
Whoever has written it remembers where its blocks are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from place.kernels.arrays import Longs


class StoreFiles(Protocol):
    """Where a cell keeps the files of its disk stores."""

    def write(self, blocks: Iterable[pa.Table]) -> tuple[str, Longs]:
        """Write a new file, durable when this returns: its name, and for each block its first byte
        and its size."""
        ...

    def read(self, name: str, first: int, size: int) -> pa.Table:
        """A block of a file."""
        ...

    def retire(self, name: str) -> None:
        """This file is needed no more, but by states that were saved while it was."""
        ...
