"""The elements of a join's sources, made from what a cell holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from place.engine.areas import FixedArea, lies_around
from place.engine.columns import Columns, Dictionary
from place.engine.elements import Elements, Passes
from place.engine.object_elements import ObjectElements, TableElements
from place.engine.operator_specs import ReverseSpec, StreamJoinSpec
from place.engine.placed_elements import Placed, PlacedObjects, PlacedRows
from place.engine.stored_versions import StoredVersions
from place.engine.stores import Stores
from place.engine.tick import Tick
from place.engine.vector import holds
from place.engine.window_elements import Keeps, WindowElements
from place.kernels.arrays import Bools, Floats, Longs
from place.model.schema import Stream
from place.plan.expression import conjunction, sources_of
from place.plan.query import Around, Query

Partner = Callable[[str, tuple[int, ...]], Columns]
"""The rows of a table, by its name and the columns that are needed."""


def elements_of(
    spec: StreamJoinSpec, source: int, asked: Query, stores: Stores, partner: Partner
) -> Elements:
    """The elements of one source: those of this cell's row, or all."""
    given, needed = spec.sources[source], spec.needed[source]
    relation, place = given.relation, stores.place
    if not isinstance(relation, Stream):
        rows = partner(relation.name, needed)
        mine = place.has_objects(np.arange(len(rows)), None) if given.is_spread else None
        return TableElements(rows, None if mine is None else np.flatnonzero(mine))
    name = relation.name
    if given.window is None:
        held = [stores.subjects[name]]
        if not given.is_spread and name in stores.others:
            held.append(stores.others[name])
        return ObjectElements(name, held, needed, [needed[i] for i in spec.shown[source]])

    def of_row(keys: Longs) -> Bools | None:
        return place.has_objects(keys, stores.texts(stores.subjects[name]))

    keeps = _keeps(spec, source, asked, stores)
    is_mine = of_row if given.is_spread else None
    return WindowElements(relation, given.window, needed, is_mine, keeps, stores.dictionary)


def placed_of(spec: StreamJoinSpec, source: int, stores: Stores, partner: Partner) -> Placed:
    """The elements of one source with their places: those of this cell's row, or all."""
    given, needed = spec.sources[source], spec.needed[source]
    relation, passes = given.relation, _passes(spec, source, stores.dictionary)
    assert relation.x is not None
    assert relation.y is not None
    if isinstance(relation, Stream):
        held = [stores.subjects[relation.name]]
        if not given.is_spread and relation.name in stores.others:
            held.append(stores.others[relation.name])
        shown = [needed[i] for i in spec.shown[source]]
        return PlacedObjects(StoredVersions(relation.name, held), needed, shown, passes)
    rows = partner(relation.name, needed)
    mine = stores.place.has_objects(np.arange(len(rows)), None) if given.is_spread else None
    key = 0 if relation.key is None else relation.key
    return PlacedRows(
        rows,
        None if mine is None else np.flatnonzero(mine),
        None if given.is_spread else needed.index(key),  # nobody chooses among centres
        (needed.index(relation.x), needed.index(relation.y)),
        spec.shown[source],
        passes,
    )


def _passes(spec: StreamJoinSpec, source: int, dictionary: Dictionary) -> Passes | None:
    """What is asked of a source alone; None for nothing."""
    asked = [c for c in spec.conditions if sources_of(c) == {source}]
    if spec.sources[source].is_spread or isinstance(spec, ReverseSpec):
        asked += [c for c in spec.conditions if not sources_of(c)]
    condition, area = conjunction(asked), area_of(spec, source)
    if condition is None:
        return area

    def passes(rows: Columns) -> Bools:
        beside: list[Columns | None] = [None] * spec.width
        beside[source] = rows
        found = holds(condition, beside, len(rows), dictionary)
        return found if area is None else found & area(rows)

    return passes


def area_of(spec: StreamJoinSpec, source: int) -> Callable[[Columns], Bools] | None:
    """The test of INSIDE for the elements of a source, where its region stays where it is.

    Readings of a window are asked when they come.
    """
    area = spec.area
    if area is None or area.subject != source or spec.sources[source].window is not None:
        return None
    if isinstance(area.area, Around):
        return None
    shape = FixedArea(area.area, spec.space)
    return lambda rows: shape.holds(*_places(spec, source, rows))


def _keeps(spec: StreamJoinSpec, source: int, asked: Query, stores: Stores) -> Keeps:
    """Which readings a window holds: all, or those within the region of INSIDE as it was at their
    instants."""
    area = spec.area
    if area is None or area.subject != source:
        return lambda rows, instants, tick: np.ones(len(rows), np.bool_)
    if not isinstance(area.area, Around):
        shape = FixedArea(area.area, spec.space)
        return lambda rows, instants, tick: shape.holds(*_places(spec, source, rows))
    around = area.area
    stores.focal_number(around.focal)

    def keeps(rows: Columns, instants: Longs, tick: Tick) -> Bools:
        number = stores.focal_number(around.focal)
        mine = np.flatnonzero(tick.focals.numbers == number)
        before = np.searchsorted(tick.focals.instants[mine], instants, "right") - 1
        centers = np.repeat(stores.focals.places[number : number + 1], len(rows), axis=0)
        moved = np.flatnonzero(before >= 0)
        centers[moved] = tick.focals.places[mine[before[moved]]]
        return lies_around(*_places(spec, source, rows), centers, around.extents, spec.space)

    return keeps


def _places(spec: StreamJoinSpec, source: int, rows: Columns) -> tuple[Floats, Floats]:
    relation, index = spec.sources[source].relation, spec.needed[source].index
    assert relation.x is not None
    assert relation.y is not None
    return rows.numbers(index(relation.x)), rows.numbers(index(relation.y))
