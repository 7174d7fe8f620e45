"""Readings and conditions as section 7.1 of Spatial Join CQ draws them.

A rule is a conjunction of conditions on some of the attributes, chosen at random: one half of the
line, the other half, or an interval, each a third of the time, with constants from [0, 1] and with
≤ or <. A condition is a closed interval here: above a constant c means from the next number on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DENSE = 0.1
"""A skewed stream has a share of its readings in a range of this size, in each attribute."""


class Conditions(NamedTuple):
    """The closed intervals of rules, a row for each; infinite where there is no condition."""

    low: Floats
    high: Floats


def draw_readings(
    count: int, attributes: int, seed: int = 1, skew: float = 0.0, width: float = DENSE
) -> Floats:
    """Readings with values from [0, 1]; a share `skew` of them is in a narrow range."""
    chance = np.random.default_rng([seed, 1])
    readings = chance.random((count, attributes))
    dense = chance.random(count) < skew
    readings[dense] = (1.0 - width) / 2 + readings[dense] * width
    return readings


def draw_rules(count: int, attributes: int, share: float = 1.0, seed: int = 1) -> Conditions:
    """Rules with conditions on a share of the attributes, at least one."""
    chance = np.random.default_rng([seed, 2])
    chosen = max(1, round(share * attributes))
    constants = np.sort(chance.random((2, count, attributes)), axis=0)
    kinds = chance.integers(0, 3, (count, attributes))
    one = chance.random((count, attributes))
    low = np.where(kinds == 0, -np.inf, np.where(kinds == 1, one, constants[0]))
    high = np.where(kinds == 0, one, np.where(kinds == 1, np.inf, constants[1]))
    strict = chance.random((2, count, attributes)) < 0.5
    low = np.where(strict[0], np.nextafter(low, np.inf), low)
    high = np.where(strict[1], np.nextafter(high, -np.inf), high)
    low, high = np.where(kinds == 0, -np.inf, low), np.where(kinds == 1, np.inf, high)
    left_out = np.argsort(chance.random((count, attributes)), axis=1) >= chosen
    low[left_out], high[left_out] = -np.inf, np.inf
    return Conditions(low, high)


def draw_narrow_rules(count: int, attributes: int, width: float, seed: int = 1) -> Conditions:
    """Rules with an interval of this width on each attribute."""
    low = np.random.default_rng([seed, 3]).random((count, attributes)) * (1.0 - width)
    return Conditions(low, low + width)
