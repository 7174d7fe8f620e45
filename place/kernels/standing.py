"""What stands still, kept in order from one instant to the next."""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.arrays import Bools, Floats, Ints
from place.kernels.grid import choose_grid, sample_rows
from place.kernels.order import Pool, Sorted, sort_by_square

LOOSE, ABSENT = -1, -2
"""Where an element is kept that does not stand among the others: nowhere yet, or never."""
LOOSE_COST = 2
"""What an element costs at an instant if it is loose, beside what it costs to sort it."""
MOST_LEVELS = 8


@njit(nogil=True, cache=True)
def _part(rows, width, changed, where, kept):
    """What changed, struck out of what is kept, and what stands still and is not kept yet."""
    moved, loose = np.empty(len(rows) + 1, np.int32), np.empty(len(rows) + 1, np.int32)
    m, n = np.uint64(0), np.uint64(0)
    for i in range(len(rows)):
        moved[m] = i
        m += np.uint64(changed[i])
        loose[n] = i
        n += np.uint64((not changed[i]) & (where[i] == LOOSE))
    for k in range(m):
        if where[moved[k]] >= 0:
            kept[where[moved[k]]] = np.nan
        where[moved[k]] = LOOSE
    present = 0
    for k in range(n):
        i = loose[k]
        # Of a point, a coordinate is compared with itself: it is not equal if it is NaN.
        if rows[i, 0] <= rows[i, width - 2] and rows[i, 1] <= rows[i, width - 1]:
            loose[present] = i
            present += 1
        else:
            where[i] = ABSENT
    return moved[:m], loose[:present]


@njit(nogil=True, cache=True)
def _levels(boxes, chosen, unit_x, unit_y):
    """The class of each box: powers of 4 of its width and its height, in units."""
    levels = np.empty(len(chosen), np.uint8)
    for i in range(len(chosen)):
        width = (boxes[chosen[i], 2] - boxes[chosen[i], 0]) * unit_x
        height = (boxes[chosen[i], 3] - boxes[chosen[i], 1]) * unit_y
        x, y = 0, 0
        while width > 1.0 and x < MOST_LEVELS - 1:
            width *= 0.25
            x += 1
        while height > 1.0 and y < MOST_LEVELS - 1:
            height *= 0.25
            y += 1
        levels[i] = x * MOST_LEVELS + y
    return levels


class Standing:
    """The elements of one side that stand still, in the order of their squares.

    Boxes are sorted by their first corner in classes of like size, so that a point finds those
    that hold it within the reach of the class. It is no more than a cache of the rows: who changes
    is struck out, and who stands still again is loose until it is worth to sort all of them.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.reset()

    def reset(self) -> None:
        self._where = np.empty(0, np.int32)
        self._rows = np.empty((0, self._width))
        self._debt = 0
        self.classes: list[tuple[Sorted, tuple[float, float]]] = []

    def part(self, rows: Floats, changed: Bools) -> tuple[Ints, Ints]:
        """The elements that changed, and those that stand still and are not kept here."""
        if len(rows) < len(self._where):
            self.reset()
        if len(rows) > len(self._where):
            new = np.full(len(rows) - len(self._where), LOOSE, np.int32)
            self._where = np.concatenate([self._where, new])
        moved, loose = _part(rows, self._width, changed, self._where, self._rows)
        return moved, loose

    def keep(self, rows: Floats, loose: Ints, size: tuple[float, float], pool: Pool) -> Ints:
        """Sorts the loose elements in once they have cost more than that; who is loose then.

        `size` is the size of the windows that will be asked for, if this holds points.
        """
        self._debt += LOOSE_COST * len(loose)
        if self._debt <= len(self._rows):
            return loose
        kept = np.flatnonzero(self._where >= 0).astype(np.int32)
        chosen = np.sort(np.concatenate([kept, loose]))
        self._debt = 0
        self._rows = np.empty((len(chosen), self._width))
        self.classes = []
        first = 0
        for part, reach in [(chosen, size)] if self._width == 2 else _classes(rows, chosen):
            grid = choose_grid(sample_rows(rows, part, 2), *reach, len(part))
            found = sort_by_square(rows, part, grid, pool, self._rows[first : first + len(part)])
            self._where[found.names] = np.arange(first, first + len(part), dtype=np.int32)
            first += len(part)
            self.classes.append((found, reach))
        return loose[:0]


def _classes(boxes: Floats, chosen: Ints) -> list[tuple[Ints, tuple[float, float]]]:
    """Boxes in classes of like size, the largest class first, and the most that each reaches."""
    if len(chosen) == 0:
        return []
    corners = np.sort(sample_rows(boxes, chosen, 4)[:, :2], axis=0)
    with np.errstate(all="ignore"):
        spans = corners[-1 - len(corners) // 200] - corners[len(corners) // 200]
        units = np.where((spans > 0.0) & (spans < np.inf), len(chosen) ** 0.5 / spans, 1.0)
        levels = _levels(boxes, chosen, *units)
        found = []
        for level in np.unique(levels):
            part = chosen[levels == level]
            sizes = (boxes[part, 2:4] - boxes[part, :2]).max(axis=0)
            # A difference may have been rounded down: the next number is not too small.
            reach = np.nextafter(sizes, np.inf)
            found.append((part, (float(reach[0]), float(reach[1]))))
    return sorted(found, key=lambda one: -len(one[0]))
