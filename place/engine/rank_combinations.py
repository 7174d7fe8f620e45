"""By what kNN chooses among combinations: for whom, how near, and which element it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.combinations import Combinations
from place.engine.elements import Elements
from place.engine.operator_specs import StreamJoinSpec
from place.kernels.arrays import Floats
from place.kernels.distances import measures
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
    if rank.around is None:
        assert rank.point is not None
        cx, cy = (np.full(count, float(value)) for value in rank.point)
    else:
        center = rows[rank.around]
        assert center is not None
        cx, cy = _places(spec.sources[rank.around].relation, spec.needed[rank.around], center)
    near = measures(cx, cy, x, y, spec.space is Space.WGS84)
    key = needed.index(0 if relation.key is None else relation.key)
    made = Columns((), dictionary, 0)
    made.columns = (*group.columns, *_chosen_by(chosen.columns[key]))
    number = elements[rank.among].identity(ids)
    made.values = [*group.values, near, chosen.values[key], number.values[1]]
    made.nulls = [*group.nulls, np.isnan(near), chosen.nulls[key], number.nulls[1]]
    return made


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
