"""Where elements go at an instant."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def put_places(places, flags, numbers, xs, ys, first, last):
    """Puts the elements of some numbers where they are said to be, and flags them."""
    for i in range(first, last):
        number = numbers[i]
        places[number, 0], places[number, 1] = xs[i], ys[i]
    for i in range(first, last):
        flags[numbers[i]] = True
