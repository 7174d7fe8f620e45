"""A generator as a few words say it: the options of `FROM GENERATOR` and of `place generate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import cos, radians
from pathlib import Path
from typing import Any

from place.errors import ConfigurationError
from place.model.space import EARTH_RADIUS, Space
from place.model.time import parse_timestamp
from place.sim.city import METRES, City
from place.sim.generator import Generator
from place.sim.grow import make_city
from place.sim.load import read_brinkhoff, read_geojson

START = "2026-01-01 00:00:00"
"""When the first step is, unless it is said: the same readings whenever they are made."""
DEGREE = radians(1.0) * EARTH_RADIUS


@dataclass(frozen=True)
class Recipe:
    """What makes a generator; two that are equal make the same readings.

    `city` is the name of a city that is grown, or a file: GeoJSON lines, or Brinkhoff's nodes with
    his `edges` in another. `centre` (`'longitude latitude'`) places a grown city on the globe.
    """

    objects: int = 1000
    city: str = "default"
    edges: str | None = None
    nodes: int = 10_000
    metres: float = METRES
    centre: str | None = None
    seed: int = 0
    period: float = 1.0
    destinations: int = 256
    weather: int = 2
    crowding: float = 1.0
    roam: bool = False
    start: str = START

    @staticmethod
    def of(options: Mapping[str, Any]) -> Recipe:
        """The recipe in a set of options; options that are not its own are passed over."""
        known = {field.name for field in fields(Recipe)}
        return Recipe(**{name: value for name, value in options.items() if name in known})

    def time_of(self, step: int) -> int:
        """The time of a step, in microseconds."""
        return parse_timestamp(self.start) + round(step * self.period * 1e6)

    def make_city(self, space: Space = Space.PLANAR) -> City:
        """The city, in the coordinates of a space."""
        if self.edges is not None:
            return read_brinkhoff(self.city, self.edges, metres=self.metres)
        if is_file(self.city):
            return read_geojson(self.city, space=space, metres=self.metres)
        city = make_city(self.city, nodes=self.nodes, metres=self.metres)
        if space is Space.PLANAR:
            return city
        if self.centre is None:
            raise ConfigurationError(
                f'the city "{self.city}" lies in the unit square, not on the globe',
                hint="write centre = '-86.9 40.4' (longitude, latitude), or city = 'roads.geojson'",
            )
        return _placed(city, self.centre, self.metres)

    def make(self, space: Space = Space.PLANAR) -> Generator:
        """The generator; growing the fastest ways of a large city takes some seconds."""
        return Generator(
            self.make_city(space),
            objects=self.objects,
            seed=self.seed,
            period=self.period,
            destinations=self.destinations,
            weather=self.weather,
            crowding=self.crowding,
            roam=self.roam,
        )


def is_file(city: str) -> bool:
    """Is a city read from a file of lines? Any other name is that of one that is grown."""
    return Path(city).suffix.casefold() in (".geojson", ".json")


def _placed(city: City, centre: str, metres: float) -> City:
    """A city of the unit square around a point of the globe, as wide as it is."""
    try:
        longitude, latitude = (float(part) for part in centre.replace(",", " ").split())
    except ValueError:
        longitude = latitude = 999.0
    if not (abs(longitude) <= 180 and abs(latitude) <= 80):
        raise ConfigurationError(
            f"'{centre}' is no longitude and latitude (up to 80 degrees)",
            hint="write for example centre = '-86.9 40.4'",
        )
    high = metres / DEGREE
    wide = high / cos(radians(latitude))
    if abs(longitude) + wide / 2 > 180:
        raise ConfigurationError(f"the city around '{centre}' would cross the antimeridian")
    xs = longitude + (city.xs - 0.5) * wide
    return replace(city, xs=xs, ys=latitude + (city.ys - 0.5) * high)
