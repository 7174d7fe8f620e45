"""From pairs to rows: what an object in a region says in the answer, before and now."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.engine.changes import Change
from place.engine.columns import Columns
from place.engine.objects import Changed, Objects
from place.engine.plans import RangePlan
from place.engine.regions import Regions
from place.engine.tally import TOLD
from place.engine.vector import outputs, same_rows
from place.kernels.order import SERIAL, Pool
from place.model.delta import Sign
from place.plan.expression import Column

if TYPE_CHECKING:
    from place.engine.cell import Cell
    from place.engine.refine import Decided

Numbers = NDArray[np.int64]
Rows = tuple[Numbers, list[pa.Array]]
"""The positions of some pairs, and their rows by columns."""


class View:
    """Rows of a relation as they are now and as they were before the instant.

    With `said` they are readings, which were nothing before, and `said` tells whose they are.
    """

    def __init__(
        self, columns: Columns, changed: Changed | None, said: Numbers | None = None
    ) -> None:
        self.columns = columns
        self._changed = changed
        self._said = said
        self._differs: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        self._place: NDArray[np.int64] | None = None

    def take(self, slots: Numbers, now: bool, only: Sequence[int] | None = None) -> Columns:
        """The rows at slots, of one side of the instant; some of their columns, or all."""
        wanted = range(len(self.columns.columns)) if only is None else only
        rows = self.columns.pick(wanted, slots)
        if now or self._changed is None:
            return rows
        places = self._places()[slots]
        old = np.flatnonzero(places >= 0)
        if len(old):
            rows.put(old, self._changed.before.pick(wanted, places[old]))
        return rows

    def alive(self, slots: Numbers, now: bool, store: Objects) -> NDArray[np.bool_]:
        """Was, or is, an object at each slot?"""
        if self._said is not None:
            return np.full(len(slots), now)
        present = store.alive[slots]
        if now or self._changed is None:
            return present
        places = self._places()[slots]
        return np.where(places >= 0, self._changed.was[places], present)

    def differs(self, columns: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """At which slots any of these columns has changed; None if nothing has."""
        changed = self._changed
        if changed is None or not columns:
            return None
        if columns not in self._differs:
            now = self.columns.pick(columns, changed.slots)
            other = ~same_rows(now, changed.before.pick(columns))
            mask = np.zeros(self.columns.capacity, np.bool_)
            mask[changed.slots[other]] = True
            self._differs[columns] = mask
        return self._differs[columns]

    def objects(self, slots: NDArray[Any]) -> NDArray[Any]:
        """The slots of the objects that the rows are of."""
        return slots if self._said is None else self._said[slots]

    def _places(self) -> NDArray[np.int64]:
        if self._place is None:
            self._place = np.full(self.columns.capacity, -1, np.int64)
            if self._changed is not None:
                self._place[self._changed.slots] = np.arange(len(self._changed.slots))
        return self._place


def region_view(cell: Cell, plan: RangePlan, rows: dict[str, Changed]) -> View:
    """The rows of a plan's query table."""
    assert plan.query.query_table is not None
    name = plan.query.sources[plan.query.query_table.source].relation.name
    return View(cell.region_rows[name].columns, rows.get(name))


class Shapes:
    """Plans that say the same of their objects, and differ only in where their regions are.

    The rows of all of them are made together (PLACE, section 6).
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._of = np.full(16, -1, np.int64)
        self.plans: list[RangePlan] = []
        """One plan of each shape."""

    def add(self, number: int, plan: RangePlan) -> None:
        """A plan comes; those with something above the join have no shape here."""
        if number >= len(self._of):
            self._of = np.concatenate([self._of, np.full(max(number, len(self._of)), -1)])
        if plan.upper is not None:
            return
        query = plan.query
        key = (query.sources, query.subject, query.query_table, query.outputs, plan.watches)
        if key not in self._known:
            self._known[key] = len(self.plans)
            self.plans.append(plan)
        self._of[number] = self._known[key]

    def of(self, numbers: Numbers) -> Numbers:
        """The shapes of plans, −1 for those that have none."""
        return self._of[numbers]


def make_changes(
    cell: Cell,
    regions: Regions,
    decided: Decided,
    view: View,
    rows: dict[str, Changed],
    instants: int | Numbers,
) -> list[Change]:
    """The rows that pairs had before as negative changes, those that they have as positive ones."""
    changes: list[Change] = []
    if not len(decided.regions):
        return changes
    numbers = regions.plan[decided.regions]
    shapes = cell.shapes.of(numbers)
    (found,) = np.nonzero(np.bincount(shapes + 1))
    for shape in (found[found > 0] - 1).tolist():
        plan = cell.shapes.plans[shape]
        was, now = decided.was, decided.now
        if len(found) > 1:
            mine = shapes == shape
            was, now = was & mine, now & mine
        if not plan.watches:  # who stays has the row that it had
            was, now = was & ~now, now & ~was

        def side(mask: NDArray[np.bool_], is_now: bool, plan: RangePlan = plan) -> Rows:
            chosen = np.flatnonzero(mask)
            owners = regions.owner[decided.regions[chosen]]
            slots = decided.slots[chosen]
            return chosen, _output(cell, plan, slots, owners, view, rows, is_now)

        # Texts that expressions make get codes, one after the other.
        pool = Pool(cell.threads if plan.is_plain and len(was) > SERIAL else 1)
        sides = pool.map([partial(side, was, False), partial(side, now, True)])
        if plan.watches:
            sides = _without_stays(sides[0], sides[1], was & now)
        signs: tuple[Sign, Sign] = (-1, 1)
        for (chosen, columns), sign in zip(sides, signs, strict=True):
            at = instants if isinstance(instants, int) else instants[chosen]
            changes += by_plan(cell, numbers[chosen], columns, sign, at)
    return changes


def by_plan(
    cell: Cell, numbers: Numbers, columns: Sequence[pa.Array], sign: Sign, instants: int | Numbers
) -> list[Change]:
    """Rows of plans of one shape, whose numbers are given, as a change, or nothing."""
    if not len(numbers):
        return []
    cell.tally.count(TOLD, numbers)
    if (numbers == numbers[0]).all():
        plans, owners = [cell.plans[int(numbers[0])]], None
    else:  # those of one query stand together
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        columns = [column.take(pa.array(order)) for column in columns]
        instants = instants if isinstance(instants, int) else instants[order]
        is_next = np.concatenate([[False], numbers[1:] != numbers[:-1]])
        owners = np.cumsum(is_next, dtype=np.int32)
        firsts = numbers[np.concatenate([[0], np.flatnonzero(is_next)])]
        plans = [cell.plans[number] for number in firsts.tolist()]
    asked = tuple(plan.asked for plan in plans)
    is_keyed = all(plan.is_keyed for plan in plans)
    return [Change(asked, sign, instants, tuple(columns), is_keyed, owners)]


def _without_stays(before: Rows, after: Rows, both: NDArray[np.bool_]) -> list[Rows]:
    """Leave out pairs whose object is in the region before and now, with the same row."""
    if not both.any():
        return [before, after]
    staying = [np.flatnonzero(both[chosen]) for chosen, _ in (before, after)]
    same = np.ones(len(staying[0]), np.bool_)
    for one, other in zip(before[1], after[1], strict=True):
        a, b = one.take(pa.array(staying[0])), other.take(pa.array(staying[1]))
        if pa.types.is_dictionary(a.type):
            a, b = a.dictionary_decode(), b.dictionary_decode()
        equal = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
        nulls = [side.is_null().to_numpy(zero_copy_only=False) for side in (a, b)]
        same &= equal | (nulls[0] & nulls[1])
    sides: list[Rows] = []
    for (chosen, columns), stay in zip((before, after), staying, strict=True):
        keep = np.ones(len(chosen), np.bool_)
        keep[stay[same]] = False
        kept = np.flatnonzero(keep)
        sides.append((chosen[kept], [column.take(pa.array(kept)) for column in columns]))
    return sides


def _output(
    cell: Cell,
    plan: RangePlan,
    slots: Numbers,
    owners: Numbers,
    view: View,
    rows: dict[str, Changed],
    now: bool,
) -> list[pa.Array]:
    query = plan.query
    views: dict[int, tuple[View, Numbers]] = {query.subject: (view, slots)}
    if query.query_table is not None:
        views[query.query_table.source] = (region_view(cell, plan, rows), owners)
    if plan.is_plain and not plan.watches:  # columns that never change need no look back
        plain = []
        for output in query.outputs:
            assert isinstance(output.expression, Column)
            seen, at = views[output.expression.source]
            plain.append(seen.columns.array(output.expression.index, at))
        return plain
    taken = {source: seen.take(at, now) for source, (seen, at) in views.items()}
    every = np.arange(len(slots))
    if plan.is_plain:
        columns = []
        for output in query.outputs:
            assert isinstance(output.expression, Column)
            columns.append(taken[output.expression.source].array(output.expression.index, every))
        return columns
    sources = [taken.get(i) for i in range(len(query.sources))]
    made = outputs(query.outputs, sources, len(slots), cell.dictionary)
    return [made.array(i, slice(None)) for i in range(len(made.columns))]
