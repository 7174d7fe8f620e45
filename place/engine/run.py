"""A run of instants in one compiled loop (GPAC's procedure, for all queries at once).

Where readings come one by one, the arrays of a whole instant are dear. As long as boxes decide
everything and no query comes, goes or streams in, a run of instants is one pass over its readings:
each moves its object, and the regions that the object leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.cell import Cell
from place.engine.changes import Change
from place.engine.objects import Messages, Objects
from place.engine.plans import Dimensions, Group
from place.engine.refine import Decided
from place.engine.regions import Regions
from place.engine.rows import View, make_changes
from place.kernels.bulk import SIMPLE
from place.kernels.progressive import match_progressive

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Told = Mapping[str, tuple[Messages, Numbers]]
"""The messages of each stream with their instants, in order."""


def can_run(cell: Cell, told: set[str]) -> bool:
    """Can instants at which these streams tell something be taken in one pass?"""
    tables = (
        plan.query.sources[plan.query.query_table.source].relation.name
        for plan in cell.plans.values()
        if plan.query.query_table is not None
    )
    if len(cell.above) or told & set(tables) or told & set(cell.retained):
        return False
    if any(group.before is not None for group in cell.groups):
        return False
    return all((regions.modes[: regions.size] == SIMPLE).all() for regions in cell.groups.values())


@dataclass(frozen=True)
class _Line:
    """The messages to one store: where each stands in the run, and what it is about."""

    name: str
    store: Objects
    is_subject: bool
    messages: Messages
    slots: Numbers
    instants: Numbers
    positions: Numbers
    """Where each message stands among all of the run."""


def run(cell: Cell, told: Told) -> list[Change]:
    """Take a run of instants; the changes, settled but for rows that are alike."""
    lines = _lines(cell, told)
    before = {
        group: _positions(cell.subjects[group.meets], group.dimensions)
        for group in cell.groups
        if group.meets in cell.subjects
    }
    cell.forget_order()
    for line in lines:
        _write(line)
    instants = np.empty(sum(len(line.slots) for line in lines), np.int64)
    for line in lines:
        instants[line.positions] = line.instants
    changes: list[Change] = []
    for group, positions in before.items():
        regions = cell.groups[group]
        if regions.size:
            changes += _run_group(cell, group, regions, positions, lines, instants)
    for line in lines:
        _settle(cell, line)
    for name, (messages, _) in told.items():
        if name in cell.region_rows:
            store = cell.region_rows[name]
            texts = cell.dictionary if store.is_coded else None
            here = cell.place.has_regions(messages.keys, texts)
            store.change(messages if here is None else messages.take(np.flatnonzero(here)))
    return changes


def _lines(cell: Cell, told: Told) -> list[_Line]:
    """What the run tells to each store, of each key only the last word of an instant."""
    found: list[tuple[str, Objects, bool, Messages, Numbers, Numbers]] = []
    for name, (messages, instants) in told.items():
        numbered = np.arange(len(messages))
        mask = cell.place.has_objects(
            messages.keys, cell.dictionary if cell.subjects[name].is_coded else None
        )
        mine, others = cell.split(name, messages)
        parts = [(cell.subjects[name], True, mine, numbered if mask is None else numbered[mask])]
        if others is not None and mask is not None:
            parts.append((cell.others[name], False, others, numbered[~mask]))
        for store, is_subject, some, at in parts:
            slots, due = store.take_all(some.keys), instants[at]
            ordered = np.lexsort((at, slots))
            last = np.ones(len(ordered), np.bool_)
            a, b = ordered[:-1], ordered[1:]
            last[:-1] = (slots[a] != slots[b]) | (due[a] != due[b])
            kept = np.sort(ordered[last])
            found.append((name, store, is_subject, some.take(kept), slots[kept], due[kept]))
    if not found:
        return []
    order = np.argsort(np.concatenate([line[5] for line in found]), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    ends = np.cumsum([len(line[5]) for line in found])
    return [
        _Line(*line, places[end - len(line[5]) : end])
        for line, end in zip(found, ends.tolist(), strict=True)
    ]


def _positions(store: Objects, dimensions: Dimensions) -> Floats:
    """Where objects are before the run, over the columns that regions are found by."""
    places = np.zeros((store.size, 2))
    for k, column in enumerate(dimensions[:2]):
        places[:, k] = store.columns.numbers(column, slice(store.size))
    places[~store.alive[: store.size]] = np.nan
    return places


def _write(line: _Line) -> None:
    """Give every object of the run its last row."""
    store = line.store
    said = np.flatnonzero(~line.messages.gone)
    last = store.seen(line.slots[said])
    chosen = said if last is None else said[last]
    slots = line.slots[chosen]
    store.columns.put(slots, line.messages.rows.take(chosen))
    store.times[slots] = line.messages.times[chosen]


def _run_group(
    cell: Cell,
    group: Group,
    regions: Regions,
    positions: Floats,
    lines: list[_Line],
    instants: Numbers,
) -> list[Change]:
    subject, dimensions = group.meets, group.dimensions
    store = cell.subjects[subject]
    slots = np.full(len(instants), -1, np.int32)
    to = np.full((len(instants), 2), np.nan)
    for line in lines:
        if line.name == subject and line.is_subject:
            slots[line.positions] = line.slots
            places = np.zeros((len(line.slots), 2))
            for k, column in enumerate(dimensions[:2]):
                places[:, k] = line.messages.rows.numbers(column)
            places[line.messages.gone] = np.nan
            to[line.positions] = places
    regions.begin()
    starts, moved_boxes, moved_to = _moves(cell, regions, lines, len(instants))
    boxes = np.ascontiguousarray(regions.now.boxes[: regions.size])
    events = match_progressive(
        positions,
        boxes,
        regions.modes[: regions.size],
        slots,
        to,
        starts,
        moved_boxes,
        moved_to,
    )
    moved = np.unique(moved_boxes).astype(np.int64)
    regions.touch(moved)
    regions.now.boxes[moved] = boxes[moved]
    regions.now.params[moved] = boxes[moved]
    region, slot = events.box.astype(np.int64), events.point.astype(np.int64)
    itself = cell.focals.is_itself(regions.now.focals[region], slot, subject)
    keep = np.flatnonzero(~itself)
    now, at = events.code[keep] == 1, instants[events.reading[keep]]
    region, slot, at, now = _lasting(region[keep], slot[keep], at, now)
    decided = Decided(region, slot, ~now, now)
    return make_changes(cell, regions, decided, View(store.columns, None), {}, at)


def _lasting(
    region: Numbers, slot: Numbers, at: Numbers, now: NDArray[np.bool_]
) -> tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]:
    """Without the pairs that come and go within one instant: of each, the events alternate."""
    if len(region) < 2:
        return region, slot, at, now
    order = np.lexsort((slot, region, at))
    keys = (region[order], slot[order], at[order])
    starts = np.ones(len(order), np.bool_)
    starts[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    if starts.all():
        return region, slot, at, now
    firsts = np.flatnonzero(starts)
    net = np.add.reduceat(np.where(now[order], 1, -1), firsts)
    chosen = np.sort(order[firsts[net != 0]])
    signs = np.zeros(len(order), np.int64)
    signs[order[firsts]] = net
    return region[chosen], slot[chosen], at[chosen], signs[chosen] > 0


def _moves(
    cell: Cell, regions: Regions, lines: list[_Line], count: int
) -> tuple[Numbers, NDArray[np.int32], Floats]:
    """The regions that each message moves, as runs of one list, and where to."""
    focals = regions.now.focals[: regions.size]
    led = np.flatnonzero(focals >= 0)
    led = led[np.argsort(focals[led], kind="stable")]
    leaders = focals[led]
    numbers = np.full(count, -1, np.int64)
    centres = np.full((count, 2), np.nan)
    for line in lines:
        relation = line.store.relation
        numbers[line.positions] = line.store.leads[line.slots]
        if relation.x is not None and relation.y is not None:
            names = [column.name for column in line.messages.rows.columns]
            at = [names.index(relation.columns[i].name) for i in (relation.x, relation.y)]
            places = np.stack([line.messages.rows.numbers(i) for i in at], axis=1)
            places[line.messages.gone] = np.nan
            centres[line.positions] = places
    first = np.searchsorted(leaders, numbers)
    counts = np.where(numbers >= 0, np.searchsorted(leaders, numbers + 1) - first, 0)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    message = np.repeat(np.arange(count), counts)
    within = np.arange(len(message)) - starts[message]
    rows = led[first[message] + within]
    half, middle = regions.extents[rows] / 2, centres[message]
    return starts, rows.astype(np.int32), np.concatenate([middle - half, middle + half], axis=1)


def _settle(cell: Cell, line: _Line) -> None:
    """The run is over: focal objects are where they are, and who is gone is gone."""
    store = line.store
    last = store.seen(line.slots)
    chosen = np.arange(len(line.slots)) if last is None else last
    slots, gone = line.slots[chosen], line.messages.gone[chosen]
    store.finish(slots, gone)
    cell.lead(store, slots)
