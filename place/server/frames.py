"""The map's frames: where all objects of a stream are, as bytes that a browser draws as they come.

An object is known to browsers by its slot, a small number that is its own while it lives, so that
they can keep what they know of objects in arrays, and move a point from where it was to where it
is. One encoding of a tick serves all who look at it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from place.model.schema import Stream, find_column
from place.model.types import Type, Value
from place.runtime.durable.positions import Positions

MAGIC, VERSION = 0x45434C50, 1
HEADER = struct.Struct("<IHHIId")
CLASS_COLUMNS = ("type", "class", "kind", "category")
"""The names of a text column whose values colour the objects."""

MOST_CLASSES = 32
OTHER = 255
"""The class of objects without one, and of those beyond the first so many classes."""

REST = 60.0
"""Seconds before the slot of a gone object is another's: nobody confuses the two by then."""

Slotted = NDArray[np.uint32]


class Slots:
    """The numbers of a stream's objects.

    >>> slots = Slots()
    >>> slots.number(pa.array(["a", "b"]), now=0).tolist()
    [0, 1]
    >>> slots.number(pa.array(["b", "c"]), now=1).tolist(), slots.find(["b"]).tolist()
    ([1, 2], [1])
    """

    def __init__(self) -> None:
        # One value, replaced as a whole: threads that read it see keys and slots of one frame.
        self._held: tuple[pa.Array | None, Slotted] = None, np.empty(0, np.uint32)
        self._next = 0
        self._resting: deque[tuple[float, Slotted]] = deque()

    def number(self, keys: pa.Array, now: float) -> Slotted:
        """The slots of all objects that live now; the slots of all others begin to rest."""
        known, numbers = self._held
        if known is None:
            known = keys.slice(0, 0)
        elif keys.equals(known):
            return numbers
        found = pc.index_in(keys, value_set=known)
        is_new = found.is_null().to_numpy(zero_copy_only=False)
        places = found.drop_null().to_numpy()
        is_gone = np.ones(len(known), np.bool_)
        is_gone[places] = False
        slots = np.empty(len(keys), np.uint32)
        slots[~is_new] = numbers[places]
        slots[is_new] = self._take(int(is_new.sum()), now)
        if is_gone.any():
            self._resting.append((now, numbers[is_gone]))
        self._held = keys, slots
        return slots

    def _take(self, count: int, now: float) -> Slotted:
        rested = []
        while count and self._resting and self._resting[0][0] + REST <= now:
            since, some = self._resting.popleft()
            if len(some) > count:
                self._resting.appendleft((since, some[count:]))
            rested.append(some[:count])
            count -= len(rested[-1])
        fresh = np.arange(self._next, self._next + count, dtype=np.uint32)
        self._next += count
        return np.concatenate([*rested, fresh])

    @property
    def held(self) -> tuple[pa.Array | None, Slotted]:
        """The keys of all objects that live, and their slots in the same order."""
        return self._held

    @property
    def kind(self) -> pa.DataType:
        known, _ = self._held
        return pa.string() if known is None else known.type

    def locate(self, keys: Sequence[Value]) -> list[int | None]:
        """The slot of each of these keys; None where it does not live."""
        known, numbers = self._held
        if known is None or not len(known):
            return [None] * len(keys)
        places = pc.index_in(pa.array(keys, known.type), value_set=known)
        slots: list[int | None] = pa.array(numbers).take(places).to_pylist()
        return slots

    def find(self, keys: Sequence[Value]) -> Slotted:
        """The slots of those of these keys that live, in order."""
        return np.unique(np.array([s for s in self.locate(keys) if s is not None], np.uint32))


class Classes:
    """The values of the class column, numbered as they appear."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def codes(self, column: pa.Array | None, size: int) -> NDArray[np.uint8]:
        """The class of each object; OTHER where it has none."""
        codes = np.full(size, OTHER, np.uint8)
        if column is None or not size or not pa.types.is_dictionary(column.type):
            return codes
        has = column.is_valid().to_numpy(zero_copy_only=False)
        texts = column.indices.drop_null().to_numpy()
        table = np.full(len(column.dictionary), OTHER, np.uint8)
        names = [(column.dictionary[int(text)].as_py(), text) for text in np.unique(texts)]
        for name, text in sorted(names):  # so that classes seen at once have the same colours
            table[text] = self._code(name)
        codes[has] = table[texts]
        return codes

    def _code(self, name: str) -> int:
        if name not in self.names:
            if len(self.names) >= MOST_CLASSES:
                return OTHER
            self.names.append(name)
        return self.names.index(name)


@dataclass(frozen=True, eq=False)
class Frame:
    """All objects of a stream as of a tick; `instant` is in milliseconds since 1970."""

    index: int
    tick: int
    instant: float
    slots: Slotted
    places: NDArray[np.float32]
    codes: NDArray[np.uint8]

    @cached_property
    def data(self) -> bytes:
        """The frame as it is sent: a header, then slots, places (x, y) and classes."""
        head = HEADER.pack(MAGIC, VERSION, self.index, self.tick, len(self.slots), self.instant)
        arrays = (self.slots.astype("<u4"), self.places.astype("<f4"), self.codes)
        return b"".join((head, *(array.tobytes() for array in arrays)))

    def only(self, slots: Slotted) -> Frame:
        """The frame for someone who may see no more than these."""
        kept = np.isin(self.slots, slots)
        return Frame(
            self.index,
            self.tick,
            self.instant,
            self.slots[kept],
            self.places[kept],
            self.codes[kept],
        )


class Layer:
    """A stream on the map: its slots, its classes and where its objects were last."""

    def __init__(self, index: int, stream: Stream) -> None:
        self.index = index
        self.stream = stream
        self.slots = Slots()
        self.classes = Classes()
        self.class_column = class_column(stream)
        self._now: tuple[Frame, Positions] | None = None

    @property
    def frame(self) -> Frame | None:
        return self._now[0] if self._now is not None else None

    def take(self, positions: Positions, now: float) -> Frame:
        """The frame of a tick, which is the layer's from now on."""
        count = len(positions)
        is_text = self.stream.key_type is Type.STRING
        keys = pa.array(list(positions.keys), pa.string()) if is_text else pa.array(positions.keys)
        slots = self.slots.number(keys, now)
        column = positions.column(self.class_column) if self.class_column else None
        frame = Frame(
            self.index,
            positions.tick,
            float(positions.times.max()) / 1000 if count else 0.0,
            slots,
            np.stack((positions.xs, positions.ys), axis=1).astype(np.float32),
            self.classes.codes(column, count),
        )
        self._now = frame, positions
        return frame

    def row(self, slot: int) -> dict[str, Value] | None:
        """All attributes of the object of a slot, if it lives."""
        if self._now is None:
            return None
        frame, positions = self._now
        found = np.flatnonzero(frame.slots == slot)
        if not len(found):
            return None
        at, columns = int(found[0]), enumerate(self.stream.columns)
        return {column.name: positions.columns[i][at].as_py() for i, column in columns}

    def values(self, column: int, slots: NDArray[np.int64]) -> tuple[list[int], list[Value]]:
        """What stands in a column of those of some objects that live, beside their slots."""
        if self._now is None:
            return [], []
        frame, positions = self._now
        places = np.flatnonzero(np.isin(frame.slots, slots))
        told: list[int] = frame.slots[places].tolist()
        return told, positions.columns[column].take(pa.array(places)).to_pylist()

    def bounds(self) -> tuple[float, float, float, float] | None:
        """Where the stream says that objects are, or else where they were seen."""
        if self.stream.bounds is not None:
            return self.stream.bounds
        if self._now is None or not len(self._now[1]):
            return None
        xs, ys = self._now[1].xs, self._now[1].ys
        return float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())


def class_column(stream: Stream) -> str | None:
    """The text column that colours the objects of a stream."""
    for name in CLASS_COLUMNS:
        found = find_column(stream.columns, name)
        if found is not None and found != stream.key:
            column = stream.columns[found]
            if column.type is Type.STRING:
                return column.name
    return None
