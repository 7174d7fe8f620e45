"""A city: nodes and the two-way roads between them, of seven classes.

Coordinates are those of the city's file or maker; lengths are metres and speeds are km/h, so that
an object's speed means the same in the unit square and in degrees.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from place.errors import ConfigurationError
from place.kernels.drive import Roads, span

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

ROAD_CLASSES = ("motorway", "trunk", "primary", "secondary", "tertiary", "street", "lane")
SPEEDS = (110.0, 80.0, 60.0, 50.0, 40.0, 30.0, 15.0)
CAPACITIES = (120.0, 100.0, 80.0, 60.0, 50.0, 40.0, 20.0)
METRES = 20_000.0
SHORTEST = 0.001  # metres; an edge without length would have no place on it
MOST_ARCS = 256  # out of one node: the next hop is a byte


@dataclass(frozen=True, eq=False)
class City:
    """A connected road network; `build_city` makes one from arrays.

    `speeds` (km/h) and `capacities` (objects on a kilometre before they slow each other down) are
    by road class, 0 to 6; `first` and `arcs` are the adjacency: `arcs[first[n]:first[n + 1]]`
    lead out of node n, arc 2e along edge e and arc 2e + 1 against it.
    """

    xs: Floats
    ys: Floats
    starts: Ints
    ends: Ints
    classes: NDArray[np.int8]
    lengths: Floats
    speeds: Floats
    capacities: Floats
    first: Ints = field(repr=False)
    arcs: Ints = field(repr=False)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The least box around the city: x1, y1, x2, y2."""
        return (
            float(self.xs.min()),
            float(self.ys.min()),
            float(self.xs.max()),
            float(self.ys.max()),
        )

    @property
    def limits(self) -> Floats:
        """The speed limit of each edge in km/h."""
        return self.speeds[self.classes]

    def fingerprint(self) -> str:
        """A text that is different for different cities."""
        digest = hashlib.sha256()
        for array in (self.xs, self.ys, self.starts, self.ends, self.classes, self.lengths):
            digest.update(array.tobytes())
        digest.update(self.speeds.tobytes() + self.capacities.tobytes())
        return digest.hexdigest()

    def roads(self) -> Roads:
        """The network as the kernels take it, with speed limits in metres per second."""
        a, b = self.starts, self.ends
        here = (self.xs[a], self.ys[a], self.xs[b], self.ys[b])
        edges = np.stack((*here, self.lengths, self.limits / 3.6, a, b), axis=1)
        return Roads(self.first, self.arcs, np.ascontiguousarray(edges))


def build_city(
    xs: ArrayLike,
    ys: ArrayLike,
    starts: ArrayLike,
    ends: ArrayLike,
    classes: ArrayLike,
    lengths: ArrayLike | None = None,
    *,
    metres: float = METRES,
    speeds: ArrayLike = SPEEDS,
    capacities: ArrayLike = CAPACITIES,
) -> City:
    """A city from nodes and edges, or its largest connected part if it has several.

    Without `lengths` (in metres), edges are straight and the longer side of the box around all
    nodes measures `metres`. Edges from a node to itself are left out.
    """
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    a, b = np.asarray(starts, np.int32), np.asarray(ends, np.int32)
    road = np.asarray(classes, np.int8)
    limit, room = np.asarray(speeds, np.float64), np.asarray(capacities, np.float64)
    if len(x) != len(y) or not len(a) == len(b) == len(road):
        raise ConfigurationError("a city has an x and a y by node, two ends and a class by edge")
    if len(limit) != len(ROAD_CLASSES) or len(room) != len(ROAD_CLASSES):
        raise ConfigurationError("a city has a speed and a capacity for each of 7 road classes")
    if not (np.all(limit > 0) and np.all(room > 0) and metres > 0):
        raise ConfigurationError("speeds, capacities and metres of a city must be above 0")
    if len(a) and not (road.min() >= 0 and road.max() < len(ROAD_CLASSES)):
        raise ConfigurationError("a road class is a number from 0 to 6")
    if len(a) and not (min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) < len(x)):
        raise ConfigurationError(f"an edge leads to a node that is not among the {len(x)} nodes")
    if lengths is None:
        long = _straight(x, y, a, b, metres)
    else:
        long = np.asarray(lengths, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all() and np.isfinite(long).all()):
        raise ConfigurationError("coordinates and lengths of a city must be finite numbers")
    kept = np.flatnonzero(a != b)
    if not len(kept):
        raise ConfigurationError("a city needs at least one road between two different nodes")
    _, parts = span(a, b, len(x))
    here = parts == np.bincount(parts).argmax()
    kept = kept[here[a[kept]]]
    renumbered = np.cumsum(here, dtype=np.int32) - np.int32(1)
    a, b = renumbered[a[kept]], renumbered[b[kept]]
    first, arcs = _adjacency(a, b, int(here.sum()))
    long = np.maximum(long[kept], SHORTEST)
    return City(x[here], y[here], a, b, road[kept], long, limit, room, first, arcs)


def _straight(x: Floats, y: Floats, a: Ints, b: Ints, metres: float) -> Floats:
    side = max(float(np.ptp(x)), float(np.ptp(y))) if len(x) else 0.0
    return np.hypot(x[a] - x[b], y[a] - y[b]) * (metres / side if side > 0 else 1.0)


def _adjacency(a: Ints, b: Ints, nodes: int) -> tuple[Ints, Ints]:
    tails = np.stack((a, b), axis=1).ravel()
    counts = np.bincount(tails, minlength=nodes)
    if counts.max() > MOST_ARCS:
        raise ConfigurationError(
            f"{counts.max()} roads meet at one node, and at most {MOST_ARCS} can",
            hint="look for edges that are in the file many times",
        )
    first = np.zeros(nodes + 1, np.int32)
    np.cumsum(counts, out=first[1:])
    return first, np.argsort(tails, kind="stable").astype(np.int32)
