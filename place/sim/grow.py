"""Cities that nobody has to download: rings, avenues and side streets on both sides of a river.

A city grows outwards from its centre, denser in the middle. Every ring has 12, 24, 48 … nodes, so
that the roads from ring to ring go on as avenues, and new ones begin between them further out.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from place.errors import ConfigurationError
from place.kernels.drive import span
from place.sim.city import METRES, City, Floats, build_city

FEWEST, MOST = 100, 10_000_000
AVENUES = 12
BRIDGES = 7
DENSER = 1.3  # how much closer the rings are in the middle
REACH = 0.49  # of the square; corners reach a fifth further
CLOSED = 0.25  # the part of side streets that is not there
RING_ROADS = ((0.9, 0), (0.6, 1), (0.3, 2))  # how far out, and of which road class
SIDE_STREETS = 5


def make_city(
    name: str | int = "place", *, nodes: int = 10_000, seed: int = 0, metres: float = METRES
) -> City:
    """A connected city in the unit square, `metres` wide, the same for the same name and seed.

    >>> city = make_city("Lafayette", nodes=1000)
    >>> len(city.xs), sorted(set(city.classes.tolist()))
    (1000, [0, 1, 2, 3, 4, 5, 6])
    """
    if not FEWEST <= nodes <= MOST:
        raise ConfigurationError(f"a city has {FEWEST} to {MOST} nodes, not {nodes}")
    rng = np.random.default_rng([zlib.crc32(str(name).encode()), seed % 2**64])
    rings = _rings(nodes)
    which = np.repeat(np.arange(len(rings)), rings)[: nodes - 1]
    first = np.concatenate(([1], 1 + np.cumsum(rings)))
    within = np.arange(nodes - 1) - (first[which] - 1)
    xs, ys = _places(which, within, rings, rng)
    a, b, classes = _streets(which, within, rings, first, rng)
    kept = _open(xs, ys, a, b, classes, rng)
    a, b, classes = a[kept], b[kept], classes[kept]
    nearby = _nearby(xs, ys)
    number = np.empty(nodes, np.int64)
    number[nearby] = np.arange(nodes)
    order = np.argsort(number[a], kind="stable")
    a, b, classes = number[a][order], number[b][order], classes[order]
    xs, ys = xs[nearby], ys[nearby]
    side = float(max(np.ptp(xs), np.ptp(ys)))
    return build_city(xs, ys, a, b, classes, metres=metres * side)


def _nearby(xs: Floats, ys: Floats) -> NDArray[np.int64]:
    """The nodes along a curve through the square that interleaves the bits of x and y.

    A route then stays within few lines of the cache, which a drive through a large city needs.
    """
    curve = np.zeros(len(xs), np.int64)
    columns, rows = (xs * 2**16).astype(np.int64), (ys * 2**16).astype(np.int64)
    for bit in range(16):
        curve |= (columns >> bit & 1) << 2 * bit
        curve |= (rows >> bit & 1) << 2 * bit + 1
    return np.argsort(curve, kind="stable")


def _rings(nodes: int) -> NDArray[np.int64]:
    """How many nodes each ring has: enough rings for all nodes, and none too many."""
    count = 2
    while True:
        out = (np.arange(1, count + 1) / count) ** DENSER
        apart = np.diff(out, prepend=0.0)
        doubled = np.log2(np.maximum(2 * np.pi * out / apart / AVENUES, 1.0)).round()
        # A ring has at most twice the nodes of the one within it, or avenues would end in it.
        doubled = np.minimum(doubled, np.arange(count))
        doubled = np.maximum.accumulate(doubled).astype(np.int64)
        many: NDArray[np.int64] = AVENUES << doubled
        if 1 + int(many.sum()) >= nodes:
            return many
        count += 1


def _places(
    which: NDArray[np.int64],
    within: NDArray[np.int64],
    rings: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Where the nodes are, the centre first: no ring is quite round and no block quite even."""
    count, many = len(rings), rings[which]
    out = ((which + 1 + rng.uniform(-0.2, 0.2, len(which))) / (count + 0.2)) ** DENSER
    angle = 2 * np.pi * (within + rng.uniform(-0.2, 0.2, len(which))) / many
    angle += 0.25 * np.sin(3 * out + rng.uniform(0, 2 * np.pi))
    cosine, sine = np.cos(angle), np.sin(angle)
    # The further out, the more does the city follow the square that it is in.
    corner = (cosine**4 + sine**4) ** -0.25
    reach = REACH * out * (1 + (corner - 1) * out)
    return np.append(0.5, 0.5 + reach * cosine), np.append(0.5, 0.5 + reach * sine)


def _streets(
    which: NDArray[np.int64],
    within: NDArray[np.int64],
    rings: NDArray[np.int64],
    first: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All roads along the rings and between them, with their classes."""
    nodes = 1 + np.arange(len(which))
    following = first[which] + (within + 1) % rings[which]
    along = following <= len(which)  # the last ring is open where the nodes ran out
    ring_class = np.where(np.arange(len(rings)) % 4 == 3, 4, SIDE_STREETS)
    for out, road in RING_ROADS:
        ring_class[round(out ** (1 / DENSER) * (len(rings) - 1))] = road

    inner = rings[np.maximum(which - 1, 0)]
    step = np.where(which > 0, rings[which] // inner, 1)
    inwards = within % step == 0
    towards = np.where(which > 0, first[np.maximum(which - 1, 0)] + within // step, 0)
    spoke = rings[which] // AVENUES  # nodes between two of the avenues that begin at the centre
    avenue_class = np.full(len(which), SIDE_STREETS)
    for road, apart in ((4, spoke // 4), (3, spoke // 2), (2, spoke)):
        avenue_class[(apart > 0) & (within % np.maximum(apart, 1) == 0)] = road
    avenue_class[within % (3 * spoke) == 0] = 1

    a = np.concatenate((nodes[along], nodes[inwards]))
    b = np.concatenate((following[along], towards[inwards]))
    classes = np.concatenate((ring_class[which[along]], avenue_class[inwards]))
    small = (classes == SIDE_STREETS) & (rng.random(len(classes)) < 0.12)
    return a, b, np.where(small, 6, classes)


def _open(
    xs: Floats,
    ys: Floats,
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    classes: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The roads that are there: few cross the river, some side streets are left out.

    Whatever the chances say, all nodes stay connected.
    """
    course = 0.5 + rng.choice([-1, 1]) * rng.uniform(0.08, 0.18)
    bend = 0.05 * np.sin(2 * np.pi * (1.2 * xs + rng.random()))
    north = ys > course + bend
    wet = north[a] != north[b]
    bridge = np.zeros(len(a), np.bool_)
    crossing = np.flatnonzero(wet)
    if len(crossing):
        middle = (xs[a] + xs[b])[crossing]
        reach = np.linspace(middle.min(), middle.max(), BRIDGES + 1)[1:-1]
        stretch = np.searchsorted(reach, middle)
        for number in range(BRIDGES):
            there = crossing[stretch == number]
            if len(there):
                bridge[there[np.argmin(classes[there])]] = True
    chance = rng.random(len(a))
    closed = (wet & ~bridge) | ((classes >= SIDE_STREETS) & ~bridge & (chance < CLOSED))
    # A road that should be closed is taken only if nothing else joins its ends, rivers last.
    order = np.lexsort((chance, classes, closed, wet & ~bridge))
    needed = np.zeros(len(a), np.bool_)
    needed[order] = span(a[order], b[order], len(xs))[0]
    return np.flatnonzero(~closed | needed)
