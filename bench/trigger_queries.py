"""Triggers for `place bench triggers`: drawn at random, and tuned to tell so and so much.

A trigger is a chain of variables: each reading comes some time after the one before it, and not far
from it. A variable asks one or two measurements to be high or low. How high or low is tuned by
bisection, on a sample of the readings, so that the trigger's alerts are a given share of the events
(its verbosity, section 5.1 of the paper on continuous constraint queries).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from bench.buoys import Reports
from bench.world import Floats
from place.model.space import EARTH_RADIUS, Space
from place.model.time import SECOND

PIECES, PIECE = 4, 10_000
"""A sample is so many pieces of the stream, of so many readings at most."""
NEAR, FAR = 100_000.0, 300_000.0
"""Metres that two readings are apart at most, drawn between these."""
STEPS = 14
"""Of a bisection."""
STREAM_NAME = "Buoys"

Ordered = Mapping[str, Floats]
"""What was measured, each measurement in its own order."""


@dataclass(frozen=True)
class Asked:
    """What a variable asks: a measurement is at least, or at most, a value."""

    measure: str
    is_high: bool
    value: float = 0.0

    def holds(self, reports: Reports) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which readings fulfil it."""
        values = reports.measured[self.measure]
        return values >= self.value if self.is_high else values <= self.value

    def at(self, ordered: Ordered, share: float) -> Asked:
        """The same with a value that a share of the readings fulfils."""
        values = ordered[self.measure]
        place = int((len(values) - 1) * (1 - share if self.is_high else share))
        return replace(self, value=round(float(values[place]), 3))

    def written(self, name: str) -> str:
        """The condition."""
        return f"{name}.{self.measure} {'>=' if self.is_high else '<='} {self.value!r}"


@dataclass(frozen=True)
class Chain:
    """A trigger: what each variable asks; and for each but the first by how many seconds it comes
    after the one before, more than the first number and at most the second, and how near."""

    asked: tuple[tuple[Asked, ...], ...]
    after: tuple[tuple[int, int], ...]
    near: tuple[float, ...]

    def tuned(self, ordered: Ordered, share: float) -> Chain:
        """The same with values such that each measurement has the share that it needs for a
        variable to have this one."""
        asked = tuple(
            tuple(one.at(ordered, share ** (1 / len(each))) for one in each) for each in self.asked
        )
        return replace(self, asked=asked)

    def _pairs(self, distance: str) -> Iterator[str]:
        names = self.names
        for number, ((low, high), near) in enumerate(zip(self.after, self.near, strict=True)):
            one, other = names[number], names[number + 1]
            yield distance.format(one=one, other=other, near=near, low=low, high=high)

    @property
    def names(self) -> list[str]:
        """The variables."""
        return [f"v{number + 1}" for number in range(len(self.asked))]

    @property
    def unary(self) -> list[str]:
        """What is asked of single readings."""
        named = zip(self.names, self.asked, strict=True)
        return [one.written(name) for name, each in named for one in each]

    def statement(self, name: str, hint: str = "") -> str:
        """CREATE TRIGGER."""
        sources = ", ".join(f"{STREAM_NAME} AS {each}" for each in self.names)
        pairs = self._pairs(
            "{other}.t - {one}.t IN ({low}, {high}] AND DISTANCE({one}, {other}) <= {near!r}"
        )
        told = ", ".join(f"{each}.id, {each}.t" for each in self.names)
        written = f" /*+ {hint} */" if hint else ""
        conditions = " AND ".join([*self.unary, *pairs])
        return f"CREATE TRIGGER {name}{written} FOR {sources} WHEN {conditions} ALERT {told}"

    def select(self, space: Space, columns: str) -> str:
        """The same matches as a join of a table with itself."""
        pairs = self._pairs(
            f"{{other}}.t > {{one}}.t + {{low}} * {SECOND} AND "
            f"{{other}}.t <= {{one}}.t + {{high}} * {SECOND} AND {_distance(space)} <= {{near!r}}"
        )
        sources = ", ".join(f"readings AS {each}" for each in self.names)
        return f"SELECT {columns} FROM {sources} WHERE {' AND '.join([*self.unary, *pairs])}"


def _distance(space: Space) -> str:
    """The distance of two readings in SQL."""
    if space is Space.PLANAR:
        return "sqrt(pow({other}.x - {one}.x, 2) + pow({other}.y - {one}.y, 2))"
    return (
        f"{2 * EARTH_RADIUS!r} * asin(sqrt(pow(sin(radians({{other}}.y - {{one}}.y) / 2), 2)"
        " + cos(radians({one}.y)) * cos(radians({other}.y))"
        " * pow(sin(radians({other}.x - {one}.x) / 2), 2)))"
    )


def draw_triggers(
    reports: Reports,
    metres: Floats,
    count: int,
    *,
    variables: int = 3,
    seconds: int = 1200,
    verbosity: float = 0.01,
    nearness: float = 1.0,
    seed: int = 1,
) -> list[Chain]:
    """So many triggers for these readings, whose places are given in metres. `seconds` bounds the
    time between two variables that follow each other; `nearness` multiplies distances."""
    sample, places = _sample(reports, metres)
    ordered = {name: np.sort(v[~np.isnan(v)]) for name, v in sample.measured.items()}
    names = [name for name, values in ordered.items() if 2 * len(values) > len(sample)]
    found = []
    for number in range(count):
        drawn = _drawn(names, seed, number, variables, seconds, nearness)
        found.append(_tuned(drawn, sample, places, ordered, verbosity))
    return found


def _drawn(
    names: Sequence[str], seed: int, number: int, variables: int, seconds: int, nearness: float
) -> Chain:
    chance = np.random.default_rng([seed, 7, number])
    asked = []
    for _ in range(variables):
        measures = chance.permutation(names)[: chance.integers(1, 3)].tolist()
        asked.append(tuple(Asked(name, bool(chance.random() < 0.5)) for name in measures))
    highs = np.ceil(seconds * chance.uniform(0.5, 1.0, variables - 1)).astype(int)
    lows = np.where(chance.random(variables - 1) < 0.5, 0, highs // 10)
    near = np.round(nearness * chance.uniform(NEAR, FAR, variables - 1))
    after = tuple(zip(lows.tolist(), highs.tolist(), strict=True))
    return Chain(tuple(asked), after, tuple(near.tolist()))


def _sample(reports: Reports, metres: Floats) -> tuple[Reports, Floats]:
    """Pieces of the stream, so far apart in time that no match spans them."""
    length = min(len(reports) // PIECES, PIECE)
    begins = np.linspace(0, len(reports) - length, PIECES).astype(int)
    chosen = np.concatenate([np.arange(begin, begin + length) for begin in begins])
    pieces = np.repeat(np.arange(PIECES), length)
    measured = {name: values[chosen] for name, values in reports.measured.items()}
    times = reports.times[chosen] + pieces * 1_000_000 * SECOND
    return Reports(reports.keys[chosen], reports.places[chosen], measured, times), metres[chosen]


def _tuned(
    drawn: Chain, sample: Reports, places: Floats, ordered: Ordered, verbosity: float
) -> Chain:
    low, high = 0.0, 0.6
    for _ in range(STEPS):
        share = (low + high) / 2
        found = count_matches(drawn.tuned(ordered, share), sample, places)
        low, high = (share, high) if found < verbosity * len(sample) else (low, share)
    return drawn.tuned(ordered, (low + high) / 2)


def count_matches(chain: Chain, reports: Reports, metres: Floats) -> float:
    """How many matches a trigger has, step by step along the chain; places are in the plane."""
    ways, before = np.empty(0), np.empty(0, np.int64)
    for number, each in enumerate(chain.asked):
        chosen = np.flatnonzero(np.logical_and.reduce([one.holds(reports) for one in each]))
        if number == 0:
            ways, before = np.ones(len(chosen)), chosen
            continue
        low, high = (SECOND * bound for bound in chain.after[number - 1])
        near = chain.near[number - 1] ** 2
        ways = _ways(ways, before, chosen, reports.times, metres, low, high, near)
        before = chosen
    return float(ways.sum())


@njit(cache=True)
def _ways(ways, before, chosen, times, metres, low, high, near):  # type: ignore[no-untyped-def]
    """In how many ways chains go on to each of the chosen readings."""
    found, first = np.zeros(len(chosen)), 0
    for k in range(len(chosen)):
        other = chosen[k]
        while first < len(before) and times[before[first]] < times[other] - high:
            first += 1
        for i in range(first, len(before)):
            one = before[i]
            if times[one] >= times[other] - low:
                break
            dx, dy = metres[one, 0] - metres[other, 0], metres[one, 1] - metres[other, 1]
            if ways[i] > 0 and dx * dx + dy * dy <= near:
                found[k] += ways[i]
    return found


def texts(chains: Sequence[Chain], hint: str = "") -> list[str]:
    """The statements of triggers t0, t1 and so on."""
    return [chain.statement(f"t{number}", hint) for number, chain in enumerate(chains)]
