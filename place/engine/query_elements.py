"""The queries of a join as its last source: their constants meet the combinations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns
from place.engine.elements import NONE, Changed, Passes, StandingElements, numbered
from place.engine.operators.contract import NEVER, Parameters
from place.engine.tick import Tick
from place.kernels.arrays import Longs


class QueryElements(StandingElements):
    """Queries by their numbers, with their constants as rows."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self._parameters = parameters
        self.active: Longs = np.empty(0, np.int64)
        """The numbers of all queries, in the order in which they began."""

    def add(self, queries: Sequence[int]) -> None:
        """Queries begin."""
        self.active = np.concatenate([self.active, np.array(queries, np.int64)])

    def drop(self, queries: Sequence[int]) -> None:
        """Queries end."""
        self.active = self.active[~np.isin(self.active, queries)]

    def load(self, passes: Passes) -> None:
        """All that are registered stand."""
        self._fall_all()
        self._stand(self.active)

    def open(self, tick: Tick) -> Changed:
        """Queries change between ticks."""
        return self._changed(NONE, NONE, NONE, NONE)

    def settle(self, until: int) -> None:
        """Nothing has changed."""

    def pick(self, ids: Longs, columns: Sequence[int] | None = None) -> Columns:
        """The constants of queries."""
        rows = self._parameters.rows(~ids)
        return rows if columns is None else rows.pick(columns)

    def names(self, numbers: Longs) -> Longs:
        """A query is called by its number."""
        return numbers

    def identity(self, ids: Longs) -> Columns:
        """Their numbers."""
        return numbered(~ids, self._parameters.dictionary)

    def next_expiry(self) -> int:
        """Queries stay until they are dropped."""
        return NEVER
