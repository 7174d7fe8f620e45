"""The answers of many regions on the globe equal those of Shapely and a great-circle filter."""

import csv
import gzip
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import shapely

import place
from place.model.reading import Advance, Reading
from place.model.space import EARTH_RADIUS

DATA = os.environ.get("PLACE_DATA")
Circle = tuple[float, float, float]
Corners = list[tuple[float, float]]


class Globe:
    """The same regions for PLACE, as a query table, and for Shapely."""

    def __init__(self, circles: list[Circle], polygons: list[Corners]) -> None:
        self.circles, self.polygons = circles, polygons
        self.tree = shapely.STRtree([shapely.Polygon(corners) for corners in polygons])
        self.session = place.connect(runtime="local")
        self.session.sql(
            "CREATE STREAM Aircraft (icao STRING KEY, x DOUBLE, y DOUBLE) WITH (space = 'wgs84')"
        )
        rows = ", ".join(f"({i}, {x!r}, {y!r}, {r!r})" for i, (x, y, r) in enumerate(circles))
        self.session.sql(
            "CREATE TABLE Circles (ID BIGINT, x DOUBLE, y DOUBLE, r DOUBLE)"
            f" AS VALUES {rows} WITH (space = 'wgs84')"
        )
        texts = (", ".join(f"{x!r} {y!r}" for x, y in corners) for corners in polygons)
        rows = ", ".join(f"({i}, 'POLYGON (({text}))')" for i, text in enumerate(texts))
        self.session.sql(f"CREATE TABLE Polygons (ID BIGINT, region STRING) AS VALUES {rows}")
        for name in ("Circles", "Polygons"):
            self.session.sql(
                f"REGISTER QUERY {name} AS SELECT Q.ID, O.icao FROM {name} Q, Aircraft O"
                " WHERE O INSIDE Q"
            )

    def expected(self, positions: dict[str, tuple[float, float]]) -> tuple[set, set]:  # type: ignore[type-arg]
        """The pairs of circle and object, and of polygon and object, by others' code."""
        keys = list(positions)
        xs = np.array([positions[key][0] for key in keys])
        ys = np.array([positions[key][1] for key in keys])
        in_circles = {
            (i, keys[j])
            for i, (x, y, r) in enumerate(self.circles)
            for j in np.flatnonzero(great_circle(x, y, xs, ys) <= r).tolist()
        }
        points = shapely.points(xs, ys)
        found = self.tree.query(points, predicate="covered_by")
        in_polygons = {(int(i), keys[j]) for j, i in zip(*found.tolist(), strict=True)}
        return in_circles, in_polygons

    def check(self, instants: Iterable[tuple[int, list[Reading]]], every: int) -> int:
        """Play readings, and compare the answers at every so-many instants; how many rows."""
        positions: dict[str, tuple[float, float]] = {}
        compared = 0
        for number, (instant, readings) in enumerate(instants):
            self.session.feed([*readings, Advance(instant)])
            for reading in readings:
                assert reading.row is not None
                positions[str(reading.key)] = reading.row[1], reading.row[2]  # type: ignore[assignment]
            if number % every == 0:
                circles, polygons = self.expected(positions)
                assert set(self.session.answer("Circles")) == circles
                assert set(self.session.answer("Polygons")) == polygons
                compared += len(circles) + len(polygons)
        return compared


def great_circle(x: float, y: float, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    a, b = math.radians(y), np.radians(ys)
    h = np.sin((b - a) / 2) ** 2 + math.cos(a) * np.cos(b) * np.sin(np.radians(xs - x) / 2) ** 2
    return 2 * EARTH_RADIUS * np.arcsin(np.minimum(1, np.sqrt(h)))


def make_regions(
    chance: np.random.Generator, count: int, bounds: tuple[float, float, float, float]
) -> Globe:
    """Circles and star-shaped polygons of very different sizes within bounds."""
    x1, y1, x2, y2 = bounds
    circles, polygons = [], []
    for _ in range(count // 2):
        x, y = chance.uniform(x1, x2), chance.uniform(y1, y2)
        circles.append((x, y, float(10 ** chance.uniform(2.5, 5))))
        x, y, size = chance.uniform(x1, x2), chance.uniform(y1, y2), 10 ** chance.uniform(-2, 0)
        turns = np.sort(chance.uniform(0, 2 * math.pi, chance.integers(3, 9)))
        reach = size * chance.uniform(0.3, 1, len(turns))
        corners = [
            (float(x + r * math.cos(t)), float(y + r * math.sin(t)))
            for r, t in zip(reach, turns, strict=True)
        ]
        polygons.append(corners)
    return Globe(circles, polygons)


def walk(
    chance: np.random.Generator, objects: int, steps: int
) -> Iterator[tuple[int, list[Reading]]]:
    """Objects that fly about the north of France."""
    places = chance.uniform((1, 48), (4, 50), (objects, 2))
    for step in range(steps):
        places += chance.normal(0, 0.02, places.shape)
        time = step * 1_000_000
        yield (
            time,
            [
                Reading("Aircraft", f"a{i}", time, (f"a{i}", float(x), float(y)))
                for i, (x, y) in enumerate(places)
                if chance.random() < 0.7
            ],
        )


def test_random_flights() -> None:
    chance = np.random.default_rng(5)
    globe = make_regions(chance, 300, (0.5, 47.5, 4.5, 50.5))
    assert globe.check(walk(chance, 120, 40), every=4) > 1_000


def flights(folder: Path) -> Iterator[tuple[int, list[Reading]]]:
    """The recorded positions, by second."""
    last, readings = None, []
    with gzip.open(folder / "adsb" / "quickstart.csv.gz", "rt") as file:
        rows = [
            (int(float(row["ts"]) * 1_000_000), row)
            for row in csv.DictReader(file)
            if row["latitude"] and row["longitude"]
        ]
    rows.sort(key=lambda pair: pair[0])
    for time, row in rows:
        if time != last and last is not None:
            yield last, list(readings)
            readings = []
        last = time
        at = (row["icao24"], float(row["longitude"]), float(row["latitude"]))
        readings.append(Reading("Aircraft", row["icao24"], time, at))
    if last is not None:
        yield last, readings


@pytest.mark.long
@pytest.mark.skipif(
    DATA is None or not (Path(DATA) / "adsb").exists(),
    reason="needs recorded flights: set PLACE_DATA to a folder that has adsb/quickstart.csv.gz",
)
def test_recorded_flights() -> None:
    instants = list(flights(Path(str(DATA))))
    globe = make_regions(np.random.default_rng(9), 2000, (0.0, 46.5, 5.0, 51.0))
    assert globe.check(instants, every=max(1, len(instants) // 200)) > 100_000
