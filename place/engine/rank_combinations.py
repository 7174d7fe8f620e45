"""By what kNN chooses among combinations: for whom, how near, and which element it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.combinations import Combinations
from place.engine.elements import Elements
from place.engine.operator_specs import RankSpec, StreamJoinSpec
from place.kernels.arrays import Floats
from place.kernels.distances import distances, measures
from place.model.schema import Column, Relation
from place.model.space import Space
from place.model.types import Type

GROUP = 2
"""So many of the ranks say for whom kNN chooses: the key and the number of the centre."""
WHOLE = (Column("key", Type.BIGINT), Column("number", Type.BIGINT))


def ranks_of(
    spec: StreamJoinSpec,
    elements: Sequence[Elements],
    some: Combinations,
    rows: Sequence[Columns | None],
    dictionary: Dictionary,
) -> Columns:
    """Key and number of the centre, then measure, key and number of the element that is chosen."""
    rank = spec.rank
    assert rank is not None
    count = len(some)
    if rank.each is None:
        group = Columns(WHOLE, dictionary, count)
        for nulls in group.nulls:
            nulls[:] = False
    else:
        ids = some.ids[rank.each]
        assert ids is not None
        group = elements[rank.each].identity(ids)
    relation, needed = spec.sources[rank.among].relation, spec.needed[rank.among]
    chosen = rows[rank.among]
    ids = some.ids[rank.among]
    assert chosen is not None
    assert ids is not None
    x, y = _places(relation, needed, chosen)
    near = _far(spec, rank, rows, x, y)
    key = needed.index(0 if relation.key is None else relation.key)
    made = Columns((), dictionary, 0)
    made.columns = (*group.columns, *_chosen_by(chosen.columns[key]))
    number = elements[rank.among].identity(ids)
    made.values = [*group.values, near, chosen.values[key], number.values[1]]
    made.nulls = [*group.nulls, np.isnan(near), chosen.nulls[key], number.nulls[1]]
    return made


def _far(
    spec: StreamJoinSpec, rank: RankSpec, rows: Sequence[Columns | None], x: Floats, y: Floats
) -> Floats:
    """How far places are from the centre of kNN by its measure, or from its group of places."""
    is_sphere = spec.space is Space.WGS84

    def where(place: tuple[float, float] | int) -> tuple[Floats, Floats]:
        if not isinstance(place, int):
            return np.full(len(x), place[0]), np.full(len(x), place[1])
        center = rows[place]
        assert center is not None
        return _places(spec.sources[place].relation, spec.needed[place], center)

    if rank.total is None:
        place = rank.point if rank.around is None else rank.around
        assert place is not None
        found: Floats = measures(*where(place), x, y, is_sphere)
        return found
    total = {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}[rank.total]
    parts = (distances(*where(place), x, y, is_sphere) for place in rank.places)
    return reduce(total, parts)


def columns_of_ranks(spec: StreamJoinSpec) -> tuple[Column, ...]:
    """The columns of the ranks by which a whole query chooses, from the rows of several cells."""
    assert spec.rank is not None
    relation = spec.sources[spec.rank.among].relation
    return *WHOLE, *_chosen_by(relation.columns[0 if relation.key is None else relation.key])


def _chosen_by(key: Column) -> tuple[Column, ...]:
    return Column("measure", Type.DOUBLE), key, Column("element", Type.BIGINT)


def _places(relation: Relation, needed: Sequence[int], rows: Columns) -> tuple[Floats, Floats]:
    assert relation.x is not None
    assert relation.y is not None
    index = tuple(needed).index
    return rows.numbers(index(relation.x)), rows.numbers(index(relation.y))
