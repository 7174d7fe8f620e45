"""A heap of what expires, in which something may stand with an earlier instant than its own."""

from __future__ import annotations

from place.kernels.uncounted import uncounted_inline


@uncounted_inline
def push_expiry(heap, size, key, entry):
    """Put an entry into a heap of this size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap[above, 0] <= key:
            break
        heap[at, 0], heap[at, 1] = heap[above, 0], heap[above, 1]
        at = above
    heap[at, 0], heap[at, 1] = key, entry


@uncounted_inline
def sink_expiry(heap, size, at, key, entry):
    """Put an entry at a place of the heap or below it."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[at, 0], heap[at, 1] = heap[child, 0], heap[child, 1]
        at = child
    heap[at, 0], heap[at, 1] = key, entry
