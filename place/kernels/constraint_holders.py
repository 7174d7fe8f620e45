"""Who holds readings: a slot is free only when nothing that is kept or waits holds its reading."""

from __future__ import annotations

from place.kernels.constraint_tables import HELD, HOLDERS, RELEASED
from place.kernels.uncounted import uncounted_inline


@uncounted_inline
def hold(shelf, state, slot):
    """One more holds the reading at a slot."""
    if shelf.readings[slot, HOLDERS] == 0:
        state[HELD] += 1
    shelf.readings[slot, HOLDERS] += 1


@uncounted_inline
def release(shelf, state, slot):
    """One less holds the reading at a slot."""
    shelf.readings[slot, HOLDERS] -= 1
    if shelf.readings[slot, HOLDERS] == 0:
        state[HELD] -= 1
        shelf.released[state[RELEASED]] = slot
        state[RELEASED] += 1
