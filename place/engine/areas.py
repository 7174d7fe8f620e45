"""INSIDE as a test of places: in a shape that stays, or around centres that move."""

from __future__ import annotations

import numpy as np

from place.engine.layout import Polygons, lay_out, lay_out_around
from place.kernels.arrays import Bools, Floats
from place.kernels.inside import inside_shapes
from place.model.shape import Shape
from place.model.space import Space


class FixedArea:
    """A shape that stays where it is."""

    def __init__(self, shape: Shape, space: Space) -> None:
        polygons = Polygons()
        laid = lay_out([shape], space, polygons)
        self._kinds, self._params = laid.kinds, laid.params
        self._rings = polygons.arrays()

    def holds(self, xs: Floats, ys: Floats) -> Bools:
        """Which places lie within; a NaN lies nowhere."""
        kinds, params = np.repeat(self._kinds, len(xs)), np.repeat(self._params, len(xs), axis=0)
        found: Bools = inside_shapes(xs, ys, kinds, params, *self._rings)
        return found & ~np.isnan(xs) & ~np.isnan(ys)


def lies_around(
    xs: Floats, ys: Floats, centers: Floats, extents: tuple[float, ...], space: Space
) -> Bools:
    """Which places lie in the region of these extents around a centre each."""
    sizes = np.full((len(xs), 2), np.nan)
    sizes[:, : len(extents)] = extents
    laid = lay_out_around(np.ascontiguousarray(centers), sizes, space)
    rings = Polygons().arrays()
    found: Bools = inside_shapes(xs, ys, laid.kinds, laid.params, *rings)
    return found & ~np.isnan(xs) & ~np.isnan(ys)
