"""How much a tick should take in, so that it takes about as long as was asked.

What a reading costs depends on the queries, on the cells and on what else the machine does; so it
is learned from the ticks themselves: what the last ones took, and for how many readings and bytes.
Each source has a pace of its own, because a byte of one is not a byte of another.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from place.errors import ConfigurationError
from place.model.time import SECOND, parse_duration

SHORTEST, LONGEST = 0.05, 5.0
"""Seconds that a tick may be asked to take."""
FIRST_READINGS, FIRST_BYTES = 200_000, 20 << 20
"""What the first tick takes for each second that was asked, when nothing is known yet."""
FEWEST_READINGS, FEWEST_BYTES = 100, 10 << 10
GROWTH = 2.0
"""A tick takes at most so many times as much as the largest that is remembered."""
REMEMBERED = 16


@dataclass(frozen=True)
class Budget:
    """What a tick takes at most; one that has nothing yet takes something all the same."""

    readings: int
    size: int

    def holds(self, readings: int, size: int) -> bool:
        """Is so much no more than a tick takes?"""
        return readings <= self.readings and size <= self.size


class TickPace:
    """Learns from ticks how much the next one should take; without a target, always the most."""

    def __init__(self, target: float | None, most: Budget) -> None:
        self.target = target
        self._most = most
        self._ticks: deque[tuple[int, int, float]] = deque(maxlen=REMEMBERED)

    def count(self, readings: int, size: int, seconds: float) -> None:
        """A tick of so many readings and bytes took so long."""
        if readings or size:
            self._ticks.append((readings, size, seconds))

    def budget(self) -> Budget:
        """What the next tick should take at most."""
        if self.target is None:
            return self._most
        if not self._ticks:
            readings, size = FIRST_READINGS * self.target, FIRST_BYTES * self.target
        else:
            floor = self._floor()
            spare = self.target - floor
            readings = self._share(0, FEWEST_READINGS, spare, floor)
            size = self._share(1, FEWEST_BYTES, spare, floor)
        return Budget(
            min(self._most.readings, max(FEWEST_READINGS, int(readings))),
            min(self._most.size, max(FEWEST_BYTES, int(size))),
        )

    def seconds_for(self, readings: int, size: int) -> float:
        """How long it will be until so much is taken, as far as is known."""
        if not self._ticks:
            return 1.0 if self.target is None else self.target
        floor = self._floor()
        costs = [self._cost(0, floor) * readings, self._cost(1, floor) * size]
        budget = self.budget()
        ticks = max(readings / budget.readings, size / budget.size)
        return max(costs) + floor * math.ceil(ticks)

    def _weighted(self) -> list[tuple[float, tuple[int, int, float]]]:
        """The ticks that are remembered, of which later ones count more."""
        return [(0.7**age, tick) for age, tick in enumerate(reversed(self._ticks))]

    def _floor(self) -> float:
        """What a tick takes whatever is in it: where the line through the last ones begins. It is
        at most half of what was asked, so that something is left for readings."""
        ticks = self._weighted()
        total = sum(weight for weight, _ in ticks)
        readings = sum(weight * tick[0] for weight, tick in ticks) / total
        seconds = sum(weight * tick[2] for weight, tick in ticks) / total
        spread = sum(weight * (tick[0] - readings) ** 2 for weight, tick in ticks)
        if spread == 0.0:
            return 0.0
        both = sum(weight * (tick[0] - readings) * (tick[2] - seconds) for weight, tick in ticks)
        shortest = min(tick[2] for _, tick in ticks)
        begin = min(seconds - both / spread * readings, shortest)
        return max(0.0, begin if self.target is None else min(begin, self.target / 2))

    def _cost(self, which: int, floor: float) -> float:
        """Seconds for a reading, or a byte: larger ticks count as much more as they are larger."""
        ticks = self._weighted()
        amount = sum(weight * tick[which] for weight, tick in ticks)
        seconds = sum(weight * max(tick[2] - floor, 0.0) for weight, tick in ticks)
        return seconds / amount if amount else 0.0

    def _share(self, which: int, fewest: int, spare: float, floor: float) -> float:
        """How much fits into the seconds that are to spare."""
        largest = max(fewest, *(tick[which] for tick in self._ticks))
        cost = self._cost(which, floor)
        fits = spare / cost if cost > 0.0 else math.inf
        return min(fits, GROWTH * largest)


def parse_tick(text: str) -> float:
    """The seconds that a tick should take, of the text of an option.

    >>> parse_tick("50ms"), parse_tick("2 seconds")
    (0.05, 2.0)
    """
    seconds = parse_duration(text) / SECOND
    if not SHORTEST <= seconds <= LONGEST:
        raise ConfigurationError(
            f"a tick cannot take {text}", hint="write something from 50ms to 5s"
        )
    return seconds
