"""The ocean of `place bench triggers`: buoys that drift in it and report, one after the other.

600 buoys drift in 2,000 by 1,000 km of the tropical Pacific. Each reports every ten minutes, with
some jitter, so that a second has about one reading. What it measures depends on where it is, goes
up and down in hours and days, and has noise. Everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.world import Floats
from place.model.schema import Column
from place.model.segment import segment_schema
from place.model.space import METRES_PER_DEGREE, Space
from place.model.time import SECOND

Numbers = NDArray[np.int64]

BUOYS = 600
OCEAN: Floats = np.array([2_000_000.0, 1_000_000.0])
"""Metres from west to east and from south to north."""
CORNER: Floats = np.array([-150.0, -4.5])
"""Where its south-western corner is, in degrees: the equator goes through the middle."""
EVERY, JITTER = 600.0, 60.0
"""Seconds between two reports of a buoy, and how much a report may be late."""
DRIFT = 0.6
"""Metres a second that a buoy drifts at most, each way."""
START = 1_767_225_600 * SECOND
"""2026-01-01, when the first buoy reports."""
MEASURES = ("sst", "pressure", "humidity", "wind", "salinity")
"""What is measured: sea surface temperature, air pressure, humidity, wind speed and salinity."""
USUAL = {"sst": (27.0, 1.5), "pressure": (1010.0, 4.0), "humidity": (80.0, 6.0),
         "wind": (7.0, 2.5), "salinity": (34.5, 0.5)}  # fmt: skip
"""What these are on average, and how much they vary."""
TAO = "PLACE_TAO"
"""The variable that says where the file of the Tropical Atmosphere Ocean project is."""
TAO_MEASURES = ("zonal", "meridional", "humidity", "air", "sst")
"""What that file has: wind from west and from south, humidity, and temperatures."""


def stream_of(space: str, measures: Sequence[str] = MEASURES) -> str:
    """CREATE STREAM for buoys that measure this."""
    columns = " ".join(f"{name} DOUBLE," for name in measures)
    return (
        f"CREATE STREAM Buoys (id BIGINT KEY, x DOUBLE, y DOUBLE, {columns} ts TIMESTAMP)"
        f" WITH (space = '{space}')"
    )


@dataclass(frozen=True)
class Reports:
    """Readings by columns, in the order of their times, which are microseconds since 1970."""

    keys: Numbers
    places: Floats
    measured: Mapping[str, Floats]
    times: Numbers

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, begin: int, end: int) -> Reports:
        """Some of them, one after the other."""
        chosen = slice(begin, end)
        measured = {name: values[chosen] for name, values in self.measured.items()}
        return Reports(self.keys[chosen], self.places[chosen], measured, self.times[chosen])

    def as_segment(self, columns: Sequence[Column]) -> pa.Table:
        """The form in which the engine takes readings: none of them leaves."""
        x, y = (np.ascontiguousarray(values) for values in self.places.T)
        gone = np.zeros(len(self), np.bool_)
        values = (self.keys, x, y, *self.measured.values(), self.times, self.times, gone)
        arrays = [pa.array(each, from_pandas=True) for each in values]  # NaN is NULL
        return pa.Table.from_arrays(arrays, schema=segment_schema(columns))

    def as_table(self) -> pa.Table:
        """The same for other engines, with a number for each reading."""
        x, y = (np.ascontiguousarray(values) for values in self.places.T)
        numbers = np.arange(len(self))
        columns = {"n": numbers, "id": self.keys, "x": x, "y": y, **self.measured, "t": self.times}
        return pa.table(columns)


def drift(space: Space, count: int, *, buoys: int = BUOYS, seed: int = 1) -> Reports:
    """So many readings of all buoys, which report round by round. A buoy turns back where the ocean
    ends. Times are whole seconds."""
    chance = np.random.default_rng([seed, buoys])
    rounds = -(-count // buoys) + 1
    phase = chance.uniform(0, EVERY, buoys)
    late = chance.uniform(0, JITTER, (rounds, buoys))
    moments = phase + EVERY * np.arange(rounds)[:, None] + late
    metres = np.empty((rounds, buoys, 2))
    for axis in range(2):
        speeds = chance.uniform(-DRIFT, DRIFT, buoys)
        swell = chance.uniform(0, 2 * np.pi, buoys)
        way = speeds * moments + 5_000 * np.sin(moments / 40_000 + swell)
        straight = chance.uniform(0, OCEAN[axis], buoys) + way
        metres[:, :, axis] = OCEAN[axis] - np.abs(OCEAN[axis] - straight % (2 * OCEAN[axis]))
    measured = {name: _measured(chance, name, moments, metres) for name in MEASURES}
    order = np.argsort(moments, axis=None, kind="stable")[:count]
    keys = np.broadcast_to(np.arange(buoys), moments.shape).ravel()[order]
    times = START + np.floor(moments.ravel()[order]).astype(np.int64) * SECOND
    return Reports(
        keys,
        positions(space, metres.reshape(-1, 2)[order]),
        {name: values.ravel()[order] for name, values in measured.items()},
        times,
    )


def _measured(chance: np.random.Generator, name: str, moments: Floats, metres: Floats) -> Floats:
    """A measurement of all buoys: waves over the ocean that wander, a tide of each buoy, noise."""
    middle, spread = USUAL[name]
    values = np.zeros(moments.shape)
    for _ in range(3):
        length = chance.uniform(300_000, 1_500_000)
        angle, period = chance.uniform(0, 2 * np.pi), chance.uniform(20_000, 200_000)
        along = metres[:, :, 0] * np.cos(angle) + metres[:, :, 1] * np.sin(angle)
        values += np.sin(2 * np.pi * (along / length + moments / period) + angle)
    own = chance.uniform(0, 2 * np.pi, moments.shape[1])
    values += np.sin(moments / 6_900 + own) + chance.normal(0, 0.8, moments.shape)
    found: Floats = np.round(middle + spread * values / np.sqrt(2.0), 3)
    return found


def positions(space: Space, metres: Floats) -> Floats:
    """Metres from the south-western corner as the positions of a space."""
    if space is Space.PLANAR:
        return metres
    found: Floats = CORNER + metres / METRES_PER_DEGREE  # so near the equator degrees are alike
    return found


def metres_of(space: Space, places: Floats) -> Floats:
    """Positions as metres from the south-western corner."""
    if space is Space.PLANAR:
        return places
    found: Floats = (places - CORNER) * METRES_PER_DEGREE
    return found


def read_tao(path: Path) -> tuple[Reports, Floats]:
    """The readings of a file of the Tropical Atmosphere Ocean project, once a day of each buoy, and
    their places in metres. The file has no names of buoys: what lies within two degrees is one."""
    table = np.genfromtxt(path, usecols=range(1, 12), missing_values=".", filling_values=np.nan)
    years, months, days = (table[:, k].astype(np.int64) for k in range(3))
    months_ = (1900 + years - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (months - 1)
    times = (months_.astype("datetime64[D]") + (days - 1)).astype("datetime64[us]").astype(np.int64)
    y, x = table[:, 4], table[:, 5]
    around = np.where(x < 0, x + 360, x)  # the Pacific lies on both sides of 180 degrees
    keys = np.floor(around / 2).astype(np.int64) * 1000 + np.floor(y / 2).astype(np.int64) + 100
    order = np.lexsort((keys, times))
    times, keys = times[order], keys[order]
    once = np.append((times[1:] != times[:-1]) | (keys[1:] != keys[:-1]), True)
    chosen = order[once]
    measured = {name: table[chosen, 6 + k] for k, name in enumerate(TAO_MEASURES)}
    places = np.stack([x, y], axis=1)[chosen]
    metres = np.stack([around, y], axis=1)[chosen] * METRES_PER_DEGREE
    return Reports(keys[once], places, measured, times[once]), metres
