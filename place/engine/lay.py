"""Laying out regions: from what a query or a row of a query table says to boxes in arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from place.engine.columns import Slots
from place.engine.focals import Focals
from place.engine.objects import Objects
from place.engine.plans import RangePlan
from place.engine.regions import Numbers, Regions
from place.engine.shapes import Polygons, fan_of, lay_out, lay_out_around
from place.kernels.lay import lay_around
from place.model.regions import region_of
from place.model.shape import Shape, ShapeError
from place.model.space import Space

Laid = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The kinds, exact numbers and boxes of regions."""
FocalsOf = Callable[[str, NDArray[np.int64]], NDArray[np.int64]]
"""The numbers of focal objects, by their stream and the numbers of their keys."""


class Layout:
    """Writes regions where they are now. `rows` always has a fan of boxes for each region."""

    def __init__(self, focals: Focals) -> None:
        self.focals = focals
        self.polygons = Polygons()

    def lay_shape(self, shape: Shape, space: Space, regions: Regions, rows: Numbers) -> None:
        """A region that stays where it is."""
        self._put(regions, rows, lay_out([shape], space, self.polygons))

    def lay_owners(
        self,
        plan: RangePlan,
        regions: Regions,
        rows: Numbers,
        owners: Slots,
        store: Objects,
        focals_of: FocalsOf,
    ) -> None:
        """Lay out the regions that rows of a query table hold. `rows` has a fan for each owner."""
        table = plan.query.query_table
        if table is None or not len(owners):
            return
        space = plan.query.space
        if table.focal_stream is not None:
            keys = store.columns.values[table.columns[0]][owners].astype(np.int64)
            named = np.flatnonzero(~store.columns.nulls[table.columns[0]][owners])
            fan = len(rows) // len(owners)
            sizes = [store.columns.numbers(c, owners) for c in table.columns[1:]]
            extents = np.stack(
                [sizes[0], sizes[1] if len(sizes) == 2 else np.full(len(owners), np.nan)], axis=1
            )
            numbers = np.full(len(owners), -1, np.int64)
            numbers[named] = focals_of(table.focal_stream, keys[named])
            bad = (np.nan_to_num(extents, nan=0.0) < 0).any(axis=1) | np.isnan(sizes[0])
            if len(sizes) == 2:
                bad |= np.isnan(sizes[1])
            regions.now.focals[rows] = np.repeat(np.where(bad, -1, numbers), fan)
            regions.extents[rows] = np.repeat(extents, fan, axis=0)
            self.lay_around(space, regions, rows)
            return
        self._put(regions, rows, self._lay_fixed(table.layout, table.columns, store, owners, space))

    def _lay_fixed(
        self,
        layout: tuple[str, ...],
        columns: tuple[int, ...],
        store: Objects,
        owners: Slots,
        space: Space,
    ) -> Laid:
        if space is Space.PLANAR and layout == ("x1", "y1", "x2", "y2"):
            x1, y1, x2, y2 = (store.columns.numbers(c, owners) for c in columns)
            known = ~np.isnan(x1 + y1 + x2 + y2)
            box = np.stack(
                [np.minimum(x1, x2), np.minimum(y1, y2), np.maximum(x1, x2), np.maximum(y1, y2)],
                axis=1,
            )
            box[~known] = np.nan
            return np.ones(len(owners), np.uint8), box, box[:, None, :]
        if space is Space.PLANAR and layout == ("x", "y", "r"):
            x, y, r = (store.columns.numbers(c, owners) for c in columns)
            r = np.where(r < 0, np.nan, r)
            extents = np.stack([r, np.full(len(r), np.nan)], axis=1)
            centers = np.stack([x, y], axis=1)
            centers[np.isnan(x + y + r)] = np.nan
            every = np.arange(len(r))
            kinds = np.empty(len(r), np.uint8)
            params, boxes = np.empty((len(r), 4)), np.empty((len(r), 4))
            lay_around(every, every, centers, extents, boxes, kinds, params)
            return kinds, params, boxes[:, None, :]
        shapes: list[Shape | None] = []
        for values in zip(*(store.columns.plain(c, owners) for c in columns), strict=True):
            try:
                shapes.append(region_of(layout, values, space, lambda _: None))
            except ShapeError:
                shapes.append(None)  # a stream may send what is no region; it then has none
        return lay_out(shapes, space, self.polygons)

    def lay_around(self, space: Space, regions: Regions, rows: Numbers) -> None:
        """Lay out regions around their focal objects, one for each fan of rows."""
        now = regions.now
        if space is Space.PLANAR:
            leaders, places = now.focals[rows], self.focals.places
            lay_around(rows, leaders, places, regions.extents, now.boxes, now.kinds, now.params)
            return
        rows = regions.grouped(rows)
        first = rows[:: fan_of(space)]
        centers = self.focals.positions(now.focals[first])
        extents = regions.extents[first]
        centers[np.isnan(extents[:, 0])] = np.nan
        self._put(regions, rows, lay_out_around(centers, extents, self.polygons))

    def _put(self, regions: Regions, rows: Numbers, laid: Laid) -> None:
        kinds, params, boxes = laid
        fan = boxes.shape[1]
        regions.now.kinds[rows] = np.repeat(kinds, fan)
        regions.now.params[rows] = np.repeat(params, fan, axis=0)
        regions.now.boxes[rows] = boxes.reshape(-1, 4)


def attribute_boxes(plan: RangePlan) -> np.ndarray:
    """The boxes of a query that has no place, over the one or two columns it is found by."""
    bounds = np.array([-np.inf, -np.inf, np.inf, np.inf])
    boxes = np.tile(bounds, (len(plan.boxes), 1))
    for i, box in enumerate(plan.boxes):
        for k, column in enumerate(plan.dimensions):
            boxes[i, k], boxes[i, k + 2] = box[column]
    return boxes
