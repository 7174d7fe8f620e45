"""Moving objects on the roads of a city, after Brinkhoff's network-based generator.

Readings are a function of the city, the options and the step, and of nothing else. What an object
is in each of its lives is drawn from (seed, object, life); only how far it has come depends on the
others, through crowded roads, by where they were one step before. So a checkpoint needs three
numbers for each object, and a generator that goes on from one tells what it would have told. A
step that lies back is found by running from the beginning again.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from place.errors import ConfigurationError, InternalError
from place.kernels.drive import NOT_BORN, Lives, Traffic, advance, grow_tree, take_all_traits
from place.sim.city import City, Floats

MOST_DESTINATIONS = 4096
MOST_CLASSES = 100
SLOWEST_FLOW = 0.1  # of the speed, on the fullest road
WEATHER_FLOW = 0.5


@dataclass(frozen=True)
class ObjectClass:
    """A class of objects: its part of all objects, and the most it drives in km/h."""

    name: str
    share: float
    speed: float


CLASSES = (
    ObjectClass("car", 0.6, 130.0),
    ObjectClass("truck", 0.1, 80.0),
    ObjectClass("bus", 0.05, 50.0),
    ObjectClass("cyclist", 0.1, 15.0),
    ObjectClass("pedestrian", 0.15, 5.0),
)


@dataclass(frozen=True)
class Options:
    """All that readings depend on besides the city and the step."""

    objects: int
    seed: int
    classes: tuple[ObjectClass, ...]
    period: float
    destinations: int
    weather: int
    crowding: float
    roam: bool = False


@dataclass(frozen=True, eq=False)
class Report:
    """The readings of one step, one for each object that is on its way.

    `codes` are positions in the generator's `classes`, `speeds` are km/h. An object that is `gone`
    has arrived: this is its last reading, and in the next step another one, with another key,
    appears in its stead.
    """

    step: int
    seconds: float
    keys: NDArray[np.int64]
    xs: Floats
    ys: Floats
    codes: NDArray[np.int8]
    speeds: Floats
    gone: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class State:
    """A checkpoint: what the next step depends on, besides the city."""

    city: str
    options: Options
    step: int
    arcs: NDArray[np.int32]
    offsets: Floats
    lives: NDArray[np.int32]

    def to_bytes(self) -> bytes:
        """The checkpoint as a file would hold it."""
        about = {"city": self.city, "options": asdict(self.options), "step": self.step}
        buffer = io.BytesIO()
        np.savez(
            buffer,
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
            arcs=self.arcs,
            offsets=self.offsets,
            lives=self.lives,
        )
        return buffer.getvalue()

    @staticmethod
    def from_bytes(data: bytes) -> State:
        """The checkpoint that `to_bytes` wrote."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as saved:
                about = json.loads(saved["about"].tobytes())
                options = about["options"]
                options["classes"] = tuple(ObjectClass(**c) for c in options["classes"])
                arrays = saved["arcs"], saved["offsets"], saved["lives"]
                return State(about["city"], Options(**options), about["step"], *arrays)
        except (OSError, EOFError, ValueError, LookupError, TypeError, BadZipFile) as error:
            raise ConfigurationError("this is no checkpoint of a generator") from error


class Generator:
    """Objects that appear, drive to a destination the fastest way, report, and disappear.

    Each step is `period` seconds. `destinations` bounds how many places all objects drive to;
    `weather` is the number of areas that move over the city and halve the speed in them.
    `crowding` scales how full objects make the roads: 0 for objects that are never in each
    other's way. Objects that `roam` drive on to another destination, and never disappear.

    >>> from place.sim.grow import make_city
    >>> generator = Generator(make_city(nodes=1000), objects=100, seed=7, period=10)
    >>> reports = [generator.advance() for step in range(3)]
    >>> len(reports[2].keys), reports[2].seconds
    (100, 20.0)
    """

    def __init__(
        self,
        city: City,
        *,
        objects: int = 1000,
        seed: int = 0,
        classes: Sequence[ObjectClass] = CLASSES,
        period: float = 1.0,
        destinations: int = 256,
        weather: int = 2,
        crowding: float = 1.0,
        roam: bool = False,
    ) -> None:
        self.city = city
        self.options = Options(
            int(objects),
            int(seed) % 2**63,
            tuple(classes),
            float(period),
            int(destinations),
            int(weather),
            float(crowding),
            bool(roam),
        )
        _check(self.options)
        self._roads = city.roads()
        self._traffic = _traffic(city, self.options)
        self._room = np.maximum(city.capacities[city.classes] * city.lengths / 1000, 1.0)
        self._last: Report | None = None
        self._begin()

    @property
    def step(self) -> int:
        """The number of the step that `advance` makes next."""
        return self._step

    @property
    def classes(self) -> tuple[ObjectClass, ...]:
        """What the codes of a report stand for."""
        return self.options.classes

    def advance(self) -> Report:
        """The readings of the next step."""
        many, options = self.options.objects, self.options
        keys = np.empty(many, np.int64)
        xs, ys, speeds = (np.empty(many) for _ in range(3))
        gone = np.empty(many, np.bool_)
        step = self._step
        advance(
            self._roads,
            self._traffic,
            self._lives,
            options.seed,
            options.period,
            self._flow(),
            self._counts,
            keys,
            xs,
            ys,
            speeds,
            gone,
        )
        self._step += 1
        speeds *= 3.6
        codes = self._lives.codes.copy()
        self._last = Report(step, step * options.period, keys, xs, ys, codes, speeds, gone)
        return self._last

    def run(self, steps: int) -> Iterator[Report]:
        """The readings of that many steps from here on."""
        for _ in range(steps):
            yield self.advance()

    def at(self, step: int) -> Report:
        """The readings of any step; one that lies back is reached from the beginning again."""
        if step < 0:
            raise ConfigurationError(f"steps are counted from 0, there is no step {step}")
        if self._last is not None and self._last.step == step:
            return self._last
        if step < self._step:
            self._begin()
        while self._step < step:
            self.advance()
        return self.advance()

    def areas(self, step: int) -> Floats:
        """The weather of a step: a row of x, y and radius for each area."""
        x1, y1, x2, y2 = self.city.bounds
        side = max(x2 - x1, y2 - y1)
        rng = np.random.default_rng([self.options.seed, 1])
        drawn = rng.random((self.options.weather, 5))
        angle = 2 * np.pi * drawn[:, 2]
        # An area needs 20 to 60 minutes across the city, and turns back at its edge.
        way = step * self.options.period * side / (1200 + 2400 * drawn[:, 3])
        areas = np.empty((self.options.weather, 3))
        areas[:, 0] = _bounced(x1 + drawn[:, 0] * (x2 - x1) + way * np.cos(angle), x1, x2)
        areas[:, 1] = _bounced(y1 + drawn[:, 1] * (y2 - y1) + way * np.sin(angle), y1, y2)
        areas[:, 2] = side * (0.05 + 0.1 * drawn[:, 4])
        return areas

    def state(self) -> State:
        """A checkpoint from which the next step can be made."""
        lives = self._lives
        return State(
            self.city.fingerprint(),
            self.options,
            self._step,
            lives.arcs.copy(),
            lives.offsets.copy(),
            lives.numbers.copy(),
        )

    @staticmethod
    def resume(city: City, state: State) -> Generator:
        """A generator that goes on from a checkpoint, in the same city."""
        if state.city != city.fingerprint():
            raise ConfigurationError(
                "the checkpoint was made in another city",
                hint="resume with the city that the generator had",
            )
        made = Generator(city, **vars(state.options))
        lives = made._lives
        lives.arcs[:], lives.offsets[:], lives.numbers[:] = state.arcs, state.offsets, state.lives
        take_all_traits(made._traffic, lives, made.options.seed)
        driving = lives.arcs[lives.arcs != NOT_BORN] >> 1
        made._counts[:] = np.bincount(driving, minlength=len(made._counts))
        made._step = state.step
        return made

    def _begin(self) -> None:
        many = self.options.objects
        self._lives = Lives(
            arcs=np.full(many, NOT_BORN, np.int32),
            offsets=np.zeros(many),
            numbers=np.full(many, -1, np.int32),
            codes=np.zeros(many, np.int8),
            paces=np.ones(many),
            trees=np.zeros(many, np.int32),
        )
        self._counts = np.zeros(len(self.city.starts), np.int32)
        self._step = 0
        self._last = None

    def _flow(self) -> Floats:
        """What the other objects and the weather leave of the speed on each edge."""
        load = self._counts * (self.options.crowding / self._room)
        flow = np.maximum(1.0 / np.maximum(load, 1.0), SLOWEST_FLOW)
        edges = self._roads.edges
        for x, y, r in self.areas(self._step):
            across = (edges[:, 0] + edges[:, 2]) / 2 - x
            along = (edges[:, 1] + edges[:, 3]) / 2 - y
            flow[across * across + along * along <= r * r] *= WEATHER_FLOW
        return flow


def _check(options: Options) -> None:
    if not 1 <= options.objects < 2**31:
        raise ConfigurationError(f"a generator needs at least 1 object, not {options.objects}")
    if not (math.isfinite(options.period) and options.period > 0):
        raise ConfigurationError(f"a period is a number of seconds above 0, not {options.period}")
    if not 1 <= options.destinations <= MOST_DESTINATIONS:
        raise ConfigurationError(
            f"destinations are 1 to {MOST_DESTINATIONS}, not {options.destinations}"
        )
    if options.weather < 0:
        raise ConfigurationError(f"weather is a number of areas, not {options.weather}")
    if not (math.isfinite(options.crowding) and options.crowding >= 0):
        raise ConfigurationError(f"crowding is a number from 0 on, not {options.crowding}")
    if not 1 <= len(options.classes) <= MOST_CLASSES:
        raise ConfigurationError(f"a generator needs 1 to {MOST_CLASSES} classes of objects")
    for kind in options.classes:
        if not (0 < kind.share < math.inf and 0 < kind.speed < math.inf):
            raise ConfigurationError(
                f'share and speed of the class "{kind.name}" must be above 0, '
                f"not {kind.share} and {kind.speed}"
            )


def _bounced(value: Floats, low: float, high: float) -> Floats:
    """Where something is that turns back whenever it comes to an end."""
    side = high - low
    if side <= 0:
        return np.full_like(value, low)
    return low + side - np.abs((value - low) % (2 * side) - side)


def _traffic(city: City, options: Options) -> Traffic:
    """Destinations for each class, and the fastest ways to them.

    Classes for which the same ways are fastest (all that are slower than every limit) share their
    destinations.
    """
    limits = city.speeds[np.unique(city.classes)]
    shares = np.array([kind.share for kind in options.classes], np.float64)
    shares /= shares.sum()
    groups: dict[tuple[float, ...], list[int]] = {}
    for code, kind in enumerate(options.classes):
        driven = np.minimum(limits, kind.speed)
        groups.setdefault(tuple((driven / driven.max()).round(12).tolist()), []).append(code)
    rng = np.random.default_rng([options.seed, 0])
    first, many = np.zeros(len(shares), np.int64), np.zeros(len(shares), np.int64)
    targets: list[int] = []
    costs: list[Floats] = []
    for codes in groups.values():
        wanted = round(float(shares[codes].sum()) * options.destinations)
        count = min(max(wanted, 2 if options.roam else 1), len(city.xs))
        first[codes], many[codes] = len(targets), count
        targets += rng.choice(len(city.xs), count, replace=False).tolist()
        speed = np.minimum(city.limits, options.classes[codes[0]].speed)
        costs += [(city.lengths / speed)[city.arcs >> 1]] * count
    hops = np.zeros((len(targets), len(city.xs)), np.uint8)
    heads, twins = _heads_and_twins(city)
    for tree, target in enumerate(targets):
        reached = grow_tree(city.first, heads, twins, costs[tree], target, hops[tree])
        if reached != len(city.xs):
            raise InternalError(f"{reached} of {len(city.xs)} nodes lead to node {target}")
    upto = np.cumsum(shares)
    upto[-1] = 1.0
    return Traffic(
        shares=upto,
        speeds=np.array([kind.speed for kind in options.classes]) / 3.6,
        first_tree=first,
        many_trees=many,
        targets=np.array(targets, np.int32),
        hops=hops,
        nodes=np.ascontiguousarray(np.stack((city.xs, city.ys), axis=1)),
        roams=options.roam,
    )


def _heads_and_twins(city: City) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """For each arc of the adjacency, the node it leads to, and which arc there leads back."""
    place = np.empty(len(city.arcs), np.int32)
    place[city.arcs] = np.arange(len(city.arcs), dtype=np.int32)
    edges = city.arcs >> 1
    heads = np.where(city.arcs & 1, city.starts[edges], city.ends[edges])
    return heads, (place[city.arcs ^ 1] - city.first[heads]).astype(np.uint8)
