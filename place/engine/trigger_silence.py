"""EVERY … PER: after an alert its group is silent for a while."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from place.engine.columns import Columns, Vector
from place.engine.multiset import longer, pack
from place.engine.operators.contract import NEVER
from place.kernels.arrays import Bools, Longs
from place.kernels.silence import unsilenced
from place.model.types import Row

MANY = 1024


class Silence:
    """When groups of triggers told something last."""

    def __init__(self) -> None:
        self._length = np.zeros(16, np.int64)
        self._last: dict[int, dict[Row, int]] = {}
        self._size, self._many = 0, MANY

    def begin(self, graph: int, length: int) -> None:
        """A graph begins whose groups are silent for so long."""
        self._length = longer(self._length, graph + 1)
        self._length[graph] = length
        self._last[graph] = {}

    def end(self, graph: int) -> None:
        """A graph ends."""
        self._last.pop(graph, None)

    def told(self, graphs: Longs, instants: Longs, groups: Columns) -> Bools:
        """Which alerts are told, of those that come in this order."""
        vectors = [Vector(v, n) for v, n in zip(groups.values, groups.nulls, strict=True)]
        packed = np.column_stack([graphs, pack(vectors, len(graphs))])
        _, at, places = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        owners = graphs[at].tolist()
        keys = groups.rows(at) if vectors else [()] * len(at)
        last = np.array(
            [self._last[o].get(key, -NEVER) for o, key in zip(owners, keys, strict=True)], np.int64
        )
        told: Bools = unsilenced(places.reshape(-1), instants, self._length[graphs], last)
        for owner, key, instant in zip(owners, keys, last.tolist(), strict=True):
            self._last[owner][key] = instant
        self._size += len(at)
        if self._size > self._many:
            self._forget(int(instants.max()))
        return told

    def _forget(self, instant: int) -> None:
        """Let go of groups that are silent no more."""
        for graph, last in self._last.items():
            length = int(self._length[graph])
            self._last[graph] = {key: at for key, at in last.items() if at + length > instant}
        self._size = sum(map(len, self._last.values()))
        self._many = max(MANY, 2 * self._size)

    # To texts and back

    def save(self, graph: int) -> Iterator[tuple[str, int]]:
        """The groups of a graph as texts, with the instants of their last alerts."""
        for key, instant in self._last.get(graph, {}).items():
            yield json.dumps(key), instant

    def restore(self, graph: int, saved: Iterable[tuple[str, int]]) -> None:
        """Know again what was saved."""
        for text, instant in saved:
            self._last[graph][tuple(json.loads(text))] = instant
