"""What objects have to pass before they meet regions: a condition, and rows of tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from place.engine.chain import Partner
from place.engine.columns import Columns, Dictionary
from place.engine.compiled import Filter
from place.engine.flow import Flow
from place.engine.matching import Passes
from place.engine.operators.contract import Parameters
from place.engine.operators.table_join import TableJoin
from place.engine.vector import holds
from place.kernels.arrays import Bools


def make_passes(asked: Filter, partner: Partner, dictionary: Dictionary) -> Passes:
    """Which of the subject's rows pass a filter."""
    subject, join = asked.subject, None
    if asked.joins is not None:
        parameters = Parameters(asked.kinds, dictionary)
        parameters.put(0, asked.constants)
        tables = {source: partner(name, needed) for source, name, needed in asked.joins.tables}
        step = replace(asked.joins, only_qualifies=True)
        join = TableJoin(step, tables, parameters, dictionary)

    def passes(rows: Columns) -> Bools:
        passed = np.ones(len(rows), np.bool_)
        if asked.condition is not None:
            sources: list[Columns | None] = [None] * (subject + 1)
            sources[subject] = rows
            passed = holds(asked.condition, sources, len(rows), dictionary)
        if join is not None and asked.joins is not None:
            at = np.flatnonzero(passed)
            sides: list[Columns | None] = [None] * asked.joins.width
            sides[subject] = rows.pick(asked.needed, at)
            zeros = np.zeros(len(at), np.int64)
            passed[at] = join.qualifies(Flow(zeros, zeros, zeros + 1, tuple(sides)))
        return passed

    return passes
