"""The queries of a join as its last source: their constants meet the combinations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns
from place.engine.elements import Changed, Passes, StandingElements, numbered
from place.engine.operators.contract import NEVER, Parameters
from place.engine.tick import Tick
from place.kernels.arrays import Longs


class QueryElements(StandingElements):
    """Queries by their numbers, with their constants as rows."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self._parameters = parameters
        self.active: list[int] = []

    def add(self, queries: Sequence[int]) -> None:
        """Queries begin."""
        self.active += queries

    def drop(self, queries: Sequence[int]) -> None:
        """Queries end."""
        gone = set(queries)
        self.active = [query for query in self.active if query not in gone]

    def load(self, passes: Passes) -> None:
        """All that are registered stand."""
        self._fall_all()
        numbers = np.array(self.active, np.int64)
        self._stand(numbers, self._made(self.pick(~numbers), len(numbers)))

    def open(self, tick: Tick) -> Changed:
        """Queries change between ticks."""
        return Changed.none(self.faces)

    def settle(self, until: int) -> None:
        """Nothing has changed."""

    def pick(self, ids: Longs) -> Columns:
        """The constants of queries."""
        return self._parameters.rows(~ids)

    def names(self, numbers: Longs) -> Longs:
        """A query is called by its number."""
        return numbers

    def identity(self, ids: Longs) -> Columns:
        """Their numbers."""
        return numbered(~ids, self._parameters.dictionary)

    def next_expiry(self) -> int:
        """Queries stay until they are dropped."""
        return NEVER
