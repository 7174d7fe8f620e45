"""The progressive join: readings one by one, each against all that stands now (GPAC).

Points are listed by square. Boxes are listed by the square of their first corner, in levels: a box
is in the first level whose squares are so large that it spans three of them at most, so that a
point finds the boxes that hold it in three by three squares of each level. Lists are linked, so
that nothing but the lists of what moves is changed, whatever the sizes of boxes. Where a shape is
not its box, the exact test is asked of the points that the box holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from place.kernels.arrays import Bytes, Floats, Ints, Longs
from place.kernels.bulk import typical_size
from place.kernels.grid import Axis, Grid, choose_grid, sample_rows, square_of
from place.kernels.inside import POLYGON, SPHERE_CIRCLE, in_numbers, in_polygon, unit_vectors

STAYS, SHIFTS = 1, 2
"""What a box reports beside the points that enter or leave it, as bits of its flags. STAYS: a point
that is read and stays within. SHIFTS: all points that stay within while the box moves."""
SPAN = 2
"""How many squares beside its first a box may touch in its level."""
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


class Shapes(NamedTuple):
    """The exact shapes of boxes, and those that moves give them, as `inside_shapes` reads them.

    `kinds` and `params` have a row for each box, and become what they are after the last reading;
    `move_kinds` and `move_params` have a row for each move.
    """

    kinds: Bytes
    params: Floats
    move_kinds: Bytes
    move_params: Floats
    rings: Floats
    ring_starts: Longs
    polygon_starts: Longs


class Lists(NamedTuple):
    """Items linked by square: `squares` has each item's column and row, `place` its list or −1.

    The last list holds who is nowhere, and behind the last item stands one that is none, so that
    −1 is an index of both, and nothing is asked where something is linked.
    """

    head: Ints
    after: Ints
    before: Ints
    place: Ints
    squares: Ints


@njit(nogil=True, cache=True)
def _squares_of_points(points, grid):
    """Column and row of each point; −1 where there is none."""
    squares = np.empty((len(points), 2), np.int32)
    for i in range(len(points)):
        x, y = points[i, 0], points[i, 1]
        if x == x and y == y:
            squares[i, 0], squares[i, 1] = square_of(x, grid.columns), square_of(y, grid.rows)
        else:
            squares[i, 0], squares[i, 1] = -1, -1
    return squares


@njit(nogil=True, cache=True)
def _squares_of_boxes(boxes, grid):
    """First column and row and last column and row of each box; 0 and −1 where there is none."""
    squares = np.empty((len(boxes), 4), np.int32)
    for i in range(len(boxes)):
        x1, y1, x2, y2 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        if x1 <= x2 and y1 <= y2:
            squares[i, 0], squares[i, 1] = square_of(x1, grid.columns), square_of(y1, grid.rows)
            squares[i, 2], squares[i, 3] = square_of(x2, grid.columns), square_of(y2, grid.rows)
        else:
            squares[i, 0], squares[i, 1], squares[i, 2], squares[i, 3] = 0, 0, -1, -1
    return squares


@njit(nogil=True, cache=True, inline="always")
def _level_of(left, low, right, high):
    level = 0
    while (right >> level) - (left >> level) > SPAN or (high >> level) - (low >> level) > SPAN:
        level += 1
    return level


@njit(nogil=True, cache=True, inline="always")
def _link(item, place, head, after, before, places):
    first = head[place]
    places[item] = place
    after[item], before[item] = first, -1
    before[first] = item
    head[place] = item


@njit(nogil=True, cache=True, inline="always")
def _unlink(item, head, after, before, places):
    place, following, previous = places[item], after[item], before[item]
    before[following], after[previous] = previous, following
    head[place] = following if previous < 0 else head[place]


@njit(nogil=True, cache=True)
def _link_all(points, boxes, columns, levels, held):
    """Fills empty lists; `levels` has each level's first list and its columns, `held` how many
    boxes it has, and at the end how many are nowhere."""
    for i in range(len(points.squares) - 1, -1, -1):
        column, row = points.squares[i, 0], points.squares[i, 1]
        place = row * columns + column if column >= 0 else -1
        _link(i, place, points.head, points.after, points.before, points.place)
    for i in range(len(boxes.squares) - 1, -1, -1):
        level, place = _place_of(i, boxes.squares, levels)
        held[level] += 1
        _link(i, place, boxes.head, boxes.after, boxes.before, boxes.place)


@njit(nogil=True, cache=True, inline="always")
def _place_of(box, squares, levels):
    """The level and the list of a box; −1 and −1 where it is nowhere."""
    left, low, right, high = squares[box, 0], squares[box, 1], squares[box, 2], squares[box, 3]
    level = _level_of(left, low, right, high)
    place = levels[level, 0] + (low >> level) * levels[level, 1] + (left >> level)
    return (level, place) if left <= right else (-1, -1)


@njit(nogil=True, cache=True, inline="always")
def _move_box(
    box, j, regions, move_to, move_squares, head, after, before, places, squares, levels, held,
    kinds, params, move_kinds, move_params,
):  # fmt: skip
    """Puts a box where the move j takes it, and into the list of that place."""
    held[_place_of(box, squares, levels)[0]] -= 1
    for k in range(4):
        regions[box, k], squares[box, k] = move_to[j, k], move_squares[j, k]
        if kinds is not None:
            kinds[box], params[box, k] = move_kinds[j], move_params[j, k]
    level, place = _place_of(box, squares, levels)
    held[level] += 1
    if place != places[box]:
        _unlink(box, head, after, before, places)
        _link(box, place, head, after, before, places)


@njit(nogil=True, cache=True)
def _run(
    positions, regions, flags, slots, to, move_starts, move_boxes, move_to,
    kinds, params, move_kinds, move_params, rings, ring_starts, polygon_starts,
    vectors, to_vectors, to_squares, move_squares,
    point_head, point_after, point_before, point_place, point_squares,
    box_head, box_after, box_before, box_place, box_squares,
    columns, levels, held, stamps, first, out_reading, out_box, out_point, out_code,
):  # fmt: skip
    """Takes readings from `first` on; stops before one whose events do not fit.

    A reading first looks and then moves, so that one that does not fit can be taken again. All
    arguments are plain arrays, so that no reference is counted in the loops. `kinds` and all that
    belongs to exact shapes are None where boxes decide; the unit vectors are empty where no shape
    asks for them.
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
                if to_squares[i, 0] >= 0:
                    r1, t1 = to_squares[i, 0] >> level, to_squares[i, 1] >> level
                if point_squares[point, 0] >= 0:
                    r2, t2 = point_squares[point, 0] >> level, point_squares[point, 1] >> level
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
                                    and (kinds is not None or now != was or flags[box] & STAYS)
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
            l1, b1 = move_squares[j, 0], move_squares[j, 1]
            r1, t1 = move_squares[j, 2], move_squares[j, 3]
            l2, b2 = box_squares[box, 0], box_squares[box, 1]
            r2, t2 = box_squares[box, 2], box_squares[box, 3]
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
                            if (
                                (now | was)
                                and (kinds is not None or now != was or flags[box] & SHIFTS)
                                and other != point
                            ):
                                if count >= capacity:
                                    return i, start
                                out_reading[count], out_code[count] = i, now + 2 * was
                                out_box[count], out_point[count] = box, other
                                count += 1
                            other = point_after[other]
            now = (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
            was = (u >= u1) & (u <= u2) & (v >= v1) & (v <= v2)
            if (now | was) and (kinds is not None or now != was or flags[box] != 0):
                if count >= capacity:
                    return i, start
                out_reading[count], out_code[count] = i, now + 2 * was
                out_box[count], out_point[count] = box, point
                count += 1
        if kinds is not None:
            # So far all whose boxes are or were around the point: now the shapes decide.
            found, count = count, start
            for k in range(start, found):
                box, other, kind = out_box[k], out_point[k], kinds[out_box[k]]
                a, b, d, e, f = positions[other, 0], positions[other, 1], np.nan, np.nan, np.nan
                if len(vectors) > 0:
                    d, e, f = vectors[other, 0], vectors[other, 1], vectors[other, 2]
                p, q, r, s = params[box, 0], params[box, 1], params[box, 2], params[box, 3]
                was = (out_code[k] & 2) != 0 and (
                    in_numbers(a, b, d, e, f, kind, p, q, r, s)
                    if kind < POLYGON
                    else in_polygon(a, b, kind, p, rings, ring_starts, polygon_starts)
                )
                asks = 0
                if other == point:
                    a, b, asks = x, y, flags[box] & STAYS
                    if len(vectors) > 0:
                        d, e, f = to_vectors[i, 0], to_vectors[i, 1], to_vectors[i, 2]
                j = stamps[box]
                if j >= move_starts[i]:
                    kind, asks = move_kinds[j], asks | flags[box] & SHIFTS
                    p, q = move_params[j, 0], move_params[j, 1]
                    r, s = move_params[j, 2], move_params[j, 3]
                now = (out_code[k] & 1) != 0 and (
                    in_numbers(a, b, d, e, f, kind, p, q, r, s)
                    if kind < POLYGON
                    else in_polygon(a, b, kind, p, rings, ring_starts, polygon_starts)
                )
                if now != was or (now and asks):
                    out_reading[count], out_code[count] = i, now + 2 * was
                    out_box[count], out_point[count] = box, other
                    count += 1
        if point >= 0:
            positions[point, 0], positions[point, 1] = x, y
            if kinds is not None and len(vectors) > 0:
                for k in range(3):
                    vectors[point, k] = to_vectors[i, k]
            column, row = to_squares[i, 0], to_squares[i, 1]
            place = row * columns + column if column >= 0 else -1
            point_squares[point, 0], point_squares[point, 1] = column, row
            if place != point_place[point]:
                _unlink(point, point_head, point_after, point_before, point_place)
                _link(point, place, point_head, point_after, point_before, point_place)
        for j in range(move_starts[i], move_starts[i + 1]):
            _move_box(
                move_boxes[j], j, regions, move_to, move_squares, box_head, box_after, box_before,
                box_place, box_squares, levels, held, kinds, params, move_kinds, move_params,
            )  # fmt: skip
    return len(slots), count


@njit(nogil=True, cache=True)
def _run_visits(
    regions, slots, to, move_starts, move_boxes, move_to,
    kinds, params, move_kinds, move_params, rings, ring_starts, polygon_starts,
    vectors, to_vectors, to_squares, move_squares,
    box_head, box_after, box_before, box_place, box_squares,
    levels, held, first, out_reading, out_box, out_point, out_code,
):  # fmt: skip
    """The same for visitors: moves boxes, and then finds the shapes that hold the visitor.

    Moves that are made again leave all as it is, so that a reading can be taken again.
    """
    count, capacity = 0, len(out_box)
    for i in range(first, len(slots)):
        start, point = count, slots[i]
        for j in range(move_starts[i], move_starts[i + 1]):
            _move_box(
                move_boxes[j], j, regions, move_to, move_squares, box_head, box_after, box_before,
                box_place, box_squares, levels, held, kinds, params, move_kinds, move_params,
            )  # fmt: skip
        if point < 0 or to_squares[i, 0] < 0:
            continue
        x, y, d, e, f = to[i, 0], to[i, 1], np.nan, np.nan, np.nan
        if kinds is not None and len(to_vectors) > 0:
            d, e, f = to_vectors[i, 0], to_vectors[i, 1], to_vectors[i, 2]
        for level in range(len(levels)):
            if held[level] == 0:
                continue
            right, top = to_squares[i, 0] >> level, to_squares[i, 1] >> level
            for row in range(max(0, top - SPAN), top + 1):
                for column in range(max(0, right - SPAN), right + 1):
                    box = box_head[levels[level, 0] + row * levels[level, 1] + column]
                    while box >= 0:
                        now = (x >= regions[box, 0]) & (x <= regions[box, 2])
                        now &= (y >= regions[box, 1]) & (y <= regions[box, 3])
                        if kinds is not None and now:
                            p, q = params[box, 0], params[box, 1]
                            r, s = params[box, 2], params[box, 3]
                            if kinds[box] < POLYGON:
                                now = in_numbers(x, y, d, e, f, kinds[box], p, q, r, s)
                            else:
                                now = in_polygon(
                                    x, y, kinds[box], p, rings, ring_starts, polygon_starts
                                )
                        if now:
                            if count >= capacity:
                                return i, start
                            out_reading[count], out_code[count] = i, 1
                            out_box[count], out_point[count] = box, point
                            count += 1
                        box = box_after[box]
    return len(slots), count


def match_progressive(
    positions: Floats,
    boxes: Floats,
    flags: Bytes,
    slots: Ints,
    to: Floats,
    move_starts: Longs,
    move_boxes: Ints,
    move_to: Floats,
    shapes: Shapes | None = None,
    *,
    visiting: bool = False,
) -> Events:
    """Take readings in order: each moves a point (or none: −1), and boxes at the same moment.

    `positions` (x, y) and `boxes` (x1, y1, x2, y2) become what they are after the last reading; NaN
    is absent. Reading i moves the point `slots[i]` to `to[i]`, and the boxes
    `move_boxes[move_starts[i]:move_starts[i + 1]]` to those rows of `move_to`. It reports every
    pair of which the point enters or leaves the box; and of those that stay, what the box's flags
    ask for. `shapes` has the exact shapes, where the boxes only hold them.

    Where points are `visiting`, each comes and vanishes with its reading, after the boxes of the
    reading have moved: all shapes that hold it are reported, and `positions` is not looked at.
    """
    parts: list[Events] = []
    if visiting:
        positions = np.empty((0, 2))
    vectors, to_vectors = _vectors_of(positions, shapes), _vectors_of(to, shapes)
    step = max(CHUNK, (len(positions) + len(boxes)) // 2)
    for first in range(0, len(slots), step):
        last = min(first + step, len(slots))
        low, high = move_starts[first], move_starts[last]
        exact: tuple[NDArray[Any] | None, ...] = (None,) * 9
        if shapes is not None:
            taken = (shapes.move_kinds[low:high], shapes.move_params[low:high])
            exact = (*shapes[:2], *taken, *shapes[4:], vectors, to_vectors[first:last])
        readings = (slots[first:last], to[first:last], move_starts[first : last + 1] - low)
        moves = (move_boxes[low:high], move_to[low:high])
        found = _run_chunk(positions, boxes, flags, (*readings, *moves, *exact), visiting)
        parts += [part._replace(reading=part.reading + np.int32(first)) for part in found]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.empty(0, np.int32)
        return Events(empty, empty, empty, np.empty(0, np.uint8))
    return Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _vectors_of(points: Floats, shapes: Shapes | None) -> Floats:
    """The unit vectors of points; none where no shape asks for them."""
    kinds = () if shapes is None else (shapes.kinds, shapes.move_kinds)
    chosen = points if any((some == SPHERE_CIRCLE).any() for some in kinds) else points[:0]
    vectors: Floats = unit_vectors(chosen[:, 0], chosen[:, 1])
    return vectors


def _run_chunk(
    positions: Floats, boxes: Floats, flags: Bytes, given: tuple[Any, ...], visiting: bool
) -> list[Events]:
    """The events of readings that are taken with one grid."""
    slots, to, _, move_boxes, move_to = given[:5]
    work = len(slots) * len(boxes) + len(move_boxes) * len(positions)
    grid = _grid_of(positions, boxes, to, work)
    columns, rows = grid.columns.squares, grid.rows.squares
    levels, lists = [], 0
    for level in range(max(columns - 1, rows - 1).bit_length() + 1):
        wide, tall = ((columns - 1) >> level) + 1, ((rows - 1) >> level) + 1
        levels.append((lists, wide))
        lists += wide * tall
    points = _empty_lists(0 if visiting else grid.squares, _squares_of_points(positions, grid))
    regions = _empty_lists(lists, _squares_of_boxes(boxes, grid))
    shape, held = np.array(levels, np.int64), np.zeros(len(levels) + 1, np.int64)
    _link_all(points, regions, columns, shape, held)
    given += (_squares_of_points(to, grid), _squares_of_boxes(move_to, grid))
    stamps = np.full(len(boxes), -1, np.int64)
    if visiting:
        given = (boxes, *given, *regions, shape, held)
    else:
        given = (positions, boxes, flags, *given, *points, *regions, columns, shape, held, stamps)
    parts = []
    first, size = 0, max(1024, 4 * len(slots))
    while first < len(slots):
        ids = np.empty((3, size), np.int32)
        out = Events(ids[0], ids[1], ids[2], np.empty(size, np.uint8))
        start = first
        arguments = (*given, first, *out)
        first, count = _run_visits(*arguments) if visiting else _run(*arguments)
        parts.append(
            Events(out.reading[:count], out.box[:count], out.point[:count], out.code[:count])
        )
        if first == start:
            size *= 4
    return parts


def _grid_of(positions: Floats, boxes: Floats, to: Floats, work: int) -> Grid:
    """A grid that fits where points are and go; a single square where a grid is not worth it."""
    if work <= FEW * (len(positions) + len(boxes)):
        one = Axis(0.0, 0.0, 1, np.zeros(2), np.empty(0))
        return Grid(one, one)
    every = [np.arange(len(rows), dtype=np.int32) for rows in (positions, boxes, to)]
    sample = np.vstack([sample_rows(positions, every[0], 2), sample_rows(to, every[2], 2)])
    size = typical_size(boxes, every[1])
    return choose_grid(sample, *size, max(len(positions), len(boxes)), linked=True)


def _empty_lists(number: int, squares: Ints) -> Lists:
    head = np.full(number + 1, -1, np.int32)
    after, before, place = (np.full(len(squares) + 1, -1, np.int32) for _ in range(3))
    return Lists(head, after, before, place, squares)
