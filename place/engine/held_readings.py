"""The rows of the readings that triggers keep, by the slots of the store that knows when each of
them may be let go."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from place.engine.columns import Columns, Dictionary
from place.engine.multiset import longer
from place.engine.trigger_variables import with_time
from place.kernels.arrays import Floats, Longs
from place.kernels.inside import unit_vectors
from place.model.schema import Stream
from place.model.space import Space
from place.model.types import Type


class HeldReadings:
    """Rows, with the time as their last column, and keys. Streams are told apart by numbers, in the
    order of their names."""

    def __init__(self, streams: Mapping[str, Stream], dictionary: Dictionary) -> None:
        self.names = sorted(streams)
        self._streams = streams
        self._dictionary = dictionary
        self._rows = {
            name: Columns(with_time(stream).columns, dictionary) for name, stream in streams.items()
        }
        self._keys = np.zeros(16, np.int64)

    def number(self, stream: str) -> int:
        """The number of a stream."""
        return self.names.index(stream)

    def put(self, stream: str, slots: Longs, rows: Columns, keys: Longs) -> None:
        """Keep readings at slots."""
        if not len(slots):
            return
        size = int(slots.max()) + 1
        self._keys = longer(self._keys, size)
        self._keys[slots] = keys
        self._rows[stream].reserve(size)
        self._rows[stream].put(slots, rows)

    def rows(self, stream: str, slots: Longs) -> Columns:
        """The rows of readings, their times as the last column."""
        return self._rows[stream].take(slots)

    def some(self, stream: str, slots: Longs, wanted: Collection[int]) -> Columns:
        """The same rows for whoever reads only these columns: nothing is in the others."""
        rows = self._rows[stream]
        found = Columns(rows.columns, self._dictionary, 0)
        for index in wanted:
            found.values[index] = rows.values[index][slots]
            found.nulls[index] = rows.nulls[index][slots]
        return found

    def keys(self, slots: Longs) -> Longs:
        """The keys of readings, texts as codes."""
        return self._keys[slots]

    def ranks(self, stream: str, slots: Longs) -> Longs:
        """The keys of readings as numbers that have their order."""
        keys = self.keys(slots)
        is_text = self._streams[stream].key_type is Type.STRING
        return self._dictionary.ranks()[keys] if is_text else keys

    def times(self, stream: str, slots: Longs) -> Longs:
        """The times of readings."""
        times: Longs = self._rows[stream].values[-1][slots]
        return times


def places_of(stream: Stream, rows: Columns) -> Floats:
    """Where readings are, as three numbers: x, y and 0 in the plane, unit vectors on the sphere;
    NaN where a place is missing."""
    places = np.full((len(rows), 3), np.nan)
    if stream.x is None or stream.y is None:
        return places
    x, y = rows.numbers(stream.x), rows.numbers(stream.y)
    if stream.space is Space.WGS84:
        places = unit_vectors(x, y)
    else:
        places[:, 0], places[:, 1], places[:, 2] = x, y, 0.0
    places[np.isnan(x) | np.isnan(y)] = np.nan
    return places
