"""The bulk join: all that changed at one instant, old against new.

Points are rows (x, y now, x, y before), boxes are rows (x1, y1, x2, y2 now, and before); NaN is
absent. A pair whose membership differs between before and now is a change. What changed meets
what changed, and what stands still on the other side; what stands still is kept in the order of
its squares from one instant to the next. What stands still has the same values now and before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from place.kernels.arrays import Bools, Bytes, Floats, Ints
from place.kernels.compare import in_standing_box, moving_point_in, standing_point_in
from place.kernels.grid import Grid, choose_grid, sample_rows
from place.kernels.order import SERIAL, Pool, Sorted, sort_by_square
from place.kernels.search_windows import rest_of_windows, windows_of
from place.kernels.standing import Standing

SIMPLE, WATCHED, TOUCHED = 0, 1, 2
"""What a box reports. SIMPLE: points that enter or leave. WATCHED: also changed points that stay
within. TOUCHED: every point that is or was within, for a test that the box cannot decide."""

PIECE = 1 << 18
"""Pairs that a piece of output holds, if no single box needs more."""
FEW, FEW_EACH = 1 << 16, 16
"""Pairs that are simply compared: always, and for each element until what stands is sorted."""
NAME = np.uint32((1 << 30) - 1)
"""The bits of an entry's name that are not its kind."""


class Pairs(NamedTuple):
    """Pairs of box and point, and whether the point is (1) and was (2) within the box."""

    boxes: Ints
    points: Ints
    codes: Bytes


EMPTY = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.uint8))


def _reported(loud: bool) -> np.uint64:
    """A bit for each comparison that makes a pair to report. Of a comparison's number, bits 0 and 1
    are within now, 2 and 3 before, and 4 and 5 the entry's kind. Loud boxes report who stays."""
    found = 0
    for number in range(64):
        now, was, kind = number & 3 == 3, number & 12 == 12, number >> 4
        if (now and kind & 1 and (loud or not was)) or (was and not now and kind & 2):
            found |= 1 << number
    return np.uint64(found)


QUIET_MASKS, LOUD_MASKS = _reported(False), _reported(True)


@njit(nogil=True, cache=True)
def _fill_from_boxes(
    names, rows, windows, points, entries, starts, columns, standing, modes, changed_boxes,
    changed_points, first, hits, out_box, out_point, out_code,
):  # fmt: skip
    """For each box, the points in its window; stops before a box that may not fit.

    `standing` is None where the points may have moved: then their names tell which entries stand
    for now or before. All arguments are plain arrays, so that no reference is counted in the loop.
    """
    capacity, count, top = np.uint64(len(hits)), np.uint64(0), np.uint32(30)
    for k in range(np.uint64(first), np.uint64(len(names))):
        x1, y1, x2, y2 = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3]
        u1, v1, u2, v2 = rows[k, 4], rows[k, 5], rows[k, 6], rows[k, 7]
        box = names[k]
        mode = modes[box]
        masks = LOUD_MASKS if mode != 0 else QUIET_MASKS
        found = np.uint64(0)
        if windows[k, 0] > windows[k, 2]:
            continue
        for row in range(windows[k, 1], windows[k, 3] + 1):
            start = np.uint64(starts[np.uint64(row * columns + windows[k, 0])])
            end = np.uint64(starts[np.uint64(row * columns + windows[k, 2] + 1)])
            if count + found + (end - start) > capacity:
                return np.int64(k), count
            for i in range(start, end):
                if standing is None:
                    mask = moving_point_in(entries, i, x1, y1, u1, v1, x2, y2, u2, v2)
                    kept = masks >> (mask | np.uint64((points[i] >> top) << np.uint32(4)))
                else:
                    mask = standing_point_in(entries, i, x1, y1, u1, v1, x2, y2, u2, v2)
                    kept = masks >> (mask | np.uint64(48))
                hits[found] = i | (mask << np.uint64(32))
                found += kept & np.uint64(1)
        for hit in range(found):
            i, mask = hits[hit] & np.uint64(0xFFFFFFFF), hits[hit] >> np.uint64(32)
            code = np.uint8((mask & np.uint64(3)) == 3) | np.uint8((mask >= np.uint64(12)) << 1)
            point = points[i] & NAME
            out_box[count] = box
            out_point[count] = point
            out_code[count] = code
            if code == 3 and not (changed_points[point] or (mode == 2 and changed_boxes[box])):
                continue
            count += np.uint64(1)
    return np.int64(len(names)), count


@njit(nogil=True, cache=True)
def _fill_from_points(
    names, rows, windows, boxes, entries, starts, columns, modes, loud, first, hits, out_box,
    out_point, out_code,
):  # fmt: skip
    """For each point that moved, the boxes that stand still and whose first corner is in its
    window; stops before one may not fit."""
    capacity, count = np.uint64(len(hits)), np.uint64(0)
    masks = LOUD_MASKS if loud else QUIET_MASKS
    for k in range(np.uint64(first), np.uint64(len(names))):
        x, y, u, v = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3]
        found = np.uint64(0)
        if windows[k, 0] > windows[k, 2]:
            continue
        for row in range(windows[k, 1], windows[k, 3] + 1):
            start = np.uint64(starts[np.uint64(row * columns + windows[k, 0])])
            end = np.uint64(starts[np.uint64(row * columns + windows[k, 2] + 1)])
            if count + found + (end - start) > capacity:
                return np.int64(k), count
            for i in range(start, end):
                mask = in_standing_box(entries, i, x, y, u, v)
                hits[found] = i | (mask << np.uint64(32))
                found += (masks >> (mask | np.uint64(48))) & np.uint64(1)
        for hit in range(found):
            i, mask = hits[hit] & np.uint64(0xFFFFFFFF), hits[hit] >> np.uint64(32)
            code = np.uint8((mask & np.uint64(3)) == 3) | np.uint8((mask >= np.uint64(12)) << 1)
            box = boxes[i]
            out_box[count] = box
            out_point[count] = names[k]
            out_code[count] = code
            count += np.uint64(code != 3 or modes[box] != 0)
    return np.int64(len(names)), count


def typical_size(boxes: Floats, chosen: Ints) -> tuple[float, float]:
    """The size of a usual box."""
    sample = sample_rows(boxes, chosen, 4, 256)
    if len(sample) == 0:
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = sample[:, 2:] - sample[:, :2]
    sizes = np.sort(np.where(sizes >= 0.0, sizes, 0.0), axis=0)
    return float(sizes[len(sizes) // 2, 0]), float(sizes[len(sizes) // 2, 1])


def _joined(parts: list[Pairs]) -> Pairs:
    if len(parts) <= 1:
        return parts[0] if parts else EMPTY
    return Pairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class _Join(NamedTuple):
    """Rows that walk past others, how far they reach, what compares them, and what it needs."""

    walked: Sorted
    past: Sorted
    reach: tuple[float, float]
    fill: Callable[..., tuple[int, int]]
    needs: tuple[Any, ...]


def _walk(join: _Join, low: int, high: int) -> list[Pairs]:
    """What the walked rows `low` to `high` find."""
    past, reach = join.past, join.reach
    names, rows = join.walked.names[low:high], join.walked.rows[low:high]
    windows = np.empty((high - low, 4), np.int32)
    far = windows_of(rows, *reach, past.grid, windows)
    others = (past.names, past.rows, past.starts, past.grid.columns.squares, *join.needs)
    pieces = _filled(join.fill, (names, rows, windows, *others))
    if len(far):
        rest = rest_of_windows(rows, *reach, past.grid, windows, far)
        again = np.repeat(far, 4)
        pieces += _filled(join.fill, (names[again], rows[again], rest, *others))
    return pieces


def _filled(fill: Callable[..., tuple[int, int]], work: tuple[Any, ...]) -> list[Pairs]:
    """All pairs that a fill finds, in pieces that are as large as needed."""
    pieces: list[Pairs] = []
    first, last = 0, len(work[0])
    size = min(PIECE, max(1024, 16 * last))
    hits = np.empty(size, np.uint64)
    while first < last:
        out = Pairs(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.uint8))
        start = first
        first, count = fill(*work, first, hits, *out)
        pieces.append(Pairs(out.boxes[:count], out.points[:count], out.codes[:count]))
        if first == start:
            size *= 4
            hits = np.empty(size, np.uint64)
    return pieces


@njit(nogil=True, cache=True)
def _compare(points, boxes, modes, changed, moved, shifted):
    """Every pair that may have to be reported is looked at: cheapest where little changed."""
    hits = np.empty(max(len(points), len(boxes)), np.int64)
    out, count = np.empty((3, 1024), np.int32), 0
    for k in range(len(moved) + len(shifted)):
        found = 0
        if k < len(moved):
            x, y, u, v = points[moved[k]]
            for b in range(len(boxes)):
                now = (
                    (x >= boxes[b, 0])
                    & (y >= boxes[b, 1])
                    & (x <= boxes[b, 2])
                    & (y <= boxes[b, 3])
                )
                was = (
                    (u >= boxes[b, 4])
                    & (v >= boxes[b, 5])
                    & (u <= boxes[b, 6])
                    & (v <= boxes[b, 7])
                )
                hits[found] = b << 2 | now | was << 1
                found += (now != was) | (now & (modes[b] != 0))
        else:
            box = shifted[k - len(moved)]
            x1, y1, x2, y2, u1, v1, u2, v2 = boxes[box]
            loud = modes[box] == 2
            for p in range(len(points)):
                x, y = points[p, 0], points[p, 1]
                now = (x >= x1) & (y >= y1) & (x <= x2) & (y <= y2)
                was = (x >= u1) & (y >= v1) & (x <= u2) & (y <= v2)
                hits[found] = p << 2 | now | was << 1
                found += ((now != was) | (now & loud)) & (not changed[p])
        if count + found > out.shape[1]:
            more = np.empty((3, 2 * (count + found)), np.int32)
            more[:, :count] = out[:, :count]
            out = more
        for hit in range(found):
            out[0, count] = hits[hit] >> 2 if k < len(moved) else shifted[k - len(moved)]
            out[1, count] = moved[k] if k < len(moved) else hits[hit] >> 2
            out[2, count] = hits[hit] & 3
            count += 1
    return out[0, :count], out[1, :count], out[2, :count].astype(np.uint8)


class BulkMatcher:
    """The bulk join of instant after instant, which keeps in order what stands still.

    It relies on the flags alone: what is not flagged as changed has the values of the last call.
    Elements may be appended; after anything else there is `reset`.
    """

    def __init__(self) -> None:
        self._points, self._boxes = Standing(2), Standing(4)
        self._owed = 0

    def reset(self) -> None:
        """Forget what stands still."""
        self._owed = 0
        self._points.reset()
        self._boxes.reset()

    def match(
        self,
        points: Floats,
        boxes: Floats,
        modes: Bytes,
        changed_points: Bools,
        changed_boxes: Bools,
        *,
        threads: int = 1,
    ) -> Pairs:
        """The pairs that one instant changes, each once; see `match_bulk`."""
        pool = Pool(threads if len(points) + len(boxes) > SERIAL else 1)
        (moved, loose_points), (shifted, loose_boxes) = pool.map(
            [
                partial(self._points.part, points, changed_points),
                partial(self._boxes.part, boxes, changed_boxes),
            ]
        )
        if len(points) == 0 or len(boxes) == 0 or len(moved) + len(shifted) == 0:
            return EMPTY
        pairs = len(moved) * len(boxes) + len(shifted) * len(points)
        self._owed += pairs
        kept = self._points.classes or self._boxes.classes
        if pairs <= FEW or (not kept and self._owed <= FEW_EACH * (len(points) + len(boxes))):
            return Pairs(*_compare(points, boxes, modes, changed_points, moved, shifted))
        joins: list[_Join] = []
        flags = (modes, changed_boxes, changed_points)
        size = typical_size(boxes, shifted if len(shifted) else loose_boxes)
        if _is_full(len(moved) / len(points), len(shifted) / len(boxes)):
            self.reset()
            loose_points = np.flatnonzero(~changed_points).astype(np.int32)
            loose_boxes = np.flatnonzero(~changed_boxes).astype(np.int32)
        else:
            if len(shifted):
                loose_points = self._points.keep(points, loose_points, size, pool)
            if len(moved):
                loose_boxes = self._boxes.keep(boxes, loose_boxes, size, pool)
        # Loose elements meet what changed as if they had, too: from where they are to there.
        entered = _merged(moved, loose_points, len(points)) if len(shifted) else moved
        walking = _merged(shifted, loose_boxes, len(boxes)) if len(moved) else shifted
        walked = entries = None
        if len(entered) and len(walking):
            grid = choose_grid(sample_rows(points, entered, 2), *size, len(entered))
            entries, walked = _sorted_both(points, entered, boxes, walking, grid, pool, threads)
            joins.append(_Join(walked, entries, (0.0, 0.0), _fill_from_boxes, (None, *flags)))
        if len(shifted):
            for standing, _ in self._points.classes:
                if walked is None or len(walking) > len(shifted):
                    walked = sort_by_square(boxes, shifted, standing.grid, pool)
                needs = (True, *flags)
                joins.append(_Join(walked, standing, (0.0, 0.0), _fill_from_boxes, needs))
        if len(moved) and self._boxes.classes:
            if entries is None or len(entered) > len(moved):
                grid = self._boxes.classes[0][0].grid
                ordered = sort_by_square(points, moved, grid, pool)
            else:
                ordered = _once(entries)
            kinds = (modes, bool(modes.any()))
            for standing, reach in self._boxes.classes:
                joins.append(_Join(ordered, standing, reach, _fill_from_points, kinds))
        found = pool.map(
            partial(_walk, join, low, high)
            for join in joins
            for low, high in pool.cut(len(join.walked.names), 2)
        )
        return _joined([piece for pieces in found for piece in pieces])


def _sorted_both(
    points: Floats,
    entered: Ints,
    boxes: Floats,
    walking: Ints,
    grid: Grid,
    pool: Pool,
    threads: int,
) -> tuple[Sorted, Sorted]:
    """Points that move and boxes, each in the order of squares.

    Two threads take one each; more of them take pieces. A pool is not asked from within its work.
    """
    each = Pool(1) if threads <= 2 else pool
    work = [
        partial(sort_by_square, points, entered, grid, each, moves=True),
        partial(sort_by_square, boxes, walking, grid, each),
    ]
    entries, walked = pool.map(work) if threads <= 2 else [piece() for piece in work]
    return entries, walked


def _merged(some: Ints, others: Ints, size: int) -> Ints:
    """Both in ascending order; of all there are, that is everything."""
    if len(some) + len(others) == size:
        return np.arange(size, dtype=np.int32)
    return np.sort(np.concatenate([some, others])) if len(others) else some


def _once(entries: Sorted) -> Sorted:
    """Each point of some entries once: where it is, or, if it is gone, where it was."""
    once = (entries.names >> np.uint32(30)) != 2
    others = np.flatnonzero(~once)
    once[others] = np.isnan(entries.rows[others, 0]) | np.isnan(entries.rows[others, 1])
    kept = np.flatnonzero(once)
    names = (entries.names[kept] & NAME).astype(np.int32)
    return Sorted(entries.grid, entries.starts, names, entries.rows.take(kept, axis=0))


def _is_full(moved: float, shifted: float) -> bool:
    """Is it cheaper to join all with all than to keep apart what stands still? The shares are
    weighed by the walks that each of them causes, and the sorting."""
    walks = moved + 1.5 * shifted - 0.5 * moved * shifted
    return walks + 0.6 * (moved + shifted) > 1.0 + 0.6 * 2


def match_bulk(
    points: Floats,
    boxes: Floats,
    modes: Bytes,
    changed_points: Bools,
    changed_boxes: Bools,
    *,
    threads: int = 1,
) -> Pairs:
    """The pairs that one instant changes, each once.

    `modes` says of each box what it reports. A WATCHED box that itself changed should be TOUCHED,
    so that unchanged points within it are reported too.
    """
    return BulkMatcher().match(points, boxes, modes, changed_points, changed_boxes, threads=threads)
