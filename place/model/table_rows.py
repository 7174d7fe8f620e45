"""The rows of a table as Arrow: from the file to the cell they are never anything else.

Only who computes answers from their definition, or shows rows to people, asks for them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import pyarrow as pa

from place.model.schema import Column
from place.model.segment import ARROW
from place.model.types import Row


class TableRows:
    """Rows in the types of a table's columns, which are called c0, c1 and so on."""

    def __init__(self, arrow: pa.Table) -> None:
        self.arrow = arrow

    @staticmethod
    def of_arrays(arrays: Sequence[pa.Array | pa.ChunkedArray]) -> TableRows:
        """Columns that are of the right types already."""
        return TableRows(pa.table(list(arrays), names=[f"c{i}" for i in range(len(arrays))]))

    @staticmethod
    def of_rows(columns: Sequence[Column], rows: Iterable[Row]) -> TableRows:
        """Rows of values that fit the columns.

        >>> from place.model.types import Type
        >>> TableRows.of_rows([Column("id", Type.BIGINT)], [(1,), (2,)]).tuples()
        ((1,), (2,))
        """
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        return TableRows.of_arrays(
            [pa.array(v, ARROW[c.type]) for v, c in zip(values, columns, strict=True)]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableRows) and bool(self.arrow.equals(other.arrow))

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def tuples(self) -> tuple[Row, ...]:
        """The rows one by one."""
        return self._tuples

    @cached_property
    def _tuples(self) -> tuple[Row, ...]:
        return tuple(zip(*(column.to_pylist() for column in self.arrow.columns), strict=True))
