"""Observation: which order of INSIDE and the other filters lets fewer rows pass (see the planner).

Now and then some of the objects that changed are asked, for some of the plans that have a choice,
both ways: how many enter, leave or change within the region, and how many pass the filters. When
the other order is clearly better, the plan's regions move over to it between two instants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from place.engine.objects import Changed
from place.engine.plans import RangePlan, compile_plan
from place.engine.regions import Regions, State
from place.engine.rows import View
from place.kernels.inside import inside_shapes
from place.plan.logical import Knowledge

if TYPE_CHECKING:
    from place.engine.cell import Cell

OFTEN, SELDOM = 16, 8
"""Instants at which every plan is looked at from its beginning on, and then one of so many."""
SAMPLE, PLANS = 2048, 8
"""Objects that are asked at an instant, and plans for which they are."""
ENOUGH = 2000
"""Objects that have to be asked before the order changes."""
BETTER = 0.95
"""The other order has to let fewer rows pass by this factor."""
MEMORY = 0.9
"""How much of what was counted before still counts at each look."""


@dataclass
class Counted:
    """What was seen of a plan: objects asked, rows with INSIDE first, and with filters first."""

    looks: int = 0
    asked: float = 0.0
    inside: float = 0.0
    filters: float = 0.0

    def knowledge(self) -> Knowledge:
        """Rows that one reading sends on."""
        if self.asked < ENOUGH:
            return Knowledge()
        return Knowledge(self.inside / self.asked, self.filters / self.asked)


class Observer:
    """Looks at the plans of a cell that have a choice."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._counted: dict[int, Counted] = {}
        self._instants = 0
        self._turn = 0

    def begin(self, number: int) -> None:
        self._counted[number] = Counted()

    def end(self, number: int) -> None:
        self._counted.pop(number, None)

    def knowledge(self, number: int) -> Knowledge:
        """What is known about a plan."""
        return self._counted[number].knowledge() if number in self._counted else Knowledge()

    def look(self, objects: dict[str, Changed]) -> list[tuple[int, RangePlan]]:
        """Look at an instant that has been taken; the plans that should be other ones."""
        if not self._counted or not objects:
            return []
        self._instants += 1
        better: list[tuple[int, RangePlan]] = []
        for number in self._chosen():
            plan, counted = self._cell.plans[number], self._counted[number]
            changed = objects.get(plan.subject)
            if changed is None or plan.meets_readings or plan.group not in self._cell.groups:
                continue
            self._count(number, plan, changed, counted)
            knowledge = counted.knowledge()
            if knowledge.inside_first is None or knowledge.filters_first is None:
                continue
            costs = [knowledge.inside_first, knowledge.filters_first]
            now, other = costs[::-1] if plan.before is not None else costs
            if other < BETTER * now:
                asked = plan.query if plan.upper is None else plan.upper.asked
                better.append((number, compile_plan(asked, self._cell.dictionary, knowledge)))
        return better

    def _chosen(self) -> list[int]:
        """The plans whose turn it is."""
        young = [n for n, counted in self._counted.items() if counted.looks < OFTEN][:PLANS]
        if young or self._instants % SELDOM:
            return young
        numbers = list(self._counted)
        self._turn = (self._turn + PLANS) % len(numbers)
        return (numbers[self._turn :] + numbers[: self._turn])[:PLANS]

    def _count(self, number: int, plan: RangePlan, changed: Changed, counted: Counted) -> None:
        cell = self._cell
        store = cell.subjects[plan.subject]
        # Who appears does so once; the order is for those who move.
        there = np.flatnonzero(changed.was & changed.now)
        step = max(1, len(there) // SAMPLE)
        some = there[counted.looks * 7919 % step :: step]
        if not len(some):
            return
        slots = changed.slots[some]
        view = View(store.columns, changed)
        regions = cell.groups[plan.group]
        within, passing = [], []
        for now in (True, False):
            rows = view.take(slots, now)
            places = np.stack([rows.numbers(c) for c in plan.dimensions[:2]], axis=1)
            state = regions.now if now else regions.before
            within.append(self._inside(regions, state, number, places))
            passing.append(cell.passes_of(number, plan)(rows))
        differs = view.differs(plan.filtered)
        other = np.zeros(len(slots), np.bool_) if differs is None else differs[slots]
        restless = (within[0] != within[1]) | (within[0] & within[1] & other)
        counted.looks += 1
        counted.asked = MEMORY * counted.asked + len(some)
        counted.inside = MEMORY * counted.inside + float(restless.sum())
        counted.filters = MEMORY * counted.filters + float((passing[0] | passing[1]).sum())

    def _inside(
        self, regions: Regions, state: State, number: int, places: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which places are in the region of a plan."""
        found = np.zeros(len(places), np.bool_)
        for row in regions.rows_of(number).tolist():
            found |= inside_shapes(
                places[:, 0].copy(),
                places[:, 1].copy(),
                np.full(len(places), state.kinds[row]),
                np.repeat(state.params[row : row + 1], len(places), axis=0),
                *self._cell.layout.polygons.arrays(),
            )
        return found
