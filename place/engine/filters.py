"""What objects have to pass besides their region: a condition, and rows of tables beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns, Dictionary
from place.engine.join import Joiner
from place.engine.part import Flow
from place.engine.plans import Filter, UpperPlan
from place.engine.trail import Passes
from place.engine.vector import holds


def make_passes(
    asked: Filter, upper: UpperPlan | None, joiner: Joiner | None, dictionary: Dictionary
) -> Passes:
    """Which of the subject's rows pass a filter."""
    subject = asked.subject

    def passes(rows: Columns) -> NDArray[np.bool_]:
        passed = np.ones(len(rows), np.bool_)
        if asked.condition is not None:
            sources: list[Columns | None] = [None] * (subject + 1)
            sources[subject] = rows
            passed = holds(asked.condition, sources, len(rows), dictionary)
        if asked.joins is not None and joiner is not None and upper is not None:
            at = np.flatnonzero(passed)
            sides: list[Columns | None] = [None] * len(upper.needed)
            sides[subject] = rows.pick(upper.needed[subject], at)
            passed[at] = joiner.qualifies(Flow(np.ones(len(at), np.int64), tuple(sides)))
        return passed

    return passes
