"""What was seen of a query in a cell: for EXPLAIN ANALYZE, and for the planner."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from place.engine.tally import CHOOSE, INSIDE, JOIN, SELECT, TOLD
from place.plan.explain import Observed

if TYPE_CHECKING:
    from place.engine.cell import Cell


def observed(cell: Cell, name: str) -> Observed:
    """What has passed through the plan of a query since it began."""
    number = cell.numbers[name]
    plan, tally = cell.plans[number], cell.tally
    if not cell.place.has_query(name) and plan.query.query_table is None:
        return Observed()
    base = cell.above.base_of(number)
    base = number if base is None else base
    counts = tally.rows(base)
    rows = {"scan": tally.since(base, plan.group.meets), "inside": counts[INSIDE]}
    if plan.before is None:
        rows["select"] = counts[SELECT]
    else:
        key = "select" if plan.before.joins is None else "join"
        rows[key] = tally.since(base, plan.group)
    seconds = {
        "inside": tally.seconds((plan.group, INSIDE)),
        "select": tally.seconds((plan.group, SELECT)),
    }
    above = cell.above.uppers.get(number)
    if above is None:
        rows["answer"] = counts[TOLD]
    else:
        mine = tally.rows(number)
        if above.is_direct:
            rows["answer"] = mine[TOLD]
        rows["choose"] = mine[CHOOSE]
        seconds["choose"] = tally.seconds((base, CHOOSE))
        if above.joiner is not None:
            rows.setdefault("join", mine[JOIN])
            seconds["join"] = tally.seconds((number, JOIN))
    regions = cell.groups.get(plan.group)
    plans = np.empty(0, np.int64) if regions is None else regions.plan[: regions.size]
    shared = max(1, len(np.unique(plans[plans >= 0])))
    return Observed(cell.observer.knowledge(base), Counter(rows), Counter(seconds), shared)
