"""Retention: which objects a cell keeps (GPAC, section 3.3; PLACE's predicate-based windows).

A stream may promise how fast its objects move and how often they report. An object outside of
every region grown by the way that a region can move until then will have reported again before it
can be in one: it need not be kept. With a smaller share of that way fewer objects are kept, and a
region may reach one that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from place.engine.objects import Changed, Objects
from place.engine.plans import Dimensions
from place.engine.regions import Regions
from place.engine.trail import Trail
from place.engine.window import Pairs
from place.kernels.bulk import TOUCHED, match_bulk
from place.model.schema import Retention
from place.model.space import METRES_PER_DEGREE, Space
from place.model.time import SECOND

if TYPE_CHECKING:
    from place.engine.cell import Cell

Floats = NDArray[np.float64]


def reach_of(retention: Retention) -> float:
    """How far around a region objects are kept."""
    way: float = retention.cache * retention.max_speed * retention.report_every / SECOND
    return way


def grown(boxes: Floats, space: Space, reach: float) -> Floats:
    """Boxes that hold all within `reach` of these; on the sphere on both sides of 180."""
    if space is Space.PLANAR:
        around: Floats = boxes + np.array([-reach, -reach, reach, reach])
        return around
    height = reach / METRES_PER_DEGREE
    highest = np.minimum(np.nanmax(np.abs(boxes[:, [1, 3]]), axis=1, initial=0.0) + height, 90.0)
    shrink = np.cos(np.radians(highest))
    width = np.where(shrink > 1e-6, height / np.maximum(shrink, 1e-6), 360.0)
    heights = np.full(len(boxes), height)
    wide = boxes + np.stack([-width, -heights, width, heights], axis=1)
    turned = np.array([360.0, 0.0, 360.0, 0.0])
    return np.concatenate([wide, wide - turned, wide + turned])


def kept_slots(
    store: Objects,
    tested: NDArray[np.bool_],
    groups: Sequence[tuple[Dimensions, Regions]],
    reach: float,
    points_of: dict[Dimensions, Floats],
) -> NDArray[np.bool_]:
    """Which of the tested slots hold an object that some region, grown by `reach`, holds."""
    kept = np.zeros(store.size, np.bool_)
    relation = store.relation
    for dimensions, regions in groups:
        boxes = regions.now.boxes[: regions.size]
        if dimensions and dimensions == (relation.x, relation.y):
            boxes = grown(boxes, relation.space, reach)
        present = boxes[~np.isnan(boxes[:, 0])]
        if not len(present):
            continue
        nowhere = np.full((len(present), 4), np.nan)
        now = np.concatenate([present, nowhere], axis=1)
        points = points_of[dimensions].copy()
        points[:, 2:4] = np.nan
        modes = np.full(len(present), TOUCHED, np.uint8)
        still = np.zeros(len(present), np.bool_)
        kept[match_bulk(points, now, modes, tested, still).points] = True
    return kept


def evict(cell: Cell, name: str, changed: Changed | None) -> None:
    """Let go of objects that lead no region, and that none can reach before they report.

    kNN reaches everywhere, and `WINDOW PREVIOUS` waits for the next reading of everybody.
    """
    store = cell.subjects[name]
    if any(group.plan.subject == name for group in cell.above.groups.values()) or any(
        upper.plan.subject == name and isinstance(upper.window, Pairs)
        for upper in cell.above.uppers.values()
    ):
        return
    groups = [(g.dimensions, r) for g, r in cell.groups.items() if g.meets == name]
    tested = np.zeros(store.size, np.bool_)
    if changed is not None:
        tested[changed.slots] = True
    if any(regions.changed[: regions.size].any() for _, regions in groups):
        tested[:] = True
    tested &= store.alive[: store.size] & (store.leads[: store.size] < 0)
    if not tested.any():
        return
    points = {d: Trail(d).follow(store, None)[0] for d, _ in groups}
    kept = kept_slots(store, tested, groups, cell.retained[name], points)
    gone = np.flatnonzero(tested & ~kept)
    if len(gone):
        cell.forget_order()
        store.evict(gone)
