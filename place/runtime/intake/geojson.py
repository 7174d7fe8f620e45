"""Files of GeoJSON: collections of features that are points, with properties.

The coordinates are the position, and the `id` of a feature is its object unless a property has the
name of the key; all other columns are properties, found by name. As of an array, the features are
told apart one by one: what breaks the file off leaves those before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from place.errors import ReadingError
from place.model.schema import Stream
from place.runtime.intake.check import Rejections, joined, line_text
from place.runtime.intake.json_array import Elements, whole_text
from place.runtime.intake.json_file import Item, ObjectReader, as_table, why_not_json
from place.runtime.intake.roles import KEY, Roles, X, Y

COLLECTION = 'a file of GeoJSON is {"type": "FeatureCollection", "features": [ … ]}'
POINTS = "only points are readings: write a feature for each place and time"


def read_geojson(
    stream: Stream,
    chunks: Iterator[bytes],
    rejections: Rejections,
    arrival: int | None,
    latest: int | None = None,
) -> pa.Table:
    """The segment of the features that are good; what is not good is rejected."""
    found = whole_text(chunks, rejections)
    if found is None:
        return joined(stream, [])
    text, problem = found
    if not text.strip():
        return joined(stream, [])
    try:
        start = _features(text)
    except (RecursionError, ValueError) as error:
        reason = str(error) if isinstance(error, _NoCollection) else why_not_json(error)
        rejections.add(None, problem or reason, line_text(text.encode()), COLLECTION)
        return joined(stream, [])
    reader, roles, parts = ObjectReader(stream, latest), Roles(stream), []
    elements = Elements(text, start, problem, is_alone=False)
    while batch := elements.take():
        items = [_reading(roles, item) for _, item, _ in batch]
        texts = [(line, written) for line, _, written in batch]
        parts.append(reader.sort_out(items, rejections, texts.__getitem__, arrival))
    if problem is not None and problem not in {each.reason for each in rejections.listed}:
        rejections.add(None, problem, "")  # all features were there, and what follows them is not
    return as_table(stream, parts, rejections, reader.missing(arrival))


class _NoCollection(ValueError):
    """JSON that is no collection of features."""


def _features(text: str) -> int:
    """Where the array of the features begins."""
    decoder = json.JSONDecoder()
    at = _skip(text, 0)
    if not text.startswith("{", at):
        raise _NoCollection("no JSON object, so no collection of features")
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        name, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(name, str) or not text.startswith(":", at):
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        at = _skip(text, at + 1)
        if name == "features" and text.startswith("[", at):
            return at
        value, at = decoder.raw_decode(text, at)
        if name == "type" and value != "FeatureCollection":
            raise _NoCollection(f"GeoJSON of type {json.dumps(value)[:60]}, not FeatureCollection")
        at = _skip(text, at)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
    raise _NoCollection('a JSON object without "features"')


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _reading(roles: Roles, item: Item) -> Item:
    """The reading that a feature is, or why it is none."""
    if not isinstance(item, Mapping):
        return item
    if item.get("type") != "Feature":
        return ReadingError("an object that is no feature", hint=COLLECTION)
    properties = item.get("properties")
    members: dict[str, Any] = properties if isinstance(properties, dict) else {}
    known: dict[str, Any] = {}
    geometry = item.get("geometry")
    if geometry is not None:
        kind = geometry.get("type") if isinstance(geometry, dict) else None
        if kind != "Point":
            return ReadingError(f"a geometry of type {json.dumps(kind)[:60]}", hint=POINTS)
        place = geometry.get("coordinates")
        if not isinstance(place, list) or len(place) < 2:
            return ReadingError("a point without two coordinates", hint="write [x, y]")
        known = {X: place[0], Y: place[1]}
    else:
        known = {X: None, Y: None}
    if "id" in item:
        named = roles.item({KEY: item["id"]}, {})
        folded = {name.casefold() for name in members}
        if not any(name.casefold() in folded for name in named):
            known[KEY] = item["id"]
    return roles.item(known, members)
