"""Pairs of a reading and a variable in order, each once, out of pairs of a reading and a box.

A join of points and boxes tells its pairs in whatever order suits it, and several boxes may stand
for one variable. Readings are put in order by counting; the variables of a reading are bits, which
are read in ascending order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.bit_words import lowest_bit


@njit(nogil=True, cache=True)
def pairs_in_order(points, boxes, owners, readings, variables):
    """The variables of each reading in ascending order, and how many each reading has.

    `owners` tells the variable of a box; there are so many readings, and variables at most.
    """
    starts = np.zeros(readings + 1, np.int64)
    for k in range(len(points)):
        starts[points[k] + 1] += 1
    for n in range(readings):
        starts[n + 1] += starts[n]
    places = starts[:-1].copy()
    given = np.empty(len(points), np.int64)
    for k in range(len(points)):
        given[places[points[k]]] = owners[boxes[k]]
        places[points[k]] += 1
    words = np.zeros((variables >> 6) + 1, np.uint64)
    used = np.zeros((variables >> 12) + 1, np.uint64)
    counts = np.zeros(readings, np.int64)
    one, count = np.uint64(1), 0
    for n in range(readings):
        begin = count
        if starts[n + 1] - starts[n] == 1:
            given[count] = given[starts[n]]
            count += 1
        elif starts[n + 1] > starts[n]:
            for k in range(starts[n], starts[n + 1]):
                word = given[k] >> 6
                words[word] |= one << np.uint64(given[k] & 63)
                used[word >> 6] |= one << np.uint64(word & 63)
            for block in range(len(used)):
                left = used[block]
                used[block] = 0
                while left != 0:
                    word = (block << 6) + np.int64(lowest_bit(left))
                    left &= left - one
                    bits = words[word]
                    words[word] = 0
                    while bits != 0:
                        given[count] = (word << 6) + np.int64(lowest_bit(bits))
                        bits &= bits - one
                        count += 1
        counts[n] = count - begin
    return given[:count], counts
