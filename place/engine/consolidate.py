"""Rows that come and go at one instant are summed up, and those that cancel each other are left
out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from place.engine.columns import Vector
from place.engine.flow import Flow
from place.engine.multiset import Multiset, pack, width_of
from place.kernels.segments import negative_first

NO_NULLS = np.zeros(1, np.bool_)


def consolidated(flow: Flow) -> Flow:
    """Equal rows of a query at an instant once, with the sum of their weights if that is not 0.

    Rows are in the order of instants, at each of them those that leave before those that join;
    otherwise they keep the order in which they first come.
    """
    if not len(flow):
        return flow
    rows = flow.sources[0]
    assert rows is not None, "rows of outputs are summed up"
    vectors = [
        Vector(flow.queries, NO_NULLS),
        Vector(flow.instants, NO_NULLS),
        *(Vector(v, n) for v, n in zip(rows.values, rows.nulls, strict=True)),
    ]
    total = Multiset(width_of(len(vectors)))
    added = total.add(pack(vectors, len(flow)), np.array(flow.weights, np.int64))
    kept = np.flatnonzero(added.now)
    places, weights = added.firsts[kept], added.now[kept]
    instants = flow.instants[places]
    moments = np.cumsum(np.diff(instants, prepend=instants[:1]) != 0)
    order = negative_first(moments, weights)
    return replace(flow.take(places[order]), weights=weights[order])
