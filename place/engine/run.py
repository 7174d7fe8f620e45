"""A run of instants in one compiled loop (GPAC's procedure, for all queries at once).

Where readings come one by one, the arrays of a whole instant are dear. As long as boxes decide
everything and no query comes, goes or streams in, a run of instants is one pass over its readings:
each moves its object, and the regions that the object leads.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from place.engine.cell import Cell, Step
from place.engine.objects import Objects
from place.engine.plans import Dimensions
from place.engine.refine import Decided
from place.engine.regions import Regions
from place.engine.rows import View, make_rows
from place.kernels.bulk import SIMPLE
from place.kernels.progressive import match_progressive
from place.model.delta import Delta
from place.model.types import Row

Message = tuple[str, Hashable, Row | None, int]
"""Stream, key, row (None where the object is gone) and instant."""


@dataclass(frozen=True)
class Moves:
    """The regions that each message moves, as runs of one list, and where to."""

    starts: NDArray[np.int64]
    boxes: NDArray[np.int32]
    to: NDArray[np.float64]


def can_run(cell: Cell, told: set[str]) -> bool:
    """Can instants at which these streams tell something be taken in one pass?"""
    tables = (
        plan.query.sources[plan.query.query_table.source].relation.name
        for plan in cell.plans.values()
        if plan.query.query_table is not None
    )
    if told & set(tables) or told & set(cell.retained):
        return False
    return all((regions.modes[: regions.size] == SIMPLE).all() for regions in cell.groups.values())


def run(cell: Cell, steps: Sequence[Step]) -> list[Delta]:
    """Take a run of instants; the deltas, not yet consolidated."""
    messages: list[Message] = [
        (name, key, row, step.instant)
        for step in steps
        for name, told in step.messages.items()
        for key, row in told
    ]
    before = {
        key: _positions(cell.subjects[key[0]], key[1])
        for key in cell.groups
        if key[0] in cell.subjects
    }
    cell.forget_order()
    gone = _write(cell, messages)
    deltas: list[Delta] = []
    for (subject, dimensions), positions in before.items():
        regions = cell.groups[subject, dimensions]
        if regions.size:
            deltas += _run_group(cell, subject, dimensions, regions, positions, messages)
    _settle(cell, messages, gone)
    return deltas


def _positions(store: Objects, dimensions: Dimensions) -> NDArray[np.float64]:
    """Where objects are before the run, over the columns that regions are found by."""
    places = np.zeros((store.size, 2))
    for k, column in enumerate(dimensions[:2]):
        places[:, k] = store.columns.numbers(column)[: store.size]
    places[~store.alive[: store.size]] = np.nan
    return places


def _write(cell: Cell, messages: list[Message]) -> dict[str, list[Hashable]]:
    """Give every object of the run a slot and its last row; those that are gone at its end."""
    last: dict[str, dict[Hashable, Row]] = {}
    gone: dict[str, dict[Hashable, bool]] = {}
    for name, key, row, _ in messages:
        gone.setdefault(name, {})[key] = row is None
        if row is not None:
            last.setdefault(name, {})[key] = row
    for name, rows in last.items():
        mine = {key: row for key, row in rows.items() if cell.place.has_object(key)}
        cell.subjects[name].change(list(mine.items()))
        for key in mine:
            number = cell.focals.find(name, key)
            if number >= 0:
                cell.focals.seat(number, cell.subjects[name].find(key))
        if name in cell.region_rows:
            cell.region_rows[name].change(
                [(key, row) for key, row in rows.items() if cell.place.has_region(key)]
            )
    return {name: [key for key, is_gone in keys.items() if is_gone] for name, keys in gone.items()}


def _run_group(
    cell: Cell,
    subject: str,
    dimensions: Dimensions,
    regions: Regions,
    positions: NDArray[np.float64],
    messages: list[Message],
) -> list[Delta]:
    store = cell.subjects[subject]
    grown = np.full((store.size, 2), np.nan)
    grown[: len(positions)] = positions
    slots = np.full(len(messages), -1, np.int32)
    to = np.full((len(messages), 2), np.nan)
    for i, (name, key, row, _) in enumerate(messages):
        if name == subject and cell.place.has_object(key):
            slots[i] = store.find(key)
            if row is not None:
                to[i] = _point(store, dimensions, row)
    regions.begin()
    regions.touch(np.empty(0, np.int64))
    moves = _moves(cell, regions, messages)
    boxes = np.ascontiguousarray(regions.now.boxes[: regions.size])
    events = match_progressive(
        grown,
        boxes,
        regions.modes[: regions.size],
        slots,
        to,
        moves.starts,
        moves.boxes,
        moves.to,
    )
    moved = np.unique(moves.boxes)
    regions.now.boxes[moved] = boxes[moved]
    regions.now.params[moved] = boxes[moved]
    region, slot = events.box.astype(np.int64), events.point.astype(np.int64)
    itself = cell.focals.is_itself(regions.now.focals[region], slot, subject)
    keep = np.flatnonzero(~itself)
    now = events.code[keep] == 1
    decided = Decided(region[keep], slot[keep], ~now, now)
    instants = np.array([message[3] for message in messages], np.int64)
    return make_rows(
        cell, regions, decided, View(store.columns, None), {}, instants[events.reading[keep]]
    )


def _point(store: Objects, dimensions: Dimensions, row: Row) -> tuple[float, float]:
    place = [0.0, 0.0]
    for k, column in enumerate(dimensions[:2]):
        value = row[column]
        if isinstance(value, str):
            value = store.columns.dictionary.code(value)
        place[k] = np.nan if value is None else float(value)
    return place[0], place[1]


def _moves(cell: Cell, regions: Regions, messages: list[Message]) -> Moves:
    """Which regions each message moves: those that its object leads."""
    focals = regions.now.focals[: regions.size]
    led = np.flatnonzero(focals >= 0)
    led = led[np.argsort(focals[led], kind="stable")]
    leaders = focals[led]
    starts, boxes, to = [0], [], []
    for name, key, row, _ in messages:
        number = cell.focals.find(name, key)
        count = 0
        if number >= 0:
            first, last = np.searchsorted(leaders, [number, number + 1])
            rows = led[first:last]
            count = len(rows)
            boxes.append(rows)
            relation = cell.subjects[name].relation
            if row is None or relation.x is None or relation.y is None:
                to.append(np.full((count, 4), np.nan))
            else:
                x, y = float(row[relation.x]), float(row[relation.y])  # type: ignore[arg-type]
                half = regions.extents[rows] / 2
                corners = [x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1]]
                to.append(np.stack(corners, axis=1))
        starts.append(starts[-1] + count)
    return Moves(
        np.array(starts, np.int64),
        np.concatenate(boxes).astype(np.int32) if boxes else np.empty(0, np.int32),
        np.concatenate(to) if to else np.empty((0, 4)),
    )


def _settle(cell: Cell, messages: list[Message], gone: dict[str, list[Hashable]]) -> None:
    """The run is over: focal objects are where they are, and who is gone is gone."""
    for name, keys in gone.items():
        cell.subjects[name].change([(key, None) for key in keys])
        if name in cell.region_rows:
            mine = [(key, None) for key in keys if cell.place.has_region(key)]
            cell.region_rows[name].change(mine)
    for name, key, row, _ in messages:
        cell.follow(name, key, row)
