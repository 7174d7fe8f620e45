"""The types of arrays, each with one name: kernels and engine speak of arrays by these alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]


def runs_of(ordered: Longs) -> tuple[Longs, Longs]:
    """The different values of an array in ascending order, and where the run of each begins."""
    if not len(ordered):
        return ordered, np.empty(0, np.int64)
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], starts


def merged_values(parts: Sequence[Longs]) -> Longs:
    """The different values of several arrays in ascending order, in ascending order."""
    different = [runs_of(part)[0] for part in parts if len(part)]
    if not different:
        return np.empty(0, np.int64)
    longest = max(different, key=len)
    others = [part for part in different if part is not longest]
    # Most often the others hold nothing that the longest has not.
    strangers = [part[~_holds(longest, part)] for part in others]
    if not any(len(part) for part in strangers):
        return longest
    return np.unique(np.concatenate([longest, *strangers]))


def _holds(ordered: Longs, asked: Longs) -> Bools:
    found: Bools = ordered[np.minimum(np.searchsorted(ordered, asked), len(ordered) - 1)] == asked
    return found
