"""Parts of answers on their way from the cells to the driver, as Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from place.engine.columns import Columns, Dictionary
from place.engine.part import Flow, Part
from place.engine.plans import UpperPlan, make_upper
from place.model.schema import Column
from place.model.types import Type
from place.plan.query import Query
from place.runtime.durable.pack import read_facts, read_tables, write_tables


def write_parts(out: pa.NativeFile, parts: Sequence[Part]) -> None:
    """Write parts in their order."""
    tables: dict[str, pa.Table] = {}
    facts: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        if len(part.flow):
            tables[str(number)] = _table(part.flow)
        facts.append(
            {
                "query": part.query.name,
                "instant": part.instant,
                "present": part.present,
                "ends": part.ends,
                "stage": part.stage,
            }
        )
    write_tables(out, tables, {"parts": facts})


def read_parts(source: pa.NativeFile, queries: Mapping[str, Query]) -> list[Part]:
    """The parts of a file, of queries that are known by name."""
    _, facts = read_facts(source)
    tables = read_tables(source)
    dictionary = Dictionary()
    uppers: dict[str, UpperPlan] = {}
    parts: list[Part] = []
    for number, fact in enumerate(facts["parts"]):
        name = fact["query"]
        if name not in uppers:
            uppers[name] = make_upper(queries[name])
        flow = Flow(np.empty(0, np.int64), ())
        if str(number) in tables:
            flow = _flow(uppers[name], tables[str(number)], dictionary)
        parts.append(
            Part(uppers[name], fact["instant"], flow, fact["present"], fact["ends"], fact["stage"])
        )
    return parts


def _table(flow: Flow) -> pa.Table:
    arrays = [pa.array(flow.weights)]
    for rows in (*flow.sources, flow.ranks):
        if rows is not None:
            arrays += [rows.array(i, slice(None)) for i in range(len(rows.columns))]
    return pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def _flow(upper: UpperPlan, table: pa.Table, dictionary: Dictionary) -> Flow:
    arrays = [column.combine_chunks() for column in table.columns]
    sides = [
        tuple(source.relation.columns[i] for i in needed)
        for source, needed in zip(upper.asked.sources, upper.needed, strict=True)
    ]
    if upper.has_order:
        sides.append(_ranks(upper.asked))
    rows: list[Columns] = []
    at = 1
    for columns in sides:
        rows.append(Columns.from_arrow(columns, dictionary, arrays[at : at + len(columns)]))
        at += len(columns)
    ranks = rows.pop() if upper.has_order else None
    return Flow(arrays[0].to_numpy(), tuple(rows), ranks)


def _ranks(query: Query) -> tuple[Column, ...]:
    """The columns by which the first of all rows are chosen."""
    relation = query.sources[query.subject].relation
    key = relation.columns[relation.key]
    if query.nearest is not None:
        return Column("measure", Type.DOUBLE), key, Column("number", Type.BIGINT)
    return Column("time", Type.BIGINT), Column("key", key.type)
