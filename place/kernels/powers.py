"""Powers of numbers, by the same function of the C library as Python's `math.pow`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def powers(bases, exponents):
    """Each base to the power of its exponent; not finite where there is none."""
    found = np.empty(len(bases))
    for i in range(len(bases)):
        found[i] = math.pow(bases[i], exponents[i])
    return found
