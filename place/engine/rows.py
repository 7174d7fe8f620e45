"""From pairs to rows: what an object in a region says in the answer, before and now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.objects import Changed, Objects
from place.engine.plans import RangePlan
from place.engine.regions import Regions
from place.model.delta import Delta
from place.model.types import Row, Value
from place.plan.evaluate import evaluate
from place.plan.expression import Column

if TYPE_CHECKING:
    from place.engine.cell import Cell
    from place.engine.refine import Decided

Numbers = NDArray[np.int64]


class View:
    """Rows of a relation as they are now and as they were before the instant."""

    def __init__(self, columns: Columns, changed: Changed | None) -> None:
        self._columns = columns
        self._changed = changed
        self._place: NDArray[np.int64] | None = None

    def take(self, slots: Numbers, now: bool) -> Columns:
        """The rows at slots, of one side of the instant."""
        rows = self._columns.take(slots)
        if now or self._changed is None:
            return rows
        places = self._places()[slots]
        old = np.flatnonzero(places >= 0)
        if len(old):
            rows.put(old, self._changed.before.take(places[old]))
        return rows

    def rows(self, slots: Numbers, now: bool) -> list[Row]:
        return self.take(slots, now).rows(np.arange(len(slots)))

    def alive(self, slots: Numbers, now: bool, store: Objects) -> NDArray[np.bool_]:
        """Was, or is, an object at each slot?"""
        present = store.alive[slots]
        if now or self._changed is None:
            return present
        places = self._places()[slots]
        return np.where(places >= 0, self._changed.was[places], present)

    def _places(self) -> NDArray[np.int64]:
        if self._place is None:
            self._place = np.full(self._columns.capacity, -1, np.int64)
            if self._changed is not None:
                self._place[self._changed.slots] = np.arange(len(self._changed.slots))
        return self._place


def region_view(cell: Cell, plan: RangePlan, rows: dict[str, Changed]) -> View:
    """The rows of a plan's query table."""
    assert plan.query.query_table is not None
    name = plan.query.sources[plan.query.query_table.source].relation.name
    return View(cell.region_rows[name].columns, rows.get(name))


def make_rows(
    cell: Cell,
    regions: Regions,
    decided: Decided,
    view: View,
    rows: dict[str, Changed],
    instants: Numbers,
) -> list[Delta]:
    """The rows that pairs had before as negative deltas, those that they have as positive ones."""
    deltas: list[Delta] = []
    numbers = regions.plan[decided.regions]
    for number in np.unique(numbers).tolist():
        plan = cell.plans[number]
        mine = numbers == number
        for now, sign in ((False, -1), (True, 1)):
            chosen = np.flatnonzero(mine & (decided.now if now else decided.was))
            if not len(chosen):
                continue
            slots = decided.slots[chosen]
            owners = regions.owner[decided.regions[chosen]]
            output = _output(cell, plan, slots, owners, view, rows, now)
            name = plan.name
            deltas += [
                Delta(name, sign, row, instant)  # type: ignore[arg-type]
                for row, instant in zip(output, instants[chosen].tolist(), strict=True)
            ]
    return deltas


def _output(
    cell: Cell,
    plan: RangePlan,
    slots: Numbers,
    owners: Numbers,
    view: View,
    rows: dict[str, Changed],
    now: bool,
) -> list[Row]:
    query = plan.query
    taken: dict[int, Columns] = {query.subject: view.take(slots, now)}
    if query.query_table is not None:
        source = query.query_table.source
        taken[source] = region_view(cell, plan, rows).take(owners, now)
    every = np.arange(len(slots))
    if plan.is_plain:
        columns: list[list[Value]] = []
        for output in query.outputs:
            assert isinstance(output.expression, Column)
            columns.append(taken[output.expression.source].plain(output.expression.index, every))
        return list(zip(*columns, strict=True))
    blank: list[Row] = [()] * len(slots)
    sources = [taken[i].rows(every) if i in taken else blank for i in range(len(query.sources))]
    return [
        tuple(evaluate(output.expression, pair) for output in query.outputs)
        for pair in zip(*sources, strict=True)
    ]
