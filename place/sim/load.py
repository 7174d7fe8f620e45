"""Road networks of others: the text files of Brinkhoff's generator, and GeoJSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from place.errors import ConfigurationError
from place.model.space import EARTH_RADIUS, Space
from place.sim.city import METRES, ROAD_CLASSES, City, Floats, Ints, build_city

USUAL_CLASS = 3


def read_brinkhoff(nodes: str | Path, edges: str | Path, *, metres: float = METRES) -> City:
    """The network of Brinkhoff's text files: lines of `id x y` and of `id from to class`.

    Fields are separated by white space, and a `*` at the end of a line is no field. In place of
    the class, which is a whole number from 0 (motorway) to 6, a file may have the edge's length
    with a decimal point: then all roads are of class 3. The longer side of the city measures
    `metres`.
    """
    numbers: dict[int, int] = {}
    xs: list[float] = []
    ys: list[float] = []
    for line, fields in _lines(nodes, 3, "a node is `id x y`"):
        identity = _whole(nodes, line, fields[0], "the node's id")
        if identity in numbers:
            _refuse(nodes, line, f"node {identity} is in the file twice")
        numbers[identity] = len(xs)
        xs.append(_number(nodes, line, fields[1], "x"))
        ys.append(_number(nodes, line, fields[2], "y"))
    if not xs:
        raise ConfigurationError(f"{nodes} has no nodes", hint="a node is a line `id x y`")
    ends: list[tuple[int, int, int]] = []
    for line, fields in _lines(edges, 4, "an edge is `id from to class`"):
        _whole(edges, line, fields[0], "the edge's id")
        joined = [_whole(edges, line, text, "the node of an edge") for text in fields[1:3]]
        for node in joined:
            if node not in numbers:
                _refuse(edges, line, f"node {node} is not in {nodes}")
        ends.append((numbers[joined[0]], numbers[joined[1]], _class(edges, line, fields[3])))
    if not ends:
        raise ConfigurationError(
            f"{edges} has no edges", hint="an edge is a line `id from to class`"
        )
    a, b, classes = np.array(ends).T
    return build_city(xs, ys, a, b, classes, metres=metres)


def read_geojson(path: str | Path, *, space: Space = Space.WGS84, metres: float = METRES) -> City:
    """The network of the LineStrings and MultiLineStrings of a GeoJSON file.

    Roads meet where they have a point in common, digit by digit. A feature's property `class`
    is its road class, 0 to 6, or 3 without one. In `wgs84` lengths are measured on the sphere;
    in the plane the longer side of the city is `metres`.
    """
    try:
        document = json.loads(_text(path))
    except json.JSONDecodeError as error:
        _refuse(path, error.lineno, f"not JSON: {error.msg} (column {error.colno})")
    numbers: dict[tuple[float, float], int] = {}
    edges: list[tuple[int, int, int]] = []
    for where, road, line in _lines_of(path, document):
        if not isinstance(line, list) or len(line) < 2:
            raise ConfigurationError(f"{where}: a line has at least two points")
        points = [numbers.setdefault(_point(where, p, space), len(numbers)) for p in line]
        edges += [(a, b, road) for a, b in pairwise(points)]
    if not edges:
        raise ConfigurationError(
            f"{path} has no roads", hint="roads are LineString and MultiLineString geometries"
        )
    xs, ys = np.array(list(numbers)).T
    a, b, classes = np.array(edges).T
    lengths = _on_the_sphere(xs, ys, a, b) if space is Space.WGS84 else None
    return build_city(xs, ys, a, b, classes, lengths, metres=metres)


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not a text file: {error.reason}") from error


def _refuse(path: str | Path, line: int, what: str) -> NoReturn:
    raise ConfigurationError(f"{path}, line {line}: {what}")


def _lines(path: str | Path, least: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    """The numbered lines of a file that are not empty, as fields."""
    for line, text in enumerate(_text(path).split("\n"), start=1):
        fields = text.split()
        if fields and fields[-1] == "*":
            fields.pop()
        if fields and len(fields) != least:
            _refuse(path, line, f"{len(fields)} fields, expected {least}: {expected}")
        if fields:
            yield line, fields


def _whole(path: str | Path, line: int, text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        _refuse(path, line, f"{what} is a whole number, not {text!r}")


def _number(path: str | Path, line: int, text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        _refuse(path, line, f"{what} is a number, not {text!r}")
    return value


def _class(path: str | Path, line: int, text: str) -> int:
    if "." in text:
        _number(path, line, text, "the length of an edge")
        return USUAL_CLASS
    road = _whole(path, line, text, "the class of an edge")
    if not 0 <= road < len(ROAD_CLASSES):
        _refuse(path, line, f"the class of an edge is 0 to 6, not {road}")
    return road


def _lines_of(path: str | Path, document: Any) -> Iterator[tuple[str, int, Any]]:
    """Where each line stands, its road class and its points."""
    kind = document.get("type") if isinstance(document, dict) else None
    features = document.get("features") if kind == "FeatureCollection" else [document]
    if kind is None or not isinstance(features, list):
        raise ConfigurationError(f"{path} is not GeoJSON: it is no object with a type")
    for number, feature in enumerate(features, start=1):
        where = f"{path}, feature {number}"
        if not isinstance(feature, dict):
            raise ConfigurationError(f"{where}: a feature is an object")
        whole = feature.get("type") == "Feature"
        geometry = feature.get("geometry") if whole else feature
        if not isinstance(geometry, dict):
            continue
        properties = feature.get("properties") if whole else None
        road = properties.get("class") if isinstance(properties, dict) else None
        road = USUAL_CLASS if road is None else road
        points = geometry.get("coordinates")
        shape = geometry.get("type")
        if shape not in ("LineString", "MultiLineString"):
            continue
        if type(road) is not int or not 0 <= road < len(ROAD_CLASSES):
            raise ConfigurationError(f"{where}: `class` is a whole number from 0 to 6, not {road}")
        if not isinstance(points, list):
            raise ConfigurationError(f"{where}: `coordinates` is a list")
        for line in [points] if shape == "LineString" else points:
            yield where, road, line


def _point(where: str, point: Any, space: Space) -> tuple[float, float]:
    numbers = point[:2] if isinstance(point, list) else []
    if len(numbers) < 2 or any(
        type(n) not in (int, float) or not math.isfinite(n) for n in numbers
    ):
        raise ConfigurationError(f"{where}: a point is a list of two numbers, not {point}")
    x, y = float(numbers[0]), float(numbers[1])
    if space is Space.WGS84 and not (abs(x) <= 180 and abs(y) <= 90):
        raise ConfigurationError(
            f"{where}: ({x:g}, {y:g}) is no longitude and latitude",
            hint="read a file in the plane with space=Space.PLANAR",
        )
    return x, y


def _on_the_sphere(xs: Floats, ys: Floats, a: Ints, b: Ints) -> Floats:
    """Lengths in metres, by the haversine, which is exact also for short edges."""
    longitude, latitude = np.radians(xs), np.radians(ys)
    across = np.sin((longitude[b] - longitude[a]) / 2) ** 2
    along = np.sin((latitude[b] - latitude[a]) / 2) ** 2
    part = along + np.cos(latitude[a]) * np.cos(latitude[b]) * across
    lengths: Floats = 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(part, 1.0)))
    return lengths
