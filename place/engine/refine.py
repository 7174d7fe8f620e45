"""What the boxes cannot decide: exact shapes, conditions that are no boxes, and focal objects.

Candidates are asked twice, as they are now and as they were before; those whose answers differ, or
whose rows may have changed, go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.objects import Changed
from place.engine.plans import RangePlan
from place.engine.regions import Regions, State
from place.engine.rows import View, region_view
from place.engine.tally import INSIDE, SELECT
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
        cell.tally.count(INSIDE, regions.plan[found.regions])
        cell.tally.count(SELECT, regions.plan[found.regions])
        return Decided(found.regions, found.slots, was, now)
    open_pairs = _once(regions, found.regions, found.slots, np.flatnonzero(found.touched))
    sure = np.flatnonzero(~found.touched)
    cell.tally.count(INSIDE, regions.plan[found.regions[sure]])
    cell.tally.count(SELECT, regions.plan[found.regions[sure]])
    region = found.regions[open_pairs].astype(np.int64)
    slot = found.slots[open_pairs].astype(np.int64)
    within: list[Bools] = []
    for side, leaders in ((sides[0], after), (sides[1], before)):
        itself = cell.focals.is_itself(leaders[region], view.objects(slot), subject)
        within.append(_inside(cell, regions, region, slot, view, side) & ~itself)
    # Who stays within, and of whom nothing that is asked or told has changed, changes nothing.
    live = np.flatnonzero(_is_restless(cell, regions, region, slot, view, within))
    open_pairs, region, slot = open_pairs[live], region[live], slot[live]
    cell.tally.count(INSIDE, regions.plan[region])
    asked = [
        _select(cell, regions, region, slot, view, side, rows, inside[live])
        for side, inside in zip(sides, within, strict=True)
    ]
    cell.tally.count(SELECT, regions.plan[region[asked[0] | asked[1]]])
    return Decided(
        np.concatenate([found.regions[sure], region]).astype(np.int64),
        np.concatenate([found.slots[sure], slot]).astype(np.int64),
        np.concatenate([was[sure], asked[1]]),
        np.concatenate([now[sure], asked[0]]),
    )


def _once(regions: Regions, region: NDArray[Any], slot: NDArray[Any], chosen: Numbers) -> Numbers:
    """One of the chosen pairs for each owner and object: a region may have several boxes."""
    plans, owners = regions.plan[region[chosen]], regions.owner[region[chosen]] + 1
    ordered = np.lexsort((slot[chosen], owners, plans))
    keys = (plans[ordered], owners[ordered], slot[chosen][ordered])
    first = np.ones(len(chosen), np.bool_)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return chosen[ordered[first]]


def _plans_of(regions: Regions, region: Numbers) -> Iterator[tuple[int, Numbers]]:
    """The plans of some regions, each with the positions of its own."""
    numbers = regions.plan[region]
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    for mine in np.split(order, cuts):
        yield int(numbers[mine[0]]), mine


def _inside(
    cell: Cell, regions: Regions, region: Numbers, slot: Numbers, view: View, side: Side
) -> Bools:
    """Is each object in its region, whatever else is asked, at this side of the instant?"""
    truth: Bools = ~np.isnan(side.state.params[region, 0])
    points = side.points[slot]
    truth &= ~np.isnan(points[:, 0])
    at = np.flatnonzero(truth)
    # A query without a place is found by attributes, and its region holds everything.
    truth[at] = inside_shapes(
        points[at, 0].copy(),
        points[at, 1].copy(),
        side.state.kinds[region[at]],
        side.state.params[region[at]],
        *cell.layout.polygons.arrays(),
    )
    for number, mine in _plans_of(regions, region):
        plan = cell.plans[number]
        if not plan.is_spatial:
            alive = view.alive(slot[mine], side.now, cell.subjects[plan.subject])
            truth[mine] = alive & ~np.isnan(side.state.params[region[mine], 0])
        elif plan.query.query_table is not None and plan.query.inside is not None:
            some = mine[truth[mine]]
            truth[some] = _also_inside(cell, plan, side, slot[some], view)
    return truth


def _is_restless(
    cell: Cell,
    regions: Regions,
    region: Numbers,
    slot: Numbers,
    view: View,
    within: Sequence[Bools],
) -> Bools:
    """Which pairs may change an answer: who enters or leaves, and whose row says something else."""
    live: Bools = within[0] != within[1]
    stays = within[0] & within[1]
    if not stays.any():
        return live
    for number, mine in _plans_of(regions, region):
        plan = cell.plans[number]
        differs = view.differs(plan.reads)
        if differs is not None:
            live[mine] |= stays[mine] & differs[slot[mine]]
        if plan.query.query_table is not None:
            live[mine] |= stays[mine] & regions.changed[region[mine]]
    return live


def _select(
    cell: Cell,
    regions: Regions,
    region: Numbers,
    slot: Numbers,
    view: View,
    side: Side,
    rows: dict[str, Changed],
    within: Bools,
) -> Bools:
    """Which of the objects within their regions pass the rest of WHERE?"""
    truth = within.copy()
    for number, every in _plans_of(regions, region):
        plan = cell.plans[number]
        mine = every[truth[every]]
        passed = mine
        if len(mine) and plan.decides:
            passed = mine[_in_boxes(plan, slot[mine], view, side)]
        if len(passed) and plan.residual is not None:
            passed = passed[
                _holds(cell, plan, regions, region[passed], slot[passed], view, side, rows)
            ]
        if len(passed) < len(mine):
            truth[mine] = False
            truth[passed] = True
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
    inside = [contains(shape, plan.query.space, *point) for point in points]
    return np.array(inside, np.bool_) & ~itself


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
