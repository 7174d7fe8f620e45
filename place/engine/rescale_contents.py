"""What windows, stays, joins and triggers hold in the cells of one matrix, as that of another's.

A reading in a window belongs to the row of its object. A reading that a join holds belongs to any
one row, where its source is spread over rows, and to all of them otherwise. A trigger is whole in
one cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from place.engine.columns import Dictionary
from place.engine.compile import compile_query
from place.engine.join_content import COUNTS, FLOOR
from place.engine.matrix import Place
from place.engine.operator_specs import StreamJoinSpec
from place.engine.slices import rows_of_keys
from place.engine.trigger_content import FACTS as TRIGGER_FACTS
from place.engine.window_elements import ORDINAL, START
from place.kernels.arrays import Longs
from place.plan.query import Query

TIME, KEY = 3, 4
"""The columns of a window's content that put readings in order, after query, end and reading."""


class Held(NamedTuple):
    """What a chain of a cell holds: the names of queries, as the first column counts them."""

    place: Place
    names: Sequence[str]
    table: pa.Table


Contents = list[tuple[list[str], pa.Table]]


def rescaled_contents(held: Sequence[Held], place: Place, queries: Iterable[Query]) -> Contents:
    """What a cell of another matrix holds, from what all cells hold for one timeline."""
    known = {query.name: query for query in queries}
    windows: list[Held] = []
    joins: list[Held] = []
    triggers: list[Held] = []
    stays: list[Held] = []
    for each in held:
        query = known[each.names[0]]
        kind = triggers if query.trigger is not None else joins if query.is_join else windows
        kind = stays if query.counts_stays else kind
        kind.append(Held(each.place, each.names, _plain(each.table)))
    return [
        *_windows(windows, place, known),
        *_joins(joins, place, known),
        *_triggers(triggers, place),
        *_stays(stays, place),
    ]


def _plain(table: pa.Table) -> pa.Table:
    """With texts instead of codes: each cell has codes of its own."""
    fields = [
        pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


# Stays


def _stays(held: Sequence[Held], place: Place) -> Contents:
    """The stays of objects of the cell's row, of the queries of its column."""
    found: Contents = []
    for _, names, table in held:
        owners = table.column(0).to_numpy()
        wanted = np.array([place.has_query(name) for name in names], np.bool_)
        row = rows_of_keys(table.column(1), place.matrix.rows) == place.row
        mine = table.take(pa.array(np.flatnonzero(wanted[owners] & row)))
        for owner, name in enumerate(names):
            part = mine.filter(pa.array(mine.column(0).to_numpy() == owner))
            if part.num_rows:
                nought = pa.array(np.zeros(part.num_rows, np.int64))
                found.append(([name], part.set_column(0, "0", nought)))
    return _of_each_query(found)


def _of_each_query(parts: Contents) -> Contents:
    """One table for each query, of what several cells held of it."""
    tables: dict[str, list[pa.Table]] = {}
    for (name,), table in parts:
        tables.setdefault(name, []).append(table)
    return [([name], pa.concat_tables(some)) for name, some in tables.items()]


# Windows


def _windows(held: Sequence[Held], place: Place, queries: Mapping[str, Query]) -> Contents:
    """The readings of windows of one stream: those of the cell's row."""
    groups: dict[tuple[str, ...], list[tuple[int, Held]]] = {}
    for number, each in enumerate(held):
        kinds = tuple(str(field.type) for field in each.table.schema)
        groups.setdefault(kinds, []).append((number, each))
    found: Contents = []
    for some in groups.values():
        names: list[str] = []
        numbers: dict[str, int] = {}
        parts: list[pa.Table] = []
        cells: list[Longs] = []
        for number, (_, mine, table) in some:
            owners = table.column(0).to_numpy()
            wanted = np.array([_has_window(queries[name], place) for name in mine], np.bool_)
            row = rows_of_keys(table.column(KEY), place.matrix.rows) == place.row
            chosen = np.flatnonzero(wanted[owners] & row)
            for name in mine:
                if name not in numbers:
                    numbers[name] = len(names)
                    names.append(name)
            became = np.array([numbers[name] for name in mine], np.int64)
            part = table.take(pa.array(chosen))
            parts.append(part.set_column(0, "0", pa.array(became[owners[chosen]])))
            cells.append(np.full(len(chosen), number))
        table = _in_order(pa.concat_tables(parts), np.concatenate(cells), names, queries)
        if table.num_rows:
            found.append((names, table))
    return found


def _has_window(query: Query, place: Place) -> bool:
    """Does a cell hold the window of a query? The regions of a query table are in all columns, and
    it does not matter which of them holds a reading that is in one."""
    return place.column == 0 if query.query_table is not None else place.has_query(query.name)


def _in_order(
    table: pa.Table, cells: Longs, names: Sequence[str], queries: Mapping[str, Query]
) -> pa.Table:
    """Readings in the order of times and keys, numbered in it; of windows of rows the last ones."""
    owners, readings, times = (table.column(i).to_numpy() for i in (0, 2, TIME))
    keys = table.column(KEY)
    if pa.types.is_string(keys.type):
        encoded = keys.combine_chunks().dictionary_encode()
        ranks = np.argsort(np.argsort(encoded.dictionary.to_numpy(zero_copy_only=False)))
        ordered = ranks[encoded.indices.to_numpy()] if len(ranks) else np.empty(0, np.int64)
    else:
        ordered = keys.to_numpy()
    is_table = np.array([queries[name].query_table is not None for name in names], np.bool_)
    one = is_table[owners]  # a reading in several regions is one, whichever cells hold it
    cells, readings = np.where(one, 0, cells), np.where(one, 0, readings)
    order = np.lexsort((readings, cells, ordered, times, owners))
    columns = [each[order] for each in (owners, times, ordered, cells, readings)]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.any([each[1:] != each[:-1] for each in columns], axis=0)
    numbers = np.cumsum(fresh)
    kept = np.ones(len(order), np.bool_)
    last = np.zeros(len(names), np.int64)
    last[columns[0]] = numbers  # the last of each, because they are in order
    for owner, name in enumerate(names):
        window = queries[name].window
        if window is not None and window.rows is not None:
            mine = columns[0] == owner
            kept[mine] = numbers[mine] > last[owner] - window.rows
    chosen = np.flatnonzero(kept)
    return table.take(pa.array(order[chosen])).set_column(2, "2", pa.array(numbers[chosen]))


# Joins


def _joins(held: Sequence[Held], place: Place, queries: Mapping[str, Query]) -> Contents:
    """The windows of joins. Queries of one shape share them, whichever columns they were in."""
    shapes: dict[object, dict[int, list[Held]]] = {}
    for each in held:
        shape = compile_query(queries[each.names[0]], Dictionary()).shape
        shapes.setdefault(shape, {}).setdefault(each.place.column, []).append(each)
    found: Contents = []
    for columns in shapes.values():
        content = _join_of(columns, place, queries)
        if content is not None:
            found.append(content)
    return found


def _join_of(
    columns: Mapping[int, Sequence[Held]], place: Place, queries: Mapping[str, Query]
) -> tuple[list[str], pa.Table] | None:
    """What queries of one shape hold in the new cell: the readings of the column that goes back
    furthest, and what each query does not see of them."""
    wholes = {column: _together(cells, queries) for column, cells in columns.items()}
    oldest = {column: _oldest(whole) for column, whole in wholes.items()}
    richest = min(oldest, key=lambda column: (oldest[column], -wholes[column].num_rows))
    whole = wholes[richest]
    names: list[str] = []
    floors: list[int] = []
    for column, cells in columns.items():
        first = cells[0]
        sources = first.table.column(1).to_numpy()
        marks = np.flatnonzero(sources == FLOOR)
        starts = first.table.column(2 + START).to_numpy()
        for at in marks.tolist():
            name = first.names[int(first.table.column(0)[at].as_py())]
            if place.has_query(name):
                names.append(name)
                hidden = starts[at] if column == richest else max(starts[at], oldest[column] - 1)
                floors.append(int(hidden))
    if not names:
        return None
    marks = np.flatnonzero(whole.column(1).to_numpy() == FLOOR)[:1]
    mark = whole.take(pa.array(np.repeat(marks, len(names))))
    mark = mark.set_column(0, "0", pa.array(np.arange(len(names))))
    mark = mark.set_column(2 + START, str(2 + START), pa.array(np.array(floors, np.int64)))
    sources = whole.column(1).to_numpy()
    ordinals = whole.column(2 + ORDINAL).to_numpy()
    spread = _spread_sources(queries[names[0]])
    mine = ~np.isin(sources, spread) | (ordinals % place.matrix.rows == place.row)
    rest = whole.take(pa.array(np.flatnonzero(mine & (sources != FLOOR))))
    rest = rest.set_column(0, "0", pa.array(np.zeros(rest.num_rows, np.int64)))
    return names, pa.concat_tables([mark, rest])


def _together(cells: Sequence[Held], queries: Mapping[str, Query]) -> pa.Table:
    """The windows of a column of cells: what is spread over rows from all of them."""
    spread = _spread_sources(queries[cells[0].names[0]])
    parts: list[pa.Table] = []
    for number, (_, _, table) in enumerate(cells):
        owners, sources = table.column(0).to_numpy(), table.column(1).to_numpy()
        holder = owners[np.flatnonzero(sources <= COUNTS)[0]]
        chosen = owners == holder
        if number:
            chosen &= np.isin(sources, spread)
        parts.append(table.filter(pa.array(chosen)))
    return pa.concat_tables(parts)


def _spread_sources(query: Query) -> list[int]:
    for step in compile_query(query, Dictionary()).shape.lower:
        if isinstance(step, StreamJoinSpec):
            return [i for i, source in enumerate(step.sources) if source.is_spread]
    return []


def _oldest(whole: pa.Table) -> int:
    starts = whole.column(2 + START).to_numpy()[whole.column(1).to_numpy() >= 0]
    return int(starts.min()) if len(starts) else np.iinfo(np.int64).max // 2


# Triggers


def _triggers(held: Sequence[Held], place: Place) -> Contents:
    """What triggers keep that live in the new cell."""
    names: list[str] = []
    parts: list[pa.Table] = []
    for number, (_, mine, table) in enumerate(held):
        wanted = np.array([place.has_trigger(name) for name in mine], np.bool_)
        owners = table.column(0).to_numpy()
        became = np.cumsum(wanted) - 1 + len(names)
        names += [name for name in mine if place.has_trigger(name)]
        chosen = np.flatnonzero(wanted[owners])
        part = table.take(pa.array(chosen))
        part = part.set_column(0, "0", pa.array(became[owners[chosen]]))
        for fact in ("sequence", "completing", "match"):  # those of other cells are others
            at = TRIGGER_FACTS.index(fact)
            values = part.column(at).to_numpy() * len(held) + number
            part = part.set_column(at, str(at), pa.array(values))
        parts.append(part)
    return [(names, pa.concat_tables(parts))] if names else []
