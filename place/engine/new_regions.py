"""Regions of queries that begin: from clauses and rows of query tables to the arrays of an index.

Queries that are alike but for names and places are laid out together, as columns: they come by the
thousand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from place.engine.columns import Columns
from place.engine.compiled import Compiled
from place.engine.layout import fan_of, lay_out, lay_out_around, lay_out_rows
from place.engine.objects import Objects
from place.engine.region_moves import extents_of
from place.engine.regions import RegionIndex
from place.engine.surroundings import Surroundings
from place.kernels.arrays import Floats, Longs
from place.kernels.bulk import TOUCHED
from place.model.shape import Shape
from place.model.space import Space
from place.plan.query import Around, QueryTable


class NewRegions:
    """Puts regions into the index of one region join."""

    def __init__(self, index: RegionIndex, space: Space, around: Surroundings) -> None:
        self._index = index
        self._space = space
        self._around = around

    def add(self, number: int, compiled: Compiled) -> Longs:
        """The rows of the regions of a query."""
        query, index = compiled.asked, self._index
        table = query.query_table
        if table is not None:
            relation = query.sources[table.source].relation
            store = self._around.region_rows[relation.name]
            owners = np.flatnonzero(store.alive[: store.size])
            fan = fan_of(query.space)
            rows = index.add(number, owners, fan, compiled.mode)
            self._lay_owners(rows, fan, owners, store, table)
            return rows
        if query.met_area is not None:
            return self.add_alike(np.array([number]), [compiled])
        count = _count_boxes(compiled)  # a region without a place
        mode = compiled.mode if count == 1 else TOUCHED
        rows = index.add(number, np.full(count, -1), 1, mode)
        self._lay_boxes(rows, [compiled])
        return rows

    def add_alike(self, numbers: Longs, compiled: Sequence[Compiled]) -> Longs:
        """The rows of the regions of queries that are alike but for names and places, and have no
        query table."""
        first, index = compiled[0], self._index
        areas = [each.asked.met_area for each in compiled]
        if areas[0] is None:
            if _count_boxes(first) != 1:
                parts = zip(numbers.tolist(), compiled, strict=True)
                return np.concatenate([self.add(number, each) for number, each in parts])
            rows = index.add_alike(numbers, 1, first.mode)
            self._lay_boxes(rows, compiled)
            return rows
        space = first.asked.space
        fan = fan_of(space)
        rows = index.add_alike(numbers, fan, first.mode)
        moving = [area for area in areas if isinstance(area, Around)]
        if not moving:
            shapes: list[Shape | None] = [a for a in areas if not isinstance(a, Around)]
            index.put(rows, lay_out(shapes, space, self._around.polygons))
            return rows
        extents = np.full((len(moving), 2), np.nan)
        extents[:, : len(moving[0].extents)] = [area.extents for area in moving]
        focals = [self._around.focal_number(area.focal) for area in moving]
        led = np.array(focals, np.int64)
        index.lead(rows, np.repeat(led, fan), np.repeat(extents, fan, axis=0))
        places = self._around.focals.positions(led)
        index.put(rows, lay_out_around(places, extents, space))
        return rows

    def _lay_boxes(self, rows: Longs, compiled: Sequence[Compiled]) -> None:
        """Regions that have no place are boxes over other columns."""
        now = self._index.now
        now.kinds[rows] = 0
        now.params[rows] = 0.0
        now.boxes[rows] = np.concatenate([_attribute_boxes(each) for each in compiled])
        self._index.shown[rows] = True

    def _lay_owners(
        self, rows: Longs, fan: int, owners: Longs, store: Objects, table: QueryTable
    ) -> None:
        if not len(owners):
            return
        space = self._space
        held = store.columns.take(owners)
        if table.focal_stream is None:
            laid = lay_out_rows(table.layout, table.columns, held, space, self._around.polygons)
            self._index.put(rows, laid)
            return
        extents = extents_of(table, held)
        leaders = self.leaders(table, held)
        leaders[np.isnan(extents[:, 0])] = -1
        self._index.lead(rows, np.repeat(leaders, fan), np.repeat(extents, fan, axis=0))
        places = self._around.focals.positions(leaders)
        self._index.put(rows, lay_out_around(places, extents, space))

    def leaders(self, table: QueryTable, rows: Columns) -> Longs:
        """The numbers of the focal objects that rows of a query table name; −1 for NULL."""
        column = table.columns[0]
        named = np.flatnonzero(~rows.nulls[column])
        leaders = np.full(len(rows), -1, np.int64)
        keys = rows.values[column][named].astype(np.int64)
        assert table.focal_stream is not None
        leaders[named] = self._around.focal_numbers(table.focal_stream, keys)
        return leaders


def _count_boxes(compiled: Compiled) -> int:
    return len(compiled.boxes if compiled.key.way is None else compiled.way_boxes)


def _attribute_boxes(compiled: Compiled) -> Floats:
    """The boxes of a query that has no place, over the one or two columns it is found by; or those
    that ways have to meet."""
    if compiled.key.way is not None:
        return np.array(compiled.way_boxes)
    bounds = np.array([-np.inf, -np.inf, np.inf, np.inf])
    boxes = np.tile(bounds, (len(compiled.boxes), 1))
    for i, box in enumerate(compiled.boxes):
        for k, column in enumerate(compiled.key.dimensions):
            boxes[i, k], boxes[i, k + 2] = box[column]
    return boxes
