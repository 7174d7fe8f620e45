"""Files of GPX, as receivers and apps of walkers, cars and boats write them.

Every point of a track, a route or a waypoint is a reading. Its position, its time and its track
(which is the object) go to the stream's columns of these roles; the elements of a point, and those
of its extensions, are members by their names: `ele`, `speed`, `hr`. A track without a name is
called as its file is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import pyarrow as pa

from place.model.schema import Stream
from place.runtime.intake.check import Rejections, joined
from place.runtime.intake.json_file import TOGETHER, Item, ObjectReader, as_table
from place.runtime.intake.lines import Damaged, without_mark
from place.runtime.intake.roles import KEY, TIME, Roles, X, Y

POINTS = ("trkpt", "rtept", "wpt")
WHOLES = ("trk", "rte")
_EXPECTED = "a file of GPX has points: <trkpt lat=… lon=…><time>…</time></trkpt>"


def read_gpx(
    stream: Stream,
    chunks: Iterator[bytes],
    rejections: Rejections,
    arrival: int | None,
    latest: int | None = None,
) -> pa.Table:
    """The segment of the points that are good; what is not good is rejected."""
    points = _Points(PurePosixPath(rejections.source).name, Roles(stream))
    reader, parts = ObjectReader(stream, latest), []

    def sort_out(items: list[Item], texts: list[str], first: int) -> None:
        def text_of(index: int) -> tuple[int | None, str]:
            return first + index, texts[index]

        parts.append(reader.sort_out(items, rejections, text_of, arrival))

    taken = 0
    problem = None
    try:
        for number, chunk in enumerate(chunks):
            points.feed(without_mark(chunk) if number == 0 else chunk)
            while len(points.items) >= TOGETHER:
                items, texts = points.take(TOGETHER)
                sort_out(items, texts, taken + 1)
                taken += len(items)
        points.end()
    except Damaged as damage:
        problem = str(damage)
    except ParseError as error:
        problem = f"not XML: {error}; the rest of the file is lost"
    items, texts = points.take(len(points.items))
    if items:
        sort_out(items, texts, taken + 1)
    if problem is None and not points.is_gpx and points.is_begun:
        problem = "XML that is no GPX"
    segment = as_table(stream, parts, rejections, reader.missing(arrival))
    if problem is not None:
        rejections.add(None, problem, "", _EXPECTED)
    return segment if parts else joined(stream, [])


class _Points:
    """Reads the points of a file as it comes; each is forgotten when it was read."""

    def __init__(self, name: str, roles: Roles) -> None:
        self._name = name.removesuffix(".gz").rpartition(".")[0] or name
        self._roles = roles
        self._parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
        self._path: list[Element] = []
        self._whole: str | None = None
        self.items: list[Item] = []
        self._texts: list[str] = []
        self.is_begun = self.is_gpx = False

    def feed(self, chunk: bytes) -> None:
        self.is_begun |= bool(chunk)
        self._parser.feed(chunk)
        self._read()

    def end(self) -> None:
        if self.is_begun:
            self._parser.close()
            self._read()

    def take(self, count: int) -> tuple[list[Item], list[str]]:
        items, self.items = self.items[:count], self.items[count:]
        texts, self._texts = self._texts[:count], self._texts[count:]
        return items, texts

    def _read(self) -> None:
        for found in self._parser.read_events():
            event, element = cast("tuple[str, Element]", found)
            if event == "start":
                if not self._path:
                    self.is_gpx = _local(element.tag) == "gpx"
                elif _local(element.tag) in WHOLES:
                    self._whole = None
                self._path.append(element)
                continue
            self._path.pop()
            name = _local(element.tag)
            if name == "name" and self._path and _local(self._path[-1].tag) in WHOLES:
                self._whole = _text(element)
            elif name in POINTS:
                self._add(element)
                if self._path:
                    self._path[-1].remove(element)

    def _add(self, point: Element) -> None:
        members = _members(point)
        track = self._whole or self._name
        known: dict[str, Any] = {X: point.get("lon"), Y: point.get("lat"), KEY: track}
        if "time" in members:
            known[TIME] = members["time"]
        members.setdefault("track", track)
        self.items.append(self._roles.item(known, members))
        self._texts.append(", ".join(f"{name}={value}" for name, value in members.items()))


def _members(point: Element) -> dict[str, Any]:
    """The attributes of a point, and the texts of all elements within it, by their names."""
    found: dict[str, Any] = dict(point.attrib)
    for element in point.iter():
        if element is not point and not len(element):
            found.setdefault(_local(element.tag), _text(element))
    return found


def _local(tag: str) -> str:
    """The name of an element without its namespace."""
    return tag.rpartition("}")[2]


def _text(element: Element) -> str | None:
    return (element.text or "").strip() or None
