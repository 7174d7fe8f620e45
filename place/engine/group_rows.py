"""The queries of one shape that choose by a group of places, as rows of arrays: how many each asks
for, around which places, and whom it has chosen."""

from __future__ import annotations

import numpy as np

from place.engine.nearest_rows import rows_led_by
from place.kernels.arrays import Bools, Floats, Longs
from place.kernels.nearest_group import MAX, MIN, SUM
from place.plan.query import Focal, Nearest

TOTALS = {"SUM": SUM, "MAX": MAX, "MIN": MIN}


class GroupRows:
    """A row for each query; the places and the members of all rows stand in long arrays."""

    def __init__(self) -> None:
        self.numbers = np.empty(0, np.int64)
        """The number of the query of each row."""
        self.ks = np.empty(0, np.int64)
        self.totals = np.empty(0, np.int64)
        self.fresh = np.empty(0, np.bool_)
        """The rows that have to be looked at, whatever happens."""
        self.sizes = np.empty(0, np.int64)
        self.places = np.empty((0, 2))
        """Where the places of all rows are; NaN for a focal object that is gone."""
        self.focals = np.empty(0, np.int64)
        """The number of the focal object of each place, −1 for a point."""
        self.members = np.empty(0, np.int32)
        self.measures = np.empty(0)
        self._ended: set[int] = set()

    @property
    def place_starts(self) -> Longs:
        """Where the places of each row begin, and where the last ones end."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])

    @property
    def member_starts(self) -> Longs:
        """Where the members of each row begin, and where the last ones end."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.ks)])

    @property
    def is_fresh(self) -> bool:
        return bool(self.fresh.any())

    def add(self, query: int, clause: Nearest, focals: Longs, places: Floats) -> None:
        """One query more; of each of its places, the number of the focal object or −1, and where
        that is."""
        group = clause.group
        assert group is not None
        where = places.copy()
        for i, place in enumerate(group.places):
            if not isinstance(place, Focal):
                where[i] = place
        self.numbers = np.append(self.numbers, query)
        self.ks = np.append(self.ks, clause.k)
        self.totals = np.append(self.totals, TOTALS[group.total])
        self.fresh = np.append(self.fresh, True)
        self.sizes = np.append(self.sizes, len(group.places))
        self.places = np.concatenate([self.places, where])
        self.focals = np.concatenate([self.focals, focals])
        self.members = np.concatenate([self.members, np.full(clause.k, -1, np.int32)])
        self.measures = np.concatenate([self.measures, np.full(clause.k, np.inf)])

    def end(self, query: int) -> None:
        """A query has no places any more, so that everything in its answer leaves."""
        mine = self.numbers == query
        places = np.repeat(mine, self.sizes)
        self.places[places], self.focals[places] = np.nan, -1
        self.fresh[mine] = True
        self._ended.add(query)

    def settle(self) -> None:
        """What was to be looked at was; rows of queries that have ended go."""
        self.fresh[:] = False
        if self._ended:
            self._keep(~np.isin(self.numbers, list(self._ended)))
            self._ended = set()

    def _keep(self, kept: Bools) -> None:
        places, members = np.repeat(kept, self.sizes), np.repeat(kept, self.ks)
        self.places, self.focals = self.places[places], self.focals[places]
        self.members, self.measures = self.members[members], self.measures[members]
        self.numbers, self.ks, self.totals = self.numbers[kept], self.ks[kept], self.totals[kept]
        self.fresh, self.sizes = self.fresh[kept], self.sizes[kept]

    def renumber(self, numbers: Longs) -> None:
        """Focal objects have other numbers now."""
        self.focals = numbers[self.focals]

    def follow(self, focals: Longs, places: Floats) -> None:
        """Focal objects move, in this order: so do the places that they are."""
        rows, which = self.led_by(focals)
        self.places[rows] = places[which]

    def led_by(self, focals: Longs) -> tuple[Longs, Longs]:
        """The places that each of these focal objects is, and its position among these."""
        return rows_led_by(self.focals, focals)

    def excluded(self, seats: Longs) -> Longs:
        """The slots of focal objects, which are never in the answers that they lead."""
        return np.where(self.focals >= 0, seats[self.focals], -1)
