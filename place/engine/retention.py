"""Retention: which objects a cell keeps (GPAC, section 3.3; PLACE's predicate-based windows).

A stream may promise how fast its objects move and how often they report. An object outside of
every region grown by the way that a region can move until then will have reported again before it
can be in one: it need not be kept. With a smaller share of that way fewer objects are kept, and a
region may reach one that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from place.engine.chains import Chains
from place.engine.compiled import JoinKey
from place.engine.objects import Objects
from place.engine.operators.region_join import RegionJoin
from place.engine.stores import Stores
from place.engine.tick import Tick
from place.engine.versions import Versions
from place.kernels.arrays import Bools, Floats
from place.kernels.bulk import TOUCHED, match_bulk
from place.model.schema import Stream
from place.model.space import METRES_PER_DEGREE, Space


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


class Retained:
    """The streams of which a cell keeps only what regions can reach."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._reach = {
            stream.name: stream.retention.reach
            for stream in streams
            if stream.retention is not None and stream.storing is None
        }

    @property
    def names(self) -> set[str]:
        """The names of these streams."""
        return set(self._reach)

    def let_go(
        self,
        stores: Stores,
        chains: Chains,
        joins: Mapping[JoinKey, RegionJoin],
        tick: Tick,
        moved: set[str],
    ) -> None:
        """A tick is over, in which regions have moved over the objects of some streams."""
        for name in self.names - stores.region_rows.keys():
            if not chains.reach_everywhere(name):
                self._evict(name, stores.subjects[name], joins, tick, name in moved)

    def _evict(
        self,
        name: str,
        store: Objects,
        joins: Mapping[JoinKey, RegionJoin],
        tick: Tick,
        has_moved: bool,
    ) -> None:
        """Drop objects that lead no region and that no region can reach before they report again.

        `has_moved` says that some regions are elsewhere since the last time.
        """
        tested = np.zeros(store.size, np.bool_)
        if name in tick.objects:
            tested[tick.objects[name].slots] = True
        if has_moved:
            tested[:] = True
        tested &= store.alive[: store.size] & (store.leads[: store.size] < 0)
        if not tested.any():
            return
        kept = np.zeros(store.size, np.bool_)
        for key, join in joins.items():
            if key.subject == name:
                kept |= _held(store, tested, key, join, self._reach[name])
        store.evict(np.flatnonzero(tested & ~kept))


def _held(store: Objects, tested: Bools, key: JoinKey, join: RegionJoin, reach: float) -> Bools:
    """Which of the tested slots hold an object that some region, grown by `reach`, holds."""
    if key.way is not None:  # which may meet a region far from where an object is
        return tested
    kept = np.zeros(store.size, np.bool_)
    relation, dimensions = store.relation, key.dimensions[:2]
    boxes = join.index.now.boxes[: join.index.size]
    if dimensions and dimensions == (relation.x, relation.y):
        boxes = grown(boxes, relation.space, reach)
    present = boxes[~np.isnan(boxes[:, 0])]
    if not len(present):
        return kept
    now = np.concatenate([present, np.full((len(present), 4), np.nan)], axis=1)
    points = np.full((store.size, 4), np.nan)
    points[:, :2] = Versions.none(store).places(~np.arange(store.size), dimensions)
    modes = np.full(len(present), TOUCHED, np.uint8)
    still = np.zeros(len(present), np.bool_)
    kept[match_bulk(points, now, modes, tested, still).points] = True
    return kept
