"""Members that stay in answers while they, or the centres of these, say something."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def staying_members(old_starts, old_members, starts, members, spoke, named, marks):
    """The pairs of a query and a member that were and are in its answer, and of which the query's
    centre (`spoke`) or the member (`named`) said something.

    `marks` is scratch: zeros for all slots, before and after every call.
    """
    queries, slots = np.empty(len(members), np.int64), np.empty(len(members), np.int64)
    count = 0
    for query in range(len(old_starts) - 1):
        first, last = old_starts[query], old_starts[query + 1]
        if first == last or old_members[first] < 0:
            continue
        for i in range(first, last):
            if old_members[i] < 0:
                break
            marks[old_members[i]] = 1
        for i in range(starts[query], starts[query + 1]):
            slot = members[i]
            if slot < 0:
                break
            if marks[slot] and (spoke[query] or named[slot]):
                queries[count], slots[count] = query, slot
                count += 1
        for i in range(first, last):
            if old_members[i] < 0:
                break
            marks[old_members[i]] = 0
    return queries[:count], slots[:count]
