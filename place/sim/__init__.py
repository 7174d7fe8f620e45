"""Moving objects on a road network."""

from place.sim.city import City, build_city
from place.sim.generator import CLASSES, Generator, ObjectClass, Report, State
from place.sim.grow import make_city
from place.sim.load import read_brinkhoff, read_geojson

__all__ = [
    "CLASSES",
    "City",
    "Generator",
    "ObjectClass",
    "Report",
    "State",
    "build_city",
    "make_city",
    "read_brinkhoff",
    "read_geojson",
]
