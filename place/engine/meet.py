"""The join of one instant: objects, or readings, meet the regions of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from place.engine.changes import Change
from place.engine.objects import Changed
from place.engine.plans import Group
from place.engine.refine import Candidates, Decided, Side, decide
from place.engine.regions import Regions
from place.engine.rows import View, make_changes
from place.engine.said import Said
from place.engine.tally import INSIDE, SELECT
from place.engine.trail import Trail
from place.kernels.bulk import TOUCHED, WATCHED, BulkMatcher, match_bulk

if TYPE_CHECKING:
    from place.engine.cell import Cell


class Join:
    """The joins of a cell, with what they keep from instant to instant."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._matchers: dict[Group, BulkMatcher] = {}
        self._trails: dict[Group, Trail] = {}

    def forget_order(self) -> None:
        """Objects or regions changed without an instant that says so."""
        for matcher in self._matchers.values():
            matcher.reset()
        self._trails.clear()

    def match(
        self,
        group: Group,
        regions: Regions,
        changed: Changed | None,
        rows: dict[str, Changed],
        instant: int,
        is_known: bool,
    ) -> list[Change]:
        """Objects meet the regions of a group, as they are and as they were."""
        subject = group.meets
        store = self._cell.subjects.get(subject)
        size = regions.size
        if store is None or not size or (changed is None and not regions.changed[:size].any()):
            if changed is not None:
                self._trails.pop(group, None)
            return []
        if group not in self._trails:
            self._trails[group] = Trail(group.dimensions, self._cell.passes.get(group))
        trail = self._trails[group]
        points, moved = trail.follow(store, changed)
        boxes = regions.boxes[:size]
        modes = regions.modes[:size]
        shifted = regions.changed[:size]
        if shifted.any():
            modes = np.where(shifted & (modes == WATCHED), np.uint8(TOUCHED), modes)
        matcher = self._matchers.setdefault(group, BulkMatcher())
        tally = self._cell.tally
        if group.before is not None and changed is not None:
            now, was = points[changed.slots, 0], points[changed.slots, 2]
            tally.read(group, int((~np.isnan(now) | ~np.isnan(was)).sum()))
        with tally.timed((group, INSIDE)):
            pairs = matcher.match(points, boxes, modes, moved, shifted, threads=self._cell.threads)
        if not len(pairs.boxes):
            return []
        touched = modes[pairs.boxes] == TOUCHED if (modes == TOUCHED).any() else None
        found = Candidates(pairs.boxes, pairs.points, pairs.codes, touched)
        view = View(store.columns, changed)
        sides = (
            Side(regions.now, points[:, 0:2], now=True),
            Side(regions.before, points[:, 2:4], now=False),
        )
        alone = (
            not modes.any()
            and (changed is None or bool(changed.was.all() and changed.now.all()))
            and np.array_equal(regions.now.focals[:size], regions.before.focals[:size])
        )
        with tally.timed((group, SELECT)):
            decided = decide(self._cell, regions, found, view, sides, rows, subject, alone=alone)
        if not len(self._cell.above):
            return make_changes(self._cell, regions, decided, view, rows, instant)
        self._tell_above(regions, decided, view, rows, None)
        if is_known:
            return []
        return make_changes(self._cell, regions, decided, view, rows, instant)

    def match_readings(
        self, group: Group, regions: Regions, said: Said, rows: dict[str, Changed]
    ) -> None:
        """Readings meet the regions of windows as these are at the instant."""
        size, count = regions.size, len(said.keys)
        if not size or not count:
            return
        points = np.full((count, 4), np.nan)
        points[:, 0:2] = 0.0
        for k, column in enumerate(group.dimensions[:2]):
            points[:, k] = said.rows.numbers(column)
        passes = self._cell.passes.get(group)
        if passes is not None:
            points[~passes(said.rows)] = np.nan
            self._cell.tally.read(group, int((~np.isnan(points[:, 0])).sum()))
        modes = np.where(regions.modes[:size] == WATCHED, np.uint8(TOUCHED), regions.modes[:size])
        moved, still = np.ones(count, np.bool_), np.zeros(size, np.bool_)
        pairs = match_bulk(
            points, regions.boxes[:size], modes, moved, still, threads=self._cell.threads
        )
        if not len(pairs.boxes):
            return
        touched = modes[pairs.boxes] == TOUCHED
        found = Candidates(pairs.boxes, pairs.points, pairs.codes, touched)
        view = View(said.rows, None, said.slots(self._cell.subjects[said.stream]))
        sides = (
            Side(regions.now, points[:, 0:2], now=True),
            Side(regions.before, points[:, 2:4], now=False),
        )
        decided = decide(self._cell, regions, found, view, sides, rows, said.stream, alone=False)
        self._tell_above(regions, decided, view, rows, said)

    def _tell_above(
        self,
        regions: Regions,
        decided: Decided,
        view: View,
        rows: dict[str, Changed],
        said: Said | None,
    ) -> None:
        """Give the pairs of plans that have something above the join to that."""
        numbers = regions.plan[decided.regions]
        for number in np.unique(numbers).tolist():
            if self._cell.plans[number].upper is not None:
                at = np.flatnonzero(numbers == number)
                mine = Decided(
                    decided.regions[at], decided.slots[at], decided.was[at], decided.now[at]
                )
                self._cell.above.take(number, regions, mine, view, rows, said)
