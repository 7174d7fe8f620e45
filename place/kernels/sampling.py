"""Which readings a sampled archive takes."""

from __future__ import annotations

import numpy as np
from numba import njit

NONE_YET = -(1 << 62)


@njit(nogil=True, cache=True)
def sample_readings(slots, times, gone, nth, period, seen):
    """1 for each reading that is taken, in the order of the source: of each slot every nth one, or,
    with a period above 0, the first in each period of time.

    `seen` is what each slot has had: the readings so far, or the last period that has one; it is
    NONE_YET for a slot that begins. Word that an object disappears is taken, and it begins anew.
    """
    chosen = np.zeros(len(slots), np.int64)
    for i in range(len(slots)):
        slot = slots[i]
        if gone[i]:
            chosen[i] = 1
            seen[slot] = NONE_YET
        elif period > 0:
            number = times[i] // period
            if number > seen[slot]:
                chosen[i] = 1
                seen[slot] = number
        else:
            count = 0 if seen[slot] == NONE_YET else seen[slot]
            if count % nth == 0:
                chosen[i] = 1
            seen[slot] = count + 1
    return chosen
