"""CPA as sides of a join: two objects can come near each other only if the boxes meet that hold
the ways on which they go on.

How far ahead a way has to be followed depends on both objects: their time begins with the later of
their last readings. No reading is later than the horizon of a join, so the way of each object is
followed until the time ahead has passed after the horizon, whoever the other one is. Boxes meet if
each begins before the other one ends, along every axis: half-lines between four coordinates in the
plane.

On the sphere CPA measures in a plane around the first object, so sides go by latitudes, which are
worth the same everywhere, and by longitudes as points on a circle, six coordinates in all. What a
step to the east is worth differs between the two objects; as far as both stay within a few degrees
of latitude, their longitudes are bounded, and otherwise only their latitudes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.vector import evaluate_all
from place.kernels.arrays import Bools, Floats
from place.model.space import METRES_PER_DEGREE, Space
from place.plan.expression import Call, Expression, sources_of
from place.plan.functions import APPROACH, parts_of_approach

MARGIN = 1e-11
"""By which part of itself a box is widened, far more than rounding can take away."""
LEAST_MARGIN = 1e-9
"""By how much it is widened at least on the sphere: degrees of latitude, or radians."""
STRAYS = 1.0
"""Degrees of latitude that an object may go, or the distance be, for longitudes to be bounded."""
NEAR_POLE = 85.0
"""From this latitude on longitudes bound nothing."""
PARTS = 6
"""What CPA is told of an object: where it was (x, y), where it is (x, y), how long ago it was
there, and when it is here."""

Motion = tuple[Expression, ...]


class Horizon:
    """The time that no reading of a join's elements is later than, as far as boxes know."""

    def __init__(self) -> None:
        self.time: int | None = None

    def reach(self, until: int, ahead: int) -> bool:
        """Go on to a time at least; was that necessary? Then all boxes have to be made anew, so it
        goes on a good part of the time ahead further."""
        if self.time is not None and until <= self.time:
            return False
        self.time = until + ahead // 4
        return True


@dataclass(frozen=True)
class ApproachSides:
    """The sides between the ways of two objects, of which one is the point and one the box."""

    point: Motion
    box: Motion
    radius: Expression
    space: Space
    ahead: int

    @property
    def width(self) -> int:
        return 2 * axes_of(self.space)

    @property
    def of_point(self) -> Motion:
        """What a point reads."""
        return self.point

    @property
    def of_box(self) -> Motion:
        """What a box reads."""
        return (*self.box, self.radius)


def axes_of(space: Space) -> int:
    """Along how many axes ways have boxes."""
    return 2 if space is Space.PLANAR else 3


def approach_of(
    call: Call, radius: Expression, points: frozenset[int], boxes: frozenset[int]
) -> ApproachSides | None:
    """The sides of `CPA(…) < radius`, if one of the objects is the point's and the other one the
    box's."""
    if not call.function.startswith(APPROACH) or not radius.type.is_numeric:
        return None
    if not sources_of(radius) <= boxes:
        return None
    one, other = call.arguments[:PARTS], call.arguments[PARTS:]
    for point, box in ((one, other), (other, one)):
        if _sources(point) <= points and _sources(box) <= boxes:
            return ApproachSides(point, box, radius, *parts_of_approach(call.function))
    return None


def _sources(motion: Motion) -> frozenset[int]:
    return frozenset(source for part in motion for source in sources_of(part))


def hulls_of(
    sides: ApproachSides,
    motion: Motion,
    radius: Floats | None,
    rows: Sequence[Columns | None],
    size: int,
    dictionary: Dictionary,
    horizon: Horizon | None,
) -> tuple[list[Floats], list[Floats]]:
    """The least and the greatest coordinates of the ways of objects, wider by a radius; NaN where
    an object is nowhere. Who spoke after the horizon may be met anywhere."""
    found = [evaluate_all(part, rows, size, dictionary) for part in motion]
    was_x, was_y, x, y, since = (
        np.broadcast_to(vector.values.astype(np.float64, copy=False), size) for vector in found[:5]
    )
    times = np.broadcast_to(found[5].values.astype(np.int64, copy=False), size)
    nulls = [np.broadcast_to(vector.nulls, size) for vector in found]
    stands = nulls[0] | nulls[1] | nulls[4] | ~(since > 0)
    nowhere = nulls[2] | nulls[3] | nulls[5]
    if radius is None:
        radius = np.zeros(size)
    # Nothing is nearer than nothing, and nothing is within no distance.
    nowhere = nowhere | ~(radius >= 0)
    left: Floats = np.zeros(size)
    anywhere = np.ones(size, np.bool_)
    if horizon is not None and horizon.time is not None:
        left = (horizon.time - times).astype(np.float64) + sides.ahead
        anywhere = times > horizon.time
    with np.errstate(all="ignore"):
        factor = np.where(stands | anywhere, 0.0, left / since)
        east = np.where(stands, 0.0, x - was_x)
        north = np.where(stands, 0.0, (y - was_y) * factor)
        if sides.space is Space.PLANAR:
            axes = [
                _along(x, x + east * factor, radius, 0.0),
                _along(y, y + north, radius, 0.0),
            ]
        else:
            axes = _on_sphere(x, y, _shorter(east) * factor, north, radius)
    for low, high in axes:
        _spread(low, high, anywhere)
        low[nowhere] = high[nowhere] = np.nan
    return [low for low, _ in axes], [high for _, high in axes]


def _along(begin: Floats, end: Floats, reach: Floats, least: float) -> tuple[Floats, Floats]:
    """The interval of a way along one axis, a little wider."""
    wide = reach + (np.abs(begin) + np.abs(end) + reach) * MARGIN + least
    return np.minimum(begin, end) - wide, np.maximum(begin, end) + wide


def _on_sphere(
    x: Floats, y: Floats, east: Floats, north: Floats, radius: Floats
) -> list[tuple[Floats, Floats]]:
    """Intervals of latitude, and of the two coordinates of a longitude on the unit circle.

    East of an object by one degree is not one degree east of another one nearer to the equator. If
    neither goes farther north or south than it may stray, and the distance is no longer, latitudes
    of objects that come near differ by three times that at most.
    """
    reach = radius / METRES_PER_DEGREE
    latitudes = _along(y, y + north, reach, LEAST_MARGIN)
    last = np.abs(y) + 3 * STRAYS
    narrowest = np.cos(np.radians(np.minimum(last, 89.0)))
    wide = np.radians((np.abs(east) * np.cos(np.radians(y)) + reach) / narrowest)
    wide = wide * (1 + MARGIN) + LEAST_MARGIN
    bounded = (np.abs(y) <= NEAR_POLE) & (np.abs(north) <= STRAYS) & (reach <= STRAYS)
    bounded &= wide < np.pi
    found = [latitudes]
    for place in (np.cos(np.radians(x)), np.sin(np.radians(x))):
        low, high = place - wide, place + wide
        _spread(low, high, ~bounded)
        found.append((low, high))
    return found


def _shorter(east: Floats) -> Floats:
    """Differences of longitudes the shorter way round."""
    return np.where(east > 180.0, east - 360.0, np.where(east < -180.0, east + 360.0, east))


def _spread(low: Floats, high: Floats, anywhere: Bools) -> None:
    """Let intervals hold everything, and those of which numbers tell nothing as well."""
    wide = anywhere | np.isnan(low) | np.isnan(high)
    low[wide], high[wide] = -np.inf, np.inf
