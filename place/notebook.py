"""A live map of an answer in a notebook: `place.notebook.live_map(session, "near")`.

The map is drawn by the same JavaScript as the page of a server. Its modules are read from the
package and handed to the widget as texts, so that there is no second copy of them and nothing to
build. Objects come as frames in the form that the page knows.
"""

from __future__ import annotations

import re
import struct
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from place.connection import Connection, Subscription
from place.errors import ConfigurationError, PlaceError
from place.model.shape import Circle, Polygon, Rectangle, Shape
from place.model.types import Row
from place.plan.catalog import fold
from place.session import Session
from place.web import module_text, vendored

try:
    import anywidget
    import traitlets
except ImportError:
    raise ConfigurationError(
        "the map in a notebook needs anywidget", hint="pip install 'place-server[notebook]'"
    ) from None

MAGIC, VERSION = 0x45434C50, 1
FIRST = "answer_map.js"
IMPORT = re.compile(r'from "\./([\w.]+)"')
PERIOD = 0.25
"""Seconds between two frames, at least."""
MOST_LABELS = 20_000
"""Of so many objects the rows are sent along, to be told when one is clicked on."""
ACROSS, UP = ("x", "lon", "lng", "longitude"), ("y", "lat", "latitude")


def modules() -> dict[str, str]:
    """The modules that the map of an answer is made of, by their names."""
    found: dict[str, str] = {}
    wanted = [FIRST]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = module_text(name)
            wanted += IMPORT.findall(found[name])
    return found


class Held:
    """The rows of an answer, and a place of its own for each key."""

    def __init__(self, key: int, x: int, y: int) -> None:
        self._key, self._x, self._y = key, x, y
        self._rows: Counter[Row] = Counter()
        self._by_key: dict[Any, Row] = {}
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []

    def take(self, sign: int, row: Row) -> None:
        """A row joins the answer, or leaves it."""
        self._rows[row] += sign
        key = row[self._key]
        if self._rows[row] > 0:
            self._by_key[key] = row
            return
        del self._rows[row]
        if self._by_key.get(key) == row:
            del self._by_key[key]

    def _settle(self) -> None:
        """Give keys their places. One whose row has left and come again keeps its own, and so is
        seen to move."""
        for key in [key for key in self._slots if key not in self._by_key]:
            self._free.append(self._slots.pop(key))
        for key in self._by_key:
            if key not in self._slots:
                self._slots[key] = self._free.pop() if self._free else len(self._slots)

    def frame(self, number: int) -> bytes:
        """All rows that are somewhere, in the form of the page's frames."""
        self._settle()
        placed = self.placed()
        places = np.array([(row[self._x], row[self._y]) for row in placed], np.float32)
        slots = np.array([self._slots[row[self._key]] for row in placed], np.uint32)
        head = struct.pack("<IHHIId", MAGIC, VERSION, 0, number, len(placed), 0.0)
        return head + slots.tobytes() + places.tobytes() + bytes(len(placed))

    def placed(self) -> list[Row]:
        """The rows that are somewhere, one for each key."""
        rows = self._by_key.values()
        return [row for row in rows if row[self._x] is not None and row[self._y] is not None]

    def bounds(self) -> list[float] | None:
        """The box around all rows."""
        placed = self.placed()
        if not placed:
            return None
        places = np.array([(row[self._x], row[self._y]) for row in placed], np.float64)
        found: list[float] = [*places.min(axis=0).tolist(), *places.max(axis=0).tolist()]
        return found


class AnswerMap(anywidget.AnyWidget):
    """The answer of a query on a map, which follows its deltas until it is closed."""

    _esm = module_text("notebook.js")
    _modules = traitlets.Dict().tag(sync=True)
    _library = traitlets.Unicode().tag(sync=True)
    _style = traitlets.Unicode().tag(sync=True)
    about = traitlets.Dict().tag(sync=True)
    frame = traitlets.Bytes().tag(sync=True)
    labels: traitlets.List[str] = traitlets.List().tag(sync=True)
    height = traitlets.Int(420).tag(sync=True)

    def __init__(
        self,
        session: Connection,
        query: str,
        *,
        key: str | None = None,
        x: str | None = None,
        y: str | None = None,
        space: str | None = None,
        bounds: Sequence[float] | None = None,
        height: int = 420,
        live: bool = True,
    ) -> None:
        self._is_closed = threading.Event()
        self._subscription: Subscription | None = None
        columns = session.answer(query).columns
        across, up = _place(columns, x, ACROSS, "x"), _place(columns, y, UP, "y")
        self._held = Held(_place(columns, key, columns[:1], "key"), across, up)
        self._columns = columns
        self._number = 0
        self._drawing = threading.Lock()
        self._subscription = session.subscribe(query)
        self._take_waiting()
        regions = regions_of(session, query)
        known = space or _space_of(session, query) or _space_by_name(columns[across])
        box = list(bounds) if bounds is not None else _around(self._held.bounds(), regions)
        super().__init__(
            _modules=modules(),
            _library=_library_text("maplibre-gl.js"),
            _style=_library_text("maplibre-gl.css"),
            about={"query": query, "space": known, "bounds": box, "regions": regions},
            height=height,
        )
        self._draw()
        self._thread = threading.Thread(target=self._follow, name="place-map", daemon=True)
        if live:
            self._thread.start()

    def refresh(self) -> int:
        """Draw what has come by now; how many deltas that was."""
        with self._drawing:
            count = self._take_waiting()
            if count:
                self._draw()
            return count

    def close(self) -> None:
        """Follow the query no more."""
        self._is_closed.set()
        if self._subscription is not None:
            self._subscription.close()
        super().close()

    def _take_waiting(self) -> int:
        count = 0
        for delta in self._subscription or ():
            self._held.take(delta.sign, tuple(delta.row))
            count += 1
        return count

    def _draw(self) -> None:
        self._number += 1
        placed = self._held.placed()
        labels = [self._told(row) for row in placed[:MOST_LABELS]]
        with self.hold_sync():  # both come together
            self.labels = labels
            self.frame = self._held.frame(self._number)

    def _told(self, row: Row) -> str:
        return ", ".join(f"{n} {v}" for n, v in zip(self._columns, row, strict=True))

    def _follow(self) -> None:
        while not self._is_closed.wait(PERIOD):
            try:
                self.refresh()
            except PlaceError:  # the query is gone: what it answered last stays to be seen
                return


def live_map(session: Connection, query: str, **options: Any) -> AnswerMap:
    """The answer of a registered query on a map that moves as deltas come.

    `key`, `x` and `y` name columns of the query; without them the first column is the key, and the
    place is in `x` and `y`, or `lon` and `lat`. `live=False` draws only when `refresh` is called.
    """
    return AnswerMap(session, query, **options)


def _place(columns: Sequence[str], name: str | None, usual: Sequence[str], what: str) -> int:
    """Where a column is."""
    folded = [fold(column) for column in columns]
    for candidate in (name,) if name is not None else usual:
        if fold(candidate) in folded:
            return folded.index(fold(candidate))
    wanted = f'"{name}"' if name is not None else " or ".join(usual)
    raise ConfigurationError(
        f"the query has no column {wanted}, so its rows have no {what} on the map",
        hint=f"columns: {', '.join(columns)}; SELECT it, or name another one: {what}='…'",
    )


def _space_of(session: Connection, query: str) -> str | None:
    found = session.catalog.queries.get(fold(query)) if isinstance(session, Session) else None
    return None if found is None else found.space.value


def _space_by_name(across: str) -> str:
    return "planar" if fold(across) == "x" else "wgs84"


def regions_of(session: Connection, query: str) -> list[dict[str, Any]]:
    """Where a query of a session in this process looks, as the page reads it."""
    found = session.catalog.queries.get(fold(query)) if isinstance(session, Session) else None
    shape = found.inside if found is not None else None
    return [_shape(shape)] if isinstance(shape, Circle | Polygon | Rectangle) else []


def _shape(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Circle):
        return {"type": "circle", "x": shape.x, "y": shape.y, "r": shape.r}
    if isinstance(shape, Polygon):
        return {"type": "polygon", "rings": [[list(point) for point in r] for r in shape.rings]}
    return {"type": "rectangle", "x1": shape.x1, "y1": shape.y1, "x2": shape.x2, "y2": shape.y2}


def _around(box: list[float] | None, regions: list[dict[str, Any]]) -> list[float] | None:
    """The box around the first rows and what the query looks at, if that has corners."""
    boxes = [box] if box is not None else []
    for region in regions:
        if region["type"] == "rectangle":
            boxes.append([region[side] for side in ("x1", "y1", "x2", "y2")])
        elif region["type"] == "polygon":
            xs, ys = zip(*region["rings"][0], strict=True)
            boxes.append([min(xs), min(ys), max(xs), max(ys)])
    if not boxes:
        return None
    lows, highs = [box[:2] for box in boxes], [box[2:] for box in boxes]
    x1, y1 = (min(side) for side in zip(*lows, strict=True))
    x2, y2 = (max(side) for side in zip(*highs, strict=True))
    return [x1, y1, x2, y2] if x2 > x1 or y2 > y1 else [x1 - 1, y1 - 1, x2 + 1, y2 + 1]


def _library_text(name: str) -> str:
    file = vendored(name)
    if file is None:
        raise ConfigurationError("the map's library is not installed", hint="pip install maplibre")
    return file.read_text("utf-8")
