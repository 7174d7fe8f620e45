"""What the boxes cannot decide: exact shapes, conditions that are no boxes, and focal objects.

Candidates are asked twice, as they are now and as they were before; those whose answers differ, or
whose rows may have changed, go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.objects import Changed
from place.engine.plans import RangePlan
from place.engine.regions import Regions, State
from place.engine.rows import View, region_view
from place.engine.vector import holds
from place.kernels.inside import inside_shapes
from place.kernels.lay import told_apart
from place.model.regions import around
from place.model.shape import contains
from place.plan.query import Around

if TYPE_CHECKING:
    from place.engine.cell import Cell

Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Pairs of a region's row and an object's slot; `touched` ones are only candidates, and None
    says that there are none of these."""

    regions: NDArray[np.int32]
    slots: NDArray[np.int32]
    codes: NDArray[np.uint8]
    touched: Bools | None


@dataclass(frozen=True)
class Side:
    """How things are now, or were before."""

    state: State
    points: NDArray[np.float64]
    now: bool


@dataclass(frozen=True)
class Decided:
    """Pairs, and whether the object was, or is, in the region."""

    regions: NDArray[Any]
    slots: NDArray[Any]
    was: Bools
    now: Bools


def decide(
    cell: Cell,
    regions: Regions,
    found: Candidates,
    view: View,
    sides: tuple[Side, Side],
    rows: dict[str, Changed],
    subject: str,
    *,
    alone: bool,
) -> Decided:
    """Decide all candidates; each pair of a region and an object comes out once.

    `alone` tells that no pair can be an object and its own region: of regions that report only who
    comes and goes, such a pair is one only where the object does, or the region follows another.
    """
    seats = cell.focals.seats(subject)
    before, after = regions.before.focals, regions.now.focals
    if alone:
        was, now = found.codes > 1, (found.codes & 1).astype(np.bool_)
    else:
        was, now = np.empty(len(found.codes), np.bool_), np.empty(len(found.codes), np.bool_)
        whose = view.objects(found.slots)
        told_apart(found.regions, whose, found.codes, after, before, seats, was, now)
    if found.touched is None:
        return Decided(found.regions, found.slots, was, now)
    open_pairs = _once(regions, found.regions, found.slots, np.flatnonzero(found.touched))
    keep = np.concatenate([np.flatnonzero(~found.touched), open_pairs])
    first = len(keep) - len(open_pairs)
    region, slot = found.regions[keep].astype(np.int64), found.slots[keep].astype(np.int64)
    was, now = was[keep], now[keep]
    for side, answers, leaders in ((sides[0], now, after), (sides[1], was, before)):
        truth = _ask(cell, regions, region[first:], slot[first:], view, side, rows)
        whose = view.objects(slot[first:])
        itself = cell.focals.is_itself(leaders[region[first:]], whose, subject)
        answers[first:] = truth & ~itself
    return Decided(region, slot, was, now)


def _once(regions: Regions, region: NDArray[Any], slot: NDArray[Any], chosen: Numbers) -> Numbers:
    """One of the chosen pairs for each owner and object: a region may have several boxes."""
    plans, owners = regions.plan[region[chosen]], regions.owner[region[chosen]] + 1
    ordered = np.lexsort((slot[chosen], owners, plans))
    keys = (plans[ordered], owners[ordered], slot[chosen][ordered])
    first = np.ones(len(chosen), np.bool_)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return chosen[ordered[first]]


def _ask(
    cell: Cell,
    regions: Regions,
    region: Numbers,
    slot: Numbers,
    view: View,
    side: Side,
    rows: dict[str, Changed],
) -> Bools:
    """Is each object in its region, at this side of the instant?"""
    truth = np.zeros(len(region), np.bool_)
    if not len(region):
        return truth
    numbers = regions.plan[region]
    for number in np.unique(numbers).tolist():
        plan = cell.plans[number]
        mine = np.flatnonzero(numbers == number)
        present = ~np.isnan(side.points[slot[mine], 0]) & ~np.isnan(
            side.state.params[region[mine], 0]
        )
        if not plan.is_spatial:
            alive = view.alive(slot[mine], side.now, cell.subjects[plan.subject])
            present = alive & ~np.isnan(side.state.params[region[mine], 0])
        mine = mine[present]
        if plan.is_spatial and len(mine):
            points = side.points[slot[mine]]
            hit = inside_shapes(
                points[:, 0].copy(),
                points[:, 1].copy(),
                side.state.kinds[region[mine]],
                side.state.params[region[mine]],
                *cell.layout.polygons.arrays(),
            )
            mine = mine[hit]
        if len(mine) and plan.query.query_table is not None and plan.query.inside is not None:
            mine = mine[_also_inside(cell, plan, side, slot[mine], view)]
        if len(mine) and plan.decides:
            mine = mine[_in_boxes(plan, slot[mine], view, side)]
        if len(mine) and plan.residual is not None:
            mine = mine[_holds(cell, plan, regions, region[mine], slot[mine], view, side, rows)]
        truth[mine] = True
    return truth


def _also_inside(cell: Cell, plan: RangePlan, side: Side, slot: Numbers, view: View) -> Bools:
    """The INSIDE of a query that has a query table too."""
    shape = plan.query.inside
    itself = np.zeros(len(slot), np.bool_)
    if isinstance(shape, Around):
        number = cell.focal(shape.focal.stream, shape.focal.key)
        whose = view.objects(slot)
        itself = cell.focals.is_itself(np.full(len(slot), number), whose, plan.subject)
        center = cell.focals.position(number, now=side.now)
        shape = None if center is None else around(plan.query.space, center, shape.extents)
    if shape is None:
        return np.zeros(len(slot), np.bool_)
    points = side.points[slot].tolist()
    return np.array([contains(shape, plan.query.space, *point) for point in points]) & ~itself


def _in_boxes(plan: RangePlan, slot: Numbers, view: View, side: Side) -> Bools:
    """Is each object in one of the plan's attribute boxes? A NULL is in none that bounds it."""
    found = np.zeros(len(slot), np.bool_)
    rows = view.take(slot, side.now)
    for box in plan.boxes:
        within = np.ones(len(slot), np.bool_)
        for column, (low, high) in box.items():
            values = rows.numbers(column)
            within &= (values >= low) & (values <= high)
        found |= within
    return found


def _holds(
    cell: Cell,
    plan: RangePlan,
    regions: Regions,
    region: Numbers,
    slot: Numbers,
    view: View,
    side: Side,
    rows: dict[str, Changed],
) -> Bools:
    """The condition that is left, asked of each pair."""
    assert plan.residual is not None
    sources: list[Columns | None] = [None] * len(plan.query.sources)
    sources[plan.query.subject] = view.take(slot, side.now)
    table = plan.query.query_table
    if table is not None:
        owners = regions.owner[region]
        sources[table.source] = region_view(cell, plan, rows).take(owners, side.now)
    return holds(plan.residual, sources, len(slot), cell.dictionary)
