"""Objects that are chosen from candidates: among whom, who came and who left, and their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns
from place.engine.flow import Flow, Marks
from place.engine.objects import Objects
from place.engine.vector import same_rows
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Floats, Longs
from place.model.schema import Column, Relation, Stream
from place.model.space import Space
from place.model.types import Type


@dataclass(frozen=True)
class Among:
    """From which objects the queries of one shape choose, and what their rows show of those chosen.

    `is_open` says that every object is a candidate. `merges` says that several cells choose, each
    among its own objects: then rows also carry distances, because the nearest of all cells have to
    be found among them.
    """

    store: Objects
    source: int
    width: int
    needed: tuple[int, ...]
    space: Space
    is_open: bool
    merges: bool
    threads: int

    @property
    def is_watched(self) -> bool:
        """May what rows show of an object change while it stays?"""
        relation = self.store.relation
        return any(isinstance(relation, Stream) and index != relation.key for index in self.needed)


@dataclass(frozen=True)
class Chosen:
    """Who came (+1) into the answers of which rows of queries and who left (−1), step by step."""

    steps: Longs
    queries: Longs
    slots: Longs
    signs: Longs
    measures: Floats

    @staticmethod
    def joined(parts: list[Chosen]) -> Chosen:
        return Chosen(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("steps", "queries", "slots", "signs", "measures")
            )
        )

    @staticmethod
    def between(
        step: int,
        before: tuple[Longs, Longs, Floats],
        after: tuple[Longs, Longs, Floats],
        moved: Bools,
    ) -> Chosen:
        """What differs between two answers: members, their measures, or what they say."""
        size = len(moved)
        keys = [queries * size + slots for queries, slots, _ in (before, after)]
        sides = []
        for mine, other, own, others in ((0, 1, before, after), (1, 0, after, before)):
            order = np.argsort(keys[other])
            at = np.searchsorted(keys[other][order], keys[mine])
            hit = np.minimum(at, max(len(order) - 1, 0))
            same = np.zeros(len(keys[mine]), np.bool_)
            if len(order):
                place = order[hit]
                same = (keys[other][place] == keys[mine]) & (others[2][place] == own[2])
                same &= ~moved[own[1]]
            sides.append(np.flatnonzero(~same))
        left, come = sides
        count = len(left) + len(come)
        signs = np.ones(count, np.int64)
        signs[: len(left)] = -1
        return Chosen(
            np.full(count, step),
            np.concatenate([before[0][left], after[0][come]]),
            np.concatenate([before[1][left], after[1][come]]),
            signs,
            np.concatenate([before[2][left], after[2][come]]),
        )


def rows_of_chosen(
    found: Chosen, among: Among, versions: Versions, instants: Longs, numbers: Longs, marks: Marks
) -> Flow:
    """Those that came and left as rows of their queries; `numbers` are those of the queries."""
    at = instants[found.steps]
    before, after = versions.around(found.slots, at)
    ids = np.where(found.signs > 0, after, before)
    sources: list[Columns | None] = [None] * among.width
    sources[among.source] = versions.pick(ids, among.needed)
    ranks = _ranks(among.store, versions, ids, found) if among.merges else None
    made = Flow(numbers[found.queries], at, found.signs, tuple(sources), ranks, marks)
    return made if among.merges else _without_same(made, found.slots)


def _ranks(store: Objects, versions: Versions, ids: Longs, found: Chosen) -> Columns:
    """Distance, key and number, by which the nearest are chosen among several cells."""
    relation = store.relation
    assert relation.key is not None
    made = versions.pick(ids, (relation.key, relation.key, relation.key))
    made.columns = nearest_ranks(relation)
    none = np.zeros(len(ids), np.bool_)
    made.values = [found.measures, made.values[1], store.keys[found.slots]]
    made.nulls = [none, made.nulls[1], none]
    return made


def _without_same(flow: Flow, slots: Longs) -> Flow:
    """Leave out members that stay with the row that they had: −1 and +1 that say the same."""
    size = len(flow)
    if size < 2:
        return flow
    order = np.lexsort((flow.weights, slots, flow.queries, flow.instants))
    one, two = order[:-1], order[1:]
    pairs = np.flatnonzero(
        (flow.instants[one] == flow.instants[two])
        & (flow.queries[one] == flow.queries[two])
        & (slots[one] == slots[two])
    )
    if not len(pairs):
        return flow
    rows = next(some for some in flow.sources if some is not None)
    same = pairs[same_rows(rows.take(one[pairs]), rows.take(two[pairs]))]
    keep = np.ones(size, np.bool_)
    keep[one[same]] = keep[two[same]] = False
    return flow.take(np.flatnonzero(keep))


def nearest_ranks(relation: Relation) -> tuple[Column, ...]:
    """The columns by which the nearest of several cells are compared."""
    assert relation.key is not None
    key = relation.columns[relation.key]
    return Column("measure", Type.DOUBLE), key, Column("number", Type.BIGINT)


def ranks_of(store: Objects) -> Longs:
    """What decides between objects at the same distance: the order of their keys."""
    size, relation = store.size, store.relation
    if store.is_coded:
        return store.columns.dictionary.ranks()[store.keys[:size]]
    if isinstance(relation, Stream):
        return store.keys[:size]
    # A table's key may be NULL, which comes first, or there twice: then its rows' order counts.
    column = store.columns.pick((relation.key,), slice(size))
    values = column.values[0]
    if column.columns[0].type is Type.STRING and not column.nulls[0].all():
        values = store.columns.dictionary.ranks()[values]
    order = np.lexsort((store.keys[:size], values, ~column.nulls[0]))
    ranks = np.empty(size, np.int64)
    ranks[order] = np.arange(size)
    return ranks
