"""The progressive join: readings one by one, each against all that stands now (GPAC).

Points are listed by cell. Boxes are listed by the cell of their first corner, in levels: a box is
in the first level whose cells are so large that it spans three of them at most, so that a point
finds the boxes that hold it in three by three cells of each level. Lists are linked, so that
nothing but the lists of what moves is changed, whatever the sizes of boxes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.bulk import Bytes, typical_size
from place.kernels.grid import (
    Axis,
    Floats,
    Grid,
    Ints,
    cell_of,
    choose_grid,
    sample_rows,
)

SPAN = 2
"""How many cells beside its first a box may touch in its level."""
NEAR = 16
FEW = 16
"""So many comparisons cost as much as to put an element into the lists of a grid."""
CHUNK = 1 << 16
"""Readings after which the grid is chosen again, if there are fewer points and boxes."""


class Events(NamedTuple):
    """What each reading changed: pairs of box and point, and whether it is and was within."""

    reading: Ints
    box: Ints
    point: Ints
    code: Bytes


class Lists(NamedTuple):
    """Items linked by cell: `cells` has each item's columns and rows, `place` its list or −1."""

    head: Ints
    after: Ints
    before: Ints
    place: Ints
    cells: Ints


@njit(nogil=True, cache=True)
def _cells_of_points(points, grid):
    """Column and row of each point; −1 where there is none."""
    cells = np.empty((len(points), 2), np.int32)
    for i in range(len(points)):
        x, y = points[i, 0], points[i, 1]
        if x == x and y == y:
            cells[i, 0], cells[i, 1] = cell_of(x, grid.columns), cell_of(y, grid.rows)
        else:
            cells[i, 0], cells[i, 1] = -1, -1
    return cells


@njit(nogil=True, cache=True)
def _cells_of_boxes(boxes, grid):
    """First column and row and last column and row of each box; 0 and −1 where there is none."""
    cells = np.empty((len(boxes), 4), np.int32)
    for i in range(len(boxes)):
        x1, y1, x2, y2 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        if x1 <= x2 and y1 <= y2:
            cells[i, 0], cells[i, 1] = cell_of(x1, grid.columns), cell_of(y1, grid.rows)
            cells[i, 2], cells[i, 3] = cell_of(x2, grid.columns), cell_of(y2, grid.rows)
        else:
            cells[i, 0], cells[i, 1], cells[i, 2], cells[i, 3] = 0, 0, -1, -1
    return cells


@njit(nogil=True, cache=True, inline="always")
def _level_of(left, low, right, high):
    level = 0
    while (right >> level) - (left >> level) > SPAN or (high >> level) - (low >> level) > SPAN:
        level += 1
    return level


@njit(nogil=True, cache=True, inline="always")
def _link(item, place, head, after, before, places):
    places[item] = place
    if place >= 0:
        first = head[place]
        after[item], before[item] = first, -1
        if first >= 0:
            before[first] = item
        head[place] = item


@njit(nogil=True, cache=True, inline="always")
def _unlink(item, head, after, before, places):
    if places[item] >= 0:
        following, previous = after[item], before[item]
        if following >= 0:
            before[following] = previous
        if previous >= 0:
            after[previous] = following
        else:
            head[places[item]] = following


@njit(nogil=True, cache=True)
def _link_all(points, boxes, columns, levels, held):
    """Fills empty lists; `levels` has each level's first list and its columns, `held` its boxes."""
    for i in range(len(points.cells) - 1, -1, -1):
        column, row = points.cells[i, 0], points.cells[i, 1]
        place = row * columns + column if column >= 0 else -1
        _link(i, place, points.head, points.after, points.before, points.place)
    for i in range(len(boxes.cells) - 1, -1, -1):
        left, low, right, high = boxes.cells[i]
        place = -1
        if left <= right:
            level = _level_of(left, low, right, high)
            place = levels[level, 0] + (low >> level) * levels[level, 1] + (left >> level)
            held[level] += 1
        _link(i, place, boxes.head, boxes.after, boxes.before, boxes.place)


@njit(nogil=True, cache=True)
def _run(
    positions, regions, modes, slots, to, move_starts, move_boxes, move_to, to_cells, move_cells,
    point_head, point_after, point_before, point_place, point_cells,
    box_head, box_after, box_before, box_place, box_cells,
    columns, levels, held, stamps, first, out_reading, out_box, out_point, out_code,
):  # fmt: skip
    """Takes readings from `first` on; stops before one whose events do not fit.

    A reading first looks and then moves, so that one that does not fit can be taken again. All
    arguments are plain arrays, so that no reference is counted in the loops.
    """
    count, capacity = 0, len(out_box)
    for i in range(first, len(slots)):
        start, point = count, slots[i]
        x, y, u, v = np.nan, np.nan, np.nan, np.nan
        if point >= 0:
            x, y, u, v = to[i, 0], to[i, 1], positions[point, 0], positions[point, 1]
        # A box that is named twice goes to where it is named last.
        for j in range(move_starts[i], move_starts[i + 1]):
            stamps[move_boxes[j]] = j
        if point >= 0:
            for level in range(len(levels)):
                if held[level] == 0:
                    continue
                r1, t1, r2, t2 = -1, -1, -1, -1
                if to_cells[i, 0] >= 0:
                    r1, t1 = to_cells[i, 0] >> level, to_cells[i, 1] >> level
                if point_cells[point, 0] >= 0:
                    r2, t2 = point_cells[point, 0] >> level, point_cells[point, 1] >> level
                for side in range(2):
                    right, top = (r1, t1) if side == 0 else (r2, t2)
                    if right < 0 or (side == 1 and r1 == r2 and t1 == t2):
                        continue
                    for row in range(max(0, top - SPAN), top + 1):
                        for column in range(max(0, right - SPAN), right + 1):
                            if (
                                side == 1
                                and r1 - SPAN <= column <= r1
                                and t1 - SPAN <= row <= t1
                                and r1 >= 0
                            ):
                                continue
                            box = box_head[levels[level, 0] + row * levels[level, 1] + column]
                            while box >= 0:
                                x1, y1 = regions[box, 0], regions[box, 1]
                                x2, y2 = regions[box, 2], regions[box, 3]
                                now = (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
                                was = (u >= x1) & (u <= x2) & (v >= y1) & (v <= y2)
                                if (
                                    (now | was)
                                    and (now != was or modes[box] != 0)
                                    and stamps[box] < move_starts[i]
                                ):
                                    if count >= capacity:
                                        return i, start
                                    out_reading[count], out_code[count] = i, now + 2 * was
                                    out_box[count], out_point[count] = box, point
                                    count += 1
                                box = box_after[box]
        for j in range(move_starts[i], move_starts[i + 1]):
            box = move_boxes[j]
            if stamps[box] != j:
                continue
            x1, y1, x2, y2 = move_to[j, 0], move_to[j, 1], move_to[j, 2], move_to[j, 3]
            u1, v1, u2, v2 = regions[box, 0], regions[box, 1], regions[box, 2], regions[box, 3]
            l1, b1, r1, t1 = move_cells[j, 0], move_cells[j, 1], move_cells[j, 2], move_cells[j, 3]
            l2, b2, r2, t2 = (
                box_cells[box, 0],
                box_cells[box, 1],
                box_cells[box, 2],
                box_cells[box, 3],
            )
            if l1 <= r1 and l2 <= r2:
                left, low, right, high = min(l1, l2), min(b1, b2), max(r1, r2), max(t1, t2)
                apart = (r1 - l1 + 1) * (t1 - b1 + 1) + (r2 - l2 + 1) * (t2 - b2 + 1)
                if (right - left + 1) * (high - low + 1) <= apart + NEAR:
                    # Near each other, as usual: one window that holds both.
                    l1, b1, r1, t1 = left, low, right, high
                    l2, r2 = 0, -1
            for side in range(2):
                left, low, right, high = (l1, b1, r1, t1) if side == 0 else (l2, b2, r2, t2)
                if left > right:
                    continue
                for row in range(low, high + 1):
                    for column in range(left, right + 1):
                        if side == 1 and l1 <= column <= r1 and b1 <= row <= t1:
                            continue
                        other = point_head[row * columns + column]
                        while other >= 0:
                            a, b = positions[other, 0], positions[other, 1]
                            now = (a >= x1) & (a <= x2) & (b >= y1) & (b <= y2)
                            was = (a >= u1) & (a <= u2) & (b >= v1) & (b <= v2)
                            if (now != was or (now and modes[box] == 2)) and other != point:
                                if count >= capacity:
                                    return i, start
                                out_reading[count], out_code[count] = i, now + 2 * was
                                out_box[count], out_point[count] = box, other
                                count += 1
                            other = point_after[other]
            now = (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
            was = (u >= u1) & (u <= u2) & (v >= v1) & (v <= v2)
            if now != was or (now and modes[box] != 0):
                if count >= capacity:
                    return i, start
                out_reading[count], out_code[count] = i, now + 2 * was
                out_box[count], out_point[count] = box, point
                count += 1
        if point >= 0:
            positions[point, 0], positions[point, 1] = x, y
            column, row = to_cells[i, 0], to_cells[i, 1]
            place = row * columns + column if column >= 0 else -1
            point_cells[point, 0], point_cells[point, 1] = column, row
            if place != point_place[point]:
                _unlink(point, point_head, point_after, point_before, point_place)
                _link(point, place, point_head, point_after, point_before, point_place)
        for j in range(move_starts[i], move_starts[i + 1]):
            box = move_boxes[j]
            if box_cells[box, 0] <= box_cells[box, 2]:
                held[
                    _level_of(
                        box_cells[box, 0], box_cells[box, 1], box_cells[box, 2], box_cells[box, 3]
                    )
                ] -= 1
            place = -1
            for k in range(4):
                regions[box, k] = move_to[j, k]
                box_cells[box, k] = move_cells[j, k]
            left, low, right, high = (
                box_cells[box, 0], box_cells[box, 1], box_cells[box, 2], box_cells[box, 3],
            )  # fmt: skip
            if left <= right:
                level = _level_of(left, low, right, high)
                place = levels[level, 0] + (low >> level) * levels[level, 1] + (left >> level)
                held[level] += 1
            if place != box_place[box]:
                _unlink(box, box_head, box_after, box_before, box_place)
                _link(box, place, box_head, box_after, box_before, box_place)
    return len(slots), count


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
    """Take readings in order: each moves a point (or none: −1), and boxes at the same moment.

    `positions` (x, y) and `boxes` (x1, y1, x2, y2) become what they are after the last reading; NaN
    is absent. Reading i moves the point `slots[i]` to `to[i]`, and the boxes
    `move_boxes[move_starts[i]:move_starts[i + 1]]` to those rows of `move_to`. What a reading
    reports is what `match_bulk` reports with this point and these boxes as what changed.
    """
    parts: list[Events] = []
    step = max(CHUNK, (len(positions) + len(boxes)) // 2)
    for first in range(0, len(slots), step):
        last = min(first + step, len(slots))
        low, high = move_starts[first], move_starts[last]
        found = _run_chunk(
            positions,
            boxes,
            modes,
            slots[first:last],
            to[first:last],
            move_starts[first : last + 1] - low,
            move_boxes[low:high],
            move_to[low:high],
        )
        parts += [part._replace(reading=part.reading + np.int32(first)) for part in found]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.empty(0, np.int32)
        return Events(empty, empty, empty, np.empty(0, np.uint8))
    return Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _run_chunk(
    positions: Floats,
    boxes: Floats,
    modes: Bytes,
    slots: Ints,
    to: Floats,
    move_starts: NDArray[np.int64],
    move_boxes: Ints,
    move_to: Floats,
) -> list[Events]:
    """The events of readings that are taken with one grid."""
    work = len(slots) * len(boxes) + len(move_boxes) * len(positions)
    grid = _grid_of(positions, boxes, to, work)
    columns, rows = grid.columns.cells, grid.rows.cells
    levels, lists = [], 0
    for level in range(max(columns - 1, rows - 1).bit_length() + 1):
        wide, tall = ((columns - 1) >> level) + 1, ((rows - 1) >> level) + 1
        levels.append((lists, wide))
        lists += wide * tall
    points = _empty_lists(grid.cells, _cells_of_points(positions, grid))
    regions = _empty_lists(lists, _cells_of_boxes(boxes, grid))
    shape, held = np.array(levels, np.int64), np.zeros(len(levels), np.int64)
    _link_all(points, regions, columns, shape, held)
    given = (positions, boxes, modes, slots, to, move_starts, move_boxes, move_to)
    cells = (_cells_of_points(to, grid), _cells_of_boxes(move_to, grid))
    stamps = np.full(len(boxes), -1, np.int64)
    parts = []
    first, size = 0, max(1024, 4 * len(slots))
    while first < len(slots):
        ids = np.empty((3, size), np.int32)
        out = Events(ids[0], ids[1], ids[2], np.empty(size, np.uint8))
        start = first
        first, count = _run(
            *given, *cells, *points, *regions, columns, shape, held, stamps, first, *out
        )
        parts.append(
            Events(out.reading[:count], out.box[:count], out.point[:count], out.code[:count])
        )
        if first == start:
            size *= 4
    return parts


def _grid_of(positions: Floats, boxes: Floats, to: Floats, work: int) -> Grid:
    """A grid that fits where points are and go; a single cell where a grid is not worth it."""
    if work <= FEW * (len(positions) + len(boxes)):
        one = Axis(0.0, 0.0, 1, np.zeros(2), np.empty(0))
        return Grid(one, one)
    every = [np.arange(len(rows), dtype=np.int32) for rows in (positions, boxes, to)]
    sample = np.vstack([sample_rows(positions, every[0], 2), sample_rows(to, every[2], 2)])
    size = typical_size(boxes, every[1])
    return choose_grid(sample, *size, max(len(positions), len(boxes)), square=True)


def _empty_lists(number: int, cells: Ints) -> Lists:
    head = np.full(number, -1, np.int32)
    after, before, place = (np.full(len(cells), -1, np.int32) for _ in range(3))
    return Lists(head, after, before, place, cells)
