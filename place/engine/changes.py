"""Changes: deltas by columns, as they come out of a cell, and their consolidation.

A change holds rows that all joined or all left, of queries whose rows are made together. Rows of
one answer may come from several cells, and a row that leaves in one place and comes in another is
no delta; so changes are settled above the cells, but for those whose rows name their object and
region.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.kernels.arrays import Longs
from place.model.delta import FEW, Delta, Sign, difference
from place.model.delta_columns import DeltaColumns, LazyDeltas
from place.model.segment import ARROW
from place.plan.query import Query


@dataclass(frozen=True)
class Change:
    """Rows of queries, by columns, that all joined (+1) or all left (−1) their answers.

    `instants` has one instant for all rows, or one for each. `is_settled` says that no other change
    can hold the same row with the opposite sign. `owners` says for each row which of `queries` it
    belongs to, by its position there; it is None if there is only one query. All queries have rows
    of the same types.
    """

    queries: tuple[Query, ...]
    sign: Sign
    instants: int | Longs
    columns: tuple[pa.Array, ...]
    is_settled: bool
    owners: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def deltas(self) -> list[Delta]:
        """The same, one by one."""
        rows = zip(*(column.to_pylist() for column in self.columns), strict=True)
        instants: Iterable[int] = (
            repeat(self.instants, len(self))
            if isinstance(self.instants, int)
            else self.instants.tolist()
        )
        names: Iterable[str] = (
            repeat(self.queries[0].name, len(self))
            if self.owners is None
            else (self.queries[owner].name for owner in self.owners.tolist())
        )
        return [
            Delta(name, self.sign, row, instant)
            for name, row, instant in zip(names, rows, instants, strict=True)
        ]

    def take(self, rows: Longs) -> Change:
        """Some of the rows."""
        return replace(
            self,
            instants=self.instants if isinstance(self.instants, int) else self.instants[rows],
            columns=tuple(column.take(pa.array(rows)) for column in self.columns),
            owners=None if self.owners is None else self.owners[rows],
        )

    def by_query(self) -> list[Change]:
        """The same, each change of one query."""
        if self.owners is None:
            return [self]
        order = np.argsort(self.owners, kind="stable")
        owners = self.owners[order]
        columns = [column.take(pa.array(order)) for column in self.columns]
        at = self.instants if isinstance(self.instants, int) else self.instants[order]
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
        return [
            replace(
                self,
                queries=(self.queries[owners[start]],),
                instants=at if isinstance(at, int) else at[start:end],
                columns=tuple(column.slice(start, end - start) for column in columns),
                owners=None,
            )
            for start, end in pairwise(cuts)
        ]


class ChangedRows(LazyDeltas):
    """The deltas of settled changes, in the order of their instants."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = [change for change in changes if len(change)]

    def __len__(self) -> int:
        return sum(map(len, self._changes))

    def _read(self) -> list[Delta]:
        return _in_order(self._changes)

    def of(self, queries: Collection[str]) -> list[Delta]:
        return _in_order([part for change in self._changes for part in _of(change, queries)])

    def columns(self) -> DeltaColumns | None:
        queries = {(each.name, each.types) for change in self._changes for each in change.queries}
        if len(queries) != 1:
            return None
        signs = [np.full(len(change), change.sign, np.int8) for change in self._changes]
        instants = [
            np.full(len(change), change.instants, np.int64)
            if isinstance(change.instants, int)
            else change.instants
            for change in self._changes
        ]
        values = [
            pa.chunked_array([plain(column) for column in parts]).combine_chunks()
            for parts in zip(*(change.columns for change in self._changes), strict=True)
        ]
        at = np.concatenate(instants)
        order = np.argsort(at, kind="stable")
        rows = pa.array(order)
        return DeltaColumns(
            next(iter(queries))[0],
            pa.array(np.concatenate(signs)[order]),
            pa.array(at[order]),
            tuple(column.take(rows) for column in values),
        )


def _in_order(changes: Sequence[Change]) -> list[Delta]:
    deltas = [delta for change in changes for delta in change.deltas()]
    deltas.sort(key=lambda delta: delta.instant)
    return deltas


def _of(change: Change, queries: Collection[str]) -> list[Change]:
    """The rows of a change that are of some queries."""
    wanted = [owner for owner, query in enumerate(change.queries) if query.name in queries]
    if len(wanted) in (0, len(change.queries)):
        return [change] if wanted else []
    assert change.owners is not None
    return [change.take(np.flatnonzero(np.isin(change.owners, wanted)))]


def settle(changes: Sequence[Change]) -> list[Change]:
    """Cancel rows that leave and join at the same instant; few changes are put in the order of
    their instants. Of queries that tell arrivals only, the rows that still leave are left out.

    The order does not depend on how a cell found its changes, only on which cells they come from.
    """
    settled: list[Change] = []
    groups: dict[str, list[Change]] = {}
    few = sum(map(len, changes)) < FEW
    loose = {query.name for change in changes if not change.is_settled for query in change.queries}
    for change in changes:
        if not len(change):
            continue
        if not few and loose.isdisjoint(query.name for query in change.queries):
            settled.append(change)
            continue
        for part in change.by_query():
            groups.setdefault(part.queries[0].name, []).append(part)
    for group in groups.values():
        if not few and len({change.sign for change in group}) == 1:
            settled += group
        elif sum(map(len, group)) < FEW:
            settled += _settled_few(group)
        else:
            settled += _settled_many(group)
    return [told for change in settled if (told := _told(change)) is not None]


def _told(change: Change) -> Change | None:
    """What is told of a settled change: rows that leave only of queries that do not tell arrivals
    only."""
    if change.sign > 0 or not any(query.arrivals for query in change.queries):
        return change
    if change.owners is None:
        return None
    tells = np.array([not query.arrivals for query in change.queries])
    kept = np.flatnonzero(tells[change.owners])
    if not len(kept):
        return None
    return change.take(kept)


def _settled_few(group: list[Change]) -> list[Change]:
    """By counting rows; negative ones first, in order, as people read them."""
    query = group[0].queries[0]
    by_instant: dict[int, list[Delta]] = {}
    for change in group:
        for delta in change.deltas():
            by_instant.setdefault(delta.instant, []).append(delta)
    deltas: list[Delta] = []
    for instant, found in sorted(by_instant.items()):
        gone = Counter(delta.row for delta in found if delta.sign < 0)
        come = Counter(delta.row for delta in found if delta.sign > 0)
        deltas += difference(query.name, gone, come, instant)
    return from_deltas(query, deltas)


def from_deltas(query: Query, deltas: Sequence[Delta]) -> list[Change]:
    """Deltas of a query as changes, in the same order."""
    changes: list[Change] = []
    start = 0
    for i in range(1, len(deltas) + 1):
        if i == len(deltas) or deltas[i].sign != deltas[start].sign:
            some = deltas[start:i]
            columns = tuple(
                pa.array(values, ARROW[kind])
                for values, kind in zip(
                    zip(*(delta.row for delta in some), strict=True), query.types, strict=True
                )
            )
            instants = np.array([delta.instant for delta in some], np.int64)
            changes.append(Change((query,), some[0].sign, instants, columns, True))
            start = i
    return changes


def _settled_many(group: list[Change]) -> list[Change]:
    """By Arrow: the signs of equal rows at an instant add up."""
    query = group[0].queries[0]
    parts = []
    for change in group:
        size = len(change)
        at = change.instants
        instants = np.full(size, at) if isinstance(at, int) else at
        columns = [plain(column) for column in change.columns]
        signs = np.full(size, change.sign, np.int64)
        names = [*(f"c{i}" for i in range(len(columns))), "instant", "sign"]
        parts.append(pa.table([*columns, pa.array(instants), pa.array(signs)], names=names))
    table = pa.concat_tables(parts)
    keys = table.column_names[:-1]
    sums = table.group_by(keys).aggregate([("sign", "sum")])
    sums = sums.filter(pc.not_equal(sums["sign_sum"], 0))
    sums = sums.sort_by("instant")
    found: list[Change] = []
    for sign in (-1, 1):
        of_sign = sums.filter(pc.equal(pc.sign(sums["sign_sum"]), sign))
        counts = pc.abs(of_sign["sign_sum"]).to_numpy()
        rows = of_sign.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        if rows.num_rows:
            kept = tuple(rows[name].combine_chunks() for name in keys[:-1])
            instants = rows["instant"].to_numpy()
            found.append(Change((query,), sign, instants, kept, True))
    return found


def plain(column: pa.Array) -> pa.Array:
    """A column with its texts spelled out."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
