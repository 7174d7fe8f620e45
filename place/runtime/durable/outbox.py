"""Files of deltas: by columns, those of queries whose rows have the same types together.

Within each such piece deltas are in the order of their instants. `deltas.py` reads the files of a
tick and puts their pieces in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.engine.changes import Change
from place.model.segment import ARROW
from place.model.types import Type
from place.plan.query import Query
from place.runtime.durable.manifest import Posted
from place.runtime.durable.pack import Pack, load_pack, write_tables
from place.runtime.durable.storage import Storage

QUERY, SIGN, INSTANT = "query", "sign", "instant"
"""The first columns of every table; the row's columns follow."""


_FEWEST = 4
"""A delta has at least so many bytes."""
MANY = 64
"""More parts of a column of texts than these are spelled out and encoded again."""


@dataclass(frozen=True)
class Piece:
    """Deltas of queries whose rows have the same types, in the order of their positions."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    table: pa.Table

    @property
    def codes(self) -> pa.Array:
        """The number of each delta's query among the names."""
        return pc.run_end_decode(self.table.column(QUERY).combine_chunks())

    @property
    def queries(self) -> pa.Array:
        """The name of each delta's query."""
        return pa.DictionaryArray.from_arrays(self.codes, pa.array(self.names, pa.string()))

    @property
    def signs(self) -> pa.Array:
        return pc.run_end_decode(self.table.column(SIGN).combine_chunks())

    @property
    def instants(self) -> pa.Array:
        return pc.run_end_decode(self.table.column(INSTANT).combine_chunks())

    @property
    def columns(self) -> list[pa.Array]:
        """The columns of the rows."""
        return [column.combine_chunks() for column in self.table.columns[3:]]


def pieces_of(changes: Sequence[Change]) -> list[Piece]:
    """Changes by the types of their rows."""
    groups: dict[tuple[Type, ...], list[Change]] = {}
    for change in changes:
        if len(change):
            groups.setdefault(change.queries[0].types, []).append(change)
    pieces = []
    for types, group in groups.items():
        group.sort(key=lambda change: change.sign)  # so that there are few runs of one sign
        numbers: dict[str, int] = {}
        for change in group:
            for query in change.queries:
                numbers.setdefault(query.name, len(numbers))
        pieces.append(Piece(tuple(numbers), types, _table(group, types, numbers)))
    return pieces


def post(
    storage: Storage, name: str, changes: Sequence[Change], small: int
) -> tuple[Posted, bytes | None]:
    """Write changes to a file, or pack them if they are small: the pack has no name yet."""
    out = pa.BufferOutputStream()
    count = sum(map(len, changes))
    if count <= small // _FEWEST:
        write_changes(out, changes)
        if out.tell() <= small:
            packed: bytes = out.getvalue().to_pybytes()
            return Posted("", count, len(packed)), packed
    return Posted(name, count, write_outbox(storage, name, changes)), None


def write_outbox(
    storage: Storage, name: str, changes: Sequence[Change], *, lasts: bool = True
) -> int:
    """Write changes to a file; its size. One that does not last is for those who read it now."""
    return storage.write(name, lambda out: write_changes(out, changes), lasts=lasts)


def write_changes(out: pa.NativeFile, changes: Sequence[Change]) -> None:
    """Write changes as a pack."""
    tables: dict[str, pa.Table] = {}
    facts: dict[str, dict[str, list[str]]] = {}
    for number, piece in enumerate(pieces_of(changes)):
        tables[str(number)] = piece.table
        types = [kind.value for kind in piece.types]
        facts[str(number)] = {"names": list(piece.names), "types": types}
    write_tables(out, tables, {"pieces": facts})


def _table(group: Sequence[Change], types: Sequence[Type], numbers: Mapping[str, int]) -> pa.Table:
    """Changes one after the other, by whole columns: there may be many of a few rows."""
    codes = [_runs(_codes_of(change, numbers), len(change)) for change in group]
    signs = [_runs(change.sign, len(change)) for change in group]
    instants = [_runs(change.instants, len(change)) for change in group]
    columns = [_column([c.columns[i] for c in group], kind) for i, kind in enumerate(types)]
    moments = np.concatenate([values for values, _ in instants])
    most = max(len(numbers), sum(map(len, group)))
    short = pa.int16() if most < 1 << 15 else pa.int32()
    kinds = (short, pa.int8(), pa.int64())
    if (moments[1:] >= moments[:-1]).all():
        heads = [
            pa.RunEndEncodedArray.from_arrays(*map(pa.array, _ends(runs), (short, kind)))
            for runs, kind in zip((codes, signs, instants), kinds, strict=True)
        ]
    else:  # who applies them in order never misses a row
        whole = [
            np.concatenate([np.repeat(values, lengths) for values, lengths in runs])
            for runs in (codes, signs, instants)
        ]
        order = np.argsort(whole[-1], kind="stable")
        columns = [column.take(pa.array(order)) for column in columns]
        heads = [
            pc.run_end_encode(pa.array(head[order], kind), run_end_type=short)
            for head, kind in zip(whole, kinds, strict=True)
        ]
    names = [QUERY, SIGN, INSTANT, *(f"c{i}" for i in range(len(types)))]
    return pa.Table.from_arrays([*heads, *columns], names=names)


def _codes_of(change: Change, numbers: Mapping[str, int]) -> int | NDArray[Any]:
    """The number of the query of each row, or of all."""
    mine = np.array([numbers[query.name] for query in change.queries], np.int32)
    return int(mine[0]) if change.owners is None else mine[change.owners]


def _runs(values: int | NDArray[Any], count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The values of runs of equal ones, and the lengths of the runs."""
    if isinstance(values, int):
        return np.array([values]), np.array([count])
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[starts], np.diff(starts, append=count)


def _ends(
    runs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where runs end that follow one another, and their values; neighbours of one value are one."""
    values = np.concatenate([some for some, _ in runs])
    ends = np.cumsum(np.concatenate([lengths for _, lengths in runs]))
    last = np.append(values[1:] != values[:-1], True)
    return ends[last], values[last]


def _column(parts: Sequence[pa.Array], kind: Type) -> pa.Array:
    """The parts of a column as one; texts by one dictionary."""
    if kind is not Type.STRING:
        wanted = ARROW[kind]
        return pa.concat_arrays([p if p.type == wanted else p.cast(wanted) for p in parts])
    if len(parts) > MANY:  # each has a dictionary of its own, which may be large
        texts = [p.dictionary_decode() if pa.types.is_dictionary(p.type) else p for p in parts]
        return pa.concat_arrays(texts).dictionary_encode()
    coded = [p if pa.types.is_dictionary(p.type) else p.dictionary_encode() for p in parts]
    whole = pa.chunked_array(coded).unify_dictionaries().combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def read_outbox(storage: Storage, name: str) -> list[Piece]:
    """The pieces of an outbox file."""
    return pieces_in(load_pack(storage, name))


def pieces_in(pack: Pack) -> list[Piece]:
    """The pieces of a pack of changes."""
    tables, facts = pack
    pieces = []
    for number, about in facts["pieces"].items():
        types = tuple(Type(kind) for kind in about["types"])
        pieces.append(Piece(tuple(about["names"]), types, tables[number]))
    return pieces


def changes_of(piece: Piece, named: Callable[[str], Query]) -> list[Change]:
    """The changes that a piece was written from, not settled."""
    asked = tuple(map(named, piece.names))
    codes, signs = (column.to_numpy() for column in (piece.codes, piece.signs))
    instants = piece.instants.to_numpy()
    changes = []
    for sign in (-1, 1):
        chosen = np.flatnonzero(signs == sign)
        if len(chosen):
            columns = tuple(column.take(pa.array(chosen)) for column in piece.columns)
            changes.append(Change(asked, sign, instants[chosen], columns, False, codes[chosen]))
    return changes


def rows_as_json(piece: Piece) -> pa.Array:
    """The rows of a piece as JSON arrays, for those who read them as text."""
    parts: list[pa.Array] = []
    for column, kind in zip(piece.columns, piece.types, strict=True):
        if kind is Type.STRING:
            texts = [json.dumps(text) for text in column.dictionary.to_pylist()]
            written = pa.array(texts, pa.string()).take(column.indices)
        elif kind is Type.DOUBLE:
            written = pa.array([repr(v) if v is not None else None for v in column.to_pylist()])
            written = written.cast(pa.string())
        else:
            written = column.cast(pa.string())
        parts.append(written.fill_null("null"))
    joined = pc.binary_join_element_wise(*parts, ", ")
    return pc.binary_join_element_wise("[", joined, "]", "")
