"""The Hilbert order of points in any number of dimensions: what is near in it is near in space."""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.arrays import Floats, Ints, Longs
from place.kernels.box_cells import edge_rows, range_of
from place.kernels.box_pairs import sample_of

MOST_BITS = 8
"""Ranges of a dimension, as a power of two."""
SAMPLE = 4096


@njit(nogil=True, cache=True)
def _hilbert_keys(rows, edges, bits):
    """The place of each row on the curve, by its ranges: J. Skilling's transformation."""
    axes = rows.shape[1]
    keys = np.empty(len(rows), np.int64)
    x = np.empty(axes, np.int64)
    for row in range(len(rows)):
        for axis in range(axes):
            x[axis] = range_of(rows[row, axis], edges, axis, bits)
        top = 1 << (bits - 1)
        q = top
        while q > 1:
            p = q - 1
            for axis in range(axes):
                if x[axis] & q:
                    x[0] ^= p
                else:
                    t = (x[0] ^ x[axis]) & p
                    x[0] ^= t
                    x[axis] ^= t
            q >>= 1
        for axis in range(1, axes):
            x[axis] ^= x[axis - 1]
        t = 0
        q = top
        while q > 1:
            if x[axes - 1] & q:
                t ^= q - 1
            q >>= 1
        key = 0
        for bit in range(bits - 1, -1, -1):
            for axis in range(axes):
                key = (key << 1) | (((x[axis] ^ t) >> bit) & 1)
        keys[row] = key
    return keys


def hilbert_order(rows: Floats) -> Ints:
    """The rows in the order of the curve over ranges with about as many rows each; at most 63
    dimensions are asked about."""
    rows = np.ascontiguousarray(rows[:, :63])
    axes = rows.shape[1]
    if axes == 0:
        return np.arange(len(rows), dtype=np.int32)
    bits = max(1, min(MOST_BITS, 63 // axes))
    some = rows[sample_of(len(rows), SAMPLE)]
    edges = edge_rows(some, np.arange(axes), np.full(axes, bits))
    keys: Longs = _hilbert_keys(rows, edges, bits)
    return np.argsort(keys, kind="stable").astype(np.int32)
