"""Validity: the rows of an answer over a time, each with when it joined and when it left.

They are made of the changes of that time, by columns. Equal rows of a bag cannot be told apart: the
one that joined first is the one that leaves first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.engine.changes import Change
from place.kernels.arrays import Bools, Longs
from place.model.segment import ARROW
from place.plan.query import Query

STILL = np.iinfo(np.int64).max
"""When a row leaves that is still there."""


@dataclass(frozen=True)
class Lasting:
    """Rows by columns, with the instants at which they joined and left."""

    columns: tuple[pa.Array, ...]
    joined: Longs
    left: Longs

    def __len__(self) -> int:
        return len(self.joined)

    def take(self, chosen: Longs | Bools) -> Lasting:
        """Some of the rows."""
        at = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        columns = tuple(column.take(pa.array(at)) for column in self.columns)
        return Lasting(columns, self.joined[at], self.left[at])


def lasting(query: Query, changes: Sequence[Change]) -> Lasting:
    """The rows of one query, from all changes of its answer since it was empty."""
    signs = (-1, 1)
    left, joined = ([change for change in changes if change.sign == sign] for sign in signs)
    out, outs = _joined(query, left)
    into, ins = _joined(query, joined)
    codes = _codes([pa.concat_arrays([a, b]) for a, b in zip(into, out, strict=True)])
    of_in, of_out = codes[: len(ins)], codes[len(ins) :]
    came, went = np.lexsort((ins, of_in)), np.lexsort((outs, of_out))
    of_in, of_out = of_in[came], of_out[went]
    rank = np.arange(len(of_out)) - np.searchsorted(of_out, of_out)
    leaves = np.full(len(ins), STILL)
    leaves[np.searchsorted(of_in, of_out) + rank] = outs[went]
    return Lasting(tuple(c.take(pa.array(came)) for c in into), ins[came], leaves)


def _joined(query: Query, changes: Sequence[Change]) -> tuple[list[pa.Array], Longs]:
    """The rows of changes and their instants."""
    columns = [
        pa.concat_arrays(
            [pa.array([], ARROW[kind]), *(_plain(change.columns[i], kind) for change in changes)]
        )
        for i, kind in enumerate(query.types)
    ]
    instants = [
        np.full(len(change), change.instants)
        if isinstance(change.instants, int)
        else change.instants
        for change in changes
    ]
    return columns, np.concatenate([np.empty(0, np.int64), *instants])


def _plain(column: pa.Array | pa.ChunkedArray, kind: object) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(ARROW[kind])  # type: ignore[index]


def _codes(columns: Sequence[pa.Array]) -> Longs:
    """A number for each row; equal rows have the same."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)  # there are two zeros, which are equal
        encoded = column.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * (len(encoded.dictionary) + 1) + own
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return codes
