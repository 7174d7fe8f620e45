"""How the readings of a trigger are found, as long as no hint says it: by lists or by squares.

By lists (NO INDEX), a reading is compared with all that is kept for each other variable; by squares
(TIGHT), with what lies in the squares around it, for which these have to be looked up. How many
pairs were compared is counted. What share of them would be compared the other way follows from how
the kept readings lie in squares. A trigger goes over to the other way only if that is clearly
cheaper, between two ticks; its answers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.constraint_graphs import Graph, scale_of
from place.engine.constraint_store import ConstraintStore
from place.engine.multiset import longer
from place.kernels import constraint_tables as t
from place.kernels.arrays import Longs
from place.plan.trigger import STRATEGIES

EVERY = 20_000
"""Events after which strategies are looked at again."""
WORTHWHILE = 32.0
"""Pairs for each reading of a trigger that have to be compared before squares are thought of."""
SAMPLE = 64
"""Readings of a trigger whose squares are looked at, at most."""
FEW = 16
"""Readings of which too little is known."""
CLEARLY = 2.0
"""How many times as cheap the other way has to be."""
SQUARE, MEMBER = 4.0, 10.0
"""What a square that is looked up costs, and a reading in it, in pairs of a list."""


@dataclass
class Choice:
    """How readings of a graph are found, and what that was decided by."""

    graph: Graph
    strategy: int
    is_hinted: bool
    reason: str = "nothing speaks against it yet"

    def told(self) -> str:
        """For EXPLAIN ANALYZE."""
        reason = "by a hint" if self.is_hinted else self.reason
        return f"strategy {STRATEGIES[self.strategy]}: {reason}"


class TriggerStrategies:
    """Chooses for all graphs of a store."""

    def __init__(self, store: ConstraintStore) -> None:
        self._store = store
        self.choices: dict[int, Choice] = {}
        self._free: set[int] = set()
        self._numbers: Longs | None = None
        """The free ones, in an array."""
        self._compared = np.zeros(16, np.int64)
        """Pairs of each graph, up to the last look."""
        self._events = 0
        self._arrived = np.zeros(16, np.int64)
        """Readings that qualified for each variable since the last look."""

    def begin(self, number: int, graph: Graph, *, is_hinted: bool) -> None:
        """A graph begins."""
        self.choices[number] = Choice(graph, graph.strategy, is_hinted)
        if not is_hinted and graph.matched > 1 and self._has_squares(graph):
            self._free.add(number)
            self._numbers = None
            self._compared = longer(self._compared, number + 1)
            self._compared[number] = 0

    def end(self, number: int) -> None:
        """A graph ends."""
        self.choices.pop(number, None)
        self._free.discard(number)
        self._numbers = None

    @staticmethod
    def _has_squares(graph: Graph) -> bool:
        """Are all its readings near each other?"""
        bounds = np.minimum(graph.most, graph.most.T)[: graph.matched, : graph.matched]
        return bool((bounds[~np.eye(graph.matched, dtype=bool)] < np.inf).all())

    def look(self, events: int, variables: Longs) -> None:
        """A tick has ended with so many events, which qualified for these variables."""
        if not self._free:
            return
        self._events += events
        counts = np.bincount(variables, minlength=len(self._arrived))
        counts[: len(self._arrived)] += self._arrived
        self._arrived = counts
        if self._events >= EVERY:
            self._choose()
            self._events = 0
            self._arrived = np.zeros(16, np.int64)

    def _choose(self) -> None:
        """Weigh the strategies of graphs that compare much, or are found by squares."""
        if self._numbers is None:
            self._numbers = np.array(sorted(self._free), np.int64)
        numbers = self._numbers
        first, matched, strategies, compared = self._store.facts_of(numbers)
        pairs = compared - self._compared[numbers]
        self._compared[numbers] = compared
        until = np.append(0, np.cumsum(self._arrived))
        last = len(self._arrived)
        arrived = until[np.minimum(first + matched, last)] - until[np.minimum(first, last)]
        is_worth = (strategies != t.NO_INDEX) | (pairs >= WORTHWHILE * arrived)
        chosen = np.flatnonzero((arrived >= FEW) & is_worth)
        if not len(chosen):
            return
        waiting = numbers[chosen].tolist()
        kept = self._kept(waiting)
        for number, each in zip(waiting, (pairs[chosen] / arrived[chosen]).tolist(), strict=True):
            self._weigh(number, each, kept[number])

    def _kept(self, wanted: Sequence[int]) -> dict[int, Longs]:
        """Some slots of the readings that are kept for graphs."""
        slots, variables, _ = self._store.entries()
        order = np.argsort(variables, kind="stable")
        ordered = variables[order]
        found = {}
        for number in wanted:
            first = self._store.first(number)
            beyond = first + self.choices[number].graph.matched
            begin, end = np.searchsorted(ordered, [first, beyond])
            mine = slots[order[begin:end]]
            found[number] = mine[:: max(1, len(mine) // SAMPLE)]
        return found

    def _weigh(self, number: int, pairs: float, slots: Longs) -> None:
        """Go over to the other way if it is clearly cheaper; `pairs` were compared a reading."""
        choice = self.choices[number]
        if len(slots) < FEW:
            return
        near = self._near(choice.graph, slots)
        is_listed = choice.strategy == t.NO_INDEX
        by_lists = pairs if is_listed else pairs / near
        looked_up = 27 if choice.graph.sphere else 9
        by_squares = SQUARE * looked_up + MEMBER * by_lists * near
        told = (
            f"{by_lists:,.0f} pairs a reading by lists,"
            f" {by_lists * near:,.0f} in the squares around it"
        )
        if is_listed and by_squares * CLEARLY < by_lists:
            self._change(choice, number, t.TIGHT)
        elif not is_listed and by_lists * CLEARLY < by_squares:
            self._change(choice, number, t.NO_INDEX)
        choice.reason = told

    def _change(self, choice: Choice, number: int, strategy: int) -> None:
        choice.strategy = strategy
        self._store.set_strategy(number, choice.graph, strategy)

    def _near(self, graph: Graph, slots: Longs) -> float:
        """The share of pairs of kept readings that lie in squares beside each other."""
        places = self._store.readings_at(slots).places
        places = places[~np.isnan(places[:, 0])]
        squares = np.floor(places * scale_of(graph))
        apart = np.abs(squares[:, None, :] - squares[None, :, :]).max(axis=2, initial=0)
        return float((apart <= 1).mean()) if len(places) else 1.0
