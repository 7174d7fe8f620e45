"""Parts of answers on their way from the cells to the driver, as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from place.engine.chosen import nearest_ranks
from place.engine.columns import Columns, Dictionary
from place.engine.compile import compile_query
from place.engine.compiled import QueryShape
from place.engine.flow import NONE, Flow, Marks
from place.engine.operator_specs import FirstSpec, NearestEachSpec, StreamJoinSpec
from place.engine.partial_answers import PartialAnswer
from place.engine.rank_combinations import columns_of_ranks
from place.engine.tick_readings import reading_ranks
from place.model.schema import Column
from place.plan.query import Query
from place.runtime.durable.pack import Pack, write_tables


def write_parts(out: pa.NativeFile, parts: Sequence[PartialAnswer]) -> None:
    """Write parts in their order."""
    tables: dict[str, pa.Table] = {}
    facts: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        if len(part.flow):
            tables[f"{number}/rows"] = _rows(part.flow)
        if len(part.flow.marks):
            marks = part.flow.marks
            columns = (marks.queries, marks.instants, marks.signs)
            tables[f"{number}/marks"] = _table([pa.array(column) for column in columns])
        names = [query.name for query in part.queries]
        facts.append({"queries": names, "stage": part.stage, "ended": list(part.ended)})
    write_tables(out, tables, {"parts": facts})


def read_parts(pack: Pack, named: Callable[[str], Query]) -> list[PartialAnswer]:
    """The parts of a file, of queries that are known by name."""
    tables, facts = pack
    dictionary = Dictionary()
    parts: list[PartialAnswer] = []
    for number, fact in enumerate(facts["parts"]):
        asked = tuple(map(named, fact["queries"]))
        marks = Marks(NONE, NONE, NONE)
        if f"{number}/marks" in tables:
            marks = Marks(*(c.to_numpy() for c in tables[f"{number}/marks"].columns))
        flow = Flow.of_marks(marks)
        if f"{number}/rows" in tables:
            shape = compile_query(asked[0], dictionary).shape
            flow = _flow(shape, tables[f"{number}/rows"], marks, dictionary)
        parts.append(PartialAnswer(asked, flow, fact["stage"], tuple(fact["ended"])))
    return parts


def _rows(flow: Flow) -> pa.Table:
    arrays = [pa.array(column) for column in (flow.queries, flow.instants, flow.weights)]
    for rows in (*flow.sources, flow.ranks):
        if rows is not None:
            arrays += [rows.array(i, slice(None)) for i in range(len(rows.columns))]
    return _table(arrays)


def _table(arrays: list[pa.Array]) -> pa.Table:
    return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def _flow(shape: QueryShape, table: pa.Table, marks: Marks, dictionary: Dictionary) -> Flow:
    arrays = [column.combine_chunks() for column in table.columns]
    sides = [
        tuple(relation.columns[i] for i in needed) if is_sent else ()
        for relation, needed, is_sent in zip(
            shape.sources, shape.needed, _are_sent(shape), strict=True
        )
    ]
    rows: list[Columns | None] = []
    at = 3
    for columns in (*sides, _ranks(shape)):
        given = arrays[at : at + len(columns)]
        rows.append(Columns.from_arrow(columns, dictionary, given) if columns else None)
        at += len(columns)
    *sources, ranks = rows
    queries, instants, weights = (np.asarray(array.to_numpy()) for array in arrays[:3])
    return Flow(queries, instants, weights, tuple(sources), ranks, marks)


def _are_sent(shape: QueryShape) -> list[bool]:
    """The sources whose rows a flow has: of a join those that are read above it."""
    for step in shape.lower:
        if isinstance(step, StreamJoinSpec):
            return [len(columns) > 0 for columns in step.shown]
    return [True] * len(shape.sources)


def _ranks(shape: QueryShape) -> tuple[Column, ...]:
    """The columns by which the first of all rows are chosen."""
    relation = shape.sources[shape.subject]
    for step in shape.upper:
        if isinstance(step, FirstSpec):
            return reading_ranks(relation) if step.latest else nearest_ranks(relation)
        if isinstance(step, NearestEachSpec):
            join = next(spec for spec in shape.lower if isinstance(spec, StreamJoinSpec))
            return columns_of_ranks(join)
    return ()
