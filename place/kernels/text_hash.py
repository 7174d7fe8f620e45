"""The checksum of many texts at once: the row of an object follows from that of its key.

It is CRC-32 as zlib has it, so that a text that is hashed alone, in Python, has the same one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from place.kernels.arrays import Bytes, Ints, Longs

POLYNOMIAL = 0xEDB88320


def _table() -> Longs:
    found = np.arange(256, dtype=np.int64)
    for _ in range(8):
        found = np.where(found & 1, (found >> 1) ^ POLYNOMIAL, found >> 1)
    return found


TABLE = _table()


def hash_texts(offsets: Ints, data: Bytes) -> Longs:
    """The checksum of each text; text i is the bytes from offsets[i] up to before offsets[i + 1].

    >>> hash_texts(np.array([0, 1, 3], np.int32), np.frombuffer(b"abc", np.uint8)).tolist()
    [3904355907, 3856516879]
    """
    found = np.empty(max(0, len(offsets) - 1), np.int64)
    _hash(offsets, data, TABLE, found)
    return found


@njit(nogil=True, cache=True)
def _hash(offsets, data, table, out):
    for i in range(len(out)):
        check = np.int64(0xFFFFFFFF)
        for at in range(offsets[i], offsets[i + 1]):
            check = table[(check ^ np.int64(data[at])) & 0xFF] ^ (check >> 8)
        out[i] = check ^ np.int64(0xFFFFFFFF)
