"""From pairs of object and region to signed rows, by the columns that are needed above the join."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.objects import Changed
from place.engine.part import Flow
from place.engine.plans import RangePlan
from place.engine.refine import Decided
from place.engine.regions import Regions
from place.engine.rows import View, region_view
from place.engine.vector import same_rows

if TYPE_CHECKING:
    from place.engine.cell import Cell

Numbers = NDArray[np.int64]


def flow_of(
    cell: Cell,
    plan: RangePlan,
    slots: Numbers,
    owners: Numbers | None,
    view: View,
    rows: dict[str, Changed],
    now: bool,
) -> Flow:
    """The rows of pairs, as they are (positive) or were (negative)."""
    assert plan.upper is not None
    needed = plan.upper.needed
    sources: list[Columns | None] = [None] * len(needed)
    sources[plan.query.subject] = view.take(slots, now, needed[plan.query.subject])
    table = plan.query.query_table
    if table is not None and owners is not None:
        regions = region_view(cell, plan, rows)
        sources[table.source] = regions.take(owners, now, needed[table.source])
    return Flow(np.full(len(slots), 1 if now else -1, np.int64), tuple(sources))


def changed_flows(
    cell: Cell,
    plan: RangePlan,
    regions: Regions,
    decided: Decided,
    view: View,
    rows: dict[str, Changed],
) -> list[Flow]:
    """What pairs lose and what they gain; not those that stay and say the same."""
    was, now = decided.was, decided.now
    if not plan.watches:
        was, now = was & ~now, now & ~was
    sides: list[Flow] = []
    for mask, is_now in ((was, False), (now, True)):
        at = np.flatnonzero(mask)
        owners = regions.owner[decided.regions[at]]
        slots = decided.slots[at].astype(np.int64)
        sides.append(flow_of(cell, plan, slots, owners, view, rows, is_now))
    both = was & now
    if not both.any():
        return sides
    stay = [np.flatnonzero(both[np.flatnonzero(mask)]) for mask in (was, now)]
    same = np.ones(len(stay[0]), np.bool_)
    for one, two in zip(sides[0].sources, sides[1].sources, strict=True):
        if one is not None and two is not None:
            same &= same_rows(one.take(stay[0]), two.take(stay[1]))
    kept: list[Flow] = []
    for side, at in zip(sides, stay, strict=True):
        keep = np.ones(len(side), np.bool_)
        keep[at[same]] = False
        kept.append(side.take(np.flatnonzero(keep)))
    return kept
