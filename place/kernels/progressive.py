"""The progressive join: readings one by one, each against all that stands now (GPAC)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from place.kernels.bulk import Bytes, match_bulk
from place.kernels.grid import Floats, Ints


class Events(NamedTuple):
    """What each reading changed: pairs of box and point, and whether it is and was within."""

    reading: Ints
    box: Ints
    point: Ints
    code: Bytes


def match_progressive(
    positions: Floats,
    boxes: Floats,
    modes: Bytes,
    slots: Ints,
    to: Floats,
    move_starts: NDArray[np.int64],
    move_boxes: Ints,
    move_to: Floats,
) -> Events:
    """Take readings in order; positions and boxes are what they are after the last one."""
    parts = []
    for i in range(len(slots)):
        points = np.concatenate([positions, positions], axis=1)
        rows = np.concatenate([boxes, boxes], axis=1)
        moved, shifted = np.zeros(len(positions), np.bool_), np.zeros(len(boxes), np.bool_)
        if slots[i] >= 0:
            positions[slots[i]] = to[i]
            points[slots[i], 0:2] = to[i]
            moved[slots[i]] = True
        mine = slice(move_starts[i], move_starts[i + 1])
        boxes[move_boxes[mine]] = move_to[mine]
        rows[move_boxes[mine], 0:4] = move_to[mine]
        shifted[move_boxes[mine]] = True
        found = match_bulk(points, rows, modes, moved, shifted)
        parts.append((np.full(len(found.boxes), i, np.int32), *found))
    if not parts:
        empty = np.empty(0, np.int32)
        return Events(empty, empty, empty, np.empty(0, np.uint8))
    return Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))
