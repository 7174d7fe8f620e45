"""The squares that an element has to look at: its window, now and before together."""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.grid import square_of

NEAR = 64  # squares of a window that is never dear


@njit(nogil=True, cache=True)
def windows_of(rows, reach_x, reach_y, grid, windows):
    """The first and last column and row of squares that each row asks for, now and before together.

    A row of eight is a box. A row of four is a point that asks for the first corners of boxes of
    at most the given size. Where now and before are so far apart that one window is dear, it is
    the one of now, and the row is among those that are returned: `rest_of_windows` has the rest.
    """
    far = np.empty(len(rows), np.int32)
    count = 0
    point = rows.shape[1] == 4
    columns, lines = grid.columns, grid.rows
    for k in range(len(rows)):
        if point:
            x2, y2, u2, v2 = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3]
            x1, y1, u1, v1 = x2 - reach_x, y2 - reach_y, u2 - reach_x, v2 - reach_y
            now, before = x2 == x2 and y2 == y2, u2 == u2 and v2 == v2
        else:
            x1, y1, x2, y2 = rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3]
            u1, v1, u2, v2 = rows[k, 4], rows[k, 5], rows[k, 6], rows[k, 7]
            now, before = x1 <= x2 and y1 <= y2, u1 <= u2 and v1 <= v2
        left, low, right, high = x1, y1, x2, y2
        if now and before:
            left, right = u1 if u1 < x1 else x1, u2 if u2 > x2 else x2
            low, high = v1 if v1 < y1 else y1, v2 if v2 > y2 else y2
        elif before:
            left, low, right, high = u1, v1, u2, v2
        elif not now:
            windows[k, 0], windows[k, 1], windows[k, 2], windows[k, 3] = 0, 0, -1, -1
            continue
        windows[k, 0], windows[k, 2] = square_of(left, columns), square_of(right, columns)
        windows[k, 1], windows[k, 3] = square_of(low, lines), square_of(high, lines)
        size = (windows[k, 2] - windows[k, 0] + 1) * (windows[k, 3] - windows[k, 1] + 1)
        if size > NEAR and now and before:
            apart = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1)
            if not (right - left) * (high - low) <= 2.0 * apart:
                windows[k, 0], windows[k, 2] = square_of(x1, columns), square_of(x2, columns)
                windows[k, 1], windows[k, 3] = square_of(y1, lines), square_of(y2, lines)
                far[count] = k
                count += 1
    return far[:count]


@njit(nogil=True, cache=True)
def rest_of_windows(rows, reach_x, reach_y, grid, windows, far):
    """For rows whose window is only that of now: what their window before has besides it.

    That are up to four windows for each: below, above, to the left and to the right.
    """
    rest = np.empty((4 * len(far), 4), np.int32)
    columns, lines = grid.columns, grid.rows
    for i in range(len(far)):
        k = far[i]
        if rows.shape[1] == 4:
            u2, v2 = rows[k, 2], rows[k, 3]
            u1, v1 = u2 - reach_x, v2 - reach_y
        else:
            u1, v1, u2, v2 = rows[k, 4], rows[k, 5], rows[k, 6], rows[k, 7]
        left, right = square_of(u1, columns), square_of(u2, columns)
        low, high = square_of(v1, lines), square_of(v2, lines)
        west, south, east, north = windows[k, 0], windows[k, 1], windows[k, 2], windows[k, 3]
        rest[4 * i] = (left, low, right, min(high, south - 1))
        rest[4 * i + 1] = (left, max(low, north + 1), right, high)
        middle_low, middle_high = max(low, south), min(high, north)
        rest[4 * i + 2] = (left, middle_low, min(right, west - 1), middle_high)
        rest[4 * i + 3] = (max(left, east + 1), middle_low, right, middle_high)
    return rest
