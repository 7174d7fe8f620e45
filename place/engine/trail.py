"""Where objects are and were, over the columns that regions are found by, as the join reads it.

It is kept from instant to instant, so that an instant costs what it changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Columns
from place.engine.objects import Changed, Objects
from place.engine.plans import Dimensions

Floats = NDArray[np.float64]


Passes = Callable[[Columns], NDArray[np.bool_]]
"""Which rows pass the filter of a group of regions."""


class Trail:
    """A row for each slot: the place now, and the place before the instant; NaN for nowhere.

    Objects that do not pass the filter are nowhere, too.
    """

    def __init__(self, dimensions: Dimensions, passes: Passes | None = None) -> None:
        self._dimensions = dimensions[:2]
        self._passes = passes
        self._points = np.empty((0, 4))
        self._moved = np.empty(0, np.bool_)
        self._size = 0
        self._last: NDArray[np.int64] | None = None

    def follow(self, store: Objects, changed: Changed | None) -> tuple[Floats, NDArray[np.bool_]]:
        """The places of all slots, and which of them changed at this instant."""
        size = store.size
        is_new = self._size == 0
        self._reserve(size)
        points, moved = self._points[:size], self._moved[:size]
        if self._last is not None:
            before = slice(None) if 2 * len(self._last) > size else self._last
            points[before, 2:4] = points[before, 0:2]
            moved[self._last] = False
        self._last = None
        if is_new:
            self._write(store, points, slice(0, size))
            points[:, 2:4] = points[:, 0:2]
            if changed is not None:
                points[changed.slots, 2:4] = 0.0
                for k, column in enumerate(self._dimensions):
                    points[changed.slots, k + 2] = changed.before.numbers(column)
                points[changed.slots[~changed.was], 2:4] = np.nan
                if self._passes is not None:
                    points[changed.slots[~self._passes(changed.before)], 2:4] = np.nan
        elif changed is not None:
            self._write(store, points, changed.slots)
        if changed is not None:
            moved[changed.slots] = True
            self._last = changed.slots
        self._size = size
        return points, moved

    def _write(self, store: Objects, points: Floats, slots: NDArray[np.int64] | slice) -> None:
        """Where the objects at these slots are now."""
        for k in range(2):
            if k < len(self._dimensions):
                points[slots, k] = store.columns.numbers(self._dimensions[k], slots)
            else:
                points[slots, k] = 0.0
        gone = ~store.alive[slots]
        if gone.any():
            nowhere = np.flatnonzero(gone)
            points[nowhere if isinstance(slots, slice) else slots[nowhere], 0:2] = np.nan
        if self._passes is not None:
            out = np.flatnonzero(~self._passes(store.columns.take(slots)))
            points[out if isinstance(slots, slice) else slots[out], 0:2] = np.nan

    def _reserve(self, size: int) -> None:
        """Room for so many slots; those that were never seen have been nowhere."""
        if size > len(self._points):
            room = max(size, 2 * len(self._points))
            more = np.full((room - len(self._points), 4), np.nan)
            self._points = np.concatenate([self._points, more])
            self._moved = np.concatenate([self._moved, np.zeros(len(more), np.bool_)])
