"""What the region joins of a cell share: focal objects, polygons, rows that are regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from place.engine.conditions import Conditions
from place.engine.counters import Counters
from place.engine.focals import Focals
from place.engine.layout import Polygons
from place.engine.objects import Objects
from place.kernels.arrays import Longs
from place.plan.query import Focal

FocalNumbers = Callable[[str, Longs], Longs]
"""The numbers of focal objects, by their stream and the numbers of their keys."""


@dataclass(frozen=True)
class Surroundings:
    """What the region joins of a cell share."""

    focals: Focals
    focal_numbers: FocalNumbers
    focal_number: Callable[[Focal], int]
    polygons: Polygons
    region_rows: Mapping[str, Objects]
    conditions: Conditions
    counters: Counters
    threads: int
