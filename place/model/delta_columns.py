"""Deltas that stay columns until somebody reads them one by one.

A push of a million readings may cause millions of deltas. Making a Python object of each takes many
times what the engine needs for all of them, and whoever goes on with a table, or with their number,
needs none. So a runtime gives out columns, and the rows are made when they are looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, overload

import pyarrow as pa

from place.model.delta import Delta


class DeltaColumns(NamedTuple):
    """Deltas of one query in their order: sign, instant (microseconds) and the columns of rows, in
    which no text is encoded."""

    query: str
    signs: pa.Array
    instants: pa.Array
    values: tuple[pa.Array, ...]


class LazyDeltas(Sequence[Delta], ABC):
    """Deltas in the order of their instants, which are made one by one when they are looked at."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _read(self) -> list[Delta]:
        """Make all of them."""

    @abstractmethod
    def of(self, queries: Collection[str]) -> list[Delta]:
        """Those of some queries, made one by one; the others stay as they are."""

    @abstractmethod
    def columns(self) -> DeltaColumns | None:
        """The same by columns, if they are all of one query."""

    @cached_property
    def _made(self) -> list[Delta]:
        return self._read()

    def __iter__(self) -> Iterator[Delta]:
        return iter(self._made)

    @overload
    def __getitem__(self, place: int) -> Delta: ...
    @overload
    def __getitem__(self, place: slice) -> list[Delta]: ...
    def __getitem__(self, place: int | slice) -> Delta | list[Delta]:
        return self._made[place]
