"""Moving objects of the generator as the experiments take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from place.sim import Generator, Report, make_city

Floats = NDArray[np.float64]

PERIOD = 5.0
"""Seconds between two evaluations (PLACE, section 8.1)."""


def settled(objects: int, seed: int, settling: int, period: float = PERIOD) -> Generator:
    """A generator in the default city whose objects are on their ways.

    Roads are never full: a hundred thousand objects would stand in each other's way in a city of
    20 km, and the papers say nothing of that.
    """
    city = make_city()
    generator = Generator(city, objects=objects, seed=seed, period=PERIOD, crowding=0)
    for _ in range(settling):
        generator.advance()
    if period == PERIOD:
        return generator
    state = generator.state()
    return Generator.resume(city, replace(state, options=replace(state.options, period=period)))


def places(report: Report) -> Floats:
    """Where everybody is; NaN where an object has arrived and is gone."""
    found = np.stack([report.xs, report.ys], axis=1)
    found[report.gone] = np.nan
    return found


def readings(generator: Generator, count: int) -> Iterator[Report]:
    """Reports, until they have at least that many readings."""
    told = 0
    while told < count:
        report = generator.advance()
        told += len(report.keys)
        yield report
