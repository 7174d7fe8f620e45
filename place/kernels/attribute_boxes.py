"""Conditions on attributes, decided for many pairs at once: boxes in disjunctive normal form."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def in_any_box(
    queries, chosen, values, begins, ends, side_starts, columns, lows, highs, found,
):  # fmt: skip
    """For each chosen pair: is its row of `values` in one of the boxes of its query?

    The boxes of query q are `begins[q]:ends[q]`, the sides of box b begin at `side_starts[b]`; a
    side bounds one column. A NaN is in no box that bounds it. Pairs in no box become False.
    """
    for k in range(len(chosen)):
        pair = chosen[k]
        query, inside = queries[pair], False
        for box in range(begins[query], ends[query]):
            within = True
            for side in range(side_starts[box], side_starts[box + 1]):
                value = values[k, columns[side]]
                within &= (value >= lows[side]) & (value <= highs[side])
            if within:
                inside = True
                break
        if not inside:
            found[pair] = False
