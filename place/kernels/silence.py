"""Alerts that are silenced because one of the same group was told shortly before."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def unsilenced(groups, instants, silences, last):
    """Which alerts are told: those of groups that have told nothing for as long as their silence.

    Alerts come in the order in which they are told. `last` holds the instant of the last alert of
    each group, and is brought up to date.
    """
    told = np.zeros(len(groups), np.bool_)
    for i in range(len(groups)):
        group = groups[i]
        if instants[i] - last[group] >= silences[i]:
            told[i] = True
            last[group] = instants[i]
    return told
